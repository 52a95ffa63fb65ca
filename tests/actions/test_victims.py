"""Who is evicted: the lowest priority, then who was not evicted lately, then who loses least work.

A job says when it wrote its last checkpoint, and how long it is to be spared. A lie costs its owner only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.durations import time_text
from ringwise.framework import budget
from ringwise.framework.configuration import PluginOption, Tier
from ringwise.framework.reasons import TOO_COSTLY
from ringwise.framework.statement import Eviction, Statement
from ringwise.messages import events as ev
from ringwise.messages.commands import AnnotatePod, Evict, EvictionCause, RecordJobEvent
from ringwise.state.model import Queue
from ringwise.wellknown import (
    BELIEVE_CHECKPOINTS,
    CHECKPOINT_TIME,
    COOLDOWN_TIME,
    EVICTED,
    LONGEST_COOLDOWN,
)
from tests.builders.records import record_with
from tests.builders.values import SECOND
from tests.examples import examples
from tests.scheduler.rig import Rig, gangs_may_end

HOUR = 3600
START = 1_800_000_000


def rig_of(nodes: int, *, cdp: bool = True, **settings: Any) -> Rig:
    tiers = gangs_may_end()
    if cdp:
        # The last tier: it protects there, too.
        tiers = (*tiers[:-1], Tier((*tiers[-1].plugins, PluginOption.of("cdp"))))
    rig = Rig(nodes, actions=("enqueue", "allocate", "preempt", "reclaim"), tiers=tiers, **settings)
    rig.now = START * SECOND
    for name, value in (("low", 10), ("middle", 50), ("high", 100)):
        rig.priority(name, value)
    return rig


def fill(rig: Rig, *jobs: tuple[str, int], **more: Any) -> None:
    """One job of a whole node after the other: its name, and how many seconds pass before the next."""
    for name, seconds in jobs:
        rig.submit(name, chips=8, preemptable=True, **{"priority": "low", **more})
        rig.run()
        rig.step(seconds)


def queue(rig: Rig, **annotations: str) -> None:
    names = {"longest": LONGEST_COOLDOWN, "believe": BELIEVE_CHECKPOINTS}
    rig.tell(Queue("default", annotations={names[key]: one for key, one in annotations.items()}))


# -- lost work ---------------------------------------------------------------------------------------


def test_among_equal_priority_the_job_that_loses_least_work_is_evicted() -> None:
    rig = rig_of(3)
    fill(rig, ("old", 300), ("middling", 300), ("young", 60))
    rig.submit("boss", chips=8, priority="high")
    rig.step()
    assert rig.evictions() == ["young-0"]


def test_not_the_job_that_came_last_but_the_one_that_loses_least() -> None:
    rig = rig_of(2)
    fill(rig, ("first", 10), ("second", 10))
    rig.change("second-0", bound=rig.now - HOUR * SECOND)
    rig.step()
    rig.submit("boss", chips=8, priority="high")
    rig.step()
    assert rig.evictions() == ["first-0"]


def test_a_young_gang_goes_before_an_old_job_although_it_has_more_pods() -> None:
    rig = rig_of(3)
    fill(rig, ("single", HOUR))
    rig.submit("gang", pods=2, chips=8, priority="low", preemptable=True)
    rig.run()
    rig.step(60)
    rig.submit("boss", chips=8, priority="high")
    rig.step()
    assert sorted(rig.evictions()) == ["gang-0", "gang-1"]


def test_priority_comes_before_lost_work() -> None:
    rig = rig_of(2)
    fill(rig, ("old", 3000))
    fill(rig, ("young", 10), priority="middle")
    rig.submit("boss", chips=8, priority="high")
    rig.step()
    assert rig.evictions() == ["old-0"]


@pytest.mark.parametrize(
    ("believed", "claim", "evicted"),
    [
        (True, START + 550, "old-0"),
        (False, START + 550, "young-0"),
        (True, START - 50, "young-0"),
        (True, START + 10_000, "young-0"),
    ],
    ids=["believed", "the queue does not believe", "before its start", "still to come"],
)
def test_the_claim_of_a_checkpoint_makes_a_job_a_cheaper_victim_where_its_queue_believes(
    believed: bool, claim: int, evicted: str
) -> None:
    rig = rig_of(2)
    queue(rig, believe="true" if believed else "no")
    fill(rig, ("old", 400), annotations={CHECKPOINT_TIME: time_text(claim * SECOND)})
    fill(rig, ("young", 200))
    rig.submit("boss", chips=8, priority="high")
    rig.step()
    assert rig.evictions() == [evicted]


@pytest.mark.parametrize(
    "claim", ["", "-5", "soon", "9" * 400, "2026-13-41T99:00:00Z", "0001-01-01T00:00:00Z"]
)
def test_a_claim_that_is_no_time_counts_for_nothing(claim: str) -> None:
    rig = rig_of(2)
    queue(rig, believe="true")
    fill(rig, ("old", 400), annotations={CHECKPOINT_TIME: claim, COOLDOWN_TIME: claim})
    fill(rig, ("young", 200))
    rig.submit("boss", chips=8, priority="high")
    rig.step()
    assert rig.evictions() == ["young-0"]


def test_a_gang_loses_the_work_of_all_its_pods() -> None:
    """It would be cheaper than the other job if only the pod on that node counted."""
    rig = rig_of(3)
    rig.submit("single", chips=8, priority="low", preemptable=True)
    rig.run()
    rig.step(100)
    rig.submit("gang", pods=2, chips=8, priority="low", preemptable=True)
    rig.run()
    rig.step(150)
    # 250 seconds of 8 chips, and 150 seconds of 16.
    rig.submit("boss", chips=8, priority="high")
    rig.step()
    assert rig.evictions() == ["single-0"]


def test_a_pod_that_a_job_can_spare_goes_before_a_whole_job() -> None:
    rig = rig_of(4)
    rig.submit("elastic", pods=3, chips=8, min_available=2, priority="low", preemptable=True)
    rig.run()
    rig.step(100)
    fill(rig, ("single", 10))
    rig.submit("boss", chips=8, priority="high")
    rig.step()
    assert rig.evictions() == ["elastic-2"]


AGES = st.lists(st.tuples(st.sampled_from(["low", "middle"]), st.integers(0, 400)), min_size=2, max_size=6)


@settings(deadline=None, max_examples=examples(60))
@given(AGES, st.integers(1, 3))
def test_the_order_is_that_of_a_brute_force_search(jobs: list[tuple[str, int]], wanted: int) -> None:
    rig = rig_of(len(jobs))
    ages: dict[str, int] = {}
    for number, (priority, seconds) in enumerate(jobs):
        fill(rig, (f"v{number}", 0), priority=priority)
        ages[f"v{number}-0"] = seconds
        # As its status says; it is not the order in which they came.
        rig.change(f"v{number}-0", bound=rig.now - seconds * SECOND)
    rig.step()
    rig.submit("boss", pods=min(wanted, len(jobs)), chips=8, priority="high")
    rig.step()
    rank = {"low": 10, "middle": 50}
    # Equal in both: who is served last.
    best = sorted(
        ages,
        key=lambda pod: (rank[jobs[int(pod[1:-2])][0]], ages[pod], -int(pod[1:-2])),
    )
    assert sorted(rig.evictions()) == sorted(best[: min(wanted, len(jobs))])


# -- not the same job again and again --------------------------------------------------------------------


def evicted_again(rig: Rig) -> None:
    """`a` is evicted, comes back, and is the youngest of all; then another job needs a node."""
    fill(rig, ("b", 100), ("a", 10))
    rig.submit("boss", chips=8, priority="high")
    rig.run()
    assert rig.evictions() == ["a-0"]
    rig.replacement("a-0")
    rig.tell(ev.PodGone(next(one.uid for one in rig.commands if isinstance(one, Evict))))
    rig.run()
    rig.node("n3")
    rig.run()
    assert rig.nodes_of("a") == ["n3"]
    rig.step(20)
    rig.commands.clear()


def test_a_job_that_was_preempted_lately_is_the_last_of_its_priority() -> None:
    rig = rig_of(2)
    evicted_again(rig)
    rig.submit("second", chips=8, priority="high")
    rig.step()
    assert rig.evictions() == ["b-0"]


@pytest.mark.parametrize("after", [0, 10])
def test_for_as_long_as_the_setting_says(after: int) -> None:
    rig = rig_of(2, preempt_again_after=after)
    evicted_again(rig)
    rig.submit("second", chips=8, priority="high")
    rig.step()
    assert rig.evictions() == ["a-0"]


def test_it_is_evicted_again_where_nothing_else_of_its_priority_would_do() -> None:
    rig = rig_of(2)
    evicted_again(rig)
    for name in ("second", "third"):
        rig.submit(name, chips=8, priority="high")
        rig.step()
    assert rig.evictions() == ["b-0", "a-0"]


def test_the_next_leader_knows_who_was_preempted() -> None:
    first = rig_of(2)
    fill(first, ("b", 100), ("a", 10))
    first.submit("boss", chips=8, priority="high")
    first.run()
    second = rig_of(2)
    second.now = first.now
    second.tell(ev.LeaderRecordRead(first.record))
    fill(second, ("b", 100), ("a", 10))
    known = second.machine.view.history.preemptions["default/a"]
    assert (known.by, known.cause, known.pods, known.chips, known.lost) == (
        "default/boss",
        "preempt",
        1,
        8,
        80,
    )
    second.submit("boss", chips=8, priority="high")
    second.step()
    assert second.evictions() == ["b-0"]


@pytest.mark.parametrize("entries", [7, [7], {"default/a": 7, "default/b": {}, "default/c": None}])
def test_a_record_that_cannot_be_read_is_as_if_it_were_not_there(entries: object) -> None:
    rig = rig_of(1)
    rig.tell(record_with("preemptions", entries))
    rig.step()
    assert rig.machine.view.history.preemptions == {}


def test_a_time_of_the_record_that_is_still_to_come_counts_from_now() -> None:
    rig = rig_of(2)
    entry = {"at": 9 * 10**18, "cause": "preempt", "by": "x/y", "pods": 1, "chips": 8, "lost": 1}
    rig.tell(record_with("preemptions", {"default/a": entry}))
    rig.step()
    assert rig.machine.view.history.preemptions["default/a"].at == rig.now


# -- warnings ------------------------------------------------------------------------------------------------


def test_a_victim_is_warned_before_it_is_evicted_and_the_command_says_for_whom() -> None:
    rig = rig_of(1)
    fill(rig, ("v", 1800))
    rig.submit("boss", chips=8, priority="high")
    commands = rig.step()
    [evict] = [one for one in commands if isinstance(one, Evict)]
    assert (evict.cause, evict.by) == (EvictionCause.PREEMPT, "default/boss")
    [warning] = [one for one in commands if isinstance(one, AnnotatePod)]
    assert warning.annotations == {EVICTED: f"{time_text(rig.now)} preempt for default/boss"}
    [told] = [one for one in commands if isinstance(one, RecordJobEvent) and one.key == "default/v"]
    assert told.message == "1 pod is preempted for default/boss: 8 chips, 4 chip-hours are lost"
    assert commands.index(warning) < commands.index(evict)
    assert commands.index(told) < commands.index(evict)


def test_a_pod_that_was_warned_counts_as_terminating() -> None:
    """The report of the annotation arrives before that of the deletion."""
    rig = rig_of(1)
    rig.deaf = True
    fill(rig, ("v", 1))
    rig.change("v-0", node="n1", phase="Running", holds=tuple(range(8)))
    rig.step()
    rig.submit("boss", chips=8, priority="high")
    rig.step()
    rig.change("v-0", annotations={EVICTED: "now"})
    rig.submit("second", chips=8, priority="high")
    rig.step()
    assert rig.machine.view.jobs["default/v"].pods[rig.pods["v-0"].uid].deleting
    rig.tell(ev.EvictFailed(rig.pods["v-0"].uid))
    commands = rig.step()
    # The warning is taken back, and nothing was lost.
    assert [one.remove for one in commands if isinstance(one, AnnotatePod)][:1] == [(EVICTED,)]


def test_an_eviction_that_failed_is_not_remembered() -> None:
    rig = rig_of(1)
    rig.deaf = True
    fill(rig, ("v", 1))
    rig.change("v-0", node="n1", phase="Running", holds=tuple(range(8)))
    rig.step()
    rig.submit("boss", chips=8, priority="high")
    rig.step()
    assert "default/v" in rig.machine.view.history.preemptions
    rig.pods["boss-0"] = replace(rig.pods["boss-0"], gated=True)
    rig.put(rig.pods["boss-0"])
    rig.tell(ev.EvictFailed(rig.pods["v-0"].uid))
    rig.step()
    assert rig.machine.view.history.preemptions == {}
    assert rig.machine.view.jobs["default/v"].preempted is None


def test_a_job_stays_preempted_lately_although_another_eviction_of_it_failed() -> None:
    rig = rig_of(2)
    evicted_again(rig)
    before = rig.machine.view.history.preemptions["default/a"]
    rig.deaf = True
    for name in ("second", "third"):
        rig.submit(name, chips=8, priority="high")
        rig.step()
    assert rig.evictions() == ["b-0", "a-0"]
    assert rig.machine.view.history.preemptions["default/a"].by == "default/third"
    rig.tell(ev.EvictFailed(rig.pods["a-0"].uid))
    rig.step()
    assert rig.machine.view.history.preemptions["default/a"] == before
    assert rig.machine.view.jobs["default/a"].preempted == before.at


@pytest.mark.parametrize("first_is_gone", [True, False])
def test_each_of_two_evictions_of_a_job_that_are_under_way_counts_by_how_it_ends(first_is_gone: bool) -> None:
    rig = rig_of(2)
    rig.deaf = True
    rig.submit("v", pods=2, min_available=1, chips=8, priority="low", preemptable=True)
    rig.run()
    entries = []
    for name in ("first", "second"):
        rig.step(10)
        rig.submit(name, chips=8, priority="high")
        rig.step()
        entries.append(rig.machine.view.history.preemptions["default/v"])
    earlier, later = rig.evictions()
    assert (entries[0].by, entries[1].by) == ("default/first", "default/second")
    uid = rig.pods[earlier].uid
    rig.tell(ev.PodGone(uid) if first_is_gone else ev.EvictFailed(uid))
    rig.tell(ev.EvictFailed(rig.pods[later].uid))
    rig.run()
    view = rig.machine.view
    assert view.history.preemptions == ({"default/v": entries[0]} if first_is_gone else {})
    assert view.jobs["default/v"].preempted == (entries[0].at if first_is_gone else None)


# -- what a search costs -------------------------------------------------------------------------------


@pytest.mark.parametrize("pods", [1, 3])
def test_how_many_evictions_are_tried_depends_on_the_job_and_not_on_the_size_of_the_cluster(
    pods: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    evict = Statement.evict

    def counting(statement: Statement, eviction: Eviction) -> None:
        tried.append(eviction.pod.name)
        evict(statement, eviction)

    monkeypatch.setattr(Statement, "evict", counting)
    counts = []
    for nodes in (10, 40):
        rig = rig_of(nodes)
        fill(rig, *((f"job{number}", 0) for number in range(nodes)))
        tried.clear()
        rig.submit("boss", pods=pods, chips=8, priority="high")
        rig.step(60)
        assert len(rig.evictions()) == pods
        counts.append(len(tried))
    assert counts[0] == counts[1]


def test_a_search_for_victims_takes_steps_and_one_that_takes_too_many_is_set_aside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def with_boss(pods: int) -> Rig:
        rig = rig_of(20)
        fill(rig, *((f"job{number}", 0) for number in range(20)))
        rig.submit("boss", pods=pods, chips=8, priority="high")
        rig.step(60)
        return rig

    monkeypatch.setattr(budget, "JOB_STEPS", 100)
    monkeypatch.setattr(budget, "POD_STEPS", 0)
    assert len(with_boss(1).evictions()) == 1
    rig = with_boss(16)
    assert rig.evictions() == []
    assert rig.reason("boss") == TOO_COSTLY.code
