"""Physical SuperPoDs from what the nodes say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.topology.superpods import NodeId, build_superpods


def test_nodes_are_ordered_by_server_index_then_natural_order() -> None:
    superpods = build_superpods(
        [
            ("node-10", 2, None),
            ("node-9", 2, None),
            ("node-3", 2, 7),
            ("node-4", 2, 0),
            ("node-5", 2, -1),
            ("node-1", 0, 5),
            ("node-2", 10, 5),
        ],
        48,
    )
    assert dict(superpods.nodes_of) == {
        0: ("node-1",),
        2: ("node-4", "node-3", "node-5", "node-9", "node-10"),
        10: ("node-2",),
    }
    assert list(superpods.nodes_of) == [0, 2, 10]
    assert superpods.superpod_of["node-9"] == 2
    assert superpods.problems == ()


def test_dense_node_numbers_are_ordered_by_their_names() -> None:
    names = ["node-10", "node-9"]
    superpods = build_superpods([(0, 1, None), (1, 1, None)], 48, name_of=lambda node: names[int(node)])
    assert superpods.nodes_of[1] == (1, 0)


@pytest.mark.parametrize("said", [-1, -2, "-1", "-2"])
def test_a_node_that_reports_no_superpod_is_in_none_P6(said: int | str) -> None:
    superpods = build_superpods([("node-1", said, 0), ("node-2", 0, 0)], 48)
    assert dict(superpods.nodes_of) == {0: ("node-2",)}
    problem = superpods.node_problems["node-1"]
    assert problem.message == f"node node-1 reports that it is not in a SuperPoD (ID {said})"
    assert problem.code == "not-in-superpod"


@pytest.mark.parametrize("said", [-3, 2**32 - 1, 2**31, "-3", "", "pod-a", "1.5", " 3"])
def test_an_invalid_id_is_reported_and_not_guessed_P6(said: int | str) -> None:
    superpods = build_superpods([("node-1", said, 0), ("node-2", 0, 0)], 48)
    assert dict(superpods.nodes_of) == {0: ("node-2",)}
    assert list(superpods.node_problems) == ["node-1"]
    problem = superpods.node_problems["node-1"]
    assert problem.message == f"node node-1: invalid SuperPoD ID {said}: must be 0 to 2147483647"
    assert problem.fixes


def test_a_missing_id_is_not_superpod_zero_P6() -> None:
    superpods = build_superpods([("node-1", None, 0)], 48)
    assert not superpods.nodes_of
    assert superpods.problems[0].message == "node node-1 does not have a SuperPoD ID"


def test_an_id_written_as_text_is_the_number() -> None:
    superpods = build_superpods([("a", "3", None), ("b", 3, None)], 48)
    assert dict(superpods.nodes_of) == {3: ("a", "b")}


def test_a_superpod_larger_than_configured_is_reported_and_kept_P6() -> None:
    superpods = build_superpods([(f"n{number}", 7, number) for number in range(5)], 4)
    assert superpods.superpod_problems[7].message == "SuperPoD 7 has 5 nodes, more than super-pod-size 4"
    assert len(superpods.nodes_of[7]) == 5


def test_a_node_is_in_one_superpod() -> None:
    with pytest.raises(ValueError, match="node-1 is listed twice"):
        build_superpods([("node-1", 0, None), ("node-1", 1, None)], 48)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 40).map("node-{}".format),
            st.none() | st.integers(-2, 3),
            st.none() | st.integers(-2, 3),
        ),
        unique_by=lambda member: member[0],
    ),
    st.data(),
)
def test_order_of_input_changes_nothing_and_no_node_is_lost(
    members: list[tuple[NodeId, int | None, int | None]], data: st.DataObject
) -> None:
    superpods = build_superpods(members, 4)
    shuffled = build_superpods(data.draw(st.permutations(members)), 4)
    assert list(superpods.nodes_of.items()) == list(shuffled.nodes_of.items())
    assert superpods.problems == shuffled.problems
    placed = [node for nodes in superpods.nodes_of.values() for node in nodes]
    assert sorted(map(str, [*placed, *superpods.node_problems])) == sorted(
        str(node) for node, _, _ in members
    )
