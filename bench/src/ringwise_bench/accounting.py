"""What accounting costs the deciding thread: the whole life of jobs with it and without it, in turns.

Processor time of the thread, not of the clock. Equal runs differ, too: where they differ by more than the
limit, nothing is judged.
"""

from __future__ import annotations

import gc
import time
from dataclasses import replace
from itertools import pairwise
from statistics import median

from ringwise.apps.extensions import new_scheduler
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Command
from ringwise.state.model import Node, Pod, PodClass, PodGroup
from ringwise.wellknown import ASCEND910
from ringwise_bench.report import Figure, at_most, shown

SECOND = 1_000_000_000
#: Of the processor time of the deciding thread.
LIMIT = 0.05
PAIRS = 10


def _nodes(count: int) -> list[ev.Event]:
    return [
        ev.NodeSeen(
            Node(
                f"node-{n}", chips_allocatable={ASCEND910: 8}, cpu_milli=192_000, memory=1 << 40, max_pods=110
            )
        )
        for n in range(count)
    ]


def life(nodes: int, jobs: int, *, accounted: bool) -> float:
    """Seconds of processor time of the turns in which jobs come, start, run, end and go."""
    scheduler = new_scheduler()
    first: list[ev.Event] = _nodes(nodes)
    if accounted:
        first.append(ev.AccountsRead())
    scheduler.handle(first, SECOND)
    cls = PodClass(resource=ASCEND910, chips=8, cpu_milli=32_000, memory=8 << 30)
    pods = [
        Pod(
            f"pod-{n}", "bench", f"pod-{n}", cls, created=2 * SECOND, group=f"job-{n // 2}", chip_containers=1
        )
        for n in range(2 * jobs)
    ]
    groups = [
        PodGroup("bench", f"job-{n}", uid=f"job-{n}", min_member=2, phase="Inqueue", created=2 * SECOND)
        for n in range(jobs)
    ]
    spent, now = 0.0, 2 * SECOND
    commands: list[Command] = []

    def turn(events: list[ev.Event]) -> None:
        nonlocal spent, now, commands
        now += SECOND
        started = time.thread_time()
        commands = scheduler.handle(events, now)
        spent += time.thread_time() - started

    gc.collect()
    gc.disable()
    turn([*map(ev.PodGroupSeen, groups), *map(ev.PodSeen, pods)])
    placed = {bind.uid: bind for bind in commands if isinstance(bind, Bind)}
    if len(placed) != len(pods):
        raise RuntimeError(f"{len(placed)} of {len(pods)} pods were placed")
    bound = [
        replace(pod, node=bind.node, annotations=bind.annotations, holds=bind.chips, bound=now)
        for pod, bind in ((pod, placed[pod.uid]) for pod in pods)
    ]
    # As they are on a cluster: some in every turn.
    for states in (
        bound,
        [replace(pod, phase="Running") for pod in bound],
        [replace(pod, phase="Succeeded", ended=now) for pod in bound],
    ):
        for start in range(0, len(states), 50):
            turn([ev.PodSeen(pod) for pod in states[start : start + 50]])
    turn([*(ev.PodGone(pod.uid) for pod in pods), *(ev.PodGroupGone(group.key) for group in groups)])
    gc.enable()
    return spent


def run(full: bool = False) -> list[Figure]:
    nodes, jobs = (2_000, 1_000) if full else (1_000, 500)
    life(nodes, jobs, accounted=True)
    without, within = [], []
    for _ in range(PAIRS):
        without.append(life(nodes, jobs, accounted=False))
        within.append(life(nodes, jobs, accounted=True))
    cost = median(one / other - 1 for one, other in zip(within, without, strict=True))
    noise = median(abs(one / other - 1) for one, other in pairwise(without))
    name = f"accounting: processor time of the deciding thread, {PAIRS} pairs"
    judged = at_most(name, cost, "", LIMIT) if noise <= LIMIT else shown(f"{name}, not judged", cost, "")
    return [judged, shown("accounting: how much equal runs differ", noise, "")]
