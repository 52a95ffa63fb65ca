"""Leaf switches and SuperPoDs, drawn: one line each, one sign per node.

    10.0.0.1  exclusive  A . -  1 of 2 free
    SuperPoD 0  |AAAAAAAA|AAAAAAAA|........~~|  10 free, 2 of them reserved; train: blocks 0-1

`place`, `why` and `topology show` share these drawings. Colour only repeats what the signs show, so a drawing
can be read without it.
"""

from __future__ import annotations

import string
from collections.abc import Collection, Iterable, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from ringwise.cli.drawing.lines import wrapped
from ringwise.cli.drawing.racks import draw_racks
from ringwise.cli.drawing.signs import (
    BUSY,
    FAULTY,
    FAULTY_MEANING,
    FREE,
    RESERVED,
    UNUSABLE,
    job_signs,
    ranges,
)
from ringwise.cli.drawing.tables import Column, Table
from ringwise.cli.output import WIDE
from ringwise.durations import time_text
from ringwise.grammar import counted
from ringwise.manifests.errors import one_line
from ringwise.placement.switches.states import SwitchFacts, SwitchState
from ringwise.records import dataclass
from ringwise.scheduler.view import SchedulerView
from ringwise.topology.natural import natural_key
from ringwise.topology.superpods import SuperPodId, order_key
from ringwise.topology.switches import ResolvedTopology
from ringwise.views.topology import SuperPodPicture, isolated_targets, superpod_pictures, switch_picture


def print_switches(console: Console, view: SchedulerView, now: int) -> bool:
    """Draw the leaf switches; False where there are none."""
    picture = switch_picture(view, now)
    if picture is None:
        return False
    text = draw_switches(
        picture.resolved,
        picture.states,
        picture.free_nodes,
        picture.jobs_of_node,
        console.width,
        picture.faulty_nodes,
    )
    console.print(text, end="", markup=False, soft_wrap=True)
    return True


def print_superpods(console: Console, view: SchedulerView, now: int) -> bool:
    """Draw the SuperPoDs and their racks; False where there are none."""
    pictures = superpod_pictures(view, now)
    if not pictures:
        return False
    plain = [picture for picture in pictures if not picture.racks]
    in_racks = [picture for picture in pictures if picture.racks]
    if plain:
        drawn = [_drawn(picture) for picture in plain]
        console.print(draw_superpods(drawn, width=console.width), soft_wrap=True)
    if in_racks:
        console.print(draw_racks(in_racks, width=console.width), soft_wrap=True)
    return True


def print_isolations(console: Console, view: SchedulerView) -> None:
    """What operators took out of use, one line each."""
    for one in isolated_targets(view):
        start = "" if one.start is None else f" from {time_text(one.start)} on"
        details = one.details
        line = f"isolated{start}: {one.title}{details['by']}{details['why']}"
        console.print(one_line(line), markup=False, soft_wrap=True)


def _drawn(picture: SuperPodPicture) -> DrawnSuperPod:
    return DrawnSuperPod(
        picture.superpod,
        len(picture.free),
        picture.reserve,
        tuple(
            DrawnBlock(job, block, len(nodes), len(picture.faulty.intersection(nodes)))
            for (job, block), nodes in picture.blocks.items()
        ),
        len(picture.busy),
        len(picture.unusable),
        len(picture.faulty.intersection(picture.busy)),
        len(picture.faulty.intersection(picture.unusable)),
    )


# -- leaf switches --------------------------------------------------------------------------------


def draw_switches(
    resolved: ResolvedTopology,
    states: Sequence[SwitchFacts],
    free_nodes: Collection[str],
    jobs_of_node: Mapping[str, Sequence[str]],
    width: int = WIDE,
    faulty_nodes: Collection[str] = (),
) -> str:
    """One line per switch, one sign per server in array order, and what the signs mean."""
    letters: dict[str, str] = {}
    table = Table([Column(""), Column(""), Column("", wraps=True), Column("")], gap=2, headings=False)
    missing = False
    for switch, seats, facts in zip(resolved.topology.switches, resolved.nodes, states, strict=True):
        places = {seat.index: seat.node for seat in seats}
        count = max((server.index + 1 for server in switch.servers), default=0)
        signs = [
            _node_sign(places[place], free_nodes, jobs_of_node, faulty_nodes, letters)
            if place in places
            else "-"
            for place in range(count)
        ]
        free = sum(1 for seat in seats if seat.node in free_nodes)
        missing = missing or "-" in signs
        table.add(switch.ip, _switch_words(facts), " ".join(signs), f"{free} of {len(seats)} free")
    meaning = [f"{letter} {job}" for job, letter in letters.items()]
    meaning += [". free", "x not free"]
    if any(node in faulty_nodes for node in resolved.switch_of):
        meaning.append(f"{FAULTY} {FAULTY_MEANING}")
    if missing:
        meaning.append("- no node of the cluster")
    lines = [*table.lines(width), Text(""), *wrapped(Text(", ".join(meaning)), width)]
    return "".join(f"{line.plain}\n" for line in lines)


def _node_sign(
    node: str,
    free_nodes: Collection[str],
    jobs_of_node: Mapping[str, Sequence[str]],
    faulty_nodes: Collection[str],
    letters: dict[str, str],
) -> str:
    jobs = jobs_of_node.get(node, ())
    if not jobs:
        return FAULTY if node in faulty_nodes else "." if node in free_nodes else "x"
    letter = letters.setdefault(jobs[0], _job_letter(len(letters)))
    return f"{letter}{FAULTY}" if node in faulty_nodes else letter


def _job_letter(number: int) -> str:
    """A to Z, then A1 to Z1, and so on."""
    turn, place = divmod(number, len(string.ascii_uppercase))
    return string.ascii_uppercase[place] + (str(turn) if turn else "")


def _switch_words(facts: SwitchFacts) -> str:
    if facts.state is SwitchState.SHARED:
        return "shared, healthy" if facts.healthy else "shared, unhealthy"
    return facts.state.word


# -- SuperPoDs -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DrawnBlock:
    """A block of a job in one SuperPoD: `nodes` of it are drawn."""

    job: str
    logical: int
    nodes: int
    #: How many of them have a faulty chip.
    faulty: int = 0


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
    #: How many of the busy and of the unusable ones have a faulty chip.
    busy_faulty: int = 0
    unusable_faulty: int = 0

    @property
    def faulty(self) -> int:
        return self.busy_faulty + self.unusable_faulty

    @property
    def reserved(self) -> int:
        return min(self.free, self.reserve)


def draw_superpods(superpods: Iterable[DrawnSuperPod], most: int = 40, width: int = WIDE) -> Text:
    """The picture, by SuperPoD id, with its legend. More than `most` lines are counted instead of drawn.

    SuperPoDs that carry blocks are never left out in favour of ones that do not.
    """
    ordered = sorted(superpods, key=lambda drawn: order_key(drawn.superpod))
    shown = sorted(
        sorted(ordered, key=lambda drawn: not drawn.blocks)[:most],
        key=lambda drawn: order_key(drawn.superpod),
    )
    signs, colours = job_signs(block.job for drawn in shown for block in drawn.blocks)
    table = Table([Column(""), Column("", wraps=True)], gap=2, headings=False)
    for drawn in shown:
        cells = _cells(drawn, signs, colours)
        table.add(f"SuperPoD {drawn.superpod}", cells, note=_superpod_words(drawn))
    lines = table.lines(width)
    hidden = len(ordered) - len(shown)
    if hidden:
        free = sum(drawn.free for drawn in ordered) - sum(drawn.free for drawn in shown)
        lines.append(Text(f"and {counted(hidden, 'more SuperPoD')} with {counted(free, 'free node')}"))
    lines += wrapped(Text(_superpod_legend(shown, signs)), width)
    return Text("\n", no_wrap=True).join(lines)


def _cells(drawn: DrawnSuperPod, signs: dict[str, str], colours: dict[str, str]) -> Text:
    cells = Text("|")
    for block in sorted(drawn.blocks, key=lambda block: (natural_key(block.job), block.logical)):
        cells.append(signs[block.job] * (block.nodes - block.faulty), style=colours[block.job])
        cells.append(FAULTY * block.faulty, style="red").append("|")
    cells.append(BUSY * (drawn.busy - drawn.busy_faulty), style="dim")
    cells.append(UNUSABLE * (drawn.unusable - drawn.unusable_faulty) + FAULTY * drawn.faulty, style="red")
    cells.append(FREE * (drawn.free - drawn.reserved)).append(RESERVED * drawn.reserved)
    return cells if cells.plain.endswith("|") else cells.append("|")


def _superpod_words(drawn: DrawnSuperPod) -> str:
    counts = [f"{drawn.free} free"]
    if drawn.reserved:
        counts.append(f"{drawn.reserved} of them reserved")
    by_job: dict[str, list[int]] = {}
    for block in drawn.blocks:
        by_job.setdefault(block.job, []).append(block.logical)
    blocks = [
        f"{job}: {'block' if len(ids) == 1 else 'blocks'} {ranges(sorted(ids))}"
        for job, ids in sorted(by_job.items(), key=lambda entry: natural_key(entry[0]))
    ]
    return "; ".join([", ".join(counts), *blocks])


def _superpod_legend(shown: Sequence[DrawnSuperPod], signs: dict[str, str]) -> str:
    """Only the signs that stand in the picture."""
    meanings = [f"{sign} {job}" for job, sign in signs.items()]
    for sign, meaning, present in (
        (BUSY, "other pods", any(drawn.busy > drawn.busy_faulty for drawn in shown)),
        (UNUSABLE, "unusable", any(drawn.unusable > drawn.unusable_faulty for drawn in shown)),
        (
            FAULTY,
            FAULTY_MEANING,
            any(drawn.faulty or any(block.faulty for block in drawn.blocks) for drawn in shown),
        ),
        (FREE, "free", any(drawn.free > drawn.reserved for drawn in shown)),
        (RESERVED, "reserved", any(drawn.reserved for drawn in shown)),
    ):
        if present:
            meanings.append(f"{sign} {meaning}")
    return "one sign per node: " + ", ".join(meanings) if meanings else "no SuperPoDs"
