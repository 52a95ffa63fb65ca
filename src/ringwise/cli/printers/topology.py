"""Leaf switches and SuperPoDs, drawn: one line each, one symbol per node.

    10.0.0.1  exclusive  A . -  1 of 2 free
    SuperPoD 0  |AAAAAAAA|AAAAAAAA|........~~|  10 free, 2 of them reserved; train: blocks 0-1

`place`, `why` and `topology show` share these drawings. Color only repeats what the signs show, so a drawing
can be read without it.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from ringwise.cli.output import WIDE
from ringwise.cli.printers.lines import print_line, wrapped
from ringwise.cli.printers.name_lists import holder_text, name_list
from ringwise.cli.printers.racks import draw_racks
from ringwise.cli.printers.symbols import (
    BUSY,
    FAULTY,
    FAULTY_MEANING,
    FREE,
    RESERVED,
    UNUSABLE,
    job_signs,
    ranges,
)
from ringwise.cli.printers.tables import Column, Table
from ringwise.durations import time_text
from ringwise.grammar import counted
from ringwise.manifests.text.errors import one_line
from ringwise.topology.natural import natural_key
from ringwise.topology.superpods import order_key

if TYPE_CHECKING:
    from ringwise.views.documents.reservations import ReservationFields
    from ringwise.views.documents.topology import (
        IsolationFields,
        SuperPodFields,
        SwitchFields,
        SwitchNodeFields,
        TopologyDocument,
    )


def print_topology(console: Console, document: TopologyDocument) -> None:
    if document.switches is not None:
        print_switches(console, document.switches)
    print_superpods(console, document.superpods)
    print_isolations(console, document.isolations, document.now)
    print_reservations(console, document.reservations, document.now)


def print_switches(console: Console, switches: Sequence[SwitchFields]) -> None:
    console.print(draw_switches(switches, console.width), end="", markup=False, soft_wrap=True)


def print_superpods(console: Console, superpods: Sequence[SuperPodFields]) -> None:
    """Draw the SuperPoDs and their racks."""
    plain = [one for one in superpods if not one.racks]
    in_racks = [one for one in superpods if one.racks]
    if plain:
        console.print(draw_superpods(plain, width=console.width), soft_wrap=True)
    if in_racks:
        console.print(draw_racks(in_racks, width=console.width), soft_wrap=True)


def print_isolations(console: Console, isolations: Iterable[IsolationFields], now: int) -> None:
    """What operators took out of use, one line each."""
    for one in isolations:
        start = ""
        if one["start"] is not None:
            time = time_text(one["start"])
            begun = one["start"] <= now
            start = f" since {time}" if begun else f" from {time} (until then only for jobs that end before)"
        by = f" by {one['created_by']}" if one["created_by"] else ""
        why = f": {one['reason']}" if one["reason"] else ""
        line = f"isolated{start}: {one['title']}{by}{why}"
        print_line(console, Text(one_line(line)))


def print_reservations(console: Console, reservations: Iterable[ReservationFields], now: int) -> None:
    """Nodes that are kept for queues and namespaces, one line each."""
    for one in reservations:
        start, end = time_text(one["start"]), time_text(one["end"])
        when = (
            f"until {end}"
            if one["start"] <= now
            else f"from {start} to {end} (until then only for jobs that end before)"
        )
        line = f"reserved for {holder_text(one)} {when}: {name_list(one['nodes'])} ({one['name']})"
        print_line(console, Text(one_line(line)))


# -- leaf switches --------------------------------------------------------------------------------


def draw_switches(switches: Sequence[SwitchFields], width: int = WIDE) -> str:
    """One line per switch, one sign per server in array order, and what the signs mean."""
    letters: dict[str, str] = {}
    table = Table([Column(""), Column(""), Column("", wraps=True), Column("")], gap=2, headings=False)
    missing = False
    for switch in switches:
        places = {node.position: node for node in switch.nodes}
        signs = [
            _node_sign(places[place], letters) if place in places else "-" for place in range(switch.servers)
        ]
        free = f"{switch.free_nodes} of {len(switch.nodes)} free"
        missing = missing or "-" in signs
        table.add(switch.ip, _switch_words(switch), " ".join(signs), free)
    meaning = [f"{letter} {job}" for job, letter in letters.items()]
    meaning += [". free", "x not free"]
    if any(node.faulty for switch in switches for node in switch.nodes):
        meaning.append(f"{FAULTY} {FAULTY_MEANING}")
    if missing:
        meaning.append("- no node of the cluster")
    lines = [*table.lines(width), Text(""), *wrapped(Text(", ".join(meaning)), width)]
    return "".join(f"{line.plain}\n" for line in lines)


def _node_sign(node: SwitchNodeFields, letters: dict[str, str]) -> str:
    if not node.jobs:
        return FAULTY if node.faulty else "." if node.free else "x"
    letter = letters.setdefault(node.jobs[0], _job_letter(len(letters)))
    return f"{letter}{FAULTY}" if node.faulty else letter


def _job_letter(number: int) -> str:
    """A to Z, then A1 to Z1, and so on."""
    turn, place = divmod(number, len(string.ascii_uppercase))
    return string.ascii_uppercase[place] + (str(turn) if turn else "")


def _switch_words(switch: SwitchFields) -> str:
    if switch.faulty:
        return "faulty" if switch.state == "idle" else f"{switch.state}, faulty"
    if switch.state == "shared":
        return "shared, healthy" if switch.healthy else "shared, unhealthy"
    return switch.state


# -- SuperPoDs -----------------------------------------------------------------------------------


def draw_superpods(superpods: Iterable[SuperPodFields], most: int = 40, width: int = WIDE) -> Text:
    """The picture, by SuperPoD id, with its legend. More than `most` lines are counted instead of drawn.

    SuperPoDs that carry blocks are never left out in favor of ones that do not.
    """
    ordered = sorted(superpods, key=lambda one: order_key(one.superpod))
    shown = sorted(
        sorted(ordered, key=lambda one: not one.blocks)[:most],
        key=lambda one: order_key(one.superpod),
    )
    signs, colors = job_signs(block.job for one in shown for block in one.blocks)
    table = Table([Column(""), Column("", wraps=True)], gap=2, headings=False)
    for one in shown:
        cells = _cells(one, signs, colors)
        table.add(f"SuperPoD {one.superpod}", cells, note=_superpod_words(one))
    lines = table.lines(width)
    hidden = len(ordered) - len(shown)
    if hidden:
        free = sum(one.free_nodes for one in ordered) - sum(one.free_nodes for one in shown)
        lines.append(Text(f"and {counted(hidden, 'more SuperPoD')} with {counted(free, 'free node')}"))
    lines += wrapped(Text(_superpod_legend(shown, signs)), width)
    return Text("\n", no_wrap=True).join(lines)


def _cells(one: SuperPodFields, signs: dict[str, str], colors: dict[str, str]) -> Text:
    faulty = set(one.faulty)
    cells = Text("|")
    for block in sorted(one.blocks, key=lambda block: (natural_key(block.job), block.block)):
        bad = len(faulty.intersection(block.nodes))
        cells.append(signs[block.job] * (len(block.nodes) - bad), style=colors[block.job])
        cells.append(FAULTY * bad, style="red").append("|")
    busy, unusable = (len(faulty.intersection(names)) for names in (one.busy, one.unusable))
    cells.append(BUSY * (one.busy_nodes - busy), style="dim")
    cells.append(UNUSABLE * (one.unusable_nodes - unusable) + FAULTY * (busy + unusable), style="red")
    cells.append(FREE * (one.free_nodes - one.reserved_nodes)).append(RESERVED * one.reserved_nodes)
    return cells if cells.plain.endswith("|") else cells.append("|")


def _superpod_words(one: SuperPodFields) -> str:
    counts = [f"{one.free_nodes} free"]
    if one.reserved_nodes:
        counts.append(f"{one.reserved_nodes} of them reserved")
    by_job: dict[str, list[int]] = {}
    for block in one.blocks:
        by_job.setdefault(block.job, []).append(block.block)
    blocks = [
        f"{job}: {'block' if len(ids) == 1 else 'blocks'} {ranges(sorted(ids))}"
        for job, ids in sorted(by_job.items(), key=lambda entry: natural_key(entry[0]))
    ]
    return "; ".join([", ".join(counts), *blocks])


def _superpod_legend(shown: Sequence[SuperPodFields], signs: dict[str, str]) -> str:
    """Only the signs that stand in the picture."""
    meanings = [f"{sign} {job}" for job, sign in signs.items()]
    for sign, meaning, present in (
        (BUSY, "other pods", any(set(one.busy) - set(one.faulty) for one in shown)),
        (UNUSABLE, "unusable", any(set(one.unusable) - set(one.faulty) for one in shown)),
        (FAULTY, FAULTY_MEANING, any(_has_faulty(one) for one in shown)),
        (FREE, "free", any(one.free_nodes > one.reserved_nodes for one in shown)),
        (RESERVED, "reserved", any(one.reserved_nodes for one in shown)),
    ):
        if present:
            meanings.append(f"{sign} {meaning}")
    return "one symbol per node: " + ", ".join(meanings) if meanings else "no SuperPoDs"


def _has_faulty(one: SuperPodFields) -> bool:
    drawn = {*one.busy, *one.unusable, *(node for block in one.blocks for node in block.nodes)}
    return bool(drawn.intersection(one.faulty))
