"""Pods that cannot be read: which of them hold chips of a node all the same (N7, N8)."""

from __future__ import annotations

from typing import Any

import msgspec

from ringwise.kube.watch.objects import KeyedObjects
from ringwise.manifests.wire import WireStruct
from ringwise.state.model import ENDED, Pod, PodClass
from ringwise.wellknown import ASCEND910, CHIP_RESOURCE_PREFIX

_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class _BoundMeta(WireStruct):
    name: str
    uid: str
    namespace: str | None = None


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


def chip_holder(received: object) -> KeyedObjects:
    """A live bound pod whose limits name chips, or cannot be read, as a holder of unknown chips."""
    try:
        plain = msgspec.json.decode(received) if isinstance(received, msgspec.Raw) else received
        bound = msgspec.convert(plain, _BoundPod, from_attributes=True)
    except _UNREADABLE:
        return ()
    resource = _chip_resource(bound.spec)
    phase = bound.status.phase if bound.status is not None else None
    if resource is None or (isinstance(phase, str) and phase in ENDED):
        return ()
    meta = bound.metadata
    pod = Pod(
        meta.uid,
        meta.namespace or "default",
        meta.name,
        PodClass(resource=resource, chips=1),
        phase="Running",
        node=bound.spec.node_name,
    )
    return ((pod.uid, pod),)


def _chip_resource(spec: _BoundSpec) -> str | None:
    """The chip resource that the limits name, with whatever count; None: they can be read and name none."""
    try:
        containers = msgspec.convert(
            [*(spec.containers or ()), *(spec.init_containers or ())],
            list[_LimitsOnly],
            from_attributes=True,
        )
    except (*_UNREADABLE, TypeError):
        # Not even which resources: the chips that nearly all nodes have.
        return ASCEND910
    named = (name for one in containers if one.resources for name in one.resources.limits or ())
    return next((name for name in named if name.startswith(CHIP_RESOURCE_PREFIX)), None)


class _Limits(WireStruct):
    limits: dict[str, Any] | None = None


class _LimitsOnly(WireStruct):
    resources: _Limits | None = None
