"""Where the pods of a job sat before they were lost, while the job goes on.

Jobs that are placed as a whole (leaf switches, SuperPoDs) are always remembered: their
replacements have to go back close to their peers. Until the job is complete again the
chips of its healthy seats are held for it, with a limit. A vcjob that starts over keeps
its memory, whatever its PodGroup is called. After a restart of the scheduler the
annotations of the surviving pods tell where those are; seats of pods that were lost
before the restart, and the holds on them, are not known any more.

Plain jobs are remembered too where `prefer-previous-node` asks for it, without any hold:
see `previous_nodes`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ringwise.framework.job import Job, PreviousNode
from ringwise.framework.ranks import ranks_of
from ringwise.messages.job_expansion import group_name
from ringwise.placement.superpods.reschedule import WAIT_SECONDS
from ringwise.placement.switches.classes import asks_for_switches
from ringwise.scheduler.faults.previous_nodes import PreviousNodes
from ringwise.state.model import Pod
from ringwise.state.reservations import Reservation
from ringwise.state.vcjob import VcJob
from ringwise.wellknown import (
    IS_HEALTHY,
    IS_SHARED_TOR,
    SHARED_TOR_IP,
    SP_BLOCK,
    SUPER_POD_ID,
    SUPER_POD_RANK,
    TOR_AFFINITY,
)

if TYPE_CHECKING:
    from ringwise.scheduler.core.machine import Scheduler

WHY = "being rescheduled"
_SECOND = 1_000_000_000
_KEPT_ANNOTATIONS = (IS_SHARED_TOR, IS_HEALTHY, SHARED_TOR_IP, SUPER_POD_RANK, SUPER_POD_ID)


@dataclass(frozen=True, slots=True)
class Sitting:
    """A pod on its chips, noted before an event that may end it."""

    job: Job
    pod: Pod
    node: int
    chips: int
    rank: int


@dataclass(slots=True)
class Remembered:
    job: str
    resource: str
    seats: dict[int, PreviousNode] = field(default_factory=dict)
    #: rank -> (node id, chips)
    chips: dict[int, tuple[int, int]] = field(default_factory=dict)
    until: int = 0
    #: A SuperPoD job waits so long for its own nodes before it takes others.
    patience_ends: int | None = None
    stale: bool = True


class Memory:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._remembered: dict[str, Remembered] = {}
        #: Jobs whose vcjob is gone while pods of them are still leaving.
        self._ended: set[str] = set()
        self.previous = PreviousNodes()

    def __len__(self) -> int:
        return len(self._remembered)

    # -- losing ------------------------------------------------------------------------------

    def sitting(self, uid: str) -> Sitting | None:
        """The pod's seat, if it is one that would have to be remembered."""
        placement = self._scheduler.state.pods.get(uid)
        if placement is None or placement.node < 0 or not placement.chips:
            return None
        job = self._scheduler.book.job_of(uid)
        pod = placement.pod
        if job is None or not (_placed_as_a_whole(job) or self._wants_back(pod)):
            return None
        rank = pod.rank if pod.rank is not None else ranks_of(job)[uid]
        return Sitting(job, pod, placement.node, placement.chips, rank)

    def _wants_back(self, pod: Pod) -> bool:
        wished = self._scheduler.configuration.settings.prefer_previous_node
        return wished and pod.owner is not None and bool(pod.owner.uid)

    def lost(self, sitting: Sitting, now: int, *, failed: bool = False) -> None:
        """The pod is gone or failed. Worth remembering only while its job goes on."""
        if not self._goes_on(sitting.job, sitting.pod):
            return
        if not _placed_as_a_whole(sitting.job):
            self._lost_plain(sitting, now, failed)
            return
        owner = _owner(sitting.job, sitting.pod)
        kept = self._remembered.get(owner)
        if kept is None:
            kept = Remembered(sitting.job.key, sitting.pod.cls.resource or "")
            self._remembered[owner] = kept
        names = self._scheduler.state.names
        annotations = {
            key: sitting.pod.annotations[key] for key in _KEPT_ANNOTATIONS if key in sitting.pod.annotations
        }
        kept.seats[sitting.rank] = PreviousNode(names[sitting.node], annotations, False, now)
        kept.chips[sitting.rank] = (sitting.node, sitting.chips)
        settings = self._scheduler.configuration.settings
        kept.until = now + settings.hold_healthy_nodes * _SECOND
        kept.patience_ends = now + WAIT_SECONDS * _SECOND + 1
        kept.stale = True
        sitting.job.previous_nodes = kept.seats

    def _lost_plain(self, sitting: Sitting, now: int, failed: bool) -> None:
        owner = sitting.pod.owner
        if owner is not None:
            resource = sitting.pod.cls.resource or ""
            faulty = failed or self._is_broken(resource, sitting.node, sitting.chips)
            seat = PreviousNode(self._scheduler.state.names[sitting.node], faulty=faulty, lost=now)
            self.previous.lost(owner.uid, sitting.job, sitting.rank, seat)

    def _goes_on(self, job: Job, pod: Pod) -> bool:
        if job.key in self._ended:
            return False
        if pod.owner is not None and pod.owner.kind == "Job":
            vcjob = self._scheduler.book.vcjobs.get(f"{pod.namespace}/{pod.owner.name}")
            if vcjob is not None:
                return not vcjob.over
        return job.group is not None or not _placed_as_a_whole(job)

    # -- coming back --------------------------------------------------------------------------

    def attach(self, job: Job) -> None:
        """The job was seen: it gets back what is remembered about its owner."""
        self.previous.attach(job)
        if not self._remembered or job.previous_nodes:
            return
        kept = self._remembered.get(_owner(job, next(iter(job.pods.values()), None)))
        if kept is not None:
            if kept.job != job.key:
                self._lift(kept.job)
                kept.job = job.key
            kept.stale = True
            job.previous_nodes = kept.seats

    def forget(self, owner: str) -> None:
        self.previous.forget(owner)
        kept = self._remembered.pop(owner, None)
        if kept is None:
            return
        self._lift(kept.job)
        job = self._scheduler.book.jobs.get(kept.job)
        if job is not None:
            job.previous_nodes = {}

    def vcjob_gone(self, vcjob: VcJob) -> None:
        """Nobody will bring its pods back."""
        self.forget(vcjob.uid)
        for name in (group_name(vcjob), vcjob.name):
            key = f"{vcjob.namespace}/{name}"
            if key in self._scheduler.book.jobs:
                self._ended.add(key)

    def keeps(self, job: Job) -> bool:
        """Asked when the last of the job is gone: whether its chips are held until it comes back."""
        self._ended.discard(job.key)
        return any(kept.job == job.key for kept in self._remembered.values())

    def _lift(self, job: str) -> None:
        reservations = self._scheduler.reservations
        reservation = reservations.of(job)
        if reservation is not None and reservation.why == WHY:
            reservations.lift(job)
            self._scheduler.chips_came_free()

    # -- time and holds -------------------------------------------------------------------------

    def deadline(self) -> int | None:
        times = [kept.until for kept in self._remembered.values()]
        times += [kept.patience_ends for kept in self._remembered.values() if kept.patience_ends is not None]
        return min(times, default=None)

    def review(self, now: int) -> None:
        """Before a cycle: forget what is too old, see which seats broke, hold the others."""
        self.previous.forget_old(now)
        for owner, kept in list(self._remembered.items()):
            if kept.until <= now:
                self.forget(owner)
                self._scheduler.waiting.touch(kept.job)
                continue
            if kept.patience_ends is not None and kept.patience_ends <= now:
                kept.patience_ends = None
                self._scheduler.waiting.touch(kept.job)
            for rank, seat in kept.seats.items():
                if not seat.faulty and self._is_broken(kept.resource, *kept.chips[rank]):
                    kept.seats[rank] = replace(seat, faulty=True)
                    kept.stale = True
            if kept.stale:
                self._hold(kept)

    def settle(self, job: Job) -> None:
        """After a cycle: a job that is complete again needs no memory, any other keeps its holds."""
        taken = self._taken_ranks(job)
        self.previous.settle(job, taken)
        for owner, kept in list(self._remembered.items()):
            if kept.job != job.key:
                continue
            if all(rank in taken for rank in kept.seats):
                self.forget(owner)
            else:
                self._hold(kept, taken)

    def _taken_ranks(self, job: Job) -> set[int]:
        placements = self._scheduler.state.pods
        return {
            rank for uid, rank in ranks_of(job).items() if uid in placements and placements[uid].node >= 0
        }

    def _is_broken(self, resource: str, number: int, mask: int) -> bool:
        state = self._scheduler.state
        node = state.nodes[number]
        fleet = state.fleets[resource]
        bad = fleet.unhealthy[number] | fleet.recovering[number] | max(0, fleet.network[number])
        return node is None or not node.ready or bool(mask & bad)

    def _hold(self, kept: Remembered, taken: set[int] | None = None) -> None:
        kept.stale = False
        reservations = self._scheduler.reservations
        before = reservations.of(kept.job)
        if before is not None and before.why != WHY:
            return
        if taken is None:
            job = self._scheduler.book.jobs.get(kept.job)
            taken = set() if job is None else self._taken_ranks(job)
        chips: dict[int, int] = {}
        for rank, (node, mask) in kept.chips.items():
            if rank not in taken and not kept.seats[rank].faulty:
                chips[node] = chips.get(node, 0) | mask
        if before is not None:
            reservations.lift(kept.job)
            if before.chips.keys() - chips.keys():
                self._scheduler.chips_came_free()
        if chips:
            reservations.make(Reservation(kept.job, kept.resource, chips, expires=kept.until, why=WHY))


def _placed_as_a_whole(job: Job) -> bool:
    return asks_for_switches(job.labels.get(TOR_AFFINITY)) or SP_BLOCK in job.annotations


def _owner(job: Job, pod: Pod | None) -> str:
    """A vcjob is itself whatever its PodGroup is called; everything else goes by its group."""
    for owner in (job.group.owner if job.group is not None else None, pod.owner if pod is not None else None):
        if owner is not None and owner.kind == "Job" and owner.uid:
            return owner.uid
    return job.key
