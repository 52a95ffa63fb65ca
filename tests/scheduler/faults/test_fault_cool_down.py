"""F3: hardware that broke a job and healed is not used by this job for a while, unless nothing else fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ringwise.durations import SECOND
from ringwise.framework.job import WHOLE_NODE, BrokenChip, CoolDown
from ringwise.messages import events as ev
from ringwise.messages.expected_start import ExpectedStart, StartKind
from ringwise.messages.move_plan import MovePlan
from ringwise.reasons import Reason
from ringwise.scheduler.cache.record_tables import RecordTables
from ringwise.scheduler.defragment import search
from ringwise.scheduler.defragment.search import find_plan
from ringwise.scheduler.explain.forecast import estimates
from ringwise.scheduler.explain.why import find_job
from ringwise.scheduler.faults.cool_downs import CoolDowns
from ringwise.state.model import Owner
from tests.builders.records import restored
from tests.scheduler.faults.test_restarts import (
    VCJOB,
    break_chip,
    racks,
    superpods,
    switches,
)
from tests.scheduler.rig import Rig, gangs_may_end

LABELS = {"fault-scheduling": "force", "pod-rescheduling": "on"}


def broken_and_healed(rig: Rig) -> str:
    """A chip under the only pod breaks; it is healthy again when the pod is recreated. The node's name."""
    rig.submit("train", chips=8, labels=LABELS)
    rig.run()
    (node,) = rig.nodes_of("train")
    rig.sick(node, 1)
    rig.step()
    assert rig.pods["train-0"].deleting
    rig.sick(node, 0)
    rig.tell(ev.PodGone(rig.pods["train-0"].uid))
    return node


@pytest.mark.parametrize("seconds", [0, 599])
def test_F3_the_job_avoids_the_healed_node_until_the_time_is_over(seconds: int) -> None:
    rig = Rig(2)
    node = broken_and_healed(rig)
    rig.step(seconds)
    rig.replacement("train-0")
    rig.run()
    assert rig.nodes_of("train") != [node]
    assert len(rig.nodes_of("train")) == 1


def test_F3_after_the_time_the_usual_order_counts_again() -> None:
    rig = Rig(2)
    node = broken_and_healed(rig)
    rig.step(601)
    rig.replacement("train-0")
    rig.run()
    assert rig.nodes_of("train") == [node]


def test_F3_the_node_is_used_again_where_nothing_else_fits() -> None:
    rig = Rig(1)
    node = broken_and_healed(rig)
    rig.replacement("train-0")
    rig.run()
    assert rig.nodes_of("train") == [node]


def test_F3_other_jobs_use_the_healed_node() -> None:
    rig = Rig(2)
    node = broken_and_healed(rig)
    rig.submit("other", chips=8)
    rig.run()
    assert rig.nodes_of("other") == [node]


def test_F3_a_failed_pod_alone_makes_no_node_suspect() -> None:
    rig = Rig(1)
    rig.submit("train", chips=8, labels={**LABELS, "fault-retry-times": "3"})
    rig.run()
    rig.change("train-0", phase="Failed", exit_code=1)
    rig.step()
    assert not rig.machine._book.jobs["default/train"].cooling


# -- per chip ----------------------------------------------------------------------------------------


def test_F3_only_the_broken_chip_is_avoided_not_its_node() -> None:
    """One node with eight chips: the job asks for two, one of its chips breaks and heals."""
    rig = Rig(1)
    rig.submit("train", chips=2, labels=LABELS)
    rig.run()
    ((_, chips),) = rig.places("train").values()
    rig.sick("n1", 1 << chips[0])
    rig.step()
    rig.sick("n1", 0)
    rig.recreate("train-0")
    rig.run()
    ((node, after),) = rig.places("train").values()
    assert node == "n1"
    assert chips[0] not in after
    # Others get it.
    for number in range(3):
        rig.submit(f"other{number}", chips=2)
    rig.run()
    assert any(chips[0] in rig.places(f"other{number}")[f"other{number}-0"][1] for number in range(3))


def test_F3_the_chip_is_used_again_where_no_other_is_free() -> None:
    rig = Rig(1)
    rig.submit("train", chips=4, labels=LABELS)
    rig.submit("other", chips=4)
    rig.run()
    _, chips = rig.places("train")["train-0"]
    rig.sick("n1", 1 << chips[0])
    rig.step()
    rig.sick("n1", 0)
    rig.recreate("train-0")
    rig.run()
    assert rig.places("train")["train-0"] == ("n1", chips)


# -- a chip that breaks the same job again ---------------------------------------------------------------


def break_and_heal(rig: Rig, name: str, chip: int) -> None:
    """The chip breaks under the pod, and is healthy again when the pod is recreated."""
    node = rig.node_of(name)
    rig.sick(node, 1 << chip)
    rig.step(1)
    assert rig.pods[name].deleting
    rig.sick(node, 0)
    rig.recreate(name)
    rig.run()


def test_F3_a_chip_that_broke_the_job_twice_comes_after_one_that_did_so_once() -> None:
    rig = Rig(2)
    rig.submit("other", chips=8)
    rig.submit("train", chips=8, labels=LABELS)
    rig.run()
    (own,) = rig.nodes_of("train")
    (taken,) = rig.nodes_of("other")
    break_and_heal(rig, "train-0", 0)
    assert rig.nodes_of("train") == [own]
    rig.gone("other-0")
    rig.run()
    break_and_heal(rig, "train-0", 0)
    assert rig.nodes_of("train") == [taken]
    # The other node broke it once: it is better than the one that did so twice.
    break_and_heal(rig, "train-0", 0)
    assert rig.nodes_of("train") == [taken]
    # Both did so twice now: nothing else fits anywhere.
    break_and_heal(rig, "train-0", 0)
    assert len(rig.nodes_of("train")) == 1


@pytest.mark.parametrize(("times", "returns"), [(1, True), (2, False)])
def test_F3_a_pod_returns_to_a_chip_that_it_had_to_use_unless_that_broke_it_twice(
    times: int, returns: bool
) -> None:
    rig = Rig(1)
    rig.submit("train", chips=8, labels=LABELS)
    rig.run()
    for _ in range(times):
        break_and_heal(rig, "train-0", 0)
        assert rig.nodes_of("train") == ["n1"]
    rig.node("n2")
    rig.run()
    # Its owner deletes it: no fault, and both nodes are free.
    rig.recreate("train-0")
    rig.run()
    assert rig.nodes_of("train") == (["n1"] if returns else ["n2"])


@pytest.mark.parametrize("pods", [1, 2])
def test_F3_a_chip_that_broke_the_job_twice_is_used_at_once_where_nothing_else_fits(pods: int) -> None:
    rig = Rig(pods)
    rig.submit("train", chips=8, pods=pods, labels=LABELS)
    rig.run()
    before = rig.places("train")
    for _ in range(3):
        break_and_heal(rig, f"train-{pods - 1}", 0)
        assert rig.places("train") == before


@pytest.mark.parametrize(("after", "times"), [(599, 2), (601, 1)])
def test_F3_only_faults_within_the_cool_down_are_counted_together(after: int, times: int) -> None:
    cool_downs = CoolDowns(RecordTables())
    chip = BrokenChip("n1", 3)
    cool_downs.add("owner", [chip], 0, 600)
    found = cool_downs.add("owner", [chip], after, after + 600)
    assert found[chip] == CoolDown(after + 600, times)


@pytest.mark.parametrize(
    ("first", "second", "times"),
    [(3, 3, 2), (3, 4, 1), (WHOLE_NODE, 3, 2), (3, WHOLE_NODE, 2), (WHOLE_NODE, WHOLE_NODE, 2)],
)
def test_F3_a_node_stands_for_each_of_its_chips(first: int, second: int, times: int) -> None:
    cool_downs = CoolDowns(RecordTables())
    cool_downs.add("owner", [BrokenChip("n1", first), BrokenChip("n2", second)], 0, 600)
    found = cool_downs.add("owner", [BrokenChip("n1", second)], 5, 605)
    assert found[BrokenChip("n1", second)].times == times


def test_F1_F3_the_next_leader_knows_how_often_a_chip_broke_the_job() -> None:
    tables = RecordTables()
    written = CoolDowns(tables)
    chip, other = BrokenChip("n1", 3), BrokenChip("n2", WHOLE_NODE)
    written.add("default/train", [chip, other], 0, 600)
    written.add("default/train", [chip], 5, 605)
    (table,) = tables.all
    table.refresh()
    ((count, text),) = table.parts(10_000, 0)
    again = RecordTables()
    CoolDowns(again).restore(restored({"cool-downs.json": text}), 10, 700)
    assert count == 1
    assert again.all == [table]


# -- jobs that are placed as a whole -------------------------------------------------------------------


def fail_and_heal(rig: Rig, rank: int) -> tuple[dict[int, str], str]:
    """The whole job restarts because of a chip of this rank, which is healthy when the pods come back."""
    rig.run()
    before = rig.by_rank()
    broken = break_chip(rig, rank)
    rig.sick(broken, 0)
    rig.tell(*(ev.PodGone(pod.uid) for pod in rig.pods.values()))
    rig.step()
    for name in list(rig.pods):
        rig.replacement(name)
    rig.run()
    return before, broken


@pytest.mark.parametrize("make", [switches, superpods, racks])
def test_F3_jobs_placed_as_a_whole_avoid_the_healed_chip_too(make: Callable[[], Rig]) -> None:
    rig = make()
    rig.tell(VCJOB)
    rig.run()
    rank = max(rig.by_rank())
    before, broken = fail_and_heal(rig, rank)
    after = rig.by_rank()
    assert after[rank] not in (None, broken)
    assert {key: after[key] for key in before if key != rank} == {
        key: node for key, node in before.items() if key != rank
    }


@pytest.mark.parametrize("make", [switches, superpods])
def test_F3_they_use_it_again_where_nothing_else_fits(make: Callable[[], Rig]) -> None:
    rig = make()
    rig.tell(VCJOB)
    rig.run()
    for node in set(rig.machine.view.cluster.node_id) - set(rig.by_rank().values()):
        seen = rig.machine.view.cluster.nodes[rig.machine.view.cluster.node_id[node]]
        assert seen is not None
        rig.tell(replace(seen, unschedulable=True))
    before, _ = fail_and_heal(rig, max(rig.by_rank()))
    rig.step(11)
    rig.run()
    assert rig.by_rank() == before


def on_all_nodes() -> Rig:
    """A job on all nodes of two switches."""
    rig = Rig(nslb_version="2.0", reschedule_job_after=600, tiers=gangs_may_end())
    rig.priority("high", 10)
    rig.switches(2, 2)
    labels = {**LABELS, "tor-affinity": "large-model-schema"}
    rig.submit("train", pods=4, chips=8, priority="high", labels=labels)
    rig.run()
    return rig


def test_F2_F3_a_switch_job_uses_a_chip_that_broke_it_twice_when_all_of_it_may_move() -> None:
    rig = on_all_nodes()
    before = rig.places("train")
    break_and_heal(rig, "train-3", 0)
    assert rig.places("train") == before
    break_and_heal(rig, "train-3", 0)
    assert "train-3" not in rig.places("train")
    assert rig.reason("train") == "replacement-over-limit"
    rig.step(600)
    rig.finish()
    rig.run()
    assert rig.places("train") == before


@pytest.mark.parametrize(("times", "evicted"), [(1, ["other-0"]), (2, [])])
def test_F3_no_pod_is_evicted_for_a_chip_that_the_job_would_not_get(times: int, evicted: list[str]) -> None:
    rig = on_all_nodes()
    node = rig.node_of("train-3")
    for _ in range(times - 1):
        break_and_heal(rig, "train-3", 0)
    rig.sick(node, 1)
    rig.step(1)
    rig.sick(node, 0)
    rig.tell(ev.PodGone(rig.pods["train-3"].uid))
    rig.submit("other", chips=8, preemptable=True)
    # What the job lost is kept for it for some time.
    for _ in range(5):
        rig.step(31)
    assert rig.nodes_of("other") == [node]
    rig.replacement("train-3")
    rig.run()
    assert rig.evictions() == evicted


def test_F3_no_answer_and_no_reservation_counts_on_a_chip_that_the_job_would_not_get() -> None:
    rig = Rig(nslb_version="2.0", reschedule_job_after=6000, reservation_after=100)
    rig.switches(2, 2)
    labels = {**LABELS, "tor-affinity": "large-model-schema"}
    rig.submit("train", pods=4, chips=8, labels=labels)
    rig.run()
    before = rig.places("train")
    for _ in range(2):
        break_and_heal(rig, "train-3", 0)
    rig.step(101)
    view = rig.machine.view
    assert not list(view.reservations)
    refused = view.what_if.verdict(find_job(view, "train"), rig.now)
    assert refused is not None
    assert refused.code == rig.reason("train") == "replacement-over-limit"
    no_plan = find_plan(view, find_job(view, "train"), rig.now)
    assert isinstance(no_plan, Reason)
    assert no_plan.code == "no-moves-help"
    # The cooldown lasts 600 seconds.
    end = rig.now + (600 - 101) * SECOND
    start = estimates(view, rig.now)["default/train"]
    assert start == ExpectedStart(StartKind.KNOWN, end, end, ("cooldown of default/train",))
    rig.step(600 - 101)
    rig.run()
    assert rig.places("train") == before


@pytest.mark.parametrize("exact_units", [0, search.EXACT_UNITS])
def test_F3_moves_make_room_beside_a_chip_that_the_job_would_not_get(
    monkeypatch: pytest.MonkeyPatch, exact_units: int
) -> None:
    monkeypatch.setattr(search, "EXACT_UNITS", exact_units)
    rig = Rig(nslb_version="2.0", reschedule_job_after=6000)
    rig.switches(2, 3)
    rig.submit("train", pods=4, chips=8, labels={**LABELS, "tor-affinity": "large-model-schema"})
    rig.run()
    service = Owner("ReplicaSet", "service", "uid-of-service", "apps/v1")
    for number in range(4):
        rig.submit(f"half-{number}", chips=4, owner=service)
        rig.run()
    rig.end("half-0")
    rig.end("half-2")
    broken = rig.node_of("train-3")
    for _ in range(2):
        break_and_heal(rig, "train-3", 0)
    plan = find_plan(rig.machine.view, find_job(rig.machine.view, "train"), rig.now)
    assert isinstance(plan, MovePlan)
    assert [room.node for room in plan.room] != [broken]


# -- restarts ------------------------------------------------------------------------------------------


def test_F1_F3_the_next_leader_avoids_the_chip_too() -> None:
    rig = Rig(2)
    rig.submit("train", chips=8, labels=LABELS)
    rig.run()
    (node,) = rig.nodes_of("train")
    rig.sick(node, 1)
    rig.step()
    rig.sick(node, 0)
    rig.step()
    new = rig.successor()
    new.recreate("train-0")
    new.run()
    assert len(new.nodes_of("train")) == 1
    assert new.nodes_of("train") != [node]
