"""After a fault: what stays, what moves, and when (R3, F2, F3)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.placement.matching import PodClasses
from ringwise.placement.racks.levels import Level, LevelTimes
from ringwise.placement.racks.model import (
    FreeRacks,
    RackBlock,
    RackOrigin,
    RackRequest,
    RackShape,
)
from ringwise.placement.racks.previous import PlacedPod, PreviousRackBlock, PreviousSlot, previous_blocks
from ringwise.placement.racks.reschedule import RackFault, reschedule
from ringwise.placement.racks.selection import select
from ringwise.placement.superpods.reschedule import Release
from ringwise.reasons import Reason
from ringwise.topology.superpods import NodeId

SIZE = 64
LATE = 60.0
OUTLOOK = "other racks are tried after 3s without a node"


def slot(name: str) -> PreviousSlot:
    """`1/3/a` is node 1/3/a in rack 3 of SuperPoD 1."""
    superpod, rack, _ = name.split("/")
    return PreviousSlot(name, int(superpod), int(rack))


def blocks_of(*names: str) -> list[PreviousRackBlock]:
    """One text for each block, its nodes in rank order; `-` where no place is known."""
    return [
        PreviousRackBlock(number, tuple(None if name == "-" else slot(name) for name in text.split()))
        for number, text in enumerate(names)
    ]


def free_of(names: str) -> FreeRacks:
    free: dict[int | str, dict[int, list[NodeId]]] = {}
    for name in names.split():
        superpod, rack, _ = name.split("/")
        free.setdefault(int(superpod), {}).setdefault(int(rack), []).append(name)
    return free


def again(
    previous: Sequence[PreviousRackBlock],
    free: str,
    *,
    running: str = "",
    faulty: str = "",
    level: Level = Level.POD,
    t: int = 1,
    soft: bool = False,
    ub: bool = False,
    seconds: float = LATE,
    minimum: int | None = None,
    classes: PodClasses | None = None,
) -> tuple[RackBlock, ...] | Reason:
    shape = RackShape(len(previous[0].slots), t, len(previous))
    request = RackRequest(shape, (), soft=soft, ub_memory=ub, minimum=minimum, classes=classes)
    fault = RackFault(set(running.split()), set(faulty.split()), Release(seconds), level, OUTLOOK)
    return reschedule(
        previous, free_of(free), request, fault, SIZE, lambda left, asked: select(left, asked, SIZE)
    )


def nodes(answer: tuple[RackBlock, ...] | Reason) -> dict[int, str]:
    assert not isinstance(answer, Reason), answer.message
    return {block.logical: " ".join(str(slot.node) for slot in block.slots) for block in answer}


# -- POD


def test_a_lost_place_is_filled_from_its_own_rack_R3() -> None:
    answer = again(blocks_of("0/0/a 0/0/b"), "0/0/x 0/1/y", running="0/0/a", faulty="0/0/b")
    assert nodes(answer) == {0: "0/0/a 0/0/x"}
    assert not isinstance(answer, Reason)
    assert answer[0].origin is RackOrigin.REFILLED


def test_without_a_free_node_in_its_rack_the_job_waits_R3() -> None:
    answer = again(blocks_of("0/0/a 0/0/b"), "0/1/y 0/1/z", running="0/0/a", faulty="0/0/b")
    assert isinstance(answer, Reason)
    assert answer.code == "rack-wait-for-same-rack"
    assert (answer.details["rack"], answer.details["missing"]) == (0, 1)
    assert answer.message.endswith(OUTLOOK)


def test_a_healthy_place_gets_its_own_node_back_R3() -> None:
    answer = again(blocks_of("0/0/a 0/0/b"), "0/0/b 0/0/x 0/0/a")
    assert nodes(answer) == {0: "0/0/a 0/0/b"}
    assert not isinstance(answer, Reason)
    assert answer[0].origin is RackOrigin.KEPT


def test_a_broken_block_does_not_take_the_places_of_an_intact_one_P7() -> None:
    answer = again(blocks_of("0/0/a 0/0/b", "0/0/c 0/0/d"), "0/0/c 0/0/d 0/0/a 0/0/z", faulty="0/0/b")
    assert nodes(answer) == {0: "0/0/a 0/0/z", 1: "0/0/c 0/0/d"}


def test_a_faulty_node_is_used_again_only_where_nothing_else_fits_F3() -> None:
    previous = blocks_of("0/0/a 0/0/b")
    assert nodes(again(previous, "0/0/b 0/0/x", running="0/0/a", faulty="0/0/b")) == {0: "0/0/a 0/0/x"}
    assert nodes(again(previous, "0/0/b", running="0/0/a", faulty="0/0/b")) == {0: "0/0/a 0/0/b"}
    # The second block never had a place.
    waiting = [*previous, *blocks_of("- -", "- -")[1:]]
    free = "0/0/b 0/0/x 0/0/y"
    assert nodes(again(waiting, free, running="0/0/a", faulty="0/0/b")) == {
        0: "0/0/a 0/0/x",
        1: "0/0/y 0/0/b",
    }


@pytest.mark.parametrize("level", list(Level))
def test_the_own_rack_with_a_healed_node_comes_before_other_racks_F3(level: Level) -> None:
    previous = blocks_of("0/0/a 0/0/b")
    free = "0/0/b 0/1/x 0/1/y 1/0/x 1/0/y"
    assert nodes(again(previous, free, running="0/0/a", faulty="0/0/b", level=level)) == {0: "0/0/a 0/0/b"}
    # A free node of the own rack that broke nothing comes first, also where pods differ.
    healthy = f"0/0/x {free}"
    assert nodes(again(previous, healthy, running="0/0/a", faulty="0/0/b", level=level)) == {0: "0/0/a 0/0/x"}


@pytest.mark.parametrize("level", [Level.POD, Level.BLOCK])
def test_of_several_healed_nodes_only_those_are_used_that_are_needed_F3(level: Level) -> None:
    """Places that get a node of their rack, and a block that moves as a whole."""
    lost = "0/0/a 0/0/b"
    answer = again(blocks_of(lost), f"{lost} 0/0/x", faulty=lost, level=level)
    assert nodes(answer) == {0: "0/0/x 0/0/a"}


def test_pods_that_differ_take_no_healed_node_while_others_hold_them_F3() -> None:
    """Both lost places fit the two healthy nodes, but only one way round."""
    classes = PodClasses({0: 0, 1: 0, 2: 1}, {"0/0/x": 0b11, "0/0/y": 0b01, "0/0/c": 0b10})
    answer = again(
        blocks_of("0/0/a 0/0/b 0/0/c"),
        "0/0/x 0/0/y 0/0/c",
        running="0/0/a",
        faulty="0/0/b 0/0/c",
        classes=classes,
    )
    assert nodes(answer) == {0: "0/0/a 0/0/y 0/0/x"}


@pytest.mark.parametrize("running", ["", "0/0/c"])
def test_nothing_is_waited_for_while_pods_run_P7(running: str) -> None:
    previous = blocks_of("0/0/a 0/0/b", "0/0/c 0/0/d")
    answer = again(
        previous, "0/0/a 0/0/d 0/0/x", running=running, faulty="" if running else "0/0/c", seconds=0
    )
    assert isinstance(answer, Reason) is (not running)


def test_a_node_whose_pod_terminates_too_long_is_not_waited_for_P7() -> None:
    request = RackRequest(RackShape(2, 1, 1), ())
    for given_up, waits in ((set[NodeId](), True), ({"0/0/b"}, False)):
        fault = RackFault(set(), set(), Release(0, given_up))
        answer = reschedule(
            blocks_of("0/0/a 0/0/b"),
            free_of("0/0/a 0/0/x"),
            request,
            fault,
            SIZE,
            lambda left, asked: select(left, asked, SIZE),
        )
        assert isinstance(answer, Reason) is waits


def test_a_job_waits_for_its_healthy_nodes_for_ten_seconds_P7() -> None:
    previous = blocks_of("0/0/a 0/0/b")
    waiting = again(previous, "0/0/a 0/0/x", seconds=9.0)
    assert isinstance(waiting, Reason)
    assert waiting.code == "superpod-wait-for-old-nodes"
    assert nodes(again(previous, "0/0/a 0/0/x", seconds=10.5)) == {0: "0/0/a 0/0/x"}


def test_a_place_nothing_is_known_of_is_filled_where_its_logical_rack_is_R3() -> None:
    answer = again(blocks_of("0/3/a - 0/4/c 0/4/d"), "0/3/x 0/2/y", running="0/3/a 0/4/c 0/4/d", t=2)
    assert nodes(answer) == {0: "0/3/a 0/3/x 0/4/c 0/4/d"}


# -- RACK


def test_a_broken_logical_rack_moves_to_the_smallest_rack_that_holds_it_R3() -> None:
    answer = again(
        blocks_of("0/0/a 0/0/b 0/0/c 0/0/d"),
        "0/0/c 0/1/x 0/1/y 0/1/z 0/2/u 0/2/v 1/0/w 1/0/k",
        running="0/0/a 0/0/b",
        faulty="0/0/d",
        level=Level.RACK,
        t=2,
    )
    assert nodes(answer) == {0: "0/0/a 0/0/b 0/2/u 0/2/v"}


def test_its_own_rack_comes_first_R3() -> None:
    answer = again(
        blocks_of("0/0/a 0/0/b 0/0/c 0/0/d"),
        "0/0/x 0/0/y 0/0/z 0/2/u 0/2/v",
        running="0/0/a 0/0/b",
        faulty="0/0/c 0/0/d",
        level=Level.RACK,
        t=2,
    )
    assert nodes(answer) == {0: "0/0/a 0/0/b 0/0/x 0/0/y"}


def test_all_lost_logical_racks_of_a_block_go_into_one_rack_that_holds_them_R3() -> None:
    answer = again(
        blocks_of("0/0/a 0/0/b 0/1/c 0/1/d"),
        "0/2/u 0/2/v 0/2/w 0/2/x 0/3/y 0/3/z 0/3/k 0/3/l 0/3/m",
        faulty="0/0/a 0/0/b 0/1/c 0/1/d",
        level=Level.RACK,
        t=2,
    )
    assert nodes(answer) == {0: "0/2/u 0/2/v 0/2/w 0/2/x"}


def test_where_no_rack_holds_them_all_each_finds_its_own_R3() -> None:
    answer = again(
        blocks_of("0/0/a 0/0/b 0/1/c 0/1/d"),
        "0/1/x 0/1/y 0/2/u 0/2/v 0/2/w",
        faulty="0/0/a 0/0/b 0/1/c 0/1/d",
        level=Level.RACK,
        t=2,
    )
    assert nodes(answer) == {0: "0/2/u 0/2/v 0/1/x 0/1/y"}


def test_another_superpod_is_not_tried_yet_R3() -> None:
    answer = again(
        blocks_of("0/0/a 0/0/b"),
        "0/1/x 1/0/y 1/0/z",
        faulty="0/0/a 0/0/b",
        level=Level.RACK,
        t=2,
    )
    assert isinstance(answer, Reason)
    assert answer.code == "rack-wait-for-same-superpod"
    assert answer.details["superpod"] == 0
    assert answer.message.endswith(OUTLOOK)


def test_a_logical_rack_with_running_pods_is_completed_where_they_are_R3() -> None:
    previous = blocks_of("0/0/a 0/0/b 0/0/c 0/0/d")
    free = "0/1/w 0/1/x 0/1/y 0/1/z"
    for level in (Level.RACK, Level.BLOCK, Level.JOB):
        answer = again(previous, free, running="0/0/a", faulty="0/0/b 0/0/c 0/0/d", level=level, t=4)
        assert isinstance(answer, Reason)
    stuck = again(previous, free, running="0/0/a", faulty="0/0/b 0/0/c 0/0/d", level=Level.JOB, t=4)
    assert isinstance(stuck, Reason)
    assert stuck.code == "rack-running-pods-hold-group"
    assert stuck.details["running"] == 1


def test_a_ub_memory_job_stays_in_its_domain_R1() -> None:
    previous = blocks_of("0/0/a 0/0/b 0/1/c 0/1/d")
    free = "0/16/u 0/16/v 0/5/x 0/5/y 0/5/z"
    answer = again(
        previous, free, running="0/0/a 0/0/b", faulty="0/1/c 0/1/d", level=Level.RACK, t=2, ub=True
    )
    assert nodes(answer) == {0: "0/0/a 0/0/b 0/5/x 0/5/y"}
    blocks = blocks_of("0/0/a 0/0/b", "0/1/c 0/1/d")
    moved = again(blocks, free, running="0/0/a 0/0/b", faulty="0/1/c 0/1/d", level=Level.BLOCK, t=2, ub=True)
    assert nodes(moved) == {0: "0/0/a 0/0/b", 1: "0/5/x 0/5/y"}
    none = again(
        blocks,
        "0/16/u 0/16/v 1/5/x 1/5/y",
        running="0/0/a 0/0/b",
        faulty="0/1/c 0/1/d",
        level=Level.BLOCK,
        t=2,
        ub=True,
    )
    assert isinstance(none, Reason)
    assert none.code == "rack-no-rack-holds-group"


# -- BLOCK and JOB


def test_a_block_that_lost_everything_moves_by_the_rules_for_new_jobs_R3() -> None:
    answer = again(
        blocks_of("0/0/a 0/0/b", "1/0/c 1/0/d"),
        "1/1/x 2/0/y 2/0/z",
        running="0/0/a 0/0/b",
        faulty="1/0/c 1/0/d",
        level=Level.BLOCK,
        t=2,
    )
    assert nodes(answer) == {0: "0/0/a 0/0/b", 1: "2/0/y 2/0/z"}


@pytest.mark.parametrize(
    ("running", "expected"),
    # By the rules for new jobs it goes where it leaves the fewest nodes; with a running pod it stays near it.
    [("", {0: "1/2/c 1/2/d"}), ("0/2/a", None)],
)
def test_a_block_without_an_intact_logical_rack_moves_as_a_whole_unless_a_pod_runs_R3(
    running: str, expected: dict[int, str] | None
) -> None:
    free = "0/1/a 0/1/b 0/2/a 1/2/c 1/2/d"
    answer = again(blocks_of("0/2/c 0/2/a"), free, running=running, faulty="0/2/c", level=Level.BLOCK, t=2)
    assert (None if isinstance(answer, Reason) else nodes(answer)) == expected


def test_intact_logical_racks_of_a_broken_block_stay_R3() -> None:
    answer = again(
        blocks_of("0/0/a 0/0/b 0/1/c 0/1/d"),
        "0/0/a 0/0/b 0/1/c 0/2/x 0/2/y 0/2/z 1/0/k 1/0/l 1/0/m 1/0/n",
        faulty="0/1/d",
        level=Level.BLOCK,
        t=2,
    )
    assert nodes(answer) == {0: "0/0/a 0/0/b 0/2/x 0/2/y"}


def test_a_block_whose_superpod_has_no_room_moves_as_a_whole_P7() -> None:
    answer = again(
        blocks_of("0/0/a 0/0/b 0/1/c 0/1/d"),
        "0/0/a 0/0/b 0/1/c 1/0/k 1/0/l 1/0/m 1/0/n",
        faulty="0/1/d",
        level=Level.BLOCK,
        t=2,
    )
    assert nodes(answer) == {0: "1/0/k 1/0/l 1/0/m 1/0/n"}


def test_the_stages_follow_the_open_blocks_not_the_whole_job_R1() -> None:
    """16 pods, 8 of them open: the rack that holds these 8 is closest, although no rack holds 16."""
    kept = " ".join(f"0/0/k{n}" for n in range(8))
    lost = " ".join(f"1/0/l{n}" for n in range(8))
    eight = " ".join(f"2/4/x{n}" for n in range(8))
    many = " ".join(f"3/{rack}/y{n}" for rack in range(3) for n in range(6))
    answer = again(blocks_of(kept, lost), f"{many} {eight}", running=kept, faulty=lost, level=Level.BLOCK)
    assert nodes(answer)[1] == eight


def test_where_no_placement_with_the_intact_blocks_exists_the_job_is_placed_anew_R3() -> None:
    previous = blocks_of("0/0/a 0/0/b", "0/0/c 0/0/d")
    free = "0/0/a 0/0/b 0/0/c 0/1/x"
    block = again(previous, free, faulty="0/0/d", level=Level.BLOCK, t=2, soft=False)
    assert isinstance(block, Reason)
    # UB memory: the intact block holds the job in a domain without room, so it has to move, too.
    free = "0/0/a 0/0/b 0/0/c 1/0/w 1/0/x 1/0/y 1/0/z"
    ub = again(previous, free, faulty="0/0/d", level=Level.JOB, t=2, ub=True)
    assert nodes(ub) == {0: "1/0/w 1/0/x", 1: "1/0/y 1/0/z"}
    below = again(previous, free, faulty="0/0/d", level=Level.BLOCK, t=2, ub=True)
    assert isinstance(below, Reason)


def test_a_running_pod_keeps_the_job_from_being_placed_anew_R3() -> None:
    answer = again(
        blocks_of("0/0/a 0/0/b", "0/0/c 0/0/d"),
        "1/0/w 1/0/x 1/0/y 1/0/z",
        running="0/0/a 0/0/b",
        faulty="0/0/c 0/0/d",
        level=Level.JOB,
        t=2,
        ub=True,
    )
    assert isinstance(answer, Reason)


def test_lost_places_of_a_soft_job_go_anywhere_at_block_level_R3() -> None:
    previous = blocks_of("0/0/a 0/0/b 0/0/c 0/0/d")
    free = "1/0/x 1/1/y 1/1/z"
    hard = again(previous, free, running="0/0/a 0/0/b", faulty="0/0/c 0/0/d", level=Level.BLOCK, t=2)
    assert isinstance(hard, Reason)
    soft = again(
        previous, free, running="0/0/a 0/0/b", faulty="0/0/c 0/0/d", level=Level.BLOCK, t=2, soft=True
    )
    assert nodes(soft) == {0: "0/0/a 0/0/b 1/0/x 1/1/y"}


# -- blocks that never had a place (P8)


def test_blocks_that_wait_since_the_start_are_placed_later_as_whole_blocks_P8() -> None:
    previous = blocks_of("0/0/a 0/0/b", "- -", "- -")
    answer = again(previous, "0/1/x 0/1/y 0/2/z", running="0/0/a 0/0/b", minimum=0, t=2)
    assert nodes(answer) == {0: "0/0/a 0/0/b", 1: "0/1/x 0/1/y"}


def test_lost_pods_do_not_wait_for_blocks_that_never_had_a_place_P8() -> None:
    previous = blocks_of("0/0/a 0/0/b", "- -")
    answer = again(previous, "0/0/x", running="0/0/a", faulty="0/0/b", minimum=0)
    assert nodes(answer) == {0: "0/0/a 0/0/x"}


# -- pods that differ


def test_a_replacement_gets_a_node_that_its_pod_can_take_P8() -> None:
    classes = PodClasses({0: 0, 1: 1}, {"0/0/x": 0b01, "0/0/y": 0b11})
    previous = blocks_of("0/0/a 0/0/b")
    answer = again(previous, "0/0/x 0/0/y", running="0/0/a", faulty="0/0/b", classes=classes)
    assert nodes(answer) == {0: "0/0/a 0/0/y"}
    both = again(previous, "0/0/y 0/0/x", faulty="0/0/a 0/0/b", classes=classes)
    assert nodes(both) == {0: "0/0/x 0/0/y"}


# -- levels


@pytest.mark.parametrize(
    ("seconds", "level"),
    [
        (0, Level.POD),
        (2.9, Level.POD),
        (3, Level.RACK),
        (5.9, Level.RACK),
        (6, Level.BLOCK),
        (11.9, Level.BLOCK),
        (12, Level.JOB),
    ],
)
def test_the_level_grows_with_the_seconds_F2(seconds: float, level: Level) -> None:
    assert LevelTimes().level_at(seconds) is level
    assert LevelTimes(30, 60, 120).level_at(seconds * 10) is level


# -- the map in the pods


def test_the_map_is_read_back_from_the_pods_R2() -> None:
    shape = RackShape(4, 2, 2)
    pods = [
        PlacedPod(rank, slot(f"0/{rank // 2}/n{rank}"), str(rank // 4), str(rank // 2))
        for rank in (0, 1, 3, 6)
    ]
    assert previous_blocks(pods, shape) == (
        PreviousRackBlock(0, (slot("0/0/n0"), slot("0/0/n1"), None, slot("0/1/n3"))),
        PreviousRackBlock(1, (None, None, slot("0/3/n6"), None)),
    )


def test_a_pod_with_another_rank_stands_for_a_place_of_its_logical_rack_R2() -> None:
    """A Deployment numbers its pods anew when one is replaced; the annotations remember."""
    shape = RackShape(4, 2, 2)
    moved = PlacedPod(1, slot("0/3/x"), "1", "3")
    full = PlacedPod(0, slot("0/3/y"), "1", "3")
    third = PlacedPod(2, slot("0/3/z"), "1", "3")
    odd = PlacedPod(9, slot("0/9/w"))
    found = previous_blocks([moved, full, third, odd], shape)
    assert [None if one is None else one.node for one in found[1].slots] == ["0/3/z", None, "0/3/y", "0/3/x"]
    assert all(one is None for one in found[0].slots)


@given(
    st.sets(st.integers(0, 7)),
    st.sets(st.integers(0, 7)),
    st.sets(st.integers(0, 7)),
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), max_size=10),
    st.sampled_from(Level),
    st.sampled_from([1, 2, 4]),
    st.booleans(),
)
def test_what_holds_after_every_fault_R3(
    lost: set[int],
    faulty: set[int],
    healed: set[int],
    spare: list[tuple[int, int]],
    level: Level,
    t: int,
    soft: bool,
) -> None:
    """Two blocks of four pods in SuperPoD 0; some pods are lost, some of their nodes are free again."""
    names = [f"0/{rank // 4}/n{rank}" for rank in range(8)]
    previous = blocks_of(" ".join(names[:4]), " ".join(names[4:]))
    running = {names[rank] for rank in range(8) if rank not in lost}
    returned = [names[rank] for rank in sorted(lost - (faulty - healed))]
    broken = {names[rank] for rank in lost & faulty}
    free = [*returned, *(f"{superpod}/{rack}/s{n}" for n, (superpod, rack) in enumerate(spare))]
    answer = again(
        previous,
        " ".join(free),
        running=" ".join(running),
        faulty=" ".join(broken),
        level=level,
        t=t,
        soft=soft,
    )
    if isinstance(answer, Reason):
        assert lost & faulty
        return
    taken = [str(slot.node) for block in answer for slot in block.slots]
    assert len(set(taken)) == 8
    assert all(node in running or node in free for node in taken)
    # F3: none that broke the job, while its rack has another one.
    racks = {node.rpartition("/")[0] for node in broken.intersection(taken)}
    others = [node for node in free if node.rpartition("/")[0] in racks and node not in broken]
    assert set(others) <= set(taken)
    for rank, node in enumerate(taken):
        if names[rank] in running:
            assert node == names[rank]
        if level is Level.POD:
            assert node.split("/")[:2] == names[rank].split("/")[:2]
        if level is Level.RACK:
            assert node.startswith("0/")
    for block in answer:
        places = set(range(block.logical * 4, block.logical * 4 + 4))
        if not places & lost & faulty:
            assert block.origin is RackOrigin.KEPT
            assert [str(slot.node) for slot in block.slots] == [names[rank] for rank in sorted(places)]
        if not soft:
            assert len({slot.superpod for slot in block.slots}) == 1
            for start in range(0, 4, t):
                assert len({slot.rack for slot in block.slots[start : start + t]}) == 1
