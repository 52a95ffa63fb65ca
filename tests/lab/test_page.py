"""docs/tutorials/lab.md shows what the commands print in a terminal of 80 columns.

After a wanted change: RINGWISE_WRITE_GOLDEN=1 pytest tests/lab/test_page.py
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from ringwise.apps.lab.lab import FleetSettings, LabSettings
from ringwise.cli.drawing.folding import fold
from ringwise.cli.lab.lab import lab_command
from ringwise.durations import SECOND
from ringwise.embed.kubelet import SimulationSettings
from tests.lab.rig import Terminal, running
from tests.tour.pages import COLUMNS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorials" / "lab.md"
START = 1_768_032_000 * SECOND
#: A block that starts a lab, and one that shows commands with their output.
LAB = re.compile(r"^```\nringwise lab (.*)\n```\n", re.MULTILINE)
BLOCK = re.compile(r"```\n(\$ ringwise .*?)```\n", re.DOTALL)
#: Where the lab of a reader is.
FOLDER = "~/.local/state/ringwise/lab"


@contextmanager
def lab_folder() -> Iterator[Path]:
    """As long as that of a reader: lines that name it are folded at the same words."""
    with tempfile.TemporaryDirectory(prefix="ringwise-t", dir="/tmp") as made:
        folder = Path(made) / "lab"
        assert len(str(folder)) == len(FOLDER)
        yield folder


def test_the_tour_shows_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("LOGNAME", "ana")
    monkeypatch.setattr("ringwise.apps.lab.lab.time.time_ns", lambda: START)
    text = PAGE.read_text(encoding="utf-8")
    # What is before the first lab, then the options of each lab and what follows it.
    before, *labs = LAB.split(text)
    made, count = [before], 0
    for options, section in zip(labs[::2], labs[1::2], strict=True):
        with lab_folder() as folder, running(folder, settings_of(options)):
            terminal = Terminal(folder, columns=COLUMNS)
            made += [
                f"```\nringwise lab {options}\n```\n",
                BLOCK.sub(partial(shown, terminal, folder), section),
            ]
        count += len(BLOCK.findall(section))
    if os.environ.get("RINGWISE_WRITE_GOLDEN"):
        PAGE.write_text("".join(made), encoding="utf-8")
    assert "".join(made) == PAGE.read_text(encoding="utf-8"), "make tour writes the page anew"
    assert (len(labs), count >= 16) == (4, True)


def settings_of(options: str) -> LabSettings:
    """As `ringwise lab` would read them; time stands still."""
    given = lab_command.make_context("lab", shlex.split(options)).params
    assert given["virtual"]
    return LabSettings(
        fleet=FleetSettings(given["nodes"], given["board"], given["leaf_size"], given["superpod_size"]),
        simulation=SimulationSettings(given["start_delay"], given["grace"], given["duration"]),
        speed=None,
    )


def shown(terminal: Terminal, folder: Path, block: re.Match[str]) -> str:
    """The commands of a block with what a terminal shows of them: stdout and stderr."""
    lines = []
    for command in re.findall(r"^\$ ringwise (.*)$", block[1], re.MULTILINE):
        ran = terminal.run(command.replace(FOLDER, str(folder)))
        # A drain that leaves a job ends with 1.
        assert ran.exit_code in (0, 1), (command, ran.output, ran.exception)
        assert [line for line in ran.stdout.splitlines() if len(line) > COLUMNS] == []
        printed = ran.output.replace(str(folder), FOLDER).splitlines()
        # stderr is folded in a terminal, and this is none.
        folded = "\n".join(fold(line.rstrip(), COLUMNS, "  ") for line in printed)
        lines += [f"$ ringwise {command}", *folded.splitlines()]
    return "\n".join(["```", *lines, "```", ""])
