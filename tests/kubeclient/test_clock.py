"""Clocks of components: what a corrected wall clock changes."""

from __future__ import annotations

import time

import pytest

from ringwise.kubeclient.clock import RealClock, SteadyTime
from tests.builders.values import SECOND

DAY = 86_400 * SECOND


class SetClock:
    """A wall clock that is set, and a monotonic clock that is not."""

    def __init__(self) -> None:
        self.wall, self.moment = 1_760_000_000 * SECOND, 50.0

    def now(self) -> int:
        return self.wall

    def monotonic(self) -> float:
        return self.moment

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError

    def advance(self, seconds: int, set_by: int = 0) -> None:
        self.wall += seconds * SECOND + set_by
        self.moment += seconds


@pytest.mark.parametrize(
    ("set_by", "passed"),
    [
        (0, 10 * SECOND),
        # Forward: deadlines have passed, as on every machine with the right time.
        (DAY, 10 * SECOND + DAY),
        # Back: a job that waits for 5 s does not wait for a day.
        (-DAY, 10 * SECOND),
        # The clocks are not read at the same time.
        (-SECOND // 1000, 10 * SECOND - SECOND // 1000),
    ],
)
def test_time_for_decisions_is_never_set_back(set_by: int, passed: int) -> None:
    clock = SetClock()
    steady = SteadyTime(clock)
    first = steady.now()
    clock.advance(10, set_by)
    assert steady.now() - first == passed
    clock.advance(10)
    assert steady.now() - first == passed + 10 * SECOND
    clock.advance(0, -SECOND // 1000)
    assert steady.now() - first >= passed + 10 * SECOND


def test_the_monotonic_clock_counts_the_time_of_a_suspended_machine() -> None:
    if not hasattr(time, "CLOCK_BOOTTIME"):
        pytest.skip("this system has no such clock")
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= RealClock().monotonic() <= time.clock_gettime(time.CLOCK_BOOTTIME)
