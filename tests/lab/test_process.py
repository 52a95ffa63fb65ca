"""The real executable: a lab in its own process, killed and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from ringwise.cli.commands import cli
from tests.lab.rig import Terminal, job

RINGWISE = str(Path(sys.executable).parent / "ringwise")
pytestmark = pytest.mark.process


@contextmanager
def lab(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [RINGWISE, "lab", "--data-dir", str(folder), *options]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "chips in use" in line:  # the first turn is done: it answers
                break
        else:
            pytest.fail("the lab ended at once")
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.full
def test_a_killed_lab_loses_nothing(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with lab(tmp_path, "--nodes", "3", "--virtual") as process:
        terminal.submit(job("first", 2, 8, minutes=5), job("small", 1, 4), job("waits", 2, 8))
        terminal.ok("advance 10s")
        before = terminal.seats()
        assert len(before) == 3
        process.kill()
        process.wait()
    assert (tmp_path / "lab.sock").exists()
    assert "no lab runs on" in terminal.refused("get nodes")
    with lab(tmp_path, "--virtual") as process:
        assert terminal.seats() == before
        other = CliRunner().invoke(cli, ["lab", "--data-dir", str(tmp_path)])
        assert (other.exit_code, other.stdout) == (2, "")
        assert other.stderr.startswith(f"ringwise: a lab already runs on {tmp_path} (process {process.pid})")
        terminal.ok("advance 5m")
        assert set(terminal.seats()) == {"lab/small-worker-0", "lab/waits-worker-0", "lab/waits-worker-1"}
        assert "identical" in terminal.ok("replay")
        report = json.loads(terminal.ok("report --group-by job --since 2d -o json"))
        found = {row["job"]: row["starts"] for row in report["rows"]}
        assert found == {"first": 1, "small": 1, "waits": 1}
        assert {one["uncertain_chip_hours"] for one in report["totals"]} == {0}
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
        assert process.stdout is not None
        assert "to continue:\n  ringwise lab --data-dir " in process.stdout.read()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "accounting",
        "journal.1.jsonl",
        "journal.jsonl",
        "lab.db",
        "lock",
    ]
