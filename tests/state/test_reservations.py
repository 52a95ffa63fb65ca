"""Chips reserved for one job are free for that job only."""

from __future__ import annotations

from ringwise.placement.rules import chip_rule
from ringwise.state.cluster import ClusterState
from ringwise.state.index import View
from ringwise.state.model import Node, Pod, PodClass
from ringwise.state.reservations import Reservation, Reservations
from ringwise.topology.boards import shipped_boards
from tests.fingerprint import fingerprint

RESOURCE = "huawei.com/Ascend910"


def a_cluster() -> tuple[ClusterState, View]:
    state = ClusterState()
    for name in ("node-1", "node-2"):
        state.put_node(Node(name, chips_allocatable={RESOURCE: 8}))
    board = shipped_boards()["910-x8"]
    return state, state.view(RESOURCE, board.name, chip_rule(board), False, False)


def test_reserved_chips_are_free_for_their_owner_only_S9() -> None:
    state, view = a_cluster()
    kept = Reservations(state)
    before = fingerprint(state)
    kept.make(Reservation("x/big", RESOURCE, {0: 0xFF}))
    assert view.best(8, lambda shape: True) == (1, 256)
    with kept.open_to("x/big"):
        assert view.best(8, lambda shape: True) == (0, 256)
    assert view.best(8, lambda shape: True) == (1, 256)
    kept.lift("x/big")
    assert fingerprint(state) == before


def test_a_chip_held_by_another_pod_is_reserved_from_the_moment_it_is_released_S9() -> None:
    state, view = a_cluster()
    state.put_pod(Pod("u", "x", "p", PodClass(resource=RESOURCE, chips=4), node="node-1", holds=(0, 1, 2, 3)))
    kept = Reservations(state)
    kept.make(Reservation("x/big", RESOURCE, {0: 0xFF, 1: 0xFF}))
    state.drop_pod("u")
    assert view.best(1, lambda shape: True) is None
    with kept.open_to("x/big"):
        assert view.best(4, lambda shape: True) is not None


def test_chips_are_reserved_for_one_job_at_a_time() -> None:
    state, _ = a_cluster()
    kept = Reservations(state)
    kept.make(Reservation("x/a", RESOURCE, {0: 0x0F}))
    kept.make(Reservation("x/b", RESOURCE, {0: 0xFF}))
    second = kept.of("x/b")
    assert second is not None
    assert second.chips == {0: 0xF0}
    assert [r.owner for r in kept.expired(10**18)] == []
