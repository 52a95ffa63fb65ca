"""Pods and pod templates into the objects of the state."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import ReferenceType, WeakValueDictionary

import msgspec

from ringwise import wellknown
from ringwise.manifests.objects.affinity import label_keys, node_rules, pod_rules, spread_rules, tolerations
from ringwise.manifests.objects.chips import chips_in
from ringwise.manifests.objects.metadata import (
    Identity,
    boolean_in,
    identity,
    name_of,
    number_in,
    texts,
    time_of,
)
from ringwise.manifests.objects.resources import CPU, MEMORY, extended, is_sidecar, pod_requests
from ringwise.manifests.objects.visible_devices import visible_devices
from ringwise.manifests.objects.volumes import ephemeral_claims, named_claims
from ringwise.manifests.text.checking import check_word, keyed
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.limits import (
    POD_CLAIMS,
    SPREAD_FIELD,
    check,
    drop_labels,
    drop_oversized,
    oversized,
    pod_claims,
)
from ringwise.manifests.text.strings import shared
from ringwise.manifests.text.wire import ContainerWire, PodSpecWire, PodStatusWire, PodWire
from ringwise.state.model import ENDED, NodeTerm, Pod, PodClass, PodTerm

GROUP_ANNOTATIONS = (wellknown.GROUP_NAME, wellknown.VOLCANO_GROUP_NAME)

_NO_LABELS: Mapping[str, str] = {}
_ENCODER = msgspec.msgpack.Encoder()
_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
_PRIORITIES = 2**31
_NEVER = "Never"
#: Seconds: the default, and the maximum that is used.
_GRACE, _LONGEST_GRACE = 30, 10 * 365 * 86400
_PREEMPTION_POLICIES = (_NEVER, "PreemptLowerPriority")


class _CachedClass(ReferenceType[PodClass]):
    """A pod class as long as a pod has it, and the number of containers that request chips."""

    __slots__ = ("chip_containers", "key")

    key: bytes
    chip_containers: int


class PodClassCache:
    """Every distinct pod class once: thousands of pods share a template.

    The key is the encoding of the fields that matter, so a template is checked once and not for every pod.
    A class is kept as long as a pod has it, so the cache is never larger than what is live.
    """

    def __init__(self) -> None:
        self._classes: WeakValueDictionary[tuple[object, ...], PodClass] = WeakValueDictionary()
        checked: dict[bytes, _CachedClass] = {}
        self._checked = checked

        def forget(entry: ReferenceType[PodClass]) -> None:
            # Not a method: it would keep the cache alive with its classes.
            if isinstance(entry, _CachedClass) and checked.get(entry.key) is entry:
                del checked[entry.key]

        self._forget = forget

    def __len__(self) -> int:
        return len(self._checked)

    def of(
        self, spec: PodSpecWire, labels: Mapping[str, str], path: str, issues: Findings
    ) -> tuple[PodClass, int]:
        """The class of a pod spec, and the number of containers that request chips (D4).

        `labels`: those of the pod. Its terms may ask for pods with the same or with other values of them.
        """
        keys = label_keys(spec)
        labels = {key: labels[key] for key in keys if key in labels} if keys else _NO_LABELS
        try:
            seen = _ENCODER.encode(
                (
                    [(container.resources, container.ports) for container in spec.containers or ()],
                    [(one.resources, one.restart_policy, one.ports) for one in spec.init_containers or ()],
                    spec.overhead,
                    spec.resources,
                    spec.node_selector,
                    spec.affinity,
                    spec.tolerations,
                    spec.host_network,
                    spec.topology_spread_constraints,
                    len(spec.resource_claims or ()),
                    sorted(labels.items()),
                    pod_claims(spec) > POD_CLAIMS.most,
                )
            )
        except OverflowError:
            # A number beyond 64 bits: the check reports its field, and there is no key to find it by.
            return self._check(spec, labels, path, issues)
        entry = self._checked.get(seen)
        cls = entry() if entry is not None else None
        if entry is not None and cls is not None:
            return cls, entry.chip_containers
        before = len(issues.errors)
        cls, chip_containers = self._check(spec, labels, path, issues)
        if len(issues.errors) == before:
            entry = _CachedClass(cls, self._forget)
            entry.key, entry.chip_containers = seen, chip_containers
            self._checked[seen] = entry
        return cls, chip_containers

    def _check(
        self, spec: PodSpecWire, labels: Mapping[str, str], path: str, issues: Findings
    ) -> tuple[PodClass, int]:
        requests = pod_requests(spec, path, issues)
        chips = requests.chips
        too_large = list(oversized(spec))
        if too_large:
            for field, limit, count in too_large:
                check(limit, count, f"{path}.{field}", issues)
            return PodClass(), requests.chip_containers
        node_terms: tuple[NodeTerm, ...] = ()
        preferred_nodes: tuple[tuple[int, NodeTerm], ...] = ()
        nothing: tuple[tuple[PodTerm, ...], tuple[PodTerm, ...]] = ((), ())
        together = apart = nothing
        if spec.affinity is not None:
            where = f"{path}.affinity"
            if spec.affinity.node_affinity is not None:
                node_terms, preferred_nodes = node_rules(
                    spec.affinity.node_affinity, f"{where}.nodeAffinity", issues
                )
            if spec.affinity.pod_affinity is not None:
                together = pod_rules(spec.affinity.pod_affinity, labels, f"{where}.podAffinity", issues)
            if spec.affinity.pod_anti_affinity is not None:
                anti_affinity = f"{where}.podAntiAffinity"
                apart = pod_rules(spec.affinity.pod_anti_affinity, labels, anti_affinity, issues)
        meaning = (
            # Two chip resources in one pod are valid input but cannot be placed: no board has the joined
            # name.
            "+".join(sorted(chips or requests.chips_declined)) or None,
            sum(chips.values()),
            requests.amounts.get(CPU, 0),
            requests.amounts.get(MEMORY, 0),
            extended(requests.amounts),
            tuple(sorted(texts(spec.node_selector).items())),
            node_terms,
            preferred_nodes,
            tolerations(spec.tolerations, f"{path}.tolerations", issues),
            together[0],
            apart[0],
            together[1],
            apart[1],
            _host_ports(spec, path, issues),
            requests.chips_before_start,
            spread_rules(spec.topology_spread_constraints, labels, f"{path}.{SPREAD_FIELD}", issues),
            len(spec.resource_claims or ()),
        )
        cls = self._classes.get(meaning)
        if cls is None:
            cls = self._classes[meaning] = PodClass(*meaning)
        return cls, requests.chip_containers


def _host_ports(spec: PodSpecWire, path: str, issues: Findings) -> tuple[tuple[str, str, int], ...]:
    """(address, protocol, port) of containers and sidecars; other init containers end before they start.

    With hostNetwork every port of a container is a port of the host.
    """
    ports = set()
    staying = [(f"containers[{position}]", one) for position, one in enumerate(spec.containers or ())]
    for position, one in enumerate(spec.init_containers or ()):
        if is_sidecar(one):
            staying.append((f"initContainers[{position}]", one))
    for name, container in staying:
        for index, port in enumerate(container.ports or ()):
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number:
                where = f"{path}.{name}.ports[{index}].hostPort"
                number = issues.count(where, number, 0, least=1, most=65535)
                ports.add((port.host_ip or "0.0.0.0", port.protocol or "TCP", number))
    return tuple(sorted(ports))


_NO_SPEC = PodSpecWire()
_NO_STATUS = PodStatusWire()


def pod_from_wire(wire: PodWire, classes: PodClassCache, issues: Findings) -> Pod:
    """The pod. It must not be used when there are errors in `found`."""
    if wire.spec is not None and wire.spec.node_name:
        drop_labels(wire.metadata)
    who = identity(wire.metadata, "Pod", issues)
    spec = wire.spec or _NO_SPEC
    if spec.node_name:
        drop_oversized(spec)
    if not spec.containers:
        issues.add_error("spec.containers", "must have at least one container")
    cls, chip_containers = classes.of(spec, who.labels, "spec", issues)
    phase = (wire.status or _NO_STATUS).phase or "Pending"
    check_word("status.phase", phase, _PHASES, issues)
    node = name_of(spec.node_name, "spec.nodeName", issues) if spec.node_name else None
    nominated = (wire.status or _NO_STATUS).nominated_node_name
    annotations = who.annotations
    named: tuple[str, ...] = ()
    ephemeral: tuple[str, ...] = ()
    if spec.volumes:
        named, ephemeral = named_claims(spec, "spec", issues), ephemeral_claims(spec, who.name)
    return Pod(
        uid=who.uid,
        namespace=who.namespace,
        name=who.name,
        cls=cls,
        phase=shared(phase),
        node=node,
        deleting=who.deleting,
        created=who.created,
        labels=who.labels,
        annotations=annotations,
        group=group_of(annotations),
        task=annotations.get(wellknown.TASK_SPEC) or who.labels.get(wellknown.TASK_SPEC, ""),
        rank=_rank(who, spec, phase, issues),
        owner=who.owner,
        scheduler=shared(spec.scheduler_name or wellknown.DEFAULT_SCHEDULER),
        priority=priority_of(spec, "spec.priority", issues),
        priority_class=shared(spec.priority_class_name or ""),
        preemptable=preemptable(annotations, who.labels, "metadata", issues),
        gated=bool(spec.scheduling_gates),
        chip_containers=chip_containers,
        holds=_named(cls, annotations, cls.resource, phase, issues) if node else (),
        mounted=_named(cls, annotations, wellknown.ASCEND_REAL, phase, issues) if node else (),
        origin=issues.origin,
        never_preempts=never_preempts(spec.preemption_policy, "spec.preemptionPolicy", issues),
        nominated=name_of(nominated, "status.nominatedNodeName", issues) if nominated and not node else "",
        queue_gated=_is_queue_gated(spec, annotations),
        visible_devices=visible_devices(spec, "spec"),
        grace=_grace(spec),
        bound=_bound(wire.status or _NO_STATUS) if node else 0,
        claims=named + ephemeral,
        ephemeral_claims=ephemeral,
    )


def _grace(spec: PodSpecWire) -> int:
    seconds = spec.termination_grace_period_seconds
    return _GRACE if seconds is None else max(0, min(seconds, _LONGEST_GRACE))


def _bound(status: PodStatusWire) -> int:
    """When it got its node: the API server writes that with the binding, kubelet a moment later."""
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "True" and condition.last_transition_time:
            return time_of(condition.last_transition_time, "", Findings(""))
    # Nothing is decided by it: what cannot be read is not known.
    return time_of(status.start_time, "", Findings(""))


def _is_queue_gated(spec: PodSpecWire, annotations: Mapping[str, str]) -> bool:
    """Return whether only our gate is left. Without the annotation another component added and removes it."""
    gates = [gate.name for gate in spec.scheduling_gates or ()]
    return gates == [wellknown.QUEUE_GATE] and annotations.get(wellknown.QUEUE_GATE) == "true"


def group_of(annotations: Mapping[str, str]) -> str | None:
    for key in GROUP_ANNOTATIONS:
        if annotations.get(key):
            return shared(annotations[key])
    return None


def priority_of(spec: PodSpecWire, path: str, issues: Findings) -> int:
    """The pod's own, which the API server checks. Volcano's task annotation only orders the pods of a job."""
    return issues.count(path, spec.priority, 0, least=-_PRIORITIES, most=_PRIORITIES - 1)


def never_preempts(policy: str | None, path: str, issues: Findings) -> bool | None:
    """None where no policy is given."""
    if policy:
        check_word(path, policy, _PREEMPTION_POLICIES, issues)
    return policy == _NEVER if policy else None


def preemptable(
    annotations: Mapping[str, str], labels: Mapping[str, str], path: str, issues: Findings
) -> bool:
    if wellknown.PREEMPTABLE in annotations:
        return boolean_in(
            annotations[wellknown.PREEMPTABLE], keyed(f"{path}.annotations", wellknown.PREEMPTABLE), issues
        )
    if wellknown.PREEMPTABLE in labels:
        return boolean_in(
            labels[wellknown.PREEMPTABLE], keyed(f"{path}.labels", wellknown.PREEMPTABLE), issues
        )
    return False


def _rank(who: Identity, spec: PodSpecWire, phase: str, issues: Findings) -> int | None:
    """The rank annotation (not of failed pods), else the number that the owner gives, else the task index.

    StatefulSets number by name, Indexed Jobs of Kubernetes by label.
    """
    written = who.annotations.get(wellknown.RANK_INDEX)
    if written and phase != "Failed":
        return number_in(written, keyed("metadata.annotations", wellknown.RANK_INDEX), issues, least=0)
    ordinal = who.labels.get(wellknown.JOB_COMPLETION_INDEX)
    if ordinal is None and who.owner is not None and who.owner.kind == "StatefulSet":
        ordinal = who.name.rpartition("-")[2]
    if ordinal is not None and ordinal.isascii() and ordinal.isdigit() and len(ordinal) <= 9:
        return int(ordinal)
    return rank_variable(spec, "spec", issues)


def rank_variable(spec: PodSpecWire, path: str, issues: Findings) -> int | None:
    for position, container in enumerate(spec.containers or ()):
        value, index = _variable(container)
        if value:
            return number_in(value, f"{path}.containers[{position}].env[{index}].value", issues, least=0)
    return None


def _variable(container: ContainerWire) -> tuple[str, int]:
    for index, variable in enumerate(container.env or ()):
        if variable.name == wellknown.TASK_INDEX_VARIABLE:
            return variable.value or "", index
    return "", 0


def _named(
    cls: PodClass, annotations: Mapping[str, str], key: str | None, phase: str, issues: Findings
) -> tuple[int, ...]:
    """N8: the chips that one list of a bound pod names, up to the pod's limit. No limit: none.

    A shorter list is valid: the state closes the node of a pod that names fewer chips than it uses (N7).
    """
    if phase in ENDED:
        # It no longer holds chips, so errors in the list do not matter.
        issues = Findings(issues.origin)
    if not cls.chips or cls.resource is None or key is None or "+" in cls.resource:
        return ()
    written = annotations.get(key)
    if not written or "-" in cls.resource:
        # A resource with a dash is a vNPU; its names are not those of physical chips.
        return ()
    return chips_in(written, cls.resource, keyed("metadata.annotations", key), issues)[: cls.chips]
