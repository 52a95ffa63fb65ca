"""What is reserved for a job: a gang that waits long, a job for which others are evicted, or one that is
being rescheduled (rule S9).

Chips, cpu, memory and every other resource are free for their owner only. They may be reserved while
other pods still hold them; the reservation takes effect when those release them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from itertools import count
from typing import NamedTuple

from ringwise.records import dataclass
from ringwise.state.cluster import ClusterState
from ringwise.state.loads import Load, ReservedLoad, load_of
from ringwise.state.model import Node, PodClass
from ringwise.state.node_health import NodeStatus


@dataclass(slots=True)
class Reservation:
    owner: str
    resource: str
    #: node id -> chips
    chips: dict[int, int] = field(default_factory=dict)
    #: node id -> cpu, memory, pods and other resources
    loads: dict[int, Load] = field(default_factory=dict)
    #: Pods that must be gone before the owner can have all of it.
    awaited: frozenset[str] = frozenset()
    #: Pods of the owner for which others are evicted -> the node each is to get
    nominated: dict[str, int] = field(default_factory=dict)
    #: Nanoseconds since the epoch; None: until removed.
    expires: int | None = None
    #: When the owner is expected to start, where durations are known.
    starts: int | None = None
    why: str = ""
    #: The awaited pods are evicted for the owner.
    evicting: bool = False
    #: When other candidates are searched if they are not gone, in nanoseconds; 0: not set.
    again: int = 0
    #: Names of the jobs whose pods they are -> the work that they lose, in words.
    losers: dict[str, str] = field(default_factory=dict)
    #: M1: who made it ends it, and not the owner's use of a part of it: its other pods may come later.
    lasting: bool = False
    #: Counts up: earlier reservations come first.
    number: int = 0

    @property
    def chip_count(self) -> int:
        return sum(mask.bit_count() for mask in self.chips.values())

    @property
    def nodes(self) -> list[int]:
        return sorted({*self.chips, *self.loads})


class Borrowed(NamedTuple):
    """A pod that was placed on what is reserved for another job, because its job was to end before."""

    #: When it was placed, and the expected end of its job, in nanoseconds.
    since: int
    until: int
    #: When the warning event of its job was recorded.
    warned: int | None = None


@dataclass(frozen=True, slots=True)
class Used:
    """A reservation whose owner was given its nodes; its bindings may still fail."""

    why: str
    until: int


class Reservations:
    """At most one reservation per job; chips are reserved for one job at a time."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._by_owner: dict[str, Reservation] = {}
        self._used: dict[str, Used] = {}
        #: By uid: pods that were placed on what is reserved for others.
        self.borrowed: dict[str, Borrowed] = {}
        #: Owners to whom what is reserved for them is open at the moment.
        self._open: set[str] = set()
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self._by_owner)

    def __iter__(self) -> Iterator[Reservation]:
        return iter(self._by_owner.values())

    def of(self, owner: str) -> Reservation | None:
        return self._by_owner.get(owner)

    def make(self, reservation: Reservation) -> None:
        """Reserve; chips that are reserved for another job already are left out."""
        self.lift(reservation.owner)
        fleet = self._state.fleets[reservation.resource]
        reservation.chips = {
            node: mask & ~fleet.reserved[node]
            for node, mask in sorted(reservation.chips.items())
            if mask & ~fleet.reserved[node]
        }
        reservation.loads = dict(sorted(reservation.loads.items()))
        reservation.number = next(self._numbers)
        self._by_owner[reservation.owner] = reservation
        self._apply(reservation, True)

    def lift(self, owner: str) -> Reservation | None:
        self._used.pop(owner, None)
        reservation = self._by_owner.pop(owner, None)
        if reservation is not None and owner not in self._open:
            self._apply(reservation, False)
        return reservation

    def use(self, owner: str, until: int) -> None:
        """The owner was given its nodes. What a failed binding gives back is reserved again until then."""
        if (existing := self._by_owner.get(owner)) is not None and existing.lasting:
            return
        reservation = self.lift(owner)
        if reservation is not None:
            self._used[owner] = Used(reservation.why, reservation.expires or until)

    def binding_failed(self, owner: str, node: int, chips: int, cls: PodClass, now: int) -> None:
        """The owner of a used reservation gives back these chips and amounts: they stay reserved for it."""
        used = self._used.get(owner)
        if used is None or used.until <= now:
            self._used.pop(owner, None)
            return
        before = self._by_owner.get(owner)
        again = Reservation(owner, cls.resource or "", expires=used.until, why=used.why)
        if before is not None:
            again.resource = before.resource or again.resource
            again.chips, again.loads, again.awaited = dict(before.chips), dict(before.loads), before.awaited
        if chips:
            again.chips[node] = again.chips.get(node, 0) | chips
        again.loads[node] = again.loads.get(node, Load()) + load_of((cls,))
        if self.is_sound(again):
            self.make(again)
            self._used[owner] = used

    def is_sound(self, reservation: Reservation) -> bool:
        """Whether its owner could use all of it if no other pod did."""
        state, fleet = self._state, self._state.fleets[reservation.resource]
        for number in reservation.nodes:
            node = state.nodes[number]
            good = fleet.listed[number] & ~fleet.unhealthy[number] & ~fleet.recovering[number]
            good &= ~fleet.isolated[number] & ~fleet.pre_separated[number]
            if node is None or not node.ready or node.unschedulable or number in state.isolated_nodes:
                return False
            if state.node_status.get(number, NodeStatus.HEALTHY) >= NodeStatus.PRE_SEPARATE:
                return False
            if reservation.chips.get(number, 0) & ~good or not _holds(node, reservation.loads.get(number)):
                return False
        return True

    def expired(self, now: int) -> list[Reservation]:
        for owner in [owner for owner, used in self._used.items() if used.until <= now]:
            del self._used[owner]
        return [r for r in self._by_owner.values() if r.expires is not None and r.expires <= now]

    @contextmanager
    def open_to(self, owner: str) -> Iterator[None]:
        """Inside, what is reserved for the owner is free; at the end it is reserved again, if not lifted."""
        reservation = self._by_owner.get(owner)
        if reservation is None or owner in self._open:
            yield
            return
        self._apply(reservation, False)
        self._open.add(owner)
        try:
            yield
        finally:
            self._open.discard(owner)
            if self._by_owner.get(owner) is reservation:
                self._apply(reservation, True)

    def _apply(self, reservation: Reservation, reserve: bool) -> None:
        fleet = self._state.fleets[reservation.resource]
        for node, mask in reservation.chips.items():
            if reserve:
                fleet.reserved[node] |= mask
            else:
                fleet.reserved[node] &= ~mask
            if node not in reservation.loads:
                self._state.refresh_node(node)
        for node, load in reservation.loads.items():
            if reserve:
                reserved = ReservedLoad(load, reservation.awaited)
                self._state.reserve_load(node, reservation.number, reserved)
            else:
                self._state.unreserve_load(node, reservation.number)


def _holds(node: Node, load: Load | None) -> bool:
    """Whether the node, if it were empty, would hold this; 0 is not a limit (see `predicates`)."""
    if load is None:
        return True
    extended = dict(node.extended)
    return (
        (not node.cpu_milli or load.cpu_milli <= node.cpu_milli)
        and (not node.memory or load.memory <= node.memory)
        and (not node.max_pods or load.pods <= node.max_pods)
        and all(amount <= extended.get(name, 0) for name, amount in load.extended)
    )
