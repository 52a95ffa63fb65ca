"""Placed jobs as tables: their pods, with the chips of each node before and after."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from ringwise.cli.drawing.chips import CLASS_LEGEND, LEGEND, SCORE_LEGEND, chip_list, chip_picture
from ringwise.cli.drawing.lines import print_line
from ringwise.cli.drawing.tables import Column, Table
from ringwise.cli.drawing.topology import print_superpods, print_switches
from ringwise.scheduler.explain.boards_present import board_of_node
from ringwise.topology.chips import mask_of
from ringwise.views.place import PLACED, JobAnswer, PlaceAnswer

#: Jobs with more pods than this are shown with their first and last ones.
_SHOWN_PODS = 8
_COLOURS = {"placed": "green", "pending": "yellow", "refused": "red", "running": "cyan"}


def print_placements(console: Console, answer: PlaceAnswer, scores: bool) -> None:
    for job in answer.jobs:
        _print_job(console, answer, job)
        if scores:
            _print_candidates(console, job)
    if any(job.job_class for job in answer.jobs):
        print_switches(console, answer.view, answer.view.now)
    if any(pod.superpod is not None for job in answer.jobs for pod in job.pods):
        print_superpods(console, answer.view, answer.view.now)
    counts: dict[str, int] = {}
    for job in answer.jobs:
        counts[job.outcome] = counts.get(job.outcome, 0) + 1
    summary = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) or "no jobs wait"
    print_line(console, summary, style="dim")
    if any(pod.node for job in answer.jobs for pod in job.pods):
        print_line(console, LEGEND, style="dim")
    if any(job.job_class for job in answer.jobs):
        print_line(console, CLASS_LEGEND, style="dim")
    if scores:
        print_line(console, SCORE_LEGEND, style="dim")


def _print_job(console: Console, answer: PlaceAnswer, job: JobAnswer) -> None:
    colour = _COLOURS[job.outcome]
    words = f" ({job.job_class})" if job.job_class else ""
    print_line(
        console, f"[bold]{escape(job.namespace)}/{escape(job.name)}[/]{words}: [{colour}]{job.outcome}[/]"
    )
    if job.reason is not None:
        print_line(console, f"  {escape(job.reason.message)}")
        if job.board is not None:
            print_line(console, f"  {escape(job.board)}")
        for cure in job.reason.cures:
            print_line(console, f"  -> {escape(cure)}", style="dim")
    for line in job.plan:
        print_line(console, f"  {escape(line)}", style="dim")
    if any(pod.node for pod in job.pods):
        _pod_table(answer, job).print(console)


def _pod_table(answer: PlaceAnswer, job: JobAnswer) -> Table:
    extra = [
        column
        for column, used in (
            ("switch", any(pod.switch for pod in job.pods)),
            ("SuperPoD", any(pod.superpod is not None for pod in job.pods)),
            ("rack", any(pod.logical_rack is not None for pod in job.pods)),
        )
        if used
    ]
    columns = [Column("pod"), Column("rank"), Column("node"), Column("chips")]
    columns += [Column("before", moves=True), Column("after")]
    table = Table([*columns, *(Column(name, moves=True) for name in extra)], indent=2)
    shown = job.pods
    if len(shown) > _SHOWN_PODS:
        shown = [*job.pods[: _SHOWN_PODS - 2], *job.pods[-1:]]
    for pod in shown:
        if pod is shown[-1] and len(shown) < len(job.pods):
            table.add(f"... {len(job.pods) - len(shown)} more")
        before, after = _pictures(answer, job, pod.name)
        row = [pod.name, str(pod.rank), pod.node or "-", chip_list(pod.chips or ()), before, after]
        if "switch" in extra:
            row.append(pod.switch or "-")
        if "SuperPoD" in extra:
            row.append("-" if pod.superpod is None else f"{pod.superpod}, block {pod.logical_superpod}")
        if "rack" in extra:
            row.append("-" if pod.logical_rack is None else f"{pod.rack}, logical {pod.logical_rack}")
        table.add(*row)
    return table


def _pictures(answer: PlaceAnswer, job: JobAnswer, name: str) -> tuple[str, str]:
    """The pod's node before this run, and after it, with this pod's chips marked."""
    view = answer.view
    pod = next(pod for pod in job.pods if pod.name == name)
    found = next(
        (
            known
            for known in view.jobs.values()
            if known.namespace == job.namespace and known.name == job.name
        ),
        None,
    )
    policy = found.policy if found is not None else None
    if pod.node is None or policy is None or not pod.chips:
        return "", ""
    fleet, node = view.cluster.fleets[policy.resource], view.cluster.node_id[pod.node]
    before = answer.free_before.get((pod.node, policy.resource), 0)
    given = mask_of(pod.chips) if job.outcome == PLACED and not pod.bound else 0
    board = board_of_node(view, policy.resource, node, policy.board)
    return (
        chip_picture(fleet, node, board, free=before),
        chip_picture(fleet, node, board, free=fleet.free_mask[node], given=given),
    )


def _print_candidates(console: Console, job: JobAnswer) -> None:
    for pod in job.pods:
        if pod.candidates is None:
            continue
        columns = [Column(f"candidates of {pod.name}"), Column("score", right=True)]
        table = Table(columns, note="why not", indent=2)
        for candidate in pod.candidates:
            reason, score = candidate["reason"], candidate["score"]
            table.add(
                candidate["node"],
                "-" if score is None else str(score),
                note="" if reason is None else reason["message"],
            )
        table.print(console)
