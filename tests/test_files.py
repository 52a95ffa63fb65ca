"""Files that are written as a whole, and files that somebody replaces."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ringwise.files import is_still, replacing


def test_a_file_that_cannot_be_completed_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old")

    def write() -> None:
        with replacing(path) as file:
            file.write(b"ne")
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        write()
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["state"]


def test_a_file_that_was_deleted_or_replaced_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with path.open("wb") as file:
        assert is_still(path, file.fileno())
        with replacing(path) as other:
            other.write(b"new")
        assert not is_still(path, file.fileno())
        os.unlink(path)
        assert not is_still(path, file.fileno())
