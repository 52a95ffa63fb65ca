"""`ringwise drill`: the shipped drills hold, a wrong expectation fails, and bad files are clear errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ringwise.apps.drill.file import read_drill
from ringwise.apps.drill.run import run_drill
from ringwise.apps.lab.lab import LiveLab
from ringwise.cli.commands import cli
from ringwise.state.model import Node
from tests.golden_files import same_as_golden
from tests.tools.schemas import check_document

ROOT = Path(__file__).parents[2]
DRILLS = sorted((ROOT / "examples" / "drills").glob("*.yaml"))


def invoke(*arguments: str, columns: int = 80) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(cli, ["drill", *arguments])


@pytest.mark.parametrize("path", DRILLS, ids=lambda path: path.stem)
def test_the_shipped_drill_holds(path: Path) -> None:
    result = run_drill(read_drill(path))
    assert [(step.message, step.problems) for step in result.steps if step.passed is False] == []
    assert sum(step.passed is not None for step in result.steps) >= 2


def test_a_drill_is_the_same_each_time_and_looks_as_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a wanted change: RINGWISE_WRITE_GOLDEN=1 pytest tests/apps/test_drills.py"""
    monkeypatch.chdir(ROOT)
    ran = invoke("examples/drills/rank-0.yaml")
    assert ran.exit_code == 0, ran.output
    assert ran.output == invoke("examples/drills/rank-0.yaml").output
    same_as_golden("80/drill", f"$ ringwise drill examples/drills/rank-0.yaml\n{ran.output}")
    page = ROOT / "docs" / "guides" / "drills.md"
    assert f"```\n{ran.output}```" in page.read_text(encoding="utf-8")


START = """
drill: test
cluster: {nodes: 3}
steps:
- submit: {job: train, pods: 2, chips: 8, labels: {fault-scheduling: force, pod-rescheduling: "on"}}
- advance: 10s
- fault: {kind: chip, target: {job: train, rank: 1}}
- advance: 10s
"""


@pytest.mark.parametrize("step", ["cordon", "drain"])
def test_a_step_cordons_all_nodes_before_the_scheduler_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    cordoned: list[int] = []
    turn = LiveLab.turn

    def watched_turn(live: LiveLab) -> None:
        cordoned.append(sum(one.unschedulable for one in live.cluster.all(Node)))
        turn(live)

    monkeypatch.setattr(LiveLab, "turn", watched_turn)
    path = tmp_path / "drill.yaml"
    path.write_text(
        "drill: x\ncluster: {nodes: 4, leafSize: 2}\nsteps:\n"
        "- submit: {job: train, pods: 2, chips: 8}\n- advance: 10s\n"
        f"- {step}: switch/172.0.0.0\n- advance: 10s\n- uncordon: switch/172.0.0.0\n"
    )
    assert run_drill(read_drill(path)).passed
    assert set(cordoned) == {0, 2}
    assert cordoned[-1] == 0


@pytest.mark.parametrize(
    ("expected", "problem"),
    [
        ("running: 1", "2 running"),
        ("placed: 1", "2 placed"),
        ("phase: Pending", "it is Running"),
        ("untouched: all", "rank 1 moved from node-1 to node-2"),
        ("moved: 0", "rank 0 was not touched"),
        ("returned: [0]", "rank 0 was not touched"),
        ("nodes: {1: node-0}", "rank 1 is on node-2"),
        ("avoids: [node-0]", "rank 0 is on node-0"),
        ("reason: node-full", "it does not wait"),
        ("history: [block level]", 'nothing says "block level"'),
        ("running: 1, within: 1m", "2 running"),
        ("running: 1, for: 1m", "2 running"),
    ],
)
def test_an_expectation_that_does_not_hold_fails_the_drill(
    tmp_path: Path, expected: str, problem: str
) -> None:
    path = tmp_path / "drill.yaml"
    path.write_text(f"{START}- expect: {{job: train, {expected}}}\n")
    ran = invoke(str(path), columns=200)
    assert ran.exit_code == 1
    assert f": {problem}\n" in ran.output
    ran = invoke(str(path), "-o", "json")
    document = json.loads(ran.output)
    check_document(document)
    assert (ran.exit_code, document["passed"]) == (1, False)
    assert document["drills"][0]["steps"][-1]["problems"] == [problem]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "is empty; must have one document"),
        ("drill: [", "line 2: invalid YAML"),
        ("steps: []", "line 1: drill: Required value"),
        ("drill: x", "line 1: steps: Required value"),
        ("drill: x\nsteps: {}", "line 2: steps: Invalid value: an object: must be a list"),
        (
            "drill: x\nsteps:\n- submitt: a",
            "line 3: steps[0].submitt: unknown field; allowed:",
        ),
        (
            "drill: x\nsteps:\n- {advance: 1s, clear: all}",
            "line 3: steps[0]: must be exactly one of submit",
        ),
        (
            "drill: x\nsteps:\n- advance: soon",
            'line 3: steps[0].advance: Invalid value: "soon": must be a duration such as 90s',
        ),
        (
            "drill: x\nsteps:\n- fault: {kind: chp, target: n}",
            'line 3: steps[0].fault.kind: Invalid value: "chp": must be one of chip',
        ),
        ("drill: x\nsteps:\n- fault: {kind: chip}", "line 3: steps[0].fault.target: Required value"),
        (
            "drill: x\nsteps:\n- fault: {kind: chip, target: n, chips: a}",
            'line 3: steps[0].fault.chips: Invalid value: "a": must be all',
        ),
        (
            "drill: x\nsteps:\n- restart: world",
            'line 3: steps[0].restart: Invalid value: "world": must be one of scheduler, controller',
        ),
        (
            "drill: x\nsteps:\n- expect: {job: a}",
            "line 3: steps[0].expect: expects nothing: give one of phase",
        ),
        (
            "drill: x\nsteps:\n- expect: {job: a, runing: 1}",
            "line 3: steps[0].expect.runing: unknown field; ",
        ),
        ("drill: x\nsteps:\n- delete: {}", "line 3: steps[0].delete: must name one job, pod or node"),
        (
            "drill: x\ncluster: {nodes: 0}\nsteps: []",
            "line 2: cluster.nodes: Invalid value: 0: must be a whole number from 1 to",
        ),
        (
            "drill: x\ncluster: {bord: a}\nsteps: []",
            "line 2: cluster.bord: unknown field; allowed:",
        ),
        (
            "drill: x\nsteps:\n- submit: {job: a, labels: {b: on}}",
            "line 3: steps[0].submit.labels.b: Invalid value: true: must be a string",
        ),
    ],
)
def test_a_bad_file_says_where_and_what_is_allowed(tmp_path: Path, text: str, line: str) -> None:
    path = tmp_path / "drill.yaml"
    path.write_text(text)
    ran = invoke(str(path), columns=300)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert f"{path}: {line}" in ran.stderr


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("- expect: {job: b, running: 1}", 'steps[0]: job "b" not found'),
        ("- fault: {kind: chip, target: node-9, chips: 0}", 'steps[0]: node "node-9" not found'),
        ("- fault: {kind: chip, target: node-0, chips: 9}", "steps[0]: node-0 has the chips 0 to 7, not 9"),
        ("- fault: {kind: node, target: {job: b, rank: 1}}", 'steps[0]: job "b" not found'),
        ("- submit: none.yaml", "cannot be read"),
        ("- {delete: {pod: b}}", 'steps[0]: pod "b" not found'),
    ],
)
def test_a_step_that_is_impossible_ends_the_drill(tmp_path: Path, text: str, line: str) -> None:
    path = tmp_path / "drill.yaml"
    path.write_text(f"drill: x\nsteps:\n{text}\n")
    ran = invoke(str(path))
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert line in ran.stderr


def test_settings_and_boards_of_a_drill_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "drill.yaml"
    path.write_text("drill: x\nsettings: {grace-over-tim: 5}\nsteps: []\n")
    assert "grace-over-tim" in invoke(str(path)).stderr
    path.write_text("drill: x\ncluster: {board: 910-x9}\nsteps: []\n")
    assert 'board "910-x9" not found; must be one of' in invoke(str(path)).stderr
    path.write_text("drill: x\nsettings: {grace-over-time: 20}\nsteps: []\n")
    assert invoke(str(path)).exit_code == 0
    assert "the directory does not contain .yaml" in invoke(str(tmp_path / "none"), str(ROOT / "src")).stderr
