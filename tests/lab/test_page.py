"""The tutorials show what the commands print in a terminal of 80 columns.

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
from ringwise.cli.lab.lab import lab_command
from ringwise.cli.printers.folding import fold
from ringwise.durations import SECOND
from ringwise.embed.kubelet import SimulationSettings
from tests.lab.rig import Terminal, running
from tests.tour.pages import COLUMNS, as_shown, shown_commands

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
START = 1_768_032_000 * SECOND
#: A block that starts a lab, and one that shows commands with their output.
LAB = re.compile(r"^(```\n(?:\.venv/bin/)?ringwise lab (?:.*)\n```\n)", re.MULTILINE)
BLOCK = re.compile(r"```\n(\$ (?:\.venv/bin/)?ringwise .*?)```\n", re.DOTALL)
#: Where the lab of a reader is.
FOLDER = "~/.local/state/ringwise/lab"


@contextmanager
def lab_folder() -> Iterator[Path]:
    """As long as that of a reader: lines that name it are folded at the same words."""
    with tempfile.TemporaryDirectory(prefix="ringwise-t", dir="/tmp") as made:
        folder = Path(made) / "lab"
        assert len(str(folder)) == len(FOLDER)
        yield folder


@pytest.mark.parametrize(
    ("name", "labs", "blocks"), [("quickstart", 1, 2), ("lab", 1, 7), ("lab-faults", 1, 7)]
)
def test_the_tutorial_shows_what_is_printed(
    name: str, labs: int, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = TUTORIALS / f"{name}.md"
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("LOGNAME", "ana")
    monkeypatch.setattr("ringwise.apps.lab.lab.time.time_ns", lambda: START)
    # What is before the first lab, then the block that starts each lab and what follows it.
    before, *parts = LAB.split(page.read_text(encoding="utf-8"))
    made, count = [before], 0
    for start, section in zip(parts[::2], parts[1::2], strict=True):
        options = start.split(" lab ", 1)[1].partition("\n")[0]
        with lab_folder() as folder, running(folder, settings_of(options)):
            terminal = Terminal(folder, columns=COLUMNS)
            made += [start, BLOCK.sub(partial(shown, terminal, folder), section)]
        count += len(BLOCK.findall(section))
    if os.environ.get("RINGWISE_WRITE_GOLDEN"):
        page.write_text("".join(made), encoding="utf-8")
    assert "".join(made) == page.read_text(encoding="utf-8"), "make tour writes the page anew"
    assert (len(parts) // 2, count >= blocks) == (labs, True)


def test_the_quickstart_is_short_and_has_five_commands() -> None:
    text = (TUTORIALS / "quickstart.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    commands = re.findall(r"^(?:\$ )?((?:git|make|\.venv/bin/ringwise) .*)$", "\n".join(blocks), re.MULTILINE)
    assert len(commands) == 5
    assert len(text.splitlines()) <= 75


def settings_of(options: str) -> LabSettings:
    """As `ringwise lab` would read them; time stands still."""
    given = lab_command.make_context("lab", shlex.split(options)).params
    assert given["virtual"]
    return LabSettings(
        fleet=FleetSettings(given["nodes"], given["board"], given["leaf_size"], given["superpod_size"]),
        simulation=SimulationSettings(given["start_delay"], given["termination_delay"], given["duration"]),
        speed=None,
    )


def shown(terminal: Terminal, folder: Path, block: re.Match[str]) -> str:
    """The commands of a block with what a terminal shows of them: stdout and stderr."""
    lines = []
    for one in shown_commands(block[1]):
        command = one.command.removeprefix(".venv/bin/").removeprefix("ringwise ")
        ran = terminal.run(command.replace(FOLDER, str(folder)))
        # A drain that leaves a job ends with 1.
        assert ran.exit_code in (0, 1), (command, ran.output, ran.exception)
        assert [line for line in ran.stdout.splitlines() if len(line) > COLUMNS] == []
        printed = ran.output.replace(str(folder), FOLDER).splitlines()
        # stderr is folded in a terminal, and this is none.
        folded = "\n".join(fold(line.rstrip(), COLUMNS, "  ") for line in printed)
        lines += [f"$ {one.command}", *as_shown(one.output, folded.splitlines())]
    return "\n".join(["```", *lines, "```", ""])
