"""Leaf switches, drawn: one line each, one symbol per node.

    10.0.0.1  exclusive  A . -  1 of 2 free

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
from ringwise.cli.printers.superpods import FAULTY, FAULTY_MEANING, print_superpods
from ringwise.cli.printers.tables import Column, Table
from ringwise.durations import time_text
from ringwise.manifests.text.errors import one_line

if TYPE_CHECKING:
    from ringwise.views.documents.reservations import ReservationFields
    from ringwise.views.documents.topology import (
        IsolationFields,
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
