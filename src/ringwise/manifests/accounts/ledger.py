"""Adds up the intervals that the scheduler tells into the documents of days.

Only days that may still change are in memory. Documents of earlier days are known by name, and by their whole
text where several parts of a day may have to be merged into one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import field
from datetime import UTC, datetime, timedelta

from ringwise.durations import SECOND
from ringwise.manifests.accounts.document import (
    FORMAT,
    MAX_BYTES,
    VERSION,
    AccountDocument,
    AccountLine,
    JobAccount,
    NotAnAccountError,
    OpenHold,
    OpenWait,
    account_text,
    document_text,
    read_document,
    size_of,
)
from ringwise.manifests.accounts.fitting import Owner, add_lines, fitted_text, share_of
from ringwise.messages.accounting import (
    AccountClosed,
    AccountCommand,
    AccountedJob,
    ChipAmount,
    FailureExcused,
    HoldEnded,
    JobWaits,
    PodHeld,
    WaitEnded,
)
from ringwise.messages.events import AccountsRead
from ringwise.records import dataclass

_DAY = 86_400
#: ConfigMaps in all; parts of a day there, and in a folder.
CONFIG_MAPS, PARTS_OF_CONFIG_MAPS, PARTS_OF_FOLDER = 64, 8, 128
#: Names of documents where they are ConfigMaps.
SLOTS = tuple(f"{number:02}" for number in range(CONFIG_MAPS))
#: A part is not begun to be filled further: what is in it grows.
_FULL = MAX_BYTES * 3 // 4
#: A guess for the bytes of a job that was not written yet, without its names.
_JOB_BYTES = 300
#: Seconds between two writes of a document that only says that its open intervals are still open.
HEARTBEAT = 600
#: Seconds for which an end is remembered after it; longer than the clocks of nodes and leaders differ.
_REMEMBERED = 600
#: Seconds after its end for which a day is corrected.
_CORRECTED = 3600
#: Seconds without a write that are reported as a gap.
_GAP = 120
#: Days that are made at most when nothing was written for long.
_MOST_DAYS = 64


_Lines = dict[tuple[str, str], AccountLine]


@dataclass(slots=True, eq=False)
class _Job:
    """A job on one day."""

    account: AccountedJob
    lines: dict[tuple[str, str], AccountLine] = field(default_factory=dict)
    holds: dict[str, PodHeld] = field(default_factory=dict)
    waits: JobWaits | None = None
    #: uid -> the end that it reported, in seconds.
    ended: dict[str, int] = field(default_factory=dict)
    ran: bool = False
    failed: dict[tuple[str, str], AccountLine] = field(default_factory=dict)
    #: As it was written last; empty: it changed.
    text: str = ""

    def line(self, queue: str, board: str) -> AccountLine:
        self.text = ""
        result = self.lines.get((queue, board))
        if result is None:
            result = self.lines[queue, board] = AccountLine(queue, board)
        return result

    def close(self, start: int, midnight: int) -> None:
        """Count what is open until the end of the day, which began at `start`."""
        for held in self.holds.values():
            begin = max(held.since // SECOND, start)
            self.line(held.queue, held.board).held += held.chips * max(midnight - begin, 0)
        if self.waits is not None:
            begin = max(self.waits.since // SECOND, start)
            self.line(self.waits.queue, "").waited += max(midnight - begin, 0)
        self.holds, self.waits, self.text = {}, None, ""

    @property
    def is_open(self) -> bool:
        return bool(self.holds) or self.waits is not None

    @property
    def goes_on(self) -> bool:
        return self.is_open or self.ran or bool(self.ended)


@dataclass(slots=True, eq=False)
class _Part:
    name: str
    number: int
    jobs: dict[AccountedJob, _Job] = field(default_factory=dict)
    #: Merged jobs, by namespace, user and whether that is verified.
    spaces: dict[Owner, _Lines] = field(default_factory=dict)
    merged: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    bytes: int = 0
    changed: bool = True


@dataclass(slots=True, eq=False)
class _Day:
    #: Seconds.
    start: int
    parts: list[_Part] = field(default_factory=list)
    jobs: dict[AccountedJob, tuple[_Part, _Job]] = field(default_factory=dict)
    #: When it was written before it was read here, in seconds.
    written: int = 0

    @property
    def name(self) -> str:
        return day_of(self.start)


@dataclass(slots=True, eq=False)
class _Past:
    """A day that no longer changes."""

    names: list[str]
    #: Its only document, once it has to be one; empty: it has one already.
    whole: str = ""


def day_of(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def start_of(day: str) -> int:
    """Raises ValueError."""
    return int(datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC).timestamp())


def next_day(day: str) -> str:
    return (datetime.strptime(day, "%Y-%m-%d") + timedelta(days=1)).strftime("%Y-%m-%d")


class AccountLedger:
    """`limited`: the documents are ConfigMaps, of which there may be 64. Otherwise they are files."""

    def __init__(self, *, limited: bool) -> None:
        self._limited = limited
        self._most_parts = PARTS_OF_CONFIG_MAPS if limited else PARTS_OF_FOLDER
        #: Those that may change, oldest first.
        self._days: list[_Day] = []
        self._past: dict[str, _Past] = {}
        #: Names that hold something else; it stays.
        self.foreign: dict[str, str] = {}
        self._holds: dict[str, _Job] = {}
        self._written = 0
        self._given_up = ""
        #: Whether what was read names all pods that held chips then.
        self._names_all = True

    # -- the beginning -------------------------------------------------------------------------------

    def read(self, documents: Iterable[tuple[str, str]], now: int) -> None:
        """What was written before: names and texts."""
        seconds = now // SECOND
        by_day: dict[str, list[tuple[str, AccountDocument]]] = {}
        for name, text in documents:
            try:
                document = read_document(text)
                if start_of(document.day) > seconds + _DAY:
                    raise NotAnAccountError(f"its day {document.day} is in the future")
            except (NotAnAccountError, ValueError) as problem:
                self.foreign[name] = str(problem)
                continue
            by_day.setdefault(document.day, []).append((name, document))
            self._written = max(self._written, document.written)
            self._given_up = max(self._given_up, document.given_up)
        for day, parts in list(by_day.items()):
            by_day[day] = current_parts(parts)
        # The clock of the leader before may have been ahead.
        self._written = min(self._written, seconds)
        last = max(by_day, default="")
        for day in sorted(by_day):
            is_open = any(job.holds or job.waits or job.open for _, one in by_day[day] for job in one.jobs)
            if day == last or is_open or start_of(day) + _DAY + _CORRECTED > seconds:
                self._days.append(self._restored(day, by_day[day], is_last=day == last))
            else:
                self._past[day] = _Past([name for name, _ in by_day[day]], _whole_text(by_day[day]))
        self._settle_former()
        if self._days:
            self._roll(max(seconds, self._days[-1].start))
        else:
            self._new_day(seconds // _DAY * _DAY)
        if self._written and seconds - self._written > _GAP:
            part = self._days[-1].parts[0]
            part.gaps.append((self._written, seconds))
            part.changed = True

    def state(self) -> AccountsRead:
        """As a scheduler needs it that begins."""
        jobs = [job for _, job in self._days[-1].jobs.values()]
        return AccountsRead(
            tuple(held for job in jobs for held in job.holds.values()),
            tuple(job.waits for job in jobs if job.waits is not None),
            tuple(uid for job in jobs for uid in job.ended),
            tuple(job.account for job in jobs if job.ran),
            self._written * SECOND,
        )

    def _restored(
        self, name: str, documents: Iterable[tuple[str, AccountDocument]], *, is_last: bool
    ) -> _Day:
        day = _Day(start_of(name))
        for place, document in documents:
            part = _Part(place, document.part, merged=document.merged, gaps=[*document.gaps], changed=False)
            day.parts.append(part)
            day.written = max(day.written, document.written)
            self._names_all &= not (is_last and document.unnamed)
            for one in document.jobs:
                lines = {(line.queue, line.board): line for line in one.lines}
                if not is_last:
                    # The last document of the day was not written. For the last day, the scheduler reports
                    # existing pods again.
                    part.changed |= bool(one.open)
                    _settle_open(lines, one, max(document.written - day.start, 0))
                if not one.uid:
                    part.spaces[one.namespace, one.user, one.verified] = lines
                    continue
                who = AccountedJob(one.namespace, one.name, one.uid, one.user, one.verified)
                job = _Job(who, lines, ran=one.ran, ended=dict.fromkeys(one.ended, document.written))
                job.failed = {(line.queue, line.board): line for line in one.failed}
                if one.waits is not None:
                    job.waits = JobWaits(who, one.waits.queue, one.waits.since * SECOND)
                for held in one.holds:
                    for pod in held.pods:
                        job.holds[pod] = PodHeld(
                            who,
                            held.queue,
                            held.board,
                            held.chips,
                            pod,
                            held.since * SECOND,
                            held.cause,
                            held.lost_since * SECOND,
                        )
                part.jobs[who] = job
                day.jobs[who] = (part, job)
            part.bytes = sum(_guessed_bytes(job.account) + 40 * len(job.holds) for job in part.jobs.values())
        return day

    def _settle_former(self) -> None:
        """A day that has open intervals and is followed by another: its last document was not written.

        What the day after has open was open at midnight; of the rest it is not known when it ended.
        """
        for day, after in zip(self._days, self._days[1:], strict=False):
            midnight = day.start + _DAY
            for part, job in day.jobs.values():
                if not job.is_open:
                    continue
                part.changed = True
                following = after.jobs.get(job.account)
                for uid, held in job.holds.items():
                    if following is None or uid not in following[1].holds:
                        begin = max(held.since // SECOND, day.start, day.written)
                        line = job.line(held.queue, held.board)
                        line.uncertain += held.chips * max(midnight - begin, 0)
                job.close(day.start, midnight)
        if self._days:
            today = self._days[-1]
            self._holds = {uid: job for _, job in today.jobs.values() for uid in job.holds}

    # -- what the scheduler tells ----------------------------------------------------------------------

    def apply(self, command: AccountCommand, now: int) -> None:
        self._roll(now // SECOND)
        match command:
            case PodHeld():
                self._held(command)
            case HoldEnded():
                self._hold_ended(command)
            case JobWaits():
                job = self._job(command.job)
                job.waits, job.text = command, ""
            case WaitEnded():
                self._wait_ended(command)
            case FailureExcused():
                self._excuse(command.job)
            case AccountClosed():
                entry = self._days[-1].jobs.get(command.job)
                if entry is not None:
                    part, job = entry
                    part.changed = True
                    job.ran, job.waits, job.text = False, None, ""

    def _held(self, command: PodHeld) -> None:
        job = self._job(command.job)
        if command.pod not in job.holds:
            job.line(command.queue, command.board).clamped += command.clamped
            # It may have begun before today: the days before count it until their ends. They did already if
            # it is one that was not named.
            for day, span in self._spread(command.since, self._days[-1].start * SECOND, counted=False):
                if day is not self._days[-1] and self._names_all:
                    self._on(day, job.account).line(command.queue, command.board).held += command.chips * span
        self._holds[command.pod] = job
        job.holds[command.pod] = command
        job.text = ""

    def _hold_ended(self, command: HoldEnded) -> None:
        job = self._holds.pop(command.pod, None)
        held = None if job is None else job.holds.pop(command.pod, None)
        if job is None or held is None:
            return
        self._job(job.account)
        since, until = held.since // SECOND, command.until // SECOND
        for day, span in self._spread(held.since, command.until, counted=True):
            self._on(day, job.account).line(held.queue, held.board).held += held.chips * span
        line = job.line(held.queue, held.board)
        line.uncertain += held.chips * (until - min(command.sure // SECOND, until))
        line.clamped += command.clamped
        if command.cause:
            work = held.chips * max(until - command.lost_since // SECOND, 0)
            line.lost[command.cause] = line.lost.get(command.cause, 0) + work
        if command.failed:
            if not job.failed:
                line.failures += 1
            failed = job.failed.setdefault((held.queue, held.board), AccountLine(held.queue, held.board))
            failed.held += held.chips * max(until - (command.lost_since // SECOND or since), 0)
        job.ended[command.pod] = max(command.told // SECOND, until)

    def _wait_ended(self, command: WaitEnded) -> None:
        job = self._job(command.job)
        counted, job.waits = job.waits is not None, None
        line = job.line(command.queue, command.board)
        until = command.until // SECOND
        for day, span in self._spread(command.since, command.until, counted=counted):
            if day is self._days[-1]:
                line.waited += span
            else:
                self._on(day, job.account).line(command.queue, "").waited += span
        line.waited_uncertain += until - min(command.sure // SECOND, until)
        if command.started:
            line.starts += 1
            job.ran = True
            job.failed = {}

    def _spread(self, since: int, until: int, *, counted: bool) -> Iterator[tuple[_Day, int]]:
        """The seconds of an interval on each day; `counted`: the days before count it until their ends."""
        begin, end = since // SECOND, max(since, until) // SECOND
        today = self._days[-1]
        for day in self._days:
            first, midnight = max(begin, day.start), day.start + _DAY
            span = max(end - first, 0) if day is today else max(min(end, midnight) - first, 0)
            if counted and day is not today:
                span -= max(midnight - first, 0)
            if span:
                yield day, span

    def _excuse(self, who: AccountedJob) -> None:
        """The work of pods that failed is lost to the fault, and the job did not fail."""
        entry = self._days[-1].jobs.get(who)
        if entry is None or not entry[1].failed:
            return
        part, job = entry
        part.changed = True
        for (queue, board), failed in job.failed.items():
            line = job.line(queue, board)
            line.lost["fault"] = line.lost.get("fault", 0) + failed.held
            line.failures = max(line.failures - 1, 0)
        job.failed = {}

    def _job(self, who: AccountedJob) -> _Job:
        return self._on(self._days[-1], who)

    def _on(self, day: _Day, who: AccountedJob) -> _Job:
        entry = day.jobs.get(who)
        if entry is None:
            part = self._part_with_room(day)
            entry = day.jobs[who] = (part, _Job(who))
            part.jobs[who] = entry[1]
            part.bytes += _guessed_bytes(who)
        part, job = entry
        part.changed = True
        return job

    # -- days and parts --------------------------------------------------------------------------------

    def _roll(self, seconds: int) -> None:
        today = self._days[-1]
        if seconds < today.start + _DAY:
            return
        if seconds - today.start > _MOST_DAYS * _DAY:
            self._begin_day(seconds // _DAY * _DAY)
        while seconds >= self._days[-1].start + _DAY:
            self._begin_day(self._days[-1].start + _DAY)

    def _begin_day(self, start: int) -> None:
        """Begin a day: what is open ends at midnight on the day before and continues on the new one."""
        former, day = self._days[-1], self._new_day(start)
        midnight = former.start + _DAY
        self._holds = {}
        for part, job in former.jobs.values():
            if not job.goes_on:
                continue
            part.changed = True
            new = self._on(day, job.account)
            new.ran, new.waits, new.ended, new.failed = job.ran, job.waits, job.ended, job.failed
            for held in job.holds.values():
                new.holds[held.pod] = held
                self._holds[held.pod] = new
            job.close(former.start, midnight)
            job.ran, job.ended, job.failed = False, {}, {}

    def _new_day(self, start: int) -> _Day:
        day = _Day(start)
        self._days.append(day)
        self._part_with_room(day)
        return day

    def _part_with_room(self, day: _Day) -> _Part:
        if day.parts and (day.parts[-1].bytes < _FULL or len(day.parts) >= self._most_parts):
            return day.parts[-1]
        number = day.parts[-1].number + 1 if day.parts else 0
        while not self._limited and f"{day.name}-{number:02}" in self.foreign:
            number += 1
        part = _Part("" if self._limited else f"{day.name}-{number:02}", number)
        day.parts.append(part)
        return part

    # -- what is written -------------------------------------------------------------------------------

    def due(self, now: int) -> list[tuple[str, str]]:
        """Names and texts of the documents that changed."""
        seconds = now // SECOND
        self._roll(seconds)
        today = self._days[-1]
        if seconds - self._written >= HEARTBEAT and self._holds:
            today.parts[0].changed = True
        written: list[tuple[str, str]] = []
        # Today's first: what is open then is in two documents, or in the one of today, and never in none.
        for day in (today, *self._days[:-1]):
            for part in day.parts:
                if part.changed:
                    written += self._named(part)
                    if not part.name:
                        continue
                    written.append((part.name, self._text(day, part, seconds)))
                    part.changed = False
        if written:
            self._written = max(self._written, seconds)
        for day in self._days[:-1]:
            if seconds >= day.start + _DAY + _CORRECTED:
                self._days.remove(day)
                documents = [(part.name, read_document(self._text(day, part, seconds))) for part in day.parts]
                self._past[day.name] = _Past([part.name for part in day.parts], _whole_text(documents))
        return written

    def failed(self, names: Iterable[str]) -> None:
        """These could not be written: the next time, again."""
        missing = set(names)
        for day in self._days:
            for part in day.parts:
                part.changed |= part.name in missing

    def _named(self, part: _Part) -> list[tuple[str, str]]:
        """Give the part a ConfigMap; what has to be written so that there is one."""
        if part.name:
            return []
        used = {name for past in self._past.values() for name in past.names}
        used |= {one.name for other in self._days for one in other.parts} | set(self.foreign)
        written: list[tuple[str, str]] = []
        free = next((name for name in SLOTS if name not in used), "")
        while not free and self._past:
            oldest = next((name for name in sorted(self._past) if self._past[name].whole), "")
            if oldest:
                past = self._past[oldest]
                written.append((past.names[0], past.whole))
                free, past.names, past.whole = past.names[1], past.names[:1], ""
            else:
                given_up = min(self._past)
                free = self._past.pop(given_up).names[0]
                self._given_up = next_day(given_up)
        # Empty where all are somebody else's.
        part.name = free
        return written

    def _text(self, day: _Day, part: _Part, seconds: int) -> str:
        for job in part.jobs.values():
            if job.ended:
                recent = {uid: end for uid, end in job.ended.items() if end > seconds - _REMEMBERED}
                if len(recent) != len(job.ended):
                    job.ended, job.text = recent, ""
            if not job.text:
                job.text = account_text(_account(job))
        document = AccountDocument(FORMAT, VERSION, day.name, seconds, part.number)
        document.gaps, document.given_up = part.gaps, self._given_up if part is day.parts[0] else ""
        text = self._joined(part, document)
        if size_of(text) > MAX_BYTES:
            self._merge(day, part)
            text = self._joined(part, document)
        if size_of(text) > MAX_BYTES:
            jobs = ((_account(job), job.text) for job in part.jobs.values())
            text = fitted_text(document, [*_spaces(part.spaces), *jobs], day.start, MAX_BYTES)
        part.bytes = size_of(text)
        return text

    def _joined(self, part: _Part, document: AccountDocument) -> str:
        document.merged = part.merged
        spaces = (text for _, text in _spaces(part.spaces))
        return document_text(document, [*spaces, *(job.text for job in part.jobs.values())])

    def _merge(self, day: _Day, part: _Part) -> None:
        """Merge what is over, of namespaces that have more than their share, into lines of the namespace.

        Jobs that do not exist come first, then those that have no node now, then users that fill the share by
        themselves.
        """
        for with_those_that_exist in (False, True):
            sizes = Counter[str]()
            for who, job in part.jobs.items():
                sizes[who.namespace] += size_of(job.text)
            share = share_of(sizes.values(), MAX_BYTES // 2)
            for who, job in list(part.jobs.items()):
                if sizes[who.namespace] <= share:
                    continue
                if not (job.is_open if with_those_that_exist else job.goes_on):
                    sizes[who.namespace] -= size_of(job.text)
                    key = (who.namespace, who.user, who.verified)
                    add_lines(part.spaces.setdefault(key, {}), job.lines.values())
                    part.merged += 1
                    del part.jobs[who], day.jobs[who]
        for verified in (False, True):
            sizes = Counter[str]()
            for one, text in _spaces(part.spaces):
                sizes[one.namespace] += size_of(text)
            share = share_of(sizes.values(), MAX_BYTES // 2)
            for key, lines in list(part.spaces.items()):
                namespace, user, is_verified = key
                if user and is_verified is verified and sizes[namespace] > share:
                    del part.spaces[key]
                    add_lines(part.spaces.setdefault((namespace, "", False), {}), lines.values())


def current_parts(documents: list[tuple[str, AccountDocument]]) -> list[tuple[str, AccountDocument]]:
    """The documents of a day that count: the whole one where there is one, else the newest of each part."""
    whole = [one for one in documents if one[1].whole]
    if whole:
        return [max(whole, key=lambda one: one[1].written)]
    parts: dict[int, tuple[str, AccountDocument]] = {}
    for one in documents:
        previous = parts.get(one[1].part)
        if previous is None or previous[1].written < one[1].written:
            parts[one[1].part] = one
    return [parts[number] for number in sorted(parts)]


def _account(job: _Job) -> JobAccount:
    who = job.account
    groups: dict[tuple[str, str, ChipAmount, int, str, int], list[str]] = {}
    for held in job.holds.values():
        key = (
            held.queue,
            held.board,
            held.chips,
            held.since // SECOND,
            held.cause,
            held.lost_since // SECOND,
        )
        groups.setdefault(key, []).append(held.pod)
    waits = job.waits
    return JobAccount(
        who.namespace,
        who.name,
        who.uid,
        who.user,
        who.verified,
        list(job.lines.values()),
        [OpenHold(*key[:4], pods, *key[4:]) for key, pods in groups.items()],
        None if waits is None else OpenWait(waits.queue, waits.since // SECOND),
        list(job.ended),
        job.ran,
        list(job.failed.values()),
    )


def _guessed_bytes(who: AccountedJob) -> int:
    return _JOB_BYTES + len(who.namespace) + len(who.name) + len(who.user)


def _settle_open(lines: _Lines, one: JobAccount, written: int) -> None:
    """Add the running totals of a past day until its end; the time after the last write is uncertain."""
    for total in one.open:
        add_lines(lines, total.lines(_DAY))
        if total.chips and written < _DAY:
            lines[total.queue, total.board].uncertain += total.chips * (_DAY - written)


def _spaces(spaces: dict[Owner, _Lines]) -> Iterator[tuple[JobAccount, str]]:
    for (namespace, user, verified), lines in spaces.items():
        one = JobAccount(namespace, user=user, verified=verified, lines=list(lines.values()))
        yield one, account_text(one)


def _whole_text(documents: list[tuple[str, AccountDocument]]) -> str:
    """One document with the lines of namespaces, of several; empty where there is only one."""
    if len(documents) < 2:
        return ""
    spaces: dict[Owner, _Lines] = {}
    first = documents[0][1]
    whole = AccountDocument(FORMAT, VERSION, first.day, first.written, whole=True)
    for _, one in documents:
        whole.merged += one.merged
        whole.gaps += one.gaps
        whole.written = max(whole.written, one.written)
        for job in one.jobs:
            whole.merged += bool(job.uid)
            add_lines(spaces.setdefault((job.namespace, job.user, job.verified), {}), job.lines)
    accounts = list(_spaces(spaces))
    text = document_text(whole, (text for _, text in accounts))
    if size_of(text) > MAX_BYTES:
        text = fitted_text(whole, accounts, start_of(whole.day), MAX_BYTES)
    return text
