"""Internal addresses of nodes, and nodes that claim the same one.

A node's position under its leaf switch depends on its address, which its kubelet reports. If several nodes
have the same address, the oldest keeps it, so a node that joins cannot take the position of another.
"""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.state.model import Node
from ringwise.topology.natural import natural_key

#: Age and, of nodes that are equally old, natural order.
_Rank = tuple[int, tuple[object, ...]]


class NodeAddresses:
    def __init__(self) -> None:
        self._claims: dict[str, dict[str, _Rank]] = {}
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
        for node in (old, new):
            if node is not None:
                address = _address(node)
                claims = self._claims.setdefault(address, {})
                if node is new:
                    claims[node.name] = (node.created, natural_key(node.name))
                else:
                    claims.pop(node.name, None)
                self._count(address, claims)

    def _count(self, address: str, claims: dict[str, _Rank]) -> None:
        if len(claims) > 1:
            self._duplicates[address] = tuple(sorted(claims, key=claims.__getitem__))
            self.version += 1
        elif self._duplicates.pop(address, None) is not None:
            self.version += 1
        if not claims:
            del self._claims[address]


def _address(node: Node) -> str:
    """A node without an address may have it as its name."""
    return node.internal_ip or node.name


def _claim(node: Node) -> tuple[str, str, int]:
    return node.name, node.internal_ip, node.created
