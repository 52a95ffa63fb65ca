"""M1: a plan of moves that is carried out: how far it has come."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import field

from ringwise.framework.job import Job, PlannedPlace
from ringwise.messages.move_plan import MovePlan, PlannedPod
from ringwise.records import NOT_RECORDED, dataclass
from ringwise.scheduler.cache.entries import compact, plain
from ringwise.state.loads import Load
from ringwise.topology.chips import mask_of

#: Why a plan does not hold: the reason, and the message.
Problem = tuple[str, str]
#: Names of the tables of the leader record.
MOVES, ENDED_MOVES = "moves", "ended-moves"
#: Bytes of a plan; a larger one is neither shown nor accepted.
MAX_PLAN = 80 * 1024


@dataclass(slots=True)
class MovingPod:
    """A pod with chips that has to go."""

    target: PlannedPlace
    old: PlannedPlace
    load: Load
    #: It no longer exists.
    gone: bool = False


@dataclass(slots=True)
class MovingJob:
    #: The vcjob, whatever its PodGroup is called; for other jobs their key.
    owner: str
    #: Key of the job that has the places: for a pod without a PodGroup, at last that of the new pod.
    job: str
    resource: str
    #: Who creates a pod without a PodGroup again, perhaps under another name; empty for other jobs.
    pods_owner: str = ""
    #: By uid: the pods that go.
    pods: dict[str, MovingPod] = field(default_factory=dict)


@dataclass(slots=True)
class LivePlan:
    plan: MovePlan
    #: When it was accepted, in nanoseconds.
    since: int
    resource: str
    #: In the order of the moves.
    jobs: list[MovingJob] = field(default_factory=list)
    #: What the pods of the room ask for besides chips, by node.
    room_loads: dict[str, Load] = field(default_factory=dict)
    #: When a pod was last gone.
    last_gone: int | None = None
    #: Why it failed. From then on pods that are gone get their old places back.
    failed: str = ""
    #: Pods whose eviction this leader has asked for.
    sent: set[str] = field(default_factory=set, metadata=NOT_RECORDED)

    def moving_pods(self) -> Iterator[tuple[MovingJob, str, MovingPod]]:
        for job in self.jobs:
            for uid, pod in job.pods.items():
                yield job, uid, pod

    @property
    def is_leaving(self) -> bool:
        """Whether pods that have to go are still there."""
        return any(not pod.gone for _, _, pod in self.moving_pods())


@dataclass(frozen=True, slots=True)
class EndedPlan:
    """How a plan ended."""

    id: str
    #: Key of the job that waited, and of those that were to move.
    job: str
    moved: tuple[str, ...]
    outcome: str
    #: Why it failed or was refused.
    why: str
    at: int
    #: The same jobs as their users know them.
    name: str = ""
    moved_names: tuple[str, ...] = ()
    #: The UID of its object; and why it was refused, in a word.
    uid: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class MovedJob:
    """A job that was evicted for a move: automatic moves have limits."""

    owner: str
    at: int
    chips: int


@dataclass(slots=True)
class MoveCounts:
    """Since the start."""

    #: Plans that were accepted, and how they ended; refused ones have failed.
    accepted: int = 0
    done: int = 0
    failed: int = 0
    #: Chip-nanoseconds: what the jobs that waited did not have to wait, and what the moves cost.
    saved: int = 0
    spent: int = 0


@dataclass(frozen=True, slots=True)
class PlanState:
    """How far a plan has come."""

    state: str
    message: str = ""
    #: Why it is not accepted.
    problem: Problem | None = None
    #: When it finished.
    at: int = 0


@dataclass(slots=True)
class MoveRecords:
    """The plans that are carried out, and what became of others."""

    #: By id, in the order in which they were accepted; one that failed while pods return.
    plans: Mapping[str, LivePlan] = field(default_factory=dict)
    #: By id, the last ones.
    ended: Mapping[str, EndedPlan] = field(default_factory=dict)
    #: Lately, by owner and time: automatic moves have limits.
    moved: Mapping[str, MovedJob] = field(default_factory=dict)
    counts: MoveCounts = field(default_factory=MoveCounts)
    #: The MovePlan objects by name, and what is decided of each.
    objects: Mapping[str, MovePlan] = field(default_factory=dict)
    states: Mapping[str, PlanState] = field(default_factory=dict)

    def under_way(self) -> dict[str, LivePlan]:
        """Those that have not failed, by the key of the job that waits."""
        return {live.plan.job: live for live in reversed([*self.plans.values()]) if not live.failed}


def place_of(pod: PlannedPod) -> PlannedPlace:
    return PlannedPlace(pod.name.rpartition("/")[2], pod.node, mask_of(pod.chips))


def uid_of(job: Job) -> str:
    """Return the UID of its PodGroup, or of the pod of a job without one."""
    return job.group.uid if job.group is not None else next(iter(job.pods), "")


def plan_name(job: Job, now: int) -> str:
    """Return the name of a new plan. It has at most 253 characters, as that of the job."""
    digest = hashlib.sha256(f"{job.key}@{now}".encode()).hexdigest()[:10]
    return f"{job.name[:200]}-{digest}"


def plan_size(plan: MovePlan) -> int:
    """Return the bytes of a plan in the record of the next leader."""
    return len(compact(plain(plan)).encode())
