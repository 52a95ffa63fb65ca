"""When a side of the benchmark on a real API server counts as having written everything."""

from __future__ import annotations

import asyncio

import pytest

from ringwise_bench import api, binders
from ringwise_bench.binders import ALONE, KUBE_SCHEDULER, LOOP, SCHEDULER


def _write(tally: binders._Tally) -> None:
    with tally.write():
        pass


async def test_a_side_is_quiet_after_several_looks_without_a_write_and_with_empty_queues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process may be stopped between two looks, so seconds without a write say nothing."""
    tally, waiting = binders._Tally(), [3]
    looks = 0

    async def sleep(seconds: float) -> None:
        nonlocal looks
        looks += 1
        # A burst of events follows a pause in which nothing is written.
        if looks in (2, 9):
            _write(tally)
        if looks == 9:
            waiting.clear()

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await tally.quiet(lambda: not waiting)
    assert looks == 9 + binders._LOOKS
    assert tally.cost().writes == 2


async def test_a_write_under_way_is_not_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    tally, looks = binders._Tally(), 0
    writing = tally.write()

    async def sleep(seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 20:
            writing.__exit__(None, None, None)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    writing.__enter__()
    await tally.quiet(lambda: True)
    assert looks == 19 + binders._LOOKS


def test_the_queues_of_the_scheduler_are_known() -> None:
    count, seen = binders._Count(2), list[int]()
    for queue, length in (("events", 5), ("news", 1), ("events", 4), ("events", 0), ("news", 0)):
        count.queue_length(queue, length)
        seen.append(count.waiting)
    assert seen == [5, 6, 5, 1, 0]


def test_the_usual_run_has_every_goal_of_the_full_one_but_that_without_the_controller() -> None:
    (usual,) = api.scenarios(full=False)
    full = [scenario for group in api.scenarios(full=True) for scenario in group]
    assert [(one.name, one.pods, one.goal, one.most_cpu) for one in full[:2]] == [
        (one.name, one.pods, one.goal, one.most_cpu) for one in usual
    ]
    assert [api._sides(one, beside=False) for one in usual] == [[LOOP, SCHEDULER]] * 2
    assert api._sides(full[0], beside=True) == [LOOP, SCHEDULER, ALONE, KUBE_SCHEDULER]
