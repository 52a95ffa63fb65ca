"""What is told of a preemption: beforehand to the job that preempts, and afterwards to the one that lost."""

from __future__ import annotations

import pytest

from ringwise.durations import time_text
from ringwise.messages import events as ev
from ringwise.messages.commands import Evict
from ringwise.scheduler.explain.why import explain
from ringwise.state.model import Queue
from ringwise.wellknown import (
    BELIEVE_CHECKPOINTS,
    CHECKPOINT_TIME,
    COOLDOWN_TIME,
    EXPECTED_DURATION,
    LONGEST_COOLDOWN,
    MOVABLE,
    RESTART_COST,
)
from tests.actions.test_victims import fill, rig_of
from tests.builders.values import SECOND
from tests.scheduler.rig import Rig


def notes(rig: Rig, job: str) -> tuple[str, ...]:
    return explain(rig.machine.view, rig.machine.view.jobs[f"default/{job}"], rig.now).notes


def test_the_job_that_preempts_names_who_loses_what() -> None:
    rig = rig_of(1)
    fill(rig, ("v", 1800))
    rig.submit("boss", chips=8, priority="high")
    rig.step()
    told = explain(rig.machine.view, rig.machine.view.jobs["default/boss"], rig.now).sentence
    assert told.startswith("1 pod is being evicted for it (preempt); nodes reserved: n1")
    assert told.endswith("; default/v loses 8 chips and 4 chip-hours")


def test_the_job_that_was_preempted_is_told_by_whom_what_it_lost_and_when_it_is_back() -> None:
    rig = rig_of(1)
    fill(rig, ("v", 1800))
    at = rig.now
    rig.submit("boss", chips=8, priority="high", expected="1h")
    rig.run()
    rig.replacement("v-0")
    rig.tell(ev.PodGone(next(one.uid for one in rig.commands if isinstance(one, Evict))))
    rig.run()
    lost = (
        f"preempted for default/boss at {time_text(at)}: it lost 1 pod with 8 chips and 4 chip-hours of work"
    )
    back = time_text(rig.now + 3600 * SECOND)
    [told] = notes(rig, "v")
    assert told.startswith(f"{lost}; it is back: ")
    assert back in told
    rig.end("boss")
    rig.run()
    again = f"{lost}; a pod of it has had a node again since {time_text(rig.now)}"
    assert notes(rig, "v") == (again,)
    # A pod that gets a node later changes nothing.
    rig.gone("v-0")
    rig.step(60)
    rig.submit("v", chips=8)
    rig.run()
    assert rig.places("v")
    assert notes(rig, "v") == (again,)


def test_a_refused_eviction_leaves_what_was_evicted_for_another_job_since() -> None:
    rig = rig_of(2)
    rig.submit("v", pods=2, chips=8, min_available=1, preemptable=True)
    rig.change_group("v", ordinary=True)
    rig.run()
    rig.submit("first", chips=8, priority="high")
    (refused,) = (one for one in rig.step(1800) if isinstance(one, Evict))
    rig.submit("second", chips=8, priority="high")
    rig.step(1)
    before = notes(rig, "v")
    assert before[0].startswith("preempted for default/second at")
    rig.tell(ev.EvictFailed(refused.uid, "a disruption budget forbids it"))
    rig.step()
    assert notes(rig, "v") == before


def test_a_job_that_waits_for_a_cooldown_is_told_when_it_ends_and_who_loses_then() -> None:
    rig = rig_of(1)
    fill(rig, ("v", 100), annotations={COOLDOWN_TIME: "10m"})
    rig.submit("boss", chips=8, priority="high")
    rig.run()
    view = rig.machine.view
    before = view.inconsistencies()
    answer = explain(view, view.jobs["default/boss"], rig.now)
    ends = rig.now + 500 * SECOND
    # 600 seconds of 8 chips.
    wanted = f"wait until {time_text(ends)}, when cooldowns end: default/v loses 8 chips and 1.3 chip-hours"
    assert wanted in [fix.text for fix in answer.fixes if fix.kind == "cooldown"]
    assert view.inconsistencies() == before == []
    # It was tried: that is what happens.
    rig.step(500)
    assert rig.evictions() == ["v-0"]


@pytest.mark.parametrize("why", ["never preempts", "behind another job"])
def test_no_cooldown_is_named_to_a_job_that_evicts_no_pods(why: str) -> None:
    behind = why == "behind another job"
    rig = rig_of(1, queue_discipline="strict")
    fill(rig, ("v", 100), annotations={COOLDOWN_TIME: "10m"})
    if behind:
        rig.submit("first", chips=8, priority="high")
        rig.run()
    rig.submit("boss", chips=8, priority="high", never_preempts=not behind)
    rig.run()
    view = rig.machine.view
    answer = explain(view, view.jobs["default/boss"], rig.now)
    texts = [fix.text for fix in answer.fixes if fix.kind == "cooldown"]
    assert [text for text in texts if not text.startswith("let default/first start: ")] == []
    assert bool(texts) == behind
    rig.step(500)
    assert rig.evictions() == (["v-0"] if behind else [])


def test_no_cooldown_is_named_that_would_not_help() -> None:
    rig = rig_of(1)
    rig.submit("v", chips=8, priority="high", preemptable=True, annotations={COOLDOWN_TIME: "10m"})
    rig.run()
    rig.submit("boss", chips=8, priority="high")
    rig.run()
    answer = explain(rig.machine.view, rig.machine.view.jobs["default/boss"], rig.now)
    assert [fix for fix in answer.fixes if fix.kind == "cooldown"] == []


@pytest.mark.parametrize(
    ("queue", "claims", "told"),
    [
        (
            {},
            {COOLDOWN_TIME: "soon"},
            f"{COOLDOWN_TIME}: invalid duration soon: expected a duration such as 10m; ignored",
        ),
        (
            {},
            {COOLDOWN_TIME: "-5m"},
            f"{COOLDOWN_TIME}: invalid duration -5m: expected a duration such as 10m; ignored",
        ),
        (
            {},
            {EXPECTED_DURATION: "1x"},
            f"{EXPECTED_DURATION}: invalid duration 1x: expected a duration such as 90s, 1h30m or "
            "2d: it does not count",
        ),
        (
            {},
            {RESTART_COST: "dear"},
            f"{RESTART_COST}: invalid duration dear: expected a duration such as 90s, 1h30m or 2d: "
            "the setting restart-cost counts",
        ),
        (
            {},
            {MOVABLE: "maybe"},
            f'{MOVABLE}: maybe is neither "true" nor "false": the job is never moved',
        ),
        (
            {LONGEST_COOLDOWN: "10m"},
            {COOLDOWN_TIME: "876000h"},
            f"{COOLDOWN_TIME}: 876000h counts as 10m, the longest that queue default allows "
            f"({LONGEST_COOLDOWN})",
        ),
        (
            {},
            {CHECKPOINT_TIME: "2026-01-01T00:00:00Z"},
            f"{CHECKPOINT_TIME}: 2026-01-01T00:00:00Z is ignored: queue default has no "
            f"{BELIEVE_CHECKPOINTS}: true",
        ),
        (
            {BELIEVE_CHECKPOINTS: "true"},
            {CHECKPOINT_TIME: "3026-01-01T00:00:00Z"},
            f"{CHECKPOINT_TIME}: 3026-01-01T00:00:00Z is in the future and is ignored",
        ),
        (
            {BELIEVE_CHECKPOINTS: "true"},
            {CHECKPOINT_TIME: "x" * 100},
            f"{CHECKPOINT_TIME}: {'x' * 40}...: invalid time: expected a time such as "
            "2025-01-31T08:00:00Z; ignored",
        ),
    ],
)
def test_a_claim_that_does_not_count_is_named(
    queue: dict[str, str], claims: dict[str, str], told: str
) -> None:
    rig = rig_of(1)
    rig.tell(Queue("default", annotations=queue))
    fill(rig, ("v", 0), annotations=claims)
    assert notes(rig, "v") == (told,)
