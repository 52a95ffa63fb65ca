"""`ringwise get`, `ringwise describe`, `ringwise top`: the objects of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.ask.lists import SECONDS, list_options, take_listing, watch_list
from ringwise.cli.ask.queries import ask, asking, namespace_of, show, source_of, source_options
from ringwise.cli.completion import LabName
from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.output import output_option, stdout_console, stop, until_ctrl_c

if TYPE_CHECKING:
    from rich.console import Console

    from ringwise.apps.sources.protocol import QuerySource

PLURALS = {
    "node": "nodes",
    "job": "jobs",
    "queue": "queues",
    "pod": "pods",
    "chip": "chips",
    "reservation": "reservations",
    "hypernode": "hypernodes",
}
#: Kinds that can be described and deleted.
NAMED = ("node", "job", "queue", "pod")


@click.command("get")
@click.argument(
    "kind",
    type=click.Choice([*PLURALS.values(), *PLURALS]),
    default="jobs",
    metavar="[jobs|nodes|queues|pods|chips|reservations|hypernodes]",
)
@click.option("--node", help="With chips: only those of this node.")
@list_options
@source_options()
@output_option
def get_command(kind: str, node: str | None, output: str, **options: Any) -> None:
    """List jobs, nodes, queues, pods, chips, reservations or HyperNodes."""
    kind, namespace = PLURALS.get(kind, kind), namespace_of(options)
    if node is not None and kind != "chips":
        raise stop(f"ringwise: --node goes with chips, not with {kind}")
    listing, watch = take_listing(kind, output, options)
    questions: dict[str, Callable[[QuerySource], Any]] = {
        "jobs": lambda source: source.jobs(namespace, listing),
        "nodes": lambda source: source.nodes(listing),
        "queues": lambda source: source.queues(listing),
        "pods": lambda source: source.pods(namespace, listing),
        "chips": lambda source: source.chips(node, listing),
        "reservations": lambda source: source.reservations(listing),
        "hypernodes": lambda source: source.hyper_nodes(listing),
    }
    unreachable = ExitCode.FAILED if kind == "chips" else ExitCode.BAD_INPUT
    none = ""
    if listing.selector or listing.queue or listing.states:
        none = f"there are no such {kind}"
    elif listing.hurt:
        none = "no job is hurt by a fault"
    elif namespace is not None and kind in ("jobs", "pods"):
        none = f"there are no {kind} in namespace {namespace}"

    def draw(document: Any, only: Collection[int] | None = None) -> None:
        _list(stdout_console(), kind, document, only, none)

    document = ask(options, questions[kind], unreachable=unreachable)
    if watch is None:
        show(document, output, lambda _console: draw(document))
        return
    watch_list(kind, options, questions[kind], document, draw, limit=watch)


def _list(
    console: Console, kind: str, document: Any, only: Collection[int] | None = None, none: str = ""
) -> None:
    """A table of objects; where there is none, a line that says so. `none`: that line, of a part of them."""
    from ringwise.cli.drawing import cluster

    rows = document[kind]
    if not rows and (none or kind != "chips"):
        console.print(none or f"there are no {kind}")
    elif kind == "chips":
        cluster.draw_chips(console, rows, only)
    elif kind == "nodes":
        cluster.draw_nodes(console, rows, only)
    elif kind == "queues":
        cluster.draw_queues(console, rows, only)
    elif kind == "reservations":
        cluster.draw_reservations(console, rows, document["now"], only)
    elif kind == "hypernodes":
        cluster.draw_hyper_nodes(console, rows, only)
    elif kind == "pods":
        cluster.draw_pods(console, rows, document["now"], only)
    else:
        cluster.draw_jobs(console, rows, document["now"], only)
    if "more" in document:
        console.print(f"and {document['more']:,} more; --limit 0 shows all")


@click.command("describe")
@click.argument("kind", type=click.Choice((*NAMED, "hypernode")), metavar="node|job|queue|pod|hypernode")
@click.argument("name", type=LabName(), metavar="[NAMESPACE/]NAME")
@source_options()
@output_option
def describe_command(kind: str, name: str, output: str, **options: Any) -> None:
    """Show all fields of one object."""
    namespace = namespace_of(options)
    document: Any
    if kind == "node":
        document = ask(options, lambda source: source.node(name))
    elif kind == "queue":
        document = ask(options, lambda source: source.queue(name))
    elif kind == "pod":
        document = ask(options, lambda source: source.pod(name, namespace))
    elif kind == "hypernode":
        document = ask(options, lambda source: source.hyper_node(name))
    else:
        document = ask(options, lambda source: source.job(name, namespace))

    def draw(console: Console) -> None:
        from ringwise.cli.drawing import describe

        printing: dict[str, Callable[[Console, Any], None]] = {
            "node": describe.print_node,
            "job": describe.print_job,
            "queue": describe.print_queue,
            "pod": describe.print_pod,
            "hypernode": describe.print_hyper_node,
        }
        printing[kind](console, document)

    show(document, output, draw)


@click.command("top")
@click.option("--once", is_flag=True, help="Print one frame and exit.")
@click.option(
    "--every",
    type=click.FloatRange(0.1, 3600),
    help="Seconds between frames.  [default: 1; 5 for a cluster]",
)
@source_options()
@output_option
def top_command(once: bool, every: float | None, output: str, **options: Any) -> None:
    """Show the chips of all nodes, the queues and the pending jobs, until Ctrl-C."""
    if once or options["files"] or output != "table" or not stdout_console().is_terminal:
        document = ask(options, lambda source: source.top())

        def draw(console: Console) -> None:
            from ringwise.cli.drawing.cluster import draw_top

            draw_top(console, document)

        show(document, output, draw)
        return
    _show_frames(every or SECONDS[source_of(options)], options)


def _show_frames(every: float, options: dict[str, Any]) -> None:
    import io
    import time

    from rich.live import Live
    from rich.text import Text

    from ringwise.cli.drawing.cluster import draw_top
    from ringwise.cli.drawing.lines import PlainConsole

    console = stdout_console()
    # An error is printed when the screen of the frames is gone.
    with (
        until_ctrl_c(),
        asking(options, follows=True) as source,
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        while True:
            drawn = io.StringIO()
            frame = PlainConsole(
                file=drawn,
                width=console.width,
                force_terminal=True,
                color_system=None if console.no_color else "standard",
                highlight=False,
            )
            draw_top(frame, source().top(), console.height)
            live.update(Text.from_ansi(drawn.getvalue()), refresh=True)
            time.sleep(every)
