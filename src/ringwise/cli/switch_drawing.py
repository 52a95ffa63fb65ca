"""Leaf switches drawn: one line each, one sign per server."""

from __future__ import annotations

import string
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ringwise.placement.switches.states import SwitchFacts, SwitchState
from ringwise.topology.switches import ResolvedTopology


def switch_rows(
    resolved: ResolvedTopology,
    states: Sequence[SwitchFacts],
    free_nodes: Collection[str],
    jobs_of_node: Mapping[str, Sequence[str]],
) -> list[dict[str, Any]]:
    """Every switch with its state and nodes, for -o json and yaml."""
    return [
        {
            "ip": switch.ip,
            "state": facts.state.word,
            "healthy": facts.healthy,
            "free_nodes": sum(1 for seat in seats if seat.node in free_nodes),
            "nodes": [
                {
                    "node": seat.node,
                    "position": seat.index,
                    "free": seat.node in free_nodes,
                    "jobs": list(jobs_of_node.get(seat.node, ())),
                }
                for seat in seats
            ],
        }
        for switch, seats, facts in zip(resolved.topology.switches, resolved.nodes, states, strict=True)
    ]


def draw_switches(
    resolved: ResolvedTopology,
    states: Sequence[SwitchFacts],
    free_nodes: Collection[str],
    jobs_of_node: Mapping[str, Sequence[str]],
) -> str:
    """One line per switch, one sign per server in array order, and what the signs mean."""
    letters: dict[str, str] = {}
    lines: list[tuple[str, str, str, str]] = []
    for switch, seats, facts in zip(resolved.topology.switches, resolved.nodes, states, strict=True):
        places = {seat.index: seat.node for seat in seats}
        width = max((server.index + 1 for server in switch.servers), default=0)
        signs = [
            _sign(places[place], free_nodes, jobs_of_node, letters) if place in places else "-"
            for place in range(width)
        ]
        free = sum(1 for seat in seats if seat.node in free_nodes)
        lines.append((switch.ip, _words(facts), " ".join(signs), f"{free} of {len(seats)} free"))
    widths = [max((len(line[column]) for line in lines), default=0) for column in range(3)]
    drawn = ["  ".join([*(line[i].ljust(widths[i]) for i in range(3)), line[3]]) for line in lines]
    meaning = [f"{letter} {job}" for job, letter in letters.items()]
    meaning += [". free", "x not free"]
    if any("-" in line[2].split() for line in lines):
        meaning.append("- no node of the cluster")
    return "\n".join([*drawn, "", ", ".join(meaning)]) + "\n"


def _sign(
    node: str, free_nodes: Collection[str], jobs_of_node: Mapping[str, Sequence[str]], letters: dict[str, str]
) -> str:
    jobs = jobs_of_node.get(node, ())
    if not jobs:
        return "." if node in free_nodes else "x"
    return letters.setdefault(jobs[0], _letter(len(letters)))


def _letter(number: int) -> str:
    """A to Z, then A1 to Z1, and so on."""
    turn, place = divmod(number, len(string.ascii_uppercase))
    return string.ascii_uppercase[place] + (str(turn) if turn else "")


def _words(facts: SwitchFacts) -> str:
    if facts.state is SwitchState.SHARED:
        return "shared, healthy" if facts.healthy else "shared, unhealthy"
    return facts.state.word
