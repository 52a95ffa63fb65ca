"""The entry point of `kubectl ringwise`: the commands of `ringwise`, with clusters as their source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringwise.cli.main import run

if TYPE_CHECKING:
    import click


def main() -> None:
    run(_plugin, "kubectl-ringwise")


def _plugin() -> click.Group:
    from ringwise.cli.commands import plugin

    return plugin
