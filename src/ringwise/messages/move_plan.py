"""Plans to move running jobs so that a waiting one can start (rule M1): shown, and MovePlan objects.

A plan is data: it says who goes where, not how far it has come. The place of a pod belongs to its job: the
pods of a Deployment come back under other names, so a new pod takes a place that was planned for a pod of the
same request, and uids and names say only for which one the place was found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ringwise.records import dataclass
from ringwise.state.ranges import MAX_NODE_CHIPS

#: The values of `approval`.
PENDING, APPROVED, REJECTED = "Pending", "Approved", "Rejected"
#: The states of a plan; the last three are how it ended.
WAITS_FOR_APPROVAL, WAITING, RUNNING = "pending", "queued", "running"
DONE, FAILED, REFUSED = FINISHED = "done", "failed", "rejected"
#: The reason of the condition Failed of a plan that was never begun.
NOT_CARRIED_OUT = "NotCarriedOut"
#: More than chips times years, and less than numbers that no metric can show.
LARGEST_COST = 1 << 96
#: More than `namespace/name`.
MAX_NAME = 512
#: Seconds after which a finished plan of a command, or of `defragment: auto`, is deleted.
DEFAULT_TTL = 86_400


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
    #: The name of the object.
    id: str
    #: Key of the job that waits.
    job: str
    #: Places for its pods that wait.
    room: tuple[PlannedPod, ...]
    moves: tuple[PlannedMove, ...]
    #: Of all moves together, in chip-nanoseconds.
    cost: int = 0
    #: Chips of the job that waits times how much sooner it starts, in chip-nanoseconds; None: not known.
    saving: int | None = None
    #: The UID of the PodGroup of the job that waits, or of its only pod.
    job_uid: str = ""
    approval: str = PENDING
    #: Seconds after which it is deleted when it has finished; None: it stays.
    ttl: int | None = None
    #: Users, as admission recorded them.
    by: str = ""
    approved_by: str = ""
    #: Of the object.
    uid: str = ""
    created: int = 0
    generation: int = 0
    #: What its conditions say, why, and since when it has finished.
    state: str = ""
    why: str = ""
    finished: int = 0

    @property
    def moved_jobs(self) -> tuple[str, ...]:
        """Keys of the jobs that move, each once, in the order of the moves."""
        return tuple(dict.fromkeys(move.job for move in self.moves))

    @property
    def moved_chips(self) -> int:
        return sum(len(pod.chips) for move in self.moves for pod in move.pods)

    @property
    def places(self) -> tuple[PlannedPod, ...]:
        """All places that it names."""
        return (*self.room, *(pod for move in self.moves for pod in (*move.pods, *move.old)))


def is_bounded(plan: MovePlan) -> bool:
    """Return whether a plan that was recorded fits into memory, and each pod has an old and a new place."""
    costs = (plan.cost, plan.saving or 0, *(move.cost for move in plan.moves))
    return (
        all(0 <= cost < LARGEST_COST for cost in costs)
        and not any(
            len(set(pod.chips)) != len(pod.chips)
            or any(not 0 <= chip < MAX_NODE_CHIPS for chip in pod.chips)
            or max(len(pod.uid), len(pod.name), len(pod.node)) > MAX_NAME
            for pod in plan.places
        )
        and all([pod.uid for pod in move.pods] == [pod.uid for pod in move.old] for move in plan.moves)
    )


def with_conditions(plan: MovePlan, conditions: Mapping[str, tuple[bool, str, str]], since: int) -> MovePlan:
    """Return the plan with the state that its conditions say: by type whether it is true, reason, message.

    `since`: when the plan finished, if it has.
    """
    none = False, "", ""
    for name, state in (("Complete", DONE), ("Failed", FAILED)):
        is_true, reason, message = conditions.get(name, none)
        if is_true:
            state = REFUSED if reason == NOT_CARRIED_OUT else state
            return replace(plan, state=state, why=message, finished=since)
    is_true, reason, message = conditions.get("Progressing", none)
    state = RUNNING if is_true else WAITING if reason == "Waiting" else WAITS_FOR_APPROVAL
    return replace(plan, state=state if conditions else "", why=message)
