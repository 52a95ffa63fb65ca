"""The demo prints the same every time, and leaves nothing behind.

After a wanted change: RINGWISE_WRITE_GOLDEN=1 pytest tests/lab/test_demo.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from ringwise.cli.commands import cli
from ringwise.cli.lab.demo import command_of_this_program

GOLDEN = Path(__file__).parent / "golden" / "demo.txt"


def test_the_demo_tells_its_story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    ran = CliRunner().invoke(cli, ["demo"])
    assert ran.exit_code == 0, ran.output
    printed = "\n".join(line.rstrip() for line in ran.stdout.splitlines()) + "\n"
    if os.environ.get("RINGWISE_WRITE_GOLDEN"):
        GOLDEN.write_text(printed, encoding="utf-8")
    assert printed == GOLDEN.read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("called", "on_path", "shown"),
    [
        ("{here}/.venv/bin/ringwise", False, ".venv/bin/ringwise"),
        (".venv/bin/ringwise", False, ".venv/bin/ringwise"),
        ("/opt/ringwise/bin/ringwise", False, "/opt/ringwise/bin/ringwise"),
        ("{here}/.venv/bin/ringwise", True, "ringwise"),
        ("/usr/lib/pytest", False, "ringwise"),
    ],
)
def test_21_the_hint_names_a_command_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: str, on_path: bool, shown: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [called.format(here=tmp_path)])
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/ringwise" if on_path else None)
    assert command_of_this_program() == shown
