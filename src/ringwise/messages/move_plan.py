"""Plans to move running jobs so that a waiting one can start (rule M1): shown, applied and recorded.

A plan is data: it says who goes where, not how far it has come. The place of a pod belongs to its job: the
pods of a Deployment come back under other names, so a new pod takes a place that was planned for a pod of the
same request, and uids and names say only for which one the place was found.
"""

from __future__ import annotations

from typing import Any

from ringwise.records import dataclass
from ringwise.state.ranges import MAX_NODE_CHIPS

#: More than chips times years, and less than numbers that no metric can show.
_LARGEST = 1 << 96
#: More than `namespace/name`.
_LONGEST = 512


@dataclass(frozen=True, slots=True)
class PlannedPod:
    """A pod and a place for it."""

    uid: str
    #: `namespace/name` of the pod.
    name: str
    node: str
    #: Empty for pods without chips.
    chips: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """Pods of one job that move together: all of a gang, or a single pod of a job whose pods run alone.

    A target may be a place that another pod of the same plan leaves.
    """

    #: Key of the job.
    job: str
    #: Where they go, and where they are now: the same pods in the same order.
    pods: tuple[PlannedPod, ...]
    old: tuple[PlannedPod, ...]
    #: Chips times restart cost, in chip-nanoseconds.
    cost: int


@dataclass(frozen=True, slots=True)
class MovePlan:
    id: str
    #: Key of the job that waits.
    job: str
    #: Places for its pods that wait.
    room: tuple[PlannedPod, ...]
    moves: tuple[PlannedMove, ...]
    #: Of all moves together, in chip-nanoseconds.
    cost: int
    #: Chips of the job that waits times how much sooner it starts, in chip-nanoseconds; None: not known.
    saving: int | None = None
    #: When it was sent to be carried out, in nanoseconds. An old one has no effect.
    made: int = 0

    @property
    def moved_jobs(self) -> tuple[str, ...]:
        """Keys of the jobs that move, each once, in the order of the moves."""
        return tuple(dict.fromkeys(move.job for move in self.moves))

    @property
    def moved_chips(self) -> int:
        return sum(len(pod.chips) for move in self.moves for pod in move.pods)


# -- as values of JSON: ConfigMaps and the record of F1 have them -----------------------------------------


def plain_plan(plan: MovePlan) -> dict[str, Any]:
    return {
        "id": plan.id,
        "job": plan.job,
        "room": [_plain_pod(pod) for pod in plan.room],
        "moves": [
            {
                "job": move.job,
                "pods": [_plain_pod(pod) for pod in move.pods],
                "old": [_plain_pod(pod) for pod in move.old],
                "cost": move.cost,
            }
            for move in plan.moves
        ],
        "cost": plan.cost,
        "saving": plan.saving,
        "made": plan.made,
    }


def read_plan(given: Any) -> MovePlan:
    """Raises KeyError, TypeError or ValueError for what is no plan."""
    moves = tuple(
        PlannedMove(_text(one["job"]), _pods(one["pods"]), _pods(one["old"]), _number(one["cost"]))
        for one in given["moves"]
    )
    for move in moves:
        if [pod.uid for pod in move.pods] != [pod.uid for pod in move.old]:
            raise ValueError("pods and old places differ")
    saving = given.get("saving")
    return MovePlan(
        _text(given["id"]),
        _text(given["job"]),
        _pods(given["room"]),
        moves,
        _number(given["cost"]),
        None if saving is None else _number(saving),
        _number(given.get("made", 0)),
    )


def _plain_pod(pod: PlannedPod) -> list[Any]:
    return [pod.uid, pod.name, pod.node, list(pod.chips)]


def _pods(given: Any) -> tuple[PlannedPod, ...]:
    return tuple(
        PlannedPod(_text(uid), _text(name), _text(node), _chips(chips)) for uid, name, node, chips in given
    )


def _chips(given: Any) -> tuple[int, ...]:
    chips = tuple(map(_chip, given))
    if len(set(chips)) != len(chips):
        raise ValueError("a pod has a chip twice")
    return chips


def _chip(given: Any) -> int:
    if _number(given) >= MAX_NODE_CHIPS:
        raise ValueError("no node has so many chips")
    return int(given)


def _number(given: Any) -> int:
    if type(given) is not int or not 0 <= given < _LARGEST:
        raise ValueError("must be a whole number from 0, and no cost or time is so large")
    return given


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError("must be a text")
    if len(given) > _LONGEST:
        raise ValueError("no name is so long")
    # JSON names halves of characters; no journal or record with one can be written.
    given.encode()
    return given
