"""`ringwise simulate`: readers of traces, the bound, runs with the real scheduler, and what is printed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.apps.drill.file import read_drill
from ringwise.apps.simulate.bound import count_chips
from ringwise.apps.simulate.comparison import Cluster, Comparison, ImpossibleSimulationError, Plan, Variant
from ringwise.apps.simulate.document import simulation_document
from ringwise.apps.simulate.file import read_plan, variant_from_text
from ringwise.apps.simulate.hardware import FaultRates, Hardware, faults
from ringwise.apps.simulate.jobs import HOUR, SECOND, JobMix, SimulatedJob, generate, in_order, nodes_for_load
from ringwise.apps.simulate.measures import MAX_ESTIMATES, Estimate, Estimates, quality, quantile
from ringwise.apps.simulate.page import page_text
from ringwise.apps.simulate.run import Simulation
from ringwise.apps.simulate.traces import TraceError, read_trace
from ringwise.cli.commands import cli
from ringwise.manifests.settings.boards import shipped_boards
from ringwise.manifests.text.errors import DocumentError
from ringwise.scheduler.defaults import default_configuration
from ringwise.views.documents.simulation import EstimateFields, SimulationDocument
from ringwise.wellknown import TOR_AFFINITY
from tests.examples import examples

DEFAULT = default_configuration()
UNLIMITED = "defragment=auto,move-chips-per-hour=1000000,move-again-after=0"
FREE_MOVES = f"{UNLIMITED},restart-cost=0"
STRICT = variant_from_text(DEFAULT, "queue-discipline=strict").configuration


def jobs(*rows: tuple[int, int, int]) -> tuple[SimulatedJob, ...]:
    """(submitted, duration, chips), in seconds."""
    return tuple(in_order((at * SECOND, lasts * SECOND, chips) for at, lasts, chips in rows))


def plan(trace: tuple[SimulatedJob, ...] = (), nodes: int | None = 2, **more: Any) -> Plan:
    more.setdefault("variants", (Variant("given", STRICT),))
    board = more.pop("board", "910-x8")
    sizes = {name: more.pop(name) for name in ("leaf_size", "superpod_size") if name in more}
    return Plan("test", Cluster(board, nodes, **sizes), trace=trace, **more)


def compared(wanted: Plan) -> Comparison:
    found = Comparison(wanted)
    found.run()
    return found


# -- traces -----------------------------------------------------------------------------------------------

ITP = "job_id,submission_time,duration,num_gpu\nb,500,60,8\na,100,3600,1\n"
PHILLY = (
    "timestamp,duration,num_gpus,gpu_time,cluster\n2024-01-01 00:01:00,30.5,2,61,x\n"
    "2024-01-01 00:00:00,9,1,9,y\n"
)
OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
    "scheduled_time\np0,1,1,1,1000,,LS,Running,10,110,20\np1,1,1,0,0,,LS,Running,10,110,20\n"
    "p2,1,1,2,1000,,LS,Pending,30,,\n"
)
SWF = (
    "; a comment\n1 0 5 60 4 -1 -1 8 -1 -1 1 1 1 1 1 1 -1 -1\n2 30 0 90 2 -1 -1 -1 -1 -1 1 1 1 1 1 1 -1 -1\n"
)


def written(folder: Path, text: str, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "rows", "omitted"),
    [
        (ITP, jobs((0, 3600, 1), (400, 60, 8)), {}),
        (PHILLY, (SimulatedJob(0, 0, 9 * SECOND, 1), SimulatedJob(1, 60 * SECOND, 30_500_000_000, 2)), {}),
        (OPENB, jobs((0, 90, 1)), {"has no beginning or no end": 1, "does not request chips": 1}),
        (SWF, jobs((0, 60, 8), (30, 90, 2)), {}),
    ],
    ids=["itp", "philly", "openb", "swf"],
)
def test_a_trace_is_read_by_its_heading(
    tmp_path: Path, text: str, rows: Sequence[SimulatedJob], omitted: dict[str, int]
) -> None:
    trace = read_trace(written(tmp_path, text))
    assert tuple(trace.jobs) == tuple(rows)
    assert trace.omitted == omitted


def test_columns_may_have_other_names_and_rows_can_be_chosen(tmp_path: Path) -> None:
    path = written(tmp_path, "when,secs,n,team\n0,60,1,a\n10,60,2,b\n")
    columns = {"submitted": "when", "duration": "secs", "chips": "n"}
    assert [job.chips for job in read_trace(path, columns=columns, only={"team": "b"}).jobs] == [2]
    with pytest.raises(TraceError, match="no row has team=c"):
        read_trace(path, columns=columns, only={"team": "c"})


@pytest.mark.parametrize("text", [ITP, SWF], ids=["itp", "swf"])
def test_a_trace_may_come_from_a_pipe(tmp_path: Path, text: str) -> None:
    """As from `<(zcat trace.csv.gz)`: it cannot be read twice."""
    reader, writer = os.pipe()
    try:
        os.write(writer, text.encode())
        os.close(writer)
        found = read_trace(Path(f"/dev/fd/{reader}"))
    finally:
        os.close(reader)
    assert found == read_trace(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "columns", "error"),
    [
        (
            "a,b\n1,2\n",
            {"submitted": "a"},
            "line 1: its columns (a, b) are those of no known format (itp, philly, openb, swf): name the "
            "columns duration, chips",
        ),
        ("a,b\n1,2\n", {"chip": "b"}, 'columns: unknown field "chip"; must be one of'),
        (ITP.replace("3600", "long"), {}, "line 3: duration: must be a number or a time"),
        (ITP, {"chips": "gpus"}, 'line 1: column "gpus" not found'),
        (ITP, {"chip": "num_gpu"}, 'columns: unknown field "chip"; must be one of'),
        (ITP.replace("8\n", "1.5\n"), {}, "line 2: num_gpu: must be a whole number, got 1.5"),
        (ITP.replace("500", "1e300"), {}, "line 2: submission_time: invalid time or number 1e300"),
        (SWF + "3 4\n", {}, "line 4: has 2 of 18 fields"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(
    tmp_path: Path, text: str, columns: dict[str, str], error: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(TraceError) as caught:
        read_trace(path, columns=columns)
    assert str(caught.value).startswith(f"{path}: ")
    assert error in str(caught.value)


# -- jobs -------------------------------------------------------------------------------------------------


def test_the_nodes_of_a_load() -> None:
    # 8 chips for the whole time: half a cluster of 2 nodes of 8.
    assert nodes_for_load(jobs((0, 100, 8), (100, 0, 1)), 8, 0.5) == 2
    assert nodes_for_load(jobs((0, 100, 8), (100, 1, 1)), 8, 0.5) == 3


def test_equal_seeds_give_equal_mixes_of_the_wanted_load() -> None:
    mix = JobMix(jobs=3000)
    one = generate(mix, 512, 0.8, "7")
    assert one == generate(mix, 512, 0.8, "7")
    assert one != generate(mix, 512, 0.8, "8")
    demand = sum(job.duration * job.chips for job in one) / one[-1].submitted
    assert demand / 512 == pytest.approx(0.8, rel=0.02)


def test_jobs_that_the_board_does_not_allow_or_that_do_not_fit_are_left_out() -> None:
    found = Comparison(plan(jobs((0, 9, 1), (1, 9, 3), (2, 9, 16), (3, 9, 24), (4, 9, 12))))
    assert [job.chips for job in found.jobs] == [1, 16]
    assert dict(found.omitted) == {
        "3 chips: is not allowed or does not fit": 1,
        "12 chips: is not allowed or does not fit": 1,
        "24 chips: is larger than the cluster": 1,
    }
    with pytest.raises(
        ImpossibleSimulationError, match="no job fits this cluster: 1 job: 3 chips: is not allowed"
    ):
        Comparison(plan(jobs((0, 9, 3))))
    with pytest.raises(ImpossibleSimulationError, match="no jobs to simulate: 2 jobs: ran for no time"):
        Comparison(plan(nodes=None, omitted={"ran for no time": 2}))


# -- runs -------------------------------------------------------------------------------------------------

#: `whole` needs a node and gets none: both have a job of one chip.
HOLES = jobs((0, 50, 4), (0, 100, 4), (0, 100, 4), (0, 100, 1), (60, 10, 8), (61, 10, 1))


def test_jobs_wait_for_holes_and_the_bound_does_not() -> None:
    document = simulation_document(compared(plan(HOLES)))
    bound, given_run = document.runs
    assert bound.kind == "bound"
    # 13 chips are in use, then 9: 7 are free and 8 are asked for.
    assert bound.pending_seconds.mean == pytest.approx((40 + 39) / 6, abs=0.1)
    assert given_run.started == 6
    assert given_run.started_before_bound == 0


def test_a_head_that_is_blocked_although_enough_chips_are_free_is_counted() -> None:
    # Three jobs of 4 chips, of which the first ends: 4 and 4 are free, on two nodes.
    rows = jobs((0, 10, 4), (0, 100, 4), (0, 100, 4), (0, 10, 4), (20, 10, 8))
    document = simulation_document(compared(plan(rows, variants=(Variant("f", STRICT, "first-fit"),))))
    run = document.runs[1]
    assert run.head_blocked_hours == pytest.approx(80 / 3600, abs=0.01)
    assert run.idle_chip_hours_while_blocked == pytest.approx(8 * 80 / 3600, abs=0.1)
    assert document.runs[0].head_blocked_hours == 0


def test_utilisation_counts_until_the_last_job_is_submitted() -> None:
    document = simulation_document(compared(plan(jobs((0, 100, 8), (50, 100, 8)))))
    assert document.runs[1].utilization == 0.5


def test_best_effort_lets_small_jobs_pass_and_strict_does_not() -> None:
    rows = jobs((0, 100, 8), (0, 100, 4), (10, 10, 16), (20, 10, 1))
    variants = (Variant("strict", STRICT), Variant("best-effort", DEFAULT))
    document = simulation_document(compared(plan(rows, variants=variants)))
    waits = {run.name: run.sizes[0].pending_seconds.mean for run in document.runs}
    assert waits["best-effort"] == 0
    assert waits["strict"] == 90


@pytest.mark.parametrize("policy", ["first-fit", "random"])
def test_policies_place_every_job_and_use_no_chip_twice(policy: str) -> None:
    rows = tuple(generate(JobMix(jobs=40, median=HOUR // 6), 32, 0.9, "3"))
    wanted = plan(rows, nodes=4, variants=(Variant(policy, STRICT, policy),))
    document = simulation_document(compared(wanted))
    assert document.runs[1].started == document.jobs
    assert document.runs[1].started_before_bound == 0
    assert document == simulation_document(compared(wanted))


@pytest.mark.full
def test_policies_differ() -> None:
    rows = tuple(generate(JobMix(150, {1: 6, 2: 1, 4: 1, 8: 3}, HOUR // 6, HOUR), 64, 0.95, "3"))
    variants = (
        Variant("given", STRICT),
        Variant("first-fit", STRICT, "first-fit"),
        Variant("random", STRICT, "random"),
    )
    document = simulation_document(compared(plan(rows, nodes=8, variants=variants)))
    assert len({run.pending_seconds.mean for run in document.runs}) == 4


@settings(max_examples=examples(25))
@given(
    st.lists(
        st.tuples(st.integers(0, 300), st.integers(1, 200), st.sampled_from([1, 2, 4, 8, 16, 24, 32])),
        min_size=1,
        max_size=40,
    ),
    st.integers(1, 4),
    st.sampled_from(["ring-packing=document", "ring-packing=tight-node", "first-fit", "random"]),
)
def test_in_strict_order_no_job_starts_before_the_bound(
    rows: list[tuple[int, int, int]], nodes: int, how: str
) -> None:
    trace = jobs(*[row for row in rows if row[2] <= nodes * 8])
    if not trace:
        return
    found = compared(plan(trace, nodes=nodes, variants=(variant_from_text(STRICT, how),)))
    bound, run = found.outcomes
    for soonest, start in zip(bound.starts, run.starts, strict=True):
        assert soonest is not None
        assert start is not None
        assert start >= soonest


@settings(max_examples=examples(25))
@given(
    st.lists(
        st.tuples(st.integers(0, 300), st.integers(1, 200), st.sampled_from([1, 1, 1, 2, 4, 8, 16])),
        min_size=1,
        max_size=40,
    ),
    st.integers(1, 4),
)
def test_with_free_moves_every_job_starts_as_soon_as_enough_chips_are_free_M1(
    rows: list[tuple[int, int, int]], nodes: int
) -> None:
    """Sizes that divide each other: moves reach the bound, and nothing starts before it or is lost."""
    trace = jobs(*[row for row in rows if row[2] <= nodes * 8])
    if not trace:
        return
    found = compared(plan(trace, nodes=nodes, variants=(variant_from_text(STRICT, FREE_MOVES),)))
    bound, run = found.outcomes
    assert run.starts == bound.starts
    assert run.moves.failed_plans == 0


#: When the second and the fourth have ended, half of each node is free, and the last job needs a whole one.
HALVES = jobs((0, 100, 4), (0, 10, 4), (0, 100, 4), (0, 10, 4), (20, 10, 8))


def test_a_move_costs_the_restart_and_keeps_what_was_done_M1() -> None:
    variants = [
        variant_from_text(STRICT, how) for how in ("first-fit", FREE_MOVES, f"{UNLIMITED},restart-cost=5")
    ]
    runs = simulation_document(compared(plan(HALVES, variants=tuple(variants)))).runs
    assert [run.sizes[-1].pending_seconds.mean for run in runs] == [0, 80, 0, 80]
    assert msgspec.to_builtins(runs[2].moves) == {
        "plans": 1,
        "failed_plans": 0,
        "jobs": 1,
        "chips": 4,
        "cost_chip_hours": 0,
    }


def test_a_moved_job_ends_later_by_its_restart_cost() -> None:
    # The last job takes all chips: it starts when the moved one has ended.
    rows = [*HALVES, *jobs((0, 1, 1), (30, 10, 16))[1:]]
    trace = tuple(replace(job, number=number) for number, job in enumerate(rows))
    ends = []
    for cost in (0, 7):
        how = f"{UNLIMITED},restart-cost={cost}"
        found = compared(plan(trace, known_durations=True, variants=(variant_from_text(STRICT, how),)))
        assert found.outcomes[1].moves.jobs == 1
        assert found.outcomes[1].moves.cost == cost * 4 * SECOND
        ends.append(found.outcomes[1].starts[-1])
    assert ends == [100 * SECOND, 107 * SECOND]


def test_a_move_that_does_not_pay_is_not_made() -> None:
    # The job would wait for 80 s more, with eight chips: 640 chip-seconds, and four chips would restart.
    for cost, moved in ((159, 1), (161, 0)):
        how = f"{UNLIMITED},restart-cost={cost}"
        wanted = plan(HALVES, known_durations=True, variants=(variant_from_text(STRICT, how),))
        assert compared(wanted).outcomes[1].moves.jobs == moved


def test_the_bound_starts_jobs_as_soon_as_enough_chips_are_free() -> None:
    outcome = count_chips(jobs((0, 100, 6), (10, 50, 4), (20, 10, 1)), 8)
    # The last would fit at once, and waits behind the second.
    assert outcome.starts == [0, 100 * SECOND, 100 * SECOND]


def test_equal_seeds_give_equal_results_with_faults() -> None:
    rates = {
        Hardware.CHIP: FaultRates(400 * HOUR, 2 * HOUR),
        Hardware.NODE: FaultRates(100 * HOUR, HOUR),
        Hardware.SWITCH: FaultRates(50 * HOUR, HOUR),
    }
    rows = tuple(generate(JobMix(jobs=60, sizes={1: 3, 8: 2, 16: 1}), 64, 0.7, "1"))
    wanted = plan(rows, nodes=8, rates=rates, leaf_size=4, variants=(Variant("given", STRICT),))
    one = simulation_document(compared(wanted))
    assert one == simulation_document(compared(wanted))
    run = one.runs[1]
    assert run.started == one.jobs
    assert run.restarts > 0
    assert run.lost_chip_hours > 0
    other = simulation_document(compared(replace(wanted, seed="2")))
    assert other.runs[1] != run


def test_faults_come_in_the_order_of_time_and_a_broken_piece_does_not_break_again() -> None:
    rates = {Hardware.NODE: FaultRates(10 * HOUR, 20 * HOUR)}
    broken: set[int] = set()
    last = 0
    for change in islice(faults(rates, {Hardware.NODE: 4}, "5"), 400):
        assert change.at >= last
        assert (change.number in broken) != change.broken
        (broken.add if change.broken else broken.discard)(change.number)
        last = change.at


def test_jobs_for_switches_and_for_superpods() -> None:
    rows = jobs((0, 50, 32), (1, 50, 32), (2, 50, 8))
    found = compared(plan(rows, nodes=8, leaf_size=4, tor_affinity="large-model-schema"))
    assert found.shapes[32].labels == {TOR_AFFINITY: "large-model-schema"}
    assert None not in found.outcomes[1].starts
    found = compared(plan(jobs((0, 50, 64), (1, 50, 16)), nodes=8, board="a3-x16-superpod", superpod_size=4))
    assert found.shapes[64].annotations["sp-block"] == "64"
    assert None not in found.outcomes[1].starts


@pytest.mark.parametrize("board", [board.name for board in shipped_boards().values()])
def test_every_board_can_be_simulated_N1(board: str) -> None:
    found = compared(plan(jobs((0, 50, 1), (1, 50, 2)), nodes=2, board=board))
    assert [job.chips for job in found.jobs] == [1, 2]
    assert None not in found.outcomes[1].starts


def test_a_cluster_without_switches_has_no_faults_of_them() -> None:
    rates = {Hardware.SWITCH: FaultRates(HOUR, HOUR)}
    with pytest.raises(ImpossibleSimulationError, match="set a leaf size"):
        Comparison(plan(HOLES, rates=rates))


def test_quantiles_are_values_of_jobs() -> None:
    values = list(range(1, 101))
    assert [quantile(values, share) for share in (0.5, 0.9, 0.99)] == [50, 90, 99]
    assert quantile([7], 0.99) == 7


# -- estimates --------------------------------------------------------------------------------------------


def test_estimates_are_compared_with_the_starts() -> None:
    rows = jobs((0, 100, 16), (10, 50, 8), (20, 50, 8), (30, 10, 16))
    document = simulation_document(compared(plan(rows, known_durations=True)))
    assert document.runs[0].estimates is None
    found = document.runs[1].estimates
    assert msgspec.to_builtins(found) == {
        "jobs": 3,
        "ranges": 3,
        "not_before": 0,
        "estimated_durations": 0,
        "median_error_seconds": 0,
        "p90_error_seconds": 0,
        "within_range_ratio": 1,
    }
    # Nothing is known of the first job, and so of no other.
    unknown = simulation_document(compared(plan(rows))).runs[1].estimates
    assert unknown is not None
    assert unknown.ranges == 0


def test_the_quality_of_estimates() -> None:
    made = [
        # Starts at 18, in the range, 3 from its middle; at 25, after it, 10 from its middle.
        Estimate(0, 10 * SECOND, 20 * SECOND, guess=False),
        Estimate(1, 10 * SECOND, 20 * SECOND, guess=True),
        Estimate(2, 10 * SECOND, None, guess=False),  # not before, and it does not
        Estimate(3, None, None, guess=False),
        Estimate(4, 10 * SECOND, 20 * SECOND, guess=False),  # has not started
    ]
    assert quality(made, [18 * SECOND, 25 * SECOND, 11 * SECOND, 5 * SECOND, None]) == EstimateFields(
        jobs=4,
        ranges=2,
        not_before=1,
        estimated_durations=1,
        median_error_seconds=3.0,
        p90_error_seconds=10.0,
        within_range_ratio=0.6667,
    )
    assert quality([], []) is None


def test_at_most_a_hundred_jobs_are_asked_about() -> None:
    asked = Estimates(1000)
    for number in range(1000):
        if asked.is_due(number):
            asked.add(Estimate(number, None, None, guess=False))
    assert len(asked.made) == MAX_ESTIMATES


# -- files and commands -----------------------------------------------------------------------------------

DRILL = """
drill: a mix on eight nodes
cluster: {nodes: 8, board: 910-x8, leafSize: 4}
settings: {queue-discipline: strict}
workload:
  mix: {jobs: 40, sizes: {1: 5, 8: 2, 16: 1}, median: 10m, p90: 1h}
  load: 0.9
  seed: 4
  faults:
    node: {mtbf: 30d, mttr: 4h}
  compare:
    - settings: {ring-packing: tight-node}
    - {name: by chance, policy: random}
"""


def test_a_drill_file_with_a_workload(tmp_path: Path) -> None:
    found = read_plan(written(tmp_path, DRILL, "mix.yaml"), DEFAULT)
    assert [one.name for one in found.variants] == ["given", "ring-packing=tight-node", "by chance"]
    assert found.variants[0].configuration == STRICT
    assert found.variants[1].configuration.settings.queue_discipline == "strict"
    assert found.mix == JobMix(40, {1: 5, 8: 2, 16: 1}, HOUR // 6, HOUR)
    assert found.rates == {Hardware.NODE: FaultRates(720 * HOUR, 4 * HOUR)}
    assert (found.seed, found.load, found.cluster) == ("4", 0.9, Cluster("910-x8", 8, 4))
    assert read_plan(written(tmp_path, DRILL, "mix.yaml"), DEFAULT, "5").seed == "5"


def test_a_drill_may_have_steps_and_a_workload(tmp_path: Path) -> None:
    path = written(tmp_path, DRILL + "steps: [{advance: 1m}]\n", "both.yaml")
    assert len(read_drill(path).steps) == 1
    assert read_plan(path, DEFAULT).mix is not None


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (
            "load: 0.9",
            "load: none",
            'workload.load: Invalid value: "none": must be a number above 0 and at most 10',
        ),
        ("load: 0.9", "load: 0", "workload.load: Invalid value: 0: must be a number above 0 and at most 10"),
        (
            "load: 0.9",
            "lood: 0.9",
            "workload.lood: unknown field; allowed: trace, mix,",
        ),
        (
            "16: 1}",
            "16: .nan}",
            "workload.mix.sizes.16: Invalid value: a number that is not finite: must be a number above 0",
        ),
        ("16: 1}", "many: 1}", 'workload.mix.sizes: Invalid value: "many": must have whole numbers as keys'),
        (
            "board: 910-x8",
            "board: 910-x9",
            'cluster.board: Invalid value: "910-x9": must be one of 310-card, ',
        ),
        (
            "board: 910-x8",
            "board: '910-x8:6,310p:2'",
            'cluster.board: Invalid value: "910-x8:6,310p:2": must be one board: simulate',
        ),
        ("p90: 1h", "p90: 5m", "workload.mix.p90: must be at least the median, 10m"),
        ("median: 10m", "median: soon", 'workload.mix.median: Invalid value: "soon": must be a duration'),
        ("queue-discipline: strict", "queue-discipline: loose", 'settings: queue-discipline: "loose" is not'),
        (
            "policy: random",
            "policy: best",
            'workload.compare[1].policy: Invalid value: "best": must be one of first-fit',
        ),
        ("workload:\n", "workload:\n  trace: {file: x.csv}\n", "workload: must have either a trace or a mix"),
    ],
)
def test_what_is_wrong_in_a_workload_is_told_with_its_place(
    tmp_path: Path, old: str, new: str, error: str
) -> None:
    path = written(tmp_path, DRILL.replace(old, new), "mix.yaml")
    with pytest.raises(DocumentError) as caught:
        read_plan(path, DEFAULT)
    line = 1 + next(at for at, text in enumerate(path.read_text().splitlines()) if new.split("\n")[0] in text)
    assert f"{path}: line {line}: {error}" in str(caught.value)


def test_all_that_is_wrong_in_a_workload_is_told_at_once(tmp_path: Path) -> None:
    text = DRILL.replace("load: 0.9", "load: 0").replace("median: 10m", "median: soon")
    path = written(
        tmp_path, text.replace("policy: random", "policy: best").replace("mtbf: 30d, ", ""), "m.yaml"
    )
    with pytest.raises(DocumentError) as caught:
        read_plan(path, DEFAULT)
    assert [error.field for error in caught.value.errors] == [
        "workload.mix.median", "workload.load", "workload.faults.node.mtbf", "workload.compare[1].policy"
    ]  # fmt: skip


def test_a_simulation_has_one_board(tmp_path: Path) -> None:
    words = ["simulate", str(written(tmp_path, ITP)), "--board", "910-x8:6,310p:2"]
    ran = CliRunner().invoke(cli, words)
    assert ran.exit_code == 2
    assert "ringwise: board: must be one board" in ran.stderr


def test_only_boards_with_superpods_have_a_size_of_them(tmp_path: Path) -> None:
    words = ["simulate", str(written(tmp_path, ITP)), "--superpod-size", "4"]
    ran = CliRunner().invoke(cli, words)
    assert (ran.exit_code, ran.stderr) == (
        2,
        "ringwise: SuperPoD size: board 910-x8 does not support SuperPoDs\n",
    )
    assert CliRunner().invoke(cli, [*words, "--board", "a3-x16-superpod"]).exit_code == 0


def test_the_command_prints_tables_of_80_columns_and_a_document_of_its_schema(tmp_path: Path) -> None:
    path = written(tmp_path, DRILL, "mix.yaml")
    ran = CliRunner(env={"COLUMNS": "80"}).invoke(cli, ["simulate", str(path)])
    assert ran.exit_code == 0, ran.output
    assert max(map(len, ran.stdout.splitlines())) <= 80
    for text in ("40 jobs in", "bound", "tight-node", "by chance", "head blocked", "mean wait"):
        assert text in ran.stdout
    ran = CliRunner().invoke(cli, ["simulate", str(path), "-o", "json"])
    document = msgspec.json.decode(ran.stdout, type=SimulationDocument)
    assert [run.kind for run in document.runs] == ["bound", "configuration", "configuration", "policy"]


def test_options_describe_what_a_trace_does_not(tmp_path: Path) -> None:
    path = written(tmp_path, ITP)
    words = ["simulate", str(path), "--nodes", "2", "--compare", "queue-discipline=strict", "-o", "json"]
    ran = CliRunner().invoke(cli, words)
    assert ran.exit_code == 0, ran.output
    document = json.loads(ran.stdout)
    assert document["cluster"]["nodes"] == 2
    assert document["runs"][2]["settings"] == {"queue-discipline": "strict"}
    ran = CliRunner().invoke(cli, [*words, "--fault", "node=5m/1m", "--fault", "chip=2h/1m"])
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["runs"][1]["restarts"] > 0
    for wrong in ("node=5m", "disk=5m/1m", "node=soon/1m"):
        ran = CliRunner().invoke(cli, [*words, "--fault", wrong])
        assert ran.exit_code == 2
        assert f'--fault: invalid value "{wrong}"' in ran.stderr
    ran = CliRunner().invoke(cli, ["simulate", str(written(tmp_path, DRILL, "m.yaml")), "--nodes", "3"])
    assert ran.exit_code == 2
    assert "--nodes: requires a trace" in ran.stderr


def test_the_page_is_whole_and_names_no_other_address(tmp_path: Path) -> None:
    trace, page = written(tmp_path, ITP), tmp_path / "page.html"
    ran = CliRunner().invoke(cli, ["simulate", str(trace), "--nodes", "1", "--html-file", str(page)])
    assert ran.exit_code == 0, ran.output
    text = page.read_text()
    assert text.count("<svg") == 3
    assert not re.search(r"(?:src|href|url)\s*[=(]|https?:|<script|@import", text)


def test_the_page_shows_names_as_text() -> None:
    found = compared(replace(plan(HOLES), title="<script>x</script>"))
    text = page_text(simulation_document(found))
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_ctrl_c_prints_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Simulation._due

    def due(self: Any, now: int) -> Any:
        if now >= 60 * SECOND:
            raise KeyboardInterrupt
        return real(self, now)

    monkeypatch.setattr(Simulation, "_due", due)
    rows = "".join(f"j{number},{number * 30},600,8\n" for number in range(6))
    path = written(tmp_path, "job_id,submission_time,duration,num_gpu\n" + rows)
    ran = CliRunner().invoke(cli, ["simulate", str(path), "--nodes", "6", "-o", "json"])
    assert ran.exit_code == 130
    document = json.loads(ran.stdout)
    assert document["interrupted"]
    assert [run["started"] for run in document["runs"]] == [6, 2]


def test_a_run_that_is_not_complete_is_compared_with_the_bound_of_the_same_jobs() -> None:
    found = compared(plan(jobs((0, 100, 16), (0, 50, 16), (0, 50, 16))))
    found.outcomes[1].starts[-1] = None
    assert simulation_document(found).runs[1].mean_over_bound == 1


def test_a_page_that_cannot_be_written_takes_nothing_away(tmp_path: Path) -> None:
    trace = str(written(tmp_path, ITP))
    ran = CliRunner().invoke(cli, ["simulate", trace, "--html-file", str(tmp_path / "none" / "page.html")])
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "page.html: cannot be written: no such directory" in ran.stderr
    ran = CliRunner().invoke(cli, ["simulate", trace, "--html-file", "/proc/page.html"])
    assert ran.exit_code == 2
    assert "mean wait" in ran.stdout
    assert "/proc/page.html: cannot be written" in ran.stderr
