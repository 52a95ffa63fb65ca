"""The jobs of a simulation: when they come, how long they run, and the pods that a board allows for them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from math import ceil, log

from ringwise.records import dataclass
from ringwise.topology.board import Board
from ringwise.wellknown import SCHEDULE_POLICY, SP_BLOCK, TOR_AFFINITY

SECOND = 1_000_000_000
HOUR = 3600 * SECOND


@dataclass(frozen=True, slots=True)
class SimulatedJob:
    """A job as a trace has it. Times in nanoseconds, the first job comes at 0."""

    number: int
    submitted: int
    duration: int
    chips: int


@dataclass(frozen=True, slots=True)
class SimulatedShape:
    """The pods that a job of so many chips has."""

    pods: int
    chips_per_pod: int
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def chips(self) -> int:
        return self.pods * self.chips_per_pod


@dataclass(frozen=True, slots=True)
class Shaping:
    """How the jobs of a trace, which only name chips, become jobs of a board."""

    board: Board
    multi_pod_requests: str = "document"
    #: The label `tor-affinity` of jobs with several pods.
    tor_affinity: str | None = None
    #: Nodes of a SuperPoD, for the blocks of jobs on boards that have them.
    superpod_size: int = 48

    def shape(self, chips: int) -> SimulatedShape | None:
        """None where the board allows no such job (N2)."""
        board = self.board
        if chips in board.one_pod:
            return self._made(1, chips)
        for size in sorted(board.requests(2, self.multi_pod_requests), reverse=True):
            if chips % size == 0 and chips // size > 1:
                return self._made(chips // size, size)
        return None

    def _made(self, pods: int, chips: int) -> SimulatedShape:
        labels = dict(self.board.job_labels)
        if self.tor_affinity and pods > 1:
            labels[TOR_AFFINITY] = self.tor_affinity
        annotations = {SCHEDULE_POLICY: self.board.policies[0]} if self.board.policies else {}
        if self.board.superpod:
            block = next(size for size in range(min(pods, self.superpod_size), 0, -1) if pods % size == 0)
            annotations[SP_BLOCK] = str(block * chips)
        return SimulatedShape(pods, chips, labels, annotations)


def in_order(jobs: Iterable[tuple[int, int, int]]) -> list[SimulatedJob]:
    """Jobs from (submitted, duration, chips), the first to come first."""
    rows = sorted(jobs, key=lambda row: row[0])
    first = rows[0][0] if rows else 0
    return [SimulatedJob(number, at - first, lasts, chips) for number, (at, lasts, chips) in enumerate(rows)]


def mean_demand(jobs: Sequence[SimulatedJob]) -> float:
    """Chips in use at a time, on average, if no job had to wait and the last came at the end."""
    span = jobs[-1].submitted if jobs else 0
    return sum(job.duration * job.chips for job in jobs) / span if span else 0.0


def nodes_for_load(jobs: Sequence[SimulatedJob], chips_per_node: int, load: float) -> int:
    """How many nodes are used to this part, rounded up."""
    return max(1, ceil(mean_demand(jobs) / chips_per_node / load))


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
