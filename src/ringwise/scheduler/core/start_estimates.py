"""When waiting jobs are expected to start, as it was computed last beside the scheduler.

Nothing is computed here: who runs the scheduler plays the queues forward on a copy
(`scheduler/explain/forecast.py`) and tells the result as an event, so that a journal has it, too. It is shown
as it is; of a job that has changed since, nothing is shown until the next result.

The condition of a PodGroup repeats it for the first jobs of each queue, and only where it has changed by a
tenth: a long queue that moves on would be written again with every end of a job.
"""

from __future__ import annotations

from collections import Counter

from ringwise.messages import events as ev
from ringwise.messages.expected_start import ExpectedStart
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, Handlers
from ringwise.scheduler.cache.expected_starts import ExpectedStarts
from ringwise.scheduler.view import History

#: Jobs of a queue whose PodGroups say when they are expected to start.
MAX_REPORTED = 100


class StartEstimates(Component):
    name = "expected starts"

    def __init__(self, context: Context, starts: ExpectedStarts, history: History) -> None:
        super().__init__(context)
        self._starts = starts
        self._history = history

    def handlers(self) -> Handlers:
        return {
            ev.StartsEstimated: self._estimated,
            ie.JobSpecChanged: lambda event, now: self._starts.forget(event.key),
            ie.JobGone: lambda event, now: self._starts.forget(event.job.key),
            ie.JobSettled: self._settled,
        }

    def _settled(self, event: ie.JobSettled, now: int) -> None:
        if event.job.waiting_since is None:
            self._starts.forget(event.job.key)

    def _estimated(self, event: ev.StartsEstimated, now: int) -> None:
        before, reported_before = self._starts.by_job, self._starts.reported
        jobs = self._book.jobs
        starts = {one.job: one.start for one in event.starts if one.job in jobs}
        self._starts.by_job, self._starts.set_in_turn = starts, self._history.turns
        self._state.changes.several_jobs(
            key for key in {**before, **starts} if before.get(key) != starts.get(key)
        )
        places: Counter[str] = Counter()
        reported: dict[str, ExpectedStart] = {}
        for key, start in starts.items():
            places[jobs[key].queue] += 1
            if places[jobs[key].queue] <= MAX_REPORTED:
                previous = reported_before.get(key)
                reported[key] = start if previous is None or start.differs(previous, now) else previous
        self._starts.reported = reported
        for key in {**reported_before, **reported}:
            if key in jobs and reported_before.get(key) != reported.get(key):
                self._notify(ie.JobStatusChanged(jobs[key]), now)
