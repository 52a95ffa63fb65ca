"""Kinds and names of objects as arguments: `node node-3` and, as in kubectl, `node/node-3`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ringwise.views.kinds import BY_WORD, ShownKind

if TYPE_CHECKING:
    _Words = click.Choice[str]
else:
    # Older versions of click have no type argument here.
    _Words = click.Choice


class KindArgument(_Words):
    """A word for a kind, or KIND/NAME; with `several` also KIND,KIND. As in kubectl, case is ignored."""

    def __init__(self, kinds: Sequence[ShownKind], *, several: bool = False) -> None:
        super().__init__([word for kind in kinds for word in kind.words])
        self._kinds = kinds
        self._several = several

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        words, slash, name = str(value).partition("/")
        typed = [kind_word(word) for word in (words.split(",") if self._several and not slash else [words])]
        if {*typed} <= {*self.choices}:
            return ",".join(typed) + slash + name
        from ringwise.cli.commands import program_of
        from ringwise.cli.habits import KINDS
        from ringwise.topology.nearest import did_you_mean

        if typed[0] in KINDS and ctx is not None:
            hint = f": use '{program_of(ctx)} {KINDS[typed[0]]}'"
        else:
            listed = (
                kind.plural + (f" ({', '.join(kind.short_names)})" if kind.short_names else "")
                for kind in self._kinds
            )
            hint = f"{did_you_mean(value, self.choices)}; kinds are {', '.join(listed)}"
        raise click.UsageError(f'unknown kind "{value}"{hint}', ctx)


def kind_word(text: str) -> str:
    """A kind as it is typed, also as `Job` or `vcjob.batch.volcano.sh`."""
    return text.lower().partition(".")[0]


def kind_and_names(typed: str, names: Sequence[str]) -> tuple[ShownKind, tuple[str, ...]]:
    """Return the kind and the names of its objects, of which a word or KIND/NAME was typed first."""
    kind = BY_WORD[typed.partition("/")[0]]
    if "/" not in typed:
        return kind, tuple(names)
    kinds = []
    for one in (typed, *names):
        word, _, name = one.partition("/")
        if not name or BY_WORD.get(kind_word(word)) is not kind:
            raise click.UsageError(f'invalid name "{one}": expected {kind.name}/NAME')
        kinds.append(name)
    return kind, tuple(kinds)
