"""A small run of the benchmark on a real API server: all binders finish, and none is left stopped."""

from __future__ import annotations

import multiprocessing

import pytest

from ringwise.apps.bench.binders import LOOP, SCHEDULER
from ringwise.apps.bench.comparison import compare
from ringwise.apps.bench.scenario import Scenario

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario("pods", nodes=20, pods=70, rounds=2),
        Scenario("gang", nodes=20, pods=20, chips=8, gang=True, rounds=1),
    ],
    ids=lambda scenario: scenario.name,
)
def test_every_binder_binds_all_pods_in_every_round(scenario: Scenario) -> None:
    rounds = compare(scenario, (LOOP, SCHEDULER))
    assert len(rounds) == scenario.rounds
    assert all(seconds[who] > 0 for seconds in rounds for who in (LOOP, SCHEDULER))
    assert multiprocessing.active_children() == []
