"""The log of a component: one JSON object per line.

    {"event": "deciding", "level": "info", "timestamp": "2026-01-10T08:00:00.000000Z"}

A module has its logger as a constant; the component configures once where the lines go. Without that,
warnings and errors go to stderr.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any, Protocol

DEBUG, INFO, WARNING, ERROR, CRITICAL = "debug", "info", "warning", "error", "critical"
#: From the least to the most severe.
LEVELS = (DEBUG, INFO, WARNING, ERROR, CRITICAL)


class LogStream(Protocol):
    def write(self, text: str, /) -> object: ...
    def flush(self) -> object: ...


class Logger:
    """Writes events with their fields. All loggers of a process share stream and level."""

    _stream: LogStream | None = None
    _written = frozenset(LEVELS[LEVELS.index(WARNING) :])

    def debug(self, event: str, **fields: Any) -> None:
        self._write(DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._write(INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._write(WARNING, event, fields)

    def error(self, event: str, *, error: BaseException | None = None, **fields: Any) -> None:
        """`error` is written with its traceback."""
        self._write(ERROR, event, fields, error)

    def exception(self, event: str, **fields: Any) -> None:
        """The error that is being handled, with its traceback."""
        self._write(ERROR, event, fields, sys.exc_info()[1])

    def _write(
        self, level: str, event: str, fields: dict[str, Any], error: BaseException | None = None
    ) -> None:
        if level not in Logger._written:
            return
        line = {**fields, "event": event, "level": level, "timestamp": _now()}
        if error is not None:
            import traceback

            line["exception"] = "".join(traceback.format_exception(error)).rstrip()
        stream = Logger._stream or sys.stderr
        # One call for the whole line: threads share the stream.
        stream.write(json.dumps(line, ensure_ascii=False, default=repr) + "\n")
        stream.flush()


def configure(stream: LogStream | None = None, level: str = INFO) -> None:
    """Where the lines of this process go (stderr without a stream), and from which level on."""
    Logger._stream = stream
    Logger._written = frozenset(LEVELS[LEVELS.index(level) :])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
