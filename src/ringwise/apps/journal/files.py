"""The journal of the component on Kubernetes: bounded files, written by a thread of its own.

    core thread ──record──> queue ──> writer thread ──> FILE, FILE.1, FILE.2, ...

The core thread only puts each turn into the queue. Whatever happens to the files (a full disk, a folder
that cannot be written, another process with the same file) costs turns of the journal and no decision: it
is logged once, counted, and tried again. After missing turns, and in every new file, a section begins with
the objects of all jobs, so that histories continue (see `format.py`).
"""

from __future__ import annotations

import fcntl
import io
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

from ringwise.apps.journal.format import (
    HEADER_START,
    VERSION,
    VERSION_START,
    JournalError,
    batch_line,
    header_line,
    rotated,
    rotated_files,
    snapshot_line,
)
from ringwise.files import is_still
from ringwise.framework.configuration import Configuration
from ringwise.log import Logger
from ringwise.messages.events import Event
from ringwise.metrics.prometheus import Metrics
from ringwise.records import dataclass
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.journal import Batch, Journal
from ringwise.scheduler.view import SchedulerView
from ringwise.versions import unsupported

_LOG = Logger()

#: Megabytes of one file, and how many files are kept.
FILE_MEGABYTES, FILES = 64, 8
#: Seconds between two attempts to write again.
RETRY_SECONDS = 10.0
#: Events and commands that may wait to be written; more are not recorded.
MAX_WAITING = 500_000
#: Seconds that the end of the process waits for the writer.
_CLOSE_SECONDS = 5.0
#: Objects in one line of a snapshot.
_SNAPSHOT_EVENTS = 500
#: Bytes that are read at once when the end of a torn file is searched.
_BLOCK = 1 << 16
#: The version in the header of a journal.
_HEADER_VERSION = re.compile(re.escape(HEADER_START) + rb'"version":(\d+)')


@dataclass(frozen=True, slots=True)
class _Start:
    """The beginning of a section. The events are the objects of all jobs before its first batch."""

    configuration: Configuration
    first: int
    now: int = 0
    events: tuple[Event, ...] = ()


class _Recording:
    """One scheduler that is recorded. Called with every batch, in the core thread."""

    def __init__(self, files: JournalFiles, view: SchedulerView) -> None:
        self._files = files
        self._view = view
        self.scheduler = uuid.uuid4().hex
        self.scheduler_names = view.scheduler_names
        self.awaits_groups = view.awaits_groups
        #: Set by the writer: the file is full, and the next one begins with a section.
        self.wants_section = False
        #: Turns are missing: set here or by the writer, and unset here, before a section is put.
        self.missing = False
        self._put(_Start(view.configuration, 0))

    def __call__(self, batch: Batch) -> None:
        files = self._files
        if self.missing:
            files.drop()
            if not files.may_try:
                return
            self.missing = False
        elif files.waiting and files.waiting + _weight(batch) > MAX_WAITING:
            files.drop()
            self.missing = True
            return
        else:
            self._put(batch)
            if not self.wants_section:
                return
            self.wants_section = False
        events = tuple(self._view.job_events())
        self._put(_Start(self._view.configuration, batch.number + 1, batch.now, events))

    def _put(self, item: _Start | Batch) -> None:
        self._files.put_weight += _weight(item)
        self._files.queue.put((self, item))


class _DeletedError(OSError):
    """The file is no longer where it was opened: what is written to it is lost."""


class JournalFiles:
    """Follows one scheduler after the other. `close` writes what still waits."""

    def __init__(
        self,
        path: Path,
        observer: Metrics,
        *,
        most_bytes: int = FILE_MEGABYTES << 20,
        files: int = FILES,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises JournalError when the file is something else than a journal."""
        self._observer = observer
        self._monotonic = monotonic
        self._output = _Output(path, most_bytes, files)
        self._output.check()
        self.queue: SimpleQueue[tuple[_Recording, _Start | Batch] | None] = SimpleQueue()
        #: Events and commands, ever: put by the core thread, taken by the writer.
        self.put_weight = self._taken_weight = 0
        self._retry_at = 0.0
        self._dropped = 0
        self._failing = ""
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def follow(self, scheduler: Scheduler) -> None:
        """Record this scheduler, which must not have received any event yet."""
        view = scheduler.view
        scheduler.journal = Journal(view.configuration, keep=1, sink=_Recording(self, view))

    @property
    def waiting(self) -> int:
        """Events, commands and beginnings of sections that are not written yet."""
        return self.put_weight - self._taken_weight

    @property
    def may_try(self) -> bool:
        """Whether a section may begin after an error."""
        return not self.waiting and self._monotonic() >= self._retry_at

    def drop(self) -> None:
        """A turn is not recorded."""
        self._dropped += 1
        self._observer.journal_dropped.inc()

    def close(self) -> None:
        self.queue.put(None)
        self._thread.join(_CLOSE_SECONDS)

    # -- in the writer thread ----------------------------------------------------------------------

    def _run(self) -> None:
        while (entry := self.queue.get()) is not None:
            recording, item = entry
            try:
                self._write(recording, item)
            except _DeletedError as problem:
                # File and folder are created again with the next turn.
                self._failed(recording, item, str(problem), deleted=True)
            except OSError as problem:
                self._failed(recording, item, problem.strerror or str(problem))
            except Exception as defect:
                # A turn that cannot be written must not end the journal, nor the scheduler.
                self._failed(recording, item, f"{type(defect).__name__}: {defect}")
            self._taken_weight += _weight(item)
        self._output.close()

    def _write(self, recording: _Recording, item: _Start | Batch) -> None:
        if isinstance(item, _Start):
            self._output.begin(_section_lines(recording, item), with_snapshot=bool(item.events))
            if self._failing or self._dropped:
                _LOG.info("the journal is written again", file=str(self._output.path), missing=self._dropped)
            self._failing, self._dropped = "", 0
        elif self._output.is_open:
            self._output.check_present()
            self._output.write(batch_line(item))
            recording.wants_section = self._output.is_full
        else:
            self.drop()

    def _failed(
        self, recording: _Recording, item: _Start | Batch, why: str, *, deleted: bool = False
    ) -> None:
        if isinstance(item, Batch):
            self.drop()
        self._output.give_up()
        self._retry_at = self._monotonic() + (0.0 if deleted else RETRY_SECONDS)
        recording.missing = True
        if why != self._failing:
            self._failing = why
            _LOG.error(
                "the journal cannot be written; scheduling continues and the write is retried",
                file=str(self._output.path),
                why=why,
            )


def _weight(item: _Start | Batch) -> int:
    return 1 + len(item.events) + (len(item.commands) if isinstance(item, Batch) else 0)


def _section_lines(recording: _Recording, start: _Start) -> Iterator[bytes]:
    yield header_line(
        start.configuration,
        recording.scheduler_names,
        recording.scheduler,
        start.first,
        awaits_groups=recording.awaits_groups,
    )
    for at in range(0, len(start.events), _SNAPSHOT_EVENTS):
        yield snapshot_line(start.first, start.now, start.events[at : at + _SNAPSHOT_EVENTS])


class _Output:
    """The files. Whole lines only: what a failed write left of a line is cut off again."""

    def __init__(self, path: Path, most_bytes: int, files: int) -> None:
        self.path = path
        self._most_bytes = most_bytes
        self._files = files
        self._file: io.FileIO | None = None
        self._lock: io.FileIO | None = None
        self._size = 0
        #: Bytes of the snapshot that the file begins with: they do not make it full.
        self._begun_with = 0

    @property
    def is_open(self) -> bool:
        return self._file is not None

    @property
    def is_full(self) -> bool:
        return self._size - self._begun_with > self._most_bytes

    def check(self) -> None:
        """Raises JournalError when the file exists and is something else."""
        try:
            with self.path.open("rb") as file:
                line = file.read(2 * len(VERSION_START))
        except FileNotFoundError:
            return
        except OSError as problem:
            if self.path.is_dir():
                raise JournalError(f"{self.path}: is a directory; a journal must be a file") from None
            _LOG.warning("the journal cannot be read", file=str(self.path), why=problem.strerror)
            return
        # A header may be cut off.
        if VERSION_START.startswith(line[: len(VERSION_START)]):
            return
        if match := _HEADER_VERSION.match(line):
            raise JournalError(f"{self.path}: {unsupported(int(match[1]), VERSION)}; use another file")
        raise JournalError(f"{self.path}: is not a journal file; refusing to overwrite it")

    def check_present(self) -> None:
        """Raise _DeletedError if the file or its folder was deleted or replaced."""
        if self._file is not None and not is_still(self.path, self._file.fileno()):
            raise _DeletedError("it was deleted while in use; a new file is written")

    def begin(self, lines: Iterator[bytes], *, with_snapshot: bool) -> None:
        """Begin a section: in a new file where the present one is full."""
        self.check_present()
        self._take_lock()
        if self._file is None:
            self._open()
        if self.is_full:
            self._rotate()
        before = self._size
        try:
            for line in lines:
                self.write(line)
        except BaseException:
            # A part of a snapshot would be read as all there is.
            self._size = before
            raise
        if with_snapshot and before == 0:
            self._begun_with = self._size

    def write(self, line: bytes) -> None:
        if self._file is None:
            raise OSError("the journal is closed")
        rest = memoryview(line)
        while rest:
            rest = rest[self._file.write(rest) or 0 :]
        self._size += len(line)

    def give_up(self) -> None:
        """After an error: keep the whole lines, and let others have the file."""
        if self._file is not None:
            # Otherwise the next start cuts the end off, and readers leave it out.
            with suppress(OSError):
                self._file.truncate(self._size)
        self.close()

    def close(self) -> None:
        for file in (self._file, self._lock):
            if file is not None:
                with suppress(OSError):
                    file.close()
        self._file = self._lock = None

    def _take_lock(self) -> None:
        """Replicas may share a folder: one of them writes."""
        if self._lock is not None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = io.FileIO(self.path.with_name(f"{self.path.name}.lock"), "a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise OSError("another process is writing to it") from None
        except OSError:
            lock.close()
            raise
        self._lock = lock

    def _open(self) -> None:
        """Go on with the file; the torn end that a crash left is cut off."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._file = io.FileIO(descriptor, "r+")
        size = self._file.seek(0, os.SEEK_END)
        self._size, self._begun_with = _end_of_lines(self._file, size), 0
        if self._size < size:
            self._file.truncate(self._size)
            _LOG.warning(
                "the last line of the journal is truncated and is skipped",
                file=str(self.path),
                bytes=size - self._size,
            )

    def _rotate(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        # The newest first. There are more than allowed where another number was set before.
        for one in reversed(rotated_files(self.path)[: -self._files + 1 or None]):
            one.unlink()
        for number in range(self._files - 2, 0, -1):
            if rotated(self.path, number).exists():
                rotated(self.path, number).replace(rotated(self.path, number + 1))
        if self._files > 1:
            self.path.replace(rotated(self.path, 1))
        self._open()


def _end_of_lines(file: io.FileIO, size: int) -> int:
    """Where the last whole line ends."""
    at = size
    while at > 0:
        begin = max(0, at - _BLOCK)
        file.seek(begin)
        newline = (file.read(at - begin) or b"").rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        at = begin
    return 0
