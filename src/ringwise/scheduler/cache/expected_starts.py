"""When waiting jobs are expected to start: what was found last, and what their PodGroups say of it."""

from __future__ import annotations

from collections import deque
from itertools import islice

from ringwise.framework.job import Job
from ringwise.messages.expected_start import ExpectedStart
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on


class ExpectedStarts:
    def __init__(self, run_times: RunTimes) -> None:
        #: How long jobs took lately.
        self.run_times = run_times
        #: By job, in the order in which the jobs of a queue are served.
        self.by_job: dict[str, ExpectedStart] = {}
        #: The number of the turn that set it. Several turns may be at the same time.
        self.set_in_turn = 0
        #: What the conditions of PodGroups say: an earlier estimate that differs little.
        self.reported: dict[str, ExpectedStart] = {}

    def of(self, job: str) -> ExpectedStart | None:
        return self.by_job.get(job)

    def reported_text(self, job: str) -> str:
        """What the condition of its PodGroup says, without names of other jobs; empty: nothing."""
        start = self.reported.get(job)
        return "" if start is None else start.text(None)

    def forget(self, job: str) -> None:
        """The job has changed, started or is gone."""
        self.by_job.pop(job, None)
        self.reported.pop(job, None)


#: Runs of one size that are remembered, and sizes; the size of which no job ended for longest is forgotten.
MAX_RUNS, SIZES = 32, 1_024
#: With fewer runs nothing is guessed.
LEAST = 3

#: Queue, resource, chips.
_Size = tuple[str, str, int]


class RunTimes(Component):
    """How long jobs of a size took lately in their queue: a guess for those that do not say how long.

    Only runs that began here and ended by themselves count: their last pod with chips succeeded or failed.
    Nothing of it is written: after a restart it begins empty.
    """

    name = "run times"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: In the order in which jobs of the sizes ended last. Nanoseconds.
        self._times: dict[_Size, deque[int]] = {}

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
