"""The custom resources of ringwise.io, by which operators say what they want.

Each kind is a component that decides which of its objects are in force, and says so in their conditions. Its
last known objects are a table of the leader record: they stay in force while the API server does not serve
the kind, because such a kind is not an empty list.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from ringwise.durations import earliest, time_text
from ringwise.messages import events as ev
from ringwise.messages.commands import Command, Condition, SetConditions
from ringwise.scheduler.cache.component import Component, Context, Handler, on
from ringwise.scheduler.cache.record_tables import RecordTable, RestoredRecord
from ringwise.wellknown import ApiResource

T = TypeVar("T")

#: Why an object is not accepted: the reason, and the message.
Problem = tuple[str, str]

#: The minimum time between two writes of the conditions of an object, in nanoseconds.
STATUS_INTERVAL = 10_000_000_000


class CustomResources(Component, ABC, Generic[T]):
    """Objects of one kind, which has a name and a generation."""

    resource: ApiResource
    #: The events about its objects.
    seen: type[Any]
    gone: type[ev.NamedObjectGone]

    def __init__(self, context: Context, value: type[T], *, is_recorded: bool = True) -> None:
        super().__init__(context)
        #: By name, as they are in the API.
        self._objects = RecordTable(self.resource.plural, value, subject=lambda name, entry: "")
        if is_recorded:
            context.record.add(self._objects)
        #: Those of the record of the previous leader that were not seen since.
        self._recorded: set[str] = set()
        #: Something that decides which objects are in force changed.
        self._stale = False
        #: By name: what was decided, what was written last, and when.
        self._conditions: Mapping[str, SetConditions] = {}
        self._written: dict[str, tuple[SetConditions, int]] = {}
        #: When time alone decides something, and when conditions may be written that are not.
        self._next: int | None = None
        self._next_write: int | None = None

    # -- for each kind ------------------------------------------------------------------------

    @abstractmethod
    def decide(self, now: int) -> Iterator[SetConditions]:
        """Put what is in force into the state, set `_next`, and yield the conditions of all objects."""

    def nodes_of(self, switch: str, superpod: int | None) -> tuple[list[str], Problem | None]:
        """Return the nodes of a leaf switch or a SuperPoD, and the problem if it does not exist."""
        if switch:
            resolved = self._topology.switches(self._state)
            switches = [] if resolved is None else [one.ip for one in resolved.topology.switches]
            if resolved is None or switch not in switches:
                return [], ("LeafSwitchNotFound", f'leaf switch "{switch}" not found')
            return [server.node for server in resolved.nodes[switches.index(switch)]], None
        size = self._configuration.settings.super_pod_size
        members = self._topology.superpods(self._state, size).nodes_of.get(
            -1 if superpod is None else superpod
        )
        if members is None:
            return [], ("SuperPodNotFound", f'SuperPoD "{superpod}" not found')
        return [self._state.names[node] for node in members if isinstance(node, int)], None

    def put(self, name: str, one: T, now: int) -> None:
        self._recorded.discard(name)
        if self._objects.get(name) != one:
            self._objects[name] = one
            self._stale = True

    def drop(self, name: str, now: int) -> None:
        if self._objects.pop(name) is not None:
            self._written.pop(name, None)
            self._recorded.discard(name)
            self._stale = True

    # -- the kind itself ----------------------------------------------------------------------

    def handlers(self) -> Iterator[tuple[type, Handler]]:
        yield from super().handlers()
        yield self.seen, lambda event, now: self.put(event.about[1], event.subject, now)
        yield self.gone, lambda event, now: self.drop(event.name, now)

    def current_events(self) -> Iterator[ev.Event]:
        if self.resource.kind in self._state.not_served:
            yield ev.KindServed(self.resource.kind, False)
        yield from map(self.seen, self._objects.values())

    @on(ev.KindServed)
    def _kind_served(self, event: ev.KindServed, now: int) -> None:
        if event.resource != self.resource.kind:
            return
        if not event.served:
            self._state.not_served.add(event.resource)
        else:
            self._state.not_served.discard(event.resource)
            for name in sorted(self._recorded):
                self.drop(name, now)

    def restore(self, record: RestoredRecord, now: int) -> None:
        if self.resource.kind not in self._state.not_served:
            return
        for name, one in record.of(self._objects).items():
            if name not in self._objects:
                self.put(name, one, now)
                self._recorded.add(name)

    # -- in a turn ----------------------------------------------------------------------------

    def deadline(self) -> int | None:
        return earliest(self._next, self._next_write)

    def settle(self, now: int) -> None:
        if self._stale or (self._next is not None and self._next <= now):
            self._stale, self._next = False, None
            self._conditions = {one.name: one for one in self.decide(now)}
            self._next_write = now

    def publish(self, now: int) -> Iterator[Command]:
        if self._next_write is None or self._next_write > now:
            return
        self._next_write = None
        for name, wanted in self._conditions.items():
            last, at = self._written.get(name, (None, now - STATUS_INTERVAL))
            if wanted == last:
                continue
            if at + STATUS_INTERVAL > now:
                self._next_write = earliest(self._next_write, at + STATUS_INTERVAL)
                continue
            self._written[name] = wanted, now
            yield wanted


def accepted(problem: Problem | None, message: str = "") -> Condition:
    """Return the condition Accepted; `problem` is the reason, and the message, why it is not."""
    if problem is None:
        return Condition("Accepted", True, "Accepted", message)
    return Condition("Accepted", False, *problem)


def window(start: int | None, end: int | None, now: int, *, is_accepted: bool) -> Condition:
    """Return the condition Active of what is in force from one time to another."""
    if not is_accepted:
        return Condition("Active", False, "NotAccepted")
    if end is not None and end <= now:
        return Condition("Active", False, "Ended", f"ended at {time_text(end)}")
    if start is not None and start > now:
        return Condition("Active", False, "NotStarted", f"starts at {time_text(start)}")
    return Condition("Active", True, "Started", "" if end is None else f"ends at {time_text(end)}")
