"""The rules of rack affinity once more, as plainly as they read: counts only, no code of the library.

A cluster is {SuperPoD: {rack: free nodes}}. A placement is a list of (SuperPoD, rack) for each rank.
"""

from __future__ import annotations

from dataclasses import dataclass

Cluster = dict[int, dict[int, int]]
Place = tuple[int, int]


@dataclass(frozen=True)
class Job:
    p: int
    s: int
    t: int
    soft: bool = False
    ub: bool = False


def invalid(
    requests: list[int], sp_block: int | None, ra_block: int | None, size: int, ub: bool
) -> int | None:
    """Number of the first rule of section 3 that the job breaks. Pods without chips do not count."""
    asking = [request for request in requests if request > 0]
    p, total = len(asking), sum(asking)
    sp = total if sp_block is None else sp_block
    ra = 8 if ra_block is None else ra_block
    if sp <= 0:
        return 1
    if sp >= 8 and sp % 8 != 0:
        return 2
    s = 1 if sp < 8 else sp // 8
    if p % s != 0:
        return 3
    if size < 1 or size > 1024:
        return 4
    if s > size:
        return 5
    if ra < 1 or ra > 64:
        return 6
    if ra not in (1, 2, 4, 8, 16, 32, 64):
        return 7
    t = {1: 1, 2: 1, 4: 1, 8: 1, 16: 2, 32: 4, 64: 8}[ra]
    if t > s:
        return 8
    if p % t != 0:
        return 9
    if s % t != 0:
        return 10
    if p == 1:
        if not 1 <= asking[0] <= 8 or sp != asking[0]:
            return 11
    else:
        if total % sp != 0 or total % ra != 0:
            return 12
        if any(request != 8 for request in asking):
            return 13
    if ub and total > 1024:
        return 14
    return None


def place(cluster: Cluster, job: Job, size: int) -> list[Place] | None:
    """Sections 5.1 to 5.6 with the answers of section 9."""
    for racks in cluster.values():
        if sum(racks.values()) > size:
            return None
    left = {superpod: dict(racks) for superpod, racks in cluster.items()}
    if job.p <= 8:
        found = _rack_stage(left, job)
        if found:
            return found
        if not job.soft:
            whole = 0
            for racks in left.values():
                whole += sum(racks.values()) // job.s
            if whole < job.p // job.s or job.p == job.t:
                return None
    if job.ub:
        return _ub_stage(left, job)
    if job.p <= 8 or job.p <= size:
        found = _superpod_stage(left, job)
        if found:
            return found
    return _multi_stage(left, job)


def _rack_stage(left: Cluster, job: Job) -> list[Place] | None:
    for f in range(job.p, 100_000):
        if f > max((sum(racks.values()) for racks in left.values()), default=0):
            return None
        for superpod in sorted(left):
            if sum(left[superpod].values()) != f:
                continue
            for g in range(job.p, 9):
                for rack in sorted(left[superpod]):
                    if left[superpod][rack] == g:
                        return [(superpod, rack)] * job.p
    return None


def _take_block(superpod: int, racks: dict[int, int], s: int, t: int) -> list[Place]:
    """Section 5.3, steps 3 and 4. The racks must hold the block."""
    picked: list[Place] = []
    order = sorted(racks, key=lambda rack: (racks[rack], rack))
    for rack in order:
        while racks[rack] >= t and len(picked) < s:
            racks[rack] -= t
            picked += [(superpod, rack)] * t
    assert len(picked) == s
    return picked


def _groups(racks: dict[int, int], t: int) -> int:
    count = 0
    for g in racks.values():
        count += g // t
    return count


def _superpod_stage(left: Cluster, job: Job) -> list[Place] | None:
    order = sorted(left, key=lambda superpod: (sum(left[superpod].values()), superpod))
    for superpod in order:
        racks = left[superpod]
        if sum(racks.values()) >= job.p and _groups(racks, job.t) >= job.p // job.t:
            places: list[Place] = []
            while len(places) < job.p:
                places += _take_block(superpod, racks, job.s, job.t)
            return places
    return None


def _ub_stage(left: Cluster, job: Job) -> list[Place] | None:
    order = sorted(left, key=lambda superpod: (sum(left[superpod].values()), superpod))
    for superpod in order:
        if sum(left[superpod].values()) < job.p:
            continue
        best: tuple[int, int] | None = None
        for domain in {rack // 16 for rack in left[superpod]}:
            racks = {rack: g for rack, g in left[superpod].items() if rack // 16 == domain}
            if _groups(racks, job.t) * job.t >= job.p:
                entry = (sum(racks.values()), domain)
                best = entry if best is None else min(best, entry)
        if best is not None:
            racks = {rack: g for rack, g in left[superpod].items() if rack // 16 == best[1]}
            places: list[Place] = []
            while len(places) < job.p:
                places += _take_block(superpod, racks, job.s, job.t)
            return places
    return None


def _multi_stage(left: Cluster, job: Job) -> list[Place] | None:
    order = sorted(left, key=lambda superpod: (-sum(left[superpod].values()), superpod))
    places: list[Place] = []
    for superpod in order:
        while len(places) < job.p and _groups(left[superpod], job.t) >= job.s // job.t:
            places += _take_block(superpod, left[superpod], job.s, job.t)
    if len(places) == job.p or not job.soft:
        return places if len(places) == job.p else None
    for superpod in order:
        racks = left[superpod]
        for rack in sorted(racks, key=lambda rack: (racks[rack], rack)):
            for _ in range(racks[rack]):
                if len(places) < job.p:
                    places.append((superpod, rack))
    return places if len(places) == job.p else None


def place_service(cluster: Cluster, n: int, s: int, used: set[Place], size: int) -> list[Place] | None:
    """Section 7."""
    for racks in cluster.values():
        if sum(racks.values()) > size:
            return None
    left = {superpod: dict(racks) for superpod, racks in cluster.items()}
    used = set(used)
    places: list[Place] = []
    for _ in range(n):
        best = None
        for superpod in sorted(left):
            for rack in sorted(left[superpod]):
                if left[superpod][rack] >= s and (
                    best is None or _better(left, used, (superpod, rack), best)
                ):
                    best = (superpod, rack)
        if best is None:
            return None
        left[best[0]][best[1]] -= s
        used.add(best)
        places += [best] * s
    return places


def _better(left: Cluster, used: set[Place], one: Place, other: Place) -> bool:
    """Whether the first of two racks is strictly preferred."""

    def tier(place: Place) -> int:
        if place in used:
            return 1
        return 2 if any(superpod == place[0] for superpod, _ in used) else 3

    def free(place: Place) -> int:
        return left[place[0]][place[1]]

    if tier(one) != tier(other):
        return tier(one) < tier(other)
    if tier(one) == 1:
        return free(one) > free(other)
    empty_one = list(left[one[0]].values()).count(8)
    empty_other = list(left[other[0]].values()).count(8)
    if empty_one != empty_other:
        return empty_one > empty_other
    if free(one) != free(other):
        return free(one) > free(other)
    return sum(left[one[0]].values()) > sum(left[other[0]].values())
