"""Invalid input gives one clear line with file, document and field, and no traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ringwise.manifests import bundle as bundles
from ringwise.manifests.bundle import read_bundle
from ringwise.manifests.text import sources
from tests.builders.objects import hyper_node
from tests.builders.values import CHIP
from tests.manifests.builders import (
    config_map,
    device_info,
    node,
    pod,
    pod_group,
    priority_class,
    queue,
    task,
    text_of,
    vcjob,
)


def lines(data: bytes) -> list[str]:
    return [str(error) for error in read_bundle(["-"], stdin=data).errors]


def bound(annotation: str, chips: int = 1, key: str = CHIP) -> dict[str, Any]:
    return pod(chips=chips, node_name="node-0", annotations={key: annotation})


def with_resources(**resources: Any) -> dict[str, Any]:
    built = pod()
    built["spec"]["containers"][0]["resources"] = resources
    return built


def with_spec(**spec: Any) -> dict[str, Any]:
    built = pod()
    built["spec"].update(spec)
    return built


def node_with(allocatable: dict[str, Any]) -> dict[str, Any]:
    return {**node(), "status": {"allocatable": allocatable}}


LIMITS = "spec.containers[0].resources.limits"
REQUESTS = "spec.containers[0].resources.requests"

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "text for a count": (
        pod_group(minMember="three"),
        'spec.minMember: Invalid value: "three": must be a whole number',
    ),
    "a negative count": (
        pod_group(minMember=-1),
        "spec.minMember: Invalid value: -1: must be at least 0",
    ),
    "a fractional count": (
        pod_group(minMember=1.5),
        "spec.minMember: Invalid value: 1.5: must be a whole number",
    ),
    "a count beyond all counts": (
        pod_group(minMember=10**30),
        f"spec.minMember: Invalid value: {10**30}: must be 0 to 2147483647",
    ),
    "a flag for a count": (
        pod_group(minMember=True),
        "spec.minMember: Invalid value: true: must be a whole number",
    ),
    "a negative count of a task": (
        pod_group(minTaskMember={"work": -2}),
        "spec.minTaskMember.work: Invalid value: -2: must be at least 0",
    ),
    "a number for a name": (
        pod_group(queue=7),
        "spec.queue: Invalid value: 7: must be a string; put it in quotes",
    ),
    "an unknown gang phase": (
        {**pod_group(), "status": {"phase": "Lost"}},
        'status.phase: Invalid value: "Lost": must be one of Pending, Running, Unknown, Inqueue, Completed',
    ),
    "a list for an object": ({**pod(), "spec": []}, "spec: Invalid value: a list: must be an object"),
    "no name": ({**pod(), "metadata": {}}, "metadata.name: Required value"),
    "a name with a line break": (
        pod("a\nb"),
        "metadata.name: Invalid value: \"a\\nb\": must be a name of at most 253 letters, digits, '-' and '.'",
    ),
    "a megabyte of annotation": (
        pod(annotations={"note": "x" * 1_000_000}),
        "metadata.annotations.note: must have at most 262144 characters in total, got 1000004",
    ),
    "no such time": (
        pod(creationTimestamp="yesterday"),
        'metadata.creationTimestamp: Invalid value: "yesterday": must be a time like 2025-01-31T08:00:00Z',
    ),
    "no such time of deletion": (
        pod(deletionTimestamp="now"),
        'metadata.deletionTimestamp: Invalid value: "now": must be a time like 2025-01-31T08:00:00Z',
    ),
    "no containers": (with_spec(containers=[]), "spec.containers: must have at least one container"),
    "a negative chip count": (
        with_resources(limits={CHIP: -8}),
        f"{LIMITS}[{CHIP}]: Invalid value: -8: must be a whole number from 0 to 3600",
    ),
    "a fractional chip count": (
        with_resources(limits={CHIP: "1500m"}),
        f'{LIMITS}[{CHIP}]: Invalid value: "1500m": must be a whole number from 0 to 3600',
    ),
    "half a chip": (
        with_resources(limits={CHIP: 0.5}),
        f"{LIMITS}[{CHIP}]: Invalid value: 0.5: must be a whole number from 0 to 3600",
    ),
    "chips in words": (
        with_resources(limits={CHIP: "eight"}),
        f'{LIMITS}[{CHIP}]: Invalid value: "eight": must be a whole number from 0 to 3600',
    ),
    "other requests than limits": (
        with_resources(limits={CHIP: 8}, requests={CHIP: 4}),
        f"{REQUESTS}[{CHIP}]: must equal the limit 8, got 4",
    ),
    "chips requested without a limit": (
        with_resources(requests={CHIP: 4}),
        f"{REQUESTS}[{CHIP}]: requires an equal limit, got a request of 4 and no limit",
    ),
    "no quantity": (
        with_resources(requests={"cpu": "lots"}),
        f'{REQUESTS}.cpu: Invalid value: "lots": must be a quantity of 0 or more, like 2, "500m" or "1Gi"',
    ),
    "negative memory": (
        with_resources(requests={"memory": "-1Gi"}),
        f'{REQUESTS}.memory: Invalid value: "-1Gi": must not be negative',
    ),
    "a list for a quantity": (
        with_resources(requests={"cpu": [1]}),
        f"{REQUESTS}.cpu: Invalid value: a list: must be a quantity",
    ),
    "a chip that cannot be": (
        bound("Ascend910-3600"),
        f'metadata.annotations[{CHIP}]: Invalid value: "Ascend910-3600": must name chips Ascend910-0 to '
        "Ascend910-3599, with commas",
    ),
    "a chip of another kind": (
        bound("npu-1"),
        f'metadata.annotations[{CHIP}]: Invalid value: "npu-1": must name chips Ascend910-0 to '
        "Ascend910-3599, with commas",
    ),
    "a chip twice": (
        bound("Ascend910-1,Ascend910-1", 2, "huawei.com/AscendReal"),
        "metadata.annotations[huawei.com/AscendReal]: contains the chip Ascend910-1 twice",
    ),
    "hundreds of chips": (
        bound(",".join(f"Ascend910-{chip}" for chip in range(400))),
        f"metadata.annotations[{CHIP}]: must have at most 4096 characters, got 5489",
    ),
    "no rank": (
        pod(annotations={"hccl/rankIndex": "first"}),
        'metadata.annotations[hccl/rankIndex]: Invalid value: "first": must be a whole number of 0 or more',
    ),
    "a negative rank": (
        pod(annotations={"hccl/rankIndex": "-1"}),
        'metadata.annotations[hccl/rankIndex]: Invalid value: "-1": must be a whole number of 0 or more',
    ),
    "an unknown policy": (
        {**pod(), "spec": {**pod()["spec"], "preemptionPolicy": "Sometimes"}},
        'spec.preemptionPolicy: Invalid value: "Sometimes": must be one of Never, PreemptLowerPriority',
    ),
    "no flag": (
        pod(labels={"volcano.sh/preemptable": "maybe"}),
        'metadata.labels[volcano.sh/preemptable]: Invalid value: "maybe": must be "true" or "false"',
    ),
    "two selectors of a member": (
        hyper_node("s1", {"exactMatch": {"name": "a"}, "labelMatch": {"matchLabels": {"rack": "1"}}}),
        "spec.members[0].selector: cannot specify more than one selector type, has exactMatch and labelMatch",
    ),
    "chips of too many resources": (
        config_map(
            "mindx-dl-deviceinfo-node-0",
            {"DeviceInfoCfg": json.dumps({"DeviceList": {f"huawei.com/Ascend{n}": "" for n in range(17)}})},
        ),
        "data.DeviceInfoCfg.DeviceList: must list the chips of at most 16 resources, got 17",
    ),
    "an unknown phase": (
        {**pod(), "status": {"phase": "Lost"}},
        'status.phase: Invalid value: "Lost": must be one of Pending, Running, Succeeded, Failed, Unknown',
    ),
    "an unknown operator": (
        with_spec(tolerations=[{"key": "a", "operator": "Like"}]),
        'spec.tolerations[0].operator: Invalid value: "Like": must be Equal or Exists',
    ),
    "a port beyond the last": (
        with_spec(containers=[{"ports": [{"hostPort": 70000}]}]),
        "spec.containers[0].ports[0].hostPort: Invalid value: 70000: must be 1 to 65535",
    ),
    "anti-affinity to nowhere": (
        with_spec(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}),
        "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: "
        "Required value",
    ),
    "a spread without a skew": (
        with_spec(topologySpreadConstraints=[{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]),
        "spec.topologySpreadConstraints[0].maxSkew: Required value",
    ),
    "an unknown kind of spread": (
        with_spec(
            topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "Maybe"}]
        ),
        'spec.topologySpreadConstraints[0].whenUnsatisfiable: Invalid value: "Maybe": must be one of '
        "DoNotSchedule, ScheduleAnyway",
    ),
    "the fewest domains of a preference": (
        with_spec(
            topologySpreadConstraints=[
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}
            ]
        ),
        "spec.topologySpreadConstraints[0].minDomains: is allowed only with whenUnsatisfiable: DoNotSchedule",
    ),
    "a spread over nothing": (
        with_spec(topologySpreadConstraints=[{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]),
        "spec.topologySpreadConstraints[0].topologyKey: Required value",
    ),
    "labels of the pod without a selector": (
        with_spec(
            topologySpreadConstraints=[
                {
                    "maxSkew": 1,
                    "topologyKey": "zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "matchLabelKeys": ["app"],
                }
            ]
        ),
        "spec.topologySpreadConstraints[0].matchLabelKeys: must not be set without labelSelector",
    ),
    "a negative allocatable": (
        node_with({CHIP: "-1"}),
        f'status.allocatable[{CHIP}]: Invalid value: "-1": must be a whole number from 0 to 3600',
    ),
    "an unknown taint effect": (
        {**node(), "spec": {"taints": [{"key": "a", "effect": "Never"}]}},
        'spec.taints[0].effect: Invalid value: "Never": must be one of NoSchedule, PreferNoSchedule, '
        "NoExecute",
    ),
    "broken device infos": (
        node(annotations={"baseDeviceInfos": "{"}),
        "metadata.annotations.baseDeviceInfos: must be valid JSON; input data was truncated",
    ),
    "device infos of the wrong type": (
        node(annotations={"baseDeviceInfos": '{"Ascend910-0": {"IP": 7}}'}),
        "metadata.annotations.baseDeviceInfos.Ascend910-0.IP: Invalid value: 7: must be a string; "
        "put it in quotes",
    ),
    "a device without a number": (
        node(annotations={"baseDeviceInfos": '{"Ascend910": {}}'}),
        'metadata.annotations.baseDeviceInfos: Invalid value: "Ascend910": must name chips like '
        "Ascend910-0, with numbers 0 to 3599",
    ),
    "no SuperPoD id": (
        node(annotations={"superPodID": "blue"}),
        'metadata.annotations.superPodID: Invalid value: "blue": must be a whole number',
    ),
    "no weight": (queue(weight=0), "spec.weight: Invalid value: 0: must be 1 to 65535"),
    "no priority": (priority_class(value="high"), 'value: Invalid value: "high": must be a whole number'),
    "negative replicas": (
        vcjob(tasks=[task(replicas=-1)]),
        "spec.tasks[0].replicas: Invalid value: -1: must be at least 0",
    ),
    "fractional replicas": (
        vcjob(tasks=[task(replicas=1.5)]),
        "spec.tasks[0].replicas: Invalid value: 1.5: must be a whole number",
    ),
    "a negative gang": (
        vcjob(minAvailable=-3),
        "spec.minAvailable: Invalid value: -3: must be at least 0",
    ),
    "no estimate": (
        vcjob(runningEstimate="soon"),
        'spec.runningEstimate: Invalid value: "soon": must be a duration like "90s" or "1h30m"',
    ),
    "no device list": (
        config_map("mindx-dl-deviceinfo-a", {}),
        "data.DeviceInfoCfg: Required value",
    ),
    "a broken device list": (
        config_map("mindx-dl-deviceinfo-a", {"DeviceInfoCfg": "["}),
        "data.DeviceInfoCfg: must be valid JSON; input data was truncated",
    ),
    "an unknown chip in a device list": (
        config_map("mindx-dl-deviceinfo-a", {"DeviceInfoCfg": json.dumps(device_info(Unhealthy="x"))}),
        f'data.DeviceInfoCfg.DeviceInfo.DeviceList[{CHIP}-Unhealthy]: Invalid value: "x": must name chips '
        "Ascend910-0 to Ascend910-3599, with commas",
    ),
    "a device list of the wrong type": (
        config_map("mindx-dl-deviceinfo-a", {"DeviceInfoCfg": '{"SuperPodID": "a"}'}),
        'data.DeviceInfoCfg.SuperPodID: Invalid value: "a": must be a whole number',
    ),
    "a stranger in the aggregate": (
        config_map("cluster-info-device-0", {"cluster-info-device-0": '{"node-1": {}}'}, "mindx-dl"),
        "data.cluster-info-device-0.node-1: must be mindx-dl-deviceinfo-<node>",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_invalid_field_is_named_with_the_allowed_values(case: str) -> None:
    document, line = WRONG[case]
    assert lines(text_of(node("other"), document)) == [f"stdin: document 2: {line}"]


@pytest.mark.parametrize("case", WRONG)
def test_other_documents_are_read_when_one_is_invalid(case: str) -> None:
    document, _ = WRONG[case]
    read = read_bundle(["-"], stdin=text_of(node("other"), document, pod("last")), keep_going=True)
    assert [one.name for one in read.nodes] == ["other"]
    assert [one.name for one in read.pods if not one.node] == ["last"]


def test_a_bound_pod_that_cannot_be_read_is_not_left_out_N7() -> None:
    """Its node takes no other NPU pod, whether its annotations, its limits or everything is wrong."""
    unreadable = bound("Ascend910-0")
    unreadable["spec"]["containers"] = "none"
    text = text_of(bound("npu-1", 2), {**unreadable, "metadata": {"name": "b"}}, pod("c", node_name="node-0"))
    read = read_bundle(["-"], stdin=text, keep_going=True)
    nameless, closing, without_chips = read.pods
    assert (nameless.node, nameless.cls.chips, nameless.holds) == ("node-0", 2, ())
    assert (closing.key, closing.node, closing.unreadable) == ("default/b", "node-0", True)
    assert without_chips.name == "c"


def test_all_errors_are_reported() -> None:
    found = lines(text_of(pod_group(minMember="x", queue=3), pod_group("other", minMember=-1)))
    assert found == [
        'stdin: document 1: spec.minMember: Invalid value: "x": must be a whole number',
        "stdin: document 1: spec.queue: Invalid value: 3: must be a string; put it in quotes",
        "stdin: document 2: spec.minMember: Invalid value: -1: must be at least 0",
    ]


def test_an_invalid_item_of_a_list_is_named_by_its_index() -> None:
    data = text_of({"apiVersion": "v1", "items": [node(), pod_group(minMember=-1)], "kind": "List"})
    assert lines(data) == [
        "stdin: document 1: items[1]: spec.minMember: Invalid value: -1: must be at least 0"
    ]


def test_a_duplicate_name_gives_both_documents() -> None:
    classes = priority_class("a"), priority_class("a")
    classes[1]["metadata"]["namespace"] = "ignored"
    read = read_bundle(["-"], stdin=text_of(pod("a"), node("a"), pod("a"), *classes))
    assert [str(error) for error in read.errors] == [
        "stdin: document 3: metadata.name: the Pod team/a is already defined in stdin: document 1",
        "stdin: document 5: metadata.name: the PriorityClass a is already defined in stdin: document 4",
    ]
    assert len(read.pods) == 1


def test_the_same_name_in_another_namespace_or_kind_is_another_object() -> None:
    other = pod("a")
    other["metadata"]["namespace"] = "elsewhere"
    assert lines(text_of(pod("a"), other, pod_group("a"))) == []


def test_missing_files_and_empty_folders_are_reported(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    found = read_bundle([str(tmp_path / "none.yaml"), str(tmp_path / "empty")]).errors
    assert [str(error) for error in found] == [
        f"{tmp_path}/none.yaml: cannot be read: no such file or directory",
        f"{tmp_path}/empty: the directory does not contain .yaml, .yml or .json files",
    ]


def test_a_sparse_file_of_a_terabyte_is_rejected_unread(tmp_path: Path) -> None:
    huge = tmp_path / "huge.json"
    with huge.open("wb") as file:
        file.truncate(sources.MAX_SOURCE_BYTES + 1)
    assert [str(error) for error in read_bundle([str(huge)]).errors] == [
        f"{huge}: is 2.0 GiB; at most 2 GiB are read at once"
    ]


def test_the_number_of_errors_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "MAX_ERRORS", 3)
    many = text_of(*(pod_group(f"gang-{number}", minMember=-1) for number in range(9)), node())
    stopped = read_bundle(["-"], stdin=many)
    assert len(stopped.errors) == 4
    assert str(stopped.errors[-1]) == "input: there are more than 3 errors; reading stopped here"
    assert stopped.nodes == []
    going = read_bundle(["-"], stdin=many, keep_going=True)
    assert str(going.errors[-1]) == "input: 6 more errors are not listed"
    assert len(going.nodes) == 1


def test_the_number_of_pods_of_all_jobs_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "MAX_JOB_PODS", 4)
    jobs = [vcjob(name) for name in ("a", "b", "c")]
    assert not lines(text_of(*jobs[:2]))
    assert [line.partition("tasks: ")[2] for line in lines(text_of(*jobs))] == [
        "the jobs of this input have more than 4 pods in total"
    ]


def test_every_message_is_one_line() -> None:
    (line,) = lines(text_of(pod("\x1b[31m\r\nfake.yaml: all is well")))
    assert line.isprintable()
