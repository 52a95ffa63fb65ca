"""Which pending jobs the next cycle tries, and which wait until a trigger can cure their reason."""

from __future__ import annotations

from collections.abc import Iterable

from ringwise.framework.job import Job
from ringwise.reasons import CAPACITY, Trigger


class PendingQueue:
    def __init__(self) -> None:
        #: Jobs to try in the next cycle, in the order in which they were activated.
        self.active: dict[str, None] = {}
        #: Jobs that did not fit, with the triggers that can cure their reason.
        self._parked: dict[str, frozenset[Trigger]] = {}
        self._by_trigger: dict[Trigger, dict[str, None]] = {trigger: {} for trigger in Trigger}

    def activate(self, key: str) -> None:
        """The job is tried in the next cycle."""
        for trigger in self._parked.pop(key, ()):
            self._by_trigger[trigger].pop(key, None)
        self.active[key] = None

    def forget(self, key: str) -> None:
        self.activate(key)
        self.active.pop(key, None)

    def wake(self, triggers: Iterable[Trigger]) -> None:
        """Activate every job whose reason one of these triggers can cure."""
        if Trigger.CONFIGURATION_CHANGED in triggers:
            # New actions or plugins may help any job, whatever its reason was under the old ones.
            for key in list(self._parked):
                self.activate(key)
        for trigger in sorted(triggers, key=lambda trigger: trigger.name):
            for key in list(self._by_trigger[trigger]):
                self.activate(key)

    def pop_active(self) -> list[str]:
        """The jobs to try now. Each must be settled afterwards."""
        keys = list(self.active)
        self.active.clear()
        return keys

    def settle(self, job: Job, pending: bool, now: int) -> None:
        """After a cycle: a job that is still pending is parked until its reason can be cured."""
        if not pending:
            job.waiting_since = None
            return
        if job.waiting_since is None:
            job.waiting_since = now
        cured_by = job.reason.kind.cured_by if job.reason is not None else CAPACITY
        if any(
            pod.cls.pod_affinity or pod.cls.pod_anti_affinity or pod.cls.spread for pod in job.pods.values()
        ):
            # Whatever the reason: where other pods are, and which of them count, decides where these may be.
            cured_by |= {Trigger.POD_PLACED, Trigger.NAMESPACE_CHANGED}
        if job.has_claims:
            # Where volumes are, and which of them are free.
            cured_by |= {Trigger.VOLUME_CHANGED}
        self._parked[job.key] = cured_by
        for trigger in cured_by:
            self._by_trigger[trigger][job.key] = None
