"""For which nodes how large a volume of a class can be made, as CSI drivers publish it (CSIStorageCapacity).

A driver of local disks publishes an object for each node, and writes it again every minute. They are kept by
the labels and values that they ask for, so that neither a write nor the question of one node looks at all of
them; the nodes found for a size are kept until an object passes that size.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping
from typing import NamedTuple

from ringwise.state.model import Requirement
from ringwise.state.nested import discard
from ringwise.state.node_labels import NodeLabels
from ringwise.state.volumes import StorageCapacity

#: For so many sizes the nodes are kept.
_CACHE_SIZE = 1_024
#: Less than any size.
_NOTHING = -1


class StorageGrowth(NamedTuple):
    """Volumes of more than `above` and up to `largest` bytes can be made for nodes for which none could."""

    above: int
    largest: int
    nodes: tuple[Requirement, ...]


class ClassCapacities:
    """Those of one class."""

    def __init__(self) -> None:
        #: Those that ask for one value of each of some labels: by labels and values, bytes by object.
        self._by_value: dict[tuple[str, ...], dict[tuple[str, ...], dict[str, int]]] = {}
        #: All others that are for any node.
        self._others: dict[str, StorageCapacity] = {}
        self.count = 0
        #: The nodes for sizes that were asked for, and those sizes ascending.
        self._nodes: dict[int, int] = {}
        self._sizes: list[int] = []
        self._labels_version = _NOTHING

    def change(self, before: StorageCapacity | None, after: StorageCapacity | None) -> StorageGrowth | None:
        """One of them is another one now, or came or went. Returns for whom more can be made."""
        if before is not None:
            self._drop(before)
        if after is not None:
            self._add(after)
        least, most = _range(before, after)
        first, end = bisect_right(self._sizes, least), bisect_right(self._sizes, most)
        for size in self._sizes[first:end]:
            del self._nodes[size]
        del self._sizes[first:end]
        if after is None or after.nodes is None or after.largest <= least:
            return None
        return StorageGrowth(least, after.largest, after.nodes)

    def _add(self, one: StorageCapacity) -> None:
        if one.nodes is None:
            return
        self.count += 1
        exact = _values(one.nodes)
        if exact is None:
            self._others[one.key] = one
        else:
            labels, values = exact
            self._by_value.setdefault(labels, {}).setdefault(values, {})[one.key] = one.largest

    def _drop(self, one: StorageCapacity) -> None:
        if one.nodes is None:
            return
        self.count -= 1
        exact = _values(one.nodes)
        if exact is None:
            del self._others[one.key]
            return
        labels, values = exact
        by_value = self._by_value[labels]
        discard(by_value, values, one.key)
        if not by_value:
            del self._by_value[labels]

    def is_known(self, labels: NodeLabels, size: int) -> bool:
        """Whether the nodes for this size are kept."""
        return self._labels_version == labels.version and size in self._nodes

    def nodes_for(self, labels: NodeLabels, size: int) -> int:
        """The nodes for which a volume of so many bytes can be made."""
        if self._labels_version != labels.version or len(self._sizes) >= _CACHE_SIZE:
            self._labels_version = labels.version
            self._nodes.clear()
            self._sizes.clear()
        result = self._nodes.get(size)
        if result is None:
            result = self._nodes[size] = self._find(labels, size)
            insort(self._sizes, size)
        return result

    def _find(self, labels: NodeLabels, size: int) -> int:
        result = 0
        for keys, by_value in self._by_value.items():
            enough = [values for values, sizes in by_value.items() if max(sizes.values()) >= size]
            if len(keys) == 1:
                result |= labels.with_any(keys[0], (value for (value,) in enough))
                continue
            for values in enough:
                terms = (Requirement(key, "In", (value,)) for key, value in zip(keys, values, strict=True))
                result |= selected_nodes(labels, tuple(terms))
        for one in self._others.values():
            if one.largest >= size:
                result |= selected_nodes(labels, one.nodes or ())
        return result

    def largest_for(self, labels: NodeLabels, node: int, has: Mapping[str, str]) -> int:
        """Bytes of the largest volume that can be made for a node with these labels."""
        result = 0
        for keys, by_value in self._by_value.items():
            values = tuple(has.get(key, "") for key in keys)
            if all(key in has for key in keys) and values in by_value:
                result = max(result, *by_value[values].values())
        for one in self._others.values():
            if one.largest > result and selected_nodes(labels, one.nodes or ()) >> node & 1:
                result = one.largest
        return result

    @property
    def largest(self) -> int:
        """Bytes of the largest volume that can be made for any node."""
        by_value = (max(sizes.values()) for inner in self._by_value.values() for sizes in inner.values())
        return max(max(by_value, default=0), max((one.largest for one in self._others.values()), default=0))


def selected_nodes(labels: NodeLabels, requirements: tuple[Requirement, ...]) -> int:
    """The nodes for whose labels all of these hold."""
    result = labels.existing
    for requirement in requirements:
        result &= labels.holding(requirement)
    return result


def _values(requirements: tuple[Requirement, ...]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Labels and their values, where one value of each is required."""
    wanted = {one.key: one.values[0] for one in requirements if one.operator == "In" and len(one.values) == 1}
    if len(wanted) < len(requirements):
        return None
    keys = tuple(sorted(wanted))
    return keys, tuple(wanted[key] for key in keys)


def _range(before: StorageCapacity | None, after: StorageCapacity | None) -> tuple[int, int]:
    """The sizes for which the answer may be another one: more than the first, up to the second."""
    sizes = [one.largest for one in (before, after) if one is not None]
    if before is not None and after is not None and before.nodes == after.nodes:
        return min(sizes), max(sizes)
    return _NOTHING, max(sizes)
