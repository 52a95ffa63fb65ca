"""Vcjobs of 0 replicas: they run without pods, and get some when they are scaled."""

from __future__ import annotations

from pathlib import Path

from tests.lab.rig import Terminal, job, running


def test_a_job_of_0_replicas_runs_and_can_be_scaled(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)

    def state() -> tuple[str, str, int]:
        (row,) = terminal.json("get jobs")["jobs"]
        assert row["reason"] is None
        return row["phase"], row["state"], row["scheduled"]

    def replicas(count: int) -> None:
        text = job("empty", 0, 8)
        terminal.submit(text.replace("replicas: 0", f"replicas: {count}\n    minAvailable: 0"))
        terminal.ok("advance 30s")

    with running(tmp_path):
        replicas(0)
        assert state() == ("Running", "scheduled", 0)
        # Nobody waits for pods that are not wanted.
        terminal.ok("advance 20m")
        assert state() == ("Running", "scheduled", 0)
        assert terminal.json("why empty")["state"] == "running"
        assert "its tasks have 0 replicas, and so it has no pods" in terminal.ok("why empty")
        assert terminal.json("doctor")["findings"] == []
        replicas(2)
        assert state() == ("Running", "scheduled", 2)
        replicas(0)
        assert state() == ("Running", "scheduled", 0)
