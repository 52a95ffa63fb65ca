"""Victims that take long to end: they come last, and after a time others are evicted."""

from __future__ import annotations

import pytest

from tests.scheduler.rig import Rig, gangs_may_end


def slow_rig(**graces: int) -> Rig:
    """A node for each job of low priority, with its `terminationGracePeriodSeconds`."""
    rig = Rig(len(graces), tiers=gangs_may_end(), actions=("enqueue", "allocate", "preempt", "backfill"))
    rig.priority("low", 1)
    rig.priority("high", 100)
    for name, grace in graces.items():
        rig.submit(name, chips=8, priority="low", preemptable=True)
        rig.change(f"{name}-0", grace=grace)
        rig.step(60)
        rig.run()
        assert rig.nodes_of(name)
    rig.submit("urgent", chips=8, priority="high")
    rig.run()
    return rig


@pytest.mark.parametrize(
    ("graces", "first"),
    [
        # Of equal ones the last that started loses least work.
        ({"a": 30, "b": 30}, "b-0"),
        ({"a": 30, "b": 900}, "a-0"),
        ({"a": 30, "b": 120}, "b-0"),
        ({"a": 900, "b": 121}, "b-0"),
    ],
)
def test_who_takes_long_to_end_is_evicted_last(graces: dict[str, int], first: str) -> None:
    assert slow_rig(**graces).evictions() == [first]


def test_another_is_evicted_if_the_first_is_not_gone_in_time() -> None:
    rig = slow_rig(a=900, b=900)
    assert rig.evictions() == ["b-0"]
    rig.step(119)
    rig.run()
    assert rig.evictions() == ["b-0"]
    rig.step(1)
    rig.run()
    assert rig.evictions() == ["b-0", "a-0"]
    rig.gone("a-0")
    rig.run()
    assert rig.nodes_of("urgent") == ["n1"]


def test_what_it_waits_for_stays_reserved_if_nobody_else_can_go() -> None:
    rig = slow_rig(a=900)
    for _ in range(6):
        rig.step(120)
        rig.run()
    assert rig.evictions() == ["a-0"]
    rig.submit("other", chips=8, priority="low")
    rig.gone("a-0")
    rig.run()
    assert rig.nodes_of("urgent") == ["n1"]
