"""Free chips, stability, score adjustments, ranks and labels, beyond the worked cases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.placement.adjust import lower_for_health, prefer_previous_node
from ringwise.placement.free_chips import free_chips, stable
from ringwise.placement.node_fit import NodeChips, NodeFit, fit_node, missing_label, usable_chips
from ringwise.placement.ranks import rank_annotation
from ringwise.reasons import Reason
from ringwise.topology.boards import shipped_boards

MASKS = st.integers(0, 255)


@given(MASKS, MASKS, MASKS, MASKS, MASKS, st.booleans())
def test_what_is_held_is_never_free(
    listed: int, held: int, unhealthy: int, recovering: int, reported: int, self_maintain: bool
) -> None:
    free = free_chips(listed, held, unhealthy, recovering, reported, self_maintain)
    assert free & held == 0
    source = listed if self_maintain else reported
    for chip in range(8):
        bit = 1 << chip
        bad = self_maintain and bool((unhealthy | recovering) & bit)
        assert bool(free & bit) == (bool(source & bit) and not held & bit and not bad)


def test_stability() -> None:
    assert stable(0, 0, 0) is None
    for counts, code in (
        ((3, 2, 8), "node-unstable"),
        ((9, 9, 8), "more-free-than-capacity"),
        ((4, 9, 8), "idle-above-capacity"),
    ):
        reason = stable(*counts)
        assert reason is not None
        assert reason.code == code
        assert reason.cures


@pytest.mark.parametrize(
    ("scores", "rank", "after_fault", "changed"),
    [
        ({"a": 1.0, "b": 2.0}, 0, False, {"a": 102.0}),
        ({"a": 1.0, "b": 2.0, "c": 0.0}, 0, True, {"c": 102.0}),
        ({"b": 2.0}, 0, False, {"b": 102.0}),
        ({"b": 2.0}, 0, True, {}),
        ({"n10": 1.0, "n2": 1.0}, 7, False, {"n2": 101.0}),
        ({}, 0, False, {}),
    ],
)
def test_previous_node(
    scores: dict[str, float], rank: int, after_fault: bool, changed: dict[str, float]
) -> None:
    assert prefer_previous_node(scores, {0: "a", 1: "b"}, rank, after_fault) == changed


def test_scores_are_lowered_never_below_zero() -> None:
    scores = {"fine": 100, "ill": 100, "failed": 100, "low": 10, "none": 0}
    assert lower_for_health(scores, {"ill", "none"}, {"failed", "low"}) == {
        "fine": 100,
        "ill": 99,
        "failed": 36,
        "low": 0,
        "none": 0,
    }


def test_rank_is_only_given_where_nobody_else_gives_it() -> None:
    assert rank_annotation(None, "Job", False, 3) is None
    assert rank_annotation("0", "ReplicaSet", True, 3) == "0"


def test_network_faults_matter_to_multi_pod_jobs_on_boards_that_watch() -> None:
    boards = shipped_boards()
    assert usable_chips(boards["910b-x8"], 0b1111, 0b1, True) == 0b1110
    assert usable_chips(boards["910b-x8"], 0b1111, 0b1, False) == 0b1111
    assert usable_chips(boards["910-card"], 0b1111, None, True) == 0b1111
    unknown = usable_chips(boards["910b-x8"], 0b1111, None, True)
    assert isinstance(unknown, Reason)
    assert unknown.code == "network-health-unknown"


def test_label_of_a_node() -> None:
    board = shipped_boards()["310p-duo-chip"]
    assert missing_label(board, {"infer-card-type": "card-300i-duo"}) is None
    reason = missing_label(board, {"infer-card-type": "card-300i"})
    assert reason is not None
    assert "the node has card-300i" in reason.message
    answer = fit_node(board, NodeChips(free=0b11, allocatable=2), 1, False)
    assert isinstance(answer, Reason)
    assert "no such label" in answer.message


def test_a_node_that_fits_says_everything() -> None:
    answer = fit_node(shipped_boards()["910-x8"], NodeChips(free=0b00110001, allocatable=8), 1, False)
    assert answer == NodeFit(score=261, chips=(0,), group="A")
    unknown = fit_node(shipped_boards()["910-x8"], NodeChips(free=None, allocatable=8), 1, False)
    assert isinstance(unknown, Reason)
    assert unknown.code == "chips-unknown"
