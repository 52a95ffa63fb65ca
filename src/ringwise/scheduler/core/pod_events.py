"""What events about pods, PodGroups and vcjobs change, and which pending jobs they activate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ringwise.framework.job import Job, differs_for_job
from ringwise.messages import events as ev
from ringwise.reasons import Trigger
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, on
from ringwise.scheduler.view import as_bound
from ringwise.state.owned_annotations import without_stray

#: Node and chips of a pod that has none.
_NOT_PLACED = (-1, 0)


class PodEvents(Component):
    def current_events(self) -> Iterator[ev.Event]:
        yield from map(ev.PodGroupSeen, self._book.groups.values())
        yield from map(ev.VcJobSeen, self._book.vcjobs.values())
        yield from (ev.PodSeen(as_bound(record, self._state)) for record in self._state.pods.values())

    @on(ev.PodSeen)
    def _pod_seen(self, event: ev.PodSeen, now: int) -> None:
        pod = self._book.with_part(event.pod if event.pod.node is not None else without_stray(event.pod))
        # A report without a node is from before the binding: the state keeps what is assumed.
        evicted = pod.node is not None and self._assumed.is_evicted(pod)
        if evicted:
            # Its status or its annotations changed while the eviction is under way, which succeeds, or fails
            # with an event.
            pod = replace(pod, deleting=True)
        before = self._state.pods.get(pod.uid)
        placed = (before.node, before.chips | before.part_chips) if before is not None else _NOT_PLACED
        served = before is not None and before.settled
        assumed = before is not None and before.assumed
        leaves = pod.deleting and before is not None and before.node >= 0 and not before.pod.deleting
        if pod.deleting or not pod.live:
            self._notify(ie.PodEnding(pod.uid, pod), now)
        job_before = self._book.job_of(pod.uid)
        job = self._book.put_pod(pod)
        if job is not None and (before is None or differs_for_job(before.pod, pod)):
            self._notify(ie.JobSpecChanged(job.key), now)
        if job_before is not None and job_before is not job:
            # It got a PodGroup. No job ended, and what its own one held is held by the other.
            self._left(job_before, now)
        placement = self._state.pods[pod.uid]
        if placement.pod is pod and not evicted:
            self._assumed.forget(pod.uid)
        lost = placed[0] >= 0 and placement.node < 0
        if lost:
            self._placement_ended(job)
        elif placed[0] >= 0 and (
            placed != (placement.node, placement.chips | placement.part_chips) or placement.settled > served
        ):
            # Another scheduler bound it elsewhere than we assumed, or its device plugin has served it: pods
            # that the device plugin could have mixed up with it may be bound now.
            self._triggers.add(Trigger.CHIPS_FREED)
        elif placed[0] < 0 <= placement.node:
            self._triggers.add(Trigger.POD_PLACED)
        is_bound = placement.node >= 0 and not placement.assumed and not pod.deleting
        confirmed = assumed and job is not None and is_bound
        if confirmed:
            self._notify(ie.PodConfirmed(pod.uid), now)
        only = confirmed and job is not None and job.group is None
        self._notify(ie.PodChanged(job, pod, placed[0], placement.node, lost, only), now)
        if job is not None and leaves:
            self._notify(ie.PodLeaving(job, pod), now)
        if job is not None and not only:
            self._job_seen(job, now)

    @on(ev.PodGone)
    def _pod_gone(self, event: ev.PodGone, now: int) -> None:
        placement = self._state.pods.get(event.uid)
        number = placement.node if placement is not None else -1
        node = placement.pod.node if placement is not None else None
        self._notify(ie.PodEnding(event.uid, None), now)
        self._assumed.forget(event.uid)
        job = self._book.drop_pod(event.uid)
        if job is not None:
            self._notify(ie.JobSpecChanged(job.key), now)
        if number >= 0:
            self._placement_ended(job)
        self._notify(ie.PodRemoved(job, event.uid, node, number), now)
        self._pod_tables.forget(event.uid)
        self._job_may_be_gone(job, now)

    def _placement_ended(self, job: Job | None) -> None:
        """A pod no longer holds its chips."""
        self._triggers.add(Trigger.CHIPS_FREED)
        if job is not None:
            job.ranks = None
            if not self._usage.used_by_job(job.key):
                job.started = None

    def _job_seen(self, job: Job, now: int) -> None:
        self._notify(ie.JobSeen(job), now)
        self._job_queue.activate(job.key)

    @on(ev.PodGroupSeen)
    def _group_seen(self, event: ev.PodGroupSeen, now: int) -> None:
        old = self._book.groups.get(event.group.key)
        if old is not None and replace(old, phase=event.group.phase) != event.group:
            # Not its status: what we write there ourselves would end every backoff.
            self._notify(ie.JobSpecChanged(event.group.key), now)
        job = self._book.put_group(event.group)
        labels = (event.group.labels, event.group.annotations)
        if old is None or (old.labels, old.annotations) != labels:
            for pod in self._book.outdated(job):
                self._book.put_pod(pod)
        same = old is None or (old.labels, old.annotations, old.phase) == (*labels, event.group.phase)
        self._notify(ie.GroupSeen(job, not same), now)
        self._job_seen(job, now)

    @on(ev.PodGroupGone)
    def _group_gone(self, event: ev.PodGroupGone, now: int) -> None:
        # While the job still has it: the pods that stay are jobs of their own afterwards.
        self._notify(event, now)
        self._job_may_be_gone(self._book.drop_group(event.key), now)

    def _job_may_be_gone(self, job: Job | None, now: int) -> None:
        if job is not None and not self._left(job, now):
            self._triggers.add(Trigger.JOB_ENDED)

    def _left(self, job: Job, now: int) -> bool:
        """A pod or the PodGroup left the job. Returns whether there is anything left of it."""
        self._notify(ie.JobChanged(job), now)
        if job.key in self._book.jobs:
            self._job_queue.activate(job.key)
            return True
        self._job_queue.forget(job.key)
        self._notify(ie.JobGone(job), now)
        self._job_tables.forget(job.key)
        return False

    @on(ev.VcJobSeen)
    def _vcjob_seen(self, event: ev.VcJobSeen, now: int) -> None:
        job = self._book.put_vcjob(event.job)
        if event.job.over:
            self._notify(ie.VcJobOver(event.job, job), now)
        if job is not None and job.key in self._book.jobs:
            self._job_queue.activate(job.key)
        else:
            self._job_may_be_gone(job, now)

    @on(ev.VcJobGone)
    def _vcjob_gone(self, event: ev.VcJobGone, now: int) -> None:
        vcjob = self._book.vcjobs.get(event.key)
        if vcjob is not None:
            self._notify(ie.VcJobRemoved(vcjob), now)
        self._job_may_be_gone(self._book.drop_vcjob(event.key), now)

    @on(ev.BindFailed)
    def _bind_failed(self, event: ev.BindFailed, now: int) -> None:
        placement = self._state.pods.get(event.uid)
        job = self._book.job_of(event.uid)
        if placement is None or job is None or not placement.assumed:
            return
        number, chips = placement.node, placement.chips
        node = self._state.names[number]
        self.undo_binding(job, event.uid)
        self._reservations.binding_failed(job.key, number, chips, placement.pod.cls, now)
        self._notify(ie.BindingFailed(job, placement.pod, node, event.why), now)
        self._job_queue.activate(job.key)

    def undo_binding(self, job: Job, uid: str) -> None:
        """The pod waits for a node again; what it had is free."""
        self._book.undo_binding(job, uid)
        self._assumed.bind_failed(job, uid)
        self._placement_ended(job)

    @on(ev.EvictFailed)
    def _evict_failed(self, event: ev.EvictFailed, now: int) -> None:
        """The pod stays; a later cycle may evict it again."""
        job = self._book.job_of(event.uid)
        if job is not None:
            self._notify(event, now)
            if self._assumed.evict_failed(job, event.uid):
                self._job_seen(job, now)
