"""What is reserved for one job is free for that job only."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.manifests.settings.boards import shipped_boards
from ringwise.placement.rules import chip_rule
from ringwise.state.cluster import ClusterState
from ringwise.state.fleet import HOSTS
from ringwise.state.index import View
from ringwise.state.loads import Load, load_of
from ringwise.state.model import Node
from ringwise.state.reservations import Reservation, Reservations
from tests.builders.values import CHIP, pod
from tests.fingerprint import fingerprint


def a_cluster() -> tuple[ClusterState, View]:
    state = ClusterState()
    for name in ("node-1", "node-2"):
        state.put_node(Node(name, chips_allocatable={CHIP: 8}))
    board = shipped_boards()["910-x8"]
    return state, state.view(CHIP, board.name, chip_rule(board), False, False)


def test_reserved_chips_are_free_for_their_owner_only_S9() -> None:
    state, view = a_cluster()
    kept = Reservations(state)
    before = fingerprint(state)
    kept.make(Reservation("x/big", CHIP, {0: 0xFF}))
    assert view.best(8, lambda shape: True) == (1, 256)
    with kept.open_to("x/big"):
        assert view.best(8, lambda shape: True) == (0, 256)
    assert view.best(8, lambda shape: True) == (1, 256)
    kept.lift("x/big")
    assert fingerprint(state) == before


def test_a_chip_held_by_another_pod_is_reserved_from_the_moment_it_is_released_S9() -> None:
    state, view = a_cluster()
    state.put_pod(pod("p", 4, uid="u", namespace="x", on="node-1", phase="Pending", holds=(0, 1, 2, 3)))
    kept = Reservations(state)
    kept.make(Reservation("x/big", CHIP, {0: 0xFF, 1: 0xFF}))
    state.drop_pod("u")
    assert view.best(1, lambda shape: True) is None
    with kept.open_to("x/big"):
        assert view.best(4, lambda shape: True) is not None


def test_chips_are_reserved_for_one_job_at_a_time() -> None:
    state, _ = a_cluster()
    kept = Reservations(state)
    kept.make(Reservation("x/a", CHIP, {0: 0x0F}))
    kept.make(Reservation("x/b", CHIP, {0: 0xFF}))
    second = kept.of("x/b")
    assert second is not None
    assert second.chips == {0: 0xF0}
    assert [r.owner for r in kept.expired(10**18)] == []


def _cpu_node(cpu: int) -> ClusterState:
    state = ClusterState()
    state.put_node(Node("node-1", cpu_milli=cpu, memory=1 << 30, max_pods=10))
    state.host_view()
    return state


def _used(state: ClusterState) -> tuple[int, int, int]:
    shape = state.shape_of(0)
    assert shape is not None
    return shape.cpu_used, shape.memory_used, shape.pods


def test_reserved_cpu_memory_and_pods_count_as_used_for_all_but_their_owner() -> None:
    state = _cpu_node(16_000)
    kept = Reservations(state)
    before = fingerprint(state)
    kept.make(Reservation("x/a", HOSTS, loads={0: Load(6_000, 100, 2, (("x.io/nic", 1),))}))
    assert _used(state) == (6_000, 100, 2)
    with kept.open_to("x/a"), kept.open_to("x/a"):
        assert _used(state) == (0, 0, 0)
    assert _used(state) == (6_000, 100, 2)
    kept.lift("x/a")
    assert fingerprint(state) == before


@pytest.mark.parametrize(
    ("load", "sound"),
    [
        (Load(16_000, 1 << 30, 10), True),
        (Load(16_001, 1 << 30, 10), False),
        (Load(16_000, 1 << 31, 10), False),
        (Load(16_000, 1 << 30, 11), False),
        (Load(16_000, 1 << 30, 10, (("x.io/nic", 1),)), False),
    ],
)
def test_what_a_node_cannot_hold_is_not_reserved_on_it(load: Load, sound: bool) -> None:
    reservation = Reservation("x/a", HOSTS, loads={0: load})
    assert Reservations(_cpu_node(16_000)).is_sound(reservation) is sound


def test_what_an_awaited_pod_uses_is_not_counted_a_second_time() -> None:
    """12 of 16 cpu are reserved and 8 of them are in use by a pod that has to go: 4 stay for others."""
    state = _cpu_node(16_000)
    state.put_pod(pod("p", 0, uid="u", cpu_milli=8_000, namespace="x", on="node-1", phase="Pending"))
    state.put_pod(pod("q", 0, uid="v", cpu_milli=1_000, namespace="x", on="node-1", phase="Pending"))
    kept = Reservations(state)
    kept.make(Reservation("x/a", HOSTS, loads={0: Load(12_000, 0, 1)}, awaited=frozenset({"u"})))
    assert _used(state) == (13_000, 0, 2)
    # A second job waits for the same pod: it cannot have the same cpu.
    kept.make(Reservation("x/b", HOSTS, loads={0: Load(2_000, 0, 1)}, awaited=frozenset({"u"})))
    assert _used(state) == (15_000, 0, 3)
    state.drop_pod("u")
    assert _used(state) == (15_000, 0, 3)
    kept.lift("x/a")
    assert _used(state) == (3_000, 0, 2)


@pytest.mark.parametrize(
    ("nodes", "chips"),
    [((0, 0), {0: 0x33}), ((0, 1), {0: 0x03, 1: 0x30})],
    ids=["one-node", "two-nodes"],
)
def test_all_chips_of_failed_bindings_are_reserved_again_S9(
    nodes: tuple[int, int], chips: dict[int, int]
) -> None:
    state, _ = a_cluster()
    kept = Reservations(state)
    kept.make(Reservation("x/a", CHIP, {0: 0x33, 1: 0x30}))
    kept.use("x/a", until=100)
    for node, mask in zip(nodes, (0x03, 0x30), strict=True):
        kept.binding_failed("x/a", node, mask, pod("p", 2).cls, now=10)
    again = kept.of("x/a")
    assert again is not None
    assert again.chips == chips
    assert {node: load.pods for node, load in again.loads.items()} == dict(Counter(nodes))
    assert kept.expired(99) == []
    assert kept.expired(100) == [again]


@given(st.data())
def test_reserved_amounts_never_depend_on_the_order_of_events(data: st.DataObject) -> None:
    state = _cpu_node(64_000)
    kept = Reservations(state)
    for step in range(data.draw(st.integers(1, 25))):
        uid = f"p{data.draw(st.integers(0, 4))}"
        owner = f"x/{data.draw(st.integers(0, 2))}"
        match data.draw(st.integers(0, 4)):
            case 0:
                cpu = 1_000 * data.draw(st.integers(1, 8))
                state.put_pod(pod(uid, 0, cpu_milli=cpu, namespace="x", on="node-1", phase="Pending"))
            case 1:
                state.drop_pod(uid)
            case 2:
                awaited = frozenset(data.draw(st.sets(st.sampled_from([f"p{n}" for n in range(5)]))))
                load = Load(1_000 * data.draw(st.integers(1, 16)), step, 1)
                kept.make(Reservation(owner, HOSTS, loads={0: load}, awaited=awaited))
            case 3:
                kept.lift(owner)
            case _:
                before = fingerprint(state)
                with kept.open_to(owner):
                    pass
                assert fingerprint(state) == before
    there = load_of(state.pods[uid].pod.cls for uid in state.pods_on[0])
    total = there + state.reserved_load(0)
    assert _used(state) == (total.cpu_milli, total.memory, total.pods)
    # At least the largest reservation is kept, whichever of its pods are still there.
    assert all(total.cpu_milli >= load.cpu_milli for r in kept for load in r.loads.values())
    for reservation in list(kept):
        kept.lift(reservation.owner)
    assert _used(state)[0] == there.cpu_milli
