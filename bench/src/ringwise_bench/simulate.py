"""`ringwise bench simulate`: what moves are worth, on traces or on a job mix of ours, in virtual time.

The real scheduler runs each trace with and without moves, beside a cluster that only counts chips. Moves are
free here, and every job may be moved as often as it helps, so that what is judged is the search for plans.
Starts of jobs are not estimated: an estimate simulates the whole queue, and a hundred of them in each run
took most of the time.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from ringwise.apps.simulate.comparison import Cluster, Comparison, ImpossibleSimulationError, Plan, Variant
from ringwise.apps.simulate.file import variant_from_text
from ringwise.apps.simulate.jobs import HOUR, JobMix, SimulatedJob
from ringwise.apps.simulate.measures import RunOutcome
from ringwise.apps.simulate.traces import TraceError, read_trace
from ringwise.cli.output import complain
from ringwise.records import dataclass
from ringwise.scheduler.defaults import default_configuration
from ringwise_bench.report import Figure, NothingToMeasureError, at_least, at_most, shown

LOAD = 0.85
SEED = "bench"
#: Files of a folder that are read as traces.
SUFFIXES = (".csv", ".swf")
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
DAY = 24 * HOUR

#: What `--only` can name besides traces.
GROWTH = "growth"
OUR_MIX = "a job mix"

_STRICT = "queue-discipline=strict"
_UNLIMITED = "defragment=auto,move-chips-per-hour=1000000,move-again-after=0"
_FREE, _COSTLY = f"{_UNLIMITED},restart-cost=0", f"{_UNLIMITED},restart-cost=600"
STRICT, STRICT_MOVES, STRICT_COST = "strict", "strict, free moves", "strict, moves that cost"
DEFAULT, DEFAULT_MOVES = "default", "default, free moves"

#: Prints a line at once.
Say = Callable[[str], object]


def run(
    full: bool = False,
    traces: Sequence[Path] = (),
    only: Sequence[str] = (),
    days: int | None = None,
    say: Say = lambda line: None,
) -> Iterator[Figure]:
    """The figures, each as soon as it is known; `say` gets a row for each trace when it has ended.

    `traces` are files and folders; `only`: those with such names, and the growth; `days`: only the jobs of
    so many days from the first on. `full` has a larger job mix where no traces are given, and more jobs
    where the growth is measured. Raises NothingToMeasureError.
    """
    sources: list[_Source | None] = [one for path in traces for one in _sources(path)]
    if traces and not sources:
        folders = ", ".join(map(str, traces))
        raise NothingToMeasureError(f"{folders}: there are no traces ({', '.join(SUFFIXES)})")
    named = {OUR_MIX if one is None else one.name: one for one in sources or [None]}
    chosen = {name: source for name, source in named.items() if _is_chosen(name, only)}
    grows = _is_chosen(GROWTH, only)
    if not chosen and not grows:
        known = ", ".join((*named, GROWTH))
        raise NothingToMeasureError(f"--only: nothing is named {' or '.join(only)}; there are {known}")
    width = max(map(len, named))
    if chosen:
        say(_heading(width))
    for source in chosen.values():
        workload = _our_mix(full) if source is None else _read(source, days)
        if workload is not None:
            yield from _judged(workload, _Row(workload.name, width), say)
    if grows:
        yield from _growth(full, say)


def _is_chosen(name: str, only: Sequence[str]) -> bool:
    return not only or any(fnmatchcase(name, pattern) for pattern in only)


# -- traces


@dataclass(frozen=True, slots=True)
class _Source:
    """A trace in a file: all of it, or the rows of one cluster."""

    name: str
    path: Path
    rows: dict[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class JudgedTrace:
    name: str
    plan: Plan


def _our_mix(full: bool) -> JudgedTrace:
    mix = JobMix(6_000 if full else 2_000, median=HOUR // 2, p90=8 * HOUR)
    return JudgedTrace(
        OUR_MIX, Plan(OUR_MIX, Cluster(nodes=24), (), mix=mix, load=LOAD, seed=SEED, estimates=False)
    )


def _values_of(path: Path, column: str) -> list[str]:
    """What a column of a table holds, each once; nothing where there is no such column."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        table = csv.DictReader(file)
        if column not in (table.fieldnames or ()):
            return []
        return sorted({row[column] for row in table if row[column]})


def _sources(path: Path) -> Iterator[_Source]:
    """The file, or every table of the folder; one for each cluster where it holds several.

    A trace is named by its folder and its file, from wherever it is looked at.
    """
    for file in sorted(_files(path)):
        name = f"{file.resolve().parent.name}/{file.stem}"
        try:
            clusters = _values_of(file, CLUSTER_COLUMN)
        except (OSError, csv.Error) as error:
            complain(f"left out: {file}: {error}")
            continue
        if clusters:
            yield from (_Source(f"{name} {one}", file, {CLUSTER_COLUMN: one}) for one in clusters)
        else:
            yield _Source(name, file, {})


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    yield from (one for one in path.rglob("*") if one.suffix in SUFFIXES and one.is_file())


def _read(source: _Source, days: int | None) -> JudgedTrace | None:
    try:
        trace = read_trace(source.path, only=source.rows)
    except TraceError as error:
        complain(f"left out: {source.name}: {error}")
        return None
    jobs: tuple[SimulatedJob, ...] = tuple(trace.jobs)
    name = source.name
    if days is not None and jobs and jobs[-1].submitted >= days * DAY:
        jobs = tuple(job for job in jobs if job.submitted < days * DAY)
        name = f"{name}, {days} days"
    plan = Plan(name, Cluster(), (), trace=jobs, omitted=trace.omitted, load=LOAD, estimates=False)
    return JudgedTrace(name, plan)


def _variant(name: str, *settings: str) -> Variant:
    default = default_configuration()
    if not settings:
        return Variant(name, default)
    return replace(variant_from_text(default, ",".join(settings)), name=name)


# -- goals


@dataclass(slots=True)
class _Row:
    """What is known of a trace, as one line."""

    name: str
    width: int
    cells: dict[str, str] = field(default_factory=dict)
    began: float = field(default_factory=time.process_time)
    holds: bool = True

    def note(self, measured: Figure) -> Figure:
        self.holds = self.holds and measured.holds is not False
        return measured

    def line(self, *, interrupted: bool = False) -> str:
        self.cells["cpu"] = f"{time.process_time() - self.began:.0f} s"
        self.cells["holds"] = "NO" if not self.holds else "..." if interrupted else "yes"
        return _cells(self.name.ljust(self.width), self.cells)


#: The columns of a row besides the name of the trace.
_COLUMNS = {
    "nodes": 6, "jobs": 7, "left out": 8, "bound": 9, "documents": 9, "moves": 6, "closed": 7, "early": 5,
    "moved": 6, ">=8 chips": 9, "10 min": 6, "cpu": 7, "holds": 5
}  # fmt: skip


def _cells(name: str, cells: dict[str, str]) -> str:
    row = [cells.get(column, "").rjust(width) for column, width in _COLUMNS.items()]
    return "  ".join((name, *row)).rstrip()


def _heading(width: int) -> str:
    return _cells("trace".ljust(width), {name: name for name in _COLUMNS})


def _judged(workload: JudgedTrace, row: _Row, say: Say) -> Iterator[Figure]:
    """The figures of one trace; its row is said at the end, or when Ctrl-C ends it."""
    try:
        for measured in _figures(workload, row):
            yield row.note(measured)
    except ImpossibleSimulationError as error:
        complain(f"left out: {workload.name}: {error}")
    except KeyboardInterrupt:
        say(row.line(interrupted=True))
        raise
    else:
        say(row.line())


def _figures(workload: JudgedTrace, row: _Row) -> Iterator[Figure]:
    cells = row.cells
    # Jobs say how long they run: else what a move saves is not known, and none is made at a cost. In strict
    # order nothing else depends on it.
    runs = _Runs(replace(workload.plan, known_durations=True))
    strict, moved = runs(_variant(STRICT, _STRICT)), runs(_variant(STRICT_MOVES, _STRICT, _FREE))
    bound, title = runs.bound, f"{workload.name} ({runs.nodes} nodes)"
    best, documents, with_moves = map(_mean_wait, (bound, strict, moved))
    cells["nodes"], cells["jobs"] = f"{runs.nodes:,}", f"{len(bound.jobs):,}"
    cells["left out"] = f"{runs.omitted:,}"
    cells["bound"] = f"{best / HOUR:.3f} h"
    cells["early"] = f"{_early(bound, strict, moved)}"
    cells["moved"] = f"{moved.moves.jobs:,}"
    yield shown(f"{title}: jobs", len(bound.jobs), "")
    yield shown(f"{title}: jobs left out", runs.omitted, "")
    yield shown(f"{title}: mean wait of the bound", best / HOUR, "h")
    yield at_most(f"{title}: jobs that start before the bound, strict", _early(bound, strict, moved), "", 0)
    for measured in _distance(workload.name, title, best, documents, with_moves):
        if "closed" in measured.name:
            cells["closed"] = f"{measured.value:.1%}"
        yield measured
    if best:
        cells["documents"], cells["moves"] = f"{documents / best:.3f}", f"{with_moves / best:.3f}"
    yield shown(f"{title}: jobs moved", moved.moves.jobs, "")
    yield shown(f"{title}: chips moved", moved.moves.chips, "")
    at_a_cost = runs(_variant(STRICT_COST, _STRICT, _COSTLY))
    if _cost(strict):
        ratio = _cost(at_a_cost) / _cost(strict)
        cells["10 min"] = f"{ratio:.3f}"
        name = f"{title}: chips x (wait + restart) with moves of ten minutes over without, strict"
        yield _below_one(name, ratio, judged=at_a_cost.moves.jobs > 0)
    runs_by_default = _Runs(workload.plan)
    default, default_moves = (
        runs_by_default(_variant(DEFAULT)),
        runs_by_default(_variant(DEFAULT_MOVES, _FREE)),
    )
    large, large_moved = _mean_wait(default, LARGE), _mean_wait(default_moves, LARGE)
    if large:
        cells[">=8 chips"] = f"{large_moved / large:.3f}"
        name = f"{title}: mean wait of jobs of {LARGE} chips and more with moves over without, default"
        yield _below_one(name, large_moved / large, judged=default_moves.moves.jobs > 0)
    every = (strict, moved, at_a_cost, default, default_moves)
    never = sum(start is None for one in every for start in one.starts)
    yield at_most(f"{title}: jobs that never start, all runs", never, "", 0)


class _Runs:
    """The runs of one plan, one after the other, and the bound. Raises ImpossibleSimulationError."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.bound: RunOutcome
        self.nodes = self.omitted = 0

    def __call__(self, variant: Variant) -> RunOutcome:
        comparison = Comparison(replace(self._plan, variants=(variant,)))
        comparison.run(_Teller(self._plan.title))
        self.bound, outcome = comparison.outcomes
        self.nodes, self.omitted = comparison.nodes, comparison.omitted.total()
        return outcome


def _distance(name: str, title: str, bound: float, documents: float, moved: float) -> Iterator[Figure]:
    distance = documents - bound
    is_close = distance < (CLOSE - 1) * bound
    if bound:
        yield shown(f"{title}: mean wait over the bound, documents' order", documents / bound, "x")
        over = f"{title}: mean wait over the bound, free moves"
        at_the_bound = is_close or name in AT_THE_BOUND
        yield at_most(over, moved / bound, "x", CLOSE) if at_the_bound else shown(over, moved / bound, "x")
    if distance > 0 and not is_close:
        yield at_least(f"{title}: share of the distance closed", (documents - moved) / distance, "", CLOSED)


def _below_one(name: str, value: float, *, judged: bool) -> Figure:
    """Where nothing was moved both runs are the same."""
    return Figure(name, value, "x", "< 1", value < 1) if judged else shown(name, value, "x")


def _mean_wait(outcome: RunOutcome, least: int = 0) -> float:
    waits = [
        start - job.submitted
        for start, job in zip(outcome.starts, outcome.jobs, strict=True)
        if start is not None and job.chips >= least
    ]
    return sum(waits) / len(waits) if waits else 0.0


def _early(bound: RunOutcome, *runs: RunOutcome) -> int:
    return sum(
        start is not None and soonest is not None and start < soonest
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
    return (waits + outcome.moves.cost) / HOUR


# -- growth


def _growth(full: bool, say: Say) -> Iterator[Figure]:
    """Processor time per job on two clusters with the same load per node."""
    for variant in (_variant(STRICT, _STRICT), _variant(STRICT_MOVES, _STRICT, _FREE)):
        name = variant.name
        small, large = (_per_job(nodes, 4 if full else 2, variant) for nodes in (SMALL_NODES, LARGE_NODES))
        sizes = f"{LARGE_NODES:,} nodes over {SMALL_NODES:,}"
        say(f"processor time per job at {sizes}, {name}: {large / small:.2f} ({small / 1e6:.1f} ms)")
        yield at_most(f"processor time per job at {sizes}, {name}", large / small, "x", GROWTH_ALLOWED)
        yield shown(f"processor time per job at {SMALL_NODES:,} nodes, {name}", small / 1e6, "ms")
        yield shown(f"processor time per job at {LARGE_NODES:,} nodes, {name}", large / 1e6, "ms")


def _per_job(nodes: int, per_node: int, variant: Variant) -> float:
    """With more load than the cluster can take, so that jobs wait on large clusters as on small ones."""
    mix = JobMix(nodes * per_node, _GROWTH_SIZES, HOUR // 2, 3 * HOUR // 4)
    plan = Plan(
        f"{nodes:,} nodes",
        Cluster(nodes=nodes),
        (variant,),
        mix=mix,
        load=_GROWTH_LOAD,
        seed=SEED,
        estimates=False,
    )
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
