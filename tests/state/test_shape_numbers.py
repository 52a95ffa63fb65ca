"""A label that starts to matter divides nodes that were alike; views must not mix old and new shapes."""

from __future__ import annotations

from ringwise.apps.extensions import new_scheduler
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind
from ringwise.state.model import Node
from tests.builders.values import CHIP, node, pod, seen
from tests.fingerprint import state_of


def test_a_selector_that_is_added_later_finds_its_node() -> None:
    """All nodes are one group when the label starts to matter: none of them may stay in it."""
    scheduler = new_scheduler()
    nodes = [node(f"node-{n}", labels={"zone": "a"}) for n in range(3)]
    scheduler.handle(seen(*nodes, pod("anywhere")), 1)
    scheduler.handle([ev.PodGone("anywhere")], 2)
    commands = scheduler.handle(seen(pod("there", node_selector=(("zone", "a"),))), 3)
    assert [(command.pod, command.node) for command in commands if isinstance(command, Bind)] == [
        ("there", "node-0")
    ]


def test_numbers_of_shapes_are_not_used_again() -> None:
    scheduler = new_scheduler()
    scheduler.handle(seen(node("node-0", labels={"zone": "a"})), 1)
    state = state_of(scheduler.view)
    before = state.shape_of(0)
    state.watch_labels(["zone"])
    after = state.shape_of(0)
    assert before is not None
    assert after is not None
    assert before.number != after.number


def test_nodes_that_differ_by_some_bytes_are_one_class() -> None:
    """Equal machines offer memory and disk that differ: each would cost as much as a kind of its own."""
    state = state_of(new_scheduler().view)
    for number in range(100):
        disk = ("ephemeral-storage", 900_000_000_123 + 4_096 * number)
        memory = 1_099_000_000_000 + 4_096 * number
        state.put_node(Node(f"node-{number}", memory=memory, extended=(disk,), chips_allocatable={CHIP: 8}))
    assert len(state.shapes) == 1
    state.put_node(Node("other", memory=1_100_000_000_000, chips_allocatable={CHIP: 8}))
    assert len(state.shapes) == 2


def test_round_amounts_and_counts_are_kept_as_they_are() -> None:
    state = state_of(new_scheduler().view)
    unit = (("example.com/unit", 5_001),)
    for place, memory in enumerate((755 << 30, 756 << 30, 4_097, 4_098)):
        number = state.put_node(Node(f"node-{place}", memory=memory, extended=unit))
        shape = state.shape_of(number)
        assert shape is not None
        assert (shape.node_class.memory, shape.node_class.most_memory) == (memory, memory)
        assert shape.node_class.extended == shape.node_class.most_extended == dict(unit)
