"""How much work one job may cost in a cycle, and all jobs of one namespace over time.

Work is counted in steps (a node looked at, a pod matched, two sets of nodes compared), never in seconds of a
processor: the same input has the same answer on any machine. Ordinary jobs take few: only work that grows
with the size of the cluster or of the job's own specification is counted. A job that takes more is backed off
with a reason, and the others are not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from ringwise.durations import SECOND
from ringwise.framework.job import Job
from ringwise.framework.reasons import NAMESPACE_TOO_COSTLY, TOO_COSTLY
from ringwise.reasons import Reason
from ringwise.records import dataclass

#: A job may take so many steps, and so many more for each of its pods: on 10,000 nodes that is enough for
#: selectors and preferences of any size within docs/reference/object-limits.md.
JOB_STEPS, POD_STEPS = 1_000_000, 4_000
#: What all jobs of a namespace may take at once, and how much of it they get back in a second. A job that
#: begins while some of it is left may continue.
NAMESPACE_STEPS, NAMESPACE_STEPS_A_SECOND = 4_000_000, 250_000
#: Progress is reported at least after so many steps.
_PROGRESS = 20_000


class TooCostly(Exception):
    """A job, or its namespace before it was tried, took more steps than it may. No other job is affected."""

    def __init__(self, reason: Reason, retry_at: int | None = None) -> None:
        super().__init__(reason.code)
        self.reason = reason
        #: When it may be tried again; None: its owner waits for longer with each attempt.
        self.retry_at = retry_at


class NamespaceSteps:
    """The steps that each namespace has left. One that has all of them is not remembered."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[int, int]] = {}
        #: Jobs for which none were left, by namespace, the first of them first.
        self.passed_over: dict[str, dict[str, None]] = {}

    def left(self, namespace: str, now: int) -> int:
        entry = self._left.get(namespace)
        if entry is None:
            return NAMESPACE_STEPS
        left, since = entry
        left += (now - since) * NAMESPACE_STEPS_A_SECOND // SECOND
        if left >= NAMESPACE_STEPS:
            del self._left[namespace]
            return NAMESPACE_STEPS
        return left

    def resumes(self, namespace: str, now: int) -> int | None:
        """Return when it has steps again, in nanoseconds; None if steps are left."""
        missing = -self.left(namespace, now)
        if missing < 0:
            return None
        # A tenth of the steps is enough to try the next jobs.
        seconds = 1 + (missing + NAMESPACE_STEPS // 10) // NAMESPACE_STEPS_A_SECOND
        return now + seconds * SECOND

    def take(self, namespace: str, steps: int, now: int) -> None:
        if steps:
            self._left[namespace] = (self.left(namespace, now) - steps, now)

    def forget_idle(self, now: int) -> None:
        for namespace in list(self._left):
            self.left(namespace, now)
        for namespace in [name for name in self.passed_over if name not in self._left]:
            del self.passed_over[namespace]


@dataclass(slots=True, eq=False)
class StepBudget:
    """The steps of one cycle. Without namespaces they are not limited."""

    _namespaces: NamespaceSteps | None = None
    _now: int = 0
    _namespace: str = ""
    #: Steps of the job that is tried, how many it may take, and after how many progress was reported.
    _spent: int = 0
    _limit: int = JOB_STEPS
    _reported: int = 0
    #: Steps that count for its namespace only.
    _besides: int = 0
    on_progress: Callable[[], None] = lambda: None

    def begin(self, namespace: str, pods: int) -> None:
        """The next job, of this namespace, is tried. Raises where its namespace has no steps left."""
        self.end()
        self._namespace = namespace
        self._limit = JOB_STEPS + POD_STEPS * pods
        if self._namespaces is None:
            return
        resumes = self._namespaces.resumes(namespace, self._now)
        if resumes is not None:
            raise TooCostly(
                NAMESPACE_TOO_COSTLY(
                    namespace=namespace,
                    steps=NAMESPACE_STEPS - self._namespaces.left(namespace, self._now),
                    limit=NAMESPACE_STEPS,
                    seconds=(resumes - self._now) // SECOND,
                ),
                resumes,
            )

    @property
    def spent(self) -> int:
        """The steps of the job that is tried."""
        return self._spent

    def end(self) -> None:
        """The job was tried: what it took is missing to its namespace."""
        if self._namespaces is not None:
            self._namespaces.take(self._namespace, self._spent + self._besides, self._now)
        self._spent = self._besides = self._reported = 0

    def pass_over(self, namespace: str, key: str) -> None:
        """Record that the job was not tried because its namespace has no steps left."""
        if self._namespaces is not None:
            self._namespaces.passed_over.setdefault(namespace, {}).setdefault(key)

    def in_turn(self, jobs: Sequence[Job]) -> Iterator[Job]:
        """Yield the jobs in this order, but in each namespace and priority first those that were passed over.

        So each job of a namespace with too few steps is tried once before any is tried again.
        """
        passed = {} if self._namespaces is None else self._namespaces.passed_over
        waiting = {
            namespace: iter(sorted(theirs, key=partial(_turn, places)))
            for namespace, keys in passed.items()
            if (theirs := [job for job in jobs if job.namespace == namespace])
            if (places := {key: place for place, key in enumerate(keys)})
        }
        for job in jobs:
            following = next(waiting[job.namespace]) if job.namespace in waiting else job
            passed.get(following.namespace, {}).pop(following.key, None)
            yield following

    def spend(self, steps: int, besides: int = 0) -> None:
        """Count steps; those of `besides` count for the namespace, but not for the limit of the job.

        They depend only on the size of the cluster, so they must not limit a single job, only many of them.
        """
        self._spent += steps
        self._besides += besides
        if self._spent >= self._reported + _PROGRESS:
            self._reported = self._spent
            self.on_progress()
        if self._namespaces is not None and self._spent > self._limit:
            raise TooCostly(TOO_COSTLY(steps=self._spent, limit=self._limit))


def _turn(places: Mapping[str, int], job: Job) -> tuple[int, int]:
    return -job.priority, places.get(job.key, len(places))
