"""`ringwise get`, `ringwise describe`, `ringwise top`: the objects of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.completion import LabName
from ringwise.cli.output import output_option, stdout_console, stop
from ringwise.cli.queries import FROM_CLUSTER, ask, asking, namespace_of, show, source_of, source_options

if TYPE_CHECKING:
    from rich.console import Console

PLURALS = {"node": "nodes", "job": "jobs", "queue": "queues", "pod": "pods", "chip": "chips"}
#: Kinds that can be described and deleted.
NAMED = ("node", "job", "queue", "pod")


@click.command("get")
@click.argument(
    "kind",
    type=click.Choice([*PLURALS.values(), *PLURALS]),
    default="jobs",
    metavar="[jobs|nodes|queues|pods|chips]",
)
@click.option("--node", help="With chips: only those of this node.")
@source_options()
@output_option
def get_command(kind: str, node: str | None, output: str, **options: Any) -> None:
    """List jobs, nodes, queues, pods, or chips as their nodes report them."""
    kind, namespace = PLURALS.get(kind, kind), namespace_of(options)
    if node is not None and kind != "chips":
        raise stop(f"ringwise: --node goes with chips, not with {kind}")
    from ringwise.cli.drawing import cluster

    if kind == "nodes":
        nodes = ask(options, lambda source: source.nodes())
        _list(nodes, output, kind, lambda console: cluster.draw_nodes(console, nodes["nodes"]))
    elif kind == "queues":
        queues = ask(options, lambda source: source.queues())
        _list(queues, output, kind, lambda console: cluster.draw_queues(console, queues["queues"]))
    elif kind == "pods":
        pods = ask(options, lambda source: source.pods(namespace))
        _list(pods, output, kind, lambda console: cluster.draw_pods(console, pods["pods"], pods["now"]))
    elif kind == "chips":
        chips = ask(options, lambda source: source.chips(node))
        show(chips, output, lambda console: cluster.draw_chips(console, chips["chips"]))
    else:
        jobs = ask(options, lambda source: source.jobs(namespace))
        _list(jobs, output, kind, lambda console: cluster.draw_jobs(console, jobs["jobs"], jobs["now"]))


def _list(document: Any, output: str, kind: str, draw: Any) -> None:
    """A list of objects; where there is none, a line that says so."""
    show(document, output, draw if document[kind] else lambda console: console.print(f"there are no {kind}"))


@click.command("describe")
@click.argument("kind", type=click.Choice(NAMED), metavar="node|job|queue|pod")
@click.argument("name", type=LabName(), metavar="[NAMESPACE/]NAME")
@source_options()
@output_option
def describe_command(kind: str, name: str, output: str, **options: Any) -> None:
    """Show all fields of one object."""
    from ringwise.cli.drawing import describe

    namespace = namespace_of(options)
    if kind == "node":
        node = ask(options, lambda source: source.node(name))
        show(node, output, lambda console: describe.print_node(console, node))
    elif kind == "queue":
        queue = ask(options, lambda source: source.queue(name))
        show(queue, output, lambda console: describe.print_queue(console, queue))
    elif kind == "pod":
        pod = ask(options, lambda source: source.pod(name, namespace))
        show(pod, output, lambda console: describe.print_pod(console, pod))
    else:
        job = ask(options, lambda source: source.job(name, namespace))
        show(job, output, lambda console: describe.print_job(console, job))


@click.command("top")
@click.option("--once", is_flag=True, help="Print one frame and exit.")
@click.option(
    "--every",
    type=click.FloatRange(0.1, 3600),
    help="Seconds between frames.  [default: 1; 10 for a cluster, which is listed for each]",
)
@source_options()
@output_option
def top_command(once: bool, every: float | None, output: str, **options: Any) -> None:
    """Show the chips of all nodes, the queues and the pending jobs, until Ctrl-C."""
    console = stdout_console()
    if once or options["files"] or output != "table" or not console.is_terminal:
        from ringwise.cli.drawing.cluster import draw_top

        document = ask(options, lambda source: source.top())
        show(document, output, lambda console: draw_top(console, document))
        return
    seconds = every or (10.0 if source_of(options) == FROM_CLUSTER else 1.0)
    _show_frames(console, seconds, options)


def _show_frames(console: Console, every: float, options: dict[str, Any]) -> None:
    import io
    import time

    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from ringwise.cli.drawing.cluster import draw_top

    try:
        # An error is printed when the screen of the frames is gone.
        with (
            asking(options, spins=False) as source,
            Live(console=console, screen=True, auto_refresh=False) as live,
        ):
            while True:
                drawn = io.StringIO()
                frame = Console(
                    file=drawn,
                    width=console.width,
                    force_terminal=True,
                    color_system=None if console.no_color else "standard",
                    highlight=False,
                )
                draw_top(frame, source().top(), console.height)
                live.update(Text.from_ansi(drawn.getvalue()), refresh=True)
                time.sleep(every)
    except KeyboardInterrupt:
        return
