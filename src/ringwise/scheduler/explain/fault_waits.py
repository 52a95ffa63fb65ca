"""What a job that a fault hit waits for, and when each wait ends: every state of `faults/states.py`."""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.durations import duration_text
from ringwise.framework.job import Job
from ringwise.grammar import agrees, counted
from ringwise.placement.racks.levels import Level
from ringwise.scheduler.faults.fault_job import Deletion, FaultJob, positions
from ringwise.scheduler.faults.handler import WATCHED_FOR
from ringwise.scheduler.faults.policy import read_fault_policy
from ringwise.scheduler.faults.previous_placements import WHY
from ringwise.scheduler.faults.scope import level_times, next_level_after
from ringwise.scheduler.faults.states import State
from ringwise.scheduler.view import SchedulerView
from ringwise.topology.natural import natural_key

_SECOND = 1_000_000_000
#: Names in one sentence.
_NAMED = 3


def fault_waits(view: SchedulerView, job: Job, now: int) -> tuple[str, ...]:
    """One sentence for each wait; none for a job that no fault hit."""
    handled = view.fault_jobs.get(job.key)
    found = [] if handled is None else [*_state(view, handled, job, now)]
    return (*found, *_held(view, job, now))


def _state(view: SchedulerView, handled: FaultJob, job: Job, now: int) -> Iterator[str]:
    settings = view.settings
    faulty = sorted(handled.faulty.values(), key=lambda pod: pod.position.rank)
    for pod in faulty[:_NAMED]:
        yield f"fault: {pod.name}: {pod.fault.why}"
    if len(faulty) > _NAMED:
        yield f"fault: {counted(len(faulty) - _NAMED, 'more pod')}"
    watched = handled.since + (WATCHED_FOR + settings.grace_over_time) * _SECOND
    match handled.state:
        case State.BLOCKED:
            yield f"rescheduling: no pod is restarted: {handled.blocked}"
            yield f"rescheduling: this is asked again at every change, for {_left(watched, now)}"
        case State.DELETING:
            yield from _deletions(handled, now, settings.grace_over_time)
            yield f"rescheduling: it is watched for {_left(watched, now)}"
        case State.WAITING:
            yield from _replacements(view, handled, job, now)
            yield f"rescheduling: it is watched for {_left(watched, now)}; then it waits as others do"


def _deletions(handled: FaultJob, now: int, grace: int) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for one in handled.deletions.values():
        groups.setdefault(_deletion(handled, one, now, grace), []).append(one.name)
    for text, names in groups.items():
        found = sorted(names, key=natural_key)
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        are = agrees(len(found), "is", "are")
        yield f"rescheduling: {', '.join(found[:_NAMED])}{more} {text.format(are=are)}"


def _deletion(handled: FaultJob, one: Deletion, now: int, grace: int) -> str:
    if handled.external:
        return "{are} marked; another component deletes the faulty pods"
    if not one.sent:
        return f"{{are}} to be deleted: the API server refused it, again in {_left(one.not_before, now)}"
    if one.forced:
        return "{are} deleted by force; replacements start when nothing of this is left (N6)"
    end = handled.deleting_since + grace * _SECOND
    return f"{{are}} ending; what is left in {_left(end, now)} is deleted by force (grace-over-time)"


def _replacements(view: SchedulerView, handled: FaultJob, job: Job, now: int) -> Iterator[str]:
    ranks = counted(len(handled.missing), "pod")
    if handled.waiting_since is None:
        yield f"rescheduling: {ranks} lost; their owner has not created the replacements yet"
        return
    places = [*handled.affected, *positions(job).values()]
    waited = handled.seconds_waited(now)
    policy = read_fault_policy(job.labels, job.annotations, clusterd=view.has_clusterd)
    following = next_level_after(
        policy,
        level_times(view.settings),
        waited,
        blocks=any(place.block >= 0 for place in places),
        racks=any(place.rack >= 0 for place in places),
    )
    level = handled.level.name.lower()
    end = "there is no higher level"
    if following is not None and not handled.external:
        end = f"the next level begins in {max(0.0, round(following - waited, 1)):g} s"
    elif handled.level is Level.JOB:
        end = "the whole job was restarted"
    yield f"rescheduling: {level} level: replacements wait for nodes since {waited:g} s; {end}"


def _held(view: SchedulerView, job: Job, now: int) -> Iterator[str]:
    """S9."""
    reservation = view.reservation_of(job.key)
    if reservation is None or reservation.why != WHY or reservation.expires is None:
        return
    names = sorted((view.cluster.names[node] for node in reservation.nodes), key=natural_key)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    are = agrees(len(names), "is", "are")
    yield (
        f"rescheduling: {', '.join(names[:_NAMED])}{more} {are} held for it for another "
        f"{_left(reservation.expires, now)}"
    )


def _left(end: int, now: int) -> str:
    return duration_text(end - now)
