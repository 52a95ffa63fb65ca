"""Requests for shares and vNPUs by a tenant that tries what the rules do not foresee (V2 to V5, V10)."""

from __future__ import annotations

from copy import deepcopy

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.messages.commands import Bind
from tests.builders.objects import pod_group
from tests.place.asking import Plain
from tests.place.part_cases import NOW, events_of, node_object, pod_object, report_object
from tests.place.test_part_cases import victim_node

SHARE = "huawei.com/scheduler.softShareDev."
ASCEND910, CORES = "huawei.com/Ascend910", "huawei.com/npu-core"
POLICY = {"huawei.com/schedule_policy": "chip1-softShareDev"}


def labels(percent: str = "50", mb: str = "1000", policy: str = "elastic") -> Plain:
    return {f"{SHARE}aicoreQuota": percent, f"{SHARE}hbmQuota": mb, f"{SHARE}policy": policy}


def share(count: int = 50, **more: str) -> Plain:
    return pod_object("p", "p", {ASCEND910: str(count)}, annotations=POLICY, labels=labels(**more))


def outcome(*objects: Plain) -> str:
    """The node that pod `p` gets, or the code of the reason why it gets none."""
    nodes = [victim_node(mode, mode) for mode in ("whole", "soft", "dynamic")]
    scheduler = new_scheduler()
    described = [node_object(one, None) for one in nodes] + [report_object(one, None) for one in nodes]
    commands = scheduler.handle(events_of([*described, *objects]), NOW)
    bind = next((one for one in commands if isinstance(one, Bind) and one.pod == "p"), None)
    if bind is not None:
        return bind.node
    reason = next(
        job.reason for job in scheduler.view.jobs.values() if any(p.name == "p" for p in job.in_order)
    )
    return "waits" if reason is None else reason.code


@pytest.mark.parametrize(
    ("percent", "expected"),
    [
        ("50", "soft"),
        ("050", "soft"),
        ("000000050", "soft"),
        ("0000000050", "quota-not-a-number"),
        ("0", "aicore-quota-range"),
        ("101", "aicore-quota-range"),
        ("999999999", "aicore-quota-range"),
        ("-1", "quota-not-a-number"),
        ("+50", "quota-not-a-number"),
        ("1e9", "quota-not-a-number"),
        ("50.0", "quota-not-a-number"),
        ("5_0", "quota-not-a-number"),
        (" 50", "quota-not-a-number"),
        ("50\n", "quota-not-a-number"),
        ("٥٠", "quota-not-a-number"),
        ("５０", "quota-not-a-number"),
        ("", "quota-not-a-number"),
        ("49", "request-differs-from-quota"),
    ],
)
def test_V5_percentages(percent: str, expected: str) -> None:
    assert outcome(share(percent=percent)) == expected


@pytest.mark.parametrize(
    ("mb", "expected"),
    [
        ("1", "soft"),
        ("65536", "soft"),
        ("65537", "no-node-fits"),
        ("999999999", "no-node-fits"),
        ("1000000000", "quota-not-a-number"),
        ("0", "hbm-quota-range"),
        ("000000000", "hbm-quota-range"),
        ("64G", "quota-not-a-number"),
        ("٣", "quota-not-a-number"),
    ],
)
def test_V5_memory(mb: str, expected: str) -> None:
    assert outcome(share(mb=mb)) == expected


def test_labels_of_the_pod_win_over_those_of_its_group() -> None:
    pod = share(policy="elastic")
    pod["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
    group = pod_group("g", 1, labels=labels(policy="best-effort", percent="7"), annotations=POLICY)
    group["metadata"]["namespace"] = pod["metadata"]["namespace"]
    assert outcome(pod, group) == "soft"
    del pod["metadata"]["labels"][f"{SHARE}aicoreQuota"]
    assert outcome(pod, group) == "request-differs-from-quota"
    # Another policy on the pod makes it a pod with whole chips.
    pod["metadata"]["annotations"]["huawei.com/schedule_policy"] = "chip8-node8"
    assert outcome(pod, group) not in ("soft", "whole", "dynamic")


def containers(pod: Plain, *limits: Plain, init: bool = False) -> Plain:
    made = deepcopy(pod)
    made["spec"]["initContainers" if init else "containers"] = [
        {"name": f"c{at}", "image": "i", "resources": {"limits": one, "requests": one}}
        for at, one in enumerate(limits)
    ]
    return made


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (containers(share(), {ASCEND910: "25"}, {ASCEND910: "25"}), "too-many-chip-containers"),
        (containers(share(), {ASCEND910: "50"}, {"cpu": "1"}), "soft"),
        (containers(share(), {ASCEND910: "50"}, {CORES: "1"}), "several-chip-resources"),
        (containers(share(), {ASCEND910: "50"}, {"huawei.com/npu": "50"}), "several-chip-resources"),
        (containers(share(), {ASCEND910: "50"}, init=True), "too-many-chip-containers"),
        (containers(share(), {CORES: "1"}), "policy-and-resource-differ"),
        (containers(share(), {"huawei.com/Ascend310P-2c": "1"}), "policy-and-resource-differ"),
        (
            containers(share(), {"huawei.com/Ascend310P-2c": "1", "huawei.com/Ascend310P-4c": "1"}),
            "policy-and-resource-differ",
        ),
        (containers(share(), {ASCEND910: "100"}), "request-differs-from-quota"),
        (containers(share(), {ASCEND910: "3599"}), "request-differs-from-quota"),
    ],
)
def test_containers(pod: Plain, expected: str) -> None:
    assert outcome(pod).startswith(expected)


@pytest.mark.parametrize(
    ("count", "more", "expected"),
    [
        ("1", {}, "dynamic"),
        ("16", {}, "dynamic"),
        ("24", {}, "no-node-fits"),
        ("3", {}, "core-count-not-allowed"),
        ("3599", {}, "core-count-not-allowed"),
        ("2", {"vnpu-dvpp": "YES"}, "dvpp-label-unknown"),
        ("2", {"vnpu-dvpp": ""}, "dvpp-label-unknown"),
        ("2", {"vnpu-level": "HIGH"}, "dynamic"),
        ("2", {"ring-controller.atlas": "ascend-310p"}, "ring-label-unknown"),
        ("2", {"ring-controller.atlas": "ascend-910b"}, "core-count-not-allowed"),
    ],
)
def test_V10_requests(count: str, more: Plain, expected: str) -> None:
    own = {"ring-controller.atlas": "ascend-310P", **more}
    found = outcome(pod_object("p", "p", {CORES: count}, annotations={}, labels=own))
    assert found == expected or (expected == "no-node-fits" and found not in ("whole", "soft", "dynamic"))


@pytest.mark.parametrize(
    "annotations",
    [
        {CORES: "0-vir99"},
        {CORES: "0,1"},
        {CORES: "0-vir01", "huawei.com/AscendReal": "Ascend310P-1c-100-0_0"},
        {f"{SHARE}aicoreQuota": "1", f"{SHARE}hbmQuota": "1", f"{SHARE}policy": "elastic"},
        {"predicate-time": "18446744073709551615"},
        {ASCEND910: "Ascend910-0"},
    ],
)
def test_V4_annotations_of_a_pod_that_waits_mean_nothing(annotations: Plain) -> None:
    vnpu = pod_object(
        "p", "p", {CORES: "2"}, annotations=annotations, labels={"ring-controller.atlas": "ascend-310P"}
    )
    assert outcome(vnpu) == "dynamic"
    pod = share()
    pod["metadata"]["annotations"] |= annotations
    assert outcome(pod) == "soft"
