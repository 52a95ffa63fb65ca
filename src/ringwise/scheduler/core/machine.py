"""The scheduler: events in, commands out. The only writer of the state.

    events --> job book, state --> activate jobs that the events can help --> cycles --> commands

A job that did not fit is not tried again until a trigger that its reason names, so a
turn in which nothing changed costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from ringwise.framework.configuration import Configuration
from ringwise.framework.extension_points import JobPlan
from ringwise.framework.job import Job
from ringwise.framework.registry import Registry
from ringwise.framework.session import Session
from ringwise.framework.step_timer import StepTimer
from ringwise.framework.topology_cache import TopologyCache
from ringwise.messages.commands import Bind, Command
from ringwise.messages.containment import Containment
from ringwise.messages.events import Decide, Event
from ringwise.reasons import Trigger
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.active_configuration import ActiveConfiguration
from ringwise.scheduler.cache.assumed_pods import AssumedPods
from ringwise.scheduler.cache.component import Component, Components, Context, ObjectTables
from ringwise.scheduler.cache.deadlines import DeadlineTables
from ringwise.scheduler.cache.job_book import JobBook
from ringwise.scheduler.cache.job_queue import JobQueue
from ringwise.scheduler.cache.record_tables import RecordTables
from ringwise.scheduler.core.components import build_components
from ringwise.scheduler.defaults import default_configuration
from ringwise.scheduler.journal import Journal, TurnMark
from ringwise.state.changes import Changes
from ringwise.state.cluster import ClusterState
from ringwise.state.hyper_nodes import CompileExpressions
from ringwise.state.reservations import Reservations
from ringwise.topology.boards import BoardCatalog
from ringwise.wellknown import SCHEDULER_NAMES


class Scheduler:
    """Everything that decides goes through `handle`; everything else is read through `view`.

    It knows no clock: the time is an argument.
    """

    def __init__(
        self,
        configuration: Configuration | None = None,
        *,
        registry: Registry,
        catalog: BoardCatalog,
        scheduler_names: Iterable[str] = SCHEDULER_NAMES,
        awaits_groups: bool = False,
        compile_expressions: CompileExpressions | None = None,
    ) -> None:
        active = ActiveConfiguration(configuration or default_configuration())
        settings = active.settings
        state = self._state = ClusterState(
            self_maintain=settings.self_maintain_available_card, compile_expressions=compile_expressions
        )
        state.prefer_aggregated(settings.use_cluster_info_manager)
        state.guarded_annotations = settings.owned_annotations == "guarded"
        topology = TopologyCache(catalog)
        labels = (key for board in topology.catalog for key, _ in board.node_labels)
        state.watch_labels(labels, always=True)
        self._triggers: set[Trigger] = set()
        self._containment = Containment()
        self._book = JobBook(state, active, frozenset(scheduler_names), self._containment, awaits_groups)
        deadlines = DeadlineTables()
        self._job_queue = JobQueue(deadlines)
        self._components = Components(deadlines, state, self._book)
        self._notify = self._components.notify
        context = self._context = Context(
            state=state,
            book=self._book,
            configuration=active,
            topology=topology,
            job_queue=self._job_queue,
            deadlines=deadlines,
            job_tables=ObjectTables(),
            pod_tables=ObjectTables(),
            record=RecordTables(),
            reservations=Reservations(state),
            triggers=self._triggers,
            assumed=AssumedPods(state),
            containment=self._containment,
            notify=self._notify,
        )
        self._events, self._cycle, self.view = build_components(context, self._components, registry)
        self._history, self._turns = self._cycle.history, self._cycle.turns
        #: Records every turn.
        self.journal: Journal | None = None

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

    def time_steps(self, timer: StepTimer) -> None:
        """Measure every cycle, its plugins and its actions with this timer."""
        self._cycle.timer = timer

    def observe(self, observer: Callable[[Session, Job], None] | None) -> None:
        """Call a function for every job just before it is decided, with the state that the decision sees."""
        self._cycle.observer = observer

    def on_bindings(self, send: Callable[[Sequence[Bind]], None]) -> None:
        """Call a function during long cycles with each batch of bindings. `handle` returns them as well."""
        self._cycle.bindings.on_bindings = send

    def on_progress(self, progress: Callable[[], None]) -> None:
        """Call a function with every event, every job and every attempt: a long turn is not a hung one."""
        self._cycle.on_progress = progress

    def _handle(self, events: Iterable[Event], now: int, decide: Decide) -> list[Command]:
        self._history.now = now
        self._history.turns += 1
        for event in events:
            self._events.apply(event, now)
            self._cycle.progress()
        for job in self._book.read_changed():
            self._notify(ie.JobRefreshed(job), now)
        for job in self._book.review_priorities():
            # It may be served first now, or preempt others.
            self._job_queue.activate(job.key)
            self._notify(ie.JobStatusChanged(job), now)
        self._components.call(Component.settle, now)
        if decide is Decide.NOTHING:
            return []
        call = self._components.call
        self._components.contained("job queue", self._job_queue.review, now)
        call(Component.review, now)
        commands = call(Component.act, now) if decide is Decide.ALL else []
        self._job_queue.wake(self._triggers)
        self._triggers.clear()
        self._wake()
        if decide is Decide.ONE_CYCLE:
            plans: dict[str, JobPlan] = {}
            active = True
            while active:
                self._history.plans = {}
                commands += self._run_cycle(now, may_reserve=False)
                plans |= self._history.plans
                # Jobs may borrow now, or jobs behind one that is too large for the cluster may start.
                active = self._wake()
            self._history.plans = plans
            commands += call(Component.report, now)
            return [*commands, *self._containment.commands()]
        while self._job_queue.active:
            # A cycle may lift reservations; then other jobs are tried once more.
            commands += self._run_cycle(now, may_reserve=True)
            self._job_queue.wake(self._triggers)
            self._triggers.clear()
            self._wake()
            if self._turns.is_over():
                break
        commands += call(Component.report, now)
        self._turns.end(bool(self._job_queue.active))
        commands += call(Component.publish, now)
        commands += call(Component.account, commands, now)
        return [*call(Component.record, now), *commands, *self._containment.commands()]

    def _run_cycle(self, now: int, *, may_reserve: bool) -> list[Command]:
        self._components.contained("cycle", partial(self._cycle.run, may_reserve=may_reserve), now)
        # What was decided before a failure is executed.
        return [*self._cycle.bindings.take(), *self._components.call(Component.after_cycle, now)]

    def _wake(self) -> bool:
        """Activate jobs; True if a turn of one cycle gets another one for them."""
        woken = [part.wake() for part in self._components.overriding(Component.wake)]
        return any(woken)

    def record_changes(self, changes: Changes | None) -> None:
        """Name what changes from now on in this record; None: nothing reads it."""
        self._state.changes = changes or Changes(recording=False)

    def prepare(self, now: int) -> None:
        """Compute what the first cycle needs of nodes, boards and jobs: a standby replica has time for it."""
        session = self._cycle.sessions.open(now)
        for key in self._job_queue.active:
            job = self._book.jobs.get(key)
            if job is not None and self._book.refusal(job) is None and self._book.has_pending(job):
                session.prepare(job)
                self._cycle.on_progress()

    def next_deadline(self) -> int | None:
        """When time alone changes something, in nanoseconds; None when only events can."""
        return self._components.deadline()

    def next_retry(self) -> int | None:
        """Return when an unschedulable job is retried even without an event. Virtual time may pass it."""
        return self._job_queue.next_retry()
