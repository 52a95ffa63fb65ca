"""`ringwise bench simulate`: every trace is run and judged, whatever rows it has, and told when it ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ringwise.apps.simulate.comparison import Comparison
from ringwise_bench import simulate
from ringwise_bench.command import bench
from ringwise_bench.report import Figure, NothingToMeasureError

ITP = "job_id,submission_time,duration,num_gpu\n"
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n"
#: One-chip jobs that end at different times leave holes in which the jobs of eight chips do not fit.
HOLES = "".join(
    f"small{number},{number // 8 * 6000},{300 + number * 977 % 9000},1\n"
    f"second{number},{number // 8 * 6000},{300 + number * 1583 % 9000},1\n"
    f"large{number},{number // 8 * 6000 + 7},2000,8\n"
    for number in range(48)
)


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def judged(*traces: Path, **more: Any) -> tuple[dict[str, Figure], list[str]]:
    said: list[str] = []
    found = {one.name: one for one in simulate.run(False, traces, say=said.append, **more)}
    return found, said


def only_traces(*names: str) -> dict[str, Any]:
    return {"only": names or ("*/*",)}


def value(found: dict[str, Figure], text: str) -> float:
    (one,) = [measured.value for name, measured in found.items() if text in name]
    return one


@pytest.mark.full
def test_moves_close_the_distance_to_the_bound(tmp_path: Path) -> None:
    found, said = judged(written(tmp_path, "own/holes.csv", ITP + HOLES), **only_traces())
    assert all(one.holds is not False for one in found.values())
    assert value(found, "share of the distance closed") >= 0.9
    assert value(found, "jobs moved") > 0
    assert value(found, "moves of ten minutes") < 1
    assert value(found, "8 chips and more") < 1
    assert value(found, "jobs left out") == 0
    heading, row = said
    assert heading.startswith("trace")
    assert row.startswith("own/holes")
    assert row.endswith("yes")


@pytest.mark.full
def test_rows_that_cannot_be_simulated_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = (
        # In no order; the same name twice; fractions of a second; no chips; no time; not allowed; too large.
        "late,9000.25,0.75,1\nlate,9000.25,0.75,1\nnone,10,100,0\nno-time,20,0,8\ntwelve,30,60,12\n"
        "large,40,60,512\nshort,50,0.0001,8\n"
    )
    found, said = judged(written(tmp_path, "own/odd.csv", ITP + rows + HOLES), **only_traces())
    assert all(one.holds is not False for one in found.values())
    assert value(found, "jobs left out") == 4
    assert value(found, ": jobs that never start") == 0
    assert said[-1].endswith("yes")


@pytest.mark.full
def test_a_trace_of_one_chip_jobs_has_no_distance_to_close(tmp_path: Path) -> None:
    rows = "".join(f"j{number},{number * 10},400,1\n" for number in range(40))
    found, said = judged(written(tmp_path, "own/ones.csv", ITP + rows), **only_traces())
    assert all(one.holds is not False for one in found.values())
    assert not [name for name in found if "closed" in name or "8 chips" in name]
    assert said[-1].endswith("yes")


@pytest.mark.full
def test_each_cluster_of_a_table_is_a_trace_of_its_own_and_can_be_chosen(tmp_path: Path) -> None:
    rows = "".join(
        f"2017-10-09 07:0{number % 10}:00,{90 + number}.0,{chips},0,{cluster}\n"
        for number in range(10)
        for chips, cluster in ((1, "a1"), (8, "b2"))
    )
    path = written(tmp_path, "own/several.csv", PHILLY + rows)
    assert [line.split()[1] for line in judged(path, **only_traces())[1][1:]] == ["a1", "b2"]
    found, said = judged(tmp_path, only=("own/several b*",))
    assert [line.split()[1] for line in said[1:]] == ["b2"]
    assert [one.value for name, one in found.items() if name.endswith("): jobs")] == [10]
    with pytest.raises(NothingToMeasureError, match="there are own/several a1, own/several b2, growth"):
        judged(tmp_path, only=("own/other",))


def test_the_first_days_of_a_trace_are_named_so(tmp_path: Path) -> None:
    rows = "".join(f"j{number},{number * 40_000},400,1\n" for number in range(6))
    path = written(tmp_path, "own/long.csv", ITP + rows)
    found, said = judged(path, days=1, **only_traces())
    assert found["own/long, 1 days (1 nodes): jobs"].value == 3
    assert said[-1].startswith("own/long, 1 days")


@pytest.mark.full
def test_what_is_no_trace_is_left_out_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path, "own/a-nodes.csv", "sn,gpu,model\nn1,8,x\n")
    written(tmp_path, "own/empty.csv", ITP)
    written(tmp_path, "own/holes.csv", ITP + HOLES)
    _, said = judged(tmp_path, **only_traces())
    assert [line.split()[0] for line in said] == ["trace", "own/holes"]
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("left out: own/a-nodes: ")
    assert told[1] == "left out: own/empty: no jobs to simulate"
    with pytest.raises(NothingToMeasureError, match="there are no traces"):
        judged(written(tmp_path, "none/README.md", "").parent)


def interrupted_at(number: int) -> Callable[..., None]:
    real, runs = Comparison.run, [0]

    def run(self: Comparison, *arguments: Any) -> None:
        runs[0] += 1
        if runs[0] == number:
            raise KeyboardInterrupt
        real(self, *arguments)

    return run


@pytest.mark.full
def test_ctrl_c_prints_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "own/holes.csv", ITP + HOLES)
    arguments = ["simulate", "--traces", str(path), "--only", "own/*"]
    monkeypatch.setattr(Comparison, "run", interrupted_at(3))
    ran = CliRunner().invoke(bench, arguments)
    assert ran.exit_code == 130
    row = next(line for line in ran.stdout.splitlines() if line.startswith("own/holes "))
    assert row.endswith("...")
    assert "share of the distance closed" in ran.stdout
    assert "ten minutes" not in ran.stdout


def test_nothing_to_measure_is_bad_input(tmp_path: Path) -> None:
    for arguments in (["--only", "own/none"], ["--traces", str(tmp_path)]):
        ran = CliRunner().invoke(bench, ["simulate", *arguments])
        assert ran.exit_code == 2
        assert len(ran.stderr.splitlines()) == 1
    ran = CliRunner().invoke(bench, ["decide", "--days", "3"])
    assert ran.exit_code == 2
    assert ran.stderr == "--days requires the benchmark simulate\n"
