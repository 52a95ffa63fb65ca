"""Regular expressions for names of nodes: Go's syntax, matched in linear time by RE2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re2

#: Memory of one expression. Limits its size as well: about 2,500 characters with all repetitions written out.
_MEMORY = 64 * 1024


def expression_error(expression: str) -> str:
    """Why it cannot be used; empty if it can."""
    return NameExpressions([expression]).errors.get(expression, "")


class NameExpressions:
    """Expressions that are searched for in names, all of them at once."""

    def __init__(self, expressions: Sequence[str]) -> None:
        # Imported here because few clusters have expressions.
        import re2

        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        options.max_mem = _MEMORY
        self._library, self._options = re2, options
        #: By expression that cannot be used: why.
        self.errors: dict[str, str] = {}
        self._filters: list[tuple[re2.Filter, Sequence[str]]] = []
        self._compile(expressions)

    def matching(self, name: str) -> list[str]:
        text = name.encode(errors="replace")
        return [expressions[number] for one, expressions in self._filters for number in one.Match(text) or ()]

    def _compile(self, expressions: Sequence[str]) -> None:
        one = self._library.Filter()
        valid = [expression for expression in expressions if self._add(one, expression)]
        if not valid:
            return
        try:
            one.Compile()
        except self._library.error:
            # The table of what they contain literally is too large. That of one expression never is.
            half = len(valid) // 2
            self._compile(valid[:half])
            self._compile(valid[half:])
        else:
            self._filters.append((one, valid))

    def _add(self, one: re2.Filter, expression: str) -> bool:
        try:
            one.Add(expression, self._options)
        except UnicodeEncodeError:
            self.errors[expression] = "must be valid Unicode"
        except self._library.error:
            self.errors[expression] = self._reason(expression)
        return expression not in self.errors

    def _reason(self, expression: str) -> str:
        """Why it cannot be compiled: a filter does not say."""
        try:
            self._library.compile(expression, self._options)
        except self._library.error as error:
            return str(error.args[0], errors="replace")
        return "cannot be compiled"
