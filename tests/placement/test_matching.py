"""Pods that differ and nodes that can take some of them, against trying everything (P8, S13)."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from ringwise.placement.matching import can_match, first_matching, largest_matching, useful_nodes

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
