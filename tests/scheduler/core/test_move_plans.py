"""MovePlan objects: which are accepted, which one is carried out, and when they are deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ringwise.messages import events as ev
from ringwise.messages.commands import DeleteFinished, DeletePod, SetConditions
from ringwise.messages.move_plan import (
    APPROVED,
    DONE,
    FAILED,
    PENDING,
    REFUSED,
    REJECTED,
    RUNNING,
    WAITING,
    WAITS_FOR_APPROVAL,
    MovePlan,
    with_conditions,
)
from ringwise.scheduler.core.custom_resources import STATUS_INTERVAL
from ringwise.scheduler.core.move_plans import CHECK_INTERVAL, MAX_PLANS
from ringwise.scheduler.defragment.live_plan import LivePlan
from ringwise.scheduler.defragment.moves import MAX_ENDED, WHY
from ringwise.scheduler.explain.doctor import diagnose
from ringwise.state.model import Isolation, NodeTerm, Requirement, Taint
from tests.builders.values import SECOND, isolated
from tests.fingerprint import fingerprint, state_of
from tests.scheduler.defragment.test_moves import fragmented, moves_of, submit
from tests.scheduler.rig import Rig

KIND = "MovePlan"


def pending(**settings: Any) -> tuple[Rig, MovePlan]:
    rig, plan = fragmented(**settings)
    return rig, replace(plan, approval=PENDING, uid="uid-1", generation=1)


def approve(rig: Rig, plan: MovePlan) -> MovePlan:
    approved = replace(plan, approval=APPROVED, generation=plan.generation + 1)
    rig.tell(approved)
    rig.step()
    return approved


def written(rig: Rig, name: str = "plan-1") -> dict[str, tuple[bool, str, str]]:
    """The conditions that were written last: whether they are true, the reason and the message."""
    found = [one for one in rig.commands if isinstance(one, SetConditions) and one.name == name]
    return {one.type: (one.status, one.reason, one.message) for one in found[-1].conditions}


def states(rig: Rig) -> dict[str, str]:
    return {name: one.state for name, one in rig.machine.view.history.moves.states.items()}


def evicted(rig: Rig) -> list[str]:
    return [one.pod for one in rig.commands if isinstance(one, DeletePod)]


def held(rig: Rig) -> list[str]:
    return sorted(one.owner for one in rig.machine.view.reservations if one.why == WHY)


def test_M1_conditions_say_how_far_a_plan_has_come() -> None:
    rig, plan = pending()
    rig.tell(plan)
    rig.step()
    assert written(rig) == {
        "Accepted": (True, "Accepted", ""),
        "Progressing": (False, "NotApproved", ""),
        "Complete": (False, "NotFinished", ""),
        "Failed": (False, "NotFinished", ""),
    }
    assert (evicted(rig), held(rig)) == ([], [])
    approve(rig, plan)
    assert evicted(rig) == ["small-0"]
    # At most every ten seconds.
    assert written(rig)["Progressing"][1] == "NotApproved"
    rig.step(STATUS_INTERVAL / SECOND)
    assert written(rig)["Progressing"] == (True, "Moving", "0 of 1 pod gone")
    rig.finish()
    rig.run()
    rig.run()
    rig.step(STATUS_INTERVAL / SECOND)
    assert written(rig)["Complete"] == (True, "TargetStarted", "")
    assert written(rig)["Progressing"] == (False, "Finished", "")
    sent = len([one for one in rig.commands if isinstance(one, SetConditions)])
    for _ in range(3):
        rig.step(STATUS_INTERVAL / SECOND)
    assert len([one for one in rig.commands if isinstance(one, SetConditions)]) == sent == 3


def _moved(plan: MovePlan, **fields: Any) -> MovePlan:
    """With another place of the pod that moves."""
    (move,) = plan.moves
    return replace(plan, moves=(replace(move, pods=(replace(move.pods[0], **fields),)),))


def _with(plan: MovePlan, **fields: Any) -> MovePlan:
    return replace(plan, moves=(replace(plan.moves[0], **fields),))


def _old(plan: MovePlan, **fields: Any) -> MovePlan:
    return _with(plan, old=(replace(plan.moves[0].old[0], **fields),))


WRONG: dict[str, tuple[str, Callable[[MovePlan], MovePlan]]] = {
    "an unknown node": ("NodeNotFound", lambda plan: _moved(plan, node="n99")),
    "an unknown pod": (
        "PodNotFound",
        lambda plan: _with(
            plan,
            pods=(replace(plan.moves[0].pods[0], uid="x"),),
            old=(replace(plan.moves[0].old[0], uid="x"),),
        ),
    ),
    "an unknown job": ("JobNotFound", lambda plan: _with(plan, job="default/none")),
    "an unknown target": ("TargetNotFound", lambda plan: replace(plan, job="default/none")),
    "another UID": ("TargetReplaced", lambda plan: replace(plan, job_uid="uid-of-another")),
    "a target that runs": ("TargetNotPending", lambda plan: replace(plan, job="default/filler")),
    "a pod of the target that is none": (
        "PodNotFound",
        lambda plan: replace(plan, room=(replace(plan.room[0], name="default/none-0"),)),
    ),
    "the name of another pod": ("PodNotFound", lambda plan: _moved(plan, name="default/filler-0")),
    "a pod twice": ("DuplicatePod", lambda plan: replace(plan, moves=plan.moves * 2)),
    "a job to where it is": (
        "SamePlace",
        lambda plan: _with(plan, pods=plan.moves[0].old),
    ),
    "the target itself": ("MovesTarget", lambda plan: _with(plan, job="default/big")),
    "no move": ("NoMoves", lambda plan: replace(plan, moves=())),
    "a place that is taken": ("PlaceNotFree", lambda plan: _moved(plan, node="n2", chips=(0,))),
    "a chip that is not there": ("PlaceNotFree", lambda plan: _moved(plan, chips=(99,))),
    "another number of chips": ("ChipsDiffer", lambda plan: _moved(plan, chips=(4, 5))),
    "a pod that is elsewhere": ("PodMoved", lambda plan: _old(plan, node="n2")),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("approved", [False, True])
def test_M1_a_plan_that_does_not_hold_is_not_accepted_and_moves_nobody(case: str, approved: bool) -> None:
    reason, change = WRONG[case]
    rig, plan = pending()
    if case == "a place that is taken":
        taken = rig.pods["filler-0"].holds[:1]
        wrong = _moved(plan, chips=taken)
    else:
        wrong = change(plan)
    good = replace(plan, id="good", uid="uid-2")
    rig.tell(replace(wrong, approval=APPROVED if approved else PENDING), good)
    rig.step()
    assert written(rig)["Accepted"][:2] == (False, reason)
    assert written(rig)["Failed"][0] is approved
    assert written(rig, "good")["Accepted"][0] is True
    assert (evicted(rig), held(rig)) == ([], [])
    findings = [one for one in diagnose(rig.machine.view).findings if one.code == "move-plan-not-accepted"]
    assert [one.object for one in findings] == ["MovePlan plan-1"]
    assert written(rig)["Accepted"][2] in findings[0].message
    # One bad plan affects no other.
    approve(rig, good)
    assert evicted(rig) == ["small-0"]


def asks(rig: Rig, name: str, **fields: Any) -> None:
    """The pod asks for something else, too."""
    rig.change(name, cls=replace(rig.pods[name].cls, **fields))


UNSUITABLE: dict[str, tuple[Callable[[Rig], None], str]] = {
    "a node selector": (
        lambda rig: asks(rig, "small-0", node_selector=(("pool", "a"),)),
        "small-0 does not fit on n2: the nodeSelector requires pool=a; the node has absent",
    ),
    "node affinity": (
        lambda rig: asks(rig, "small-0", node_terms=(NodeTerm((Requirement("pool", "In", ("a",)),)),)),
        "small-0 does not fit on n2: the node matches none of 1 required node affinity term: pool in a",
    ),
    "a taint": (
        lambda rig: rig.node("n2", taints=(Taint("tenant", "blue"),)),
        "small-0 does not fit on n2: the node has the taint tenant=blue:NoSchedule, "
        "which the pod does not tolerate",
    ),
    "a scheduled drain": (
        lambda rig: rig.tell(isolated(Isolation("n2", start=rig.now + SECOND))),
        "small-0 does not fit on n2: n2 is drained at 1970-01-01T00:16:41Z, "
        "and the job has no expected duration",
    ),
    "another resource": (
        lambda rig: asks(rig, "small-0", extended=(("example.com/fpga", 1),)),
        "small-0 does not fit on n2: 1 of example.com/fpga requested, 0 of 0 free",
    ),
    "the node of the target": (
        lambda rig: asks(rig, "big-0", node_selector=(("pool", "a"),)),
        "big-0 does not fit on n1: the nodeSelector requires pool=a; the node has absent",
    ),
}


@pytest.mark.parametrize("case", UNSUITABLE)
def test_M1_a_plan_with_a_node_that_does_not_suit_a_pod_is_not_accepted(case: str) -> None:
    change, message = UNSUITABLE[case]
    rig, plan = pending(reserved_nodes_require_duration=True)
    change(rig)
    rig.tell(plan)
    rig.step()
    assert written(rig)["Accepted"] == (False, "NodeUnsuitable", f"default/{message}")
    approve(rig, plan)
    assert states(rig) == {"plan-1": REFUSED}
    assert (evicted(rig), held(rig)) == ([], [])


def test_M1_what_a_pod_that_moves_leaves_counts_as_free() -> None:
    rig, plan = pending()
    rig.node("n1", cpu_milli=1000)
    asks(rig, "small-0", cpu_milli=600)
    asks(rig, "big-0", cpu_milli=600)
    rig.step()
    before = fingerprint(state_of(rig.machine.view))
    assert isinstance(moves_of(rig).check(plan, rig.now), LivePlan)
    assert fingerprint(state_of(rig.machine.view)) == before
    approve(rig, plan)
    assert states(rig) == {"plan-1": RUNNING}


def test_M1_a_plan_that_waits_is_checked_again() -> None:
    rig, plan = pending()
    rig.node("n2", unschedulable=True)
    rig.tell(plan)
    rig.step()
    assert written(rig)["Accepted"][:2] == (False, "PlaceNotFree")
    rig.node("n2")
    rig.step()
    rig.step(CHECK_INTERVAL / SECOND)
    assert written(rig)["Accepted"][0] is True


def test_M1_one_plan_at_a_time_is_carried_out_in_the_order_of_their_creation() -> None:
    rig, plan = pending()
    first = replace(plan, id="z", approval=APPROVED, created=1)
    second = replace(plan, id="a", approval=APPROVED, created=2, uid="uid-2")
    rig.tell(second, first)
    rig.step()
    assert states(rig) == {"z": RUNNING, "a": WAITING}
    assert written(rig, "a")["Progressing"] == (False, "Waiting", "waits for MovePlan z")
    assert evicted(rig) == ["small-0"]
    rig.finish()
    rig.run()
    rig.run()
    # It no longer holds: its job runs.
    assert states(rig) == {"z": DONE, "a": REFUSED}
    assert evicted(rig) == ["small-0"]


def test_M1_plans_beyond_the_limit_are_not_accepted() -> None:
    rig, plan = pending()
    for number in range(MAX_PLANS + 1):
        rig.tell(replace(plan, id=f"p{number}", uid=f"uid-{number}", created=number))
    rig.step()
    assert written(rig, f"p{MAX_PLANS - 1}")["Accepted"][0] is True
    assert written(rig, f"p{MAX_PLANS}")["Accepted"][:2] == (False, "TooManyPlans")
    rig.tell(ev.MovePlanGone("p0"))
    rig.step()
    rig.step(CHECK_INTERVAL / SECOND)
    assert written(rig, f"p{MAX_PLANS}")["Accepted"][0] is True


def test_M1_plans_that_are_not_approved_fill_no_place_of_approved_ones() -> None:
    rig, plan = pending()
    for number in range(MAX_PLANS):
        rig.tell(replace(plan, id=f"p{number}", uid=f"uid-{number}", created=number))
    rig.step()
    approve(rig, replace(plan, created=MAX_PLANS, uid="last"))
    assert states(rig)["plan-1"] == RUNNING


def test_M1_how_a_plan_ended_is_known_until_its_conditions_say_it() -> None:
    rig, plan = pending()
    approved = approve(rig, plan)
    for number in range(MAX_ENDED + 10):
        name = f"p{number}"
        rig.tell(replace(approved, id=name, uid=name, created=number + 1, job="default/none"))
    rig.finish()
    rig.run()
    rig.run()
    assert states(rig).pop("plan-1") == DONE
    assert set(states(rig).values()) == {DONE, REFUSED}
    for name in states(rig):
        rig.step(STATUS_INTERVAL / SECOND)
        rig.tell(with_conditions(moves_of(rig).records.objects[name], written(rig, name), rig.now))
    approve(rig, replace(plan, id="next", uid="next"))
    assert len(moves_of(rig).ended) == MAX_ENDED


STOPS: dict[str, tuple[str, Callable[[MovePlan], object]]] = {
    "deleted": ("the MovePlan was deleted", lambda plan: ev.MovePlanGone(plan.id)),
    "created again": ("the MovePlan was deleted", lambda plan: replace(plan, uid="u", approval=PENDING)),
    "rejected": ("its approval was withdrawn", lambda plan: replace(plan, approval=REJECTED)),
    "changed": ("the MovePlan was changed", lambda plan: _moved(plan, chips=(7,))),
}


@pytest.mark.parametrize("case", STOPS)
@pytest.mark.parametrize("gone", [False, True])
def test_M1_a_plan_that_is_stopped_evicts_no_more_and_holds_nothing(case: str, gone: bool) -> None:
    why, stop = STOPS[case]
    rig, plan = pending()
    approved = approve(rig, plan)
    assert held(rig) == ["default/big", "default/small"]
    if gone:
        rig.gone("small-0")
        rig.step()
    rig.tell(stop(approved))
    rig.step()
    ended = moves_of(rig).ended["plan-1"]
    assert (ended.outcome, ended.why) == (FAILED, why)
    assert (held(rig), moves_of(rig).plans) == ([], {})
    job = rig.machine.view.jobs.get("default/small")
    assert job is None or job.places == ()
    for _ in range(3):
        rig.step()
    assert evicted(rig) == ["small-0"]


def test_M1_a_plan_that_was_rejected_is_not_carried_out() -> None:
    rig, plan = pending()
    rig.tell(replace(plan, approval=REJECTED))
    rig.step()
    assert written(rig)["Failed"] == (True, "NotCarriedOut", "it was rejected")
    assert (states(rig), evicted(rig)) == ({"plan-1": REFUSED}, [])


def test_M1_a_plan_with_the_name_of_a_finished_one_is_carried_out() -> None:
    rig, plan = pending()
    approve(rig, replace(plan, job="default/none"))
    assert states(rig) == {"plan-1": REFUSED}
    rig.tell(ev.MovePlanGone("plan-1"))
    approve(rig, replace(plan, uid="uid-2"))
    assert (states(rig), evicted(rig)) == ({"plan-1": RUNNING}, ["small-0"])


def finished(rig: Rig, plan: MovePlan) -> MovePlan:
    """As the API has it: with the conditions that were written."""
    return with_conditions(plan, written(rig), rig.now)


def test_M1_the_old_place_is_kept_after_the_conditions_say_that_the_plan_failed() -> None:
    rig, plan = pending()
    old = rig.places("small")
    approved = approve(rig, plan)
    rig.node("n2", unschedulable=True)
    rig.step(STATUS_INTERVAL / SECOND)
    known = finished(rig, approved)
    assert known.state == FAILED
    rig.tell(known)
    rig.step()
    assert (states(rig), held(rig)) == ({"plan-1": FAILED}, ["default/small"])
    rig.finish()
    rig.run()
    assert rig.places("small") == old


def test_M1_a_plan_is_deleted_some_time_after_it_has_finished() -> None:
    rig, plan = pending()
    rig.tell(replace(plan, approval=REJECTED, ttl=100))
    rig.step()
    known = finished(rig, replace(plan, approval=REJECTED, ttl=100))
    rig.tell(known)
    rig.step()
    rig.step(99)
    assert not any(isinstance(one, DeleteFinished) for one in rig.commands)
    rig.step(1)
    for _ in range(2):
        rig.tell(known)
        rig.step()
    deleted = [one for one in rig.commands if isinstance(one, DeleteFinished)]
    assert deleted == [DeleteFinished(KIND, "plan-1", "uid-1")]
    # The next leader deletes it, too, if this one could not.
    rig.change_leader()
    rig.step()
    assert len([one for one in rig.commands if isinstance(one, DeleteFinished)]) == 2


def test_M1_F1_the_next_leader_goes_on_with_a_plan() -> None:
    rig, plan = pending()
    approve(rig, plan)
    rig.change_leader()
    rig.step()
    assert states(rig) == {"plan-1": RUNNING}
    rig.finish()
    rig.run()
    rig.run()
    assert (rig.nodes_of("big"), states(rig)) == (["n1"], {"plan-1": DONE})
    assert evicted(rig) == ["small-0"]


@pytest.mark.parametrize("served", [True, False])
def test_M1_F1_a_plan_that_was_deleted_between_two_leaders_stops(served: bool) -> None:
    """A kind that is not served is not an empty list: then it goes on, until the kind is served again."""
    rig, plan = pending()
    approve(rig, plan)
    rig.change_leader()
    rig.events = [one for one in rig.events if not isinstance(one, ev.MovePlanSeen)]
    rig.events.insert(0, ev.KindServed(KIND, served))
    rig.step()
    assert list(moves_of(rig).plans) == ([] if served else ["plan-1"])
    assert evicted(rig) == ["small-0"]
    if not served:
        rig.tell(ev.KindServed(KIND, True))
        rig.step()
    assert (held(rig), moves_of(rig).plans) == ([], {})
    assert moves_of(rig).ended["plan-1"].why == "the MovePlan was deleted"


@pytest.mark.parametrize("state", [DONE, FAILED, REFUSED])
def test_M1_F1_a_plan_whose_conditions_say_that_it_has_finished_is_not_begun(state: str) -> None:
    """Also if the record is lost, or older than the conditions."""
    rig, plan = pending()
    approved = approve(rig, plan)
    record = rig.last_record
    known = replace(approved, state=state, why="it was so", finished=rig.now)
    rig, _ = pending()
    rig.tell(known)
    rig.step()
    rig.tell(record)
    rig.step()
    rig.tell(replace(known, ttl=5))
    rig.step()
    assert (evicted(rig), held(rig), states(rig)) == ([], [], {"plan-1": state})
    assert not [one for one in rig.commands if isinstance(one, SetConditions)]


def test_M1_conditions_and_states_are_the_same_in_both_directions() -> None:
    rig, plan = pending()
    rig.tell(plan)
    rig.step()
    seen = [finished(rig, plan).state]
    approved = approve(rig, plan)
    other = replace(approved, id="other", uid="uid-2")
    rig.tell(other)
    rig.step(STATUS_INTERVAL / SECOND)
    seen += [finished(rig, approved).state, with_conditions(other, written(rig, "other"), 0).state]
    rig.node("n2", unschedulable=True)
    rig.step(STATUS_INTERVAL / SECOND)
    rig.step(STATUS_INTERVAL / SECOND)
    seen += [finished(rig, approved).state, with_conditions(other, written(rig, "other"), 0).state]
    assert seen == [WAITS_FOR_APPROVAL, RUNNING, WAITING, FAILED, WAITING]
    rig.finish()
    for _ in range(3):
        rig.step(STATUS_INTERVAL / SECOND)
    assert with_conditions(other, written(rig, "other"), 0).state == REFUSED


def test_M1_500_plans_are_decided_without_a_check_of_each_in_each_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig, plan = pending()
    for number in range(500):
        rig.tell(replace(plan, id=f"p{number}", uid=f"uid-{number}", created=number))
    checks: list[str] = []
    moves = moves_of(rig)
    check = moves.check

    def counted(one: MovePlan, now: int) -> object:
        checks.append(one.id)
        return check(one, now)

    monkeypatch.setattr(moves, "check", counted)
    rig.step()
    assert len(checks) == MAX_PLANS
    for number in range(5):
        submit(rig, f"more-{number}", chips=8)
        rig.tell(replace(plan, id=f"later-{number}", uid=f"later-{number}", created=1000))
        rig.step()
    assert len(checks) == MAX_PLANS
