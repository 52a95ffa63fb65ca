"""The file that keeps the mounts: written whole, to a new file that takes the old one's place."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from ringwise.device.ledger import Claim, Ledger, Mount
from ringwise.log import Logger

_LOG = Logger()

#: Format of the file.
FORMAT = 1


class _Kept(msgspec.Struct):
    format: int
    mounts: list[Mount]
    claims: dict[str, Claim]


class LedgerFile:
    """A file that cannot be read or written is reported and worked without: kubelet and the pods' annotations
    know the same, except for exchanges that were not written to the pods yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failures = 0
        self._written = -1

    def load(self) -> Ledger:
        try:
            kept = msgspec.json.decode(self.path.read_bytes(), type=_Kept)
        except FileNotFoundError:
            return Ledger()
        except (OSError, msgspec.MsgspecError, ValueError, RecursionError) as problem:
            self.failures += 1
            _LOG.error("mounts not read; kubelet and the annotations are asked", why=str(problem))
            return Ledger()
        if kept.format != FORMAT:
            _LOG.error("mounts not read: unknown format", format=kept.format, known=FORMAT)
            return Ledger()
        return Ledger(kept.mounts, kept.claims)

    def encoded(self, ledger: Ledger) -> tuple[int, bytes] | None:
        """What to write; None when the file has it."""
        if ledger.version == self._written:
            return None
        return ledger.version, msgspec.json.encode(_Kept(FORMAT, ledger.mounts, ledger.claims))

    def write(self, version: int, content: bytes) -> bool:
        """Blocking; whether the file has the content."""
        unfinished = self.path.with_name(f".{self.path.name}.new")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            try:
                # Not forced to the disk: it must outlive the process. After a crash of the machine kubelet's
                # records and the pods' annotations have the same.
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                unfinished.replace(self.path)
            except OSError:
                # On a full disk the rest of it would only take more room.
                with contextlib.suppress(OSError):
                    unfinished.unlink()
                raise
        except OSError as problem:
            self.failures += 1
            _LOG.error("mounts not written", file=str(self.path), why=str(problem))
            return False
        self._written = version
        return True

    def save(self, ledger: Ledger) -> bool:
        """Write where something changed; whether the file has all of it."""
        pending = self.encoded(ledger)
        return pending is None or self.write(*pending)
