"""Making room: which running pods would have to go so that a job fits, and no more than those.

Everything is tried on the live state inside a transaction: the victims' chips count as
free, the job is filled in as always, rings and switches and all. What works is then cut
down, the dearest victims first, to those without whom the job does not fit. Nothing of
it stays: the victims are asked to go, and the chips are kept for the job until they are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ringwise.framework.gang_placement import fill, missing_pods, pending_pods
from ringwise.framework.job import Job, pod_order
from ringwise.framework.node_selection import NodeSelection
from ringwise.framework.room_reasons import MAKING_ROOM
from ringwise.framework.session import Session
from ringwise.framework.statement import Allocation, Eviction
from ringwise.state.fleet import HOSTS, NO_NETWORK_KEY
from ringwise.state.model import Pod
from ringwise.state.reservations import Reservation
from ringwise.topology.chips import mask_of

#: So many of the cheapest nodes are tried in full for a single pod.
NODES_TRIED = 64
#: So many victims of a gang are given back one by one; larger sets are cut down by the chips they hold.
GIVEN_BACK_SINGLY = 32
#: Beyond the time a pod may take to end, before the kept chips are given up.
MARGIN_SECONDS = 60

Member = tuple[Job, Pod]
#: Pods that go together: one pod its job can spare, or all the pods of a job.
Unit = tuple[Member, ...]
Ask = Callable[[Job, Pod, list[str]], list[str]]


@dataclass(frozen=True, slots=True)
class Room:
    """The pods that have to go, and the places the job gets then."""

    victims: tuple[Member, ...]
    allocations: tuple[Allocation, ...]


def placed_pods(session: Session, flagged: Callable[[Pod], bool]) -> list[Member]:
    """Pods that hold a place, are not on their way out, and may be asked to go."""
    going = {eviction.pod.uid for eviction in session.evicted}
    placements = session.state.pods
    return [
        (job, pod)
        for job in session.jobs.values()
        for uid, pod in job.pods.items()
        if flagged(pod) and pod.live and not pod.deleting and uid not in going
        if placements[uid].node >= 0 and session.ours(pod)
    ]


def in_victim_order(session: Session, members: Iterable[Member]) -> list[Member]:
    """Who goes first: the reverse of who is served first, queues, then jobs, then pods."""
    pods: dict[str, list[Member]] = {}
    jobs: dict[str, dict[str, Job]] = {}
    for job, pod in members:
        jobs.setdefault(job.queue, {})[job.key] = job
        pods.setdefault(job.key, []).append((job, pod))
    ordered: list[Member] = []
    known = [session.queues[name] for name in jobs if name in session.queues]
    for queue in sorted(known, key=session.queue_key, reverse=True):
        for job in sorted(jobs[queue.name].values(), key=session.job_key, reverse=True):
            ordered += sorted(
                pods[job.key],
                key=lambda member: (session.pod_key(member[1]), pod_order(member[1])),
                reverse=True,
            )
    return ordered


@contextmanager
def as_if_placed(session: Session, job: Job, pods: Sequence[Pod]) -> Iterator[None]:
    """Inside, the job's share counts these pods: a gang is judged by all it will use."""
    for pod in pods:
        session.usage.add_pod(job.key, job.queue, pod.cls)
    try:
        yield
    finally:
        for pod in pods:
            session.usage.remove_pod(job.key, job.queue, pod.cls)


class Search:
    """Looks for room for one job among pods that may be asked to go."""

    def __init__(self, session: Session, job: Job, candidates: Iterable[Member], ask: Ask) -> None:
        self._session = session
        self._job = job
        self._ask = ask
        self._candidates = in_victim_order(session, candidates)
        #: Whose turn to go it is.
        self._turn = {pod.uid: turn for turn, (_, pod) in enumerate(self._candidates)}
        missing = missing_pods(session, job)
        self._beyond_gang = missing == 0
        pods = pending_pods(session, job) if job.pods else list(job.in_order)
        self._pods = pods[: max(1, missing)]

    def admitted(self) -> bool:
        """Whether the job would be let in if everybody who may be asked to go were gone."""
        session = self._session
        if not self._pods:
            return False
        allowed = self._allowed(self._candidates)
        statement = session.statement()
        try:
            self._release_leaving(statement.evict)
            for owner, pod in allowed:
                statement.evict(Eviction(owner, pod, "", self._job))
            return session.job_enqueueable(self._job)[0]
        finally:
            statement.discard()

    def find(self) -> Room | None:
        """The room that is cheapest to make; without victims where leaving pods make it anyway."""
        session = self._session
        if not self._pods:
            return None
        outer = session.statement()
        try:
            self._release_leaving(outer.evict)
            found = self._try(())
            if found is not None:
                return Room((), found)
            for whole in (False, True):
                room = self._one_pod(whole) if len(self._pods) == 1 else self._gang(whole)
                if room is not None:
                    return room
            return None
        finally:
            outer.discard()

    # -- who may be asked ---------------------------------------------------------------

    def _allowed(self, members: Sequence[Member]) -> list[Member]:
        with as_if_placed(self._session, self._job, self._pods[:-1]):
            uids = self._ask(self._job, self._pods[-1], [pod.uid for _, pod in members])
        named = set(uids)
        return [member for member in members if member[1].uid in named]

    def _spare(self, job: Job) -> int:
        """Pods the job can lose and still be whole."""
        done = sum(1 for pod in job.pods.values() if pod.phase == "Succeeded")
        return len(self._running(job)) + done - job.min_available

    def _running(self, job: Job) -> list[str]:
        placements = self._session.state.pods
        return [
            uid
            for uid, pod in job.pods.items()
            if placements[uid].node >= 0 and pod.live and not pod.deleting
        ]

    def _units(self, allowed: Sequence[Member], whole: bool) -> list[Unit]:
        """No gang is cut below its minimum: pods go as far as their job can spare them, or all of them go."""
        by_job: dict[str, list[Member]] = {}
        for member in allowed:
            by_job.setdefault(member[0].key, []).append(member)
        units: list[Unit] = []
        for members in by_job.values():
            job = members[0][0]
            if whole and len(members) == len(self._running(job)):
                units.append(tuple(members))
            else:
                units += [(member,) for member in members[: max(0, self._spare(job))]]
        return units

    def _release_leaving(self, evict: Callable[[Eviction], None]) -> None:
        """What pods on their way out hold is as good as free: nobody has to go for it."""
        session = self._session
        going = {eviction.pod.uid for eviction in session.evicted}
        for job in session.jobs.values():
            for uid, pod in job.pods.items():
                if (pod.deleting or uid in going) and session.state.pods[uid].node >= 0:
                    evict(Eviction(job, pod, "", self._job))

    # -- trying ---------------------------------------------------------------------------

    def _try(self, units: Iterable[Unit]) -> tuple[Allocation, ...] | None:
        """The places the job gets when these are gone, or None."""
        session = self._session
        plan = session.plans.get(self._job.key)
        statement = session.statement()
        try:
            for unit in units:
                for owner, pod in unit:
                    statement.evict(Eviction(owner, pod, "", self._job))
            reason = fill(session, self._job, statement, beyond_gang=self._beyond_gang)
            return None if reason is not None else tuple(statement.allocations)
        finally:
            statement.discard()
            session.plans.pop(self._job.key, None)
            if plan is not None:
                session.plans[self._job.key] = plan

    def _cut_down(self, units: list[Unit], found: tuple[Allocation, ...]) -> Room:
        """Give back the dearest first, whoever is not needed."""
        for unit in reversed(list(units)):
            fewer = [other for other in units if other is not unit]
            again = self._try(fewer)
            if again is not None:
                units, found = fewer, again
        return Room(tuple(member for unit in units for member in unit), found)

    # -- one pod: node by node -----------------------------------------------------------

    def _one_pod(self, whole: bool) -> Room | None:
        """The node whose victims are cheapest; among equals who goes first anyway, then natural order."""
        session = self._session
        selection = session.node_selection(self._job, self._pods[0])
        offers = []
        for node, units in self._units_by_node(whole).items():
            needed = self._enough_chips(selection, node, units)
            if needed is not None:
                offers.append((self._price(needed or units), session.state.rank_of(node), needed, units))
        offers.sort(key=lambda offer: (offer[0], offer[1]))
        best: tuple[Any, Room] | None = None
        for lowest, rank, needed, units in offers[:NODES_TRIED]:
            if best is not None and best[0] <= (lowest, rank):
                break
            room = self._on_node(needed, units)
            if room is not None:
                price = (self._price([room.victims]), rank)
                if best is None or price < best[0]:
                    best = (price, room)
        return None if best is None else best[1]

    def _price(self, units: Iterable[Unit]) -> tuple[int, ...]:
        units = list(units)
        return *cost(units), max(self._turn[pod.uid] for unit in units for _, pod in unit)

    def _units_by_node(self, whole: bool) -> dict[int, list[Unit]]:
        placements = self._session.state.pods
        on_node: dict[int, list[Member]] = {}
        for member in self._candidates:
            on_node.setdefault(placements[member[1].uid].node, []).append(member)
        if not whole:
            # Each node by itself: which pods a job can spare depends on who is asked first.
            return {
                node: units
                for node, members in on_node.items()
                if (units := self._units(self._allowed(members), False))
            }
        found: dict[int, list[Unit]] = {}
        for unit in self._units(self._allowed(self._candidates), True):
            for node in sorted({placements[pod.uid].node for _, pod in unit}):
                found.setdefault(node, []).append(unit)
        return found

    def _enough_chips(self, selection: NodeSelection, node: int, units: list[Unit]) -> list[Unit] | None:
        """The units without which the chips of the node do not fit; None when they never do."""
        policy = selection.policy
        if policy is None:
            return []
        state = self._session.state
        fleet = state.fleets[policy.resource]
        network = fleet.network[node] if policy.withholds_network else 0
        if fleet.allocatable[node] < 0 or network == NO_NETWORK_KEY:
            return None
        bad = fleet.unhealthy[node] | fleet.recovering[node] | fleet.reserved[node] | network
        freed = {
            id(unit): _union(state.pods[pod.uid].chips for _, pod in unit if state.pods[pod.uid].node == node)
            for unit in units
        }

        def fits(kept: Iterable[Unit]) -> bool:
            free = fleet.free(node) | _union(freed[id(unit)] for unit in kept) & fleet.listed[node]
            signature = policy.rule.signature(free & ~bad, fleet.allocatable[node], fleet.faulty[node])
            return policy.rule.score(signature, selection.chips, policy.multi_pod) is not None

        if not fits(units):
            return None
        needed = list(units)
        for unit in reversed(units):
            fewer = [other for other in needed if other is not unit]
            if fits(fewer):
                needed = fewer
        return needed

    def _on_node(self, needed: list[Unit], units: list[Unit]) -> Room | None:
        if needed:
            found = self._try(needed)
            if found is not None:
                return Room(tuple(member for unit in needed for member in unit), found)
        found = self._try(units)
        return None if found is None else self._cut_down(units, found)

    # -- a gang: the cheapest pods of the cluster ----------------------------------------------

    def _gang(self, whole: bool) -> Room | None:
        units = self._units(self._allowed(self._candidates), whole)
        found = self._try(units) if units else None
        if found is None:
            return None
        units, found = self._shortest_start(units, found)
        units, found = self._holding(units, found)
        if len(units) <= GIVEN_BACK_SINGLY:
            return self._cut_down(units, found)
        return Room(tuple(member for unit in units for member in unit), found)

    def _shortest_start(
        self, units: list[Unit], found: tuple[Allocation, ...]
    ) -> tuple[list[Unit], tuple[Allocation, ...]]:
        """As few of the cheapest as will do: doubling, then halving."""
        low, high, step = 0, len(units), 1
        while step < high:
            again = self._try(units[:step])
            if again is not None:
                high, found = step, again
                break
            low, step = step, step * 2
        while high - low > 1:
            middle = (low + high) // 2
            again = self._try(units[:middle])
            if again is None:
                low = middle
            else:
                high, found = middle, again
        return units[:high], found

    def _holding(
        self, units: list[Unit], found: tuple[Allocation, ...]
    ) -> tuple[list[Unit], tuple[Allocation, ...]]:
        """Without those who hold no chip that the job would get."""
        placements = self._session.state.pods
        while True:
            taken: dict[int, int] = {}
            for allocation in found:
                taken[allocation.node] = taken.get(allocation.node, 0) | mask_of(allocation.chips)
            fewer = [
                unit
                for unit in units
                if any(placements[pod.uid].chips & taken.get(placements[pod.uid].node, 0) for _, pod in unit)
            ]
            again = self._try(fewer) if len(fewer) < len(units) else None
            if again is None:
                return units, found
            units, found = fewer, again


def cost(units: Iterable[Unit]) -> tuple[int, int, int]:
    """What it costs to send these away: lowest highest priority, then lowest sum, then fewest."""
    priorities = [job.priority for unit in units for job, _ in unit]
    return max(priorities, default=0), sum(priorities), len(priorities)


def nominate(session: Session, job: Job, room: Room, why: str) -> None:
    """Ask the victims to go, and keep the chips for the job until it can have them."""
    for owner, pod in room.victims:
        session.evicted.append(Eviction(owner, pod, why, job))
    seconds = session.settings.grace_over_time + MARGIN_SECONDS
    reservation = Reservation(
        owner=job.key,
        resource=job.policy.resource if job.policy is not None else HOSTS,
        chips=chips_by_node(room.allocations),
        expires=session.now + seconds * 1_000_000_000,
        why=why,
    )
    session.reservations.make(reservation)
    nodes = sorted({allocation.node for allocation in room.allocations}, key=session.state.rank_of)
    job.reason = MAKING_ROOM(
        victims=len(room.victims),
        why=why,
        chips=reservation.chip_count,
        nodes=[session.state.names[node] for node in nodes[:20]],
        seconds=seconds,
    )


def chips_by_node(allocations: Iterable[Allocation]) -> dict[int, int]:
    chips: dict[int, int] = {}
    for allocation in allocations:
        if allocation.chips:
            chips[allocation.node] = chips.get(allocation.node, 0) | mask_of(allocation.chips)
    return chips


def _union(masks: Iterable[int]) -> int:
    total = 0
    for mask in masks:
        total |= mask
    return total
