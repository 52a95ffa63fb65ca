"""Pods that differ on nodes in parts, against trying everything (S13)."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.placement.matching import Matching
from ringwise.placement.parts import Part, assign_in_parts
from tests.examples import examples
from tests.placement import matching_reference as reference

pods = st.lists(st.integers(0, 2), max_size=4)
parts = st.lists(st.tuples(st.lists(st.integers(0, 7), max_size=4), st.integers(0, 3)), max_size=3)


def every_way(pods: list[int], parts: list[tuple[list[int], int]]) -> list[tuple[int | None, ...]]:
    """All ways that give every part its number, in the order in which they are preferred."""
    nodes = [(part, mask) for part, (masks, _) in enumerate(parts) for mask in masks]
    wanted = [count for _, count in parts]
    left_out = len(pods) - sum(wanted)
    if left_out < 0:
        return []
    choices: list[int | None] = [*range(len(nodes)), *[None] * left_out]
    found = []
    for chosen in permutations(choices, len(pods)):
        used = [node for node in chosen if node is not None]
        per_part = [sum(nodes[node][0] == part for node in used) for part in range(len(parts))]
        fits = all(node is None or nodes[node][1] >> cls & 1 for cls, node in zip(pods, chosen, strict=True))
        if fits and per_part == wanted:
            found.append(chosen)
    # A pod without a node comes after every pod with one.
    return sorted(found, key=lambda chosen: [len(nodes) if node is None else node for node in chosen])


@given(pods, parts)
@settings(max_examples=examples(100))
def test_the_first_of_all_assignments_is_chosen_S13(
    pods: list[int], parts: list[tuple[list[int], int]]
) -> None:
    every = every_way(pods, parts)
    found = assign_in_parts(pods, [Part(masks, count) for masks, count in parts])
    if found is None:
        assert not every
        return
    offsets = [sum(len(masks) for masks, _ in parts[:number]) for number in range(len(parts))]
    assert tuple(None if one is None else offsets[one[0]] + one[1] for one in found) == every[0]


def test_a_thousand_pods_of_three_roles_are_assigned_at_once_S13() -> None:
    many = [0] * 300 + [1] * 300 + [2] * 400
    found = assign_in_parts(many, [Part([1, 2, 4, 7, 7, 3, 6, 5, 7, 7], 10) for _ in range(100)])
    assert found is not None
    assert len(set(found)) == 1000


@st.composite
def many_classes(draw: st.DrawFn) -> tuple[list[int], list[Part]]:
    """Pods that nearly all differ, in parts that mostly can have their numbers."""
    classes = draw(st.integers(1, 10))
    pods = draw(st.lists(st.integers(0, classes - 1), max_size=12))
    masks = st.lists(st.integers(0, (1 << classes) - 1), max_size=7)
    matching = Matching(Counter(pods))
    parts: list[Part] = []
    for nodes in draw(st.lists(masks, max_size=4)):
        gain = sum(matching.add(mask) for mask in nodes)
        parts.append(Part(nodes, max(0, gain - draw(st.integers(-1, 1)))))
    return pods, parts


@given(many_classes())
@settings(max_examples=examples(150))
def test_a_repaired_assignment_is_the_one_from_scratch_S13(
    case: tuple[list[int], list[Part]],
) -> None:
    pods, parts = case
    assert assign_in_parts(pods, parts) == reference.assign_in_parts(pods, parts)
