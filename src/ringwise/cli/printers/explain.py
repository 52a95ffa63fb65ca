"""Explanations of jobs, capacity and findings, drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from msgspec import UNSET
from rich.console import Console
from rich.markup import escape

from ringwise.cli.printers.chips import (
    CLASS_LEGEND,
    GROUP_LEGEND,
    OTHER_STATES,
    SCORE_LEGEND,
    chip_list,
    chip_picture,
    legend,
)
from ringwise.cli.printers.lines import print_line, print_state
from ringwise.cli.printers.superpods import print_superpods
from ringwise.cli.printers.tables import Column, Table
from ringwise.cli.printers.topology import print_switches
from ringwise.durations import time_text
from ringwise.grammar import agrees, counted
from ringwise.scheduler.explain.fix_search import fix_sentence
from ringwise.views.documents.cluster import NodeChipsFields
from ringwise.views.documents.explain import (
    BeforeDrainFields,
    BoardCapacityFields,
    CapacityDocument,
    DoctorDocument,
    WhyDocument,
)
from ringwise.views.pictures import WHY_PODS, first_and_last

#: Nodes with a drain ahead that are named.
_DRAINED_NODES = 3


def print_explanation(console: Console, answer: WhyDocument) -> None:
    pictures = None if answer.pictures is UNSET else answer.pictures
    print_state(console, answer)
    print_line(console, f"  {escape(answer.message)}")
    for line in answer.errors:
        print_line(console, f"  [red]error: {escape(line)}[/]")
    for line in (
        *answer.notes,
        *answer.faults,
        *filter(None, (answer.board_reason,)),
        *answer.plan,
    ):
        print_line(console, f"  {escape(line)}")
    chips = {} if pictures is None else {one["node"]: one for one in pictures.nodes}
    _print_refusals(console, answer)
    _print_misses(console, answer, chips)
    _print_queue(console, answer)
    _print_fixes(console, answer)
    for sentence in answer.omitted:
        print_line(console, f"not checked: {escape(sentence)}", style="yellow")
    if any(pod.node or pod.would_be_scheduled_on for pod in answer.pods):
        _print_pods(console, answer, chips)
    if pictures is not None and pictures.switches:
        console.print()
        print_switches(console, pictures.switches)
    if pictures is not None and pictures.superpods:
        console.print()
        print_superpods(console, pictures.superpods)
    shown = "\n".join(answer.plan)
    for line, used in (
        (CLASS_LEGEND, answer.job_class),
        (SCORE_LEGEND, "score " in shown),
        (GROUP_LEGEND, "group " in shown),
    ):
        if used:
            print_line(console, line, style="dim")


def _print_refusals(console: Console, answer: WhyDocument) -> None:
    refusals, examples = answer.rejected_nodes, answer.rejection_examples
    if refusals is None or examples is None:
        return
    console.print(f"\nWhy no node fits {escape(answer.checked_pod or '')}", style="bold")
    table = Table([Column("nodes"), Column("reason")], note="for example")
    if answer.fitting_nodes:
        table.add(str(answer.fitting_nodes), "fits")
    for code, count in refusals.items():
        table.add(str(count), code, note=examples[code])
    table.print(console)


def _print_misses(console: Console, answer: WhyDocument, chips: Mapping[str, NodeChipsFields]) -> None:
    if not answer.closest_nodes:
        return
    console.print("\nClosest nodes", style="bold")
    table = Table([Column("node"), Column("chips")], note="missing")
    for miss in answer.closest_nodes:
        table.add(miss.node, _picture(chips, miss.node), note=miss.message)
    table.print(console)


def _print_queue(console: Console, answer: WhyDocument) -> None:
    queue, expected = answer.queue, answer.expected_start
    if queue.position is None:
        if expected is not None:
            # It has its nodes, or cannot have any yet: it is in no queue.
            console.print()
            print_line(console, f"[bold]expected start[/]: {escape(expected['message'])}")
        return
    ahead = f", behind {', '.join(queue.jobs_ahead)}" if queue.jobs_ahead else ""
    if queue.position - 1 > len(queue.jobs_ahead):
        ahead += f" and {queue.position - 1 - len(queue.jobs_ahead)} more"
    place = f"{queue.position} of {queue.pending} pending{escape(ahead)}"
    console.print()
    print_line(console, f"[bold]queue {escape(queue.name)}[/]: {place}")
    if answer.reserved_chips:
        reserved = counted(answer.reserved_chips, "chip is", "chips are")
        print_line(console, f"{reserved} reserved for it until it can start")
    if expected is not None:
        print_line(console, f"[bold]expected start[/]: {escape(expected['message'])}")


def _print_fixes(console: Console, answer: WhyDocument) -> None:
    if answer.reason is None:
        return
    if not answer.fixes and answer.reason["fixes"]:
        # Nothing can be tried: what helps is not for the scheduler to do.
        console.print("\nFixes", style="bold")
        for text in answer.reason["fixes"]:
            print_line(console, f"  - {escape(text)}")
        return
    if not answer.fixes:
        console.print("\nNo change that was tried would start it now", style="bold")
        return
    console.print("\nFixes (each was verified on a copy of the cluster)", style="bold")
    for fix in answer.fixes:
        print_line(console, f"  - {escape(fix_sentence(fix.message, fix.conflicting_jobs))}")


def _print_pods(console: Console, answer: WhyDocument, chips: Mapping[str, NodeChipsFields]) -> None:
    pods = answer.pods
    shown = first_and_last(pods, WHY_PODS)
    console.print()
    would = any(pod.would_be_scheduled_on for pod in pods)
    pictures = {pod.name: _picture(chips, pod.node or pod.would_be_scheduled_on, pod.chips) for pod in shown}
    columns = (
        Column("pod", "name"),
        Column("rank", "rank"),
        Column("node", "node"),
        *([Column("would be placed on", lambda pod: pod.would_be_scheduled_on)] if would else ()),
        Column("chips", lambda pod: chip_list(pod.chips)),
        Column("rings", lambda pod: pictures[pod.name]),
    )
    Table.of(columns, shown, hidden=len(pods) - len(shown)).print(console)
    print_line(console, legend(pictures.values(), "this pod"), style="dim")


def _picture(chips: Mapping[str, NodeChipsFields], node: str | None, marked: Sequence[int] = ()) -> str:
    picture = chips.get(node or "")
    return "" if picture is None else chip_picture(picture, marked=marked)


# -- capacity ------------------------------------------------------------------------------------


def print_capacity(console: Console, document: CapacityDocument) -> None:
    for board in document.boards:
        _print_board(console, board)
    if not document.boards:
        console.print("no node offers chips of a supported board")


def _print_before_drain(console: Console, start: int, event: str, rows: Sequence[BeforeDrainFields]) -> None:
    names = ", ".join(one.name for one in rows[:_DRAINED_NODES])
    more = len(rows) - _DRAINED_NODES
    rest = f" and {counted(more, 'more node')}" if more > 0 else ""
    chips, verb = sum(one.chips for one in rows), agrees(len(rows), "is", "are")
    print_line(
        console,
        f"  {chips} of the free chips are only for jobs that end before {time_text(start)}: "
        f"{escape(names)}{rest} {verb} {event} then",
    )


def _print_board(console: Console, answer: BoardCapacityFields) -> None:
    chips, selector = answer.chips, answer.accelerator_type
    where = f" on nodes with accelerator-type {selector}" if selector else ""
    print_line(console, f"[bold]{answer.board}[/] ({answer.resource}){escape(where)}")
    counts = [(getattr(chips, state), state) for state in ("used", "free", *OTHER_STATES)]
    words = ", ".join(f"{count} {state}" for count, state in counts if count or state in ("used", "free"))
    print_line(console, f"  {counted(chips.nodes, 'node')} with {counted(chips.chips, 'chip')}: {words}")
    if chips.network_faulty:
        lack = counted(chips.network_faulty, "of the free ones has", "of the free ones have")
        print_line(console, f"  {lack} no network and can run only one-pod jobs")
    for (start, event), drained in groupby(answer.drains, key=attrgetter("start", "event")):
        _print_before_drain(console, start, event, list(drained))
    numbers = ("jobs that start now", "at best", "free chips it cannot use")
    table = Table([Column("shape"), *(Column(name, right=True, wraps=True) for name in numbers)], indent=2)
    for shape in answer.shapes:
        stranded = str(shape.stranded_chips)
        if shape.kind == "switches":
            table.add(shape.shape, counted(shape.pods, "pod"), "", stranded)
        else:
            table.add(shape.shape, str(shape.jobs), str(shape.upper_bound), stranded)
    table.print(console)
    for sentence in answer.omitted:
        print_line(console, f"  not checked: {sentence}", style="yellow")
    if answer.largest_gang:
        console.print(f"  largest gang of whole nodes: {answer.largest_gang}", style="dim")


# -- doctor --------------------------------------------------------------------------------------

_SEVERITY_COLORS = {"error": "red", "warning": "yellow", "note": "cyan"}


def print_diagnosis(console: Console, document: DoctorDocument) -> None:
    for finding in document.findings:
        severity = finding.severity
        print_line(
            console,
            f"[{_SEVERITY_COLORS[severity]}]{severity}[/] {escape(finding.object)}: "
            f"{escape(finding.message)} [dim]\\[{finding.code}][/]",
        )
        if finding.fix:
            print_line(console, f"  - {escape(finding.fix)}", style="dim")
    counts = [(document.errors, "error"), (document.warnings, "warning"), (document.notes, "note")]
    words = ", ".join(counted(count, kind) for count, kind in counts)
    nodes, jobs = counted(document.nodes, "node"), counted(document.jobs, "job")
    print_line(console, f"{nodes}, {jobs}: {words}")
