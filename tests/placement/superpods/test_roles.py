"""Blocks of pods that differ, and jobs that start with a part of their blocks (P8)."""

from __future__ import annotations

from itertools import takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.placement.superpods.blocks import BlockPlan, Free, Origin
from ringwise.placement.superpods.differing import BlockPods
from ringwise.placement.superpods.packing import BlockRequest, Packing, SuperPodSettings, plan
from ringwise.placement.superpods.previous_blocks import PreviousBlock
from ringwise.placement.superpods.reschedule import BlockFault, MovedBlocks, Release, reschedule
from ringwise.reasons import Reason
from ringwise.topology.superpods import NodeId, SuperPodId
from tests.examples import examples
from tests.placement.superpods import reference
from tests.placement.superpods.roles_reference import Nodes, whole_job
from tests.placement.superpods.test_packing_properties import SIZE, Shape, clusters, pack, picks, shapes

role_sets = st.frozensets(st.integers(0, 1), min_size=1)
superpods = st.lists(st.lists(role_sets, max_size=5), min_size=1, max_size=3)


@st.composite
def jobs(draw: st.DrawFn) -> tuple[list[list[int]], int]:
    size = draw(st.integers(1, 2))
    role = st.integers(0, 1)
    blocks = st.lists(st.lists(role, min_size=size, max_size=size), min_size=1, max_size=4)
    return draw(blocks), size


def name(superpod: int, node: int) -> str:
    return f"{superpod}/{node}"


def pack_roles(
    given_nodes: list[Nodes],
    blocks: list[list[int]],
    size: int,
    *,
    reserve: int = 0,
    soft: bool = False,
    packing: Packing = Packing.WHOLE_JOB,
    minimum: int | None = None,
) -> BlockPlan | Reason:
    free: dict[SuperPodId, Free] = {
        number: [name(number, node) for node in range(len(nodes))] for number, nodes in enumerate(given_nodes)
    }
    masks: dict[NodeId, int] = {
        name(number, node): sum(1 << role for role in roles)
        for number, nodes in enumerate(given_nodes)
        for node, roles in enumerate(nodes)
    }
    return plan(
        free,
        BlockRequest(
            size, len(blocks), soft=soft, pods=BlockPods(dict(enumerate(blocks)), masks), minimum=minimum
        ),
        SuperPodSettings(SIZE, reserve, packing),
    )


@given(superpods, jobs(), st.integers(0, 2), st.none() | st.integers(0, 4))
@settings(max_examples=examples(100))
def test_blocks_of_differing_pods_equal_the_reference_P8(
    nodes: list[Nodes], job: tuple[list[list[int]], int], reserve: int, minimum: int | None
) -> None:
    blocks, size = job
    placed = whole_job(nodes, blocks, size, reserve)
    start = list(takewhile(lambda block: block in placed, range(len(blocks))))
    enough = len(start) == len(blocks) or (minimum is not None and len(start) * size >= max(1, minimum))
    answer = pack_roles(nodes, blocks, size, reserve=reserve, minimum=minimum)
    if not enough:
        assert isinstance(answer, Reason)
        assert answer.fixes
        return
    assert isinstance(answer, BlockPlan)
    assert {block.logical: (block.superpod, block.nodes) for block in answer.blocks} == {
        block: (placed[block][0], tuple(name(placed[block][0], node) for node in placed[block][1]))
        for block in start
    }


@given(superpods, jobs(), st.integers(0, 2), st.booleans(), st.sampled_from(Packing))
@settings(max_examples=examples(100))
def test_every_pod_gets_a_node_that_it_can_take_P8(
    nodes: list[Nodes], job: tuple[list[list[int]], int], reserve: int, soft: bool, packing: Packing
) -> None:
    blocks, size = job
    answer = pack_roles(nodes, blocks, size, reserve=reserve, soft=soft, packing=packing)
    if isinstance(answer, Reason):
        return
    roles = [role for block in blocks for role in block]
    ordered = sorted(answer.blocks, key=lambda block: block.logical)
    assert [block.logical for block in ordered] == list(range(len(ordered)))
    places = [node for block in ordered for node in block.nodes]
    assert len(set(places)) == len(places) == len(roles)
    for role, place in zip(roles, places, strict=True):
        superpod, node = map(int, str(place).split("/"))
        assert role in nodes[superpod][node]
    for block in ordered:
        assert {str(node).split("/")[0] for node in block.nodes} == {str(block.superpod)}
        assert block.size == size or (soft and block.origin is Origin.QUEUE_3)


@given(clusters, shapes, st.sampled_from(Packing))
@settings(max_examples=examples(50))
def test_pods_that_can_take_everything_are_packed_like_equal_pods_P8(
    free: dict[int, int], shape: Shape, packing: Packing
) -> None:
    s, n, r, soft = shape
    named: dict[SuperPodId, Free] = {
        superpod: [f"{superpod}/{number}" for number in range(count)] for superpod, count in free.items()
    }
    masks: dict[NodeId, int] = {
        f"{superpod}/{number}": 3 for superpod, count in free.items() for number in range(count)
    }
    blocks = {block: [(block + place) % 2 for place in range(s)] for block in range(n)}
    answer = plan(
        named,
        BlockRequest(s, n, soft=soft, pods=BlockPods(blocks, masks)),
        SuperPodSettings(SIZE, r, packing),
    )
    equal = pack(free, shape, packing, named=True)
    assert picks(answer) == picks(equal)
    if isinstance(equal, BlockPlan) and not soft:
        assert answer == equal


@given(clusters, shapes, st.integers(0, 20))
def test_a_part_of_the_blocks_starts_where_it_is_enough_P8(
    free: dict[int, int], shape: Shape, minimum: int
) -> None:
    s, n, r, soft = shape
    answer = plan(dict(free), BlockRequest(s, n, soft=soft, minimum=minimum), SuperPodSettings(SIZE, r))
    whole = pack(free, shape, Packing.WHOLE_JOB)
    if isinstance(whole, BlockPlan):
        assert answer == whole
        return
    # P2 to P4 with all blocks, as far as they come; no fragments.
    placed = sum(count // s for count in free.values())
    steps = []
    for blocks in range(n, 0, -1):
        if blocks <= placed:
            steps = reference.whole_job(free, s, blocks, r, False) or []
            break
    if minimum < n * s and placed and placed * s >= minimum:
        assert isinstance(answer, BlockPlan)
        assert len(answer.blocks) == placed == len(steps)
        assert [block.logical for block in answer.blocks] == list(range(placed))
        assert all(block.origin is not Origin.QUEUE_3 for block in answer.blocks)
    else:
        assert isinstance(answer, Reason)


SETTINGS = SuperPodSettings(8, 0)


def again(
    old: list[PreviousBlock], free: dict[SuperPodId, list[NodeId]], running: set[NodeId], minimum: int | None
) -> MovedBlocks | Reason:
    return reschedule(
        old,
        free,
        BlockRequest(2, len(old), minimum=minimum),
        BlockFault(running, set(), Release(60)),
        SETTINGS,
    )


def test_the_rest_of_a_started_job_is_placed_later_as_whole_blocks_P8() -> None:
    running: set[NodeId] = {"a0", "a1"}
    old = [PreviousBlock(0, 0, ("a0", "a1")), PreviousBlock(1, None, (None, None))]
    old.append(PreviousBlock(2, None, (None, None)))
    waits = again(old, {0: ["a2"], 1: ["b0"]}, running, 0)
    assert isinstance(waits, Reason)
    one = again(old, {0: ["a2"], 1: ["b0", "b1", "b2"]}, running, 0)
    assert isinstance(one, MovedBlocks)
    assert [(block.logical, block.nodes) for block in one.blocks] == [(0, ("a0", "a1")), (1, ("b0", "b1"))]
    assert one.first_ranks == {0: 0, 1: 2, 2: 4}
    assert isinstance(again(old, {0: ["a2"], 1: ["b0", "b1", "b2"]}, running, None), Reason)


@pytest.mark.parametrize(("minimum", "moves"), [(None, False), (0, True)])
def test_a_block_that_cannot_refill_does_not_stop_the_others_P8(minimum: int | None, moves: bool) -> None:
    # Block 0 lost a1 and SuperPoD 0 is full; block 1 lost its second node and can refill.
    old = [PreviousBlock(0, 0, ("a0", "a1")), PreviousBlock(1, 1, ("b0", "b1"))]
    answer = again(old, {0: [], 1: ["b2"]}, {"a0", "b0"}, minimum)
    assert isinstance(answer, MovedBlocks) == moves
    if isinstance(answer, MovedBlocks):
        assert [(block.logical, block.nodes) for block in answer.blocks] == [(1, ("b0", "b2"))]
        assert answer.first_ranks == {0: 0, 1: 2}
