"""Placed jobs as tables: their pods, with the chips of each node before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET
from rich.console import Console
from rich.markup import escape

from ringwise.cli.printers.chips import CLASS_LEGEND, SCORE_LEGEND, chip_list, chip_picture, legend
from ringwise.cli.printers.lines import print_line, print_reason, print_state
from ringwise.cli.printers.name_lists import states_text
from ringwise.cli.printers.superpods import print_superpods
from ringwise.cli.printers.tables import Column, Table
from ringwise.cli.printers.topology import print_switches
from ringwise.views.pictures import PLACE_PODS, first_and_last

if TYPE_CHECKING:
    from ringwise.views.documents.cluster import NodeChipsFields
    from ringwise.views.documents.place import (
        CandidateFields,
        PlacedJobFields,
        PlaceDocument,
        PlacedPictureFields,
        PlacedPodFields,
    )


#: (node, resource) -> its chips after the run, and those that were free before it.
Pictures = Mapping[tuple[str, str], "tuple[NodeChipsFields, Sequence[int]]"]


def print_placements(console: Console, document: PlaceDocument, scores: bool) -> None:
    """Draw a document that has `pictures`."""
    jobs, drawn = document.jobs, document.pictures
    assert drawn is not UNSET
    pictures = {
        (node["node"], node["resource"]): (node, before)
        for node, before in zip(drawn.nodes, drawn.free_before, strict=True)
    }
    shown: list[str] = []
    for job, more in zip(jobs, drawn.jobs, strict=True):
        _print_job(console, job, more, pictures, shown)
        if scores:
            _print_candidates(console, job)
    if drawn.switches is not None:
        print_switches(console, drawn.switches)
    if drawn.superpods is not None:
        print_superpods(console, drawn.superpods)
    print_line(console, states_text(job.state for job in jobs) or "no jobs", style="dim")
    if any(pod.node for job in jobs for pod in job.pods):
        print_line(console, legend(shown, "newly allocated"), style="dim")
    if any(job.job_class for job in jobs):
        print_line(console, CLASS_LEGEND, style="dim")
    if scores:
        print_line(console, SCORE_LEGEND, style="dim")


def _print_job(
    console: Console, job: PlacedJobFields, more: PlacedPictureFields, pictures: Pictures, drawn: list[str]
) -> None:
    """Adds the pictures that it draws to `drawn`."""
    print_state(console, job)
    print_reason(console, job.reason, more.board_reason, fixes="dim")
    for note in job.notes:
        print_line(console, f"  {escape(note)}", style="yellow")
    for line in more.plan:
        print_line(console, f"  {escape(line)}", style="dim")
    if any(pod.node for pod in job.pods):
        _pod_table(job, more.resource, pictures, drawn).print(console)


def _pod_table(job: PlacedJobFields, resource: str | None, pictures: Pictures, drawn: list[str]) -> Table:
    pods = job.pods
    shown = first_and_last(pods, PLACE_PODS)
    sides = {pod.name: _pictures(job, pod, resource, pictures) for pod in shown}
    drawn += (side for both in sides.values() for side in both)
    columns = [
        *(Column(name, name) for name in ("rank", "node")),
        Column("chips", lambda pod: chip_list(pod.chips or ())),
        Column("before", lambda pod: sides[pod.name][0], moves=True),
        Column("after", lambda pod: sides[pod.name][1]),
    ]
    if any(pod.switch for pod in pods):
        columns.append(Column("switch", "switch", moves=True))
    if any(pod.superpod is not None for pod in pods):
        columns.append(Column("SuperPoD", _superpod, moves=True))
    if any(isinstance(pod.logical_rack, int) for pod in pods):
        columns.append(Column("rack", _rack, moves=True))
    hidden = len(pods) - len(shown)
    return Table.of([Column("pod", "name"), *columns], shown, indent=2, hidden=hidden)


def _superpod(pod: PlacedPodFields) -> str:
    return "-" if pod.superpod is None else f"{pod.superpod}, block {pod.logical_superpod}"


def _rack(pod: PlacedPodFields) -> str:
    return f"{pod.rack}, logical {pod.logical_rack}" if isinstance(pod.logical_rack, int) else "-"


def _pictures(
    job: PlacedJobFields, pod: PlacedPodFields, resource: str | None, pictures: Pictures
) -> tuple[str, str]:
    """The pod's node before this run, and after it, with this pod's chips marked."""
    picture = pictures.get((pod.node or "", resource or ""))
    if picture is None or not pod.chips:
        return "", ""
    chips, before = picture
    # A pod that was bound in the input gets no annotations.
    marked = pod.chips if job.state == "scheduled" and pod.annotations else ()
    return chip_picture(chips, free=before), chip_picture(chips, marked=marked)


def _print_candidates(console: Console, job: PlacedJobFields) -> None:
    for pod in job.pods:
        if pod.candidates is UNSET:
            continue
        columns = [Column(f"candidates of {pod.name}", "node"), Column("score", "score", right=True)]
        Table.of(columns, pod.candidates, note="why not", notes=_why_not, indent=2).print(console)


def _why_not(candidate: CandidateFields) -> str:
    return "" if candidate.reason is None else candidate.reason["message"]
