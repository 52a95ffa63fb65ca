"""The history in numbers: a ring of samples at equal distances."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ringwise.durations import SECOND
from ringwise.views.documents.dashboard import DashboardChips, DashboardTotals, SeriesChips, SeriesDocument

#: Seconds between two samples, and of all samples together.
SAMPLE_INTERVAL = 5.0
REMEMBERED = 3600.0


class _Sample(NamedTuple):
    time: float
    totals: DashboardTotals
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
            self._samples[-1] = self._samples[-1]._replace(totals=totals)
            return
        if who is not counter:
            before = 0
        seconds = (now - since) / SECOND
        self._last = now, bindings, counter
        self._samples.append(
            _Sample(
                now / SECOND,
                totals,
                round(max(0, bindings - before) / seconds, 3) if seconds > 0 else 0.0,
            )
        )

    def document(self) -> SeriesDocument:
        samples = list(self._samples)
        totals = [sample.totals["resources"] for sample in samples]
        return {
            "schema": "ringwise.io/series/v1",
            "interval_seconds": self.interval,
            "times": [sample.time for sample in samples],
            "resources": {
                resource: _chips([one.get(resource) for one in totals])
                for resource in sorted({resource for one in totals for resource in one})
            },
            "pending": [sample.totals["pending"] for sample in samples],
            "rejected": [sample.totals["rejected"] for sample in samples],
            "decisions": [sample.decisions for sample in samples],
        }


def _chips(chips: list[DashboardChips | None]) -> SeriesChips:
    """None: the cluster had no chip of this resource then."""
    return {
        "used": [0 if one is None else one["used"] for one in chips],
        "free": [0 if one is None else one["free"] for one in chips],
        "fragmentation": [0.0 if one is None else one["fragmentation"] for one in chips],
    }
