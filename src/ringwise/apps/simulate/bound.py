"""The counting bound: a cluster in which a job fits if as many chips are free as it asks for.

It serves one queue strictly in order. If the order is strict, no job starts before it does here, whatever
places the jobs: by induction over the queue, all jobs before it have started here by the time they have
there, so those that still run here run there as well, and use at least these chips. Rings, nodes, switches
and hardware that breaks only take chips away. (A job that does not fit into what faults have left of the
cluster does not block others; then jobs behind it may start earlier than here.) If jobs may overtake others,
it is not a bound of the mean: small jobs start sooner when large ones starve.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from ringwise.apps.simulate.jobs import SimulatedJob
from ringwise.apps.simulate.measures import Meter, RunOutcome

NAME = "bound"


def count_chips(
    jobs: Sequence[SimulatedJob], chips: int, on_progress: Callable[[int], None] = lambda done: None
) -> RunOutcome:
    outcome = RunOutcome(NAME, jobs, chips, [None] * len(jobs))
    meter = Meter(outcome)
    ends: list[tuple[int, int]] = []
    come = served = 0
    while served < len(jobs):
        times = [ends[0][0]] if ends else []
        if come < len(jobs):
            times.append(jobs[come].submitted)
        now = min(times)
        meter.pass_until(now)
        while ends and ends[0][0] <= now:
            meter.ended(heappop(ends)[1])
        while come < len(jobs) and jobs[come].submitted <= now:
            meter.submitted(come)
            come += 1
        while served < come and jobs[served].chips <= chips - meter.in_use:
            meter.started(served)
            heappush(ends, (now + jobs[served].duration, served))
            served += 1
        on_progress(served)
    return outcome
