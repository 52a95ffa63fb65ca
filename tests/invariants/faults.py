"""A job that wants to be rescheduled after a fault leaves the hardware that broke."""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.messages.commands import DeletePod, Evict
from ringwise.messages.events import Decide
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.wellknown import FAULT_SCHEDULING
from tests.invariants.ledger import Ledger, chips_in


def pods_leave_unhealthy_chips(ledger: Ledger, scheduler: Scheduler) -> Iterator[str]:
    """docs/guides/rescheduling.md: with `fault-scheduling: force` a pod on an unhealthy chip is deleted.

    In the same turn, where it was complete before and no restart of it backs off.
    """
    if ledger.decide is not Decide.ALL:
        return
    faults, view = scheduler._components.of(FaultHandler), scheduler.view
    going = {one.uid for one in ledger.commands if isinstance(one, DeletePod | Evict)}
    for uid, held in ledger.held.items():
        pod, job = ledger.pods[uid], view.job_of(uid)
        if job is None or job.labels.get(FAULT_SCHEDULING) != "force" or uid in going or uid in job.backups:
            continue
        report = ledger.reports.get((held.node, pod.cls.resource or ""), {}).get(False)
        broken = report is not None and not held.chips.isdisjoint(chips_in(report.unhealthy))
        if not broken or not ledger.stays(uid) or job.key in faults.restarts.waiting:
            continue
        if faults.jobs.would_handle(job):
            yield f"{pod.key} is on unhealthy chips of {held.node}, and stays"
