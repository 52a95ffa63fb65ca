"""What each event changes in the scheduler's tables, and which pending jobs it activates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ringwise.framework.job import Job, differs_for_job
from ringwise.framework.topology_cache import TopologyCache
from ringwise.framework.usage import ResourceUsage
from ringwise.messages import events as ev
from ringwise.messages.containment import Containment, object_of
from ringwise.reasons import Trigger
from ringwise.scheduler.cache.inventory import Inventory
from ringwise.scheduler.cache.job_book import JobBook
from ringwise.scheduler.cache.pending_queue import PendingQueue
from ringwise.scheduler.cache.sessions import ActiveConfiguration
from ringwise.scheduler.core.admission_limits import AdmissionLimits
from ringwise.scheduler.core.assumed_pods import AssumedPods
from ringwise.scheduler.core.drain_events import DrainEvents
from ringwise.scheduler.core.job_backoff import JobBackoff
from ringwise.scheduler.core.job_claims import JobClaims
from ringwise.scheduler.core.reservation import StarvationGuard
from ringwise.scheduler.core.saved_pod import SavedPod
from ringwise.scheduler.core.status_reporter import StatusReporter
from ringwise.scheduler.core.timed_retries import TimedRetries
from ringwise.scheduler.core.tor_share_publisher import TorSharePublisher
from ringwise.scheduler.faults.detection import FaultDetector
from ringwise.scheduler.faults.document import read
from ringwise.scheduler.faults.fault_job import group_owner
from ringwise.scheduler.faults.fault_nodes import FaultNodes
from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.scheduler.faults.partial_gangs import PartialGangs
from ringwise.scheduler.faults.previous_placements import PreviousPlacements
from ringwise.scheduler.faults.publisher import ReschedulingPublisher
from ringwise.scheduler.faults.rescheduling import HeldPlacement
from ringwise.scheduler.faults.share_records import ShareRecords
from ringwise.scheduler.faults.successors import owner_id
from ringwise.scheduler.faults.times import FaultTimes
from ringwise.scheduler.reasons import BIND_FAILED
from ringwise.state.cluster import ClusterState
from ringwise.state.model import Pod, PriorityClass, unreadable_pod
from ringwise.state.owned_annotations import without_stray
from ringwise.state.reservations import Reservations

#: Node and chips of a pod that has none.
_NOT_PLACED = (-1, 0)


class EventHandlers:
    def __init__(
        self,
        *,
        state: ClusterState,
        book: JobBook,
        usage: ResourceUsage,
        topology: TopologyCache,
        reservations: Reservations,
        configuration: ActiveConfiguration,
        triggers: set[Trigger],
        pending: PendingQueue,
        assumed: AssumedPods,
        backoff: JobBackoff,
        retries: TimedRetries,
        limits: AdmissionLimits,
        claims: JobClaims,
        guard: StarvationGuard,
        previous: PreviousPlacements,
        shares: ShareRecords,
        partial_gangs: PartialGangs,
        detector: FaultDetector,
        faults: FaultHandler,
        fault_nodes: FaultNodes,
        fault_times: FaultTimes,
        drains: DrainEvents,
        inventory: Inventory,
        rescheduling: ReschedulingPublisher,
        reporter: StatusReporter,
        tor_share: TorSharePublisher,
        containment: Containment,
    ) -> None:
        self._containment = containment
        self._state = state
        self._book = book
        self._usage = usage
        self._topology = topology
        self._reservations = reservations
        self._configuration = configuration
        self._triggers = triggers
        self._pending = pending
        self._assumed = assumed
        self._backoff = backoff
        self._retries = retries
        self._limits = limits
        self._claims = claims
        self._guard = guard
        self._previous = previous
        self._shares = shares
        self._partial_gangs = partial_gangs
        self._detector = detector
        self._faults = faults
        self._fault_nodes = fault_nodes
        self._fault_times = fault_times
        self._drains = drains
        self._inventory = inventory
        self._rescheduling = rescheduling
        self._reporter = reporter
        self._tor_share = tor_share
        self._now = 0
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
            ev.QuotaSeen: self._quota_seen,
            ev.QuotaGone: self._quota_gone,
            ev.VcJobSeen: self._vcjob_seen,
            ev.VcJobGone: self._vcjob_gone,
            ev.ReportSeen: self._report_seen,
            ev.ReportGone: self._report_gone,
            ev.NodeReportSeen: self._node_report_seen,
            ev.NodeReportGone: self._node_report_gone,
            ev.ReschedulingRead: self._rescheduling_read,
            ev.TopologySeen: self._topology_seen,
            ev.IsolationsSeen: self._isolations_seen,
            ev.ConfigurationSeen: self._configuration_seen,
            ev.BindFailed: self._bind_failed,
            ev.EvictFailed: self._evict_failed,
        }

    def apply(self, event: ev.Event, now: int) -> None:
        self._now = now
        handler = self._handlers.get(type(event))
        if handler is None:
            return
        last_good = self._last_good(event)
        try:
            handler(event)
        except Exception as error:
            kind, key = object_of(event)
            uid = event.pod.uid if isinstance(event, ev.PodSeen) else ""
            self._containment.failed(kind, key, error, uid)
            self._restore(event, last_good)
        else:
            if self._containment.objects:
                self._containment.succeeded(*object_of(event))

    def _last_good(self, event: ev.Event) -> ev.Event | SavedPod | None:
        """What brings the object back as it is now, should the event fail in the middle."""
        match event:
            case ev.PodSeen(pod):
                return SavedPod.of(self._state, pod.uid)
            case ev.NodeSeen(node):
                number = self._state.node_id.get(node.name)
                known = None if number is None else self._state.nodes[number]
                return ev.NodeGone(node.name) if known is None else ev.NodeSeen(known)
            case ev.PodGroupSeen(group):
                seen = self._book.groups.get(group.key)
                return ev.PodGroupGone(group.key) if seen is None else ev.PodGroupSeen(seen)
            case ev.QueueSeen(queue):
                before = self._book.queues.get(queue.name)
                return ev.QueueGone(queue.name) if before is None else ev.QueueSeen(before)
            case ev.VcJobSeen(job):
                vcjob = self._book.vcjobs.get(job.key)
                return ev.VcJobGone(job.key) if vcjob is None else ev.VcJobSeen(vcjob)
            case ev.ReportSeen(report):
                reports = self._state.reports.get((report.node, report.resource), {})
                old = reports.get(report.aggregated)
                return ev.ReportGone(report.node, report.aggregated) if old is None else ev.ReportSeen(old)
        return None

    def _restore(self, event: ev.Event, last_good: ev.Event | SavedPod | None) -> None:
        """The last good version stays in force; everything that follows from objects is computed again."""
        stand_in: Pod | None = None
        if isinstance(event, ev.PodSeen):
            pod = event.pod
            if isinstance(last_good, SavedPod) and (last_good.record.node >= 0 or not pod.node):
                self._state.restore_pod(last_good.record)
                job = self._book.job_of(event.pod.uid)
                if job is not None:
                    job.pods[event.pod.uid] = last_good.record.pod
            else:
                self._state.pods.pop(pod.uid, None)
                self._book.forget_pod(pod.uid)
                if pod.node and pod.live and pod.cls.chips:
                    # N7: nothing is known of the chips that it has.
                    stand_in = unreadable_pod(pod.uid, pod.namespace, pod.name, pod.node)
        elif last_good is not None and not isinstance(last_good, SavedPod):
            try:
                self._handlers[type(last_good)](last_good)
            except Exception as error:
                # Not even the version before can be handled now: the object is as if it were not there.
                self._containment.failed(*object_of(event), error)
        self._state.rebuild()
        if stand_in is not None:
            self._state.put_pod(stand_in)
        self._book.recount()
        self._topology.nodes_changed()
        self._inventory.everything_changed()
        self._tor_share.cluster_changed()

    # -- nodes ------------------------------------------------------------------------------

    def _node_seen(self, event: ev.NodeSeen) -> None:
        known = event.node.name in self._state.node_id
        self._state.put_node(event.node)
        self._detector.node_seen(event.node.name)
        self._health_changed(event.node.name)
        self._cluster_changed(Trigger.NODE_CHANGED if known else Trigger.NODE_ADDED)

    def _node_gone(self, event: ev.NodeGone) -> None:
        self._state.drop_node(event.name)
        self._detector.node_gone(event.name)
        self._health_changed(event.name)
        self._cluster_changed(Trigger.NODE_CHANGED)

    def _report_seen(self, event: ev.ReportSeen) -> None:
        self._state.put_report(event.report)
        if event.report.aggregated:
            self._faults.clusterd.seen(event.report.node)
        self._chips_reported(event.report.node)

    def _report_gone(self, event: ev.ReportGone) -> None:
        self._state.drop_report(event.node, event.aggregated)
        if event.aggregated:
            self._faults.clusterd.gone(event.node, self._now)
        self._chips_reported(event.node)

    def _chips_reported(self, node: str) -> None:
        self._detector.report_seen(node, self._now)
        self._faults.links_down.report_seen(node)
        self._health_changed(node)
        self._cluster_changed(Trigger.HEALTH_CHANGED)

    def _health_changed(self, node: str) -> None:
        self._inventory.node_changed(node)
        self._faults.node_changed(node)
        self._fault_nodes.node_changed(node, self._now)
        self._fault_times.node_changed(node, self._now)

    def _isolations_seen(self, event: ev.IsolationsSeen) -> None:
        self._state.put_isolations(event.isolations)
        self._cluster_changed(Trigger.HEALTH_CHANGED)

    def _node_report_seen(self, event: ev.NodeReportSeen) -> None:
        if self._state.put_node_report(event.report):
            self._health_changed(event.report.node)
            self._cluster_changed(Trigger.HEALTH_CHANGED)

    def _node_report_gone(self, event: ev.NodeReportGone) -> None:
        if self._state.drop_node_report(event.node, event.source, event.aggregated):
            self._health_changed(event.node)
            self._cluster_changed(Trigger.HEALTH_CHANGED)

    def _rescheduling_read(self, event: ev.ReschedulingRead) -> None:
        """F1. What cannot be read is as if it were not there; faults that still exist are found again."""
        self._faults.records.read(event.records, self._book.jobs)
        self._rescheduling.was_written(event)
        if event.document or event.cool_downs:
            found = read(event.document)
            self._faults.restore(found, event.cool_downs, self._now)
            self._previous.restore(found.placements, self._now)
            self._shares.restore(found.shares, self._now)
        self._faults.find_lost_pods(self._now)

    def _topology_seen(self, event: ev.TopologySeen) -> None:
        self._topology.set_topology(event.topology, event.problem)
        switches = event.topology.switches if event.topology is not None else ()
        self._state.put_switches({server.server_ip: one.ip for one in switches for server in one.servers})
        self._state.changes.the_topology()
        self._revalidate(Trigger.TOPOLOGY_CHANGED)

    def _cluster_changed(self, trigger: Trigger) -> None:
        self._topology.nodes_changed()
        self._tor_share.cluster_changed()
        self._triggers.add(trigger)

    # -- pods and their groups ------------------------------------------------------------------

    def _pod_seen(self, event: ev.PodSeen) -> None:
        pod = event.pod if event.pod.node is not None else without_stray(event.pod)
        before = self._state.pods.get(pod.uid)
        placed = (before.node, before.chips) if before is not None else _NOT_PLACED
        assumed = before is not None and before.assumed
        held, failed = self._previous.held_until_end(pod)
        ending = self._shares.before(pod)
        leaves = pod.deleting and before is not None and before.node >= 0 and not before.pod.deleting
        job_before = self._book.job_of(pod.uid)
        job = self._book.put_pod(pod)
        if job is not None and (before is None or differs_for_job(before.pod, pod)):
            self._backoff.changed(job.key)
        if job_before is not None and job_before is not job:
            # It got a PodGroup. No job ended, and what its own one held is held by the other.
            self._left(job_before)
        if self._state.pods[pod.uid].pod is pod:
            self._assumed.forget(pod.uid)
        placement = self._state.pods[pod.uid]
        self._inventory.pods_changed(placed[0])
        self._inventory.pods_changed(placement.node)
        if placed[0] >= 0 and placement.node < 0:
            self._placement_ended(job, held, failed=failed)
            self._previous.stays(pod.uid, terminates=pod.deleting)
            self._shares.gone(ending, self._now)
        elif placed[0] >= 0 and placed != (placement.node, placement.chips):
            # Another scheduler bound it elsewhere than we assumed.
            self._triggers.add(Trigger.CHIPS_FREED)
        if pod.deleting and placement.node >= 0:
            self._shares.leaving(ending)
        if job is not None:
            self._shares.job_seen(job)
        if assumed and job is not None and self._is_confirmed(pod):
            self._backoff.forget_pod(pod.uid)
            self._faults.pod_changed(job, pod)
            if job.group is None:
                if job.previous_nodes:
                    self._previous.settle(job)
                # The confirmation of our binding: a pod without a PodGroup has no status to write.
                return
        if job is not None:
            if pod.deleting:
                self._previous.leaving(pod.uid, self._now)
            if leaves:
                drained = self._drains.pod_leaves(job, pod)
                if drained:
                    self._faults.pod_drained(job, pod, self._now)
            self._detector.pod_seen(pod, self._now)
            self._faults.pod_changed(job, self._state.pods[pod.uid].pod)
            self._job_seen(job)

    def _is_confirmed(self, pod: Pod) -> bool:
        placement = self._state.pods[pod.uid]
        return placement.node >= 0 and not placement.assumed and not pod.deleting

    def _pod_gone(self, event: ev.PodGone) -> None:
        placement = self._state.pods.get(event.uid)
        was_placed = placement is not None and placement.node >= 0
        held = self._previous.held_by(event.uid)
        ending = self._shares.before_gone(event.uid)
        self._assumed.forget(event.uid)
        self._backoff.forget_pod(event.uid)
        self._reporter.forget_pod(event.uid)
        node = placement.pod.node if placement is not None else None
        if placement is not None:
            self._inventory.pods_changed(placement.node)
        job = self._book.drop_pod(event.uid)
        if job is not None:
            self._backoff.changed(job.key)
        if node is not None:
            self._detector.pod_gone(node, event.uid)
        if job is not None:
            self._faults.pod_gone(job.key, event.uid)
        if was_placed:
            self._placement_ended(job, held)
        self._shares.gone(ending, self._now)
        self._shares.forget_pod(event.uid)
        self._previous.gone(job, event.uid)
        self._job_may_be_gone(job)

    def _placement_ended(self, job: Job | None, held: HeldPlacement | None, *, failed: bool = False) -> None:
        """A pod does not hold its chips any more; where it has to go back, its placement is remembered."""
        self._triggers.add(Trigger.CHIPS_FREED)
        if job is not None:
            job.ranks = None
            if not self._usage.used_by_job(job.key):
                job.started = None
        if held is not None:
            self._previous.lost(held, self._now, failed=failed)
            self._faults.pod_lost(held.job, held.pod, self._now)

    def _job_seen(self, job: Job) -> None:
        self._previous.attach(job)
        self._faults.attach(job)
        self._tor_share.job_changed(job)
        self._pending.activate(job.key)
        self._reporter.job_changed(job)

    def _group_seen(self, event: ev.PodGroupSeen) -> None:
        old = self._book.groups.get(event.group.key)
        if old is not None and replace(old, phase=event.group.phase) != event.group:
            # Not its status: what we write there ourselves would end every backoff.
            self._backoff.changed(event.group.key)
        job = self._book.put_group(event.group)
        if old is not None and (old.labels, old.annotations) != (event.group.labels, event.group.annotations):
            self._faults.policy_changed(job)
        self._shares.job_seen(job)
        self._job_seen(job)

    def _group_gone(self, event: ev.PodGroupGone) -> None:
        self._previous.forget(event.key)
        self._shares.forget(event.key)
        job = self._book.jobs.get(event.key)
        group = self._book.groups.get(event.key)
        if group is not None:
            self._faults.group_gone(group)
        self._faults.owner_gone(event.key if job is None else group_owner(job))
        self._faults.job_changed(event.key)
        self._job_may_be_gone(self._book.drop_group(event.key))

    def _job_may_be_gone(self, job: Job | None) -> None:
        if job is not None and not self._left(job):
            self._triggers.add(Trigger.JOB_ENDED)

    def _left(self, job: Job) -> bool:
        """A pod or the PodGroup left the job. Returns whether there is anything left of it."""
        self._tor_share.job_changed(job)
        if job.key in self._book.jobs:
            self._pending.activate(job.key)
            self._reporter.job_changed(job)
            return True
        self._guard.forget(job.key)
        self._faults.forget(job.key)
        self._partial_gangs.forget(job.key)
        self._backoff.forget(job.key)
        self._retries.forget(job.key)
        self._limits.forget(job.key)
        self._claims.forget(job.key)
        self._pending.forget(job.key)
        if not self._previous.keeps(job):
            self._reservations.lift(job.key)
        self._reporter.forget(job.key)
        return False

    def _vcjob_seen(self, event: ev.VcJobSeen) -> None:
        job = self._book.put_vcjob(event.job)
        if event.job.over:
            owner = owner_id(event.job.namespace, event.job.uid)
            self._previous.forget(owner)
            self._shares.forget(owner)
            if job is not None:
                self._faults.job_changed(job.key)
        if job is not None and job.key in self._book.jobs:
            self._pending.activate(job.key)
        else:
            self._job_may_be_gone(job)

    def _vcjob_gone(self, event: ev.VcJobGone) -> None:
        vcjob = self._book.vcjobs.get(event.key)
        if vcjob is not None:
            owner = owner_id(vcjob.namespace, vcjob.uid)
            self._previous.vcjob_gone(vcjob)
            self._shares.forget(owner)
            self._faults.owner_gone(owner)
        self._job_may_be_gone(self._book.drop_vcjob(event.key))

    def _bind_failed(self, event: ev.BindFailed) -> None:
        placement = self._state.pods.get(event.uid)
        job = self._book.job_of(event.uid)
        if placement is None or job is None or not placement.assumed:
            return
        number, chips = placement.node, placement.chips
        node = self._state.names[number]
        self._usage.remove_pod(job.key, job.queue, placement.pod.cls)
        self._state.release(event.uid)
        self._reservations.binding_failed(job.key, number, chips, placement.pod.cls, self._now)
        self._assumed.bind_failed(job, event.uid)
        self._placement_ended(job, None)
        self._tor_share.job_changed(job)
        seconds = self._backoff.failed(job, event.uid, self._now)
        job.reason = BIND_FAILED(pod=placement.pod.name, node=node, why=event.why, seconds=seconds)
        self._pending.activate(job.key)

    def _evict_failed(self, event: ev.EvictFailed) -> None:
        """The pod stays; a later cycle may evict it again."""
        job = self._book.job_of(event.uid)
        if job is not None:
            self._previous.stays(event.uid)
            self._shares.stays(event.uid)
            self._faults.deletion_failed(job, event.uid, self._now, event.why)
            if self._assumed.evict_failed(job, event.uid):
                self._job_seen(job)

    # -- queues, priorities, configuration ------------------------------------------------------------

    def _queue_seen(self, event: ev.QueueSeen) -> None:
        self._book.put_queue(event.queue)
        self._reporter.queues.seen(event.queue.name)
        self._triggers.add(Trigger.QUEUE_CHANGED)

    def _queue_gone(self, event: ev.QueueGone) -> None:
        self._book.drop_queue(event.name)
        self._reporter.queues.gone(event.name)
        self._triggers.add(Trigger.QUEUE_CHANGED)

    def _quota_seen(self, event: ev.QuotaSeen) -> None:
        if self._book.put_quota(event.quota):
            self._triggers.add(Trigger.QUOTA_CHANGED)

    def _quota_gone(self, event: ev.QuotaGone) -> None:
        self._book.drop_quota(event.namespace, event.name)
        self._triggers.add(Trigger.QUOTA_CHANGED)

    def _priority_seen(self, event: ev.PriorityClassSeen) -> None:
        self._put_class(event.priority_class, event.priority_class.name)

    def _priority_gone(self, event: ev.PriorityClassGone) -> None:
        self._put_class(None, event.name)

    def _put_class(self, priority_class: PriorityClass | None, name: str) -> None:
        for job in self._book.put_priority_class(priority_class, name):
            # It may be served first now, or preempt others.
            self._pending.activate(job.key)

    def _configuration_seen(self, event: ev.ConfigurationSeen) -> None:
        self._configuration.current = event.configuration
        settings = event.configuration.settings
        self._state.prefer_aggregated(settings.use_cluster_info_manager)
        self._state.guarded_annotations = settings.owned_annotations == "guarded"
        self._book.visible_devices = settings.visible_devices
        self._state.maintain_free_chips(settings.self_maintain_available_card)
        for name in self._state.node_id:
            # Other reports may count now.
            self._health_changed(name)
        self._backoff.settings_changed()
        self._revalidate(Trigger.CONFIGURATION_CHANGED)

    def _revalidate(self, trigger: Trigger) -> None:
        for job in self._book.jobs.values():
            job.changed()
        self._tor_share.cluster_changed()
        self._triggers.add(trigger)
