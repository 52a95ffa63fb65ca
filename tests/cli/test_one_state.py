"""`get jobs`, `describe`, `top` and `why` show one state, one reason and one moment."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ringwise.apps.sources.files import FilesSource
from ringwise.cli.commands import cli
from ringwise.framework.job import Job
from ringwise.manifests.bundle import read_bundle
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.scheduler.defaults import default_configuration
from ringwise.scheduler.explain.why import PresentReasons, reasons_now
from ringwise.scheduler.view import SchedulerView
from tests.examples import sample
from tests.lab.rig import Terminal, job, nodes, running

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
INPUTS = [
    *([path] for path in sorted((EXAMPLES / "switches").glob("*.yaml"))),
    [EXAMPLES / "superpods/sequence-nodes.json", EXAMPLES / "superpods/sequence-jobs.yaml"],
    [EXAMPLES / "cluster.yaml", EXAMPLES / "jobs"],
]
#: What `why` calls the phases of a job that is not over.
STATES = {"Running": "running", "Starting": "starting", "Pending": "pending", "Inqueue": "pending"}


def told(row: Mapping[str, Any]) -> str:
    """What a list says about a pending job."""
    return str(row["reason"]["message"] if row["reason"] is not None else row["reason_message"])


@pytest.mark.parametrize("paths", sample(INPUTS, 4), ids=lambda paths: str(paths[-1].stem))
def test_lists_and_why_agree_about_every_example(paths: list[Path]) -> None:
    bundle = read_bundle([str(path) for path in paths])
    source = FilesSource(bundle, default_configuration(), shipped_catalog())
    rows = source.get("jobs")["jobs"]
    assert rows
    for row in rows:
        key = f"{row['namespace']}/{row['name']}"
        why, described = source.why(key), source.describe("job", key)
        state = "rejected" if row["state"] == "rejected" else STATES[row["phase"]]
        assert why.state == state, key
        assert (described["phase"], told(described)) == (row["phase"], told(row)), key
        if state in ("pending", "rejected"):
            assert told(row) == why.message, key
    waiting = {row["name"]: told(row) for row in source.top()["pending_jobs"]}
    assert waiting == {row["name"]: told(row) for row in rows if row["state"] in ("pending", "rejected")}


def test_the_reason_in_a_list_is_as_new_as_that_of_why(tmp_path: Path) -> None:
    """A job that is not tried again keeps the reason of its last attempt; lists ask anew, as `why` does."""
    with running(tmp_path, nodes(3)):
        terminal = Terminal(tmp_path)
        terminal.submit(job("first", 1, 4))
        terminal.submit(job("large", 3, 8))
        before = told(terminal.json("get jobs")["jobs"][1])
        # It takes the node that was free: fewer pods of the gang fit now, and nothing became free.
        terminal.submit(job("second", 1, 8))
        rows = {row["name"]: row for row in terminal.json("get jobs")["jobs"]}
        assert told(rows["large"]) == terminal.json("why large")["message"] != before
        assert told(terminal.json("describe job large")) == told(rows["large"])


FILES = """
apiVersion: v1
kind: Node
metadata: {name: node-0}
status:
  allocatable: {cpu: "8", huawei.com/Ascend910: "8"}
  capacity: {cpu: "8", huawei.com/Ascend910: "8"}
---
apiVersion: v1
kind: Pod
metadata: {name: one, creationTimestamp: "2026-01-02T03:04:05Z"}
spec:
  schedulerName: volcano
  containers: [{name: main, resources: {limits: {huawei.com/Ascend910: "8"}}}]
"""
NOTE = "note: shows the files as of 2026-01-02T03:04:05Z before any scheduling decision; 1 pod has no node"


def test_files_show_one_moment_and_say_which(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(FILES)

    def ask(question: str) -> Any:
        ran = CliRunner().invoke(cli, shlex.split(f"{question} -f {file} -o json"))
        assert ran.exit_code == 0, ran.output
        assert NOTE in ran.stderr, question
        return json.loads(ran.stdout)

    (node,) = ask("get nodes")["nodes"]
    assert (node["pods"], node["chips"][0]["used"]) == (0, [])
    assert {chip["state"] for chip in ask("get chips")["chips"]} == {"free"}
    (pod,) = ask("get pods")["pods"]
    assert (pod["node"], pod["would_be_scheduled_on"]) == (None, "node-0")
    (row,) = ask("get jobs")["jobs"]
    assert (row["phase"], row["scheduled"], row["would_be_scheduled_on"]) == ("Pending", 0, ["node-0"])
    assert ask("describe job one")["phase"] == "Pending"
    assert ask("describe node node-0")["pod_details"] == []
    assert ask("why one")["message"] == "would be placed on node-0 now"
    (board,) = ask("capacity")["boards"]
    assert (board["chips"]["used"], board["chips"]["free"]) == (0, 8)
    assert ask("top --once")["status"]["scheduled"] == 0


def test_a_fault_of_a_node_on_which_a_job_would_be_placed_does_not_affect_it() -> None:
    bundle = read_bundle([str(EXAMPLES / "cluster.yaml"), str(EXAMPLES / "jobs")])
    source = FilesSource(bundle, default_configuration(), shipped_catalog())
    (row,) = [row for row in source.get("jobs")["jobs"] if row["name"] == "whole-node"]
    # The network of a chip of it is faulty, which matters to gangs only.
    assert row["would_be_scheduled_on"] == ["node-12"]
    assert row["faults"] == []
    assert source.why("default/whole-node").faults == []


def test_a_list_tries_a_bounded_number_of_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs after them have the reason of their last attempt."""
    asked: list[int] = []

    def counted(view: SchedulerView, jobs: Sequence[Job], now: int, *, fixes: bool) -> PresentReasons:
        asked.append(len(jobs))
        return reasons_now(view, jobs, now, fixes=fixes)

    monkeypatch.setattr("ringwise.views.cluster.reasons_now", counted)
    bundle = read_bundle([str(EXAMPLES / "cluster.yaml"), str(EXAMPLES / "jobs")])

    def reasons() -> list[str]:
        source = FilesSource(bundle, default_configuration(), shipped_catalog())
        rows = source.get("jobs")["jobs"]
        old.append(sum("reason_from_last_attempt" in row for row in rows))
        return [row["reason"]["code"] for row in rows if row["reason"] is not None]

    old: list[int] = []
    every = reasons()
    monkeypatch.setattr("ringwise.views.cluster.MAX_EXAMINED_PODS", 1)
    assert reasons() == every
    assert asked == [len(every), 1]
    # What was not tried says so.
    assert old == [0, len(every) - 1]
    assert len(every) > 1
