"""How many topology domains there are."""

from __future__ import annotations

from ringwise.state.cluster import ClusterState
from ringwise.wellknown import HOSTNAME


class DomainNumbers:
    """How many domains of a topology key some nodes are in, for as long as labels stay as they are."""

    #: More sets of nodes than jobs use at once; each is as long as there are nodes.
    _MOST = 256

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], int] = {}
        self._version = -1

    def of(self, state: ClusterState, key: str, nodes: int) -> tuple[int, int]:
        """The number, and how many domains had to be looked at."""
        if self._version != state.labels.version or len(self._known) >= self._MOST:
            self._version = state.labels.version
            self._known.clear()
        known = self._known.get((key, nodes))
        if known is not None:
            return known, 0
        values = state.labels.values(key)
        number = sum(1 for value in values if state.labels.with_any(key, (value,)) & nodes)
        if key == HOSTNAME:
            unlabelled = nodes & ~state.labels.with_label(HOSTNAME)
            number += unlabelled.bit_count()
        self._known[key, nodes] = number
        return number, len(values)
