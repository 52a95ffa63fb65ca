"""Random turns with jobs of many kinds, faults and moves: the invariants (`tests/invariants`) judge them.

Other drivers assert more about less. This one only has to reach many states, and says that it did.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ringwise.messages import events as ev
from ringwise.messages.commands import Command, RemoveQueueGate
from ringwise.messages.move_plan import APPROVED
from ringwise.scheduler.defragment.search import find_plans
from ringwise.state.limits import RUNNING_JOBS, UsageLimit
from ringwise.state.model import Isolation, Owner
from ringwise.topology.chips import chip_names
from tests import invariants
from tests.builders.values import CHIP, report
from tests.examples import sample
from tests.scheduler.faults.fault_rig import POD_LEVEL
from tests.scheduler.rig import ACTIONS, PLAIN, Rig, gangs_may_end, with_capacity

#: The first one alone reaches all that is counted.
SEEDS = (3, 2, 1)
#: Milli-cores that the queue `gated` may use.
CPU = 4000
SHAPES = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (3, 8))
SETTINGS: dict[str, Any] = {"reservation_after": 20, "grace_over_time": 15, "hold_healthy_nodes": 30}


class Cluster:
    """Nodes that break and heal, and owners that create their pods again."""

    def __init__(self, seed: int, **more: Any) -> None:
        self.random = random.Random(seed)
        self.rig = Rig(5, **SETTINGS, **more)
        self.rig.queue("capped", capability={CHIP: 16})
        self.rig.queue("gated", capability={"cpu": CPU})
        self.rig.queue("limited")
        hard = {CHIP: 8, RUNNING_JOBS: 3}
        self.rig.tell(UsageLimit("few", queue="limited", hard=hard, borrowing={CHIP: 8}))
        self.rig.priority("high", 100)
        self.isolated: dict[str, Isolation] = {}
        self.jobs = 0
        self.seen: Counter[str] = Counter()

    # -- what happens ------------------------------------------------------------------------------

    def submit(self) -> None:
        self.jobs += 1
        pods, chips = self.random.choice(SHAPES)
        spare = self.random.randint(0, 1) if pods > 1 else 0
        self.rig.submit(
            f"j{self.jobs}",
            pods=pods,
            chips=chips,
            min_available=pods - spare,
            queue=self.random.choice(("default", "default", "capped", "limited")),
            priority=self.random.choice(("", "high")),
            preemptable=self.random.random() < 0.5,
            expected=self.random.choice(("", "10s", "60s")),
            labels=self.random.choice((None, POD_LEVEL)),
            owner=Owner("Sample", f"j{self.jobs}", f"owner-{self.jobs}"),
        )

    def submit_gated(self) -> None:
        """Pods behind the gate of their queue, or behind one of their user."""
        self.jobs += 1
        name, cpu = f"j{self.jobs}", self.random.choice((1000, 2000, 4000))
        self.rig.submit(name, chips=0, queue="gated", cpu_milli=cpu)
        group = replace(self.rig.groups[f"default/{name}"], min_resources={"cpu": cpu})
        self.rig.groups[group.key] = group
        self.rig.tell(ev.PodGroupSeen(group))
        gated = self.random.random() < 0.8
        self.rig.change(f"{name}-0", gated=gated, queue_gated=gated and self.random.random() < 0.8)

    def end_job(self) -> None:
        if names := sorted({pod.group for pod in self.rig.pods.values() if pod.group}):
            self.rig.end(self.random.choice(names))

    def delete_pods(self) -> None:
        """One or more of a job, which then end one after the other."""
        if running := sorted(name for name, pod in self.rig.pods.items() if pod.node is not None):
            chosen = self.random.choice(running)
            for name in running:
                same = self.rig.pods[name].group == self.rig.pods[chosen].group
                if name == chosen or (same and self.random.random() < 0.7):
                    self.rig.change(name, deleting=True)

    def leave(self) -> None:
        """Pods that are being deleted end with any exit code, or are gone at once; some are created again."""
        for name in sorted(name for name, pod in self.rig.pods.items() if pod.deleting):
            if self.random.random() < 0.3:
                continue
            if self.random.random() < 0.5:
                self.rig.change(name, phase=self.random.choice(("Succeeded", "Failed")))
            uid = self.rig.pods[name].uid
            if self.random.random() < 0.3:
                continue
            self.rig.tell(ev.PodGone(uid))
            if self.random.random() < 0.8 and f"default/{self.rig.pods[name].group}" in self.rig.groups:
                self.rig.replacement(name)
            else:
                del self.rig.pods[name]

    def fail_pod(self) -> None:
        if names := sorted(name for name, pod in self.rig.pods.items() if pod.node is not None):
            self.rig.change(self.random.choice(names), phase=self.random.choice(("Failed", "Succeeded")))

    def node(self) -> None:
        name = f"n{self.random.randint(1, 5)}"
        state = self.random.choice(("good", "good", "good", "good", "not ready", "cordoned"))
        self.rig.node(name, ready=state != "not ready", unschedulable=state == "cordoned")

    def report(self) -> None:
        name = f"n{self.random.randint(1, 5)}"
        bad = self.random.choice((0xF0, 0x0F, 1, 1 << self.random.randint(0, 7)))
        sick, recovering = self.random.choice(((0, 0), (0, 0), (bad, 0), (0, bad)))
        self.rig.tell(ev.ReportSeen(report(name, unhealthy=sick, recovering=recovering)))

    def isolate(self) -> None:
        name, number = f"n{self.random.randint(1, 5)}", self.random.randint(0, 7)
        if self.isolated and self.random.random() < 0.7:
            name = self.random.choice(sorted(self.isolated))
            del self.isolated[name]
            self.rig.tell(ev.IsolationGone(name))
        elif self.random.random() < 0.5:
            self.isolated[name] = Isolation(name, name=name)
        else:
            self.isolated[name] = Isolation(name, (chip_names(CHIP, (number,)),), name=name)
        self.rig.tell(*self.isolated.values())

    def move(self) -> None:
        plans, _ = find_plans(self.rig.machine.view, self.rig.now)
        for number, plan in enumerate(plans):
            sent = replace(plan, id=f"plan-{self.jobs}-{number}-{self.rig.now}", approval=APPROVED)
            self.rig.tell(ev.MovePlanSeen(sent))

    # -- turns -------------------------------------------------------------------------------------

    def turn(self) -> None:
        deeds: tuple[tuple[Callable[[], None], int], ...] = (
            (self.submit, 20),
            (self.submit_gated, 4),
            (self.end_job, 6),
            (self.delete_pods, 6),
            (self.fail_pod, 2),
            (self.node, 5),
            (self.report, 8),
            (self.isolate, 3),
            (self.move, 2),
        )
        chosen, weights = zip(*deeds, strict=True)
        for deed in self.random.choices(chosen, weights=weights, k=self.random.randint(1, 3)):
            deed()
        if self.random.random() < 0.6:
            self.leave()
        failing = [name for name, pod in self.rig.pods.items() if pod.node is None][:1]
        seconds = self.random.choice((0, 1, 1, 5, 21, 40))
        self._after(self.rig.step(seconds, fail=failing if self.random.random() < 0.1 else ()))
        invariants.check(self.rig.machine, invariants.SAMPLED)

    def _after(self, commands: list[Command]) -> None:
        view = self.rig.machine.view
        self.seen.update(type(command).__name__ for command in commands)
        self.seen["plans"] += len(view.history.moves.plans)
        self.seen["shares"] += len(view.jobs_with_reserved_quota("capped"))
        self.seen.update(reservation.why for reservation in view.reservations)
        for command in commands:
            if isinstance(command, RemoveQueueGate) and command.pod in self.rig.pods:
                self.rig.change(command.pod, gated=False, queue_gated=False)


@pytest.mark.parametrize(
    "more",
    [
        {"actions": PLAIN},
        {"actions": PLAIN, "tiers": with_capacity()},
        {"actions": ACTIONS, "tiers": gangs_may_end()},
        {"actions": ("enqueue", "allocate", "gangpreempt", "gangreclaim", "backfill")},
    ],
    ids=["plain", "capacity", "evicting", "gang-evicting"],
)
def test_random_turns_keep_the_invariants(more: dict[str, Any]) -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS[: len(sample(SEEDS))]:
        cluster = Cluster(seed, **more)
        for _ in range(60):
            cluster.turn()
        seen += cluster.seen
    assert all(seen[what] for what in ("Bind", "RemoveQueueGate", "DeletePod", "waited long", "shares")), seen
