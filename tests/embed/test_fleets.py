"""Generated clusters have the sizes asked for, for every shipped board."""

from __future__ import annotations

import re

import pytest

from ringwise.embed.fleets import make_fleet, make_mixed_fleet, parse_boards
from ringwise.manifests.settings.boards import shipped_boards
from ringwise.topology.switches import resolve


@pytest.mark.parametrize("board", sorted(shipped_boards()))
def test_every_board_can_be_generated(board: str) -> None:
    profile = shipped_boards()[board]
    fleet = make_fleet(3, board)
    for node, report in zip(fleet.nodes, fleet.reports, strict=True):
        assert node.devices is not None
        assert len(node.devices) == profile.chips_per_node
        assert node.chips_allocatable == {profile.resources[0]: profile.chips_per_node}
        assert report.node == node.name
        assert report.free == (1 << profile.chips_per_node) - 1
        assert dict(profile.node_labels).items() <= node.labels.items()
        assert (node.superpod is not None) == profile.superpod


def test_leaf_switches_hold_the_nodes_in_order_and_the_last_may_be_short() -> None:
    fleet = make_fleet(10, leaf_size=4)
    assert fleet.topology is not None
    assert fleet.topology.problems == ()
    bound = resolve(fleet.topology, {node.internal_ip: node.name for node in fleet.nodes})
    assert bound.problems == ()
    rows = [[seat.node for seat in row] for row in bound.nodes]
    assert rows == [[f"node-{n}" for n in range(4)], [f"node-{n}" for n in range(4, 8)], ["node-8", "node-9"]]


def test_superpods_are_filled_in_order() -> None:
    fleet = make_fleet(5, "a3-x16-superpod", superpod_size=2)
    assert [(node.superpod, node.server_index) for node in fleet.nodes] == [
        (0, "0"),
        (0, "1"),
        (1, "0"),
        (1, "1"),
        (2, "0"),
    ]
    assert [report.superpod for report in fleet.reports] == [0, 0, 1, 1, 2]


def test_racks_are_filled_in_order() -> None:
    fleet = make_fleet(20, "950-x8-rack", superpod_size=12)
    racks = [0] * 8 + [1] * 4 + [0] * 8
    assert [node.rack for node in fleet.nodes] == racks
    assert [report.rack for report in fleet.reports] == racks
    assert [node.labels["huawei.com/topotree.rackid"] for node in fleet.nodes] == [str(one) for one in racks]
    assert all(node.rack is None for node in make_fleet(3, "a3-x16-superpod").nodes)


@pytest.mark.full
def test_addresses_are_unique() -> None:
    fleet = make_fleet(70_000, chips=1)
    assert len({node.internal_ip for node in fleet.nodes}) == 70_000


@pytest.mark.parametrize(
    ("nodes", "leaf_size", "chips", "superpod_size", "why"),
    [
        (0, None, None, None, "nodes must be 1 or more, got 0"),
        (1, 0, None, None, "leaf size must be 1 or more, got 0"),
        (1, None, 0, None, "chips must be 1 or more, got 0"),
        (1, None, None, -1, "SuperPoD size must be 1 or more, got -1"),
    ],
)
def test_invalid_sizes_are_rejected(
    nodes: int, leaf_size: int | None, chips: int | None, superpod_size: int | None, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        make_fleet(nodes, leaf_size=leaf_size, chips=chips, superpod_size=superpod_size)


def test_an_unknown_board_gives_the_nearest_name() -> None:
    with pytest.raises(ValueError, match='did you mean "910b-x8"'):
        make_fleet(1, "910bx8")


def test_several_boards_are_numbered_through() -> None:
    fleet = make_mixed_fleet(
        [("310p", 2), ("a3-x16-superpod", 3), ("910-x8", 4), ("950-x8-rack", 2)], leaf_size=2, superpod_size=2
    )
    assert [node.name for node in fleet.nodes] == [f"node-{n}" for n in range(11)]
    assert [report.node for report in fleet.reports] == [node.name for node in fleet.nodes]
    chips = [next(iter(node.chips_capacity.items())) for node in fleet.nodes]
    assert chips[:2] == [("huawei.com/Ascend310P", 64)] * 2
    assert chips[5:9] == [("huawei.com/Ascend910", 8)] * 4
    # SuperPoDs of different boards are different ones, and boards without them are in none.
    assert [node.superpod for node in fleet.nodes] == [None, None, 0, 0, 1, None, None, None, None, 2, 2]
    addresses = [device.ip for node in fleet.nodes for device in node.devices or ()]
    assert len(set(addresses)) == len(addresses)


def test_no_leaf_switch_has_two_boards() -> None:
    fleet = make_mixed_fleet([("910-x8", 3), ("310p", 1)], leaf_size=2)
    assert fleet.topology is not None
    assert fleet.topology.problems == ()
    bound = resolve(fleet.topology, {node.internal_ip: node.name for node in fleet.nodes})
    assert [[seat.node for seat in row] for row in bound.nodes] == [
        ["node-0", "node-1"],
        ["node-2"],
        ["node-3"],
    ]


@pytest.mark.parametrize("board", ["910-x8", "a3-x16-superpod", "310p"])
def test_one_board_of_a_mixed_fleet_is_that_board(board: str) -> None:
    assert make_mixed_fleet([(board, 5)], leaf_size=2) == make_fleet(5, board, leaf_size=2)


def test_boards_with_their_nodes() -> None:
    assert parse_boards("910-x8", 16) == (("910-x8", 16),)
    assert parse_boards("910-x8:200, 310p:50", 16) == (("910-x8", 200), ("310p", 50))
    assert parse_boards("910-x8", 0) == (("910-x8", 0),)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("910-x8,310p", "the number of nodes of 910-x8 is missing; expected 910-x8:NUMBER"),
        ("910-x8:2,310p", "the number of nodes of 310p is missing; expected 310p:NUMBER"),
        ("910-x8:2,910-x8:3", "910-x8 is listed twice"),
        ("910-x8:0", '"910-x8:0" must have a whole number, at least 1, after the colon'),
        ("910-x8:many", '"910-x8:many" must have a whole number, at least 1, after the colon'),
        ("910-x8:", '"910-x8:" must have a whole number, at least 1, after the colon'),
        ("910-x8:2,", "a name is missing"),
        (":2", "a name is missing"),
        ("", "a name is missing"),
        ("910-x9:2,310p:1", 'board "910-x9" not found; must be one of'),
        ("910-x8:99999,310p:2", "has 100001 nodes; the limit of a lab is 100000"),
    ],
)
def test_boards_that_cannot_be(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)) as caught:
        parse_boards(text, 16)
    assert "\n" not in str(caught.value)
