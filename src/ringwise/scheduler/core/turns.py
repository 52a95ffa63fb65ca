"""Fair turns: no namespace uses up the deciding thread while jobs of others wait.

Steps are counted for work that is known to grow (`framework/budget.py`). All other work is limited here: the
processor time of each attempt is added up by namespace. A turn ends between two jobs after a limit, new
events are handled, and the next turn continues with the remaining jobs. A namespace that used more than its
share in the last minute then gets one attempt per turn until the jobs of all other namespaces were tried.

Only the live scheduler measures time: it sets `processor_time`. Every choice that depends on a time is a mark
in the journal, and a replayed turn uses these marks instead of times.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from ringwise.durations import SECOND
from ringwise.framework.job import Job
from ringwise.scheduler.cache.component import Component, Context
from ringwise.scheduler.journal import TurnMark

#: The limit of a turn grows by so much for each pod of the job that was tried last.
POD_TIME = 4_000_000
#: The time for which the processor time of a namespace counts, in seconds.
WINDOW = 60
#: At most so many jobs are tried in one cycle.
MAX_JOBS = 10_000


class FairTurns(Component):
    name = "turns"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: Returns the processor time of the deciding thread in nanoseconds; None: nothing is measured.
        self.processor_time: Callable[[], int] | None = None
        #: The choices of this turn that depended on a time.
        self.marks: list[TurnMark] = []
        #: Calls of the progress hook in this turn: they say where a choice was made.
        self.progress = 0
        #: The jobs that were left for the next turn by the present cycle.
        self.untried: dict[str, None] = {}
        #: Namespaces that were throttled during the last minute, with the nanoseconds they used (0: not
        #: known); and when.
        self.throttled: dict[str, int] = {}
        self._throttled: dict[str, int] = {}
        self._recorded: deque[TurnMark] = deque()
        #: Whether a time, or a mark, can decide anything in this turn.
        self._decides = False
        self._now = self._began = self._since = 0
        #: The part of the limit after which the present phase ends; whether it has, and its attempts.
        self._share = 1.0
        self._over = False
        self._attempts = 0
        #: The job that is tried, and the processor time of this attempt.
        self._job: Job | None = None
        self._attempt = 0
        #: Nanoseconds by namespace and second.
        self._used: dict[str, dict[int, int]] = {}
        #: Whether the last turn left jobs; whether this one will.
        self._contended = self._left = False
        #: Jobs whose last attempt took longer than the limit, and whether one of them is tried next.
        self._alone: dict[str, None] = context.job_tables.add({})
        self._owes = False
        #: When a job of these namespaces was tried alone.
        self._tried_alone: dict[str, int] = {}
        #: Throttled namespaces with an attempt in the present cycle, and whether it cost others theirs.
        self._served: set[str] = set()
        self._yields = False

    def deadline(self) -> int | None:
        """Return the next turn: immediately if jobs are left, or when a throttled namespace expires."""
        if self._left:
            return self._now + 1
        return min(self._throttled.values()) + WINDOW * SECOND if self._throttled else None

    def restore_throttled(self, throttled: Iterable[str], now: int) -> None:
        """Show namespaces that another scheduler throttles. Their processor time is unknown."""
        for namespace in throttled:
            self._throttled[namespace] = now
            self.throttled[namespace] = 0

    def begin(self, now: int, recorded: Iterable[TurnMark]) -> None:
        if now // SECOND // WINDOW != self._now // SECOND // WINDOW:
            for namespace in list(self._used):
                self._used_by(namespace)
            after = now - WINDOW * SECOND
            self._tried_alone = {name: when for name, when in self._tried_alone.items() if when > after}
        self._now = now
        self.untried = {}
        self._recorded = deque(recorded)
        self._contended, self._left = self._left, False
        self.marks = []
        self.progress = 0
        self._job = None
        self._decides = (
            self.processor_time is not None or bool(self._recorded) or self._contended or bool(self._alone)
        )
        if self.processor_time is not None:
            self._began = self._since = self.processor_time()
        self.begin_phase(1.0)

    def begin_phase(self, share: float) -> None:
        """Begin a phase: at least one job is tried, and others until this part of the limit is used."""
        self.end_attempt()
        self._share = share
        self._over = False
        self._attempts = 0

    def end_attempt(self) -> None:
        """End the attempt: the time from now on does not count for a job."""
        if self._decides:
            self._measure()
        self._job = None

    def end(self, left: bool) -> None:
        """`left`: whether jobs are left for the next turn."""
        self._left = left
        if self._throttled:
            after = self._now - WINDOW * SECOND
            self._throttled = {name: when for name, when in self._throttled.items() if when > after}
            self.throttled.clear()
            self.throttled.update((name, self._used_by(name)) for name in sorted(self._throttled))

    # -- which jobs --------------------------------------------------------------------------------

    def choose(self, jobs: Sequence[Job]) -> tuple[Sequence[Job], Sequence[Job]]:
        """The jobs of the next cycle, and those that are tried after them."""
        if not self._decides:
            return jobs, ()
        alone = [job for job in jobs if job.key in self._alone] if self._alone else []
        if alone:
            if self._owes or len(alone) == len(jobs):
                self._owes = False
                # Those of one namespace do not come before one of another that waits longer.
                first = min(alone, key=lambda job: self._tried_alone.get(job.namespace, 0))
                self._tried_alone[first.namespace] = self._now
                del self._alone[first.key]
                return [first], [job for job in jobs if job is not first]
            self._owes = True
            jobs = [job for job in jobs if job.key not in self._alone]
        chosen = self._unthrottled(jobs) if self._contended else jobs
        if len(chosen) > MAX_JOBS and self._is("limited", "", True):
            chosen = sorted(chosen, key=_order)[:MAX_JOBS]
        if len(chosen) == len(jobs) and not alone:
            return jobs, ()
        keys = {job.key for job in chosen}
        return chosen, [*(job for job in jobs if job.key not in keys), *alone]

    def take_untried(self, jobs: Sequence[Job]) -> tuple[Sequence[Job], Sequence[Job]]:
        """Return the jobs of a cycle that were left, and those that were tried."""
        if not self.untried:
            return (), jobs
        untried, self.untried = self.untried, {}
        left = [job for job in jobs if job.key in untried]
        self._yields = bool(self._served) and any(job.namespace not in self._served for job in left)
        return left, [job for job in jobs if job.key not in untried]

    def _unthrottled(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """Return the jobs; of namespaces that used more than their share, only the first job.

        If that job was tried in the previous cycle, which left jobs of others, it is left out, too.
        """
        yields, self._yields = self._yields, False
        self._served = set()
        namespaces: dict[str, list[Job]] = {}
        for job in jobs:
            namespaces.setdefault(job.namespace, []).append(job)
        if len(namespaces) < 2:
            return jobs
        used = {namespace: self._used_by(namespace) for namespace in list(self._used)}
        # What others used before is not a credit against a namespace that has used nothing.
        least = min(used.get(namespace, 0) for namespace in namespaces)
        turn = self._configuration.settings.turn_limit * SECOND
        fair = min(sum(used.values()) / len(namespaces), least + turn)
        result: list[Job] = []
        for namespace, theirs in namespaces.items():
            if self._is("throttled", namespace, used.get(namespace, 0) > fair):
                self._throttled[namespace] = self._now
                theirs = [] if yields else [min(theirs, key=_order)]
                if theirs:
                    self._served.add(namespace)
            result += theirs
        return result

    def _used_by(self, namespace: str) -> int:
        """Nanoseconds of processor time during the last minute."""
        first = self._now // SECOND - WINDOW
        seconds = self._used.get(namespace, {})
        for second in [second for second in seconds if second <= first]:
            del seconds[second]
        if not seconds:
            self._used.pop(namespace, None)
        return sum(seconds.values())

    # -- how long ----------------------------------------------------------------------------------

    def is_over(self) -> bool:
        """Whether no other cycle begins in this turn."""
        if not self._decides:
            return False
        self._measure()
        return self._is_cut("")

    def may_begin(self, job: Job) -> bool:
        """Whether the job is tried in this turn. If not, it is left for the next one."""
        if not self._decides:
            return True
        if job.key not in self.untried and self.may_go_on(job):
            return True
        self.untried[job.key] = None
        return False

    def may_go_on(self, job: Job) -> bool:
        """Return whether the phase may continue with this job."""
        if not self._decides:
            return True
        self._measure()
        if not self._over and self._attempts and self._is_cut(job.key):
            self._over = True
        if self._over:
            return False
        self._job, self._attempt = job, 0
        self._attempts += 1
        return True

    def _is_cut(self, key: str) -> bool:
        limit = self._share * self._limit
        return self._is("cut", key, self._since - self._began > limit)

    @property
    def _limit(self) -> int:
        pods = 0 if self._job is None else len(self._job.pods)
        return self._configuration.settings.turn_limit * SECOND + pods * POD_TIME

    def _measure(self) -> None:
        """Count the time since the last call for the job that is being tried."""
        job = self._job
        if self.processor_time is not None:
            time = self.processor_time()
            spent, self._since = time - self._since, time
            self._attempt += spent
            if job is not None and spent:
                seconds = self._used.setdefault(job.namespace, {})
                second = self._now // SECOND
                seconds[second] = seconds.get(second, 0) + spent
        if job is None or job.key in self._alone:
            return
        if self._is("alone", job.key, self._attempt > self._limit):
            self._alone[job.key] = None

    def _is(self, choice: str, name: str, measured: bool) -> bool:
        """Return the choice that the measured time gives, or in a replay the recorded one."""
        if self.processor_time is None:
            measured = bool(self._recorded) and self._recorded[0] == TurnMark(choice, name, self.progress)
            if measured:
                self._recorded.popleft()
        if measured:
            self.marks.append(TurnMark(choice, name, self.progress))
        return measured


def _order(job: Job) -> tuple[object, ...]:
    return -job.priority, *job.seniority
