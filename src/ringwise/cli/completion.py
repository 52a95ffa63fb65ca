"""Shell completion: the scripts of `ringwise completion`, and the names of a running lab as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem, get_completion_class

from ringwise.cli.options import option

if TYPE_CHECKING:
    _Text = click.ParamType[str]
else:
    # Older versions of click have no type argument here.
    _Text = click.ParamType

Command = TypeVar("Command", bound=Callable[..., Any])

SHELLS = ("bash", "zsh", "fish")
#: Seconds after which completion gives up.
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
    """The name of an object of the running lab, or KIND/NAME. Completed, never checked: the lab does that."""

    name = "text"

    def __init__(self, kind: str | None = None) -> None:
        #: None: the kind is the argument before it.
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from ringwise.views.kinds import BY_WORD

        word, _, name = str(value).partition("/")
        return name if self._kind and name and word in BY_WORD[self._kind].words else str(value)

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


#: Key of the context: the job that an option names.
_JOB = "ringwise.job"


def _keep_job(ctx: click.Context, _option: click.Parameter, job: str | None) -> None:
    if job is not None:
        ctx.meta[_JOB] = job


def _keep_involved_job(ctx: click.Context, option: click.Parameter, selector: str | None) -> None:
    """As in kubectl: the job of `involvedObject.name=JOB`."""
    if selector is None:
        return
    field, _, job = selector.replace("==", "=").partition("=")
    if field.strip() != "involvedObject.name" or not job.strip() or "," in job or field.endswith("!"):
        raise click.UsageError(f'invalid field selector "{selector}": expected involvedObject.name=JOB', ctx)
    _keep_job(ctx, option, job.strip())


def _any_job(ctx: click.Context, _argument: click.Parameter, job: str | None) -> str | None:
    kept: str | None = ctx.meta.get(_JOB)
    if job is not None and kept is not None:
        raise _job_required(ctx)
    return job or kept


def _one_job(ctx: click.Context, argument: click.Parameter, job: str | None) -> str:
    found = _any_job(ctx, argument, job)
    if found is None:
        raise _job_required(ctx)
    return found


def _job_required(ctx: click.Context) -> click.UsageError:
    from ringwise.cli.commands import program_of

    program = program_of(ctx)
    more = f"; for the events of all jobs use {program} get events" if ctx.info_name == "history" else ""
    return click.UsageError(
        f"the name of one job is required: {program} {ctx.info_name} JOB; {program} get jobs lists them{more}"
    )


_job_option = option(
    "job_option -j --job --for",
    "Same as JOB.",
    LabName("job"),
    callback=_keep_job,
    is_eager=True,
    expose_value=False,
)
_involved_option = option(
    "involved --field-selector",
    "Field selector, as in kubectl: only involvedObject.name=JOB, the same as JOB.",
    callback=_keep_involved_job,
    is_eager=True,
    expose_value=False,
)


def job_argument(command: Command) -> Command:
    """A job as an argument or, as users of Slurm and of `kubectl events` type it, as an option."""
    argument = click.argument(
        "job", type=LabName("job"), required=False, metavar="[NAMESPACE/]JOB", callback=_one_job
    )
    return _job_option(argument(command))


def optional_job_argument(command: Command) -> Command:
    """The same where a job may be left out."""
    argument = click.argument(
        "job", type=LabName("job"), required=False, metavar="[[NAMESPACE/]JOB]", callback=_any_job
    )
    return _job_option(_involved_option(argument(command)))


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
