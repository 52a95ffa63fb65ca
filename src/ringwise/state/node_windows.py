"""Times during which a node is withheld from jobs: from a scheduled drain on, and during a reservation.

Placement treats both in the same way: before the window begins, a job may use the node if it ends before
then; while the window lasts, only if the window admits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ringwise.durations import time_text
from ringwise.grammar import agrees, listed
from ringwise.state.model import Isolation, Node, NodeReservation
from ringwise.topology.natural import natural_key

#: A drain has no end and admits no job.
NodeWindow = Isolation | NodeReservation


class NodeReservationTable:
    """The reservations that are not over, by node."""

    def __init__(self, entries: Iterable[NodeReservation] = ()) -> None:
        self.entries: list[NodeReservation] = []
        #: How many nodes they have together.
        self.size = 0
        self._of_node: dict[str, tuple[NodeReservation, ...]] = {}
        for one in entries:
            self.add(one)

    def add(self, one: NodeReservation) -> None:
        self.entries.append(one)
        self.size += len(one.nodes)
        for node in one.nodes:
            reservations = (*self._of_node.get(node, ()), one)
            self._of_node[node] = tuple(sorted(reservations, key=lambda other: (other.start, other.name)))

    def overlap(self, one: NodeReservation) -> str:
        """Return which nodes are reserved at that time already, and for whom; empty if none are."""
        shared: dict[str, list[str]] = {}
        others = {other.name: other for node in one.nodes for other in self._of_node.get(node, ())}
        for node in one.nodes:
            for other in self._of_node.get(node, ()):
                if one.start < other.end and other.start < one.end:
                    shared.setdefault(other.name, []).append(node)
        if not shared:
            return ""
        name, nodes = next(iter(shared.items()))
        nodes, other = sorted(nodes, key=natural_key), others[name]
        return (
            f"{listed(nodes, 1, word='node')} {agrees(len(nodes), 'is', 'are')} reserved for {other.holder} "
            f"from {time_text(other.start)} to {time_text(other.end)} ({other.name})"
        )

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
        sets: dict[tuple[object, ...], tuple[NodeWindow, list[int]]] = {}
        for number, of_node in windows.items():
            for one in of_node:
                reserved = isinstance(one, NodeReservation)
                holder = (one.queue, one.namespace) if isinstance(one, NodeReservation) else None
                # Drains of many nodes at one time are one.
                sets.setdefault((reserved, one.start, one.end, holder), (one, []))[1].append(number)
        self._sets = [(one, sum(1 << number for number in set(numbers))) for one, numbers in sets.values()]

    def withheld(self, queue: str, namespace: str, now: int, ends: int | None) -> tuple[WithheldNodes, ...]:
        """What drains keep from the job, then what only reservations do."""
        drained = reserved = 0
        for one, nodes in self._sets:
            if withheld((one,), queue, namespace, now, ends) is not None:
                if isinstance(one, NodeReservation):
                    reserved |= nodes
                else:
                    drained |= nodes
        parts = (WithheldNodes(False, drained), WithheldNodes(True, reserved & ~drained))
        return tuple(part for part in parts if part.nodes)


def drain_of(windows: Iterable[NodeWindow]) -> Isolation | None:
    return next((one for one in windows if isinstance(one, Isolation)), None)


def reservations_of(windows: Iterable[NodeWindow]) -> tuple[NodeReservation, ...]:
    return tuple(one for one in windows if isinstance(one, NodeReservation))


# -- isolations ------------------------------------------------------------------------------------------


class IsolationTable:
    """What operators took out of use: chips, nodes, and all nodes of a leaf switch or of a SuperPoD.

    An entry with a time is a scheduled drain: until then the node takes jobs that end before it.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Isolation] = {}
        #: By what they are about, by name: a node, a leaf switch, a SuperPoD. Each of at most one chip.
        self._of_target: dict[str, tuple[Isolation, ...]] = {}
        #: The leaf switch of each server, by the server's address.
        self._switch_at: Mapping[str, str] = {}

    def put(self, name: str, one: Isolation | None) -> set[str]:
        """Replace or remove one; returns the targets about which something changed."""
        before = self.objects.pop(name, None)
        if one is not None:
            self.objects[name] = one
        changed = {other.target for other in (before, one) if other is not None} if before != one else set()
        for target in changed:
            entries = [other for other in self._of_target.pop(target, ()) if other.name != name]
            if one is not None and one.target == target:
                entries += [replace(one, chips=(chip,)) for chip in one.chips] or [one]
            if entries:
                self._of_target[target] = tuple(sorted(entries, key=lambda other: natural_key(other.name)))
        return changed

    def put_switches(self, switch_at: Mapping[str, str]) -> None:
        self._switch_at = switch_at

    @property
    def has_groups(self) -> bool:
        return any("/" in target for target in self._of_target)

    def of(self, node: Node, superpod: int | None) -> tuple[Isolation, ...]:
        """All entries about a node: its own first, then those of its leaf switch and its SuperPoD."""
        switch = self._switch_at.get(node.internal_ip or node.name, "")
        targets = (node.name, f"switch/{switch}", f"superpod/{superpod}")
        return tuple(one for target in targets for one in self._of_target.get(target, ()))


def whole_now(entries: tuple[Isolation, ...]) -> Isolation | None:
    """The entry that takes all chips of the node out of use."""
    return next((one for one in entries if not one.chip and one.start is None), None)


def next_drain(entries: tuple[Isolation, ...]) -> Isolation | None:
    """The entry with the earliest time at which the node is drained."""
    ahead = [one for one in entries if one.start is not None and not one.chip]
    return min(ahead, key=lambda one: one.start or 0, default=None)
