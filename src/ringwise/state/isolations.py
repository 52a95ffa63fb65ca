"""What operators took out of use: chips, nodes, and all nodes of a leaf switch or of a SuperPoD.

An entry with a time is a scheduled drain: until then the node takes jobs that end before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ringwise.state.model import Isolation, Node
from ringwise.topology.natural import natural_key


class IsolationTable:
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
