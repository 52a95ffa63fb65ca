"""Searches victims for one job: which running pods must go so that it fits, and no more.

Everything is tried on the live state inside a transaction: the victims' chips count as free, and the job is
placed by the same rules as always, rings and switches included. The set that works is then reduced, the most
expensive victims first, to those without which the job does not fit.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import NamedTuple

from ringwise.framework.evictions.bundles import Bundles
from ringwise.framework.evictions.candidates import LeavingPods, QueuePods
from ringwise.framework.evictions.lost_work import LostWork
from ringwise.framework.evictions.spare_pods import SparePods, VictimGroup
from ringwise.framework.extension_points import DomainRequest
from ringwise.framework.gangs.domain_placement import domains_for, placed_nodes
from ringwise.framework.gangs.gang_placement import missing_pods, pending_pods, place_gang
from ringwise.framework.job import Job
from ringwise.framework.node_selection import NodeSelection
from ringwise.framework.session import Session
from ringwise.framework.statement import Allocation, Eviction, chips_by_node
from ringwise.framework.trials import fewest, reduced, trial
from ringwise.framework.victim_queues import JobPod, VictimQueue
from ringwise.records import dataclass
from ringwise.state.fleet import NO_NETWORK_KEY
from ringwise.state.hyper_nodes import Domain
from ringwise.state.model import Pod
from ringwise.state.node_labels import node_set
from ringwise.topology.chips import union_of

#: The number of cheapest nodes that are tried in full for a single pod.
MAX_NODES_TRIED = 64
#: Up to this many victims of a gang are spared one by one; larger sets are reduced by the chips they hold.
MAX_SPARED_SINGLY = 32
#: So many of the cheapest candidates are looked at first, then so many times as many.
FIRST_LOOKED_AT, TIMES_AS_MANY = 64, 8
#: Steps of the job for a trial eviction and its rollback; to read a candidate is a fraction of a step. This
#: is less than the real cost, so that one job can search all pods of a large cluster. The rest counts only
#: for the namespace, so that many such jobs are spread over several turns.
STEPS_TO_EVICT, STEPS_BESIDES_EVICT = 10, 50
READ_IN_A_STEP, STEPS_BESIDES_READ = 10, 20

#: The combined answer of the plugins: which candidates the job may evict for this pod.
AllowedVictims = Callable[[Job, Pod, list[str]], list[str]]
#: The same beforehand: whether it is none of this queue.
NoVictims = Callable[[Job, Pod, VictimQueue], bool]


@dataclass(frozen=True, slots=True)
class VictimChoice:
    """Among whom victims are searched, and how."""

    queues: tuple[QueuePods, ...]
    allowed: AllowedVictims
    none_allowed: NoVictims | None = None
    bundles: Bundles | None = None


class _Groups(enum.Enum):
    """Which victims a pass of a search considers."""

    #: Only pods that their jobs can spare.
    SPARE = enum.auto()
    #: And whole jobs, by their order.
    ALL = enum.auto()
    #: And whole jobs, behind all that can be spared. What shares allow is given to spare pods first.
    SPARE_FIRST = enum.auto()
    #: The same, but each job is asked about by itself: what shares allow of one is not given to another.
    JOB_BY_JOB = enum.auto()


@dataclass(frozen=True, slots=True)
class EvictionPlan:
    """The pods to evict, and the placement the job gets then."""

    victims: tuple[JobPod, ...]
    allocations: tuple[Allocation, ...]
    #: Pods that are being deleted already and leave what it gets.
    leaving: tuple[str, ...] = ()


class _Loss(NamedTuple):
    """What victims of one priority lose."""

    priority: int
    #: Whether a job among them was evicted recently.
    recently_evicted: bool
    #: Work that is lost.
    seconds: int


class _Price(NamedTuple):
    """What it costs to evict victims; the smallest in this order is the best."""

    #: The highest among them.
    priority: int
    #: The last of their queues.
    queue: int
    #: By priority, the highest first.
    losses: tuple[_Loss, ...]
    pods: int
    #: The last of them in victim order.
    position: int


class _PricedPlan(NamedTuple):
    """Compared by price, then by the place of the node in natural order."""

    price: _Price
    rank: int
    plan: EvictionPlan


class _Offer(NamedTuple):
    """A node whose chips suffice without some victims."""

    price: _Price
    #: Its place in natural order.
    rank: int
    #: The victims without which the chips do not fit, and all of the node.
    needed: list[VictimGroup]
    groups: list[VictimGroup]


@dataclass(frozen=True, slots=True)
class _PricedGroup:
    """A group by itself: its price, and how many chips it holds on each node."""

    price: _Price
    chips: Mapping[int, int]


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

    def __init__(self, session: Session, job: Job, choice: VictimChoice) -> None:
        self._session = session
        self._job = job
        self._choice = choice
        self._work = session.shared(LostWork)
        self._spare = session.shared(SparePods)
        self._spare.refresh()
        missing = missing_pods(session, job)
        self._beyond_gang = missing == 0
        pods = pending_pods(session, job) if job.pods else list(job.in_order)
        self._pods = pods[: max(1, missing)]
        queues = self._in_victim_order(self._worth_asking())
        self._queue_place = {queue.name: place for place, queue in enumerate(queues)}
        self._candidates: Sequence[JobPod] = (
            queues[0].in_order
            if len(queues) == 1
            else [member for queue in queues for member in queue.in_order]
        )
        #: The position of each candidate in the victim order.
        self._position: Mapping[str, int] = (
            queues[0].positions
            if len(queues) == 1
            else {pod.uid: position for position, (_, pod) in enumerate(self._candidates)}
        )
        if len(queues) != 1:
            self._read(len(self._candidates))
        #: Whether a job among them can spare a pod.
        self._any_spare = any(self._spare.any_of(job) for queue in queues for job in queue.elastic)
        #: The domain that must take the job, where one must.
        self._domain: Domain | None = None
        #: Whether plugins left out pods that they were asked about last.
        self._refused = False

    def _worth_asking(self) -> list[QueuePods]:
        """The queues of which not all plugins of some tier say beforehand that none may be evicted."""
        none_allowed, pods = self._choice.none_allowed, self._pods
        if not pods:
            return []
        if none_allowed is None:
            return list(self._choice.queues)
        with as_if_placed(self._session, self._job, pods[:-1]):
            return [queue for queue in self._choice.queues if not none_allowed(self._job, pods[-1], queue)]

    def _in_victim_order(self, queues: list[QueuePods]) -> list[QueuePods]:
        """The reverse of the order in which they are served. A plugin may order them in another way."""
        existing = self._session.queues
        result = [queue for queue in queues if queue.name in existing]
        if len(result) > 1:
            result.sort(key=lambda queue: self._session.queue_key(existing[queue.name]), reverse=True)
            taker = existing.get(self._job.queue)
            if taker is not None:
                result.sort(key=lambda queue: self._session.victim_queue_key(taker, existing[queue.name]))
        return result

    def would_be_admitted(self) -> bool:
        """Whether the job would be enqueued if all pods it may evict were gone.

        F6: nothing is evicted for what is only kept for others, so it must not be kept out by that alone.
        """
        session = self._session
        if not self._pods:
            return False
        reserved = session.usage.reserved
        if len(reserved):
            with reserved.ignored():
                if session.job_enqueueable(self._job)[0]:
                    return False
        allowed = self._allowed(self._candidates)
        with trial(session) as statement:
            self._release_leaving(statement.evict)
            # Mostly few are enough: it is asked again whenever twice as many are gone.
            next_check = 1
            for count, (owner, pod) in enumerate(allowed):
                if count == next_check:
                    if session.job_enqueueable(self._job)[0]:
                        return True
                    next_check *= 2
                session.budget.spend(STEPS_TO_EVICT, STEPS_BESIDES_EVICT)
                statement.evict(Eviction(owner, pod, "", self._job))
            return session.job_enqueueable(self._job)[0]

    def find(self) -> EvictionPlan | None:
        """The cheapest plan; without victims where pods that are being deleted leave enough.

        F6: every victim is needed also if nothing were kept for jobs that are being rescheduled; and with
        what is kept for those, the plan must do.
        """
        reserved = self._session.usage.reserved
        if not len(reserved):
            return self._find()
        with reserved.ignored():
            plan = self._find()
        return plan if plan is not None and self._fits_beside_reserved(plan) else None

    def _fits_beside_reserved(self, plan: EvictionPlan) -> bool:
        with trial(self._session) as outer:
            self._release_leaving(outer.evict)
            return self._try((plan.victims,)) is not None

    def _find(self) -> EvictionPlan | None:
        if not self._pods:
            return None
        fits_now = self._try(())
        with trial(self._session) as outer:
            leaving = self._release_leaving(outer.evict)
            placed = self._try(()) if leaving else fits_now
            if placed is not None:
                return EvictionPlan((), placed, _awaited(leaving, placed) if fits_now is None else ())
            plan = self._with_victims() if self._candidates else None
            if plan is None:
                return None
            awaited = _awaited(leaving, plan.allocations, plan.victims)
            return EvictionPlan(plan.victims, plan.allocations, awaited)

    def _with_victims(self) -> EvictionPlan | None:
        bundles = self._choice.bundles
        group = self._job.group
        if bundles is None or group is None or group.topology is None:
            return self._in_passes()
        placements = self._session.state.pods
        request = DomainRequest(
            self._job,
            self._pods,
            len(self._pods),
            group.topology,
            placed_nodes(self._session.state, self._job),
            evicting=True,
            evictable=node_set(placements[pod.uid].node for _, pod in self._candidates),
        )
        domains = domains_for(self._session, request)
        if domains is None:
            return self._in_passes()
        left = bundles.max_domains
        for tier in domains.tiers:
            tried = list(tier[:left])
            left -= len(tried)
            plan = self._cheapest_of(tried)
            if plan is not None:
                return plan
            if not left:
                break
        # Soft mode prefers a domain, and does without.
        return self._in_passes() if group.topology.soft else None

    def _cheapest_of(self, domains: Sequence[Domain]) -> EvictionPlan | None:
        """Return the plan with the cheapest victims inside one of the domains; None if there is none."""
        best: tuple[tuple[bool, _Price], EvictionPlan] | None = None
        for domain in domains:
            self._domain = domain
            try:
                plan = self._in_passes()
            finally:
                self._domain = None
            if plan is not None:
                breaks_gangs = len(self._spare.pick(plan.victims)) < len(plan.victims)
                price = (breaks_gangs, self._price([plan.victims]))
                if best is None or price < best[0]:
                    best = (price, plan)
        return None if best is None else best[1]

    def _in_passes(self) -> EvictionPlan | None:
        for kind in self._passes():
            if kind is _Groups.JOB_BY_JOB and not self._refused:
                # The plugins excluded no pod: the pass before has tried all of them.
                return None
            plan = self._one_pod(kind) if len(self._pods) == 1 else self._gang(kind)
            if plan is None:
                continue
            if kind is not _Groups.JOB_BY_JOB or len(self._allowed(plan.victims)) == len(plan.victims):
                return plan
        return None

    def _passes(self) -> tuple[_Groups, ...]:
        bundles = self._choice.bundles
        if bundles is None:
            return _Groups.SPARE, _Groups.ALL
        if bundles.allow_whole:
            return _Groups.SPARE, _Groups.SPARE_FIRST, _Groups.JOB_BY_JOB
        return (_Groups.SPARE,)

    def _read(self, pods: int) -> None:
        """All candidates are read several times: that is little for each, and much for thousands."""
        self._session.budget.spend(pods // READ_IN_A_STEP, STEPS_BESIDES_READ * pods)

    # -- candidates ---------------------------------------------------------------------

    def _allowed(self, members: Sequence[JobPod]) -> list[JobPod]:
        session = self._session
        self._read(len(members))
        bundles = nullcontext() if self._choice.bundles is None else session.in_bundles()
        with bundles, as_if_placed(session, self._job, self._pods[:-1]):
            uids = self._choice.allowed(self._job, self._pods[-1], [pod.uid for _, pod in members])
        named = set(uids)
        self._refused = len(named) < len(members)
        return [member for member in members if member[1].uid in named]

    def _here(self, members: Sequence[JobPod]) -> Sequence[JobPod]:
        """Those in the domain that must take the job."""
        if self._domain is None:
            return members
        placements, nodes = self._session.state.pods, self._domain.nodes
        return [member for member in members if nodes >> placements[member[1].uid].node & 1]

    def _spare_units(self, members: Sequence[JobPod]) -> list[VictimGroup]:
        """What jobs can spare; where a domain must take the job, that of which a part is there."""
        if self._domain is None:
            return self._spare.units(members)
        here = self._here(members)
        uids = {pod.uid for _, pod in here}
        elsewhere = [one for one in members if one[0].sub_groups and one[1].uid not in uids]
        units = self._spare.units([*here, *elsewhere])
        return [unit for unit in units if any(pod.uid in uids for _, pod in unit)]

    def _groups(self, members: Sequence[JobPod], kind: _Groups) -> list[VictimGroup]:
        """No gang is cut below its minimum: only the pods a job can spare are evicted, or all of them."""
        if kind is _Groups.SPARE:
            if not self._any_spare:
                return []
            if self._choice.bundles is not None:
                members = _members(self._spare_units(members))
            return sorted(self._spare_units(self._allowed(members)), key=self._place_of_group)
        running = self._spare.running
        if self._go_in_order(kind):
            of_jobs = _by_job(self._allowed(members))
            return [tuple(there) for there in of_jobs if len(there) == running(there[0][0])]
        here = self._here(members)
        if here is not members:
            jobs = {job.key for job, _ in here}
            members = [member for member in members if member[0].key in jobs]
        if kind is _Groups.SPARE_FIRST:
            first = _members(self._spare_units(members))
            uids = {pod.uid for _, pod in first}
            allowed = self._allowed([*first, *(one for one in members if one[1].uid not in uids)])
        elif kind is _Groups.JOB_BY_JOB:
            allowed = [one for there in _by_job(members) for one in self._allowed(there)]
        else:
            allowed = self._allowed(members)
        whole = [tuple(there) for there in _by_job(allowed) if len(there) == running(there[0][0])]
        if kind is _Groups.ALL:
            ending = {group[0][0].key for group in whole}
            spare = self._spare_units([one for one in allowed if one[0].key not in ending])
            # A pod that a job can spare loses less than the whole of another job does.
            return sorted([*whole, *spare], key=self._place_of_group)
        spare = self._spare_units(allowed)
        return [*sorted(spare, key=self._place_of_group), *sorted(whole, key=self._place_of_group)]

    def _place_of_group(self, group: VictimGroup) -> tuple[int, int, bool, int, int]:
        job = group[0][0]
        lost = sum(self._work.of(owner, pod) for owner, pod in group)
        again = self._work.was_preempted_lately(job)
        place = self._place_of_queue(group[0])
        return place, self._work.rank_of(job), again, lost, self._position[group[0][1].uid]

    def _place_of_queue(self, member: JobPod) -> int:
        """Of the queue for which the pod counts: a job that was moved may have pods of several."""
        job, pod = member
        return self._queue_place[self._session.usage.queue_of(pod.uid, job.queue)]

    def _release_leaving(self, evict: Callable[[Eviction], None]) -> dict[str, int]:
        """What pods that are being deleted hold counts as free: no pod is evicted for it. Uid -> node."""
        session, placements, result = self._session, self._session.state.pods, dict[str, int]()
        for job, pod in session.shared(LeavingPods).now():
            node = placements[pod.uid].node
            if node >= 0:
                session.budget.spend(STEPS_TO_EVICT, STEPS_BESIDES_EVICT)
                evict(Eviction(job, pod, "", self._job))
                result[pod.uid] = node
        return result

    # -- trying ---------------------------------------------------------------------------

    def _try(self, groups: Iterable[VictimGroup]) -> tuple[Allocation, ...] | None:
        """The placement the job gets when these are gone; None where it cannot start then."""
        session = self._session
        with trial(session, self._job, self._counted(groups)) as statement:
            with nullcontext() if self._domain is None else session.restricted(self._domain.nodes):
                reason = place_gang(session, self._job, statement, beyond_gang=self._beyond_gang)
            if reason is not None or not session.job_pipelined(self._job):
                return None
            return tuple(statement.allocations)

    def _counted(self, groups: Iterable[VictimGroup]) -> Iterator[JobPod]:
        for member in _members(groups):
            self._session.budget.spend(STEPS_TO_EVICT, STEPS_BESIDES_EVICT)
            yield member

    def _reduce(self, groups: list[VictimGroup], placed: tuple[Allocation, ...]) -> EvictionPlan:
        """Spare every group that is not needed, the most expensive first."""
        groups, placed = reduced(groups, self._try, placed)
        return EvictionPlan(_members(groups), placed)

    # -- one pod: node by node -----------------------------------------------------------

    def _one_pod(self, kind: _Groups) -> EvictionPlan | None:
        """The node whose victims are cheapest; on a tie the earlier in victim order, then natural order."""
        best: _PricedPlan | None = None
        in_parts = len(self._queue_place) == 1 and self._go_in_order(kind)
        for candidates in self._more_and_more() if in_parts else (self._candidates,):
            best = self._cheapest_node(kind, candidates)
            rest = len(self._candidates) - len(candidates)
            if not rest:
                break
            # No node that needs one of the others can cost less than the first of them does.
            decided = self._session.first_tier_decided
            if best is not None and decided and best.price < self._least(self._candidates[-rest][0]):
                break
        return None if best is None else best.plan

    def _go_in_order(self, kind: _Groups) -> bool:
        """Whether only whole jobs go, in the order of the candidates: then those behind need no look.

        What plugins say of a candidate depends on those before it only.
        """
        whole = kind is _Groups.ALL or kind is _Groups.SPARE_FIRST
        return whole and not self._any_spare and self._domain is None

    def _more_and_more(self) -> Iterator[Sequence[JobPod]]:
        """The cheapest candidates, each time more of them, at last all; no job in part."""
        candidates, count = self._candidates, FIRST_LOOKED_AT
        # The last part but one is small beside all.
        while 2 * count < len(candidates):
            while count < len(candidates) and candidates[count][0] is candidates[count - 1][0]:
                count += 1
            if count < len(candidates):
                yield candidates[:count]
            count *= TIMES_AS_MANY
        yield candidates

    def _least(self, job: Job) -> _Price:
        """A price that is not above that of any victims with a pod of this job, or of one behind it."""
        pods = [pod for pod in job.pods.values() if pod.uid in self._position]
        lost = sum(self._work.of(job, pod) for pod in pods)
        again = self._work.was_preempted_lately(job)
        first = min(self._position[pod.uid] for pod in pods)
        place = min(self._place_of_queue((job, pod)) for pod in pods)
        rank = self._work.rank_of(job)
        return _Price(rank, place, (_Loss(rank, again, lost),), 1, first)

    def _cheapest_node(self, kind: _Groups, candidates: Sequence[JobPod]) -> _PricedPlan | None:
        best: _PricedPlan | None = None
        for offer in islice(self._offers(kind, candidates), MAX_NODES_TRIED):
            if best is not None and best[:2] <= offer[:2]:
                break
            plan = self._on_node(offer.needed, offer.groups)
            if plan is not None:
                price = self._price([plan.victims])
                if best is None or (price, offer.rank) < best[:2]:
                    best = _PricedPlan(price, offer.rank, plan)
        return best

    def _offers(self, kind: _Groups, candidates: Sequence[JobPod]) -> Iterator[_Offer]:
        """Nodes whose chips suffice without their victims, the lowest price first.

        Who is needed on a node is found only when no other can be cheaper.
        """
        session = self._session
        rank_of = session.state.rank_of
        selection = session.node_selection(self._job, self._pods[0])
        by_node = self._groups_by_node(kind, candidates)
        self._read(len(by_node))
        offered: dict[int, _PricedGroup] = {}
        heap: list[tuple[_Price, int, bool, int]] = []
        for node, groups in by_node.items():
            for group in groups:
                if id(group) not in offered:
                    offered[id(group)] = self._offered(group)
            lowest = self._least_on(selection, node, [offered[id(group)] for group in groups])
            if lowest is not None:
                heap.append((lowest, rank_of(node), False, node))
        heapify(heap)
        groups_on: dict[int, list[VictimGroup]] = {}
        while heap:
            lowest, rank, is_price, node = heappop(heap)
            groups = by_node[node]
            if is_price:
                yield _Offer(lowest, rank, groups_on[node], groups)
                continue
            session.budget.spend(len(groups))
            needed = self._enough_chips(selection, node, groups)
            if needed is not None:
                groups_on[node] = needed
                heappush(heap, (self._price(needed or groups), rank, True, node))

    def _offered(self, group: VictimGroup) -> _PricedGroup:
        """Of a group by itself."""
        placements = self._session.state.pods
        chips: dict[int, int] = {}
        for _, pod in group:
            placement = placements[pod.uid]
            chips[placement.node] = chips.get(placement.node, 0) + placement.chips.bit_count()
        return _PricedGroup(self._price((group,)), chips)

    def _least_on(self, selection: NodeSelection, node: int, groups: Sequence[_PricedGroup]) -> _Price | None:
        """A price that is not above that of any of these groups that leave enough chips; None: none do.

        More victims never cost less. Where all are of one priority and queue, as many of the cheapest as
        have to go at least are counted.
        """
        cheapest = min(groups, key=lambda one: one.price).price
        policy = selection.policy
        if policy is None:
            return cheapest
        lacking = selection.chips - self._session.state.fleets[policy.resource].free(node).bit_count()
        fewest = 0
        for chips in sorted([one.chips.get(node, 0) for one in groups], reverse=True):
            if lacking <= 0:
                break
            lacking -= chips
            fewest += 1
        if lacking > 0:
            return None
        prices = [one.price for one in groups]
        if fewest < 2 or any(one[:2] != cheapest[:2] or len(one.losses) > 1 for one in prices):
            return cheapest
        again = sorted([one.losses[0].recently_evicted for one in prices])[fewest - 1]
        seconds = sum(sorted([one.losses[0].seconds for one in prices])[:fewest])
        pods = sum(sorted([one.pods for one in prices])[:fewest])
        loss = _Loss(cheapest.priority, again, seconds)
        return _Price(*cheapest[:2], (loss,), pods, min(one.position for one in prices))

    def _price(self, groups: Sequence[VictimGroup]) -> _Price:
        if len(groups) == 1 and len(groups[0]) == 1:
            # Of most candidates: there may be tens of thousands.
            job, pod = groups[0][0]
            priority = self._work.rank_of(job)
            loss = _Loss(priority, self._work.was_preempted_lately(job), self._work.of(job, pod))
            return _Price(priority, self._place_of_queue((job, pod)), (loss,), 1, self._position[pod.uid])
        members = _members(groups)
        lost: dict[int, tuple[bool, int]] = {}
        for job, pod in members:
            rank = self._work.rank_of(job)
            again, seconds = lost.get(rank, (False, 0))
            again = again or self._work.was_preempted_lately(job)
            lost[rank] = again, seconds + self._work.of(job, pod)
        return _Price(
            max(lost),
            max(map(self._place_of_queue, members)),
            tuple(_Loss(priority, *lost[priority]) for priority in sorted(lost, reverse=True)),
            len(members),
            max(self._position[pod.uid] for _, pod in members),
        )

    def _groups_by_node(self, kind: _Groups, candidates: Sequence[JobPod]) -> dict[int, list[VictimGroup]]:
        placements = self._session.state.pods
        if kind is _Groups.SPARE:
            if not self._any_spare:
                return {}
            on_node: dict[int, list[JobPod]] = {}
            together: list[JobPod] = []
            for member in candidates:
                if not self._spare.any_of(member[0]):
                    continue
                if member[0].sub_groups:
                    together.append(member)
                else:
                    on_node.setdefault(placements[member[1].uid].node, []).append(member)
            # Each node by itself: which pods a job can spare depends on the order of the candidates.
            alone = {node: groups for node, there in on_node.items() if (groups := self._groups(there, kind))}
            return self._on_nodes(self._groups(together, kind), alone) if together else alone
        return self._on_nodes(self._groups(candidates, kind), {})

    def _on_nodes(
        self, groups: Iterable[VictimGroup], groups_on: dict[int, list[VictimGroup]]
    ) -> dict[int, list[VictimGroup]]:
        placements = self._session.state.pods
        for group in groups:
            for node in sorted({placements[pod.uid].node for _, pod in self._here(group)}):
                groups_on.setdefault(node, []).append(group)
        return groups_on

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
            id(group): union_of(
                state.pods[pod.uid].chips for _, pod in group if state.pods[pod.uid].node == node
            )
            for group in groups
        }

        def fits(retained: Iterable[VictimGroup]) -> bool:
            free = fleet.free(node) | union_of(freed[id(group)] for group in retained) & fleet.listed[node]
            signature = policy.rule.signature(free & ~bad, fleet.allocatable[node], fleet.faulty[node])
            return policy.rule.score(signature, selection.chips, policy.multi_pod) is not None

        if not fits(groups):
            return None
        return reduced(groups, lambda fewer: fits(fewer) or None, True)[0]

    def _on_node(self, needed: list[VictimGroup], groups: list[VictimGroup]) -> EvictionPlan | None:
        if needed:
            placed = self._try(needed)
            if placed is not None:
                return EvictionPlan(_members(needed), placed)
        placed = self._try(groups)
        return None if placed is None else self._reduce(groups, placed)

    # -- a gang: the cheapest pods of the cluster ----------------------------------------------

    def _gang(self, kind: _Groups) -> EvictionPlan | None:
        enough = self._fewest_of_the_cheapest(kind)
        if enough is None:
            return None
        groups, placed = enough
        groups, placed = self._holding_what_is_needed(groups, placed)
        if len(groups) <= MAX_SPARED_SINGLY:
            return self._reduce(groups, placed)
        return EvictionPlan(_members(groups), placed)

    def _fewest_of_the_cheapest(
        self, kind: _Groups
    ) -> tuple[list[VictimGroup], tuple[Allocation, ...]] | None:
        """As few of the cheapest as are enough: the number is doubled, then bisected; None: all are not.

        All of them, which may be thousands, are tried only where half of them are not enough.
        """
        sources = self._more_and_more() if self._go_in_order(kind) else iter((self._candidates,))
        groups: list[VictimGroup] = []

        def available(wanted: int) -> int:
            nonlocal groups
            while len(groups) < wanted:
                candidates = next(sources, None)
                if candidates is None:
                    break
                of_candidates = self._groups(candidates, kind)
                if len(candidates) == len(self._candidates) or self._session.first_tier_decided:
                    groups = of_candidates
            return len(groups)

        fit = fewest(available, lambda count: self._try(groups[:count]))
        return None if fit is None else (groups[: fit[0]], fit[1])

    def _holding_what_is_needed(
        self, groups: list[VictimGroup], placed: tuple[Allocation, ...]
    ) -> tuple[list[VictimGroup], tuple[Allocation, ...]]:
        """Without the groups that hold no chip the job would get, or else are on none of its nodes."""
        while True:
            for fewer in self._holding_chips(groups, placed), self._on_its_nodes(groups, placed):
                again = self._try(fewer) if len(fewer) < len(groups) else None
                if again is not None:
                    groups, placed = fewer, again
                    break
            else:
                return groups, placed

    def _holding_chips(self, groups: list[VictimGroup], placed: tuple[Allocation, ...]) -> list[VictimGroup]:
        placements, taken = self._session.state.pods, chips_by_node(placed)
        return [
            group
            for group in groups
            if any(placements[pod.uid].chips & taken.get(placements[pod.uid].node, 0) for _, pod in group)
        ]

    def _on_its_nodes(self, groups: list[VictimGroup], placed: tuple[Allocation, ...]) -> list[VictimGroup]:
        placements, nodes = self._session.state.pods, {allocation.node for allocation in placed}
        return [group for group in groups if any(placements[pod.uid].node in nodes for _, pod in group)]


def _awaited(
    leaving: Mapping[str, int], allocations: Iterable[Allocation], victims: Sequence[JobPod] = ()
) -> tuple[str, ...]:
    """The leaving pods that it waits for: those on its nodes. Where there are none, some leave its share."""
    nodes = {allocation.node for allocation in allocations}
    there = tuple(uid for uid, node in leaving.items() if node in nodes)
    return there if there or victims else tuple(leaving)


def _by_job(members: Iterable[JobPod]) -> list[list[JobPod]]:
    of_job: dict[str, list[JobPod]] = {}
    for member in members:
        of_job.setdefault(member[0].key, []).append(member)
    return list(of_job.values())


def _members(groups: Iterable[VictimGroup]) -> tuple[JobPod, ...]:
    """Each pod once: it may be one that its job can spare, and go with all of them."""
    return tuple({pod.uid: (job, pod) for group in groups for job, pod in group}.values())
