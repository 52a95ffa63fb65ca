"""The machine: events in, commands out. The one writer of the state.

    events --> book of jobs, state --> wake what the events can cure --> one cycle --> commands

A job that did not fit is not tried again until something happens that its reason
names as a cure, so a cycle in which nothing changed costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from ringwise.actions import ACTIONS
from ringwise.framework.amounts import Amounts
from ringwise.framework.configuration import Configuration, default_configuration
from ringwise.framework.job import Job
from ringwise.framework.ledger import Ledger
from ringwise.framework.reasons import UNKNOWN_QUEUE
from ringwise.framework.registry import Registry
from ringwise.framework.session import Incident, Plan, Session
from ringwise.framework.statement import Allocation
from ringwise.framework.world import World
from ringwise.plugins import PLUGINS
from ringwise.reasons import Event as Happening
from ringwise.reasons import Reason
from ringwise.scheduler import events as ev
from ringwise.scheduler.annotations import binding_annotations
from ringwise.scheduler.commands import Bind, Command, Evict
from ringwise.scheduler.jobs import JobBook
from ringwise.scheduler.journal import Journal
from ringwise.scheduler.reasons import BIND_FAILED
from ringwise.scheduler.reporting import Reporter
from ringwise.scheduler.waiting import Waiting
from ringwise.state.cluster import ClusterState
from ringwise.state.fleet import HOSTS
from ringwise.state.model import Pod
from ringwise.state.reservations import Reservations
from ringwise.topology.boards import BoardCatalog, shipped_catalog
from ringwise.topology.nearest import nearest

DEFAULT_REGISTRY = Registry(PLUGINS, ACTIONS)


class Scheduler:
    """Feed it with events; it answers with what is to be done. It knows no clock: time comes in."""

    def __init__(
        self,
        configuration: Configuration | None = None,
        *,
        catalog: BoardCatalog | None = None,
        registry: Registry = DEFAULT_REGISTRY,
        scheduler_names: Iterable[str] = ("volcano", "ringwise"),
    ) -> None:
        self.configuration = configuration or default_configuration()
        self.registry = registry
        self.state = ClusterState(self_maintain=self.configuration.settings.self_maintain_available_card)
        self.state.use_aggregated = self.configuration.settings.use_cluster_info_manager
        self.world = World(catalog or shipped_catalog())
        self.state.watch_labels(
            key for board in self.world.catalog for key, _ in board.node_labels
        )
        self.ledger = Ledger()
        self.reservations = Reservations(self.state)
        self.book = JobBook(self.state, self.ledger, frozenset(scheduler_names))
        self.waiting = Waiting()
        self.incidents: list[Incident] = []
        self.cycles = 0
        self.observer: Callable[[Session, Job], None] | None = None
        #: Remembers every batch of events and what was decided, where somebody wants to know later.
        self.journal: Journal | None = None
        #: How the jobs of the last cycle that were placed as a whole got their nodes.
        self.plans: dict[str, Plan] = {}
        self._reporter = Reporter(self)
        self._happened: set[Happening] = set()
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
        }

    # -- the one entrance --------------------------------------------------------------

    def handle(self, events: Iterable[ev.Event], now: int) -> list[Command]:
        """Take in facts, decide what can be decided, and say what is to be done."""
        if self.journal is None:
            return self._handle(events, now)
        batch = tuple(events)
        commands = self._handle(batch, now)
        self.journal.record(batch, now, commands)
        return commands

    def _handle(self, events: Iterable[ev.Event], now: int) -> list[Command]:
        self.take(events, now)
        for reservation in self.reservations.expired(now):
            self.reservations.lift(reservation.owner)
            self._happened.add(Happening.CHIPS_FREED)
        self.waiting.wake(self._happened, now)
        if not self.waiting.awake:
            return self._reporter.report([])
        return self.cycle(now)

    def take(self, events: Iterable[ev.Event], now: int) -> None:
        """Take in facts without deciding anything yet."""
        self._now = now
        self._happened.clear()
        for event in events:
            self._handlers[type(event)](event)

    def next_deadline(self) -> int | None:
        """When time alone changes something, in nanoseconds; None when only events can."""
        expiries = [r.expires for r in self.reservations if r.expires is not None]
        return min(expiries, default=None)

    def cycle(self, now: int) -> list[Command]:
        """Decide about every job that is awake."""
        self.cycles += 1
        pending = self._take_pending()
        session = self.open_session(now, pending)
        for name in self.configuration.actions:
            action = self.registry.actions.get(name)
            if action is not None:
                action(session)
        self.incidents.extend(session.incidents)
        self.plans = session.plans
        commands: list[Command] = [self._bind(n, allocation) for n, allocation in enumerate(session.bound)]
        for eviction in session.evicted:
            pod = eviction.pod
            commands.append(Evict(pod.uid, pod.namespace, pod.name, eviction.why))
        for job in pending:
            self.waiting.settle(job, self._still_pending(job), now)
        commands.extend(self._reporter.report(pending))
        return commands

    def open_session(self, now: int, pending: Iterable[Job] = ()) -> Session:
        self.totals()
        return Session(
            state=self.state,
            reservations=self.reservations,
            jobs=self.book.jobs,
            queues=self.book.queues,
            ledger=self.ledger,
            world=self.world,
            configuration=self.configuration,
            registry=self.registry,
            now=now,
            pending=pending,
            observer=self.observer,
        )

    def _take_pending(self) -> list[Job]:
        """The jobs that are awake and have pods to place, or could be let in; the others get their reason."""
        pending: list[Job] = []
        for key in self.waiting.take():
            job = self.book.jobs.get(key)
            if job is None:
                continue
            reason = self.refusal(job)
            if reason is not None:
                job.reason = reason
                self.waiting.settle(job, True, self._now)
                self._reporter.touch(job)
            elif self._still_pending(job):
                pending.append(job)
        return pending

    def _still_pending(self, job: Job) -> bool:
        if not job.pods:
            return job.group is not None and not job.inqueue and bool(job.prospective)
        return any(self.is_waiting(pod) for pod in job.pods.values())

    def is_waiting(self, pod: Pod) -> bool:
        """A pod of ours that has no node and may get one."""
        return (
            pod.phase == "Pending"
            and not pod.deleting
            and not pod.gated
            and self.state.pods[pod.uid].node < 0
            and self.book.is_ours(pod)
        )

    def is_idle(self, node: str) -> bool:
        """The node offers chips, is ready, and nobody holds any of them."""
        number = self.state.node_id.get(node)
        if number is None or self.state.nodes[number] is None:
            return False
        offering = [
            fleet
            for resource, fleet in self.state.fleets.items()
            if resource != HOSTS and fleet.allocatable[number] > 0
        ]
        return bool(offering) and all(
            not fleet.held[number] and fleet.closed[number] is None for fleet in offering
        )

    def refusal(self, job: Job) -> Reason | None:
        """What is wrong with a job before any plugin is asked."""
        if job.defects:
            return job.defects[0]
        if job.queue not in self.book.queues:
            known = sorted(self.book.queues)
            return UNKNOWN_QUEUE(queue=job.queue, known=known, nearest=nearest(job.queue, known) or known[0])
        return None

    def _bind(self, number: int, allocation: Allocation) -> Bind:
        pod, node = allocation.pod, self.state.names[allocation.node]
        annotations = binding_annotations(self, allocation, self._now + number)
        placed = replace(pod, annotations={**pod.annotations, **annotations}, holds=allocation.chips)
        # The pod as it will be once the binding is through; news from before do not replace it.
        self.state.pods[pod.uid].pod = placed
        allocation.job.pods[pod.uid] = placed
        allocation.job.ordered = None
        if allocation.job.started is None:
            allocation.job.started = self._now
        return Bind(pod.uid, pod.namespace, pod.name, node, allocation.chips, annotations)

    # -- nodes ------------------------------------------------------------------------------

    def _node_seen(self, event: ev.NodeSeen) -> None:
        known = event.node.name in self.state.node_id
        self.state.put_node(event.node)
        self._world_changed(Happening.NODE_CHANGED if known else Happening.NODE_ADDED)

    def _node_gone(self, event: ev.NodeGone) -> None:
        self.state.drop_node(event.name)
        self._world_changed(Happening.NODE_CHANGED)

    def _report_seen(self, event: ev.ReportSeen) -> None:
        self.state.put_report(event.report)
        self._world_changed(Happening.HEALTH_CHANGED)

    def _report_gone(self, event: ev.ReportGone) -> None:
        self.state.drop_report(event.node, event.aggregated)
        self._world_changed(Happening.HEALTH_CHANGED)

    def _topology_seen(self, event: ev.TopologySeen) -> None:
        self.world.set_topology(event.topology, event.problem)
        self._revalidate(Happening.TOPOLOGY_CHANGED)

    def _world_changed(self, happening: Happening) -> None:
        self.world.nodes_changed()
        self._happened.add(happening)
        self.ledger.total.clear()

    # -- pods and their groups ------------------------------------------------------------------

    def _pod_seen(self, event: ev.PodSeen) -> None:
        pod = event.pod
        before = self.state.pods.get(pod.uid)
        held = before is not None and before.node >= 0
        job = self.book.put_pod(pod)
        if held and self.state.pods[pod.uid].node < 0:
            self._happened.add(Happening.CHIPS_FREED)
        if job is not None:
            self.waiting.touch(job.key)
            self._reporter.touch(job)

    def _pod_gone(self, event: ev.PodGone) -> None:
        placement = self.state.pods.get(event.uid)
        if placement is not None and placement.node >= 0:
            self._happened.add(Happening.CHIPS_FREED)
        job = self.book.drop_pod(event.uid)
        self._job_may_be_gone(job)

    def _group_seen(self, event: ev.PodGroupSeen) -> None:
        job = self.book.put_group(event.group)
        self.waiting.touch(job.key)
        self._reporter.touch(job)

    def _group_gone(self, event: ev.PodGroupGone) -> None:
        self._job_may_be_gone(self.book.drop_group(event.key))

    def _job_may_be_gone(self, job: Job | None) -> None:
        if job is None:
            return
        if job.key in self.book.jobs:
            self.waiting.touch(job.key)
            self._reporter.touch(job)
        else:
            self.waiting.forget(job.key)
            self.reservations.lift(job.key)
            self._reporter.forget(job.key)
            self._happened.add(Happening.JOB_ENDED)

    def _vcjob_seen(self, event: ev.VcJobSeen) -> None:
        job = self.book.put_vcjob(event.job)
        if job is not None:
            self.waiting.touch(job.key)

    def _vcjob_gone(self, event: ev.VcJobGone) -> None:
        self.book.drop_vcjob(event.key)

    def _bind_failed(self, event: ev.BindFailed) -> None:
        placement = self.state.pods.get(event.uid)
        job = self.book.job_of(event.uid)
        if placement is None or job is None or not placement.assumed:
            return
        node = self.state.names[placement.node]
        self.ledger.gave(job.key, job.queue, placement.pod.cls)
        self.state.release(event.uid)
        self._happened.add(Happening.CHIPS_FREED)
        job.reason = BIND_FAILED(pod=placement.pod.name, node=node, why=event.why)
        self.waiting.touch(job.key)

    # -- queues, priorities, configuration ------------------------------------------------------------

    def _queue_seen(self, event: ev.QueueSeen) -> None:
        self.book.put_queue(event.queue)
        self._happened.add(Happening.QUEUE_CHANGED)

    def _queue_gone(self, event: ev.QueueGone) -> None:
        self.book.drop_queue(event.name)
        self._happened.add(Happening.QUEUE_CHANGED)

    def _priority_seen(self, event: ev.PriorityClassSeen) -> None:
        self.book.put_priority_class(event.priority_class, event.priority_class.name)

    def _priority_gone(self, event: ev.PriorityClassGone) -> None:
        self.book.put_priority_class(None, event.name)

    def _configuration_seen(self, event: ev.ConfigurationSeen) -> None:
        self.configuration = event.configuration
        settings = event.configuration.settings
        self.state.use_aggregated = settings.use_cluster_info_manager
        self.state.maintain_free_chips(settings.self_maintain_available_card)
        self._revalidate(Happening.CONFIGURATION_CHANGED)

    def _revalidate(self, happening: Happening) -> None:
        for job in self.book.jobs.values():
            job.changed()
        self._happened.add(happening)

    # -- totals ------------------------------------------------------------------------------------------

    def totals(self) -> Amounts:
        """What all ready nodes offer together; counted again only after nodes changed."""
        total = self.ledger.total
        if not total:
            for amounts in self._node_amounts():
                for name, amount in amounts.items():
                    total[name] = total.get(name, 0) + amount
        return total

    def _node_amounts(self) -> Iterator[Amounts]:
        for node in self.state.nodes:
            if node is not None and node.ready:
                yield {"cpu": node.cpu_milli, "memory": node.memory, **dict(node.extended)}
        for resource, fleet in self.state.fleets.items():
            if resource != HOSTS:
                yield {resource: sum(count for count in fleet.allocatable if count > 0)}
