"""The file that keeps the mounts: one line for each state, the last one counts.

A line is appended with one short write, because kubelet waits for it. A long file is compacted into a new
file that replaces the old one.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from ringwise.device.ledger import Claim, Ledger, Mount
from ringwise.files import is_still, replacing
from ringwise.log import Logger
from ringwise.versions import unsupported

_LOG = Logger()

#: Of a line.
VERSION = 1
#: Bytes after which the file is compacted.
LONGEST = 256 << 10


class _Version(msgspec.Struct):
    version: int


class _LedgerLine(_Version):
    mounts: list[Mount]
    claims: dict[str, Claim]


class LedgerFile:
    """A file that cannot be read or written is reported and worked without: what is in containers is doubtful
    after the next start, then.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failures = 0
        self._written = -1
        self._descriptor: int | None = None
        self._length = 0

    def load(self) -> Ledger:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return Ledger()
        except OSError as problem:
            return self._unread(str(problem))
        # The last line may be cut off: the disk was full.
        for line in reversed(content.splitlines()):
            with contextlib.suppress(msgspec.MsgspecError, ValueError, RecursionError):
                # Before the rest, which another version may have changed.
                version = msgspec.json.decode(line, type=_Version).version
                if version != VERSION:
                    return self._unread(unsupported(version, VERSION))
                stored = msgspec.json.decode(line, type=_LedgerLine)
                return Ledger(stored.mounts, stored.claims)
        return self._unread("no line of it is whole") if content.strip() else Ledger()

    def _unread(self, why: str) -> Ledger:
        self.failures += 1
        _LOG.error("mounts not read; chips of running pods are unconfirmed", file=str(self.path), why=why)
        return Ledger()

    def save(self, ledger: Ledger) -> bool:
        """Write where something changed; whether the file has all of it."""
        if ledger.version == self._written:
            return True
        line = msgspec.json.encode(_LedgerLine(VERSION, ledger.mounts, ledger.claims)) + b"\n"
        try:
            self._write(line)
        except OSError as problem:
            self.close()
            self.failures += 1
            _LOG.error("mounts not written", file=str(self.path), why=str(problem))
            return False
        self._written = ledger.version
        return True

    def _write(self, line: bytes) -> None:
        """Not forced to the disk: it must outlive the process. What a crash of the node loses is doubtful."""
        if self._descriptor is None or self._length > LONGEST or not is_still(self.path, self._descriptor):
            self._write_anew(line)
        elif os.write(self._descriptor, line) != len(line):
            raise OSError("the line was not written completely: the disk is full")
        else:
            self._length += len(line)

    def _write_anew(self, line: bytes) -> None:
        self.close()
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        with replacing(self.path) as file:
            file.write(line)
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
        self._length = len(line)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
