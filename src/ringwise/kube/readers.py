"""How the bytes of one object become facts: the trimmed structs of `manifests`, and a little more.

What only this room needs is added by subclasses: exit codes of containers, the status that was
written last, the raw templates of vcjobs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import msgspec

from ringwise.kube.client import Page, UnreachableError
from ringwise.kube.facts import Fact, Facts, NodeReports
from ringwise.kube.templates import JobTemplates, TemplateStore
from ringwise.manifests.configuration import ConfigurationError, read_configuration
from ringwise.manifests.device_info import config_map_from_wire
from ringwise.manifests.errors import Findings, ManifestError
from ringwise.manifests.groups import pod_group_from_wire, priority_class_from_wire, queue_from_wire
from ringwise.manifests.jobs import vcjob_from_wire
from ringwise.manifests.metadata import time_of
from ringwise.manifests.nodes import node_from_wire
from ringwise.manifests.pods import PodClasses, pod_from_wire
from ringwise.manifests.switches import CONFIG_MAP as TOPOLOGY
from ringwise.manifests.switches import topology_of_config_map
from ringwise.manifests.wire import (
    ConfigMapWire,
    JobStatus,
    JobWire,
    Meta,
    NodeWire,
    PhaseStatus,
    PodGroupWire,
    PodStatus,
    PodWire,
    PriorityClassWire,
    QueueWire,
    Trimmed,
)
from ringwise.state.model import Owner, Pod

Wire = TypeVar("Wire")

CONFIGURATION_KEY = "volcano-scheduler.conf"


class SeenMeta(Meta):
    resource_version: str | None = None


class _Plain(Trimmed):
    """Of an object that does not fit its struct at least the name may be readable."""

    metadata: SeenMeta | None = None


_BARE = msgspec.json.Decoder(Page[msgspec.Raw])
_PLAIN = msgspec.json.Decoder(_Plain)
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


def bare_page(answer: bytes) -> Page[Any]:
    """A page whose items are not decoded yet, so that one bad item harms no other."""
    try:
        return _BARE.decode(answer)
    except _UNREADABLE as problem:
        raise UnreachableError(f"a list cannot be read: {problem}", maybe_done=False) from None


def meta_of(sight: object) -> SeenMeta | None:
    """Name and version of an object, decoded or not; None when not even that can be read."""
    if not isinstance(sight, msgspec.Raw):
        found: SeenMeta | None = getattr(sight, "metadata", None)
        return found
    try:
        return _PLAIN.decode(sight).metadata
    except _UNREADABLE:
        return None


class _Decoding(ABC, Generic[Wire]):
    """Reads one struct and hands it on; a misfit is a finding."""

    def __init__(self, shape: type[Wire]) -> None:
        self._decoder: msgspec.json.Decoder[Wire] = msgspec.json.Decoder(shape)

    def page(self, answer: bytes) -> Page[Any]:
        return bare_page(answer)

    def sight(self, raw: msgspec.Raw) -> object:
        return raw

    def read(self, sight: object, found: Findings) -> Facts | None:
        if not isinstance(sight, msgspec.Raw):
            return self.facts(cast(Wire, sight), found)
        try:
            wire = self._decoder.decode(sight)
        except _UNREADABLE as problem:
            found.wrong("", str(problem).replace("`", ""))
            return None
        return self.facts(wire, found)

    @abstractmethod
    def facts(self, wire: Wire, found: Findings) -> Facts | None: ...

    def forget(self, key: str) -> None:
        """Nothing is kept beside the facts."""


class _DecodingAtOnce(_Decoding[Wire]):
    """For kinds with many objects: a page is decoded in one go, and once more only if that fails."""

    def __init__(self, shape: type[Wire]) -> None:
        super().__init__(shape)
        # The type is known at run time only; a checker cannot follow.
        of_shape: Any = shape
        self._pages: msgspec.json.Decoder[Page[Any]] = msgspec.json.Decoder(Page[of_shape])

    def page(self, answer: bytes) -> Page[Any]:
        try:
            return self._pages.decode(answer)
        except _UNREADABLE:
            return bare_page(answer)

    def sight(self, raw: msgspec.Raw) -> object:
        try:
            return self._decoder.decode(raw)
        except _UNREADABLE:
            return raw


def _only(key: str, fact: Fact, found: Findings) -> Facts | None:
    return None if found.errors else ((key, fact),)


class _SeenNode(NodeWire):
    metadata: SeenMeta | None = None


class NodeReader(_DecodingAtOnce[_SeenNode]):
    def __init__(self) -> None:
        super().__init__(_SeenNode)

    def facts(self, wire: _SeenNode, found: Findings) -> Facts | None:
        node = node_from_wire(wire, found)
        return _only(node.name, node, found)


# -- pods


class _Ended(Trimmed):
    exit_code: int | None = None
    finished_at: str | None = None


class _ContainerState(Trimmed):
    terminated: _Ended | None = None


class _ContainerStatus(Trimmed):
    restart_count: int | None = None
    state: _ContainerState | None = None


class _PodStatus(PodStatus):
    container_statuses: list[_ContainerStatus] | None = None


class _SeenPod(PodWire):
    metadata: SeenMeta | None = None
    status: _PodStatus | None = None


class PodReader(_DecodingAtOnce[_SeenPod]):
    def __init__(self, classes: PodClasses) -> None:
        super().__init__(_SeenPod)
        self._classes = classes

    def facts(self, wire: _SeenPod, found: Findings) -> Facts | None:
        pod = pod_from_wire(wire, self._classes, found)
        if found.errors:
            return self._occupant(wire, found)
        if wire.status is not None and wire.status.container_statuses:
            _add_endings(pod, wire.status.container_statuses, found)
        return ((pod.uid, pod),)

    def _occupant(self, wire: _SeenPod, found: Findings) -> Facts | None:
        """A bound pod with a wrong annotation still sits on chips nobody knows: its node must stay closed."""
        spec = wire.spec
        if spec is None or not spec.node_name or wire.metadata is None:
            return None
        for container in spec.containers or ():
            container.env = None
        meta = wire.metadata
        wire.metadata = SeenMeta(
            meta.name, meta.namespace, meta.uid, meta.creation_timestamp, meta.deletion_timestamp
        )
        again = Findings(found.origin)
        pod = pod_from_wire(wire, self._classes, again)
        return None if again.errors else ((pod.uid, pod),)


def _add_endings(pod: Pod, statuses: list[_ContainerStatus], found: Findings) -> None:
    pod.restarts = sum(max(status.restart_count or 0, 0) for status in statuses)
    for status in statuses:
        ended = status.state.terminated if status.state is not None else None
        if ended is not None:
            pod.exit_code = ended.exit_code
            pod.ended = time_of(
                ended.finished_at, "status.containerStatuses.finishedAt", Findings(found.origin)
            )
            return


# -- groups, queues, priorities


class _GroupCondition(Trimmed):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class GroupStatus(PhaseStatus):
    running: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    conditions: list[_GroupCondition] | None = None


@dataclass(frozen=True, slots=True)
class GroupNote:
    """Of a PodGroup what the core does not need and its status and events do."""

    uid: str
    owner: Owner | None
    status: GroupStatus


class _SeenGroup(PodGroupWire):
    status: GroupStatus | None = None


class GroupReader(_Decoding[_SeenGroup]):
    """Also notes what the status of each group says, so that nobody writes the same again."""

    def __init__(self, notes: dict[str, GroupNote]) -> None:
        super().__init__(_SeenGroup)
        self._notes = notes

    def facts(self, wire: _SeenGroup, found: Findings) -> Facts | None:
        group = pod_group_from_wire(wire, found)
        if not found.errors:
            self._notes[group.key] = GroupNote(group.uid, group.owner, wire.status or GroupStatus())
        return _only(group.key, group, found)

    def forget(self, key: str) -> None:
        self._notes.pop(key, None)


class QueueReader(_Decoding[QueueWire]):
    def __init__(self) -> None:
        super().__init__(QueueWire)

    def facts(self, wire: QueueWire, found: Findings) -> Facts | None:
        queue = queue_from_wire(wire, found)
        return _only(queue.name, queue, found)


class PriorityReader(_Decoding[PriorityClassWire]):
    def __init__(self) -> None:
        super().__init__(PriorityClassWire)

    def facts(self, wire: PriorityClassWire, found: Findings) -> Facts | None:
        priority = priority_class_from_wire(wire, found)
        return _only(priority.name, priority, found)


# -- vcjobs


class _JobState(PhaseStatus):
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class _JobStatus(JobStatus):
    state: _JobState | None = None
    pending: int | None = None
    running: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    terminating: int | None = None
    unknown: int | None = None


class _SeenJob(JobWire):
    status: _JobStatus | None = None


class JobReader(_Decoding[_SeenJob]):
    """Also keeps the pod templates as they were written: pods are made from them."""

    def __init__(self, classes: PodClasses, templates: TemplateStore) -> None:
        super().__init__(_SeenJob)
        self._classes = classes
        self._templates = templates

    def read(self, sight: object, found: Findings) -> Facts | None:
        facts = super().read(sight, found)
        if facts is not None and isinstance(sight, msgspec.Raw):
            self._templates.put(facts[0][0], JobTemplates.of(sight))
        return facts

    def facts(self, wire: _SeenJob, found: Findings) -> Facts | None:
        job = vcjob_from_wire(wire, self._classes, found)
        status = wire.status
        if status is not None:
            counts: dict[str, Any] = {
                "Pending": status.pending,
                "Running": status.running,
                "Succeeded": status.succeeded,
                "Failed": status.failed,
                "Terminating": status.terminating,
                "Unknown": status.unknown,
            }
            job.counts = {phase: count for phase, count in counts.items() if count}
            state = status.state
            if state is not None:
                job.reason, job.message = state.reason or "", state.message or ""
                job.since = time_of(
                    state.last_transition_time, "status.state.lastTransitionTime", Findings(found.origin)
                )
        return _only(job.key, job, found)

    def forget(self, key: str) -> None:
        self._templates.drop(key)


# -- ConfigMaps


class ReportReader(_Decoding[ConfigMapWire]):
    def __init__(self) -> None:
        super().__init__(ConfigMapWire)

    def facts(self, wire: ConfigMapWire, found: Findings) -> Facts | None:
        told = config_map_from_wire(wire, found)
        if told is None:
            # Not one of those we read, though it carries the label.
            found.errors.clear()
            return ()
        if found.errors:
            return None
        nodes: dict[str, list[Any]] = {}
        for report in told[0]:
            nodes.setdefault(report.node, []).append(report)
        return tuple(
            (node, NodeReports(node, reports[0].aggregated, tuple(reports)))
            for node, reports in nodes.items()
        )


class TopologyReader(_Decoding[ConfigMapWire]):
    def __init__(self) -> None:
        super().__init__(ConfigMapWire)

    def facts(self, wire: ConfigMapWire, found: Findings) -> Facts | None:
        data = {key: value or "" for key, value in (wire.data or {}).items()}
        topology = topology_of_config_map(data, found.origin)
        if topology.unusable is not None:
            # It is told all the same: jobs that need switches learn from it why they wait.
            found.wrong("data", topology.unusable.message)
        return ((TOPOLOGY, topology),)


class ConfigurationReader(_Decoding[ConfigMapWire]):
    def __init__(self, plugins: Sequence[str] = ()) -> None:
        super().__init__(ConfigMapWire)
        self._plugins = tuple(plugins)

    def facts(self, wire: ConfigMapWire, found: Findings) -> Facts | None:
        text = (wire.data or {}).get(CONFIGURATION_KEY)
        if text is None:
            found.wrong(f"data.{CONFIGURATION_KEY}", "is missing")
            return None
        try:
            return ((CONFIGURATION_KEY, read_configuration(text, found.origin, self._plugins)),)
        except ConfigurationError as error:
            found.errors.extend(
                ManifestError(found.origin, "", line) for line in str(error).splitlines() if line.strip()
            )
            return None
