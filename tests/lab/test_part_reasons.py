"""Every reason why a node rejects a share or a vNPU: reached from files, and the same in every place."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path

import pytest

from ringwise.messages.commands import SetPodCondition
from tests.builders.objects import pod_group
from tests.lab.rig import Terminal
from tests.place.asking import Plain
from tests.place.part_cases import (
    CASES,
    answer,
    code,
    node_object,
    node_pods,
    pod_object,
    report_object,
)

CORES, ASCEND910 = "huawei.com/npu-core", "huawei.com/Ascend910"
SHARE = "huawei.com/scheduler.softShareDev."
VNPU = {"resource": CORES, "count": 1, "labels": {"ring-controller.atlas": "ascend-310P"}}
HALF = {
    "resource": ASCEND910,
    "count": 50,
    "labels": {f"{SHARE}aicoreQuota": "50", f"{SHARE}hbmQuota": "1000", f"{SHARE}policy": "elastic"},
    "annotations": {"huawei.com/schedule_policy": "chip1-softShareDev"},
}
#: Reasons that no change of the job and no end of another job removes: somebody has to change the node.
OF_THE_NODE = {
    *("ways-mixed", "node-has-no-accelerator-label", "node-has-no-servertype-label"),
    *("node-has-no-chip-name-label", "no-template-table-for-this-chip", "cores-not-a-multiple-of-chip"),
    *("soft-label-and-capacity-differ", "node-has-no-chip-memory-label", "chip-memory-label-unreadable"),
    *("shares-without-soft-label", "node-offers-no-chips", "node-in-another-way"),
    *("no-chip-in-the-device-list", "node-does-not-offer-this-part"),
    # The running pods of the gang keep their percentage, so no other one of the rest is allowed.
    "job-is-on-another-node",
}
#: Of node reasons in README-parts.md, from top to bottom.
REASONS = (
    *("ways-mixed", "node-has-no-accelerator-label", "node-has-no-servertype-label"),
    *("node-has-no-chip-name-label", "no-template-table-for-this-chip", "cores-not-a-multiple-of-chip"),
    *("soft-label-and-capacity-differ", "node-has-no-chip-memory-label", "chip-memory-label-unreadable"),
    *("shares-without-soft-label", "node-offers-no-chips", "node-in-another-way"),
    *("chip-has-no-such-template", "node-does-not-offer-this-part", "pod-of-unknown-part-on-node"),
    *("idle-fewer-than-request", "job-is-on-another-node", "no-chip-in-the-device-list"),
    *("no-chip-has-room", "no-room-for-the-whole-job-on-this-node", "equal-percent-not-mounted"),
    "another-template-not-settled",
)


def case_of(reason: str) -> Plain:
    """A case with one node, which has this reason."""
    for case in CASES:
        expect = case["expect"]
        if case["kind"] == "ways":
            found = {name: one.get("reason") for name, one in expect["ways"].items()}
        elif case["kind"] in ("soft", "static", "dynamic"):
            found = expect.get("nodes") or expect.get("refused") or {}
        else:
            continue
        name = next((name for name, one in found.items() if one == reason), None)
        if name is None:
            continue
        made = deepcopy(case)
        made["nodes"] = [
            one for one in made["nodes"] if one["name"] == name or reason.startswith("job-is-on")
        ]
        if case["kind"] == "ways":
            offered = made["nodes"][0].get("capacities") or {}
            made["kind"] = "dynamic" if CORES in offered else "soft"
            made["request"] = deepcopy(VNPU if CORES in offered else HALF)
        return made
    made = {"kind": "soft", "request": deepcopy(HALF), "nodes": [{"name": "n1", "labels": {}, "pods": []}]}
    assert reason == "node-offers-no-chips", reason
    made["nodes"][0] |= {"capacities": {}, "device_info": {}}
    return made


def objects_of(case: Plain) -> list[Plain]:
    request, resource = case["request"], case["request"]["resource"]
    group = "train" if request.get("pods", 1) > 1 else None
    found = [node_object(one, resource) for one in case["nodes"]]
    found += [report_object(one, resource) for one in case["nodes"] if one["device_info"]]
    held = node_pods(case, "annotations", group)
    if group is not None:
        found.append(pod_group(group, request["pods"], phase="Inqueue"))
        found[-1]["metadata"]["namespace"] = "vcjob"
    live = [
        one
        for one in held
        if one["status"]["phase"] != "Failed"
        and group
        and "scheduling.k8s.io/group-name" in one["metadata"]["annotations"]
    ]
    labels = {"volcano.sh/job-name": "train", **request["labels"]}
    for at in range(request.get("pods", 1) - len(live)):
        limits = {resource: str(request["count"])}
        notes = request.get("annotations", {})
        held.append(
            pod_object(f"new-{at}", f"new-{at}", limits, annotations=notes, labels=labels, group=group)
        )
    return [*found, *held]


@pytest.mark.parametrize("reason", REASONS)
def test_a_node_reason_reads_the_same_in_place_why_and_events(reason: str, tmp_path: Path) -> None:
    case = case_of(reason)
    decided = answer(case)
    refused = {name: one["reason"] for name, one in decided.candidates.items() if not one["accepted"]}
    node = next(name for name, one in refused.items() if one["code"] == code(reason))
    (condition,) = {
        one.reason.message
        for one in decided.commands
        if isinstance(one, SetPodCondition) and one.pod == "new-0"
    }
    files = "\n---\n".join(map(json.dumps, objects_of(case)))
    terminal = Terminal(tmp_path)
    name = "train" if case["request"].get("pods", 1) > 1 else "new-0"
    placed = next(one for one in terminal.json("place -f -", files)["jobs"] if one["name"] == name)
    why = terminal.json(f"why {name} -n vcjob -f -", files)
    assert placed["reason"] == why["reason"]
    assert placed["reason"]["message"] == condition
    assert code(reason) in condition
    assert why["rejected_nodes"][code(reason)] >= 1
    assert why["rejection_examples"][code(reason)].endswith(
        refused[node]["message"].removeprefix(f"{node}: ")
    )
    assert bool(why["fixes"]) or reason in OF_THE_NODE
    # What is general says what to do at the node.
    assert refused[node]["fixes"]
