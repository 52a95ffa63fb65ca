"""What the scheduler is made of, and how its components hear of each other.

A component declares what it handles with `@on` and `@on_job`: events of the cluster, and those that follow
from them for jobs, pods and nodes (`internal_events`). It says when it wants to be asked again, and
contributes to a turn by overriding hooks. The scheduler holds a list of components; they hear and contribute
in its order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypeVar

from ringwise.durations import earliest
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.framework.topology_cache import TopologyCache
from ringwise.framework.usage import ResourceUsage
from ringwise.messages.commands import Command
from ringwise.messages.containment import Containment
from ringwise.messages.events import Event
from ringwise.reasons import Trigger
from ringwise.records import dataclass
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.active_configuration import ActiveConfiguration
from ringwise.scheduler.cache.assumed_pods import AssumedPods
from ringwise.scheduler.cache.deadlines import DeadlineTables
from ringwise.scheduler.cache.job_book import JobBook
from ringwise.scheduler.cache.job_queue import JobQueue
from ringwise.scheduler.cache.record_tables import RecordTables, RestoredRecord
from ringwise.state.cluster import ClusterState
from ringwise.state.reservations import Reservations

C = TypeVar("C", bound="Component")
M = TypeVar("M", bound=Callable[..., object])

#: Announces an event to all components that hear it, with the time.
Notify = Callable[[object, int], None]
#: What is called with each event of a type, and the time.
Handler = Callable[[Any, int], object]


def on(*kinds: type) -> Callable[[M], M]:
    """Declare that a method of a component handles events of these types."""
    return partial(_declare, kinds, False)


def on_job(*kinds: type) -> Callable[[M], M]:
    """Declare the same for a method that is called with the job of the event instead of the event."""
    return partial(_declare, kinds, True)


def _declare(kinds: Iterable[type], of_job: bool, method: M) -> M:
    vars(method).setdefault("declared", []).extend((kind, of_job) for kind in kinds)
    return method


def _with_job(handler: Handler, event: Any, now: int) -> None:
    handler(event.job, now)


class _Table(Protocol):
    def pop(self, key: str, default: None, /) -> object: ...


T = TypeVar("T", bound=_Table)


class ObjectTables:
    """Tables by key of a job, or by uid of a pod. The entry of an object is dropped when it is gone."""

    def __init__(self) -> None:
        self._drops: list[Callable[[str, None], object]] = []

    def add(self, table: T) -> T:
        self._drops.append(table.pop)
        return table

    def forget(self, key: str) -> None:
        for drop in self._drops:
            drop(key, None)


@dataclass(frozen=True, slots=True)
class Context:
    """What the components share."""

    state: ClusterState
    book: JobBook
    configuration: ActiveConfiguration
    topology: TopologyCache
    job_queue: JobQueue
    deadlines: DeadlineTables
    job_tables: ObjectTables
    pod_tables: ObjectTables
    record: RecordTables
    reservations: Reservations
    #: What happened that may help pending jobs.
    triggers: set[Trigger]
    assumed: AssumedPods
    containment: Containment
    notify: Notify

    @property
    def usage(self) -> ResourceUsage:
        return self.book.usage


class ContextUser:
    def __init__(self, context: Context) -> None:
        self._state = context.state
        self._book = context.book
        self._usage = context.usage
        self._configuration = context.configuration
        self._topology = context.topology
        self._job_queue = context.job_queue
        self._job_tables, self._pod_tables = context.job_tables, context.pod_tables
        self._reservations = context.reservations
        self._triggers = context.triggers
        self._assumed = context.assumed
        self._containment = context.containment
        self._notify = context.notify

    def _lift(self, owner: str, why: str) -> None:
        """End the reservation of a job if it was made for this reason."""
        reservation = self._reservations.of(owner)
        if reservation is not None and reservation.why == why:
            self._reservations.lift(owner)
            self._triggers.add(Trigger.CHIPS_FREED)

    def _announce_nodes(self, trigger: Trigger, now: int) -> None:
        """Nodes, or what may use them, are different."""
        self._topology.nodes_changed()
        self._notify(ie.ClusterChanged(), now)
        self._triggers.add(trigger)


class Component(ContextUser):
    #: By what a failure of its part of a turn is reported.
    name = ""
    #: Components that it consists of. They hear and contribute before it.
    parts: Sequence[Component] = ()

    def handlers(self) -> Iterator[tuple[type, Handler]]:
        """Yield the types of events that it handles, and what is called with them."""
        members = chain.from_iterable(vars(one).items() for one in reversed(type(self).__mro__))
        declared = {name: member.declared for name, member in members if hasattr(member, "declared")}
        for name, kinds in declared.items():
            # A class that overrides the method need not declare it again.
            handler = getattr(self, name)
            for kind, of_job in kinds:
                yield kind, partial(_with_job, handler) if of_job else handler

    def current_events(self) -> Iterable[Event]:
        """The objects that it alone keeps, as events: another scheduler that handles them knows the same."""
        return ()

    def deadline(self) -> int | None:
        """When time alone changes something, beyond its tables of deadlines; None if only events can."""
        return None

    def restore(self, record: RestoredRecord, now: int) -> None:
        """Take over the tables of the previous leader.

        It is called in the reverse order of the list: previous placements follow the jobs that a fault hit.
        """

    # Hooks, in the order of a turn. A turn that decides only one cycle has no `act`, `publish`, `account` and
    # `record`; one that decides nothing has only `settle`.

    def settle(self, now: int) -> None:
        """Change what follows from all events of the turn together."""

    def review(self, now: int) -> None:
        """Change what time alone changes, before the cycles."""

    def act(self, now: int) -> Iterable[Command]:
        """Return commands that come before the cycles."""
        return ()

    def wake(self) -> bool:
        """Activate jobs that no trigger activates. True if a turn of one cycle needs another cycle."""
        return False

    def may_decide(self, job: Job, now: int) -> bool:
        """Return whether an active job is decided in this cycle; it can update what it knows of the job.

        A component that returns False must settle the job in the job queue, or activate it later.
        """
        return True

    def end_cycle(self, session: Session) -> None:
        """Use the session of a cycle, after its actions."""

    def after_cycle(self, now: int) -> Iterable[Command]:
        """Return commands that follow from a cycle."""
        return ()

    def report(self, now: int) -> Iterable[Command]:
        """Return commands that come after the cycles; jobs may still be activated for the next turn."""
        return ()

    def publish(self, now: int) -> Iterable[Command]:
        """Return commands that come after the cycles and all reports."""
        return ()

    def account(self, commands: Sequence[Command], now: int) -> Iterable[Command]:
        """Return commands that follow from those of the turn."""
        return ()

    def record(self, now: int) -> Iterable[Command]:
        """Return commands that must be executed before all others of the turn."""
        return ()


class Components:
    """The list. Empty until `hold`: components are given `notify` before all of them exist."""

    def __init__(self, deadlines: DeadlineTables, state: ClusterState, book: JobBook) -> None:
        self._deadlines = deadlines
        self._state = state
        self._book = book
        self._handlers: dict[type, list[Handler]] = {}
        self._all: Sequence[Component] = ()
        self._overriding: dict[str, list[Component]] = {}

    def hold(self, components: Sequence[Component]) -> None:
        self._all = [part for component in components for part in (*component.parts, component)]
        for component in self._all:
            for heard, handler in component.handlers():
                self._handlers.setdefault(heard, []).append(handler)
        for hook, default in vars(Component).items():
            own = [part for part in self._all if getattr(type(part), hook) is not default]
            self._overriding[hook] = own

    def overriding(self, hook: Callable[..., object]) -> Sequence[Component]:
        """Return the components that have their own implementation of a hook, such as `Component.act`."""
        return self._overriding[hook.__name__]

    def call(self, hook: Callable[..., object], *arguments: object) -> list[Command]:
        """Call a hook of all components, and return their commands."""
        commands: list[Command] = []
        name = hook.__name__
        for component in self._overriding[name]:
            commands += self.contained(component.name, getattr(component, name), *arguments, work=name)
        return commands

    def contained(
        self, step: str, run: Callable[..., Iterable[Command] | None], *arguments: object, work: str = ""
    ) -> Sequence[Command]:
        """Run a step of the turn. A failure that no job accounts for costs this turn that step only."""
        containment = self._book.containment
        try:
            commands = list(run(*arguments) or ())
        except Exception as error:
            if self._state.undo_open():
                self._book.recount()
            containment.failed("step", step, error, work=work)
            return ()
        containment.succeeded("step", step, work)
        return commands

    def of(self, kind: type[C]) -> C:
        """Return the component of a class."""
        return next(component for component in self._all if isinstance(component, kind))

    def current_events(self) -> Iterator[Event]:
        return chain.from_iterable(component.current_events() for component in self._all)

    def restore(self, record: RestoredRecord, now: int) -> None:
        for component in reversed(self._overriding["restore"]):
            self.contained(component.name, component.restore, record, now, work="restore")

    def notify(self, event: object, now: int) -> None:
        for handler in self._handlers.get(type(event), ()):
            handler(event, now)

    def deadline(self) -> int | None:
        """When the first of them wants to be asked again."""
        timed = self.overriding(Component.deadline)
        return earliest(self._deadlines.first(), *(component.deadline() for component in timed))
