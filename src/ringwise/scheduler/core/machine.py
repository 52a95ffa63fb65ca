"""The scheduler: events in, commands out. The only writer of the state.

    events --> job book, state --> activate jobs that the events can help --> cycles --> commands

A job that did not fit is not tried again until a trigger that its reason names, so a
turn in which nothing changed costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from ringwise.framework.budget import NamespaceSteps, StepBudget
from ringwise.framework.configuration import Configuration
from ringwise.framework.gangs.gang_placement import too_few_pods
from ringwise.framework.job import Job, gated_pods
from ringwise.framework.reasons import INTERNAL_ERROR
from ringwise.framework.registry import ActionSpec, Registry
from ringwise.framework.session import Session
from ringwise.framework.statement import Allocation
from ringwise.framework.topology_cache import TopologyCache
from ringwise.framework.users import unknown_user, user_of
from ringwise.messages.commands import Bind, Command, EvictionCause
from ringwise.messages.containment import Containment, describe
from ringwise.messages.events import Decide, Event
from ringwise.reasons import Trigger
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.accounting.component import Accounting
from ringwise.scheduler.cache.active_configuration import ActiveConfiguration
from ringwise.scheduler.cache.assumed_pods import AssumedPods
from ringwise.scheduler.cache.component import Components, Context
from ringwise.scheduler.cache.deadlines import DeadlineTables
from ringwise.scheduler.cache.expected_starts import ExpectedStarts
from ringwise.scheduler.cache.inventory import Inventory
from ringwise.scheduler.cache.job_book import JobBook
from ringwise.scheduler.cache.job_queue import BackoffCause, JobQueue
from ringwise.scheduler.cache.preemptions import Preemptions
from ringwise.scheduler.cache.run_times import RunTimes
from ringwise.scheduler.cache.sessions import SessionFactory
from ringwise.scheduler.core.admission_limits import AdmissionLimits
from ringwise.scheduler.core.allocated_domains import AllocatedDomains
from ringwise.scheduler.core.awaited_objects import AwaitedObjects
from ringwise.scheduler.core.binding_annotations import binding_annotations
from ringwise.scheduler.core.drain_events import DrainEvents
from ringwise.scheduler.core.duplicate_addresses import DuplicateAddresses
from ringwise.scheduler.core.event_handlers import EventHandlers
from ringwise.scheduler.core.hyper_node_events import HyperNodeEvents
from ringwise.scheduler.core.job_backoff import JobBackoff
from ringwise.scheduler.core.job_claims import JobClaims
from ringwise.scheduler.core.limit_waits import LimitWaits
from ringwise.scheduler.core.node_events import NodeEvents
from ringwise.scheduler.core.node_reservations import NodeReservationExpiry
from ringwise.scheduler.core.overruns import Overruns
from ringwise.scheduler.core.pod_events import PodEvents
from ringwise.scheduler.core.queue_discipline import QueueDiscipline
from ringwise.scheduler.core.queue_events import QueueEvents
from ringwise.scheduler.core.reservation import ReservationExpiry, StarvationGuard
from ringwise.scheduler.core.reservation_records import ReservationRecords
from ringwise.scheduler.core.run_time_limits import RunTimeLimits
from ringwise.scheduler.core.start_estimates import StartEstimates
from ringwise.scheduler.core.status_reporter import StatusReporter
from ringwise.scheduler.core.storage_waits import StorageWaits
from ringwise.scheduler.core.tor_share_publisher import TorSharePublisher
from ringwise.scheduler.core.turns import FairTurns
from ringwise.scheduler.core.volume_events import VolumeEvents
from ringwise.scheduler.core.volume_waits import VolumeWaits
from ringwise.scheduler.defaults import default_configuration
from ringwise.scheduler.defragment.movable import not_movable
from ringwise.scheduler.defragment.moves import Moves
from ringwise.scheduler.explain.what_if import WhatIf
from ringwise.scheduler.faults.fault_jobs import FaultJobs
from ringwise.scheduler.faults.fault_nodes import FaultNodes
from ringwise.scheduler.faults.fault_view import FaultView
from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.scheduler.faults.link_down import LinkDownNodes
from ringwise.scheduler.faults.partial_gangs import PartialGangs
from ringwise.scheduler.faults.previous_placements import PreviousPlacements
from ringwise.scheduler.faults.publisher import ReschedulingPublisher
from ringwise.scheduler.faults.share_records import ShareRecords
from ringwise.scheduler.faults.times import FaultTimes
from ringwise.scheduler.journal import Journal, TurnMark
from ringwise.scheduler.view import History, SchedulerView
from ringwise.state.changes import Changes
from ringwise.state.cluster import ClusterState
from ringwise.state.loads import NO_LOAD, load_of
from ringwise.state.model import PodClass
from ringwise.state.reservations import Reservation, Reservations
from ringwise.topology.boards import BoardCatalog, shipped_catalog
from ringwise.wellknown import RANK_INDEX, SCHEDULER_NAMES


class Scheduler:
    """Everything that decides goes through `handle`; everything else is read through `view`.

    It knows no clock: the time is an argument.
    """

    def __init__(
        self,
        configuration: Configuration | None = None,
        *,
        registry: Registry,
        catalog: BoardCatalog | None = None,
        scheduler_names: Iterable[str] = SCHEDULER_NAMES,
        awaits_groups: bool = False,
    ) -> None:
        self._configuration = ActiveConfiguration(configuration or default_configuration())
        settings = self._configuration.settings
        self._registry = registry
        state = self._state = ClusterState(self_maintain=settings.self_maintain_available_card)
        state.prefer_aggregated(settings.use_cluster_info_manager)
        state.guarded_annotations = settings.owned_annotations == "guarded"
        topology = TopologyCache(catalog or shipped_catalog())
        labels = (key for board in topology.catalog for key, _ in board.node_labels)
        state.watch_labels(labels, always=True)
        self._triggers: set[Trigger] = set()
        self._reservations = Reservations(state)
        self._containment = Containment()
        self._book = JobBook(state, frozenset(scheduler_names), self._containment, awaits_groups)
        self._book.visible_devices = settings.visible_devices
        self._book.user_of = self._verified_user
        deadlines = DeadlineTables()
        self._job_queue = JobQueue(deadlines)
        self._assumed = AssumedPods(state)
        self._components = Components(deadlines)
        self._notify = self._components.notify
        context = Context(
            state=state,
            book=self._book,
            configuration=self._configuration,
            topology=topology,
            job_queue=self._job_queue,
            deadlines=deadlines,
            reservations=self._reservations,
            triggers=self._triggers,
            assumed=self._assumed,
            containment=self._containment,
            notify=self._notify,
        )
        self._turns = FairTurns(context)
        self._backoff = JobBackoff(context)
        self._guard = StarvationGuard(context)
        self._discipline = QueueDiscipline(context)
        self._limit_waits = LimitWaits(context)
        gangs = PartialGangs(context)
        fault_jobs = FaultJobs(self._book, gangs)
        self._previous = PreviousPlacements(context, fault_jobs)
        self._shares = ShareRecords(context, fault_jobs, self._previous)
        self._faults = FaultHandler(context, fault_jobs)
        fault_nodes, fault_times = FaultNodes(context), FaultTimes(context)
        self._moves = Moves(context)
        self._run_times = RunTimeLimits(context)
        overruns = Overruns(context)
        self._rescheduling = ReschedulingPublisher(
            context,
            self._faults,
            self._previous,
            self._shares,
            fault_nodes,
            self._moves,
            self._run_times,
            overruns,
        )
        self._awaited = AwaitedObjects()
        self._starts = starts = ExpectedStarts(RunTimes(context))
        self._reporter = StatusReporter(context, gangs.was_complete, self._awaited, starts)
        self._accounting = Accounting(context)
        inventory = Inventory(context)
        self._preemptions = Preemptions(context)
        self._claims = JobClaims(context)
        self._limits = AdmissionLimits(context, self._reporter.has_lost_all, self._is_kept)
        self._sessions = SessionFactory(context, inventory, registry)
        pods = PodEvents(context)
        self._volumes = VolumeWaits(context, pods.undo_binding)
        self._volumes.on_bound = self._sent
        self._events = EventHandlers(
            context,
            (NodeEvents(context), QueueEvents(context), VolumeEvents(context), pods),
            self._components,
        )
        # In the order in which they hear, are asked and contribute.
        self._components.hold(
            (
                self._turns,
                ReservationExpiry(context),
                ReservationRecords(context, self._turns),
                NodeReservationExpiry(context),
                # Before those that look for pods on faulty hardware: what is not bound yet is given back.
                self._volumes,
                StorageWaits(context),
                self._previous,
                self._shares,
                self._backoff,
                self._limits,
                self._limit_waits,
                self._claims,
                self._reporter,
                self._guard,
                self._discipline,
                DrainEvents(context),
                HyperNodeEvents(context),
                DuplicateAddresses(context),
                LinkDownNodes(context),
                self._faults,
                fault_nodes,
                fault_times,
                self._moves,
                self._run_times,
                overruns,
                self._preemptions,
                inventory,
                starts.run_times,
                StartEstimates(context, starts, self._reporter.job_changed),
                gangs,
                TorSharePublisher(context),
                AllocatedDomains(context),
                self._rescheduling,
                self._accounting,
            )
        )
        self._history = History(
            set_aside=self._backoff.set_aside,
            moves=self._moves.records,
            accounts=self._accounting.totals.queues,
            preemptions=self._preemptions.jobs,
            refused_evictions=self._preemptions.refused,
            throttled=self._turns.throttled,
        )
        self.view = SchedulerView(
            state=state,
            book=self._book,
            reservations=self._reservations,
            topology=topology,
            configuration=self._configuration,
            faults=FaultView(self._faults, self._previous, self._rescheduling, fault_times),
            history=self._history,
            what_if=WhatIf(state, self._book, context.usage, self._sessions, self._events.known, starts),
        )
        self._moves.not_movable = lambda job, now: not_movable(self.view, job, now)
        #: Called for every job just before it is decided, with the state as the decision will see it.
        self.observer: Callable[[Session, Job], None] | None = None
        #: Called during a long cycle with its bindings so far. They are also returned at its end.
        self.early_bindings: Callable[[Sequence[Bind]], None] | None = None
        #: Called with every event, every job and every attempt to place one: a long turn is no hung one.
        self.on_progress: Callable[[], None] = lambda: None
        #: Records every turn.
        self.journal: Journal | None = None
        self._steps = NamespaceSteps()
        #: Bindings of this turn; they order `predicate-time`.
        self._bindings = 0

    # -- the one entrance --------------------------------------------------------------------

    def handle(
        self,
        events: Iterable[Event],
        now: int,
        decide: Decide = Decide.ALL,
        marks: Iterable[TurnMark] = (),
    ) -> list[Command]:
        """One turn: apply the events, decide as much as `decide` allows, and return the commands.

        `marks`: of the journal, if this turn was decided before.
        """
        self._turns.begin(now, marks)
        if self.journal is None:
            return self._handle(events, now, decide)
        batch = tuple(events)
        commands = self._handle(batch, now, decide)
        self.journal.record(batch, now, commands, decide, self._turns.marks)
        return commands

    def measure(self, processor_time: Callable[[], int]) -> None:
        """Share the deciding thread between namespaces, by its processor time in nanoseconds."""
        self._turns.processor_time = processor_time

    def _progress(self) -> None:
        self._turns.progress += 1
        self.on_progress()

    def _handle(self, events: Iterable[Event], now: int, decide: Decide) -> list[Command]:
        self._history.now = now
        self._starts.turns += 1
        self._bindings = 0
        for event in events:
            self._events.apply(event, now)
            self._progress()
        for job in self._book.read_changed():
            self._note_claim(job)
            self._limits.touch(job)
        for job in self._book.review_priorities():
            # It may be served first now, or preempt others.
            self._job_queue.activate(job.key)
            self._reporter.job_changed(job)
        if decide is Decide.NOTHING:
            return []
        self._contained("job queue", self._job_queue.review, now)
        for part in self._components.reviewing:
            self._contained(part.name, part.review, now)
        commands: list[Command] = []
        if decide is Decide.ALL:
            for part in self._components.acting:
                commands += self._contained(part.name, part.act, now)
        self._wake()
        if decide is Decide.ONE_CYCLE:
            self._history.plans = {}
            commands += self._cycle_once(now)
            self._limit_waits.wake()
            if self._limit_waits.lends:
                commands += self._cycle_once(now)
            # Behind a job that turned out not to fit into the empty cluster either, others may start.
            while self._discipline.wake():
                commands += self._cycle_once(now)
            commands += self._volumes.commands()
            commands += self._contained(self._reporter.name, self._reporter.publish, now)
            return [*commands, *self._containment.commands()]
        self._contained("admissions", self._limits.end_admissions, now)
        while self._job_queue.active or self._limits.has_votes():
            # A cycle may lift reservations; then other jobs are tried once more.
            commands += self._contained("cycle", self._cycle, now)
            self._wake()
            if self._turns.is_over():
                break
        # Jobs to vote on must not wait until no admitted job is left.
        self._limits.has_votes()
        self._turns.end(bool(self._job_queue.active))
        # Not for who gave way to others in a later action or cycle.
        commands += self._volumes.commands()
        for part in self._components.publishing:
            commands += self._contained(part.name, part.publish, now)
        told = self._contained(self._accounting.name, partial(self._accounting.tell, commands), now)
        # F1: first, so that what is deleted is known to the next leader.
        records = self._contained(self._rescheduling.name, self._rescheduling.changes, now)
        return [*records, *commands, *told, *self._containment.commands()]

    def _cycle_once(self, now: int) -> Sequence[Command]:
        """A cycle without new reservations. What it shows is added to what the turn has shown so far."""
        plans = self._history.plans
        commands = self._contained("cycle", lambda now: self._cycle(now, reserve=False), now)
        self._history.plans = {**plans, **self._history.plans}
        return commands

    def _contained(
        self, step: str, run: Callable[[int], Sequence[Command] | None], now: int
    ) -> Sequence[Command]:
        """Run a step of the turn. A failure that no job accounts for costs this turn that step only."""
        try:
            commands = run(now) or ()
        except Exception as error:
            if self._state.undo_open():
                self._book.recount()
            self._containment.failed("step", step, error)
            return ()
        self._containment.succeeded("step", step)
        return commands

    def _is_kept(self, job: Job) -> bool:
        """Whether a job without pods keeps its place: it is being rescheduled, or its nodes are reserved."""
        moves = job.clock is not None or job.key in self._faults.jobs
        return moves or self._reservations.of(job.key) is not None

    def _verified_user(self, job: Job) -> str:
        """Return the user for limits; once admission is installed, the unknown user for jobs without one."""
        settings, book = self._configuration.settings, self._book
        user, since = user_of(job, settings), book.users_since
        if user.verified:
            if job.created and (since is None or job.created < since):
                book.users_since = job.created
            return user.name
        guarded = settings.user_annotation == "guarded"
        return unknown_user(job.namespace) if guarded and since is not None and job.created >= since else ""

    def _note_claim(self, job: Job) -> None:
        self._containment.attempt("job", job.key, partial(self._claims.note, job), work="claim")

    def _wake(self) -> None:
        self._discipline.wake()
        self._job_queue.wake(self._triggers)
        self._triggers.clear()
        self._limit_waits.wake()

    def record_changes(self, changes: Changes | None) -> None:
        """Name what changes from now on in this record; None: nothing reads it any more."""
        self._state.changes = changes or Changes(recording=False)

    def prepare(self, now: int) -> None:
        """Compute what the first cycle needs of nodes, boards and jobs: a standby replica has time for it."""
        session = self._sessions.open(now)
        for key in self._job_queue.active:
            job = self._book.jobs.get(key)
            if job is not None and self._book.refusal(job) is None and self._book.has_pending(job):
                session.prepare(job)
                self.on_progress()

    def next_deadline(self) -> int | None:
        """When time alone changes something, in nanoseconds; None when only events can."""
        return self._components.deadline()

    def next_retry(self) -> int | None:
        """Return when an unschedulable job is tried even without an event. Virtual time goes on past it."""
        return self._job_queue.next_retry()

    # -- a cycle --------------------------------------------------------------------------------

    def _cycle(self, now: int, *, reserve: bool = True) -> list[Command]:
        """Decide about every active job."""
        self._history.cycles += 1
        pending = self._pop_pending()
        try:
            return self._decide(pending, now, reserve=reserve)
        except Exception:
            # They wait for what can cure their reasons, and are tried again after some minutes.
            for job in pending:
                self._job_queue.settle(job, True, now)
            raise

    def _decide(self, pending: Sequence[Job], now: int, *, reserve: bool) -> list[Command]:
        reserved_before = list(self._reservations)
        session = self._sessions.open(now, pending, self.observer)
        binds: list[Bind] = []
        session.on_progress = self._progress
        session.may_try, session.may_go_on = self._turns.may_try, self._turns.may_go_on
        session.budget = StepBudget(self._steps, now)
        session.budget.on_progress = self._progress
        session.announce = lambda allocations: self._bind_all(session, allocations, binds, wait=reserve)
        actions = self._configuration.current.actions
        # The last part of the limit is for the jobs that are left: other cycles, in which they come first.
        parts = len(actions) + 1
        for position, name in enumerate(actions, 1):
            action = self._registry.actions.get(name)
            if action is not None:
                self._turns.begin_phase((position - 0.5) / parts)
                session.next_phase = partial(self._turns.begin_phase, position / parts)
                self._run(action, session)
        self._turns.begin_phase(1.0)
        lifted = reserve and self._guard.reserve(session)
        self._turns.end_attempt()
        untried, tried = self._turns.take_untried(pending)
        self._discipline.end_cycle(session)
        session.budget.end()
        self._steps.forget_idle(now)
        if lifted or any(self._came_free(reservation) for reservation in reserved_before):
            self._triggers.add(Trigger.CHIPS_FREED)
        if session.bound:
            self._triggers.add(Trigger.POD_PLACED)
        self._job_queue.set_retries(session.retries)
        self._history.add(session.incidents)
        self._history.plans = session.plans
        evictions: list[Command] = []
        for gone in session.evicted:
            cause = EvictionCause.of_action(gone.why)
            by = "" if gone.beneficiary is None else gone.beneficiary.key
            record = self._state.pods[gone.pod.uid]
            if record.reserved or record.node < 0:
                # It is not bound yet: what it has is given back, and nothing has to end for that.
                self._volumes.make_room(gone.pod.uid, by, now)
                continue
            if by:
                self._notify(ie.PodEvicted(gone.pod.uid, cause, by), now)
            evictions.append(self._assumed.evict(gone.job, gone.pod.uid, gone.why, cause, by))
        session.close()
        # A pod is warned before it is evicted.
        commands: list[Command] = [*binds, *self._preemptions.warnings(), *evictions]
        for job in untried:
            if job.waiting_since is None:
                job.waiting_since = now
            self._job_queue.activate(job.key)
        for job in tried:
            self._containment.attempt("job", job.key, partial(self._settle, job, now), work="settle")
            self._note_claim(job)
        self._note_reservations(reserved_before)
        commands.extend(self._backoff.events())
        commands.extend(self._reporter.changes(tried))
        return commands

    def _run(self, action: ActionSpec, session: Session) -> None:
        """An action that fails outside any job costs this cycle the rest of that action, and nothing else."""
        try:
            action.run(session)
        except Exception as error:
            if self._state.undo_open():
                self._book.recount()
            incident = session.contain(error, None, action.name)
            for job in session.pending:
                if job.reason is None and self._book.has_pending(job):
                    job.reason = INTERNAL_ERROR(where=incident.where, error=incident.error)

    def _came_free(self, before: Reservation) -> bool:
        """Whether the reservation was lifted and its owner did not take all of it."""
        if self._reservations.of(before.owner) is not None:
            return False
        held = self._state.fleets[before.resource].held
        if any(mask & ~held[node] for node, mask in before.chips.items()):
            return True
        job = self._book.jobs.get(before.owner)
        taken: dict[int, list[PodClass]] = {}
        for uid, pod in job.pods.items() if job is not None else ():
            taken.setdefault(self._state.pods[uid].node, []).append(pod.cls)
        return any(
            load.without(load_of(taken.get(node, ()))) != NO_LOAD for node, load in before.loads.items()
        )

    def _note_reservations(self, before: Sequence[Reservation]) -> None:
        """What is reserved for a job is not promised to it as well."""
        owners = {reservation.owner for reservation in before}
        for key in owners.symmetric_difference(reservation.owner for reservation in self._reservations):
            job = self._book.jobs.get(key)
            if job is not None:
                self._note_claim(job)

    def _settle(self, job: Job, now: int) -> None:
        since, pending = job.waiting_since, self._book.has_pending(job)
        self._job_queue.settle(job, pending, now)
        if not pending:
            job.drop_seniority()
            if not job.pods:
                # It was admitted and its pods are being created: its wait for capacity goes on.
                job.waiting_since = since
            elif self._volumes.waits(job.key):
                job.waiting_since = now if since is None else since
        self._notify(ie.JobSettled(job), now)

    def _pop_pending(self) -> list[Job]:
        """The active jobs that have pods to place, or can be admitted; the others get their reason."""
        found: list[Job] = []
        jobs = self._book.jobs
        active = [jobs[key] for key in self._job_queue.pop_active() if key in jobs]
        chosen, later = self._turns.choose(active)
        for job in later:
            self._job_queue.activate(job.key)
        self._state.changes.several_jobs([job.key for job in chosen])
        for job in chosen:
            try:
                if self._limits.comes_later(job):
                    continue
                if self._is_to_decide(job):
                    found.append(job)
                else:
                    self._discipline.drop(job.key)
                self._containment.succeeded("job", job.key, "decide")
            except Exception as error:
                self._containment.failed("job", job.key, error, work="decide")
                job.reason = INTERNAL_ERROR(where="the scheduler", error=describe(error))
                self._job_queue.settle(job, True, self._history.now)
                self._reporter.job_changed(job)
        return found

    def _is_to_decide(self, job: Job) -> bool:
        pending = self._book.has_pending(job)
        # A job with a pending pod is ours; of the others, whose it is has to be found out.
        if not (pending and job.pods) and not self._book.serves(job):
            placed = any(self._state.pods[uid].node >= 0 for uid in job.pods)
            job.reason = None if placed else self._book.refusal(job)
            return False
        self._limits.check(job, self._history.now)
        reason = self._book.refusal(job)
        if reason is not None:
            # Once this is corrected, it does not have to wait for the backoff as well.
            self._job_queue.end_backoff(job.key, BackoffCause.BINDING)
        elif pending and self._job_queue.is_in_backoff(job.key):
            # The reason stays: its binding failed, it was too costly, a claim got no volume, or its pods
            # were not created.
            reason = job.reason
        if reason is not None:
            job.reason = reason
            self._job_queue.settle(job, True, self._history.now)
            self._awaited.note(job, self._history.now)
            self._reporter.job_changed(job)
            return False
        if not pending and job.pods:
            if all(self._state.pods[uid].node >= 0 for uid in job.pods):
                # They were placed under another PodGroup, or by another scheduler.
                job.reason = None
            self._note_gates(job)
            self._settle(job, self._history.now)
        return pending

    def _note_gates(self, job: Job) -> None:
        """All that is left of the gang waits behind scheduling gates: that is why it does not start."""
        gated = gated_pods(job)
        if gated and not any(self._state.pods[uid].node >= 0 for uid in job.pods):
            job.reason = too_few_pods(job, len(job.pods) - gated)
            self._reporter.job_changed(job)

    def _bind_all(
        self, session: Session, allocations: Sequence[Allocation], binds: list[Bind], *, wait: bool
    ) -> None:
        """Final allocations become bindings at once; in a long cycle they are sent before its end."""
        bound = [self._bind(allocation) for allocation in allocations]
        rules = session.claim_rules
        if rules is not None and self._awaits_claims(allocations):
            job = allocations[0].job
            self._volumes.hold(job, allocations, bound, rules.bind_timeout, self._history.now)
            if wait:
                return
            self._volumes.settle_at_once(job.key)
        for allocation, bind in zip(allocations, bound, strict=True):
            self._sent(allocation.job, bind)
        binds += bound
        if self.early_bindings is not None:
            self.early_bindings(binds)

    def _awaits_claims(self, allocations: Sequence[Allocation]) -> bool:
        """Whether these pods of a job are bound later: one has a claim without a volume, or waits already."""
        if not allocations or not allocations[0].job.has_claims:
            return False
        return self._volumes.waits(allocations[0].job.key) or any(one.volumes for one in allocations)

    def _bind(self, allocation: Allocation) -> Bind:
        """D1: the binding carries chips, `predicate-time` and rank in one write."""
        pod, node = allocation.pod, self._state.names[allocation.node]
        annotations = binding_annotations(self._state, allocation, self._history.now + self._bindings)
        self._bindings += 1
        rank = int(annotations[RANK_INDEX]) if pod.rank is None and RANK_INDEX in annotations else pod.rank
        self._assumed.bind(allocation.job, pod, pod.with_chips(allocation.chips, annotations, rank))
        stray = tuple(key for key in pod.stray if key not in annotations)
        return Bind(pod.uid, pod.namespace, pod.name, node, allocation.chips, annotations, stray)

    def _sent(self, job: Job, bind: Bind) -> None:
        """The binding of a pod is on its way."""
        self._history.bindings += 1
        if job.started is None:
            job.started = self._history.now
        self._notify(ie.PodBound(job, bind.node, bind.chips), self._history.now)
