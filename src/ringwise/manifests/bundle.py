"""All objects of an input, read and checked: the reader of files and pipes."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from difflib import SequenceMatcher
from functools import partial
from typing import Any, Generic, TypeVar

from ringwise import wellknown
from ringwise.framework.configuration import Configuration
from ringwise.grammar import counted, plural, quoted
from ringwise.manifests.config_maps.device_info import RawConfigMap, config_map_from_wire
from ringwise.manifests.config_maps.node_info import node_reports_of
from ringwise.manifests.kinds import IN_CONFIG_MAPS, READABLE, STORED, Kind
from ringwise.manifests.objects.disruption_budgets import BudgetWire, budget_from_wire
from ringwise.manifests.objects.groups import command_from_wire
from ringwise.manifests.objects.invalid_pods import stand_in_for_pod
from ringwise.manifests.objects.metadata import identity, object_name
from ringwise.manifests.objects.pods import PodClassCache
from ringwise.manifests.objects.volumes import ephemeral_volumes
from ringwise.manifests.objects.workloads import (
    OPERATOR_KINDS,
    REPLICATED_KINDS,
    operator_job_from_wire,
    replicated_from_wire,
)
from ringwise.manifests.reading import ManifestDocument, Progress, read_documents
from ringwise.manifests.text.checking import follows_from
from ringwise.manifests.text.errors import Findings, ManifestError
from ringwise.manifests.text.quantities import NotReadableError, nanoseconds
from ringwise.manifests.text.sources import ManifestSource, find_sources
from ringwise.manifests.text.unknown_fields import manifest_notes
from ringwise.manifests.text.wire import (
    CommandWire,
    ConfigMapWire,
    MetaWire,
    ObjectWire,
    OperatorJobWire,
    ReplicatedWire,
)
from ringwise.messages.claim_expansion import ephemeral_claims_of
from ringwise.messages.events import JobCommand, QueueCommand
from ringwise.messages.ordinary_groups import group_for, group_owner, needs_group
from ringwise.messages.workload_expansion import workload_claims, workload_group, workload_pods
from ringwise.records import dataclass
from ringwise.state.model import DeviceReport, Node, NodeReport, Owner, Pod, PodGroup, PriorityClass, Queue
from ringwise.state.topology_discovery import TopologyDiscovery
from ringwise.state.vcjob import VcJob
from ringwise.state.volumes import ClaimTemplates, PersistentVolumeClaim
from ringwise.state.workload import Workload
from ringwise.topology.nearest import did_you_mean
from ringwise.wellknown import GROUP_NAME, SCHEDULER_NAMES

Wire = TypeVar("Wire", bound=ObjectWire)
Kept = TypeVar("Kept")

#: Errors that are collected. A hostile file must not fill the memory with them.
MAX_ERRORS = 1000
#: Pods of all vcjobs of one input; ten times those of the largest clusters.
MAX_JOB_PODS = 1_000_000

_SYSTEM_CLASSES = (wellknown.SYSTEM_CLUSTER_CRITICAL, wellknown.SYSTEM_NODE_CRITICAL)
#: Kinds that people write and that are looked at for unknown fields; pods and nodes of a dump are thousands.
_WRITTEN = frozenset(
    {
        "Job",
        "PodGroup",
        "Queue",
        "Pod",
        "HyperNode",
        *(kind for _, kind in (*REPLICATED_KINDS, *OPERATOR_KINDS)),
    }
)

#: Wires of objects that may not concern us.
_OTHERS_MAY_USE: frozenset[type] = frozenset({ConfigMapWire, ReplicatedWire, OperatorJobWire})

_THROUGH_PODS = frozenset({"DaemonSet", "CronJob", "InferServiceSet"})


class _Objects(Generic[Kept]):
    """An attribute with the objects of one kind."""

    def __init__(self, kind: type[Kept]) -> None:
        self._kind = kind

    def __get__(self, bundle: Bundle, _: type[Bundle] | None = None) -> list[Kept]:
        return bundle.of(self._kind)


@dataclass(slots=True)
class Bundle:
    """The objects of an input in their order. Objects with errors are left out."""

    #: By the type of their values.
    objects: dict[type, list[Any]] = field(default_factory=dict)
    #: The scheduler's configuration.
    config_maps: list[RawConfigMap] = field(default_factory=list)
    #: What users ask for with Command objects; only clusters and labs carry it out.
    commands: list[JobCommand | QueueCommand] = field(default_factory=list)
    errors: list[ManifestError] = field(default_factory=list)
    #: Budgets that evictions must respect; a lab has none.
    disruption_budgets: list[BudgetWire] = field(default_factory=list)
    #: Objects that are not read, by kind ("DaemonSet": 3).
    ignored: Counter[str] = field(default_factory=Counter)
    #: Owners of pods that are not read, by kind: another scheduler places their pods, which ask for no
    #: chips; or they have an owner themselves, which stands for them.
    of_others: Counter[str] = field(default_factory=Counter)
    of_owners: Counter[str] = field(default_factory=Counter)
    #: Unknown fields, names that the API server would refuse, priority classes that are missing.
    remarks: list[str] = field(default_factory=list)
    #: Files without any object.
    empty: list[str] = field(default_factory=list)
    #: The newest creation or report, in Unix nanoseconds. Deletion times are in the future and do not count.
    newest_timestamp: int = 0
    #: Kinds of custom resources that the API server does not serve.
    not_served: tuple[str, ...] = ()
    #: Pods of one owner wait until a controller has created their PodGroup; for objects of a live cluster.
    awaits_groups: bool = False
    #: The configuration of a support bundle, which is not text.
    configured: Configuration | None = None
    #: Keys of vcjobs of a live cluster: only those pods of them exist that were read.
    served: frozenset[str] = frozenset()
    #: What the scheduler of a live cluster wrote for the next one: the data of `ringwise-rescheduling`.
    written: Mapping[str, str] = field(default_factory=dict)

    def of(self, kind: type[Kept]) -> list[Kept]:
        """The objects of a kind."""
        return self.objects.setdefault(kind, [])

    nodes = _Objects(Node)
    reports = _Objects(DeviceReport)
    queues = _Objects(Queue)
    vcjobs = _Objects(VcJob)
    pod_groups = _Objects(PodGroup)
    pods = _Objects(Pod)

    @property
    def holds_nothing(self) -> bool:
        """Whether there was nothing to read at all, not even an error."""
        others = (
            self.config_maps,
            self.commands,
            self.disruption_budgets,
            self.ignored,
            self.of_others,
            self.of_owners,
        )
        return not any((*self.objects.values(), *others, self.errors, self.remarks))

    @property
    def notes(self) -> list[str]:
        """What a user should know: what was not read, and what looks like a mistake."""
        unread = [_warning(kind, count) for kind, count in sorted(self.ignored.items())]
        unread += [
            f"{kind}: {counted(count, 'object')} not read; placed by another scheduler"
            for kind, count in sorted(self.of_others.items())
        ]
        if self.commands:
            unread.append(f"Command: {counted(self.commands, 'object')} not carried out")
        # Priority classes that jobs name and the cluster of the input lacks.
        classes = [one.name for one in self.of(PriorityClass)]
        missing = missing_classes(self.vcjobs, self.pod_groups, self.pods, classes) if self.nodes else ()
        return [*unread, *self.remarks, *missing]

    @property
    def misspelled(self) -> list[str]:
        """Return the notes about kinds that are probably misspelled."""
        unread = (_warning(kind, count) for kind, count in sorted(self.ignored.items()))
        return [note for note in unread if "did you mean" in note]

    @property
    def configuration(self) -> tuple[str, str] | None:
        """Text and origin of the volcano-scheduler.conf in the input's ConfigMap, if there is one."""
        for config_map in self.config_maps:
            text = config_map.data.get(wellknown.SCHEDULER_CONFIG_KEY)
            if config_map.name == wellknown.SCHEDULER_CONFIG_MAP and text is not None:
                return text, config_map.origin
        return None


def missing_classes(
    jobs: Iterable[VcJob], groups: Iterable[PodGroup], pods: Iterable[Pod], classes: Iterable[str]
) -> Iterator[str]:
    """A line for each priority class that an object names and that is none of `classes`."""
    existing = [*_SYSTEM_CLASSES, *classes]
    named: dict[str, str] = {}
    for job in jobs:
        for name in (job.priority_class, *(task.template.priority_class for task in job.tasks)):
            named.setdefault(name, job.origin)
    for group in groups:
        named.setdefault(group.priority_class, group.origin)
    for pod in pods:
        # A pod that has been through an API server has the number of its class.
        if pod.node is None and not pod.priority:
            named.setdefault(pod.priority_class, pod.origin)
    for name, origin in named.items():
        if name and name not in existing:
            yield (
                f'{origin}: priorityClassName: PriorityClass "{name}" not found; its priority is 0'
                f"{did_you_mean(name, existing)}"
            )


#: How alike a kind and a known one are that is probably meant, and the characters that are compared.
_ALIKE = 0.8
_LONGEST_KIND = 63


def _warning(kind: str, count: int) -> str:
    times = counted(count, "object")
    if kind in _THROUGH_PODS:
        return f"{kind}: {times} not read; such jobs are scheduled through their pods"
    meant = [
        f"{name} of {group or 'v1'}"
        for group, name in sorted({*READABLE, *REPLICATED_KINDS, *OPERATOR_KINDS})
        if kind.lower() in (name.lower(), plural(name.lower()))
        or SequenceMatcher(None, kind[:_LONGEST_KIND].lower(), name.lower()).ratio() >= _ALIKE
    ]
    if meant:
        return f"{kind}: {times} not read; did you mean {' or '.join(meant)}?"
    return f"{kind}: {times} not read"


def read_bundle(
    paths: Sequence[str],
    *,
    stdin: bytes | None = None,
    keep_going: bool = False,
    progress: Progress | None = None,
    namespace: str | None = None,
) -> Bundle:
    """All objects of the paths (`-` is `stdin`), and their errors.

    With `keep_going` all objects are read; without it, reading ends after `MAX_ERRORS` errors. With
    `namespace`, namespaced objects are in this one; that they name another one is an error.
    """
    sources, errors = find_sources(paths, stdin)
    return _read(sources, Bundle(errors=errors), keep_going, progress, namespace)


def read_text(text: bytes, name: str) -> Bundle:
    """All objects of a text, and their errors, which begin with its name."""
    return _read([ManifestSource(name, len(text), data=text)], Bundle(), False, None)


def _read(
    sources: Sequence[ManifestSource],
    bundle: Bundle,
    keep_going: bool,
    progress: Progress | None,
    namespace: str | None = None,
) -> Bundle:
    reader = _BundleReader(bundle, keep_going, namespace)
    with garbage_collection_paused():
        reader.read(sources, progress)
    return bundle


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Reading creates many objects and no cycles; the search for cycles would be most of the cost."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _TooManyError(Exception):
    """More errors than are collected."""


class _BundleReader:
    """Fills a bundle, one document after the other."""

    def __init__(self, bundle: Bundle, keep_going: bool, namespace: str | None) -> None:
        self.bundle = bundle
        self._keep_going = keep_going
        self._namespace = namespace
        self._classes = PodClassCache()
        #: Where each kind, namespace and name was defined first.
        self._origins: dict[tuple[str, str, str], str] = {}
        self._job_pods = 0
        self._workloads: list[Workload] = []
        #: Pods with generic ephemeral volumes.
        self._ephemeral: list[tuple[Pod, ClaimTemplates]] = []
        self._not_listed = 0
        self._kind = ""
        #: Fields of the present document that do not fit their types.
        self._misfits: list[str] = []

    def read(self, sources: Sequence[ManifestSource], progress: Progress | None) -> None:
        total, done = sum(source.size for source in sources), 0
        try:
            for source in sources:
                any_read = False
                for document in read_documents(source, partial(_advance, progress, done, total)):
                    any_read = True
                    if isinstance(document, ManifestError):
                        self._add_error(document)
                    else:
                        self._take(document)
                if not any_read:
                    self.bundle.empty.append(source.name)
                done += source.size
                _advance(progress, done, total, 0)
        except _TooManyError:
            self._add_summary(f"there are more than {MAX_ERRORS} errors; reading stopped here")
        add_workloads(self.bundle.pods, self.bundle.pod_groups, self._workloads)
        self._add_claims()
        if self._not_listed:
            self._add_summary(f"{counted(self._not_listed, 'more error is', 'more errors are')} not listed")

    def _add_claims(self) -> None:
        """Those that Kubernetes makes for pods, unless they are in the input."""
        claims = self.bundle.of(PersistentVolumeClaim)
        made = [claim for workload in self._workloads for claim in workload_claims(workload)]
        made += [claim for pod, volumes in self._ephemeral for claim in ephemeral_claims_of(pod, volumes)]
        if made:
            missing = {f"{pod.namespace}/{name}" for pod in self.bundle.pods for name in pod.claims}
            missing -= {claim.key for claim in claims}
            claims += [claim for claim in made if claim.key in missing]

    def _add_error(self, error: ManifestError) -> None:
        if len(self.bundle.errors) < MAX_ERRORS:
            self.bundle.errors.append(error)
        elif self._keep_going:
            self._not_listed += 1
        else:
            raise _TooManyError

    def _add_summary(self, message: str) -> None:
        self.bundle.errors.append(ManifestError("input", "", message))

    def _take(self, document: ManifestDocument) -> None:
        issues = Findings(document.origin)
        self._misfits = []
        named = document.api_version.rpartition("/")[0], document.kind
        kind = READABLE.get(named)
        if kind is not None:
            self._take_object(kind, document, issues)
        elif named in REPLICATED_KINDS or named in OPERATOR_KINDS:
            self._take_workload(named, document, issues)
        elif named == ("", "ConfigMap"):
            if (config_map := self._wire(document, ConfigMapWire, issues)) is not None:
                self._take_config_map(config_map, issues)
        elif named == (wellknown.BUS_GROUP, "Command"):
            if (command := self._wire(document, CommandWire, issues)) is not None:
                self._keep(self.bundle.commands, command_from_wire(command, issues), None, issues)
        elif named == ("policy", "PodDisruptionBudget"):
            if (budget := self._wire(document, BudgetWire, issues)) is not None:
                # Only for its errors: what it allows depends on all pods.
                budget_from_wire(budget, issues)
                self._keep(self.bundle.disruption_budgets, budget, budget.metadata, issues)
        elif not document.kind.endswith("List"):
            self.bundle.ignored[document.kind] += 1
        count = len(self._misfits)
        for number, error in enumerate(issues.errors):
            if number < count or not any(follows_from(error.field, misfit) for misfit in self._misfits):
                self._add_error(error)

    def _wire(self, document: ManifestDocument, kind: type[Wire], issues: Findings) -> Wire | None:
        decoded = document.decode(kind)
        self._kind = document.kind
        if isinstance(decoded, list):
            issues.errors.extend(decoded)
            self._misfits = [error.field for error in decoded]
            # Errors of these do not always matter, and what was left out would say so.
            return None if kind in _OTHERS_MAY_USE else document.decode_rest(kind)
        written = document.kind in _WRITTEN and not decoded.metadata.uid
        if written and len(self.bundle.remarks) < MAX_ERRORS:
            self.bundle.remarks += manifest_notes(document.origin, document.kind, document.plain())
        known = READABLE.get((document.api_version.rpartition("/")[0], document.kind))
        if self._namespace and (known is None or known.resource.namespaced):
            meta, wanted = decoded.metadata, self._namespace
            if meta.namespace and meta.namespace != wanted:
                problem = f"Invalid value: {quoted(meta.namespace)}: must be {quoted(wanted)}, as -n says"
                issues.add_error("metadata.namespace", problem)
            meta.namespace = wanted
        return decoded

    def _keep(self, where: list[Kept], thing: Kept, meta: MetaWire | None, issues: Findings) -> None:
        """Add an object without errors and with a new name, and update the newest timestamp."""
        if meta is not None and (name := object_name(meta)):
            kind = STORED.get(type(thing))
            namespace = "" if kind and not kind.resource.namespaced else meta.namespace or "default"
            self._check_name(self._kind, namespace, name, issues)
            self._update_newest(meta.creation_timestamp)
        if not issues.errors:
            where.append(thing)

    def _check_name(self, kind: str, namespace: str, name: str, issues: Findings) -> None:
        first = self._origins.setdefault((kind, namespace, name), issues.origin)
        if first is not issues.origin:
            full = f"{namespace}/{name}" if namespace else name
            issues.add_error("metadata.name", f"the {kind} {full} is already defined in {first}")

    def _update_newest(self, text: str | None) -> None:
        if text is not None:
            # An invalid time was reported with its field when the object was read.
            with suppress(NotReadableError):
                self.bundle.newest_timestamp = max(self.bundle.newest_timestamp, nanoseconds(text))

    def _take_config_map(self, wire: ConfigMapWire, issues: Findings) -> None:
        kind = IN_CONFIG_MAPS.get(wire.metadata.name or "")
        if kind is not None and kind.read_data is not None:
            identity(wire.metadata, "ConfigMap", issues)
            value = kind.read_data(wire.texts, issues if kind.checks_data else Findings(issues.origin))
            self._keep(self.bundle.of(kind.value), value, wire.metadata, issues)
            if isinstance(value, TopologyDiscovery):
                self.bundle.remarks += [f"{issues.origin}: {warning}" for warning in value.warnings]
            return
        read = config_map_from_wire(wire, issues)
        health = node_reports_of(wire, issues)
        if read is None and health is None:
            # It is not used, so errors in it do not matter.
            issues.errors.clear()
            self.bundle.ignored["ConfigMap"] += 1
            return
        reports, passed_on = read if read is not None else ([], None)
        if passed_on is not None:
            self._keep(self.bundle.config_maps, passed_on, wire.metadata, issues)
            return
        valid: list[tuple[list[DeviceReport], list[NodeReport]]] = []
        self._keep(valid, (reports, health or []), wire.metadata, issues)
        for report in (report for group, _ in valid for report in group):
            self.bundle.reports.append(report)
            self.bundle.newest_timestamp = max(self.bundle.newest_timestamp, report.update_time)
        self.bundle.of(NodeReport).extend(report for _, group in valid for report in group)

    def _take_object(self, kind: Kind[Any], document: ManifestDocument, issues: Findings) -> None:
        assert kind.reader is not None
        struct, read = kind.reader
        wire: Any = self._wire(document, struct, issues)
        if wire is None:
            return
        value = read(wire, self._classes, issues)
        if kind.check_new is not None and not wire.metadata.uid:
            kind.check_new(wire, value, issues)
        if isinstance(value, Pod) and value.ephemeral_claims and value.node is None:
            self._ephemeral.append((value, ephemeral_volumes(wire.spec, "spec", issues)))
        if isinstance(value, VcJob) and not value.problems:
            self._count_pods(value.replicas, "spec.tasks", issues)
        self._keep(self.bundle.of(kind.value), value, wire.metadata, issues)
        if issues.errors and isinstance(value, Pod):
            self._keep_chips_of(document.plain() if self._misfits else wire, issues)

    def _keep_chips_of(self, received: object, issues: Findings) -> None:
        """Add what stands for a bound pod with errors: with `keep_going` its chips are not free (N7)."""
        pod = stand_in_for_pod(received, self._classes, issues.origin)
        if pod is not None:
            first = self._origins.setdefault((self._kind, pod.namespace, pod.name), issues.origin)
            if first is issues.origin:
                self.bundle.pods.append(pod)

    def _count_pods(self, count: int, path: str, issues: Findings) -> None:
        self._job_pods += count
        if self._job_pods > MAX_JOB_PODS:
            issues.add_error(path, f"the jobs of this input have more than {MAX_JOB_PODS} pods in total")

    def _take_workload(self, owner: tuple[str, str], document: ManifestDocument, issues: Findings) -> None:
        """An owner of pods. One with an owner of its own, such as a Deployment's ReplicaSet, is left out."""
        notes: list[str] = []
        form = OPERATOR_KINDS.get(owner)
        wire = self._wire(document, ReplicatedWire if form is None else OperatorJobWire, issues)
        if isinstance(wire, ReplicatedWire):
            workload = replicated_from_wire(wire, document.kind, self._classes, issues, notes)
        elif isinstance(wire, OperatorJobWire) and form is not None:
            workload = operator_job_from_wire(wire, document.kind, form, self._classes, issues, notes)
        else:
            return
        if wire.metadata.owner_references:
            issues.errors.clear()
            self.bundle.of_owners[document.kind] += 1
            return
        theirs = workload.roles and not set(workload.schedulers) & set(wellknown.SCHEDULER_NAMES)
        if theirs and not workload.asks_for_chips:
            issues.errors.clear()
            self.bundle.of_others[document.kind] += 1
            return
        # A vcjob and a Kubernetes Job of one name are two objects.
        self._kind = f"{document.kind}.{owner[0]}" if owner[0] else document.kind
        self._count_pods(workload.replicas, "spec", issues)
        self._keep(self._workloads, workload, wire.metadata, issues)
        if len(self.bundle.remarks) < MAX_ERRORS:
            self.bundle.remarks += notes


def _advance(progress: Progress | None, done: int, total: int, at: int) -> None:
    if progress is not None:
        progress(done + at, total)


# -- the pods and PodGroups that an input still lacks: a dump has most of them, a manifest none


def add_workloads(pods: list[Pod], groups: list[PodGroup], workloads: list[Workload]) -> None:
    """Add the pods that the controllers of the workloads would create, and PodGroups as ours would."""
    names = {pod.key for pod in pods}
    owned: dict[tuple[str, str, str], list[Pod]] = {}
    for pod in pods:
        for key in _owner_keys(pod.namespace, pod.owner):
            owned.setdefault(key, []).append(pod)
    groups_of = {key: group for group in groups for key in _owner_keys(group.namespace, group.owner)}
    taken = {group.key for group in groups}
    # Pods with random names make way for those whose names are fixed.
    for workload in sorted(workloads, key=lambda one: one.random_names):
        key = (workload.namespace, workload.kind, workload.name)
        existing = owned.get(key, [])
        _join(workload, groups_of.get(key), existing, taken)
        missing = _missing(workload, existing, names)
        alone = [pod for pod in existing if workload.creates_group and _awaits_group(pod)]
        if missing or alone:
            names.update(pod.key for pod in missing)
            pods += missing
            group = workload_group(workload)
            if group is not None:
                taken.add(group.key)
                groups.append(group)
                for pod in alone:
                    _set_group(pod, group)
    _add_groups(pods, groups, taken)


def _add_groups(pods: list[Pod], groups: list[PodGroup], taken: set[str]) -> None:
    """The PodGroups of pods whose owner is not in the input, and of bare pods that need one."""
    made: dict[str, PodGroup] = {}
    for pod in pods:
        if _awaits_group(pod) and needs_group(pod) and not group_owner(pod).is_vcjob:
            group = group_for(pod, None)
            if group.key not in taken:
                group = made.setdefault(group.key, replace(group, created=pod.created, origin=pod.origin))
            _set_group(pod, group)
    groups += made.values()


def _awaits_group(pod: Pod) -> bool:
    return pod.group is None and pod.scheduler in SCHEDULER_NAMES and pod.live and not pod.deleting


def _set_group(pod: Pod, group: PodGroup) -> None:
    pod.group = group.name
    pod.annotations = {**pod.annotations, GROUP_NAME: group.name}


def _owner_keys(namespace: str, owner: Owner | None) -> Iterator[tuple[str, str, str]]:
    """A ReplicaSet stands for its Deployment, too, with whose name its own begins."""
    if owner is not None:
        yield namespace, owner.kind, owner.name
        deployment, dash, _ = owner.name.rpartition("-")
        if owner.kind == "ReplicaSet" and dash:
            yield namespace, "Deployment", deployment


def _join(workload: Workload, group: PodGroup | None, existing: list[Pod], taken: set[str]) -> None:
    """Take the PodGroup that the workload has already, or a name that no other has."""
    name = group.name if group is not None else next((pod.group for pod in existing if pod.group), None)
    if name is not None:
        workload.group, workload.creates_group = name, False
    while workload.creates_group and f"{workload.namespace}/{workload.group}" in taken:
        workload.group = f"{workload.group}-{workload.kind.lower()}"


def _missing(workload: Workload, existing: list[Pod], names: set[str]) -> list[Pod]:
    if not workload.random_names:
        return [pod for pod in workload_pods(workload) if pod.key not in names]
    made = list(workload_pods(workload))[: max(0, workload.replicas - sum(pod.live for pod in existing))]
    while any(pod.key in names for pod in made):
        # Another owner has a pod of that name.
        workload.stem = f"{workload.stem or workload.name}-{workload.kind.lower()}"
        made = list(workload_pods(workload))[: len(made)]
    return made
