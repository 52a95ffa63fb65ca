"""PodGroups, Queues and PriorityClasses into the objects of the state."""

from __future__ import annotations

import sys

from ringwise.manifests.checking import keyed
from ringwise.manifests.errors import Findings, shown
from ringwise.manifests.metadata import identity
from ringwise.manifests.pods import never_preempts
from ringwise.manifests.resources import amounts
from ringwise.manifests.wire import (
    PhaseStatusWire,
    PodGroupSpecWire,
    PodGroupWire,
    PriorityClassWire,
    QueueSpecWire,
    QueueStatusWire,
    QueueWire,
)
from ringwise.state.model import PodGroup, PriorityClass, Queue

DEFAULT_QUEUE = "default"
_GROUP_PHASES = ("", "Pending", "Running", "Unknown", "Inqueue", "Completed")
_QUEUE_STATES = ("Open", "Closed", "Closing", "Unknown")
_PRIORITIES = 2**31


def pod_group_from_wire(wire: PodGroupWire, found: Findings) -> PodGroup:
    who = identity(wire.metadata, "PodGroup", found)
    spec = wire.spec or PodGroupSpecWire()
    phase = (wire.status or PhaseStatusWire()).phase or ""
    if phase not in _GROUP_PHASES:
        found.wrong("status.phase", f"must be one of {', '.join(_GROUP_PHASES[1:])}, got {shown(phase)}")
    return PodGroup(
        namespace=who.namespace,
        name=who.name,
        uid=who.uid,
        min_member=found.count("spec.minMember", spec.min_member, 1),
        min_task_member={
            sys.intern(task): found.count(keyed("spec.minTaskMember", task), count, 0)
            for task, count in (spec.min_task_member or {}).items()
        },
        queue=sys.intern(spec.queue or DEFAULT_QUEUE),
        priority_class=sys.intern(spec.priority_class_name or ""),
        min_resources=amounts(spec.min_resources, "spec.minResources", found),
        phase=sys.intern(phase),
        created=who.created,
        labels=who.labels,
        annotations=who.annotations,
        owner=who.owner,
        origin=found.origin,
    )


def queue_from_wire(wire: QueueWire, found: Findings) -> Queue:
    who = identity(wire.metadata, "Queue", found, namespaced=False)
    spec = wire.spec or QueueSpecWire()
    state = (wire.status or QueueStatusWire()).state or "Open"
    if state not in _QUEUE_STATES:
        found.wrong("status.state", f"must be one of {', '.join(_QUEUE_STATES)}, got {shown(state)}")
    guarantee = spec.guarantee.resource if spec.guarantee else None
    return Queue(
        name=who.name,
        weight=found.count("spec.weight", spec.weight, 1, least=1, most=65535),
        capability=amounts(spec.capability, "spec.capability", found),
        guarantee=amounts(guarantee, "spec.guarantee.resource", found),
        reclaimable=spec.reclaimable is not False,
        state=state,
        priority=found.count("spec.priority", spec.priority, 0, least=-_PRIORITIES, most=_PRIORITIES - 1),
        parent=spec.parent or "",
        created=who.created,
        uid=who.uid,
        annotations=who.annotations,
        origin=found.origin,
    )


def priority_class_from_wire(wire: PriorityClassWire, found: Findings) -> PriorityClass:
    who = identity(wire.metadata, "PriorityClass", found, namespaced=False)
    return PriorityClass(
        name=who.name,
        value=found.count("value", wire.value, 0, least=-_PRIORITIES, most=_PRIORITIES - 1),
        default=bool(wire.global_default),
        never_preempts=bool(never_preempts(wire.preemption_policy, "preemptionPolicy", found)),
        origin=found.origin,
    )
