"""A generated job mix: arrivals at random, sizes by their shares, most jobs short and a few very long."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import field
from math import log

from ringwise.apps.simulate.jobs import HOUR, SECOND, SimulatedJob, in_order
from ringwise.records import dataclass

#: Shares of jobs by their chips: many small ones, and a few that take most of the chips.
SIZES: Mapping[int, float] = {1: 70.0, 2: 6.0, 4: 6.0, 8: 14.0, 16: 2.0, 32: 1.5, 64: 0.5}

#: No job runs for longer than so many times the ninth decile: one alone would be most of the work.
_LONGEST = 8


@dataclass(frozen=True, slots=True)
class JobMix:
    jobs: int = 2000
    #: By chips, how many jobs of all have so many.
    sizes: Mapping[int, float] = field(default_factory=lambda: SIZES)
    #: Half of the jobs run for longer than this; nine tenths for less than that.
    median: int = HOUR // 2
    p90: int = 12 * HOUR


def generate(mix: JobMix, chips: int, load: float, seed: str) -> list[SimulatedJob]:
    """Jobs that would use this part of the chips, on average. Equal seeds give equal jobs."""
    chance = random.Random(f"{seed}/jobs")
    # The ninth decile of the normal distribution is 1.2816.
    spread = log(mix.p90 / mix.median) / 1.2816
    sizes = chance.choices(list(mix.sizes), list(mix.sizes.values()), k=mix.jobs)
    most = _LONGEST * mix.p90
    durations = [
        max(SECOND, round(min(most, mix.median * chance.lognormvariate(0.0, spread))) // SECOND * SECOND)
        for _ in sizes
    ]
    work = sum(size * duration for size, duration in zip(sizes, durations, strict=True))
    span = work / (chips * load)
    arrivals = sorted(round(chance.uniform(0.0, span)) // SECOND * SECOND for _ in sizes)
    return in_order(zip(arrivals, durations, sizes, strict=True))
