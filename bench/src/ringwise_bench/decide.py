"""`ringwise bench decide`: what one decision costs, beside a scan over all nodes.

A mixed stream of placements and releases (1, 2, 4 and 8 chips) at 85 % utilization
on 910 x8 nodes. The scan asks the same rule about every node and picks the best;
both must choose the same node each time they are compared.
"""

from __future__ import annotations

import gc
import random
import time
import tracemalloc

from ringwise.manifests.settings.boards import shipped_boards
from ringwise.placement.rules import ChipRule, chip_rule
from ringwise.state.cluster import ClusterState
from ringwise.state.index import View
from ringwise.state.model import Node, Pod, PodClass
from ringwise.state.node_shapes import NodeShape
from ringwise.topology.chips import mask_of
from ringwise.wellknown import ASCEND910
from ringwise_bench import shares
from ringwise_bench.report import Figure, at_least, at_most, shown

SIZES = (1, 1, 1, 2, 2, 4, 8)
UTILISATION = 0.85
_CLASSES = {size: PodClass(resource=ASCEND910, chips=size, cpu_milli=1000 * size) for size in (1, 2, 4, 8)}


def _any(_shape: NodeShape) -> bool:
    return True


class Stream:
    """A cluster that is kept at its utilization by placing and releasing pods."""

    def __init__(self, nodes: int, seed: int = 7) -> None:
        self.random = random.Random(seed)
        self.state = ClusterState()
        for number in range(nodes):
            self.state.put_node(
                Node(
                    f"node-{number}",
                    chips_allocatable={ASCEND910: 8},
                    cpu_milli=192_000,
                    memory=1 << 40,
                    max_pods=110,
                )
            )
        board = shipped_boards()["910-x8"]
        self.rule: ChipRule = chip_rule(board)
        self.view: View = self.state.view(ASCEND910, board.name, self.rule, False, False)
        self.fleet = self.state.fleets[ASCEND910]
        self.running: list[str] = []
        self.used = 0
        self.capacity = 8 * nodes
        self.serial = 0
        while self.used < UTILISATION * self.capacity:
            if not self.place(self.random.choice(SIZES)):
                break

    def place(self, size: int) -> bool:
        node = self.view.best(size, _any)
        if node is None:
            return False
        self.take(node[0], size)
        return True

    def take(self, node: int, size: int) -> None:
        self.serial += 1
        uid = f"p{self.serial}"
        pod = Pod(uid, "bench", uid, _CLASSES[size])
        self.state.put_pod(pod)
        chips = self.rule.chips(self.fleet.free_mask[node], size, False)
        self.state.place(uid, node, mask_of(chips))
        self.running.append(uid)
        self.used += size

    def release_one(self) -> None:
        place = self.random.randrange(len(self.running))
        uid = self.running[place]
        self.running[place] = self.running[-1]
        self.running.pop()
        self.used -= self.state.pods[uid].pod.cls.chips
        self.state.drop_pod(uid)

    def make_room(self) -> None:
        """Let pods end until the cluster is below its utilization again."""
        while self.used >= UTILISATION * self.capacity:
            self.release_one()

    def scan(self, size: int) -> tuple[int, int] | None:
        """The same question, asked of every node."""
        best: tuple[int, int] | None = None
        fleet, rule = self.fleet, self.rule
        for node in range(len(self.state.names)):
            signature = rule.signature(fleet.free_mask[node], fleet.allocatable[node], fleet.faulty[node])
            score = rule.score(signature, size, False)
            if score is not None and (best is None or score > best[1]):
                best = (node, score)
        return best


def _cost_of_stream(stream: Stream, steps: int) -> tuple[float, float]:
    """Microseconds for a decision (node, chips, and taking them) and for a release.

    The best of three rounds, because the machine is shared.
    """
    clock = time.perf_counter
    best_decision = best_release = float("inf")
    for _ in range(3):
        deciding = releasing = 0.0
        releases = 0
        for _ in range(steps):
            size = stream.random.choice(SIZES)
            started = clock()
            stream.place(size)
            deciding += clock() - started
            before = len(stream.running)
            started = clock()
            stream.make_room()
            releasing += clock() - started
            releases += before - len(stream.running)
        best_decision = min(best_decision, deciding / steps * 1e6)
        if releases:
            best_release = min(best_release, releasing / releases * 1e6)
    return best_decision, best_release


def _cost_of_choice(stream: Stream, rounds: int) -> float:
    """Microseconds to find the node and the chips, without taking them."""
    best = float("inf")
    sizes = [stream.random.choice(SIZES) for _ in range(rounds)]
    for _ in range(3):
        started = time.perf_counter()
        for size in sizes:
            node = stream.view.best(size, _any)
            if node is not None:
                stream.rule.chips(stream.fleet.free_mask[node[0]], size, False)
        best = min(best, (time.perf_counter() - started) / rounds * 1e6)
    return best


def _cost_of_scan(stream: Stream, rounds: int) -> tuple[float, int]:
    """Microseconds for a choice by scan, and how often it differs from the index (never)."""
    sizes = [stream.random.choice(SIZES) for _ in range(rounds)]
    differing = 0
    total = 0.0
    for size in sizes:
        started = time.perf_counter()
        scanned = stream.scan(size)
        if scanned is not None:
            stream.rule.chips(stream.fleet.free_mask[scanned[0]], size, False)
        total += time.perf_counter() - started
        node = stream.view.best(size, _any)
        if scanned != node:
            differing += 1
        stream.place(size)
        stream.make_room()
    return total / rounds * 1e6, differing


def _bytes_per_node(nodes: int) -> float:
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    state = ClusterState()
    for number in range(nodes):
        state.put_node(Node(f"node-{number}", chips_allocatable={ASCEND910: 8}, cpu_milli=192_000))
    board = shipped_boards()["910-x8"]
    state.view(ASCEND910, board.name, chip_rule(board), False, False)
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return (after - before) / nodes


def run(full: bool = False) -> list[Figure]:
    steps = 200_000 if full else 20_000
    results: list[Figure] = []
    costs: dict[int, float] = {}
    for nodes in (1_000, 10_000, 100_000):
        stream = Stream(nodes)
        gc.collect()
        gc.freeze()
        costs[nodes], release = _cost_of_stream(stream, steps)
        choice = _cost_of_choice(stream, steps)
        results.append(shown(f"decision at {nodes:,} nodes: node, chips, taking them", costs[nodes], "us"))
        results.append(shown(f"of it the choice of node and chips at {nodes:,} nodes", choice, "us"))
        results.append(shown(f"release at {nodes:,} nodes", release, "us"))
        if nodes == 10_000:
            scan, differing = _cost_of_scan(stream, 60 if full else 20)
            results.append(shown("choice by scan at 10,000 nodes", scan, "us"))
            results.append(at_least("speed-up over a scan at 10,000 nodes", scan / choice, "x", 200))
            results.append(at_most("choices that differ from the scan", differing, "", 0))
        gc.unfreeze()
    growth = costs[100_000] / costs[1_000]
    results.append(at_most("cost of a decision at 100,000 nodes over 1,000", growth, "x", 1.5))
    results.append(at_most("memory per node", _bytes_per_node(10_000), "B", 2_000))
    return [*results, *shares.measured(full=full)]
