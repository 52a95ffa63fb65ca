"""How close placing at once comes to the best possible packing of the same sequence."""

from __future__ import annotations

import random

import pytest

from tests.optimality.packing import SmallCluster, best_possible, placed_by_ringwise, quality


def random_clusters(count: int, seed: int, load: tuple[float, float] = (0.5, 1.2)) -> list[SmallCluster]:
    """Two to eight nodes, half of them partly in use, and requests for `load` times the free chips."""
    draw = random.Random(seed)
    clusters = []
    for _ in range(count):
        nodes = draw.randint(2, 8)
        free = tuple(
            draw.choice((0xFF, 0xFF, draw.getrandbits(8), draw.getrandbits(8) | 0x0F)) for _ in range(nodes)
        )
        wanted = sum(mask.bit_count() for mask in free) * draw.uniform(*load)
        requests: list[int] = []
        while sum(requests) < wanted:
            requests.append(draw.choice((1, 1, 1, 2, 2, 4, 8)))
        clusters.append(SmallCluster(free, tuple(requests)))
    return clusters


@pytest.mark.full
def test_on_average_at_least_95_percent_of_the_best_possible_packing() -> None:
    fractions = quality(random_clusters(120, seed=1))
    assert sum(fractions) / len(fractions) >= 0.95
    assert max(fractions) <= 1.0


@pytest.mark.parametrize(
    ("free", "requests", "best"),
    [
        ((0xFF,), (8,), 8),
        ((0xFF,), (1, 8), 8),
        ((0x0F, 0xF0), (4, 4), 8),
        ((0b0011_0011,), (4, 2, 2), 4),
        ((0b0000_0111,), (2, 2), 2),
        ((0,), (1,), 0),
    ],
)
def test_the_solver_respects_rings_N3(free: tuple[int, ...], requests: tuple[int, ...], best: int) -> None:
    assert best_possible(SmallCluster(free, requests)) == best


def test_jobs_that_arrive_together_pack_onto_one_node() -> None:
    """4 + 2 + 1 + 1 chips end on one 910 x8 node."""
    cluster = SmallCluster((0xFF, 0xFF), (4, 2, 1, 1, 8))
    assert placed_by_ringwise(cluster) == 16
