"""The history in numbers: a ring of samples at equal distances."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ringwise.views.documents.dashboard import DashboardTotals, SeriesDocument

#: Seconds between two samples, and of all samples together.
SAMPLE_INTERVAL = 5.0
REMEMBERED = 3600.0
_SECOND = 1_000_000_000


class _Sample(NamedTuple):
    time: float
    used: int
    free: int
    waiting: int
    fragmentation: float
    decisions: float


class Series:
    def __init__(self, interval: float = SAMPLE_INTERVAL, remembered: float = REMEMBERED) -> None:
        self.interval = interval
        self._samples: deque[_Sample] = deque(maxlen=max(1, round(remembered / interval)))
        #: Time and bindings of the last sample, and the scheduler that counted them.
        self._last: tuple[int, int, object] | None = None

    def add(self, now: int, totals: DashboardTotals, bindings: int, counter: object) -> None:
        """`counter` is what counted the bindings: another one starts again at 0."""
        since, before, who = self._last or (now, bindings, counter)
        if self._samples and now == since:
            # Virtual time stands still: there is one point for this moment, with the last values.
            self._samples[-1] = self._samples[-1]._replace(
                used=totals["used"],
                free=totals["free"],
                waiting=totals["waiting"],
                fragmentation=totals["fragmentation"],
            )
            return
        if who is not counter:
            before = 0
        seconds = (now - since) / _SECOND
        self._last = now, bindings, counter
        self._samples.append(
            _Sample(
                now / _SECOND,
                totals["used"],
                totals["free"],
                totals["waiting"],
                totals["fragmentation"],
                round(max(0, bindings - before) / seconds, 3) if seconds > 0 else 0.0,
            )
        )

    def document(self) -> SeriesDocument:
        samples = list(self._samples)
        return {
            "schema": "ringwise.io/series/v1",
            "interval": self.interval,
            "times": [sample.time for sample in samples],
            "used": [sample.used for sample in samples],
            "free": [sample.free for sample in samples],
            "waiting": [sample.waiting for sample in samples],
            "fragmentation": [sample.fragmentation for sample in samples],
            "decisions": [sample.decisions for sample in samples],
        }
