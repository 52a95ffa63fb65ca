"""Eviction, shared by preempt and reclaim: which running pods must go so that a job fits, and no more.

Everything is tried on the live state inside a transaction: the victims' chips count as
free, and the job is placed by the same rules as always, rings and switches included. The
set that works is then reduced, the most expensive victims first, to those without which
the job does not fit. The transaction is rolled back: the victims are evicted, and the
resources are reserved for the job until it can have them: chips, cpu, memory and all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Any

from ringwise.framework.evictions.lost_work import SECOND, LostWork, chip_hours
from ringwise.framework.gangs.gang_placement import missing_pods, pending_pods, place_gang
from ringwise.framework.job import Job, pod_order
from ringwise.framework.limits import waits_for_limit
from ringwise.framework.node_selection import NodeSelection
from ringwise.framework.reasons import WAITING_FOR_EVICTIONS, WAITS_BEHIND
from ringwise.framework.session import Session
from ringwise.framework.statement import Allocation, Eviction, chips_by_node, loads_by_node
from ringwise.grammar import counted
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.state.cluster import ClusterState
from ringwise.state.fleet import HOSTS, NO_NETWORK_KEY
from ringwise.state.model import Pod, Queue
from ringwise.state.reservations import Reservation

#: The number of cheapest nodes that are tried in full for a single pod.
MAX_NODES_TRIED = 64
#: Jobs that are named to whom others are evicted for.
MAX_NAMED = 5
#: Up to this many victims of a gang are spared one by one; larger sets are reduced by the chips they hold.
MAX_SPARED_SINGLY = 32
#: A job is tried again when a pod that it may evict is protected no more, and then no sooner than this.
AGAIN_AFTER_SECONDS = 10
#: To try what is free without a pod, and to put it back, costs as much as to look at so many nodes.
STEPS_TO_EVICT = 10
#: So many candidates are read in a step. 800 jobs for which nobody may be evicted stay within the steps of
#: their namespace where 5,000 pods are candidates.
READ_IN_A_STEP = 10
#: Added to the time a pod may take to end, before what is reserved is given up.
MARGIN_SECONDS = 60

JobPod = tuple[Job, Pod]
#: Pods that are evicted together: one pod its job can spare, or all the pods of a job.
VictimGroup = tuple[JobPod, ...]
#: The combined answer of the plugins: which candidates the job may evict for this pod.
AllowedVictims = Callable[[Job, Pod, list[str]], list[str]]


@dataclass(frozen=True, slots=True)
class EvictionPlan:
    """The pods to evict, and the placement the job gets then."""

    victims: tuple[JobPod, ...]
    allocations: tuple[Allocation, ...]
    #: Pods that are being deleted already; what they hold counts as free.
    leaving: tuple[str, ...] = ()


def starving_jobs(session: Session) -> Iterator[tuple[Queue, Job]]:
    """Valid jobs that lack pods, best queue first, best job first.

    Left out: jobs for which others are evicted already, or whose resources are reserved for another
    reason, jobs that evict no other pods, and those that wait behind others of their queue.
    """
    by_queue: dict[str, list[Job]] = {}
    for job in session.pending:
        if _never_preempts(session, job) or _waits_for_release(session, job):
            continue
        if job.key in session.limits.may_burst or waits_for_limit(job.reason):
            # Nobody has to give way to what is only lent, or to who may not use more.
            continue
        if job.reason is not None and job.reason.code == WAITS_BEHIND.code:
            continue
        if job.queue in session.queues:
            by_queue.setdefault(job.queue, []).append(job)
    for queue in sorted((session.queues[name] for name in by_queue), key=session.queue_key):
        for job in sorted(by_queue[queue.name], key=session.job_key):
            if session.job_valid(job) is None and (not job.pods or session.job_starving(job)):
                yield queue, job


def _waits_for_release(session: Session, job: Job) -> bool:
    """Whether something is reserved for it, unless the pods it waited for are gone and it did not fit."""
    reservation = session.reservations.of(job.key)
    if reservation is None:
        return False
    if not reservation.evicting:
        # A job that waited long has its nodes reserved, and evicts all the same those that it waited for.
        is_due = job.victims_from is not None and session.now >= job.victims_from
        return reservation.expires is not None or reservation.lasting or not is_due
    if not awaited_pods(session.state, reservation):
        return False
    # Not what this cycle found out while the pods are still there.
    job.reason = waiting_for_evictions(session.state, reservation, session.now)
    return True


def _never_preempts(session: Session, job: Job) -> bool:
    """One of its pending pods has the preemptionPolicy Never, so the gang cannot evict others."""
    if not job.non_preempting:
        return False
    return not job.pods or any(pod.uid in job.non_preempting for pod in pending_pods(session, job))


def evict_for(
    session: Session, job: Job, candidates: list[JobPod], allowed: AllowedVictims, action: str
) -> bool:
    """Evict candidates so that the job fits; True when what it needs is reserved for it.

    No pod is evicted where pods that are being deleted already leave enough.
    """
    reservation = session.reservations.of(job.key)
    if reservation is not None and reservation.evicting:
        # What was reserved for it did not suffice: it is free for the new search.
        session.reservations.lift(job.key)
    try:
        with session.reservations.open_to(job.key):
            plan = plan_for(session, job, candidates, allowed)
    except Exception as error:
        session.fail_job(job, error, action)
        return False
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


def plan_for(
    session: Session, job: Job, candidates: list[JobPod], allowed: AllowedVictims
) -> EvictionPlan | None:
    """Which candidates have to go so that the job fits; None where that does not help. It may be admitted."""
    session.budget.begin(job.namespace, len(job.pods))
    search = VictimSearch(session, job, candidates, allowed)
    if not session.is_admitted(job):
        if not search.would_be_admitted():
            return None
        # Only a lack of resources kept it out, and evictions can end that.
        job.inqueue = True
        job.reason = None
        session.job_enqueued(job)
    if not pending_pods(session, job):
        return None
    plan = search.find()
    return plan if plan is not None and plan.allocations else None


def evictable_pods(session: Session, flagged: Callable[[Pod], bool]) -> list[JobPod]:
    """Flagged pods that have a node and are not being deleted or evicted."""
    going = {eviction.pod.uid for eviction in session.evicted}
    placements = session.state.pods
    return [
        (job, pod)
        for job in session.jobs.values()
        for uid, pod in job.pods.items()
        if flagged(pod) and pod.live and not pod.deleting and uid not in going
        if placements[uid].node >= 0 and session.ours(pod)
    ]


class _OrderKeys:
    """The keys by which jobs and pods are served, of each computed once while no more pods are placed.

    Every search for victims asks for those of all candidates, and between two searches nothing changes them.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._bound = 0
        self._jobs: dict[str, tuple[Any, ...]] = {}
        self._pods: dict[str, tuple[Any, ...]] = {}

    def refresh(self) -> None:
        bound = len(self._session.bound)
        if bound != self._bound:
            self._bound = bound
            self._jobs.clear()
            self._pods.clear()

    def of_job(self, job: Job) -> tuple[Any, ...]:
        found = self._jobs.get(job.key)
        if found is None:
            found = self._jobs[job.key] = self._session.job_key(job)
        return found

    def of_member(self, member: JobPod) -> tuple[Any, ...]:
        pod = member[1]
        found = self._pods.get(pod.uid)
        if found is None:
            found = self._pods[pod.uid] = self._session.pod_key(pod), pod_order(pod)
        return found


def _in_victim_order(
    session: Session, evictor: Job, members: Iterable[JobPod]
) -> tuple[list[JobPod], dict[str, int]]:
    """The reverse of the order in which they are served: queues, then jobs, then pods; and places of queues.

    A plugin may order the queues in another way. Inside a queue the job of the lowest priority comes first,
    among equal ones that which was not evicted lately, then that which loses least work.
    """
    pods: dict[str, list[JobPod]] = {}
    jobs: dict[str, dict[str, Job]] = {}
    for job, pod in members:
        jobs.setdefault(job.queue, {})[job.key] = job
        pods.setdefault(job.key, []).append((job, pod))
    ordered: list[JobPod] = []
    known = [session.queues[name] for name in jobs if name in session.queues]
    known.sort(key=session.queue_key, reverse=True)
    taker = session.queues.get(evictor.queue)
    if taker is not None:
        known.sort(key=lambda queue: session.victim_queue_key(taker, queue))
    work, keys = session.shared(LostWork), session.shared(_OrderKeys)
    keys.refresh()
    for queue in known:
        last_first = sorted(jobs[queue.name].values(), key=keys.of_job, reverse=True)
        last_first.sort(
            key=lambda job: (
                job.priority,
                work.was_preempted_lately(job),
                sum([work.of(job, pod) for _, pod in pods[job.key]]),
            )
        )
        for job in last_first:
            its_pods = pods[job.key]
            if len(its_pods) > 1:
                its_pods.sort(key=keys.of_member, reverse=True)
            ordered += its_pods
    return ordered, {queue.name: place for place, queue in enumerate(known)}


@contextmanager
def as_if_placed(session: Session, job: Job, pods: Sequence[Pod]) -> Iterator[None]:
    """Inside, these pods count as used by the job: a gang is judged by all it will use."""
    for pod in pods:
        session.usage.add_pod(job.key, job.queue, pod.cls)
    try:
        yield
    finally:
        for pod in pods:
            session.usage.remove_pod(job.key, job.queue, pod.cls)


class VictimSearch:
    """Searches victims for one job among the candidates."""

    def __init__(
        self, session: Session, job: Job, candidates: Iterable[JobPod], allowed: AllowedVictims
    ) -> None:
        self._session = session
        self._job = job
        self._allowed_victims = allowed
        self._work = session.shared(LostWork)
        candidates = list(candidates)
        self._read(len(candidates))
        self._candidates, self._queue_place = _in_victim_order(session, job, candidates)
        #: The position of each candidate in the victim order.
        self._position = {pod.uid: position for position, (_, pod) in enumerate(self._candidates)}
        #: By key of a job: how many of its pods run, and how many it can spare.
        self._counted: dict[str, tuple[int, int]] = {}
        missing = missing_pods(session, job)
        self._beyond_gang = missing == 0
        pods = pending_pods(session, job) if job.pods else list(job.in_order)
        self._pods = pods[: max(1, missing)]

    def would_be_admitted(self) -> bool:
        """Whether the job would be enqueued if all pods it may evict were gone.

        F6: nothing is evicted for what is only kept for others, so it must not be kept out by that alone.
        """
        session = self._session
        if not self._pods:
            return False
        kept = session.usage.kept
        if len(kept):
            with kept.ignored():
                if session.job_enqueueable(self._job)[0]:
                    return False
        allowed = self._allowed(self._candidates)
        statement = session.statement()
        try:
            self._release_leaving(statement.evict)
            # Mostly few are enough: it is asked again whenever twice as many are gone.
            asked_after = 1
            for count, (owner, pod) in enumerate(allowed):
                if count == asked_after:
                    if session.job_enqueueable(self._job)[0]:
                        return True
                    asked_after *= 2
                session.budget.spend(STEPS_TO_EVICT)
                statement.evict(Eviction(owner, pod, "", self._job))
            return session.job_enqueueable(self._job)[0]
        finally:
            statement.discard()

    def find(self) -> EvictionPlan | None:
        """The cheapest plan; without victims where pods that are being deleted leave enough.

        F6: every victim is needed also if nothing were kept for jobs that are being rescheduled; and with
        what is kept for those, the plan must do.
        """
        kept = self._session.usage.kept
        if not len(kept):
            return self._find()
        with kept.ignored():
            plan = self._find()
        return plan if plan is not None and self._fits_beside_kept(plan) else None

    def _fits_beside_kept(self, plan: EvictionPlan) -> bool:
        outer = self._session.statement()
        try:
            if plan.leaving:
                self._release_leaving(outer.evict)
            return self._try((plan.victims,)) is not None
        finally:
            outer.discard()

    def _find(self) -> EvictionPlan | None:
        session = self._session
        if not self._pods:
            return None
        fits_now = self._try(()) is not None
        outer = session.statement()
        try:
            self._release_leaving(outer.evict)
            leaving = tuple(eviction.pod.uid for eviction in outer.evictions)
            found = self._try(())
            if found is not None:
                return EvictionPlan((), found, () if fits_now else leaving)
            for whole in (False, True):
                plan = self._one_pod(whole) if len(self._pods) == 1 else self._gang(whole)
                if plan is not None:
                    return EvictionPlan(plan.victims, plan.allocations, leaving)
            return None
        finally:
            outer.discard()

    def _read(self, pods: int) -> None:
        """All candidates are read several times: that is little for each, and much for thousands."""
        self._session.budget.spend(pods // READ_IN_A_STEP)

    # -- candidates ---------------------------------------------------------------------

    def _allowed(self, members: Sequence[JobPod]) -> list[JobPod]:
        self._read(len(members))
        with as_if_placed(self._session, self._job, self._pods[:-1]):
            uids = self._allowed_victims(self._job, self._pods[-1], [pod.uid for _, pod in members])
        named = set(uids)
        return [member for member in members if member[1].uid in named]

    def _spare(self, job: Job) -> int:
        """How many pods the job can lose and still have its minimum."""
        return self._counts(job)[1]

    def _running(self, job: Job) -> int:
        return self._counts(job)[0]

    def _counts(self, job: Job) -> tuple[int, int]:
        """How many pods of the job run, and how many it can spare."""
        found = self._counted.get(job.key)
        if found is None:
            placements = self._session.state.pods
            running = members = done = 0
            for uid, pod in job.pods.items():
                if pod.phase == "Succeeded":
                    done += 1
                if placements[uid].node >= 0 and pod.live and not pod.deleting:
                    running += 1
                    members += uid not in job.backups
            found = self._counted[job.key] = running, members + done - job.min_available
        return found

    def _groups(self, allowed: Sequence[JobPod], whole: bool) -> list[VictimGroup]:
        """No gang is cut below its minimum: only the pods a job can spare are evicted, or all of them."""
        by_job: dict[str, list[JobPod]] = {}
        for member in allowed:
            by_job.setdefault(member[0].key, []).append(member)
        groups: list[VictimGroup] = []
        for members in by_job.values():
            job = members[0][0]
            if whole and len(members) == self._running(job):
                groups.append(tuple(members))
            else:
                spare = self._spare(job)
                if spare > 0:
                    groups += [(member,) for member in members[:spare]]
        # A pod that a job can spare loses less than the whole of another job does.
        groups.sort(key=self._place_of_group)
        return groups

    def _place_of_group(self, group: VictimGroup) -> tuple[int, int, bool, int, int]:
        job = group[0][0]
        lost = sum(self._work.of(owner, pod) for owner, pod in group)
        again = self._work.was_preempted_lately(job)
        return self._queue_place[job.queue], job.priority, again, lost, self._position[group[0][1].uid]

    def _release_leaving(self, evict: Callable[[Eviction], None]) -> None:
        """What pods that are being deleted hold counts as free: no pod is evicted for it."""
        session = self._session
        going = {eviction.pod.uid for eviction in session.evicted}
        for job in session.jobs.values():
            for uid, pod in job.pods.items():
                if (pod.deleting or uid in going) and session.state.pods[uid].node >= 0:
                    session.budget.spend(STEPS_TO_EVICT)
                    evict(Eviction(job, pod, "", self._job))

    # -- trying ---------------------------------------------------------------------------

    def _try(self, groups: Iterable[VictimGroup]) -> tuple[Allocation, ...] | None:
        """The placement the job gets when these are gone; None where it cannot start then."""
        session = self._session
        plan = session.plans.get(self._job.key)
        statement = session.statement()
        try:
            for group in groups:
                session.budget.spend(STEPS_TO_EVICT * len(group))
                for owner, pod in group:
                    statement.evict(Eviction(owner, pod, "", self._job))
            reason = place_gang(session, self._job, statement, beyond_gang=self._beyond_gang)
            if reason is not None or not session.job_pipelined(self._job):
                return None
            return tuple(statement.allocations)
        finally:
            statement.discard()
            session.plans.pop(self._job.key, None)
            if plan is not None:
                session.plans[self._job.key] = plan

    def _reduce(self, groups: list[VictimGroup], found: tuple[Allocation, ...]) -> EvictionPlan:
        """Spare every group that is not needed, the most expensive first."""
        for group in reversed(list(groups)):
            fewer = [other for other in groups if other is not group]
            again = self._try(fewer)
            if again is not None:
                groups, found = fewer, again
        return EvictionPlan(tuple(member for group in groups for member in group), found)

    # -- one pod: node by node -----------------------------------------------------------

    def _one_pod(self, whole: bool) -> EvictionPlan | None:
        """The node whose victims are cheapest; on a tie the earlier in victim order, then natural order."""
        best: tuple[Any, EvictionPlan] | None = None
        for lowest, rank, needed, groups in islice(self._offers(whole), MAX_NODES_TRIED):
            if best is not None and best[0] <= (lowest, rank):
                break
            plan = self._on_node(needed, groups)
            if plan is not None:
                price = (self._price([plan.victims]), rank)
                if best is None or price < best[0]:
                    best = (price, plan)
        return None if best is None else best[1]

    def _offers(
        self, whole: bool
    ) -> Iterator[tuple[tuple[Any, ...], int, list[VictimGroup], list[VictimGroup]]]:
        """Nodes whose chips suffice without their victims: the price, the place in natural order, and whom.

        The lowest price first. Who is needed on a node is found only when no other can be cheaper: more
        victims never cost less, so that the cheapest group of a node is the least that it can cost.
        """
        session = self._session
        rank_of = session.state.rank_of
        selection = session.node_selection(self._job, self._pods[0])
        by_node = self._groups_by_node(whole)
        self._read(len(by_node))
        alone: dict[int, tuple[Any, ...]] = {}
        heap: list[tuple[tuple[Any, ...], int, bool, int]] = []
        for node, groups in by_node.items():
            lowest: tuple[Any, ...] | None = None
            for group in groups:
                price = alone.get(id(group))
                if price is None:
                    price = alone[id(group)] = self._price((group,))
                if lowest is None or price < lowest:
                    lowest = price
            if lowest is not None:
                heap.append((lowest, rank_of(node), False, node))
        heapify(heap)
        found: dict[int, list[VictimGroup]] = {}
        while heap:
            lowest, rank, is_price, node = heappop(heap)
            groups = by_node[node]
            if is_price:
                yield lowest, rank, found[node], groups
                continue
            session.budget.spend(len(groups))
            needed = self._enough_chips(selection, node, groups)
            if needed is not None:
                found[node] = needed
                heappush(heap, (self._price(needed or groups), rank, True, node))

    def _price(self, groups: Sequence[VictimGroup]) -> tuple[Any, ...]:
        """What it costs to evict these, the smallest first.

        Their highest priority; the last of their queues; of each priority, the highest first, whether a job
        was evicted lately and the work that is lost; how many; and the last of them in victim order.
        """
        if len(groups) == 1 and len(groups[0]) == 1:
            job, pod = groups[0][0]
            priority = job.priority
            again, seconds = self._work.was_preempted_lately(job), self._work.of(job, pod)
            return (
                priority,
                self._queue_place[job.queue],
                ((priority, again, seconds),),
                1,
                self._position[pod.uid],
            )
        members = [member for group in groups for member in group]
        lost: dict[int, tuple[bool, int]] = {}
        for job, pod in members:
            again, seconds = lost.get(job.priority, (False, 0))
            again = again or self._work.was_preempted_lately(job)
            lost[job.priority] = again, seconds + self._work.of(job, pod)
        return (
            max(lost),
            max(self._queue_place[job.queue] for job, _ in members),
            tuple((priority, *lost[priority]) for priority in sorted(lost, reverse=True)),
            len(members),
            max(self._position[pod.uid] for _, pod in members),
        )

    def _groups_by_node(self, whole: bool) -> dict[int, list[VictimGroup]]:
        placements = self._session.state.pods
        on_node: dict[int, list[JobPod]] = {}
        for member in self._candidates:
            on_node.setdefault(placements[member[1].uid].node, []).append(member)
        if not whole:
            # Each node by itself: which pods a job can spare depends on the order of the candidates.
            return {
                node: groups
                for node, members in on_node.items()
                if any(self._spare(job) > 0 for job, _ in members)
                and (groups := self._groups(self._allowed(members), False))
            }
        found: dict[int, list[VictimGroup]] = {}
        for group in self._groups(self._allowed(self._candidates), True):
            for node in sorted({placements[pod.uid].node for _, pod in group}):
                found.setdefault(node, []).append(group)
        return found

    def _enough_chips(
        self, selection: NodeSelection, node: int, groups: list[VictimGroup]
    ) -> list[VictimGroup] | None:
        """The groups without which the chips of the node do not fit; None when they never do."""
        policy = selection.policy
        if policy is None:
            return []
        state = self._session.state
        fleet = state.fleets[policy.resource]
        network = fleet.network[node] if policy.withholds_network else 0
        if fleet.allocatable[node] < 0 or network == NO_NETWORK_KEY:
            return None
        bad = fleet.unhealthy[node] | fleet.recovering[node] | fleet.reserved[node] | network
        # A pod that leaves these makes no room for another.
        bad |= fleet.isolated[node] | fleet.pre_separated[node]
        freed = {
            id(group): _union(
                state.pods[pod.uid].chips for _, pod in group if state.pods[pod.uid].node == node
            )
            for group in groups
        }

        def fits(kept: Iterable[VictimGroup]) -> bool:
            free = fleet.free(node) | _union(freed[id(group)] for group in kept) & fleet.listed[node]
            signature = policy.rule.signature(free & ~bad, fleet.allocatable[node], fleet.faulty[node])
            return policy.rule.score(signature, selection.chips, policy.multi_pod) is not None

        if not fits(groups):
            return None
        needed = list(groups)
        for group in reversed(groups):
            fewer = [other for other in needed if other is not group]
            if fits(fewer):
                needed = fewer
        return needed

    def _on_node(self, needed: list[VictimGroup], groups: list[VictimGroup]) -> EvictionPlan | None:
        if needed:
            found = self._try(needed)
            if found is not None:
                return EvictionPlan(tuple(member for group in needed for member in group), found)
        found = self._try(groups)
        return None if found is None else self._reduce(groups, found)

    # -- a gang: the cheapest pods of the cluster ----------------------------------------------

    def _gang(self, whole: bool) -> EvictionPlan | None:
        enough = self._fewest_of_the_cheapest(self._groups(self._allowed(self._candidates), whole))
        if enough is None:
            return None
        groups, found = enough
        groups, found = self._holding_what_is_needed(groups, found)
        if len(groups) <= MAX_SPARED_SINGLY:
            return self._reduce(groups, found)
        return EvictionPlan(tuple(member for group in groups for member in group), found)

    def _fewest_of_the_cheapest(
        self, groups: list[VictimGroup]
    ) -> tuple[list[VictimGroup], tuple[Allocation, ...]] | None:
        """As few of the cheapest as are enough: the number is doubled, then bisected; None: all are not.

        All of them, which may be thousands, are tried only where half of them are not enough.
        """
        low, high = 0, min(1, len(groups))
        found = self._try(groups[:high]) if groups else None
        while found is None:
            if high == len(groups):
                return None
            low, high = high, min(2 * high, len(groups))
            found = self._try(groups[:high])
        while high - low > 1:
            middle = (low + high) // 2
            again = self._try(groups[:middle])
            if again is None:
                low = middle
            else:
                high, found = middle, again
        return groups[:high], found

    def _holding_what_is_needed(
        self, groups: list[VictimGroup], found: tuple[Allocation, ...]
    ) -> tuple[list[VictimGroup], tuple[Allocation, ...]]:
        """Without the groups that hold no chip the job would get, or else are on none of its nodes."""
        while True:
            for fewer in self._holding_chips(groups, found), self._on_its_nodes(groups, found):
                again = self._try(fewer) if len(fewer) < len(groups) else None
                if again is not None:
                    groups, found = fewer, again
                    break
            else:
                return groups, found

    def _holding_chips(self, groups: list[VictimGroup], found: tuple[Allocation, ...]) -> list[VictimGroup]:
        placements, taken = self._session.state.pods, chips_by_node(found)
        return [
            group
            for group in groups
            if any(placements[pod.uid].chips & taken.get(placements[pod.uid].node, 0) for _, pod in group)
        ]

    def _on_its_nodes(self, groups: list[VictimGroup], found: tuple[Allocation, ...]) -> list[VictimGroup]:
        placements, nodes = self._session.state.pods, {allocation.node for allocation in found}
        return [group for group in groups if any(placements[pod.uid].node in nodes for _, pod in group)]


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
    job.reason = waiting_for_evictions(session.state, reservation, session.now)


def losers(session: Session, plan: EvictionPlan) -> dict[str, str]:
    """The jobs that lose pods -> the work that is lost, in words."""
    work, found = session.shared(LostWork), dict[str, list[int]]()
    for job, pod in plan.victims:
        lost = found.setdefault(f"{job.namespace}/{job.name}", [0, 0])
        lost[0] += pod.cls.chips
        lost[1] += work.of(job, pod)
    return {
        name: f"{counted(chips, 'chip')} and {chip_hours(seconds)}" if chips else "pods without chips"
        for name, (chips, seconds) in found.items()
    }


def losers_text(found: Mapping[str, str]) -> list[str]:
    """`default/train loses 8 chips and 4 chip-hours`"""
    named = [f"{name} loses {lost}" for name, lost in list(found.items())[:MAX_NAMED]]
    return [*named, f"{len(found) - MAX_NAMED} more lose pods"] if len(found) > MAX_NAMED else named


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
        seconds=max(0, (reservation.expires or now) - now) // 1_000_000_000,
        losers=list(reservation.losers)[:MAX_NAMED],
    ).with_hints(losers_text(reservation.losers))


def _union(masks: Iterable[int]) -> int:
    total = 0
    for mask in masks:
        total |= mask
    return total
