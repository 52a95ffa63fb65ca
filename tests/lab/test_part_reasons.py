"""Every reason why a share or a vNPU waits: reached from files, the same in every place, with fixes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from copy import deepcopy
from pathlib import Path

import pytest

from ringwise.messages.commands import SetPodCondition
from tests.builders.objects import pod_group
from tests.lab import test_same_reason as jobs
from tests.lab.rig import Terminal
from tests.place.asking import Plain, configuration_text
from tests.place.part_cases import (
    CASES,
    CODES,
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
#: Of reasons of jobs, and then of nodes, in README-parts.md, from top to bottom.
OF_JOBS = (
    *("several-chip-resources-in-a-pod", "policy-and-resource-differ", "network-affinity-with-parts"),
    *("a-soft-sharing-label-is-missing", "quota-not-a-number", "aicore-quota-not-1-to-100"),
    *("hbm-quota-less-than-1", "policy-unknown", "request-differs-from-quota", "pods-differ"),
    *("more-than-one-part-in-a-pod", "scheduler-configured-for-static-parts"),
    *("no-handler-for-ring-controller-label", "dvpp-word-unknown", "count-not-allowed"),
    *("dvpp-label-not-allowed-for-count", "level-label-not-allowed"),
)
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
    settled = [
        one
        for one in held
        if one["status"]["phase"] != "Failed"
        and group
        and "scheduling.k8s.io/group-name" in one["metadata"]["annotations"]
    ]
    labels = {"volcano.sh/job-name": "train", **request["labels"]}
    for at in range(request.get("pods", 1) - len(settled)):
        amounts = {resource: request["count"], **request.get("also", {})}
        limits = {name: str(count) for name, count in amounts.items()}
        notes = request.get("annotations", {})
        own = labels | (request["other_pods"][at - 1] if at and "other_pods" in request else {})
        held.append(pod_object(f"new-{at}", f"new-{at}", limits, annotations=notes, labels=own, group=group))
    return [*found, *held]


@pytest.mark.parametrize("reason", REASONS)
def test_a_node_reason_reads_the_same_in_place_why_and_events(reason: str, tmp_path: Path) -> None:
    case = case_of(reason)
    decided = answer(case)
    refused = {name: one.reason for name, one in decided.candidates.items() if not one.accepted}
    node = next(name for name, one in refused.items() if one["code"] == code(reason))
    (condition,) = {
        one.reason.message
        for one in decided.commands
        if isinstance(one, SetPodCondition) and one.pod == "new-0"
    }
    objects, terminal = objects_of(case), Terminal(tmp_path)
    name = name_of(case)
    placed, why = placed_and_why(terminal, name, objects)
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
    check_fixes(terminal, name, objects, why)


@pytest.mark.parametrize("reason", OF_JOBS)
def test_a_reason_of_a_job_reads_the_same_in_place_why_and_events(reason: str, tmp_path: Path) -> None:
    case = next(one for one in CASES if one["expect"].get("reason") == reason and "request" in one)
    decided = answer(case)
    (condition,) = {
        one.reason.message
        for one in decided.commands
        if isinstance(one, SetPodCondition) and one.pod == "new-0"
    }
    terminal, name, option = Terminal(tmp_path), name_of(case), ""
    if "presetVirtualDevice" in case["request"]:
        value = str(case["request"]["presetVirtualDevice"]).lower()
        (tmp_path / "scheduler.conf").write_text(configuration_text({"presetVirtualDevice": value}))
        option = f" --config {tmp_path / 'scheduler.conf'}"
    placed, why = placed_and_why(terminal, name, objects_of(case), option)
    assert placed["reason"] == why["reason"]
    assert placed["reason"]["code"] == code(reason)
    assert placed["reason"]["message"] == condition


#: Reasons of jobs that one change of the manifest does not remove, in a cluster with nodes of every mode.
NOT_FIXED = {"several-chip-resources-in-a-pod", "scheduler-configured-for-static-parts"}
#: Labels without which the jobs of some reasons would be wrong in a second way.
NEEDED = {
    "policy-and-resource-differ": {"ring-controller.atlas": "ascend-310P"},
    "pods-differ": {"volcano.sh/job-name": "job"},
}


@pytest.mark.parametrize("reason", OF_JOBS)
def test_fixes_of_a_reason_of_a_job_start_it(reason: str, tmp_path: Path) -> None:
    case = jobs.CASES[CODES.get(reason, reason)]
    terminal, option = Terminal(tmp_path), ""
    if case.settings:
        (tmp_path / "scheduler.conf").write_text(case.settings)
        option = f" --config {tmp_path / 'scheduler.conf'}"
    objects = deepcopy([*case.cluster, *nodes_of_every_mode(), case.wanted, *case.more])
    for one in waiting_pods(objects):
        one["metadata"].setdefault("labels", {}).update(NEEDED.get(reason, {}))
    placed, why = placed_and_why(terminal, "job", objects, option)
    assert placed["reason"]["code"] == code(reason)
    assert bool(why["fixes"]) == (reason not in NOT_FIXED)
    check_fixes(terminal, "job", objects, why)


def name_of(case: Plain) -> str:
    return "train" if case["request"].get("pods", 1) > 1 else "new-0"


def placed_and_why(
    terminal: Terminal, name: str, objects: Iterable[Plain], option: str = ""
) -> tuple[Plain, Plain]:
    files = "\n---\n".join(map(json.dumps, objects))
    placed = next(one for one in terminal.json(f"place -f -{option}", files)["jobs"] if one["name"] == name)
    return placed, terminal.json(f"why {name} -n vcjob -f -{option}", files)


def nodes_of_every_mode() -> list[Plain]:
    soft = {"mind-cluster/npu-chip-memory": "64G", "huawei.com/scheduler.chip1softsharedev.enable": "true"}
    by_family = {
        family: {
            "accelerator": f"huawei-{family}",
            "servertype": server,
            "node.kubernetes.io/npu.chip.name": chip,
        }
        for family, server, chip in (
            ("Ascend310P", "Ascend310P-8", "310P3"),
            ("Ascend910", "Ascend910B-20", "910B4"),
        )
    }
    described: list[tuple[str, Plain, Plain, str]] = [
        ("soft", soft, {ASCEND910: 200}, "Ascend910"),
        ("static", {}, {"huawei.com/Ascend910-4c": 4}, ""),
        ("dynamic-310p", by_family["Ascend310P"], {CORES: 16}, "Ascend310P"),
        ("dynamic-910b4", by_family["Ascend910"], {CORES: 40}, "Ascend910"),
    ]
    made = []
    for name, labels, capacities, kind in described:
        lists = {f"huawei.com/{kind}": f"{kind}-0,{kind}-1"} if kind else {}
        one = {
            "name": name,
            "labels": labels,
            "capacities": capacities,
            "device_info": lists,
            "pods": [],
        }
        made += [node_object(one, None), report_object(one, None)]
    return made


# -- a fix, applied -----------------------------------------------------------------------------------


def check_fixes(terminal: Terminal, name: str, objects: list[Plain], why: Plain) -> None:
    """With each of the fixes, the job starts."""
    for fix in why["fixes"]:
        placed, _ = placed_and_why(terminal, name, fixed(objects, fix["message"]))
        assert placed["state"] == "scheduled", (fix["message"], placed["reason"])


def waiting_pods(objects: Iterable[Plain]) -> Iterator[Plain]:
    for one in objects:
        if one["kind"] == "Job":
            yield from (task["template"] for task in one["spec"]["tasks"])
        elif one["kind"] == "Pod" and "nodeName" not in one["spec"]:
            yield one


def fixed(objects: Iterable[Plain], message: str) -> list[Plain]:
    changed = deepcopy(list(objects))
    if ended := re.findall(r"job vcjob/(\S+)", message):
        return [one for one in changed if one["kind"] != "Pod" or one["metadata"]["name"] not in ended]
    count = re.search(r"request (\d+) (?:instead of|vNPU|cores?)", message)
    removed = re.fullmatch(r"remove the (label|annotation) (\S+)", message)
    labels = dict(re.findall(r'([\w./-]+)(?::| to) "?([^"\s,]+)', message))
    assert count or removed or labels, message
    if count and "percent" in message:
        labels[f"{SHARE}aicoreQuota"] = count[1]
    for one in waiting_pods(changed):
        one["metadata"].setdefault("labels", {}).update(labels)
        if removed:
            one["metadata"][f"{removed[1]}s"].pop(removed[2])
        if count:
            for amounts in one["spec"]["containers"][0]["resources"].values():
                amounts |= {key: count[1] for key in amounts if key.startswith("huawei.com/")}
    return changed
