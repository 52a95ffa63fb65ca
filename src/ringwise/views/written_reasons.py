"""Reasons that a scheduler wrote into conditions of the cluster, for a reader that decides nothing itself."""

from __future__ import annotations

import threading

from ringwise.records import dataclass


@dataclass(frozen=True, slots=True)
class WrittenReason:
    #: PodGroup or Pod: the kind of the object with the condition.
    kind: str
    #: Reason and message of the condition, as they are.
    reason: str
    message: str


class WrittenReasons:
    """Written where objects are watched, read where rows are made: on two threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Object -> its job and the reason in its condition.
        self._by_object: dict[str, tuple[str, WrittenReason]] = {}
        #: Job -> its objects with a reason.
        self._objects: dict[str, set[str]] = {}
        self._changed: set[str] = set()

    def put(self, holder: str, job: str, reason: WrittenReason | None) -> None:
        """What the object `holder` says about the job with this key now; None: nothing."""
        with self._lock:
            before = self._by_object.get(holder)
            if before == (None if reason is None else (job, reason)):
                return
            self._remove(holder)
            if reason is not None:
                self._by_object[holder] = job, reason
                self._objects.setdefault(job, set()).add(holder)
                self._changed.add(job)

    def forget(self, holder: str) -> None:
        with self._lock:
            self._remove(holder)

    def _remove(self, holder: str) -> None:
        job, _ = self._by_object.pop(holder, ("", None))
        holders = self._objects.get(job)
        if holders is not None:
            holders.discard(holder)
            if not holders:
                del self._objects[job]
            self._changed.add(job)

    def of(self, job: str) -> WrittenReason | None:
        """That of its PodGroup, else that of a pod."""
        with self._lock:
            reasons = [self._by_object[holder][1] for holder in sorted(self._objects.get(job, ()))]
        return min(reasons, key=lambda reason: reason.kind != "PodGroup", default=None)

    def take_changed(self) -> set[str]:
        """Jobs whose reasons may be others since the last call."""
        with self._lock:
            changed, self._changed = self._changed, set()
            return changed
