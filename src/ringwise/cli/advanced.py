"""Options that many commands have: `ringwise options` lists them, the help of a command does not."""

from __future__ import annotations

from collections.abc import Sequence

import click

#: The command that shows them.
OPTIONS = "options"
_HINT = f"Use 'ringwise {OPTIONS}' for options that are common to many commands."


class AdvancedOption(click.Option):
    """An option that `--help` of a command omits; `ringwise options` shows it."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        return super().get_help_record(ctx) if ctx.command.name == OPTIONS else None


def end_of_help(command: click.Command, program: str, examples: Sequence[str]) -> str:
    """Return the examples of a command, and where its other options are listed."""
    lines = ["\b", "Examples:", *(f"  {program} {example}" for example in examples)]
    paragraphs = ["\n".join(lines)] if examples else []
    if command.name != OPTIONS and any(isinstance(option, AdvancedOption) for option in command.params):
        paragraphs.append(_HINT)
    return "\n\n".join((*paragraphs, *filter(None, (command.epilog,))))
