"""No job starves: for a job that has waited long, what it will need is reserved.

The chips, cpu, memory and other resources are those it would get first if running jobs ended in
the order in which they are expected to (jobs without an expected duration, and those that exceed
theirs, come last, oldest first); of all that is free by then, what comes free last. From then on
smaller jobs pass it only where they do not delay it: on what is left, or on what is reserved if
their expected end is before the job is to start (backfill). One job per queue at a time, the first
in its order; a job that would not fit into the empty cluster gets none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from heapq import heapify, heappop
from itertools import chain, islice, zip_longest
from typing import Any

from ringwise.durations import SECOND, earliest
from ringwise.framework.budget import NamespaceSteps, TooCostly
from ringwise.framework.evictions.eviction import awaited_pods
from ringwise.framework.evictions.recently_faulty_chips import chips_excluded, withheld_chips
from ringwise.framework.gangs.gang_placement import (
    has_pending_pods,
    missing_pods,
    pending_pods,
    place_gang,
)
from ringwise.framework.job import Job
from ringwise.framework.limits import waits_for_limit
from ringwise.framework.node_selection import NodeSelection
from ringwise.framework.queue_discipline import job_ahead
from ringwise.framework.reasons import gave_nodes_back
from ringwise.framework.session import Session
from ringwise.framework.statement import Allocation, Eviction, Statement, chips_by_node, loads_by_node
from ringwise.framework.trials import fewest, nearest, trial
from ringwise.reasons import Stage, Trigger
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on_job
from ringwise.scheduler.cache.deadlines import Deadlines
from ringwise.scheduler.cache.running_jobs import JobRun, running_jobs
from ringwise.state.fleet import HOSTS
from ringwise.state.reservations import Reservation

WHY = "waited long"
#: To suppose that a running pod has ended, and to restore it, costs as much as so many steps; and so does an
#: attempt to place a job, besides the steps that it counts itself.
ENDED_STEPS, TRIED_STEPS = 200, 2_000
#: All attempts share what may be spent on them.
_ALL = ""
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


class ReservationExpiry(Component):
    """Reservations have an end."""

    name = "reservations"

    def deadline(self) -> int | None:
        return earliest(*(reservation.expires for reservation in self._reservations))

    def review(self, now: int) -> None:
        for reservation in self._reservations.expired(now):
            self._reservations.lift(reservation.owner)
            self._triggers.add(Trigger.CHIPS_FREED)


class StarvationGuard(Component):
    name = "starvation guard"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: Since when jobs wait; those that have not waited long enough yet also in the second table.
        self._noted: dict[str, int] = context.job_tables.add({})
        self._waiting = context.job_tables.add(Deadlines())
        #: Jobs that have waited long enough, in the order in which they did.
        self._due: dict[str, None] = context.job_tables.add({})
        #: Jobs that would not fit into the empty cluster, and when to try again.
        self._too_large = context.job_tables.add(Deadlines())
        self._recheck = False
        #: What may be spent on such attempts, what this cycle has spent, and when jobs are tried for which
        #: nothing was left.
        self._steps = NamespaceSteps()
        self._spent = 0
        self._resumes: int | None = None

    # -- time ------------------------------------------------------------------------------

    @on_job(ie.JobSettled)
    def _note(self, job: Job, now: int) -> None:
        """The job became pending, or is no longer pending."""
        since = job.waiting_since
        if since is None:
            self._drop(job.key)
        elif self._noted.get(job.key) != since:
            self._drop(job.key)
            self._noted[job.key] = since
            self._waiting.put(job.key, since)

    def _drop(self, key: str) -> None:
        self._noted.pop(key, None)
        self._waiting.pop(key)
        self._due.pop(key, None)
        self._too_large.pop(key)

    def deadline(self) -> int | None:
        """When the next job will have waited long, or the next of those is tried."""
        first = self._waiting.first()
        return earliest(None if first is None else first + self._limit, self._resumes)

    @property
    def _limit(self) -> int:
        return self._configuration.settings.reservation_after * SECOND

    def review(self, now: int) -> None:
        """Activate jobs whose wait has reached the limit."""
        if self._triggers & INVENTORY:
            self._due.update(dict.fromkeys(self._too_large.take_all()))
            self._recheck = True
        else:
            self._due.update(dict.fromkeys(self._too_large.take(now)))
        due = self._waiting.take(now - self._limit)
        for key in sorted(due, key=lambda key: (self._noted[key], key)):
            self._due[key] = None
            self._job_queue.activate(key)
        if self._resumes is not None and self._resumes <= now:
            self._resumes = None
            # For a cycle.
            self._job_queue.activate(*islice(self._due, 1))

    # -- reserving -----------------------------------------------------------------------------

    def end_cycle(self, session: Session) -> None:
        if not session.may_reserve:
            return
        if self._lift_unneeded(session):
            # Others may fit now.
            self._triggers.add(Trigger.CHIPS_FREED)
        if not self._due:
            return
        self._resumes = self._steps.resumes(_ALL, session.now)
        if self._resumes is not None:
            return
        self._spent = 0
        try:
            self._reserve_for_each_queue(session)
        finally:
            self._steps.take(_ALL, self._spent, session.now)

    def _reserve_for_each_queue(self, session: Session) -> None:
        search = _Search(session, self._count)
        queues = self._candidates(session)
        for name in sorted(queues, key=lambda name: session.queue_key(session.queues[name])):
            # Thousands of jobs may qualify, and one of the first is taken: a heap avoids sorting them all.
            waiting = [(session.job_key(job), job) for job in queues[name]]
            heapify(waiting)
            while (job := self._next_that_fits(session, waiting, search)) is not None:
                if self._is_tried(session, job, lambda job: self._reserve_for(session, job, search)):
                    break

    def _candidates(self, session: Session) -> dict[str, list[Job]]:
        """The jobs that may get a reservation, by queue.

        If there are more than may be tried now, the jobs of each namespace with the oldest attempts, so that
        a namespace with thousands of jobs that fit nowhere does not delay others.
        """
        served = {
            session.jobs[reservation.owner].queue
            for reservation in session.reservations
            if reservation.why == WHY and reservation.owner in session.jobs
        }
        namespaces: dict[str, list[Job]] = {}
        count = 0
        for key in self._due:
            job = session.jobs.get(key)
            if job is not None and job.queue not in served and self._is_eligible(session, job):
                namespaces.setdefault(job.namespace, []).append(job)
                count += 1
        most = max(1, self._steps.left(_ALL, session.now) // TRIED_STEPS)
        if count > most:
            self._resumes = session.now + SECOND
        in_turn = chain.from_iterable(zip_longest(*namespaces.values()))
        result: dict[str, list[Job]] = {}
        for job in islice((job for job in in_turn if job is not None), most):
            if _is_admitted(session, job) and not _needs_nodes(session, job):
                # Most were placed in this very cycle; all running jobs need not be read for them.
                self._put_off(job, session.now + self._limit)
            else:
                result.setdefault(job.queue, []).append(job)
        return result

    def _put_off(self, job: Job, until: int) -> None:
        """Try the job again at that time, or when resources change."""
        self._too_large.put(job.key, until)
        del self._due[job.key]

    def _next_that_fits(
        self, session: Session, waiting: list[tuple[tuple[Any, ...], Job]], search: _Search
    ) -> Job | None:
        """The first of the heap that would fit if all running jobs had ended. Those before it do not.

        They are tried one after the other on one cluster without running jobs, so that thousands cost
        little more than the first. The last of them is not tried here: its own search answers the same.
        """
        if len(waiting) > 1:
            with search.all_ended():
                while len(waiting) > 1:
                    job = heappop(waiting)[1]
                    if not session.may_go_on(job):
                        self._resumes = session.now + SECOND
                        waiting.clear()
                        return None
                    if self._is_tried(session, job, lambda job: self._may_fit(session, job, search)):
                        return job
        return heappop(waiting)[1] if waiting else None

    def _count(self, steps: int) -> None:
        self._spent += steps

    def _is_eligible(self, session: Session, job: Job) -> bool:
        if job.queue not in session.queues or session.reservations.of(job.key) is not None:
            return False
        if job.defects:
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
            if reservation.why == WHY:
                wanted = self._still_wanted(session, reservation)
            else:
                # Nothing is reserved for a job that waits for a limit, also not what it evicts others for.
                owner = session.jobs.get(reservation.owner)
                wanted = not reservation.evicting or owner is None or not waits_for_limit(owner.reason)
            if wanted:
                continue
            lifted = True
            session.reservations.lift(reservation.owner)
        self._recheck = False
        return lifted

    def _still_wanted(self, session: Session, reservation: Reservation) -> bool:
        job = session.jobs.get(reservation.owner)
        if job is None or job.waiting_since is None or self._book.refusal(job) is not None:
            return False
        if not has_pending_pods(session, job):
            return False
        is_sound = not self._recheck or session.reservations.is_sound(reservation)
        if not is_sound or (self._recheck and not _nodes_still_suit(session, job, reservation)):
            return False
        if job_ahead(session, job) is not None or waits_for_limit(job.reason) or gave_nodes_back(job.reason):
            return False
        return not self._missed(session, job, reservation)

    def _missed(self, session: Session, job: Job, reservation: Reservation) -> bool:
        """Whether all pods it waited for are gone, and the job was tried and still did not fit."""
        if not reservation.awaited or not any(job is tried for tried in session.pending):
            return False
        return not awaited_pods(self._state, reservation)

    def _is_tried(self, session: Session, job: Job, attempt: Callable[[Job], bool]) -> bool:
        """Whether the attempt succeeds. If it does not, the job is tried again when resources change."""
        again = session.now + self._limit
        try:
            session.budget.begin(job.namespace, len(job.pods))
            self._count(TRIED_STEPS)
            if attempt(job):
                return True
        except TooCostly as error:
            # It was tried in its own right, and has its reason.
            again = again if error.retry_at is None else error.retry_at
        finally:
            self._count(session.budget.spent)
        self._put_off(job, again)
        return False

    def _may_fit(self, session: Session, job: Job, search: _Search) -> bool:
        """Return whether the job would start, or its pods be created, if no other job ran."""
        placements = session.state.pods
        if any(placements[uid].node >= 0 for uid in job.pods):
            # Its own pods keep running.
            return True
        if session.job_valid(job) is not None:
            return False
        if not _is_admitted(session, job):
            if not session.job_enqueueable(job)[0]:
                return False
            if not job.pods:
                return True
            if not _needs_nodes(session, job):
                return False
        if any(pod.cls.pod_affinity for pod in job.pods.values()):
            # Where it fits depends on pods that run.
            return True
        return search.place(job) is not None

    def _reserve_for(self, session: Session, job: Job, search: _Search) -> bool:
        """Reserve for the job, or admit it so that its pods are created. False if it would not fit."""
        if session.job_valid(job) is not None:
            return False
        if not _is_admitted(session, job):
            with search.all_ended(job):
                if not session.job_enqueueable(job)[0]:
                    return False
            job.inqueue = True
            session.job_enqueued(job)
            job.reason = None
            # Its status is written even if this cycle did not try it.
            self._notify(ie.JobChanged(job), session.now)
            if not job.pods:
                return True
        if not _needs_nodes(session, job):
            return False
        plan = search.find(job)
        if plan is None:
            return False
        needed, allocations = plan
        ends = [_expected_end(run) for run in needed]
        finite = [end for end in ends if end is not None]
        session.reservations.make(
            Reservation(
                owner=job.key,
                resource=job.policy.resource if job.policy is not None else HOSTS,
                chips=chips_by_node(allocations),
                loads=(loads := loads_by_node(allocations)),
                awaited=self._awaited(needed, loads, job),
                starts=max(finite) if finite and len(finite) == len(ends) else None,
                why=WHY,
            )
        )
        return True

    def _awaited(self, runs: Sequence[JobRun], nodes: Collection[int], owner: Job) -> frozenset[str]:
        """The pods on these nodes that end before the owner starts."""
        placements = self._state.pods
        return frozenset(
            uid
            for run in runs
            if run.job is not owner
            for uid in run.job.pods
            if placements[uid].node in nodes
        )


class _Search:
    """Searches for the allocation of a job after running jobs have ended, in one cycle.

    Ends of jobs are simulated in nested layers, so that no running job is ended and restored more often than
    the search requires.
    """

    def __init__(self, session: Session, count: Callable[[int], None]) -> None:
        self._session = session
        self._count = count
        #: Each with the number of jobs that have ended, with those of the layers below.
        self._layers: list[tuple[int, Statement]] = []

    @cached_property
    def _runs(self) -> list[JobRun]:
        session = self._session
        # Guesses are not in the leader record, so no decision depends on one.
        runs = running_jobs(session.jobs, session.state, session.limits, session.settings, session.now)
        return sorted(runs, key=_order)

    @contextmanager
    def all_ended(self, owner: Job | None = None) -> Iterator[None]:
        """Inside, all running jobs have ended, but for the owner."""
        try:
            self._end(self._runs, owner, len(self._runs))
            yield
        finally:
            self._restore()

    def find(self, job: Job) -> tuple[Sequence[JobRun], list[Allocation]] | None:
        """The jobs that must end before it fits, and what it is allocated then; None if it never fits."""
        runs = self._runs
        try:
            fewest_runs = fewest(lambda _: len(runs), lambda count: self._place_after(job, runs, count))
        finally:
            self._restore()
        if fewest_runs is None:
            return None
        try:
            return self._latest(job, runs[: fewest_runs[0]], fewest_runs[1])
        finally:
            self._restore()

    def _latest(
        self, job: Job, runs: Sequence[JobRun], allocations: list[Allocation]
    ) -> tuple[Sequence[JobRun], list[Allocation]]:
        """Return the fewest of the last runs to end after which the job fits, and what it is allocated then.

        The job starts when the last of them has ended, wherever it is placed. If it were placed on chips that
        are free long before, no other job could use them until then.
        """
        last_first = runs[::-1]

        def place(first: int, besides: Mapping[int, int] | None = None) -> list[Allocation] | None:
            return self._place_after(job, last_first, len(runs) - first, besides)

        first, allocations = nearest(0, len(runs), place, allocations)
        needed = runs[first:]
        self._restore(len(needed) - 1)
        if free := self._free_besides(job, needed):
            allocations = place(first, free) or allocations
        return needed, allocations

    def _place_after(
        self, job: Job, runs: Sequence[JobRun], count: int, besides: Mapping[int, int] | None = None
    ) -> list[Allocation] | None:
        """Return what the job is allocated if the first `count` of the runs have ended.

        They stay ended for the next call, which restores only those that it does not need.
        """
        self._restore(count)
        done = self._layers[-1][0] if self._layers else 0
        if count > done:
            self._end(runs[done:count], job, count)
        return self.place(job, besides)

    def _free_besides(self, job: Job, runs: Sequence[JobRun]) -> dict[int, int]:
        """Node to free chips, where a pod of the job would fit now and none of these runs."""
        session = self._session
        chips = min((pod.cls.chips for pod in pending_pods(session, job) if pod.cls.chips), default=0)
        if not chips or job.policy is None:
            return {}
        placements = session.state.pods
        theirs = {placements[uid].node for run in runs for uid in run.job.pods}
        masks = session.state.fleets[job.policy.resource].free_mask
        return {
            node: mask for node, mask in enumerate(masks) if mask.bit_count() >= chips and node not in theirs
        }

    def place(self, job: Job, besides: Mapping[int, int] | None = None) -> list[Allocation] | None:
        """What the job is allocated on what is free now; None if it does not fit.

        `besides`: without these chips (by node).
        """
        session = self._session
        exclusion = chips_excluded(session, job, {**withheld_chips(session, job), **(besides or {})})
        with trial(session, job) as statement, exclusion:
            if session.overused(session.queues[job.queue]):
                return None
            return None if place_gang(session, job, statement) is not None else list(statement.allocations)

    def _end(self, runs: Sequence[JobRun], owner: Job | None, count: int) -> None:
        """Add a layer in which these have ended, but for the owner; `count` is the sum of all layers."""
        session = self._session
        statement = session.statement()
        self._layers.append((count, statement))
        for run in runs:
            if run.job is owner:
                continue
            for uid, pod in run.job.pods.items():
                if session.state.pods[uid].node >= 0:
                    statement.evict(Eviction(run.job, pod, "", owner))
        self._count(ENDED_STEPS * len(statement.evictions))

    def _restore(self, count: int = -1) -> None:
        """Discard the layers in which more than `count` jobs have ended; without a number, all layers."""
        while self._layers and self._layers[-1][0] > count:
            self._layers.pop()[1].discard()


def _expected_end(run: JobRun) -> int | None:
    """Return when the job is expected to end; None: not known."""
    # Others may use what is reserved until then, and terminating pods may be gone at any moment.
    return run.earliest if run.terminates else run.latest


def _order(run: JobRun) -> tuple[bool, int, int, str]:
    end = _expected_end(run)
    return end is None, end or 0, run.started, run.job.key


def _is_admitted(session: Session, job: Job) -> bool:
    return job.inqueue or "enqueue" not in session.configuration.actions


def _needs_nodes(session: Session, job: Job) -> bool:
    """Whether pods of it wait that it cannot do without."""
    return has_pending_pods(session, job) and bool(missing_pods(session, job))


def _nodes_still_suit(session: Session, job: Job, reservation: Reservation) -> bool:
    """Whether each of the nodes could take a pod of the job: labels, taints and drains may have changed."""
    session.job_valid(job)  # This sets its policy.
    selections = {session.node_selection(job, pod) for pod in pending_pods(session, job)}
    return all(any(_may_take(one, node) for one in selections) for node in reservation.nodes)


def _may_take(selection: NodeSelection, node: int) -> bool:
    """Whether the node could take such a pod if no others ran there."""
    refused = selection.unselected(node)
    only_full = refused is None or Trigger.CHIPS_FREED in refused.kind.resolved_by
    return only_full and not selection.is_withheld(node)
