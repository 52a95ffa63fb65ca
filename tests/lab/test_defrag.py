"""`ringwise defrag --plan` in a lab and for files: what is printed, and that nothing is changed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from ringwise.apps.lab.api import LONG_QUERIES
from ringwise.cli.commands import cli
from tests.lab.rig import Terminal, job, nodes, with_copies
from tests.lab.test_drain import everything

EXAMPLE = Path(__file__).parents[2] / "examples/defrag/cluster.yaml"


def fragmented(terminal: Terminal) -> None:
    """Two nodes, each with a job of four chips; one of eight waits."""
    terminal.submit(*(job(f"half-{number}", 1, 4) for number in range(4)))
    terminal.ok("advance 1m")
    seats = terminal.seats()
    by_node: dict[str, list[str]] = {}
    for name, (node, _) in seats.items():
        by_node.setdefault(node, []).append(name.partition("/")[2].removesuffix("-worker-0"))
    for there in by_node.values():
        terminal.ok(f"delete job {sorted(there)[0]}")
    terminal.submit(job("train", 1, 8))
    terminal.ok("advance 1m")


def test_a_lab_shows_the_moves_and_changes_nothing(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(2)) as server:
        fragmented(terminal)
        before = everything(server)
        document = terminal.json("defrag --plan")
        (plan,) = document["plans"]
        assert (plan["namespace"], plan["name"], plan["chips"]) == ("lab", "train", 8)
        (move,) = plan["moves"]
        assert move["chips"] == 4
        assert move["cost_chip_seconds"] == plan["cost_chip_seconds"] == 2400.0
        (pod,) = move["pods"]
        assert {pod["from"], pod["to"]} == {"node-0", "node-1"}
        assert plan["reservation"][0]["node"] == pod["from"]
        assert terminal.json("defrag --plan --for train") == document
        printed = terminal.ok("defrag --plan --for lab/train")
        assert f"{pod['from']} -> {pod['to']}" in printed
        assert "moving 1 job (4 chips) starts lab/train (8 chips) now" in printed
        assert "nothing was changed" in printed
        assert "to other nodes (`ringwise defrag --plan" in " ".join(terminal.ok("why train").split())
        assert everything(server) == before


def test_a_job_that_does_not_wait_for_holes_has_a_reason(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(2)):
        terminal.submit(job("runs", 1, 8))
        terminal.ok("advance 1m")
        assert terminal.ok("defrag --plan") == "no job is blocked by fragmentation: no moves are needed\n"
        assert "the job is not waiting for chips" in terminal.ok("defrag --plan --for runs")


def test_a_plan_is_a_question_that_is_answered_aside() -> None:
    assert "defrag-plan" in LONG_QUERIES


def ask(line: str) -> Result:
    return CliRunner().invoke(cli, shlex.split(line), env={"COLUMNS": "80"})


def test_files_show_the_moves_in_80_columns() -> None:
    answer = ask(f"defrag --plan -f {EXAMPLE}")
    assert answer.exit_code == 0, answer.output
    assert max(map(len, answer.output.splitlines())) <= 80
    assert "research/eval-1" in answer.output


def test_who_must_stay_is_said(tmp_path: Path) -> None:
    objects = list(yaml.load_all(EXAMPLE.read_text(), yaml.CSafeLoader))
    for one in objects:
        if one["kind"] == "Pod":
            del one["metadata"]["ownerReferences"]
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    answer = ask(f"defrag --plan -f {path}")
    text = " ".join(answer.output.split())
    assert "research/train: no moves can start the job: 0 of 3 nodes can run train-worker-0" in text
    assert "its pods would not be recreated (pod eval-1 has no owner)" in text


@pytest.mark.parametrize(
    ("spec", "status", "moves"),
    [
        ({"minAvailable": 1}, {"disruptionsAllowed": 0}, False),
        ({"minAvailable": 3}, {"disruptionsAllowed": 3}, True),
        # As written, before a controller has looked at it: four pods run.
        ({"minAvailable": 4}, None, False),
        ({"minAvailable": "100%"}, None, False),
        ({"maxUnavailable": 0}, None, False),
        ({"minAvailable": 1}, None, True),
        ({"maxUnavailable": "50%"}, None, True),
    ],
)
def test_disruption_budgets_of_the_files_are_kept(
    spec: dict[str, Any], status: dict[str, int] | None, moves: bool, tmp_path: Path
) -> None:
    budget: dict[str, Any] = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "research"},
        "spec": {"selector": {}, **spec},
    }
    if status is not None:
        budget["status"] = status
    path = tmp_path / "budget.yaml"
    path.write_text(yaml.safe_dump(budget))
    answer = ask(f"defrag --plan -f {EXAMPLE} -f {path}")
    text = " ".join(answer.output.split())
    assert "not read" not in text
    assert ("no moves can start the job" not in text) is moves
    assert ("PodDisruptionBudget keep allows" in text) is not moves
    # No command calls the kind superfluous, and a lab says that it has none.
    assert "PodDisruptionBudget" not in ask(f"doctor -f {EXAMPLE} -f {path}").output


def test_a_disruption_budget_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "budget.yaml"
    path.write_text(
        "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: keep},"
        " spec: {selector: {}, maxUnavailable: half}}"
    )
    answer = ask(f"defrag --plan -f {EXAMPLE} -f {path}")
    assert answer.exit_code == 2
    assert (
        'spec.maxUnavailable: Invalid value: "half": must be a whole number or a percentage' in answer.output
    )


def test_a_lab_says_that_it_keeps_no_disruption_budgets(tmp_path: Path) -> None:
    budget = "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a}, spec: {selector: {}}}"
    with with_copies(tmp_path, nodes(1)):
        ran = Terminal(tmp_path).run("submit -", f"{job('runs', 1, 8)}---\n{budget}\n")
    assert "PodDisruptionBudget: 1 object not stored; a lab does not support them" in ran.stderr


def test_the_setting_switches_plans_off(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.conf"
    path.write_text(
        'actions: "enqueue, allocate, backfill"\n'
        "tiers:\n- plugins:\n  - name: gang\n  - name: topology910\n  - name: predicates\n"
        "configurations:\n- name: init-params\n  arguments: {defragment: 'off'}\n"
    )
    answer = ask(f"defrag --plan -f {EXAMPLE} --config {path}")
    assert "not checked: moves: the setting defragment is off" in answer.output


def test_the_command_wants_to_know_what_to_do() -> None:
    answer = ask("defrag")
    assert answer.exit_code == 2
    assert "--plan" in answer.output
