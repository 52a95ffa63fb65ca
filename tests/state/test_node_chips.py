"""Rule N7: free chips, stability, network faults and labels of one node, beyond the worked cases."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ringwise.manifests.settings.boards import shipped_boards
from ringwise.reasons import Reason
from ringwise.state.cluster import ClusterState
from ringwise.topology.chips import chips_of, mask_of
from tests.builders.values import CHIP, node, pod
from tests.placement.one_node import NodeFit, ask, device_report, fleet_of, one_node

CHIPS = st.sets(st.integers(0, 7)).map(sorted)


@given(listed=CHIPS, held=CHIPS, unhealthy=CHIPS, recovering=CHIPS, reported=CHIPS, ours=st.booleans())
def test_a_free_chip_is_listed_healthy_and_not_held_N7(
    listed: list[int],
    held: list[int],
    unhealthy: list[int],
    recovering: list[int],
    reported: list[int],
    ours: bool,
) -> None:
    state = one_node(
        listed=listed,
        held=[held] if held else [],
        report=device_report(reported, unhealthy=unhealthy, recovering=recovering),
        allocatable=8,
        self_maintain=ours,
    )
    free = {chip for chip in (listed if ours else reported) if chip not in {*held, *unhealthy, *recovering}}
    assert fleet_of(state).free_mask[0] == mask_of(free)


def test_contradicting_counts_close_the_node_N7() -> None:
    for listed, idle, capacity, code in (
        (3, 2, 8, "unstable-node"),
        (9, 9, 8, "idle-above-capacity"),
        (4, 9, 8, "idle-above-capacity"),
        (0, 0, 0, None),
    ):
        state = one_node(report=device_report(range(listed)), allocatable=idle, capacity=capacity)
        closed = fleet_of(state).closed[0]
        assert (None if closed is None else closed.code) == code
        assert closed is None or closed.fixes


def test_network_faults_are_withheld_from_multi_pod_jobs_N1() -> None:
    boards = shipped_boards()
    ill = one_node(report=device_report(range(8), network=[0]), allocatable=8)
    assert isinstance(ask(boards["910b-x8"], ill, 8, True), Reason)
    assert isinstance(ask(boards["910b-x8"], ill, 8, False), NodeFit)
    silent = one_node(report=device_report(range(8), network=None), allocatable=8)
    assert isinstance(ask(boards["910-card"], silent, 1, True), NodeFit)
    unknown = ask(boards["910b-x8"], silent, 8, True)
    assert isinstance(unknown, Reason)
    assert unknown.code == "network-health-unknown"


def test_label_of_a_node_N1() -> None:
    board = shipped_boards()["310p-duo-chip"]
    duo = one_node(allocatable=2, labels={"infer-card-type": "card-300i-duo"})
    assert isinstance(ask(board, duo, 1, False), NodeFit)
    for labels, word in (({"infer-card-type": "card-300i"}, "card-300i"), ({}, "none")):
        refusal = ask(board, one_node(allocatable=2, labels=labels), 1, False)
        assert isinstance(refusal, Reason)
        assert refusal.message.endswith(f"the node has {word}")


def test_a_node_that_fits_has_score_group_and_chips_N3() -> None:
    board = shipped_boards()["910-x8"]
    node = one_node(listed=range(8), held=[[1, 2, 3], [6, 7]], allocatable=8)
    assert list(chips_of(fleet_of(node).free_mask[0])) == [0, 4, 5]
    assert ask(board, node, 1, False) == NodeFit(score=261, chips=(0,), group="A")


def test_a_node_that_lists_no_chips_has_those_kubernetes_counts_N7() -> None:
    board = shipped_boards()["910-x8"]
    assert isinstance(ask(board, one_node(allocatable=8), 8, False), NodeFit)
    refusal = ask(board, one_node(report=device_report([]), allocatable=8), 1, False)
    assert isinstance(refusal, Reason)
    assert refusal.fixes


def test_a_chip_that_two_pods_name_is_held_until_both_have_ended_N6() -> None:
    state = ClusterState()
    state.put_node(node("n1"))
    for name, chips in (("a", (0, 1)), ("b", (1, 2)), ("c", (1,))):
        state.put_pod(pod(name, len(chips), on="n1", holds=chips))
    fleet = state.fleets[CHIP]
    for name, held in (("a", (1, 2)), ("c", (1, 2)), ("b", ())):
        state.drop_pod(name)
        assert chips_of(fleet.held[0]) == held
