"""Whatever is held for a job ends: at a time for which the scheduler wakes up, or with what it waits for."""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.core.reservation import WHY
from ringwise.scheduler.core.volume_waits import VolumeWaits
from ringwise.scheduler.faults.lost_pods import RETENTION
from ringwise.scheduler.faults.previous_placements import PreviousPlacements
from ringwise.scheduler.faults.share_records import ShareRecords
from tests.invariants.ledger import Ledger

_SECOND = 1_000_000_000
#: M1: after the last evicted pod is gone.
_MOVE_LIMIT = 120 * _SECOND

#: What is held, and when that ends.
Hold = tuple[str, int]


def every_hold_has_an_end(ledger: Ledger, scheduler: Scheduler) -> Iterator[str]:
    """F6, S9, M1: reserved quota, reservations, plans and waits for volumes end in time, or with their job.

    None of them is over and still there, and the scheduler wakes up at the end of the first at the latest.
    """
    holds: list[Hold] = []
    for found in (*_quota(ledger, scheduler), *_reservations(ledger, scheduler), *_others(ledger, scheduler)):
        if isinstance(found, str):
            yield found
        else:
            holds.append(found)
    wakes = scheduler.next_deadline() if holds else None
    for what, end in holds:
        if end <= ledger.now:
            yield f"{what} was to end {(ledger.now - end) / _SECOND:g} s ago"
        elif wakes is None or wakes > end:
            yield f"{what} ends at {end}, and the scheduler does not wake up then"


def _quota(ledger: Ledger, scheduler: Scheduler) -> Iterator[Hold | str]:
    """F6: at most S9's limit after a pod was last gone."""
    limit = scheduler.view.settings.hold_healthy_nodes * _SECOND
    for share in scheduler._components.of(ShareRecords)._shares.values():
        what = f"quota that is reserved for {share.job}"
        if not share.counts:
            continue
        if share.until is not None:
            yield what, share.until
            if share.until > ledger.now + limit:
                yield f"{what} lasts longer than its limit"
        elif not any(uid in ledger.held for uid in share.leaving):
            yield f"{what} has no end, and none of its pods terminates"


def _reservations(ledger: Ledger, scheduler: Scheduler) -> Iterator[Hold | str]:
    view = scheduler.view
    planned = {job.job for live in view.history.moves.plans.values() for job in live.jobs}
    planned |= {live.plan.job for live in view.history.moves.plans.values()}
    for reservation in view.reservations:
        owner, what = reservation.owner, f"what is reserved for {reservation.owner}"
        if reservation.expires is not None:
            yield what, reservation.expires
        elif reservation.lasting:
            if owner not in planned:
                yield f"{what} is of no plan that is carried out"
        elif reservation.why != WHY:
            yield f"{what} ({reservation.why}) has no end"
        elif owner not in view.jobs or not any(_waits(ledger, uid) for uid in view.jobs[owner].pods):
            yield f"{what} has no end, and the job is not pending"


def _waits(ledger: Ledger, uid: str) -> bool:
    return ledger.stays(uid) and not ledger.is_bound(uid) and ledger.pods[uid].phase == "Pending"


def _others(ledger: Ledger, scheduler: Scheduler) -> Iterator[Hold | str]:
    """Plans of moves, nodes of jobs that are rescheduled or were suspended, and waits for volumes."""
    view, now = scheduler.view, ledger.now
    grace = view.settings.grace_over_time * _SECOND
    for live in view.history.moves.plans.values():
        yield f"plan {live.plan.id}", live.since + _MOVE_LIMIT + grace
    limit = view.settings.hold_healthy_nodes * _SECOND
    for kept in scheduler._components.of(PreviousPlacements)._rescheduling.values():
        what = f"what is remembered of {kept.job}"
        yield what, kept.until
        if kept.until > now + (RETENTION if kept.suspended else limit):
            yield f"{what} lasts longer than its limit"
    for key, batches in scheduler._components.of(VolumeWaits)._batches.items():
        if key not in view.jobs:
            yield f"{key} is gone and waits for volumes"
        for batch in batches:
            yield f"the wait of {key} for volumes", batch.until
    for uid in scheduler._context.reservations.borrowed:
        if not ledger.is_bound(uid):
            yield f"{uid} is gone and uses what is reserved for others"
