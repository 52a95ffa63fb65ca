"""When waiting jobs are expected to start: what was found last, and what their PodGroups say of it."""

from __future__ import annotations

from ringwise.messages.expected_start import ExpectedStart
from ringwise.scheduler.cache.run_times import RunTimes


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
