"""How good the estimates are: asked for when a job is submitted, compared with when it started."""

from __future__ import annotations

from dataclasses import field

from ringwise.apps.simulate.measures import Estimate, quantile
from ringwise.records import dataclass

#: Jobs of a run that are asked about, at most: every answer plays the whole queue forward.
MAX_ESTIMATES = 100


@dataclass(slots=True)
class Estimates:
    """Asks about jobs at equal distances, whichever of them wait."""

    jobs: int
    asks: bool = True
    made: list[Estimate] = field(default_factory=list)
    _next: int = 0

    def is_due(self, number: int) -> bool:
        return self.asks and number >= self._next

    def add(self, estimate: Estimate) -> None:
        self.made.append(estimate)
        self._next = estimate.number + max(1, -(-self.jobs // MAX_ESTIMATES))


@dataclass(frozen=True, slots=True)
class EstimateQuality:
    """Of estimates for jobs that have started."""

    jobs: int
    #: With a range; only with a time before which it does not start; the others have neither.
    ranges: int
    not_before: int
    guesses: int
    #: From the middle of the range to the start, in nanoseconds; None: there are no ranges.
    median_error: int | None
    p90_error: int | None
    #: Share of those with a range or a bound that started inside it; None: there are none.
    inside: float | None


def quality(estimates: list[Estimate], starts: list[int | None]) -> EstimateQuality:
    judged = [(one, start) for one in estimates if (start := starts[one.number]) is not None]
    errors: list[int] = []
    bounds = inside = 0
    for one, start in judged:
        if one.earliest is None:
            continue
        if one.latest is None:
            bounds += 1
            inside += start >= one.earliest
        else:
            errors.append(abs(start - (one.earliest + one.latest) // 2))
            inside += one.earliest <= start <= one.latest
    errors.sort()
    compared = len(errors) + bounds
    return EstimateQuality(
        len(judged),
        len(errors),
        bounds,
        sum(one.guess for one, _ in judged),
        quantile(errors, 0.5) if errors else None,
        quantile(errors, 0.9) if errors else None,
        inside / compared if compared else None,
    )
