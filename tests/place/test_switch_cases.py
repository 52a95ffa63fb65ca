"""The worked cases of leaf switches, through `ringwise place`."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.examples import PROFILE, sample
from tests.place.asking import Plain, ask, job_of
from tests.place.switch_cases import (
    CASES,
    CLASSES,
    JOB_SHAPES,
    SPARE_PLACES,
    CannotTellError,
    build,
    cluster_objects,
    job_objects,
    settings_of,
)

#: Every node of a switch is free in these, so that no pod can be under it and hold its node.
CANNOT_BE_TOLD = {"DER-LM-04"}


@pytest.mark.parametrize("number", sample(range(len(CASES)), 4), ids=lambda number: CASES[number]["id"])
def test_worked_case_S3_S4_S5_S6_S7_S8_S9_S11(number: int) -> None:
    case = CASES[number]
    asked = False
    for at, spare in enumerate(SPARE_PLACES):
        try:
            cluster = build(case, spare)
        except CannotTellError:
            assert case["id"] in CANNOT_BE_TOLD
            return
        shapes = JOB_SHAPES[(number + at) % 2 :: 2]
        for shape in shapes if PROFILE != "quick" else (JOB_SHAPES[(number + at) % 4],):
            objects = [*cluster_objects(case, cluster), *job_objects(case, shape)]
            answer = ask(objects, settings_of(case), scores=False)
            check(case, answer)
            asked = True
    assert asked


def check(case: Plain, answer: Plain) -> None:
    expect = case["expect"]
    job = job_of(answer, "J")
    assert job["class"] == CLASSES[case["job_type"]]
    if not expect["scheduled"]:
        assert job["state"] == "pending", job
        assert job["reason"]["message"]
        assert all(one["node"] is None for one in job["pods"])
        return
    assert job["state"] == "scheduled", job["reason"]
    assert len(job["pods"]) == case["job_pods"]
    before = {one["rank"]: one["node"] for one in case.get("pods") or () if one["node"]}
    new = [one for one in job["pods"] if one["rank"] not in before]
    nodes = [one["node"] for one in job["pods"]]
    assert len(set(nodes)) == len(nodes)
    switch_of = {one["name"]: tor["ip"] for tor in case["tors"] for one in tor["nodes"]}
    assert all(one["switch"] == switch_of[one["node"]] for one in job["pods"])
    per_tor = Counter(one["switch"] for one in new)
    if "per_tor" in expect:
        assert per_tor == expect["per_tor"]
    if "total" in expect:
        assert len(new) == expect["total"]
        assert not set(per_tor) & set(expect.get("forbidden", ()))
    if "per_slice" in expect:
        slices = {one["name"]: str(one["slice_id"]) for tor in case["tors"] for one in tor["nodes"]}
        assert Counter(slices[one["node"]] for one in new) == expect["per_slice"]
    placed = {str(one["rank"]): one["node"] for one in new}
    if "nodes_by_rank" in expect:
        assert placed == expect["nodes_by_rank"]
    for rank in expect.get("unchanged_ranks", ()):
        assert next(one["node"] for one in job["pods"] if one["rank"] == rank) == before[rank]
    check_switches(case, answer, per_tor)
    check_neighbors(new)


def check_switches(case: Plain, answer: Plain, per_tor: Counter[str]) -> None:
    after = {switch["ip"]: switch for switch in answer["switches"]}
    for name, wanted in case["expect"].get("new_states", {}).items():
        assert after[name]["state"] == wanted["state"]
        if "healthy" in wanted:
            assert after[name]["healthy"] == wanted["healthy"]
    for tor in case["tors"]:
        free = sum(one["free"] for one in tor["nodes"])
        assert after[tor["ip"]]["free_nodes"] == free - per_tor[tor["ip"]]


def check_neighbors(new: list[Plain]) -> None:
    """Neighboring ranks are under the same switch: the ranks of a switch are consecutive."""
    order = [one["switch"] for one in sorted(new, key=lambda one: int(one["rank"]))]
    entered = [name for at, name in enumerate(order) if not at or order[at - 1] != name]
    if len(entered) != len(set(entered)):
        # Only logical switches of version 1.0 go row by row over several leaf switches.
        assert all("isSharedTor" not in one["annotations"] for one in new)
