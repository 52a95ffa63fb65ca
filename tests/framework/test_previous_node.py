"""A pod that comes back, beyond the worked cases."""

from __future__ import annotations

import pytest

from ringwise.framework.job import PreviousNode
from tests.framework.returning import node_of_returning_pod


@pytest.mark.parametrize(
    ("scores", "rank", "after_fault", "node"),
    [
        ({"a": 1.0, "b": 2.0}, 0, False, "a"),
        ({"a": 1.0, "b": 2.0, "c": 0.0}, 0, True, "c"),
        ({"b": 2.0}, 0, False, "b"),
        ({"a": 1.0, "b": 2.0}, 0, True, "a"),
        ({"b": 2.0}, 0, True, "b"),
        ({"n10": 1.0, "n2": 1.0}, 7, False, "n2"),
        ({"a": 1.0, "b": 2.0, "c": 0.0}, 7, False, "c"),
        ({}, 0, False, None),
    ],
)
def test_previous_node(scores: dict[str, float], rank: int, after_fault: bool, node: str | None) -> None:
    former = {0: PreviousNode("a", faulty=after_fault), 1: PreviousNode("b")}
    assert node_of_returning_pod(scores, former, rank) == node


def test_without_the_setting_the_best_node_wins() -> None:
    former = {0: PreviousNode("a"), 1: PreviousNode("b")}
    assert node_of_returning_pod({"a": 1.0, "b": 2.0, "c": 0.0}, former, 0, wished=False) == "b"
