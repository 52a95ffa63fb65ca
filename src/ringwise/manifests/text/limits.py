"""Sizes that no real job has: an object that exceeds one is refused where it is read.

Every one of them is far above what jobs use, and low enough that to read and to place an object stays cheap.
A pod that is bound already is not refused, or its owner could close its node: the field is dropped, and its
chips are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized

from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.wire import (
    LabelSelectorWire,
    MetaWire,
    NodeAffinityWire,
    PodAffinityWire,
    PodSpecWire,
    Quantities,
    ResourcesWire,
)
from ringwise.records import dataclass
from ringwise.wellknown import CHIP_RESOURCE_FAMILIES

#: What counts of a term: its expressions, and the values in them.
_Sizes = list[tuple[int, int]]
SPREAD_FIELD = "topologySpreadConstraints"
_OF_ALL_PODS = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class ObjectLimit:
    """One limit: of which objects, what is counted, and how many there may be."""

    object: str
    counted: str
    most: int


TERMS = ObjectLimit("pod", "terms of one kind of node or pod affinity", 256)
REQUIREMENTS = ObjectLimit("pod", "expressions in all its affinity terms, or spread constraints", 512)
VALUES = ObjectLimit("pod", "values and namespaces in all its affinity terms, or spread constraints", 8_192)
SELECTOR = ObjectLimit("pod", "labels of its nodeSelector", 256)
SPREAD = ObjectLimit("pod", "topology spread constraints", 64)
TOLERATIONS = ObjectLimit("pod", "tolerations", 256)
PORTS = ObjectLimit("pod", "ports of all its containers", 1_024)
RESOURCES = ObjectLimit("pod, vcjob", "requested resources", 128)
MIN_RESOURCES = ObjectLimit("PodGroup", "resources in minResources", 1_024)
LABELS = ObjectLimit("pod, PodGroup, vcjob", "labels", 1_024)
TASKS = ObjectLimit("vcjob, PodGroup", "tasks", 1_024)
DEPENDENCIES = ObjectLimit("vcjob", "dependencies of all tasks (dependsOn)", 8_192)
POLICIES = ObjectLimit("vcjob", "policies of the job or of one task", 64)
EVENTS = ObjectLimit("vcjob", "events of one policy", 64)
PLUGINS = ObjectLimit("vcjob", "job plugins and their arguments", 256)
SUB_GROUPS = ObjectLimit("PodGroup", "sub-group policies", 1_024)
SUB_GROUP_LABELS = ObjectLimit("PodGroup", "labels in its sub-group policies", 64)
MEMBERS = ObjectLimit("HyperNode", "members", 16_384)
PATTERNS = ObjectLimit("HyperNode", "regular expressions", 256)
PATTERN = ObjectLimit("HyperNode", "characters of a regular expression", 512)
JOB_VOLUMES = ObjectLimit("vcjob", "volumes of the job", 256)
POD_CLAIMS = ObjectLimit("pod", "volumes with claims", 256)
ACCESS_MODES = ObjectLimit("PersistentVolumeClaim, PersistentVolume", "access modes", 16)
VOLUME_TERMS = ObjectLimit("PersistentVolume, StorageClass", "terms of its node affinity or topologies", 256)
VOLUME_VALUES = ObjectLimit("objects of volumes", "expressions and values of all its selectors", 8_192)
DRIVERS = ObjectLimit("CSINode", "drivers and topology keys", 1_024)
NAME = ObjectLimit("any", "characters of a name", 253)

LIMITS = tuple(value for value in tuple(globals().values()) if isinstance(value, ObjectLimit))


def check(limit: ObjectLimit, items: Sized | int | None, path: str, issues: Findings) -> bool:
    """Whether there are at most so many; else an error says how many there are."""
    count = items if isinstance(items, int) else len(items or ())
    if count <= limit.most:
        return True
    issues.too_large(path, f"has {count:,} {limit.counted}; at most {limit.most:,} are allowed")
    return False


def oversized(spec: PodSpecWire) -> Iterator[tuple[str, ObjectLimit, int]]:
    """The fields of a pod spec that decide on its placement and exceed a limit, with what they have."""
    ports = sum(len(one.ports or ()) for one in (*(spec.containers or ()), *(spec.init_containers or ())))
    for field, limit, count in (
        ("nodeSelector", SELECTOR, len(spec.node_selector or ())),
        ("tolerations", TOLERATIONS, len(spec.tolerations or ())),
        ("containers", PORTS, ports),
        ("volumes", POD_CLAIMS, pod_claims(spec)),
        ("containers", RESOURCES, _resources(spec)),
    ):
        if count > limit.most:
            yield field, limit, count
    if spec.affinity is not None:
        yield from _too_large("affinity", TERMS, _terms(spec))
    if spec.topology_spread_constraints:
        sizes = [
            _sizes(one.label_selector, extra=one.match_label_keys) for one in spec.topology_spread_constraints
        ]
        yield from _too_large(SPREAD_FIELD, SPREAD, [(SPREAD_FIELD, sizes)])


def pod_claims(spec: PodSpecWire) -> int:
    """Return how many volumes of a pod are by claims."""
    return sum(
        one.persistent_volume_claim is not None or one.ephemeral is not None for one in spec.volumes or ()
    )


def _too_large(
    field: str, limit: ObjectLimit, kinds: Iterable[tuple[str, _Sizes]]
) -> Iterator[tuple[str, ObjectLimit, int]]:
    expressions = values = 0
    for path, terms in kinds:
        if len(terms) > limit.most:
            yield path, limit, len(terms)
            continue
        expressions += sum(one for one, _ in terms)
        values += sum(more for _, more in terms)
    if expressions > REQUIREMENTS.most:
        yield field, REQUIREMENTS, expressions
    if values > VALUES.most:
        yield field, VALUES, values


#: Attributes of a pod spec, by the names of their fields.
_ATTRIBUTES = dict(zip(PodSpecWire.__struct_encode_fields__, PodSpecWire.__struct_fields__, strict=True))


def drop_oversized(spec: PodSpecWire) -> None:
    """Remove the fields that exceed a limit from the spec of a bound pod: its place is decided already."""
    for field, limit, _ in list(oversized(spec)):
        if limit is PORTS:
            for container in (*(spec.containers or ()), *(spec.init_containers or ())):
                container.ports = None
        elif limit is RESOURCES:
            for resources in _asking(spec):
                resources.limits = _needed(resources.limits)
                resources.requests = _needed(resources.requests)
        else:
            setattr(spec, _ATTRIBUTES[field.partition(".")[0]], None)


def _asking(spec: PodSpecWire) -> list[ResourcesWire]:
    asking = (one.resources for one in (*(spec.containers or ()), *(spec.init_containers or ())))
    return [one for one in (*asking, spec.resources) if one is not None]


def _resources(spec: PodSpecWire) -> int:
    """How many resources a pod asks for; none where it has too few entries for the limit."""
    lists = [one for resources in _asking(spec) for one in (resources.limits, resources.requests) if one]
    if sum(map(len, lists)) <= RESOURCES.most:
        return 0
    return len({name for one in lists for name in one})


def _needed(amounts: Quantities | None) -> Quantities | None:
    """What counts of a bound pod: its chips, and what all pods use."""
    if amounts is None:
        return None
    chips = sorted(name for name in amounts if name.startswith(CHIP_RESOURCE_FAMILIES))[: RESOURCES.most]
    return {name: amounts[name] for name in (*_OF_ALL_PODS, *chips) if name in amounts}


def drop_labels(meta: MetaWire) -> None:
    """The same for the labels of a bound pod."""
    if len(meta.labels or ()) > LABELS.most:
        meta.labels = None


def _terms(spec: PodSpecWire) -> Iterator[tuple[str, _Sizes]]:
    affinity = spec.affinity
    if affinity is None:
        return
    if affinity.node_affinity is not None:
        yield from _node_terms(affinity.node_affinity)
    if affinity.pod_affinity is not None:
        yield from _pod_terms(affinity.pod_affinity, "affinity.podAffinity")
    if affinity.pod_anti_affinity is not None:
        yield from _pod_terms(affinity.pod_anti_affinity, "affinity.podAntiAffinity")


def _node_terms(wire: NodeAffinityWire) -> Iterator[tuple[str, _Sizes]]:
    required = (wire.required.node_selector_terms if wire.required is not None else None) or ()
    preferred = [one.preference for one in wire.preferred or () if one.preference is not None]
    for kind, terms in (("required", required), ("preferred", preferred)):
        sizes = []
        for term in terms:
            expressions = [*(term.match_expressions or ()), *(term.match_fields or ())]
            sizes.append((len(expressions), sum(len(one.values or ()) for one in expressions)))
        yield f"affinity.nodeAffinity.{kind}DuringSchedulingIgnoredDuringExecution", sizes


def _pod_terms(wire: PodAffinityWire, path: str) -> Iterator[tuple[str, _Sizes]]:
    preferred = [one.pod_affinity_term for one in wire.preferred or () if one.pod_affinity_term is not None]
    for kind, terms in (("required", wire.required or ()), ("preferred", preferred)):
        sizes = []
        for term in terms:
            keys = (*(term.match_label_keys or ()), *(term.mismatch_label_keys or ()))
            count, values = _sizes(term.label_selector, term.namespace_selector, extra=keys)
            sizes.append((count, values + len(term.namespaces or ())))
        yield f"{path}.{kind}DuringSchedulingIgnoredDuringExecution", sizes


def _sizes(*selectors: LabelSelectorWire | None, extra: Sized | None) -> tuple[int, int]:
    """Their expressions, with so many more, and the values in them."""
    count, values = len(extra or ()), 0
    for selector in selectors:
        if selector is not None:
            expressions = selector.match_expressions or ()
            count += len(expressions) + len(selector.match_labels or ())
            values += sum(len(one.values or ()) for one in expressions)
    return count, values
