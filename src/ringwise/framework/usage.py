"""Who uses how much: totals per job and per queue, kept as pods come and go.

Plugins that deal in shares read it; nobody recounts pods in a cycle.
"""

from __future__ import annotations

from ringwise.framework.amounts import Amounts, add, amounts_of
from ringwise.state.model import PodClass


class Ledger:
    __slots__ = ("_amounts", "job", "queue", "total")

    def __init__(self) -> None:
        self.job: dict[str, Amounts] = {}
        self.queue: dict[str, Amounts] = {}
        #: What the cluster has.
        self.total: Amounts = {}
        self._amounts: dict[PodClass, Amounts] = {}

    def amounts(self, pod_class: PodClass) -> Amounts:
        found = self._amounts.get(pod_class)
        if found is None:
            found = self._amounts[pod_class] = amounts_of(pod_class)
        return found

    def took(self, job: str, queue: str, pod_class: PodClass, times: int = 1) -> None:
        asked = self.amounts(pod_class)
        add(self.job.setdefault(job, {}), asked, times)
        add(self.queue.setdefault(queue, {}), asked, times)

    def gave(self, job: str, queue: str, pod_class: PodClass) -> None:
        self.took(job, queue, pod_class, -1)
        if not self.job[job]:
            del self.job[job]

    def used_by_job(self, job: str) -> Amounts:
        return self.job.get(job, {})

    def used_by_queue(self, queue: str) -> Amounts:
        return self.queue.get(queue, {})
