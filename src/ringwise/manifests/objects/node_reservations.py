"""NodeReservations: nodes that are kept for a queue or a namespace from one time to another."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from ringwise.manifests.objects.custom_resources import CustomResourceWire, custom_resource, read_spec
from ringwise.manifests.objects.metadata import time_of
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.quantities import rfc3339
from ringwise.manifests.text.wire import WireStruct
from ringwise.state.model import NodeReservation
from ringwise.wellknown import NODE_RESERVATIONS, USER

#: Nodes that one of them names, and labels that it selects nodes by.
MAX_NAMED = 5_000
MAX_LABELS = 16
MAX_NAME = 63
#: What lasts longer is a mistake, or a label of the nodes.
MAX_DAYS = 366
MAX_SPAN = MAX_DAYS * 86_400 * 1_000_000_000
_TARGETS = ("nodeNames", "nodeSelector", "leafSwitch", "superPod")


class HolderWire(WireStruct, forbid_unknown_fields=True):
    queue: str | None = None
    namespace: str | None = None


class NodeReservationSpec(WireStruct, forbid_unknown_fields=True):
    holder: HolderWire
    end_time: str
    start_time: str | None = None
    node_names: Annotated[list[str], Meta(max_length=MAX_NAMED)] | None = None
    node_selector: Annotated[dict[str, str], Meta(max_length=MAX_LABELS)] | None = None
    leaf_switch: str | None = None
    super_pod: Annotated[int, Meta(ge=0)] | None = None
    reason: str | None = None


def node_reservation_from_wire(wire: CustomResourceWire, issues: Findings) -> NodeReservation:
    who, spec = read_spec(wire, NODE_RESERVATIONS, NodeReservationSpec, issues, MAX_NAME)
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
        wire.generation,
        accepted=any(
            one.type == "Accepted" and one.status == "True" and one.observed_generation == wire.generation
            for one in wire.conditions
        ),
    )
    values = (spec.node_names, spec.node_selector, spec.leaf_switch, spec.super_pod)
    targets = [name for name, value in zip(_TARGETS, values, strict=True) if value is not None]
    if len(targets) != 1:
        said = f", has {' and '.join(targets)}" if targets else ", has none"
        issues.add_error("spec", f"must have exactly one of {', '.join(_TARGETS)}{said}")
    elif not (one.nodes or one.selector or one.switch or one.superpod is not None):
        issues.add_error(f"spec.{targets[0]}", "must not be empty")
    if len(set(one.nodes)) < len(one.nodes):
        issues.add_error("spec.nodeNames", "must not name a node twice")
    if bool(one.queue) == bool(one.namespace):
        issues.add_error("spec.holder", "must have exactly one of queue and namespace")
    if one.end <= one.start:
        issues.add_error("spec.endTime", "must be later than startTime, or than the creation without one")
    elif one.start and one.end - one.start > MAX_SPAN:
        issues.add_error("spec.endTime", f"must be at most {MAX_DAYS} days later than startTime")
    return one


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
    return custom_resource(NODE_RESERVATIONS, one.name, spec)
