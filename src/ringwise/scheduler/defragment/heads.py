"""What the first job of each queue asks for: the jobs that moves are for."""

from __future__ import annotations

from ringwise.framework.job import Job
from ringwise.reasons import Trigger
from ringwise.scheduler.view import SchedulerView


def waits_for_room(job: Job) -> bool:
    """Whether it does not fit now, and others that end or move would help it."""
    reason = job.reason
    waits = job.waiting_since is not None and reason is not None
    return waits and reason is not None and Trigger.CHIPS_FREED in reason.kind.resolved_by


def chips_of_heads(view: SchedulerView) -> dict[str, list[int]]:
    """By resource: the chips that the pods of the first waiting job of each queue still ask for.

    The first by priority and age: other orders of plugins need a session, which is too much for a metric.
    """
    heads: dict[str, Job] = {}
    for job in view.jobs.values():
        if waits_for_room(job) and job.policy is not None:
            head = heads.get(job.queue)
            if head is None or _order(job) < _order(head):
                heads[job.queue] = job
    result: dict[str, list[int]] = {}
    for job in heads.values():
        # The pods of a vcjob are created when it is admitted: until then all that will be ask for chips.
        chips = sum(pod.cls.chips for pod in job.in_order if not job.pods or view.is_pending(pod))
        if chips and job.policy is not None:
            result.setdefault(job.policy.resource, []).append(chips)
    return result


def _order(job: Job) -> tuple[int, int, str]:
    return -job.priority, job.created, job.key
