"""M1: plans of moves are carried out, or end and give the old places back."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from ringwise.messages import events as ev
from ringwise.messages.commands import Command, DeletePod, RecordJobEvent
from ringwise.messages.expected_start import ExpectedStart, StartKind
from ringwise.messages.move_plan import (
    APPROVED,
    DONE,
    FAILED,
    REFUSED,
    MovePlan,
    PlannedMove,
    PlannedPod,
)
from ringwise.reasons import Reason
from ringwise.scheduler.defragment.live_plan import EndedPlan, MovedJob
from ringwise.scheduler.defragment.moves import LIMIT, Moves
from ringwise.scheduler.defragment.search import find_plan
from ringwise.scheduler.explain.forecast import estimates
from ringwise.scheduler.explain.why import explain, find_job
from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.state.model import Isolation, Owner, Pod
from ringwise.state.reservations import Reservation
from ringwise.topology.chips import mask_of
from tests.builders import values
from tests.builders.records import restored, with_entries
from tests.builders.values import CHIP, SECOND, isolated, pod_class
from tests.fingerprint import fingerprint, state_of
from tests.scheduler.faults.test_rack_rescheduling import POLICY, rack_rig
from tests.scheduler.rig import Rig, gangs_may_end


def submit(rig: Rig, name: str, **more: Any) -> None:
    """A job whose pods their owner creates again."""
    rig.submit(name, owner=Owner("Sample", name, f"owner-of-{name}"), **more)


def planned(pod: Pod, node: str | None = None, chips: tuple[int, ...] = ()) -> PlannedPod:
    """Where the pod is, or where it is to go."""
    if node is None:
        return PlannedPod(pod.uid, pod.key, pod.node or "", pod.holds)
    return PlannedPod(pod.uid, pod.key, node, chips)


def move(rig: Rig, *to: tuple[str, str, tuple[int, ...]], job: str = "") -> PlannedMove:
    pods = [rig.pods[name] for name, _, _ in to]
    return PlannedMove(
        job or f"default/{pods[0].group}",
        tuple(planned(rig.pods[name], node, chips) for name, node, chips in to),
        tuple(map(planned, pods)),
        sum(len(chips) for _, _, chips in to) * 600 * SECOND,
    )


def plan_for(
    rig: Rig, job: str, room: dict[str, tuple[str, tuple[int, ...]]], *moves: PlannedMove
) -> MovePlan:
    rooms = tuple(planned(rig.pods[name], node, chips) for name, (node, chips) in room.items())
    cost = sum(one.cost for one in moves)
    return MovePlan(
        "plan-1", f"default/{job}", rooms, moves, cost, 5 * SECOND, approval=APPROVED, created=rig.now
    )


ALL = tuple(range(8))


def fragmented(small: Pod | None = None, queue: str = "default", **settings: Any) -> tuple[Rig, MovePlan]:
    """One chip of n1 is used by small, half of n2 by filler; big asks for a whole node. Small moves to n2."""
    rig = Rig(2, **settings)
    rig.queue("small", capability={CHIP: 1})
    if small is None:
        submit(rig, "small", chips=1, queue=queue)
    else:
        rig.put(small)
    rig.run()
    submit(rig, "other", chips=4)
    rig.run()
    submit(rig, "filler", chips=4)
    rig.run()
    name = "small-0" if small is None else small.name
    assert (rig.pods[name].node, rig.nodes_of("other"), rig.nodes_of("filler")) == ("n1", ["n1"], ["n2"])
    rig.end("other")
    submit(rig, "big", chips=8)
    rig.run()
    assert rig.places("big") == {}
    # N5 would choose another chip.
    free = tuple(sorted(set(ALL) - set(rig.pods["filler-0"].holds)))
    job = "default/small" if small is None else f"default/pod:{name}"
    room = {"big-0": ("n1", ALL)}
    return rig, plan_for(rig, "big", room, move(rig, (name, "n2", free[2:3]), job=job))


def apply(rig: Rig, plan: MovePlan) -> list[Command]:
    rig.tell(replace(plan, approval=APPROVED))
    return rig.step()


def moves_of(rig: Rig) -> Moves:
    return rig.machine._components.of(Moves)


def ended(rig: Rig) -> EndedPlan:
    return moves_of(rig).ended["plan-1"]


@pytest.mark.parametrize("discipline", ["best-effort", "strict"])
def test_M1_a_moved_pod_gets_its_target_and_the_waiting_job_its_room(discipline: str) -> None:
    rig, plan = fragmented(queue_discipline=discipline)
    commands = apply(rig, plan)
    (eviction,) = [one for one in commands if isinstance(one, DeletePod)]
    assert eviction.pod == "small-0"
    # Through the eviction API, after the record of F1 is written.
    assert eviction.together == "default/small"
    assert eviction.fault
    rig.run()
    rig.finish()
    rig.run()
    assert rig.places("small")["small-0"] == ("n2", plan.moves[0].pods[0].chips)
    assert rig.nodes_of("big") == ["n1"]
    rig.run()
    assert ended(rig).outcome == DONE
    assert moves_of(rig).plans == {}
    assert list(rig.machine.view.reservations) == []
    assert rig.machine.view.jobs["default/small"].places == ()
    told = {(one.key, one.reason) for one in rig.commands if isinstance(one, RecordJobEvent)}
    assert {("default/small", "Moving"), ("default/small", "Moved"), ("default/big", "Moved")} <= told


def test_M1_what_was_kept_for_the_waiting_job_is_no_obstacle_to_its_plan() -> None:
    rig, plan = fragmented(reservation_after=600)
    rig.step(600)
    # The plan gives it room elsewhere, and chips that are kept for it to the pod that moves.
    (target,) = plan.moves[0].pods
    kept = rig.machine.view.reservations.of("default/big")
    assert kept is not None
    node = rig.machine.view.cluster.node_id[target.node]
    chips = {node: 0xFF}
    rig.machine._context.reservations.make(
        replace(kept, chips=chips, loads={node: next(iter(kept.loads.values()))})
    )
    apply(rig, plan)
    # Nobody else that waits long gets them meanwhile.
    moved = rig.machine.view.reservations.of("default/small")
    assert moved is not None
    assert moved.chips == {node: mask_of(target.chips)}
    rig.finish()
    rig.run()
    assert rig.places("small")["small-0"] == (target.node, target.chips)
    assert rig.nodes_of("big") == ["n1"]


def test_M1_a_job_for_which_others_are_evicted_gets_no_room_a_second_time() -> None:
    """Nor is a job evicted that is being moved: its place is kept for somebody already."""
    settings: dict[str, Any] = {"actions": ("enqueue", "allocate", "preempt"), "tiers": gangs_may_end()}
    rig, plan = fragmented(**settings)
    rig.priority("high", 100)
    rig.change("filler-0", preemptable=True)
    rig.end("big")
    submit(rig, "big", chips=8, priority="high")
    rig.run()
    assert rig.evictions() == ["filler-0"]
    plan = replace(plan, room=(planned(rig.pods["big-0"], "n1", ALL),))
    view = rig.machine.view
    found = find_plan(view, find_job(view, "big"), rig.now)
    assert isinstance(found, Reason)
    assert found.code == "evictions-in-progress"
    commands = apply(rig, plan)
    assert [one for one in commands if isinstance(one, DeletePod)] == []
    assert ended(rig).why == "pods are evicted already so that default/big can start"
    # The other way round: first the move, then a job that could evict who moves.
    rig, plan = fragmented(**settings)
    rig.priority("high", 100)
    rig.change("small-0", preemptable=True)
    rig.deaf = True
    apply(rig, plan)
    submit(rig, "urgent", chips=4, priority="high")
    rig.step()
    assert rig.evictions() == []


def test_M1_a_job_for_which_others_move_evicts_none_that_it_may_evict_again() -> None:
    """A disruption budget refused it before the plan was approved."""
    rig, plan = fragmented(actions=("enqueue", "allocate", "preempt"), tiers=gangs_may_end())
    rig.priority("high", 100)
    rig.end("big")
    rig.node("n3")
    submit(rig, "third", chips=8, preemptable=True)
    rig.run()
    assert rig.nodes_of("third") == ["n3"]
    rig.deaf = True
    submit(rig, "big", chips=8, priority="high")
    rig.step()
    assert rig.evictions() == ["third-0"]
    rig.tell(ev.EvictFailed(rig.pods["third-0"].uid, "a budget forbids it"))
    rig.step()
    apply(rig, replace(plan, room=(planned(rig.pods["big-0"], "n1", ALL),)))
    assert moves_of(rig).plans
    rig.step(60)
    assert rig.evictions() == ["third-0"]
    # Without the plan it is evicted.
    rig.tell(ev.MovePlanGone("plan-1"))
    rig.step()
    rig.step(600)
    assert rig.evictions() == ["third-0", "third-0"]


def test_M1_a_job_that_is_moved_itself_gets_no_plan() -> None:
    rig, plan = fragmented()
    apply(rig, plan)
    rig.run()
    # Its place is lost to somebody, and it would find another.
    view, reservations = rig.machine.view, rig.machine._context.reservations
    (target,) = plan.moves[0].pods
    reservations.lift("default/small")
    chips, end = {view.cluster.node_id[target.node]: 0xFF}, rig.now + 60 * SECOND
    reservations.make(Reservation("default/filler", CHIP, chips, expires=end))
    rig.node("n3")
    rig.finish()
    rig.step()
    job = view.jobs["default/small"]
    assert job.places
    assert rig.reason("small") == "wait-for-planned-places"
    found = find_plan(view, job, rig.now)
    assert isinstance(found, Reason)
    assert found.code == "wait-for-planned-places"


def test_M1_nobody_else_gets_target_or_room_while_the_plan_lives() -> None:
    rig, plan = fragmented()
    apply(rig, plan)
    rig.run()
    # Three chips are left of n2, and none of n1.
    for number in range(4):
        submit(rig, f"later-{number}", chips=1)
    rig.run()
    assert [len(rig.nodes_of(f"later-{number}")) for number in range(4)] == [1, 1, 1, 0]
    taken = {
        chip for number in range(3) for _, chips in rig.places(f"later-{number}").values() for chip in chips
    }
    assert taken.isdisjoint(plan.moves[0].pods[0].chips)
    rig.finish(recreate=False)
    rig.run()
    assert rig.nodes_of("later-3") == []
    assert rig.nodes_of("big") == ["n1"]


def test_M1_a_successor_waits_for_a_target_that_another_pod_of_the_plan_leaves() -> None:
    rig = Rig(3)
    for name, chips in (("a", 4), ("x", 4), ("b", 4), ("y", 4), ("c", 8)):
        submit(rig, name, chips=chips)
        rig.run()
    assert [rig.nodes_of(name) for name in "axby"] == [["n1"], ["n1"], ["n2"], ["n2"]]
    rig.end("x")
    rig.end("c")
    submit(rig, "big", chips=8)
    rig.end("y")
    rig.step()
    # n3 is empty, so big has it; what is left is one that waits for another node.
    assert rig.nodes_of("big") == ["n3"]
    submit(rig, "bigger", chips=8)
    rig.run()
    where = rig.pods["b-0"].holds
    other = tuple(sorted(set(ALL) - set(where)))
    plan = plan_for(
        rig,
        "bigger",
        {"bigger-0": ("n1", ALL)},
        move(rig, ("a-0", "n2", where)),
        move(rig, ("b-0", "n2", other)),
    )
    apply(rig, plan)
    rig.run()
    uid = rig.pods["a-0"].uid
    rig.replacement("a-0")
    rig.tell(ev.PodGone(uid))
    rig.run()
    assert rig.reason("a") == "wait-for-planned-places"
    assert rig.nodes_of("bigger") == ["n1"]
    rig.finish()
    rig.run()
    rig.run()
    assert rig.places("a")["a-0"] == ("n2", where)
    assert rig.places("b")["b-0"] == ("n2", other)
    assert ended(rig).outcome == DONE


def refused_by_budget(rig: Rig) -> None:
    rig.change("small-0", deleting=False)
    rig.tell(ev.EvictFailed(rig.pods["small-0"].uid, "budget default/keep allows 0"))


def target_breaks(rig: Rig) -> None:
    rig.sick("n2", 0b11111111)


def target_is_isolated(rig: Rig) -> None:
    rig.tell(isolated(Isolation("n2")))


def target_is_cordoned(rig: Rig) -> None:
    rig.node("n2", unschedulable=True)


def target_is_gone(rig: Rig) -> None:
    rig.gone("filler-0")
    rig.tell(ev.NodeGone("n2"))


def waiting_job_is_gone(rig: Rig) -> None:
    rig.end("big")


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (target_breaks, "chips of n2 that were planned cannot be used"),
        (target_is_isolated, "chips of n2 that were planned cannot be used"),
        (target_is_cordoned, "n2 takes no pods"),
        (target_is_gone, "n2 takes no pods"),
        (waiting_job_is_gone, "default/big is gone"),
    ],
)
def test_M1_a_step_that_fails_gives_the_old_place_back(happens: Any, why: str) -> None:
    rig, plan = fragmented()
    old = rig.places("small")
    apply(rig, plan)
    rig.run()
    happens(rig)
    rig.run()
    assert (ended(rig).outcome, ended(rig).why) == (FAILED, why)
    rig.finish()
    rig.run()
    assert rig.places("small") == old
    rig.run()
    assert moves_of(rig).plans == {}
    assert list(rig.machine.view.reservations) == []
    told = [one for one in rig.commands if isinstance(one, RecordJobEvent) and one.reason == "FailedMove"]
    assert any(one.key == "default/small" and why in one.message for one in told)


def test_M1_an_eviction_that_a_budget_forbids_ends_the_plan_and_the_pod_stays() -> None:
    rig, plan = fragmented()
    old = rig.places("small")
    rig.deaf = True
    apply(rig, plan)
    rig.tell(ev.EvictFailed(rig.pods["small-0"].uid, "budget default/keep allows 0"))
    rig.step()
    assert ended(rig).outcome == FAILED
    assert "budget default/keep allows 0" in ended(rig).why
    rig.step()
    assert rig.places("small") == old
    assert moves_of(rig).plans == {}
    assert list(rig.machine.view.reservations) == []


def test_M1_an_owner_that_does_not_create_its_pod_again_ends_the_plan_after_120_seconds() -> None:
    rig, plan = fragmented()
    apply(rig, plan)
    rig.run()
    rig.finish(recreate=False)
    rig.run()
    assert rig.nodes_of("big") == ["n1"]
    assert moves_of(rig).deadline() == rig.now + LIMIT
    rig.step(119)
    assert "plan-1" in moves_of(rig).plans
    rig.step(1)
    assert ended(rig).outcome == FAILED
    assert "did not create" in ended(rig).why
    assert moves_of(rig).plans == {}
    assert list(rig.machine.view.reservations) == []


def test_M1_F1_another_leader_waits_no_longer_for_an_owner() -> None:
    rig, plan = fragmented()
    apply(rig, plan)
    rig.finish(recreate=False)
    rig.run()
    gone = rig.now
    for _ in range(2):
        rig.step(50)
        rig.change_leader()
        rig.tell(plan)
        rig.run()
    assert moves_of(rig).plans["plan-1"].last_gone == gone
    rig.step(19)
    assert not moves_of(rig).ended
    rig.step(1)
    assert ended(rig).outcome == FAILED


def test_M1_pods_that_do_not_end_are_not_waited_for_longer_than_grace_over_time_and_the_limit() -> None:
    rig, plan = fragmented(grace_over_time=60)
    apply(rig, plan)
    rig.run()
    rig.step(179)
    assert "plan-1" in moves_of(rig).plans
    rig.step(1)
    assert ended(rig).outcome == FAILED
    assert "still there after 3m" in ended(rig).why
    assert [one for one in rig.machine.view.reservations if one.lasting] == []


def gone_meanwhile(rig: Rig, plan: MovePlan) -> MovePlan:
    rig.end("small")
    return plan


def waits_no_more(rig: Rig, plan: MovePlan) -> MovePlan:
    rig.end("filler")
    rig.run()
    return plan


def target_taken(rig: Rig, plan: MovePlan) -> MovePlan:
    (chip,) = plan.moves[0].pods[0].chips
    taken = rig.pods["filler-0"].holds[:1]
    moved = replace(plan.moves[0].pods[0], chips=taken)
    assert chip not in taken
    return replace(plan, moves=(replace(plan.moves[0], pods=(moved,)),))


def overlapping(rig: Rig, plan: MovePlan) -> MovePlan:
    return replace(plan, moves=(replace(plan.moves[0], pods=plan.moves[0].old),))


def unknown_node(rig: Rig, plan: MovePlan) -> MovePlan:
    moved = replace(plan.moves[0].pods[0], node="n9")
    return replace(plan, moves=(replace(plan.moves[0], pods=(moved,)),))


def no_such_chip(rig: Rig, plan: MovePlan) -> MovePlan:
    moved = replace(plan.moves[0].pods[0], chips=(17,))
    return replace(plan, moves=(replace(plan.moves[0], pods=(moved,)),))


def elsewhere(rig: Rig, plan: MovePlan) -> MovePlan:
    old = replace(plan.moves[0].old[0], node="n2")
    return replace(plan, moves=(replace(plan.moves[0], old=(old,)),))


def must_stay(rig: Rig, plan: MovePlan) -> MovePlan:
    rig.change("small-0", labels={"ringwise.io/movable": "false"})
    return plan


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (must_stay, 'default/small is not moved: ringwise.io/movable is "false"'),
        (gone_meanwhile, "default/small is gone"),
        (waits_no_more, "default/big no longer waits"),
        (target_taken, "taken by default/filler-0"),
        (overlapping, "default/small would move to where it is"),
        (unknown_node, "node n9 not found"),
        (no_such_chip, "cannot be used"),
        (elsewhere, "not where it was"),
    ],
)
def test_M1_a_plan_that_does_not_hold_any_more_moves_nobody(change: Any, why: str) -> None:
    rig, plan = fragmented()
    plan = change(rig, plan)
    commands = apply(rig, plan)
    assert [one for one in commands if isinstance(one, DeletePod)] == []
    assert ended(rig).outcome == REFUSED
    assert why in ended(rig).why
    assert "Reason" not in ended(rig).why
    assert list(rig.machine.view.reservations) == []


def test_M1_a_plan_for_which_the_record_has_no_room_moves_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, plan = fragmented()
    monkeypatch.setattr("ringwise.scheduler.defragment.moves.MAX_PLAN", 100)
    apply(rig, plan)
    assert (ended(rig).outcome, rig.deletions()) == (REFUSED, [])
    assert "too large" in ended(rig).why


def test_M1_a_gang_that_has_grown_since_is_not_torn_apart() -> None:
    rig = Rig(4)
    submit(rig, "gang", pods=2, chips=8)
    rig.run()
    submit(rig, "wide", pods=3, chips=8)
    rig.run()
    assert rig.nodes_of("gang") == ["n1", "n2"]
    apply(rig, plan_for(rig, "wide", {}, move(rig, ("gang-0", "n3", ALL))))
    assert rig.deletions() == []
    assert (ended(rig).outcome, ended(rig).why) == (
        REFUSED,
        "default/gang-1 is of a gang that would move without it",
    )


@pytest.mark.parametrize("largest", [1_000, 4_000, 10_000])
def test_M1_a_plan_that_is_shown_is_not_refused_for_its_size(
    monkeypatch: pytest.MonkeyPatch, largest: int
) -> None:
    for part in ("search", "moves"):
        monkeypatch.setattr(f"ringwise.scheduler.defragment.{part}.MAX_PLAN", largest)
    rig = Rig(41)
    for name, chips in (("small", 1), ("other", 4), ("filler", 4)):
        submit(rig, name, chips=chips)
        rig.run()
    rig.end("other")
    submit(rig, "big", pods=40, chips=8)
    rig.run()
    view = rig.machine.view
    found = find_plan(view, view.jobs["default/big"], rig.now)
    if isinstance(found, Reason):
        assert largest < 10_000
        assert "a plan with 41 pods is too large" in found.message
        return
    apply(rig, replace(found, id="plan-1"))
    assert list(moves_of(rig).plans) == ["plan-1"]


def test_M1_who_asks_for_a_plan_again_is_told_that_jobs_move_already() -> None:
    rig, plan = fragmented()
    apply(rig, plan)
    found = find_plan(rig.machine.view, rig.machine.view.jobs["default/big"], rig.now)
    assert isinstance(found, Reason)
    assert found.message == "1 job is already being moved so that default/big can start"


def test_M1_a_plan_that_is_seen_again_is_carried_out_once() -> None:
    rig, plan = fragmented()
    apply(rig, plan)
    apply(rig, plan)
    rig.run()
    rig.finish()
    rig.run()
    rig.run()
    rig.commands.clear()
    apply(rig, plan)
    rig.run()
    assert rig.deletions() == []
    assert ended(rig).outcome == DONE


def test_M1_F2_F4_F5_a_move_uses_no_retry_and_starts_neither_cool_down_nor_clock() -> None:
    rig = Rig(2)
    labels = {"fault-scheduling": "force", "fault-retry-times": "3", "pod-rescheduling": "on"}
    submit(rig, "small", chips=1, labels=labels)
    rig.run()
    submit(rig, "filler", chips=8)
    rig.run()
    rig.end("filler")
    submit(rig, "wide", pods=2, chips=8)
    rig.run()
    plan = plan_for(rig, "wide", {}, move(rig, ("small-0", "n2", (5,))))
    apply(rig, plan)
    rig.run()
    rig.finish()
    for _ in range(5):
        rig.step(10)
    assert rig.places("small")["small-0"] == ("n2", (5,))
    job = rig.machine.view.jobs["default/small"]
    assert job.clock is None
    assert job.cooling == {}
    assert rig.machine._components.of(FaultHandler).retries.owners == {}
    assert rig.machine._components.of(FaultHandler).jobs.get("default/small") is None


def test_M1_F6_the_share_of_a_moved_job_stays() -> None:
    rig, plan = fragmented(queue="small")
    submit(rig, "next", chips=1, queue="small")
    apply(rig, plan)
    rig.run()
    rig.tell(ev.PodGone(rig.pods["small-0"].uid))
    rig.step()
    assert rig.nodes_of("next") == []
    rig.replacement("small-0")
    rig.run()
    assert rig.places("small")["small-0"] == ("n2", plan.moves[0].pods[0].chips)
    assert rig.nodes_of("next") == []


def test_M1_the_place_of_a_pod_that_comes_later_is_kept_while_others_of_its_job_are_placed() -> None:
    rig = Rig(2, multi_pod_requests="vendor")
    submit(rig, "small", pods=2, chips=1, min_available=1)
    rig.run()
    submit(rig, "other", chips=4)
    rig.run()
    submit(rig, "filler", chips=4)
    rig.run()
    rig.end("other")
    submit(rig, "big", chips=8)
    rig.run()
    assert (rig.nodes_of("small"), rig.nodes_of("filler"), rig.nodes_of("big")) == (["n1"] * 2, ["n2"], [])
    free = sorted(set(ALL) - set(rig.pods["filler-0"].holds))
    first, second = (free[0],), (free[1],)
    to = move(rig, ("small-0", "n2", first), ("small-1", "n2", second))
    apply(rig, plan_for(rig, "big", {"big-0": ("n1", ALL)}, to))
    rig.run()
    for name in ("small-0", "small-1"):
        rig.tell(ev.PodGone(rig.pods[name].uid))
    rig.replacement("small-0")
    waiting = rig.pods.pop("small-1")
    for number in range(4):
        submit(rig, f"later-{number}", chips=1)
    rig.run()
    assert rig.places("small")["small-0"] == ("n2", first)
    taken = [chips for number in range(4) for _, chips in rig.places(f"later-{number}").values()]
    assert len(taken) == 2
    assert second not in taken
    rig.pods["small-1"] = waiting
    rig.replacement("small-1")
    rig.run()
    rig.run()
    assert rig.places("small")["small-1"] == ("n2", second)
    assert ended(rig).outcome == DONE


@pytest.mark.parametrize("early", [True, False])
def test_M1_a_pod_without_a_group_that_its_owner_creates_under_another_name(early: bool) -> None:
    """A ReplicaSet creates the next pod when the old one begins to terminate, others when it is gone."""
    lone = values.pod("web-a", 1, uid="web-a.1", created=1, owner=Owner("ReplicaSet", "web", "rs-1"))
    new = replace(lone, uid="web-b.2", name="web-b", created=99)
    # It is behind big in its queue, and has its place all the same.
    rig, plan = fragmented(lone, queue_discipline="strict")
    apply(rig, plan)
    rig.run()
    assert rig.pods["web-a"].deleting
    if early:
        rig.put(new)
        rig.run()
        assert rig.pods["web-b"].node == "n2"
    rig.gone("web-a")
    rig.run()
    if not early:
        rig.put(new)
        rig.run()
    assert (rig.pods["web-b"].node, rig.pods["web-b"].holds) == ("n2", plan.moves[0].pods[0].chips)
    rig.run()
    assert rig.nodes_of("big") == ["n1"]
    assert ended(rig).outcome == DONE
    assert list(rig.machine.view.reservations) == []
    # F6: once it is complete again, nothing is kept for it any more.
    assert rig.machine.view.usage.reserved.against("default", "") == {}


def test_M1_the_table_of_the_plans_is_read_whatever_is_in_it() -> None:
    rig, plan = fragmented()
    apply(rig, plan)
    entries, other = rig.entries("moves"), Rig(2)

    def read(change: Callable[[Any], object], name: str = "moves") -> None:
        changed = deepcopy(entries)
        change(changed["plan-1"])
        moves_of(other).restore(restored(with_entries(rig.record, name, changed)), 1)

    read(lambda live: live.clear())
    read(lambda live: live["plan"]["moves"][0]["pods"][0].update(chips=["x"]))
    read(lambda live: live["plan"]["moves"][0]["pods"][0].update(uid="another"))
    # Numbers without end, and half a character, which could never be written again.
    read(lambda live: live.update(since=float("inf")))
    read(lambda live: live.update(resource="\ud800"))
    assert moves_of(other).plans == {}
    moved = {"a": {"owner": "a", "at": float("inf"), "chips": 1}, "c": {"owner": "c", "at": 1, "chips": 1}}
    moves_of(other).restore(restored(with_entries({}, "moved-jobs", moved)), 1)
    assert [one.owner for one in moves_of(other).moved.values() if one.owner in "abc"] == ["c"]
    moves_of(other).restore(restored(rig.record), rig.now)
    assert moves_of(other).plans["plan-1"].plan == plan


def test_M1_F1_no_more_plans_are_read_than_are_carried_out_at_a_time() -> None:
    rig, plan = fragmented()
    apply(rig, plan)
    (one,) = rig.entries("moves").values()
    entries = {f"p{number}": one | {"plan": one["plan"] | {"id": f"p{number}"}} for number in range(9)}
    other, _ = fragmented()
    moves_of(other).restore(restored(with_entries({}, "moves", entries)), other.now)
    assert list(moves_of(other).plans) == ["p0"]


def test_M1_F1_a_moved_job_of_the_record_counts_from_now_on_at_the_latest() -> None:
    rig, _ = fragmented()
    entries = {"a": {"owner": "a", "at": 10**30, "chips": 3}, "b": {"owner": "b", "at": 1, "chips": -1}}
    moves_of(rig).restore(restored(with_entries({}, "moved-jobs", entries)), rig.now)
    assert [*moves_of(rig).moved.values()] == [MovedJob("a", rig.now, 3), MovedJob("b", 1, 0)]


def test_M1_pods_of_one_owner_that_move_together_count_together() -> None:
    rig, plan = fragmented()
    moves = moves_of(rig)
    moves.moved[f"default/small@{rig.now}"] = MovedJob("default/small", rig.now, 4)
    apply(rig, plan)
    assert [one.chips for one in moves.moved.values()] == [5]


def test_M1_why_names_the_moves() -> None:
    rig, plan = fragmented()
    apply(rig, plan)
    rig.run()

    def notes(job: str) -> str:
        return " ".join(explain(rig.machine.view, rig.machine.view.jobs[f"default/{job}"], rig.now).notes)

    assert notes("big") == "jobs are moved so that it can start: default/small; 0 of 1 pod gone"
    assert notes("small") == "it is moved so that default/big can start"
    target_is_cordoned(rig)
    rig.run()
    assert "came to nothing: n2 takes no pods" in notes("big")


def test_M1_a_job_for_which_others_move_starts_when_they_have_had_their_grace() -> None:
    rig, plan = fragmented(small=None)
    pod = rig.pods["small-0"]
    rig.put(replace(pod, grace=45))
    apply(rig, plan)
    rig.run()
    rig.now += 5 * SECOND
    view = rig.machine.view

    def start() -> ExpectedStart | None:
        found = explain(view, view.jobs["default/big"], rig.now).start
        assert estimates(view, rig.now)["default/big"] == found
        return found

    known = start()
    why = "jobs are moved so that it can start"
    assert known == ExpectedStart(StartKind.KNOWN, rig.now, plan.created + 45 * SECOND, why=why)
    assert known.text(rig.now).endswith(f", in 40s: {why}")
    assert known.short(rig.now) == "<40s"
    rig.now += 41 * SECOND
    late = start()
    assert late is not None
    assert late.kind is StartKind.UNKNOWN
    assert "do not end in their time" in late.why


@pytest.mark.parametrize("deleting", [False, True])
def test_M1_whoever_waits_behind_a_plan_starts_as_if_it_were_carried_out(deleting: bool) -> None:
    """Small begins anew at its target, big has its room, and the next one starts when big ends."""
    rig = Rig(2)
    for name, chips, length in (("small", 1, 5000), ("other", 4, 5000), ("filler", 4, 9000)):
        submit(rig, name, chips=chips, expected=f"{length}s")
        rig.run()
    rig.end("other")
    submit(rig, "big", chips=8, expected="100s")
    submit(rig, "next", chips=8, expected="100s")
    rig.run()
    (free, *_) = sorted(set(ALL) - set(rig.pods["filler-0"].holds))
    room = {"big-0": ("n1", ALL)}
    view = rig.machine.view
    assert estimates(view, rig.now)["default/next"].latest == rig.now + 5100 * SECOND
    apply(rig, plan_for(rig, "big", room, move(rig, ("small-0", "n2", (free,)))))
    rig.run()
    if not deleting:
        rig.put(replace(rig.pods["small-0"], deleting=False))
    before = fingerprint(state_of(view))
    found = estimates(view, rig.now)["default/next"]
    assert fingerprint(state_of(view)) == before
    assert (found.earliest, found.latest) == (rig.now + 100 * SECOND, rig.now + 100 * SECOND)


@pytest.mark.parametrize("alone", [False, True])
def test_M1_why_a_moved_job_is_where_it_is(alone: bool) -> None:
    owner = Owner("ReplicaSet", "web", "uid-of-web", "apps/v1")
    pod = Pod("uid-web-1", "default", "web-1", pod_class(1), owner=owner, chip_containers=1)
    rig, plan = fragmented(small=pod if alone else None)
    view = rig.machine.view

    def how(name: str) -> str:
        return " ".join(explain(view, find_job(view, name), rig.now).plan)

    name = "web-1" if alone else "small-0"
    assert "score" in how(name)
    apply(rig, plan)
    rig.run()
    if alone:
        rig.tell(ev.PodGone(pod.uid))
        del rig.pods["web-1"]
        rig.put(replace(pod, uid="uid-web-2", name="web-2", created=rig.now))
        name = "web-2"
    else:
        rig.finish()
    expected = "a plan of moves put it there, so that default/big could start"
    for _ in range(3):
        # While the plan is carried out, and when it has ended.
        rig.run()
        assert how(name) == expected
    assert ended(rig).outcome == DONE
    assert ended(rig).moved == (find_job(view, name).key,)
    # What its owner creates after that is placed as always.
    (old,) = find_job(view, name).pods.values()
    rig.now += SECOND
    rig.tell(ev.PodGone(old.uid))
    rig.pods.pop(name)
    later = replace(old, uid="uid-later", name="later", phase="Pending", created=rig.now)
    rig.put(replace(later, node=None, holds=(), annotations={}))
    rig.run()
    assert "score" in how("later")


def test_M1_F2_R3_a_job_for_racks_moves_as_a_whole_and_its_clock_does_not_run() -> None:
    rig = rack_rig({(0, 0): 4, (0, 1): 4})
    notes = {**POLICY, "sp-block": "16", "ra-block": "16"}
    submit(rig, "train", pods=2, chips=8, annotations=notes)
    rig.run()
    (rack,) = {node[:4] for node in rig.nodes_of("train")}
    other = "s0r1" if rack == "s0r0" else "s0r0"
    # It waits in any case.
    submit(rig, "big", pods=20, chips=8, annotations=notes)
    rig.run()
    to = move(rig, *((f"train-{number}", f"{other}n{number}", ALL) for number in range(2)))
    apply(rig, plan_for(rig, "big", {}, to))
    rig.run()
    rig.finish()
    rig.step()
    job = rig.machine.view.jobs["default/train"]
    assert job.clock is None
    rig.run()
    assert rig.nodes_of("train") == [f"{other}n0", f"{other}n1"]
    assert {pod.annotations["ringwise.io/logical-rack"] for name, pod in rig.pods.items() if "train" in name}
    rig.step(30)
    assert job.clock is None
    assert rig.nodes_of("train") == [f"{other}n0", f"{other}n1"]
