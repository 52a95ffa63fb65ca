"""Restarts because of faults back off: where the new pods are faulty again, the next restart waits.

Without that, a Deployment whose template says that its pods are faulty is restarted as fast as its pods are
placed. The first restart of an owner is never delayed, nor is one because of pods that are older than that:
only pods that were created since then can be faulty again and again. Nor do the times of F2 wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ringwise.durations import SECOND, ExponentialBackoff, duration_text, seconds_text
from ringwise.grammar import agrees, counted
from ringwise.records import dataclass
from ringwise.scheduler.cache.component import Context
from ringwise.scheduler.cache.record_tables import RecordTable
from ringwise.state.model import Pod

#: The restarts after the first wait. The limit is less than the time for which the controller waits for an
#: answer about failed pods (F5).
BACKOFF = ExponentialBackoff(initial=1, limit=32)
#: Seconds without restarts after which the history of an owner is forgotten.
FORGOTTEN_AFTER = 600


@dataclass(slots=True)
class RestartHistory:
    """The restarts of one owner, in nanoseconds."""

    first: int
    last: int
    #: How many followed the first.
    again: int = 0

    @property
    def next(self) -> int:
        """Before this time new pods are not restarted."""
        return self.last + BACKOFF.seconds(self.again + 1) * SECOND

    def is_over(self, now: int) -> bool:
        return now >= self.last + FORGOTTEN_AFTER * SECOND

    def is_new(self, pod: Pod) -> bool:
        """Whether the pod was created since the first restart; the API server counts whole seconds."""
        return pod.created // SECOND >= self.first // SECOND


@dataclass(frozen=True, slots=True)
class WaitingRestart:
    """Faulty pods of a job that are not restarted yet."""

    pods: tuple[str, ...]
    restarts: int
    until: int

    def text(self, now: int) -> str:
        others = len(self.pods) - 1
        names = self.pods[0] + (f" and {counted(others, 'more pod')}" if others else "")
        # Rounded up, because a wait of 0s would be wrong.
        left = duration_text(self.until - now, up=True)
        return (
            f"{names} {agrees(len(self.pods), 'is', 'are')} faulty again after "
            f"{counted(self.restarts, 'restart')} because of faults: the next one follows in {left}, "
            f"each time twice as long after the one before, at most {seconds_text(BACKOFF.limit)}"
        )


class Restarts:
    """By owner: restarts because of faults that follow each other."""

    def __init__(self, context: Context) -> None:
        self.owners = context.record.add(RecordTable("restarts", RestartHistory))
        #: By job: what waits now.
        self.waiting: dict[str, WaitingRestart] = context.job_tables.add({})

    def add(self, owner: str, pods: Iterable[Pod], now: int) -> None:
        """The owner is restarted because these pods are faulty."""
        history = self.owners.get(owner)
        if history is None or history.is_over(now):
            history = RestartHistory(now, now)
        elif history.last < now and any(map(history.is_new, pods)):
            history.last, history.again = now, history.again + 1
        self.owners.renew(owner, history)
        self.owners.drop_oldest(lambda one: one.is_over(now))

    def not_before(self, owner: str, pod: Pod, now: int) -> int | None:
        """When the pod may be restarted because of a fault; None: now."""
        history = self.owners.get(owner)
        if history is None or history.next <= now or not history.is_new(pod):
            return None
        if pod.created < history.last == now:
            # What is restarted in one moment is one restart, in however many jobs.
            return None
        return history.next

    def wait_for(self, job: str, owner: str, pods: Iterable[str]) -> WaitingRestart | None:
        """These pods of a job wait. Returns what is new about it."""
        names = tuple(sorted(pods))
        if not names:
            self.waiting.pop(job, None)
            return None
        history = self.owners[owner]
        before = self.waiting.get(job)
        self.waiting[job] = held = WaitingRestart(names, history.again + 1, history.next)
        return None if before is not None and before.until == held.until else held
