"""Readers: bytes of the API into state objects, one reader for each kind that is watched.

The structs of `manifests` are extended here by what only the components on Kubernetes need: the resource
version, exit codes of containers, the status that was written last, the raw templates of vcjobs. One object
that cannot be decoded must not affect others: where a page or a line does not fit, its objects are decoded
one by one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Generic, TypeVar, cast

import msgspec

from ringwise.controller.job_record import COUNTED
from ringwise.framework.job import job_key
from ringwise.kube.watch.job_templates import JobTemplates, TemplateStore
from ringwise.kube.watch.objects import KeyedObjects
from ringwise.kubeclient.client import Page
from ringwise.kubeclient.list_watch import WatchEvent, raw_page, raw_watch_event
from ringwise.kubeclient.nesting import decode_nested
from ringwise.manifests.config_maps.rejections import allocate_error, read_rejections, rejection
from ringwise.manifests.kinds import Kind
from ringwise.manifests.objects.groups import pod_group_from_wire, queue_from_wire
from ringwise.manifests.objects.invalid_pods import last_good, stand_in_for_pod
from ringwise.manifests.objects.jobs import vcjob_from_wire
from ringwise.manifests.objects.metadata import time_of
from ringwise.manifests.objects.network_topology import hyper_node_from_wire
from ringwise.manifests.objects.pods import PodClassCache, pod_from_wire
from ringwise.manifests.objects.resources import amount
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.limits import drop_labels, drop_oversized
from ringwise.manifests.text.readable import UNREADABLE
from ringwise.manifests.text.wire import (
    ConditionWire,
    ConfigMapWire,
    HyperNodeStatusWire,
    HyperNodeWire,
    JobStatusWire,
    JobWire,
    PhaseStatusWire,
    PodGroupWire,
    PodStatusWire,
    PodWire,
    QueueStatusWire,
    QueueWire,
    WireStruct,
)
from ringwise.records import dataclass
from ringwise.state.model import EMPTY, ROOT_QUEUE, Owner, Pod
from ringwise.topology.numbers import INT32
from ringwise.views.written_reasons import WrittenReason, WrittenReasons
from ringwise.wellknown import NPU_CORE, OPERATOR_GROUP

Wire = TypeVar("Wire")

_ANY = msgspec.json.Decoder()


class ObjectReader(ABC, Generic[Wire]):
    """Decodes objects into one struct. An object that does not fit is a finding.

    A page or a line is decoded in one call, and object by object only if that fails.
    """

    #: Always decode object by object: for readers that need the bytes of an object.
    needs_bytes = False

    def __init__(self, shape: type[Wire]) -> None:
        # A type checker cannot follow a type that is known at run time only.
        of_shape: Any = shape
        self._decoder: msgspec.json.Decoder[Wire] = msgspec.json.Decoder(shape)
        self._pages: msgspec.json.Decoder[Page[Any]] = msgspec.json.Decoder(Page[of_shape])
        self._events: msgspec.json.Decoder[WatchEvent[Any]] = msgspec.json.Decoder(WatchEvent[of_shape])

    def page(self, answer: bytes) -> Page[Any]:
        """A page of a list. Its items are decoded structs, or raw bytes."""
        try:
            return raw_page(answer) if self.needs_bytes else self._pages.decode(answer)
        except UNREADABLE:
            return raw_page(answer)

    def watch_event(self, line: bytes) -> WatchEvent[Any]:
        """A line of a watch; its object is a decoded struct, or raw bytes. Raises UnreachableError."""
        try:
            return raw_watch_event(line) if self.needs_bytes else self._events.decode(line)
        except UNREADABLE:
            return raw_watch_event(line)

    def read(self, received: object, issues: Findings) -> KeyedObjects | None:
        """The objects in a received one; what is wrong is in `issues`.

        None: unreadable, what was known before stays.
        """
        if not isinstance(received, msgspec.Raw):
            return self.objects(cast(Wire, received), issues)
        try:
            wire: Wire = decode_nested(self._decoder, received)
        except UNREADABLE as problem:
            issues.add_error("", str(problem).replace("`", ""))
            return None
        return self.objects(wire, issues)

    @abstractmethod
    def objects(self, wire: Wire, issues: Findings) -> KeyedObjects | None: ...

    def stand_in(self, received: object, before: KeyedObjects, origin: str) -> KeyedObjects:
        """What stands for an object that cannot be read; `before` is its last good version, if any.

        That, or nothing: what could never be read is as if it were not there.
        """
        return before

    def forget(self, key: str) -> None:
        """The object was deleted. Nothing is stored besides the objects."""


#: The conditions of custom resources of ours, by kind and name.
ObservedConditions = dict[tuple[str, str], tuple[Mapping[str, Any], ...]]


def _single(key: str, value: object, issues: Findings) -> KeyedObjects | None:
    return None if issues.errors else ((key, value),)


class PlainReader(ObjectReader[Any]):
    """For kinds of which nothing but their values is needed; of our custom resources also the conditions."""

    def __init__(
        self,
        kind: Kind[Any],
        classes: PodClassCache | None = None,
        conditions: ObservedConditions | None = None,
    ) -> None:
        assert kind.reader is not None
        wire, self._read = kind.reader
        super().__init__(wire)
        self._kind = kind
        self._classes = classes or PodClassCache()
        self._conditions = conditions if kind.resource.group == OPERATOR_GROUP else None

    def objects(self, wire: Any, issues: Findings) -> KeyedObjects | None:
        value = self._read(wire, self._classes, issues)
        key = self._kind.key_of(value)
        if self._conditions is not None:
            status = msgspec.to_builtins(wire.status) if wire.status is not None else {}
            self._conditions[self._kind.resource.kind, key] = tuple(status.get("conditions") or ())
        return _single(key, value, issues)

    def forget(self, key: str) -> None:
        if self._conditions is not None:
            self._conditions.pop((self._kind.resource.kind, key), None)


class DataReader(ObjectReader[ConfigMapWire]):
    """For kinds that are all of one ConfigMap. What is wrong in it is reported; the rest of it counts.

    Of one that is checked like a file the last good version counts.
    """

    def __init__(self, kind: Kind[Any]) -> None:
        super().__init__(ConfigMapWire)
        self._kind = kind

    def objects(self, wire: ConfigMapWire, issues: Findings) -> KeyedObjects | None:
        assert self._kind.read_data is not None
        data = wire.texts
        value = self._kind.read_data(data, issues)
        return None if self._kind.checks_data and issues.errors else ((self._kind.name, value),)


# -- pods


class _Terminated(WireStruct):
    exit_code: int | None = None
    finished_at: str | None = None


class _ContainerState(WireStruct):
    terminated: _Terminated | None = None


class _ContainerStatus(WireStruct):
    restart_count: int | None = None
    state: _ContainerState | None = None
    last_state: _ContainerState | None = None


class PodStatus(PodStatusWire):
    reason: str | None = None
    message: str | None = None
    container_statuses: list[_ContainerStatus] | None = None


class WatchedPod(PodWire):
    status: PodStatus | None = None


class PodReader(ObjectReader[WatchedPod]):
    def __init__(self, classes: PodClassCache) -> None:
        super().__init__(WatchedPod)
        self._classes = classes

    def objects(self, wire: WatchedPod, issues: Findings) -> KeyedObjects | None:
        pod = pod_from_wire(wire, self._classes, issues)
        if issues.errors:
            refused = self._without_excess(wire, issues)
            return None if refused is None else ((refused.uid, refused),)
        if wire.status is not None and wire.status.container_statuses:
            _add_exit_codes(pod, wire.status.container_statuses, issues)
        elif wire.status is not None and pod.phase == "Failed" and pod.node is not None:
            pod.rejected = rejection(wire.status.reason, wire.status.message)
            if pod.rejected and pod.cls.resource == NPU_CORE:
                pod.allocate_error = allocate_error(wire.status.message)
                # Kubelet writes it with the rejection.
                pod.ended = time_of(wire.status.start_time, "", Findings(""))
        return ((pod.uid, pod),)

    def stand_in(self, received: object, before: KeyedObjects, origin: str) -> KeyedObjects:
        """Its last good version, else a pod that closes its node if it may hold chips (N7)."""
        if isinstance(received, msgspec.Raw):
            received = _plain(received)
        for key, previous in before:
            if isinstance(previous, Pod) and (pod := last_good(previous, received)) is not None:
                return ((key, pod),)
        stand_in = stand_in_for_pod(received, self._classes, origin)
        return () if stand_in is None else ((stand_in.uid, stand_in),)

    def _without_excess(self, wire: WatchedPod, issues: Findings) -> Pod | None:
        """A pod without what exceeds a limit: it is never placed, and says why.

        None: it has a node, or something else is wrong with it.
        """
        if not issues.excess or wire.spec is None or wire.spec.node_name:
            return None
        drop_oversized(wire.spec)
        drop_labels(wire.metadata)
        pod = pod_from_wire(wire, self._classes, Findings(issues.origin))
        pod.problem = issues.excess
        return pod


def _plain(received: msgspec.Raw) -> object:
    try:
        return decode_nested(_ANY, received)
    except UNREADABLE:
        return None


def _add_exit_codes(pod: Pod, statuses: list[_ContainerStatus], issues: Findings) -> None:
    # A count beyond its range is a mistake of the status, and nothing is decided by it.
    pod.restarts = min(sum(max(status.restart_count or 0, 0) for status in statuses), INT32)
    ended = [one.state.terminated for one in statuses if one.state is not None and one.state.terminated]
    if ended:
        quiet = Findings(issues.origin)
        pod.ended = max(
            time_of(one.finished_at, "status.containerStatuses.finishedAt", quiet) for one in ended
        )
    # Any container: one that failed now, else one that failed before it was started again.
    before = [one.last_state.terminated for one in statuses if one.last_state and one.last_state.terminated]
    failed = [one for one in (*ended, *before) if one.exit_code]
    for one in (*failed[:1], *ended[:1]):
        code = one.exit_code
        pod.exit_code = code if code is None or -INT32 <= code <= INT32 else None
        return


# -- groups, queues, priorities


class GroupStatus(PhaseStatusWire):
    running: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    conditions: list[ConditionWire] | None = None


class StatusReader(ObjectReader[Wire]):
    """Also stores what is needed of each object besides its value, such as to write its status."""

    def __init__(self, shape: type[Wire], observed: dict[str, Any]) -> None:
        super().__init__(shape)
        self._observed = observed

    def forget(self, key: str) -> None:
        self._observed.pop(key, None)


@dataclass(frozen=True, slots=True)
class ObservedGroup:
    """What is known of a PodGroup for its status and events; the core does not need it."""

    uid: str
    owner: Owner | None
    status: GroupStatus


class WatchedGroup(PodGroupWire):
    status: GroupStatus | None = None


class GroupReader(StatusReader[WatchedGroup]):
    """Also stores the status of each group, so that an equal one is not written again."""

    def __init__(self, observed: dict[str, ObservedGroup]) -> None:
        super().__init__(WatchedGroup, observed)

    def objects(self, wire: WatchedGroup, issues: Findings) -> KeyedObjects | None:
        group = pod_group_from_wire(wire, issues)
        if issues.excess:
            group.problem, group.labels = issues.excess, EMPTY
        elif issues.errors:
            return None
        self._observed[group.key] = ObservedGroup(group.uid, group.owner, wire.status or GroupStatus())
        return ((group.key, group),)


@dataclass(frozen=True, slots=True)
class ObservedQueue:
    """What is known of a Queue's status: the resources in `allocated`, and its pods."""

    allocated: frozenset[str]
    pods: int = 0


class QueueReader(StatusReader[QueueWire]):
    """Also stores the part of the status that is needed to write it."""

    def __init__(self, observed: dict[str, ObservedQueue]) -> None:
        super().__init__(QueueWire, observed)

    def objects(self, wire: QueueWire, issues: Findings) -> KeyedObjects | None:
        queue = queue_from_wire(wire, issues)
        if not issues.errors:
            status = wire.status or QueueStatusWire()
            listed = status.allocated if isinstance(status.allocated, dict) else {}
            self._observed[queue.name] = ObservedQueue(frozenset(listed), pods_in(listed))
            queue.missing = _missing(wire)
        return _single(queue.name, queue, issues)


# -- HyperNodes


#: Ours is one of them.
_MAX_HYPER_NODE_CONDITIONS = 20


@dataclass(frozen=True, slots=True)
class ObservedHyperNode:
    """What is known of a HyperNode's status."""

    uid: str = ""
    nodes: int | None = None
    conditions: tuple[Mapping[str, Any], ...] = ()


class HyperNodeReader(StatusReader[HyperNodeWire]):
    """Also stores the status, of which only a part is ours."""

    def __init__(self, observed: dict[str, ObservedHyperNode]) -> None:
        super().__init__(HyperNodeWire, observed)

    def objects(self, wire: HyperNodeWire, issues: Findings) -> KeyedObjects | None:
        hyper_node = hyper_node_from_wire(wire, issues)
        if not issues.errors:
            status = wire.status or HyperNodeStatusWire()
            conditions = [one for one in status.conditions or () if isinstance(one, dict)]
            self._observed[hyper_node.name] = ObservedHyperNode(
                wire.metadata.uid or "",
                status.node_count,
                tuple(conditions[:_MAX_HYPER_NODE_CONDITIONS]),
            )
        return _single(hyper_node.name, hyper_node, issues)


@dataclass(slots=True)
class Observed:
    """What is known of objects for their status and events, by their keys; the core does not need it."""

    groups: dict[str, ObservedGroup] = field(default_factory=dict)
    queues: dict[str, ObservedQueue] = field(default_factory=dict)
    hyper_nodes: dict[str, ObservedHyperNode] = field(default_factory=dict)
    conditions: ObservedConditions = field(default_factory=dict)
    templates: TemplateStore = field(default_factory=dict)


def _missing(wire: QueueWire) -> tuple[str, ...]:
    """What the controller has to write: defaults that people and tools look up in the object."""
    has_state = wire.status is not None and wire.status.state
    has_parent = wire.spec is not None and wire.spec.parent
    is_root = wire.metadata.name == ROOT_QUEUE
    return (*(() if has_state else ("state",)), *(() if has_parent or is_root else ("parent",)))


def pods_in(allocated: object) -> int:
    """How many pods a queue has by `status.allocated`; 0 where that cannot be read."""
    value = allocated.get("pods") if isinstance(allocated, dict) else None
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        return 0
    return max(0, amount("pods", value, "", Findings("")))


# -- vcjobs


#: A job has one condition for each phase; there are ten.
_MAX_CONDITIONS = 20


class _JobState(PhaseStatusWire):
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class _JobCondition(WireStruct):
    status: str | None = None
    last_transition_time: str | None = None


class _JobStatus(JobStatusWire):
    state: _JobState | None = None
    conditions: list[_JobCondition] | None = None
    pending: int | None = None
    running: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    terminating: int | None = None
    unknown: int | None = None
    controlled_resources: dict[str, str] | None = None


class _WatchedJob(JobWire):
    status: _JobStatus | None = None


#: Nothing was made for a vcjob in these phases that is lost with its tasks.
_NOT_STARTED = ("", "Pending")


class JobReader(StatusReader[_WatchedJob]):
    """Also stores the raw pod templates: pods are created from them."""

    needs_bytes = True

    def __init__(self, classes: PodClassCache, templates: TemplateStore) -> None:
        super().__init__(_WatchedJob, templates)
        self._classes = classes

    def read(self, received: object, issues: Findings) -> KeyedObjects | None:
        objects = super().read(received, issues)
        if objects is not None and not issues.errors and isinstance(received, msgspec.Raw):
            key, templates = objects[0][0], JobTemplates.of(received)
            # An unchanged job keeps the templates it has.
            if self._observed.get(key) != templates:
                self._observed[key] = templates
        return objects

    def objects(self, wire: _WatchedJob, issues: Findings) -> KeyedObjects | None:
        job = vcjob_from_wire(wire, self._classes, issues)
        status = wire.status
        if status is not None:
            counts = {phase: getattr(status, phase.lower()) for phase in COUNTED}
            job.counts = {phase: min(count, INT32) for phase, count in counts.items() if count and count > 0}
            job.conditions = tuple(
                (one.status, time_of(one.last_transition_time, "status.conditions", Findings(issues.origin)))
                for one in (status.conditions or ())[-_MAX_CONDITIONS:]
                if one.status
            )
            job.rejections = read_rejections(status.controlled_resources or {})
            state = status.state
            if state is not None:
                job.reason, job.message = state.reason or "", state.message or ""
                job.since = time_of(
                    state.last_transition_time, "status.state.lastTransitionTime", Findings(issues.origin)
                )
        if issues.excess and job.phase in _NOT_STARTED:
            job.problems, job.tasks, job.labels = (issues.excess,), (), EMPTY
            return ((job.key, job),)
        return _single(job.key, job, issues)


# -- readers for the dashboard beside a cluster: a scheduler knows its own reasons and does not read them back

#: Characters of a message that are kept: conditions may be long, and there may be one for each pod.
MAX_MESSAGE = 1000


class ReasonGroupReader(GroupReader):
    """PodGroups: the last condition `Unschedulable`, of Ringwise as of Volcano."""

    def __init__(self, observed: dict[str, ObservedGroup], written: WrittenReasons) -> None:
        super().__init__(observed)
        self._written = written

    def objects(self, wire: WatchedGroup, issues: Findings) -> KeyedObjects | None:
        objects = super().objects(wire, issues)
        if objects is not None:
            key = objects[0][0]
            conditions = (wire.status.conditions if wire.status is not None else None) or []
            reason = _written("PodGroup", "Unschedulable", "True", conditions)
            self._written.put(f"PodGroup {key}", key, reason)
        return objects

    def forget(self, key: str) -> None:
        super().forget(key)
        self._written.forget(f"PodGroup {key}")


class ReasonPodReader(PodReader):
    """Pods: the condition `PodScheduled`, while it says that the pod could not be scheduled."""

    def __init__(self, classes: PodClassCache, written: WrittenReasons) -> None:
        super().__init__(classes)
        self._written = written

    def objects(self, wire: WatchedPod, issues: Findings) -> KeyedObjects | None:
        objects = super().objects(wire, issues)
        if objects is not None and wire.status is not None:
            pod = objects[0][1]
            assert isinstance(pod, Pod)
            waits = pod.node is None and pod.live
            conditions = (wire.status.conditions or []) if waits else []
            reason = _written("Pod", "PodScheduled", "False", conditions)
            self._written.put(f"Pod {pod.key}", job_key(pod), reason)
        return objects

    def forget(self, key: str) -> None:
        super().forget(key)
        self._written.forget(f"Pod {key}")


def _written(kind: str, type_: str, status: str, conditions: list[ConditionWire]) -> WrittenReason | None:
    for one in reversed(conditions):
        if one.type == type_ and one.status == status and one.reason:
            return WrittenReason(kind, one.reason[:MAX_MESSAGE], (one.message or "")[:MAX_MESSAGE])
    return None
