"""When running jobs are expected to end: the one answer for reservations and expected starts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from ringwise.durations import SECOND
from ringwise.framework.configuration import Settings
from ringwise.framework.job import Job
from ringwise.framework.limits import LimitTable
from ringwise.records import dataclass
from ringwise.state.cluster import ClusterState

#: Returns how long a job without an expected duration runs at least and at most, by the time for which it
#: has run; None: nothing is known.
Guess = Callable[[Job, int], tuple[int, int] | None]


class RunLength(NamedTuple):
    """How long a job runs: at least, and at most, if that is known."""

    least: int
    most: int | None
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class JobRun:
    """What runs: a job, or pods of no job."""

    job: Job
    pods: Sequence[str]
    earliest: int
    latest: int | None
    guessed: bool = False
    started: int = 0
    #: All pods of the job that have a node are being deleted.
    terminates: bool = False
    #: Of what is not a job.
    name: str = ""
    #: Nodes that others get when it ends, besides those of its pods.
    nodes: Sequence[int] = ()

    @property
    def title(self) -> str:
        return self.name or (self.job.full_name if self.job.key else self.pods[0])


def no_guess(job: Job, elapsed: int) -> None:
    """Use stated durations and limits only."""


def run_length(job: Job, longest: int | None, elapsed: int = 0, guess: Guess = no_guess) -> RunLength:
    """Return how long the job runs. `longest`: what limits allow."""
    if job.expected is not None:
        # When a job ends that exceeds its expected duration is not known.
        length = RunLength(job.expected, job.expected) if job.expected > elapsed else RunLength(elapsed, None)
    else:
        guessed = guess(job, elapsed)
        length = RunLength(elapsed, None) if guessed is None else RunLength(*guessed, guessed=True)
    if longest is None or (length.most is not None and length.most <= longest):
        return length
    least = min(length.least, longest)
    return RunLength(least, longest, length.guessed and least < longest)


def running_jobs(
    jobs: Mapping[str, Job],
    state: ClusterState,
    limits: LimitTable,
    settings: Settings,
    now: int,
    guess: Guess = no_guess,
    began: Collection[str] = (),
) -> list[JobRun]:
    """Return the jobs that have nodes, and when they end. `began`: jobs that start again at this moment."""
    placements, runs = state.pods, []
    for job in jobs.values():
        # Most jobs have only pods that stay, and the first of them is enough.
        placed = (pod for uid, pod in job.pods.items() if placements[uid].node >= 0)
        first = next(placed, None)
        if first is None:
            continue
        uids, is_new = tuple(job.pods), job.key in began
        # For a job that another scheduler placed: when it was created.
        started = job.created if job.started is None else job.started
        if not is_new and first.deleting and all(pod.deleting for pod in placed):
            gone = now + settings.grace_over_time * SECOND
            runs.append(JobRun(job, uids, now, gone, started=started, terminates=True))
            continue
        if is_new or (job.started is None and any(placements[uid].reserved for uid in uids)):
            # A job that waits for its claims begins now at the soonest.
            started = now
        if is_new:
            longest = limits.longest(job)
        else:
            end = limits.end_of(job, now)
            longest = None if end is None else end - started
        length = run_length(job, longest, max(0, now - started), guess)
        latest = None if length.most is None else max(now, started + length.most)
        runs.append(JobRun(job, uids, max(now, started + length.least), latest, length.guessed, started))
    return runs
