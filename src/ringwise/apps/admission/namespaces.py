"""Which queue a namespace names for its PodGroups, by an annotation as in Volcano."""

from __future__ import annotations

from ringwise.kube.watch.objects import KeyedObjects
from ringwise.kube.watch.readers import StatusReader
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.wire import MetaWire, WireStruct
from ringwise.wellknown import SCHEDULING_QUEUE_NAME


class _NamespaceWire(WireStruct):
    metadata: MetaWire | None = None


class NamespaceReader(StatusReader[_NamespaceWire]):
    """Stores the queues; the core has no need of namespaces."""

    def __init__(self, queues: dict[str, str]) -> None:
        super().__init__(_NamespaceWire, queues)

    def objects(self, wire: _NamespaceWire, issues: Findings) -> KeyedObjects | None:
        meta = wire.metadata or MetaWire()
        queue = (meta.annotations or {}).get(SCHEDULING_QUEUE_NAME)
        if queue:
            self._observed[meta.name or ""] = queue
        else:
            self._observed.pop(meta.name or "", None)
        return ()
