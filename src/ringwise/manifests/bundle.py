"""Everything an input holds, read and checked: the one reader for files and pipes."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from ringwise import wellknown
from ringwise.manifests.device_info import RawConfigMap, config_map_from_wire
from ringwise.manifests.errors import Findings, ManifestError
from ringwise.manifests.groups import pod_group_from_wire, priority_class_from_wire, queue_from_wire
from ringwise.manifests.jobs import vcjob_from_wire
from ringwise.manifests.nodes import node_from_wire
from ringwise.manifests.pods import PodClasses, pod_from_wire
from ringwise.manifests.quantities import NotReadableError, nanoseconds
from ringwise.manifests.reading import Document, Progress, read_documents
from ringwise.manifests.sources import Source, find_sources
from ringwise.manifests.wire import (
    ConfigMapWire,
    JobWire,
    Meta,
    NodeWire,
    PodGroupWire,
    PodWire,
    PriorityClassWire,
    QueueWire,
)
from ringwise.state.model import DeviceReport, Node, Pod, PodGroup, PriorityClass, Queue
from ringwise.state.vcjob import VcJob

Wire = TypeVar("Wire")
Kept = TypeVar("Kept")

#: A person mends a few problems and tries again; a hostile file must not fill the memory with lines.
MAX_ERRORS = 1000
#: Pods that vcjobs of one input may make together; ten times what the largest clusters run.
MAX_JOB_PODS = 1_000_000

_THROUGH_PODS = frozenset(
    {"Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job", "CronJob", "AscendJob", "InferServiceSet"}
)


@dataclass(slots=True)
class Bundle:
    """The objects of an input in its order. Objects with errors are left out."""

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    pod_groups: list[PodGroup] = field(default_factory=list)
    queues: list[Queue] = field(default_factory=list)
    priority_classes: list[PriorityClass] = field(default_factory=list)
    vcjobs: list[VcJob] = field(default_factory=list)
    reports: list[DeviceReport] = field(default_factory=list)
    config_maps: list[RawConfigMap] = field(default_factory=list)
    errors: list[ManifestError] = field(default_factory=list)
    #: Objects that are not read, by kind ("Deployment": 3).
    ignored: Counter[str] = field(default_factory=Counter)
    #: The youngest creation or report, in Unix nanoseconds. Deletion times lie ahead and do not count.
    newest_timestamp: int = 0

    @property
    def notes(self) -> list[str]:
        """One line for each kind that was not read, for a warning."""
        return [_note(kind, count) for kind, count in sorted(self.ignored.items())]


def _note(kind: str, count: int) -> str:
    times = f"{count} object" if count == 1 else f"{count} objects"
    if kind in _THROUGH_PODS:
        return f"{kind}: {times} not read; such jobs are scheduled through their pods"
    return f"{kind}: {times} not read; scheduling does not need them"


def read_bundle(
    paths: Sequence[str],
    *,
    stdin: bytes | None = None,
    keep_going: bool = False,
    progress: Progress | None = None,
) -> Bundle:
    """All objects behind the paths (`-` is `stdin`), and all that is wrong with them.

    With `keep_going` every object is looked at; without, reading ends after `MAX_ERRORS` problems.
    """
    sources, errors = find_sources(paths, stdin)
    reader = _Reader(Bundle(errors=errors), keep_going)
    with _collector_resting():
        reader.read(sources, progress)
    return reader.bundle


@contextmanager
def _collector_resting() -> Iterator[None]:
    """Reading makes many objects and no cycles; looking for cycles meanwhile is most of the cost."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _TooManyError(Exception):
    """Enough problems were found to stop."""


class _Reader:
    """Fills a bundle, one document after the other."""

    def __init__(self, bundle: Bundle, keep_going: bool) -> None:
        self.bundle = bundle
        self._keep_going = keep_going
        self._classes = PodClasses()
        #: Where each kind, namespace and name stood first.
        self._places: dict[tuple[str, str, str], str] = {}
        self._job_pods = 0
        self._untold = 0
        self._kind = ""

    def read(self, sources: Sequence[Source], progress: Progress | None) -> None:
        total, done = sum(source.size for source in sources), 0
        try:
            for source in sources:
                advanced = _teller(progress, done, total)
                for document in read_documents(source, advanced):
                    if isinstance(document, ManifestError):
                        self._problem(document)
                    else:
                        self._take(document)
                done += source.size
                if progress is not None:
                    progress(done, total)
        except _TooManyError:
            self._problem_at_last(f"there are more than {MAX_ERRORS} problems; reading stopped here")
        if self._untold:
            self._problem_at_last(f"{self._untold} more problems are not told")

    def _problem(self, error: ManifestError) -> None:
        if len(self.bundle.errors) < MAX_ERRORS:
            self.bundle.errors.append(error)
        elif self._keep_going:
            self._untold += 1
        else:
            raise _TooManyError

    def _problem_at_last(self, message: str) -> None:
        self.bundle.errors.append(ManifestError("input", "", message))

    def _take(self, document: Document) -> None:
        found = Findings(document.origin)
        bundle = self.bundle
        group = document.api_version.rpartition("/")[0]
        match group, document.kind:
            case "", "Pod":
                if (pod := self._wire(document, PodWire, found)) is not None:
                    self._keep(bundle.pods, pod_from_wire(pod, self._classes, found), pod.metadata, found)
            case "", "Node":
                if (node := self._wire(document, NodeWire, found)) is not None:
                    self._keep(bundle.nodes, node_from_wire(node, found), node.metadata, found)
            case "", "ConfigMap":
                if (config_map := self._wire(document, ConfigMapWire, found)) is not None:
                    self._take_config_map(config_map, found)
            case wellknown.SCHEDULING_GROUP, "PodGroup":
                if (gang := self._wire(document, PodGroupWire, found)) is not None:
                    self._keep(bundle.pod_groups, pod_group_from_wire(gang, found), gang.metadata, found)
            case wellknown.SCHEDULING_GROUP, "Queue":
                if (queue := self._wire(document, QueueWire, found)) is not None:
                    self._keep(bundle.queues, queue_from_wire(queue, found), queue.metadata, found)
            case wellknown.KUBERNETES_SCHEDULING_GROUP, "PriorityClass":
                if (rank := self._wire(document, PriorityClassWire, found)) is not None:
                    self._keep(
                        bundle.priority_classes, priority_class_from_wire(rank, found), rank.metadata, found
                    )
            case wellknown.BATCH_GROUP, "Job":
                if (job := self._wire(document, JobWire, found)) is not None:
                    self._take_job(job, found)
            case _ if not document.kind.endswith("List"):
                bundle.ignored[document.kind] += 1
        for error in found.errors:
            self._problem(error)

    def _wire(self, document: Document, kind: type[Wire], found: Findings) -> Wire | None:
        decoded = document.decode(kind)
        if isinstance(decoded, list):
            found.errors.extend(decoded)
            return None
        self._kind = document.kind
        return decoded

    def _keep(self, where: list[Kept], thing: Kept, meta: Meta | None, found: Findings) -> None:
        """Keep what has no errors and no namesake, and remember how young it is."""
        if meta is not None and meta.name:
            namespace = "" if isinstance(thing, (Node, Queue, PriorityClass)) else meta.namespace or "default"
            self._note_place(self._kind, namespace, meta.name, found)
            self._note_time(meta.creation_timestamp)
        if not found.errors:
            where.append(thing)

    def _note_place(self, kind: str, namespace: str, name: str, found: Findings) -> None:
        first = self._places.setdefault((kind, namespace, name), found.origin)
        if first is not found.origin:
            full = f"{namespace}/{name}" if namespace else name
            found.wrong("metadata.name", f"the {kind} {full} stands already in {first}")

    def _note_time(self, text: str | None) -> None:
        if text is not None:
            # A wrong time is told already, with its field, where the object was read.
            with suppress(NotReadableError):
                self.bundle.newest_timestamp = max(self.bundle.newest_timestamp, nanoseconds(text))

    def _take_config_map(self, wire: ConfigMapWire, found: Findings) -> None:
        read = config_map_from_wire(wire, found)
        if read is None:
            # Nobody reads it, so nothing in it can be wrong.
            found.errors.clear()
            self.bundle.ignored["ConfigMap"] += 1
            return
        reports, passed_on = read
        if passed_on is not None:
            self._keep(self.bundle.config_maps, passed_on, wire.metadata, found)
            return
        kept: list[list[DeviceReport]] = []
        self._keep(kept, reports, wire.metadata, found)
        for report in (report for group in kept for report in group):
            self.bundle.reports.append(report)
            self.bundle.newest_timestamp = max(self.bundle.newest_timestamp, report.update_time)

    def _take_job(self, wire: JobWire, found: Findings) -> None:
        job = vcjob_from_wire(wire, self._classes, found)
        if not job.problems:
            self._job_pods += job.replicas
            if self._job_pods > MAX_JOB_PODS:
                found.wrong(
                    "spec.tasks", f"the jobs of this input have more than {MAX_JOB_PODS} pods together"
                )
        self._keep(self.bundle.vcjobs, job, wire.metadata, found)


def _teller(progress: Progress | None, done: int, total: int) -> Callable[[int], None]:
    if progress is None:
        return lambda at: None
    return lambda at: progress(done + at, total)
