"""The sources of an earlier commit, for tests of upgrades and of the way back."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

#: The first commit with the present formats; from version 0.1.0 on, the release.
FORMER = "8de5e3ec5daccdae7a2c12226726f7f39ea0f25f"
_ROOT = Path(__file__).parents[1]


def former_checkout(folder: Path, commit: str = FORMER) -> Path:
    """Unpack sources and chart of a commit; skip the test if the history of this clone does not reach it."""
    command = ["git", "archive", "--format=tar", commit, "src", "deploy"]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"commit {commit[:8]} is not in the history of this clone (git fetch --unshallow)")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def environment_of(sources: Path) -> Mapping[str, str]:
    """A Python process with it imports those sources."""
    return {**os.environ, "PYTHONPATH": str(sources)}
