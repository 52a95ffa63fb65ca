"""The search for a plan: the least moved chip-hours on small clusters, bounded effort on large ones.

Everything is tried on the live state inside suppositions (`what_if`), by the code that places jobs in a
cycle, so that every rule holds for each place. The pods of the waiting job are placed first, then those that
had to give way, largest first; a pod that finds no place takes one from other units, which follow. On boards
whose requests divide each other that finds a plan wherever enough chips are free and all may be moved. At the
end the plan as it stands is tried once more: moved pods at their places, then the waiting job as in any
cycle. What is returned has passed this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, partial, reduce
from heapq import heapify, heappop, heappush
from itertools import chain, count
from operator import or_

from ringwise.framework.budget import TooCostly
from ringwise.framework.evictions.eviction import evicting_reservation, waiting_for_evictions
from ringwise.framework.extension_points import first_reason
from ringwise.framework.gangs.domain_placement import obeys_topology
from ringwise.framework.gangs.gang_placement import (
    missing_pods,
    node_filters,
    pending_pods,
    place_each,
    too_few_pods,
)
from ringwise.framework.job import Job
from ringwise.framework.network_topology import PLUGIN
from ringwise.framework.node_selection import NodeSelection
from ringwise.framework.queue_discipline import equivalence_class
from ringwise.framework.session import Session
from ringwise.framework.statement import Allocation, chips_by_node
from ringwise.framework.trials import fewest, reduced, trial
from ringwise.grammar import counted
from ringwise.messages.move_plan import MovePlan, PlannedMove, PlannedPod
from ringwise.reasons import Reason, Trigger
from ringwise.records import dataclass
from ringwise.scheduler.defragment.live_plan import MAX_PLAN, plan_name, plan_size, uid_of
from ringwise.scheduler.defragment.movable import DisruptionBudget
from ringwise.scheduler.defragment.reasons import (
    MOVE_IS_HIGHER,
    MOVE_IS_WORSE,
    MOVES_UNDER_WAY,
    NO_MOVES_HELP,
    NOT_ENOUGH_FREE,
    NOT_WAITING,
    PLAN_TOO_COSTLY,
    STARTS_WITHOUT_MOVES,
)
from ringwise.scheduler.defragment.units import NOTHING, Cost, Unit, Units, plus
from ringwise.scheduler.explain.what_if import closed_queue, overused_queue, place_next
from ringwise.scheduler.view import RACKS, SUPERPODS, SWITCHES, SchedulerView
from ringwise.state.model import Pod
from ringwise.state.node_labels import node_set
from ringwise.topology.chips import chips_of, mask_of
from ringwise.wellknown import ACCELERATOR_TYPE

#: Steps of one search: a pod that is placed or released, or some nodes that are looked at.
PLAN_STEPS = 20_000
#: The same for all jobs of a command together.
SHARED_STEPS = 2 * PLAN_STEPS
#: Nodes that are looked at in a step.
_NODES_A_STEP = 8
#: With more units than this no other sets of moves are compared with the one that was found.
EXACT_UNITS = 12
_EXACT_PODS = 1_000
#: Of units that find no place, how many are left where they are before the search ends.
_ATTEMPTS = 24
#: How often a job that is placed as a whole is tried again without units that find no place.
_ROUNDS = 3
#: Nodes that are tried in earnest for one pod: chips are there, and something else may be missing.
_TRIED_NODES = 12
#: Nodes of which the cheapest to clear is taken.
_COMPARED = 64
#: Switches, SuperPoDs or racks that are cleared for a job that is placed as a whole.
_REGIONS = 12
#: Of the units on a node all combinations are compared up to so many.
_COMBINED = 8
#: Jobs that must stay, of which a reason says why.
_NAMED = 3
#: Moves of a plan that are left out one by one to find those that are not needed.
_SPARED_SINGLY = 32


@dataclass(slots=True)
class PlanBudget:
    """How much may still be tried, for one job or for all jobs of a command."""

    remaining: int = PLAN_STEPS

    @property
    def is_over(self) -> bool:
        return self.remaining <= 0

    def spend(self, steps: int) -> None:
        self.remaining -= steps
        if self.remaining <= 0:
            raise _OutOfSteps


class _OutOfSteps(Exception):
    """The search ends with what it has."""


class _DoesNotFit(Exception):
    """An attempt failed: nothing is left to try for the waiting job, or a unit finds no place."""

    def __init__(self, why: Reason | None, unit: Unit | None = None) -> None:
        super().__init__()
        self.why = why
        #: Who cannot be moved; None: the waiting job itself finds no place.
        self.unit = unit


def find_plan(
    view: SchedulerView,
    job: Job,
    now: int,
    budget: PlanBudget | None = None,
    disruption_budgets: Sequence[DisruptionBudget] = (),
) -> MovePlan | Reason:
    """Return which jobs would move where so that the job starts now, or why no moves start it.

    The state is the same before and after.
    """
    with planning(Units(view, now, budgets=disruption_budgets), budget) as planner:
        return planner.find(job)


def find_plans(
    view: SchedulerView,
    now: int,
    budget: PlanBudget | None = None,
    disruption_budgets: Sequence[DisruptionBudget] = (),
) -> tuple[list[MovePlan], dict[str, Reason]]:
    """Plans for all jobs that wait for holes, in queue order, each as if those before were carried out.

    And by the keys of the others why there is none; jobs that do not wait for chips are left out.
    """
    budget = budget or PlanBudget(SHARED_STEPS)
    plans: list[MovePlan] = []
    without: dict[str, Reason] = {}
    failed: dict[Hashable, Reason] = {}
    with planning(Units(view, now, budgets=disruption_budgets), budget) as planner:
        session = view.what_if.open_session(now)
        for job in planner.waiting():
            if budget.is_over:
                without[job.key] = PLAN_TOO_COSTLY(job=job.full_name)
                continue
            shape = equivalence_class(session, job) if job.pods else None
            if shape is not None and shape in failed:
                # Equal jobs behind it are no better off.
                without[job.key] = failed[shape].with_details({**failed[shape].details, "job": job.full_name})
                continue
            plan = planner.find(job)
            if isinstance(plan, Reason):
                without[job.key] = plan
                if shape is not None:
                    failed[shape] = plan
            else:
                plans.append(plan)
                planner.suppose_relocation()
    return plans, without


@contextmanager
def planning(units: Units, budget: PlanBudget | None = None) -> Iterator[Planner]:
    """For several plans in a row. At the end the state is as before."""
    with units.view.what_if.question(labels=(ACCELERATOR_TYPE,)):
        planner = Planner(units, budget or PlanBudget())
        with planner.supposed:
            yield planner


class Planner:
    """Finds plans inside one question."""

    def __init__(self, units: Units, budget: PlanBudget) -> None:
        self._units = units
        self._budget = budget
        #: What counts as carried out.
        self.supposed = ExitStack()
        self._relocation: _Relocation | None = None

    def waiting(self, wanted: Callable[[Job], bool] = lambda job: True) -> list[Job]:
        """The jobs that wait, or those of them that are wanted, in the order of queues and jobs.

        `wanted` is asked first: where it is quick, most jobs are not looked at.
        """
        view = self._units.view
        waiting = [
            job
            for job in view.jobs.values()
            if wanted(job)
            and (view.has_pending_pods(job) or (not job.pods and job.prospective and view.serves(job)))
        ]
        session = view.what_if.open_session(self._units.now, waiting)
        ordered: list[Job] = []
        queues = {job.queue for job in waiting} & session.queues.keys()
        for queue in sorted((session.queues[name] for name in queues), key=session.queue_key):
            ordered += sorted((job for job in waiting if job.queue == queue.name), key=session.job_key)
        return ordered

    def find(self, job: Job) -> MovePlan | Reason:
        with self._units.view.what_if.with_pods(job):
            search = _Search(self._units, job, self._budget)
            try:
                plan = search.find()
            except TooCostly as costly:
                return costly.reason
        self._relocation = search.best
        return plan

    def suppose_relocation(self) -> None:
        """From here on the plan that was found last counts as carried out."""
        relocation, what_if = self._relocation, self._units.view.what_if
        if relocation is None:
            return
        for job in {id(one.job): one.job for one in relocation.room}.values():
            self.supposed.enter_context(what_if.with_pods(job))
        session = what_if.open_session(self._units.now)
        self.supposed.enter_context(what_if.restarted(session, list(relocation.targets)))
        allocations = (*relocation.targets.values(), *relocation.room)
        placed = [one._replace(pod=one.job.pods[one.pod.uid]) for one in allocations]
        self.supposed.enter_context(what_if.placed(session, placed))
        self._units.pinned.update(one.pod.uid for one in placed)


@dataclass(slots=True)
class _Item:
    """What has to be placed next: a pod, or a job that is placed as a whole."""

    job: Job
    pod: Pod
    unit: Unit | None


def _placed_as_a_whole(session: Session, job: Job) -> bool:
    policy = job.policy
    if obeys_topology(session, job):
        return True
    return policy is not None and (policy.switch_class is not None or policy.block_nodes is not None)


@dataclass(slots=True)
class _Relocation:
    units: list[Unit]
    #: By uid of a moved pod.
    targets: dict[str, Allocation]
    room: list[Allocation]

    @property
    def cost(self) -> Cost:
        return _sum(self.units)


def _sum(units: Iterable[Unit]) -> Cost:
    total = NOTHING
    for unit in units:
        total = plus(total, unit.cost)
    return total


class _Search:
    """One search for one job."""

    def __init__(self, units: Units, job: Job, budget: PlanBudget) -> None:
        self._view = units.view
        self.what_if = units.view.what_if
        self.job = job
        self._now = units.now
        self.units = units
        self.budget = budget
        self.session = self.what_if.open_session(units.now, [job])
        #: What the plan was made of.
        self.best: _Relocation | None = None
        self.could_take = cache(self._could_take)
        self._fitting: dict[tuple[NodeSelection, int, int, int], bool] = {}

    # -- whether it waits for holes ----------------------------------------------------------------

    def find(self) -> MovePlan | Reason:
        job, session = self.job, self.session
        with session.reservations.open_to(job.key):
            reason = self._no_plan_needed()
            if reason is not None:
                return reason
            try:
                why = self._greedy()
                self._compare_all()
            except _OutOfSteps:
                why = None
                if self.best is None:
                    return PLAN_TOO_COSTLY(job=job.full_name)
        best = self.best
        if best is None:
            text = why.message if why is not None else "no running job that may be moved is in the way"
            staying = self.units.staying(job)
            hints = [reason.message for reason in staying[:_NAMED]]
            if len(staying) > _NAMED:
                hints.append(f"{counted(len(staying) - _NAMED, 'more job')} must stay")
            return NO_MOVES_HELP(job=job.full_name, why=text).with_hints(hints)
        plan = self._plan(best)
        if plan_size(plan) > MAX_PLAN:
            pods = len(best.room) + len(best.targets)
            text = f"a plan with {counted(pods, 'pod')} is too large for the record of the scheduler"
            return NO_MOVES_HELP(job=job.full_name, why=text)
        return plan

    def _no_plan_needed(self) -> Reason | None:
        """The cheap tests first: what keeps the job waiting, and whether enough chips are free."""
        job, session = self.job, self.session
        if (live := self._view.history.moves.under_way().get(job.key)) is not None:
            return MOVES_UNDER_WAY(job=job.full_name, moved=len(live.plan.moved_jobs))
        if job.places:
            # It is moved itself, and waits for its place only.
            return job.reason or NOT_WAITING(job=job.full_name)
        reserved = evicting_reservation(session.state, session.reservations, job.key)
        if reserved is not None:
            # Pods are already being evicted for it, so no job has to move.
            return waiting_for_evictions(session.state, reserved, self._now)
        obstacle = self.what_if.obstacle(session, job)
        if obstacle is not None:
            return obstacle
        policy = job.policy
        if policy is None or policy.resource not in session.state.fleets:
            return NOT_WAITING(job=job.full_name)
        pods = pending_pods(session, job)
        missing = missing_pods(session, job)
        if not pods or not missing:
            return NOT_WAITING(job=job.full_name)
        if len(pods) < missing:
            return too_few_pods(job, job.min_available - missing + len(pods))
        needed = sum(pod.cls.chips for pod in pods[:missing])
        free = session.state.fleets[policy.resource].free_total
        if free < needed:
            return NOT_ENOUGH_FREE(job=job.full_name, needed=needed, free=free)
        denied = self._denied(pods[:missing])
        if denied is not None:
            return denied
        self.budget.remaining -= len(pods)
        return None if _placement(session, job) is None else STARTS_WITHOUT_MOVES(job=job.full_name)

    def _could_take(self, selection: NodeSelection, node: int) -> bool:
        """Whether the node could take such a pod if enough were free there."""
        state, policy = self.session.state, selection.policy
        resource = policy.resource if policy is not None else ""
        if state.fleets[resource].allocatable[node] <= 0 or state.closed(node, resource) is not None:
            return False
        refused = selection.unselected(node)
        return refused is None or Trigger.CHIPS_FREED in refused.kind.resolved_by

    def _denied(self, pods: Sequence[Pod]) -> Reason | None:
        """F6: whether its queue lets the job in although the moved jobs keep their share."""
        session, job = self.session, self.job
        queue = session.queues.get(job.queue)
        if queue is None:
            return None
        with ExitStack() as undone:
            for pod in pods:
                denied = session.allocatable(queue, pod)
                if denied is not None:
                    return denied
                session.usage.add_pod(job.key, job.queue, pod.cls)
                undone.callback(session.usage.remove_pod, job.key, job.queue, pod.cls)
        return None

    # -- the search ----------------------------------------------------------------------------------

    def _greedy(self) -> Reason | None:
        """A plan of cheap moves; why there is none. Units that find no place stay, and it is tried again."""
        staying: set[int] = set()
        why: Reason | None = None
        whole = _placed_as_a_whole(self.session, self.job)
        for _ in range(_ROUNDS if whole else 1):
            before = len(staying)
            starts: Iterable[Callable[[_Trial], list[_Item]]] = [_Trial.of_pods] * _ATTEMPTS
            for start in self._cleared_regions(staying) if whole else starts:
                try:
                    with _Trial(self, staying, None if self.best is None else self.best.cost) as trial:
                        trial.settle(start(trial))
                        moves = trial.relocation()
                        self.check_places(moves.units, moves.targets)
                except _DoesNotFit as failure:
                    if failure.unit is not None:
                        staying.add(id(failure.unit))
                        why = failure.why or why
                        continue
                    why = why or failure.why
                    if not whole:
                        return why
                    continue
                verified = self._verified(moves)
                if verified is None and not moves.units:
                    return why
                if verified is None:
                    staying.add(id(max(moves.units, key=lambda unit: (unit.cost, unit.order))))
                    continue
                if self.best is None or verified.cost < self.best.cost:
                    self.best = self._needed(verified)
                if not whole:
                    return None
            if self.best is not None or len(staying) == before:
                break
        return why

    def _cleared_regions(self, staying: set[int]) -> Iterator[Callable[[_Trial], list[_Item]]]:
        """For jobs that are placed as a whole: sets of nodes to clear, the cheapest for the job first."""
        job, session = self.job, self.session
        pods = [pod for pod in pending_pods(session, job) if pod.cls.chips]
        selection = session.node_selection(job, pods[0])
        missing = max(1, missing_pods(session, job))
        trial = _Trial(self, staying, None)
        cleared: dict[int, tuple[Unit, ...] | None] = {}

        def options(nodes: Iterable[int]) -> list[tuple[int, tuple[Unit, ...]]]:
            """Those that can be cleared, the cheapest first, each with the units that have to go."""
            ranked: list[tuple[int, tuple[Unit, ...]]] = []
            for node in nodes:
                if node not in cleared:
                    self.budget.spend(1)
                    cleared[node] = trial.cheapest_on(selection, node)
                units = cleared[node]
                if units is not None:
                    ranked.append((node, units))
            return sorted(ranked, key=lambda one: (_sum(one[1]), session.state.rank_of(one[0])))

        regions = self._regions(selection, missing)
        for nodes in [region for region in regions if len(region) >= missing][:_REGIONS]:
            row = options(nodes)
            if len(row) >= missing:
                yield partial(_Trial.clear_for_whole, nodes=row)
        # Region after region, so that whole ones become free.
        joined = [one for nodes in regions[: max(_REGIONS, 2 * missing)] for one in options(nodes)]
        if joined:
            yield partial(_Trial.clear_for_whole, nodes=joined)

    def _regions(self, selection: NodeSelection, missing: int) -> list[list[int]]:
        """The nodes of each switch, SuperPoD, rack or HyperNode; those that lack the fewest chips first."""
        policy, regions = selection.policy, dict[object, list[tuple[int, int, int]]]()
        if policy is None:
            return []
        domains = self._view.domains()
        fleet = self.session.state.fleets[policy.resource]
        for node in self.session.state.existing_nodes():
            if not self.could_take(selection, node):
                continue
            lacking = max(0, selection.chips - fleet.free_mask[node].bit_count())
            for region in self._regions_of(node, domains):
                regions.setdefault(region, []).append((lacking, self.session.state.rank_of(node), node))
        self.budget.spend(1 + self.session.state.node_count // _NODES_A_STEP)
        rows = [sorted(row) for row in regions.values()]
        rows.sort(key=lambda row: (sum(lacking for lacking, _, _ in row[:missing]), row[0][1]))
        return [[node for _, _, node in row] for row in rows]

    def _regions_of(self, node: int, domains: Mapping[str, Callable[[int], object]]) -> Iterator[object]:
        """The switch, SuperPoD and rack, or the HyperNodes of a node, by what the job is placed by."""
        policy = self.job.policy
        if policy is None:
            return
        if obeys_topology(self.session, self.job):
            forest = self._view.hyper_forest()
            leaf = forest.leaf_of(node)
            if leaf is not None:
                yield from (("HyperNode", one.name) for one in (leaf, *forest.ancestors(leaf.name)))
            yield ("all nodes",)
            return
        blocks = (SUPERPODS, RACKS) if policy.rack is not None else (SUPERPODS,)
        for what in (SWITCHES,) if policy.switch_class is not None else blocks:
            if (place := domains[what](node)) is not None:
                yield what, place

    # -- places ----------------------------------------------------------------------------------------

    def check_places(self, units: Sequence[Unit], targets: Mapping[str, Allocation]) -> None:
        """No job gets a worse place: more switches, SuperPoDs or racks, or a higher tier, than before."""
        old = {uid: place[0] for unit in units for uid, place in unit.old.items()}
        for unit in {unit.job.key: unit for unit in units}.values():
            worse = self._worse(unit.job, old, targets)
            if worse is not None:
                raise _DoesNotFit(worse, unit)

    def _worse(self, job: Job, old: Mapping[str, int], targets: Mapping[str, Allocation]) -> Reason | None:
        before, after = self._places(job, job.pods, old, targets)
        if len(before) < 2:
            return None
        for what, place_of in self._view.domains().items():
            was, becomes = ({place_of(node) for node in nodes} - {None} for nodes in (before, after))
            if len(becomes) > len(was):
                return MOVE_IS_WORSE(job=job.full_name, what=what, before=len(was), after=len(becomes))
        if self._view.configuration.plugin(PLUGIN) is None:
            return None
        parts = [job.pods, *(group.pods for group in job.sub_groups if group.policy is not None)]
        for part in parts:
            lower, higher = (self._tier(nodes) for nodes in self._places(job, part, old, targets))
            if higher > lower:
                return MOVE_IS_HIGHER(job=job.full_name, before=lower, after=higher)
        return None

    def _places(
        self, job: Job, uids: Iterable[str], old: Mapping[str, int], targets: Mapping[str, Allocation]
    ) -> tuple[list[int], list[int]]:
        """The nodes of these pods of the job that have chips, before and after."""
        records = self._view.cluster.pods
        before, after = [], []
        for uid in uids:
            node = old.get(uid, records[uid].node)
            if job.pods[uid].cls.chips and node >= 0:
                before.append(node)
                after.append(targets[uid].node if uid in targets else node)
        return before, after

    def _tier(self, nodes: Iterable[int]) -> int:
        """Of the lowest HyperNode that has all these nodes; where there is none, one above the highest."""
        forest = self._view.hyper_forest()
        domain = forest.holding(node_set(nodes))
        return max(forest.by_tier, default=0) + 1 if domain is None else domain.tier

    def _verified(self, moves: _Relocation) -> _Relocation | None:
        """The plan as it will be: moved pods at their places, then the job as in a cycle. None: it fails."""
        job, what_if = self.job, self.what_if
        units = [unit for unit in moves.units if self._moves(unit, moves.targets)]
        self.budget.remaining -= 2 * _pods_of(units) + len(job.pods)
        if _overlap(units, moves.targets, [unit for unit in moves.units if unit not in units]):
            return None
        with self.without(units):
            session = what_if.open_session(self._now, [job])
            if self.first_refused(session, units) is not None:
                return None
            targets = {
                uid: moves.targets[uid]._replace(job=unit.job, pod=unit.job.pods[uid])
                for unit in units
                for uid in unit.uids
            }
            with ExitStack() as placed:
                for one in targets.values():
                    if not self._still_fits(session, one):
                        return None
                    placed.enter_context(what_if.placed(session, [one]))
                room = None if what_if.obstacle(session, job) else _placement(session, job)
                return None if room is None else _Relocation(units, targets, room)

    def _still_fits(self, session: Session, target: Allocation) -> bool:
        """Whether a moved pod can have its place, with those that are placed and those that stay."""
        job, pod = target.job, target.pod
        selection = session.node_selection(job, pod)
        if mask_of(target.chips) & ~max(0, selection.usable(target.node)):
            return False
        if _placed_as_a_whole(session, job) and pod.cls.chips:
            # Its nodes were chosen together.
            return True
        filters = node_filters(session, job, pod)
        return selection.fits(target.node) and first_reason(filters, target.node) is None

    @staticmethod
    def _moves(unit: Unit, targets: Mapping[str, Allocation]) -> bool:
        """Whether it gets another place at all."""
        return any(
            (targets[uid].node, mask_of(targets[uid].chips)) != place for uid, place in unit.old.items()
        )

    def _needed(self, moves: _Relocation) -> _Relocation:
        """The same plan without moves that are not needed."""
        for unit in sorted(moves.units, key=lambda one: (one.cost, one.order), reverse=True)[:_SPARED_SINGLY]:
            rest = [other for other in moves.units if other is not unit]
            if not _overlap(rest, moves.targets, [unit]):
                moves = self._verified(_Relocation(rest, moves.targets, moves.room)) or moves
        return moves

    def first_refused(self, session: Session, units: Iterable[Unit]) -> tuple[Reason, Unit] | None:
        """The first that would not be placed again after a move, whatever is free, and why."""
        for unit in units:
            job = unit.job
            reason = session.job_valid(job) or closed_queue(session, job) or overused_queue(session, job)
            if reason is not None:
                return reason, unit
        return None

    # -- small clusters --------------------------------------------------------------------------------

    def _compare_all(self) -> None:
        """Where the units are few: sets of them by rising cost, until one does or costs as much."""
        policy = self.job.policy
        if policy is None or len(self._view.cluster.pods) > _EXACT_PODS:
            return
        units: list[Unit] = []
        for unit in self.units.all(policy.resource):
            units.append(unit)
            if len(units) > EXACT_UNITS:
                return
        units.sort(key=lambda unit: (unit.cost, unit.order))
        for chosen in _by_cost(units):
            if self.best is not None and _sum(chosen) >= self.best.cost:
                return
            if self.units.within_budgets(chosen, {}):
                moves = self._exactly(chosen)
                if moves is not None:
                    self.best = moves
                    return

    def _exactly(self, units: Sequence[Unit]) -> _Relocation | None:
        """A plan that moves these units and no others, wherever their places are."""
        session = self.session
        self.budget.spend(_pods_of(units))
        with self.without(units):
            if not self._fits_now() or self.first_refused(session, units) is not None:
                return None
            items = _items_of(units)
            if not _placed_as_a_whole(self.session, self.job):
                # With the pods of the job among them, as its room is kept for it before others choose.
                pods = pending_pods(session, self.job)[: missing_pods(session, self.job)]
                own = [_Item(self.job, pod, None) for pod in pods if pod.cls.chips]
                items = [*own, *items]
            targets = self._everywhere(sorted(items, key=lambda item: -item.pod.cls.chips), {}, units)
        if targets is None:
            return None
        return self._verified(_Relocation(list(units), targets, []))

    def _fits_now(self) -> bool:
        """Whether the rest of the job fits, with what is supposed now."""
        session, job = self.session, self.job
        if not missing_pods(session, job):
            return True
        self.budget.spend(self.steps_to_place)
        return _placement(session, job) is not None

    def _everywhere(
        self, items: list[_Item], targets: dict[str, Allocation], units: Sequence[Unit]
    ) -> dict[str, Allocation] | None:
        """Places for all items with which the waiting job fits, by trying every node for each.

        Largest first: then the chips that the board chooses on a node are as good as any others.
        """
        if not items:
            try:
                self.check_places(units, targets)
            except _DoesNotFit:
                return None
            return targets
        item, rest = items[0], items[1:]
        for allocations in self._places_of(item):
            self.budget.spend(1 + len(allocations))
            with self.what_if.placed(self.session, allocations):
                if item.unit is not None and not self._fits_now():
                    continue
                done = {one.pod.uid for one in allocations}
                left = [other for other in rest if other.pod.uid not in done]
                new = {one.pod.uid: one for one in allocations}
                result = self._everywhere(left, {**targets, **new}, units)
            if result is not None:
                return result
        return None

    def _places_of(self, item: _Item) -> Iterator[list[Allocation]]:
        session, job = self.session, item.job
        pod = job.pods[item.pod.uid]
        if pod.cls.chips and _placed_as_a_whole(session, job):
            if (allocations := _placement(session, job)) is not None:
                yield allocations
            return
        selection = session.node_selection(job, pod)
        queue = session.queues.get(job.queue)
        if queue is not None and session.allocatable(queue, pod) is not None:
            return
        filters = node_filters(session, job, pod)
        for node in selection.fitting_nodes():
            if first_reason(filters, node) is None:
                chips = selection.chips_on(node)
                if len(chips) == selection.chips:
                    yield [Allocation(job, pod, node, chips)]

    # -- the answer --------------------------------------------------------------------------------------

    def _plan(self, best: _Relocation) -> MovePlan:
        names = self._view.cluster.names

        def planned(pod: Pod, node: int, chips: tuple[int, ...]) -> PlannedPod:
            return PlannedPod(pod.uid, pod.key, names[node], chips)

        moves = tuple(
            PlannedMove(
                unit.job.key,
                tuple(
                    planned(pod, best.targets[pod.uid].node, best.targets[pod.uid].chips) for pod in unit.pods
                ),
                tuple(
                    planned(pod, unit.old[pod.uid][0], chips_of(unit.old[pod.uid][1])) for pod in unit.pods
                ),
                unit.cost[0],
            )
            for unit in sorted(best.units, key=lambda unit: unit.order)
        )
        room = tuple(planned(one.pod, one.node, one.chips) for one in best.room)
        cost = sum(move.cost for move in moves)
        return MovePlan(
            plan_name(self.job, self._now), self.job.key, room, moves, cost, job_uid=uid_of(self.job)
        )

    # -- what trials need --------------------------------------------------------------------------------

    def without(self, units: Iterable[Unit]) -> AbstractContextManager[None]:
        """Inside, the pods of these units wait for nodes again."""
        return self.what_if.restarted(self.session, [uid for unit in units for uid in unit.uids])

    @property
    def steps_to_place(self) -> int:
        """Of one attempt to place the waiting job: as a whole it reads every node."""
        nodes = self.session.state.node_count if _placed_as_a_whole(self.session, self.job) else 0
        return len(self.job.pods) + (10 + nodes // 2 if nodes else 0)

    def rule_allows(self, selection: NodeSelection, node: int, usable: int) -> bool:
        """Whether the board gives such a pod chips of these on the node."""
        policy = selection.policy
        if policy is None:
            return False
        fleet = self.session.state.fleets[policy.resource]
        key = (selection, usable, fleet.allocatable[node], fleet.faulty[node])
        allowed = self._fitting.get(key)
        if allowed is None:
            signature = policy.rule.signature(usable, key[2], key[3])
            score = policy.rule.score(signature, selection.chips, policy.multi_pod)
            allowed = self._fitting[key] = score is not None
        return allowed


def _placement(session: Session, job: Job) -> list[Allocation] | None:
    """What the job would get in this session; None: it would not start."""
    with trial(session) as statement:
        return None if place_next(session, job, statement) is not None else list(statement.allocations)


def _pods_of(units: Iterable[Unit]) -> int:
    return sum(len(unit.pods) for unit in units)


def _overlap(units: Iterable[Unit], targets: Mapping[str, Allocation], staying: Iterable[Unit]) -> bool:
    """Whether a target of the units is where another stays."""
    places = [targets[uid] for unit in units for uid in unit.uids]
    return any(mask_of(one.chips) & unit.held.get(one.node, 0) for one in places for unit in staying)


def _items_of(units: Iterable[Unit]) -> list[_Item]:
    """Their pods, which have to be placed."""
    return [_Item(unit.job, pod, unit) for unit in units for pod in unit.pods]


def _by_cost(units: Sequence[Unit]) -> Iterator[list[Unit]]:
    """All sets of units but the empty one, by rising cost. The units are sorted."""
    numbers = count()
    waiting: list[tuple[Cost, int, tuple[int, ...]]] = []
    if units:
        heappush(waiting, (units[0].cost, next(numbers), (0,)))
    while waiting:
        _, _, chosen = heappop(waiting)
        yield [units[position] for position in chosen]
        last = chosen[-1]
        if last + 1 < len(units):
            for following in ((*chosen, last + 1), (*chosen[:-1], last + 1)):
                cost = _sum(units[position] for position in following)
                heappush(waiting, (cost, next(numbers), following))


class _Trial(ExitStack):
    """One attempt: units that give way, and places for all that has none. Closing it undoes everything."""

    def __init__(self, search: _Search, staying: set[int], limit: Cost | None) -> None:
        super().__init__()
        self._search = search
        self._session = search.session
        #: Units, by identity, that stay where they are.
        self._staying = staying
        #: The cost of a plan that is known already.
        self._limit = limit
        self._moved: dict[int, Unit] = {}
        self._cost = NOTHING
        self._used = Counter[int]()
        self._targets: dict[str, Allocation] = {}
        self._room: list[Allocation] = []
        self._options: dict[NodeSelection, Iterator[tuple[int, tuple[Unit, ...]]]] = {}
        #: Nodes that cannot take such a pod for something else than chips.
        self._unfit: set[tuple[NodeSelection, int]] = set()

    def relocation(self) -> _Relocation:
        return _Relocation(list(self._moved.values()), dict(self._targets), list(self._room))

    # -- where it begins

    def of_pods(self) -> list[_Item]:
        """The pods of a job that are placed one by one."""
        job = self._search.job
        pods = pending_pods(self._session, job)[: missing_pods(self._session, job)]
        return [_Item(job, pod, None) for pod in pods]

    def clear_for_whole(self, nodes: Sequence[tuple[int, tuple[Unit, ...]]]) -> list[_Item]:
        """Clear as few of these nodes, in this order, as let the job fit as a whole; the units that go."""
        result = fewest(
            lambda _: max(1, len(nodes)), lambda count: self._room_with(self._units_of(nodes[:count]))
        )
        if result is None:
            raise _DoesNotFit(None)
        taken = chips_by_node(result[1])
        lifted = self._units_of(nodes[: result[0]])
        needed = [
            unit for unit in lifted if any(taken.get(node, 0) & mask for node, mask in unit.held.items())
        ]
        if self._room_with(needed) is None:
            # Others were in the way by something else than chips.
            needed = lifted
        self._lift(needed)
        room = self._room_with([])
        if room is None:
            raise _DoesNotFit(None)
        self._place(room, None)
        return _items_of(needed)

    def _units_of(self, nodes: Iterable[tuple[int, tuple[Unit, ...]]]) -> list[Unit]:
        return list({id(unit): unit for _, units in nodes for unit in units}.values())

    def _room_with(self, units: Sequence[Unit]) -> list[Allocation] | None:
        """Where the job would be placed if these units were gone."""
        search = self._search
        search.budget.spend(1 + _pods_of(units) + search.steps_to_place)
        with search.without(units):
            return _placement(self._session, search.job)

    # -- placing

    def settle(self, items: list[_Item]) -> None:
        """Find places for all items, largest first, and for what has to give way. Raises _DoesNotFit."""
        numbers = count()
        waiting = [(-item.pod.cls.chips, next(numbers), item) for item in items]
        heapify(waiting)
        while waiting:
            _, _, item = heappop(waiting)
            if item.pod.uid in self._targets:
                # It came with its job.
                continue
            for unit in self._settle_one(item):
                for other in _items_of([unit]):
                    heappush(waiting, (-other.pod.cls.chips, next(numbers), other))

    def _settle_one(self, item: _Item) -> tuple[Unit, ...]:
        """Place a pod, or a job as a whole; the units that had to give way."""
        search, session, job = self._search, self._session, item.job
        search.budget.spend(1)
        pod = job.pods[item.pod.uid]
        as_a_whole = bool(pod.cls.chips) and _placed_as_a_whole(session, job)
        with trial(session) as statement:
            if as_a_whole:
                reason = place_next(session, job, statement)
                done = reason is None
            else:
                reason = place_each(session, job, statement, [pod])
                done = bool(statement.allocations)
            allocations = list(statement.allocations)
        if done:
            self._place(allocations, item.unit)
            return ()
        if not pod.cls.chips or as_a_whole:
            raise _DoesNotFit(reason, item.unit)
        return self._make_room(item, pod, reason)

    def _make_room(self, item: _Item, pod: Pod, reason: Reason | None) -> tuple[Unit, ...]:
        """Let units give way to a pod, on the node where that costs the least."""
        search, session, job = self._search, self._session, item.job
        selection = session.node_selection(job, pod)
        options = self._options.get(selection)
        if options is None:
            options = self._options[selection] = self._cheapest_nodes(selection)
        for tried, (node, units) in enumerate(options):
            if self._limit is not None and plus(self._cost, _sum(units)) >= self._limit:
                break
            if tried >= _TRIED_NODES:
                break
            if not units or not self._allowed(units):
                self._unfit.add((selection, node))
                continue
            with ExitStack() as step:
                step.enter_context(search.without(units))
                search.budget.spend(1 + _pods_of(units))
                fits = selection.fits(node) and first_reason(node_filters(session, job, pod), node) is None
                chips = selection.chips_on(node)
                if not fits or len(chips) != selection.chips:
                    self._unfit.add((selection, node))
                    continue
                self.push(step.pop_all())
            self._note(units)
            self._place([Allocation(job, pod, node, chips)], item.unit)
            self._readmit(units)
            return units
        # The iterator may be exhausted for this class: the next attempt starts with a new one.
        raise _DoesNotFit(reason, item.unit)

    def _cheapest_nodes(self, selection: NodeSelection) -> Iterator[tuple[int, tuple[Unit, ...]]]:
        """Nodes on which units could give way to such a pod, and those units; the cheapest first.

        Of many nodes those are compared that lack the fewest chips.
        """
        search, state = self._search, self._session.state
        policy = selection.policy
        if policy is None:
            return
        free = state.fleets[policy.resource].free_mask
        # Known nodes come in natural order: to sort all of them takes longer than the search.
        by_free: dict[int, list[int]] = {}
        for node in state.existing_nodes():
            by_free.setdefault(free[node].bit_count(), []).append(node)
        search.budget.spend(1 + state.node_count // (8 * _NODES_A_STEP))
        following = chain.from_iterable(by_free[chips] for chips in sorted(by_free, reverse=True))
        waiting: list[tuple[Cost, int, int]] = []
        while True:
            for node in following:
                if search.could_take(selection, node):
                    bound = self._bound_on(selection, node)
                    search.budget.spend(1)
                    if bound is not None:
                        heappush(waiting, (bound, state.rank_of(node), node))
                        if len(waiting) >= _COMPARED:
                            break
            if not waiting:
                return
            bound, rank, node = heappop(waiting)
            units = self.cheapest_on(selection, node)
            if units is None:
                continue
            cost = _sum(units)
            if waiting and cost > bound and (cost, rank, node) > waiting[0]:
                heappush(waiting, (cost, rank, node))
                continue
            yield node, units
            # A part of it may serve the next pod.
            again = self._bound_on(selection, node) if (selection, node) not in self._unfit else None
            if again is not None:
                heappush(waiting, (again, rank, node))

    def _bound_on(self, selection: NodeSelection, node: int) -> Cost | None:
        """What clearing the node for such a pod costs at least; None: it cannot be cleared."""
        usable = selection.usable(node)
        if usable < 0:
            return None
        lacking = max(1, selection.chips - usable.bit_count())
        freeable, rate = 0, None
        for unit, mask in self._on(selection, node):
            freeable |= mask
            one = unit.cost[0] // mask.bit_count()
            rate = one if rate is None else min(rate, one)
        if rate is None or not self._search.rule_allows(selection, node, usable | freeable):
            return None
        # So many chips move at least, with one unit: else all nodes are alike where moves are free.
        chips = min(lacking, freeable.bit_count())
        return rate * chips, chips, 1

    def _on(self, selection: NodeSelection, node: int) -> list[tuple[Unit, int]]:
        """The units on a node that may still give way, and the chips that become usable."""
        policy = selection.policy
        if policy is None:
            return []
        fleet = self._session.state.fleets[policy.resource]
        usable = fleet.free_if_empty(node) & ~fleet.reserved[node]
        if policy.withholds_network:
            usable &= ~fleet.network[node]
        result = []
        for unit in self._search.units.on(node):
            mask = unit.held.get(node, 0) & usable
            if mask and id(unit) not in self._moved and id(unit) not in self._staying:
                result.append((unit, mask))
        return result

    def cheapest_on(self, selection: NodeSelection, node: int) -> tuple[Unit, ...] | None:
        """The cheapest units without which the node has chips for such a pod; None: there are none."""
        usable = selection.usable(node)
        if usable < 0:
            return None
        allows = self._search.rule_allows
        if allows(selection, node, usable):
            return ()
        there = sorted(self._on(selection, node), key=lambda one: (one[0].cost, one[0].order))
        units, masks = [unit for unit, _ in there], {id(unit): mask for unit, mask in there}

        def freed(without: Iterable[Unit]) -> int | None:
            """What is usable without these units, if that is enough."""
            free = reduce(or_, (masks[id(unit)] for unit in without), usable)
            return free if allows(selection, node, free) else None

        everything = freed(units)
        if everything is None:
            return None
        if everything.bit_count() > selection.chips and len(there) <= _COMBINED:
            for chosen in _by_cost(units):
                if freed(chosen) is not None:
                    return tuple(chosen)
        # One after the other is spared, the most expensive first.
        return tuple(reduced(units, freed, everything)[0])

    def _allowed(self, units: Iterable[Unit]) -> bool:
        """Whether none of them has moved already, and all disruption budgets allow them together."""
        stay = any(id(unit) in self._moved or id(unit) in self._staying for unit in units)
        return not stay and self._search.units.within_budgets(units, self._used)

    def _lift(self, units: Sequence[Unit]) -> None:
        if not self._allowed(units):
            raise _DoesNotFit(None)
        self.enter_context(self._search.without(units))
        self._note(units)
        self._readmit(units)

    def _readmit(self, units: Iterable[Unit]) -> None:
        """Raises _DoesNotFit if one of them would not be placed again."""
        refused = self._search.first_refused(self._session, units)
        if refused is not None:
            raise _DoesNotFit(*refused)

    def _note(self, units: Iterable[Unit]) -> None:
        for unit in units:
            self._moved[id(unit)] = unit
            self._cost = plus(self._cost, unit.cost)
            self._used.update(unit.uses)
        if self._limit is not None and self._cost >= self._limit:
            raise _DoesNotFit(None)

    def _place(self, allocations: Sequence[Allocation], unit: Unit | None) -> None:
        self.enter_context(self._search.what_if.placed(self._session, allocations))
        if unit is None:
            self._room += allocations
        else:
            self._targets.update((one.pod.uid, one) for one in allocations)
