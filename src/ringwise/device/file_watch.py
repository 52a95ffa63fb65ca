"""Tells at once when a file is made in a folder: Linux's inotify, by three calls of the C library.

Where it cannot be had (another system, no watches left) the caller's own pauses remain.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import struct
from pathlib import Path
from types import TracebackType
from typing import Self

from ringwise.log import Logger

_LOG = Logger()

#: Of <sys/inotify.h>: a file was made in the folder, or moved into it.
_CREATED, _MOVED_HERE = 0x100, 0x80
#: The watch is gone with its folder.
_IGNORED = 0x8000
#: Watch, what happened, cookie, length of the name that follows.
_EVENT = struct.Struct("iIII")
_MAX_BYTES = 1 << 16


class FileWatch:
    """Follows one name in one folder, while it is entered."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = os.fsencode(name)
        self._library = ctypes.CDLL(None, use_errno=True)
        self._descriptor = -1
        self._made = asyncio.Event()

    def __enter__(self) -> Self:
        start = getattr(self._library, "inotify_init1", None)
        self._descriptor = -1 if start is None else start(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            _LOG.info("files are not watched, only looked at", folder=str(self._folder))
        else:
            asyncio.get_running_loop().add_reader(self._descriptor, self._read)
            self._watch()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    async def made(self, seconds: float) -> bool:
        """Wait until the file is made, at most so long; whether it was, since the last time."""
        self._watch()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._made.wait()
        was, self._made = self._made.is_set(), asyncio.Event()
        return was

    def _watch(self) -> None:
        """Watch the folder, which may be created later or again. Watching it twice changes nothing."""
        if self._descriptor >= 0:
            path = os.fsencode(self._folder)
            self._library.inotify_add_watch(self._descriptor, path, _CREATED | _MOVED_HERE)

    def _read(self) -> None:
        try:
            events = os.read(self._descriptor, _MAX_BYTES)
        except BlockingIOError:
            return
        at = 0
        while at < len(events):
            _, what, _, length = _EVENT.unpack_from(events, at)
            name = events[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
            at += _EVENT.size + length
            if not what & _IGNORED and (name == self._name or not length):
                # Without a name: events were lost, so it may have been ours.
                self._made.set()
