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
    """A word for a kind, or KIND/NAME."""

    def __init__(self, kinds: Sequence[ShownKind]) -> None:
        super().__init__([word for kind in kinds for word in kind.words])
        self._kinds = kinds

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value.partition("/")[0] in self.choices:
            return str(value)
        from ringwise.cli.commands import program_of
        from ringwise.cli.habits import KINDS
        from ringwise.topology.nearest import did_you_mean

        if value in KINDS and ctx is not None:
            hint = f": use '{program_of(ctx)} {KINDS[value]}'"
        else:
            words = (
                kind.plural + (f" ({', '.join(kind.short_names)})" if kind.short_names else "")
                for kind in self._kinds
            )
            hint = f"{did_you_mean(value, self.choices)}; kinds are {', '.join(words)}"
        raise click.UsageError(f'unknown kind "{value}"{hint}', ctx)


def kind_and_names(typed: str, names: Sequence[str]) -> tuple[ShownKind, tuple[str, ...]]:
    """Return the kind and the names of its objects, of which a word or KIND/NAME was typed first."""
    kind = BY_WORD[typed.partition("/")[0]]
    if "/" not in typed:
        return kind, tuple(names)
    kinds = []
    for one in (typed, *names):
        word, _, name = one.partition("/")
        if not name or BY_WORD.get(word) is not kind:
            raise click.UsageError(f'invalid name "{one}": expected {kind.name}/NAME')
        kinds.append(name)
    return kind, tuple(kinds)
