"""Explanations of jobs, capacity and findings, drawn."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from ringwise.apps.source import Source
from ringwise.cli.drawing.chips import (
    CLASS_LEGEND,
    GROUP_LEGEND,
    LEGEND,
    SCORE_LEGEND,
    chip_list,
    chip_picture,
)
from ringwise.cli.drawing.lines import print_line
from ringwise.cli.drawing.tables import Column, Table
from ringwise.cli.drawing.topology import print_superpods, print_switches
from ringwise.durations import duration_text, time_text
from ringwise.grammar import counted
from ringwise.scheduler.explain.boards_present import board_of_node
from ringwise.scheduler.explain.capacity import BoardCapacity
from ringwise.scheduler.explain.doctor import ERROR, NOTE, WARNING, Diagnosis
from ringwise.scheduler.explain.why import Explanation, PodLocation
from ringwise.topology.chips import mask_of

_SHOWN_PODS = 8
_COLOURS = {"running": "cyan", "starting": "cyan", "pending": "yellow", "refused": "red", "ended": "dim"}


def print_explanation(console: Console, source: Source, answer: Explanation) -> None:
    job = answer.job
    colour = _COLOURS[answer.outcome]
    words = f" ({job.policy.switch_class})" if job.policy is not None and job.policy.switch_class else ""
    title = f"[bold]{escape(job.namespace)}/{escape(job.name)}[/]{words}: [{colour}]{answer.outcome}[/]"
    print_line(console, title)
    print_line(console, f"  {escape(answer.sentence)}")
    for line in (*answer.notes, *answer.faults, *filter(None, (answer.board,)), *answer.plan):
        print_line(console, f"  {escape(line)}")
    _print_refusals(console, answer)
    _print_misses(console, source, answer)
    _print_line(console, source, answer)
    _print_cures(console, answer)
    _print_left_out(console, answer)
    if any(location.node for location in answer.locations):
        _print_locations(console, source, answer)
    if job.policy is not None and job.policy.switch_class is not None:
        console.print()
        print_switches(console, source.view, source.now)
    if job.policy is not None and job.policy.block_nodes is not None:
        console.print()
        print_superpods(console, source.view, source.now)
    shown = "\n".join(answer.plan)
    for legend, used in (
        (CLASS_LEGEND, bool(words)),
        (SCORE_LEGEND, "score " in shown),
        (GROUP_LEGEND, "group " in shown),
    ):
        if used:
            print_line(console, legend, style="dim")


def _print_refusals(console: Console, answer: Explanation) -> None:
    refusals = answer.refusals
    if refusals is None:
        return
    console.print(f"\nverdicts of the nodes on {escape(refusals.pod)}", style="bold")
    table = Table([Column("nodes"), Column("reason")], note="for example")
    if refusals.fits:
        table.add(str(refusals.fits), "fits")
    for code, count in refusals.counts.items():
        table.add(str(count), code, note=refusals.examples[code])
    table.print(console)


def _print_misses(console: Console, source: Source, answer: Explanation) -> None:
    if not answer.misses:
        return
    console.print("\nnearest misses", style="bold")
    table = Table([Column("node"), Column("chips")], note="what is lacking")
    for miss in answer.misses:
        table.add(miss.node, _picture(source, answer, miss.number), note=miss.text)
    table.print(console)


def _print_line(console: Console, source: Source, answer: Explanation) -> None:
    if answer.position is None:
        return
    ahead = f", behind {', '.join(answer.ahead)}" if answer.ahead else ""
    if answer.position - 1 > len(answer.ahead):
        ahead += f" and {answer.position - 1 - len(answer.ahead)} more"
    place = f"{answer.position} of {answer.waiting} waiting{escape(ahead)}"
    print_line(console, f"\n[bold]queue {escape(answer.job.queue)}[/]: {place}")
    if answer.kept:
        chips = counted(answer.kept, "chip is", "chips are")
        print_line(console, f"it has waited long: {chips} kept for it until it can start")
    expected = answer.expected
    if expected is not None:
        wait = duration_text(expected.starts - source.now)
        words = f"{time_text(expected.starts)}, in {wait}, after the end of {', '.join(expected.after)}"
        print_line(console, f"[bold]expected start[/]: {escape(words)}")
    elif answer.reason is not None:
        if answer.ends_known:
            unknown = "unknown, it would not start after the running jobs that say how long they run"
        else:
            unknown = "unknown, no running job says how long it runs"
        print_line(console, f"[bold]expected start[/]: {unknown}")


def _print_cures(console: Console, answer: Explanation) -> None:
    if answer.reason is None:
        return
    if not answer.cures:
        console.print("\nnothing that was tried would start it now", style="bold")
        return
    console.print("\nit would start (each was tried)", style="bold")
    for cure in answer.cures:
        print_line(console, f"  -> {escape(cure.sentence)}")


def _print_left_out(console: Console, answer: Explanation) -> None:
    for sentence in answer.left_out:
        print_line(console, f"not looked at: {escape(sentence)}", style="yellow")


def _print_locations(console: Console, source: Source, answer: Explanation) -> None:
    locations = answer.locations
    shown = locations if len(locations) <= _SHOWN_PODS else [*locations[: _SHOWN_PODS - 1], locations[-1]]
    console.print()
    table = Table([Column(name) for name in ("pod", "rank", "node", "chips", "rings")])
    for location in shown:
        if location is shown[-1] and len(shown) < len(locations):
            table.add(f"... {len(locations) - len(shown)} more")
        table.add(
            location.pod,
            str(location.rank),
            location.node or "-",
            chip_list(location.chips),
            _location_picture(source, answer, location),
        )
    table.print(console)
    print_line(console, LEGEND.replace("given now", "this pod"), style="dim")


def _location_picture(source: Source, answer: Explanation, location: PodLocation) -> str:
    if location.node is None:
        return ""
    return _picture(source, answer, source.view.cluster.node_id[location.node], mask_of(location.chips))


def _picture(source: Source, answer: Explanation, node: int, given: int = 0) -> str:
    policy = answer.job.policy
    if policy is None:
        return ""
    fleet = source.view.cluster.fleets[policy.resource]
    if fleet.allocatable[node] < 0:
        return ""
    board = board_of_node(source.view, policy.resource, node, policy.board)
    return chip_picture(fleet, node, board, free=fleet.free_mask[node], given=given)


# -- capacity ------------------------------------------------------------------------------------


def print_capacity(console: Console, boards: Sequence[BoardCapacity]) -> None:
    for board in boards:
        _print_board(console, board)
    if not boards:
        console.print("no node offers a chip that a board serves")


def _print_board(console: Console, answer: BoardCapacity) -> None:
    chips = answer.chips
    where = f" on nodes with accelerator-type {answer.selector}" if answer.selector else ""
    print_line(console, f"[bold]{answer.board}[/] ({answer.resource}){escape(where)}")
    rows = [
        (chips.used, "used"),
        (chips.free, "free"),
        (chips.faulty, "faulty"),
        (chips.isolated, "isolated"),
        (chips.reserved, "reserved"),
        (chips.closed, "closed"),
    ]
    words = ", ".join(f"{number} {word}" for number, word in rows if number or word in ("used", "free"))
    print_line(console, f"  {counted(chips.nodes, 'node')} with {counted(chips.chips, 'chip')}: {words}")
    if chips.network_faulty:
        lack = counted(chips.network_faulty, "of the free ones has", "of the free ones have")
        print_line(console, f"  {lack} no network: for one-pod jobs only")
    numbers = ("jobs that start now", "at best", "free chips it cannot use")
    table = Table([Column("shape"), *(Column(name, right=True, wraps=True) for name in numbers)], indent=2)
    for shape in answer.shapes:
        if shape.kind == "switches":
            table.add(shape.form, counted(shape.pods, "pod"), "", str(shape.stranded))
        else:
            table.add(shape.form, str(shape.jobs), str(shape.most), str(shape.stranded))
    table.print(console)
    for sentence in answer.left_out:
        print_line(console, f"  not looked at: {sentence}", style="yellow")
    if answer.largest_gang:
        console.print(f"  largest gang of whole nodes: {answer.largest_gang}", style="dim")


# -- doctor --------------------------------------------------------------------------------------

_SEVERITY_COLOURS = {ERROR: "red", WARNING: "yellow", NOTE: "cyan"}


def print_diagnosis(console: Console, diagnosis: Diagnosis) -> None:
    for finding in diagnosis.findings:
        colour = _SEVERITY_COLOURS[finding.severity]
        print_line(
            console,
            f"[{colour}]{finding.severity}[/] {escape(finding.where)}: {escape(finding.what)} "
            f"[dim]\\[{finding.code}][/]",
        )
        if finding.cure:
            print_line(console, f"  -> {escape(finding.cure)}", style="dim")
    counts = [(diagnosis.count(kind), kind) for kind in (ERROR, WARNING, NOTE)]
    words = ", ".join(counted(count, kind) for count, kind in counts)
    print_line(console, f"{counted(diagnosis.nodes, 'node')}, {counted(diagnosis.jobs, 'job')}: {words}")
