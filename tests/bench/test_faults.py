"""The benchmark of faults measures what it says: every pod moves, and a fault costs about a gang."""

from __future__ import annotations

import pytest

from ringwise_bench.faults import measure


@pytest.mark.full
def test_every_fault_is_handled_and_has_a_cost() -> None:
    """`measure` fails where a pod does not move. The goal of the benchmark is 20."""
    costs = measure(60, 24)
    assert set(costs.faults) == {"one pod", "the whole job"}
    assert all(0 < cost < 60 * costs.gang for cost in costs.faults.values())
