"""The commands as click knows them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from ringwise.cli.commands import cli


def command_paths(command: click.Command = cli, path: str = "ringwise") -> Iterator[str]:
    """Every command that can be called, with the words before it."""
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from command_paths(below, f"{path} {name}")
