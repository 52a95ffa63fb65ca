"""MovePlans: which running jobs move where, so that a waiting one can start."""

from __future__ import annotations

from typing import Any, Literal

from ringwise.durations import SECOND
from ringwise.manifests.objects.metadata import identity, time_of
from ringwise.manifests.objects.node_reservations import ConditionListWire, VersionedMeta
from ringwise.manifests.text.checking import checked, no_hook
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
    pods: list[MovedPodWire]
    cost_chip_seconds: int = 0


class MovePlanSpec(WireStruct, forbid_unknown_fields=True):
    target_ref: TargetWire
    moves: list[MoveWire]
    reservation: list[ReservedWire] | None = None
    approval: Literal["Pending", "Approved", "Rejected"] = "Pending"
    saving_chip_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None


class MovePlanWire(WireStruct):
    metadata: VersionedMeta | None = None
    #: Decoded strictly: a field of a newer version may restrict what the others say.
    spec: Any = None
    status: ConditionListWire | None = None


def move_plan_from_wire(wire: MovePlanWire, issues: Findings) -> MovePlan:
    who = identity(wire.metadata, MOVE_PLANS.kind, issues, namespaced=False)
    spec = checked(wire.spec or {}, MovePlanSpec, "spec", issues, no_hook)
    if spec is None:
        return MovePlan(who.name, "", (), ())
    if not 0 < len(spec.moves) <= MAX_MOVES:
        issues.add_error("spec.moves", f"must have 1 to {MAX_MOVES} entries")
    reserved = spec.reservation or []
    if max(len(reserved), *(len(move.pods) for move in spec.moves), 0) > MAX_PODS:
        issues.add_error("spec", f"must have at most {MAX_PODS} pods of a job")
    ttl = spec.ttl_seconds_after_finished
    if not 0 <= (ttl or 0) <= MAX_TTL:
        issues.add_error("spec.ttlSecondsAfterFinished", f"must be 0 to {MAX_TTL}")
    moves = tuple(_move(move) for move in spec.moves)
    target = spec.target_ref
    plan = MovePlan(
        who.name,
        _key(target),
        tuple(PlannedPod("", f"{target.namespace}/{one.pod}", *_place(one)) for one in reserved),
        moves,
        sum(move.cost for move in moves),
        None if spec.saving_chip_seconds is None else spec.saving_chip_seconds * SECOND,
        target.uid,
        spec.approval,
        ttl,
        who.annotations.get(USER, ""),
        who.annotations.get(APPROVED_BY, ""),
        (wire.metadata.uid if wire.metadata is not None else None) or "",
        who.created,
        (wire.metadata.generation if wire.metadata is not None else None) or 0,
    )
    if not is_bounded(plan):
        issues.add_error(
            "spec",
            f"must have numbers of chips from 0 to {MAX_NODE_CHIPS - 1}, each once in a place, names of "
            f"at most {MAX_NAME} characters, and costs of 0 or more",
        )
    return _with_status(plan, wire)


def _with_status(plan: MovePlan, wire: MovePlanWire) -> MovePlan:
    conditions = (wire.status.conditions if wire.status is not None else None) or ()
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
    """Return the object. Its moves are immutable, so it has no fields that nobody gave it."""
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
    return {
        "apiVersion": MOVE_PLANS.version,
        "kind": MOVE_PLANS.kind,
        "metadata": {"name": plan.id},
        "spec": {name: value for name, value in spec.items() if value is not None},
    }


def _place_body(pod: PlannedPod) -> dict[str, Any]:
    return {"node": pod.node, **({"chips": list(pod.chips)} if pod.chips else {})}


def _reference(key: str) -> dict[str, str]:
    namespace, _, name = key.partition("/")
    kind = "Pod" if name.startswith(_LONE) else "PodGroup"
    return {"kind": kind, "namespace": namespace, "name": name.removeprefix(_LONE)}


def _name(pod: PlannedPod) -> str:
    return pod.name.rpartition("/")[2]
