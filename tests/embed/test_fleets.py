"""Generated clusters have the sizes asked for, for every shipped board."""

from __future__ import annotations

import pytest

from ringwise.embed.fleets import make_fleet
from ringwise.topology.boards import shipped_boards
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
    with pytest.raises(ValueError, match="did you mean 910b-x8"):
        make_fleet(1, "910bx8")
