"""Plans to move running jobs so that a waiting one can start (rule M1): shown, applied and recorded.

A plan is data: it says who goes where, not how far it has come. The place of a pod belongs to its job: the
pods of a Deployment come back under other names, so a new pod takes a place that was planned for a pod of the
same request, and uids and names say only for which one the place was found.
"""

from __future__ import annotations

from ringwise.records import dataclass


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

    @property
    def moved_jobs(self) -> tuple[str, ...]:
        """Keys of the jobs that move, each once, in the order of the moves."""
        return tuple(dict.fromkeys(move.job for move in self.moves))

    @property
    def moved_chips(self) -> int:
        return sum(len(pod.chips) for move in self.moves for pod in move.pods)
