"""Command objects for jobs, in the lab: what is printed is what became of them."""

from __future__ import annotations

from pathlib import Path

from tests.lab.rig import Terminal, job, running


def command_object(action: str, name: str) -> str:
    return f"""apiVersion: bus.volcano.sh/v1alpha1
kind: Command
metadata: {{generateName: {name}-, namespace: lab}}
action: {action}
target: {{kind: Job, name: {name}}}
"""


def test_a_command_without_effect_is_not_said_to_be_carried_out(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path):
        terminal.submit(job("runs", 1, 8))
        terminal.ok("advance 5s")
        resumed = terminal.ok("submit -", command_object("ResumeJob", "runs"))
        assert "ResumeJob lab/runs has no effect: the job is Running" in resumed
        unknown = terminal.ok("submit -", command_object("Dance", "runs"))
        assert "Dance lab/runs has no effect: for a job as a whole there are AbortJob, " in unknown
        assert "AbortJob lab/runs carried out" in terminal.ok("submit -", command_object("AbortJob", "runs"))
        terminal.ok("advance 1m")
        again = terminal.ok("submit -", command_object("AbortJob", "runs"))
        assert "AbortJob lab/runs has no effect: the job is Aborted" in again
        resumed = terminal.ok("submit -", command_object("ResumeJob", "runs"))
        assert "ResumeJob lab/runs carried out" in resumed


def test_the_pods_of_a_deleted_vcjob_are_listed_under_its_name_until_they_are_gone(tmp_path: Path) -> None:
    with running(tmp_path):
        terminal = Terminal(tmp_path)
        terminal.submit(job("train", 2, 8))
        terminal.ok("advance 1m")
        terminal.ok("delete job train")
        assert [one["name"] for one in terminal.json("get jobs")["jobs"]] == ["train"]
        terminal.ok("advance 5m")
        assert terminal.json("get jobs")["jobs"] == []
