"""A small run of the benchmark on a real API server: all binders finish, and none is left stopped."""

from __future__ import annotations

import multiprocessing

import pytest

from ringwise_bench.binders import ALONE, LOOP, SCHEDULER
from ringwise_bench.comparison import compare, compare_in_turn
from ringwise_bench.scenario import Scenario

pytestmark = [pytest.mark.cluster, pytest.mark.alone]


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario("pods", nodes=20, pods=70, rounds=2),
        Scenario("gang", nodes=20, pods=20, chips=8, gang=True, rounds=1),
        Scenario("vcjob", nodes=20, pods=20, chips=8, vcjob=True, rounds=1),
    ],
    ids=lambda scenario: scenario.name,
)
def test_every_binder_binds_all_pods_in_every_round(scenario: Scenario) -> None:
    who = (LOOP, SCHEDULER) if scenario.vcjob else (LOOP, SCHEDULER, ALONE)
    rounds = compare(scenario, who)
    assert len(rounds) == scenario.rounds
    assert all(outcomes[one].seconds > 0 for outcomes in rounds for one in who)
    first = rounds[0]
    assert all(first[one].cpu > 0 for one in who)
    assert first[LOOP].writes == scenario.pods * (2 if scenario.vcjob else 1)
    if not scenario.gang and not scenario.vcjob:
        # A Binding and an event for each pod, the status of two queues, and no PodGroup.
        assert first[SCHEDULER].writes <= 2 * scenario.pods + 20
    assert multiprocessing.active_children() == []


def test_scenarios_in_turn_are_measured_until_each_has_written_everything() -> None:
    pods = Scenario("pods", nodes=20, pods=70, rounds=1)
    vcjob = Scenario("vcjob", nodes=20, pods=20, chips=8, vcjob=True, rounds=1)
    who = (LOOP, SCHEDULER)
    (single,), (gang,) = compare_in_turn([(pods, who), (vcjob, who)])
    assert all(
        outcomes[one].seconds > 0 and outcomes[one].cpu > 0 for outcomes in (single, gang) for one in who
    )
    assert (single[LOOP].writes, gang[LOOP].writes) == (70, 40)
    # A Binding and an event for each pod, also though the process was stopped before the events.
    assert single[SCHEDULER].writes >= 140
    assert gang[SCHEDULER].writes >= 60
    assert multiprocessing.active_children() == []
