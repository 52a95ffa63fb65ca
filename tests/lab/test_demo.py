"""The demo prints the same every time, and leaves nothing behind.

After a wanted change: RINGWISE_WRITE_GOLDEN=1 pytest tests/lab/test_demo.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from ringwise.cli.commands import cli

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
