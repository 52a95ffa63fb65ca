"""How much of a job is restarted after a fault: pod, rack, block or the whole job (F2, R3).

A job that asks for pod level begins with its faulty pods alone. While it is not complete again, larger parts
follow after some seconds: the logical racks and blocks of the pods that it lacks, then the whole job.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ringwise.framework.configuration import Settings
from ringwise.placement.racks.levels import Level, LevelTimes
from ringwise.records import dataclass
from ringwise.scheduler.faults.policy import FaultPolicy, ProcessRecovery


@dataclass(frozen=True, slots=True)
class Position:
    """Where a pod is in its job; -1 where the job has no blocks or racks."""

    rank: int
    block: int = -1
    rack: int = -1
    #: Rank 0 of the pods with chips, unless its owner calls it a worker.
    master: bool = False


def level_times(settings: Settings) -> LevelTimes:
    return LevelTimes(
        settings.reschedule_rack_after, settings.reschedule_block_after, settings.reschedule_job_after
    )


@dataclass(frozen=True, slots=True)
class LostParts:
    """Which places of a job are lost, and which are there."""

    affected: tuple[Position, ...] = ()
    present: tuple[Position, ...] = ()

    @property
    def blocks(self) -> bool:
        return any(place.block >= 0 for place in (*self.affected, *self.present))

    @property
    def without_master(self) -> LostParts:
        """As if rank 0 were any other rank."""
        return LostParts(tuple(replace(place, master=False) for place in self.affected), self.present)

    @property
    def racks(self) -> bool:
        return any(place.rack >= 0 for place in (*self.affected, *self.present))


def level_now(policy: FaultPolicy, times: LevelTimes, seconds: float, lost: LostParts) -> Level:
    """F2: the level of a job that was incomplete for some seconds after its faulty pods were gone."""
    if policy.only_pods:
        return Level.POD
    if policy.restarts_as_a_whole:
        return Level.JOB
    level = times.level_at(seconds)
    if policy.process_recovery is ProcessRecovery.ON:
        level = min(level, Level.RACK)
    if level is Level.BLOCK and not lost.blocks:
        level = Level.RACK
    if level is Level.RACK and not lost.racks:
        level = Level.POD
    return effective_level(policy, level, lost.affected, lost.present)


def next_level(
    policy: FaultPolicy, times: LevelTimes, seconds: float, lost: LostParts, reached: Level
) -> tuple[float, Level] | None:
    """After how many seconds in all which higher level begins; None when there is none."""
    for limit in sorted({times.rack, times.block, times.job}):
        level = level_now(policy, times, limit, lost) if limit > seconds else reached
        if level > reached:
            return limit, level
    return None


def is_in_scope(pod: Position, level: Level, affected: Iterable[Position]) -> bool:
    """Whether a healthy pod is restarted with the affected pods of its job, at this level."""
    if level is Level.JOB:
        return True
    for one in affected:
        if level >= Level.BLOCK and one.block == pod.block >= 0:
            return True
        if level >= Level.RACK and one.rack == pod.rack >= 0:
            return True
    return False


def effective_level(
    policy: FaultPolicy, level: Level, affected: Iterable[Position], present: Iterable[Position]
) -> Level:
    """The rank 0 rule: where the master is affected, or is restarted with others, the whole job restarts."""
    affected = tuple(affected)
    if policy.only_pods or level is Level.JOB:
        return level
    if any(pod.master for pod in affected):
        return Level.JOB
    if any(pod.master and is_in_scope(pod, level, affected) for pod in present):
        return Level.JOB
    return level
