"""The document of plans to move jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ringwise.durations import SECOND
from ringwise.messages.move_plan import WAITING, WAITS_FOR_APPROVAL, MovePlan, PlannedMove, PlannedPod
from ringwise.reasons import Reason
from ringwise.scheduler.defragment.live_plan import PlanState
from ringwise.scheduler.view import SchedulerView
from ringwise.views.documents import maintenance as doc


def defrag_plan_document(
    view: SchedulerView,
    now: int,
    plans: Sequence[MovePlan],
    without: Mapping[str, Reason],
    omitted: Sequence[str] = (),
) -> doc.DefragPlanDocument:
    """What `ringwise defrag --plan -o json` prints."""
    return doc.DefragPlanDocument(
        now=now,
        plans=[_plan(view, plan) for plan in plans],
        without_plan=[_without(view, key, reason) for key, reason in without.items()],
        omitted=list(omitted),
    )


def move_plan_documents(view: SchedulerView) -> list[doc.ListedMovePlanFields]:
    """All MovePlan objects, the oldest first."""
    return [
        _listed(view, one) for one in sorted(view.history.moves.objects.values(), key=lambda one: one.created)
    ]


def move_plan_document(view: SchedulerView, name: str, now: int) -> Mapping[str, Any]:
    """Its fields and its moves."""
    one = view.history.moves.objects[name]
    return {"now": now, **_listed(view, one), "plan": _plan(view, one)}


def _listed(view: SchedulerView, one: MovePlan) -> doc.ListedMovePlanFields:
    decided = view.history.moves.states.get(one.id, PlanState(""))
    # Another scheduler may carry it out; then only its conditions say how far it has come.
    state, message = decided.state, decided.message or (decided.problem or ("", ""))[1]
    if state in ("", WAITS_FOR_APPROVAL, WAITING) and one.state not in ("", state):
        state, message = one.state, one.why
    return {
        "name": one.id,
        "job": "/".join(_names(view, one.job)),
        "moved": ["/".join(_names(view, key)) for key in one.moved_jobs],
        "pods": sum(len(move.pods) for move in one.moves),
        "chips": one.moved_chips,
        "approval": one.approval,
        "state": state,
        "message": message,
        "created": one.created,
        "created_by": one.by,
        "approved_by": one.approved_by,
    }


def _names(view: SchedulerView, key: str) -> tuple[str, str]:
    namespace, _, name = view.job_name(key).partition("/")
    return namespace, name


def _plan(view: SchedulerView, plan: MovePlan) -> doc.MovePlanFields:
    namespace, name = _names(view, plan.job)
    return doc.MovePlanFields(
        id=plan.id,
        namespace=namespace,
        name=name,
        chips=sum(len(pod.chips) for pod in plan.room),
        moved_jobs=len(plan.moved_jobs),
        moved_chips=plan.moved_chips,
        cost_chip_seconds=plan.cost / SECOND,
        moves=[_move(view, move) for move in plan.moves],
        reservation=[
            doc.PlannedReservationFields(name=_pod_name(pod), node=pod.node, chips=list(pod.chips))
            for pod in plan.room
        ],
    )


def _move(view: SchedulerView, move: PlannedMove) -> doc.PlannedMoveFields:
    namespace, name = _names(view, move.job)
    return doc.PlannedMoveFields(
        namespace=namespace,
        name=name,
        chips=sum(len(pod.chips) for pod in move.pods),
        cost_chip_seconds=move.cost / SECOND,
        pods=[
            doc.PlannedPodFields(
                name=_pod_name(new),
                source=old.node,
                from_chips=list(old.chips),
                to=new.node,
                chips=list(new.chips),
            )
            for new, old in zip(move.pods, move.old, strict=True)
        ],
    )


def _pod_name(pod: PlannedPod) -> str:
    return pod.name.rpartition("/")[2]


def _without(view: SchedulerView, key: str, reason: Reason) -> doc.NoMovePlanFields:
    namespace, name = _names(view, key)
    return doc.NoMovePlanFields(namespace=namespace, name=name, reason=reason.as_json())
