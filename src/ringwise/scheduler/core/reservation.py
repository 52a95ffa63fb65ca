"""Nothing starves: a job that has waited long gets the chips it will need kept for it.

The chips are those it would get first if running jobs ended in the order in which they
are expected to (those that say nothing come last, oldest first). From then on smaller
jobs pass it only where they do not delay it: beside the kept chips, or on them when they
say that they end before the job is to start. One job per queue at a time, the first in
its order; a job without chips, or one that would not fit into the emptied cluster, gets none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from ringwise.framework.eviction import chips_by_node
from ringwise.framework.gang_placement import fill, missing_pods, pending_pods
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.framework.statement import Allocation, Eviction
from ringwise.reasons import Stage, Trigger
from ringwise.state.reservations import Reservation

if TYPE_CHECKING:
    from ringwise.scheduler.core.machine import Scheduler

WHY = "waited long"
_SECOND = 1_000_000_000
#: What changes which chips there are at all, and so what a long wait can hope for.
_INVENTORY = frozenset(
    {
        Trigger.NODE_ADDED,
        Trigger.NODE_CHANGED,
        Trigger.HEALTH_CHANGED,
        Trigger.TOPOLOGY_CHANGED,
        Trigger.CONFIGURATION_CHANGED,
        Trigger.QUEUE_CHANGED,
    }
)


@dataclass(frozen=True, slots=True)
class Run:
    """A job that holds chips now, and when they are expected back; None: nobody knows."""

    job: Job
    end: int | None
    started: int

    @property
    def order(self) -> tuple[bool, int, int, str]:
        return self.end is None, self.end or 0, self.started, self.job.key


class Guard:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        #: (waiting since, job), for those that have not waited long enough yet.
        self._waiting: list[tuple[int, str]] = []
        self._noted: dict[str, int] = {}
        #: Jobs that have waited long enough, in the order in which they did.
        self._due: dict[str, None] = {}
        #: Jobs that would not fit whatever ended, and when to look again.
        self._hopeless: dict[str, int] = {}
        self._recheck = False

    # -- time ------------------------------------------------------------------------------

    def note(self, job: Job) -> None:
        """The job waits, or does not any more."""
        since = job.waiting_since
        if since is None:
            self._noted.pop(job.key, None)
            self._due.pop(job.key, None)
        elif self._noted.get(job.key) != since:
            self._noted[job.key] = since
            self._due.pop(job.key, None)
            heappush(self._waiting, (since, job.key))

    def forget(self, key: str) -> None:
        self._noted.pop(key, None)
        self._due.pop(key, None)
        self._hopeless.pop(key, None)

    def _first(self) -> tuple[int, str] | None:
        while self._waiting:
            since, key = self._waiting[0]
            if self._noted.get(key) == since:
                return since, key
            heappop(self._waiting)
        return None

    def deadline(self) -> int | None:
        """When the next job will have waited long."""
        first = self._first()
        return None if first is None else first[0] + self._patience

    @property
    def _patience(self) -> int:
        return self._scheduler.configuration.settings.reservation_after * _SECOND

    def wake(self, triggers: set[Trigger], now: int) -> None:
        """Jobs that have waited long from now on are looked at once more."""
        if triggers & _INVENTORY:
            self._hopeless.clear()
            self._recheck = True
        while (first := self._first()) is not None and first[0] + self._patience <= now:
            heappop(self._waiting)
            self._due[first[1]] = None
            self._scheduler.waiting.touch(first[1])

    # -- reserving -----------------------------------------------------------------------------

    def reserve(self, session: Session) -> bool:
        """Called at the end of a cycle. True when chips were given up that others can have."""
        gave_up = self._give_up(session)
        if not self._due:
            return gave_up
        served = {
            session.jobs[reservation.owner].queue
            for reservation in session.reservations
            if reservation.why == WHY and reservation.owner in session.jobs
        }
        lines: dict[str, list[Job]] = {}
        for key in self._due:
            job = session.jobs.get(key)
            if job is not None and job.queue not in served and self._is_eligible(session, job):
                lines.setdefault(job.queue, []).append(job)
        for name in sorted(lines, key=lambda name: session.queue_key(session.queues[name])):
            for job in sorted(lines[name], key=session.job_key):
                if self._serve(session, job):
                    break
                self._hopeless[job.key] = session.now + self._patience
        return gave_up

    def _is_eligible(self, session: Session, job: Job) -> bool:
        if job.queue not in session.queues or session.reservations.of(job.key) is not None:
            return False
        if job.defects or self._hopeless.get(job.key, 0) > session.now:
            return False
        return job.reason is None or job.reason.kind.stage is not Stage.VALIDATE

    def _give_up(self, session: Session) -> bool:
        """Chips that broke, or whose owner does not wait any more, are kept for nobody."""
        gave_up = False
        for reservation in list(session.reservations):
            if reservation.why != WHY or self._still_wanted(session, reservation):
                continue
            gave_up = True
            session.reservations.lift(reservation.owner)
        self._recheck = False
        return gave_up

    def _still_wanted(self, session: Session, reservation: Reservation) -> bool:
        job = session.jobs.get(reservation.owner)
        if job is None or job.waiting_since is None or self._scheduler.refusal(job) is not None:
            return False
        return bool(pending_pods(session, job)) and not (self._recheck and not self._is_sound(reservation))

    def _is_sound(self, reservation: Reservation) -> bool:
        fleet = self._scheduler.state.fleets[reservation.resource]
        nodes = self._scheduler.state.nodes
        for number, mask in reservation.chips.items():
            node = nodes[number]
            good = fleet.listed[number] & ~fleet.unhealthy[number] & ~fleet.recovering[number]
            if node is None or not node.ready or node.unschedulable or mask & ~good:
                return False
        return True

    def _serve(self, session: Session, job: Job) -> bool:
        """Keep chips for the job, or let it in so that its pods are made; False when that is in vain."""
        if session.job_valid(job) is not None or job.policy is None:
            return False
        runs = self._runs(session, job.policy.resource)
        if "enqueue" in session.configuration.actions and not job.inqueue:
            if not self._admitted(session, job, runs):
                return False
            job.inqueue = True
            job.reason = None
            if not job.pods:
                return True
        if not pending_pods(session, job) or not missing_pods(session, job):
            return False
        found = self._earliest(session, job, runs)
        if found is None:
            return False
        ended, allocations = found
        ends = [run.end for run in runs[:ended]]
        known = [end for end in ends if end is not None]
        session.reservations.make(
            Reservation(
                owner=job.key,
                resource=job.policy.resource,
                chips=chips_by_node(allocations),
                starts=max(known) if known and len(known) == len(ends) else None,
                why=WHY,
            )
        )
        return True

    def _runs(self, session: Session, resource: str) -> list[Run]:
        """Who holds chips of this resource, in the order in which they are expected back."""
        placements = session.state.pods
        runs: list[Run] = []
        for job in session.jobs.values():
            holding = [
                pod
                for uid, pod in job.pods.items()
                if pod.cls.resource == resource and placements[uid].node >= 0
            ]
            if not holding:
                continue
            started = job.started if job.started is not None else job.created
            if all(pod.deleting for pod in holding):
                runs.append(Run(job, session.now, started))
            elif job.expected is None:
                runs.append(Run(job, None, started))
            else:
                runs.append(Run(job, max(session.now, started + job.expected), started))
        runs.sort(key=lambda run: run.order)
        return runs

    def _admitted(self, session: Session, job: Job, runs: Sequence[Run]) -> bool:
        statement = session.statement()
        try:
            self._end(session, runs, statement.evict, job)
            return session.job_enqueueable(job)[0]
        finally:
            statement.discard()

    def _earliest(
        self, session: Session, job: Job, runs: Sequence[Run]
    ) -> tuple[int, list[Allocation]] | None:
        """How many of the runs must have ended, and the places the job gets then: doubling, then halving."""
        low, high, step = 0, len(runs), 1
        found: list[Allocation] | None = None
        while found is None and low < high:
            step = min(step, high)
            found = self._after(session, job, runs[:step])
            low, high, step = (low, step, step) if found is not None else (step, high, step * 2)
        if found is None:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            again = self._after(session, job, runs[:middle])
            if again is None:
                low = middle
            else:
                high, found = middle, again
        return high, found

    def _after(self, session: Session, job: Job, runs: Sequence[Run]) -> list[Allocation] | None:
        """The places the job gets when these have ended; None when it does not fit even then."""
        plan = session.plans.get(job.key)
        statement = session.statement()
        try:
            self._end(session, runs, statement.evict, job)
            if session.overused(session.queues[job.queue]) or fill(session, job, statement) is not None:
                return None
            return list(statement.allocations)
        finally:
            statement.discard()
            session.plans.pop(job.key, None)
            if plan is not None:
                session.plans[job.key] = plan

    @staticmethod
    def _end(session: Session, runs: Sequence[Run], evict: Callable[[Eviction], None], owner: Job) -> None:
        for run in runs:
            if run.job is owner:
                continue
            for uid, pod in run.job.pods.items():
                if session.state.pods[uid].node >= 0:
                    evict(Eviction(run.job, pod, "", owner))
