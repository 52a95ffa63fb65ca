"""Physical racks as the nodes report them (R1)."""

from __future__ import annotations

import pytest

from ringwise.manifests.settings.boards import parse_board, shipped_boards
from ringwise.manifests.text.errors import DocumentError
from ringwise.topology.racks import build_racks
from ringwise.topology.superpods import build_superpods


def test_racks_count_inside_their_superpod_R1() -> None:
    said = {"n10": (0, 1), "n2": (0, 1), "a": (0, 0), "b": (3, 1)}
    superpods = build_superpods(((node, place[0], None) for node, place in said.items()), 48)
    racks = build_racks(superpods, lambda node: said[str(node)][1])
    assert {superpod: dict(found) for superpod, found in racks.nodes_of.items()} == {
        0: {0: ("a",), 1: ("n2", "n10")},
        3: {1: ("b",)},
    }
    assert racks.rack_of["n10"] == (0, 1)
    assert not racks.node_problems


@pytest.mark.parametrize(
    ("rack", "code"), [(None, "rack-id-missing"), (-1, "rack-id-invalid"), (2**31, "rack-id-invalid")]
)
def test_a_node_without_a_usable_id_is_in_no_rack_R1(rack: int | None, code: str) -> None:
    superpods = build_superpods([("n0", 0, 0), ("n1", 0, 1), ("lost", None, 2)], 48)
    racks = build_racks(superpods, lambda node: 5 if node == "n0" else rack)
    assert {superpod: dict(found) for superpod, found in racks.nodes_of.items()} == {0: {5: ("n0",)}}
    assert {node: problem.code for node, problem in racks.node_problems.items()} == {
        "n1": code,
        "lost": "superpod-id-missing",
    }
    assert "n1" in racks.node_problems["n1"].message


PROFILE = """
name = "mine"
resources = ["huawei.com/npu"]
policies = ["mine"]
chips_per_node = 8
superpod = {superpod}
{racks}
[requests]
one_pod = "1-8"
[rule]
name = "free-count"
"""


def test_a_board_says_how_large_its_racks_are_N1() -> None:
    board = shipped_boards()["950-x8-rack"]
    assert (board.rack_nodes, board.domain_racks, board.superpod) == (8, 16, True)
    assert [one.name for one in shipped_boards().values() if one.rack_nodes] == ["950-x8-rack"]


@pytest.mark.parametrize(
    ("superpod", "racks", "field"),
    [
        ("false", "rack_nodes = 8\ndomain_racks = 16", "rack_nodes"),
        ("true", "rack_nodes = 8", "rack_nodes"),
        ("true", "domain_racks = 16", "rack_nodes"),
        ("true", "rack_nodes = -8\ndomain_racks = 16", "rack_nodes"),
    ],
)
def test_a_profile_with_half_of_the_racks_is_wrong_N1(superpod: str, racks: str, field: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_board(PROFILE.format(superpod=superpod, racks=racks), "mine.toml")
    assert [error.field for error in caught.value.errors] == [field]
