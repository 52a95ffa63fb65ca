"""Namespaces: their labels, and the limits that the scheduler wrote into their status."""

from __future__ import annotations

from ringwise.manifests.objects.metadata import identity
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.wire import NamespaceStatusWire, NamespaceWire
from ringwise.state.model import Namespace
from ringwise.wellknown import NAMESPACE_LIMITS


def namespace_from_wire(wire: NamespaceWire, issues: Findings) -> Namespace:
    who = identity(wire.metadata, "Namespace", issues, namespaced=False)
    status = wire.status or NamespaceStatusWire()
    limits = (one.message or "" for one in status.conditions or () if one.type == NAMESPACE_LIMITS)
    return Namespace(who.name, who.labels, next(limits, ""), issues.origin)
