"""Small pictures of SuperPoDs: one line each, one sign per node.

    SuperPoD 0  |AAAAAAAA|AAAAAAAA|........~~|  10 free, 2 of them reserved; train: blocks 0-1

`place`, `why` and `topology show` share them. The signs carry the meaning and
colour only repeats it, so a picture survives a pipe.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.text import Text

from ringwise.topology.natural import natural_key
from ringwise.topology.superpods import SuperPodId, order_key

FREE, RESERVED, BUSY, UNUSABLE = ".", "~", "#", "x"

_COLOURS = ("green", "cyan", "magenta", "yellow", "blue", "red")
_LETTERS = string.ascii_uppercase + string.ascii_lowercase
_MORE_JOBS = "*"


@dataclass(frozen=True, slots=True)
class DrawnBlock:
    """A block of a job in one SuperPoD: `nodes` of it are drawn."""

    job: str
    logical: int
    nodes: int


@dataclass(frozen=True, slots=True)
class DrawnSuperPod:
    """What is known of one SuperPoD. The reserve is the part of `free` that queue 1 leaves alone."""

    superpod: SuperPodId
    free: int
    reserve: int = 0
    blocks: tuple[DrawnBlock, ...] = ()
    #: Nodes that hold other pods, and nodes that cannot be used (cordoned, faulty, not ready).
    busy: int = 0
    unusable: int = 0

    @property
    def reserved(self) -> int:
        return min(self.free, self.reserve)


def draw_superpods(superpods: Iterable[DrawnSuperPod], most: int = 40) -> Text:
    """The picture, by SuperPoD id, with its legend. More than `most` lines are counted instead of drawn.

    SuperPoDs that carry blocks are never left out in favour of ones that do not.
    """
    ordered = sorted(superpods, key=lambda drawn: order_key(drawn.superpod))
    shown = sorted(
        sorted(ordered, key=lambda drawn: not drawn.blocks)[:most],
        key=lambda drawn: order_key(drawn.superpod),
    )
    jobs = sorted({block.job for drawn in shown for block in drawn.blocks}, key=natural_key)
    signs = dict(itertools.zip_longest(jobs, _LETTERS[: len(jobs)], fillvalue=_MORE_JOBS))
    colours = dict(zip(jobs, itertools.cycle(_COLOURS), strict=False))
    name_width = max((len(str(drawn.superpod)) for drawn in shown), default=0)
    pictures = [_cells(drawn, signs, colours) for drawn in shown]
    picture_width = max((len(picture) for picture in pictures), default=0)
    text = Text(no_wrap=True)
    for drawn, picture in zip(shown, pictures, strict=True):
        text.append(f"SuperPoD {drawn.superpod!s:<{name_width}}  ")
        text.append(picture)
        text.append(" " * (picture_width - len(picture) + 2) + _words(drawn) + "\n")
    hidden = len(ordered) - len(shown)
    if hidden:
        free = sum(drawn.free for drawn in ordered) - sum(drawn.free for drawn in shown)
        text.append(f"and {hidden} more SuperPoDs with {free} free nodes\n")
    return text.append(_legend(shown, signs))


def _cells(drawn: DrawnSuperPod, signs: dict[str, str], colours: dict[str, str]) -> Text:
    cells = Text("|")
    for block in sorted(drawn.blocks, key=lambda block: (natural_key(block.job), block.logical)):
        cells.append(signs[block.job] * block.nodes, style=colours[block.job]).append("|")
    cells.append(BUSY * drawn.busy, style="dim").append(UNUSABLE * drawn.unusable, style="red")
    cells.append(FREE * (drawn.free - drawn.reserved)).append(RESERVED * drawn.reserved)
    return cells if cells.plain.endswith("|") else cells.append("|")


def _words(drawn: DrawnSuperPod) -> str:
    counts = [f"{drawn.free} free"]
    if drawn.reserved:
        counts.append(f"{drawn.reserved} of them reserved")
    by_job: dict[str, list[int]] = {}
    for block in drawn.blocks:
        by_job.setdefault(block.job, []).append(block.logical)
    blocks = [
        f"{job}: {'block' if len(ids) == 1 else 'blocks'} {_ranges(sorted(ids))}"
        for job, ids in sorted(by_job.items(), key=lambda entry: natural_key(entry[0]))
    ]
    return "; ".join([", ".join(counts), *blocks])


def _ranges(ids: Sequence[int]) -> str:
    """`0-3, 7`"""
    runs: list[list[int]] = []
    for number in ids:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _legend(shown: Sequence[DrawnSuperPod], signs: dict[str, str]) -> str:
    """Only the signs that stand in the picture."""
    meanings = [f"{sign} {job}" for job, sign in signs.items()]
    for sign, meaning, present in (
        (BUSY, "other pods", any(drawn.busy for drawn in shown)),
        (UNUSABLE, "unusable", any(drawn.unusable for drawn in shown)),
        (FREE, "free", any(drawn.free > drawn.reserved for drawn in shown)),
        (RESERVED, "reserved", any(drawn.reserved for drawn in shown)),
    ):
        if present:
            meanings.append(f"{sign} {meaning}")
    return "one sign per node: " + ", ".join(meanings) if meanings else "no SuperPoDs"
