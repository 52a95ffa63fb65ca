"""Which cluster a command is about: that of files, a lab, or a live one; and how its answer is shown.

A query asks a source (`apps/sources`) for a document, and this process draws it. A command that changes
a cluster names it in its first line, and reaches a live cluster only where the user chose one.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from ringwise.cli.commands import ASKS_CLUSTERS, TYPED
from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.output import complain, print_document, spinner, stdout_console, stop, warn_of_plugins
from ringwise.grammar import counted

if TYPE_CHECKING:
    from rich.console import Console

    from ringwise.apps.lab.client import LabClient
    from ringwise.apps.sources.cluster import ClusterSource
    from ringwise.apps.sources.files import FilesSource
    from ringwise.apps.sources.protocol import QuerySource
    from ringwise.kubeclient.config import Access

Command = TypeVar("Command", bound=Callable[..., Any])
Answer = TypeVar("Answer")

_OPTION_NAMES = {"config": "config", "boards": "board-file", "keep_going": "keep-going", "now": "now"}
PRINTERS = "ringwise.cli.printers"
FROM_FILES, FROM_LAB, FROM_CLUSTER = "files", "lab", "cluster"


def namespace_of(options: dict[str, Any]) -> str | None:
    """Return the namespace that a query is about; None: all."""
    if options.get("all_namespaces"):
        return None
    if options.get("namespace") or source_of(options) != FROM_CLUSTER:
        return options.get("namespace")
    with talking_to_cluster():
        return find_cluster(options).namespace


def asks_clusters() -> bool:
    """Whether the program is `kubectl ringwise`."""
    return bool(click.get_current_context().find_root().meta.get(ASKS_CLUSTERS))


def source_of(options: dict[str, Any]) -> str:
    """files, lab or cluster; options for two of them at once are an error."""
    files, lab = options.get("files"), options.get("lab")
    cluster = [f"--{name}" for name in ("kubeconfig", "context") if options.get(name)]
    if files and lab is not None:
        raise stop("ringwise: -f and --lab cannot be combined")
    if files and cluster:
        raise stop(f"ringwise: -f and {cluster[0]} cannot be combined")
    check_one_target(lab, cluster)
    if files:
        return FROM_FILES
    flags = [f"--{option}" for name, option in _OPTION_NAMES.items() if options.get(name)]
    if cluster or (lab is None and asks_clusters()):
        flags = [option for option in flags if option in ("--keep-going", "--now")]
        if flags:
            raise stop(f"ringwise: {', '.join(flags)} requires -f")
        return FROM_CLUSTER
    if flags:
        raise stop(f"ringwise: {', '.join(flags)} requires -f")
    return FROM_LAB


def check_one_target(lab: Path | None, cluster: list[str]) -> None:
    if lab is not None and cluster:
        raise click.UsageError(f"--lab and {cluster[0]} cannot be combined")


# -- asking --------------------------------------------------------------------------------------


def ask(
    options: dict[str, Any],
    question: Callable[[QuerySource], Answer],
    *,
    read_on: bool = False,
    unreachable: int = ExitCode.BAD_INPUT,
) -> Answer:
    """Ask the source that the options choose. Whatever is wrong is one line each, and ends the command.

    `read_on`: documents that cannot be read are part of the answer. `unreachable`: the exit code where no API
    server answers.
    """
    with asking(options, read_on=read_on, unreachable=unreachable) as source:
        # Files are read now, with a bar of their own.
        opened = source()
        with spinner("deciding") if options.get("files") else nullcontext():
            answer = question(opened)
        if options.get("files") and not read_on:
            cast("FilesSource", opened).report_moment()
        return answer


@contextmanager
def asking(
    options: dict[str, Any],
    *,
    read_on: bool = False,
    follows: bool = False,
    unreachable: int = ExitCode.BAD_INPUT,
) -> Iterator[Callable[[], QuerySource]]:
    """Opens the source as it is now, each time it is called.

    `follows`: it will be called again and again. A cluster is then listed once and followed with watches, and
    only errors are reported.
    """
    chosen = source_of(options)
    if chosen == FROM_LAB:
        from ringwise.apps.sources.lab import LabSource

        hint = in_cluster_hint()
        if "files" in options:
            hint = ", or give -f PATH with manifests; kubectl ringwise asks a cluster"
        with lab_client(options.get("lab"), None if follows else "querying the lab", hint=hint) as client:
            yield lambda: LabSource(client)
    elif chosen == FROM_CLUSTER:
        with talking_to_cluster(unreachable=unreachable), _clusters(options, follows) as opened:
            yield opened
    else:
        may_skip = "keep_going" in options
        with reading_objects(may_skip=may_skip):
            yield lambda: files_source(
                options["files"],
                options.get("config"),
                options.get("boards", ()),
                bool(options.get("keep_going")),
                options.get("now"),
                may_skip=may_skip,
                read_on=read_on,
            )


def files_source(
    files: tuple[str, ...],
    config: Path | None = None,
    boards: tuple[Path, ...] = (),
    keep_going: bool = False,
    now: int | None = None,
    *,
    may_skip: bool = True,
    read_on: bool = False,
    print_notes: bool = True,
) -> FilesSource:
    """The cluster of manifests. `may_skip`: the command has the option --keep-going."""
    from ringwise.apps.sources.files import FilesSource
    from ringwise.cli.inputs import load_bundle, load_catalog, load_configuration, read_files

    catalog = load_catalog(boards)
    if read_on:
        bundle = read_files(files, keep_going=True)
    else:
        bundle = load_bundle(files, keep_going=keep_going, may_skip=may_skip)
    configuration = load_configuration(config, bundle)
    if print_notes:
        complain(*(f"note: {note}" for note in bundle.notes))
    return FilesSource(
        bundle, configuration, catalog, boards, now=now, skip_bad_pods=keep_going, notify=complain
    )


@contextmanager
def reading_objects(*, may_skip: bool) -> Iterator[None]:
    """What is wrong with the objects of files is one line each."""
    from ringwise.apps.sources.objects import BadObjectsError
    from ringwise.cli.inputs import skippable

    try:
        yield
    except BadObjectsError as error:
        raise stop(*(skippable(error.errors) if may_skip else error.errors)) from None
    except (LookupError, ValueError) as error:
        raise stop(f"ringwise: {error}") from None


@contextmanager
def _clusters(options: dict[str, Any], follows: bool) -> Iterator[Callable[[], QuerySource]]:
    access = find_cluster(options)
    if options.get("namespace"):
        from dataclasses import replace

        access = replace(access, namespace=options["namespace"])
    opener = cluster_opener(access, options)
    if follows:
        from ringwise.apps.following import FollowedCluster

        with FollowedCluster(access) as followed:
            yield lambda: opener(live=followed.look())
        return
    with spinner("reading the cluster") as show_text:
        yield lambda: opener(
            notify=complain,
            progress=lambda kind, count: show_text(f"reading the cluster: {count} {kind}"),
        )


def cluster_opener(access: Access, options: dict[str, Any]) -> Callable[..., ClusterSource]:
    """Return a function that opens the cluster with the configuration and the boards of the options."""
    from ringwise.apps.sources.cluster import ClusterSource
    from ringwise.cli.inputs import load_catalog, load_configuration

    config, boards = options.get("config"), options.get("boards", ())
    configuration = None if config is None else load_configuration(config)
    return partial(ClusterSource, access, load_catalog(boards), boards, configuration=configuration)


def find_cluster(options: dict[str, Any]) -> Access:
    """Raises KubeConfigError."""
    from ringwise.kubeclient.config import find_access

    return find_access(options.get("kubeconfig"), options.get("context"))


@contextmanager
def talking_to_cluster(hint: str = "", unreachable: int = ExitCode.FAILED) -> Iterator[None]:
    """What goes wrong with a cluster is one line, followed by what is left to do."""
    from ringwise.apps.live import NothingReadableError
    from ringwise.kubeclient.client import ApiError, UnreachableError
    from ringwise.kubeclient.credentials import KubeConfigError

    try:
        yield
    except (KubeConfigError, NothingReadableError, LookupError, ValueError) as error:
        message, code = f"ringwise: {error}", int(ExitCode.BAD_INPUT)
    except UnreachableError as error:
        message, code = f"ringwise: {error}", unreachable
    except ApiError as error:
        message, code = f"ringwise: the API server rejected the request: {error}", ExitCode.FAILED
    else:
        return
    raise stop(*filter(None, (message, hint)), code=code)


def show(
    document: Any, output: str, printer: str | Callable[..., object], code: int = ExitCode.OK, **how: Any
) -> None:
    """Print the document, or draw it by a printer: `MODULE.NAME` below `cli/printers`, or a function."""
    if output == "table":
        if isinstance(printer, str):
            module, _, name = printer.partition(".")
            printer = cast("Callable[..., object]", getattr(import_module(f"{PRINTERS}.{module}"), name))
        printer(stdout_console(), document, **how)
    else:
        print_document(document, output)
    if code:
        raise click.exceptions.Exit(code)


def show_text(document: Any, output: str, text: str, code: int = ExitCode.OK) -> None:
    def print_text(console: Console, _document: Any) -> None:
        from ringwise.cli.printers.lines import print_lines

        print_lines(console, text)

    show(document, output, print_text, code)


# -- the running lab -----------------------------------------------------------------------------


def lab_folder(lab: Path | None) -> Path:
    from ringwise.apps.lab.folder import default_folder

    return (lab or default_folder()).expanduser().absolute()


@contextmanager
def lab_client(lab: Path | None, text: str | None, hint: str = "") -> Iterator[LabClient]:
    """A client of the running lab, with a spinner; errors are one clear line each."""
    from ringwise.apps.lab.client import LabClient, NoLabError, RefusedByLabError

    try:
        client = LabClient(lab_folder(lab))
        with nullcontext(lambda _text: None) if text is None else spinner(text) as show_text:
            if text is not None and sys.stderr.isatty():
                client.on_progress = lambda tried: show_text(
                    f"{text}: tried {counted(f'{tried:,}', 'placement')}" if tried else text
                )
            yield client
        warn_of_plugins(client.plugin_problems)
    except NoLabError as error:
        raise stop(f"ringwise: {error}{hint}") from None
    except RefusedByLabError as error:
        # As kubectl, and as a cluster.
        code = ExitCode.FAILED if error.already_exists else ExitCode.BAD_INPUT
        raise stop(*(f"ringwise: {line}" for line in str(error).splitlines()), code=code) from None


# -- the target of a change ----------------------------------------------------------------------


def only_lab(options: dict[str, Any], instead: str) -> None:
    """End a command that has no cluster."""
    if options.get("lab") is None and (
        options.get("kubeconfig") or options.get("context") or asks_clusters()
    ):
        raise stop(f"ringwise: {click.get_current_context().info_name} requires a lab; {instead}")


def typed() -> str:
    """The command as it was typed, without the name of the program."""
    context = click.get_current_context()
    words = context.find_root().meta.get(TYPED)
    return shlex.join(words if words is not None else [str(context.info_name), "..."])


def in_cluster_hint() -> str:
    """What to type instead where no lab runs."""
    return f"; in a cluster: kubectl ringwise {typed()}"
