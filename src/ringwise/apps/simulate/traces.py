"""Readers of traces: tables with a heading, and the Standard Workload Format.

A format says in which columns a table has what is needed; every column can be named otherwise. What cannot be
read is an error with file and line; jobs that cannot be simulated (they ask for no chips, or ran for no time)
are counted.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from ringwise.apps.simulate.jobs import SECOND, SimulatedJob, in_order
from ringwise.grammar import agrees, quoted
from ringwise.records import dataclass
from ringwise.topology.nearest import did_you_mean

MAX_BYTES = 256 << 20
MAX_JOBS = 1_000_000
#: A hundred years, in seconds: as a number of seconds since 1970 or since the start of a trace.
_LONGEST = 100 * 366 * 86400
#: Fields of a line of the Standard Workload Format, by their place.
_SWF_FIELDS = 18
_SWF_COLUMNS = ("submit", "run", "allocated", "requested")
_SWF_PLACES = {"submit": 1, "run": 3, "allocated": 4, "requested": 7}


class TraceError(Exception):
    """A trace that cannot be read: one line that says where and why."""


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """In which columns a trace has what is needed. Empty: it has no such column."""

    name: str
    submitted: str
    chips: str
    duration: str = ""
    #: Where there is no duration: when the job began and when it ended.
    began: str = ""
    ended: str = ""
    #: What is used where `chips` is unknown (below 1).
    otherwise: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name in self._named.values() if name))

    @property
    def _named(self) -> dict[str, str]:
        names = ("submitted", "chips", "duration", "began", "ended", "otherwise")
        return {name: getattr(self, name) for name in names}

    def with_columns(self, columns: Mapping[str, str]) -> TraceFormat:
        """The same with other names of columns. Raises TraceError."""
        unknown = [name for name in columns if name not in self._named]
        if unknown:
            allowed = tuple(self._named)
            near = did_you_mean(unknown[0], allowed)
            raise TraceError(
                f'columns: unknown field "{unknown[0]}"; must be one of {", ".join(allowed)}{near}'
            )
        # A duration that is named stands for the beginning and the end.
        times = {"began": "", "ended": ""} if "duration" in columns else {}
        return replace(self, **{**times, **columns})


FORMATS = {
    one.name: one
    for one in (
        TraceFormat("itp", "submission_time", "num_gpu", "duration"),
        TraceFormat("philly", "timestamp", "num_gpus", "duration"),
        TraceFormat("openb", "creation_time", "num_gpu", began="scheduled_time", ended="deletion_time"),
        TraceFormat("swf", "submit", "requested", "run", otherwise="allocated"),
    )
}


@dataclass(slots=True)
class Trace:
    jobs: list[SimulatedJob] = field(default_factory=list)
    #: Jobs that cannot be simulated, by the reason.
    omitted: Counter[str] = field(default_factory=Counter)


def read_trace(
    path: Path,
    written: str | None = None,
    columns: Mapping[str, str] | None = None,
    only: Mapping[str, str] | None = None,
) -> Trace:
    """Without a format it is found by the heading. `only`: rows with these values. Raises TraceError."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise TraceError(f"{path}: is larger than {MAX_BYTES >> 20} MiB")
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            first = file.readline()
            # A pipe cannot be read from its beginning again.
            lines = chain([first], file)
            if written == "swf" or (written is None and _looks_like_swf(first)):
                chosen, rows = FORMATS["swf"], _swf_rows(path, lines)
                heading: tuple[str, ...] = _SWF_COLUMNS
            else:
                table = csv.DictReader(lines)
                heading = tuple(table.fieldnames or ())
                chosen = _format_of(path, written, heading, columns or {})
                rows = ((table.line_num, row) for row in table)
            chosen = _with_columns(path, chosen, columns or {})
            _check_columns(path, chosen, heading, only or {})
            return _trace(path, chosen, rows, only or {})
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    except csv.Error as error:
        raise TraceError(f"{path}: not a table: {error}") from None


def _looks_like_swf(line: str) -> bool:
    return line.lstrip().startswith(";") or ("," not in line and len(line.split()) == _SWF_FIELDS)


def _swf_rows(path: Path, lines: Iterator[str]) -> Iterator[tuple[int, dict[str, str]]]:
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith(";"):
            continue
        parts = text.split()
        if len(parts) < max(_SWF_PLACES.values()) + 1:
            raise TraceError(f"{path}: line {number}: has {len(parts)} of {_SWF_FIELDS} fields")
        yield number, {name: parts[place] for name, place in _SWF_PLACES.items()}


def _format_of(
    path: Path, written: str | None, heading: tuple[str, ...], columns: Mapping[str, str]
) -> TraceFormat:
    if written is not None:
        return FORMATS[written]
    for one in FORMATS.values():
        if set(one.columns) <= set(heading):
            return one
    table = TraceFormat("table", "", "")
    _with_columns(path, table, columns)
    missing = [name for name in ("submitted", "duration", "chips") if name not in columns]
    if not missing:
        return table
    shown, formats = ", ".join(heading[:8]) or "none", ", ".join(FORMATS)
    raise TraceError(
        f"{path}: line 1: its columns ({shown}) are those of no known format ({formats}): name the "
        f"{agrees(len(missing), 'column', 'columns')} {', '.join(missing)}"
    )


def _with_columns(path: Path, chosen: TraceFormat, columns: Mapping[str, str]) -> TraceFormat:
    try:
        return chosen.with_columns(columns)
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None


def _check_columns(
    path: Path, chosen: TraceFormat, heading: tuple[str, ...], only: Mapping[str, str]
) -> None:
    for name in (*chosen.columns, *only):
        if name not in heading:
            near = did_you_mean(name, heading)
            raise TraceError(
                f'{path}: line 1: column "{name}" not found; existing columns: {", ".join(heading)}{near}'
            )


def _trace(
    path: Path, chosen: TraceFormat, rows: Iterator[tuple[int, Mapping[str, str]]], only: Mapping[str, str]
) -> Trace:
    omitted: Counter[str] = Counter()
    jobs: list[tuple[int, int, int]] = []
    taken = not only
    for line, row in rows:
        if any(row.get(name) != value for name, value in only.items()):
            continue
        taken = True

        def number(column: str, line: int = line, row: Mapping[str, str] = row) -> float:
            return _number(path, line, column, row.get(column) or "")

        chips = number(chosen.chips)
        if chips < 1 and chosen.otherwise:
            chips = number(chosen.otherwise)
        if chosen.duration:
            duration = number(chosen.duration)
        elif not row.get(chosen.began) or not row.get(chosen.ended):
            omitted["has no beginning or no end"] += 1
            continue
        else:
            duration = number(chosen.ended) - number(chosen.began)
        if chips < 1:
            omitted["does not request chips"] += 1
        elif duration <= 0:
            omitted["ran for no time"] += 1
        elif chips != int(chips):
            raise TraceError(f"{path}: line {line}: {chosen.chips}: must be a whole number, got {chips}")
        else:
            jobs.append((round(number(chosen.submitted) * SECOND), round(duration * SECOND), int(chips)))
        if len(jobs) > MAX_JOBS:
            raise TraceError(f"{path}: has more than {MAX_JOBS:,} jobs")
    if not taken:
        wanted = ", ".join(f"{name}={value}" for name, value in only.items())
        raise TraceError(f"{path}: no row has {wanted}")
    return Trace(in_order(jobs), omitted)


def _number(path: Path, line: int, column: str, text: str) -> float:
    """Seconds or a count; or a time in words, as seconds since 1970."""
    try:
        value = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            wanted = "must be a number or a time like 2017-10-09 07:01:55"
            raise TraceError(f"{path}: line {line}: {column}: {wanted}, got {quoted(text, 40)}") from None
        value = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    if not -_LONGEST <= value <= _LONGEST:
        raise TraceError(f"{path}: line {line}: {column}: invalid time or number {text[:40]}")
    return value
