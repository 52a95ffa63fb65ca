"""The accounting document: the jobs of one UTC day, or a part of them, with what they held, lost and waited.

The same text is the value of a ConfigMap and the content of a file. A document is complete by itself: all
lines of a job on a day, and what is still open of it, are in one, so documents of different age agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec

from ringwise.messages.accounting import ChipAmount, chip_amount_text, read_chip_amount
from ringwise.versions import unsupported

FORMAT, VERSION = "ringwise-accounting", 1
#: Bytes of a document. A ConfigMap may have 1 MiB with everything.
MAX_BYTES = 750 * 1024
#: The largest number that every reader of JSON has exactly.
_LARGEST = 2**53 - 1

Count = Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)]
#: Seconds of Unix time.
Seconds = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_800)]
_DAY_PATTERN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"


class NotAnAccountError(ValueError):
    """The text is not an accounting document of this version: why."""


class AccountLine(msgspec.Struct, omit_defaults=True):
    """What a job did on the day in one queue, on one board."""

    queue: str = ""
    #: Empty: it had no node.
    board: str = ""
    #: Chip-seconds from when pods got their nodes until their ends; of them those that are not certain.
    held: ChipAmount = 0
    uncertain: ChipAmount = 0
    #: Chip-seconds of pods that ended on this day, by cause. The work may have been done on earlier days.
    lost: dict[str, ChipAmount] = msgspec.field(default_factory=dict)
    #: Seconds without a node; of them those that are not certain.
    waited: Count = 0
    waited_uncertain: Count = 0
    starts: Count = 0
    failures: Count = 0
    #: Intervals whose times could not be right.
    clamped: Count = 0

    def add(self, other: AccountLine) -> None:
        self.held += other.held
        self.uncertain += other.uncertain
        for cause, work in other.lost.items():
            self.lost[cause] = self.lost.get(cause, 0) + work
        self.waited += other.waited
        self.waited_uncertain += other.waited_uncertain
        self.starts += other.starts
        self.failures += other.failures
        self.clamped += other.clamped


class OpenHold(msgspec.Struct, omit_defaults=True):
    """Pods that hold chips since the same second."""

    queue: str
    board: str
    chips: ChipAmount
    since: Seconds
    #: Their uids.
    pods: list[str]
    #: Why the scheduler ends them, and since when their work is lost then.
    cause: str = ""
    lost_since: Seconds = 0


class OpenWait(msgspec.Struct, omit_defaults=True):
    queue: str
    since: Seconds


class OpenTotal(msgspec.Struct, omit_defaults=True):
    """The running totals of jobs whose pods are not listed, in one queue and on one board.

    So many seconds after the start of the day they have held that many times `chips`, less
    `chip_seconds_before`, and have waited that many times `waiting`, less `seconds_before`.
    """

    queue: str = ""
    board: str = ""
    chips: ChipAmount = 0
    chip_seconds_before: ChipAmount = 0
    #: How many jobs wait.
    waiting: Count = 0
    seconds_before: Count = 0

    def add(self, other: OpenTotal) -> None:
        self.chips += other.chips
        self.chip_seconds_before += other.chip_seconds_before
        self.waiting += other.waiting
        self.seconds_before += other.seconds_before

    def lines(self, seconds: int) -> Iterator[AccountLine]:
        """Yield the totals so many seconds after the start of the day."""
        if self.chips:
            held = max(self.chips * seconds - self.chip_seconds_before, 0)
            yield AccountLine(self.queue, self.board, held=held)
        if self.waiting:
            yield AccountLine(self.queue, waited=max(self.waiting * seconds - self.seconds_before, 0))


class JobAccount(msgspec.Struct, omit_defaults=True):
    """A job on one day. Without a name: jobs of the namespace that were merged."""

    namespace: str
    name: str = ""
    uid: str = ""
    user: str = ""
    #: Whether admission wrote the user.
    verified: bool = False
    lines: list[AccountLine] = msgspec.field(default_factory=list)
    #: What is open: in the document of the last day alone.
    holds: list[OpenHold] = msgspec.field(default_factory=list)
    waits: OpenWait | None = None
    #: Uids of pods that ended shortly before the document was written.
    ended: list[str] = msgspec.field(default_factory=list)
    #: It had started before, and exists.
    ran: bool = False
    #: Chip-seconds of pods that failed by themselves since the job started last: hardware may be why.
    failed: list[AccountLine] = msgspec.field(default_factory=list)
    #: Other running totals: their pods are not listed because the document is full.
    open: list[OpenTotal] = msgspec.field(default_factory=list)


class AccountDocument(msgspec.Struct, omit_defaults=True):
    format: str
    version: int
    #: UTC.
    day: Annotated[str, msgspec.Meta(pattern=_DAY_PATTERN)]
    #: Seconds of Unix time.
    written: Seconds
    part: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 0
    #: It has all of the day, and takes the place of its parts.
    whole: bool = False
    #: How many jobs were merged into lines of their namespaces, for want of room.
    merged: Count = 0
    #: How many pods hold chips and are not named, for want of room.
    unnamed: Count = 0
    #: Spans (from, to) in which no scheduler wrote.
    gaps: list[tuple[Seconds, Seconds]] = msgspec.field(default_factory=list)
    #: The day before which documents were discarded for lack of space; empty: none.
    given_up: str = ""
    jobs: list[JobAccount] = msgspec.field(default_factory=list)


_DECODER = msgspec.json.Decoder(AccountDocument, dec_hook=read_chip_amount)
_ENCODER = msgspec.json.Encoder(enc_hook=chip_amount_text, order="deterministic")


class _Kind(msgspec.Struct):
    format: str = ""
    version: int = 0


_KINDS = msgspec.json.Decoder(_Kind)


def read_document(text: str) -> AccountDocument:
    """Raises NotAnAccountError."""
    if len(text) > 4 * MAX_BYTES:
        raise NotAnAccountError(f"it is larger than {4 * MAX_BYTES >> 10} KiB")
    try:
        kind = _KINDS.decode(text)
        if kind.format != FORMAT:
            raise NotAnAccountError("it is not an accounting document of Ringwise")
        if kind.version != VERSION:
            raise NotAnAccountError(unsupported(kind.version, VERSION))
        return _DECODER.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
        raise NotAnAccountError(f"it cannot be read: {problem}") from None


def size_of(text: str) -> int:
    """Return the size in bytes; the size of a ConfigMap is not limited in characters."""
    return len(text) if text.isascii() else len(text.encode())


def account_text(job: JobAccount) -> str:
    return _ENCODER.encode(job).decode()


def document_text(document: AccountDocument, jobs: Iterable[str]) -> str:
    """The text of a document with these jobs, one in a line."""
    head = _ENCODER.encode(document).decode()
    return f'{head[:-1]},"jobs":[\n' + ",\n".join(jobs) + "\n]}\n"
