"""The commands for the running lab: submit, get, describe, top, delete, cordon, drain, fault, advance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.output import BAD_INPUT, complain, output_option, stdout_console, stop
from ringwise.cli.queries import (
    QueryResult,
    lab_client,
    lab_option,
    query_lab,
    show_result,
    terminal,
)
from ringwise.grammar import agrees, counted

if TYPE_CHECKING:
    from rich.console import Console

_PLURALS = {"node": "nodes", "job": "jobs", "queue": "queues", "pod": "pods"}
_NAMESPACE = click.option("-n", "--namespace", help="Only this namespace.  [default: all]")


def duration_argument(text: str) -> int:
    """`90`, `90s`, `1h30m`, in nanoseconds."""
    from ringwise.embed.kubelet import NotSimulatableError, seconds_or_duration

    try:
        return seconds_or_duration(text)
    except NotSimulatableError:
        raise click.BadParameter(f"{text!r} is no duration: write 90, 90s or 1h30m") from None


# -- reading -------------------------------------------------------------------------------------


@click.command("get")
@click.argument("kind", type=click.Choice([*_PLURALS.values(), *_PLURALS]), metavar="nodes|jobs|queues|pods")
@_NAMESPACE
@lab_option
@output_option
def get_command(kind: str, namespace: str | None, lab: Path | None, output: str) -> None:
    """List the lab's nodes, jobs, queues or pods."""
    query_lab(lab, "get", output, kind=_PLURALS.get(kind, kind), namespace=namespace)


@click.command("describe")
@click.argument("kind", type=click.Choice([*_PLURALS]), metavar="node|job|queue|pod")
@click.argument("name", metavar="[NAMESPACE/]NAME")
@_NAMESPACE
@lab_option
@output_option
def describe_command(kind: str, name: str, namespace: str | None, lab: Path | None, output: str) -> None:
    """Show all fields of one object of the lab."""
    query_lab(lab, "describe", output, kind=kind, name=name, namespace=namespace)


@click.command("top")
@click.option("--once", is_flag=True, help="Print one frame and exit.")
@click.option(
    "--every",
    type=click.FloatRange(0.1, 3600),
    default=1.0,
    show_default=True,
    help="Seconds between frames.",
)
@lab_option
@output_option
def top_command(once: bool, every: float, lab: Path | None, output: str) -> None:
    """Show the chips of all nodes, the queues and the pending jobs, until Ctrl-C."""
    console = stdout_console()
    if once or output != "table" or not console.is_terminal:
        query_lab(lab, "top", output)
        return
    _show_frames(console, lab, every)


def _show_frames(console: Console, lab: Path | None, every: float) -> None:
    import time

    from rich.live import Live
    from rich.text import Text

    from ringwise.apps.lab.client import LabClient, NoLabError, RefusedByLabError
    from ringwise.apps.lab.folder import default_folder

    client = LabClient(lab or default_folder())
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                frame = client.ask("top", output="table", height=console.height, **terminal())
                live.update(Text.from_ansi(frame["text"]), refresh=True)
                time.sleep(every)
    except KeyboardInterrupt:
        return
    except (NoLabError, RefusedByLabError) as error:
        raise stop(f"ringwise: {error}") from None


# -- changing ------------------------------------------------------------------------------------


@click.command("submit")
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option("-f", "--file", "more", multiple=True, help="File, folder, or - for stdin.")
@click.option("--keep-going", is_flag=True, help="Skip bad documents and submit the rest; exit code 2.")
@lab_option
@output_option
def submit_command(
    files: tuple[str, ...], more: tuple[str, ...], keep_going: bool, lab: Path | None, output: str
) -> None:
    """Submit Nodes, jobs, pods, PodGroups, Queues, PriorityClasses and ConfigMaps to the lab.

    All objects are stored, or none. A job that can never run is reported at once.
    """
    if not files and not more:
        raise stop("ringwise: nothing to submit: give a file, a folder, or - for stdin")
    from ringwise.apps.lab.submission import submission_of
    from ringwise.cli.inputs import load_bundle

    bundle = load_bundle((*files, *more), keep_going=keep_going)
    submission, problems = submission_of(bundle)
    if problems:
        raise stop(*problems)
    for note in bundle.notes:
        complain(f"note: {note}")
    with lab_client(lab, "submitting") as client:
        answer = client.submit(submission)

    def draw(console: Console) -> None:
        from ringwise.cli.drawing.lab import draw_submitted

        draw_submitted(console, answer)

    show_result(QueryResult(answer, draw, code=BAD_INPUT if bundle.errors else 0), output)


def _do(lab: Path | None, output: str, action: str, sentence: str, **parameters: Any) -> None:
    with lab_client(lab, action) as client:
        answer = client.do(action, **parameters)
    _show_text(answer, sentence.format(**{**parameters, **answer}), output)


def _show_text(document: Any, text: str, output: str) -> None:
    def draw(console: Console) -> None:
        from ringwise.cli.drawing.lines import print_lines

        print_lines(console, text)

    show_result(QueryResult(document, draw), output)


@click.command("delete")
@click.argument("kind", type=click.Choice(["job", "pod", "queue", "node"]), metavar="job|pod|queue|node")
@click.argument("name", metavar="[NAMESPACE/]NAME")
@click.option("-n", "--namespace", help="Its namespace, where several have that name.")
@lab_option
@output_option
def delete_command(kind: str, name: str, namespace: str | None, lab: Path | None, output: str) -> None:
    """Delete a job with its pods, a pod, an empty queue, or a node with its pods."""
    _do(lab, output, "delete", "{kind} {name} deleted", kind=kind, name=name, namespace=namespace)


@click.command("cordon")
@click.argument("node")
@lab_option
@output_option
def cordon_command(node: str, lab: Path | None, output: str) -> None:
    """Mark NODE of the lab as unschedulable."""
    _do(lab, output, "cordon", "node {node} cordoned", node=node)


@click.command("uncordon")
@click.argument("node")
@lab_option
@output_option
def uncordon_command(node: str, lab: Path | None, output: str) -> None:
    """Mark NODE of the lab as schedulable."""
    _do(lab, output, "uncordon", "node {node} uncordoned", node=node)


@click.command("drain")
@click.argument("node")
@lab_option
@output_option
def drain_command(node: str, lab: Path | None, output: str) -> None:
    """Cordon NODE and evict its pods."""
    with lab_client(lab, "draining") as client:
        answer = client.do("drain", node=node)
    leaving = answer["leaving"]
    lines = [f"node {node} cordoned; {counted(leaving, 'pod')} evicted", *(f"  {pod}" for pod in leaving)]
    _show_text(answer, "\n".join(lines), output)


@click.command("fault")
@click.argument("node")
@click.argument("chips", nargs=-1, required=True, metavar="CHIP...")
@click.option("--network", is_flag=True, help="Only the network ports of the chips.")
@click.option("--heal", is_flag=True, help="Mark them as healthy.")
@lab_option
@output_option
def fault_command(
    node: str, chips: tuple[str, ...], network: bool, heal: bool, lab: Path | None, output: str
) -> None:
    """Mark chips of NODE (3, 0-3 or 0,2,5) as faulty, or as healthy again."""
    numbers = [chip for text in chips for chip in _chips(text)]
    what = agrees(len(numbers), "chip", "chips")
    if network:
        what = f"network of {what}"
    done = "healthy" if heal else "faulty"
    sentence = f"node {{node}}: {what} {', '.join(map(str, numbers))} {done}"
    _do(lab, output, "fault", sentence, node=node, chips=numbers, network=network, heal=heal)


def _chips(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(part) > 9:
            raise stop(f"ringwise: {text!r} names no chips: write 3, 0-3 or 0,2,5")
        found += range(int(first), int(last or first) + 1)
    return found


@click.command("advance")
@click.argument("duration", type=duration_argument, required=False, metavar="[DURATION]")
@lab_option
@output_option
def advance_command(duration: int | None, lab: Path | None, output: str) -> None:
    """Advance the virtual time of a lab by DURATION; without it, to the next event."""
    from ringwise.views.times import time_text

    with lab_client(lab, "advancing the time") as client:
        answer = client.do("advance", nanoseconds=duration)
    _show_text(answer, f"it is {time_text(answer['now'])}", output)
