"""How far a fault may move the pods of a job, growing with the time since the fault (R3, F2)."""

from __future__ import annotations

import enum
from collections.abc import Set

from ringwise.placement.racks.model import RackShape
from ringwise.records import dataclass


class Level(enum.IntEnum):
    """How far a fault may move pods."""

    POD = 0
    RACK = 1
    BLOCK = 2
    JOB = 3


@dataclass(frozen=True, slots=True)
class LevelTimes:
    """Seconds after the fault at which the next level begins (F2)."""

    rack: float = 3
    block: float = 6
    job: float = 12

    def level_at(self, seconds: float) -> Level:
        if seconds >= self.job:
            return Level.JOB
        if seconds >= self.block:
            return Level.BLOCK
        return Level.RACK if seconds >= self.rack else Level.POD


def reschedule_level(
    seconds: float,
    times: LevelTimes,
    shape: RackShape,
    faulty_ranks: Set[int],
    *,
    pod_level: bool,
    process_level: bool = False,
    only_pods: bool = False,
) -> Level:
    """The level of a job now (R3, F2).

    `pod_level`: `pod-rescheduling: on`. `process_level`: `process-recover-enable: on`, which
    goes no further than racks. `only_pods`: the job's recovery is limited to faulty pods.
    Without any of these, and where rank 0 is hit, the whole job is restarted at once.
    """
    if only_pods:
        return Level.POD
    if not (pod_level or process_level):
        return Level.JOB
    level = times.level_at(seconds)
    if process_level:
        level = min(level, Level.RACK)
    rank_0_is_hit = (
        0 in faulty_ranks
        or (level >= Level.RACK and any(shape.group_of(rank) == 0 for rank in faulty_ranks))
        or (level >= Level.BLOCK and any(shape.block_of(rank) == 0 for rank in faulty_ranks))
    )
    return Level.JOB if rank_0_is_hit else level
