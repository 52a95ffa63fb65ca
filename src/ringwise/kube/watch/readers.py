"""How one object becomes facts: the trimmed structs of `manifests`, and a little more.

What only this room needs is added by subclasses: exit codes of containers, the status that was
written last, the raw templates of vcjobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ringwise.kube.watch.decoding import Decoding, DecodingAtOnce, SeenMeta, only
from ringwise.kube.watch.facts import Facts, NodeReports
from ringwise.kube.write.pod_templates import JobTemplates, TemplateStore
from ringwise.manifests.configuration import ConfigurationError, read_configuration
from ringwise.manifests.device_info import config_map_from_wire
from ringwise.manifests.errors import Findings, ManifestError
from ringwise.manifests.groups import pod_group_from_wire, priority_class_from_wire, queue_from_wire
from ringwise.manifests.jobs import vcjob_from_wire
from ringwise.manifests.metadata import time_of
from ringwise.manifests.nodes import node_from_wire
from ringwise.manifests.pods import PodClasses, pod_from_wire
from ringwise.manifests.switches import topology_of_config_map
from ringwise.manifests.wire import (
    ConfigMapWire,
    JobStatus,
    JobWire,
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
from ringwise.wellknown import SCHEDULER_CONFIG_KEY, TOR_NODE_CONFIG_MAP


class _SeenNode(NodeWire):
    metadata: SeenMeta | None = None


class NodeReader(DecodingAtOnce[_SeenNode]):
    def __init__(self) -> None:
        super().__init__(_SeenNode)

    def facts(self, wire: _SeenNode, found: Findings) -> Facts | None:
        node = node_from_wire(wire, found)
        return only(node.name, node, found)


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


class PodReader(DecodingAtOnce[_SeenPod]):
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


class GroupReader(Decoding[_SeenGroup]):
    """Also notes what the status of each group says, so that nobody writes the same again."""

    def __init__(self, notes: dict[str, GroupNote]) -> None:
        super().__init__(_SeenGroup)
        self._notes = notes

    def facts(self, wire: _SeenGroup, found: Findings) -> Facts | None:
        group = pod_group_from_wire(wire, found)
        if not found.errors:
            self._notes[group.key] = GroupNote(group.uid, group.owner, wire.status or GroupStatus())
        return only(group.key, group, found)

    def forget(self, key: str) -> None:
        self._notes.pop(key, None)


class QueueReader(Decoding[QueueWire]):
    def __init__(self) -> None:
        super().__init__(QueueWire)

    def facts(self, wire: QueueWire, found: Findings) -> Facts | None:
        queue = queue_from_wire(wire, found)
        return only(queue.name, queue, found)


class PriorityReader(Decoding[PriorityClassWire]):
    def __init__(self) -> None:
        super().__init__(PriorityClassWire)

    def facts(self, wire: PriorityClassWire, found: Findings) -> Facts | None:
        priority = priority_class_from_wire(wire, found)
        return only(priority.name, priority, found)


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


class JobReader(Decoding[_SeenJob]):
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
        return only(job.key, job, found)

    def forget(self, key: str) -> None:
        self._templates.drop(key)


# -- ConfigMaps


class ReportReader(Decoding[ConfigMapWire]):
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


class TopologyReader(Decoding[ConfigMapWire]):
    def __init__(self) -> None:
        super().__init__(ConfigMapWire)

    def facts(self, wire: ConfigMapWire, found: Findings) -> Facts | None:
        data = {key: value or "" for key, value in (wire.data or {}).items()}
        topology = topology_of_config_map(data, found.origin)
        if topology.unusable is not None:
            # It is told all the same: jobs that need switches learn from it why they wait.
            found.wrong("data", topology.unusable.message)
        return ((TOR_NODE_CONFIG_MAP, topology),)


class ConfigurationReader(Decoding[ConfigMapWire]):
    def __init__(self, plugins: Sequence[str] = ()) -> None:
        super().__init__(ConfigMapWire)
        self._plugins = tuple(plugins)

    def facts(self, wire: ConfigMapWire, found: Findings) -> Facts | None:
        text = (wire.data or {}).get(SCHEDULER_CONFIG_KEY)
        if text is None:
            found.wrong(f"data.{SCHEDULER_CONFIG_KEY}", "is missing")
            return None
        try:
            return ((SCHEDULER_CONFIG_KEY, read_configuration(text, found.origin, self._plugins)),)
        except ConfigurationError as error:
            found.errors.extend(
                ManifestError(found.origin, "", line) for line in str(error).splitlines() if line.strip()
            )
            return None
