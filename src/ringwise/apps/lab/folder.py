"""The folder of a lab: database, journal, socket, and the lock that allows one lab at a time."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ringwise.apps.accounting import AccountFolder

#: Longest address of a unix socket that every system takes.
_MAX_ADDRESS = 100
_FILES = ("lab.db", "lab.db-wal", "lab.db-shm", "journal.jsonl", "journal.1.jsonl")


class FolderError(Exception):
    """The folder cannot be used: one line."""


def default_folder() -> Path:
    """$RINGWISE_LAB, else below the user's state folder."""
    named = os.environ.get("RINGWISE_LAB")
    if named:
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "ringwise" / "lab"


class LabFolder:
    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self.database = self.path / "lab.db"
        self.journal = self.path / "journal.jsonl"
        self.older_journal = self.path / "journal.1.jsonl"
        self.socket = self.path / "lab.sock"
        self.accounts = self.path / "accounting"
        self._lock: int | None = None

    def take(self) -> None:
        """Create the folder and lock it. The lock ends with the process, however it ends."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise FolderError(f"{self.path}: {(problem.strerror or str(problem)).lower()}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            other = os.pread(self._lock, 20, 0).decode("ascii", "replace").strip()
            self.leave()
            whose = f" (process {other})" if other.isdigit() else ""
            raise FolderError(
                f"a lab already runs on {self.path}{whose}; stop it with Ctrl-C, or use another --data-dir"
            ) from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)

    def leave(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def clear(self) -> None:
        """Delete the lab of this folder."""
        for name in _FILES:
            (self.path / name).unlink(missing_ok=True)
        AccountFolder(self.accounts).clear()

    def listen(self) -> socket.socket:
        """A socket that only this user can reach. An existing one is stale: we have the lock."""
        self.socket.unlink(missing_ok=True)
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            with self._address() as address:
                server.bind(address)
        except OSError as problem:
            server.close()
            raise FolderError(f"{self.socket}: {(problem.strerror or str(problem)).lower()}") from None
        finally:
            os.umask(before)
        server.listen(64)
        server.setblocking(False)
        return server

    def connect(self, timeout: float | None) -> socket.socket:
        """Raises OSError when no lab answers."""
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.settimeout(timeout)
        try:
            with self._address() as address:
                client.connect(address)
        except OSError:
            client.close()
            raise
        return client

    @contextmanager
    def _address(self) -> Iterator[str]:
        """The socket's address; a path too long for one is reached through its open folder."""
        if len(os.fsencode(self.socket)) <= _MAX_ADDRESS or not Path("/proc/self/fd").is_dir():
            yield str(self.socket)
            return
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield f"/proc/self/fd/{folder}/{self.socket.name}"
        finally:
            os.close(folder)
