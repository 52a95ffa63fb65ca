"""Invariants: checked after every turn of every scheduler that any test drives.

The hook is `Scheduler.handle` itself (`tests/conftest.py`), so a new test or driver has all of them. A rule
is a function that yields one sentence for each violation. It counts from the ledger, by brute force; of the
scheduler it reads only what that keeps (reservations, plans, shares), never how it decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from weakref import WeakKeyDictionary

import pytest

from ringwise.framework.job import Job
from ringwise.messages.commands import Command
from ringwise.messages.events import Decide, Event
from ringwise.messages.move_plan import MovePlan
from ringwise.reasons import Reason
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.defragment.search import Planner
from ringwise.scheduler.journal import TurnMark
from tests.invariants.faults import pods_leave_unhealthy_chips
from tests.invariants.holds import every_hold_has_an_end
from tests.invariants.ledger import Ledger
from tests.invariants.placements import (
    bindings_use_usable_chips,
    evictions_leave_whole_gangs,
    gangs_start_whole,
    moved_twice,
    no_chip_is_given_twice,
    no_pod_is_in_two_plans,
    reservations_lie_on_usable_chips,
)
from tests.invariants.quotas import (
    limits_count_what_runs_and_what_is_reserved,
    limits_hold_when_a_job_starts,
    queues_admit_no_more_than_they_may,
    queues_use_no_more_than_they_may,
)
from tests.invariants.reasons import pending_jobs_have_true_reasons

Rule = Callable[[Ledger, Scheduler], Iterator[str]]
RULES: tuple[Rule, ...] = (
    no_chip_is_given_twice,
    bindings_use_usable_chips,
    gangs_start_whole,
    evictions_leave_whole_gangs,
    no_pod_is_in_two_plans,
    reservations_lie_on_usable_chips,
    every_hold_has_an_end,
    queues_use_no_more_than_they_may,
    queues_admit_no_more_than_they_may,
    limits_hold_when_a_job_starts,
    limits_count_what_runs_and_what_is_reserved,
)
#: For drivers of random events: other tests count the jobs that are tried, or have other policies of faults.
SAMPLED: tuple[Rule, ...] = (pending_jobs_have_true_reasons, pods_leave_unhealthy_chips)

_ledgers: WeakKeyDictionary[Scheduler, Ledger] = WeakKeyDictionary()
#: What each search found so far.
_plans: WeakKeyDictionary[Planner, list[MovePlan]] = WeakKeyDictionary()
#: Violations of the test that runs. A component may survive the exception of a turn: the test fails all the
#: same at its end.
violations: list[str] = []


def ledger_of(scheduler: Scheduler) -> Ledger:
    ledger = _ledgers.get(scheduler)
    if ledger is None:
        ledger = _ledgers[scheduler] = Ledger()
    return ledger


def check(scheduler: Scheduler, rules: Iterable[Rule] = RULES) -> None:
    """Fail with the name of the rule if one does not hold after the last turn."""
    ledger = ledger_of(scheduler)
    _fail(f"{rule.__name__}: {what}" for rule in rules for what in rule(ledger, scheduler))


def _fail(what: Iterable[str]) -> None:
    found = list(what)
    if found:
        violations.extend(found)
        raise AssertionError("\n".join(found))


@contextmanager
def watching() -> Iterator[None]:
    """Inside, every turn of every scheduler and every plan of moves is checked."""
    handle = Scheduler.handle

    @wraps(handle)
    def checked(
        self: Scheduler,
        events: Iterable[Event],
        now: int,
        decide: Decide = Decide.ALL,
        marks: Iterable[TurnMark] = (),
    ) -> list[Command]:
        batch = tuple(events)
        commands = handle(self, batch, now, decide, marks)
        ledger = ledger_of(self)
        ledger.turn(batch, now, commands, decide)
        ledger.note_queues(self.view.job_of)
        if decide is not Decide.NOTHING:
            check(self)
        ledger.apply()
        return commands

    find = Planner.find

    @wraps(find)
    def found(self: Planner, job: Job) -> MovePlan | Reason:
        plan = find(self, job)
        if isinstance(plan, MovePlan):
            plans = _plans.setdefault(self, [])
            plans.append(plan)
            _fail(f"moved_twice: {what}" for what in moved_twice(plans))
        return plan

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scheduler, "handle", checked)
        patch.setattr(Planner, "find", found)
        yield
