"""Rules of shares and vNPUs that no worked case covers."""

from __future__ import annotations

from copy import deepcopy

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.messages.events import Decide
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


def test_V14_pods_of_another_mode_that_are_not_settled_count_too() -> None:
    case = case_with("h05-left-from-whole")
    del case["nodes"][0]["pods"][0]["annotations"]["huawei.com/AscendReal"]
    found = answer(case)
    assert found.candidates["n1"]["reason"]["code"] == code("another-template-not-settled")


def test_V6_a_node_that_offers_another_chip_resource_has_no_idle_units() -> None:
    case = case_with("w14-soft-everywhere")
    (node,) = (one for one in case["nodes"] if one["name"] == "soft")
    node["capacities"] = {"huawei.com/npu": node.pop("capacity", 200)}
    node["device_info"] = {"huawei.com/npu": "npu-0,npu-1"}
    node.pop("idle", None)
    found = answer(case)
    assert found.candidates["soft"]["reason"]["code"] == code("idle-fewer-than-request")


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
