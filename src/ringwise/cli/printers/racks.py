"""Racks of SuperPoDs, drawn: one symbol per node, one box per rack.

    SuperPoD 0  52 free in 16 racks; train: blocks 0-1
       0 |AAAAAAAA|     1 |AAAA....|  2-15 |........|

Neighboring racks that look the same share a box.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from ringwise.cli.output import WIDE
from ringwise.cli.printers.lines import wrapped
from ringwise.cli.printers.symbols import BUSY, FAULTY, FAULTY_MEANING, FREE, UNUSABLE, job_signs, ranges
from ringwise.grammar import counted
from ringwise.topology.natural import natural_key

if TYPE_CHECKING:
    from ringwise.views.documents.topology import RackFields, SuperPodFields

#: Also where there is width for more.
_BOXES_IN_A_LINE = 4


def draw_racks(superpods: Iterable[SuperPodFields], most: int = 60, width: int = WIDE) -> Text:
    """The racks of each SuperPoD with a legend. SuperPoDs beyond `most` lines are counted instead of drawn.

    SuperPoDs that carry blocks are never left out in favor of ones that do not.
    """
    pictures = list(superpods)
    signs, colors = job_signs(block.job for picture in pictures for block in picture.blocks)
    drawn = {number: _superpod(picture, signs, colors, width) for number, picture in enumerate(pictures)}
    shown: list[int] = []
    lines = 0
    for number in sorted(drawn, key=lambda number: not pictures[number].blocks):
        lines += len(drawn[number])
        if lines > most and shown:
            break
        shown.append(number)
    text = Text(no_wrap=True)
    for number in sorted(shown):
        for line in drawn[number]:
            text.append(line).append("\n")
    hidden = [picture for number, picture in enumerate(pictures) if number not in shown]
    if hidden:
        free = sum(picture.free_nodes for picture in hidden)
        text.append(f"and {counted(hidden, 'more SuperPoD')} with {counted(free, 'free node')}\n")
    legend = wrapped(Text(_legend([pictures[number] for number in shown], signs)), width)
    return text.append_text(Text("\n").join(legend))


def _superpod(
    picture: SuperPodFields, signs: Mapping[str, str], colors: Mapping[str, str], width: int
) -> list[Text]:
    boxes = _boxes(picture.racks, signs, colors)
    label_width = max((len(label) for label, _ in boxes), default=0)
    box_width = max((len(box) for _, box in boxes), default=0)
    lines = wrapped(Text(f"SuperPoD {picture.superpod}  {_words(picture)}"), width)
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
        box, faulty = Text("|"), set(rack.faulty)
        for block in sorted(rack.blocks, key=lambda one: (natural_key(one.job), one.block)):
            bad = len(faulty.intersection(block.nodes))
            box.append(signs[block.job] * (len(block.nodes) - bad), style=colors[block.job])
            box.append(FAULTY * bad, style="red")
        busy, unusable = (len(faulty.intersection(names)) for names in (rack.busy, rack.unusable))
        box.append(BUSY * (rack.busy_nodes - busy), style="dim")
        box.append(UNUSABLE * (rack.unusable_nodes - unusable) + FAULTY * (busy + unusable), style="red")
        box.append(FREE * rack.free_nodes).append("|")
        if runs and runs[-1][1] + 1 == rack.rack and runs[-1][2] == box:
            runs[-1] = (runs[-1][0], rack.rack, box)
        else:
            runs.append((rack.rack, rack.rack, box))
    return [(str(first) if first == last else f"{first}-{last}", box) for first, last, box in runs]


def _words(picture: SuperPodFields) -> str:
    racks = picture.racks
    by_job: dict[str, list[int]] = {}
    for block in sorted(picture.blocks, key=lambda one: (natural_key(one.job), one.block)):
        by_job.setdefault(block.job, []).append(block.block)
    words = [f"{picture.free_nodes} free in {counted(racks, 'rack')}"]
    for job, blocks in by_job.items():
        words.append(f"{job}: {'block' if len(blocks) == 1 else 'blocks'} {ranges(blocks)}")
    inside = {node for rack in racks for node in _nodes(rack)}
    without = [node for node in _nodes(picture) if node not in inside]
    if without:
        words.append(f"{counted(without, 'node')} in no rack")
    return "; ".join(words)


def _nodes(picture: SuperPodFields | RackFields) -> list[str]:
    in_blocks = [node for block in picture.blocks for node in block.nodes]
    return [*picture.free, *picture.busy, *picture.unusable, *in_blocks]


def _legend(shown: Sequence[SuperPodFields], signs: Mapping[str, str]) -> str:
    """Only the signs that stand in the picture."""
    present = {block.job for picture in shown for block in picture.blocks}
    meanings = [f"{sign} {job}" for job, sign in signs.items() if job in present]
    for sign, meaning, used in (
        (BUSY, "other pods", any(set(picture.busy) - set(picture.faulty) for picture in shown)),
        (UNUSABLE, "unusable", any(set(picture.unusable) - set(picture.faulty) for picture in shown)),
        (FAULTY, FAULTY_MEANING, any(picture.faulty for picture in shown)),
        (FREE, "free", any(picture.free for picture in shown)),
    ):
        if used:
            meanings.append(f"{sign} {meaning}")
    return "one symbol per node, one box per rack: " + ", ".join(meanings)
