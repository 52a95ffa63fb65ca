"""When a waiting job can be expected to start: the answer that every view shows.

What is not known is not a time: an answer is a range of times, a time before which the job does not start,
or the reason why neither is known.
"""

from __future__ import annotations

import enum

from ringwise.durations import duration_text, time_text
from ringwise.records import dataclass

#: Why nothing is known of a start: the search is bounded.
TOO_MUCH_AHEAD = "the search limit was reached"


class StartKind(enum.StrEnum):
    #: Between `earliest` and `latest`, which are the same where it is one time.
    KNOWN = "known"
    #: Not before `earliest`.
    NOT_BEFORE = "not-before"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """When a waiting job starts, if jobs run as long as they say and no other job comes."""

    kind: StartKind
    #: Nanoseconds since 1970.
    earliest: int | None = None
    latest: int | None = None
    #: Jobs whose end it waits for, in the order in which they end: the last of them.
    after: tuple[str, ...] = ()
    #: Why no time, or no latest time, is known, or what a time rests on besides ends; a part of a sentence.
    why: str = ""
    #: Some of the jobs before it do not say how long they run: others of their size took so long lately.
    guess: bool = False

    def text(self, now: int | None) -> str:
        """What every view shows.

        Without a present time: what stays true when time passes, and names no other job.
        """
        if self.earliest is None:
            return f"unknown, {self.why}"
        if self.latest is None:
            return f"not before {self._at(self.earliest, now)}: {self.why}{self._mark}"
        if now is not None and self.latest <= now:
            return "in the next cycle"
        ends = f", after the end of {', '.join(self.after)}" if self.after and now is not None else ""
        if self.why:
            return f"at the latest {self._at(self.latest, now)}: {self.why}"
        if self.earliest == self.latest:
            return f"{self._at(self.earliest, now)}{ends}{self._mark}"
        if now is None or self.earliest > now:
            first, last = time_text(self.earliest), time_text(self.latest)
            spans = "" if now is None else f", in {_span(self.earliest, now)} to {_span(self.latest, now)}"
            return f"between {first} and {last}{spans}{ends}{self._mark}"
        sooner = "" if self.guess else "; earlier if a job without an expected duration ends"
        return f"at the latest {self._at(self.latest, now)}{ends}{sooner}{self._mark}"

    def short(self, now: int) -> str:
        """For a column of a table: spans from now on, `~` before a guess."""
        if self.earliest is None:
            return "unknown"
        mark = "~" if self.guess else ""
        if self.latest is None:
            return f"{mark}>{_span(self.earliest, now)}"
        if self.latest <= now:
            return "now"
        first, last = _span(self.earliest, now), duration_text(self.latest - now, up=True)
        if self.earliest <= now:
            return f"{mark}<{last}"
        exact = self.earliest == self.latest or first == last
        return f"{mark}{first}" if exact else f"{mark}{first}-{last}"

    def differs(self, before: ExpectedStart, now: int) -> bool:
        """Whether it differs from the previous one: by more than a tenth of the time until then."""
        if (self.kind, self.guess) != (before.kind, before.guess):
            return True
        # A job that may start at any moment still may, however long ago that was said.
        earliest = _not_past(before.earliest, now), _not_past(self.earliest, now)
        for old, new in (earliest, (before.latest, self.latest)):
            if old is None or new is None:
                if old is not new:
                    return True
            # A time in the past is over: it is replaced by any other.
            elif old != new and abs(new - old) * 10 >= max(0, old - now):
                return True
        return False

    @property
    def _mark(self) -> str:
        return "; a guess from what jobs of the same size took lately" if self.guess else ""

    @staticmethod
    def _at(time: int, now: int | None) -> str:
        return time_text(time) if now is None else f"{time_text(time)}, in {_span(time, now)}"


def unknown_start(why: str) -> ExpectedStart:
    return ExpectedStart(StartKind.UNKNOWN, why=why)


def next_cycle(now: int) -> ExpectedStart:
    return ExpectedStart(StartKind.KNOWN, now, now)


def _not_past(time: int | None, now: int) -> int | None:
    return None if time is None else max(time, now)


def _span(time: int, now: int) -> str:
    return duration_text(time - now)
