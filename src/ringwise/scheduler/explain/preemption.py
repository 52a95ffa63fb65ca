"""Preemption in explanations: who evicted a job and what it lost, and what a job will evict once it may."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from ringwise.actions import gangpreempt, gangreclaim, preempt, reclaim
from ringwise.durations import time_text
from ringwise.framework.budget import TooCostly
from ringwise.framework.evictions.bundles import ALLOW_WHOLE
from ringwise.framework.evictions.eviction import (
    MAX_NAMED,
    NominatedShares,
    evicts_none,
    losers,
    losers_text,
    nominated_shares,
    plan_for,
)
from ringwise.framework.evictions.reclaiming import reclaim_choices
from ringwise.framework.evictions.victim_search import EvictionPlan, VictimChoice
from ringwise.framework.extension_points import (
    PREEMPT_PROTECTION,
    RECLAIM_PROTECTION,
    ExtensionPoint,
    VictimProtection,
)
from ringwise.framework.job import Job
from ringwise.framework.network_topology import asks_for_topology, ignores_topology
from ringwise.framework.session import Session
from ringwise.grammar import counted
from ringwise.messages.expected_start import ExpectedStart
from ringwise.scheduler.explain.fix_search import Fix, FixSearch
from ringwise.scheduler.view import SchedulerView


class _Evicting(NamedTuple):
    """An action: its victims, and the protection that they can have."""

    choices: Callable[[Session, Job], Iterator[VictimChoice]]
    protection: ExtensionPoint[VictimProtection]


_EVICTING: Mapping[str, _Evicting] = {
    preempt.NAME: _Evicting(preempt.choices_for, PREEMPT_PROTECTION),
    reclaim.NAME: _Evicting(reclaim_choices, RECLAIM_PROTECTION),
    gangpreempt.NAME: _Evicting(gangpreempt.choices_for, PREEMPT_PROTECTION),
    gangreclaim.NAME: _Evicting(gangreclaim.choices_for, RECLAIM_PROTECTION),
}


def why_no_evictions(view: SchedulerView, job: Job) -> Iterator[str]:
    """Why no pod is evicted for a job that waits: its volumes, or its network topology."""
    if job.may_not_evict and any(action in _EVICTING for action in view.configuration.actions):
        yield "no pod is evicted for it until one of its claims changes: its volumes were not there in time"
    if job.reason is not None and _left_to_gangpreempt(view, job):
        yield (
            f"{preempt.NAME} evicts no pod for a job with a network topology: "
            f"add {gangpreempt.NAME} to the actions"
        )


def refused_evictions(view: SchedulerView, job: Job, now: int) -> Iterator[str]:
    """Jobs that are not evicted now because that was refused, for those that wait for their chips."""
    if job.victims_from is None:
        return
    waiting = [(key, one) for key, one in view.history.refused_evictions.items() if one.until > now]
    for key, one in sorted(waiting, key=lambda entry: entry[1].until)[:MAX_NAMED]:
        victim = view.jobs.get(key)
        if victim is not None and victim is not job:
            name = victim.full_name
            yield f"{name} is not evicted before {time_text(one.until)}, as that was refused: {one.why}"


def _left_to_gangpreempt(view: SchedulerView, job: Job) -> bool:
    """Whether preempt leaves it to gangpreempt, which is not configured."""
    actions = view.configuration.actions
    obeyed = asks_for_topology(job) and not ignores_topology(job, view.configuration)
    return obeyed and preempt.NAME in actions and gangpreempt.NAME not in actions


def preemption_of(view: SchedulerView, job: Job, start: ExpectedStart | None, now: int) -> Iterator[str]:
    """By whom it was evicted the last time, what that cost it, and when it is back."""
    entry = view.history.preemptions.get(job.key)
    if entry is None:
        return
    word = "preempted" if entry.cause == preempt.NAME else "reclaimed"
    what = f"{counted(entry.pods, 'pod')} with {counted(entry.chips, 'chip')}" if entry.chips else "pods"
    if entry.back:
        back = f"a pod of it has had a node again since {time_text(entry.back)}"
    elif start is not None:
        back = f"it is back: {start.text(now)}"
    else:
        back = "no pod in their place has a node yet"
    yield f"{word} for {entry.by} at {time_text(entry.at)}: it lost {what} and {entry.hours} of work; {back}"


def cooldown_fixes(search: FixSearch) -> Iterator[Fix]:
    """When the pods are protected no more that it may evict then: tried at that very time."""
    view, job, now = search.view, search.job, search.now
    actions = [name for name in view.configuration.actions if name in _EVICTING]
    # Each search reads all pods.
    steps = len(view.cluster.pods) // 10 + len(job.in_order)
    for action in actions:
        session = view.what_if.open_session(now, [job])
        protections = session.registered(_EVICTING[action].protection)
        if not protections or not search.spend(3 * steps):
            continue
        plan = _dry_run(session, job, action, protected=False)
        ends = [
            end
            for _, pod in (plan.victims if plan is not None else ())
            for protects in protections
            if (end := protects(pod.uid)) is not None and end > now
        ]
        if ends and (lose := _losses(search, action, max(ends))):
            yield Fix("cooldown", f"wait until {time_text(max(ends))}, when cooldowns end: {lose}")
            return


def bundle_fixes(search: FixSearch) -> Iterator[Fix]:
    """Whom a gang-aware action would evict if it ran, or might end whole jobs: tried with that."""
    view, job = search.view, search.job
    actions = view.configuration.actions
    supposed = [
        (action, f"set {ALLOW_WHOLE.name}: true for {action}")
        for action in (gangpreempt.NAME, gangreclaim.NAME)
        if action in actions and not view.configuration.action_value(action, ALLOW_WHOLE)
    ]
    if _left_to_gangpreempt(view, job):
        supposed.append((gangpreempt.NAME, f"add {gangpreempt.NAME} to the actions"))
    for action, text in supposed:
        steps = len(view.cluster.pods) // 10 + len(job.in_order)
        if search.spend(steps) and (lose := _losses(search, action, search.now, whole=True)):
            yield Fix("bundles", f"{text}: {lose}")
            return


def _losses(search: FixSearch, action: str, at: int, *, whole: bool = False) -> str:
    """Return which jobs would lose pods if the action ran at this time; empty if none would."""
    session = search.view.what_if.open_session(at, [search.job])
    plan = _dry_run(session, search.job, action, protected=True, whole=whole)
    return " and ".join(losers_text(losers(session, plan))) if plan is not None and plan.victims else ""


def _dry_run(
    session: Session, job: Job, action: str, *, protected: bool, whole: bool = False
) -> EvictionPlan | None:
    """Which pods the action would evict for the job. The state is the same before and after."""
    session.ignores_protection = not protected
    inqueue, reason = job.inqueue, job.reason
    try:
        if evicts_none(session, job) or job.queue not in session.queues or session.job_valid(job) is not None:
            return None
        with nominated_shares(session), session.reservations.open_to(job.key):
            session.shared(NominatedShares).remove(job.key)
            for choice in _EVICTING[action].choices(session, job):
                if whole and choice.bundles is not None:
                    choice = replace(choice, bundles=replace(choice.bundles, allow_whole=True))
                plan = plan_for(session, job, choice)
                if plan is not None:
                    return plan
        return None
    except TooCostly:
        return None
    finally:
        job.inqueue, job.reason = inqueue, reason
