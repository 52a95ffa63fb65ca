"""Which nodes have which labels: what a selector asks for is a set of nodes.

A set of nodes is an integer with a bit for each node id: two sets are intersected or united in one operation.
The values of a key are indexed when a selector first names it; a key that no node has is never indexed.

    zone:   a -> 0b0011   b -> 0b1100
    zone in (a, b) and not host in (n1)  ->  (0b0011 | 0b1100) & ~0b0001
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ringwise.state.model import Node, Requirement

#: From so many nodes on the set of a value is kept, not only its members.
_CACHE_FROM = 64
#: So many members of a set are found one by one, not by looking at all nodes.
_FEW = 16


class Members:
    """The nodes with one value of a label, or members of another set: a large integer only if it has many."""

    __slots__ = ("_set", "ids")

    def __init__(self, *ids: int) -> None:
        self.ids = set(ids)
        self._set: int | None = None

    def add(self, number: int) -> None:
        self.ids.add(number)
        if self._set is not None:
            self._set |= 1 << number

    def discard(self, number: int) -> None:
        self.ids.discard(number)
        if self._set is not None:
            self._set &= ~(1 << number)

    def as_set(self) -> int:
        result = self._set
        if result is None:
            result = node_set(self.ids)
            if len(self.ids) >= _CACHE_FROM:
                self._set = result
        return result


def node_set(ids: Iterable[int]) -> int:
    """The set with these members."""
    numbers = list(ids)
    if len(numbers) < 8:
        result = 0
        for number in numbers:
            result |= 1 << number
        return result
    bits = bytearray(max(numbers) // 8 + 1)
    for number in numbers:
        bits[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(bits, "little")


def members_of(nodes: int) -> list[int]:
    """The members of a set, ascending."""
    result = []
    if nodes.bit_count() <= _FEW:
        while nodes:
            result.append((nodes & -nodes).bit_length() - 1)
            nodes &= nodes - 1
        return result
    for base, byte in enumerate(nodes.to_bytes((nodes.bit_length() + 7) // 8, "little")):
        while byte:
            low = byte & -byte
            result.append(base * 8 + low.bit_length() - 1)
            byte ^= low
    return result


class NodeLabels:
    """The labels of all nodes that exist."""

    __slots__ = ("_by_key", "_keys", "_nodes", "existing", "followed", "followed_version", "version")

    def __init__(self, nodes: list[Node | None]) -> None:
        self._nodes = nodes
        #: How many nodes have a label.
        self._keys: Counter[str] = Counter()
        self._by_key: dict[str, dict[str, Members]] = {}
        #: All nodes that exist.
        self.existing = 0
        #: Grows with every change of a label, and with every node that comes or goes.
        self.version = 0
        #: Labels that HyperNodes select nodes by; this version grows with their changes only, and with every
        #: node that comes or goes.
        self.followed: frozenset[str] = frozenset()
        self.followed_version = 0

    def change(self, number: int, old: Mapping[str, str] | None, new: Mapping[str, str] | None) -> None:
        """The labels of a node before and after; None where it does not exist."""
        if old is None and new is None:
            return
        if old is None or new is None:
            self.existing ^= 1 << number
            self.version += 1
            self.followed_version += 1
        elif old == new:
            return
        before, after = old or {}, new or {}
        for key, value in before.items():
            if after.get(key) != value:
                self._remove(key, value, number)
        for key, value in after.items():
            if before.get(key) != value:
                self._add(key, value, number)

    def _remove(self, key: str, value: str, number: int) -> None:
        self.version += 1
        self.followed_version += key in self.followed
        self._keys[key] -= 1
        if not self._keys[key]:
            del self._keys[key]
            self._by_key.pop(key, None)
        values = self._by_key.get(key)
        if values is not None:
            values[value].discard(number)
            if not values[value].ids:
                del values[value]

    def _add(self, key: str, value: str, number: int) -> None:
        self.version += 1
        self.followed_version += key in self.followed
        self._keys[key] += 1
        values = self._by_key.get(key)
        if values is not None:
            values.setdefault(value, Members()).add(number)

    def has(self, key: str) -> bool:
        """Whether any node has this label."""
        return key in self._keys

    def present(self) -> Iterable[str]:
        """The labels that some node has."""
        return self._keys

    def combinations(self, keys: Iterable[str]) -> int:
        """How many groups of nodes these labels tell apart."""
        wanted = tuple(keys)
        if len(wanted) == 1:
            (key,) = wanted
            return len(self._index(key)) + (self._keys.get(key, 0) < self.existing.bit_count())
        return len({tuple(map(node.labels.get, wanted)) for node in self._nodes if node is not None})

    def values(self, key: str) -> Mapping[str, object]:
        """The values that nodes have of this label."""
        return self._index(key)

    def with_label(self, key: str) -> int:
        """The nodes that have this label, with any value."""
        if self._keys.get(key, 0) == self.existing.bit_count():
            return self.existing
        return self.with_any(key, self._index(key))

    def with_any(self, key: str, values: Iterable[str]) -> int:
        """The nodes whose value of this label is one of these."""
        index = self._index(key)
        nodes = 0
        single: list[int] = []
        for value in values:
            members = index.get(value)
            if members is None:
                continue
            if len(members.ids) == 1:
                single += members.ids
            else:
                nodes |= members.as_set()
        return nodes | node_set(single)

    def holding(self, requirement: Requirement) -> int:
        """The nodes for which an expression of a label selector holds."""
        key = requirement.key
        match requirement.operator:
            case "In":
                return self.with_any(key, requirement.values)
            case "NotIn":
                return self.existing & ~self.with_any(key, requirement.values)
            case "Exists":
                return self.with_label(key)
            case "DoesNotExist":
                return self.existing & ~self.with_label(key)
        return 0

    def _index(self, key: str) -> dict[str, Members]:
        result = self._by_key.get(key)
        if result is None:
            result = {}
            if key in self._keys:
                for number, node in enumerate(self._nodes):
                    if node is not None and (value := node.labels.get(key)) is not None:
                        result.setdefault(value, Members()).add(number)
                self._by_key[key] = result
        return result
