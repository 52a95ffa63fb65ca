"""SuperPoDs and their racks, drawn: one symbol per node.

    SuperPoD 0  |AAAAAAAA|AAAAAAAA|........~~|  10 free, 2 of them reserved; train: blocks 0-1

    SuperPoD 0  52 free in 16 racks; train: blocks 0-1
       0 |AAAAAAAA|     1 |AAAA....|  2-15 |........|

Neighboring racks that look the same share a box. SuperPoDs that carry blocks are never left out in favor of
ones that do not.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from ringwise.cli.output import WIDE
from ringwise.cli.printers.chips import chip_list
from ringwise.cli.printers.lines import wrapped
from ringwise.cli.printers.tables import Column, Table
from ringwise.grammar import counted
from ringwise.topology.natural import natural_key
from ringwise.topology.superpods import order_key

if TYPE_CHECKING:
    from ringwise.views.documents.topology import BlockFields, RackFields, SuperPodFields

FREE, RESERVED, BUSY, UNUSABLE, FAULTY = ".", "~", "#", "x", "!"
FAULTY_MEANING = "has a faulty chip or switch"

_JOB_COLORS = ("green", "cyan", "magenta", "yellow", "blue", "red")
_LETTERS = string.ascii_uppercase + string.ascii_lowercase
_MORE_JOBS = "*"
#: Boxes of racks in a line, also where there is width for more.
_BOXES_IN_A_LINE = 4


def print_superpods(console: Console, superpods: Sequence[SuperPodFields]) -> None:
    """Draw the SuperPoDs and their racks."""
    plain = [one for one in superpods if not one.racks]
    in_racks = [one for one in superpods if one.racks]
    if plain:
        console.print(draw_superpods(plain, width=console.width), soft_wrap=True)
    if in_racks:
        console.print(draw_racks(in_racks, width=console.width), soft_wrap=True)


def draw_superpods(superpods: Iterable[SuperPodFields], most: int = 40, width: int = WIDE) -> Text:
    """The picture, by SuperPoD id, with its legend. More than `most` lines are counted instead of drawn."""
    ordered = sorted(superpods, key=lambda one: (not one.blocks, order_key(one.superpod)))
    shown = sorted(ordered[:most], key=lambda one: order_key(one.superpod))
    signs, colors = job_signs(block.job for one in shown for block in one.blocks)
    table = Table([Column(""), Column("", wraps=True)], gap=2, headings=False)
    for one in shown:
        cells = _nodes_drawn(one, signs, colors, reserved=one.reserved_nodes, separated=True)
        table.add(f"SuperPoD {one.superpod}", cells, note=_superpod_words(one))
    lines = table.lines(width)
    lines += _hidden(ordered[most:])
    legend = _legend(shown, signs)
    lines += wrapped(Text(f"one symbol per node: {legend}" if legend else "no SuperPoDs"), width)
    return Text("\n", no_wrap=True).join(lines)


def _superpod_words(one: SuperPodFields) -> str:
    reserved = f", {one.reserved_nodes} of them reserved" if one.reserved_nodes else ""
    return "; ".join([f"{one.free_nodes} free{reserved}", *_block_words(one)])


def draw_racks(superpods: Iterable[SuperPodFields], most: int = 60, width: int = WIDE) -> Text:
    """The racks of each SuperPoD with a legend. Beyond `most` lines, SuperPoDs are counted, not drawn."""
    pictures = list(superpods)
    signs, colors = job_signs(block.job for picture in pictures for block in picture.blocks)
    drawn = {number: _racks_of(picture, signs, colors, width) for number, picture in enumerate(pictures)}
    shown: list[int] = []
    height = 0
    for number in sorted(drawn, key=lambda number: not pictures[number].blocks):
        height += len(drawn[number])
        if height > most and shown:
            break
        shown.append(number)
    lines = [line for number in sorted(shown) for line in drawn[number]]
    lines += _hidden([picture for number, picture in enumerate(pictures) if number not in shown])
    legend = _legend([pictures[number] for number in sorted(shown)], signs)
    lines += wrapped(Text(f"one symbol per node, one box per rack: {legend}"), width)
    return Text("\n", no_wrap=True).join(lines)


def _racks_of(
    picture: SuperPodFields, signs: Mapping[str, str], colors: Mapping[str, str], width: int
) -> list[Text]:
    boxes = _boxes(picture.racks, signs, colors)
    label_width = max((len(label) for label, _ in boxes), default=0)
    box_width = max((len(box) for _, box in boxes), default=0)
    lines = wrapped(Text(f"SuperPoD {picture.superpod}  {_rack_words(picture)}"), width)
    across = max(1, min(_BOXES_IN_A_LINE, width // (label_width + box_width + 3)))
    for start in range(0, len(boxes), across):
        line = Text()
        for label, box in boxes[start : start + across]:
            line.append(f"  {label:>{label_width}} ").append(box).append(" " * (box_width - len(box)))
        line.rstrip()
        lines.append(line)
    return lines


def _boxes(
    racks: Sequence[RackFields], signs: Mapping[str, str], colors: Mapping[str, str]
) -> list[tuple[str, Text]]:
    """(ids, box) of each run of neighboring racks that look the same."""
    runs: list[tuple[int, int, Text]] = []
    for rack in racks:
        box = _nodes_drawn(rack, signs, colors)
        if runs and runs[-1][1] + 1 == rack.rack and runs[-1][2] == box:
            runs[-1] = (runs[-1][0], rack.rack, box)
        else:
            runs.append((rack.rack, rack.rack, box))
    return [(str(first) if first == last else f"{first}-{last}", box) for first, last, box in runs]


def _rack_words(picture: SuperPodFields) -> str:
    words = [f"{picture.free_nodes} free in {counted(picture.racks, 'rack')}", *_block_words(picture)]
    inside = {node for rack in picture.racks for node in (*rack.free, *_used(rack))}
    without = [node for node in (*picture.free, *_used(picture)) if node not in inside]
    return "; ".join([*words, f"{counted(without, 'node')} in no rack"] if without else words)


# -- what both have ------------------------------------------------------------------------------


def job_signs(jobs: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The letter and the color of each job, jobs in natural order of their names."""
    ordered = sorted(set(jobs), key=natural_key)
    signs = dict(itertools.zip_longest(ordered, _LETTERS[: len(ordered)], fillvalue=_MORE_JOBS))
    return signs, dict(zip(ordered, itertools.cycle(_JOB_COLORS), strict=False))


def _nodes_drawn(
    one: SuperPodFields | RackFields,
    signs: Mapping[str, str],
    colors: Mapping[str, str],
    *,
    reserved: int = 0,
    separated: bool = False,
) -> Text:
    """The nodes of jobs, block by block, then others. `separated`: each block has an end of its own."""
    faulty = set(one.faulty)
    cells = Text("|")
    for block in sorted(one.blocks, key=_place_of):
        bad = len(faulty.intersection(block.nodes))
        cells.append(signs[block.job] * (len(block.nodes) - bad), style=colors[block.job])
        cells.append(FAULTY * bad, style="red").append("|" if separated else "")
    busy, unusable = (len(faulty.intersection(names)) for names in (one.busy, one.unusable))
    cells.append(BUSY * (one.busy_nodes - busy), style="dim")
    cells.append(UNUSABLE * (one.unusable_nodes - unusable) + FAULTY * (busy + unusable), style="red")
    cells.append(FREE * (one.free_nodes - reserved)).append(RESERVED * reserved)
    return cells if separated and cells.plain.endswith("|") else cells.append("|")


def _place_of(block: BlockFields) -> tuple[object, int]:
    return natural_key(block.job), block.block


def _block_words(one: SuperPodFields) -> list[str]:
    by_job: dict[str, list[int]] = {}
    for block in sorted(one.blocks, key=_place_of):
        by_job.setdefault(block.job, []).append(block.block)
    return [
        f"{job}: {'block' if len(ids) == 1 else 'blocks'} {chip_list(ids, 2, ', ')}"
        for job, ids in by_job.items()
    ]


def _hidden(superpods: Sequence[SuperPodFields]) -> list[Text]:
    free = counted(sum(one.free_nodes for one in superpods), "free node")
    return [Text(f"and {counted(superpods, 'more SuperPoD')} with {free}")] if superpods else []


def _used(one: SuperPodFields | RackFields) -> list[str]:
    return [*one.busy, *one.unusable, *(node for block in one.blocks for node in block.nodes)]


def _legend(shown: Sequence[SuperPodFields], signs: Mapping[str, str]) -> str:
    """Only the signs that stand in the picture."""
    present = {block.job for one in shown for block in one.blocks}
    meanings = [f"{sign} {job}" for job, sign in signs.items() if job in present]
    for sign, meaning, used in (
        (BUSY, "other pods", any(set(one.busy) - set(one.faulty) for one in shown)),
        (UNUSABLE, "unusable", any(set(one.unusable) - set(one.faulty) for one in shown)),
        (FAULTY, FAULTY_MEANING, any(set(one.faulty).intersection(_used(one)) for one in shown)),
        (FREE, "free", any(one.free_nodes > (0 if one.racks else one.reserved_nodes) for one in shown)),
        (RESERVED, "reserved", any(one.reserved_nodes and not one.racks for one in shown)),
    ):
        if used:
            meanings.append(f"{sign} {meaning}")
    return ", ".join(meanings)
