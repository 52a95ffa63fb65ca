"""The demo prints the same every time, and leaves nothing behind.

After a wanted change: RINGWISE_WRITE_GOLDEN=1 pytest tests/lab/test_demo.py
"""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from ringwise.cli.commands import cli
from ringwise.cli.lab.demo import command_of_this_program
from tests.golden_files import same_as_golden


def test_the_demo_tells_its_story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    ran = CliRunner(env={"COLUMNS": "80"}).invoke(cli, ["demo"])
    assert ran.exit_code == 0, ran.output
    same_as_golden("80/demo", f"$ ringwise demo\n{ran.stdout}")
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
def test_the_hint_names_a_command_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: str, on_path: bool, shown: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [called.format(here=tmp_path)])
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/ringwise" if on_path else None)
    assert command_of_this_program() == shown
