"""`ringwise bench simulate`: what moves are worth, on traces or on a job mix of ours, in virtual time.

The real scheduler runs each trace with and without moves, beside a cluster that only counts chips. Moves are
free here, and every job may be moved as often as it helps, so that what is judged is the search for plans.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ringwise.apps.simulate.comparison import Cluster, Comparison, ImpossibleSimulationError, Plan, Variant
from ringwise.apps.simulate.file import variant_from_text
from ringwise.apps.simulate.jobs import HOUR
from ringwise.apps.simulate.measures import RunOutcome
from ringwise.apps.simulate.mix import JobMix
from ringwise.apps.simulate.traces import TraceError, read_trace, values_of
from ringwise.cli.output import complain
from ringwise.records import dataclass
from ringwise.scheduler.defaults import default_configuration
from ringwise_bench.report import Measured, at_least, at_most, shown

LOAD = 0.85
SEED = "bench"
#: Traces with fewer jobs say nothing.
LEAST_JOBS = 200
#: The column of tables that hold several clusters.
CLUSTER_COLUMN = "cluster"
#: Where these are in the folder, moves must come as close to the bound as this.
CLOSE, AT_THE_BOUND = 1.02, ("itp/cluster03", "itp/cluster04")
#: How much of the distance from the documents' order to the bound is closed at least.
CLOSED = 0.9
#: Chips of a job from which on it is a large one: it needs a whole node.
LARGE = 8
SMALL_NODES, LARGE_NODES = 1_000, 10_000
GROWTH_ALLOWED = 1.5
#: Jobs large enough that two for each node keep the cluster full for some time.
_GROWTH_SIZES = {1: 40.0, 4: 10.0, 8: 35.0, 16: 10.0, 64: 5.0}
_GROWTH_LOAD = 1.1

_STRICT = "queue-discipline=strict"
_UNLIMITED = "defragment=auto,move-chips-per-hour=1000000,move-again-after=0"
_FREE, _COSTLY = f"{_UNLIMITED},restart-cost=0", f"{_UNLIMITED},restart-cost=600"
STRICT, STRICT_MOVES, STRICT_COST = "strict", "strict, free moves", "strict, moves that cost"
DEFAULT, DEFAULT_MOVES = "default", "default, free moves"


@dataclass(frozen=True, slots=True)
class JudgedTrace:
    name: str
    plan: Plan


def run(full: bool = False, traces: Path | None = None) -> list[Measured]:
    """`full` has a larger job mix where no traces are given, and more jobs where the growth is measured."""
    found: list[Measured] = []
    workloads = [_our_mix(full)] if traces is None else list(_workloads(traces))
    for workload in workloads:
        found += _judged(workload)
    return [*found, *_growth(full)]


# -- traces


def _our_mix(full: bool) -> JudgedTrace:
    mix = JobMix(6_000 if full else 2_000, median=HOUR // 2, p90=8 * HOUR)
    return JudgedTrace("a job mix", Plan("a job mix", Cluster(nodes=24), (), mix=mix, load=LOAD, seed=SEED))


def _workloads(folder: Path) -> Iterator[JudgedTrace]:
    """Every table of the folder that is a trace; one for each cluster where it holds several."""
    for path in sorted(folder.rglob("*.csv")):
        name = path.relative_to(folder).with_suffix("").as_posix()
        try:
            parts = values_of(path, CLUSTER_COLUMN)
            chosen = [(f"{name} {one}", {CLUSTER_COLUMN: one}) for one in parts] or [(name, {})]
            for title, only in chosen:
                trace = read_trace(path, only=only)
                if len(trace.jobs) >= LEAST_JOBS:
                    yield JudgedTrace(title, Plan(title, Cluster(), (), trace=tuple(trace.jobs), load=LOAD))
        except TraceError as error:
            complain(f"left out: {error}")


def _compared(plan: Plan, *variants: Variant) -> Comparison:
    """The same jobs under all that is compared. Raises ImpossibleSimulationError."""
    comparison = Comparison(replace(plan, variants=variants))
    comparison.run(_Teller(plan.title))
    return comparison


def _variant(name: str, *settings: str) -> Variant:
    default = default_configuration()
    if not settings:
        return Variant(name, default)
    return replace(variant_from_text(default, ",".join(settings)), name=name)


# -- goals


def _judged(workload: JudgedTrace) -> list[Measured]:
    try:
        comparison = _compared(
            workload.plan,
            _variant(STRICT, _STRICT),
            _variant(STRICT_MOVES, _STRICT, _FREE),
            _variant(DEFAULT),
            _variant(DEFAULT_MOVES, _FREE),
        )
    except ImpossibleSimulationError as error:
        complain(f"left out: {workload.name}: {error}")
        return []
    bound, *others = comparison.outcomes
    by_name = {one.name: one for one in others}
    strict, moved = by_name[STRICT], by_name[STRICT_MOVES]
    title = f"{workload.name} ({comparison.nodes} nodes)"
    best = _mean_wait(bound)
    found = [
        shown(f"{title}: mean wait of the bound", best / HOUR, "h"),
        at_most(f"{title}: jobs that start before the bound, strict", _early(bound, strict, moved), "", 0),
    ]
    if best:
        found += _distance(workload.name, title, best, _mean_wait(strict), _mean_wait(moved))
    found.append(shown(f"{title}: jobs moved", moved.moved_jobs, ""))
    found.append(shown(f"{title}: chips moved", moved.moved_chips, ""))
    large, large_moved = (_mean_wait(by_name[one], LARGE) for one in (DEFAULT, DEFAULT_MOVES))
    if large:
        name = f"{title}: mean wait of jobs of {LARGE} chips and more with moves over without, default"
        found.append(_below_one(name, large_moved / large, judged=by_name[DEFAULT_MOVES].moved_jobs > 0))
    return [*found, *_judged_cost(title, workload.plan)]


def _judged_cost(title: str, plan: Plan) -> list[Measured]:
    """Jobs say how long they run: else what a move saves is not known, and none is made at a cost."""
    known = replace(plan, known_durations=True)
    comparison = _compared(known, _variant(STRICT, _STRICT), _variant(STRICT_COST, _STRICT, _COSTLY))
    _, strict, moved = comparison.outcomes
    if not _cost(strict):
        return []
    name = f"{title}: chips x (wait + restart) with moves of ten minutes over without, strict"
    return [_below_one(name, _cost(moved) / _cost(strict), judged=moved.moved_jobs > 0)]


def _distance(name: str, title: str, bound: float, documents: float, moved: float) -> list[Measured]:
    found = [shown(f"{title}: mean wait over the bound, documents' order", documents / bound, "x")]
    over = f"{title}: mean wait over the bound, free moves"
    distance = documents - bound
    if name in AT_THE_BOUND or distance < (CLOSE - 1) * bound:
        found.append(at_most(over, moved / bound, "x", CLOSE))
    else:
        found.append(shown(over, moved / bound, "x"))
    if distance >= (CLOSE - 1) * bound:
        closed = (documents - moved) / distance
        found.append(at_least(f"{title}: share of the distance closed", closed, "", CLOSED))
    return found


def _below_one(name: str, value: float, *, judged: bool) -> Measured:
    """Where nothing was moved both runs are the same."""
    return Measured(name, value, "x", "< 1", value < 1) if judged else shown(name, value, "x")


def _mean_wait(outcome: RunOutcome, least: int = 0) -> float:
    waits = [
        start - job.submitted
        for start, job in zip(outcome.starts, outcome.jobs, strict=True)
        if start is not None and job.chips >= least
    ]
    return sum(waits) / len(waits) if waits else 0.0


def _early(bound: RunOutcome, *runs: RunOutcome) -> int:
    return sum(
        start is None or soonest is None or start < soonest
        for one in runs
        for start, soonest in zip(one.starts, bound.starts, strict=True)
    )


def _cost(outcome: RunOutcome) -> float:
    """Chips times (wait and restarts), in chip-hours."""
    waits = sum(
        job.chips * (start - job.submitted)
        for start, job in zip(outcome.starts, outcome.jobs, strict=True)
        if start is not None
    )
    return (waits + outcome.move_cost) / HOUR


# -- growth


def _growth(full: bool) -> list[Measured]:
    """Processor time per job on two clusters with the same load per node."""
    found = []
    for variant in (_variant(STRICT, _STRICT), _variant(STRICT_MOVES, _STRICT, _FREE)):
        name = variant.name
        small, large = (_per_job(nodes, 4 if full else 2, variant) for nodes in (SMALL_NODES, LARGE_NODES))
        sizes = f"{LARGE_NODES:,} nodes over {SMALL_NODES:,}"
        found += [
            at_most(f"processor time per job at {sizes}, {name}", large / small, "x", GROWTH_ALLOWED),
            shown(f"processor time per job at {SMALL_NODES:,} nodes, {name}", small / 1e6, "ms"),
            shown(f"processor time per job at {LARGE_NODES:,} nodes, {name}", large / 1e6, "ms"),
        ]
    return found


def _per_job(nodes: int, per_node: int, variant: Variant) -> float:
    """With more load than the cluster can take, so that jobs wait on large clusters as on small ones."""
    mix = JobMix(nodes * per_node, _GROWTH_SIZES, HOUR // 2, 3 * HOUR // 4)
    plan = Plan(f"{nodes:,} nodes", Cluster(nodes=nodes), (variant,), mix=mix, load=_GROWTH_LOAD, seed=SEED)
    comparison = Comparison(plan)
    comparison.run(_Teller(plan.title))
    return comparison.outcomes[-1].processor / len(comparison.jobs)


class _Teller:
    """Says on a terminal what is simulated."""

    def __init__(self, title: str) -> None:
        self._title, self._last = title, ""

    def __call__(self, name: str, done: int, total: int) -> None:
        if name != self._last and sys.stderr.isatty():
            complain(f"{self._title}: {name}")
        self._last = name
