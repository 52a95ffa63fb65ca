"""Pods that other components create again or delete: rejected by kubelet, or of jobs with `external-*`.

F5: pods that kubelet rejected at admission never ran, and have not failed. The controller of this project
creates those of its vcjobs again. A pod of another owner is deleted, so that its owner creates it again: at
most five times, after increasing delays. A pod that no controller creates again is left as it is, and an
event reports that.

`external-*`: faulty pods are marked (`huawei.com/pod-status`), and another component deletes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from ringwise.durations import SECOND, duration_text
from ringwise.framework.job import Job
from ringwise.messages import events as ev
from ringwise.messages.commands import AnnotatePod, Command, DeletePod, EvictionCause, RecordJobEvent
from ringwise.messages.event_reasons import EventReason
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on
from ringwise.scheduler.cache.record_tables import RecordTable, RestoredRecord
from ringwise.scheduler.faults.fault_job import FaultJob
from ringwise.scheduler.faults.lost_pods import owner_of_pod
from ringwise.state.failures import MAX_REJECTIONS, pause_after
from ringwise.state.model import Owner, Pod
from ringwise.wellknown import JOB_CONTROLLER, POD_STATUS


class Rejections(NamedTuple):
    """How often pods were rejected one after the other, and the uid of the last one."""

    times: int
    last: str


#: Seconds before what the API server refused is tried again.
DELETE_AGAIN_AFTER = 5


class RejectedPods(Component):
    name = "rejected pods"

    def __init__(self, context: Context, jobs: Mapping[str, FaultJob]) -> None:
        super().__init__(context)
        self._jobs = jobs
        #: Uids of such pods, of those to be looked at, and when pods are deleted.
        self._seen: dict[str, None] = context.pod_tables.add({})
        self._new: dict[str, None] = context.pod_tables.add({})
        self._due = context.pod_tables.add(context.deadlines.table())
        #: By owner and name.
        self.counts = context.record.add(
            RecordTable("rejected-pods", Rejections, subject=lambda place, one: place.rpartition("/")[0])
        )

    @on(ie.PodChanged)
    def _pod_changed(self, event: ie.PodChanged, now: int) -> None:
        pod = self._state.pods[event.pod.uid].pod
        if pod.rejected:
            is_new = pod.uid not in self._seen and not pod.deleting and pod.node is not None
            if is_new and event.job is not None and self._book.is_ours(pod):
                self._new[pod.uid] = None
        elif self.counts and event.job is not None and pod.phase in ("Running", "Succeeded"):
            self.counts.pop(_place(pod))

    def is_failed(self, pod: Pod) -> bool:
        """Whether it was rejected so often that it is not made again, and counts as failed."""
        times, last = self.counts.get(_place(pod), _NONE)
        return last == pod.uid and times > MAX_REJECTIONS

    @on(ev.EvictFailed)
    def _refused(self, event: ev.EvictFailed, now: int) -> None:
        """The API server refused its deletion; the fault handler tries that of one that failed again."""
        job = self._book.job_of(event.uid)
        handled = None if job is None else self._jobs.get(job.key)
        if event.uid in self._seen and (handled is None or event.uid not in handled.deletions):
            self._due.put(event.uid, now + DELETE_AGAIN_AFTER * SECOND)

    def restore(self, record: RestoredRecord, now: int) -> None:
        self.counts.update(record.of(self.counts))

    def act(self, now: int) -> Iterator[Command]:
        new = list(self._new)
        self._new.clear()
        for uid in new:
            job = self._book.job_of(uid)
            if job is not None:
                self._seen[uid] = None
                commands: list[Command] = []
                # A job that raises must not take the pods of others along: each is looked at once.
                handle = partial(commands.extend, self._rejected(job, job.pods[uid], now))
                self._containment.attempt("job", job.key, handle, work=self.name)
                yield from commands
        for uid in self._due.take(now):
            job = self._book.job_of(uid)
            pod = None if job is None else job.pods.get(uid)
            if pod is not None and not pod.deleting:
                why = f"kubelet rejected it ({pod.rejected}) before it ran, so that its owner makes it again"
                yield DeletePod(uid, pod.namespace, pod.name, why, fault=True, cause=EvictionCause.FAULT)

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
            self._due.put(pod.uid, now + pause)
            again = f"it is deleted in {duration_text(pause)}, so that its owner makes it again"
            yield _warn(pod, f"{what}; {again} ({times} of {MAX_REJECTIONS})")


class Removals(Component):
    """Marks that are to be gone, until they are: a removal that the API server refuses is asked for again."""

    name = "marks of faulty pods"

    def __init__(self, context: Context, jobs: Mapping[str, FaultJob]) -> None:
        super().__init__(context)
        self._jobs = jobs
        #: Uids of the pods, and when a refused removal is asked for again.
        self._pods: dict[str, None] = context.pod_tables.add({})
        self._again = context.pod_tables.add(context.deadlines.table())

    def remove(self, job: Job, name: str, uid: str) -> Command:
        self._pods[uid] = None
        return AnnotatePod(uid, job.namespace, name, {}, remove=(POD_STATUS,))

    @on(ev.EvictFailed)
    def _refused(self, event: ev.EvictFailed, now: int) -> None:
        if event.uid in self._pods:
            self._again.put(event.uid, now + DELETE_AGAIN_AFTER * SECOND)

    @on(ie.PodChanged)
    def _pod_changed(self, event: ie.PodChanged, now: int) -> None:
        if POD_STATUS not in self._state.pods[event.pod.uid].pod.annotations:
            self._drop(event.pod.uid)

    def _drop(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self._again.pop(uid)

    def act(self, now: int) -> Iterator[Command]:
        for uid in self._again.take(now):
            job = self._book.job_of(uid)
            handled = None if job is None else self._jobs.get(job.key)
            if job is None or (handled is not None and uid in handled.deletions):
                self._drop(uid)  # It is gone, or was marked again.
            else:
                yield self.remove(job, job.pods[uid].name, uid)


def mark(handled: FaultJob, job: Job, uid: str) -> Command:
    pod = handled.faulty[uid]
    return AnnotatePod(uid, job.namespace, pod.name, {POD_STATUS: f"Unhealthy-{pod.fault.type.value}"})


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
