"""`ringwise bench switches`: planning on 1,000 leaf switches of 32 nodes.

Goals are ratios within one run: how time grows with the number of switches, and
how much faster the two-switch search is than comparing every pair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

from ringwise.placement.switches.classes import SwitchClass
from ringwise.placement.switches.holding import closest_one_or_two
from ringwise.placement.switches.planning import plan
from ringwise.placement.switches.states import SwitchFacts, SwitchState, switch_states
from ringwise.placement.switches.view import (
    SwitchPlan,
    SwitchRequest,
    SwitchSettings,
    index_nodes,
    make_view,
)
from ringwise.topology.switches import ResolvedTopology, Server, make_topology, resolve
from ringwise_bench.hyper_nodes import SwitchCluster
from ringwise_bench.report import Figure, at_least, at_most, frozen, shown, timed

SWITCHES = 1_000
WIDTH = 32
PODS = 4_096
GROWTH = 4
#: More than one switch holds, so that pairs decide.
NEEDED = 37
#: A tree of HyperNodes: its leaves, and the pods of a job that needs many of them.
TREE_LEAVES = 256
TREE_PODS = 1_024
SHARED = SwitchFacts(SwitchState.SHARED, labeled=True)


def run(full: bool = False) -> list[Figure]:
    """Planning times and how they grow; `full` repeats more often."""
    repeats = 30 if full else 12
    small, large = _resolved(SWITCHES), _resolved(SWITCHES * GROWTH)
    results: list[Figure] = []
    for name, version, holes in (
        ("version 2.0", "2.0", False),
        ("version 1.0", "1.0", False),
        ("version 1.0 with logical switches", "1.0", True),
    ):
        base, grown = (
            _best(_large_plan(resolved, version, holes=holes), repeats) for resolved in (small, large)
        )
        results.append(shown(f"planning {PODS:,} pods, {name}", base * 1e3, "ms"))
        results.append(_growth(f"planning {PODS:,} pods, {name}", grown / base))

    base, grown = (_best(_shared_plan(resolved), repeats) for resolved in (small, large))
    results.append(shown(f"planning {NEEDED} pods with all switches shared", base * 1e3, "ms"))
    results.append(_growth(f"planning {NEEDED} pods with all switches shared", grown / base))

    counts = _counts(SWITCHES)
    search, grown = _search_time(counts), _search_time(_counts(SWITCHES * GROWTH))
    every_pair = _best(lambda: _every_pair(counts, NEEDED), 3)
    results.append(shown(f"two-switch search, {SWITCHES:,} shared switches", search * 1e6, "us"))
    results.append(_growth("two-switch search", grown / search))
    results.append(shown(f"comparing every pair, {SWITCHES:,} shared switches", every_pair * 1e6, "us"))
    name = f"two-switch search, speed-up over comparing every pair at {SWITCHES:,} switches"
    results.append(at_least(name, every_pair / search, "x", 100))
    results += _hyper_nodes(4 if full else 2)
    return results


def _hyper_nodes(repeats: int) -> list[Figure]:
    """A job on a tree of HyperNodes of four tiers, beside the same job under leaf switches."""
    times: dict[tuple[int, bool, int], float] = {}
    for leaves in (TREE_LEAVES, TREE_LEAVES * GROWTH):
        cluster = SwitchCluster(_counts(leaves))
        for pods in (NEEDED, TREE_PODS):
            for switches in (True, False):
                attempt = cluster.submit(f"job-{pods}-{switches}", pods, switches=switches)
                attempt()
                times[leaves, switches, pods] = _best(attempt, repeats) / pods
    results: list[Figure] = []
    for pods in (NEEDED, TREE_PODS):
        base, plain = times[TREE_LEAVES, False, pods], times[TREE_LEAVES, True, pods]
        grown = times[TREE_LEAVES * GROWTH, False, pods]
        name = f"{pods} pods on HyperNodes of four tiers"
        results += [
            shown(f"{name}, per pod", base * 1e6, "us"),
            shown(f"{pods} pods on the same leaf switches, per pod", plain * 1e6, "us"),
            at_most(f"{name}, per pod over leaf switches", base / plain, "x", 5),
            at_most(f"{name}, time at {GROWTH} times the nodes", grown / base, "x", 6),
        ]
    return results


def _growth(name: str, ratio: float) -> Figure:
    return at_most(f"{name}, time at {GROWTH} times the switches", ratio, "x", 6)


def _best(work: Callable[[], object], repeats: int) -> float:
    """The shortest of several runs, which other load disturbed least."""
    with frozen():
        return min(timed(work) for _ in range(repeats))


def _resolved(switches: int) -> ResolvedTopology:
    listed = [
        (f"leaf-{s}", [Server(f"10.{s >> 8}.{s & 255}.{p}", p, p) for p in range(WIDTH)])
        for s in range(switches)
    ]
    topology = make_topology(listed, WIDTH)
    names = {server.server_ip: f"node-{server.server_ip}" for _, servers in listed for server in servers}
    return resolve(topology, names)


def _planning(
    resolved: ResolvedTopology,
    states: Sequence[SwitchFacts] | None,
    rules: SwitchSettings,
    pods: int,
    busy: Callable[[int, int], bool],
) -> Callable[[], None]:
    """What is timed: states, the view with its arrays, and the plan."""
    names = [seat.node for row in resolved.nodes for seat in row]
    indexed = index_nodes(resolved, {name: node for node, name in enumerate(names)})
    free = bytearray(
        not busy(switch, seat.index) for switch, seats in enumerate(resolved.nodes) for seat in seats
    )

    def work() -> None:
        known = switch_states(len(resolved.nodes), [], rules.shared_limit) if states is None else states
        answer = plan(
            make_view(indexed, free, known, rules), SwitchRequest(SwitchClass.FOUNDATION_MODEL, pods)
        )
        if not isinstance(answer, SwitchPlan) or len(answer.nodes) != pods:
            raise RuntimeError(f"a plan for {pods} pods must succeed")

    return work


def _large_plan(resolved: ResolvedTopology, version: str, *, holes: bool) -> Callable[[], None]:
    """A large job on an idle cluster; with `holes` every switch lacks one position, so none is complete."""
    return _planning(resolved, None, SwitchSettings(version), PODS, lambda s, p: holes and p == s % WIDTH)


def _shared_plan(resolved: ResolvedTopology) -> Callable[[], None]:
    counts = _counts(len(resolved.nodes))
    states = [SHARED] * len(resolved.nodes)
    return _planning(resolved, states, SwitchSettings("2.0"), NEEDED, lambda s, p: p >= counts[s])


def _counts(switches: int) -> list[int]:
    """Free nodes per switch, every number from 1 to WIDTH, well mixed."""
    return [(s * 7 + s // WIDTH) % WIDTH + 1 for s in range(switches)]


def _search_time(counts: Sequence[int]) -> float:
    candidates = range(len(counts))
    rounds = 5
    return (
        _best(lambda: [closest_one_or_two(counts, candidates, NEEDED, 2) for _ in range(rounds)], 60) / rounds
    )


def _every_pair(counts: Sequence[int], needed: int) -> tuple[int, ...]:
    """The plain search: the same answer by looking at each pair of switches."""
    pairs = (
        (counts[a] + counts[b], a, b)
        for a, b in combinations(range(len(counts)), 2)
        if counts[a] + counts[b] >= needed
    )
    _, first, second = min(pairs)
    if {first, second} != set(closest_one_or_two(counts, range(len(counts)), needed, 2) or ()):
        raise RuntimeError("both searches must find the same pair")
    return first, second
