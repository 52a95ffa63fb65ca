"""Clusters of racks for tests: free nodes with names that tell where they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ringwise.placement.racks.model import FreeRacks, RackBlock


def free_racks(counts: Mapping[int, Mapping[int, int]]) -> FreeRacks:
    return {
        superpod: {
            rack: [f"sp{superpod}-rack{rack}-{number}" for number in range(count)]
            for rack, count in racks.items()
        }
        for superpod, racks in counts.items()
    }


def per_rack(blocks: Iterable[RackBlock]) -> dict[tuple[int, int], int]:
    """Nodes taken from every rack."""
    taken: dict[tuple[int, int], int] = {}
    for block in blocks:
        for slot in block.slots:
            where = (int(slot.superpod), slot.rack)
            taken[where] = taken.get(where, 0) + 1
    return dict(sorted(taken.items()))


def places(blocks: Iterable[RackBlock]) -> list[tuple[int, int]]:
    """(SuperPoD, rack) of every rank of the blocks."""
    return [(int(slot.superpod), slot.rack) for block in blocks for slot in block.slots]
