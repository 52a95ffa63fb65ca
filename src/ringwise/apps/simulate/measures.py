"""What is measured while jobs wait and run: starts, chips in use, and chips that are free and of no use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from heapq import heappop, heappush

from ringwise.apps.simulate.jobs import SECOND, SimulatedJob
from ringwise.records import dataclass
from ringwise.views.documents.simulation import EstimateFields

#: Points of the curves over time.
_POINTS = 240


@dataclass(frozen=True, slots=True)
class Estimate:
    """What was said of a job that waited after it was submitted. Times in nanoseconds of the run."""

    number: int
    #: None: nothing is known; without a latest time it does not start before that.
    earliest: int | None
    latest: int | None
    guess: bool


@dataclass(slots=True)
class MoveTotals:
    """Jobs that were moved so that others could start."""

    #: Plans, and those after which the job that waited did not start.
    plans: int = 0
    failed_plans: int = 0
    #: Moved jobs, their chips, and chips times what a restart costs.
    jobs: int = 0
    chips: int = 0
    cost: int = 0


@dataclass(slots=True)
class RunOutcome:
    """One run: what a configuration, a policy or the bound made of the jobs. Times in nanoseconds."""

    name: str
    jobs: Sequence[SimulatedJob]
    chips: int
    #: When each job started first; None: it has not.
    starts: list[int | None]
    #: How often it was started again because its hardware broke, or because it had to make room.
    restarts: int = 0
    #: Chips times the time that those runs had lasted.
    lost: int = 0
    moves: MoveTotals = field(default_factory=MoveTotals)
    #: Chips in use times time, until the last job was submitted.
    used: int = 0
    #: How long the first job of the queue waited although as many chips as it asks for were free, and the
    #: chips that were free meanwhile times that time.
    blocked: int = 0
    idle_while_blocked: int = 0
    #: Until when it was simulated.
    end: int = 0
    #: Processor time of the run, in nanoseconds. Not part of the results: it differs from run to run.
    processor: int = 0
    interrupted: bool = False
    #: When jobs were expected to start that waited after they had come.
    estimates: list[Estimate] = field(default_factory=list)
    #: (time, chips in use, jobs that wait), in equal distances.
    curve: list[tuple[int, int, int]] = field(default_factory=list)


class Meter:
    """Sums up usage over time: notified of each change, then of the time until which nothing changes."""

    def __init__(self, outcome: RunOutcome) -> None:
        self.outcome = outcome
        jobs = outcome.jobs
        self._until = jobs[-1].submitted if jobs else 0
        self._step = max(1, self._until // _POINTS)
        self._next_point = 0
        self._now = 0
        #: Numbers of the jobs that wait, the first in the queue first; those that started are still in it.
        self._queue: list[int] = []
        self._waiting: set[int] = set()
        self._started = 0
        self.in_use = 0
        self.broken = 0

    def submitted(self, number: int) -> None:
        self._waiting.add(number)
        heappush(self._queue, number)

    def started(self, number: int) -> None:
        self._waiting.discard(number)
        self.in_use += self.outcome.jobs[number].chips
        if self.outcome.starts[number] is None:
            self.outcome.starts[number] = self._now
            self._started += 1

    def ended(self, number: int) -> None:
        self.in_use -= self.outcome.jobs[number].chips

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def started_count(self) -> int:
        return self._started

    @property
    def all_started(self) -> bool:
        return self._started == len(self.outcome.jobs)

    @property
    def free(self) -> int:
        """Chips that are neither in use nor broken."""
        return self.outcome.chips - self.in_use - self.broken

    def waits(self, number: int) -> bool:
        return number in self._waiting

    def head(self) -> SimulatedJob | None:
        """The job that has waited longest."""
        while self._queue and self._queue[0] not in self._waiting:
            heappop(self._queue)
        return self.outcome.jobs[self._queue[0]] if self._queue else None

    def pass_until(self, time: int) -> None:
        """Nothing changes until then."""
        outcome, span = self.outcome, time - self._now
        if span <= 0:
            return
        counted = min(time, self._until) - self._now
        if counted > 0:
            outcome.used += self.in_use * counted
        free = self.free
        head = self.head()
        if head is not None and free >= head.chips:
            outcome.blocked += span
            outcome.idle_while_blocked += span * free
        while self._next_point <= min(time, self._until) and len(outcome.curve) <= _POINTS:
            outcome.curve.append((self._next_point, self.in_use, self.waiting))
            self._next_point += self._step
        self._now = outcome.end = time


def quantile(values: Sequence[int], share: float) -> int:
    """The smallest value that this share of all does not exceed. `values` are sorted."""
    return values[max(0, min(len(values) - 1, -int(-share * len(values) // 1) - 1))]


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
