"""`ringwise bench soak`: a long life of a cluster in virtual time; memory must follow what is live.

Nodes, pods, pod specs, PodGroups, queues, priority classes and device reports come and go with names and
values that were never used before, while their number stays the same. They are read from the bytes of an API
server by the scheduler's own readers, decided by its core, and its bindings come back as news of the pods.
"""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections import deque
from collections.abc import Iterable
from dataclasses import field
from itertools import cycle

from ringwise.messages.events import Event
from ringwise.records import dataclass
from ringwise.wellknown import (
    ASCEND910,
    DEVICE_INFO_PREFIX,
    GROUP_NAME,
    HOSTNAME,
    KUBE_SYSTEM,
    VOLCANO_SCHEDULER,
)
from ringwise_bench.object_feed import CREATED, SECOND, START, ObjectFeed, Plain, device_report, node_body
from ringwise_bench.report import Figure, at_most, shown

EVENTS = 100_000
NODES, JOBS, QUEUES = 400, 480, 10
#: Jobs that end and begin in one turn of the scheduler.
_JOBS_A_TURN = 16
#: Running pods whose status changes in one turn: on a cluster most events are of this kind.
_STATUSES_A_TURN = 40
#: Pods and chips of a pod. Three chips are refused.
_SIZES = ((1, 1), (1, 2), (1, 3), (1, 4), (1, 8), (2, 8))
#: Memory at the end over that after the first tenth.
MAX_GROWTH = 1.1
_MIB = 1 << 20
_ENDS = ("Failed", "Succeeded")


@dataclass(slots=True)
class _Job:
    group: str
    spec: Plain = field(default_factory=dict)
    pods: list[str] = field(default_factory=list)


class Soak:
    """A cluster whose objects come and go; the number of each kind stays the same."""

    def __init__(self, nodes: int = NODES, jobs: int = JOBS, queues: int = QUEUES) -> None:
        self._random = random.Random(1)
        self._feed = ObjectFeed()
        self._jobs: deque[_Job] = deque()
        self._nodes: deque[str] = deque()
        self._queues: deque[str] = deque()
        self._sizes = cycle(_SIZES)
        self._turn = 0
        self._numbers = 0
        self._deliver([event for _ in range(queues) for event in self._new_queue()])
        self._deliver([event for _ in range(nodes) for event in self._new_node()])
        while len(self._jobs) < jobs:
            self._deliver(self._new_job())

    @property
    def events(self) -> int:
        return self._feed.events

    @property
    def bound(self) -> int:
        return self._feed.bound

    def live(self) -> int:
        """Objects that exist now."""
        return len(self._feed.objects)

    def defects(self) -> list[str]:
        """What differs from a recount of the scheduler's tables."""
        return self._feed.scheduler.view.inconsistencies()

    def run(self, until: int) -> None:
        """Turns of cluster life until so many events have been delivered."""
        while self.events < until:
            self._turn += 1
            events: list[Event] = []
            for _ in range(_JOBS_A_TURN):
                events += [*self._end_job(), *self._new_job()]
            events += [*self._end_node(), *self._new_node()]
            if self._turn % 4 == 0:
                events += [*self._end_queue(), *self._new_queue()]
            self._deliver(events)
            self._deliver(self._statuses())

    # -- objects -------------------------------------------------------------------------

    def _name(self, kind: str) -> str:
        self._numbers += 1
        return f"{kind}-{self._numbers}"

    def _new_queue(self) -> list[Event]:
        name = self._name("queue")
        self._queues.append(name)
        priority = {"metadata": {"name": name}, "value": self._random.randrange(1000)}
        queue = {"metadata": {"name": name}, "spec": {"weight": self._random.randint(1, 5)}}
        return [*self._feed.put("PriorityClass", priority), *self._feed.put("Queue", queue)]

    def _end_queue(self) -> list[Event]:
        name = self._queues.popleft()
        return [*self._feed.remove("Queue", name), *self._feed.remove("PriorityClass", name)]

    def _new_node(self) -> list[Event]:
        name = self._name("node")
        self._nodes.append(name)
        labels = {HOSTNAME: name, "zone": f"z{self._random.randrange(3)}"}
        body = node_body(name, labels, address=f"10.1.{self._numbers % 251}.7")
        report = device_report(name, seconds=START // SECOND + self._turn)
        return [*self._feed.put("ConfigMap", report), *self._feed.put("Node", body)]

    def _end_node(self) -> list[Event]:
        """A node is deleted with its report and its pods; a controller creates the pods again."""
        name = self._nodes.popleft()
        events: list[Event] = []
        for job in self._jobs:
            for key in [key for key in job.pods if self._feed.bodies[key]["spec"].get("nodeName") == name]:
                events += [*self._end_pod(job, key), *self._new_pod(job, key)]
        events += self._feed.remove("ConfigMap", f"{KUBE_SYSTEM}/{DEVICE_INFO_PREFIX}{name}")
        return [*events, *self._feed.remove("Node", name)]

    def _new_job(self) -> list[Event]:
        name = self._name("job")
        pods, chips = next(self._sizes)
        created = {"creationTimestamp": CREATED, "namespace": "team"}
        group: Plain = {
            "metadata": {"name": name, "uid": name, **created},
            "spec": {"minMember": pods, "queue": self._random.choice(self._queues)},
            "status": {"phase": "Inqueue"},
        }
        job = _Job(f"team/{name}")
        self._jobs.append(job)
        events = self._feed.put("PodGroup", group)
        # Values and label keys that no pod had before: every job is a spec of its own.
        limits = {ASCEND910: chips, "cpu": f"{1000 + self._numbers}m", "memory": f"{self._numbers}Ki"}
        wanted = {"matchExpressions": [{"key": f"example.com/{name}", "operator": "DoesNotExist"}]}
        required = {"nodeSelectorTerms": [wanted]}
        spec = {
            "schedulerName": VOLCANO_SCHEDULER,
            "containers": [{"name": "main", "resources": {"limits": limits}}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        }
        job.spec = spec
        for number in range(pods):
            events += self._new_pod(job, f"team/{name}-{number}")
        return events

    def _new_pod(self, job: _Job, key: str) -> list[Event]:
        meta = {"name": key.partition("/")[2], "namespace": "team", "uid": self._name("uid")}
        meta["creationTimestamp"] = CREATED
        annotations = {GROUP_NAME: job.group.partition("/")[2]}
        body: Plain = {"metadata": {**meta, "annotations": annotations}, "spec": dict(job.spec)}
        job.pods.append(key)
        return self._feed.put_pod(body)

    def _end_job(self) -> list[Event]:
        """The oldest job ends: its pods succeed or fail and are deleted, its group with them."""
        job = self._jobs.popleft()
        events: list[Event] = []
        for key in list(job.pods):
            body = self._feed.bodies[key]
            if "nodeName" in body["spec"]:
                events += self._feed.put("Pod", {**body, "status": {"phase": self._random.choice(_ENDS)}})
            events += self._end_pod(job, key)
        return [*events, *self._feed.remove("PodGroup", job.group)]

    def _statuses(self) -> list[Event]:
        """Containers of running pods restart."""
        running = [key for key, body in self._feed.bodies.items() if "status" in body]
        events: list[Event] = []
        for key in self._random.sample(running, min(_STATUSES_A_TURN, len(running))):
            body = self._feed.bodies[key]
            body["status"] = {"phase": "Running", "containerStatuses": [{"restartCount": self._turn}]}
            events += self._feed.put("Pod", body)
        return events

    def _end_pod(self, job: _Job, key: str) -> list[Event]:
        job.pods.remove(key)
        return self._feed.remove_pod(key)

    def _deliver(self, events: Iterable[Event]) -> None:
        self._feed.now = START + self._turn * SECOND
        self._feed.deliver(events)


def run(full: bool = False) -> list[Figure]:
    """`full` lives ten times as long."""
    total = EVENTS * 10 if full else EVENTS
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start(1)
    try:
        soak = Soak()
        soak.run(total // 10)
        first, live = _traced(), soak.live()
        soak.run(total)
        last = _traced()
    finally:
        if not tracing:
            tracemalloc.stop()
    return [
        shown("events", soak.events, ""),
        shown("pods bound", soak.bound, ""),
        shown("live objects after the first tenth", live, ""),
        shown("live objects at the end", soak.live(), ""),
        shown("traced memory after the first tenth", first / _MIB, "MiB"),
        shown("traced memory at the end", last / _MIB, "MiB"),
        at_most("memory at the end over that after the first tenth", last / first, "x", MAX_GROWTH),
        at_most("entries that differ from a recount", len(soak.defects()), "", 0),
    ]


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
