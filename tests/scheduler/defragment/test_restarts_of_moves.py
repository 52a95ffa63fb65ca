"""M1, F1: whatever dies in the middle of a plan, no job is lost or doubled and no chip is given twice.

Random clusters in virtual time with the real controller. The plan is the planner's own; the scheduler dies
once at each boundary between two commands, or again and again at random ones.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.controller.machine import Controller
from ringwise.durations import SECOND
from ringwise.embed.clock import VirtualClock
from ringwise.embed.cluster import EmbeddedCluster
from ringwise.embed.fleets import make_fleet
from ringwise.embed.loop import Decider, EmbeddedLoop
from ringwise.embed.objects import TableWatch
from ringwise.messages.commands import Command, DeletePod
from ringwise.messages.events import Event, EvictFailed
from ringwise.messages.move_plan import APPROVED, DONE, FAILED, MovePlan, PlannedMove, PlannedPod
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.defragment.moves import Moves
from ringwise.scheduler.defragment.search import find_plan
from ringwise.state.model import Pod, Queue
from ringwise.state.vcjob import VcJob
from tests.builders.values import vcjob
from tests.examples import sample
from tests.scheduler.rig import configuration

CLUSTERS = int(os.environ.get("RINGWISE_MOVE_STORMS", "2"))


class MortalLoop(EmbeddedLoop):
    """The loop of the lab, with a scheduler that dies between two commands."""

    scheduler: Scheduler

    def __init__(self, cluster: EmbeddedCluster, **settings: Any) -> None:
        self.chosen = configuration(("enqueue", "allocate", "backfill"), **settings)
        super().__init__(cluster, new_scheduler(self.chosen), Controller(), VirtualClock(cluster.now))
        self._is_schedulers = False
        #: It dies before the command of this number; None: it lives.
        self.dies_at: int | None = None
        self.random = random.Random(0)
        self.die = self.refuse = 0.0
        self.carried_out = 0
        self.evicted: list[str] = []

    def _call(self, decider: Decider, watch: TableWatch, extra: list[Event], *, always: bool) -> int:
        self._is_schedulers = decider is self.scheduler
        return super()._call(decider, watch, extra, always=always)

    def _apply(self, commands: Iterable[Command]) -> None:
        for command in commands:
            if self._is_schedulers:
                if self.carried_out == self.dies_at or self.random.random() < self.die:
                    self.dies_at = None
                    self.replace_scheduler(new_scheduler(self.chosen))
                    return
                self.carried_out += 1
            if isinstance(command, DeletePod) and command.fault:
                if self.random.random() < self.refuse:
                    self._for_scheduler_only.append(EvictFailed(command.uid, "a budget forbids it"))
                    continue
                self.evicted.append(command.uid)
            super()._apply([command])
            assert self.cluster.alarms == []
        assert self.scheduler.view.inconsistencies() == []
        assert self.scheduler.view.history.incidents == []


def fragmented(seed: int) -> tuple[MortalLoop, MovePlan] | None:
    """A cluster with holes, and the plan for a gang that waits for them; None: none is needed, or found."""
    rng = random.Random(seed)
    nodes = rng.choice([3, 4, 6])
    fleet = make_fleet(nodes, "910-x8")
    cluster = EmbeddedCluster(now=1000 * SECOND)
    cluster.submit_all([*fleet.nodes, *fleet.reports])
    cluster.submit(Queue("default"))
    loop = MortalLoop(cluster)
    sizes = [rng.choice([1, 1, 2, 2, 4]) for _ in range(nodes * 5)]
    for number, chips in enumerate(sizes):
        cluster.submit(vcjob(f"job-{number}", 1, chips))
    loop.run_until(cluster.now + 10 * SECOND)
    for number in range(len(sizes)):
        if rng.random() < 0.6:
            cluster.delete("VcJob", f"default/job-{number}")
    loop.run_until(cluster.now + 10 * SECOND)
    cluster.submit(vcjob("big", rng.choice([1, 1, 2]), 8))
    loop.run_until(cluster.now + 10 * SECOND)
    job = next(job for job in loop.scheduler.view.jobs.values() if job.name == "big")
    plan = find_plan(loop.scheduler.view, job, cluster.now)
    if not isinstance(plan, MovePlan) or not plan.moves:
        return None
    loop.carried_out = 0
    return loop, replace(plan, approval=APPROVED)


@cache
def with_plan(number: int) -> int:
    """The seed of the cluster of this number among those that need moves."""
    first = 0 if number == 0 else with_plan(number - 1) + 1
    return next(seed for seed in itertools.count(first) if fragmented(seed) is not None)


def check(loop: MortalLoop) -> None:
    """Every job has its pods, each once, on chips of its own; nothing is kept for anybody."""
    cluster = loop.cluster
    assert cluster.alarms == []
    pods = list(cluster.all(Pod))
    for job in cluster.all(VcJob):
        own = [pod for pod in pods if pod.owner is not None and pod.owner.uid == job.uid]
        assert len(own) == job.tasks[0].replicas, job.name
        assert all(pod.node is not None and pod.phase == "Running" for pod in own) or job.name == "big"
    held = [(pod.node, chip) for pod in pods for chip in pod.holds]
    assert len(held) == len(set(held))
    assert [one for one in loop.scheduler.view.reservations if one.lasting] == []
    assert all(not job.places for job in loop.scheduler.view.jobs.values())


def check_done(loop: MortalLoop, plan: MovePlan) -> None:
    check(loop)
    ended = loop.scheduler._components.of(Moves).ended[plan.id]
    assert (ended.outcome, ended.why) == (DONE, "")
    by_name = {pod.key: pod for pod in loop.cluster.all(Pod)}
    for move in plan.moves:
        for planned in move.pods:
            pod = by_name[planned.name]
            assert pod.uid != planned.uid
            assert (pod.node, set(pod.holds)) == (planned.node, set(planned.chips))
    assert all(pod.phase == "Running" for pod in by_name.values())


@pytest.mark.parametrize("number", range(CLUSTERS))
def test_M1_F1_the_scheduler_dies_at_each_boundary_between_two_commands(number: int) -> None:
    seed = with_plan(number)
    made = fragmented(seed)
    assert made is not None
    loop, plan = made
    loop.cluster.submit(plan)
    loop.run_until(loop.cluster.now + 200 * SECOND)
    check_done(loop, plan)
    boundaries = loop.carried_out
    assert boundaries > len(plan.moves)
    for boundary in sample(range(boundaries)):
        made = fragmented(seed)
        assert made is not None
        loop, plan = made
        loop.cluster.submit(plan)
        loop.dies_at = boundary
        loop.run_until(loop.cluster.now + 200 * SECOND)
        assert loop.carried_out > boundary
        check_done(loop, plan)


@pytest.mark.parametrize("number", range(CLUSTERS))
def test_M1_F1_evictions_are_refused_and_the_scheduler_dies_again_and_again(number: int) -> None:
    seed = with_plan(number)
    for attempt in sample(range(6), 3):
        made = fragmented(seed)
        assert made is not None
        loop, plan = made
        loop.random = random.Random(1000 * seed + attempt)
        loop.die, loop.refuse = 0.2, (0.3, 1.0)[attempt % 2]
        loop.cluster.submit(plan)
        loop.run_until(loop.cluster.now + 60 * SECOND)
        all_refused = loop.refuse == 1.0 and plan.id in loop.scheduler._components.of(Moves).ended
        loop.die = loop.refuse = 0.0
        # Time enough for a plan that goes on, and for its limit.
        loop.run_until(loop.cluster.now + 1200 * SECOND)
        check(loop)
        outcome = loop.scheduler._components.of(Moves).ended[plan.id].outcome
        assert outcome == FAILED if all_refused else outcome in (DONE, FAILED)
        assert not (all_refused and loop.evicted)


A3 = {"huawei.com/schedule_policy": "chip2-node16-sp", "sp-block": "32"}


def whole_job(kind: str) -> tuple[MortalLoop, list[str]]:
    """A job that switches, SuperPoDs or racks place, and nodes to which it can move."""
    cluster = EmbeddedCluster(now=1000 * SECOND)
    settings: dict[str, Any]
    if kind == "switches":
        fleet = make_fleet(8, "910-x8", leaf_size=4)
        job = vcjob("whole", 3, 8, {"tor-affinity": "large-model-schema"})
        settings = {"nslb_version": "2.0"}
    else:
        fleet = make_fleet(16, "a3-x16-superpod", superpod_size=8)
        job = vcjob("whole", 4, 16, {}, A3)
        settings = {"super_pod_size": 8, "reserve_nodes": 1}
    cluster.submit_all([*fleet.nodes, *fleet.reports])
    if fleet.topology is not None:
        cluster.submit(fleet.topology)
    cluster.submit(Queue("default"))
    loop = MortalLoop(cluster, **settings)
    cluster.submit(job)
    loop.run_until(cluster.now + 10 * SECOND)
    used = {pod.node for pod in cluster.all(Pod)}
    free = [node.name for node in fleet.nodes if node.name not in used]
    # Under the other switch, or in the other SuperPoD: the last ones.
    return loop, free[-len(used) :]


@pytest.mark.parametrize("kind", ["switches", "superpods"])
@pytest.mark.parametrize("dies", [False, True])
def test_M1_a_job_that_is_placed_as_a_whole_moves_to_its_places(kind: str, dies: bool) -> None:
    loop, targets = whole_job(kind)
    cluster = loop.cluster
    pods = sorted(cluster.all(Pod), key=lambda pod: pod.name)
    assert not {pod.node for pod in pods} & set(targets)
    # Too many for the cluster: it waits in any case, and nothing is kept for it.
    cluster.submit(vcjob("waits", 40, pods[0].cls.chips, {}, A3 if kind == "superpods" else {}))
    loop.run_until(cluster.now + 10 * SECOND)
    waiting = next(job for job in loop.scheduler.view.jobs.values() if job.name == "waits")
    old = tuple(PlannedPod(pod.uid, pod.key, pod.node or "", pod.holds) for pod in pods)
    new = tuple(replace(one, node=node) for one, node in zip(old, targets, strict=True))
    move = PlannedMove(f"default/{pods[0].group}", new, old, 1)
    loop.carried_out, loop.dies_at = 0, 3 if dies else None
    cluster.submit(MovePlan("by-hand", waiting.key, (), (move,), 1, approval=APPROVED))
    loop.run_until(cluster.now + 60 * SECOND)
    moved = sorted(
        (pod for pod in cluster.all(Pod) if pod.name.startswith("whole")), key=lambda pod: pod.name
    )
    assert {pod.node for pod in moved} == set(targets)
    assert all(pod.phase == "Running" for pod in moved)
    assert not {pod.uid for pod in moved} & {pod.uid for pod in pods}
    job = next(job for job in loop.scheduler.view.jobs.values() if job.name == "whole")
    # No clock of F2, and nothing remembered of the old places.
    assert job.clock is None
    assert cluster.alarms == []
    loop.run_until(cluster.now + 200 * SECOND)
    ended = loop.scheduler._components.of(Moves).ended["by-hand"]
    assert (ended.outcome, ended.why.endswith("did not start within 2m")) == (FAILED, True)
    assert {pod.node for pod in cluster.all(Pod) if pod.name.startswith("whole")} == set(targets)
    assert job.previous_nodes == {}
