"""The lab's journal on disk: two files of bounded size, each of which can be replayed on its own."""

from __future__ import annotations

from typing import BinaryIO

from ringwise.apps.journal.format import JournalWriter
from ringwise.apps.lab.folder import LabFolder
from ringwise.files import is_still
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.journal import Journal
from ringwise.scheduler.view import SchedulerView

#: A larger file is rotated; the previously rotated one is deleted.
MAX_BYTES = 64 << 20
#: While jobs wait, a file may grow so many times larger, so that their waiting times are kept.
_TIMEOUT = 4


class LabJournal:
    """Follows one scheduler at a time, from its first batch on: only so can its decisions be repeated.

    A new file therefore needs a new scheduler. That is as harmless as a restart of the lab, which
    forgets for how long jobs have waited; so it happens when none waits, or when it must.
    """

    def __init__(self, folder: LabFolder, most_bytes: int = MAX_BYTES) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._file: BinaryIO | None = None

    def wants_a_new_file(self, view: SchedulerView) -> bool:
        if self._file is None:
            return False
        size = self._file.tell()
        if size <= self._most_bytes:
            return False
        return not view.loses_by_restart() or size > self._most_bytes * _TIMEOUT

    @property
    def is_deleted(self) -> bool:
        """Whether somebody deleted the file, or the folder, in which it is written."""
        return self._file is not None and not is_still(self._folder.journal, self._file.fileno())

    def follow(self, scheduler: Scheduler) -> None:
        """Start a file with this scheduler, which must not have received any event yet."""
        if self._most_bytes <= 0:
            return
        self.close()
        folder = self._folder
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.journal.exists():
            folder.journal.replace(folder.older_journal)
        self._file = folder.journal.open("wb")
        folder.journal.chmod(0o600)
        view = scheduler.view
        writer = JournalWriter(self._file, view.configuration, view.scheduler_names)
        scheduler.journal = Journal(view.configuration, keep=1, sink=writer)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
