"""Rule P7: intact blocks stay, broken ones refill where they are, else the whole block moves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.placement.superpods.blocks import Block, BlockPlan, Origin, blocks_by_rank
from ringwise.placement.superpods.differing import BlockPods
from ringwise.placement.superpods.packing import BlockRequest, SuperPodSettings, plan
from ringwise.placement.superpods.previous_blocks import BlockMember, PreviousBlock, previous_blocks
from ringwise.placement.superpods.reschedule import (
    BlockFault,
    MovedBlocks,
    Release,
    must_wait,
    reschedule,
)
from ringwise.plugins.topology910.superpods import block_annotations
from ringwise.reasons import Reason
from ringwise.topology.superpods import NodeId, SuperPodId
from tests.examples import examples
from tests.placement.superpods.plans import map_from_blocks

RULES = json.loads((Path(__file__).parents[2] / "vectors" / "superpod_rules.json").read_text())
CASES = RULES["reschedule_vectors"]
#: Backup pods that stand in for a pod before it fails do not exist yet.
NOT_RUN = {case["id"] for case in CASES if "recorded_superpod" in case}


def again(
    old: Sequence[PreviousBlock],
    free: dict[SuperPodId, Sequence[NodeId]],
    *,
    running: Sequence[NodeId] = (),
    faulty: Sequence[NodeId] = (),
    soft: bool = False,
    seconds: float = 60,
    s: int | None = None,
    rules: SuperPodSettings | None = None,
) -> MovedBlocks | Reason:
    return reschedule(
        old,
        free,
        BlockRequest(s or max(len(block.nodes) for block in old), len(old), soft=soft),
        BlockFault(set(running), set(faulty), Release(seconds)),
        rules or SuperPodSettings(48, 0),
    )


def done(answer: MovedBlocks | Reason) -> MovedBlocks:
    assert isinstance(answer, MovedBlocks), answer
    return answer


def where(answer: MovedBlocks | Reason) -> list[tuple[int, SuperPodId, tuple[NodeId, ...], Origin]]:
    return [(block.logical, block.superpod, block.nodes, block.origin) for block in done(answer).blocks]


def test_every_worked_case_has_a_test() -> None:
    tested = sum(len(cases(key)) for key in ("old_block", "seconds_since_reschedule", "recorded_superpod"))
    assert tested == len(CASES)


def cases(key: str) -> list[dict[str, Any]]:
    return [case for case in CASES if key in case]


def test_every_case_is_run_but_those_of_backup_pods() -> None:
    run = {case["id"] for key in ("old_block", "seconds_since_reschedule") for case in cases(key)}
    assert run | NOT_RUN == {case["id"] for case in CASES}
    assert all(name.startswith("hot-switch-") for name in NOT_RUN)


@pytest.mark.parametrize("case", cases("old_block"), ids=lambda case: case["id"])
def test_worked_block_P7(case: dict[str, Any]) -> None:
    old = (PreviousBlock(0, 0, tuple(case["old_block"])),)
    candidates: list[str] = case.get("candidates") or case["same_superpod_candidates"]
    answer = again(old, {0: candidates}, faulty=case["fault_nodes"])
    if case.get("expect") == "not kept":
        assert isinstance(answer, Reason) or where(answer)[0][3] is not Origin.KEPT
    elif case.get("expect") == "kept unchanged":
        assert where(answer) == [(0, 0, tuple(case["old_block"]), Origin.KEPT)]
    else:
        assert done(answer).blocks[0].nodes == tuple(case["expect_block"])


@pytest.mark.parametrize("case", cases("seconds_since_reschedule"), ids=lambda case: case["id"])
def test_worked_wait_P7(case: dict[str, Any]) -> None:
    reason = must_wait(
        Release(case["seconds_since_reschedule"]), set(), set(case["normal_nodes"]), set(case["candidates"])
    )
    assert ("proceed" if reason is None else "wait") == case["expect"]


TWO = (PreviousBlock(0, 0, ("a", "b")), PreviousBlock(1, 1, ("c", "d")))


def test_the_wait_ends_after_ten_seconds() -> None:
    free: dict[SuperPodId, Sequence[NodeId]] = {0: ["a"], 1: ["c", "d"], 2: ["x", "y"]}
    waiting = again(TWO, free, seconds=10)
    assert isinstance(waiting, Reason)
    assert waiting.message == "waits up to 10s (10s elapsed) for its healthy nodes to be released: b"
    assert where(again(TWO, free, seconds=10.1))[0] == (0, 2, ("x", "y"), Origin.QUEUE_1)


def test_nothing_is_waited_for_while_pods_of_the_job_run_P7() -> None:
    free: dict[SuperPodId, Sequence[NodeId]] = {0: ["a", "x"], 1: ["d"]}
    assert isinstance(again(TWO, free, seconds=0), Reason)
    assert where(again(TWO, free, running=["c"], seconds=0)) == [
        (0, 0, ("a", "x"), Origin.REFILLED),
        (1, 1, ("c", "d"), Origin.KEPT),
    ]


def test_a_node_whose_pod_terminates_too_long_is_not_waited_for_P7() -> None:
    old, candidates = {"a", "b"}, {"a"}
    assert must_wait(Release(0), set(), old, candidates) is not None
    assert must_wait(Release(0, {"b"}), set(), old, candidates) is None


def test_pods_that_differ_take_no_healed_node_while_others_hold_them_F3() -> None:
    """Both lost positions fit the two healthy nodes, but only one way round."""
    answer = reschedule(
        (PreviousBlock(0, 0, ("a", "b", "c")),),
        {0: ["x", "y", "c"]},
        BlockRequest(
            3,
            len((PreviousBlock(0, 0, ("a", "b", "c")),)),
            pods=BlockPods({0: [0, 0, 1]}, {"x": 0b11, "y": 0b01, "c": 0b10}),
        ),
        BlockFault({"a"}, {"b", "c"}, Release()),
        SuperPodSettings(48, 0),
    )
    assert done(answer).blocks[0].nodes == ("a", "y", "x")


def test_no_job_waits_for_a_faulty_node_P7() -> None:
    free: dict[SuperPodId, Sequence[NodeId]] = {0: ["a", "x"], 1: ["c", "d"]}
    assert where(again(TWO, free, faulty=["b"], seconds=0)) == [
        (0, 0, ("a", "x"), Origin.REFILLED),
        (1, 1, ("c", "d"), Origin.KEPT),
    ]


def test_a_lost_position_takes_a_new_node_before_a_faulty_one_P7() -> None:
    free: dict[SuperPodId, Sequence[NodeId]] = {0: ["b", "a", "x"], 1: ["c", "d"]}
    assert done(again(TWO, free, faulty=["b"])).blocks[0].nodes == ("a", "x")
    assert done(again(TWO, {0: ["b", "a"], 1: ["c", "d"]}, faulty=["b"])).blocks[0].nodes == ("a", "b")


def test_a_broken_block_moves_as_a_whole_P7() -> None:
    answer = again(TWO, {0: ["a"], 1: ["c", "d", "e"], 2: ["x", "y"]}, faulty=["b"])
    assert where(answer) == [(0, 2, ("x", "y"), Origin.QUEUE_1), (1, 1, ("c", "d"), Origin.KEPT)]
    assert done(answer).moved == (0,)


def test_a_broken_block_never_takes_the_nodes_of_an_intact_one_P7() -> None:
    old = (PreviousBlock(0, 0, ("a", "b")), PreviousBlock(1, 0, ("c", "d")))
    answer = again(old, {0: ["c", "d", "a"], 1: ["x", "y"]}, faulty=["b"])
    assert where(answer) == [(0, 1, ("x", "y"), Origin.QUEUE_1), (1, 0, ("c", "d"), Origin.KEPT)]


def test_a_moving_block_leaves_its_nodes_to_other_blocks_P7() -> None:
    old = (PreviousBlock(0, 0, ("a", "b", "c")), PreviousBlock(1, 0, ("d", "e", "f")))
    free: dict[SuperPodId, Sequence[NodeId]] = {0: ["b", "c", "d"], 1: ["x", "y", "z"]}
    answer = again(old, free, faulty=["a", "e", "f"])
    # Block 0 lost one place and is served first, but has no spare node; block 1 then lives on what it left.
    assert where(answer) == [
        (0, 1, ("x", "y", "z"), Origin.QUEUE_1),
        (1, 0, ("d", "b", "c"), Origin.REFILLED),
    ]


def test_a_moving_block_releases_only_what_is_still_its_own_P7() -> None:
    old = (PreviousBlock(0, 0, ("a", "b")), PreviousBlock(1, 0, ("c", "d")))
    # Block 0 refills with block 1's healed node; block 1 must not count it as its own again.
    answer = again(old, {0: ["c", "d", "x"], 1: ["y", "z"]}, faulty=["a", "b", "c", "d"])
    assert where(answer) == [(0, 0, ("x", "c"), Origin.REFILLED), (1, 1, ("y", "z"), Origin.QUEUE_1)]


def test_blocks_that_lost_least_refill_first_P7() -> None:
    old = (PreviousBlock(0, 0, ("a", "b")), PreviousBlock(1, 0, ("c", "d")))
    answer = again(old, {0: ["c", "x", "y"], 1: ["p", "q"]}, faulty=["a", "b", "d"])
    assert where(answer) == [(0, 1, ("p", "q"), Origin.QUEUE_1), (1, 0, ("c", "x"), Origin.REFILLED)]


def test_running_pods_keep_their_nodes_P7() -> None:
    answer = again(TWO, {0: ["x"], 1: []}, running=["a", "c", "d"], faulty=["b"])
    assert where(answer) == [(0, 0, ("a", "x"), Origin.REFILLED), (1, 1, ("c", "d"), Origin.KEPT)]


def test_running_pods_keep_their_block_where_it_is_P7() -> None:
    answer = again(TWO, {0: [], 2: ["x", "y"]}, running=["a", "c", "d"], faulty=["b"])
    assert isinstance(answer, Reason)
    assert answer.message == (
        "block 0 lacks 1 of 2 nodes; SuperPoD 0 has 0 free, and its running pods (1) stay there"
    )
    assert answer.fixes[1] == "delete the running pods of block 0: the whole block is then moved"
    assert where(again(TWO, {0: ["a"], 2: ["x", "y"]}, running=["c", "d"], faulty=["b"]))[0][:2] == (0, 2)


def test_a_moving_block_takes_a_faulty_node_only_where_nothing_else_fits() -> None:
    old = (PreviousBlock(0, 0, ("a", "b")),)
    rules = SuperPodSettings(48, 0)
    free: dict[SuperPodId, Sequence[NodeId]] = {1: ["bad", "x"], 2: ["p", "q", "r"]}
    assert where(again(old, free, faulty=["a", "bad"], rules=rules))[0][1] == 2
    assert where(again(old, {1: ["bad", "x"]}, faulty=["a", "bad"]))[0][2] == ("x", "bad")


def test_a_node_that_changed_its_superpod_is_lost_to_its_block() -> None:
    answer = again(TWO, {0: ["a", "x"], 1: ["c", "d"], 2: ["b"]})
    assert done(answer).blocks[0].nodes == ("a", "x")


def test_a_soft_job_is_split_only_when_nothing_of_it_runs() -> None:
    free: dict[SuperPodId, Sequence[NodeId]] = {2: ["x"], 3: ["y"]}
    split = again(TWO, {1: ["c", "d"], **free}, faulty=["a", "b"], soft=True)
    assert where(split) == [
        (0, 2, ("x",), Origin.QUEUE_3),
        (1, 1, ("c", "d"), Origin.KEPT),
        (2, 3, ("y",), Origin.QUEUE_3),
    ]
    held = again(TWO, free, running=["c", "d"], faulty=["a", "b"], soft=True)
    assert isinstance(held, Reason)
    assert held.code == "superpod-not-enough-blocks"
    assert not any("super-pod-affinity" in fix for fix in held.fixes)


def test_fragments_are_joined_again_P7() -> None:
    old = (PreviousBlock(0, 0, ("a", "b", "c")), PreviousBlock(1, 1, ("d",)), PreviousBlock(2, 2, ("e", "f")))
    answer = again(old, {0: ["a", "b", "c"], 5: ["x", "y", "z"]}, faulty=["d", "e", "f"], soft=True, s=3)
    assert where(answer) == [
        (0, 0, ("a", "b", "c"), Origin.KEPT),
        (1, 5, ("x", "y", "z"), Origin.QUEUE_1),
    ]


def test_a_running_job_moves_a_fragment_as_it_is() -> None:
    old = (PreviousBlock(0, 0, ("a", "b", "c")), PreviousBlock(1, 1, ("d",)), PreviousBlock(2, 2, ("e", "f")))
    answer = again(old, {5: ["x", "y", "z"]}, running=["a", "b", "c", "d"], faulty=["e", "f"], soft=True, s=3)
    assert where(answer)[2] == (2, 5, ("x", "y"), Origin.QUEUE_1)


def test_fragments_stay_apart_while_the_job_runs() -> None:
    old = (PreviousBlock(0, 0, ("a", "b", "c")), PreviousBlock(1, 1, ("d",)), PreviousBlock(2, 2, ("e", "f")))
    answer = again(old, {5: ["x", "y", "z"]}, running=["a", "b", "c"], faulty=["d", "e", "f"], soft=True, s=3)
    assert where(answer)[1:] == [(1, 5, ("z",), Origin.QUEUE_1), (2, 5, ("x", "y"), Origin.QUEUE_1)]


def test_the_reserve_is_used_for_refills_P7() -> None:
    rules = SuperPodSettings(48, 2)
    answer = again(TWO, {0: ["a", "x"], 1: ["c", "d"]}, faulty=["b"], rules=rules)
    assert done(answer).moved == ()


def test_a_block_without_nodes_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="block 0 has no nodes"):
        again((PreviousBlock(0, 0, ()),), {}, s=1)


@st.composite
def faults(
    draw: st.DrawFn,
) -> tuple[BlockPlan, dict[SuperPodId, list[NodeId]], list[NodeId], list[NodeId], int]:
    """A job as it was packed, what is free now, what still runs, what is faulty, nodes per block."""
    s, n = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    counts = draw(st.lists(st.integers(0, 8), min_size=1, max_size=4))
    cluster: dict[SuperPodId, list[NodeId]] = {
        superpod: [f"{superpod}/{number}" for number in range(count)] for superpod, count in enumerate(counts)
    }
    before = plan(cluster, BlockRequest(s, n), SuperPodSettings(9, 1))
    if isinstance(before, Reason):
        cluster = {0: [f"0/{number}" for number in range(9)]}
        before = plan(cluster, BlockRequest(s, n), SuperPodSettings(9, 1))
        assert isinstance(before, BlockPlan)
    used = [node for block in before.blocks for node in block.nodes]
    running = draw(st.lists(st.sampled_from(used), unique=True))
    others = [node for node in used if node not in running]
    faulty = draw(st.lists(st.sampled_from(others), unique=True)) if others else []
    gone = draw(st.sets(st.sampled_from([node for nodes in cluster.values() for node in nodes])))
    free: dict[SuperPodId, list[NodeId]] = {
        superpod: [node for node in nodes if node not in running and node not in gone]
        for superpod, nodes in cluster.items()
    }
    return before, free, running, faulty, s


@settings(max_examples=examples(100))
@given(faults())
def test_blocks_stay_whole_and_no_running_pod_moves_P7(
    fault: tuple[BlockPlan, dict[SuperPodId, list[NodeId]], list[NodeId], list[NodeId], int],
) -> None:
    before, free, running, faulty, s = fault
    old = map_from_blocks(before.blocks)
    answer = again(old, dict(free), running=running, faulty=faulty, s=s, rules=SuperPodSettings(9, 1))
    if isinstance(answer, Reason):
        assert answer.fixes
        return
    assert [block.logical for block in answer.blocks] == [block.logical for block in old]
    nodes = [node for block in answer.blocks for node in block.nodes]
    assert len(nodes) == len(set(nodes)) == len(old) * s
    usable = {node for available in free.values() for node in available} | set(running)
    for was, block in zip(old, answer.blocks, strict=True):
        assert {str(node).split("/")[0] for node in block.nodes} == {str(block.superpod)}
        assert set(block.nodes) <= usable
        for place, node in enumerate(was.nodes):
            if node in running:
                assert block.nodes[place] == node
        intact = all(node in running or (node in usable and node not in faulty) for node in was.nodes)
        assert (block.origin is Origin.KEPT) == intact
        if intact:
            assert block.nodes == was.nodes


def annotated(blocks: Sequence[Block], lost: set[int]) -> list[BlockMember]:
    pods = []
    for rank, (block, place) in blocks_by_rank(blocks).items():
        written = block_annotations(block)
        if rank in lost:
            pods.append(BlockMember(rank, None))
        else:
            pods.append(
                BlockMember(rank, block.nodes[place], written["super-pod-rank"], written["super-pod-id"])
            )
    return pods


@given(faults(), st.data())
def test_the_block_map_is_read_back_from_the_pods_P7(
    fault: tuple[BlockPlan, dict[SuperPodId, list[NodeId]], list[NodeId], list[NodeId], int],
    data: st.DataObject,
) -> None:
    before, _, _, _, s = fault
    total = sum(block.size for block in before.blocks)
    lost = data.draw(st.sets(st.integers(0, total - 1)))
    pods = data.draw(st.permutations(annotated(before.blocks, lost)))
    known = previous_blocks(pods, nodes_per_block=s, pod_count=total)
    expected = []
    for block in map_from_blocks(before.blocks):
        nodes = tuple(
            None if block.logical * s + place in lost else node for place, node in enumerate(block.nodes)
        )
        expected.append(PreviousBlock(block.logical, block.superpod if any(nodes) else None, nodes))
    assert known == tuple(expected)


def test_the_block_map_of_a_soft_job_is_read_back_P7() -> None:
    blocks = [
        Block(0, 4, 3, ("a", "b", "c"), Origin.QUEUE_1),
        Block(1, 5, 2, ("d", "e"), Origin.QUEUE_3),
        Block(2, 6, 1, ("f",), Origin.QUEUE_3),
    ]
    whole = previous_blocks(annotated(blocks, set()), nodes_per_block=3, pod_count=6)
    assert whole == map_from_blocks(blocks)
    one_lost = previous_blocks(annotated(blocks, {4}), nodes_per_block=3, pod_count=6)
    assert one_lost == (
        PreviousBlock(0, 4, ("a", "b", "c")),
        PreviousBlock(1, 5, ("d", None)),
        PreviousBlock(2, 6, ("f",)),
    )


@pytest.mark.parametrize(
    ("known", "blocks"),
    [
        # The first block is full, so the lost rank was in a block of its own, or in the one behind it.
        ({0: 0, 1: 0, 3: 2}, [0, 0, 1, 2]),
        ({0: 0, 1: 0, 3: 1, 4: 2}, [0, 0, 1, 1, 2]),
        # It has room.
        ({0: 0, 2: 2}, [0, 0, 2]),
        # It was larger than today's block size.
        ({0: 0, 1: 0, 3: 0, 4: 1}, [0, 0, 0, 0, 1]),
    ],
)
def test_a_lost_rank_joins_the_block_before_it_while_that_has_room_P7(
    known: dict[int, int], blocks: list[int]
) -> None:
    pods = [BlockMember(rank, f"n{rank}", str(logical), "7") for rank, logical in known.items()]
    found = previous_blocks(pods, nodes_per_block=2, pod_count=len(blocks))
    assert not isinstance(found, Reason)
    assert [block.logical for block in found for _ in block.nodes] == blocks


def test_blocks_may_be_larger_than_the_current_block_size_P7() -> None:
    pods = [BlockMember(0, "a", "0", "7"), BlockMember(3, "d", "0", "7")]
    known = previous_blocks(pods, nodes_per_block=2, pod_count=4)
    assert known == (PreviousBlock(0, 7, ("a", None, None, "d")),)


def test_pods_without_ranks_fill_the_block_in_natural_order() -> None:
    pods = [BlockMember(None, node, "0", "7") for node in ("node-10", "node-9")]
    assert previous_blocks(pods, nodes_per_block=2, pod_count=2) == (
        PreviousBlock(0, 7, ("node-9", "node-10")),
    )


@pytest.mark.parametrize(("rank", "superpod"), [("x", "1"), ("-1", "1"), (None, "1"), ("0", None), ("0", "")])
def test_unreadable_annotations_are_unknown_nodes_P7(rank: str | None, superpod: str | None) -> None:
    pods = [BlockMember(0, "a", rank, superpod)]
    assert previous_blocks(pods, nodes_per_block=1, pod_count=1) == (PreviousBlock(0, None, (None,)),)


def test_pods_that_contradict_each_other_P7() -> None:
    split = previous_blocks(
        [BlockMember(0, "a", "0", "1"), BlockMember(1, "b", "0", "2")], nodes_per_block=2, pod_count=2
    )
    assert isinstance(split, Reason)
    assert split.message == "the pods of block 0 are in different SuperPoDs: SuperPoD 1 and 2"
    backwards = previous_blocks(
        [BlockMember(0, "a", "1", "1"), BlockMember(1, "b", "0", "1")], nodes_per_block=1, pod_count=2
    )
    assert isinstance(backwards, Reason)
    assert backwards.code == "superpod-blocks-disagree"


def test_a_restart_changes_no_decision_P7() -> None:
    blocks = [Block(0, 0, 2, ("a", "b"), Origin.QUEUE_1), Block(1, 1, 2, ("c", "d"), Origin.QUEUE_1)]
    remembered = previous_blocks(annotated(blocks, {1}), nodes_per_block=2, pod_count=4)
    assert not isinstance(remembered, Reason)
    free: dict[SuperPodId, Sequence[NodeId]] = {0: ["b", "x"], 1: []}
    before = again(map_from_blocks(blocks), free, running=["a", "c", "d"], faulty=["b"])
    after = again(remembered, free, running=["a", "c", "d"], faulty=["b"])
    assert where(before) == where(after)
