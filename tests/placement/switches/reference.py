"""A second implementation of the switch rules, as a plain search over all possibilities.

It is written from the rules' text and shares nothing with the library: every rule
lists all its candidates, sorts them by the words of the rule, and takes the first.
Slow, and meant to be read beside the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True)
class Leaf:
    """`free` holds the positions of the free nodes."""

    free: tuple[int, ...]
    state: str = "idle"
    healthy: bool = True
    only_common: bool = True
    owner_shared: int = 0
    cross_model: bool = False


@dataclass(frozen=True)
class Case:
    leaves: tuple[Leaf, ...]
    width: int
    limit: int
    job: str
    pods: int
    single_first: bool = False


#: Nodes per switch, and the switches taken by the exclusive pass ("2") or the shared rules ("1").
Answer = tuple[dict[int, int], dict[int, int]]


def version2(case: Case) -> Answer | None:
    count = [len(leaf.free) for leaf in case.leaves]
    everyone = [i for i in range(len(count)) if count[i] > 0]

    def fits_one(groups: list[list[int]], pods: int) -> int | None:
        for group in groups:
            good = sorted((count[i], i) for i in group if count[i] >= pods)
            if good:
                return good[0][1]
        return None

    exclusive = [i for i in everyone if case.leaves[i].state == "exclusive"]
    healthy = [i for i in everyone if case.leaves[i].state == "shared" and case.leaves[i].healthy]
    unhealthy = [i for i in everyone if case.leaves[i].state == "shared" and not case.leaves[i].healthy]
    idle = [i for i in everyone if case.leaves[i].state == "idle"]

    if case.job == "padding":
        chosen = fits_one([exclusive, unhealthy, healthy, idle], case.pods)
        return None if chosen is None else ({chosen: case.pods}, {chosen: 0})
    if case.single_first and case.pods < case.width:
        groups = [exclusive, healthy, idle]
        if case.job == "common":
            groups = [exclusive, unhealthy, healthy, idle]
        chosen = fits_one(groups, case.pods)
        if chosen is not None:
            return {chosen: case.pods}, {chosen: 0}

    taken: dict[int, int] = {}
    marks: dict[int, int] = {}
    rest = case.pods
    for size, i in sorted((-count[i], i) for i in idle):
        if -size > rest:
            break
        taken[i], marks[i] = count[i], 2
        rest -= count[i]
    if rest == 0:
        return taken, marks

    # All ways to use shared switches, best first: total, pair before single, members in order.
    ways = []
    for number in range(1, case.limit + 1):
        for members in combinations(healthy, number):
            total = sum(count[i] for i in members)
            if total >= rest:
                ways.append((total, -number, members))
    if ways:
        members = min(ways)[2]
        for _, i in sorted((count[i], i) for i in members):
            part = min(rest, count[i])
            if part:
                taken[i], marks[i] = part, 1
                rest -= part
        return taken, marks
    others = [(count[i], 0, i) for i in idle if i not in taken and count[i] >= rest]
    if case.limit == 2:
        others += [
            (count[i], 1, i)
            for i in exclusive
            if count[i] >= rest and case.leaves[i].owner_shared < case.limit
        ]
    if others:
        i = min(others)[2]
        taken[i], marks[i] = rest, 1
        return taken, marks
    if case.job == "foundation":
        return None

    taken = {i: count[i] for i in idle}
    marks = dict.fromkeys(idle, 2)
    rest = case.pods - sum(taken.values())
    for group in (unhealthy, [i for i in healthy if case.leaves[i].only_common]):
        remaining = set(group)
        while rest > 0 and remaining:
            holding = sorted((count[i], i) for i in remaining if count[i] >= rest)
            i = holding[0][1] if holding else sorted((-count[i], i) for i in remaining)[0][1]
            remaining.discard(i)
            taken[i], marks[i] = min(rest, count[i]), 1
            rest -= taken[i]
    return (taken, marks) if rest == 0 else None


def version1(case: Case) -> tuple[dict[int, int], dict[int, int]] | None:
    """Nodes per switch and nodes per position."""
    leaves, width = case.leaves, case.width
    idle = [i for i, leaf in enumerate(leaves) if leaf.state == "idle" and leaf.free]

    def counted(nodes: list[tuple[int, int]]) -> tuple[dict[int, int], dict[int, int]]:
        by_leaf: dict[int, int] = {}
        by_position: dict[int, int] = {}
        for i, position in nodes:
            by_leaf[i] = by_leaf.get(i, 0) + 1
            by_position[position] = by_position.get(position, 0) + 1
        return by_leaf, by_position

    holding = sorted((len(leaves[i].free), i) for i in idle if len(leaves[i].free) >= case.pods)
    if holding:
        i = holding[0][1]
        return counted([(i, position) for position in leaves[i].free[: case.pods]])
    if case.job == "padding":
        return None
    longest_first = [i for _, i in sorted((-len(leaves[i].free), i) for i in idle)]
    complete = [(i, p) for i in longest_first if len(leaves[i].free) == width for p in leaves[i].free]
    if len(complete) >= case.pods:
        return counted(complete[: case.pods])

    columns = [[(i, p) for i in longest_first if p in leaves[i].free] for p in range(width)]
    columns = [column for _, _, column in sorted((-len(c), p, c) for p, c in enumerate(columns))]
    rows: list[list[tuple[int, int]]] = []
    while columns and len(rows) < len(columns[0]):
        row = []
        for column in columns:
            if len(column) <= len(rows):
                break
            row.append(column[len(rows)])
        rows.append(row)
    if case.pods < width:
        good = [row for row in rows if len(row) >= case.pods]
        if good:
            return counted(good[-1][: case.pods])
    else:
        chosen: list[tuple[int, int]] = []
        for row in rows:
            chosen += row[: case.pods - len(chosen)]
            if len(row) < width:
                break
        if len(chosen) == case.pods:
            return counted(chosen)
    if case.job == "foundation":
        return None

    kept = [node for row in rows if len(row) == width for node in row]
    left = {i: [(i, p) for p in leaf.free if (i, p) not in kept] for i, leaf in enumerate(leaves)}
    others = [i for i, leaf in enumerate(leaves) if leaf.state != "idle" and not leaf.cross_model]
    for group in (idle, others):
        for _, i in sorted((-len(left[i]), i) for i in group):
            kept += left[i][: case.pods - len(kept)]
    return counted(kept) if len(kept) == case.pods else None


def single_layer(case: Case) -> dict[int, int] | None:
    good = sorted((len(leaf.free), i) for i, leaf in enumerate(case.leaves) if len(leaf.free) >= case.pods)
    return {good[0][1]: case.pods} if good else None
