"""`ringwise top` in a terminal: keys, lists, filters and details."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from ringwise.apps.lab.client import LabClient, RefusedByLabError
from ringwise.apps.sources.lab import LabSource
from ringwise.cli.printers.top import TopScreen, keys_of
from tests.lab.rig import Terminal, job, nodes, running

WIDTH, HEIGHT = 100, 24


class Screens:
    """A screen whose questions are answered by a lab at once."""

    def __init__(self, lab: Path) -> None:
        self.screen, self._source = TopScreen(), LabSource(LabClient(lab))

    def press(self, *keys: str) -> list[str]:
        for key in keys:
            self.screen.press(key)
            self.lines()
        return self.lines()

    def lines(self) -> list[str]:
        key, question = self.screen.question
        try:
            answer = question(self._source)
        except RefusedByLabError as error:
            answer = error
        self.screen.take(key, answer)
        lines = self.screen.lines(WIDTH, HEIGHT, colors=False)
        assert len(lines) == HEIGHT
        assert all(line.cell_len <= WIDTH for line in lines)
        return [line.plain.rstrip() for line in lines]

    @property
    def selected(self) -> str:
        lines = self.screen.lines(WIDTH, HEIGHT, colors=False)[:-1]
        return "\n".join(
            line.plain.rstrip() for line in lines if "reverse" in {str(s.style) for s in line.spans}
        )


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        ("\x1b[A\x1bOB", ["up", "down"]),
        ("/ab\r", ["/", "a", "b", "enter"]),
        ("\x1b", ["escape"]),
        ("\x1b[6~\x1b[Z", ["page down", "left"]),
        # Keys that have no meaning here are one key each.
        ("\x1b[15~q", ["\x1b[15~", "q"]),
    ],
)
def test_keys_are_read_as_terminals_send_them(typed: str, keys: list[str]) -> None:
    assert keys_of(typed) == keys


def test_lists_filters_and_details(tmp_path: Path) -> None:
    with running(tmp_path, nodes(40)):
        terminal = Terminal(tmp_path)
        terminal.submit(job("train", 2, 8))
        terminal.submit(job("huge", 60, 8))
        terminal.ok("advance 1m")
        top = Screens(tmp_path)
        assert "40 nodes" in top.lines()[0]
        assert top.press("down")[1] == "jobs  2 of 2"
        assert top.selected.startswith("lab/train ")
        top.press("down", "down")
        assert top.selected.startswith("lab/huge ")
        assert "480 chips of huawei.com/Ascend910 requested; the cluster has 320" in "\n".join(top.press("w"))
        assert top.press("escape")[1] == "jobs  2 of 2"
        assert "job lab/huge (vcjob)" in top.press("enter")
        top.press("escape")
        assert top.press("/", "t", "r", "a", "i")[1] == "jobs  1 of 2   /trai"
        assert top.press("enter", "enter")[0] == "job lab/train (vcjob)"
        assert top.press("escape", "right")[1] == "nodes  40 of 40"
        # A list is scrolled with its selected row.
        top.press(*["down"] * 30)
        assert top.selected.startswith("node-30 ")
        top.press("page down", "page down")
        assert top.selected.startswith("node-39 ")
        top.press(*["up"] * 39)
        assert top.selected.startswith("node-0 ")
        assert top.press("w")[1] == "nodes  40 of 40"
        assert top.press("/", "x", "enter")[-2:] == ["", top.lines()[-1]]
        assert "no nodes match" in top.lines()
        top.press("escape", "q")
        assert top.screen.done


def test_a_row_that_disappears_is_not_described(tmp_path: Path) -> None:
    with running(tmp_path, nodes(2)):
        terminal = Terminal(tmp_path)
        terminal.submit(job("one", 1, 8))
        terminal.submit(job("two", 1, 8))
        top = Screens(tmp_path)
        top.press("down", "down")
        assert top.selected.startswith("lab/two ")
        terminal.ok("delete job two")
        terminal.ok("advance 5m")
        top.lines()
        assert top.selected.startswith("lab/one ")
        terminal.ok("delete job one")
        terminal.ok("advance 5m")
        assert 'job "lab/one" not found' in top.press("enter")
        assert "there are no jobs" in top.press("escape", "enter", "w")


@pytest.mark.process
def test_a_terminal_is_left_as_it_was(tmp_path: Path) -> None:
    with running(tmp_path, nodes(2)):
        Terminal(tmp_path).submit(job("train", 1, 8))
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
        before = termios.tcgetattr(theirs)
        program = Path(sys.executable).with_name("ringwise")
        process = subprocess.Popen(
            [program, "top", "--lab", tmp_path, "--interval", "0.1"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm"},
        )
        try:
            until(ours, "2 nodes")
            os.write(ours, b"\x1b[B")
            until(ours, "lab/train")
            os.write(ours, b"\r")
            until(ours, "job lab/train (vcjob)")
            os.write(ours, b"q")
            until(ours, "\x1b[?1049l")
            assert process.wait(60) == 0
            assert termios.tcgetattr(theirs) == before
        finally:
            process.kill()
            process.wait()
            os.close(ours)
            os.close(theirs)


def until(terminal: int, text: str) -> None:
    """Read what the program prints until this text."""
    found, end = "", time.monotonic() + 60
    while text not in found:
        assert select.select([terminal], [], [], max(0, end - time.monotonic()))[0], found
        with contextlib.suppress(OSError):
            found += os.read(terminal, 65536).decode(errors="replace")
