"""docs/lab.md shows what the commands print.

After a wanted change: RINGWISE_WRITE_GOLDEN=1 pytest tests/lab/test_page.py
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ringwise.apps.lab.lab import FleetSettings
from ringwise.embed.clock import SECOND
from ringwise.embed.kubelet import SimulationSettings
from tests.lab.rig import SMALL, Terminal, running

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "lab.md"
START = 1_768_032_000 * SECOND
BLOCK = re.compile(r"```\n(\$ ringwise .*?)```\n", re.DOTALL)


def test_the_tour_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("ringwise.apps.lab.lab.time.time_ns", lambda: START)
    settings = replace(
        SMALL,
        fleet=FleetSettings(6, "910-x8", leaf_size=3),
        simulation=SimulationSettings(default_duration=1800 * SECOND),
    )
    terminal = Terminal(tmp_path)

    def again(block: re.Match[str]) -> str:
        lines = []
        for command in re.findall(r"^\$ ringwise (.*)$", block[1], re.MULTILINE):
            printed = terminal.ok(command)
            lines += [f"$ ringwise {command}", *(line.rstrip() for line in printed.splitlines())]
        return "\n".join(["```", *lines, "```", ""])

    text = PAGE.read_text(encoding="utf-8")
    assert "ringwise lab --nodes 6 --leaf-size 3 --duration 30m --virtual" in text
    with running(tmp_path, settings):
        made = BLOCK.sub(again, text)
    if os.environ.get("RINGWISE_WRITE_GOLDEN"):
        PAGE.write_text(made, encoding="utf-8")
    assert made == PAGE.read_text(encoding="utf-8")
    assert len(BLOCK.findall(made)) >= 8
