"""Pods that differ and nodes that can take some of them, against trying everything (P8, S13)."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.placement.matching import Matching, can_match, largest_matching, useful_nodes
from ringwise.placement.node_groups import Completion, first_matching
from tests.examples import examples
from tests.placement import matching_reference as reference

pods = st.lists(st.integers(0, 2), max_size=5)
nodes = st.lists(st.integers(0, 7), max_size=6)


def matchings(pods: list[int], nodes: list[int]) -> list[tuple[int, ...]]:
    """All ways to give every pod a node of its own, in the order in which they are preferred."""
    return [
        chosen
        for chosen in permutations(range(len(nodes)), len(pods))
        if all(nodes[node] >> cls & 1 for cls, node in zip(pods, chosen, strict=True))
    ]


@given(pods, nodes)
def test_the_first_of_all_matchings_is_chosen_P8(pods: list[int], nodes: list[int]) -> None:
    every = matchings(pods, nodes)
    assert first_matching(pods, nodes) == (list(every[0]) if every else None)
    assert can_match(pods, nodes) == bool(every)


@given(pods, nodes)
def test_the_largest_matching_leaves_the_fewest_pods_without_a_node_P8(
    pods: list[int], nodes: list[int]
) -> None:
    subsets = [
        [pod for number, pod in enumerate(pods) if chosen >> number & 1] for chosen in range(1 << len(pods))
    ]
    best = max(len(subset) for subset in subsets if matchings(subset, nodes))
    assert largest_matching(Counter(pods), Counter(nodes)) == best


@given(pods, nodes)
def test_useful_nodes_hold_as_many_pods_as_all_nodes_S13(pods: list[int], nodes: list[int]) -> None:
    useful = useful_nodes(pods, nodes)
    assert useful == sorted(useful)
    assert len(useful) == largest_matching(Counter(pods), Counter(nodes))
    assert largest_matching(Counter(pods), Counter(nodes[node] for node in useful)) == len(useful)


def test_many_pods_and_nodes_are_matched_by_class_S13() -> None:
    pods = [0] * 300 + [1] * 300
    nodes = [3] * 300 + [1] * 300
    chosen = first_matching(pods, nodes)
    assert chosen == [*range(300, 600), *range(300)]


@st.composite
def many_classes(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Pods that nearly all differ, and nodes for few or for many of them."""
    classes = draw(st.integers(1, 12))
    pods = draw(st.lists(st.integers(0, classes - 1), max_size=14))
    nodes = draw(st.lists(st.integers(0, (1 << classes) - 1), max_size=16))
    return pods, nodes


@given(many_classes())
@settings(max_examples=examples(150))
def test_a_matching_that_is_repaired_is_the_one_from_scratch_P8_S13(
    case: tuple[list[int], list[int]],
) -> None:
    pods, nodes = case
    assert first_matching(pods, nodes) == reference.first_matching(pods, nodes)
    assert useful_nodes(pods, nodes) == reference.useful_nodes(pods, nodes)
    assert can_match(pods, nodes) == reference.can_match(pods, nodes)


@given(many_classes(), st.integers(0, 16))
@settings(max_examples=examples(150))
def test_a_trial_counts_what_nodes_would_add_and_changes_nothing_S13(
    case: tuple[list[int], list[int]], taken: int
) -> None:
    pods, nodes = case
    demand = Counter(pods)
    matching = Matching(demand)
    for mask in nodes[:taken]:
        matching.add(mask)
    held, every = (reference.largest_matching(demand, Counter(some)) for some in (nodes[:taken], nodes))
    assert matching.matched == held
    for _ in range(2):
        assert matching.gain(Counter(nodes[taken:]).items()) == every - held
        assert matching.matched == held
    for mask in nodes[taken:]:
        matching.add(mask)
    assert matching.matched == every


@given(many_classes())
@settings(max_examples=examples(150))
def test_spared_nodes_hold_no_pod_that_could_not_have_another_S9(case: tuple[list[int], list[int]]) -> None:
    pods, nodes = case
    demand, supply = Counter(pods), Counter(nodes)
    matching = Matching(demand)
    for mask, count in supply.items():
        matching.add(mask, count)
    least = min(matching.matched, len(nodes) - 1)
    held = {mask: reference.largest_matching(demand, supply - Counter([mask])) for mask in supply}
    assert matching.spared(supply) == {mask for mask, count in held.items() if count >= least}


@given(many_classes(), st.integers(1, 6))
@settings(max_examples=examples(150))
def test_pods_are_given_nodes_only_where_the_others_can_be_completed_P8(
    case: tuple[list[int], list[int]], first: int
) -> None:
    pods, nodes = case
    completion = Completion(pods, nodes)
    assert completion.possible == reference.can_match(pods, nodes)
    if not completion.possible:
        return
    left = list(nodes)
    while pods:
        run, pods = pods[:first], pods[first:]
        # The last nodes first: they are often those that others need.
        chosen = reference.first_matching(run, left[::-1])
        assert chosen is not None
        given = [left[::-1][place] for place in chosen]
        rest = Counter(left) - Counter(given)
        completes = reference.largest_matching(Counter(pods), rest) == len(pods)
        assert completion.give(run, given) == completes
        if not completes:
            # It is as if nothing was tried.
            again = reference.first_matching([*run, *pods], left)
            assert again is not None
            given = [left[place] for place in again[: len(run)]]
            assert completion.give(run, given)
        left = list((Counter(left) - Counter(given)).elements())
