"""What operators took out of use: chips, nodes, and all nodes of a leaf switch or of a SuperPoD.

An entry with a time is a drain that lies ahead: until then the node takes jobs that end before it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.state.model import Isolation, Isolations, Node


class IsolationTable:
    def __init__(self) -> None:
        self.entries: tuple[Isolation, ...] = ()
        self._of_node: dict[str, tuple[Isolation, ...]] = {}
        self._of_switch: dict[str, Isolation] = {}
        self._of_superpod: dict[str, Isolation] = {}
        #: The leaf switch of each server, by the server's address.
        self._switch_at: Mapping[str, str] = {}

    def put(self, isolations: Isolations) -> None:
        self.entries = isolations.entries
        self._of_node, self._of_switch, self._of_superpod = {}, {}, {}
        for one in self.entries:
            if one.switch:
                self._of_switch[one.switch] = one
            elif one.superpod:
                self._of_superpod[one.superpod] = one
            else:
                self._of_node[one.node] = (*self._of_node.get(one.node, ()), one)

    def put_switches(self, switch_at: Mapping[str, str]) -> None:
        self._switch_at = switch_at

    @property
    def has_groups(self) -> bool:
        return bool(self._of_switch or self._of_superpod)

    @property
    def nodes(self) -> set[str]:
        """Names of nodes that have an entry of their own, or for one of their chips."""
        return set(self._of_node)

    def of(self, node: Node, superpod: int | None) -> tuple[Isolation, ...]:
        """All entries about a node: its own first, then those of its leaf switch and its SuperPoD."""
        own = self._of_node.get(node.name, ())
        if not self.has_groups:
            return own
        switch = self._of_switch.get(self._switch_at.get(node.internal_ip or node.name, ""))
        pod = self._of_superpod.get(str(superpod)) if superpod is not None else None
        return (*own, *(one for one in (switch, pod) if one is not None))


def whole_now(entries: tuple[Isolation, ...]) -> Isolation | None:
    """The entry that takes all chips of the node out of use."""
    return next((one for one in entries if not one.chip and one.start is None), None)


def next_drain(entries: tuple[Isolation, ...]) -> Isolation | None:
    """The entry with the earliest time at which the node is drained."""
    ahead = [
        (one.start, number) for number, one in enumerate(entries) if one.start is not None and not one.chip
    ]
    return entries[min(ahead)[1]] if ahead else None
