"""`ringwise demo`: jobs of every kind on embedded clusters.

Time is virtual and nothing is random: every run prints the same.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click
from rich.columns import Columns
from rich.console import Console
from rich.markup import escape

from ringwise.apps.demo import DemoCluster, job_of
from ringwise.cli.drawing.chips import chip_list, chip_picture, legend
from ringwise.cli.drawing.explain import print_explanation
from ringwise.cli.drawing.lines import print_line
from ringwise.cli.drawing.tables import Column, Table
from ringwise.cli.drawing.topology import print_superpods, print_switches
from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.output import has_grpc, stdout_console, stop
from ringwise.durations import duration_text
from ringwise.embed.fleets import make_fleet
from ringwise.grammar import counted
from ringwise.placement.switches.classes import LARGE_MODEL_SCHEMA
from ringwise.scheduler.explain.why import reasons_now
from ringwise.topology.boards import shipped_catalog
from ringwise.topology.chips import chips_of
from ringwise.views.documents.cluster import NodeChipsFields
from ringwise.views.explain import explanation_document, explanation_pictures
from ringwise.views.pictures import node_chips
from ringwise.views.topology import superpod_documents, switch_documents
from ringwise.wellknown import (
    ACCELERATOR_TYPE,
    ASCEND910,
    ASCEND_REAL,
    KUBELET_DEVICES,
    PREDICATE_TIME,
    SCHEDULE_POLICY,
    SP_BLOCK,
    SUPER_POD_AFFINITY,
    TOR_AFFINITY,
)

#: A job with more pods is shown with its first and last ones.
_SHOWN_PODS = 4


@click.command()
def demo() -> None:
    """Place jobs of every kind on embedded clusters, and explain each result."""
    console = stdout_console()
    stages = [*_main_story(console), *_packing(console), _superpods(console), *_containers(console)]
    wrongs = [line for stage in stages for line in stage.wrongs()]
    if wrongs:
        raise stop(*wrongs, code=ExitCode.FAILED)
    bound = sum(stage.lab.done.get("Bind", 0) for stage in stages)
    _title(console, "That was all")
    print_line(
        console,
        f"{counted(bound, 'pod was', 'pods were')} placed on {counted(stages, 'embedded cluster')}; "
        "no chip was given twice.",
    )
    table = Table([Column(""), Column("", wraps=True)], indent=2, gap=2, headings=False)
    program = command_of_this_program()
    table.add(f"{program} lab", "a cluster of your own, live, in this terminal")
    table.add(f"{program} submit FILE, top", "in another one; docs/lab.md is a tour of five minutes")
    table.add(f"{program} place -f FILE...", "what would be placed where, from manifests alone")
    console.print("Next:")
    table.print(console)


def command_of_this_program() -> str:
    """Return the command to type for this program: its path if it is not on PATH, as after `make demo`."""
    called = Path(sys.argv[0])
    if called.name != "ringwise" or shutil.which("ringwise") is not None:
        return "ringwise"
    here = Path.cwd()
    return str(called.relative_to(here) if called.is_relative_to(here) else called)


def _stage(
    nodes: int, board: str, *, leaf_size: int | None = None, superpod_size: int | None = None
) -> DemoCluster:
    fleet = make_fleet(nodes, board, leaf_size=leaf_size, superpod_size=superpod_size)
    return DemoCluster(fleet, shipped_catalog()[board])


# -- scenes ------------------------------------------------------------------------------------------


def _main_story(console: Console) -> list[DemoCluster]:
    stage = _stage(20, "910-x8", leaf_size=4)
    for node, name, chips in (
        ("node-1", "notebook-ann", (0, 1)),
        ("node-2", "serve-0", (0, 1, 2, 3)),
        ("node-3", "serve-1", (4, 5, 6, 7)),
        ("node-3", "notebook-bob", (0,)),
        ("node-5", "tune-0", (0,)),
        ("node-5", "tune-1", (4,)),
    ):
        stage.settle(node, name, chips)
    stage.break_chips("node-4", 7)
    stage.break_chips("node-6", 0, 4)
    stage.break_chips("node-7", 3, network=True)
    stage.cluster.cordon("node-0")
    stage.lab.step()

    _title(console, "A cluster of 20 nodes under 5 leaf switches; each node has two rings of four chips")
    _draw_cluster(console, stage)
    print_line(
        console, "node-0 is cordoned; chips are faulty on node-4 and node-6, one network port on node-7"
    )

    _title(console, "Jobs of 1, 2, 4 and 8 chips, a gang of two nodes, and two that cannot run")
    stage.submit(
        job_of("one-chip", 1, 1),
        job_of("two-chips", 1, 2),
        job_of("four-chips", 1, 4),
        job_of("whole-node", 1, 8),
        job_of("gang", 2, 8, minutes=45),
        job_of("three-chips", 1, 3),
        job_of("giant", 30, 8),
    )
    _draw_jobs(console, stage, "one-chip", "two-chips", "four-chips", "whole-node", "gang")
    _draw_refusals(console, stage, "three-chips", "giant")

    _title(console, "A foundation model of six nodes keeps to as few leaf switches as it can")
    stage.submit(job_of("model", 6, 8, labels={TOR_AFFINITY: LARGE_MODEL_SCHEMA}))
    for line in stage.why("model").plan:
        print_line(console, f"  {escape(line)}")
    _draw_jobs(console, stage, "model")
    print_switches(console, switch_documents(stage.scheduler.view, stage.cluster.now) or ())

    _title(console, "Two queues: research may use at most 16 chips, product up to all")
    stage.add_queue("research", 1, 16)
    stage.add_queue("product", 3, 160)
    stage.submit(
        job_of("study", 2, 8, queue="research", minutes=30),
        job_of("survey", 1, 8, queue="research", minutes=20),
        job_of("release", 2, 8, queue="product", minutes=90),
    )
    _draw_jobs(console, stage, "study", "release")
    _draw_refusals(console, stage, "survey")

    _title(console, "A gang of five nodes comes, and waits")
    stage.submit(job_of("pretrain", 5, 8, queue="product"))
    explanation = stage.why("pretrain")
    document = explanation_document(explanation, stage.cluster.now)
    document["pictures"] = explanation_pictures(explanation, stage.scheduler.view, stage.cluster.now)
    print_explanation(console, document)

    _title(console, "Time passes; chips come back, and the waiting jobs start by themselves")
    _wait_for(console, stage, "survey", "pretrain")
    _draw_jobs(console, stage, "pretrain")
    return [stage]


def _packing(console: Console) -> list[DemoCluster]:
    stages = []
    for board, sizes, selector in (
        ("910-x8", (4, 2, 1, 1), {}),
        ("910b-x8", (3, 4, 1), {ACCELERATOR_TYPE: "module-910b-8"}),
    ):
        words = " + ".join(map(str, sizes))
        _title(
            console,
            f"{counted(words, 'chip')} arrive together and fill one {board} node; the second stays whole",
        )
        stage = _stage(2, board)
        names = [f"{letter}-{size}" for letter, size in zip("abcd", sizes, strict=False)]
        stage.submit(
            *(job_of(name, 1, size, selector=selector) for name, size in zip(names, sizes, strict=True))
        )
        _draw_jobs(console, stage, *names)
        _draw_cluster(console, stage)
        stages.append(stage)
    return stages


def _superpods(console: Console) -> DemoCluster:
    _title(console, "SuperPoDs: eight nodes of 16 chips in blocks of two nodes, each block in one SuperPoD")
    stage = _stage(15, "a3-x16-superpod", superpod_size=5)
    settings = {SCHEDULE_POLICY: "chip2-node16-sp", SP_BLOCK: "32"}
    stage.submit(job_of("blocks", 8, 16, annotations=settings, labels={SUPER_POD_AFFINITY: "soft"}))
    for line in stage.why("blocks").plan:
        print_line(console, f"  {escape(line)}")
    _draw_refusals(console, stage, "blocks")
    print_superpods(console, superpod_documents(stage.scheduler.view, stage.cluster.now))
    return stage


# -- drawing --------------------------------------------------------------------------------------------


def _containers(console: Console) -> list[DemoCluster]:
    _title(console, "From decision to device: what the container of a pod of two chips gets")
    if not has_grpc():
        print_line(console, "not shown: gRPC is not installed (pip install 'ringwise[device]')")
        return []
    from ringwise.apps.demo import mounting

    table = Table([Column("who"), Column("what", wraps=True)])
    stages = []
    for mount_by in ("plain", "ascend-docker"):
        stage, way = mounting(make_fleet(1, "910b-x8"), shipped_catalog()["910b-x8"], mount_by)
        stages.append(stage)
        bound, started, container = way.bound, way.started, way.container
        nodes, settings = [one.container for one in container.devices], container.environment
        if mount_by == "plain":
            table.add(
                "scheduler", f"{ASCEND910}={bound.annotations[ASCEND910]} with the binding to {bound.node}"
            )
            table.add("kubelet", f"Allocate({', '.join(container.ids)})")
            for key in (ASCEND_REAL, KUBELET_DEVICES, PREDICATE_TIME):
                table.add("device plugin", f"{key}={started.annotations[key]}")
            table.add("container", " ".join(nodes))
        else:
            words = " ".join(f"{key}={value}" for key, value in settings.items() if value)
            table.add("", f"with Ascend Docker Runtime instead: {words}")
    table.print(console)
    return stages


def _title(console: Console, words: str) -> None:
    console.print()
    print_line(console, f"== {words}", style="bold")


def _draw_cluster(console: Console, stage: DemoCluster) -> None:
    nodes = [_chips(stage, name) for name in stage.scheduler.view.cluster.names]
    pictures = list(map(chip_picture, nodes))
    cells = [escape(f"{one['node']:>7} {picture}") for one, picture in zip(nodes, pictures, strict=True)]
    console.print(Columns(cells, padding=(0, 2), width=24))
    print_line(console, legend(pictures), style="dim")


def _chips(stage: DemoCluster, node: str) -> NodeChipsFields:
    chips = node_chips(stage.scheduler.view, stage.cluster.now, node, ASCEND910, stage.board)
    assert chips is not None
    return chips


def _draw_jobs(console: Console, stage: DemoCluster, *names: str) -> None:
    table = Table([Column(name) for name in ("job", "rank", "node", "chips", "before", "after")])
    for name in names:
        placements = stage.placements(name)
        shown = placements
        if len(placements) > _SHOWN_PODS:
            shown = [*placements[: _SHOWN_PODS - 1], placements[-1]]
        for placement in shown:
            if placement is shown[-1] and len(shown) < len(placements):
                table.add(f"... {len(placements) - len(shown)} more")
            node = placement.pod.node or ""
            chips = _chips(stage, node)
            before = chip_picture(chips, free=tuple(chips_of(placement.before)))
            after = chip_picture(chips, given=placement.pod.holds)
            table.add(
                name,
                str(placement.rank),
                node,
                chip_list(placement.pod.holds),
                before,
                after,
            )
    table.print(console)


def _draw_refusals(console: Console, stage: DemoCluster, *names: str) -> None:
    jobs = [stage.job(name) for name in names]
    present = reasons_now(stage.scheduler.view, jobs, stage.cluster.now).of
    for name, job in zip(names, jobs, strict=True):
        reason = present[job.key]
        if reason is None:
            continue
        print_line(console, f"[bold]{escape(name)}[/]: {escape(reason.message)}")
        for cure in reason.cures:
            print_line(console, f"  -> {escape(cure)}")


def _wait_for(console: Console, stage: DemoCluster, *names: str) -> None:
    """Advance the time until these jobs have started; print when each did."""
    waiting = list(names)
    while waiting and stage.pass_time():
        for name in [name for name in waiting if stage.placements(name)]:
            waiting.remove(name)
            nodes = ", ".join(placement.pod.node or "" for placement in stage.placements(name))
            print_line(console, f"after {duration_text(stage.elapsed)} {escape(name)} starts on {nodes}")
    if waiting:
        raise stop(f"{', '.join(waiting)} never started", code=ExitCode.FAILED)
