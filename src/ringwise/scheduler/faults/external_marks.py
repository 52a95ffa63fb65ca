"""`external-*`: faulty pods are marked (`huawei.com/pod-status`), and another component deletes them."""

from __future__ import annotations

from ringwise.framework.job import Job
from ringwise.messages.commands import AnnotatePod, Command
from ringwise.scheduler.faults.fault_job import Deletion, FaultJob
from ringwise.wellknown import POD_STATUS


def plan(handled: FaultJob) -> None:
    for uid, pod in handled.faulty.items():
        if uid not in handled.deletions:
            handled.deletions[uid] = Deletion(pod.name, pod.position)


def mark(handled: FaultJob, job: Job, uid: str) -> Command:
    pod = handled.faulty[uid]
    return AnnotatePod(uid, job.namespace, pod.name, {POD_STATUS: f"Unhealthy-{pod.fault.type.value}"})


def unmark(handled: FaultJob, job: Job, uid: str) -> Command:
    """The pod is healthy again and was not deleted: a mark that stays would have it deleted later."""
    gone = handled.deletions.pop(uid)
    handled.faulty.pop(uid, None)
    return AnnotatePod(uid, job.namespace, gone.name, {}, remove=(POD_STATUS,))
