"""The read-only view of a scheduler: what everything outside it may read.

The command line, the lab, admission, metrics, the journal and the explanations read here and
never from the scheduler's own fields. Nothing in this module changes the scheduler; `what_if`
tries changes on the live state and restores it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType

from ringwise.framework.amounts import Amount
from ringwise.framework.configuration import Configuration, Settings
from ringwise.framework.extension_points import JobPlan
from ringwise.framework.gangs.switch_use import states_now, switch_class, writes_marks
from ringwise.framework.job import Job, job_key
from ringwise.framework.limits import LimitTable
from ringwise.framework.session import Incident
from ringwise.messages import events as ev
from ringwise.messages.expected_start import ExpectedStart
from ringwise.placement.switches.classes import SwitchClass
from ringwise.placement.switches.states import SwitchFacts
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.scheduler.accounting.component import QueueTotal
from ringwise.scheduler.cache.component import Context
from ringwise.scheduler.cache.consistency import inconsistencies
from ringwise.scheduler.cache.leader_record import LeaderRecord
from ringwise.scheduler.cache.preemptions import Preemption, RefusedEviction
from ringwise.scheduler.defragment.live_plan import MoveRecords
from ringwise.scheduler.explain.what_if import WhatIf
from ringwise.scheduler.faults.fault_job import FaultJob
from ringwise.scheduler.faults.fault_memory import FaultTimes
from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.scheduler.faults.previous_placements import PreviousPlacements
from ringwise.scheduler.faults.restarts import WaitingRestart
from ringwise.state.cluster import ClusterState, PodRecord
from ringwise.state.fleet import HOSTS
from ringwise.state.hyper_nodes import Forest
from ringwise.state.model import HyperNode, Pod, Queue
from ringwise.state.vcjob import VcJob
from ringwise.topology.boards import BoardCatalog
from ringwise.topology.chips import chips_of
from ringwise.topology.racks import Racks
from ringwise.topology.superpods import SuperPods
from ringwise.topology.switches import ResolvedTopology

#: What nodes are in, besides HyperNodes.
SWITCHES, SUPERPODS, RACKS = "leaf switches", "SuperPoDs", "racks"
#: Incidents that are remembered.
MAX_INCIDENTS = 1000


@dataclass(slots=True)
class History:
    """What the cycles left behind."""

    #: The time of the last turn, in nanoseconds.
    now: int = 0
    turns: int = 0
    cycles: int = 0
    bindings: int = 0
    incidents: list[Incident] = field(default_factory=list)
    #: How often jobs were backed off because they cost too much, by reason.
    backoffs: Mapping[str, int] = field(default_factory=dict)
    #: How the jobs of the last cycle that were placed as a whole got their nodes.
    plans: dict[str, JobPlan] = field(default_factory=dict)
    #: M1.
    moves: MoveRecords = field(default_factory=MoveRecords)
    #: What was accounted for since this process leads, by queue.
    accounts: Mapping[str, QueueTotal] = field(default_factory=dict)
    #: Jobs that were preempted or reclaimed lately, by key.
    preemptions: Mapping[str, Preemption] = field(default_factory=dict)
    #: Jobs whose eviction was refused lately, by key.
    refused_evictions: Mapping[str, RefusedEviction] = field(default_factory=dict)
    #: Namespaces that were throttled during the last minute.
    throttled: Mapping[str, int] = field(default_factory=dict)

    def add(self, incidents: Iterable[Incident]) -> None:
        self.incidents.extend(incidents)
        del self.incidents[:-MAX_INCIDENTS]


class SchedulerView:
    def __init__(
        self,
        context: Context,
        *,
        faults: FaultHandler,
        previous: PreviousPlacements,
        record: LeaderRecord,
        fault_times: FaultTimes,
        history: History,
        what_if: WhatIf,
    ) -> None:
        book = context.book
        self._containment = context.containment
        self._state = context.state
        self._book = book
        #: What is in use and kept, by job, queue, namespace and user.
        self.usage = context.usage
        self.reservations = context.reservations
        #: The leaf switches, SuperPoDs and racks.
        self.topology = context.topology
        self._configuration = context.configuration
        self._previous = previous
        self._record = record
        self.history = history
        self.what_if = what_if
        self.catalog: BoardCatalog = context.topology.catalog
        #: Whether nothing but the controller of vcjobs creates pods again, as in a lab.
        self.only_vcjobs_recreated = False

        self.jobs: Mapping[str, Job] = MappingProxyType(book.jobs)
        self.queues: Mapping[str, Queue] = MappingProxyType(book.queues)
        self.vcjobs: Mapping[str, VcJob] = MappingProxyType(book.vcjobs)
        self.job_of, self.vcjob_of, self.job_name = book.job_of, book.vcjob_of, book.name_of
        #: Pods of these schedulers are ours.
        self.scheduler_names = book.scheduler_names
        #: Whether pods with an owner wait for the PodGroups of a controller.
        self.awaits_groups = book.awaits_groups
        self.is_ours, self.is_pending, self.serves = book.is_ours, book.is_pending, book.serves
        #: Returns what is wrong with a job before any plugin is asked.
        self.refusal = book.refusal
        #: Limits of namespaces, queues and users, and what counts for them.
        self.limits: LimitTable = book.limits
        #: All HyperNodes, also those that are ignored.
        self.hyper_nodes: Iterable[HyperNode] = context.state.hyper_nodes

        #: Jobs that a fault hit, while they are handled.
        self.fault_jobs: Mapping[str, FaultJob] = MappingProxyType(faults.jobs)
        #: By job: faulty pods that are not restarted yet because of the restarts before.
        self.waiting_restarts: Mapping[str, WaitingRestart] = MappingProxyType(faults.restarts.waiting)
        self.clocks = faults.clocks
        #: Whether Huawei's ClusterD runs: it reports the chips of nodes.
        self.has_clusterd = faults.clusterd.runs
        self.tolerated_faults = faults.detector.tolerated
        self.awaits_hot_switch = faults.detector.awaits_hot_switch
        #: When a fault of a node was first seen, in nanoseconds; None: it was there at the start.
        self.fault_since = fault_times.since
        #: F1: why parts of the leader record were not read, by data key.
        self.unread_record: Mapping[str, str] = record.unread

    @property
    def configuration(self) -> Configuration:
        return self._configuration.current

    @property
    def settings(self) -> Settings:
        return self._configuration.settings

    # -- jobs, pods, queues -----------------------------------------------------------------

    def has_pending_pods(self, job: Job) -> bool:
        return any(map(self._book.is_pending, job.pods.values()))

    def jobs_of_others(self) -> Iterator[Job]:
        """Pods of other schedulers that wait: those with chips, and those that a person wrote."""
        for placement in self._state.pods.values():
            pod = placement.pod
            if pod.group is not None or self.is_ours(pod) or placement.node >= 0 or pod.phase != "Pending":
                continue
            if pod.cls.chips or pod.owner is None:
                yield self.job_of_other(pod)

    def job_of_other(self, pod: Pod) -> Job:
        """A pod of another scheduler, as a job: it waits for that one."""
        reason = self._book.other_scheduler(pod.scheduler)
        return Job(job_key(pod), pod.namespace, pod.name, {pod.uid: pod}, reason=reason)

    def job_name_of_pod(self, pod: Pod) -> str:
        """`namespace/name` of its job; of the pod if it does not belong to one."""
        job = self.job_of(pod.uid)
        return pod.key if job is None else job.full_name

    def jobs_with_reserved_quota(self, name: str) -> list[str]:
        """Those jobs as namespace/name, in the order in which they lost pods."""
        return [self.job_name(key) for key in self.usage.reserved.jobs_in(name)]

    def reserved_quota_until(self, queue: str) -> int | None:
        """When the last of what is kept in the queue is free, in nanoseconds, unless more pods are lost."""
        times = [self.reserved_quota_of(key)[1] for key in self.usage.reserved.jobs_in(queue)]
        return max((time for time in times if time is not None), default=None)

    def reserved_quota_of(self, job: str) -> tuple[Mapping[str, Amount], int | None]:
        """F6: what is kept for a job that lost pods, and until when, in nanoseconds; None: no limit yet."""
        share = self.usage.reserved.share_of(job)
        return self.usage.reserved.of(job), None if share is None else share.until

    def expected_start(self, job: str) -> ExpectedStart | None:
        """When the job is expected to start, as it was found last beside the scheduler; None: not known."""
        return self.what_if.starts.by_job.get(job)

    @property
    def expected_starts(self) -> Mapping[str, ExpectedStart] | None:
        """The same of all waiting jobs, where nothing has happened since; else None."""
        starts = self.what_if.starts
        return starts.by_job if starts.by_job and starts.set_in_turn == self.history.turns else None

    def job_events(self) -> list[ev.Event]:
        """The vcjobs, PodGroups and pods of all jobs as events, each pod with the node that it got."""
        result: list[ev.Event] = [ev.VcJobSeen(vcjob) for vcjob in self._book.vcjobs.values()]
        result += [ev.PodGroupSeen(group) for group in self._book.groups.values()]
        placements = self._state.pods
        for job in self._book.jobs.values():
            for uid, pod in job.pods.items():
                placement = placements.get(uid)
                result.append(ev.PodSeen(pod if placement is None else as_bound(placement, self._state)))
        return result

    # -- nodes and chips --------------------------------------------------------------------

    @property
    def cluster(self) -> ClusterState:
        # New nodes are put in natural order before the next cycle; readers need the order, too.
        self._state.settle()
        return self._state

    def is_idle(self, node: str) -> bool:
        """The node offers chips, takes pods, and no pod holds any of its chips."""
        number = self._state.node_id.get(node)
        if number is None or self._state.nodes[number] is None:
            return False
        offering = [
            fleet
            for resource, fleet in self._state.fleets.items()
            if resource != HOSTS and fleet.allocatable[number] > 0
        ]
        return bool(offering) and all(
            not fleet.held[number] and fleet.closed[number] is None for fleet in offering
        )

    # -- switches and SuperPoDs -------------------------------------------------------------

    def switches(self) -> ResolvedTopology | None:
        """The leaf switches with the cluster's nodes; None without a topology."""
        return self.topology.switches(self._state)

    def switch_class(self, job: Job) -> SwitchClass | Reason | None:
        """S1: the class of the job; None when it is not switch-aware."""
        topology = self.topology.switch_topology
        marks = topology is not None and writes_marks(self.settings, topology)
        return switch_class(job, self._state, marks)

    def switch_states(self) -> list[SwitchFacts]:
        """S2: the state of every leaf switch, in the order of the ConfigMap."""
        resolved = self.switches()
        if resolved is None:
            return []
        return states_now(self._book.jobs.values(), self._state, resolved, self.settings)

    def superpods(self) -> SuperPods:
        return self.topology.superpods(self._state, self.settings.super_pod_size)

    def racks(self) -> Racks:
        return self.topology.racks(self._state, self.settings.super_pod_size)

    def domains(self) -> dict[str, Callable[[int], object]]:
        """What the nodes are in, by what a sentence calls it: which of them a node is in, or None."""
        resolved, names = self.switches(), self._state.names
        switch_of = resolved.switch_of if resolved is not None else {}
        return {
            SWITCHES: lambda node: switch_of.get(names[node]),
            SUPERPODS: self.superpods().superpod_of.get,
            RACKS: self.racks().rack_of.get,
        }

    def hyper_forest(self) -> Forest:
        """The trees of HyperNodes, and what is wrong with some."""
        return self._state.hyper_forest()

    # -- history ------------------------------------------------------------------------------

    @property
    def contained_objects(self) -> Sequence[tuple[str, str, str]]:
        """Kind, key and problem of objects that could not be handled."""
        return self._containment.objects

    @property
    def rescheduling_left_out(self) -> int:
        """F1: entries about jobs that are being rescheduled that no other leader would know."""
        return self._record.omitted

    def objects_suffice(self, namespace: str, name: str) -> bool:
        """Whether the objects alone are enough to explain this job as this scheduler does.

        Not while chips or a share are kept for a job, or a job is being rescheduled: that bears on every
        other job, too. Of the job itself this one remembers how it got its nodes, which it had before it was
        suspended, and which chips broke it.
        """
        return not (
            len(self.reservations)
            or len(self.usage.reserved)
            or self._previous.rescheduling
            or self._previous.preferred
            or self.fault_jobs
            or self.waiting_restarts
            or self.clocks.by_job
            or any(
                (job.namespace, job.name) == (namespace, name)
                and (job.cooling or job.previous_nodes or job.key in self.history.plans)
                for job in self._book.jobs.values()
            )
        )

    def loses_by_restart(self) -> bool:
        """Whether a restart now would lose waiting times, reservations or previous placements."""
        return bool(
            self._previous.rescheduling
            or len(self.reservations)
            or any(
                job.waiting_since is not None and self.has_pending_pods(job)
                for job in self._book.jobs.values()
            )
        )

    def current_events(self) -> list[ev.Event]:
        """All objects as events: another scheduler that handles them has the same cluster.

        Objects are shared, not copied: nothing changes one after it was observed.
        """
        return list(self.what_if.current_events())

    def inconsistencies(self) -> list[str]:
        """Tables that disagree with each other, one line each; none unless the scheduler has a defect."""
        return inconsistencies(self._state, self._book, self.usage, self.reservations)


def as_bound(record: PodRecord, state: ClusterState) -> Pod:
    """The pod as the API will show it: a decision that is not confirmed yet holds its chips, too."""
    if record.node < 0 or record.pod.node is not None:
        return record.pod
    return replace(record.pod, node=state.names[record.node], holds=chips_of(record.chips))
