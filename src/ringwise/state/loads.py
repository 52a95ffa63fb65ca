"""The load of nodes without chips: cpu, memory, other resources and the number of pods.

A reservation keeps such amounts on a node. Pods that it waits for use a part of them until
they are gone, so only the rest is kept from other pods: a pod of the amount that is left over
on the node can start now and does not delay the owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ringwise.records import dataclass
from ringwise.state.model import PodClass
from ringwise.state.nested import discard
from ringwise.state.node_shapes import add_extended


@dataclass(frozen=True, slots=True)
class Load:
    cpu_milli: int = 0
    memory: int = 0
    pods: int = 0
    extended: tuple[tuple[str, int], ...] = ()

    def __add__(self, other: Load) -> Load:
        return Load(
            self.cpu_milli + other.cpu_milli,
            self.memory + other.memory,
            self.pods + other.pods,
            add_extended(self.extended, other.extended, 1),
        )

    def without(self, other: Load) -> Load:
        """What is left of each amount; none is below 0."""
        rest = dict(add_extended(self.extended, other.extended, -1))
        return Load(
            max(0, self.cpu_milli - other.cpu_milli),
            max(0, self.memory - other.memory),
            max(0, self.pods - other.pods),
            tuple((name, amount) for name, amount in rest.items() if amount > 0),
        )


NO_LOAD = Load()


def load_of(classes: Iterable[PodClass]) -> Load:
    """What pods of these classes use together."""
    cpu = memory = pods = 0
    extended: tuple[tuple[str, int], ...] = ()
    for cls in classes:
        cpu += cls.cpu_milli
        memory += cls.memory
        pods += 1
        extended = add_extended(extended, cls.extended, 1)
    return Load(cpu, memory, pods, extended)


@dataclass(frozen=True, slots=True)
class ReservedLoad:
    """What is reserved on one node, and the pods that must end before the owner can have it all."""

    load: Load
    awaited: frozenset[str] = frozenset()


class ReservedLoads:
    """Reserved amounts by node, in the order in which they were reserved."""

    __slots__ = ("_by_node",)

    def __init__(self) -> None:
        #: node -> number of the reservation -> what it keeps there
        self._by_node: dict[int, dict[int, ReservedLoad]] = {}

    def on(self, node: int) -> bool:
        return node in self._by_node

    def put(self, node: int, number: int, reserved: ReservedLoad) -> None:
        reservations = {**self._by_node.get(node, {}), number: reserved}
        self._by_node[node] = dict(sorted(reservations.items()))

    def drop(self, node: int, number: int) -> None:
        discard(self._by_node, node, number)

    def counted(self, node: int, used_by: Callable[[str], PodClass | None]) -> Load:
        """What counts as used on the node besides its pods. `used_by`: the class of a pod that is there.

        What an awaited pod uses is deducted from the first reservation that waits for it, and only there:
        two jobs cannot both have what one pod leaves.
        """
        total = NO_LOAD
        deducted: set[str] = set()
        for reserved in self._by_node.get(node, {}).values():
            there = []
            for uid in reserved.awaited:
                cls = None if uid in deducted else used_by(uid)
                if cls is not None:
                    deducted.add(uid)
                    there.append(cls)
            total += reserved.load.without(load_of(there))
        return total
