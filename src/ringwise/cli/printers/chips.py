"""Small pictures of a node's chips, ring by ring.

[##..|....]   # used   . free   + newly allocated   x faulty   ~ kept for a waiting job
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ringwise.views.documents.cluster import ChipsFields


#: Words of the drawings that are not signs.
CLASS_LEGEND = (
    "in parentheses: the class by the label tor-affinity and the number of pods (docs/concepts/switches.md)"
)
SCORE_LEGEND = "score: the board's score of the node; the highest is chosen (ringwise boards show BOARD)"
GROUP_LEGEND = (
    "group: how well the free chips of the rings fit the request; A is best (ringwise boards show BOARD)"
)
STATES_LEGEND = (
    "# used  . free  x faulty  X used and faulty  i isolated  ~ reserved",
    "- unschedulable  (! the node accepts no new pods)",
)

#: States of chips besides used and free.
OTHER_STATES = ("faulty", "isolated", "reserved", "unschedulable")
#: A chip has the sign of its first state that applies.
_SIGNS = {"used": "#", "faulty": "x", "isolated": "i", "reserved": "~", "unschedulable": "-", "free": "."}
#: Signs of a ring that can be read at a glance.
_LONGEST = 16
_MEANINGS = {"X": "used and faulty", "i": "isolated", "-": "unschedulable"}


def legend(pictures: Iterable[str], marked: str = "") -> str:
    """What the signs mean; those that are rare are named where they occur. `marked`: what + means."""
    shown = set().union(*pictures)
    names = {"#": "used", ".": "free", "+": marked, "x": "faulty", "~": "reserved"}
    names |= {sign: meaning for sign, meaning in _MEANINGS.items() if sign in shown}
    if shown & set("123456789"):
        names["1-9"] = "tenths used by shares or vNPUs"
    return "  ".join(f"{sign} {meaning}" for sign, meaning in names.items() if meaning)


def chip_picture(
    chips: ChipsFields, *, free: Collection[int] | None = None, marked: Collection[int] = ()
) -> str:
    """One sign for each chip: its first state that applies.

    `free` draws the node as it was when these chips were free, `marked` are chips of one pod, drawn as +.
    """
    signs = _signs(chips)
    if free is not None:
        signs |= {chip: "." if chip in free else signs[chip] for chip in chips["used"]}
        signs |= {chip: "." if chip in free else "#" for chip in chips["free"]}
    signs |= dict.fromkeys(marked, "+")
    rings = ("".join(signs.get(chip, " ") for chip in ring) for ring in chips["rings"])
    return "[" + "|".join(_counted(ring) if len(ring) > _LONGEST else ring for ring in rings) + "]"


def _counted(signs: str) -> str:
    """`40# 24.`: chips that are all alike to the board, such as 64 in one row, are counted, not drawn."""
    return " ".join(f"{number}{sign}" for sign, number in Counter(signs).items() if sign != " ")


def _signs(chips: ChipsFields) -> dict[int, str]:
    states: Mapping[str, Any] = chips
    signs: dict[int, str] = {
        chip: str(max(1, percent // 10))
        for chip, percent in zip(chips["used"], chips.get("used_percent", ()), strict=False)
        if percent < 100
    }
    for state, sign in _SIGNS.items():
        for chip in states[state]:
            signs.setdefault(chip, sign)
    return signs | dict.fromkeys(set(chips["used"]) & set(chips["faulty"]), "X")


def chip_list(chips: Sequence[int], shortest: int = 3, separator: str = ",") -> str:
    """Chips in their written order; a run of at least `shortest` that ascends is shortened: `0-7`."""
    runs: list[list[int]] = []
    for chip in chips:
        if runs and chip == runs[-1][-1] + 1:
            runs[-1].append(chip)
        else:
            runs.append([chip])
    return separator.join(
        f"{run[0]}-{run[-1]}" if len(run) >= shortest else separator.join(map(str, run)) for run in runs
    )
