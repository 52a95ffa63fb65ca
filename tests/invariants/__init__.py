"""Invariants: checked after every turn of every scheduler that any test drives.

The hook is `Scheduler.handle` itself (`tests/conftest.py`), so a new test or driver has all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from weakref import WeakKeyDictionary

import pytest

from ringwise.messages.commands import Command
from ringwise.messages.events import Decide, Event
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.journal import TurnMark
from tests.invariants.ledger import Ledger
from tests.invariants.rules import RULES

_ledgers: WeakKeyDictionary[Scheduler, Ledger] = WeakKeyDictionary()
#: Violations of the test that runs. A component may survive the exception of a turn: the test fails all the
#: same at its end.
violations: list[str] = []


def check(scheduler: Scheduler) -> None:
    """Fail with the name of the rule if one does not hold after the last turn."""
    ledger = _ledgers[scheduler]
    found = [f"{rule.__name__}: {what}" for rule in RULES for what in rule(ledger, scheduler)]
    if found:
        violations.extend(found)
        raise AssertionError("\n".join(found))


@contextmanager
def watching() -> Iterator[None]:
    """Inside, every turn of every scheduler is checked."""
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
        ledger = _ledgers.get(self)
        if ledger is None:
            ledger = _ledgers[self] = Ledger()
        ledger.turn(batch, now, commands)
        if decide is not Decide.NOTHING:
            check(self)
        ledger.apply()
        return commands

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scheduler, "handle", checked)
        yield
