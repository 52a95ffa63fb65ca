"""Every worked case of part V that the scheduler decides."""

from __future__ import annotations

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.framework.amounts import Amounts, add, amounts_of, lacking, plain
from ringwise.messages.commands import DeletePod
from ringwise.messages.events import Decide
from ringwise.state.allocation_modes import NO_CHIPS
from ringwise.state.part_requests import with_part
from tests.builders import values
from tests.place.asking import Plain
from tests.place.part_cases import (
    NOW,
    answer,
    code,
    events_of,
    node_object,
    of_kind,
    pod_object,
    report_object,
)


def named(case: Plain) -> str:
    return str(case["id"])


@pytest.mark.parametrize("case", of_kind("soft", "static", "dynamic"), ids=named)
def test_a_share_or_vnpu_V2_V3_V4_V5_V6_V7_V8_V9_V10_V11_V12_V13_V14_V15_V16(case: Plain) -> None:
    expected = case["expect"]
    found = answer(case)
    bind = found.bound("new-0")
    job = next(
        job for job in found.scheduler.view.jobs.values() if job.key.endswith(("vcjob/train", "pod:new-0"))
    )
    if expected["result"] == "refused":
        assert bind is None
        assert job.reason is not None
        assert job.reason.code == code(expected["reason"]), job.reason.message
        return
    refused = {name: one["reason"]["code"] for name, one in found.candidates.items() if not one["accepted"]}
    for name, reason in (expected.get("refused") or expected.get("nodes") or {}).items():
        assert refused[name] == code(reason), found.candidates[name]
    if expected["result"] == "waits":
        assert bind is None
        assert not any(one["accepted"] for one in found.candidates.values())
        return
    assert bind is not None, (job.reason and job.reason.message, found.candidates)
    scores = {name: one["score"] for name, one in found.candidates.items() if one["accepted"]}
    assert scores == expected["scores"]
    assert bind.node == expected["node"]
    annotations = dict(bind.annotations)
    if expected["annotation"]:
        assert annotations.pop("predicate-time")
    assert annotations == expected["annotation"]
    if "removed" in expected:
        assert sorted(bind.remove) == expected["removed"]


@pytest.mark.parametrize("case", of_kind("ways"), ids=named)
def test_allocation_modes_V1(case: Plain) -> None:
    scheduler = new_scheduler()
    objects = [node_object(one, None) for one in case["nodes"]]
    objects += [report_object(one, None) for one in case["nodes"]]
    scheduler.handle(events_of(objects), 10**18, Decide.NOTHING)
    cluster = scheduler.view.cluster
    for name, expected in case["expect"]["ways"].items():
        mode = cluster.modes.get(cluster.node_id[name], NO_CHIPS)
        if expected["way"] == "closed":
            assert mode.closed is not None
            assert mode.closed.code == code(expected["reason"])
        else:
            assert mode.closed is None
            assert (mode.mode or "none") == expected["way"]


@pytest.mark.parametrize("case", of_kind("whole"), ids=named)
def test_whole_chips_V2_V3(case: Plain) -> None:
    found = answer(case, Decide.NOTHING)
    cluster = found.scheduler.view.cluster
    resource = case["request"]["resource"]
    fleet = cluster.fleets[resource]
    for one in case["nodes"]:
        number = cluster.node_id[one["name"]]
        closed = cluster.closed(number, resource)
        if one["name"] in case["expect"]["free"]:
            assert closed is None
            free = fleet.free_mask[number]
            assert [chip for chip in range(64) if free >> chip & 1] == case["expect"]["free"][one["name"]]
        else:
            assert closed is not None
            assert closed.code == code(case["expect"]["refused"][one["name"]])


@pytest.mark.parametrize("case", of_kind("account"), ids=named)
def test_queues_count_chips_V18(case: Plain) -> None:
    total: Amounts = {}
    for at, one in enumerate(case["pods"]):
        labels = {"huawei.com/scheduler.softShareDev.hbmQuota": str(one.get("memory", 0))}
        policy = {"huawei.com/schedule_policy": "chip1-softShareDev"} if one["way"] == "soft" else {}
        pod = values.pod(f"p{at}", one["count"], resource=one["resource"], labels=labels, annotations=policy)
        add(total, amounts_of(with_part(pod, {}, {}, case.get("smallest_chip_memory", 0)).cls))
    assert plain(total) == case["expect"]["queue"]
    if "within" in case["expect"]:
        assert (not lacking(total, {}, case["capability"])) == case["expect"]["within"]
    if "cluster" in case["expect"]:
        scheduler = new_scheduler()
        nodes = [node_object(one, None) for one in case["nodes"]]
        reports = [report_object(one, None) for one in case["nodes"]]
        scheduler.handle(events_of([*nodes, *reports]), 10**18, Decide.NOTHING)
        capacity = scheduler.view.capacity()
        expected = case["expect"]["cluster"]
        assert {name: capacity[name] for name in capacity if name.startswith("huawei")} == expected


def soft_node(chips: int = 1) -> Plain:
    names = ",".join(f"Ascend910-{chip}" for chip in range(chips))
    return {
        "name": "n1",
        "labels": {
            "mind-cluster/npu-chip-memory": "64G",
            "huawei.com/scheduler.chip1softsharedev.enable": "true",
        },
        "capacities": {"huawei.com/Ascend910": 100 * chips},
        "device_info": {"huawei.com/Ascend910": names},
        "pods": [],
    }


def running_share(name: str, chip: int, **labels: str) -> Plain:
    quotas = {"aicoreQuota": "20", "hbmQuota": "1000", "policy": "elastic"}
    shares = {f"huawei.com/scheduler.softShareDev.{key}": value for key, value in quotas.items()}
    notes = {"huawei.com/Ascend910": f"Ascend910-{chip}", "huawei.com/AscendReal": f"Ascend910-{chip}"}
    return pod_object(
        name,
        name,
        {"huawei.com/Ascend910": "20"},
        annotations={**notes, **shares, "huawei.com/schedule_policy": "chip1-softShareDev"},
        labels={**shares, **labels},
        node="n1",
        phase="Running",
    )


def test_a_fault_of_a_chip_concerns_all_its_shares_V17() -> None:
    scheduler = new_scheduler()
    faulty = {"fault-scheduling": "force", "pod-rescheduling": "on"}
    pods = [running_share(name, chip, **faulty) for name, chip in (("a", 0), ("b", 1), ("c", 0))]
    node = soft_node(2)
    events = events_of([node_object(node, None), report_object(node, None), *pods])
    scheduler.handle(events, NOW, Decide.NOTHING)
    lists = {"huawei.com/Ascend910": "Ascend910-1", "huawei.com/Ascend910-Unhealthy": "Ascend910-0"}
    broken = report_object({**node, "device_info": lists}, None)
    commands = list(scheduler.handle(events_of([broken]), NOW + 10**9, Decide.ALL))
    commands += scheduler.handle([], NOW + 2 * 10**9, Decide.ALL)
    assert sorted({one.pod for one in commands if isinstance(one, DeletePod)}) == ["a", "c"]
