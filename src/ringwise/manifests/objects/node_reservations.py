"""NodeReservations: nodes that are kept for a queue or a namespace from one time to another."""

from __future__ import annotations

import re
from typing import Any

from ringwise.manifests.objects.metadata import identity, time_of
from ringwise.manifests.text.checking import checked, no_hook
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.quantities import rfc3339
from ringwise.manifests.text.wire import ConditionWire, MetaWire, WireStruct
from ringwise.state.model import NodeReservation
from ringwise.wellknown import NODE_RESERVATIONS, USER

#: Nodes that one of them names, and labels that it selects nodes by.
MAX_NAMED = 5_000
MAX_LABELS = 16
MAX_NAME = 63
#: What lasts longer is a mistake, or a label of the nodes.
MAX_DAYS = 366
MAX_SPAN = MAX_DAYS * 86_400 * 1_000_000_000
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?", re.ASCII)
_TARGETS = ("nodeNames", "nodeSelector", "leafSwitch", "superPod")


class HolderWire(WireStruct, forbid_unknown_fields=True):
    queue: str | None = None
    namespace: str | None = None


class NodeReservationSpec(WireStruct, forbid_unknown_fields=True):
    holder: HolderWire
    end_time: str
    start_time: str | None = None
    node_names: list[str] | None = None
    node_selector: dict[str, str] | None = None
    leaf_switch: str | None = None
    super_pod: int | None = None
    reason: str | None = None


class VersionedCondition(ConditionWire):
    observed_generation: int | None = None


class ConditionListWire(WireStruct):
    conditions: list[VersionedCondition] | None = None


class VersionedMeta(MetaWire):
    generation: int | None = None


class NodeReservationWire(WireStruct):
    metadata: VersionedMeta | None = None
    #: Decoded strictly: a field of a newer version may restrict what the others say.
    spec: Any = None
    status: ConditionListWire | None = None


def node_reservation_from_wire(wire: NodeReservationWire, issues: Findings) -> NodeReservation:
    who = identity(wire.metadata, NODE_RESERVATIONS.kind, issues, namespaced=False)
    generation = (wire.metadata.generation if wire.metadata is not None else None) or 0
    spec = checked(wire.spec or {}, NodeReservationSpec, "spec", issues, no_hook)
    if spec is None:
        return NodeReservation(who.name, (), 0, 0)
    one = NodeReservation(
        who.name,
        tuple(spec.node_names or ()),
        who.created if spec.start_time is None else time_of(spec.start_time, "spec.startTime", issues),
        time_of(spec.end_time, "spec.endTime", issues),
        spec.holder.queue or "",
        spec.holder.namespace or "",
        who.annotations.get(USER, ""),
        spec.reason or "",
        tuple(sorted((spec.node_selector or {}).items())),
        spec.leaf_switch or "",
        spec.super_pod,
        who.created,
        generation,
        accepted=any(
            one.type == "Accepted" and one.status == "True" and one.observed_generation == generation
            for one in (wire.status.conditions if wire.status is not None else None) or ()
        ),
    )
    values = (spec.node_names, spec.node_selector, spec.leaf_switch, spec.super_pod)
    targets = [name for name, value in zip(_TARGETS, values, strict=True) if value is not None]
    for field, problem in problems_of(one, targets):
        issues.add_error(field, problem)
    return one


def problems_of(one: NodeReservation, targets: list[str] | None = None) -> list[tuple[str, str]]:
    """Return the fields that are wrong, each with what is allowed: the rules of the schema.

    `targets`: which of the fields that select nodes are there.
    """
    result: list[tuple[str, str]] = []
    if len(one.name) > MAX_NAME or not _NAME.fullmatch(one.name):
        allowed = "lower-case letters and digits, with '-' and '.' between them"
        result.append(("metadata.name", f"must have at most {MAX_NAME} {allowed}"))
    targets = ["nodeNames"] if targets is None else targets
    if len(targets) != 1:
        said = f", has {' and '.join(targets)}" if targets else ", has none"
        result.append(("spec", f"must have exactly one of {', '.join(_TARGETS)}{said}"))
    elif not (one.nodes or one.selector or one.switch or one.superpod is not None):
        result.append((f"spec.{targets[0]}", "must not be empty"))
    if len(one.nodes) > MAX_NAMED:
        result.append(("spec.nodeNames", f"must have at most {MAX_NAMED} names"))
    if len(set(one.nodes)) < len(one.nodes):
        result.append(("spec.nodeNames", "must not name a node twice"))
    if len(one.selector) > MAX_LABELS:
        result.append(("spec.nodeSelector", f"must have at most {MAX_LABELS} labels"))
    if one.superpod is not None and one.superpod < 0:
        result.append(("spec.superPod", "must be 0 or more"))
    if bool(one.queue) == bool(one.namespace):
        result.append(("spec.holder", "must have exactly one of queue and namespace"))
    if one.end <= one.start:
        result.append(("spec.endTime", "must be later than startTime, or than the creation without one"))
    elif one.start and one.end - one.start > MAX_SPAN:
        result.append(("spec.endTime", f"must be at most {MAX_DAYS} days later than startTime"))
    return result


def node_reservation_body(one: NodeReservation) -> dict[str, Any]:
    """Return the object; fields that it does not have are null."""
    spec = {
        "nodeNames": list(one.nodes) or None,
        "nodeSelector": dict(one.selector) or None,
        "leafSwitch": one.switch or None,
        "superPod": one.superpod,
        "holder": {"queue": one.queue or None, "namespace": one.namespace or None},
        "startTime": rfc3339(one.start) if one.start else None,
        "endTime": rfc3339(one.end),
        "reason": one.reason or None,
    }
    return {
        "apiVersion": NODE_RESERVATIONS.version,
        "kind": NODE_RESERVATIONS.kind,
        "metadata": {"name": one.name},
        "spec": spec,
    }
