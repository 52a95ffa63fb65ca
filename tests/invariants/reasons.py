"""A job that is pending has a reason that is true now."""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.framework.job import Job
from ringwise.framework.limits import waits_for_limit
from ringwise.framework.reasons import PODS_GATED, QUEUE_NOT_OPEN, QUEUE_OVERUSED, UNKNOWN_QUEUE
from ringwise.messages.events import Decide
from ringwise.plugins.proportion import QUEUE_SHARE_USED
from ringwise.reasons import Trigger
from ringwise.scheduler.core.machine import Scheduler
from tests.invariants.ledger import Ledger

#: Trying a job costs as much as a cycle: one job in so many turns.
_EVERY = 8


def pending_jobs_have_true_reasons(ledger: Ledger, scheduler: Scheduler) -> Iterator[str]:
    """A job that was tried and is pending would not start if it were tried now.

    Not tried are jobs without pods, those that wait for a time, a limit, a volume or the share of their
    queue, and those with pods that request nothing: what other jobs request decides about these, too.
    """
    if ledger.turns % _EVERY or ledger.decide is not Decide.ALL:
        return
    view = scheduler.view
    pending = [job for job in view.jobs.values() if _is_tried(scheduler, job)]
    if not pending or "allocate" not in view.configuration.actions:
        return
    job = pending[ledger.turns // _EVERY % len(pending)]
    assert job.reason is not None
    code = job.reason.code
    if not _is_fact(ledger, job, code):
        yield f"{job.key} is pending because of {code}, which is not so"
    with view.what_if.question():
        if view.what_if.verdict(job, ledger.now) is None:
            yield f"{job.key} is pending because of {code}, and would start"


def _is_tried(scheduler: Scheduler, job: Job) -> bool:
    """Whether the last cycle for the job found a reason that does not end by itself."""
    reason = job.reason
    if reason is None or job.waiting_since is None or job.key in scheduler._job_queue.active:
        return False
    if reason.code in (QUEUE_OVERUSED.code, QUEUE_SHARE_USED.code) or waits_for_limit(reason):
        return False
    if not job.pods or job.has_claims or any(pod.cls.best_effort for pod in job.pods.values()):
        return False
    return Trigger.TIME_PASSED not in reason.kind.resolved_by


def _is_fact(ledger: Ledger, job: Job, code: str) -> bool:
    queue = ledger.queues.get(job.queue)
    if code == UNKNOWN_QUEUE.code:
        return queue is None
    if code == QUEUE_NOT_OPEN.code:
        return queue is not None and queue.state != "Open"
    if code == PODS_GATED.code:
        return any(ledger.pods[uid].gated for uid in job.pods if uid in ledger.pods)
    return True
