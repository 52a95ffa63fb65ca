"""Labs for tests of commands: one that is only asked, and one of its own for each test that changes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.rig import SMALL, Terminal, job, running


@pytest.fixture(scope="package")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A lab that is only asked, never changed, by the tests."""
    folder = tmp_path_factory.mktemp("asked")
    with running(folder, SMALL):
        terminal = Terminal(folder)
        terminal.submit(job("busy", 3, 8, minutes=30), job("small", 1, 2), job("waits", 2, 8))
        terminal.ok("advance 5s")
        yield terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with running(tmp_path):
        yield Terminal(tmp_path)
