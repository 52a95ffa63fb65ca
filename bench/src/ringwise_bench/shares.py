"""What a decision for a soft share or a dynamic vNPU costs, by the number of nodes of its allocation mode.

Every decision is the first one for its percentage or memory, so that it looks at all nodes of the mode.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator

from ringwise.apps.extensions import new_scheduler
from ringwise.durations import SECOND
from ringwise.embed.fleets import make_mixed_fleet
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind
from ringwise.scheduler.core.machine import Scheduler
from ringwise.state.model import Pod, PodClass
from ringwise.wellknown import (
    AICORE_QUOTA,
    ASCEND910,
    ASCEND_REAL,
    HBM_QUOTA,
    NPU_CORE,
    RING_CONTROLLER,
    SCHEDULE_POLICY,
    SHARE_POLICY,
)
from ringwise_bench.report import Figure, at_most, shown

#: Pods that run on each node.
_RUNNING = 8
_NODES = (50, 1_000)
_LARGER = 20


class _Feed:
    """A scheduler that decides about one pod after the other."""

    def __init__(self, whole: int, pod: Callable[[int, str | None], Pod], **of_mode: int) -> None:
        self.scheduler: Scheduler = new_scheduler()
        self.now = 10**18
        self._pod = pod
        self._serial = 0
        fleet = make_mixed_fleet((("910b-x8", whole),) if whole else (), **of_mode)
        events: list[ev.Event] = [ev.NodeSeen(node) for node in fleet.nodes]
        events += map(ev.ReportSeen, fleet.reports)
        for node in fleet.nodes[whole:]:
            events += map(ev.PodSeen, self._made(_RUNNING, node.name))
        self.scheduler.handle(events, self.now)

    def _made(self, count: int, node: str | None) -> Iterator[Pod]:
        for _ in range(count):
            self._serial += 1
            yield self._pod(self._serial, node)

    def decide(self) -> float:
        """Return the seconds of one decision; afterwards the pod is gone."""
        (pod,) = self._made(1, None)
        self.now += SECOND
        started = time.process_time()
        commands = self.scheduler.handle([ev.PodSeen(pod)], self.now)
        took = time.process_time() - started
        assert any(isinstance(one, Bind) for one in commands), "the pod must fit"
        self.scheduler.handle([ev.PodGone(pod.uid)], self.now)
        return took


def _share(serial: int, node: str | None) -> Pod:
    values = {AICORE_QUOTA: "5", HBM_QUOTA: str(100 + serial), SHARE_POLICY: "elastic"}
    notes: dict[str, str] = {SCHEDULE_POLICY: "chip1-softShareDev"}
    if node is not None:
        chip = f"Ascend910-{serial % 8}"
        notes |= {ASCEND910: chip, ASCEND_REAL: chip, **values}
    cls = PodClass(resource=ASCEND910, chips=5, cpu_milli=100)
    return _pod(serial, node, cls, values, notes)


def _vnpu(serial: int, node: str | None) -> Pod:
    chip = serial % 8
    notes = {NPU_CORE: f"{chip}-vir01", ASCEND_REAL: f"Ascend310P-1c-{100 + chip}-{chip}_0"} if node else {}
    # Milli-cores that differ, so that no earlier answer is used again.
    cls = PodClass(resource=NPU_CORE, chips=1, cpu_milli=100 + serial % 97)
    return _pod(serial, node, cls, {RING_CONTROLLER: "ascend-310P"}, notes)


def _pod(serial: int, node: str | None, cls: PodClass, labels: dict[str, str], notes: dict[str, str]) -> Pod:
    phase = "Running" if node is not None else "Pending"
    return Pod(
        f"p{serial}", "bench", f"p{serial}", cls, labels=labels, annotations=notes, node=node, phase=phase
    )


def measured(*, full: bool = False) -> list[Figure]:
    rounds = 200 if full else 40
    results: list[Figure] = []
    for word, mode, pod in (("share", "soft", _share), ("vNPU", "dynamic", _vnpu)):
        feeds = [
            _Feed(whole, pod, **{mode: nodes})
            for whole, nodes in ((0, _NODES[0]), (0, _NODES[1]), (_NODES[1], _NODES[0]))
        ]
        took: list[list[float]] = [[] for _ in feeds]
        order = list(range(len(feeds)))
        for _ in range(rounds):
            # In turns: the machine is shared.
            random.Random(len(took[0])).shuffle(order)
            for position in order:
                took[position].append(feeds[position].decide())
        few, many, beside = (statistics.median(one) * 1e6 for one in took)
        results.append(shown(f"decision for a {word} with {_NODES[0]} nodes of its mode", few, "us"))
        results.append(shown(f"decision for a {word} with {_NODES[1]:,} nodes of its mode", many, "us"))
        title = f"cost of a {word} with {_NODES[1]:,} nodes of its mode over {_NODES[0]}"
        results.append(at_most(title, many / few, "x", _LARGER))
        title = f"cost of a {word} beside {_NODES[1]:,} nodes with whole chips over none"
        results.append(at_most(title, beside / few, "x", 1.5))
    return results
