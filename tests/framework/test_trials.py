"""Searches by trial: the smallest number, the nearest one, what can be left out; nothing of a trial stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.framework.extension_points import JobPlan
from ringwise.framework.statement import Allocation
from ringwise.framework.trials import fewest, nearest, reduced, trial
from tests.builders.session_lab import cluster


@given(st.integers(0, 200), st.integers(1, 200))
def test_fewest_is_the_first_number_that_succeeds_and_tries_few(there: int, needed: int) -> None:
    tried: list[int] = []

    def attempt(count: int) -> str | None:
        tried.append(count)
        return f"with {count}" if count >= needed else None

    expected = None if needed > there else (needed, f"with {needed}")
    assert fewest(lambda wanted: there, attempt) == expected
    assert len(tried) == len(set(tried)) <= 2 * there.bit_length() + 1
    assert max(tried, default=0) < 2 * needed


def test_no_more_is_asked_for_than_is_tried() -> None:
    asked: list[int] = []

    def available(wanted: int) -> int:
        asked.append(wanted)
        return 100

    assert fewest(available, lambda count: count >= 3 or None) == (3, True)
    assert asked == [1, 2, 4]


@given(st.integers(-50, 50), st.integers(-50, 50))
def test_nearest_approaches_the_number_that_fails_from_either_side(good: int, last: int) -> None:
    """All numbers from `good` to `last` succeed."""
    step = 1 if last >= good else -1

    def attempt(number: int) -> str | None:
        return str(number) if (last - number) * step >= 0 else None

    found, what = nearest(good, last + 7 * step, attempt, "?")
    assert found == last
    assert what == (str(last) if last != good else "?")


@given(st.sets(st.integers(0, 7)), st.integers(0, 8))
def test_reduced_leaves_out_the_last_of_what_is_not_needed(needed: set[int], least: int) -> None:
    items = list(range(8))

    def attempt(kept: list[int]) -> list[int] | None:
        return list(kept) if needed <= set(kept) and len(kept) >= least else None

    kept, found = reduced(items, attempt, items)
    assert found == kept
    spared = [one for one in items if one not in needed]
    assert kept == sorted({*needed, *spared[: max(0, least - len(needed))]})


def test_a_trial_restores_everything_also_after_an_error() -> None:
    lab = cluster().nodes(2, cpu=1000).job("old", cpu=600, on="n1").job("new", cpu=600)
    session = lab.session("gang", "predicates")
    new, old = lab.state.pods["new-0"], lab.state.pods["old-0"]
    node, plan = old.node, JobPlan({})

    def fail() -> None:
        with trial(session, lab["new"], [(lab["old"], old.pod)]) as statement:
            assert old.node < 0
            statement.allocate(Allocation(lab["new"], new.pod, node, ()))
            assert new.node == node
            session.plans[lab["new"].key] = JobPlan({})
            raise ZeroDivisionError

    session.plans[lab["new"].key] = plan
    with pytest.raises(ZeroDivisionError):
        fail()
    assert old.node == node
    assert new.node < 0
    assert session.plans[lab["new"].key] is plan
