"""Times in which a node is kept from jobs: from a drain that lies ahead on, and during a reservation.

Both are one thing to whoever places a job: before it begins, a job may use the node that ends before; while
it lasts, a job that it admits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ringwise.state.isolations import next_drain
from ringwise.state.model import Isolation, NodeReservation, NodeReservations

#: A drain has no end and admits no job.
NodeWindow = Isolation | NodeReservation


class NodeReservationTable:
    """The reservations that are not over, by node."""

    def __init__(self) -> None:
        self.all = NodeReservations()
        self._of_node: dict[str, tuple[NodeReservation, ...]] = {}

    def put(self, reservations: NodeReservations) -> None:
        self.all = reservations
        found: dict[str, list[NodeReservation]] = {}
        for one in reservations.entries:
            for node in one.nodes:
                found.setdefault(node, []).append(one)
        self._of_node = {
            node: tuple(sorted(kept, key=lambda one: (one.start, one.name))) for node, kept in found.items()
        }

    @property
    def of_node(self) -> Mapping[str, tuple[NodeReservation, ...]]:
        """In the order in which they begin."""
        return self._of_node


def windows_of(
    isolations: tuple[Isolation, ...], reservations: tuple[NodeReservation, ...]
) -> tuple[NodeWindow, ...]:
    """The first drain of a node, then its reservations."""
    drain = next_drain(isolations)
    return reservations if drain is None else (drain, *reservations)


def withheld(
    windows: Iterable[NodeWindow], queue: str, namespace: str, now: int, ends: int | None
) -> NodeWindow | None:
    """The first window that keeps a job off that starts now; `ends`: when it would end, None: not known."""
    for one in windows:
        if one.start is None or (one.end is not None and one.end <= now) or one.admits(queue, namespace):
            continue
        if ends is None or ends > one.start or one.start <= now:
            return one
    return None


class WithheldNodes(NamedTuple):
    """Nodes that a window keeps from a job, as bits by node id, and whether it is a reservation."""

    is_reservation: bool
    nodes: int


class WindowSets:
    """All windows with their nodes, so that a decision costs as much as there are windows, not nodes."""

    def __init__(self, windows: Mapping[int, Iterable[NodeWindow]]) -> None:
        found: dict[tuple[object, ...], tuple[NodeWindow, list[int]]] = {}
        for number, kept in windows.items():
            for one in kept:
                reserved = isinstance(one, NodeReservation)
                holder = (one.queue, one.namespace) if isinstance(one, NodeReservation) else None
                # Drains of many nodes at one time are one.
                found.setdefault((reserved, one.start, one.end, holder), (one, []))[1].append(number)
        self._sets = [(one, sum(1 << number for number in set(numbers))) for one, numbers in found.values()]

    def withheld(self, queue: str, namespace: str, now: int, ends: int | None) -> tuple[WithheldNodes, ...]:
        """What drains keep from the job, then what only reservations do."""
        drained = reserved = 0
        for one, nodes in self._sets:
            if withheld((one,), queue, namespace, now, ends) is not None:
                if isinstance(one, NodeReservation):
                    reserved |= nodes
                else:
                    drained |= nodes
        found = (WithheldNodes(False, drained), WithheldNodes(True, reserved & ~drained))
        return tuple(part for part in found if part.nodes)


def drain_of(windows: Iterable[NodeWindow]) -> Isolation | None:
    return next((one for one in windows if isinstance(one, Isolation)), None)


def reservations_of(windows: Iterable[NodeWindow]) -> tuple[NodeReservation, ...]:
    return tuple(one for one in windows if isinstance(one, NodeReservation))
