"""Options that many commands take and few users need."""

from __future__ import annotations

import click

#: The command that shows them.
OPTIONS = "options"
EPILOG = f"Use 'ringwise {OPTIONS}' for the options that this help omits."


class AdvancedOption(click.Option):
    """An option that `--help` of a command omits; `ringwise options` shows it."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        return super().get_help_record(ctx) if ctx.command.name == OPTIONS else None
