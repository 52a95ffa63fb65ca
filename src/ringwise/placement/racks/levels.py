"""How far a fault may move the pods of a job, growing with the seconds that its clock counted (R3, F2)."""

from __future__ import annotations

import enum

from ringwise.records import dataclass


class Level(enum.IntEnum):
    """How far a fault may move pods."""

    POD = 0
    RACK = 1
    BLOCK = 2
    JOB = 3


@dataclass(frozen=True, slots=True)
class LevelTimes:
    """Seconds after which the next level begins (F2)."""

    rack: float = 3
    block: float = 6
    job: float = 12

    def level_at(self, seconds: float) -> Level:
        if seconds >= self.job:
            return Level.JOB
        if seconds >= self.block:
            return Level.BLOCK
        return Level.RACK if seconds >= self.rack else Level.POD
