"""When waiting jobs are expected to start: what was computed last, and what their PodGroups say of it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from itertools import islice

from ringwise.framework.job import Job
from ringwise.messages.events import StartsEstimated
from ringwise.messages.expected_start import ExpectedStart
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on, on_job

#: Jobs of a queue whose PodGroups say when they are expected to start.
MAX_REPORTED = 100
#: Runs of one size that are remembered, and sizes; the size of which no job ended for longest is forgotten.
MAX_RUNS, SIZES = 32, 1_024
#: With fewer runs nothing is guessed.
LEAST = 3

#: Queue, resource, chips.
_Size = tuple[str, str, int]


class ExpectedStarts(Component):
    """When waiting jobs are expected to start, as it was computed last beside the scheduler.

    Nothing is computed here: the process that runs the scheduler plays the queues forward on a copy
    (`scheduler/explain/forecast.py`) and reports the result as an event, so that a journal has it, too. It is
    shown as it is; of a job that has changed since, nothing is shown until the next result.

    The condition of a PodGroup repeats it for the first jobs of each queue, and only where it has changed
    by a tenth: a long queue that moves on would be written again with every end of a job.

    For jobs that do not say how long they run, it keeps the run times of others of their size and queue. Only
    runs that began here and ended by themselves count: their last pod with chips succeeded or failed. Nothing
    of it is written: after a restart it begins empty.
    """

    name = "expected starts"

    def __init__(self, context: Context, turns: Callable[[], int]) -> None:
        super().__init__(context)
        #: Returns the number of the present turn.
        self._turns = turns
        #: By job, in the order in which the jobs of a queue are served.
        self.by_job: dict[str, ExpectedStart] = {}
        #: The number of the turn that set it. Several turns may be at the same time.
        self.set_in_turn = 0
        #: What the conditions of PodGroups say: an earlier estimate that differs little.
        self._reported: dict[str, ExpectedStart] = {}
        #: Run times, in the order in which jobs of the sizes ended last. Nanoseconds.
        self._times: dict[_Size, deque[int]] = {}

    def reported_text(self, job: str) -> str:
        """What the condition of its PodGroup says, without names of other jobs; empty: nothing."""
        start = self._reported.get(job)
        return "" if start is None else start.text(None)

    @on(ie.JobSpecChanged)
    def _spec_changed(self, event: ie.JobSpecChanged, now: int) -> None:
        self._forget(event.key)

    @on_job(ie.JobGone, ie.JobSettled)
    def _settled(self, job: Job, now: int) -> None:
        """It started or is gone, or still waits."""
        if job.waiting_since is None or job.key not in self._book.jobs:
            self._forget(job.key)

    def _forget(self, job: str) -> None:
        self.by_job.pop(job, None)
        self._reported.pop(job, None)

    @on(StartsEstimated)
    def _estimated(self, event: StartsEstimated, now: int) -> None:
        before, reported_before = self.by_job, self._reported
        jobs = self._book.jobs
        starts = {one.job: one.start for one in event.starts if one.job in jobs}
        self.by_job, self.set_in_turn = starts, self._turns()
        self._state.changes.several_jobs(
            key for key in {**before, **starts} if before.get(key) != starts.get(key)
        )
        places: Counter[str] = Counter()
        self._reported = reported = {}
        for key, start in starts.items():
            places[jobs[key].queue] += 1
            if places[jobs[key].queue] <= MAX_REPORTED:
                previous = reported_before.get(key)
                reported[key] = start if previous is None or start.differs(previous, now) else previous
        for key in {**reported_before, **reported}:
            if key in jobs and reported_before.get(key) != reported.get(key):
                self._notify(ie.JobStatusChanged(jobs[key]), now)

    # -- run times -----------------------------------------------------------------------------

    @on(ie.PodEnding)
    def _pod_ending(self, event: ie.PodEnding, now: int) -> None:
        pod = event.pod
        if pod is None or pod.live or pod.deleting or not pod.cls.chips or pod.cls.resource is None:
            return
        job = self._book.job_of(pod.uid)
        if job is None or job.started is None or self._state.pods[pod.uid].node < 0:
            return
        # The others have ended: what the job uses is what this pod holds.
        if self._usage.used_by_job(job.key).get(pod.cls.resource) != pod.cls.chips:
            return
        size = _size(job)
        if size is not None:
            times = self._times.pop(size, None)
            self._times[size] = times = deque(maxlen=MAX_RUNS) if times is None else times
            times.append(now - job.started)
            for oldest in list(islice(self._times, max(0, len(self._times) - SIZES))):
                del self._times[oldest]

    def guess(self, job: Job, elapsed: int) -> tuple[int, int] | None:
        """How long it may take at least and at most (a tenth took less, a tenth more), None: not known.

        Of a job that runs already those count that took longer.
        """
        size = _size(job)
        times = sorted(time for time in self._times.get(size, ()) if time > elapsed) if size else []
        if len(times) < LEAST:
            return None
        tenth = len(times) // 10
        return times[tenth], times[-1 - tenth]


def _size(job: Job) -> _Size | None:
    chips: dict[str, int] = {}
    for pod in job.in_order:
        if pod.cls.chips and pod.cls.resource is not None:
            chips[pod.cls.resource] = chips.get(pod.cls.resource, 0) + pod.cls.chips
    if len(chips) != 1:
        return None
    (resource, count), *_ = chips.items()
    return job.queue, resource, count
