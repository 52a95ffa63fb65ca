"""Shell completion: the scripts of `ringwise completion`, and the names of a running lab as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, get_completion_class

if TYPE_CHECKING:
    _Text = click.ParamType[str]
else:
    # Older versions of click have no type argument here.
    _Text = click.ParamType

SHELLS = ("bash", "zsh", "fish")
#: Seconds. Whoever presses the tab key does not wait longer.
_TIMEOUT = 2.0


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def completion_command(shell: str) -> None:
    """Print the completion script for a shell."""
    from ringwise.cli.commands import cli

    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(cli, {}, "ringwise", "_RINGWISE_COMPLETE").source())


class LabName(_Text):
    """The name of an object of the running lab. Completed, never checked: the lab does that."""

    name = "text"

    def __init__(self, kind: str | None = None) -> None:
        #: None: the kind is the argument before it.
        self._kind = kind

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from ringwise.views.kinds import BY_WORD

        kind = self._kind or str(ctx.params.get("kind") or "")
        names = _names(BY_WORD[kind].name, ctx.params) if kind in BY_WORD else []
        # A name without its namespace is enough where it is typed that way.
        short = [] if "/" in incomplete else [name.rpartition("/")[2] for name in names]
        words = dict.fromkeys([*short, *names])
        return [CompletionItem(name) for name in words if name.startswith(incomplete)]


class CompletedName(_Text):
    """One of a few names, with their summaries. Completed, never checked: there may be more."""

    name = "text"

    def __init__(self, names: Callable[[], Mapping[str, str | None]]) -> None:
        self._names = names

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        names = self._names().items()
        return [CompletionItem(name, help=help) for name, help in names if name.startswith(incomplete)]


def shipped_board_names() -> dict[str, str | None]:
    from ringwise.manifests.settings.boards import shipped_boards

    return dict.fromkeys(shipped_boards())


def _names(kind: str, parameters: dict[str, Any]) -> list[str]:
    """No lab, or one of another version, completes nothing: a tab key prints no error."""
    from ringwise.apps.lab.client import LabClient, NoLabError, RefusedByLabError
    from ringwise.apps.lab.folder import default_folder

    try:
        answer = LabClient(parameters.get("lab") or default_folder(), _TIMEOUT).ask("names", kind=kind)
    except (NoLabError, RefusedByLabError):
        return []
    return [str(name) for name in answer]
