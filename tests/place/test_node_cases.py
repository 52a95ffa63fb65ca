"""The worked cases of one node's chips, through `ringwise place`."""

from __future__ import annotations

import os

import pytest

from tests.examples import sample
from tests.place.asking import Plain, ask, job_of
from tests.place.node_cases import (
    CASES,
    TELLERS,
    NodeFacts,
    Way,
    can_tell,
    facts_of,
    job_objects,
    node_objects,
    settings_of,
    ways,
)
from tests.placement.test_node_vectors import named

#: Each case is asked in so many ways, different ones from case to case; RINGWISE_WAYS asks for more.
WAYS_PER_CASE = int(os.environ.get("RINGWISE_WAYS", "1"))


def of_kind(kind: str) -> pytest.MarkDecorator:
    """The cases with their numbers, those of a board together: one by one they would be hundreds of tests."""
    by_board: dict[str, list[tuple[int, Plain]]] = {}
    for number, case in enumerate(case for case in CASES if case["kind"] == kind):
        by_board.setdefault(case["board"], []).append((number, case))
    return pytest.mark.parametrize("cases", by_board.values(), ids=by_board)


def ways_of(number: int, facts: list[NodeFacts]) -> list[Way]:
    """Some of the ways that can tell these nodes, spread so that all cases together use all of them."""
    possible = ways(tuple(teller for teller in TELLERS if all(can_tell(one, teller) for one in facts)))
    stride = 41
    return [possible[(number * WAYS_PER_CASE + at) * stride % len(possible)] for at in range(WAYS_PER_CASE)]


@of_kind("single_node")
def test_one_node_N3_N4_N5(cases: list[tuple[int, Plain]]) -> None:
    for number, case in sample(cases):
        with named(case):
            check_one_node(number, case)


def check_one_node(number: int, case: Plain) -> None:
    pods: int = case["tasks"]
    names = [f"node-{place}" for place in range(pods)]
    facts = [facts_of(case, case, name) for name in names]
    for way in ways_of(number, facts):
        selector = {"host-arch": case["pod_arch"]} if case.get("pod_arch") else {}
        job, labels = job_objects(case, way, [case["request"]] * pods, selector)
        if "node_arch" in case:
            labels.pop("host-arch", None)
            if case["node_arch"]:
                labels["host-arch"] = case["node_arch"]
        if case["free_chips"] is None:
            # No list at all: the node has no chips, whatever Kubernetes offers.
            facts = [facts_of(case, {**case, "free_chips": []}, name) for name in names]
        objects = [one for node in facts for one in node_objects(node, way, case["resource"], labels)]
        answer = ask([*objects, *job], settings_of(case, way), form=way.form)
        check_single(case, job_of(answer, "job"), way)


def check_single(case: Plain, job: Plain, way: Way) -> None:
    expect = case["expect"]
    if expect["rejected_at"] == "job-validity":
        assert job["state"] == "rejected", (way, job)
        return
    first = job["pods"][0]
    seen = {one["node"]: one for one in first["candidates"]}
    if not expect["accept"]:
        assert job["state"] == "pending", (way, job)
        assert first["node"] is None
        assert all(not one["accepted"] and one["reason"]["fixes"] for one in seen.values()), (way, seen)
        return
    assert job["state"] == "scheduled", (way, job["reason"], seen)
    assert seen["node-0"]["accepted"]
    if expect["score"] is not None:
        assert seen["node-0"]["score"] == expect["score"], (way, seen)
    assert first["node"] == "node-0"
    if expect["chips"] is not None:
        assert first["chips"] == expect["chips"], way
    elif "chips_set" in expect:
        assert sorted(first["chips"]) == sorted(expect["chips_set"]), way
    assert len(set(first["chips"])) == case["request"]
    assert set(first["chips"]) <= set(case["free_chips"])
    prefix = case["resource"].removeprefix("huawei.com/")
    notes = first["annotations"]
    assert notes[case["resource"]] == ",".join(f"{prefix}-{chip}" for chip in first["chips"])
    assert notes["predicate-time"].isdigit()
    assert notes["distributed-job"] == ("true" if case["tasks"] > 1 else "false")


@of_kind("node_list")
def test_several_nodes_N3_N4(cases: list[tuple[int, Plain]]) -> None:
    for number, case in sample(cases):
        with named(case):
            check_several_nodes(number, case)


def check_several_nodes(number: int, case: Plain) -> None:
    # Their names end in numbers, as the aggregate's chunks do.
    renamed = {reported["name"]: f"node-{place}" for place, reported in enumerate(case["nodes"])}
    facts = [facts_of(case, reported, renamed[reported["name"]]) for reported in case["nodes"]]
    pods = case["tasks"]
    for way in ways_of(number, facts):
        job, labels = job_objects(case, way, [case["request"]] * pods)
        objects = [one for node in facts for one in node_objects(node, way, case["resource"], labels)]
        found = job_of(ask([*objects, *job], settings_of(case, way), form=way.form), "job")
        check_list(case, found, renamed)


def check_list(case: Plain, job: Plain, renamed: dict[str, str]) -> None:
    expect = case["expect"]
    # The nodes are what the case is about; whether a board allows the job is not part of it.
    first = job["pods"][0]
    seen = {one["node"]: one for one in first["candidates"]}
    scores = {name: seen[real]["score"] for name, real in renamed.items()}
    assert scores == expect.get("score", expect.get("score_2026"))
    accepted = {name for name, real in renamed.items() if seen[real]["accepted"]}
    assert bool(accepted) == expect["accept"]
    if "order" not in expect:
        return
    assert set(renamed) - accepted == set(expect["rejected"])
    best_first = sorted({scores[name] for name in accepted}, reverse=True)
    order = [sorted(name for name in accepted if scores[name] == score) for score in best_first]
    assert order == [sorted(equals) for equals in expect["order"]]
    if job["state"] == "scheduled":
        assert first["node"] == renamed[expect["best"]]
