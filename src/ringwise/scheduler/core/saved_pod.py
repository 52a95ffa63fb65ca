"""A pod as it was before an event that raised: its last good version stays in force."""

from __future__ import annotations

from dataclasses import replace

from ringwise.records import dataclass
from ringwise.state.cluster import ClusterState, PodRecord


@dataclass(frozen=True, slots=True)
class SavedPod:
    """A pod of the state before an event was applied. A copy: the record itself is changed in place."""

    record: PodRecord

    @classmethod
    def of(cls, state: ClusterState, uid: str) -> SavedPod | None:
        found = state.pods.get(uid)
        if found is None:
            return None
        return cls(replace(found))
