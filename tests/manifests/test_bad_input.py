"""Invalid input gives one clear line with file, document and field, and no traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ringwise.manifests import bundle as bundles
from ringwise.manifests.bundle import read_bundle
from ringwise.manifests.text import sources
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
    "text for a count": (pod_group(minMember="three"), 'spec.minMember: must be a whole number, got "three"'),
    "a negative count": (
        pod_group(minMember=-1),
        "spec.minMember: must be a whole number of 0 or more, got -1",
    ),
    "a fractional count": (pod_group(minMember=1.5), "spec.minMember: must be a whole number, got 1.5"),
    "a count beyond all counts": (
        pod_group(minMember=10**30),
        f"spec.minMember: must be a whole number of 0 to 2147483647, got {10**30}",
    ),
    "a flag for a count": (pod_group(minMember=True), "spec.minMember: must be a whole number, got true"),
    "a negative count of a task": (
        pod_group(minTaskMember={"work": -2}),
        "spec.minTaskMember.work: must be a whole number of 0 or more, got -2",
    ),
    "a number for a name": (pod_group(queue=7), "spec.queue: must be text, got 7; put it in quotes"),
    "an unknown gang phase": (
        {**pod_group(), "status": {"phase": "Lost"}},
        'status.phase: must be one of Pending, Running, Unknown, Inqueue, Completed, got "Lost"',
    ),
    "a list for an object": ({**pod(), "spec": []}, "spec: must be an object, got a list"),
    "no name": ({**pod(), "metadata": {}}, "metadata.name: is missing"),
    "a name with a line break": (
        pod("a\nb"),
        "metadata.name: must be a name of at most 253 letters, digits, '-' and '.', got \"a\\nb\"",
    ),
    "a megabyte of annotation": (
        pod(annotations={"note": "x" * 1_000_000}),
        "metadata.annotations.note: annotations of one object may have 262144 characters, got 1000004",
    ),
    "no such time": (
        pod(creationTimestamp="yesterday"),
        'metadata.creationTimestamp: must be a time like 2025-01-31T08:00:00Z, got "yesterday"',
    ),
    "no such time of deletion": (
        pod(deletionTimestamp="now"),
        'metadata.deletionTimestamp: must be a time like 2025-01-31T08:00:00Z, got "now"',
    ),
    "no containers": (with_spec(containers=[]), "spec.containers: must have at least one container"),
    "a negative chip count": (
        with_resources(limits={CHIP: -8}),
        f"{LIMITS}[{CHIP}]: must be a whole number of 0 to 3600, got -8",
    ),
    "a fractional chip count": (
        with_resources(limits={CHIP: "1500m"}),
        f'{LIMITS}[{CHIP}]: must be a whole number of 0 to 3600, got "1500m"',
    ),
    "half a chip": (
        with_resources(limits={CHIP: 0.5}),
        f"{LIMITS}[{CHIP}]: must be a whole number of 0 to 3600, got 0.5",
    ),
    "chips in words": (
        with_resources(limits={CHIP: "eight"}),
        f'{LIMITS}[{CHIP}]: must be a whole number of 0 to 3600, got "eight"',
    ),
    "other requests than limits": (
        with_resources(limits={CHIP: 8}, requests={CHIP: 4}),
        f"{REQUESTS}[{CHIP}]: must equal the limit 8, got 4",
    ),
    "chips requested without a limit": (
        with_resources(requests={CHIP: 4}),
        f"{REQUESTS}[{CHIP}]: needs a limit of the same count, got a request of 4 and no limit",
    ),
    "no quantity": (
        with_resources(requests={"cpu": "lots"}),
        f'{REQUESTS}.cpu: must be a quantity of 0 or more, like 2, "500m" or "1Gi", got "lots"',
    ),
    "negative memory": (
        with_resources(requests={"memory": "-1Gi"}),
        f'{REQUESTS}.memory: must not be negative, got "-1Gi"',
    ),
    "a list for a quantity": (
        with_resources(requests={"cpu": [1]}),
        f"{REQUESTS}.cpu: must be a quantity, got a list",
    ),
    "a chip that cannot be": (
        bound("Ascend910-3600"),
        f"metadata.annotations[{CHIP}]: must name chips Ascend910-0 to Ascend910-3599, with commas, "
        'got "Ascend910-3600"',
    ),
    "a chip of another kind": (
        bound("npu-1"),
        f"metadata.annotations[{CHIP}]: must name chips Ascend910-0 to Ascend910-3599, with commas, "
        'got "npu-1"',
    ),
    "a chip twice": (
        bound("Ascend910-1,Ascend910-1", 2, "huawei.com/AscendReal"),
        "metadata.annotations[huawei.com/AscendReal]: names the chip Ascend910-1 twice",
    ),
    "hundreds of chips": (
        bound(",".join(f"Ascend910-{chip}" for chip in range(400))),
        f"metadata.annotations[{CHIP}]: must have at most 4096 characters, got 5489",
    ),
    "no rank": (
        pod(annotations={"hccl/rankIndex": "first"}),
        'metadata.annotations[hccl/rankIndex]: must be a whole number of 0 or more, got "first"',
    ),
    "a negative rank": (
        pod(annotations={"hccl/rankIndex": "-1"}),
        'metadata.annotations[hccl/rankIndex]: must be a whole number of 0 or more, got "-1"',
    ),
    "an unknown policy": (
        {**pod(), "spec": {**pod()["spec"], "preemptionPolicy": "Sometimes"}},
        'spec.preemptionPolicy: must be one of Never, PreemptLowerPriority, got "Sometimes"',
    ),
    "no flag": (
        pod(labels={"volcano.sh/preemptable": "maybe"}),
        'metadata.labels[volcano.sh/preemptable]: must be "true" or "false", got "maybe"',
    ),
    "an unknown phase": (
        {**pod(), "status": {"phase": "Lost"}},
        'status.phase: must be one of Pending, Running, Succeeded, Failed, Unknown, got "Lost"',
    ),
    "an unknown operator": (
        with_spec(tolerations=[{"key": "a", "operator": "Like"}]),
        'spec.tolerations[0].operator: must be Equal or Exists, got "Like"',
    ),
    "a port beyond the last": (
        with_spec(containers=[{"ports": [{"hostPort": 70000}]}]),
        "spec.containers[0].ports[0].hostPort: must be a whole number of 1 to 65535, got 70000",
    ),
    "anti-affinity to nowhere": (
        with_spec(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}),
        "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: "
        "is missing",
    ),
    "a spread without a skew": (
        with_spec(topologySpreadConstraints=[{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]),
        "spec.topologySpreadConstraints[0].maxSkew: is missing",
    ),
    "an unknown kind of spread": (
        with_spec(
            topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "Maybe"}]
        ),
        "spec.topologySpreadConstraints[0].whenUnsatisfiable: must be one of DoNotSchedule, ScheduleAnyway,"
        ' got "Maybe"',
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
        "spec.topologySpreadConstraints[0].topologyKey: is missing",
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
        f'status.allocatable[{CHIP}]: must be a whole number of 0 to 3600, got "-1"',
    ),
    "an unknown taint effect": (
        {**node(), "spec": {"taints": [{"key": "a", "effect": "Never"}]}},
        'spec.taints[0].effect: must be one of NoSchedule, PreferNoSchedule, NoExecute, got "Never"',
    ),
    "broken device infos": (
        node(annotations={"baseDeviceInfos": "{"}),
        "metadata.annotations.baseDeviceInfos: must be valid JSON; input data was truncated",
    ),
    "device infos of the wrong type": (
        node(annotations={"baseDeviceInfos": '{"Ascend910-0": {"IP": 7}}'}),
        "metadata.annotations.baseDeviceInfos.Ascend910-0.IP: must be text, got 7; put it in quotes",
    ),
    "a device without a number": (
        node(annotations={"baseDeviceInfos": '{"Ascend910": {}}'}),
        "metadata.annotations.baseDeviceInfos: must name chips like Ascend910-0, with numbers 0 to 3599, "
        'got "Ascend910"',
    ),
    "no SuperPoD id": (
        node(annotations={"superPodID": "blue"}),
        'metadata.annotations.superPodID: must be a whole number, got "blue"',
    ),
    "no weight": (queue(weight=0), "spec.weight: must be a whole number of 1 to 65535, got 0"),
    "no priority": (priority_class(value="high"), 'value: must be a whole number, got "high"'),
    "negative replicas": (
        vcjob(tasks=[task(replicas=-1)]),
        "spec.tasks[0].replicas: must be a whole number of 0 or more, got -1",
    ),
    "fractional replicas": (
        vcjob(tasks=[task(replicas=1.5)]),
        "spec.tasks[0].replicas: must be a whole number, got 1.5",
    ),
    "a negative gang": (
        vcjob(minAvailable=-3),
        "spec.minAvailable: must be a whole number of 0 or more, got -3",
    ),
    "no estimate": (
        vcjob(runningEstimate="soon"),
        'spec.runningEstimate: must be a duration like "90s" or "1h30m", got "soon"',
    ),
    "no device list": (
        config_map("mindx-dl-deviceinfo-a", {}),
        "data.DeviceInfoCfg: is missing",
    ),
    "a broken device list": (
        config_map("mindx-dl-deviceinfo-a", {"DeviceInfoCfg": "["}),
        "data.DeviceInfoCfg: must be valid JSON; input data was truncated",
    ),
    "an unknown chip in a device list": (
        config_map("mindx-dl-deviceinfo-a", {"DeviceInfoCfg": json.dumps(device_info(Unhealthy="x"))}),
        f"data.DeviceInfoCfg.DeviceInfo.DeviceList[{CHIP}-Unhealthy]: must name chips Ascend910-0 to "
        'Ascend910-3599, with commas, got "x"',
    ),
    "a device list of the wrong type": (
        config_map("mindx-dl-deviceinfo-a", {"DeviceInfoCfg": '{"SuperPodID": "a"}'}),
        'data.DeviceInfoCfg.SuperPodID: must be a whole number, got "a"',
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
        'stdin: document 1: spec.minMember: must be a whole number, got "x"',
        "stdin: document 1: spec.queue: must be text, got 3; put it in quotes",
        "stdin: document 2: spec.minMember: must be a whole number of 0 or more, got -1",
    ]


def test_an_invalid_item_of_a_list_is_named_by_its_index() -> None:
    data = text_of({"apiVersion": "v1", "items": [node(), pod_group(minMember=-1)], "kind": "List"})
    assert lines(data) == [
        "stdin: document 1: items[1]: spec.minMember: must be a whole number of 0 or more, got -1"
    ]


def test_a_duplicate_name_gives_both_documents() -> None:
    read = read_bundle(["-"], stdin=text_of(pod("a"), node("a"), pod("a")))
    assert [str(error) for error in read.errors] == [
        "stdin: document 3: metadata.name: the Pod team/a is already defined in stdin: document 1"
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
        f"{tmp_path}/empty: folder has no .yaml, .yml or .json file",
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


def test_every_message_is_one_line() -> None:
    (line,) = lines(text_of(pod("\x1b[31m\r\nfake.yaml: all is well")))
    assert line.isprintable()
