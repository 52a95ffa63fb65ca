"""Preemption in explanations: who evicted a job and what it lost, and what a job will evict once it may."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ringwise.actions import preempt, reclaim
from ringwise.durations import time_text
from ringwise.framework.budget import TooCostly
from ringwise.framework.evictions.eviction import (
    AllowedVictims,
    EvictionPlan,
    JobPod,
    losers,
    losers_text,
    plan_for,
)
from ringwise.framework.extension_points import PREEMPT_PROTECTION, RECLAIM_PROTECTION
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.grammar import counted
from ringwise.messages.expected_start import ExpectedStart
from ringwise.scheduler.explain.cure_search import Cure, CureSearch
from ringwise.scheduler.view import SchedulerView

_CANDIDATES: Mapping[str, Callable[[Session, Job], Iterator[tuple[list[JobPod], AllowedVictims]]]] = {
    preempt.NAME: preempt.candidates_for,
    reclaim.NAME: reclaim.candidates_for,
}
_PROTECTIONS = {preempt.NAME: PREEMPT_PROTECTION, reclaim.NAME: RECLAIM_PROTECTION}


def preemption_of(view: SchedulerView, job: Job, start: ExpectedStart | None, now: int) -> Iterator[str]:
    """By whom it was evicted the last time, what that cost it, and when it is back."""
    known = view.preemptions.get(job.key)
    if known is None:
        return
    word = "preempted" if known.cause == preempt.NAME else "reclaimed"
    what = f"{counted(known.pods, 'pod')} with {counted(known.chips, 'chip')}" if known.chips else "pods"
    if known.back:
        back = f"a pod of it has had a node again since {time_text(known.back)}"
    elif start is not None:
        back = f"it is back: {start.text(now)}"
    else:
        back = "it has no node yet"
    yield f"{word} for {known.by} at {time_text(known.at)}: it lost {what} and {known.hours} of work; {back}"


def cooldown_cures(search: CureSearch) -> Iterator[Cure]:
    """When the pods are protected no more that it may evict then: tried at that very time."""
    view, job, now = search.view, search.job, search.now
    actions = [name for name in view.configuration.actions if name in _CANDIDATES]
    # Each search reads all pods.
    steps = len(view.cluster.pods) // 10 + len(job.in_order)
    for action in actions:
        session = view.what_if.open_session(now, [job])
        if not session.registered(_PROTECTIONS[action]) or not search.spend(3 * steps):
            continue
        plan = _dry_run(session, job, action, protected=False)
        ends = [
            end
            for _, pod in (plan.victims if plan is not None else ())
            for protects in session.registered(_PROTECTIONS[action])
            if (end := protects(pod.uid)) is not None and end > now
        ]
        if not ends:
            continue
        later = view.what_if.open_session(max(ends), [job])
        plan = _dry_run(later, job, action, protected=True)
        if plan is not None and plan.victims:
            lose = " and ".join(losers_text(losers(later, plan)))
            yield Cure("cooldown", f"from {time_text(max(ends))}, when cooldowns are over: {lose}")
            return


def _dry_run(session: Session, job: Job, action: str, *, protected: bool) -> EvictionPlan | None:
    """Which pods the action would evict for the job. The state is the same before and after."""
    session.ignores_protection = not protected
    inqueue, reason = job.inqueue, job.reason
    try:
        if job.queue not in session.queues or session.job_valid(job) is not None:
            return None
        with session.reservations.open_to(job.key):
            for candidates, allowed in _CANDIDATES[action](session, job):
                plan = plan_for(session, job, candidates, allowed)
                if plan is not None:
                    return plan
        return None
    except TooCostly:
        return None
    finally:
        job.inqueue, job.reason = inqueue, reason
