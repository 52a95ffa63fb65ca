"""Pods that cannot be read: which of them hold chips of a node all the same (N7, N8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from ringwise.manifests.objects.metadata import derived_uid
from ringwise.manifests.objects.pods import PodClassCache, pod_from_wire
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.readable import UNREADABLE
from ringwise.manifests.text.wire import PodWire, WireStruct
from ringwise.state.model import ENDED, Pod, unreadable_pod
from ringwise.wellknown import CHIP_RESOURCE_PREFIX


class _BoundMeta(WireStruct):
    name: str
    uid: str | None = None
    namespace: str | None = None
    deletion_timestamp: Any = None


class _BoundSpec(WireStruct):
    node_name: str
    containers: Any = None
    init_containers: Any = None


class _BoundStatus(WireStruct):
    phase: Any = None


class _BoundPod(WireStruct):
    """The least that must be readable of a pod to know that it holds chips of a node."""

    metadata: _BoundMeta
    spec: _BoundSpec
    status: _BoundStatus | None = None

    @property
    def ended(self) -> bool:
        phase = self.status.phase if self.status is not None else None
        return isinstance(phase, str) and phase in ENDED


def stand_in_for_pod(received: object, classes: PodClassCache, origin: str) -> Pod | None:
    """What stands for a pod that cannot be read, a wire or a plain object; None: it holds no chips.

    A live bound pod may hold any chips of its node, which takes no other NPU pod (N7). Only if its limits ask
    for chips, or cannot be read: other pods hold none (N8).
    """
    if isinstance(received, PodWire):
        readable = _without_annotations(received, classes, Findings(origin))
        if readable is not None:
            return readable
    bound = _bound(received)
    if bound is None or bound.ended or not _may_hold_chips(bound.spec):
        return None
    meta = bound.metadata
    namespace = meta.namespace or "default"
    uid = meta.uid or derived_uid("Pod", namespace, meta.name)
    return unreadable_pod(uid, namespace, meta.name, bound.spec.node_name)


def _without_annotations(wire: PodWire, classes: PodClassCache, issues: Findings) -> Pod | None:
    """The pod without annotations, labels and variables. None: it has no node, or it is still wrong."""
    spec = wire.spec
    if spec is None or not spec.node_name:
        return None
    for container in spec.containers or ():
        container.env = None
    meta = wire.metadata
    wire.metadata = msgspec.structs.replace(
        meta, generate_name=None, labels=None, annotations=None, owner_references=None
    )
    pod = pod_from_wire(wire, classes, issues)
    return None if issues.errors else pod


def last_good(before: Pod, received: object) -> Pod | None:
    """The last readable version of a pod; None: it had no node yet, so nothing is known of its chips.

    That it ended or is being deleted is believed nevertheless.
    """
    bound = _bound(received)
    if bound is None:
        return before
    if before.node is None:
        return None
    phase = str(bound.status.phase) if bound.ended and bound.status is not None else before.phase
    deleting = before.deleting or bound.metadata.deletion_timestamp is not None
    if (phase, deleting) == (before.phase, before.deleting):
        return before
    return replace(before, phase=phase, deleting=deleting)


def _bound(received: object) -> _BoundPod | None:
    try:
        return msgspec.convert(received, _BoundPod, from_attributes=True)
    except UNREADABLE:
        return None


def _may_hold_chips(spec: _BoundSpec) -> bool:
    """Whether the limits name a chip resource, with whatever count. True where they cannot be read."""
    try:
        containers = msgspec.convert(
            [*(spec.containers or ()), *(spec.init_containers or ())],
            list[_LimitsOnly],
            from_attributes=True,
        )
    except (*UNREADABLE, TypeError):
        return True
    named = (name for one in containers if one.resources for name in one.resources.limits or ())
    return any(name.startswith(CHIP_RESOURCE_PREFIX) for name in named)


class _Limits(WireStruct):
    limits: dict[str, Any] | None = None


class _LimitsOnly(WireStruct):
    resources: _Limits | None = None
