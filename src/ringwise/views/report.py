"""The report of accounting: the lines of documents added up by queue, namespace, user, job or board.

Chip-hours of different boards are never added: a chip-hour of one is not worth one of another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, TypeVar

from ringwise.durations import SECOND, go_duration, with_zone
from ringwise.grammar import quoted
from ringwise.manifests.accounts.document import (
    AccountDocument,
    AccountLine,
    JobAccount,
    NotAnAccountError,
    read_document,
)
from ringwise.manifests.accounts.ledger import current_parts, day_of, next_day, start_of
from ringwise.manifests.text.quantities import NotReadableError, nanoseconds
from ringwise.messages.accounting import ChipAmount
from ringwise.records import dataclass
from ringwise.topology.natural import natural_key
from ringwise.views.documents import accounting as doc

_DAY = 86_400
_HOUR = 3600
_MOST_DAYS = 4000
_DAYS = re.compile(r"([0-9]{1,4})d", re.ASCII)
_DATE = re.compile(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", re.ASCII)
#: Queue, namespace, user, verified, job, uid: None where rows are not by it.
_Group = tuple[str | None, str | None, str | None, bool | None, str | None, str | None]
#: With the board; empty: jobs that had no node.
_Key = tuple[_Group, str]
_AnyGroup = TypeVar("_AnyGroup", bound=tuple[object, ...])


@dataclass(frozen=True, slots=True)
class ReportPeriod:
    """The first and the last UTC day of a report."""

    first: str
    last: str
    #: Where it covers more than was asked for: documents are added up by day.
    notes: tuple[str, ...] = ()


def parse_period(since: str, until: str, now: int) -> ReportPeriod:
    """Raises ValueError with one line that says what is allowed."""
    first = _moment(since, now)
    last = _moment(until, now) if until not in ("", "now") else now
    if first > last:
        raise ValueError(f"--since {since} is after --until {until or 'now'}")
    if (last - first) // SECOND > _MOST_DAYS * _DAY:
        raise ValueError(f"a report covers at most {_MOST_DAYS} days")
    days = day_of(first // SECOND), day_of(last // SECOND)
    notes = []
    if _is_finer_than_a_day(since):
        notes.append(f"--since {since} covers all of {days[0]} (UTC): accounting is by day")
    if until not in ("", "now") and _is_finer_than_a_day(until):
        notes.append(f"--until {until} covers all of {days[1]} (UTC): accounting is by day")
    return ReportPeriod(*days, tuple(notes))


def _is_finer_than_a_day(text: str) -> bool:
    return not (_DAYS.fullmatch(text) or _DATE.match(text))


def _moment(text: str, now: int) -> int:
    days = _DAYS.fullmatch(text)
    span = int(days[1]) * _DAY * SECOND if days else go_duration(text)
    try:
        result = now - span if span is not None else nanoseconds(with_zone(text))
    except NotReadableError:
        result = -1
    if result < 0:
        allowed = "expected a duration before now such as 12h or 30d, or a UTC day such as 2026-01-31"
        raise ValueError(f"invalid time {quoted(text)}: {allowed}")
    return result


def days_between(first: str, last: str) -> list[str]:
    days = [first]
    while days[-1] < last:
        days.append(next_day(days[-1]))
    return days


def report_document(
    documents: Iterable[tuple[str, str]],
    period: ReportPeriod,
    by: doc.GroupBy,
    now: int | None = None,
    *,
    namespace: str | None = None,
) -> doc.ReportDocument:
    """Of names and texts of documents; with `namespace` only of its jobs.

    What is open counts until `now`; None: until the documents were written.
    """
    unreadable: list[str] = []
    by_day: dict[str, list[tuple[str, AccountDocument]]] = {}
    for name, text in documents:
        try:
            document = read_document(text)
            start_of(document.day)
        except (NotAnAccountError, ValueError) as problem:
            unreadable.append(f"{name}: {problem}")
            continue
        by_day.setdefault(document.day, []).append((name, document))
    chosen = [one for day in sorted(by_day) for _, one in current_parts(by_day[day])]
    written = max((one.written for one in chosen), default=0)
    until = written if now is None else now // SECOND
    days = days_between(period.first, period.last)
    number = {day: position for position, day in enumerate(days)}
    sums: dict[_Key, AccountLine] = {}
    allocated_by_day: dict[_Key, list[ChipAmount]] = {}
    totals: dict[str, AccountLine] = {}
    shown = [one for one in chosen if one.day in number]
    latest = max(by_day, default="")
    for one in shown:
        end = until if one.day == latest else start_of(one.day) + _DAY
        for job in one.jobs:
            if namespace is not None and job.namespace != namespace:
                continue
            for line in (*job.lines, *_open(job, one, end)):
                key = _group(job, line, by), line.board
                if key not in sums:
                    sums[key], allocated_by_day[key] = AccountLine(), [0] * len(days)
                sums[key].add(line)
                allocated_by_day[key][number[one.day]] += line.held
                totals.setdefault(line.board, AccountLine()).add(line)
    _merge_waits(sums)
    boards = {((), board): line for board, line in totals.items()}
    _merge_waits(boards)
    ordered = sorted(
        sums, key=lambda key: (-sums[key].held, [natural_key(str(part)) for part in (*key[0], key[1])])
    )
    gaps = sorted({gap for one in shown for gap in one.gaps})
    return doc.ReportDocument(
        now=until * SECOND,
        group_by=by,
        days=days,
        notes=list(period.notes),
        rows=[_row(key, sums[key], allocated_by_day[key]) for key in ordered],
        totals=[
            doc.BoardTotalFields(board=board, **_amounts(line))
            for (_, board), line in sorted(
                boards.items(), key=lambda item: (-item[1].held, natural_key(item[0][1]))
            )
        ],
        has_chip_fractions=any(isinstance(line.held, Fraction) for line in totals.values()),
        gaps=[doc.GapFields(since=since * SECOND, until=end * SECOND) for since, end in gaps],
        merged_jobs=sum(one.merged for one in shown),
        discarded_before=max((one.given_up for one in chosen), default="") or None,
        unreadable=unreadable,
    )


def _open(job: JobAccount, document: AccountDocument, until: int) -> Iterator[AccountLine]:
    """What has not ended, as if it ended now."""
    start = start_of(document.day)
    for held in job.holds:
        span = max(until - max(held.since, start), 0)
        yield AccountLine(held.queue, held.board, held=held.chips * len(held.pods) * span)
    if job.waits is not None:
        yield AccountLine(job.waits.queue, waited=max(until - max(job.waits.since, start), 0))
    for total in job.open:
        yield from total.lines(max(until - start, 0))


def _merge_waits(sums: dict[tuple[_AnyGroup, str], AccountLine]) -> None:
    """Count the waits of a group with chips of one board there; with several they stay by themselves."""
    boards: dict[_AnyGroup, list[str]] = {}
    for group, board in sums:
        boards.setdefault(group, []).append(board)
    for group, names in boards.items():
        if len(names) == 2 and "" in names:
            (board,) = (name for name in names if name)
            sums[group, board].add(sums.pop((group, "")))


def _group(job: JobAccount, line: AccountLine, by: doc.GroupBy) -> _Group:
    match by:
        case "queue":
            return (line.queue, None, None, None, None, None)
        case "namespace":
            return (None, job.namespace, None, None, None, None)
        case "user":
            return (None, None, job.user, job.verified, None, None)
        case "board":
            return (None, None, None, None, None, None)
    return (None, job.namespace, job.user, job.verified, job.name, job.uid)


def _row(key: _Key, line: AccountLine, by_day: list[ChipAmount]) -> doc.ReportRowFields:
    (queue, namespace, user, verified, job, uid), board = key
    return doc.ReportRowFields(
        queue=queue,
        namespace=namespace,
        user=user,
        verified=verified,
        job=job,
        uid=uid,
        board=board,
        allocated_by_day=[_hours(one) for one in by_day],
        **_amounts(line),
    )


def _amounts(line: AccountLine) -> dict[str, Any]:
    """The fields that rows and totals have."""
    return {
        "allocated_chip_hours": _hours(line.held),
        "uncertain_chip_hours": _hours(line.uncertain),
        "lost_chip_hours": {cause: _hours(work) for cause, work in sorted(line.lost.items())},
        "pending_hours": _hours(line.waited),
        "uncertain_pending_hours": _hours(line.waited_uncertain),
        "starts": line.starts,
        "failures": line.failures,
        "clamped": line.clamped,
    }


def _hours(seconds: ChipAmount) -> float:
    return round(float(seconds / _HOUR), 4)
