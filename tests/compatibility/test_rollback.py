"""What this version writes is read by an earlier one: the way back of docs/guides/upgrade.md."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.former import environment_of, former_checkout
from tests.lab.rig import Terminal, job, nodes, running

ROOT = Path(__file__).parents[2]
_OPEN = """
import json, sys
from pathlib import Path
import ringwise
from tests.lab.rig import Terminal, nodes, running

assert ringwise.__file__.startswith(sys.argv[2]), ringwise.__file__
folder = Path(sys.argv[1])
terminal = Terminal(folder)
with running(folder, nodes(6)):
    terminal.ok("advance 1m")
    print(json.dumps(terminal.seats()))
print(terminal.ok(f"replay {folder / 'journal.1.jsonl'}"))
"""


@pytest.mark.full
@pytest.mark.process
def test_a_lab_goes_back_and_returns(tmp_path: Path) -> None:
    sources = former_checkout(tmp_path / "former") / "src"
    folder = tmp_path / "lab"
    terminal = Terminal(folder)
    with running(folder, nodes(6)):
        terminal.submit(job("train", 2, 8), job("rest", 1, 8), job("small", 1, 2))
        terminal.ok("advance 1m")
        terminal.ok("suspend rest")
        terminal.ok(f"isolate node-5 --reason disk --lab {folder}")
        terminal.ok("advance 1m")
        terminal.submit(job("waits", 5, 8))
        terminal.ok("advance 1m")
        seats = terminal.seats()
    assert len(seats) == 3
    done = subprocess.run(
        [sys.executable, "-c", _OPEN, str(folder), str(sources)],
        env={**environment_of(sources), "PYTHONPATH": f"{sources}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    known, replayed = done.stdout.split("\n", 1)
    assert {pod: (node, tuple(chips)) for pod, (node, chips) in json.loads(known).items()} == seats
    assert "identical" in replayed
    with running(folder, nodes(6)):
        terminal.ok("advance 1m")
        assert terminal.seats() == seats
        terminal.ok("resume rest")
        terminal.ok("advance 1m")
        assert "lab/rest-worker-0" in terminal.seats()
