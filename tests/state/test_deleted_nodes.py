"""The id of a deleted node is given to a new one, unless pods or reservations refer to it."""

from __future__ import annotations

from ringwise.framework.budget import StepBudget
from ringwise.framework.preferred_nodes import PreferredNodes, scored_nodes
from ringwise.state.cluster import ClusterState
from ringwise.state.fleet import HOSTS
from ringwise.state.model import Node, unreadable_pod
from ringwise.state.reservations import Reservation, Reservations
from tests.builders.values import CHIP, node, pod
from tests.fingerprint import fingerprint


def test_nodes_that_come_and_go_leave_nothing() -> None:
    state = ClusterState()
    for number in range(100):
        state.put_node(node(f"node-{number}"))
        state.settle()
        state.drop_node(f"node-{number - 1}")
    assert len(state.names) <= 2
    assert [state.names[number] for number in state.existing_nodes()] == ["node-99"]
    assert state.fleets[CHIP].free_total == 8


def test_a_deleted_node_with_a_pod_keeps_its_id() -> None:
    state = ClusterState()
    first = state.put_node(node("a"))
    state.put_pod(pod("p", 2, uid="u", namespace="team", on="a", holds=(0, 1)))
    state.drop_node("a")
    assert state.put_node(node("b")) != first
    assert state.put_node(node("a")) == first
    assert state.fleets[CHIP].held[first] == 0b11


def test_a_deleted_node_with_a_reservation_keeps_its_id() -> None:
    state = ClusterState()
    first = state.put_node(node("a"))
    state.settle()
    reservations = Reservations(state)
    reservations.make(Reservation("team/job", CHIP, {first: 0b1}))
    state.drop_node("a")
    assert state.put_node(node("b")) != first
    reservations.lift("team/job")
    assert state.put_node(node("c")) == first


def test_labels_that_no_pod_asks_for_are_forgotten() -> None:
    state = ClusterState()
    state.watch_labels(["board"], always=True)
    for number in range(1000):
        state.watch_labels([f"key-{number}"])
    assert "board" in state.shapes.watched
    assert len(state.shapes.watched) < 200


def test_a_node_that_is_not_ready_is_closed_for_every_pod() -> None:
    state = ClusterState()
    number = state.put_node(Node("a", ready=False, chips_allocatable={CHIP: 8}))
    for resource in (CHIP, HOSTS):
        reason = state.closed(number, resource)
        assert reason is not None
        assert reason.code == "node-not-ready"


def test_a_resource_whose_only_pod_is_released_for_a_moment_is_kept() -> None:
    state = ClusterState()
    state.put_node(node("a"))
    state.put_pod(pod("p", 1, on="a", resource="huawei.com/Ascend310P", holds=(0,)))
    assert state.fleets["huawei.com/Ascend310P"].unhealthy == [0]
    state.settle()
    before = fingerprint(state)
    mark = state.checkpoint()
    state.release("p")
    state.settle()
    state.rollback(mark)
    assert fingerprint(state) == before


def test_a_node_that_changes_often_hides_no_node_of_its_kind() -> None:
    state = ClusterState()
    for name in ("node-1", "node-2"):
        state.put_node(node(name))
    view = state.host_view()
    for _ in range(100):
        state.put_pod(pod("p", 0, cpu_milli=1_000, on="node-1"))
        state.drop_pod("p")
    state.put_pod(pod("p", 0, on="node-1"))
    assert view.best(0, lambda shape: not shape.pods) == (1, 0)


def test_of_equal_nodes_the_first_is_preferred_though_its_shape_is_rated_lower() -> None:
    state = ClusterState()
    for name in ("node-1", "node-2"):
        state.put_node(node(name))
    view = state.host_view()
    state.put_pod(pod("p", 0, on="node-1"))
    extras = PreferredNodes([scored_nodes({0: 1.0}, 0b11)], 0b11, StepBudget())
    found = view.best_preferred(
        0, lambda shape: True, lambda shape: 1.0 - shape.pods, extras, weight=None, within=None
    )
    assert found == (0, 0)


def test_n7_an_unreadable_pod_closes_its_node_for_every_resource_of_chips() -> None:
    state = ClusterState()
    other = "huawei.com/Ascend310P"
    number = state.put_node(Node("a", chips_allocatable={CHIP: 8, other: 4}))
    state.settle()
    state.put_pod(unreadable_pod("u", "team", "p", "a"))
    state.put_pod(unreadable_pod("v", "team", "q", "a"))
    for resource in (CHIP, other):
        reason = state.closed(number, resource)
        assert reason is not None
        assert reason.code == "invalid-pod"
    assert state.closed(number, HOSTS) is None
    state.drop_pod("u")
    assert state.closed(number, other) is not None
    # It was corrected, and asks for no chips.
    state.put_pod(pod("q", 0, uid="v", namespace="team", on="a"))
    assert state.closed(number, CHIP) is state.closed(number, other) is None
