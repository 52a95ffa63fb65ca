"""The machine: events in, commands out. The one writer of the state.

    events --> book of jobs, state --> wake what the events can cure --> one cycle --> commands

A job that did not fit is not tried again until something happens that its reason
names as a cure, so a cycle in which nothing changed costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ringwise.actions import ACTIONS
from ringwise.framework.amounts import Amounts
from ringwise.framework.configuration import Configuration, default_configuration
from ringwise.framework.job import Job
from ringwise.framework.reasons import INTERNAL_ERROR, UNKNOWN_QUEUE
from ringwise.framework.registry import Action, Registry
from ringwise.framework.session import Incident, JobPlan, Session
from ringwise.framework.statement import Allocation
from ringwise.framework.topology_cache import TopologyCache
from ringwise.framework.usage import ResourceUsage
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Command, Evict
from ringwise.plugins import PLUGINS
from ringwise.reasons import Reason, Trigger
from ringwise.scheduler.core.bind_backoff import Retries
from ringwise.scheduler.core.binding_annotations import binding_annotations
from ringwise.scheduler.core.consistency import disagreements
from ringwise.scheduler.core.intake import Intake
from ringwise.scheduler.core.inventory import offered
from ringwise.scheduler.core.job_book import JobBook
from ringwise.scheduler.core.pending_queue import Waiting
from ringwise.scheduler.core.reservation import Guard
from ringwise.scheduler.core.status_reporter import Reporter
from ringwise.scheduler.core.tor_share_publisher import SwitchNews
from ringwise.scheduler.faults.partial_gangs import Recovery
from ringwise.scheduler.faults.previous_placements import Memory
from ringwise.scheduler.journal import Journal
from ringwise.state.cluster import ClusterState
from ringwise.state.fleet import HOSTS
from ringwise.state.model import Pod
from ringwise.state.reservations import Reservation, Reservations
from ringwise.topology.boards import BoardCatalog, shipped_catalog
from ringwise.topology.nearest import nearest
from ringwise.wellknown import RANK_INDEX, SCHEDULER_NAMES

DEFAULT_REGISTRY = Registry(PLUGINS, ACTIONS)
#: `schedulerName` of the pods that are ours where nobody says otherwise.


class Scheduler:
    """Feed it with events; it answers with what is to be done. It knows no clock: time comes in."""

    def __init__(
        self,
        configuration: Configuration | None = None,
        *,
        catalog: BoardCatalog | None = None,
        registry: Registry = DEFAULT_REGISTRY,
        scheduler_names: Iterable[str] = SCHEDULER_NAMES,
    ) -> None:
        self.configuration = configuration or default_configuration()
        self.registry = registry
        self.state = ClusterState(self_maintain=self.configuration.settings.self_maintain_available_card)
        self.state.use_aggregated = self.configuration.settings.use_cluster_info_manager
        self.world = TopologyCache(catalog or shipped_catalog())
        self.state.watch_labels(key for board in self.world.catalog for key, _ in board.node_labels)
        self.ledger = ResourceUsage()
        self.reservations = Reservations(self.state)
        #: Pods of these schedulers are ours.
        self.scheduler_names = frozenset(scheduler_names)
        self.book = JobBook(self.state, self.ledger, self.scheduler_names)
        self.waiting = Waiting()
        self.incidents: list[Incident] = []
        self.cycles = 0
        self.observer: Callable[[Session, Job], None] | None = None
        #: Shown the bindings of a cycle that is still going on. They are returned at its end all the same.
        self.early: Callable[[Sequence[Bind]], None] | None = None
        #: Remembers every batch of events and what was decided, where somebody wants to know later.
        self.journal: Journal | None = None
        #: How the jobs of the last cycle that were placed as a whole got their nodes.
        self.plans: dict[str, JobPlan] = {}
        self.guard = Guard(self)
        self.memory = Memory(self)
        self.recovery = Recovery(self)
        self.retries = Retries(self)
        self.switch_news = SwitchNews(self)
        self.reporter = Reporter(self)
        #: Pods as they were before the binding that is on its way.
        self.unbound: dict[str, Pod] = {}
        #: Pods that we asked to go; the API server has not said anything about them since.
        self.sent_away: set[str] = set()
        self.now = 0
        self._bindings = 0
        self.triggers: set[Trigger] = set()
        self._intake = Intake(self)

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
            self.chips_came_free()
        self.memory.review(now)
        self.retries.wake(now)
        self.guard.wake(self.triggers, now)
        self.waiting.wake(self.triggers, now)
        commands: list[Command] = []
        while self.waiting.awake:
            # A cycle may give up chips that were kept for a job; others are then asked once more.
            self.triggers.clear()
            commands += self.cycle(now)
            self.waiting.wake(self.triggers, now)
        commands += self.reporter.report([])
        commands += self.recovery.overdue(now)
        commands += self.switch_news.news()
        return commands

    def take(self, events: Iterable[ev.Event], now: int) -> None:
        """Take in facts without deciding anything yet."""
        self.now = now
        self._bindings = 0
        self.triggers.clear()
        for event in events:
            self._intake.take(event)
        self.book.read_changed()

    def prepare(self, now: int) -> None:
        """Work out what the first cycle needs of nodes, boards and jobs: a standby has the time for it."""
        session = self.open_session(now)
        for key in self.waiting.awake:
            job = self.book.jobs.get(key)
            if job is not None and self.refusal(job) is None and self._still_pending(job):
                session.prepare(job)

    def next_deadline(self) -> int | None:
        """When time alone changes something, in nanoseconds; None when only events can."""
        times = [reservation.expires for reservation in self.reservations]
        times += [self.guard.deadline(), self.memory.deadline(), self.recovery.deadline()]
        times.append(self.retries.deadline())
        return min((time for time in times if time is not None), default=None)

    def chips_came_free(self) -> None:
        self.triggers.add(Trigger.CHIPS_FREED)

    def validate(self) -> list[str]:
        """What is wrong with the books: nothing, ever."""
        return disagreements(self)

    def cycle(self, now: int) -> list[Command]:
        """Decide about every job that is awake."""
        self.cycles += 1
        pending = self._take_pending()
        kept_before = list(self.reservations)
        session = self.open_session(now, pending)
        binds: list[Bind] = []
        session.announce = lambda allocations: self._bind_all(allocations, binds)
        for name in self.configuration.actions:
            action = self.registry.actions.get(name)
            if action is not None:
                self._run(name, action, session)
        if self.guard.reserve(session) or any(self._came_free(kept) for kept in kept_before):
            self.chips_came_free()
        self.incidents.extend(session.incidents)
        self.plans = session.plans
        commands: list[Command] = [*binds]
        commands += [self.evict(gone.job, gone.pod.uid, gone.why) for gone in session.evicted]
        for job in pending:
            self._settle(job, now)
        commands.extend(self.reporter.report(pending))
        return commands

    def _run(self, name: str, action: Action, session: Session) -> None:
        """An action that fails outside any job costs this cycle the rest of that step, and nothing else."""
        try:
            action(session)
        except Exception as error:
            if self.state.undo_open():
                self.book.recount()
            incident = session.contain(error, None, name)
            for job in session.pending:
                if job.reason is None and self._still_pending(job):
                    job.reason = INTERNAL_ERROR(where=incident.where, error=incident.error)

    def _came_free(self, kept: Reservation) -> bool:
        """Whether chips that were kept for a job are not any more, and it did not take them."""
        if self.reservations.of(kept.owner) is not None:
            return False
        held = self.state.fleets[kept.resource].held
        return any(mask & ~held[node] for node, mask in kept.chips.items())

    def _settle(self, job: Job, now: int) -> None:
        since, waits = job.waiting_since, self._still_pending(job)
        self.waiting.settle(job, waits, now)
        if not waits:
            job.leave_line()
            if not job.pods:
                # It was let in and its pods are being made: it waits for room all the while.
                job.waiting_since = since
        self.guard.note(job)
        if job.previous_nodes:
            self.memory.settle(job)
        if job.min_available > 1:
            self.recovery.look(job, now)

    def open_session(self, now: int, pending: Iterable[Job] = ()) -> Session:
        self.totals()
        return Session(
            state=self.state,
            reservations=self.reservations,
            jobs=self.book.jobs,
            queues=self.book.queues,
            usage=self.ledger,
            topology=self.world,
            configuration=self.configuration,
            registry=self.registry,
            now=now,
            pending=pending,
            ours=self.book.is_ours,
            observer=self.observer,
        )

    def _take_pending(self) -> list[Job]:
        """The jobs that are awake and have pods to place, or could be let in; the others get their reason."""
        pending: list[Job] = []
        for key in self.waiting.take():
            job = self.book.jobs.get(key)
            if job is None:
                continue
            waits = self._still_pending(job)
            # A pod of its that waits is ours; else it is asked whose job it is.
            if not (waits and job.pods) and not self.book.serves(job):
                continue
            reason = self.refusal(job)
            if reason is not None:
                # Once this is mended, it need not wait for its time as well.
                self.retries.forget(key)
            elif waits and self.retries.waits(key):
                # Why its binding failed is still what it waits for.
                reason = job.reason
            if reason is not None:
                job.reason = reason
                self.waiting.settle(job, True, self.now)
                self.reporter.touch(job)
            elif waits:
                pending.append(job)
            elif job.pods:
                self._settle(job, self.now)
        return pending

    def _still_pending(self, job: Job) -> bool:
        if not job.pods:
            return job.group is not None and not job.inqueue and bool(job.prospective)
        return any(map(self.is_waiting, job.pods.values()))

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

    def _bind_all(self, allocations: Iterable[Allocation], binds: list[Bind]) -> None:
        """Final allocations become bindings at once; in a long cycle they leave before its end."""
        binds += [self._bind(allocation) for allocation in allocations]
        if self.early is not None:
            self.early(binds)

    def _bind(self, allocation: Allocation) -> Bind:
        pod, node = allocation.pod, self.state.names[allocation.node]
        annotations = binding_annotations(self, allocation, self.now + self._bindings)
        self._bindings += 1
        rank = int(annotations[RANK_INDEX]) if pod.rank is None and RANK_INDEX in annotations else pod.rank
        placed = pod.with_chips(allocation.chips, annotations, rank)
        # The pod as it will be once the binding is through; news from before do not replace it.
        self.unbound[pod.uid] = pod
        self.replace_pod(allocation.job, placed)
        if allocation.job.started is None:
            allocation.job.started = self.now
        self.switch_news.touch(allocation.job)
        return Bind(pod.uid, pod.namespace, pod.name, node, allocation.chips, annotations)

    def evict(self, job: Job, uid: str, why: str) -> Evict:
        """Ask a pod to go. It holds its chips until it is gone, but nobody counts on it any more."""
        pod = job.pods[uid]
        if not pod.deleting:
            self.sent_away.add(uid)
        self.replace_pod(job, replace(pod, deleting=True))
        return Evict(uid, pod.namespace, pod.name, why)

    def replace_pod(self, job: Job, pod: Pod) -> None:
        self.state.pods[pod.uid].pod = pod
        job.pods[pod.uid] = pod

    # -- totals --------------------------------------------------------------------------

    def totals(self) -> Amounts:
        """What all ready nodes offer together; counted again only after nodes changed."""
        if not self.ledger.capacity:
            self.ledger.capacity.update(offered(self.state))
        return self.ledger.capacity
