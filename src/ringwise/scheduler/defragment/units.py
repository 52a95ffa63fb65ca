"""What can be moved: whole gangs, and single pods of jobs whose pods run alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ringwise.framework.job import Job
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.scheduler.defragment.movable import (
    DisruptionBudget,
    Permit,
    anyone,
    not_movable,
    restart_cost,
)
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import Pod

#: What moves cost, for comparisons: chip-nanoseconds, then chips, then the number of moves.
Cost = tuple[int, int, int]
NOTHING: Cost = (0, 0, 0)


def plus(one: Cost, other: Cost) -> Cost:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """Pods that move together. There is one object for each."""

    job: Job
    pods: tuple[Pod, ...]
    #: Uid -> node id and chips (a mask) before any move.
    old: dict[str, tuple[int, int]]
    #: Node id -> chips (a mask) that they hold there.
    held: dict[int, int]
    cost: Cost
    #: Position of a disruption budget -> how many of its evictions the move uses.
    uses: dict[int, int]
    #: Position of its pods among all: the last tie-break.
    order: tuple[int, str]

    @property
    def uids(self) -> tuple[str, ...]:
        return tuple(pod.uid for pod in self.pods)


class Units:
    """The units of one question, found when they are asked for."""

    def __init__(
        self,
        view: SchedulerView,
        now: int,
        permit: Permit = anyone,
        budgets: Sequence[DisruptionBudget] = (),
    ) -> None:
        self.view = view
        self.now = now
        self._permit = permit
        self._by_job: dict[str, Reason | dict[str, Unit]] = {}
        self.budgets = tuple(budgets)
        #: By namespace, with their positions: a tenant may have thousands, which are nothing to others.
        self._budgets_of: dict[str, list[tuple[int, DisruptionBudget]]] = {}
        for number, budget in enumerate(self.budgets):
            self._budgets_of.setdefault(budget.namespace, []).append((number, budget))
        #: Uids of pods that a plan of this question has moved or placed.
        self.pinned: set[str] = set()

    def of_pod(self, uid: str) -> Unit | None:
        """The unit of a running pod; None: it must stay."""
        if uid in self.pinned:
            return None
        job = self.view.job_of(uid)
        if job is None:
            return None
        unit = self.of_job(job)
        return None if isinstance(unit, Reason) else unit.get(uid)

    def of_job(self, job: Job) -> Reason | dict[str, Unit]:
        """By the uids of its pods, or why it must not be moved."""
        units = self._by_job.get(job.key)
        if units is None:
            budgets = [budget for _, budget in self._budgets_of.get(job.namespace, ())]
            units = not_movable(self.view, job, self.now, self._permit, budgets) or self._made(job)
            self._by_job[job.key] = units
        return units

    def staying(self, besides: Job) -> list[Reason]:
        """Why other jobs that were looked at must stay."""
        others = (result for key, result in self._by_job.items() if key != besides.key)
        return [result for result in others if isinstance(result, Reason)]

    def within_budgets(self, units: Iterable[Unit], used: Mapping[int, int]) -> bool:
        """Whether the disruption budgets allow these moves besides the evictions that are used already."""
        sums = Counter(used)
        for unit in units:
            sums.update(unit.uses)
        return all(sums[number] <= self.budgets[number].allowed for number in sums)

    def on(self, node: int) -> list[Unit]:
        """The units with chips on a node, each once."""
        records = self.view.cluster.pods
        units = (self.of_pod(uid) for uid in self.view.cluster.pods_on[node] if records[uid].chips)
        return [unit for unit in dict.fromkeys(units) if unit is not None]

    def all(self, resource: str) -> Iterator[Unit]:
        """Those with chips of a resource, in the order in which their jobs became known."""
        records = self.view.cluster.pods
        for job in list(self.view.jobs.values()):
            pods = [
                uid for uid, pod in job.pods.items() if pod.cls.resource == resource and records[uid].chips
            ]
            units = dict.fromkeys(map(self.of_pod, pods))
            yield from (unit for unit in units if unit is not None)

    def _made(self, job: Job) -> dict[str, Unit]:
        records = self.view.cluster.pods
        placed = [pod for pod in job.in_order if records[pod.uid].node >= 0 and pod.live]
        # Pods that request nothing hold nothing that another job waits for.
        placed = [pod for pod in placed if not pod.cls.best_effort]
        groups = [(pod,) for pod in placed] if job.has_independent_pods else [tuple(placed)]
        rate = restart_cost(self.view, job)
        result: dict[str, Unit] = {}
        for pods in groups:
            old = {pod.uid: (records[pod.uid].node, records[pod.uid].chips) for pod in pods}
            held: dict[int, int] = {}
            for node, mask in old.values():
                held[node] = held.get(node, 0) | mask
            chips = sum(mask.bit_count() for mask in held.values())
            if not chips:
                continue
            uses = {
                number: count
                for number, budget in self._budgets_of.get(job.namespace, ())
                if (count := sum(map(budget.counts, pods)))
            }
            order = (min(held), f"{job.key}/{pods[0].name}")
            unit = Unit(job, pods, old, held, (rate * chips, chips, 1), uses, order)
            result.update((pod.uid, unit) for pod in pods)
        return result
