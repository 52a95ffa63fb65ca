"""Eviction, shared by all actions that evict: for whom, and what becomes of a plan.

The victims that a search found are evicted, and what the job gets then is reserved for it until it can have
it: chips, cpu, memory and all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from ringwise.durations import SECOND
from ringwise.framework.budget import TooCostly
from ringwise.framework.evictions.lost_work import LostWork, chip_hours
from ringwise.framework.evictions.recently_faulty_chips import chips_excluded, withheld_chips
from ringwise.framework.evictions.victim_search import EvictionPlan, VictimChoice, VictimSearch
from ringwise.framework.gangs.gang_placement import has_pending_pods, pending_pods, place_gang
from ringwise.framework.job import Job
from ringwise.framework.limits import waits_for_limit
from ringwise.framework.reasons import WAITING_FOR_EVICTIONS, WAITS_BEHIND
from ringwise.framework.registry import ActionSpec, Arguments
from ringwise.framework.session import Session
from ringwise.framework.statement import Eviction, chips_by_node, loads_by_node
from ringwise.framework.trials import trial
from ringwise.grammar import counted, first_of
from ringwise.reasons import Reason
from ringwise.state.cluster import ClusterState
from ringwise.state.fleet import HOSTS
from ringwise.state.model import Pod
from ringwise.state.reservations import Reservation, Reservations

#: Jobs that are named to whom others are evicted for.
MAX_NAMED = 5
#: A job is tried again when a pod that it may evict is protected no more, and then no sooner than this.
AGAIN_AFTER_SECONDS = 10
#: Added to the time a pod may take to end, before what is reserved is given up.
MARGIN_SECONDS = 60


def evicting_action(
    name: str,
    summary: str,
    choices: Callable[[Session, Job], Iterable[VictimChoice]],
    arguments: Arguments,
) -> ActionSpec:
    """An action that evicts pods for the jobs that lack some, with the first choice of victims that helps."""

    def run(session: Session) -> None:
        with nominated_shares(session):
            for job in starving_jobs(session):
                any(evict_for(session, job, choice, name) for choice in choices(session, job))

    return ActionSpec(name, summary, run, arguments)


def starving_jobs(session: Session) -> Iterator[Job]:
    """Valid jobs that lack pods, best queue first, best job first.

    Left out: jobs for which others are evicted already, or whose resources are reserved for another
    reason, jobs that evict no other pods, and those that wait behind others of their queue.
    """
    by_queue: dict[str, list[Job]] = {}
    for job in session.pending:
        if evicts_none(session, job) or _waits_for_release(session, job):
            continue
        if job.queue in session.queues:
            by_queue.setdefault(job.queue, []).append(job)
    for queue in sorted((session.queues[name] for name in by_queue), key=session.queue_key):
        for job in session.budget.in_turn(sorted(by_queue[queue.name], key=session.job_key)):
            if not session.may_try(job):
                session.budget.pass_over(job.namespace, job.key)
                continue
            if session.job_valid(job) is None and (not job.pods or session.job_starving(job)):
                yield job


def _waits_for_release(session: Session, job: Job) -> bool:
    """Whether something is reserved for it, unless the pods it waited for are gone and it did not fit."""
    reservation = session.reservations.of(job.key)
    if reservation is None:
        return False
    if not reservation.evicting:
        # A job that waited long has its nodes reserved, and evicts all the same those that it waited for.
        is_due = job.victims_from is not None and session.now >= job.victims_from
        return reservation.expires is not None or reservation.lasting or not is_due
    if not awaited_pods(session.state, reservation) or reservation.again <= session.now:
        return False
    # Not what this cycle found out while the pods are still there.
    job.reason = waiting_for_evictions(session.state, reservation, session.now)
    session.retry_at(job, reservation.again)
    return True


def _never_preempts(session: Session, job: Job) -> bool:
    """One of its pending pods has the preemptionPolicy Never, so the gang cannot evict others."""
    if any(pod.cls.part is not None for pod in job.in_order):
        # Shares and vNPUs preempt nothing (V17).
        return True
    if not job.non_preempting:
        return False
    return not job.pods or any(pod.uid in job.non_preempting for pod in pending_pods(session, job))


def evicts_none(session: Session, job: Job) -> bool:
    """Whether no pod has to end for the job: it may not evict any, or waits for a limit or for its turn."""
    if job.may_not_evict or _never_preempts(session, job):
        return True
    # No pod is evicted for a job that borrows above its limit, or that may not use more.
    limited = job.key in session.limits.may_burst or waits_for_limit(job.reason)
    return limited or (job.reason is not None and job.reason.code == WAITS_BEHIND.code)


def evict_for(session: Session, job: Job, choice: VictimChoice, action: str) -> bool:
    """Evict candidates so that the job fits; True when what it needs is reserved for it.

    No pod is evicted where pods that are being deleted already leave enough.
    """
    reservation = session.reservations.of(job.key)
    slow: Reservation | None = None
    if reservation is not None and reservation.evicting:
        # What was reserved for it did not suffice: it is free for the new search.
        session.shared(NominatedShares).remove(job.key)
        if awaited_pods(session.state, reservation):
            slow = reservation
        else:
            session.reservations.lift(job.key)
    try:
        with session.reservations.open_to(job.key):
            plan = plan_for(session, job, choice)
    except Exception as error:
        if isinstance(error, TooCostly) and error.retry_at is not None:
            session.budget.pass_over(job.namespace, job.key)
        session.fail_job(job, error, action)
        return False
    if plan is None and slow is not None:
        # There are no other candidates: it waits for the pods with a long grace period.
        _wait(session, job, slow)
        return True
    if plan is None:
        end = session.protected.get(job.key)
        if end is not None:
            if job.victims_from is not None and job.victims_from <= session.now:
                # Not for each of thousands of pods at its own moment.
                end = max(end, session.now + AGAIN_AFTER_SECONDS * SECOND)
            session.retry_at(job, end)
        job.victims_from = end
        return False
    job.victims_from = None
    _nominate(session, job, plan, action)
    return True


def plan_for(session: Session, job: Job, choice: VictimChoice) -> EvictionPlan | None:
    """Which candidates have to go so that the job fits; None where that does not help. It may be admitted."""
    session.budget.begin(job.namespace, len(job.pods))
    search = VictimSearch(session, job, choice)
    has_pods = has_pending_pods(session, job)
    if not session.is_admitted(job):
        if session.queues[job.queue].state != "Open" or not search.would_be_admitted():
            return None
        # Only a lack of resources kept it out, and evictions can end that. An admitted job is requeued by the
        # events of the reason why it does not start, not of the reason why it was not admitted.
        job.inqueue = True
        session.job_enqueued(job)
        job.reason = None
        if has_pods:
            with trial(session, job) as statement:
                job.reason = place_gang(session, job, statement)
    # F3: no pod is evicted for chips that the job would not get.
    with chips_excluded(session, job, withheld_chips(session, job)):
        plan = search.find() if has_pods else None
    return plan if plan is not None and plan.allocations else None


def _nominate(session: Session, job: Job, plan: EvictionPlan, why: str) -> None:
    """Evict the victims, and reserve what the job gets until it can have it."""
    for owner, pod in plan.victims:
        session.evicted.append(Eviction(owner, pod, why, job))
    seconds = session.settings.grace_over_time + MARGIN_SECONDS
    awaited = frozenset({*(pod.uid for _, pod in plan.victims), *plan.leaving})
    reservation = Reservation(
        owner=job.key,
        resource=job.policy.resource if job.policy is not None else HOSTS,
        chips=chips_by_node(plan.allocations),
        # It fits at once where no pod has to go: then nothing was freed that others could take.
        loads=loads_by_node(plan.allocations) if awaited else {},
        awaited=awaited,
        nominated={allocation.pod.uid: allocation.node for allocation in plan.allocations},
        expires=session.now + seconds * SECOND,
        why=why,
        evicting=True,
        losers=losers(session, plan),
    )
    session.reservations.make(reservation)
    _wait(session, job, reservation)


def _wait(session: Session, job: Job, reservation: Reservation) -> None:
    """Let the job wait until evicted pods are gone, or for so long that other candidates are searched."""
    reservation.again = session.now + session.settings.long_grace_period * SECOND
    pods = [job.pods[uid] for uid in reservation.nominated if uid in job.pods]
    session.shared(NominatedShares).add(job, pods)
    job.reason = waiting_for_evictions(session.state, reservation, session.now)
    session.retry_at(job, reservation.again)


def losers(session: Session, plan: EvictionPlan) -> dict[str, str]:
    """The jobs that lose pods -> the work that is lost, in words."""
    work, losses = session.shared(LostWork), dict[str, list[int]]()
    for job, pod in plan.victims:
        lost = losses.setdefault(job.full_name, [0, 0])
        lost[0] += pod.cls.chips
        lost[1] += work.of(job, pod)
    return {
        name: f"{counted(chips, 'chip')} and {chip_hours(seconds)}" if chips else "pods without chips"
        for name, (chips, seconds) in losses.items()
    }


def losers_text(losses: Mapping[str, str]) -> list[str]:
    """`default/train loses 8 chips and 4 chip-hours`"""
    losers = [f"{name} loses {lost}" for name, lost in losses.items()]
    return first_of(losers, MAX_NAMED, "{n} more lose pods")


def evicting_reservation(state: ClusterState, reservations: Reservations, job: str) -> Reservation | None:
    """The reservation of a job for which pods are evicted that are not gone yet."""
    reservation = reservations.of(job)
    waits = reservation is not None and reservation.evicting and awaited_pods(state, reservation)
    return reservation if waits else None


def awaited_pods(state: ClusterState, reservation: Reservation) -> list[str]:
    """The pods that its owner still waits for."""
    return [uid for uid in reservation.awaited if uid in state.pods and state.pods[uid].node >= 0]


def waiting_for_evictions(state: ClusterState, reservation: Reservation, now: int) -> Reason:
    """The reason of a job for which pods are evicted."""
    nodes = sorted(reservation.nodes, key=state.rank_of)
    return WAITING_FOR_EVICTIONS(
        victims=len(awaited_pods(state, reservation)),
        why=reservation.why,
        chips=reservation.chip_count,
        nodes=[state.names[node] for node in nodes[:20]],
        seconds=max(0, (reservation.again or reservation.expires or now) - now) // SECOND,
        losers=list(reservation.losers)[:MAX_NAMED],
    ).with_hints(losers_text(reservation.losers))


# -- what jobs will use for which others are evicted -----------------------------------------------------


class NominatedShares:
    """What jobs will use for which others are evicted: it counts against the other jobs of their queues.

    Otherwise, if a queue deserves one more job, two of its jobs would each evict pods, and only one could
    start. For `Session.shared`: counted while an action searches victims, and at no other time.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._counted: dict[str, tuple[Job, list[Pod]]] = {}

    def add(self, job: Job, pods: Iterable[Pod]) -> None:
        self.remove(job.key)
        self._counted[job.key] = job, list(pods)
        for pod in self._counted[job.key][1]:
            self._session.usage.add_pod(job.key, job.queue, pod.cls)

    def remove(self, key: str) -> None:
        """It is searched for again: it does not count against itself."""
        if key in self._counted:
            job, pods = self._counted.pop(key)
            for pod in pods:
                self._session.usage.remove_pod(job.key, job.queue, pod.cls)

    def add_all(self) -> None:
        """Of jobs for which pods were evicted in earlier cycles."""
        placements = self._session.state.pods
        for reservation in self._session.reservations:
            job = self._session.jobs.get(reservation.owner) if reservation.evicting else None
            if job is not None:
                waiting = [
                    uid for uid in reservation.nominated if uid in job.pods and placements[uid].node < 0
                ]
                self.add(job, [job.pods[uid] for uid in waiting])

    def remove_all(self) -> None:
        for key in list(self._counted):
            self.remove(key)


@contextmanager
def nominated_shares(session: Session) -> Iterator[None]:
    """Inside, victims are searched."""
    shares = session.shared(NominatedShares)
    try:
        shares.add_all()
        yield
    finally:
        shares.remove_all()
