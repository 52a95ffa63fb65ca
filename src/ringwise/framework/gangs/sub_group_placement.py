"""Places the sub-groups of a job inside its domain: each starts whole, or not at all beyond what runs of it.

Those that the job needs come first: as many of each policy as must run, then those with pods of a task that
is short, then others until the gang is complete. Pods that no policy is about are placed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain

from ringwise.framework.extension_points import SUB_JOB_ORDER, DomainRequest
from ringwise.framework.gangs.domain_placement import domains_for, place_in_domains
from ringwise.framework.gangs.gang_count import is_placed
from ringwise.framework.job import Job, task_minimums_count
from ringwise.framework.reasons import NO_PODS_YET, SUB_GROUP_CUT
from ringwise.framework.session import Session
from ringwise.framework.statement import Statement
from ringwise.framework.sub_groups import SubGroup
from ringwise.grammar import counted
from ringwise.reasons import Reason
from ringwise.state.hyper_nodes import Domain
from ringwise.state.model import NetworkTopology, Pod, PodClass
from ringwise.topology.chips import union_of

#: What a sub-group asks for: the place of its policy, and the classes of its pods with their claims.
_SubGroupNeeds = tuple[int, tuple[tuple[PodClass, tuple[str, ...]], ...]]
#: How often the pods of a job are looked at when its sub-groups are placed.
_LOOKS = 8
#: Places so many of these pods at least, where the session is restricted to; why it could not.
Place = Callable[[Sequence[Pod], int], Reason | None]


class SubGroupState:
    """A sub-group while it is placed; a pod of no policy is one of its own."""

    __slots__ = ("group", "have", "placed", "size", "waiting")

    def __init__(self, group: SubGroup, size: int) -> None:
        self.group = group
        self.size = size
        #: Pods that have a node, have succeeded, or wait and request nothing.
        self.have = 0
        #: Nodes of those that have one, as bits by node id.
        self.placed = 0
        #: Pods that wait for a node, in the order in which they are placed.
        self.waiting: tuple[Pod, ...] = ()

    @property
    def complete(self) -> bool:
        return self.have >= self.size

    @property
    def broken(self) -> bool:
        """It runs, and lacks pods that it needs."""
        return 0 < self.have < self.size

    @property
    def next_pods(self) -> tuple[Pod, ...]:
        """What is placed next: what it lacks to be complete, then one pod at a time. None: too few exist."""
        lacking = max(1, self.size - self.have)
        return self.waiting[:lacking] if lacking <= len(self.waiting) else ()

    def again(self) -> SubGroupState:
        """A copy for one more try."""
        state = SubGroupState(self.group, self.size)
        state.have, state.placed, state.waiting = self.have, self.placed, self.waiting
        return state

    def took(self, pods: Sequence[Pod]) -> None:
        self.have += len(pods)
        self.waiting = self.waiting[len(pods) :]


class Tally:
    """What the gang of a job still lacks."""

    def __init__(self, job: Job, units: Sequence[SubGroupState], started: Iterable[Pod]) -> None:
        self._started = sum(unit.have for unit in units)
        self._needed = job.min_available
        self._groups: dict[int, list[int]] = {}
        for position, policy in enumerate(job.group.sub_groups if job.group is not None else ()):
            self._groups[position] = [0, policy.min_groups]
        for unit in units:
            if unit.complete and unit.group.policy is not None:
                self._groups[unit.group.position][0] += 1
        self._tasks: dict[str, int] = {}
        if task_minimums_count(job):
            self._tasks = dict(job.min_per_task)
            for pod in started:
                if pod.task in self._tasks:
                    self._tasks[pod.task] -= 1

    def wants(self, stage: int, unit: SubGroupState) -> bool:
        """Whether pods of the unit bring the gang nearer to its start, in the order of the stages."""
        if stage == 0:
            have, needed = self._groups.get(unit.group.position, (0, 0))
            return have < needed and not unit.complete
        if stage == 1:
            return any(self._tasks.get(pod.task, 0) > 0 for pod in unit.next_pods)
        return self._started < self._needed

    @property
    def satisfied(self) -> bool:
        return (
            self._started >= self._needed
            and all(have >= needed for have, needed in self._groups.values())
            and all(missing <= 0 for missing in self._tasks.values())
        )

    def add(self, unit: SubGroupState, pods: Sequence[Pod]) -> None:
        self._started += len(pods)
        was_complete = unit.complete
        unit.took(pods)
        if unit.complete and not was_complete and unit.group.policy is not None:
            self._groups[unit.group.position][0] += 1
        for pod in pods:
            if pod.task in self._tasks:
                self._tasks[pod.task] -= 1


#: What is looked for in each walk over the units, by the stages of `Tally.wants`.
_BY_STAGE = ((0,), (1,), (2,))
_AT_ONCE = ((0, 1, 2),)


class _SortKeys:
    """The sub-groups of jobs, those that are placed first in front. Kept for a cycle: pods stay in theirs."""

    def __init__(self, session: Session) -> None:
        self._orders = session.registered(SUB_JOB_ORDER)
        self._cache: dict[str, tuple[Sequence[SubGroup], list[SubGroup]]] = {}

    def of(self, job: Job) -> list[SubGroup]:
        groups = job.sub_groups
        entry = self._cache.get(job.key)
        if entry is None or entry[0] is not groups:
            orders = self._orders
            ordered = sorted(groups, key=lambda one: (*[order(job, one) for order in orders], *one.order))
            entry = self._cache[job.key] = groups, ordered
        return entry[1]


class _Plan:
    """The units of a job in the order in which they are placed, and what its gang lacks."""

    def __init__(self, session: Session, job: Job, pods: Sequence[Pod]) -> None:
        self._job = job
        waiting = {pod.uid: pod for pod in pods}
        placements, backups = session.state.pods, job.backups
        self._started: list[Pod] = []
        place_of = {pod.uid: place for place, pod in enumerate(pods)}
        self.units: list[SubGroupState] = []
        for group in session.shared(_SortKeys).of(job):
            unit = SubGroupState(group, group.size)
            members: list[Pod] = []
            for uid in group.pods:
                if uid in waiting:
                    members.append(waiting[uid])
                    continue
                pod = job.pods.get(uid)
                if pod is None or uid in backups:
                    continue
                node = placements[uid].node
                if is_placed(session.state, pod):
                    unit.placed |= 1 << node if node >= 0 and pod.phase != "Succeeded" else 0
                elif not (pod.cls.best_effort and session.is_pending(pod)):
                    continue
                unit.have += 1
                self._started.append(pod)
            if len(members) > 1:
                members.sort(key=lambda pod: place_of[pod.uid])
            self.units.append(unit)
            if group.policy is not None:
                unit.waiting = tuple(members)
                continue
            for pod in members:
                single = SubGroupState(group, 1)
                single.waiting = (pod,)
                self.units.append(single)
        # What runs and lacks pods comes first; pods of no policy lack none.
        self.units.sort(key=lambda unit: unit.group.policy is None or not unit.broken)
        every = sum(unit.have + len(unit.waiting) for unit in self.units)
        if every <= job.min_available:
            # Each needs all its pods: a domain that takes fewer would be of no use.
            for unit in self.units:
                unit.size = max(unit.size, unit.have + len(unit.waiting))

    @cached_property
    def tightest_first(self) -> list[SubGroupState]:
        """Those with the fewest places that they can have come first."""
        return sorted(self.units, key=_tightness)

    def fresh(self, units: Sequence[SubGroupState]) -> tuple[list[SubGroupState], Tally]:
        units = [unit.again() for unit in units]
        return units, Tally(self._job, units, self._started)


def _tightness(unit: SubGroupState) -> tuple[bool, int, int, int]:
    topology, pods = unit.group.topology, unit.next_pods
    kind = 2 if topology is None else int(topology.soft)
    return not unit.broken, kind, -max((pod.cls.chips for pod in pods), default=0), -len(pods)


def needed_first(session: Session, job: Job, pods: Sequence[Pod]) -> tuple[list[Pod], int]:
    """The waiting pods in the order in which they are placed, and how many of them the gang needs."""
    plan = _Plan(session, job, pods)
    units, tally = plan.fresh(plan.units)
    ordered: list[Pod] = []

    def take(_unit: SubGroupState, taken: Sequence[Pod]) -> None:
        ordered.extend(taken)

    _walk(units, tally, _BY_STAGE, take)
    needed = len(ordered)
    for unit in units:
        ordered.extend(unit.waiting)
    return ordered, needed


def place_sub_groups(
    session: Session,
    job: Job,
    statement: Statement,
    pods: Sequence[Pod],
    place: Place,
    *,
    beyond_gang: bool,
    too_few: Reason,
) -> Reason | None:
    """Place what the gang needs, or with `beyond_gang` one more sub-group, or pod of one that is complete.

    What was placed of a sub-group that does not fit is undone. `too_few`: the reason where pods are missing.
    """
    # All pods are looked at again for each sub-group beyond the gang: here, and to bring them into order.
    session.budget.spend(_LOOKS * len(job.pods))
    plan = _Plan(session, job, pods)

    #: The try that got furthest: how many pods it placed, its domain, and what did not fit.
    furthest: tuple[int, Domain, _Attempt] | None = None

    def in_domain(domain: Domain | None) -> Reason | None:
        nonlocal furthest
        attempt = _Attempt(session, job, statement, place, domain)
        session.budget.spend(len(plan.units))
        if beyond_gang:
            # It is the last try that changes them: no copies are needed.
            units = plan.units
            return None if attempt.one_more(units) else attempt.failed or _lacking(units) or too_few
        units, tally = plan.fresh(plan.units)
        before = statement.savepoint()
        _walk(units, tally, _BY_STAGE, attempt.place)
        if tally.satisfied:
            return None
        got = len(statement.allocations) - before.allocations
        if attempt.failed is not None and domain is not None and (furthest is None or got > furthest[0]):
            furthest = got, domain, attempt
        if attempt.failed is not None and (tightest := plan.tightest_first) != plan.units:
            # One that could be elsewhere may have taken the place of one that could not.
            statement.rollback_to(before)
            session.budget.spend(len(plan.units))
            others, tally = plan.fresh(tightest)
            _walk(others, tally, _AT_ONCE, _Attempt(session, job, statement, place, domain).place)
            if tally.satisfied:
                return None
        return attempt.failed or _lacking(units) or too_few

    topology = job.group.topology if job.group is not None else None
    ordered, needed = _smallest_first(plan.units) if beyond_gang else needed_first(session, job, pods)
    if topology is None or not needed:
        return in_domain(None)
    placed = union_of(unit.placed for unit in plan.units)
    request = DomainRequest(job, ordered, needed, topology, placed)
    reason = place_in_domains(session, statement, request, in_domain)
    if reason is not None and beyond_gang:
        named = _hints(next(unit for unit in plan.units if unit.next_pods))
        return reason if any("sub-group" in hint for hint in reason.hints) else reason.with_hints(named)
    if reason is None or furthest is None:
        return reason
    _, domain, attempt = furthest
    if placed and attempt.failed is not None:
        # Its domain is given: the sub-group is what does not fit.
        return attempt.failed
    return reason.with_hints([f"in {domain.name or 'all nodes'} {attempt.refused} does not fit"])


def _smallest_first(units: Sequence[SubGroupState]) -> tuple[list[Pod], int]:
    """What a domain must take at least to be of use beyond the gang: the least that one of them takes."""
    least = min((unit.next_pods for unit in units if unit.next_pods), key=len, default=())
    named = {pod.uid for pod in least}
    return [*least, *(pod for unit in units for pod in unit.waiting if pod.uid not in named)], len(least)


def _walk(
    units: Sequence[SubGroupState],
    tally: Tally,
    walks: Sequence[Sequence[int]],
    place: Callable[[SubGroupState, Sequence[Pod]], Reason | None],
) -> None:
    blocked: set[SubGroupState] = set()

    def wanted(unit: SubGroupState, stages: Sequence[int]) -> Sequence[Pod]:
        wants = unit not in blocked and any(tally.wants(stage, unit) for stage in stages)
        return unit.next_pods if wants else ()

    for stages in walks:
        for unit in units:
            while pods := wanted(unit, stages):
                if place(unit, pods) is None:
                    tally.add(unit, pods)
                else:
                    blocked.add(unit)


class _Attempt:
    """One try to place sub-groups, in one domain of the job."""

    def __init__(
        self, session: Session, job: Job, statement: Statement, place: Place, domain: Domain | None
    ) -> None:
        self._session = session
        self._job = job
        self._statement = statement
        self._place = place
        self._domain = domain
        #: Why the first sub-group that did not fit did not.
        self.failed: Reason | None = None
        self.refused = ""
        #: What did not fit: another sub-group that asks for the same would not, either.
        self._refused: dict[_SubGroupNeeds, Reason] = {}
        #: The present domain of sub-groups that ask for the same, and those that are left.
        self._present: dict[_SubGroupNeeds, Domain | None] = {}
        self._left: dict[_SubGroupNeeds, Iterator[Domain]] = {}

    def place(self, unit: SubGroupState, pods: Sequence[Pod]) -> Reason | None:
        needs = _needs(unit, pods)
        reason = self._refused.get(needs) if not unit.placed else None
        if reason is None:
            reason = self._session.limited(self._job, pods) or self._try(unit, pods)
            if reason is not None and not unit.placed:
                self._refused[needs] = reason
        if reason is not None and self.failed is None:
            self.failed, self.refused = reason, f"sub-group {unit.group.title}"
        return reason

    def one_more(self, units: Sequence[SubGroupState]) -> bool:
        return any((pods := unit.next_pods) and self.place(unit, pods) is None for unit in units)

    def _try(self, unit: SubGroupState, pods: Sequence[Pod]) -> Reason | None:
        self._session.budget.spend(len(pods))
        before = self._statement.savepoint()
        topology = unit.group.topology
        if topology is None:
            reason = self._place(pods, len(pods))
        else:
            reason = self._try_domains(unit, pods, topology)
        if reason is None:
            for allocation in self._statement.allocations[before.allocations :]:
                unit.placed |= 1 << allocation.node
            return None
        self._statement.rollback_to(before)
        return reason.with_hints(_hints(unit))

    def _try_domains(
        self, unit: SubGroupState, pods: Sequence[Pod], topology: NetworkTopology
    ) -> Reason | None:
        """The best domain for one sub-group stays the best for the next that asks for the same.

        It only gets fuller, and nothing becomes free: those that took none are not asked again.
        """
        session, statement = self._session, self._statement
        request = DomainRequest(
            self._job, unit.waiting, len(pods), topology, unit.placed, within=self._domain
        )
        if not unit.placed:
            needs = _needs(unit, pods)
            if needs not in self._left:
                candidates = domains_for(session, request)
                self._left[needs] = chain.from_iterable(() if candidates is None else candidates.tiers)
                self._present[needs] = next(self._left[needs], None)
            before = statement.savepoint()
            while (domain := self._present[needs]) is not None:
                with session.restricted(domain.nodes):
                    if self._place(pods, len(pods)) is None:
                        return None
                statement.rollback_to(before)
                self._present[needs] = next(self._left[needs], None)
        return place_in_domains(session, statement, request, lambda _: self._place(pods, len(pods)))


def request_in_sub_group(session: Session, job: Job, pod: Pod, within: Domain | None) -> DomainRequest | None:
    """How the network topology of its sub-group restricts one pod; None where there is none."""
    for unit in _Plan(session, job, ()).units if job.sub_groups else ():
        if pod.uid in unit.group.pods and unit.group.topology is not None:
            return DomainRequest(job, [pod], 1, unit.group.topology, unit.placed, within)
    return None


def _needs(unit: SubGroupState, pods: Sequence[Pod]) -> _SubGroupNeeds:
    return unit.group.position, tuple((pod.cls, pod.claims) for pod in pods)


def _lacking(units: Sequence[SubGroupState]) -> Reason | None:
    """The first sub-group of which too few pods exist."""
    for unit in units:
        if unit.waiting and not unit.next_pods:
            reason = NO_PODS_YET(pods=unit.have + len(unit.waiting), needed=unit.size)
            return reason.with_hints(_hints(unit))
    return None


def cut_sub_group(session: Session, job: Job, statement: Statement) -> Reason | None:
    """Why the pods of a job that is placed as a whole may not start: a sub-group would start in part."""
    if not job.sub_groups:
        return None
    started = {allocation.pod.uid for allocation in statement.allocations if allocation.job is job}
    for unit in _Plan(session, job, ()).units:
        if unit.broken and not started.isdisjoint(unit.group.pods):
            return SUB_GROUP_CUT(job=job.name, group=unit.group.title, fit=unit.have, needed=unit.size)
    return None


def _hints(unit: SubGroupState) -> Iterator[str]:
    policy = unit.group.policy
    if policy is not None and unit.size > 1:
        yield (
            f"sub-group {unit.group.title} requires {counted(unit.size, 'pod')} to start"
            + (f"; {unit.have} of them {'runs' if unit.have == 1 else 'run'}" if unit.have else "")
        )
