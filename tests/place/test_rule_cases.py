"""The worked cases of jobs, boards, free chips and ranks, through `ringwise place`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ringwise.cli.query.place import place_command
from ringwise.manifests.settings.boards import shipped_boards
from tests.builders.objects import (
    chip_list,
    filler,
    node,
    node_report,
    pod,
    pod_group,
    pod_spec,
    report,
    vcjob,
)
from tests.builders.values import CHIP
from tests.place.asking import Plain, as_bytes, ask, configuration_text, job_of
from tests.place.node_cases import CASES, chip_spec
from tests.placement.one_node import NodeFit, one_node
from tests.placement.one_node import ask as ask_node
from tests.placement.test_node_vectors import BOARDS as BOARD_NAMES
from tests.placement.test_node_vectors import NOT_SUPPORTED, SHARES

POLICY = "huawei.com/schedule_policy"
POLICIES = {
    "ascend910x8_2021": "",
    "module910a3x16": "chip2-node16",
    "a3_superpod16": "chip2-node16-sp",
    "chip8node8sp": "chip8-node8-sp",
}


def of_kind(kind: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in CASES if case["kind"] == kind]


@pytest.mark.parametrize("case", of_kind("job_validity"))
def test_job_N2(case: Plain) -> None:
    board, total = case["board"], case.get("total_request")
    requests = case["request"]
    if requests is None:
        pods = case["tasks"] or 1
        whole = total or 16
        requests = [whole // pods + (place < whole % pods) for place in range(pods)]
    elif total is not None and sum(requests) != total:
        # The case states a total of its own; pods and total cannot differ in a manifest.
        requests = [total]
    elif case["tasks"] is None and len(requests) == 1:
        # These cases are about each pod of a job of several.
        requests = requests * 2
    notes = {POLICY: POLICIES[board]} if POLICIES[board] else {}
    if case.get("sp_block") is not None:
        notes["sp-block"] = str(case["sp_block"])
    resource = case["resource"]
    tasks = []
    for place, request in enumerate(requests):
        tasks.append((f"task{place}", 1, chip_spec(request, resource, {})))
    job = vcjob("job", tasks, annotations=notes)
    excused = case.get("task_spec") or ["scheduler" in case.get("note", "") or None] * len(tasks)
    for task, excuse in zip(job["spec"]["tasks"], excused * len(tasks), strict=False):
        if excuse:
            template = dict(task["template"]["metadata"])
            task["template"]["metadata"] = {
                **template,
                "annotations": {"huawei.com/skip-ascend-plugin": "enabled"},
            }
    chips = 8 if board in ("ascend910x8_2021", "chip8node8sp") else 16
    nodes = [
        node(f"n-{at}", chips=chips, resource=resource, annotations={"superPodID": "0"}) for at in range(4)
    ]
    size = case.get("super_pod_size")
    found = job_of(ask([*nodes, job], {"super-pod-size": str(max(4, size))} if size else {}), "job")
    assert found["state"] == ("scheduled" if case["expect"]["accept"] else "rejected"), found["reason"]


@pytest.mark.parametrize("case", of_kind("policy_selection"))
def test_policy_N1(case: Plain) -> None:
    wanted = case["expect"]["policy"]
    for resource in case["resource"].split(" or "):
        selector = case.get("node_selector") or {}
        job = vcjob(
            "job",
            [("worker", 1, pod_spec(1, resource, selector=selector))],
            labels=case.get("job_labels") or {},
            annotations=case.get("annotations") or {},
        )
        hosts: list[Plain] = []
        chips = 0
        if wanted is not None and wanted not in NOT_SUPPORTED | SHARES:
            chips = min(16, shipped_boards()[BOARD_NAMES[wanted]].chips_per_node)
            hosts = [node("n-0", chips=chips, resource=resource, labels=selector)]
            hosts += [filler("old", "n-0", [0, 1, 2], resource)]
        found = job_of(ask([*hosts, job]), "job")
        if not hosts:
            assert found["state"] == "rejected"
            # The rules of shares ask for the labels that say how large the share is.
            assert (found["reason"]["code"] == "soft-sharing-label-missing") == (wanted in SHARES)
            continue
        if wanted in ("a3_superpod16", "a3_superpod8", "chip8node8ra64sp"):
            # Boards of SuperPoDs ask for a block and for an id; their plain ones do not.
            assert "SuperPoD" in found["reason"]["message"] or "sp-block" in found["reason"]["message"]
            continue
        board = shipped_boards()[BOARD_NAMES[wanted]]
        fit = ask_node(board, one_node(listed=range(chips), held=[[0, 1, 2]], allocatable=chips), 1, False)
        assert isinstance(fit, NodeFit)
        assert found["pods"][0]["candidates"][0]["score"] == fit.score
        assert found["pods"][0]["chips"] == list(fit.chips)


@pytest.mark.parametrize("case", of_kind("free_chip_calc"))
def test_free_chips_N7(case: Plain) -> None:
    free = case["expect"]["free_chips"]
    listed = report(case["reported_free"], unhealthy=case["unhealthy"]["chip"], recovering=case["recovering"])
    objects = [node("n-0", devices=case["node_chips"]), node_report("n-0", listed)]
    objects += [filler(f"old-{at}", "n-0", held) for at, held in enumerate(case["pods_hold"]) if held]
    settings = {"self-maintain-available-card": str(case["self_maintain"]).lower()}
    for more in (0, 1):
        # The board without rings takes the lowest ids, so all of them show what is free.
        asked = pod("job", pod_spec(len(free) + more), annotations={POLICY: "chip1-node8"})
        found = job_of(ask([*objects, asked], settings), "job")
        assert found["pods"][0]["chips"] == (None if more else free)


@pytest.mark.parametrize("case", of_kind("node_stability"))
def test_stability_N7(case: Plain) -> None:
    offered = max(case["idle"], case["capacity"])
    nameless = offered - case["idle"]
    objects = [
        node("n-0", chips=offered, capacity=case["capacity"]),
        node_report("n-0", report(range(case["listed_free"]))),
    ]
    if nameless:
        objects.append(pod("old", pod_spec(nameless), on="n-0"))
    found = job_of(ask([*objects, pod("job", pod_spec(1))]), "job")
    assert (found["state"] == "scheduled") == case["expect"]["accept"]
    (candidate,) = found["pods"][0]["candidates"]
    assert candidate["accepted"] == case["expect"]["accept"]
    if nameless:
        assert "vcjob/old" in candidate["reason"]["message"]


@pytest.mark.parametrize("case", of_kind("rank_annotation"))
def test_rank_P7(case: Plain) -> None:
    index = case["task_index"] or 0
    wanted = case["expect"]["hccl/rankIndex"]
    group_notes = {"huawei.com/schedule_minAvailable": "4"} if case["has_minAvailable_annotation"] else {}
    members = []
    for place in range(4):
        one = pod(f"job-{place}", pod_spec(8), group="job")
        one["metadata"]["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": case["owner_kind"], "name": "job", "uid": "1"}
        ]
        if place == index and case["existing"] is not None:
            one["metadata"]["annotations"]["hccl/rankIndex"] = case["existing"]
        members.append(one)
    hosts = [node(f"n-{at}") for at in range(4)]
    found = job_of(ask([*hosts, pod_group("job", 4, annotations=group_notes), *members]), "job")
    mine = next(one for one in found["pods"] if one["name"] == f"job-{index}")
    assert mine["rank"] == int(wanted)
    assert mine["annotations"].get("hccl/rankIndex", case["existing"]) == wanted


def config_cases() -> list[Any]:
    rules = json.loads((Path(__file__).parents[1] / "vectors" / "superpod_rules.json").read_text())
    cases = [(case["config"], "error" in case["expect"]) for case in CASES if case["kind"] == "config_param"]
    cases += [(rule["in"], rule.get("error", False)) for rule in rules["config_vectors"]]
    return [pytest.param(*one, id=f"{at}-{one[0]}") for at, one in enumerate(cases)]


@pytest.mark.parametrize(("config", "wrong"), config_cases())
def test_settings_P1_K(config: dict[str, str], wrong: bool, tmp_path: Path) -> None:
    conf = tmp_path / "volcano-scheduler.conf"
    conf.write_text(configuration_text(config))
    asked = ["-f", "-", "-o", "json", "--config", str(conf)]
    answer = CliRunner().invoke(place_command, asked, input=as_bytes([node("n-0"), pod("job", pod_spec(1))]))
    assert answer.exit_code == (2 if wrong else 0), answer.output
    if wrong:
        assert answer.stdout == ""
        assert answer.stderr.startswith(f"{conf}: line ")
        assert "allowed:" in answer.stderr


def test_N8_chip_names_of_a_pod_without_a_limit_hold_nothing_and_close_no_node() -> None:
    for key in (CHIP, "huawei.com/AscendReal"):
        old = pod(
            "old", {"containers": [{"name": "main"}]}, on="n-0", annotations={key: chip_list(CHIP, [0, 5])}
        )
        found = job_of(ask([node("n-0"), old, pod("job", pod_spec(2))]), "job")
        assert found["pods"][0]["chips"] == [0, 1]
