"""Objects as an API server sends them, for one scheduler: read by its own readers, decided by its core.

What the scheduler binds comes back as news of the pods.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from ringwise.apps.extensions import new_scheduler
from ringwise.framework.configuration import Configuration
from ringwise.kube.watch.config_map_readers import ReportReader
from ringwise.kube.watch.objects import KeyedObjects, change_events, deletion_events
from ringwise.kube.watch.readers import (
    GroupReader,
    JobReader,
    ObjectReader,
    PlainReader,
    PodReader,
    QueueReader,
)
from ringwise.manifests.kinds import KIND_OF
from ringwise.manifests.objects.pods import PodClassCache
from ringwise.manifests.text.errors import Findings
from ringwise.messages.commands import Bind, Command
from ringwise.messages.events import Event
from ringwise.messages.move_plan import MovePlan
from ringwise.scheduler.core.machine import Scheduler
from ringwise.state.limits import UsageLimit
from ringwise.state.model import EMPTY, Isolation, Node, NodeReservation, PriorityClass
from ringwise.state.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from ringwise.wellknown import (
    ASCEND910,
    DEVICE_INFO_KEY,
    DEVICE_INFO_PREFIX,
    KUBE_SYSTEM,
    NETWORK_UNHEALTHY_SUFFIX,
    UNHEALTHY_SUFFIX,
)
from ringwise_bench.report import timed

#: Virtual time between two turns of the scheduler.
SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
CREATED = "2025-01-31T08:00:00Z"

Plain = dict[str, Any]


class Unreadable(Exception):
    """An object that the reader refuses."""


def device_report(
    node: str, resource: str = ASCEND910, chips: int = 8, seconds: int = START // SECOND
) -> Plain:
    """The ConfigMap in which a device plugin reports the chips of its node, all of them free and healthy."""
    listed = ",".join(f"{resource.rpartition('/')[2]}-{chip}" for chip in range(chips))
    lists = {resource: listed, resource + UNHEALTHY_SUFFIX: "", resource + NETWORK_UNHEALTHY_SUFFIX: ""}
    info = {"DeviceInfo": {"DeviceList": lists, "UpdateTime": seconds}}
    return {
        "metadata": {"name": f"{DEVICE_INFO_PREFIX}{node}", "namespace": KUBE_SYSTEM},
        "data": {DEVICE_INFO_KEY: msgspec.json.encode(info).decode()},
    }


def node_body(
    name: str,
    labels: Mapping[str, str],
    resource: str = ASCEND910,
    chips: int = 8,
    annotations: Mapping[str, str] = EMPTY,
    address: str = "",
) -> Plain:
    """A node that is Ready and offers its chips."""
    offers = {"cpu": "192", "memory": "1Ti", "pods": "110", resource: str(chips)}
    return {
        "metadata": {"name": name, "labels": dict(labels), "annotations": dict(annotations)},
        "status": {
            "allocatable": offers,
            "capacity": offers,
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": address}] if address else [],
        },
    }


class ObjectFeed:
    def __init__(
        self, configuration: Configuration | None = None, scheduler: Scheduler | None = None
    ) -> None:
        self.scheduler = scheduler or new_scheduler(configuration)
        classes = PodClassCache()
        self.readers: dict[str, ObjectReader[Any]] = {
            "Node": PlainReader(KIND_OF[Node]),
            "Pod": PodReader(classes),
            "PodGroup": GroupReader({}),
            "Queue": QueueReader({}),
            "PriorityClass": PlainReader(KIND_OF[PriorityClass]),
            "ConfigMap": ReportReader(),
            "Job": JobReader(classes, {}),
            **{
                KIND_OF[kind].name: PlainReader(KIND_OF[kind])
                for kind in (
                    *(StorageClass, PersistentVolume, PersistentVolumeClaim),
                    *(NodeReservation, Isolation, MovePlan, UsageLimit),
                )
            },
        }
        self.objects: dict[tuple[str, str], KeyedObjects] = {}
        #: Pods as they are now, and their keys by uid.
        self.bodies: dict[str, Plain] = {}
        self.key_of_uid: dict[str, str] = {}
        self.now = START
        self.events = 0
        self.bound = 0
        #: Called with what a turn commands besides bindings.
        self.on_command: Callable[[Command], list[Event]] = lambda command: []

    def put(self, kind: str, body: Plain) -> list[Event]:
        """What a new version of an object tells the scheduler."""
        meta = body["metadata"]
        key = f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]
        issues = Findings(key)
        objects = self.readers[kind].read(msgspec.Raw(msgspec.json.encode(body)), issues)
        if objects is None or issues.errors:
            raise Unreadable(str(issues.errors[0] if issues.errors else key))
        before = self.objects.get((kind, key), ())
        self.objects[kind, key] = objects
        return list(change_events(before, objects))

    def remove(self, kind: str, key: str) -> list[Event]:
        self.readers[kind].forget(key)
        return [event for _, value in self.objects.pop((kind, key)) for event in deletion_events(value)]

    def put_pod(self, body: Plain) -> list[Event]:
        """The same for a pod that the scheduler may bind."""
        key = f"{body['metadata']['namespace']}/{body['metadata']['name']}"
        events = self.put("Pod", body)
        self.bodies[key] = body
        self.key_of_uid[body["metadata"]["uid"]] = key
        return events

    def remove_pod(self, key: str) -> list[Event]:
        del self.key_of_uid[self.bodies.pop(key)["metadata"]["uid"]]
        return self.remove("Pod", key)

    def deliver(self, events: Iterable[Event]) -> None:
        """Events to the scheduler, then what follows from its commands, until nothing follows."""
        batch = list(events)
        while batch:
            self.events += len(batch)
            commands = self.scheduler.handle(batch, self.now)
            batch = []
            for command in commands:
                batch += self.bind(command) if isinstance(command, Bind) else self.on_command(command)

    def time_of(self, events: Iterable[Event]) -> float:
        """The same; seconds of processor time of the scheduler."""
        return timed(lambda: self.deliver(events), time.thread_time)

    def bind(self, command: Bind) -> list[Event]:
        """Record that the pod is bound and runs."""
        self.bound += 1
        body = self.bodies[self.key_of_uid[command.uid]]
        body["spec"]["nodeName"] = command.node
        body["metadata"].setdefault("annotations", {}).update(command.annotations)
        body["status"] = {"phase": "Running"}
        return self.put("Pod", body)
