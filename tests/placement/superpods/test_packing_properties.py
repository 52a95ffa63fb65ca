"""Properties of packing (P2 to P5) on random clusters and jobs."""

from __future__ import annotations

import re
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ringwise.placement.superpods.blocks import BlockPlan, Free, Origin
from ringwise.placement.superpods.packing import BlockRequest, Packing, SuperPodSettings, plan
from ringwise.reasons import Reason
from ringwise.topology.superpods import SuperPodId
from tests.examples import examples
from tests.placement.superpods import reference
from tests.placement.superpods.plans import per_superpod

SIZE = 12
QUEUE = {Origin.QUEUE_1: 1, Origin.QUEUE_2: 2, Origin.QUEUE_3: 3}

clusters = st.dictionaries(st.integers(0, 30), st.integers(0, SIZE), max_size=7)
shapes = st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(0, 8), st.booleans())
Shape = tuple[int, int, int, bool]


def pack(free: dict[int, int], shape: Shape, packing: Packing, named: bool = False) -> BlockPlan | Reason:
    s, n, r, soft = shape
    given_free: dict[SuperPodId, Free] = {
        superpod: [f"{superpod}/{number}" for number in range(count)] if named else count
        for superpod, count in free.items()
    }
    return plan(given_free, BlockRequest(s, n, soft=soft), SuperPodSettings(SIZE, r, packing))


def picks(answer: BlockPlan | Reason) -> reference.Picks | None:
    if isinstance(answer, Reason):
        return None
    return [(int(block.superpod), block.size, QUEUE[block.origin]) for block in answer.blocks]


@given(clusters, shapes)
def test_whole_job_equals_the_reference_P2_P3_P4(free: dict[int, int], shape: Shape) -> None:
    assert picks(pack(free, shape, Packing.WHOLE_JOB)) == reference.whole_job(free, *shape)


@given(clusters, shapes)
def test_per_block_equals_the_reference_P5(free: dict[int, int], shape: Shape) -> None:
    assert picks(pack(free, shape, Packing.PER_BLOCK)) == reference.per_block(free, *shape, SIZE)


@given(clusters, shapes, st.sampled_from(Packing), st.randoms(use_true_random=False))
def test_the_order_of_the_input_changes_nothing(
    free: dict[int, int], shape: Shape, packing: Packing, random: Random
) -> None:
    shuffled = list(free.items())
    random.shuffle(shuffled)
    assert pack(dict(shuffled), shape, packing, named=True) == pack(free, shape, packing, named=True)


@given(clusters, shapes, st.sampled_from(Packing))
def test_blocks_are_whole_and_nodes_are_taken_once(
    free: dict[int, int], shape: Shape, packing: Packing
) -> None:
    s, n, _, soft = shape
    answer = pack(free, shape, packing, named=True)
    if isinstance(answer, Reason):
        held = sum(count // s for count in free.values())
        assert sum(free.values()) < n * s or (held < n and not soft)
        assert answer.fixes
        return
    nodes = [node for block in answer.blocks for node in block.nodes]
    assert len(nodes) == len(set(nodes)) == n * s
    assert [block.logical for block in answer.blocks] == list(range(len(answer.blocks)))
    for block in answer.blocks:
        # A node's name begins with its SuperPoD: no block spans two.
        assert {str(node).split("/")[0] for node in block.nodes} == {str(block.superpod)}
        assert block.size == len(block.nodes)
        if block.origin is Origin.QUEUE_3:
            assert soft
            assert block.size < s
        else:
            assert block.size == s
    if not soft:
        assert len(answer.blocks) == n


@example({0: 6, 1: 3}, (4, 2, 0, False), Packing.WHOLE_JOB)
@settings(max_examples=examples(400))
@given(st.dictionaries(st.integers(0, 6), st.integers(0, 7), min_size=2), shapes, st.sampled_from(Packing))
def test_a_job_that_does_what_a_fix_says_is_placed_P4(
    free: dict[int, int], shape: Shape, packing: Packing
) -> None:
    s, n, r, _ = shape
    answer = pack(free, (s, n, r, False), packing)
    for fix in answer.fixes if isinstance(answer, Reason) else ():
        if fix.startswith("label the job super-pod-affinity: soft"):
            assert not isinstance(pack(free, (s, n, r, True), packing), Reason)
        elif smaller := re.search(r"blocks of (\d+) nodes? fit now", fix):
            size = int(smaller[1])
            assert n * s % size == 0, "a job is divided into whole blocks"
            assert not isinstance(pack(free, (size, n * s // size, r, False), packing), Reason)


@given(clusters, shapes, st.sampled_from(Packing))
def test_the_reserve_is_used_only_when_nothing_above_it_is_left_P4(
    free: dict[int, int], shape: Shape, packing: Packing
) -> None:
    s, n, r, _ = shape
    answer = pack(free, shape, packing)
    if isinstance(answer, Reason):
        return
    left = dict(free)
    for block in answer.blocks:
        if block.origin is Origin.QUEUE_1:
            assert left[int(block.superpod)] - block.size >= r
        else:
            assert all(count < s + r for count in left.values())
        if block.origin is Origin.QUEUE_3:
            assert all(count < s for count in left.values())
        left[int(block.superpod)] -= block.size
    above_reserve = sum(max(0, (count - r) // s) for count in free.values())
    assert all(block.origin is Origin.QUEUE_1 for block in answer.blocks) == (above_reserve >= n)


@given(clusters, shapes)
def test_a_job_that_fits_above_the_reserve_uses_as_few_superpods_as_possible_P3(
    free: dict[int, int], shape: Shape
) -> None:
    s, n, r, _ = shape
    fewest = reference.fewest_superpods_above_reserve(free, s, n, r)
    if fewest is None:
        return
    answer = pack(free, shape, Packing.WHOLE_JOB)
    assert isinstance(answer, BlockPlan)
    assert len(per_superpod(answer)) == fewest
