"""Where a component's log goes: JSON lines to stderr, or to a file that rotates."""

from __future__ import annotations

import logging
import sys
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path

from ringwise.log import CRITICAL, DEBUG, ERROR, INFO, WARNING, LogStream, configure

#: Bytes of one log file.
ROTATE_AT = 20 << 20
_DAY = 86_400
#: -1 to 3, as Huawei's components number them.
_LEVELS = {-1: DEBUG, 0: INFO, 1: WARNING, 2: ERROR, 3: CRITICAL}


class _RotatingStream:
    """A file for the logger's lines; old files go by number and by age."""

    def __init__(self, path: Path, days: int, backups: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        self._path = path
        self._days = days
        self._handler = RotatingFileHandler(path, maxBytes=ROTATE_AT, backupCount=backups, encoding="utf-8")

    def write(self, text: str) -> None:
        line = text.rstrip("\n")
        if line:
            record = logging.makeLogRecord({"msg": "%s", "args": (line,)})
            if self._handler.shouldRollover(record):
                self._forget_old()
            self._handler.emit(record)

    def flush(self) -> None:
        self._handler.flush()

    def _forget_old(self) -> None:
        oldest = time.time() - self._days * _DAY
        for path in self._path.parent.glob(f"{self._path.name}.*"):
            if path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)


def log_to(file: str, level: int, days: int, backups: int) -> None:
    """Configure the log of this process. Raises OSError where the file cannot be written."""
    # A full disk must not fill stderr with tracebacks of the logger.
    logging.raiseExceptions = False
    stream: LogStream = sys.stderr
    if file:
        stream = _RotatingStream(Path(file), days, backups)
    configure(stream, _LEVELS[level])
