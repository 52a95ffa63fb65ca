"""F5: pods that kubelet rejected at admission: they never ran, and have not failed.

The controller of this project makes those of its vcjobs again. A pod of another owner is deleted, so that its
owner makes it again: at most five times, with growing distance. What nobody makes again is left, and an event
says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ringwise.durations import duration_text
from ringwise.framework.job import Job
from ringwise.messages.commands import Command, DeletePod, EvictionCause, RecordJobEvent
from ringwise.messages.event_reasons import EventReason
from ringwise.scheduler.cache.component import Context
from ringwise.scheduler.cache.record_tables import RecordTable
from ringwise.scheduler.faults.lost_pods import owner_of_pod
from ringwise.state.failures import MAX_REJECTIONS, pause_after
from ringwise.state.model import Owner, Pod
from ringwise.wellknown import JOB_CONTROLLER


class Rejections(NamedTuple):
    """How often pods were rejected one after the other, and the uid of the last one."""

    times: int
    last: str


class RejectedPods:
    def __init__(self, context: Context) -> None:
        self._job_of = context.book.job_of
        self._is_ours = context.book.is_ours
        #: By uid: when it is deleted; None: it is not, or was.
        self._due: dict[str, int | None] = {}
        self._new: dict[str, None] = {}
        #: By owner and name.
        self.counts = context.record.add(
            RecordTable("rejected-pods", Rejections, subject=lambda place, one: place.rpartition("/")[0])
        )

    def pod_seen(self, pod: Pod) -> None:
        if pod.rejected:
            if pod.uid not in self._due and not pod.deleting and pod.node is not None and self._is_ours(pod):
                self._new[pod.uid] = None
        elif self.counts and pod.phase in ("Running", "Succeeded"):
            self.counts.pop(_place(pod))

    def pod_gone(self, uid: str) -> None:
        self._due.pop(uid, None)
        self._new.pop(uid, None)

    def is_failed(self, pod: Pod) -> bool:
        """Whether it was rejected so often that it is not made again, and counts as failed."""
        times, last = self.counts.get(_place(pod), _NONE)
        return last == pod.uid and times > MAX_REJECTIONS

    def refused(self, uid: str, again: int) -> None:
        """The API server refused its deletion."""
        if uid in self._due:
            self._due[uid] = again

    def deadline(self) -> int | None:
        return min((due for due in self._due.values() if due is not None), default=None)

    def review(self, now: int) -> list[Command]:
        commands: list[Command] = []
        for uid in self._new:
            job = self._job_of(uid)
            if job is not None:
                self._due[uid] = None
                commands += self._rejected(job, job.pods[uid], now)
        self._new.clear()
        for uid in [uid for uid, due in self._due.items() if due is not None and due <= now]:
            self._due[uid] = None
            job = self._job_of(uid)
            pod = None if job is None else job.pods.get(uid)
            if pod is not None and not pod.deleting:
                why = f"kubelet rejected it ({pod.rejected}) before it ran, so that its owner makes it again"
                commands.append(
                    DeletePod(uid, pod.namespace, pod.name, why, fault=True, cause=EvictionCause.FAULT)
                )
        return commands

    def _rejected(self, job: Job, pod: Pod, now: int) -> Iterable[Command]:
        owner = pod.owner
        what = f"kubelet of {pod.node} rejected the pod ({pod.rejected}): it never ran"
        if owner is None or owner.loose:
            fix = "nothing makes a pod without an owner again. What helps: delete it and create it again"
            yield _warn(pod, f"{what}; {fix}")
        elif _is_batch_job(owner):
            counts = f"Job {owner.name} counts this as a failure (backoffLimit) and makes the next pod itself"
            yield _warn(pod, f"{what}; {counts}. If the job fails because of this, increase backoffLimit")
        elif not _is_of_our_controller(job, owner):
            place = _place(pod)
            before, last = self.counts.get(place) or _NONE
            # The leader before this one may have counted it.
            times = before + (last != pod.uid)
            self.counts.renew(place, Rejections(times, pod.uid))
            if times > MAX_REJECTIONS:
                left = f"this happened {times} times, and it is left as failed"
                yield _warn(pod, f"{what}; {left}. Check the events of the node, then delete the pod")
                return
            pause = pause_after(times)
            self._due[pod.uid] = now + pause
            again = f"it is deleted in {duration_text(pause)}, so that its owner makes it again"
            yield _warn(pod, f"{what}; {again} ({times} of {MAX_REJECTIONS})")


_NONE = Rejections(0, "")


def _place(pod: Pod) -> str:
    return f"{owner_of_pod(pod)}/{pod.name}"


def _is_batch_job(owner: Owner) -> bool:
    return owner.kind == "Job" and not owner.is_vcjob


def _is_of_our_controller(job: Job, owner: Owner) -> bool:
    """Also while its PodGroup is not there: it comes, or the job is over."""
    return owner.is_vcjob and (job.group is None or JOB_CONTROLLER in job.group.labels)


def _warn(pod: Pod, message: str) -> RecordJobEvent:
    return RecordJobEvent(pod.key, EventReason.POD_REJECTED, message, pod=pod.uid, warning=True)
