"""The file of mounts: the last whole line counts, and a disk that is full or read only stops nothing."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ringwise.device.ledger import Claim, Ledger, Mount
from ringwise.device.ledger_file import LONGEST, LedgerFile
from tests.builders.values import CHIP


def book(*pods: str) -> Ledger:
    mounts = [
        Mount(CHIP, (f"Ascend910-{at}",), (f"Ascend910-{at}",), pod, f"default/{pod}", "1", at=at + 1)
        for at, pod in enumerate(pods)
    ]
    return Ledger(mounts, {"waits": Claim(("Ascend910-7",), "5")}, version=len(pods))


def test_the_last_state_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "state" / "mounts.jsonl"
    file = LedgerFile(path)
    for ledger in (book("a"), book("a", "b"), book("a", "b", "c")):
        assert file.save(ledger)
    file.close()
    assert len(path.read_text().splitlines()) == 3
    found = LedgerFile(path).load()
    assert (found.mounts, found.claims) == (ledger.mounts, ledger.claims)


def test_nothing_new_is_not_written(tmp_path: Path) -> None:
    file = LedgerFile(tmp_path / "mounts.jsonl")
    ledger = book("a")
    assert file.save(ledger)
    assert file.save(ledger)
    file.close()
    assert len(file.path.read_text().splitlines()) == 1


def test_a_mount_that_is_taken_back_leaves_the_file(tmp_path: Path) -> None:
    file = LedgerFile(tmp_path / "mounts.jsonl")
    ledger = book("a", "b")
    file.save(ledger)
    ledger.remove(ledger.mounts[0])
    file.save(ledger)
    file.close()
    assert LedgerFile(file.path).load().mounts == book("a", "b").mounts[1:]


def test_a_line_that_is_cut_off_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "mounts.jsonl"
    file = LedgerFile(path)
    file.save(book("a"))
    file.save(book("a", "b"))
    file.close()
    path.write_bytes(path.read_bytes()[:-20])
    found = LedgerFile(path)
    assert found.load().mounts == book("a").mounts
    assert found.failures == 0
    path.write_bytes(b"\x00\xff nothing that is whole")
    assert found.load().mounts == []
    assert found.failures == 1


def test_a_long_file_is_written_anew(tmp_path: Path) -> None:
    file = LedgerFile(tmp_path / "mounts.jsonl")
    pods = [f"pod-{number}" * 20 for number in range(50)]
    for number in range(100):
        ledger = book(*pods)
        ledger.version = number
        assert file.save(ledger)
        assert file.path.stat().st_size < 2 * LONGEST
    file.close()
    assert LedgerFile(file.path).load().mounts == book(*pods).mounts


def test_a_file_that_somebody_removed_is_made_again(tmp_path: Path) -> None:
    file = LedgerFile(tmp_path / "mounts.jsonl")
    file.save(book("a"))
    file.path.unlink()
    assert file.save(book("a", "b"))
    file.close()
    assert LedgerFile(file.path).load().mounts == book("a", "b").mounts


def _full(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _half(descriptor: int, data: bytes, write: Callable[[int, bytes], int] = os.write) -> int:
    return write(descriptor, data[: len(data) // 2])


@pytest.mark.parametrize("broken", [_full, _half])
def test_a_full_disk_is_counted_and_survived(
    broken: Callable[[int, bytes], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = LedgerFile(tmp_path / "mounts.jsonl")
    assert file.save(book("a"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", broken)
        # After an error the file is written anew.
        patched.setattr(os, "open", _full)
        assert not file.save(book("a", "b"))
        assert not file.save(book("a", "b", "c"))
    assert file.failures == 2
    assert LedgerFile(file.path).load().mounts == book("a").mounts
    # When there is room again, the whole state is written.
    assert file.save(book("a", "b", "c"))
    file.close()
    assert LedgerFile(file.path).load().mounts == book("a", "b", "c").mounts
    assert [path.name for path in tmp_path.iterdir()] == ["mounts.jsonl"]
