"""Fit and score of soft shares on the chips of one node (rules V6 to V8)."""

from __future__ import annotations

from typing import NamedTuple

from ringwise.placement.reasons import (
    EQUAL_PERCENT_NOT_MOUNTED,
    NO_AVAILABLE_CHIP,
    NO_CHIP_HAS_ROOM,
    NO_ROOM_FOR_JOB,
)
from ringwise.reasons import ReasonKind
from ringwise.state.chip_amounts import ChipAmounts, ChipUse
from ringwise.state.model import PartRequest
from ringwise.topology.chips import chips_of


class PartFit(NamedTuple):
    """Where a share or a vNPU goes on a node: raw score, chips and, of a vNPU, its template."""

    score: int
    chips: tuple[int, ...]
    template: str = ""


def room(request: PartRequest, use: ChipUse, memory: int) -> int:
    """How many such shares a chip takes now (V6)."""
    if use.entire or use.policies - {request.policy}:
        return 0
    percent, mb = max(1, request.count), max(1, request.mb)
    return max(0, min((100 - use.percent) // percent, (memory - use.mb) // mb))


def fit_share(
    request: PartRequest, book: ChipAmounts, available: int, memory: int, unplaced: int
) -> PartFit | ReasonKind:
    """The chip of a share, or why the node takes none. `unplaced`: pods of the job that have no node."""
    chips = chips_of(available)
    if not chips:
        return NO_AVAILABLE_CHIP
    rooms = {chip: room(request, book.on(chip), memory) for chip in chips}
    with_room = [chip for chip in chips if rooms[chip]]
    if not with_room:
        return NO_CHIP_HAS_ROOM
    if sum(rooms.values()) < unplaced:
        return NO_ROOM_FOR_JOB
    mine = (request.count, request.mb, request.policy, request.folder)
    for other in book.unsettled:
        # Kubelet's call tells pods apart by their percent alone.
        theirs = (other.percent, other.mb, other.policy, other.folder)
        if other.percent == request.count and theirs != mine:
            return EQUAL_PERCENT_NOT_MOUNTED
    shared = [chip for chip in with_room if book.on(chip).policies]
    if shared:
        chosen = max(shared, key=lambda chip: (book.on(chip).percent, -chip))
        left = 100 - book.on(chosen).percent - request.count
        return PartFit(16 * (200 - left), (chosen,))
    return PartFit(16 * len(book.chips), (with_room[0],))
