"""The best possible packing of a sequence of requests, found by a solver.

The sequence is the same as ours: requests arrive one after the other and may be
refused. The solver knows them all beforehand and maximises the chips it places;
ours decides at once and never moves anything, so it can at best be equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import highspy

from ringwise.manifests.settings.boards import shipped_boards
from ringwise.placement.rules import chip_rule
from ringwise.state.cluster import ClusterState
from ringwise.topology.chips import chips_of, mask_of
from tests.builders.values import CHIP, node, pod, report

RING = 4


@dataclass(frozen=True)
class SmallCluster:
    """910 x8 nodes; for each the chips that are free at first, as a mask."""

    free: tuple[int, ...]
    requests: tuple[int, ...]


def placed_by_ringwise(cluster: SmallCluster) -> int:
    state = ClusterState()
    for number, free in enumerate(cluster.free):
        name = f"node-{number}"
        state.put_node(node(name))
        state.put_report(report(name, chips_of(free)))
        held = chips_of(0xFF & ~free)
        if held:
            state.put_pod(pod(f"h{number}", len(held), on=name, holds=held))
    board = shipped_boards()["910-x8"]
    rule = chip_rule(board)
    view = state.view(CHIP, board.name, rule, False, False)
    placed = 0
    for serial, request in enumerate(cluster.requests):
        found = view.best(request, lambda shape: True)
        if found is None:
            continue
        state.put_pod(pod(f"p{serial}", request))
        chips = rule.chips(state.fleets[CHIP].free_mask[found[0]], request, False)
        state.place(f"p{serial}", found[0], mask_of(chips))
        placed += request
    return placed


def best_possible(cluster: SmallCluster) -> int:
    """Chips placed by the best choice of requests and rings: a small integer program.

    x[r, k] = 1 when request r sits in ring k (1, 2 or 4 chips); y[r, n] = 1 when it
    takes the whole node n (8 chips). A ring holds what is free in it.
    """
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    rings = [(node, side) for node in range(len(cluster.free)) for side in (0, 1)]
    room = {(node, side): (cluster.free[node] >> (RING * side) & 0b1111).bit_count() for node, side in rings}
    in_ring: dict[tuple[int, tuple[int, int]], highspy.highs_var] = {}
    on_node: dict[tuple[int, int], highspy.highs_var] = {}
    for serial, request in enumerate(cluster.requests):
        if request == 8:
            for node, free in enumerate(cluster.free):
                if free == 0xFF:
                    on_node[serial, node] = model.addBinary(obj=8)
        else:
            for ring in rings:
                if room[ring] >= request:
                    in_ring[serial, ring] = model.addBinary(obj=request)
    for serial in range(len(cluster.requests)):
        used = [var for (s, _), var in (*in_ring.items(), *on_node.items()) if s == serial]
        if used:
            model.addConstr(sum(used[1:], start=1 * used[0]) <= 1)
    for ring in rings:
        terms = [cluster.requests[s] * var for (s, k), var in in_ring.items() if k == ring]
        terms += [RING * var for (_, node), var in on_node.items() if node == ring[0]]
        if terms:
            model.addConstr(sum(terms[1:], start=terms[0]) <= room[ring])
    if not in_ring and not on_node:
        return 0
    model.setMaximize()
    model.run()
    return round(model.getObjectiveValue())


def quality(clusters: Sequence[SmallCluster]) -> list[float]:
    """Chips placed by us as a fraction of the best possible, for every cluster where anything fits."""
    fractions = []
    for cluster in clusters:
        best = best_possible(cluster)
        if best:
            fractions.append(placed_by_ringwise(cluster) / best)
    return fractions
