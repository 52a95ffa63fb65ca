"""Rules of shares and vNPUs that no worked case covers."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.framework.amounts import plain
from ringwise.messages.commands import Bind, Command
from ringwise.messages.events import Decide
from ringwise.scheduler.defragment.movable import not_movable
from ringwise.scheduler.explain.capacity import BoardCapacity, capacity
from ringwise.state.model import NodeReport, NodeReservation, Queue
from tests.builders.values import CHIP, SECOND, group, seen
from tests.place.asking import Plain
from tests.place.part_cases import (
    CASES,
    NOW,
    answer,
    code,
    events_of,
    node_object,
    pod_object,
    report_object,
)
from tests.place.test_part_cases import running_share, victim_node, victim_pod

SHARE = "huawei.com/scheduler.softShareDev."


def case_with(name: str) -> Plain:
    return deepcopy(next(case for case in CASES if case["id"] == name))


@pytest.mark.parametrize(
    ("own", "other", "reason"),
    [
        # What is wrong with the pod itself comes before what other pods have.
        ({"policy": "shared"}, {}, "policy-unknown"),
        ({}, {"policy": "shared"}, "pods-differ"),
        ({"hbmQuota": "0"}, {"aicoreQuota": "x"}, "hbm-quota-less-than-1"),
    ],
)
def test_V5_the_first_reason_is_given(own: Plain, other: Plain, reason: str) -> None:
    case = case_with("s50-pods-differ")
    labels = case["request"]["labels"]
    case["request"]["other_pods"] = [labels | {SHARE + key: value for key, value in other.items()}]
    case["request"]["labels"] = labels | {SHARE + key: value for key, value in own.items()}
    found = answer(case)
    (job,) = found.scheduler.view.jobs.values()
    assert job.reason is not None
    assert job.reason.code == code(reason)


@pytest.mark.parametrize("way", ["soft", "dynamic", "static"])
def test_V17_no_plan_moves_pods_with_shares_and_vnpus(way: str) -> None:
    """Not even a MovePlan that a user wrote."""
    made = victim_pod({"name": "serve", "way": way, "node": "n1", "chips": [0]})
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "serve", "uid": "of-serve"}
    made["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    node = victim_node("n1", way)
    scheduler = new_scheduler()
    objects = [node_object(node, None), report_object(node, None), made]
    scheduler.handle(events_of(objects), NOW, Decide.ALL)
    (job,) = scheduler.view.jobs.values()
    reason = not_movable(scheduler.view, job, NOW)
    assert reason is not None
    assert "soft shares or vNPUs" in reason.message


@pytest.mark.parametrize(
    ("status", "reason"),
    [("UnHealthy", "node-unhealthy"), ("PreSeparate", "node-pre-separated"), ("SubHealthy", None)],
)
@pytest.mark.parametrize("way", ["soft", "dynamic"])
def test_V7_V15_an_unhealthy_or_pre_separated_node_takes_no_shares_and_vnpus(
    way: str, status: str, reason: str | None
) -> None:
    node = victim_node("n1", way)
    made = victim_pod({"name": "serve", "way": way, "node": "n1", "chips": [0]})
    del made["spec"]["nodeName"]
    made["status"] = {"phase": "Pending"}
    for key in [key for key in made["metadata"]["annotations"] if key.startswith("huawei.com/Ascend")]:
        del made["metadata"]["annotations"][key]
    scheduler = new_scheduler()
    events = events_of([node_object(node, None), report_object(node, None), made])
    commands = scheduler.handle([*events, *seen(NodeReport("n1", "node", status))], NOW, Decide.ALL)
    assert [one.pod for one in commands if isinstance(one, Bind)] == ([] if reason else ["serve"])
    (job,) = scheduler.view.jobs.values()
    refusals = {} if job.reason is None else job.reason.details["refusals"]
    assert refusals == ({reason: 1} if reason else {})


@pytest.mark.parametrize(("start", "until_drain"), [(0, 0), (60, 2)])
@pytest.mark.parametrize(("way", "board"), [("soft", "soft shares"), ("dynamic", "dynamic vNPUs")])
def test_F4_shares_and_vnpus_of_a_reserved_node_are_no_capacity_for_others(
    way: str, board: str, start: int, until_drain: int
) -> None:
    node = victim_node("n1", way)
    begin = NOW + start * SECOND
    reserved = NodeReservation("r", ("n1",), begin, begin + 3600 * SECOND, "research")
    scheduler = new_scheduler()
    events = events_of([node_object(node, None), report_object(node, None)])
    scheduler.handle([*events, *seen(Queue("research"))], NOW, Decide.ALL)

    def counted(queue: str | None) -> BoardCapacity:
        return next(one for one in capacity(scheduler.view, NOW, queue) if one.board == board)

    before = counted(None)
    assert all(shape.jobs for shape in before.shapes)
    scheduler.handle(seen(reserved), NOW, Decide.ALL)
    kept = counted(None)
    assert not any(shape.jobs for shape in kept.shapes)
    assert kept.chips.until_drain == sum(one.chips for one in kept.drains) == until_drain
    assert counted("research") == before


def test_V6_a_gang_that_terminates_does_not_bind_its_replacement_to_its_node() -> None:
    nodes = [victim_node(name, "soft") for name in ("n1", "n2")]
    old, new = (running_share(name, 0) for name in ("old", "new"))
    for made in (old, new):
        made["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "serve"
    old["metadata"]["deletionTimestamp"] = "2025-01-01T00:00:00Z"
    del new["spec"]["nodeName"]
    new["status"] = {"phase": "Pending"}
    for key in ("huawei.com/Ascend910", "huawei.com/AscendReal"):
        del new["metadata"]["annotations"][key]
    objects = [node_object(one, None) for one in nodes]
    objects[0]["spec"] = {"unschedulable": True}
    objects += [report_object(one, None) for one in nodes]
    scheduler = new_scheduler()
    serve = seen(group("serve", 1, namespace="vcjob", phase="Inqueue"))
    commands = scheduler.handle([*events_of([*objects, old, new]), *serve], NOW, Decide.ALL)
    assert [(one.pod, one.node) for one in commands if isinstance(one, Bind)] == [("new", "n2")]


def test_V14_pods_of_another_mode_that_are_not_settled_count_too() -> None:
    case = case_with("h05-left-from-whole")
    del case["nodes"][0]["pods"][0]["annotations"]["huawei.com/AscendReal"]
    found = answer(case)
    assert found.candidates["n1"].reason["code"] == code("another-template-not-settled")


def test_V6_a_node_that_offers_another_chip_resource_has_no_idle_units() -> None:
    case = case_with("w14-soft-everywhere")
    (node,) = (one for one in case["nodes"] if one["name"] == "soft")
    node["capacities"] = {"huawei.com/npu": node.pop("capacity", 200)}
    node["device_info"] = {"huawei.com/npu": "npu-0,npu-1"}
    node.pop("idle", None)
    found = answer(case)
    assert found.candidates["soft"].reason["code"] == code("idle-fewer-than-request")


@pytest.mark.parametrize("own_plugin", [True, False])
def test_V4_what_is_reported_counts_for_a_vnpu_from_before_its_node_had_shares(own_plugin: bool) -> None:
    case = case_with("h12-dynamic-part-on-soft-node")
    node = case["nodes"][0]
    node["own_plugin"] = own_plugin
    node["pods"][0]["reported"] = [1]
    found = answer(case)
    bind, cluster = found.bound("new-0"), found.scheduler.view.cluster
    assert bind is not None
    assert bind.annotations[CHIP] == "Ascend910-0"
    # Not as a chip of a pod that is gone: the report came before the pod.
    assert cluster.fleets[CHIP].doubtful[cluster.node_id[node["name"]]] == 0


def test_V6_the_pods_of_an_unknown_share_are_named_before_idle_units_of_another_resource() -> None:
    case = case_with("h06-left-and-unknown")
    node = case["nodes"][0]
    node["capacities"] = {"huawei.com/npu": node.pop("capacity")}
    found = answer(case)
    assert found.candidates[node["name"]].reason["code"] == code("pod-of-unknown-part-on-node")


def test_V4_a_pod_with_whole_chips_stays_one_whatever_its_owner_edits() -> None:
    scheduler = new_scheduler()
    node = {
        "name": "n1",
        "labels": {},
        "capacities": {"huawei.com/Ascend910": 8},
        "device_info": {"huawei.com/Ascend910": ",".join(f"Ascend910-{chip}" for chip in range(8))},
        "pods": [],
    }
    limits = {"huawei.com/Ascend910": "8"}
    held = {"huawei.com/Ascend910": ",".join(f"Ascend910-{chip}" for chip in range(8))}
    pod = pod_object("a", "a", limits, annotations=held, labels={}, node="n1", phase="Running")
    objects = [node_object(node, None), report_object(node, None), pod]
    scheduler.handle(events_of(objects), NOW, Decide.NOTHING)
    pod["metadata"]["annotations"] = {"huawei.com/schedule_policy": "chip1-softShareDev"}
    pod["metadata"]["labels"] = {SHARE + "aicoreQuota": "8", SHARE + "hbmQuota": "1"}
    scheduler.handle(events_of([pod]), NOW, Decide.NOTHING)
    cluster = scheduler.view.cluster
    assert cluster.pods["a"].pod.cls.part is None
    assert cluster.fleets["huawei.com/Ascend910"].held[0] == 0xFF


def bound_pods(commands: Sequence[Command]) -> list[str]:
    return [one.pod for one in commands if isinstance(one, Bind)]


@pytest.mark.parametrize(
    ("mode", "second", "real"),
    [
        ("soft", {"volcano.sh/job-name": "other"}, "Ascend910-0"),
        ("dynamic", {"cores": "4"}, "Ascend310P-2c.1cpu-100-0_0"),
        ("dynamic", {"cores": "8"}, "Ascend310P-2c.1cpu-100-0_0"),
    ],
)
def test_V8_V14_a_pod_is_bound_as_soon_as_the_other_one_is_served(
    mode: str, second: Plain, real: str
) -> None:
    scheduler = new_scheduler()
    node = victim_node("n1", mode)
    scheduler.handle(events_of([node_object(node, None), report_object(node, None)]), NOW)
    pod = asking(mode, "a", {})
    bind = next(one for one in scheduler.handle(events_of([pod]), NOW) if isinstance(one, Bind))
    assert bound_pods(scheduler.handle(events_of([asking(mode, "b", second)]), NOW + 2 * SECOND)) == []
    pod["metadata"]["annotations"] |= bind.annotations
    pod["spec"]["nodeName"] = "n1"
    assert bound_pods(scheduler.handle(events_of([pod]), NOW + 3 * SECOND)) == []
    pod["metadata"]["annotations"]["huawei.com/AscendReal"] = real
    pod["status"]["phase"] = "Running"
    assert bound_pods(scheduler.handle(events_of([pod]), NOW + 4 * SECOND)) == ["b"]


def asking(mode: str, name: str, more: Plain) -> Plain:
    if mode == "soft":
        pod = running_share(name, 0, **more)
        del pod["spec"]["nodeName"]
        pod["status"]["phase"] = "Pending"
        for key in list(pod["metadata"]["annotations"]):
            if key != "huawei.com/schedule_policy":
                del pod["metadata"]["annotations"][key]
        return pod
    labels = {"ring-controller.atlas": "ascend-310P"}
    limits = {"huawei.com/npu-core": more.get("cores", "2")}
    return pod_object(name, name, limits, annotations={}, labels=labels)


def test_V18_the_smallest_chip_memory_is_that_of_nodes_that_offer_the_resource() -> None:
    """40 % of an A2 with 64 GB and of a 950 with 112 GB: 40000 MB count as 62 and as 40 percent."""
    scheduler = new_scheduler()
    nodes = [victim_node("a2", "soft"), victim_node("n950", "soft")]
    nodes[1]["labels"] = nodes[1]["labels"] | {"mind-cluster/npu-chip-memory": "112G"}
    nodes[1] |= {"capacities": {"huawei.com/npu": 200}, "device_info": {"huawei.com/npu": "npu-0,npu-1"}}
    pods = []
    for name, resource in (("a", "huawei.com/Ascend910"), ("b", "huawei.com/npu")):
        pod = asking("soft", name, {})
        pod["metadata"]["labels"] |= {SHARE + "aicoreQuota": "40", SHARE + "hbmQuota": "40000"}
        for amounts in pod["spec"]["containers"][0]["resources"].values():
            amounts.clear()
            amounts[resource] = "40"
        pods.append(pod)
    objects = [*(node_object(one, None) for one in nodes), *(report_object(one, None) for one in nodes)]
    scheduler.handle(events_of([*objects, *pods]), NOW)
    assert plain(scheduler.view.usage.used_by_queue("default")) == {
        "huawei.com/Ascend910": 0.62,
        "huawei.com/npu": 0.4,
    }


def test_V18_shares_without_limits_are_not_chips_of_the_cluster() -> None:
    scheduler = new_scheduler()
    nodes = [
        {"name": f"n{count}", "labels": {}, "capacities": {CHIP: count}, "pods": []} for count in (8, 800)
    ]
    scheduler.handle(events_of([node_object(one, None) for one in nodes]), 10**18, Decide.NOTHING)
    assert scheduler.view.what_if.sessions.capacity()[CHIP] == 8
