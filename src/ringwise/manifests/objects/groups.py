"""PodGroups, Queues, PriorityClasses, ResourceQuotas, Namespaces and Commands into values of the state."""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.manifests.objects.metadata import identity, reference
from ringwise.manifests.objects.network_topology import network_topology, sub_group_policies
from ringwise.manifests.objects.pods import never_preempts
from ringwise.manifests.objects.resources import amounts
from ringwise.manifests.text.checking import check_word, decoded, keyed
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.limits import MIN_RESOURCES, TASKS, check
from ringwise.manifests.text.strings import shared
from ringwise.manifests.text.wire import (
    CommandTargetWire,
    CommandWire,
    ConditionsWire,
    NamespaceWire,
    PhaseStatusWire,
    PodGroupSpecWire,
    PodGroupWire,
    PriorityClassWire,
    Quantities,
    QueueAffinityWire,
    QueueSpecWire,
    QueueStatusWire,
    QueueWire,
    ResourceQuotaSpecWire,
    ResourceQuotaStatusWire,
    ResourceQuotaWire,
    ScopeExpressionWire,
    ScopeSelectorWire,
)
from ringwise.messages.events import JobCommand, QueueCommand
from ringwise.state.model import (
    DEFAULT_QUEUE,
    ROOT_QUEUE,
    ClassScope,
    Namespace,
    NodeGroupAffinity,
    PodGroup,
    PriorityClass,
    Queue,
    ResourceQuota,
    ordinary_group_name,
)
from ringwise.state.queue_rules import DEFAULT_NAMESPACE
from ringwise.topology.numbers import INT32, whole_number
from ringwise.wellknown import GROUP_REPLICAS, NAMESPACE_LIMITS, NODE_GROUP_LIMITS

_GROUP_PHASES = ("Pending", "Running", "Unknown", "Inqueue", "Completed")
_QUEUE_STATES = ("Open", "Closed", "Closing", "Unknown")
_PRIORITIES = 2**31
_CLASS_SCOPE = "PriorityClass"
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def pod_group_from_wire(wire: PodGroupWire, issues: Findings) -> PodGroup:
    who = identity(wire.metadata, "PodGroup", issues)
    spec = wire.spec or PodGroupSpecWire()
    phase = (wire.status or PhaseStatusWire()).phase or ""
    if phase:
        check_word("status.phase", phase, _GROUP_PHASES, issues)
    tasks = spec.min_task_member or {}
    if not check(TASKS, tasks, "spec.minTaskMember", issues):
        tasks = {}
    least = spec.min_resources
    if not check(MIN_RESOURCES, least, "spec.minResources", issues):
        least = None
    ordinary = who.owner is not None and who.name == ordinary_group_name(who.owner.uid)
    # Written by the controller; what cannot be read announces nothing.
    replicas = whole_number(who.annotations.get(GROUP_REPLICAS, ""), 1, INT32) if ordinary else None
    return PodGroup(
        namespace=who.namespace,
        name=who.name,
        uid=who.uid,
        ordinary=ordinary,
        replicas=replicas or 0,
        min_member=issues.count("spec.minMember", spec.min_member, 1),
        min_task_member={
            shared(task): issues.count(keyed("spec.minTaskMember", task), count, 0)
            for task, count in tasks.items()
        },
        queue=reference(spec.queue, "spec.queue", issues, DEFAULT_QUEUE),
        priority_class=reference(spec.priority_class_name, "spec.priorityClassName", issues),
        min_resources=amounts(least, "spec.minResources", issues),
        phase=shared(phase),
        created=who.created,
        labels=who.labels,
        annotations=who.annotations,
        owner=who.owner,
        origin=issues.origin,
        topology=network_topology(spec.network_topology, "spec.networkTopology", issues),
        sub_groups=sub_group_policies(spec.sub_group_policy, "spec.subGroupPolicy", issues),
    )


def queue_from_wire(wire: QueueWire, issues: Findings) -> Queue:
    who = identity(wire.metadata, "Queue", issues, namespaced=False)
    spec = wire.spec or QueueSpecWire()
    state = (wire.status or QueueStatusWire()).state or "Open"
    check_word("status.state", state, _QUEUE_STATES, issues)
    guarantee = spec.guarantee.resource if spec.guarantee else None
    limits, problem = _node_group_limits(who.annotations.get(NODE_GROUP_LIMITS))
    return Queue(
        name=who.name,
        weight=issues.count("spec.weight", spec.weight, 1, least=1, most=65535),
        capability=amounts(spec.capability, "spec.capability", issues),
        guarantee=amounts(guarantee, "spec.guarantee.resource", issues),
        reclaimable=spec.reclaimable is not False,
        state=state,
        priority=issues.count("spec.priority", spec.priority, 0, least=-_PRIORITIES, most=_PRIORITIES - 1),
        parent=spec.parent or ("" if who.name == ROOT_QUEUE else ROOT_QUEUE),
        created=who.created,
        uid=who.uid,
        annotations=who.annotations,
        origin=issues.origin,
        deserved=amounts(spec.deserved, "spec.deserved", issues),
        node_groups=_node_groups(spec.affinity),
        node_group_limits=limits,
        node_group_problem=problem,
    )


def _node_groups(wire: QueueAffinityWire | None) -> NodeGroupAffinity | None:
    """The rules of a queue about node groups; None where it has none."""
    if wire is None:
        return None
    near, far = wire.node_group_affinity, wire.node_group_anti_affinity
    if near is None and far is None:
        return None
    return NodeGroupAffinity(
        required=tuple(near.required or ()) if near is not None else (),
        preferred=tuple(near.preferred or ()) if near is not None else (),
        anti_required=tuple(far.required or ()) if far is not None else (),
        anti_preferred=tuple(far.preferred or ()) if far is not None else (),
    )


def _node_group_limits(text: str | None) -> tuple[Mapping[str, Mapping[str, int]], str]:
    """What a queue may use on each node group, or why that cannot be read.

    It is not an error of the Queue: only the plugin nodegroup reads it, and jobs then wait with the reason.
    """
    if text is None:
        return {}, ""
    issues = Findings("")
    limits = {
        group: amounts(resources, keyed("", group), issues)
        for group, resources in (decoded(text, dict[str, Quantities], "", issues) or {}).items()
    }
    return ({}, str(issues.errors[0])) if issues.errors else (limits, "")


def command_from_wire(wire: CommandWire, issues: Findings) -> JobCommand | QueueCommand:
    """A Command object. It exists until it is carried out."""
    target = wire.target or CommandTargetWire()
    name, action = target.name or "", wire.action or ""
    if target.kind not in ("Job", "Queue"):
        issues.invalid("target.kind", target.kind, "must be Job or Queue")
    if not name:
        issues.add_error("target.name", "Required value")
    if not action:
        issues.add_error("action", "Required value")
    meta = wire.metadata
    namespace = meta.namespace or DEFAULT_NAMESPACE
    if target.kind == "Queue":
        return QueueCommand(name, action, namespace, meta.name or "", meta.uid or "")
    return JobCommand(f"{namespace}/{name}", action, wire.message or "")


def resource_quota_from_wire(wire: ResourceQuotaWire, issues: Findings) -> ResourceQuota:
    who = identity(wire.metadata, "ResourceQuota", issues)
    spec = wire.spec or ResourceQuotaSpecWire()
    status = wire.status or ResourceQuotaStatusWire()
    class_scopes, other_scopes = _scopes(spec, issues)
    return ResourceQuota(
        namespace=who.namespace,
        name=who.name,
        hard=amounts(spec.hard, "spec.hard", issues),
        used=amounts(status.used, "status.used", issues),
        origin=issues.origin,
        class_scopes=class_scopes,
        other_scopes=other_scopes,
    )


def _scopes(spec: ResourceQuotaSpecWire, issues: Findings) -> tuple[tuple[ClassScope, ...], bool]:
    """What a quota says about priority classes, and whether it has other scopes.

    A scope in the short list means that the pod has it: any priority class, for one.
    """
    selector = spec.scope_selector or ScopeSelectorWire()
    wires = [
        *(ScopeExpressionWire(scope, "Exists") for scope in spec.scopes or ()),
        *(selector.match_expressions or ()),
    ]
    classes: list[ClassScope] = []
    for position, wire in enumerate(wires):
        if wire.scope_name != _CLASS_SCOPE:
            continue
        path = f"spec.scopeSelector.matchExpressions[{position - len(spec.scopes or ())}].operator"
        check_word(path, wire.operator, _OPERATORS, issues)
        classes.append(ClassScope(shared(wire.operator or ""), tuple(map(shared, wire.values or ()))))
    return tuple(classes), len(classes) < len(wires)


def priority_class_from_wire(wire: PriorityClassWire, issues: Findings) -> PriorityClass:
    who = identity(wire.metadata, "PriorityClass", issues, namespaced=False)
    return PriorityClass(
        name=who.name,
        value=issues.count("value", wire.value, 0, least=-_PRIORITIES, most=_PRIORITIES - 1),
        default=bool(wire.global_default),
        never_preempts=bool(never_preempts(wire.preemption_policy, "preemptionPolicy", issues)),
        origin=issues.origin,
    )


def namespace_from_wire(wire: NamespaceWire, issues: Findings) -> Namespace:
    """Its labels, and the limits that the scheduler wrote into its status."""
    who = identity(wire.metadata, "Namespace", issues, namespaced=False)
    status = wire.status or ConditionsWire()
    limits = (one.message or "" for one in status.conditions or () if one.type == NAMESPACE_LIMITS)
    return Namespace(who.name, who.labels, next(limits, ""), issues.origin)
