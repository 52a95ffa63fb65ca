"""Random storms of faults in virtual time, with the real controller: what docs/guides/faults.md promises.

Chips, nodes and the switches of nodes break and heal, the API server refuses bindings and deletions, and the
scheduler dies between two commands. `RINGWISE_STORMS` runs more storms than the few of `make test`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.controller.machine import Controller
from ringwise.durations import SECOND
from ringwise.embed.clock import VirtualClock
from ringwise.embed.cluster import EmbeddedCluster
from ringwise.embed.fleets import make_fleet
from ringwise.embed.kubelet import SimulationSettings
from ringwise.embed.loop import Decider, EmbeddedLoop
from ringwise.embed.objects import TableWatch
from ringwise.framework.configuration import Configuration
from ringwise.messages.commands import Command, DeletePod
from ringwise.messages.events import Event, EvictFailed
from ringwise.state.model import Node, NodeReport, Pod
from ringwise.state.vcjob import VcJob
from tests.builders.values import vcjob
from tests.embed.faulty import FaultyCluster, fail_next_binds, set_health
from tests.examples import sample
from tests.scheduler.rig import configuration

STORMS = int(os.environ.get("RINGWISE_STORMS", len(sample(range(4)))))
FORCE = {"fault-scheduling": "force"}
GRACE = {"fault-scheduling": "grace"}
POD_LEVEL = {**FORCE, "pod-rescheduling": "on"}
ONLY_PODS = {"huawei.com/recover_policy_path": "pod"}
A3 = {"huawei.com/schedule_policy": "chip2-node16-sp", "sp-block": "32"}
#: How long a job may take to come back and still find its nodes held (S9), with a margin.
HELD = 110 * SECOND


def switch_storm() -> tuple[EmbeddedCluster, Configuration]:
    """Six switches of four nodes; 24 nodes, of which the jobs use 12."""
    fleet = make_fleet(24, leaf_size=4)
    cluster = FaultyCluster(settings=SimulationSettings(), now=1000 * SECOND)
    cluster.submit_all([*fleet.nodes, *fleet.reports])
    assert fleet.topology is not None
    cluster.submit(fleet.topology)
    model = {**FORCE, "tor-affinity": "large-model-schema"}
    cluster.submit(vcjob("model", 6, 8, model, max_retry=1000))
    cluster.submit(vcjob("inference", 2, 8, POD_LEVEL, ONLY_PODS, max_retry=1000))
    cluster.submit(vcjob("plain", 2, 8, GRACE, max_retry=1000))
    cluster.submit(vcjob("stages", 2, 8, POD_LEVEL, max_retry=1000))
    return cluster, configuration(nslb_version="2.0", grace_over_time=20)


def superpod_storm() -> tuple[EmbeddedCluster, Configuration]:
    """Two SuperPoDs of eight nodes; two jobs with blocks of two nodes."""
    fleet = make_fleet(16, "a3-x16-superpod", superpod_size=8)
    cluster = FaultyCluster(settings=SimulationSettings(), now=1000 * SECOND)
    cluster.submit_all([*fleet.nodes, *fleet.reports])
    cluster.submit(vcjob("blocks", 4, 16, FORCE, A3, max_retry=1000))
    cluster.submit(vcjob("inference", 2, 16, POD_LEVEL, {**A3, **ONLY_PODS}, max_retry=1000))
    return cluster, configuration(super_pod_size=8, reserve_nodes=1, grace_over_time=20)


class Storm(EmbeddedLoop):
    """The loop of the lab, with an API server that refuses and a scheduler that dies between two commands."""

    def __init__(self, cluster: EmbeddedCluster, chosen: Configuration, seed: int) -> None:
        self.random = random.Random(seed)
        self.chosen = chosen
        # Whether the scheduler looks between the end of a pod and its removal.
        delay = self.random.choice([0, SECOND // 1000, 3 * SECOND])
        cluster.settings = replace(cluster.settings, removal_delay=delay)
        super().__init__(cluster, new_scheduler(chosen), Controller(), VirtualClock(cluster.now))
        #: 0 to 1.
        self.refuse = self.die = 0.0
        self._is_schedulers = False
        #: When each node was bad last.
        self.bad_since: dict[str, int] = {}
        self.bad_until: dict[str, int] = {}
        self.log: list[str] = []
        #: Job to the nodes of its pods when it was last complete, and since when it is not.
        self.complete: dict[str, dict[str, str]] = {}
        self.broken_at: dict[str, int] = {}
        #: Job to the nodes that its pods had since then.
        self.used: dict[str, set[str]] = {}
        self.checked = 0

    # -- carrying out ------------------------------------------------------------------------------------

    def _call(self, decider: Decider, watch: TableWatch, extra: list[Event], *, always: bool) -> int:
        self._is_schedulers = decider is self.scheduler
        return super()._call(decider, watch, extra, always=always)

    def _apply(self, commands: Iterable[Command]) -> None:
        for command in commands:
            if isinstance(command, DeletePod) and command.fault:
                if self.random.random() < self.refuse:
                    self._for_scheduler_only.append(EvictFailed(command.uid))
                    continue
                self._check_deletion(command)
            super()._apply([command])
            assert self.cluster.alarms == []
            if self._is_schedulers and self.random.random() < self.die:
                self.note(f"dies after {type(command).__name__}")
                self.replace_scheduler(new_scheduler(self.chosen))
                return

    def _check_deletion(self, command: DeletePod) -> None:
        pod = self.cluster.pod(command.uid)
        if pod is None:
            return
        self.note(f"deletes {pod.name} on {pod.node}, grace {command.grace}: {command.why}")
        assert pod.name == command.pod
        assert command.grace == 0 or not pod.deleting, f"{pod.name} is deleted twice"
        if pod.name.startswith("inference"):
            assert self.is_faulty(pod), f"{pod.name} is healthy, and is deleted at pod level"

    def is_faulty(self, pod: Pod) -> bool:
        """Now, or so lately that the scheduler could not know better."""
        return pod.phase == "Failed" or self.was_bad(pod.node or "", self.cluster.now)

    def was_bad(self, node: str, since: int) -> bool:
        return node in self.bad_since or self.bad_until.get(node, -1) >= since

    def note(self, text: str) -> None:
        self.log.append(f"{self.cluster.now // SECOND - 1000:>5} s  {text}")

    # -- what happens -------------------------------------------------------------------------------------

    def breaks(self, node: str) -> None:
        how = self.random.choice(["chip", "node", "switch"])
        self.note(f"{node}: {how} breaks")
        self.bad_since[node] = self.cluster.now
        self._set(node, how, healthy=False)

    def heals(self, node: str) -> None:
        self.note(f"{node} heals")
        del self.bad_since[node]
        self.bad_until[node] = self.cluster.now
        for how in ("chip", "node", "switch"):
            self._set(node, how, healthy=True)

    def _set(self, node: str, how: str, *, healthy: bool) -> None:
        match how:
            case "chip":
                set_health(self.cluster, node, tuple(range(8)), healthy=healthy)
            case "node":
                self.cluster.set_ready(node, healthy)
            case "switch":
                status = "Healthy" if healthy else "UnHealthy"
                self.cluster.submit(NodeReport(node, "switch", status))

    def one_step(self) -> None:
        nodes = [node.name for node in self.cluster.all(Node)]
        for node in [node for node in self.bad_since if self.random.random() < 0.3]:
            self.heals(node)
        used = sorted({pod.node for pod in self.cluster.all(Pod) if pod.node is not None})
        if len(self.bad_since) < 2 and self.random.random() < 0.7:
            good = [node for node in (used or nodes) if node not in self.bad_since]
            self.breaks(self.random.choice(good))
        if self.random.random() < 0.2:
            fail_next_binds(self.cluster, self.random.choice(nodes))
        self.refuse = self.random.choice([0.0, 0.0, 0.5])
        self.die = self.random.choice([0.0, 0.0, 0.05, 0.3])
        self.run_until(self.cluster.now + self.random.choice([0, 1, 3, 10, 40]) * SECOND)

    def step(self) -> int:
        total = super().step()
        self._look()
        return total

    # -- what holds -----------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Healthy pods are back on their nodes when their job is complete again."""
        for job in self.cluster.all(VcJob):
            pods = [pod for pod in self.cluster.all(Pod) if pod.name.startswith(f"{job.name}-")]
            there = {
                pod.name: pod.node for pod in pods if pod.node and pod.phase == "Running" and not pod.deleting
            }
            before = self.complete.get(job.name)
            used = self.used.setdefault(job.name, set())
            used.update(pod.node for pod in pods if pod.node)
            if len(there) < job.tasks[0].replicas:
                if before is not None:
                    self.broken_at.setdefault(job.name, self.cluster.now)
                continue
            since = self.broken_at.pop(job.name, None)
            if before is not None and since is not None and self.cluster.now - since < HELD:
                self._compare(job.name, before, there, since)
            self.complete[job.name] = {name: node or "" for name, node in there.items()}
            self.used[job.name] = {node or "" for node in there.values()}

    def _compare(
        self, job: str, before: Mapping[str, str], after: Mapping[str, str | None], since: int
    ) -> None:
        bad = {name for name, node in before.items() if self.was_bad(node, since - 60 * SECOND)}
        moved = {name for name in before if before[name] != after[name]}
        self.checked += 1
        used = self.used[job] - {after[name] for name in moved}
        if job == "model" and len({int((node or "")[5:]) // 4 for node in used}) > 2:
            # S4, S5: it uses as many shared switches as it may, so it may have to be placed anew.
            return
        if job == "blocks":
            # P7: a block that cannot be refilled moves as a whole.
            bad |= {name for name in before for other in bad if _block(name) == _block(other)}
        assert moved <= bad, (f"{job}: {before} -> {dict(after)}, bad {sorted(bad)}", self.log[-40:])


def _block(pod: str) -> int:
    return int(pod.rpartition("-")[2]) // 2


@pytest.mark.parametrize("make", [switch_storm, superpod_storm])
# 59: pods are deleted in the turn in which others that were lost before are confirmed. 82: the deletion of a
# pod is refused, and the pod fails meanwhile.
@pytest.mark.parametrize("seed", [*range(STORMS), 59, 82])
def test_S9_P7_F1_storms_of_faults(make: Callable[[], tuple[Any, Any]], seed: int) -> None:
    cluster, chosen = make()
    storm = Storm(cluster, chosen, seed)
    storm.run_until(cluster.now + 10 * SECOND)
    assert all(job.phase == "Running" for job in cluster.all(VcJob)), storm.log
    for _ in range(12):
        storm.one_step()
    storm.refuse = storm.die = 0.0
    for node in list(storm.bad_since):
        storm.heals(node)
    storm.run_until(cluster.now + 900 * SECOND)
    assert cluster.alarms == []
    for job in cluster.all(VcJob):
        pods = [pod for pod in cluster.all(Pod) if pod.name.startswith(f"{job.name}-")]
        running = sum(pod.phase == "Running" and pod.node is not None for pod in pods)
        # Everything is healed, so nothing may still be a reason to wait.
        assert running == job.tasks[0].replicas, (job.name, storm.log[-40:])


@pytest.mark.full
def test_storms_check_something() -> None:
    checked = 0
    for seed in range(3):
        cluster, chosen = switch_storm()
        storm = Storm(cluster, chosen, seed)
        storm.run_until(cluster.now + 10 * SECOND)
        for _ in range(8):
            storm.one_step()
        checked += storm.checked
    assert checked > 3
