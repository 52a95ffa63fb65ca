"""What the dashboard remembers for its plots."""

from __future__ import annotations

import pytest

from ringwise.views.documents.dashboard import DashboardChips, DashboardTotals
from ringwise.web import hub
from ringwise.web.hub import Series
from tests.builders.values import SECOND

TRAIN, INFER = "huawei.com/Ascend910", "huawei.com/Ascend310P"


def chips(used: int, free: int, fragmentation: float = 0.0) -> DashboardChips:
    return {
        "chips": used + free,
        "free": free,
        "used": used,
        "faulty": 0,
        "reserved": 0,
        "unschedulable": 0,
        "isolated": 0,
        "until_drain": 0,
        "fragmentation": fragmentation,
    }


def totals(used: int, free: int) -> DashboardTotals:
    return {"resources": {TRAIN: chips(used, free)}, "pending": 1, "rejected": 2, "running": 0}


def test_decisions_are_counted_per_second_and_start_again_with_another_scheduler() -> None:
    series, first, second = Series(), object(), object()
    for time, bindings, counter in ((10, 100, first), (15, 110, first), (20, 5, second)):
        series.add(time * SECOND, totals(4, 4), bindings, counter)
    document = series.document()
    assert document["times"] == [10, 15, 20]
    assert document["decisions"] == [0, 2, 1]


def test_virtual_time_that_stands_still_has_one_point() -> None:
    series, counter = Series(), object()
    series.add(10 * SECOND, totals(0, 8), 0, counter)
    series.add(10 * SECOND, totals(4, 4), 20, counter)
    series.add(20 * SECOND, totals(8, 0), 30, counter)
    document = series.document()
    assert document["times"] == [10, 20]
    assert document["resources"][TRAIN]["used"] == [4, 8]
    # None of the decisions is lost.
    assert document["decisions"] == [0, 3]


def test_the_oldest_points_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "REMEMBERED", 3 * hub.SAMPLE_INTERVAL)
    series = Series()
    for number in range(10):
        series.add(number * SECOND, totals(number, 0), 0, series)
    assert series.document()["resources"][TRAIN]["used"] == [7, 8, 9]


def test_chips_of_different_resources_are_not_added() -> None:
    """Nodes of the second resource come later."""
    series = Series()
    series.add(SECOND, totals(4, 4), 0, series)
    both: DashboardTotals = {
        "resources": {TRAIN: chips(4, 4, 0.5), INFER: chips(0, 64)},
        "pending": 0,
        "rejected": 3,
        "running": 0,
    }
    series.add(2 * SECOND, both, 0, series)
    document = series.document()
    assert document["resources"] == {
        INFER: {"used": [0, 0], "free": [0, 64], "fragmentation": [0.0, 0.0]},
        TRAIN: {"used": [4, 4], "free": [4, 4], "fragmentation": [0.0, 0.5]},
    }
    assert document["pending"] == [1, 0]
