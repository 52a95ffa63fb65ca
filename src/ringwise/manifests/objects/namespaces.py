"""Namespaces: their labels."""

from __future__ import annotations

from ringwise.manifests.objects.metadata import identity
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.wire import NamespaceWire
from ringwise.state.model import Namespace


def namespace_from_wire(wire: NamespaceWire, found: Findings) -> Namespace:
    who = identity(wire.metadata, "Namespace", found, namespaced=False)
    return Namespace(who.name, who.labels, found.origin)
