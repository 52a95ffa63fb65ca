"""Who owns what: a job's end must not cost a walk over all pods."""

from __future__ import annotations

from ringwise.embed.records import TableKey, key_of
from ringwise.state.model import Pod, PodGroup


class Owners:
    """Pods and groups by the uid of their owner."""

    def __init__(self) -> None:
        self._owned: dict[str, dict[TableKey, None]] = {}

    def add(self, value: Pod | PodGroup) -> None:
        if value.owner is not None:
            self._owned.setdefault(value.owner.uid, {})[key_of(value)] = None

    def remove(self, value: Pod | PodGroup) -> None:
        if value.owner is not None and value.owner.uid in self._owned:
            owned = self._owned[value.owner.uid]
            owned.pop(key_of(value), None)
            if not owned:
                del self._owned[value.owner.uid]

    def of(self, uid: str) -> list[TableKey]:
        return list(self._owned.get(uid, ()))
