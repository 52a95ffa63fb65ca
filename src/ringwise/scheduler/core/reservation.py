"""No job starves: for a job that has waited long, what it will need is reserved.

The chips, cpu, memory and other resources are those it would get first if running jobs ended in
the order in which they are expected to (jobs without an expected duration come last, oldest
first); of all that is free by then, what comes free last. From then on smaller jobs pass it only
where they do not delay it: on what is left, or on what is reserved if their expected end is before
the job is to start (backfill). One job per queue at a time, the first in its order; a job that
would not fit into the empty cluster gets none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from heapq import heapify, heappop, heappush
from operator import attrgetter

from ringwise.framework.budget import TooCostly
from ringwise.framework.evictions.cool_down import set_aside
from ringwise.framework.evictions.eviction import awaited_pods
from ringwise.framework.gangs.gang_placement import (
    has_pending_pods,
    missing_pods,
    pending_pods,
    place_gang,
)
from ringwise.framework.job import Job
from ringwise.framework.limits import waits_for_limit
from ringwise.framework.queue_discipline import job_ahead
from ringwise.framework.reasons import gave_nodes_back
from ringwise.framework.session import Session
from ringwise.framework.statement import Allocation, Eviction, chips_by_node, loads_by_node
from ringwise.reasons import Stage, Trigger
from ringwise.records import dataclass
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.job_book import JobBook
from ringwise.scheduler.cache.pending_queue import PendingQueue
from ringwise.scheduler.cache.sessions import ActiveConfiguration
from ringwise.scheduler.component import Component, Handlers
from ringwise.state.cluster import ClusterState
from ringwise.state.fleet import HOSTS
from ringwise.state.loads import Load
from ringwise.state.model import Node
from ringwise.state.node_health import NodeStatus
from ringwise.state.reservations import Reservation, Reservations

WHY = "waited long"
_SECOND = 1_000_000_000
#: Triggers that change which resources exist, and so whether a job fits into the empty cluster.
INVENTORY = frozenset(
    {
        Trigger.NODE_ADDED,
        Trigger.NODE_CHANGED,
        Trigger.HEALTH_CHANGED,
        Trigger.TOPOLOGY_CHANGED,
        Trigger.CONFIGURATION_CHANGED,
        Trigger.QUEUE_CHANGED,
        Trigger.VOLUME_CHANGED,
    }
)


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that holds resources now, and when it is expected to end; None: not known."""

    job: Job
    end: int | None
    started: int

    @property
    def order(self) -> tuple[bool, int, int, str]:
        return self.end is None, self.end or 0, self.started, self.job.key


class ReservationExpiry(Component):
    """Reservations have an end."""

    name = "reservations"

    def __init__(self, reservations: Reservations, triggers: set[Trigger]) -> None:
        self._reservations = reservations
        self._triggers = triggers

    def deadline(self) -> int | None:
        times = (reservation.expires for reservation in self._reservations)
        return min((time for time in times if time is not None), default=None)

    def review(self, now: int) -> None:
        for reservation in self._reservations.expired(now):
            self._reservations.lift(reservation.owner)
            self._triggers.add(Trigger.CHIPS_FREED)


class StarvationGuard(Component):
    name = "starvation guard"

    def __init__(
        self,
        state: ClusterState,
        book: JobBook,
        configuration: ActiveConfiguration,
        pending: PendingQueue,
        triggers: set[Trigger],
    ) -> None:
        self._state = state
        self._book = book
        self._configuration = configuration
        self._pending = pending
        self._triggers = triggers
        #: (waiting since, job), for those that have not waited long enough yet.
        self._waiting: list[tuple[int, str]] = []
        self._noted: dict[str, int] = {}
        #: Jobs that have waited long enough, in the order in which they did.
        self._due: dict[str, None] = {}
        #: Jobs that would not fit into the empty cluster, and when to try again.
        self._too_large: dict[str, int] = {}
        self._recheck = False

    # -- time ------------------------------------------------------------------------------

    def hears(self) -> Handlers:
        return {ie.JobSettled: self._note, ie.JobGone: self._forget}

    def _note(self, event: ie.JobSettled, now: int) -> None:
        """The job became pending, or is not pending any more."""
        job = event.job
        since = job.waiting_since
        if since is None:
            self._noted.pop(job.key, None)
            self._due.pop(job.key, None)
        elif self._noted.get(job.key) != since:
            self._noted[job.key] = since
            self._due.pop(job.key, None)
            heappush(self._waiting, (since, job.key))

    def _forget(self, event: ie.JobGone, now: int) -> None:
        key = event.job.key
        self._noted.pop(key, None)
        self._due.pop(key, None)
        self._too_large.pop(key, None)

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
        return None if first is None else first[0] + self._limit

    @property
    def _limit(self) -> int:
        return self._configuration.settings.reservation_after * _SECOND

    def review(self, now: int) -> None:
        """Activate jobs whose wait has reached the limit."""
        if self._triggers & INVENTORY:
            self._too_large.clear()
            self._recheck = True
        while (first := self._first()) is not None and first[0] + self._limit <= now:
            heappop(self._waiting)
            self._due[first[1]] = None
            self._pending.activate(first[1])

    # -- reserving -----------------------------------------------------------------------------

    def reserve(self, session: Session) -> bool:
        """Called at the end of a cycle. True when reservations were lifted, so that others may fit."""
        lifted = self._lift_unneeded(session)
        if not self._due:
            return lifted
        served = {
            session.jobs[reservation.owner].queue
            for reservation in session.reservations
            if reservation.why == WHY and reservation.owner in session.jobs
        }
        queues: dict[str, list[Job]] = {}
        for key in self._due:
            job = session.jobs.get(key)
            if job is not None and job.queue not in served and self._is_eligible(session, job):
                queues.setdefault(job.queue, []).append(job)
        for name in sorted(queues, key=lambda name: session.queue_key(session.queues[name])):
            # Thousands may have waited long, and one of the first is taken: the others need no order.
            waiting = [(session.job_key(job), job) for job in queues[name]]
            heapify(waiting)
            while waiting:
                job = heappop(waiting)[1]
                if self._may_reserve_for(session, job):
                    break
                self._too_large[job.key] = session.now + self._limit
        return lifted

    def _is_eligible(self, session: Session, job: Job) -> bool:
        if job.queue not in session.queues or session.reservations.of(job.key) is not None:
            return False
        if job.defects or self._too_large.get(job.key, 0) > session.now:
            return False
        if job_ahead(session, job) is not None:
            # In strict order it starts after that one, which would wait for what is kept for it.
            return False
        if waits_for_limit(job.reason) or job.key in session.limits.may_burst:
            return False
        if gave_nodes_back(job.reason):
            return False
        return job.reason is None or job.reason.kind.stage is not Stage.VALIDATE

    def _lift_unneeded(self, session: Session) -> bool:
        """Lift reservations on what is faulty or did not suffice, and those whose owner does not wait."""
        lifted = False
        for reservation in list(session.reservations):
            if reservation.why != WHY or self._still_wanted(session, reservation):
                continue
            lifted = True
            session.reservations.lift(reservation.owner)
        self._recheck = False
        return lifted

    def _still_wanted(self, session: Session, reservation: Reservation) -> bool:
        job = session.jobs.get(reservation.owner)
        if job is None or job.waiting_since is None or self._book.refusal(job) is not None:
            return False
        if not has_pending_pods(session, job) or (self._recheck and not self._is_sound(reservation)):
            return False
        if job_ahead(session, job) is not None or waits_for_limit(job.reason) or gave_nodes_back(job.reason):
            return False
        return not self._missed(session, job, reservation)

    def _missed(self, session: Session, job: Job, reservation: Reservation) -> bool:
        """Whether all pods it waited for are gone, and the job was tried and still did not fit."""
        if not reservation.awaited or not any(job is tried for tried in session.pending):
            return False
        return not awaited_pods(self._state, reservation)

    def _is_sound(self, reservation: Reservation) -> bool:
        fleet = self._state.fleets[reservation.resource]
        for number in reservation.nodes:
            node = self._state.nodes[number]
            good = fleet.listed[number] & ~fleet.unhealthy[number] & ~fleet.recovering[number]
            good &= ~fleet.isolated[number] & ~fleet.pre_separated[number]
            if node is None or not node.ready or node.unschedulable or number in self._state.isolated_nodes:
                return False
            if self._state.node_status.get(number, NodeStatus.HEALTHY) >= NodeStatus.PRE_SEPARATE:
                return False
            if reservation.chips.get(number, 0) & ~good or not _holds(node, reservation.loads.get(number)):
                return False
        return True

    def _may_reserve_for(self, session: Session, job: Job) -> bool:
        try:
            session.budget.begin(job.namespace, len(job.pods))
            return self._reserve_for(session, job)
        except TooCostly:
            # It was tried in its own right, and has its reason.
            return False

    def _reserve_for(self, session: Session, job: Job) -> bool:
        """Reserve for the job, or admit it so that its pods are created. False if it would not fit."""
        if session.job_valid(job) is not None:
            return False
        is_admitted = job.inqueue or "enqueue" not in session.configuration.actions
        if is_admitted and not _needs_nodes(session, job):
            # Most were placed in this very cycle; all running jobs need not be read for them.
            return False
        runs = self._running(session)
        if not is_admitted:
            if not self._admitted(session, job, runs):
                return False
            job.inqueue = True
            job.reason = None
            if not job.pods:
                return True
            if not _needs_nodes(session, job):
                return False
        ended = self._earliest(session, job, runs)
        if ended is None:
            return False
        needed, allocations = self._latest(session, job, runs[:ended])
        ends = [run.end for run in needed]
        known = [end for end in ends if end is not None]
        session.reservations.make(
            Reservation(
                owner=job.key,
                resource=job.policy.resource if job.policy is not None else HOSTS,
                chips=chips_by_node(allocations),
                loads=(loads := loads_by_node(allocations)),
                awaited=self._awaited(needed, loads, job),
                starts=max(known) if known and len(known) == len(ends) else None,
                why=WHY,
            )
        )
        return True

    def _awaited(self, runs: Sequence[RunningJob], nodes: Collection[int], owner: Job) -> frozenset[str]:
        """The pods on these nodes that end before the owner starts."""
        placements = self._state.pods
        return frozenset(
            uid
            for run in runs
            if run.job is not owner
            for uid in run.job.pods
            if placements[uid].node in nodes
        )

    def _running(self, session: Session) -> list[RunningJob]:
        """The jobs that have nodes, in the order in which they are expected to end."""
        placements = session.state.pods
        runs: list[RunningJob] = []
        for job in session.jobs.values():
            # None: no pod of it has a node. One that stays settles it, and most jobs have only such pods.
            ends: bool | None = None
            started = job.created if job.started is None else job.started
            for uid, pod in job.pods.items():
                if placements[uid].node >= 0:
                    if placements[uid].reserved and job.started is None:
                        # It waits for its claims, and begins now at the soonest.
                        started = session.now
                    ends = pod.deleting
                    if not ends:
                        break
            if ends is None:
                continue
            if ends:
                runs.append(RunningJob(job, session.now, started))
            elif job.expected is None:
                runs.append(RunningJob(job, None, started))
            else:
                runs.append(RunningJob(job, max(session.now, started + job.expected), started))
        runs.sort(key=attrgetter("order"))
        return runs

    def _admitted(self, session: Session, job: Job, runs: Sequence[RunningJob]) -> bool:
        statement = session.statement()
        try:
            self._end(session, runs, statement.evict, job)
            return session.job_enqueueable(job)[0]
        finally:
            statement.discard()

    def _earliest(self, session: Session, job: Job, runs: Sequence[RunningJob]) -> int | None:
        """How many of the jobs must end before it fits: doubling, then bisection."""
        low, high, step, fits = 0, len(runs), 1, False
        while not fits and low < high:
            step = min(step, high)
            fits = self._after(session, job, runs[:step]) is not None
            low, high, step = (low, step, step) if fits else (step, high, step * 2)
        if not fits:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            if self._after(session, job, runs[:middle]) is None:
                low = middle
            else:
                high = middle
        return high

    def _latest(
        self, session: Session, job: Job, runs: Sequence[RunningJob]
    ) -> tuple[Sequence[RunningJob], list[Allocation]]:
        """What comes free last of all that comes free before the job fits, and what it is allocated there.

        It starts when the last of them has ended, wherever it is placed. What is kept for it on chips that
        are free long before is of no use to anybody until then.
        """
        allocations = self._after(session, job, runs)
        assert allocations is not None
        low, high = 0, len(runs)
        while high - low > 1:
            middle = (low + high) // 2
            found = self._after(session, job, runs[middle:])
            if found is None:
                high = middle
            else:
                low, allocations = middle, found
        needed = runs[low:]
        if (free := self._free_besides(session, job, needed)) and (
            found := self._after(session, job, needed, free)
        ) is not None:
            allocations = found
        return needed, allocations

    def _free_besides(self, session: Session, job: Job, runs: Sequence[RunningJob]) -> dict[int, int]:
        """Node to free chips, where a pod of the job would fit now and none of these runs."""
        chips = min((pod.cls.chips for pod in pending_pods(session, job) if pod.cls.chips), default=0)
        if not chips or job.policy is None:
            return {}
        placements = session.state.pods
        theirs = {placements[uid].node for run in runs for uid in run.job.pods}
        masks = session.state.fleets[job.policy.resource].free_mask
        return {
            node: mask for node, mask in enumerate(masks) if mask.bit_count() >= chips and node not in theirs
        }

    def _after(
        self,
        session: Session,
        job: Job,
        runs: Sequence[RunningJob],
        besides: Mapping[int, int] | None = None,
    ) -> list[Allocation] | None:
        """What the job is allocated when these have ended; None if it does not fit even then.

        `besides`: without these chips (by node).
        """
        plan = session.plans.get(job.key)
        statement = session.statement()
        try:
            self._end(session, runs, statement.evict, job)
            with set_aside(session, job, dict(besides)) if besides else nullcontext():
                if session.overused(session.queues[job.queue]):
                    return None
                if place_gang(session, job, statement) is not None:
                    return None
                return list(statement.allocations)
        finally:
            statement.discard()
            session.plans.pop(job.key, None)
            if plan is not None:
                session.plans[job.key] = plan

    @staticmethod
    def _end(
        session: Session, runs: Sequence[RunningJob], evict: Callable[[Eviction], None], owner: Job
    ) -> None:
        for run in runs:
            if run.job is owner:
                continue
            for uid, pod in run.job.pods.items():
                if session.state.pods[uid].node >= 0:
                    evict(Eviction(run.job, pod, "", owner))


def _holds(node: Node, load: Load | None) -> bool:
    """Whether the node, if it were empty, would hold this; an amount of 0 is no limit (see `predicates`)."""
    if load is None:
        return True
    extended = dict(node.extended)
    return (
        (not node.cpu_milli or load.cpu_milli <= node.cpu_milli)
        and (not node.memory or load.memory <= node.memory)
        and (not node.max_pods or load.pods <= node.max_pods)
        and all(amount <= extended.get(name, 0) for name, amount in load.extended)
    )


def _needs_nodes(session: Session, job: Job) -> bool:
    """Whether pods of it wait that it cannot do without."""
    return has_pending_pods(session, job) and bool(missing_pods(session, job))
