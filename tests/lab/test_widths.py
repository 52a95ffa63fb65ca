"""What the commands of a lab print in terminals of 80 and 120 columns.

After a wanted change: RINGWISE_WRITE_GOLDEN=1 pytest tests/lab/test_widths.py
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from ringwise.apps.lab.client import LabClient
from ringwise.apps.lab.lab import FleetSettings, LabSettings
from ringwise.cli.printers.cluster import draw_top
from ringwise.durations import SECOND
from tests.golden_files import WIDTHS, same_as_golden
from tests.lab.rig import Terminal, job, queue, running

START = 1_768_032_000 * SECOND
LONG = "pretraining-of-a-language-model-with-70b-parameters"
COMMANDS = {
    "get-nodes": "get nodes",
    "get-jobs": "get jobs",
    "get-queues": "get queues",
    "get-pods": "get pods",
    "describe-node": "describe node node-0",
    "describe-job": "describe job waits",
    "describe-long-job": f"describe job {LONG}",
    "describe-queue": "describe queue default",
    "describe-pod": "describe pod small-worker-0",
    "why-waits": "why waits",
    "capacity-lab": "capacity",
    "topology-lab": "topology show",
    "top": "top --once",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("widths")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ringwise.apps.lab.lab.time.time_ns", lambda: START)
        settings = LabSettings(fleet=FleetSettings(8, "910b-x16", leaf_size=4, superpod_size=4), speed=None)
        with running(folder, settings):
            terminal = Terminal(folder)
            jobs = [job(LONG, 3, 16, minutes=30), job("small", 1, 2, minutes=9), job("waits", 6, 16)]
            jobs += [job("three", 1, 3, queue="spare"), job("absent", 1, 1, queue="nowhere")]
            labeled = [text.replace("spec:\n        containers", SELECTING) for text in jobs]
            terminal.submit(queue("spare", chips=2), *labeled)
            terminal.ok("fault inject chip node-4 3 7")
            terminal.ok("cordon node-7")
            terminal.ok("advance 5s")
            yield folder


SELECTING = "spec:\n        nodeSelector: {accelerator-type: module-910b-16}\n        containers"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_lab_can_be_read(folder: Path, name: str, width: int) -> None:
    command = COMMANDS[name]
    printed = Terminal(folder, columns=width).ok(command)
    same_as_golden(f"{width}/{name}", f"$ ringwise {command}\n{printed}")


@pytest.mark.parametrize("height", [12, 24, 50])
def test_a_frame_of_top_fits_the_terminal(folder: Path, height: int) -> None:
    drawn = io.StringIO()
    draw_top(Console(file=drawn, width=80), LabClient(folder).ask("top"), height)
    frame = drawn.getvalue()
    assert len(frame.splitlines()) <= max(height, 24)
    assert "node-0 [" in frame
    assert "lab/waits is pending for " in frame
    assert max(map(len, frame.splitlines())) <= 80
