"""Node classes and node shapes: what many nodes have in common, stored once.

A *node class* is what an administrator defines: the labels that some selector uses,
taints, cordon, capacities. A *node shape* is a class plus what is used on the node.
Predicates and scores are computed for a shape, never for a node, so a cluster of
ten thousand equal nodes costs as much as one of ten.

Only labels that some selector names and that tell few groups of nodes apart belong to a
class: every node has its own host name, and with it every node would be a class of its own.
Selectors of other labels are answered by `node_labels`.

Amounts of bytes differ a little from node to node, also where the hardware is equal: a class has
them rounded down to twelve binary digits, and what it has at most. Between the two only the node
itself can tell whether a request fits; `ShapeTable.is_for_nodes` says which requests those are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from itertools import count

from ringwise.records import dataclass
from ringwise.state.model import Node, PodClass, Taint

ClassKey = tuple[object, ...]

MEMORY = "memory"
#: From here on amounts are rounded: fewer bytes than any node has, and more than anything that is counted.
_ROUNDED_FROM, _DIGITS = 1 << 32, 12
#: Requests that only nodes can answer are remembered in steps of so many binary digits.
_STEP = 28


def rounded(amount: int) -> tuple[int, int]:
    """The least and the most that an amount of the same class may be."""
    spare = amount.bit_length() - _DIGITS
    if amount < _ROUNDED_FROM or not amount & (1 << spare) - 1:
        return amount, amount
    least = amount >> spare << spare
    return least, least + (1 << spare) - 1


@dataclass(frozen=True, slots=True)
class NodeClass:
    number: int
    labels: dict[str, str] = field(hash=False, compare=False)
    taints: tuple[Taint, ...]
    unschedulable: bool
    cpu_milli: int
    #: What its nodes have at least, and at most.
    memory: int
    most_memory: int
    max_pods: int
    extended: dict[str, int] = field(hash=False, compare=False)
    most_extended: dict[str, int] = field(hash=False, compare=False)


@dataclass(frozen=True, slots=True)
class NodeShape:
    """A node class with its usage. Compared by its number alone: equal shapes are one object."""

    number: int
    node_class: NodeClass = field(compare=False)
    cpu_used: int = field(compare=False)
    memory_used: int = field(compare=False)
    pods: int = field(compare=False)
    extended_used: tuple[tuple[str, int], ...] = field(compare=False)

    def __hash__(self) -> int:
        return self.number


@dataclass(slots=True, eq=False)
class ShapeTable:
    """Interns node classes and node shapes."""

    _classes: dict[ClassKey, NodeClass] = field(default_factory=dict)
    _shapes: dict[tuple[object, ...], NodeShape] = field(default_factory=dict)
    # Never used twice, also after `clear`: views identify shapes by their numbers.
    _numbers: Iterator[int] = field(default_factory=count)
    #: Resource and steps of the requests that fit on some nodes of a shape only.
    _for_nodes: set[tuple[str, int]] = field(default_factory=set)
    #: Label keys that belong to classes.
    watched: frozenset[str] = frozenset()

    def sweep(self, used: Iterable[NodeShape | None]) -> None:
        """Forget the classes and shapes that no node has."""
        shapes = {shape.number for shape in used if shape is not None}
        self._shapes = {key: shape for key, shape in self._shapes.items() if shape.number in shapes}
        classes = {shape.node_class.number for shape in self._shapes.values()}
        self._classes = {key: one for key, one in self._classes.items() if one.number in classes}
        self._for_nodes.clear()
        for shape in self._shapes.values():
            self._note(shape)

    def with_labels(self, keys: frozenset[str]) -> ShapeTable:
        """An empty table that watches these labels too. Numbers stay different from those of this one."""
        table = ShapeTable()
        table._numbers = self._numbers
        table.watched = self.watched | keys
        return table

    def clear(self) -> None:
        """Drop all classes and shapes; the caller assigns every node a new one."""
        self._classes.clear()
        self._shapes.clear()
        self._for_nodes.clear()

    def class_of(self, node: Node) -> NodeClass:
        labels = tuple(sorted((k, node.labels[k]) for k in self.watched if k in node.labels))
        memory, most_memory = rounded(node.memory)
        extended = tuple((name, *rounded(amount)) for name, amount in node.extended)
        key: ClassKey = (
            labels,
            node.taints,
            node.unschedulable,
            node.cpu_milli,
            memory,
            most_memory,
            node.max_pods,
            extended,
        )
        result = self._classes.get(key)
        if result is None:
            result = NodeClass(
                next(self._numbers),
                dict(labels),
                node.taints,
                node.unschedulable,
                node.cpu_milli,
                memory,
                most_memory,
                node.max_pods,
                {name: least for name, least, _ in extended},
                {name: most for name, _, most in extended},
            )
            self._classes[key] = result
        return result

    def shape(
        self,
        node_class: NodeClass,
        cpu_used: int,
        memory_used: int,
        pods: int,
        extended_used: tuple[tuple[str, int], ...],
    ) -> NodeShape:
        key = (node_class.number, cpu_used, memory_used, pods, extended_used)
        result = self._shapes.get(key)
        if result is None:
            result = NodeShape(next(self._numbers), node_class, cpu_used, memory_used, pods, extended_used)
            self._shapes[key] = result
            self._note(result)
        return result

    def _note(self, shape: NodeShape) -> None:
        """Note the requests that more than the least amount of its nodes is needed for."""
        node = shape.node_class
        if node.memory != node.most_memory:
            self._note_range(MEMORY, node.memory - shape.memory_used, node.most_memory - shape.memory_used)
        if node.extended != node.most_extended:
            used = dict(shape.extended_used)
            for name, least in node.extended.items():
                most, in_use = node.most_extended[name], used.get(name, 0)
                if least != most:
                    self._note_range(name, least - in_use, most - in_use)

    def _note_range(self, resource: str, least: int, most: int) -> None:
        self._for_nodes.update((resource, step) for step in range(least >> _STEP, (most >> _STEP) + 1))

    def is_for_nodes(self, resource: str, amount: int) -> bool:
        """Whether the request may fit on some nodes of a shape and not on others."""
        return (resource, amount >> _STEP) in self._for_nodes

    def __len__(self) -> int:
        return len(self._shapes)


def label_keys(pod_class: PodClass) -> frozenset[str]:
    """The node labels by which classes of nodes can answer the selectors of this pod."""
    return (pod_class.required_keys or frozenset()) | (pod_class.preferred_keys or frozenset())


def add_extended(
    used: tuple[tuple[str, int], ...], request: tuple[tuple[str, int], ...], sign: int
) -> tuple[tuple[str, int], ...]:
    """Usage after a pod was added (sign 1) or removed (sign -1); zero entries are dropped."""
    if not request:
        return used
    total = dict(used)
    for name, amount in request:
        total[name] = total.get(name, 0) + sign * amount
    return tuple(sorted((name, amount) for name, amount in total.items() if amount))
