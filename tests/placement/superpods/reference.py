"""A second implementation of the packing rules P2 to P5: slow scans, no code of the library.

Every function answers with (SuperPoD, nodes, queue) in pick order, or None where the job does not fit.
"""

from __future__ import annotations

Picks = list[tuple[int, int, int]]


def whole_job(free: dict[int, int], s: int, n: int, r: int, soft: bool) -> Picks | None:
    left = dict(free)
    picks: Picks = []
    while n > 0:
        holds_all = [p for p in sorted(left) if left[p] >= n * s + r]
        holds_some = [p for p in sorted(left) if (left[p] - r) // s >= 1]
        holds_one = [p for p in sorted(left) if left[p] >= s]
        if holds_all:
            chosen, blocks, queue = holds_all[0], n, 1
            for p in holds_all[1:]:
                if _comes_before(left[p] - (n * s + r), left[chosen] - (n * s + r), s, n):
                    chosen = p
        elif holds_some:
            chosen = min(holds_some, key=lambda p: (-((left[p] - r) // s), (left[p] - r) % s, p))
            blocks, queue = (left[chosen] - r) // s, 1
        elif holds_one:
            chosen = min(holds_one, key=lambda p: (-left[p], p))
            blocks, queue = 1, 2
        else:
            break
        picks += [(chosen, s, queue)] * blocks
        left[chosen] -= blocks * s
        n -= blocks
    return _with_fragments(picks, left, n * s, soft, sorted(left, key=lambda p: (-left[p], p)))


def _comes_before(k: int, other: int, s: int, n: int) -> bool:
    small, other_small = k // s < n, other // s < n
    if small != other_small:
        return small
    if small:
        return (k % s, k // s) < (other % s, other // s)
    return k < other


def per_block(free: dict[int, int], s: int, n: int, r: int, soft: bool, size: int) -> Picks | None:
    left = dict(free)
    picks: Picks = []
    quotients = range(size // s + 1)

    def cell(i: int, q: int) -> list[int]:
        found = []
        for p in sorted(free):
            above = free[p] - r
            if ((above // s, above % s) if above >= 0 else (0, free[p] % s)) == (q, i):
                found.append(p)
        return found

    def drain(i: int, q: int, n: int) -> int:
        for p in cell(i, q):
            while n > 0 and left[p] - s >= r:
                picks.append((p, s, 1))
                left[p] -= s
                n -= 1
        return n

    for i in range(s):
        q = 1
        while q <= n and q <= size // s:
            n = drain(i, q, n)
            q += 1
    for q in range(n + 1, size // s + 1):
        for i in range(s):
            n = drain(i, q, n)
    while n > 0 and any(count >= s for count in left.values()):
        for i in reversed(range(s)):
            for q in quotients:
                for p in sorted(cell(i, q), key=lambda p: (-left[p], p)):
                    if n > 0 and left[p] >= s:
                        picks.append((p, s, 2))
                        left[p] -= s
                        n -= 1
    rows = [*reversed(range(min(r, s), s)), *range(min(s, r))]
    order = [p for i in rows for q in quotients for p in sorted(cell(i, q), key=lambda p: (-left[p], p))]
    return _with_fragments(picks, left, n * s, soft, order)


def _with_fragments(
    picks: Picks, left: dict[int, int], missing: int, soft: bool, order: list[int]
) -> Picks | None:
    if missing and not soft:
        return None
    for p in order:
        size = min(left[p], missing)
        if size:
            picks.append((p, size, 3))
            missing -= size
    return None if missing else picks


def fewest_superpods_above_reserve(free: dict[int, int], s: int, n: int, r: int) -> int | None:
    """By trying every set of SuperPoDs; None where the job does not fit above the reserve."""
    names = sorted(free)
    best: int | None = None
    for chosen in range(1 << len(names)):
        members = [name for position, name in enumerate(names) if chosen >> position & 1]
        held = sum(max(0, (free[name] - r) // s) for name in members)
        if held >= n and (best is None or len(members) < best):
            best = len(members)
    return best
