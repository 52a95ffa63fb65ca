"""The worked cases of leaf-switch affinity, through the library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ringwise.placement.switches.affinity_v1 import TwoArrays
from ringwise.placement.switches.classes import SwitchClass, classify
from ringwise.placement.switches.planning import plan
from ringwise.placement.switches.positions import PodPosition
from ringwise.placement.switches.reschedule import reschedule
from ringwise.placement.switches.states import SwitchFacts, SwitchJob, SwitchState, switch_states
from ringwise.placement.switches.view import (
    SwitchPlan,
    SwitchRequest,
    SwitchSettings,
    SwitchView,
    TopologyView,
)
from tests.placement.switches.plans import node_of_rank, per_switch

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "vectors" / "switch.json").read_text())
STATE_WORDS = {
    "idle": SwitchState.IDLE,
    "shared": SwitchState.SHARED,
    "exclusive": SwitchState.EXCLUSIVE,
    "not idle": SwitchState.IDLE,
}
VERSIONS = {"v1": "1.0", "v2": "2.0", "single": "2.0"}


def switch_of_node(case: dict[str, Any]) -> dict[str, int]:
    return {node["name"]: s for s, tor in enumerate(case["tors"]) for node in tor["nodes"]}


def states_of(case: dict[str, Any]) -> list[SwitchFacts]:
    """States from the listed pods where there are any, else as given."""
    if case.get("other_jobs"):
        under = switch_of_node(case)
        jobs = []
        for job in case["other_jobs"]:
            job_class = classify(job["tor_affinity_label"], len(job["pods"]))
            assert isinstance(job_class, SwitchClass)
            pods = tuple(
                (under[pod["node"]], int(pod["annotations"].get("isSharedTor", 0))) for pod in job["pods"]
            )
            jobs.append(SwitchJob(job["name"], job_class, pods))
        return switch_states(len(case["tors"]), jobs, case["shared_tor_num"] or 2)
    return [
        SwitchFacts(
            state=STATE_WORDS[tor["state"]],
            healthy=tor["healthy"],
            only_common=tor.get("only_common", True),
            owner_shared=tor.get("owner_shared", 0),
            labeled=tor["state"] != "idle",
            cross_model=tor.get("cross_model", False),
        )
        for tor in case["tors"]
    ]


def view_of(case: dict[str, Any]) -> tuple[TopologyView, list[str]]:
    names = [node["name"] for tor in case["tors"] for node in tor["nodes"]]
    number = {name: index for index, name in enumerate(names)}
    switches = []
    for tor, facts in zip(case["tors"], states_of(case), strict=True):
        free = [(number[node["name"]], place) for place, node in enumerate(tor["nodes"]) if node["free"]]
        switches.append(
            SwitchView(tor["ip"], tuple(n for n, _ in free), tuple(place for _, place in free), facts)
        )
    settings = SwitchSettings(VERSIONS[case["version"]], case["shared_tor_num"] or 2)
    return TopologyView(tuple(switches), case["tor_count"], settings, case["version"] == "single"), names


def answer_of(case: dict[str, Any], view: TopologyView) -> Any:
    job_class = classify(case["tor_affinity_label"], case["job_pods"])
    assert isinstance(job_class, SwitchClass)
    request = SwitchRequest(job_class, case["job_pods"])
    if not case.get("pods"):
        return plan(view, request)
    under = switch_of_node(case)
    survivors = [
        PodPosition(pod["rank"], under[pod["node"]], None, int(pod["annotations"].get("isSharedTor", 0)))
        for pod in case["pods"]
        if pod["node"] is not None
    ]
    failed = [PodPosition(pod["rank"]) for pod in case["pods"] if pod["node"] is None]
    return reschedule(view, request, survivors, failed)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_worked_case_S3_S4_S5_S6_S7_S8_S9_S11(case: dict[str, Any]) -> None:
    view, names = view_of(case)
    answer = answer_of(case, view)
    expect = case["expect"]
    if not expect["scheduled"]:
        assert not isinstance(answer, SwitchPlan)
        assert answer.message
        assert "unknown)" not in answer.message
        # Where nothing is free there is no smaller job to advise.
        assert bool(answer.fixes) == (answer.details.get("largest") != 0)
        return
    assert isinstance(answer, SwitchPlan), answer
    assert len(set(answer.nodes)) == len(answer.nodes)
    if "per_tor" in expect:
        assert per_switch(answer) == expect["per_tor"]
    if "total" in expect:
        assert len(answer.nodes) == expect["total"]
        assert not set(per_switch(answer)) & set(expect.get("forbidden", ()))
    if "per_slice" in expect:
        slices = {node["name"]: str(node["slice_id"]) for tor in case["tors"] for node in tor["nodes"]}
        found: dict[str, int] = {}
        for node in answer.nodes:
            found[slices[names[node]]] = found.get(slices[names[node]], 0) + 1
        assert found == expect["per_slice"]
    if "nodes_by_rank" in expect:
        placed = {str(rank): names[node] for rank, node in node_of_rank(answer).items()}
        assert placed == expect["nodes_by_rank"]
    after = {entry.name: entry for entry in answer.entries}
    given = {switch.name: switch.facts for switch in view.switches}
    for name, wanted in expect.get("new_states", {}).items():
        state = after[name].state if name in after else given[name].state
        healthy = after[name].healthy if name in after else given[name].healthy
        assert state is STATE_WORDS[wanted["state"]]
        assert healthy == wanted.get("healthy", healthy)


def test_the_two_arrays_of_document_004_S8() -> None:
    case = next(case for case in CASES if "division_by_leaf_first" in case["expect"])
    view, names = view_of(case)
    arrays = TwoArrays.of(view)
    first_leaf = [names[node] for node in view.switches[arrays.by_leaf[0]].free]
    assert first_leaf == case["expect"]["division_by_leaf_first"]
    first_column = [names[place.node] for place in arrays.by_position[0]]
    assert first_column == case["expect"]["division_by_position_first"]
