"""M1: a plan of moves that is carried out: how far it has come, and as values of JSON for the next leader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from ringwise.framework.job import PlannedPlace
from ringwise.messages.move_plan import MovePlan, PlannedPod, plain_plan, read_plan
from ringwise.records import dataclass
from ringwise.scheduler.faults.bounded_texts import compact
from ringwise.scheduler.faults.rescheduling import plain_load, read_load
from ringwise.state.loads import Load
from ringwise.topology.chips import mask_of

DONE, FAILED, REFUSED = "done", "failed", "refused"
#: Bytes of all plans that are carried out, in the record; what does not fit is neither shown nor accepted.
MAX_PLANS_DOCUMENT = 80 * 1024
#: Bytes of a plan and of each of its jobs that are not known before it is accepted: owners, times.
_UNKNOWN = 500


@dataclass(slots=True)
class MovingPod:
    """A pod with chips that has to go."""

    target: PlannedPlace
    old: PlannedPlace
    load: Load
    #: It does not exist any more.
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
    sent: set[str] = field(default_factory=set)

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


@dataclass(slots=True)
class MoveRecords:
    """The plans that are carried out, and what became of others."""

    #: By id, in the order in which they were accepted; one that failed while pods return.
    plans: dict[str, LivePlan] = field(default_factory=dict)
    #: By id, the last ones.
    ended: dict[str, EndedPlan] = field(default_factory=dict)
    #: Lately: automatic moves have limits.
    moved: list[MovedJob] = field(default_factory=list)
    counts: MoveCounts = field(default_factory=MoveCounts)


def place_of(pod: PlannedPod) -> PlannedPlace:
    return PlannedPlace(pod.name.rpartition("/")[2], pod.node, mask_of(pod.chips))


# -- the next leader (F1) ---------------------------------------------------------------------------------


def plain_live(live: LivePlan) -> dict[str, Any]:
    return {
        "plan": plain_plan(live.plan),
        "since": live.since,
        "resource": live.resource,
        "lastGone": live.last_gone,
        "failed": live.failed,
        "roomLoads": {node: plain_load(load) for node, load in live.room_loads.items()},
        "jobs": [
            {
                "owner": job.owner,
                "job": job.job,
                "resource": job.resource,
                "podsOwner": job.pods_owner,
                "pods": {uid: [plain_load(pod.load), pod.gone] for uid, pod in job.pods.items()},
            }
            for job in live.jobs
        ],
    }


def most_bytes(plan: MovePlan, loads: Mapping[str, Load]) -> int:
    """At most what the plan needs in the record once it is accepted; `loads` by the uids of its pods."""
    room = [[pod.node, plain_load(loads[pod.uid])] for pod in plan.room]
    moves = [
        [move.job, move.job, [[pod.uid, plain_load(loads[pod.uid]), False] for pod in move.pods]]
        for move in plan.moves
    ]
    text = compact([plain_plan(plan), room, moves])
    return len(text.encode()) + _UNKNOWN * (1 + len(moves))


def read_live(given: Mapping[str, Any]) -> LivePlan:
    """Raises KeyError, TypeError, ValueError or AttributeError for what cannot be read."""
    plan = read_plan(given["plan"])
    last_gone = given["lastGone"]
    live = LivePlan(plan, int(given["since"]), str(given["resource"]))
    live.last_gone = None if last_gone is None else int(last_gone)
    live.failed = str(given["failed"])
    live.room_loads = {str(node): read_load(load) for node, load in given["roomLoads"].items()}
    places = {
        target.uid: (place_of(target), place_of(old))
        for move in plan.moves
        for target, old in zip(move.pods, move.old, strict=True)
    }
    for one in given["jobs"]:
        job = MovingJob(str(one["owner"]), str(one["job"]), str(one["resource"]), str(one["podsOwner"]))
        for uid, (load, gone) in one["pods"].items():
            job.pods[str(uid)] = MovingPod(*places[uid], read_load(load), bool(gone))
        live.jobs.append(job)
    return live


def plain_ended(ended: EndedPlan) -> dict[str, Any]:
    return {
        "id": ended.id,
        "job": ended.job,
        "moved": list(ended.moved),
        "outcome": ended.outcome,
        "why": ended.why,
        "at": ended.at,
        "name": ended.name,
        "movedNames": list(ended.moved_names),
    }


def read_ended(given: Mapping[str, Any]) -> EndedPlan:
    return EndedPlan(
        str(given["id"]),
        str(given["job"]),
        tuple(map(str, given["moved"])),
        str(given["outcome"]),
        str(given["why"]),
        int(given["at"]),
        str(given["name"]),
        tuple(map(str, given["movedNames"])),
    )
