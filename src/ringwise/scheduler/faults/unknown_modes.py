"""Jobs whose `fault-scheduling` cannot be read: that nothing is done shows only when hardware breaks."""

from __future__ import annotations

from collections.abc import Iterable

from ringwise.framework.job import Job
from ringwise.messages.commands import Command
from ringwise.scheduler.faults import job_events
from ringwise.scheduler.faults.detection import PodFault
from ringwise.scheduler.faults.policy import FaultPolicy
from ringwise.state.model import Pod


class UnknownModes:
    def __init__(self) -> None:
        #: By job: what was told already. It is told once, not at each report of the hardware.
        self._told: dict[str, str] = {}

    def tell(
        self, job: Job, policy: FaultPolicy, faults: Iterable[tuple[Pod, PodFault | None]]
    ) -> list[Command]:
        """An event for the first of its pods that is faulty."""
        note = policy.unknown_mode
        if self._told.get(job.key) == note:
            return []
        found = next((f"{pod.name}: {fault.why}" for pod, fault in faults if fault is not None), "")
        if not found:
            return []
        self._told[job.key] = note
        return [job_events.policy_note(job, f"{found}; no pod is restarted: {note}")]

    def forget(self, job: str) -> None:
        self._told.pop(job, None)
