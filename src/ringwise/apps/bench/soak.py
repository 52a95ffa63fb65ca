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
from typing import Any

import msgspec

from ringwise.apps.bench.report import at_most, shown
from ringwise.apps.extensions import new_scheduler
from ringwise.kube.watch.config_map_readers import ReportReader
from ringwise.kube.watch.objects import KeyedObjects, change_events, deletion_events
from ringwise.kube.watch.readers import (
    GroupReader,
    NodeReader,
    ObjectReader,
    PodReader,
    PriorityReader,
    QueueReader,
)
from ringwise.manifests.errors import Findings
from ringwise.manifests.pods import PodClassCache
from ringwise.messages.commands import Bind
from ringwise.messages.events import Event
from ringwise.records import dataclass
from ringwise.views.bench import Measured
from ringwise.wellknown import (
    ASCEND910,
    DEVICE_INFO_KEY,
    DEVICE_INFO_PREFIX,
    GROUP_NAME,
    HOSTNAME,
    KUBE_SYSTEM,
    VOLCANO_SCHEDULER,
)

EVENTS = 100_000
NODES, JOBS, QUEUES = 400, 480, 10
#: Jobs that end and begin in one turn of the scheduler.
_JOBS_A_TURN = 16
#: Running pods whose status changes in one turn: on a cluster most events are of this kind.
_STATUSES_A_TURN = 40
#: Pods and chips of a pod. Three chips are refused.
_SIZES = ((1, 1), (1, 2), (1, 3), (1, 4), (1, 8), (2, 8))
#: Memory at the end over that after the first tenth.
MOST_GROWTH = 1.1
#: Virtual time between two turns of the scheduler.
_STEP = 1_000_000_000
_START = 1_700_000_000 * _STEP
_MIB = 1 << 20
_ENDS = ("Failed", "Succeeded")
_CREATED = "2025-01-31T08:00:00Z"

Plain = dict[str, Any]


@dataclass(slots=True)
class _Job:
    group: str
    spec: Plain = field(default_factory=dict)
    pods: list[str] = field(default_factory=list)


class Soak:
    """A cluster whose objects come and go; the number of each kind stays the same."""

    def __init__(self, nodes: int = NODES, jobs: int = JOBS, queues: int = QUEUES, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._scheduler = new_scheduler()
        self._readers: dict[str, ObjectReader[Any]] = {
            "Node": NodeReader(),
            "Pod": PodReader(PodClassCache()),
            "PodGroup": GroupReader({}),
            "Queue": QueueReader({}),
            "PriorityClass": PriorityReader(),
            "ConfigMap": ReportReader(),
        }
        self._objects: dict[tuple[str, str], KeyedObjects] = {}
        self._bodies: dict[str, Plain] = {}
        self._key_of_uid: dict[str, str] = {}
        self._jobs: deque[_Job] = deque()
        self._nodes: deque[str] = deque()
        self._queues: deque[str] = deque()
        self._sizes = cycle(_SIZES)
        self._turn = 0
        self._numbers = 0
        self.events = 0
        self.bound = 0
        self._deliver([event for _ in range(queues) for event in self._new_queue()])
        self._deliver([event for _ in range(nodes) for event in self._new_node()])
        while len(self._jobs) < jobs:
            self._deliver(self._new_job())

    def live(self) -> int:
        """Objects that exist now."""
        return len(self._objects)

    def defects(self) -> list[str]:
        """What differs from a recount of the scheduler's tables."""
        return self._scheduler.view.inconsistencies()

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

    def _put(self, kind: str, body: Plain) -> list[Event]:
        meta = body["metadata"]
        key = f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]
        found = Findings(key)
        objects = self._readers[kind].read(msgspec.Raw(msgspec.json.encode(body)), found)
        if objects is None or found.errors:
            raise RuntimeError(str(found.errors[0] if found.errors else key))
        before = self._objects.get((kind, key), ())
        self._objects[kind, key] = objects
        return list(change_events(before, objects))

    def _remove(self, kind: str, key: str) -> list[Event]:
        self._readers[kind].forget(key)
        return [event for _, value in self._objects.pop((kind, key)) for event in deletion_events(value)]

    def _new_queue(self) -> list[Event]:
        name = self._name("queue")
        self._queues.append(name)
        priority = {"metadata": {"name": name}, "value": self._random.randrange(1000)}
        queue = {"metadata": {"name": name}, "spec": {"weight": self._random.randint(1, 5)}}
        return [*self._put("PriorityClass", priority), *self._put("Queue", queue)]

    def _end_queue(self) -> list[Event]:
        name = self._queues.popleft()
        return [*self._remove("Queue", name), *self._remove("PriorityClass", name)]

    def _new_node(self) -> list[Event]:
        name = self._name("node")
        self._nodes.append(name)
        offers = {"cpu": "192", "memory": "1Ti", "pods": "110", ASCEND910: "8"}
        body = {
            "metadata": {"name": name, "labels": {HOSTNAME: name, "zone": f"z{self._random.randrange(3)}"}},
            "status": {
                "allocatable": offers,
                "capacity": offers,
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": f"10.1.{self._numbers % 251}.7"}],
            },
        }
        free = ",".join(f"Ascend910-{chip}" for chip in range(8))
        info = {"DeviceInfo": {"DeviceList": {ASCEND910: free}, "UpdateTime": _START // _STEP + self._turn}}
        report = {
            "metadata": {"name": f"{DEVICE_INFO_PREFIX}{name}", "namespace": KUBE_SYSTEM},
            "data": {DEVICE_INFO_KEY: msgspec.json.encode(info).decode()},
        }
        return [*self._put("ConfigMap", report), *self._put("Node", body)]

    def _end_node(self) -> list[Event]:
        """A node is deleted with its report and its pods; a controller creates the pods again."""
        name = self._nodes.popleft()
        events: list[Event] = []
        for job in self._jobs:
            for key in [key for key in job.pods if self._bodies[key]["spec"].get("nodeName") == name]:
                events += [*self._end_pod(job, key), *self._new_pod(job, key)]
        events += self._remove("ConfigMap", f"{KUBE_SYSTEM}/{DEVICE_INFO_PREFIX}{name}")
        return [*events, *self._remove("Node", name)]

    def _new_job(self) -> list[Event]:
        name = self._name("job")
        pods, chips = next(self._sizes)
        created = {"creationTimestamp": _CREATED, "namespace": "team"}
        group: Plain = {
            "metadata": {"name": name, "uid": name, **created},
            "spec": {"minMember": pods, "queue": self._random.choice(self._queues)},
            "status": {"phase": "Inqueue"},
        }
        job = _Job(f"team/{name}")
        self._jobs.append(job)
        events = self._put("PodGroup", group)
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
        meta["creationTimestamp"] = _CREATED
        annotations = {GROUP_NAME: job.group.partition("/")[2]}
        body: Plain = {"metadata": {**meta, "annotations": annotations}, "spec": dict(job.spec)}
        self._bodies[key] = body
        self._key_of_uid[body["metadata"]["uid"]] = key
        job.pods.append(key)
        return self._put("Pod", body)

    def _end_job(self) -> list[Event]:
        """The oldest job ends: its pods succeed or fail and are deleted, its group with them."""
        job = self._jobs.popleft()
        events: list[Event] = []
        for key in list(job.pods):
            body = self._bodies[key]
            if "nodeName" in body["spec"]:
                events += self._put("Pod", {**body, "status": {"phase": self._random.choice(_ENDS)}})
            events += self._end_pod(job, key)
        return [*events, *self._remove("PodGroup", job.group)]

    def _statuses(self) -> list[Event]:
        """Containers of running pods restart."""
        running = [key for key, body in self._bodies.items() if "status" in body]
        events: list[Event] = []
        for key in self._random.sample(running, min(_STATUSES_A_TURN, len(running))):
            body = self._bodies[key]
            body["status"] = {"phase": "Running", "containerStatuses": [{"restartCount": self._turn}]}
            events += self._put("Pod", body)
        return events

    def _end_pod(self, job: _Job, key: str) -> list[Event]:
        job.pods.remove(key)
        del self._key_of_uid[self._bodies.pop(key)["metadata"]["uid"]]
        return self._remove("Pod", key)

    # -- the scheduler ----------------------------------------------------------------------

    def _deliver(self, events: Iterable[Event]) -> None:
        """Events to the scheduler; what it binds comes back as a running pod."""
        now = _START + self._turn * _STEP
        batch = list(events)
        while batch:
            self.events += len(batch)
            commands = self._scheduler.handle(batch, now)
            batch = []
            for command in commands:
                if isinstance(command, Bind):
                    self.bound += 1
                    body = self._bodies[self._key_of_uid[command.uid]]
                    body["spec"]["nodeName"] = command.node
                    body["metadata"]["annotations"].update(command.annotations)
                    body["status"] = {"phase": "Running"}
                    batch += self._put("Pod", body)


def run(full: bool = False) -> list[Measured]:
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
        at_most("memory at the end over that after the first tenth", last / first, "x", MOST_GROWTH),
        at_most("entries that differ from a recount", len(soak.defects()), "", 0),
    ]


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
