"""`-o jsonpath=TEMPLATE`: values of a document, in kubectl's syntax."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from itertools import chain
from typing import Any

from ringwise.grammar import listed, quoted

_QUOTED = r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""
#: No part of a pattern matches what the next one matches: the time to search a template is linear.
_PART = re.compile(rf"""([^{{}}]+)|{{((?:{_QUOTED}|[^{{}}"'])*)}}""")
_STEP = re.compile(
    rf"(?P<all>\.\*|\[\*\])|\.(?P<name>(?:\\.|[\w/-])+)|\[(?P<key>{_QUOTED})\]|\[(?P<index>-?[0-9]{{1,9}})\]"
    rf"|\[\?\(\s*(?P<path>@[^\s=!<>]*)\s*(?P<compare>[=!]=)\s*(?P<value>{_QUOTED}|[^\s)]+)\s*\)\]"
)
#: How many {range} may be nested, and how many fields an error lists.
_MAX_NESTING, _MAX_FIELDS = 10, 50
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}

#: Text and paths. The values of a path are printed; if it has a body, the body is printed for each of them.
_Body = list["str | tuple[str, _Body | None]"]


class JsonPathError(ValueError):
    """The template is invalid, or the document does not have one of its fields."""


def parse_template(text: str) -> _Body:
    """Return the parts of a template: text, and expressions in braces. Raises JsonPathError."""
    bodies: list[_Body] = [[]]
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            raise _invalid(text[position:], "a closing brace or quote is missing")
        position = part.end()
        plain, expression = part[1], (part[2] or "").strip()
        word, _, path = expression.partition(" ")
        if plain is not None:
            bodies[-1].append(plain)
        elif expression == "end" and len(bodies) > 1:
            bodies.pop()
        elif re.fullmatch(_QUOTED, expression):
            bodies[-1].append(_unescaped(expression[1:-1]))
        else:
            body: _Body | None = [] if word == "range" else None
            path = expression if body is None else path.strip()
            _steps(path)
            bodies[-1].append((path, body))
            if body is not None:
                bodies.append(body)
                if len(bodies) > _MAX_NESTING + 1:
                    raise _invalid(text, f"{{range}} is nested more than {_MAX_NESTING} times")
    if len(bodies) > 1:
        raise _invalid(text, "{end} is missing")
    if all(isinstance(part, str) for part in bodies[0]):
        raise _invalid(text, "expected an expression in braces, such as {.name}")
    return bodies[0]


def values_of(template: str, document: Any) -> str:
    """Return the text of a template for a document of dictionaries and lists. Raises JsonPathError."""
    values = _Values(document)
    text = values.text(parse_template(template), document)
    for step, problem in values.missing.items():
        if step not in values.found:
            raise JsonPathError(f"jsonpath {quoted(template)}: {problem}")
    return text


@cache
def _steps(path: str) -> tuple[re.Match[str], ...]:
    steps, position = [], 1 if path == "." or path.startswith(("$", "@")) else 0
    while position < len(path) or not path:
        step = _STEP.match(path, position)
        if step is None:
            raise _invalid(path, "expected .field, ['field'], [0], [*] or [?(@.field==\"value\")]")
        steps.append(step)
        position = step.end()
        if step["path"]:
            _steps(step["path"])
    return tuple(steps)


class _Values:
    """The values of paths in a document. A field that only some items of a list have is not missing."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self.found: set[re.Match[str]] = set()
        self.missing: dict[re.Match[str], str] = {}

    def text(self, body: _Body, current: Any) -> str:
        return "".join(part if isinstance(part, str) else self._text(*part, current) for part in body)

    def _text(self, path: str, body: _Body | None, current: Any) -> str:
        values = self._values(path, current)
        if body is not None:
            return "".join(self.text(body, value) for value in values)
        return " ".join(
            one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in values
        )

    def _values(self, path: str, current: Any) -> list[Any]:
        values = [self._root if path.startswith("$") else current]
        for step in _steps(path):
            values = [*chain.from_iterable(self._selected(step, value) for value in values)]
        return values

    def _selected(self, step: re.Match[str], value: Any) -> Iterable[Any]:
        try:
            selected = self._select(step, value)
            self.found.add(step)
        except (IndexError, KeyError, TypeError):
            there = "the value there has no fields"
            if isinstance(value, dict):
                there = f"the fields there are {listed([*value], _MAX_FIELDS)}"
            elif isinstance(value, list):
                there = f"there is a list of {len(value)}: use [*] for all, or [0] for the first"
            self.missing[step] = f"{quoted(step[0])} not found; {there}"
            return ()
        return selected

    def _select(self, step: re.Match[str], value: Any) -> Iterable[Any]:
        if name := step["name"] or (step["key"] or "")[1:-1]:
            return (value[_unescaped(name)],)
        if step["all"] and isinstance(value, dict):
            return value.values()
        if not isinstance(value, list):
            raise TypeError
        if step["all"]:
            return value
        if step["index"]:
            return (value[int(step["index"])],)
        wanted, equal = _literal(step["value"]), step["compare"] == "=="
        return [
            one for one in value if any((item == wanted) is equal for item in self._values(step["path"], one))
        ]


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _unescaped(text.strip("'"))


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPED.get(found[1], found[1]), text)


def _invalid(text: str, problem: str) -> JsonPathError:
    return JsonPathError(f"invalid jsonpath {quoted(text)}: {problem}")
