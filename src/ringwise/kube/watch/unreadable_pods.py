"""Pods that cannot be read: which of them hold chips of a node all the same (N7, N8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from ringwise.kube.watch.objects import KeyedObjects
from ringwise.kubeclient.nesting import decode_nested
from ringwise.manifests.text.wire import WireStruct
from ringwise.state.model import ENDED, Pod, unreadable_pod
from ringwise.wellknown import CHIP_RESOURCE_PREFIX

_ANY = msgspec.json.Decoder()
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class _BoundMeta(WireStruct):
    name: str
    uid: str
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


def chip_holder(received: object) -> KeyedObjects:
    """A live bound pod whose limits name chips, or cannot be read: it may hold any chips of its node."""
    bound = _bound(received)
    if bound is None or bound.ended or not _may_hold_chips(bound.spec):
        return ()
    meta = bound.metadata
    pod = unreadable_pod(meta.uid, meta.namespace or "default", meta.name, bound.spec.node_name)
    return ((pod.uid, pod),)


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
        plain = decode_nested(_ANY, received) if isinstance(received, msgspec.Raw) else received
        return msgspec.convert(plain, _BoundPod, from_attributes=True)
    except _UNREADABLE:
        return None


def _may_hold_chips(spec: _BoundSpec) -> bool:
    """Whether the limits name a chip resource, with whatever count. True where they cannot be read."""
    try:
        containers = msgspec.convert(
            [*(spec.containers or ()), *(spec.init_containers or ())],
            list[_LimitsOnly],
            from_attributes=True,
        )
    except (*_UNREADABLE, TypeError):
        return True
    named = (name for one in containers if one.resources for name in one.resources.limits or ())
    return any(name.startswith(CHIP_RESOURCE_PREFIX) for name in named)


class _Limits(WireStruct):
    limits: dict[str, Any] | None = None


class _LimitsOnly(WireStruct):
    resources: _Limits | None = None
