"""What the view of the scheduler shows of faults and of jobs that are being rescheduled."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ringwise.scheduler.cache.leader_record import LeaderRecord
from ringwise.scheduler.faults.fault_job import FaultJob
from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.scheduler.faults.previous_placements import PreviousPlacements
from ringwise.scheduler.faults.restarts import WaitingRestart
from ringwise.scheduler.faults.times import FaultTimes


class FaultView:
    def __init__(
        self,
        faults: FaultHandler,
        previous: PreviousPlacements,
        record: LeaderRecord,
        times: FaultTimes,
    ) -> None:
        self._previous = previous
        self._record = record
        #: Jobs that a fault hit, while they are handled.
        self.jobs: Mapping[str, FaultJob] = MappingProxyType(faults.jobs)
        #: By job: faulty pods that are not restarted yet because of the restarts before.
        self.waiting_restarts: Mapping[str, WaitingRestart] = MappingProxyType(faults.restarts.waiting)
        self.clocks = faults.clocks
        self.clusterd_runs = faults.clusterd.runs
        self.tolerated = faults.detector.tolerated
        self.since = times.since
        self.awaits_hot_switch = faults.detector.awaits_hot_switch

    @property
    def rescheduling(self) -> int:
        return self._previous.rescheduling

    @property
    def preferred(self) -> int:
        return self._previous.preferred

    @property
    def left_out(self) -> int:
        return self._record.omitted

    @property
    def unread(self) -> Mapping[str, str]:
        return self._record.unread
