"""Where how large a volume can be made: whatever is published, the index answers as a look at all objects."""

from __future__ import annotations

import random

from ringwise.framework.selectors import all_hold
from ringwise.state.cluster import ClusterState
from ringwise.state.model import Node, Requirement
from ringwise.state.volume_table import VolumeTable, put
from ringwise.state.volumes import CsiDriver, StorageCapacity, StorageClass

FAST = StorageClass("fast", "disk.example.com", waits_for_pod=True)
SELECTORS: tuple[tuple[Requirement, ...] | None, ...] = (
    None,
    (),
    *((Requirement("host", "In", (f"h{number}",)),) for number in range(6)),
    *((Requirement("zone", "In", (zone,)), Requirement("rack", "In", ("r1",))) for zone in "ab"),
    (Requirement("zone", "In", ("a", "b")),),
    (Requirement("rack", "DoesNotExist"),),
    (Requirement("zone", "NotIn", ("a",)),),
)


def random_node(number: int, chosen: random.Random) -> Node:
    labels = {"host": f"h{number}", "zone": chosen.choice("abc")}
    return Node(f"n{number}", labels=labels | ({"rack": chosen.choice(("r1", "r2"))} if number % 2 else {}))


def test_it_answers_as_a_look_at_all_objects() -> None:
    chosen = random.Random(7)
    for _ in range(20):
        state = ClusterState()
        table = state.volumes
        put(table.drivers, CsiDriver(FAST.provisioner, publishes_capacity=True))
        for number in range(6):
            state.put_node(random_node(number, chosen))
        for _ in range(40):
            name = f"c{chosen.randrange(8)}"
            match chosen.randrange(6):
                case 0:
                    table.drop_capacity(f"kube-system/{name}")
                case 1:
                    state.put_node(random_node(chosen.randrange(6), chosen))
                case _:
                    storage_class = chosen.choice(("fast", "fast", "fast", "other"))
                    where = chosen.choice(SELECTORS)
                    size = chosen.randrange(5)
                    one = StorageCapacity("kube-system", name, storage_class, where, size)
                    before = {size: _naive(state, table, size) for size in range(1, 5)}
                    growth = table.put_capacity(one)
                    grown = {size for size in before if storage_class == "fast"} - {
                        size for size in before if not _naive(state, table, size) & ~before[size]
                    }
                    # Nobody who can use what is new is overlooked.
                    told = range(growth.above + 1, growth.largest + 1) if growth is not None else range(0)
                    assert grown <= set(told)
            _compare(state, table)


def _compare(state: ClusterState, table: VolumeTable) -> None:
    capacities = table.capacities_of(FAST)
    if not table.capacities:
        assert capacities is None
        return
    assert capacities is not None
    for size in range(1, 5):
        assert capacities.nodes_for(state.labels, size) == _naive(state, table, size)
        # Kept, until something changes.
        assert capacities.is_known(state.labels, size) or not capacities.count
    for number in state.existing_nodes():
        found = state.nodes[number]
        assert found is not None
        largest = max((one.largest for one in _of(table, found)), default=0)
        assert capacities.largest_for(state.labels, number, found.labels) == largest


def _naive(state: ClusterState, table: VolumeTable, size: int) -> int:
    found = 0
    for number in state.existing_nodes():
        known = state.nodes[number]
        if known is not None and any(one.largest >= size for one in _of(table, known)):
            found |= 1 << number
    return found


def _of(table: VolumeTable, node: Node) -> list[StorageCapacity]:
    return [
        one
        for one in table.capacities.values()
        if one.storage_class == "fast" and one.nodes is not None and all_hold(one.nodes, node.labels)
    ]


def test_a_write_that_passes_no_size_changes_nothing_that_was_found() -> None:
    state = ClusterState()
    table = state.volumes
    put(table.drivers, CsiDriver(FAST.provisioner, publishes_capacity=True))
    state.put_node(Node("n1", labels={"host": "h1"}))
    nodes = (Requirement("host", "In", ("h1",)),)
    table.put_capacity(StorageCapacity("kube-system", "c", "fast", nodes, 100))
    capacities = table.capacities_of(FAST)
    assert capacities is not None
    for size in (10, 90, 150):
        capacities.nodes_for(state.labels, size)
    table.put_capacity(StorageCapacity("kube-system", "c", "fast", nodes, 80))
    assert [capacities.is_known(state.labels, size) for size in (10, 90, 150)] == [True, False, True]
    assert capacities.nodes_for(state.labels, 90) == 0
