"""Pods that differ on nodes in groups, against trying everything (S13)."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.placement.matching import Matching
from ringwise.placement.node_groups import PickGroup, assign_in_groups
from tests.examples import examples
from tests.placement import matching_reference as reference

pods = st.lists(st.integers(0, 2), max_size=4)
groups = st.lists(st.tuples(st.lists(st.integers(0, 7), max_size=4), st.integers(0, 3)), max_size=3)


def every_way(pods: list[int], groups: list[tuple[list[int], int]]) -> list[tuple[int | None, ...]]:
    """All ways that give every group its number, in the order in which they are preferred."""
    nodes = [(group, mask) for group, (masks, _) in enumerate(groups) for mask in masks]
    wanted = [count for _, count in groups]
    omitted = len(pods) - sum(wanted)
    if omitted < 0:
        return []
    choices: list[int | None] = [*range(len(nodes)), *[None] * omitted]
    found = []
    for chosen in permutations(choices, len(pods)):
        used = [node for node in chosen if node is not None]
        per_group = [sum(nodes[node][0] == group for node in used) for group in range(len(groups))]
        fits = all(node is None or nodes[node][1] >> cls & 1 for cls, node in zip(pods, chosen, strict=True))
        if fits and per_group == wanted:
            found.append(chosen)
    # A pod without a node comes after every pod with one.
    return sorted(found, key=lambda chosen: [len(nodes) if node is None else node for node in chosen])


@given(pods, groups)
@settings(max_examples=examples(100))
def test_the_first_of_all_assignments_is_chosen_S13(
    pods: list[int], groups: list[tuple[list[int], int]]
) -> None:
    every = every_way(pods, groups)
    found = assign_in_groups(pods, [PickGroup(masks, count) for masks, count in groups])
    if found is None:
        assert not every
        return
    offsets = [sum(len(masks) for masks, _ in groups[:number]) for number in range(len(groups))]
    assert tuple(None if one is None else offsets[one[0]] + one[1] for one in found) == every[0]


def test_a_thousand_pods_of_three_roles_are_assigned_at_once_S13() -> None:
    many = [0] * 300 + [1] * 300 + [2] * 400
    found = assign_in_groups(many, [PickGroup([1, 2, 4, 7, 7, 3, 6, 5, 7, 7], 10) for _ in range(100)])
    assert found is not None
    assert len(set(found)) == 1000


@st.composite
def many_classes(draw: st.DrawFn) -> tuple[list[int], list[PickGroup]]:
    """Pods that nearly all differ, in groups that mostly can have their numbers."""
    classes = draw(st.integers(1, 10))
    pods = draw(st.lists(st.integers(0, classes - 1), max_size=12))
    masks = st.lists(st.integers(0, (1 << classes) - 1), max_size=7)
    matching = Matching(Counter(pods))
    groups: list[PickGroup] = []
    for nodes in draw(st.lists(masks, max_size=4)):
        gain = sum(matching.add(mask) for mask in nodes)
        groups.append(PickGroup(nodes, max(0, gain - draw(st.integers(-1, 1)))))
    return pods, groups


@given(many_classes())
@settings(max_examples=examples(150))
def test_a_repaired_assignment_is_the_one_from_scratch_S13(
    case: tuple[list[int], list[PickGroup]],
) -> None:
    pods, groups = case
    assert assign_in_groups(pods, groups) == reference.assign_in_groups(pods, groups)
