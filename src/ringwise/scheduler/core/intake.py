"""Taking in facts: what each event changes in the books, and whom it may help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ringwise.framework.job import Job
from ringwise.messages import events as ev
from ringwise.reasons import Trigger
from ringwise.scheduler.faults.previous_placements import Sitting
from ringwise.scheduler.reasons import BIND_FAILED
from ringwise.state.model import Pod, PriorityClass

if TYPE_CHECKING:
    from ringwise.scheduler.core.machine import Scheduler

#: Node and chips of a pod that has none.
_NO_SEAT = (-1, 0)


class Intake:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._handlers: dict[type, Callable[..., None]] = {
            ev.NodeSeen: self._node_seen,
            ev.NodeGone: self._node_gone,
            ev.PodSeen: self._pod_seen,
            ev.PodGone: self._pod_gone,
            ev.PodGroupSeen: self._group_seen,
            ev.PodGroupGone: self._group_gone,
            ev.QueueSeen: self._queue_seen,
            ev.QueueGone: self._queue_gone,
            ev.PriorityClassSeen: self._priority_seen,
            ev.PriorityClassGone: self._priority_gone,
            ev.VcJobSeen: self._vcjob_seen,
            ev.VcJobGone: self._vcjob_gone,
            ev.ReportSeen: self._report_seen,
            ev.ReportGone: self._report_gone,
            ev.TopologySeen: self._topology_seen,
            ev.ConfigurationSeen: self._configuration_seen,
            ev.BindFailed: self._bind_failed,
            ev.EvictFailed: self._evict_failed,
        }

    def take(self, event: ev.Event) -> None:
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    # -- nodes ------------------------------------------------------------------------------

    def _node_seen(self, event: ev.NodeSeen) -> None:
        known = event.node.name in self._scheduler.state.node_id
        self._scheduler.state.put_node(event.node)
        self._world_changed(Trigger.NODE_CHANGED if known else Trigger.NODE_ADDED)

    def _node_gone(self, event: ev.NodeGone) -> None:
        self._scheduler.state.drop_node(event.name)
        self._world_changed(Trigger.NODE_CHANGED)

    def _report_seen(self, event: ev.ReportSeen) -> None:
        self._scheduler.state.put_report(event.report)
        self._world_changed(Trigger.HEALTH_CHANGED)

    def _report_gone(self, event: ev.ReportGone) -> None:
        self._scheduler.state.drop_report(event.node, event.aggregated)
        self._world_changed(Trigger.HEALTH_CHANGED)

    def _topology_seen(self, event: ev.TopologySeen) -> None:
        self._scheduler.world.set_topology(event.topology, event.problem)
        self._revalidate(Trigger.TOPOLOGY_CHANGED)

    def _world_changed(self, trigger: Trigger) -> None:
        self._scheduler.world.nodes_changed()
        self._scheduler.switch_news.touch_all()
        self._scheduler.triggers.add(trigger)
        self._scheduler.ledger.capacity.clear()

    # -- pods and their groups ------------------------------------------------------------------

    def _pod_seen(self, event: ev.PodSeen) -> None:
        pod = event.pod
        before = self._scheduler.state.pods.get(pod.uid)
        seat = (before.node, before.chips) if before is not None else _NO_SEAT
        assumed = before is not None and before.assumed
        sitting = self._scheduler.memory.sitting(pod.uid) if pod.phase == "Failed" else None
        job = self._scheduler.book.put_pod(pod)
        if self._scheduler.state.pods[pod.uid].pod is pod:
            self._scheduler.unbound.pop(pod.uid, None)
            self._scheduler.sent_away.discard(pod.uid)
        placement = self._scheduler.state.pods[pod.uid]
        if seat[0] >= 0 and placement.node < 0:
            self._let_go(job, sitting, failed=True)
        elif seat[0] >= 0 and seat != (placement.node, placement.chips):
            # Somebody else gave it another place than the one we had in mind.
            self._scheduler.chips_came_free()
        if assumed and job is not None and self._is_confirmed(pod):
            self._scheduler.retries.forget_pod(pod.uid)
            if job.group is None:
                # The echo of a binding: of a pod on its own nobody has to be told anything more.
                return
        if job is not None:
            self._job_seen(job)

    def _is_confirmed(self, pod: Pod) -> bool:
        placement = self._scheduler.state.pods[pod.uid]
        return placement.node >= 0 and not placement.assumed and not pod.deleting

    def _pod_gone(self, event: ev.PodGone) -> None:
        placement = self._scheduler.state.pods.get(event.uid)
        held = placement is not None and placement.node >= 0
        sitting = self._scheduler.memory.sitting(event.uid)
        self._scheduler.unbound.pop(event.uid, None)
        self._scheduler.sent_away.discard(event.uid)
        self._scheduler.retries.forget_pod(event.uid)
        self._scheduler.reporter.forget_pod(event.uid)
        job = self._scheduler.book.drop_pod(event.uid)
        if held:
            self._let_go(job, sitting)
        self._job_may_be_gone(job)

    def _let_go(self, job: Job | None, sitting: Sitting | None, *, failed: bool = False) -> None:
        """A pod holds its place no more; where it failed, it is remembered."""
        self._scheduler.chips_came_free()
        if job is not None:
            job.ranks = None
            if not self._scheduler.ledger.used_by_job(job.key):
                job.started = None
        if sitting is not None:
            self._scheduler.memory.lost(sitting, self._scheduler.now, failed=failed)

    def _job_seen(self, job: Job) -> None:
        self._scheduler.memory.attach(job)
        self._scheduler.switch_news.touch(job)
        self._scheduler.waiting.touch(job.key)
        self._scheduler.reporter.touch(job)

    def _group_seen(self, event: ev.PodGroupSeen) -> None:
        self._job_seen(self._scheduler.book.put_group(event.group))

    def _group_gone(self, event: ev.PodGroupGone) -> None:
        self._scheduler.memory.forget(event.key)
        self._job_may_be_gone(self._scheduler.book.drop_group(event.key))

    def _job_may_be_gone(self, job: Job | None) -> None:
        if job is None:
            return
        self._scheduler.switch_news.touch(job)
        if job.key in self._scheduler.book.jobs:
            self._scheduler.waiting.touch(job.key)
            self._scheduler.reporter.touch(job)
        else:
            self._scheduler.guard.forget(job.key)
            self._scheduler.recovery.forget(job.key)
            self._scheduler.retries.forget(job.key)
            self._scheduler.waiting.forget(job.key)
            if not self._scheduler.memory.keeps(job):
                self._scheduler.reservations.lift(job.key)
            self._scheduler.reporter.forget(job.key)
            self._scheduler.triggers.add(Trigger.JOB_ENDED)

    def _vcjob_seen(self, event: ev.VcJobSeen) -> None:
        job = self._scheduler.book.put_vcjob(event.job)
        if event.job.over:
            self._scheduler.memory.forget(event.job.uid)
        if job is not None:
            self._scheduler.waiting.touch(job.key)

    def _vcjob_gone(self, event: ev.VcJobGone) -> None:
        vcjob = self._scheduler.book.vcjobs.get(event.key)
        if vcjob is not None:
            self._scheduler.memory.vcjob_gone(vcjob)
        self._scheduler.book.drop_vcjob(event.key)

    def _bind_failed(self, event: ev.BindFailed) -> None:
        placement = self._scheduler.state.pods.get(event.uid)
        job = self._scheduler.book.job_of(event.uid)
        if placement is None or job is None or not placement.assumed:
            return
        node = self._scheduler.state.names[placement.node]
        self._scheduler.ledger.remove_pod(job.key, job.queue, placement.pod.cls)
        self._scheduler.state.release(event.uid)
        before = self._scheduler.unbound.pop(event.uid, None)
        if before is not None:
            self._scheduler.replace_pod(job, before)
        self._let_go(job, None)
        self._scheduler.switch_news.touch(job)
        seconds = self._scheduler.retries.failed(job, event.uid, self._scheduler.now)
        job.reason = BIND_FAILED(pod=placement.pod.name, node=node, why=event.why, seconds=seconds)
        self._scheduler.waiting.touch(job.key)

    def _evict_failed(self, event: ev.EvictFailed) -> None:
        """It stays, so it is counted on again; whoever wants it gone has to ask once more."""
        job = self._scheduler.book.job_of(event.uid)
        if event.uid in self._scheduler.sent_away and job is not None:
            self._scheduler.sent_away.discard(event.uid)
            self._scheduler.replace_pod(job, replace(job.pods[event.uid], deleting=False))
            self._job_seen(job)

    # -- queues, priorities, configuration ------------------------------------------------------------

    def _queue_seen(self, event: ev.QueueSeen) -> None:
        self._scheduler.book.put_queue(event.queue)
        self._scheduler.reporter.queues.seen(event.queue.name)
        self._scheduler.triggers.add(Trigger.QUEUE_CHANGED)

    def _queue_gone(self, event: ev.QueueGone) -> None:
        self._scheduler.book.drop_queue(event.name)
        self._scheduler.reporter.queues.gone(event.name)
        self._scheduler.triggers.add(Trigger.QUEUE_CHANGED)

    def _priority_seen(self, event: ev.PriorityClassSeen) -> None:
        self._put_class(event.priority_class, event.priority_class.name)

    def _priority_gone(self, event: ev.PriorityClassGone) -> None:
        self._put_class(None, event.name)

    def _put_class(self, priority_class: PriorityClass | None, name: str) -> None:
        for job in self._scheduler.book.put_priority_class(priority_class, name):
            # It may go first now, or send others away.
            self._scheduler.waiting.touch(job.key)

    def _configuration_seen(self, event: ev.ConfigurationSeen) -> None:
        self._scheduler.configuration = event.configuration
        settings = event.configuration.settings
        self._scheduler.state.use_aggregated = settings.use_cluster_info_manager
        self._scheduler.state.maintain_free_chips(settings.self_maintain_available_card)
        self._revalidate(Trigger.CONFIGURATION_CHANGED)

    def _revalidate(self, trigger: Trigger) -> None:
        for job in self._scheduler.book.jobs.values():
            job.changed()
        self._scheduler.switch_news.touch_all()
        self._scheduler.triggers.add(trigger)
