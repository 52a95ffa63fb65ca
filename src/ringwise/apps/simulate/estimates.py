"""How good the estimates are: asked for when a job is submitted, compared with when it started."""

from __future__ import annotations

from dataclasses import field

from ringwise.apps.simulate.jobs import SECOND
from ringwise.apps.simulate.measures import Estimate, quantile
from ringwise.records import dataclass
from ringwise.views.documents.simulation import EstimateFields

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


def quality(estimates: list[Estimate], starts: list[int | None]) -> EstimateFields | None:
    """Of estimates for jobs that have started; None: there are none."""
    judged = [(one, start) for one in estimates if (start := starts[one.number]) is not None]
    if not judged:
        return None
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
    return EstimateFields(
        jobs=len(judged),
        ranges=len(errors),
        not_before=bounds,
        estimated_durations=sum(one.guess for one, _ in judged),
        # From the middle of the range to the start.
        median_error_seconds=round(quantile(errors, 0.5) / SECOND, 1) if errors else None,
        p90_error_seconds=round(quantile(errors, 0.9) / SECOND, 1) if errors else None,
        within_range_ratio=round(inside / compared, 4) if compared else None,
    )
