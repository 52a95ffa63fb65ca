"""F2: the clock of a job that lost pods. Handler, placement, reasons and `why` read the level from it.

It counts the seconds in which the job could be complete and is not, and is kept as seconds counted, not as a
date: a wait for terminating pods, for the owner of the pods or for a scheduler does not make it older.
"""

from __future__ import annotations

from dataclasses import field

from ringwise.durations import SECOND, seconds_text
from ringwise.placement.racks.levels import Level
from ringwise.records import NOT_RECORDED, dataclass


@dataclass(slots=True)
class RescheduleClock:
    """Only `scheduler.faults.clocks` changes one."""

    #: Who creates the pods again: another job of the same name has another clock.
    owner: str
    #: When the job last lost a pod, in nanoseconds.
    since: int
    #: The largest part of the job that may move, and that was restarted so far.
    level: Level = Level.POD
    #: Nanoseconds that were counted until `running`.
    counted: int = 0
    #: Since when it counts; None while it stands.
    running: int | None = field(default=None, metadata=NOT_RECORDED)
    #: It does not count beyond these nanoseconds.
    most: int | None = field(default=None, metadata=NOT_RECORDED)
    #: The label `process-recover-enable` when it was looked at last.
    recovery: str = ""
    #: After how many seconds in all which higher level begins; None: none does, and why.
    next_after: float | None = field(default=None, metadata=NOT_RECORDED)
    next_level: Level = field(default=Level.POD, metadata=NOT_RECORDED)
    stays: str = field(default="", metadata=NOT_RECORDED)

    def seconds(self, now: int) -> float:
        return self._counted(now) / SECOND

    def read(self, now: int) -> None:
        """Add what it counted until now."""
        self.counted = self._counted(now)
        if self.running is not None:
            self.running = now

    def _counted(self, now: int) -> int:
        counted = self.counted if self.running is None else self.counted + max(0, now - self.running)
        return counted if self.most is None else min(counted, self.most)

    @property
    def outlook(self) -> str:
        """What time alone will change for a lost pod that finds no node."""
        if self.next_after is None:
            return self.stays if self.level is not Level.JOB else ""
        after = seconds_text(self.next_after)
        return f"{_NEXT[self.next_level]} after {after} without a node"


_NEXT = {
    Level.POD: "nothing changes",
    Level.RACK: "other racks are tried",
    Level.BLOCK: "its block moves as a whole",
    Level.JOB: "the whole job moves",
}
