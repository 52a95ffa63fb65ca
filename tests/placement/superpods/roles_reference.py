"""A second implementation of P8 for blocks of pods that differ: slow scans, no code of the library.

A SuperPoD is a list of nodes, each the set of roles that it can take; a block is a list of roles.
"""

from __future__ import annotations

from itertools import permutations

Nodes = list[frozenset[int]]
#: Block -> (SuperPoD, nodes by position).
Placed = dict[int, tuple[int, tuple[int, ...]]]


def first_fit(roles: list[int], nodes: Nodes, used: set[int]) -> tuple[int, ...] | None:
    """Rank by rank the first node, of all ways to give each pod a node of its own."""
    free = [node for node in range(len(nodes)) if node not in used]
    for chosen in permutations(free, len(roles)):
        if all(role in nodes[node] for role, node in zip(roles, chosen, strict=True)):
            return chosen
    return None


def whole_job(superpods: list[Nodes], blocks: list[list[int]], s: int, r: int) -> Placed:
    """The blocks that P2 to P4 place; queue 3 is not used."""
    used: list[set[int]] = [set() for _ in superpods]
    open_blocks = list(range(len(blocks)))
    placed: Placed = {}

    def free(p: int) -> int:
        wanted = {role for block in open_blocks for role in blocks[block]}
        return sum(bool(roles & wanted) for node, roles in enumerate(superpods[p]) if node not in used[p])

    def takes(p: int) -> list[tuple[int, tuple[int, ...]]]:
        found, gone = [], set(used[p])
        for block in open_blocks:
            nodes = first_fit(blocks[block], superpods[p], gone)
            if nodes is not None:
                found.append((block, nodes))
                gone |= set(nodes)
        return found

    def take(p: int, count: int) -> None:
        for block, nodes in takes(p)[:count]:
            placed[block] = (p, nodes)
            used[p] |= set(nodes)
            open_blocks.remove(block)

    everyone = range(len(superpods))
    while open_blocks:
        n = len(open_blocks)
        holds_all = [p for p in everyone if free(p) >= n * s + r and len(takes(p)) == n]
        if holds_all:

            def order(p: int, n: int = n) -> tuple[object, ...]:
                k = free(p) - (n * s + r)
                return (0, k % s, k // s, p) if k // s < n else (1, k, 0, p)

            take(min(holds_all, key=order), n)
            continue
        q = {p: min((free(p) - r) // s, len(takes(p))) for p in everyone}
        some = [p for p in everyone if q[p] >= 1]
        if some:
            best = min(some, key=lambda p: (-q[p], (free(p) - r) % s, p))
            take(best, q[best])
            continue
        last = [p for p in everyone if free(p) >= s and takes(p)]
        if not last:
            break
        take(min(last, key=lambda p: (-free(p), p)), 1)
    return placed
