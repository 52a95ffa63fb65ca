"""What the scheduler is made of, and how its components hear of each other.

A component declares what it hears, by type: events of the cluster, and those that follow from them for jobs,
pods and nodes (`internal_events`). It says when it wants to be asked again, and contributes to a turn: what
time alone changes, and commands before and after the cycles. The scheduler holds a list of components; they
hear and contribute in its order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from ringwise.durations import earliest
from ringwise.framework.topology_cache import TopologyCache
from ringwise.framework.usage import ResourceUsage
from ringwise.messages.commands import Command
from ringwise.messages.containment import Containment
from ringwise.messages.events import Event
from ringwise.reasons import Trigger
from ringwise.records import dataclass
from ringwise.scheduler.cache.active_configuration import ActiveConfiguration
from ringwise.scheduler.cache.assumed_pods import AssumedPods
from ringwise.scheduler.cache.deadlines import DeadlineTables
from ringwise.scheduler.cache.job_book import JobBook
from ringwise.scheduler.cache.job_queue import JobQueue
from ringwise.state.cluster import ClusterState
from ringwise.state.reservations import Reservations

#: Announces an event to all components that hear it, with the time.
Notify = Callable[[object, int], None]
#: What is called with each event of a type.
Handlers = Mapping[type, Callable[[Any, int], object]]


@dataclass(frozen=True, slots=True)
class Context:
    """What the components share."""

    state: ClusterState
    book: JobBook
    configuration: ActiveConfiguration
    topology: TopologyCache
    job_queue: JobQueue
    deadlines: DeadlineTables
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
        self._reservations = context.reservations
        self._triggers = context.triggers
        self._assumed = context.assumed
        self._containment = context.containment
        self._notify = context.notify


class Component(ContextUser):
    #: By what a failure of its part of a turn is reported.
    name = ""

    def hears(self) -> Handlers:
        return {}

    def known(self) -> Iterable[Event]:
        """The objects that it alone keeps, as events: another scheduler that handles them knows the same."""
        return ()

    def deadline(self) -> int | None:
        """When time alone changes something, beyond its tables of deadlines; None if only events can."""
        return None

    def review(self, now: int) -> None:
        """Before the cycles of every turn that decides anything."""

    def act(self, now: int) -> Sequence[Command]:
        """Commands before the cycles, where everything is decided."""
        return ()

    def publish(self, now: int) -> Sequence[Command]:
        """Commands after the cycles, where everything is decided."""
        return ()


class Components:
    """The list. Empty until `hold`: components are given `notify` before all of them exist."""

    def __init__(self, deadlines: DeadlineTables) -> None:
        self._deadlines = deadlines
        self._handlers: dict[type, list[Callable[[Any, int], object]]] = {}
        self._all: Sequence[Component] = ()
        self._timed: list[Component] = []
        #: Those that contribute to a part of the turn.
        self.reviewing: list[Component] = []
        self.acting: list[Component] = []
        self.publishing: list[Component] = []

    def hold(self, components: Sequence[Component]) -> None:
        self._all = components
        for component in components:
            kind = type(component)
            for heard, handler in component.hears().items():
                self._handlers.setdefault(heard, []).append(handler)
            if kind.deadline is not Component.deadline:
                self._timed.append(component)
            if kind.review is not Component.review:
                self.reviewing.append(component)
            if kind.act is not Component.act:
                self.acting.append(component)
            if kind.publish is not Component.publish:
                self.publishing.append(component)

    def known(self) -> Iterator[Event]:
        return chain.from_iterable(component.known() for component in self._all)

    def notify(self, event: object, now: int) -> None:
        for handler in self._handlers.get(type(event), ()):
            handler(event, now)

    def deadline(self) -> int | None:
        """When the first of them wants to be asked again."""
        return earliest(self._deadlines.first(), *(component.deadline() for component in self._timed))
