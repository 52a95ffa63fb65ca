"""Internal addresses of nodes, and nodes that claim the same one.

A node's position under its leaf switch depends on its address, which its kubelet reports. If several nodes
have the same address, the oldest keeps it, so a node that joins cannot take the position of another.
"""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.state.model import Node
from ringwise.topology.natural import natural_key


class NodeAddresses:
    def __init__(self) -> None:
        #: By address: when its nodes were created, and their names. Tuples, because most have one node.
        self._claims: dict[str, tuple[tuple[int, str], ...]] = {}
        self._duplicates: dict[str, tuple[str, ...]] = {}
        #: Counts the changes of `duplicates`.
        self.version = 0

    @property
    def duplicates(self) -> Mapping[str, tuple[str, ...]]:
        """Addresses of several nodes, with the names of the nodes; the oldest comes first."""
        return self._duplicates

    def holds(self, node: Node) -> bool:
        """Return whether the node keeps its address."""
        claims = self._duplicates.get(_address(node))
        return claims is None or claims[0] == node.name

    def change(self, old: Node | None, new: Node | None) -> None:
        """Update the addresses after a node was added, changed or deleted."""
        if old is not None and new is not None and _claim(old) == _claim(new):
            return
        if old is not None:
            address = _address(old)
            self._set(address, tuple(claim for claim in self._claims[address] if claim[1] != old.name))
        if new is not None:
            address = _address(new)
            self._set(address, (*self._claims.get(address, ()), (new.created, new.name)))

    def _set(self, address: str, claims: tuple[tuple[int, str], ...]) -> None:
        if claims:
            self._claims[address] = claims
        else:
            del self._claims[address]
        if len(claims) > 1:
            # Of nodes that are equally old, the first in natural order.
            ranked = sorted(claims, key=lambda claim: (claim[0], natural_key(claim[1])))
            self._duplicates[address] = tuple(name for _, name in ranked)
            self.version += 1
        elif self._duplicates.pop(address, None) is not None:
            self.version += 1


def _address(node: Node) -> str:
    """A node without an address may have it as its name."""
    return node.internal_ip or node.name


def _claim(node: Node) -> tuple[str, str, int]:
    return node.name, node.internal_ip, node.created
