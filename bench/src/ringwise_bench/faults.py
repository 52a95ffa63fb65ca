"""`ringwise bench faults`: what a fault costs the scheduler, beside placing a gang of the same size.

Gangs of four pods, each with a whole node, fill four fifths of the cluster. A chip breaks, the pods that
have to move are deleted and created again, and are bound; then the chip heals. What is timed is the scheduler
alone: the processor time of every turn from the report of the fault to the confirmation of the last binding.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from statistics import median

from ringwise.apps.extensions import new_scheduler
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Command, DeletePod
from ringwise.records import dataclass
from ringwise.state.model import DeviceReport, Node, Pod, PodClass, PodGroup
from ringwise.wellknown import ASCEND910, FAULT_SCHEDULING, POD_RESCHEDULING, RANK_INDEX
from ringwise_bench.report import Figure, at_most, shown

SECOND = 1_000_000_000
PODS = 4
_CLASS = PodClass(resource=ASCEND910, chips=8, cpu_milli=32_000, memory=8 << 30)
_LEVELS: Mapping[str, Mapping[str, str]] = {
    "one pod": {FAULT_SCHEDULING: "force", POD_RESCHEDULING: "on"},
    "the whole job": {FAULT_SCHEDULING: "force"},
}


@dataclass(frozen=True, slots=True)
class FaultCosts:
    """Medians in seconds."""

    #: Placing one gang.
    gang: float
    #: By what is restarted.
    faults: Mapping[str, float]


class _Cluster:
    """A scheduler, and the objects that an API server would have."""

    def __init__(self, nodes: int) -> None:
        self.scheduler = new_scheduler()
        self.now = SECOND
        self.pods: dict[str, Pod] = {}
        self._events: list[ev.Event] = []
        self._serial = 0
        offer = {ASCEND910: 8}
        for number in range(nodes):
            name = f"node-{number}"
            node = Node(
                name,
                chips_allocatable=offer,
                chips_capacity=offer,
                cpu_milli=192_000,
                memory=1 << 40,
                max_pods=110,
            )
            self._events.append(ev.NodeSeen(node))
            self.report(name, 0)
        self.turn()
        self.scheduler.prepare(self.now)

    def report(self, node: str, unhealthy: int) -> None:
        free = 0xFF & ~unhealthy
        self._events.append(
            ev.ReportSeen(DeviceReport(node, ASCEND910, free=free, unhealthy=unhealthy, network_unhealthy=0))
        )

    def submit(self, name: str, labels: Mapping[str, str]) -> None:
        self._serial += 1
        group = PodGroup(
            "bench",
            name,
            uid=name,
            min_member=PODS,
            phase="Inqueue",
            created=self._serial,
            labels=dict(labels),
        )
        self._events.append(ev.PodGroupSeen(group))
        for index in range(PODS):
            self._create(
                Pod(
                    "", "bench", f"{name}-{index}", _CLASS, labels=dict(labels), group=name, chip_containers=1
                )
            )

    def _create(self, pod: Pod) -> None:
        self._serial += 1
        new = replace(pod, uid=f"{pod.name}.{self._serial}", created=self._serial)
        self.pods[pod.name] = new
        self._events.append(ev.PodSeen(new))

    def turn(self) -> float:
        """One turn, and what follows of its commands as events of the next; seconds of the scheduler."""
        self.now += SECOND // 100
        events, self._events = self._events, []
        started = time.thread_time()
        commands = self.scheduler.handle(events, self.now)
        seconds = time.thread_time() - started
        self._carry_out(commands)
        return seconds

    def settle(self) -> float:
        """Turns until there are no more events."""
        seconds = 0.0
        while self._events:
            seconds += self.turn()
        return seconds

    def _carry_out(self, commands: Iterable[Command]) -> None:
        for command in commands:
            if isinstance(command, Bind):
                pod = self.pods[command.pod]
                rank = next(
                    (int(text) for key, text in command.annotations.items() if key == RANK_INDEX), pod.rank
                )
                self.pods[pod.name] = bound = replace(
                    pod,
                    node=command.node,
                    holds=command.chips,
                    annotations=command.annotations,
                    rank=rank,
                    phase="Running",
                )
                self._events.append(ev.PodSeen(bound))
            elif isinstance(command, DeletePod):
                pod = self.pods.pop(command.pod)
                self._events.append(ev.PodGone(pod.uid))
                self._create(replace(pod, node=None, holds=(), annotations={}, rank=None, phase="Pending"))


def measure(nodes: int, faults: int) -> FaultCosts:
    """A fifth of the nodes stays free; half of the jobs restart as a whole, half lose a pod."""
    cluster = _Cluster(nodes)
    jobs = nodes // 5
    gangs: list[float] = []
    levels = list(_LEVELS)
    names: dict[str, list[str]] = {level: [] for level in levels}
    for number in range(jobs):
        level = levels[number % 2]
        cluster.submit(f"job-{number}", _LEVELS[level])
        names[level].append(f"job-{number}")
        gangs.append(cluster.settle())
    gc.collect()
    gc.freeze()
    costs: dict[str, list[float]] = {level: [] for level in levels}
    for number in range(faults):
        level = levels[number % 2]
        job = names[level][number // 2 % len(names[level])]
        # Not rank 0: that one restarts the whole job.
        pod = cluster.pods[f"{job}-{1 + number // 2 % (PODS - 1)}"]
        node = pod.node or ""
        cluster.report(node, 1)
        costs[level].append(cluster.settle())
        if cluster.pods[pod.name].node in (None, node):
            raise RuntimeError(f"{pod.name} was not placed elsewhere")
        cluster.report(node, 0)
        cluster.settle()
    gc.unfreeze()
    return FaultCosts(median(gangs), {level: median(found) for level, found in costs.items()})


def run(full: bool = False) -> list[Figure]:
    faults = 4_000 if full else 1_000
    large = measure(10_000, faults)
    small = measure(1_000, faults)
    results = [shown("placing a gang of 4 pods on 10,000 nodes, 2,000 jobs", large.gang * 1e6, "us")]
    for level, seconds in large.faults.items():
        results.append(shown(f"a fault that restarts {level}", seconds * 1e6, "us"))
        results.append(at_most(f"{level}: over placing a gang", seconds / large.gang, "x", 20))
        results.append(at_most(f"{level}: 10,000 nodes over 1,000", seconds / small.faults[level], "x", 1.5))
    return results
