"""Packing blocks into SuperPoDs (P2 to P6): the order, the reserve, fragments, and the reasons."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ringwise.placement.superpods.blocks import BlockPlan, Free, Origin
from ringwise.placement.superpods.packing import BlockRequest, Packing, SuperPodSettings, plan, plan_one_pod
from ringwise.placement.superpods.whole_job import whole_job_key
from ringwise.reasons import Reason
from ringwise.topology.superpods import NodeId, SuperPodId
from tests.placement.superpods.plans import per_superpod

BOTH = pytest.mark.parametrize("packing", list(Packing), ids=lambda packing: packing.value)


def selection_sequence(
    nodes_per_block: int, blocks: int, reserve: int, super_pod_size: int
) -> tuple[int, ...]:
    """Rule P2: the free counts that hold the whole job, in the order of preference."""
    keyed = [
        (key, free)
        for free in range(super_pod_size + 1)
        if (key := whole_job_key(free, nodes_per_block, blocks, reserve)) is not None
    ]
    return tuple(free for _, free in sorted(keyed))


def placed(answer: BlockPlan | Reason) -> BlockPlan:
    assert isinstance(answer, BlockPlan), answer
    return answer


def refused(answer: BlockPlan | Reason) -> Reason:
    assert isinstance(answer, Reason), answer
    return answer


def pack(
    free: dict[SuperPodId, Free],
    *,
    s: int = 8,
    n: int = 2,
    r: int = 2,
    size: int = 48,
    soft: bool = False,
    packing: Packing = Packing.WHOLE_JOB,
    chips: int | None = None,
) -> BlockPlan | Reason:
    return plan(free, BlockRequest(s, n, soft=soft, chips_per_node=chips), SuperPodSettings(size, r, packing))


def test_the_documents_sequence_P2() -> None:
    zig_zag = [count for row in range(8) for count in (18 + row, 26 + row)]
    assert selection_sequence(8, 2, 2, 48) == (*zig_zag, *range(34, 49))


def test_each_superpod_of_the_sequence_is_chosen_before_all_later_ones_P2() -> None:
    sequence = selection_sequence(8, 2, 2, 48)
    for position, count in enumerate(sequence):
        free: dict[SuperPodId, Free] = {str(later): later for later in sequence[position:]}
        assert per_superpod(placed(pack(free))) == {str(count): 16}


@BOTH
def test_equal_superpods_are_taken_by_id_in_natural_order_P3(packing: Packing) -> None:
    names = per_superpod(placed(pack({"sp-10": 10, "sp-9": 10, "sp-2": 10}, packing=packing)))
    assert list(names) == ["sp-2", "sp-9"]
    numbers = per_superpod(placed(pack({10: 10, 9: 10, 2: 10}, packing=packing)))
    assert list(numbers) == [2, 9]


@BOTH
def test_nodes_are_taken_in_the_order_given(packing: Packing) -> None:
    free: dict[SuperPodId, Free] = {0: ["c", "a", "b", "e", "d", "f"]}
    answer = placed(pack(free, s=2, n=2, r=2, packing=packing))
    assert [block.nodes for block in answer.blocks] == [("c", "a"), ("b", "e")]


def test_queue_two_takes_the_freest_one_block_each_time_P4() -> None:
    answer = placed(pack({0: 9, 1: 9, 2: 8}, s=2, n=11, r=8))
    assert [(block.superpod, block.origin) for block in answer.blocks] == [
        (superpod, Origin.QUEUE_2) for superpod in (0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1)
    ]


def test_a_reserve_larger_than_a_block_loses_no_block_and_breaks_none_P4() -> None:
    answer = placed(pack({0: 4, 1: 3}, s=2, n=3, r=3, packing=Packing.PER_BLOCK))
    assert [(block.superpod, block.size) for block in answer.blocks] == [(0, 2), (1, 2), (0, 2)]
    assert per_superpod(placed(pack({0: 6}, s=1, n=6, r=3, packing=Packing.PER_BLOCK))) == {0: 6}


def test_soft_takes_fragments_most_free_first_and_no_node_too_many_P4() -> None:
    answer = placed(pack({"A": 10, "B": 7, "C": 6}, n=2, soft=True))
    assert [(block.logical, block.superpod, block.size, block.origin) for block in answer.blocks] == [
        (0, "A", 8, Origin.QUEUE_1),
        (1, "B", 7, Origin.QUEUE_3),
        (2, "C", 1, Origin.QUEUE_3),
    ]


def test_soft_fragments_in_the_order_of_the_plugin_P5() -> None:
    free: dict[SuperPodId, Free] = {count: count for count in range(1, 8)}
    answer = placed(pack(free, s=8, n=3, r=2, soft=True, packing=Packing.PER_BLOCK))
    assert [(block.superpod, block.size) for block in answer.blocks] == [
        (7, 7),
        (6, 6),
        (5, 5),
        (4, 4),
        (2, 2),
    ]
    assert [block.logical for block in answer.blocks] == [0, 1, 2, 3, 4]


@BOTH
def test_too_few_blocks_names_what_is_free_and_what_would_help_P4(packing: Packing) -> None:
    reason = refused(pack({0: 10, 3: 6}, packing=packing, chips=16))
    assert reason.code == "superpod-not-enough-blocks"
    assert (
        reason.message
        == "needs 2 blocks of 8 nodes; the SuperPoDs have room for 1: SuperPoD 0 has 10 free, 3 has 6"
    )
    assert reason.fixes == (
        "label the job super-pod-affinity: soft: "
        "then blocks may be split, and the 16 free nodes hold its 16 pods",
        'sp-block: "32": blocks of 2 nodes fit now',
        "free 2 more nodes in SuperPoD 3 for one more block",
    )


@BOTH
def test_the_fixes_work_P4(packing: Packing) -> None:
    free: dict[SuperPodId, Free] = {0: 10, 3: 6}
    placed(pack(free, soft=True, packing=packing))
    placed(pack(free, s=2, n=8, packing=packing))
    refused(pack(free, s=4, n=4, packing=packing))
    placed(pack({0: 10, 3: 8}, packing=packing))


@BOTH
def test_fewer_reserved_nodes_would_not_help_P4(packing: Packing) -> None:
    free: dict[SuperPodId, Free] = {0: 10, 3: 6}
    reason = refused(pack(free, packing=packing))
    assert not any("reserve" in fix for fix in reason.fixes)
    assert refused(pack(free, r=0, packing=packing)).code == reason.code


@BOTH
@pytest.mark.parametrize("soft", [False, True])
def test_too_few_nodes_P4(packing: Packing, soft: bool) -> None:
    reason = refused(pack({"A": 10}, soft=soft, packing=packing))
    assert reason.message == (
        "needs 16 free nodes, one for each pod; the SuperPoDs have 10: SuperPoD A has 10 free"
    )
    assert reason.fixes == ("free 6 more nodes", "use at most 10 pods")


def test_a_long_list_is_cut() -> None:
    reason = refused(pack({number: 6 - number // 10 for number in range(20)}, n=2))
    assert reason.message.endswith("7 has 6, 12 more have at most 6")
    assert len(reason.details["superpods"]) == 8


def test_no_superpod_at_all_P6() -> None:
    assert refused(pack({})).message.endswith("have 0: there is no SuperPoD")


def test_no_superpod_with_a_free_node_P6() -> None:
    assert refused(pack({0: 0, 1: 0})).message.endswith("have 0: none of 2 has a free node")


@BOTH
def test_more_free_nodes_than_a_superpod_has_P6(packing: Packing) -> None:
    reason = refused(pack({0: 49, 1: 20}, packing=packing))
    assert reason.message == "SuperPoD 0 has 49 free nodes, more than super-pod-size 48"
    assert reason.fixes[0] == "set super-pod-size to at least 49"


def test_invalid_numbers_are_a_programming_error() -> None:
    with pytest.raises(ValueError, match="whole blocks"):
        pack({0: 40}, s=0)
    with pytest.raises(ValueError, match="cannot have -1 free nodes"):
        pack({0: -1})


IDLE = dict[SuperPodId, Sequence[tuple[NodeId, int]]]


@BOTH
def test_one_pod_goes_to_a_node_with_fewest_idle_chips(packing: Packing) -> None:
    idle: IDLE = {0: [("a", 16), ("b", 4)], 1: [("c", 16), ("d", 16), ("e", 16)]}
    answer = placed(plan_one_pod(idle, SuperPodSettings(48, 2, packing)))
    assert [(block.superpod, block.nodes) for block in answer.blocks] == [(0, ("b",))]


@BOTH
def test_one_pod_fills_up_but_spares_the_reserve(packing: Packing) -> None:
    idle: IDLE = {
        superpod: [(f"{superpod}-{number}", 16) for number in range(count)]
        for superpod, count in ((0, 4), (1, 3), (2, 2))
    }
    answer = placed(plan_one_pod(idle, SuperPodSettings(48, 2, packing)))
    assert per_superpod(answer) == {1: 1}


def test_one_pod_without_room_or_with_too_many_nodes() -> None:
    assert refused(plan_one_pod({}, SuperPodSettings(48, 2))).code == "superpod-not-enough-nodes"
    crowded: IDLE = {5: [("a", 1), ("b", 2), ("c", 3)]}
    assert refused(plan_one_pod(crowded, SuperPodSettings(2, 0))).code == "superpod-oversize"
