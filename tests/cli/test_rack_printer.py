"""Drawn racks: what a person sees is what the pictures hold."""

from __future__ import annotations

from ringwise.cli.printers.superpods import draw_racks
from ringwise.views.documents.topology import RackFields, SuperPodFields
from ringwise.views.topology import NodesByUse


def superpod(identity: int, *racks: RackFields) -> SuperPodFields:
    nodes = NodesByUse()
    for rack in racks:
        nodes.free += rack.free
        nodes.busy += rack.busy
        nodes.unusable += rack.unusable
        for block in rack.blocks:
            nodes.blocks.setdefault((block.job, block.block), []).extend(block.nodes)
    return SuperPodFields(superpod=identity, reserved_nodes=0, racks=list(racks), **nodes.fields())


def rack(number: int, free: int, busy: int = 0, unusable: int = 0, **blocks: tuple[int, int]) -> RackFields:
    """`train=(0, 4)` puts 4 nodes of block 0 of the job into the rack."""

    def names(kind: str, count: int) -> list[str]:
        return [f"{number}-{kind}-{one}" for one in range(count)]

    nodes = NodesByUse(
        names("free", free),
        names("busy", busy),
        names("unusable", unusable),
        {(job, block): names(job, count) for job, (block, count) in blocks.items()},
    )
    return RackFields(rack=number, **nodes.fields())


def test_every_node_has_a_sign_and_every_sign_a_meaning() -> None:
    drawn = draw_racks([superpod(3, rack(0, 2, 1, 1, b=(1, 2), a=(0, 2)), rack(5, 8))]).plain
    assert drawn == (
        "SuperPoD 3  10 free in 2 racks; a: block 0; b: block 1\n"
        "  0 |AABB#x..|  5 |........|\n"
        "one symbol per node, one box per rack: A a, B b, # other pods, x unusable, . free"
    )


def test_neighbors_that_look_the_same_share_a_box() -> None:
    racks = [rack(number, 0, train=(number // 2, 8)) for number in range(4)]
    racks += [rack(number, 8) for number in (4, 5, 7)]
    assert draw_racks([superpod(0, *racks)]).plain.splitlines()[:2] == [
        "SuperPoD 0  24 free in 7 racks; train: blocks 0-1",
        "  0-3 |AAAAAAAA|  4-5 |........|    7 |........|",
    ]


def test_long_lists_are_broken_and_superpods_without_blocks_are_counted() -> None:
    empty = [superpod(number, *(rack(2 * one, 4) for one in range(6))) for number in range(5)]
    used = superpod(9, rack(0, 0, train=(0, 8)))
    drawn = draw_racks([*empty, used], most=6).plain.splitlines()
    assert drawn == [
        "SuperPoD 0  24 free in 6 racks",
        "   0 |....|   2 |....|   4 |....|   6 |....|",
        "   8 |....|  10 |....|",
        "SuperPoD 9  0 free in 1 rack; train: block 0",
        "  0 |AAAAAAAA|",
        "and 4 more SuperPoDs with 96 free nodes",
        "one symbol per node, one box per rack: A train, . free",
    ]


def test_nodes_in_no_rack_are_counted() -> None:
    picture = superpod(0, rack(0, 3))
    picture.free.append("lost")
    picture.free_nodes += 1
    assert draw_racks([picture]).plain.startswith("SuperPoD 0  4 free in 1 rack; 1 node in no rack\n")
