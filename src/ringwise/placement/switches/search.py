"""Finding switches by their number of free nodes (rule S4).

"Closest to N" is the smallest count that is at least N. Of equal switches the
first in ConfigMap order is taken, so callers pass their candidates in that order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence


def closest_one_or_two(
    free: Sequence[int], candidates: Iterable[int], needed: int, limit: int
) -> tuple[int, ...] | None:
    """Rule S4: one switch, or with `limit` 2 a pair, closest to `needed`, in the order to fill them.

    Only the first two switches of each count can be chosen, and there are few counts:
    pairs of counts are compared, not pairs of switches.
    """
    first: dict[int, int] = {}
    second: dict[int, int] = {}
    for switch in candidates:
        count = free[switch]
        if count not in first:
            first[count] = switch
        elif count not in second:
            second[count] = switch
    counts = sorted(first)
    place = bisect_left(counts, needed)
    single = counts[place] if place < len(counts) else None
    pair = _closest_pair(counts, first, second, needed) if limit >= 2 else None
    # Rule S4: on equal totals the pair wins.
    if pair is not None and (single is None or free[pair[0]] + free[pair[1]] <= single):
        return pair
    return None if single is None else (first[single],)


def _closest_pair(
    counts: Sequence[int], first: dict[int, int], second: dict[int, int], needed: int
) -> tuple[int, int] | None:
    total: int | None = None
    for index, small in enumerate(counts):
        partner = max(index, bisect_left(counts, needed - small))
        if partner == index and small not in second:
            partner += 1
        if partner < len(counts) and (total is None or small + counts[partner] < total):
            total = small + counts[partner]
    if total is None:
        return None
    pairs: list[tuple[int, int]] = []
    for small in counts:
        large = total - small
        if large < small:
            break
        other = second.get(small) if large == small else first.get(large)
        if other is not None:
            pairs.append((first[small], other))
    # Of equal pairs the one whose first, then second member comes first in the ConfigMap.
    return min(pairs, key=sorted)
