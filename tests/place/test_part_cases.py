"""Every worked case of part V that the scheduler decides."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.framework.amounts import Amounts, add, amounts_of, lacking, plain
from ringwise.framework.configuration import Configuration
from ringwise.messages import events as ev
from ringwise.messages.commands import DeletePod, Evict
from ringwise.messages.events import Decide
from ringwise.state.allocation_modes import NO_CHIPS
from ringwise.state.chip_fractions import chips_used
from ringwise.state.model import Isolation, Node, PriorityClass
from ringwise.state.part_requests import with_part
from tests.builders import values
from tests.builders.values import SECOND, isolated, seen
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
from tests.scheduler.rig import configuration, gangs_may_end


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
    refused = {name: one.reason["code"] for name, one in found.candidates.items() if not one.accepted}
    for name, reason in (expected.get("refused") or expected.get("nodes") or {}).items():
        assert refused[name] == code(reason), found.candidates[name]
    if expected["result"] == "waits":
        assert bind is None
        assert not any(one.accepted for one in found.candidates.values())
        return
    assert bind is not None, (job.reason and job.reason.message, found.candidates)
    scores = {name: one.score for name, one in found.candidates.items() if one.accepted}
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


def chips_on_its_node(one: Plain) -> Fraction:
    """What a pod counts in chip-hours and views."""
    kind = f"Ascend310P-{one['cores_per_chip']}" if "cores_per_chip" in one else ""
    node = Node(name="n1", labels={"servertype": kind})
    labels = {"huawei.com/scheduler.softShareDev.hbmQuota": str(one.get("memory", 0))}
    policy = {"huawei.com/schedule_policy": "chip1-softShareDev"} if one["way"] == "soft" else {}
    pod = values.pod("p", one["count"], resource=one["resource"], labels=labels, annotations=policy)
    mode = NO_CHIPS._replace(chip_memory=one.get("chip_memory", 0))
    return Fraction(chips_used(with_part(pod, {}, {}, 0).cls, node, mode))


@pytest.mark.parametrize("case", of_kind("account"), ids=named)
def test_queues_count_chips_V18(case: Plain) -> None:
    total: Amounts = {}
    for at, one in enumerate(case["pods"]):
        labels = {"huawei.com/scheduler.softShareDev.hbmQuota": str(one.get("memory", 0))}
        policy = {"huawei.com/schedule_policy": "chip1-softShareDev"} if one["way"] == "soft" else {}
        pod = values.pod(f"p{at}", one["count"], resource=one["resource"], labels=labels, annotations=policy)
        add(total, amounts_of(with_part(pod, {}, {}, case.get("smallest_chip_memory", 0)).cls))
    assert plain(total) == case["expect"]["queue"]
    assert sum(map(chips_on_its_node, case["pods"])) == Fraction(*case["expect"]["chips"])
    if "within" in case["expect"]:
        assert (not lacking(total, {}, case["capability"])) == case["expect"]["within"]
    if "cluster" in case["expect"]:
        scheduler = new_scheduler()
        nodes = [node_object(one, None) for one in case["nodes"]]
        reports = [report_object(one, None) for one in case["nodes"]]
        scheduler.handle(events_of([*nodes, *reports]), 10**18, Decide.NOTHING)
        capacity = scheduler.view.what_if.sessions.capacity()
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


SOFT_LABELS = {
    "mind-cluster/npu-chip-memory": "64G",
    "huawei.com/scheduler.chip1softsharedev.enable": "true",
}
DYNAMIC_LABELS = {
    "accelerator": "huawei-Ascend310P",
    "servertype": "Ascend310P-8",
    "node.kubernetes.io/npu.chip.name": "310P3",
}
#: Nodes with two chips each, by allocation mode: labels, capacities and the resource of their chips.
NODES: dict[str, tuple[Plain, Plain, str]] = {
    "whole": ({}, {"huawei.com/Ascend910": 2}, "huawei.com/Ascend910"),
    "soft": (SOFT_LABELS, {"huawei.com/Ascend910": 200}, "huawei.com/Ascend910"),
    "dynamic": (DYNAMIC_LABELS, {"huawei.com/npu-core": 16}, "huawei.com/Ascend310P"),
    "static": ({}, {"huawei.com/Ascend310P-2c": 2}, "huawei.com/Ascend310P"),
}
FAULTY = {"fault-scheduling": "force", "pod-rescheduling": "on", "volcano.sh/preemptable": "true"}


def victim_node(name: str, mode: str, faulty: int | None = None) -> Plain:
    labels, capacities, resource = NODES[mode]
    lists = {resource: ",".join(chip for at in (0, 1) if at != faulty for chip in [f"{resource[11:]}-{at}"])}
    if faulty is not None:
        lists[f"{resource}-Unhealthy"] = f"{resource[11:]}-{faulty}"
    return {"name": name, "labels": labels, "capacities": capacities, "device_info": lists, "pods": []}


def victim_pod(one: Plain) -> Plain:
    chip = one["chips"][0]
    resource, limit, notes, labels = "huawei.com/Ascend910", "2", {}, dict(FAULTY)
    if one["way"] == "soft":
        made = running_share(one["name"], chip, **FAULTY)
        made["spec"]["nodeName"] = one["node"]
        return made
    if one["way"] == "dynamic":
        resource, limit = "huawei.com/npu-core", "4"
        notes = {resource: f"{chip}-vir04_3c", "huawei.com/AscendReal": f"Ascend310P-4c.3cpu-100-{chip}_0"}
        labels |= {"ring-controller.atlas": "ascend-310P"}
    elif one["way"] == "static":
        resource, limit = "huawei.com/Ascend310P-2c", "1"
        notes = {"huawei.com/AscendReal": f"Ascend310P-2c-100-{chip}"}
    else:
        notes = {resource: "Ascend910-0,Ascend910-1", "huawei.com/AscendReal": "Ascend910-0,Ascend910-1"}
    return pod_object(
        one["name"],
        one["name"],
        {resource: limit},
        annotations=notes,
        labels=labels,
        node=one["node"],
        phase="Running",
    )


@pytest.mark.parametrize("case", of_kind("victims"), ids=named)
def test_who_is_evicted_or_rescheduled_V17(case: Plain) -> None:
    assert evicted_pods(case) == case["expect"]["pods"]


def evicted_pods(case: Plain) -> list[str]:
    event = case["event"]
    modes = case.get("modes") or {one["node"]: one["way"] for one in case["pods"]}
    scheduler = new_scheduler(preempting())
    pods = [victim_pod(one) for one in case["pods"]]
    nodes = [victim_node(name, mode) for name, mode in modes.items()]
    objects = [*map(partial(node_object, resource=None), nodes), *(report_object(one, None) for one in nodes)]
    scheduler.handle(events_of([*objects, *pods]), NOW, Decide.NOTHING)
    later: list[ev.Event] = []
    if event["what"] == "preempt":
        scheduler.handle(seen(PriorityClass("high", 1000)), NOW, Decide.NOTHING)
        later = events_of([pretender(event["way"])])
    elif event["what"] == "fault":
        broken = victim_node(event["node"], modes[event["node"]], event["chip"])
        later = events_of([report_object(broken, None)])
    else:
        resource = NODES[modes[event["node"]]][2]
        chip = f"{resource[11:]}-{event['chip']}"
        later = seen(isolated(Isolation(event["node"], (chip,))))
    commands = list(scheduler.handle(later, NOW + SECOND))
    for second in range(2, 40):
        commands += scheduler.handle([], NOW + second * SECOND)
    gone = {one.pod for one in commands if isinstance(one, (Evict, DeletePod))}
    return sorted(gone)


def preempting() -> Configuration:
    return configuration(tiers=gangs_may_end())


def pretender(mode: str) -> Plain:
    """A pod of high priority that fits nowhere."""
    _, capacities, resource = NODES[mode]
    if mode == "soft":
        made = running_share("new", 0)
        quotas = {"aicoreQuota": "100", "hbmQuota": "1000", "policy": "elastic"}
        labels = {f"huawei.com/scheduler.softShareDev.{key}": value for key, value in quotas.items()}
        limits, notes = {resource: "100"}, {"huawei.com/schedule_policy": "chip1-softShareDev"}
    else:
        ((resource, count),) = capacities.items()
        limits, notes, labels = {resource: str(count)}, {}, {"ring-controller.atlas": "ascend-310P"}
        if mode == "static":
            limits = {resource: "1"}
    made = pod_object("new", "new", limits, annotations=notes, labels=labels)
    made["spec"] |= {"priorityClassName": "high", "priority": 1000}
    return made


@pytest.mark.parametrize("mode", ["dynamic", "static"])
def test_vnpus_preempt_nothing_V17(mode: str) -> None:
    pods = [{"name": name, "way": mode, "node": "n1", "chips": [at]} for at, name in enumerate("ab")]
    assert evicted_pods({"event": {"what": "preempt", "way": mode}, "pods": pods}) == []
