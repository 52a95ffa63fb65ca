"""One moment for each key: the last that was set counts."""

from __future__ import annotations

from ringwise.controller.timers import Timers


def test_the_last_moment_of_a_key_counts_and_comes_once() -> None:
    timers = Timers()
    timers.set("a", 5)
    timers.set("a", 9)
    timers.set("b", 7)
    timers.set("b", 7)
    assert timers.next_deadline() == 7
    assert timers.take_due(8) == ["b"]
    assert timers.next_deadline() == 9
    timers.set("a", 3)
    assert timers.take_due(20) == ["a"]
    assert timers.next_deadline() is None


def test_a_moment_that_is_taken_back_does_not_come() -> None:
    timers = Timers()
    timers.set("a", 5)
    timers.set("a", None)
    timers.set("never set", None)
    assert timers.next_deadline() is None
    assert timers.take_due(10) == []


def test_moments_that_no_longer_count_use_no_memory() -> None:
    timers = Timers()
    for number in range(10_000):
        timers.set(f"gone-{number}", 10**18)
        timers.set(f"gone-{number}", None)
    timers.set("kept", 7)
    assert len(timers._heap) <= 1001
    assert (timers.next_deadline(), timers.take_due(7), timers.next_deadline()) == (7, ["kept"], None)
