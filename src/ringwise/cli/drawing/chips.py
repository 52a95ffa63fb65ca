"""Small pictures of a node's chips, ring by ring.

[##..|....]   # held   . free   + given now   x faulty   ~ kept for a waiting job
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ringwise.scheduler.cluster_reader import ChipTable
from ringwise.topology.board import Board

#: Words of the drawings that are no signs.
CLASS_LEGEND = "in parentheses: the class by the label tor-affinity and the number of pods (docs/switches.md)"
SCORE_LEGEND = "score: the board's own score of the node, the highest is taken (ringwise boards show BOARD)"
GROUP_LEGEND = (
    "group: how well the free chips of the rings fit the request, A is best (ringwise boards show BOARD)"
)
STATES_LEGEND = "# used  . free  x faulty  X used and faulty  i isolated  ~ reserved  - closed"
LEGEND = "# held  . free  + given now  x faulty  ~ reserved"

_SIGNS = {"used": "#", "faulty": "x", "isolated": "i", "reserved": "~", "closed": "-", "free": "."}


def chip_picture(fleet: ChipTable, node: int, board: Board | None, *, free: int, given: int = 0) -> str:
    """One sign per chip; `free` and `given` are masks, so that before and after can be drawn."""
    listed = fleet.listed[node]
    bad = fleet.broken(node)
    count = max(listed.bit_length(), 1)

    def sign(chip: int) -> str:
        bit = 1 << chip
        if given & bit:
            return "+"
        if bad & bit:
            return "x"
        if not listed & bit:
            return " "
        if free & bit:
            return "."
        return "~" if fleet.reserved[node] & bit and not fleet.taken(node) & bit else "#"

    return _by_rings(sign, count, board)


def state_picture(chips: Mapping[str, Any], board: Board | None) -> str:
    """The chips of a node's document, one sign for the state in which each counts."""
    signs = dict[int, str]()
    for state, letter in _SIGNS.items():
        signs |= dict.fromkeys(chips[state], letter)
    signs |= dict.fromkeys(set(chips["used"]) & set(chips["marks"]["faulty"]), "X")
    return _by_rings(lambda chip: signs.get(chip, " "), max(signs, default=0) + 1, board)


def _by_rings(sign: Callable[[int], str], count: int, board: Board | None) -> str:
    rings = [ring for ring in (board.rings if board is not None else ()) if ring[0] < count]
    if not rings:
        return "[" + "".join(sign(chip) for chip in range(count)) + "]"
    return "[" + "|".join("".join(sign(chip) for chip in ring) for ring in rings) + "]"


def chip_list(chips: Sequence[int]) -> str:
    """Chips in their written order; a run of three and more that ascends is shortened: `0-7`."""
    runs: list[list[int]] = []
    for chip in chips:
        if runs and chip == runs[-1][-1] + 1:
            runs[-1].append(chip)
        else:
            runs.append([chip])
    return ",".join(
        f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(str(chip) for chip in run) for run in runs
    )
