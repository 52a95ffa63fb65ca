"""What metrics tell of accounting: by queue, since this process leads."""

from __future__ import annotations

from dataclasses import field, replace

from ringwise.messages.accounting import ChipAmount, PodHeld
from ringwise.records import dataclass


@dataclass(slots=True)
class QueueTotal:
    #: Chip-nanoseconds until `at`, and the chips that are held from then on.
    held: ChipAmount = 0
    chips: ChipAmount = 0
    at: int = 0
    #: Chip-nanoseconds, by cause.
    lost: dict[str, ChipAmount] = field(default_factory=dict)
    #: Pods that the scheduler ended, by cause.
    evicted: dict[str, int] = field(default_factory=dict)
    #: Nanoseconds that jobs waited that started.
    waited: int = 0
    starts: int = 0
    failures: int = 0

    def held_until(self, now: int) -> ChipAmount:
        return self.held + self.chips * max(now - self.at, 0)

    def until(self, now: int) -> QueueTotal:
        """A copy, as it is at that time."""
        return replace(
            self, held=self.held_until(now), at=now, lost=dict(self.lost), evicted=dict(self.evicted)
        )


class QueueTotals:
    def __init__(self) -> None:
        self.queues: dict[str, QueueTotal] = {}

    def _of(self, queue: str) -> QueueTotal:
        total = self.queues.get(queue)
        if total is None:
            total = self.queues[queue] = QueueTotal()
        return total

    def holds(self, queue: str, chips: ChipAmount, now: int) -> None:
        total = self.queues.get(queue) or self._of(queue)
        if total.at != now:
            total.held += total.chips * (now - total.at)
            total.at = now
        total.chips += chips

    def ended(self, pod: PodHeld, lost_until: int | None, now: int, *, failed: bool) -> None:
        """`lost_until`: when it ended, where its work is lost."""
        self.holds(pod.queue, -pod.chips, now)
        if failed:
            self._of(pod.queue).failures += 1
        if lost_until is not None:
            total = self._of(pod.queue)
            # It may have ended before the checkpoint that it claims.
            work = pod.chips * max(lost_until - pod.lost_since, 0)
            total.lost[pod.cause] = total.lost.get(pod.cause, 0) + work
            total.evicted[pod.cause] = total.evicted.get(pod.cause, 0) + 1

    def started(self, queue: str, waited: int) -> None:
        total = self._of(queue)
        total.starts += 1
        total.waited += waited
