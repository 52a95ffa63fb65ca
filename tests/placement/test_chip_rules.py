"""Chip rules (N3, N4, N5) against a second, slower implementation."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.manifests.settings.boards import shipped_boards
from ringwise.placement.rules import RULES, chip_rule, protocol
from ringwise.reasons import Reason
from ringwise.topology.board import Board
from ringwise.topology.chips import chips_of, mask_of
from ringwise.topology.rule_specs import RULE_SPECS

BOARDS = list(shipped_boards().values())
ANY_BOARD = pytest.mark.parametrize("board", BOARDS, ids=[board.name for board in BOARDS])
EIGHT = shipped_boards()["910-x8"]


@st.composite
def nodes(draw: st.DrawFn) -> tuple[Board, int, int, int]:
    """A board and the free chips, allocatable and faulty count of a node of it."""
    board = draw(st.sampled_from(BOARDS))
    free = draw(st.integers(0, (1 << board.chips_per_node) - 1))
    if draw(st.booleans()):
        free &= draw(st.integers(0, (1 << board.chips_per_node) - 1))
    faulty = draw(st.integers(0, board.chips_per_node - free.bit_count()))
    return board, free, board.chips_per_node - faulty, faulty


def fits_by_trying(board: Board, usable: int, request: int, multi_pod: bool) -> bool:
    """Whether some choice of chips satisfies the board, by what a choice must look like."""
    return any(
        acceptable(board, usable, choice, multi_pod) for choice in combinations(chips_of(usable), request)
    )


def acceptable(board: Board, usable: int, choice: tuple[int, ...], multi_pod: bool) -> bool:
    chosen, request = mask_of(choice), len(choice)
    per_ring = [(chosen & ring).bit_count() for ring in board.ring_masks]
    sizes = [len(ring) for ring in board.rings]
    in_one_ring = sum(1 for count in per_ring if count) == 1
    whole_rings = all(count in (0, size) for count, size in zip(per_ring, sizes, strict=True))
    if board.rule in ("free-count", "broken-cards-first"):
        return True
    if board.rule == "ring-groups":
        return request in board.one_pod and (in_one_ring or request == board.chips_per_node)
    if board.rule == "one-card":
        return in_one_ring
    if board.rule == "two-chip-cards":
        return request == 1 or whole_rings
    if board.rule == "meshes":
        size = sizes[0]
        return in_one_ring if request < size else whole_rings or request % size != 0
    if board.rule == "paired-rings":
        if request <= sizes[0]:
            return in_one_ring
        left, right = (chosen & mask for mask in board.ring_masks)
        if multi_pod:
            return left.bit_count() == right.bit_count()
        return left == right >> sizes[0]
    assert board.rule == "whole-cards"
    broken = sum(1 for count in per_ring if count == 1)
    return broken == request % 2


@given(st.data())
def test_fits_exactly_when_some_choice_of_chips_is_acceptable_N4(data: st.DataObject) -> None:
    board = data.draw(st.sampled_from(BOARDS))
    chips = data.draw(st.sets(st.integers(0, board.chips_per_node - 1), max_size=10))
    request = data.draw(st.integers(1, min(10, board.chips_per_node)))
    multi_pod = data.draw(st.booleans())
    usable = mask_of(chips)
    rule = chip_rule(board)
    score = rule.score(rule.signature(usable, board.chips_per_node, 0), request, multi_pod)
    assert (score is not None) == fits_by_trying(board, usable, request, multi_pod)


@given(nodes(), st.integers(1, 64), st.booleans())
def test_chips_are_free_distinct_and_acceptable_N5(
    node: tuple[Board, int, int, int], request: int, multi_pod: bool
) -> None:
    board, usable, allocatable, faulty = node
    rule = chip_rule(board)
    request = 1 + request % board.chips_per_node
    score = rule.score(rule.signature(usable, allocatable, faulty), request, multi_pod)
    chips = rule.chips(usable, request, multi_pod)
    if score is None:
        assert chips == ()
        reason = rule.lack(usable, request, multi_pod)
        assert isinstance(reason, Reason)
        assert "unknown)" not in reason.message + "".join(reason.fixes)
        assert not re.search(r"(^|\s)-\d", reason.message), "a negative number explains nothing"
        assert str(request) in reason.message
        assert reason.fixes
        return
    assert score >= 0
    assert len(chips) == request
    assert len(set(chips)) == request
    assert mask_of(chips) & ~usable == 0
    assert acceptable(board, usable, chips, multi_pod)
    assert rule.chips(usable, request, multi_pod) == chips


@given(st.sampled_from(BOARDS), st.data())
def test_equal_signatures_score_equally_N4(board: Board, data: st.DataObject) -> None:
    """A node whose rings are swapped, or whose chips moved inside a ring, is the same node to the score."""
    rule = chip_rule(board)
    usable = data.draw(st.integers(0, (1 << board.chips_per_node) - 1))
    faulty = data.draw(st.integers(0, board.chips_per_node))
    allocatable = data.draw(st.integers(0, board.chips_per_node))
    moved = 0
    for ring in board.rings or (tuple(range(board.chips_per_node)),):
        free = [chip for chip in ring if usable >> chip & 1]
        moved |= mask_of(data.draw(st.permutations(ring))[: len(free)])
    one = rule.signature(usable, allocatable, faulty)
    other = rule.signature(moved, allocatable, faulty)
    for request in range(1, board.chips_per_node + 1):
        for multi_pod in (False, True):
            if one == other:
                assert rule.score(one, request, multi_pod) == rule.score(other, request, multi_pod)
                assert bool(rule.chips(usable, request, multi_pod)) == bool(
                    rule.chips(moved, request, multi_pod)
                )
    if board.rule != "paired-rings":
        assert one == other


@ANY_BOARD
def test_few_signatures(board: Board) -> None:
    """The index has one bucket for each signature: there must be few of them."""
    rule = chip_rule(board)
    step = max(1, (1 << board.chips_per_node) // 4099)
    seen: set[Hashable] = {
        rule.signature(usable, board.chips_per_node, 0)
        for usable in range(0, 1 << board.chips_per_node, step)
    }
    assert len(seen) <= 300


@ANY_BOARD
def test_more_free_chips_than_the_board_has_never_fit_N4(board: Board) -> None:
    rule = chip_rule(board)
    usable = (1 << board.chips_per_node + 1) - 1
    assert rule.score(rule.signature(usable, board.chips_per_node, 0), 1, False) is None
    assert rule.chips(usable, 1, False) == ()
    assert rule.lack(usable, 1, False).code == "more-chips-than-board"


@ANY_BOARD
def test_nothing_fits_an_empty_node_and_a_request_of_none_is_unfit_N4(board: Board) -> None:
    rule = chip_rule(board)
    full = (1 << board.chips_per_node) - 1
    assert rule.score(rule.signature(0, board.chips_per_node, 0), 1, False) is None
    assert rule.score(rule.signature(full, board.chips_per_node, 0), 0, False) is None
    assert rule.chips(full, 0, False) == ()
    assert rule.score(rule.signature(full, board.chips_per_node, 0), board.chips_per_node + 1, False) is None


GROUP_ORDER = {1: (1, 3, 2, 4), 2: (2, 4, 3), 4: (4,)}


def documents_order(usable: int, allocatable: int, request: int) -> tuple[int, int, int] | None:
    """Healthy capacity descending, group A to D, free chips ascending; smaller is better."""
    left, right = (usable & 15).bit_count(), (usable >> 4).bit_count()
    if request == 8:
        return (-allocatable, 0, 8) if left + right == 8 else None
    for group, count in enumerate(GROUP_ORDER[request]):
        if count in (left, right):
            return (-allocatable, group, left + right)
    return None


def test_910_x8_scores_are_in_the_documents_order_N3() -> None:
    rule = chip_rule(EIGHT)
    for request in (1, 2, 4, 8):
        ranked = []
        for usable in range(256):
            for allocatable in range(max(1, usable.bit_count()), 9):
                signature = rule.signature(usable, allocatable, 8 - allocatable)
                score = rule.score(signature, request, False)
                key = documents_order(usable, allocatable, request)
                assert (score is None) == (key is None)
                if score is None or key is None:
                    assert rule.group(signature, request) is None
                    continue
                assert rule.group(signature, request) == "ABCD"[key[1]]
                ranked.append((key, score))
        ranked.sort()
        for (worse_key, worse), (better_key, better) in zip(ranked[1:], ranked, strict=False):
            assert (better > worse) if better_key < worse_key else (better == worse)


def test_910_x8_takes_the_ring_of_the_group_left_before_right_lowest_ids_N5() -> None:
    rule = chip_rule(EIGHT)
    for usable in range(1, 256):
        left, right = chips_of(usable & 15), chips_of(usable & 240)
        for request, counts in GROUP_ORDER.items():
            wanted: tuple[int, ...] = ()
            for count in counts:
                ring = next((ring for ring in (left, right) if len(ring) == count), None)
                if ring is not None:
                    wanted = ring[:request]
                    break
            assert rule.chips(usable, request, False) == wanted


@pytest.mark.parametrize(
    ("board", "free", "request_", "multi_pod", "code", "words"),
    [
        ("910-x8", [0, 4], 2, False, "no-ring-holds-request", "free per ring: 1, 1; 1 short"),
        ("910-x8", [0, 1, 2, 3, 4], 8, True, "node-not-wholly-free", "all 8 chips of the node"),
        ("910-x8", range(8), 3, False, "request-has-no-place", "1, 2, 4, 8"),
        (
            "910b-x16",
            [0, 1, 2, 3, 4, 10, 11, 12, 13, 14],
            10,
            False,
            "not-enough-pairs-across-rings",
            "pairs with one chip of each ring (at the same position), 3 free",
        ),
        ("910b-x16", [0, 8], 11, False, "request-has-no-place", "1-8, 10, 12, 14, 16"),
        ("a3-x16", [0, 2, 4, 5], 4, False, "not-enough-whole-rings", "2 completely free cards; 1 is"),
        ("mesh4-x8", [0, 1, 4, 5], 3, False, "no-ring-holds-request", "free per mesh: 2, 2"),
        ("310-card", range(64), 5, False, "request-larger-than-ring", "a card of 310-card has 4"),
        ("310p-duo-chip-distributed", [0, 2, 4], 3, False, "not-enough-whole-rings", "1 completely free"),
        ("910b-x8", [3], 2, False, "not-enough-free-chips", "2 chips requested, 1 free"),
    ],
)
def test_lack_names_what_is_missing_N4(
    board: str, free: list[int], request_: int, multi_pod: bool, code: str, words: str
) -> None:
    reason = chip_rule(shipped_boards()[board]).lack(mask_of(free), request_, multi_pod)
    assert reason.code == code
    assert words in reason.message


def test_a_rule_remembers_a_bounded_number_of_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_CACHE_SIZE", 5)
    board = shipped_boards()["910b-x8"]
    rule, other = RULES[board.rule](board), chip_rule(board)
    for usable in range(1 << 8):
        signature = rule.signature(usable, 8, 0)
        assert signature == other.signature(usable, 8, 0)
        assert rule.score(signature, 2, False) == other.score(signature, 2, False)
        assert rule.chips(usable, 2, False) == other.chips(usable, 2, False)
    sizes = [len(value) for value in vars(rule).values() if isinstance(value, dict)]
    assert len(sizes) >= 3
    assert max(sizes) <= 5


def test_registry_and_profiles_have_the_same_rules_N1() -> None:
    assert set(RULES) == set(RULE_SPECS)
    assert {board.rule for board in BOARDS} == set(RULES)


@pytest.mark.parametrize(
    ("board", "free", "request_", "chips"),
    [
        ("310-chip", [0, 1, 2, 3, 4, 5, 6, 8, 9, 12], 4, (12, 8, 9, 4)),
        ("310-chip", [0, 1, 4, 5, 9], 2, (9, 0)),
        ("310p-duo-chip", [0, 1, 2, 5], 3, (2, 5, 0)),
        ("310p-duo-chip-distributed", [0, 1, 2, 3, 5], 3, (5, 0, 1)),
        ("310p-duo-chip-distributed", [0, 1, 2, 3], 3, (0, 1, 2)),
        ("310p-duo-chip-distributed", [0, 2, 4, 5], 2, (4, 5)),
        ("310-card", [0, 1, 2, 3, 4, 5, 8, 9, 10], 1, (8,)),
        ("310p-duo-card", [0, 1, 3], 1, (3,)),
        ("a3-x16", [0, 1, 4, 7], 1, (4,)),
        ("a3-x16", [1, 2, 3, 6, 7, 8, 9], 4, (2, 3, 6, 7)),
        ("mesh4-x16", [0, 1, 2, 3, 5, 6, 9, 10], 2, (5, 6)),
        ("910b-x16", [0, 1, 2, 8, 9], 2, (8, 9)),
        ("910b-x16", range(8, 16), 8, (8, 9, 10, 11, 12, 13, 14, 15)),
        ("910b-x16", range(16), 10, (0, 8, 1, 9, 2, 10, 3, 11, 4, 12)),
        ("910b-x8", [7, 2, 5], 2, (2, 5)),
    ],
)
def test_which_chips_are_taken_N5(
    board: str, free: Iterable[int], request_: int, chips: tuple[int, ...]
) -> None:
    assert chip_rule(shipped_boards()[board]).chips(mask_of(free), request_, False) == chips


@ANY_BOARD
@pytest.mark.parametrize("multi_pod", [False, True])
def test_all_chips_of_a_board_are_written_in_ascending_order_N5(board: Board, multi_pod: bool) -> None:
    rule = chip_rule(board)
    everything = (1 << board.chips_per_node) - 1
    chips = rule.chips(everything, board.chips_per_node, multi_pod)
    assert chips in ((), tuple(range(board.chips_per_node)))
    assert bool(chips) == (board.rule != "one-card")


@pytest.mark.parametrize(
    ("free", "request_", "score"),
    [
        ([0, 2, 4, 5, 6, 7, 8], 1, 72),
        ([0, 2, 4, 5, 6, 7, 8, 9], 1, 0),
        ([0, 2, 4, 5, 6, 7, 8, 9], 2, 72),
        (range(8), 1, 32),
        (range(9), 2, 0),
        (range(10), 3, 0),
    ],
)
def test_distributed_duo_nodes_beyond_the_tables_score_nothing_N4(
    free: list[int], request_: int, score: int
) -> None:
    rule = chip_rule(shipped_boards()["310p-duo-chip-distributed"])
    assert rule.score(rule.signature(mask_of(free), 16, 0), request_, False) == score


def test_faults_lower_the_score_only_where_the_profile_has_it_N4() -> None:
    for name, difference in (("910b-x8", 100), ("310p", 0), ("850-x8-superpod", 0), ("a3-x16", 0)):
        rule = chip_rule(shipped_boards()[name])
        healthy, ill = (rule.score(rule.signature(0b11, 8, faulty), 2, False) for faulty in (0, 1))
        assert healthy is not None
        assert ill is not None
        assert healthy - ill == difference, name


def test_a_single_chip_breaks_no_whole_card_on_a3_but_follows_the_free_count_in_superpods_N4() -> None:
    broken, whole = mask_of([0, 2, 4]), mask_of([0, 1])
    scores = {}
    for name in ("a3-x16", "a3-x16-superpod"):
        rule = chip_rule(shipped_boards()[name])
        scores[name] = [rule.score(rule.signature(usable, 16, 0), 1, False) for usable in (broken, whole)]
    assert scores == {"a3-x16": [480, 240], "a3-x16-superpod": [480, 496]}


def test_tight_node_scores_put_the_fewest_free_chips_before_the_group_K() -> None:
    rule = chip_rule(EIGHT, "tight-node")
    for request in (1, 2, 4, 8):
        for usable in range(256):
            for allocatable in range(max(1, usable.bit_count()), 9):
                signature = rule.signature(usable, allocatable, 8 - allocatable)
                key = documents_order(usable, allocatable, request)
                score = rule.score(signature, request, False)
                if key is None:
                    assert score is None
                    continue
                _, group, free = key
                assert score == 36 * allocatable + 4 * (8 - free) + (3 - group)
                assert rule.chips(usable, request, False) == chip_rule(EIGHT).chips(usable, request, False)


@ANY_BOARD
def test_tight_node_is_for_boards_with_groups_K(board: Board) -> None:
    assert (chip_rule(board, "tight-node") is chip_rule(board)) == (board.rule != "ring-groups")
