"""Random clusters are played in the same way each time, and a difference between two revisions is found."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tools.compare_decisions import difference
from tools.play_clusters import play
from tools.random_clusters import KINDS, random_cluster

SEED = 3


@pytest.fixture(scope="module")
def cluster() -> dict[str, Any]:
    made = random_cluster(SEED)
    return {**made, "steps": made["steps"][:12]}


@pytest.fixture(scope="module")
def played(cluster: dict[str, Any]) -> list[Any]:
    return play(cluster)


@pytest.mark.full
def test_the_same_cluster_gives_the_same_decisions(cluster: dict[str, Any], played: list[Any]) -> None:
    assert difference(played, play(cluster), cluster["steps"], text=True) is None
    assert [step["wrong"] for step in played] == [[]] * len(played)


def test_another_decision_is_a_difference(cluster: dict[str, Any], played: list[Any]) -> None:
    other = json.loads(json.dumps(played))
    binds = [
        command
        for step in other
        for _, turn in step["turns"]
        for command in turn
        if command["type"] == "Bind"
    ]
    binds[-1]["node"] = "another"
    found = difference(json.loads(json.dumps(played)), other, cluster["steps"], text=False)
    assert found is not None
    assert "another" in found


def test_other_words_are_a_difference_of_the_text_only(cluster: dict[str, Any], played: list[Any]) -> None:
    before = json.loads(json.dumps(played))
    other = json.loads(json.dumps(played))
    other[-1]["refused"] = "one sentence"
    before[-1]["refused"] = "another sentence"
    assert difference(before, other, cluster["steps"], text=False) is None
    assert difference(before, other, cluster["steps"], text=True) is not None


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_every_kind_of_cluster_has_steps(kind: int) -> None:
    made = random_cluster(kind)
    assert made == random_cluster(kind)
    assert {"submit", "advance"} <= {step["do"] for step in made["steps"]}
