"""MovePlans: which running jobs move where, so that a waiting one can start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from msgspec import Meta

from ringwise.durations import SECOND
from ringwise.manifests.objects.custom_resources import (
    CustomResourceWire,
    VersionedCondition,
    custom_resource,
    read_spec,
    without_nulls,
)
from ringwise.manifests.objects.metadata import time_of
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.wire import WireStruct
from ringwise.messages.move_plan import (
    MAX_NAME,
    PENDING,
    MovePlan,
    PlannedMove,
    PlannedPod,
    is_bounded,
    with_conditions,
)
from ringwise.state.ranges import MAX_NODE_CHIPS
from ringwise.wellknown import APPROVED_BY, MOVE_PLANS, USER

#: Jobs that move, and pods of one of them and of the job that waits.
MAX_MOVES = 256
MAX_PODS = 1024
MAX_COST = 10**15
MAX_TTL = 315_360_000
#: The key of the job of a pod without a PodGroup.
_LONE = "pod:"


class TargetWire(WireStruct, forbid_unknown_fields=True):
    kind: Literal["PodGroup", "Pod"]
    namespace: str
    name: str
    uid: str


class PlaceWire(WireStruct, forbid_unknown_fields=True):
    node: str
    chips: list[int] | None = None


class ReservedWire(PlaceWire, forbid_unknown_fields=True):
    pod: str = ""


class MovedPodWire(WireStruct, forbid_unknown_fields=True):
    name: str
    uid: str
    # Words of Python.
    from_: PlaceWire
    to: PlaceWire


class MoveWire(WireStruct, forbid_unknown_fields=True):
    kind: Literal["PodGroup", "Pod"]
    namespace: str
    name: str
    pods: Annotated[list[MovedPodWire], Meta(max_length=MAX_PODS)]
    cost_chip_seconds: int = 0


class MovePlanSpec(WireStruct, forbid_unknown_fields=True):
    target_ref: TargetWire
    moves: Annotated[list[MoveWire], Meta(min_length=1, max_length=MAX_MOVES)]
    reservation: Annotated[list[ReservedWire], Meta(max_length=MAX_PODS)] | None = None
    approval: Literal["Pending", "Approved", "Rejected"] = "Pending"
    saving_chip_seconds: int | None = None
    ttl_seconds_after_finished: Annotated[int, Meta(ge=0, le=MAX_TTL)] | None = None


def move_plan_from_wire(wire: CustomResourceWire, issues: Findings) -> MovePlan:
    who, spec = read_spec(wire, MOVE_PLANS, MovePlanSpec, issues)
    if spec is None:
        return MovePlan(who.name, "", (), ())
    moves = tuple(_move(move) for move in spec.moves)
    target = spec.target_ref
    plan = MovePlan(
        who.name,
        _key(target),
        tuple(
            PlannedPod("", f"{target.namespace}/{one.pod}", *_place(one)) for one in spec.reservation or ()
        ),
        moves,
        sum(move.cost for move in moves),
        None if spec.saving_chip_seconds is None else spec.saving_chip_seconds * SECOND,
        target.uid,
        spec.approval,
        spec.ttl_seconds_after_finished,
        who.annotations.get(USER, ""),
        who.annotations.get(APPROVED_BY, ""),
        wire.metadata.uid or "",
        who.created,
        wire.generation,
    )
    if not is_bounded(plan):
        issues.add_error(
            "spec",
            f"must have numbers of chips from 0 to {MAX_NODE_CHIPS - 1}, each once in a place, names of "
            f"at most {MAX_NAME} characters, and costs of 0 or more",
        )
    return _with_status(plan, wire.conditions)


def _with_status(plan: MovePlan, conditions: Iterable[VersionedCondition]) -> MovePlan:
    since = {
        one.type: time_of(one.last_transition_time, "", Findings("")) if one.last_transition_time else 0
        for one in conditions
        if one.status == "True"
    }
    said = {one.type: (one.status == "True", one.reason or "", one.message or "") for one in conditions}
    return with_conditions(plan, said, since.get("Complete", since.get("Failed", 0)))


def _key(job: TargetWire | MoveWire) -> str:
    return f"{job.namespace}/{_LONE if job.kind == 'Pod' else ''}{job.name}"


def _move(move: MoveWire) -> PlannedMove:
    def pods(place: Any) -> tuple[PlannedPod, ...]:
        return tuple(
            PlannedPod(pod.uid, f"{move.namespace}/{pod.name}", *_place(place(pod))) for pod in move.pods
        )

    cost = move.cost_chip_seconds * SECOND
    return PlannedMove(_key(move), pods(lambda pod: pod.to), pods(lambda pod: pod.from_), cost)


def _place(place: PlaceWire) -> tuple[str, tuple[int, ...]]:
    return place.node, tuple(place.chips or ())


def move_plan_body(plan: MovePlan) -> dict[str, Any]:
    """Return the object. Its moves are immutable, so fields that are not set are left out."""
    moves = [
        {
            **_reference(move.job),
            "pods": [
                {
                    "name": _name(new),
                    "uid": new.uid,
                    "from": _place_body(old),
                    "to": _place_body(new),
                }
                for new, old in zip(move.pods, move.old, strict=True)
            ],
            **({"costChipSeconds": min(move.cost // SECOND, MAX_COST)} if move.cost else {}),
        }
        for move in plan.moves
    ]
    spec = {
        "targetRef": {**_reference(plan.job), "uid": plan.job_uid},
        "moves": moves,
        "reservation": [{"pod": _name(pod), **_place_body(pod)} for pod in plan.room] or None,
        "approval": plan.approval or PENDING,
        "savingChipSeconds": None if plan.saving is None else min(plan.saving // SECOND, MAX_COST),
        "ttlSecondsAfterFinished": plan.ttl,
    }
    return without_nulls(custom_resource(MOVE_PLANS, plan.id, spec))


def _place_body(pod: PlannedPod) -> dict[str, Any]:
    return {"node": pod.node, **({"chips": list(pod.chips)} if pod.chips else {})}


def _reference(key: str) -> dict[str, str]:
    namespace, _, name = key.partition("/")
    kind = "Pod" if name.startswith(_LONE) else "PodGroup"
    return {"kind": kind, "namespace": namespace, "name": name.removeprefix(_LONE)}


def _name(pod: PlannedPod) -> str:
    return pod.name.rpartition("/")[2]
