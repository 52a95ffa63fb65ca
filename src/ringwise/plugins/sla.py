"""sla: a job that waited as long as it may is enqueued, whatever later tiers say.

The limit is the argument `sla-waiting-time`, or the PodGroup's annotation
`volcano.sh/sla-waiting-time`, which wins. Jobs with a limit are served before jobs without
one, the one whose limit ends first before others.
"""

from __future__ import annotations

from ringwise.durations import go_duration
from ringwise.framework.arguments import waiting_time
from ringwise.framework.configuration import PluginOption
from ringwise.framework.extension_points import JOB_ENQUEUEABLE, JOB_ORDER, JOB_PIPELINED, Vote
from ringwise.framework.job import Job
from ringwise.framework.registry import PluginSpec
from ringwise.framework.session import Session
from ringwise.reasons import Reason
from ringwise.state.model import EMPTY
from ringwise.wellknown import SLA_WAITING_TIME, SLA_WAITING_TIME_OLD

WAITING_TIME = waiting_time(
    # The argument has the name of the old annotation.
    SLA_WAITING_TIME_OLD,
    "maximum waiting time of a job; after it, the job is enqueued regardless of later tiers",
)


class Sla:
    def __init__(self, option: PluginOption) -> None:
        self._limit = option.value(WAITING_TIME)

    def open(self, session: Session) -> None:
        self._session = session
        session.register(JOB_ORDER, self.job_order)
        session.register(JOB_ENQUEUEABLE, self.vote)
        session.register(JOB_PIPELINED, self.vote)

    def job_order(self, job: Job) -> tuple[bool, int]:
        """Jobs with a limit first, by the time at which it ends."""
        limit = self.limit_of(job)
        return (False, job.created + limit) if limit else (True, 0)

    def vote(self, job: Job) -> tuple[Vote, Reason | None]:
        """Permit a job that waited long enough, and have no opinion about others."""
        limit = self.limit_of(job)
        if not limit:
            return Vote.ABSTAIN, None
        due = job.created + limit
        if self._session.now >= due:
            return Vote.PERMIT, None
        self._session.retry_at(job, due)
        return Vote.ABSTAIN, None

    def limit_of(self, job: Job) -> int:
        """How long the job may wait, in nanoseconds; 0 where there is no limit.

        An annotation that is not a duration counts as absent, as in Volcano.
        """
        annotations = job.group.annotations if job.group is not None else EMPTY
        text = annotations.get(SLA_WAITING_TIME)
        if text is None:
            text = annotations.get(SLA_WAITING_TIME_OLD)
        written = go_duration(text) if text is not None else None
        return written or self._limit


SPEC = PluginSpec("sla", "enqueues jobs that have reached their maximum waiting time", Sla, (WAITING_TIME,))
