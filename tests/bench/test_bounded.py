"""`ringwise bench bounded`: gangs that are placed as a whole, and jobs that evict others."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable

import pytest

from ringwise.framework import budget
from ringwise_bench.bounded import Flood, burning_flood, preemption_cost, unplaceable_flood
from ringwise_bench.differing_gangs import WHOLE_JOBS, WholeJob


@pytest.mark.parametrize("job", WHOLE_JOBS, ids=lambda job: job.name)
def test_each_pod_of_a_gang_that_names_its_host_gets_it(job: WholeJob) -> None:
    _, bound = job.cost(24)
    assert bound == 24


@pytest.mark.parametrize("job", WHOLE_JOBS, ids=lambda job: job.name)
def test_the_search_for_a_whole_job_counts_against_its_steps(
    job: WholeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: Counter[str] = Counter()
    spend = budget.StepBudget.spend

    def counted(self: budget.StepBudget, count: int) -> None:
        module: str = sys._getframe(1).f_globals["__name__"]
        steps[module.split(".")[1]] += count
        spend(self, count)

    monkeypatch.setattr(budget.StepBudget, "spend", counted)
    job.cost(24)
    assert steps["placement"] >= 2 * 24


def test_a_whole_job_that_takes_too_many_steps_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "JOB_STEPS", 100)
    monkeypatch.setattr(budget, "POD_STEPS", 0)
    for job in WHOLE_JOBS:
        _, bound = job.cost(24)
        assert bound == 0


def test_each_job_of_high_priority_evicts_one_pod_where_all_nodes_are_full() -> None:
    assert preemption_cost(40)[1] == 10


@pytest.mark.full
@pytest.mark.parametrize("make", [unplaceable_flood, burning_flood], ids=["unplaceable", "burning"])
def test_a_job_of_another_namespace_is_bound_in_spite_of_a_flood(make: Callable[[int], Flood]) -> None:
    flood = make(30)
    assert flood.turns_until_bound("quiet", flood.node("new")) <= 3
