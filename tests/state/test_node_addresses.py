"""Nodes with the same internal address: the oldest keeps it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.state.model import Node
from ringwise.state.node_addresses import NodeAddresses
from ringwise.topology.natural import natural_key


def made(name: str, address: str, created: int = 0) -> Node:
    return Node(name, internal_ip=address, created=created)


@pytest.mark.parametrize(
    ("nodes", "order"),
    [
        ([("node-2", 1), ("node-1", 2)], ("node-2", "node-1")),
        ([("node-1", 2), ("node-2", 1)], ("node-2", "node-1")),
        # Equally old, or of unknown age: natural order.
        ([("node-10", 5), ("node-2", 5)], ("node-2", "node-10")),
        ([("node-3", 7), ("node-1", 9), ("node-2", 8)], ("node-3", "node-2", "node-1")),
    ],
)
def test_the_oldest_node_keeps_the_address(nodes: list[tuple[str, int]], order: tuple[str, ...]) -> None:
    addresses = NodeAddresses()
    known = {name: made(name, "10.0.0.1", created) for name, created in nodes}
    for one in known.values():
        addresses.change(None, one)
    assert addresses.duplicates == {"10.0.0.1": order}
    assert [name for name in order if addresses.holds(known[name])] == [order[0]]
    # The next one gets it when the oldest is gone.
    addresses.change(known[order[0]], None)
    assert addresses.holds(known[order[1]])


def test_nodes_without_an_address_have_none_in_common() -> None:
    addresses = NodeAddresses()
    for name in ("node-1", "node-2"):
        addresses.change(None, made(name, ""))
        assert addresses.holds(made(name, ""))
    assert addresses.duplicates == {}


def test_a_node_that_reports_the_name_of_another_as_its_address_does_not_get_its_place() -> None:
    addresses = NodeAddresses()
    old, new = made("10.0.0.1", "", created=1), made("joins", "10.0.0.1", created=2)
    for node in (old, new):
        addresses.change(None, node)
    assert addresses.holds(old)
    assert not addresses.holds(new)


_NAMES, _ADDRESSES = ["node-1", "node-2", "10.0.0.2"], ["", "10.0.0.1", "10.0.0.2"]


@given(
    st.lists(
        st.tuples(st.sampled_from(_NAMES), st.sampled_from([None, *_ADDRESSES]), st.integers(0, 2)),
        max_size=20,
    )
)
def test_the_table_is_that_of_the_nodes_that_exist(steps: list[tuple[str, str | None, int]]) -> None:
    addresses, nodes = NodeAddresses(), dict[str, Node]()
    for name, address, created in steps:
        old = nodes.pop(name, None)
        if address is not None:
            nodes[name] = made(name, address, created)
        addresses.change(old, nodes.get(name))
        expected = {}
        for one in _ADDRESSES[1:]:
            claims = [node for node in nodes.values() if (node.internal_ip or node.name) == one]
            if len(claims) > 1:
                ordered = sorted(claims, key=lambda node: (node.created, natural_key(node.name)))
                expected[one] = tuple(node.name for node in ordered)
        assert addresses.duplicates == expected
