"""A second implementation of the switch rules for pods that differ (S13), by trying everything.

Written from the text of the rules, for small clusters only. A node is (switch, position); `takes` gives
the roles that each free node can take, and the job is a list of roles by rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

Node = tuple[int, int]


@dataclass(frozen=True)
class RoleLeaf:
    #: By position: the roles that the free node there can take.
    takes: dict[int, frozenset[int]]
    state: str = "idle"
    healthy: bool = True
    only_common: bool = True
    owner_shared: int = 0
    cross_model: bool = False


@dataclass(frozen=True)
class RoleCase:
    leaves: tuple[RoleLeaf, ...]
    width: int
    limit: int
    job: str
    roles: tuple[int, ...]
    single_first: bool = False


#: Nodes in pick order, number of pods and mark of a switch or row.
Taken = list[tuple[list[Node], int, int]]


def matched(case: RoleCase, nodes: list[Node]) -> int:
    """The largest matching of the job's pods to these nodes (Kuhn's algorithm)."""
    pod_of: dict[Node, int] = {}

    def place(pod: int, seen: set[Node]) -> bool:
        for node in nodes:
            if case.roles[pod] in case.leaves[node[0]].takes[node[1]] and node not in seen:
                seen.add(node)
                if node not in pod_of or place(pod_of[node], seen):
                    pod_of[node] = pod
                    return True
        return False

    return sum(place(pod, set()) for pod in range(len(case.roles)))


class Search:
    def __init__(self, case: RoleCase) -> None:
        self.case = case
        self.pods = len(case.roles)
        wanted = set(case.roles)
        self.nodes = {
            i: [(i, p) for p in sorted(leaf.takes) if leaf.takes[p] & wanted]
            for i, leaf in enumerate(case.leaves)
        }
        self.everyone = [i for i in self.nodes if self.nodes[i]]
        self.taken: Taken = []

    def free(self, i: int) -> int:
        return len(self.nodes[i])

    def held(self, *more: list[Node]) -> int:
        nodes = [node for part, _, _ in self.taken for node in part]
        return matched(self.case, nodes + [node for part in more for node in part if node not in nodes])

    def rest(self) -> int:
        return self.pods - self.held()

    def holds(self, *switches: int) -> bool:
        return self.held(*(self.nodes[i] for i in switches)) == self.pods

    def take(self, nodes: list[Node], mark: int) -> int:
        added = self.held(nodes) - self.held()
        self.taken.append((nodes, added, mark))
        return added

    def of_state(self, state: str, healthy: bool = True) -> list[int]:
        leaves = self.case.leaves
        return [
            i
            for i in self.everyone
            if leaves[i].state == state and (state != "shared" or leaves[i].healthy == healthy)
        ]

    def one(self, groups: list[list[int]]) -> Taken | None:
        for group in groups:
            good = sorted((self.free(i), i) for i in group if self.holds(i))
            if good:
                return [(self.nodes[good[0][1]], self.pods, 0)]
        return None


def version2(case: RoleCase) -> Taken | None:
    found = Search(case)
    exclusive, idle = found.of_state("exclusive"), found.of_state("idle")
    healthy, unhealthy = found.of_state("shared"), found.of_state("shared", healthy=False)
    if case.job == "padding":
        return found.one([exclusive, unhealthy, healthy, idle])
    if case.single_first and found.pods < case.width:
        groups = [exclusive, healthy, idle]
        if case.job == "common":
            groups.insert(1, unhealthy)
        one = found.one(groups)
        if one is not None:
            return one
    used = []
    for _, i in sorted((-found.free(i), i) for i in idle):
        added = found.held(found.nodes[i]) - found.held()
        if added < found.free(i) and added == found.rest():
            break
        found.take(found.nodes[i], 2)
        used.append(i)
    if not found.rest():
        return found.taken
    ways = [
        (sum(map(found.free, members)), -number, members)
        for number in range(1, case.limit + 1)
        for members in combinations(healthy, number)
        if found.holds(*members)
    ]
    if ways:
        for _, i in sorted((found.free(i), i) for i in min(ways)[2]):
            found.take(found.nodes[i], 1)
        return found.taken
    others = [(found.free(i), 0, i) for i in idle if i not in used and found.holds(i)]
    if case.limit == 2:
        others += [
            (found.free(i), 1, i)
            for i in exclusive
            if found.holds(i) and case.leaves[i].owner_shared < case.limit
        ]
    if others:
        found.take(found.nodes[min(others)[2]], 1)
        return found.taken
    if case.job == "foundation":
        return None
    found.taken = []
    for _, i in sorted((-found.free(i), i) for i in idle):
        found.take(found.nodes[i], 2)
    for group in (unhealthy, [i for i in healthy if case.leaves[i].only_common]):
        remaining = list(group)
        while found.rest() and remaining:
            holding = sorted((found.free(i), i) for i in remaining if found.holds(i))
            i = holding[0][1] if holding else sorted((-found.free(i), i) for i in remaining)[0][1]
            remaining.remove(i)
            found.take(found.nodes[i], 1)
    return None if found.rest() else found.taken


def version1(case: RoleCase) -> Taken | None:
    found = Search(case)
    idle = found.of_state("idle")
    one = found.one([idle])
    if one is not None or case.job == "padding":
        return one
    longest_first = [i for _, i in sorted((-found.free(i), i) for i in idle)]
    complete = [i for i in longest_first if found.free(i) == case.width]
    if found.holds(*complete):
        for i in complete:
            if found.rest():
                found.take(found.nodes[i], 0)
        return found.taken
    columns = [[(i, p) for i in longest_first if (i, p) in found.nodes[i]] for p in range(case.width)]
    columns = [column for _, _, column in sorted((-len(c), p, c) for p, c in enumerate(columns))]
    rows = [[c[r] for c in columns if len(c) > r] for r in range(len(columns[0]))]
    if found.pods < case.width:
        for row in reversed(rows):
            if found.held(row) == found.pods:
                found.take(first_useful(found, row), 0)
                return found.taken
    for row in rows:
        if found.rest():
            found.take(first_useful(found, row), 0)
        if len(row) < case.width:
            break
    if not found.rest():
        return found.taken
    if case.job == "foundation":
        return None
    found.taken = []
    for row in rows:
        if len(row) == case.width:
            found.take(first_useful(found, row), 0)
    kept = {node for part, _, _ in found.taken for node in part}
    left = {i: [node for node in found.nodes[i] if node not in kept] for i in found.everyone}
    others = [i for i in found.everyone if i not in idle and not case.leaves[i].cross_model]
    for group in (idle, others):
        for _, i in sorted((-len(left[i]), i) for i in group):
            found.take(left[i], 0)
    return None if found.rest() else found.taken


def first_useful(found: Search, row: list[Node]) -> list[Node]:
    """The first nodes of the row in column order, of which each adds a pod."""
    kept: list[Node] = []
    for node in row:
        if found.held([*kept, node]) > found.held(kept):
            kept.append(node)
    return kept


def single_layer(case: RoleCase) -> Taken | None:
    found = Search(case)
    return found.one([found.everyone])


def by_rank(case: RoleCase, taken: Taken) -> list[Node]:
    """Rank by rank the first node in pick order from which the rest can be completed."""
    counts = [count for _, count, _ in taken]
    chosen: list[Node] = []

    def complete(rank: int, left: list[int], used: frozenset[Node]) -> list[Node] | None:
        if rank == len(case.roles):
            return []
        for part, (nodes, _, _) in enumerate(taken):
            for node in nodes if left[part] else ():
                if node in used or case.roles[rank] not in case.leaves[node[0]].takes[node[1]]:
                    continue
                rest = complete(rank + 1, [n - (at == part) for at, n in enumerate(left)], used | {node})
                if rest is not None:
                    return [node, *rest]
        return None

    found = complete(0, counts, frozenset())
    assert found is not None, (case, taken, chosen)
    return found
