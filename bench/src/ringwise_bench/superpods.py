"""Benchmark: packing one large job into many SuperPoDs, beside a plain scan in the same run."""

from __future__ import annotations

from collections.abc import Callable

from ringwise.placement.superpods.blocks import BlockPlan, Free
from ringwise.placement.superpods.packing import BlockRequest, SuperPodSettings, plan
from ringwise.topology.superpods import SuperPodId
from ringwise_bench.report import Figure, at_most, shown, timed

BLOCKS = 64
NODES_PER_BLOCK = 16
NODES_PER_SUPERPOD = 48
RESERVE = 2
SMALL, LARGE = 250, 1_000
GROWTH_ALLOWED = 5.0

Packed = list[tuple[SuperPodId, int]]


def run(full: bool = False) -> list[Figure]:
    """Times at two sizes and how they grow; `full` repeats more often."""
    rounds = 100 if full else 25
    small, large = _cluster(SMALL), _cluster(LARGE)
    differing = sum(_by_ringwise(cluster) != _by_scan(cluster) for cluster in (small, large))
    fast_small, fast_large = (_seconds(_by_ringwise, cluster, rounds) for cluster in (small, large))
    scan_small, scan_large = (_seconds(_by_scan, cluster, rounds) for cluster in (small, large))
    job = f"{BLOCKS} blocks of {NODES_PER_BLOCK}"
    return [
        at_most(
            f"time at {LARGE:,} SuperPoDs over time at {SMALL:,}",
            fast_large / fast_small,
            "x",
            GROWTH_ALLOWED,
        ),
        at_most("placements that differ from the scan", differing, "", 0),
        shown(f"{job} on {SMALL:,} SuperPoDs", fast_small * 1e3, "ms"),
        shown(f"{job} on {LARGE:,} SuperPoDs", fast_large * 1e3, "ms"),
        shown(f"plain scan on {SMALL:,} SuperPoDs", scan_small * 1e3, "ms"),
        shown(f"plain scan on {LARGE:,} SuperPoDs", scan_large * 1e3, "ms"),
        shown(f"speed-up over a plain scan at {LARGE:,} SuperPoDs", scan_large / fast_large, "x"),
    ]


def _cluster(superpods: int) -> dict[SuperPodId, Free]:
    """Free counts from 48 down to 4, a dozen kinds: neither all equal nor all different."""
    return {
        superpod: [f"node-{superpod}-{number}" for number in range(NODES_PER_SUPERPOD - (superpod % 12) * 4)]
        for superpod in range(superpods)
    }


def _seconds(
    pack: Callable[[dict[SuperPodId, Free]], Packed], cluster: dict[SuperPodId, Free], rounds: int
) -> float:
    """The best of several rounds: what else the machine does can only add time."""
    return min(timed(lambda: pack(cluster)) for _ in range(rounds))


def _by_ringwise(cluster: dict[SuperPodId, Free]) -> Packed:
    answer = plan(
        cluster, BlockRequest(NODES_PER_BLOCK, BLOCKS), SuperPodSettings(NODES_PER_SUPERPOD, RESERVE)
    )
    if not isinstance(answer, BlockPlan):
        raise RuntimeError(answer.message)
    return [(block.superpod, block.size) for block in answer.blocks]


def _by_scan(cluster: dict[SuperPodId, Free]) -> Packed:
    """The same rules by looking at every SuperPoD at every step."""
    left = {superpod: nodes if isinstance(nodes, int) else len(nodes) for superpod, nodes in cluster.items()}
    packed: Packed = []
    blocks = BLOCKS
    while blocks:
        chosen, taken = _scan_step(left, blocks)
        packed += [(chosen, NODES_PER_BLOCK)] * taken
        left[chosen] -= taken * NODES_PER_BLOCK
        blocks -= taken
    return packed


def _scan_step(left: dict[SuperPodId, int], blocks: int) -> tuple[SuperPodId, int]:
    whole_job = blocks * NODES_PER_BLOCK + RESERVE
    best_key: tuple[int, ...] | None = None
    chosen: tuple[SuperPodId, int] | None = None
    for superpod, free in left.items():
        quotient, waste = divmod(free - RESERVE, NODES_PER_BLOCK)
        if free >= whole_job:
            further, rest = divmod(free - whole_job, NODES_PER_BLOCK)
            key = (0, 0, rest, further) if further < blocks else (0, 1, free, 0)
            taken = blocks
        elif quotient >= 1:
            key, taken = (1, -quotient, waste, 0), quotient
        elif free >= NODES_PER_BLOCK:
            key, taken = (2, -free, 0, 0), 1
        else:
            continue
        if best_key is None or key < best_key:
            best_key, chosen = key, (superpod, taken)
    if chosen is None:
        raise RuntimeError("the benchmark's job must fit")
    return chosen
