"""`doctor` names pods with shares and vNPUs whose annotations differ from what they count with (rule V4)."""

from __future__ import annotations

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.messages.events import Decide
from ringwise.scheduler.explain.doctor import diagnose
from ringwise.scheduler.explain.findings import Finding
from tests.place.asking import Plain
from tests.place.part_cases import NOW, events_of, node_object, report_object
from tests.place.test_part_cases import running_share, victim_node, victim_pod

SHARE = "huawei.com/scheduler.softShareDev."
ASCEND910, REAL, CORES = "huawei.com/Ascend910", "huawei.com/AscendReal", "huawei.com/npu-core"
CODES = {"annotations-differ", "chips-without-record", "mounts-differ"}
#: What our device plugin reports for the pod.
MOUNTED = {"chip": "Ascend910-0", "percent": 20, "mb": 1000, "policy": "elastic"}


def findings(mode: str, edited: Plain, mounted: Plain | None = None, **data: str) -> list[Finding]:
    """Of a pod on chip 0 whose owner edits its annotations; `mounted` is what our device plugin reports."""
    scheduler, node = new_scheduler(), victim_node("n1", mode)
    pod = running_share("p", 0)
    if mode == "dynamic":
        pod = victim_pod({"name": "p", "node": "n1", "way": mode, "chips": [0]})
    report = report_object(node, None)
    if mounted is not None:
        report["data"] |= {
            "RingwiseKubeletDevices": '{"vcjob/p":"Ascend910-1-7,Ascend910-1-9"}',
            "RingwiseMountedShares": str({"p": mounted}).replace("'", '"'),
        }
    report["data"] |= data
    scheduler.handle(events_of([node_object(node, None), report, pod]), NOW, Decide.NOTHING)
    pod["metadata"]["annotations"] |= edited
    scheduler.handle(events_of([pod]), NOW, Decide.NOTHING)
    found = diagnose(scheduler.view).findings
    return [one for one in found if one.code in CODES]


@pytest.mark.parametrize(
    ("mode", "edited", "mounted", "words"),
    [
        ("soft", {}, None, ""),
        ("dynamic", {}, None, ""),
        ("soft", {}, MOUNTED, ""),
        (
            "soft",
            {SHARE + "hbmQuota": "1"},
            None,
            "1000 MB (elastic) of Ascend910-0; huawei.com/Ascend910 and",
        ),
        ("soft", {SHARE + "policy": "fixed-share"}, None, "name 1000 MB (fixed-share) of Ascend910-0"),
        ("soft", {SHARE + "policy": "none"}, None, "beside it name Ascend910-0"),
        ("soft", {ASCEND910: "Ascend910-1"}, None, "of Ascend910-0; huawei.com/Ascend910 and"),
        ("soft", {ASCEND910: ""}, None, "name nothing that can be read"),
        ("soft", {REAL: "Ascend910-1"}, None, "of Ascend910-0,Ascend910-1; huawei.com/AscendReal names"),
        (
            "soft",
            {},
            MOUNTED | {"mb": 7},
            "is counted as 20 percent, 7 MB (elastic) of Ascend910-0; huawei.com",
        ),
        ("soft", {}, MOUNTED | {"percent": 30}, "the device plugin mounted 30 percent"),
        ("soft", {}, MOUNTED | {"chip": "Ascend910-1"}, "of Ascend910-1; huawei.com/Ascend910 and"),
        ("dynamic", {CORES: "1-vir04_3c"}, None, "vir04_3c of Ascend310P-0; huawei.com/npu-core and the"),
        ("dynamic", {CORES: "0-vir01"}, None, "name vir01 of Ascend310P-0"),
    ],
)
def test_V4_a_difference_is_named(mode: str, edited: Plain, mounted: Plain | None, words: str) -> None:
    found = findings(mode, edited, mounted)
    assert [one.code for one in found] == (["annotations-differ"] if words else [])
    assert all(words in one.message and one.message.startswith("pod vcjob/p is counted") for one in found)


def test_V3_a_pod_of_an_unknown_part_is_named() -> None:
    scheduler, node = new_scheduler(), victim_node("n1", "dynamic")
    pod = victim_pod({"name": "p", "node": "n1", "way": "dynamic", "chips": [0]})
    pod["metadata"]["annotations"] = {CORES: "0-vir99"}
    events = events_of([node_object(node, None), report_object(node, None), pod])
    scheduler.handle(events, NOW, Decide.NOTHING)
    found = diagnose(scheduler.view).findings
    assert [one.code for one in found if one.severity == "error"] == ["unknown-part-on-node"]


def test_N8_a_share_without_a_record_is_named() -> None:
    (found,) = findings(
        "soft", {}, {}, RingwiseMountedShares="{}", RingwiseUnconfirmedChips='{"p":"Ascend910-0"}'
    )
    assert found.code == "chips-without-record"
    assert "Ascend910-0 accepts no new shares" in found.message


def test_a_share_that_kubelet_does_not_list_is_named() -> None:
    (found,) = findings("soft", {}, MOUNTED, RingwiseKubeletDevices='{"vcjob/other":"Ascend910-1-7"}')[:1]
    assert found.code == "mounts-differ"
