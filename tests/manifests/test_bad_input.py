"""Whatever is wrong with an input: one clear line that names file, document and field, and no traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ringwise.manifests import bundle as bundles
from ringwise.manifests import sources
from ringwise.manifests.bundle import read_bundle
from tests.manifests.builders import (
    ASCEND,
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


def bound(annotation: str, chips: int = 1, key: str = ASCEND) -> dict[str, Any]:
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


def billion_laughs() -> bytes:
    rows = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for above, name in zip("abcdefgh", "bcdefghi", strict=True):
        rows.append(f"{name}: &{name} [{', '.join([f'*{above}'] * 10)}]")
    return "\n".join(rows).encode()


BROKEN: dict[str, tuple[bytes, str]] = {
    "a million brackets": (b"[" * 1_000_000, "document 1: is nested too deeply to be a Kubernetes object"),
    "a million objects inside each other": (
        b'{"a":' * 1_000_000,
        "document 1: is nested too deeply to be a Kubernetes object",
    ),
    "absurd depth inside an item": (
        b'{"kind":"List","items":[{"apiVersion":"v1","kind":"Pod","x":' + b"[" * 1_000_000,
        "document 1: is nested too deeply to be a Kubernetes object",
    ),
    "a million YAML brackets": (
        b"a: " + b"[" * 1_000_000,
        "document 1: line 1: is nested more than 100 levels deep",
    ),
    "a million YAML dashes": (
        b"- " * 1_000_000,
        "document 1: line 1: is nested more than 100 levels deep",
    ),
    "billion laughs": (
        billion_laughs(),
        "document 1: line 5: aliases expand to more than 100000 values",
    ),
    "an alias inside its own anchor": (
        b"a: &a [*a]",
        "document 1: line 1: the alias *a has no finished anchor",
    ),
    "NUL bytes": (
        b"\x00" * 10,
        "document 1: broken YAML: unacceptable character #x0000: control characters are not allowed",
    ),
    "NUL in JSON": (
        b'{"kind": "a\x00"}',
        "document 1: broken JSON in line 1, column 12: invalid character",
    ),
    "not UTF-8 in YAML": (
        b"kind: \xff",
        "document 1: broken YAML: unacceptable character #x00ff: invalid leading UTF-8 octet",
    ),
    "not UTF-8 in JSON": (
        b'{"apiVersion":"v1","kind":"Pod","never-read":"\xff"}',
        "document 1: is not UTF-8 text: invalid start byte at byte 46",
    ),
    "JSON cut short": (
        b'{"apiVersion": "v1",\n "kind": "Po',
        "document 1: broken JSON in line 2, column 10: the value that begins here has no end",
    ),
    "a comma too many": (
        b'{"kind": "List", "items": [{"apiVersion": "v1", "kind": "Event"},]}',
        "document 1: broken JSON in line 1, column 66: trailing comma",
    ),
    "a missing colon": (
        b'{"apiVersion" "v1"}',
        "document 1: broken JSON in line 1, column 15: expected ':'",
    ),
    "no closing brace": (
        b'{"apiVersion": "v1" "kind": "Pod"}',
        "document 1: broken JSON in line 1, column 21: expected ',' or '}'",
    ),
    "a key without quotes": (
        b'{"apiVersion": "v1", kind: "Pod"}',
        "document 1: broken JSON in line 1, column 22: expected a key in double quotes",
    ),
    "a tab as indent": (
        b"a:\n\tb: 1\n",
        "document 1: broken YAML in line 2, column 1: found character that cannot start any token",
    ),
    "a key twice": (
        b"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  name: b\n",
        'document 1: line 5: the key "name" stands twice in one mapping',
    ),
    "a mapping as key": (b"{a: 1}: 2", "document 1: line 1: a key must be plain text"),
    "code in a tag": (
        b"!!python/object/apply:os.system ['true']",
        'document 1: line 1: the tag "tag:yaml.org,2002:python/object/apply:os.system" is not allowed here',
    ),
    "prose": (b"hello world", "document 1: must be an object with apiVersion and kind"),
    "a number": (b"[1, 2]", "document 1: must be an object with apiVersion and kind"),
    "no kind": (
        b"apiVersion: v1\n",
        "document 1: kind: is missing; write kind: Pod, Node, Job, ...",
    ),
    "no version": (b"kind: Node\n", "document 1: apiVersion: is missing; a Node has v1"),
    "a kind of a megabyte": (
        text_of({"apiVersion": "v1", "kind": "K" * 2**20}),
        f'document 1: kind: must be a name like Pod, got "{"K" * 60}..." (1048576 characters)',
    ),
    "a kind that is a number": (b"apiVersion: v1\nkind: 3\n", "document 1: kind: must be text, got 3"),
    "a wrong version": (
        text_of({**pod_group(), "apiVersion": "v1"}),
        'document 1: apiVersion: a PodGroup has scheduling.volcano.sh/v1beta1, got "v1"',
    ),
    "a List in a List": (
        text_of({"kind": "List", "items": [{"apiVersion": "v1", "kind": "List", "items": []}]}),
        "document 1: items[0]: kind: a List inside a List is not read",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_cannot_be_read_is_told_in_one_line(case: str) -> None:
    data, line = BROKEN[case]
    assert lines(data) == [f"stdin: {line}"]


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
        with_resources(limits={ASCEND: -8}),
        f"{LIMITS}[{ASCEND}]: must be a whole number of 0 or more, got -8",
    ),
    "a fractional chip count": (
        with_resources(limits={ASCEND: "1500m"}),
        f'{LIMITS}[{ASCEND}]: must be a whole number of 0 or more, got "1500m"',
    ),
    "half a chip": (
        with_resources(limits={ASCEND: 0.5}),
        f"{LIMITS}[{ASCEND}]: must be a whole number of 0 or more, got 0.5",
    ),
    "chips in words": (
        with_resources(limits={ASCEND: "eight"}),
        f'{LIMITS}[{ASCEND}]: must be a whole number of 0 or more, got "eight"',
    ),
    "other requests than limits": (
        with_resources(limits={ASCEND: 8}, requests={ASCEND: 4}),
        f"{REQUESTS}[{ASCEND}]: must equal the limit 8, got 4",
    ),
    "chips requested without a limit": (
        with_resources(requests={ASCEND: 4}),
        f"{REQUESTS}[{ASCEND}]: needs a limit of the same count, got a request of 4 and no limit",
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
        bound("Ascend910-128"),
        f"metadata.annotations[{ASCEND}]: must name chips Ascend910-0 to Ascend910-127, with commas, "
        'got "Ascend910-128"',
    ),
    "a chip of another kind": (
        bound("npu-1"),
        f"metadata.annotations[{ASCEND}]: must name chips Ascend910-0 to Ascend910-127, with commas, "
        'got "npu-1"',
    ),
    "a chip twice": (
        bound("Ascend910-1,Ascend910-1", 2, "huawei.com/AscendReal"),
        "metadata.annotations[huawei.com/AscendReal]: names the chip Ascend910-1 twice",
    ),
    "more chips than asked for": (
        bound("Ascend910-1,Ascend910-2"),
        f"metadata.annotations[{ASCEND}]: must name as many chips as the limit 1 of {ASCEND}, got 2",
    ),
    "hundreds of chips": (
        bound(",".join(f"Ascend910-{chip}" for chip in range(200))),
        f"metadata.annotations[{ASCEND}]: must name at most 128 chips, got 200",
    ),
    "no rank": (
        pod(annotations={"hccl/rankIndex": "first"}),
        'metadata.annotations[hccl/rankIndex]: must be a whole number of 0 or more, got "first"',
    ),
    "a negative rank": (
        pod(annotations={"hccl/rankIndex": "-1"}),
        'metadata.annotations[hccl/rankIndex]: must be a whole number of 0 or more, got "-1"',
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
    "a negative allocatable": (
        node_with({ASCEND: "-1"}),
        f'status.allocatable[{ASCEND}]: must be a whole number of 0 or more, got "-1"',
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
        "metadata.annotations.baseDeviceInfos: must name chips like Ascend910-0, with numbers 0 to 127, "
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
        f"data.DeviceInfoCfg.DeviceInfo.DeviceList[{ASCEND}-Unhealthy]: must name chips Ascend910-0 to "
        'Ascend910-127, with commas, got "x"',
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
def test_a_wrong_field_is_named_with_what_is_allowed(case: str) -> None:
    document, line = WRONG[case]
    assert lines(text_of(node("other"), document)) == [f"stdin: document 2: {line}"]


@pytest.mark.parametrize("case", WRONG)
def test_the_rest_is_read_when_one_document_is_wrong(case: str) -> None:
    document, _ = WRONG[case]
    read = read_bundle(["-"], stdin=text_of(node("other"), document, pod("last")), keep_going=True)
    assert [one.name for one in read.nodes] == ["other"]
    assert [one.name for one in read.pods] == ["last"]


def test_all_problems_are_told_not_only_the_first() -> None:
    found = lines(text_of(pod_group(minMember="x", queue=3), pod_group("other", minMember=-1)))
    assert found == [
        'stdin: document 1: spec.minMember: must be a whole number, got "x"',
        "stdin: document 1: spec.queue: must be text, got 3; put it in quotes",
        "stdin: document 2: spec.minMember: must be a whole number of 0 or more, got -1",
    ]


def test_a_wrong_item_of_a_list_is_named_by_its_place() -> None:
    data = text_of({"apiVersion": "v1", "items": [node(), pod_group(minMember=-1)], "kind": "List"})
    assert lines(data) == [
        "stdin: document 1: items[1]: spec.minMember: must be a whole number of 0 or more, got -1"
    ]


def test_a_name_given_twice_names_both_places() -> None:
    read = read_bundle(["-"], stdin=text_of(pod("a"), node("a"), pod("a")))
    assert [str(error) for error in read.errors] == [
        "stdin: document 3: metadata.name: the Pod team/a stands already in stdin: document 1"
    ]
    assert len(read.pods) == 1


def test_the_same_name_in_another_namespace_or_kind_is_another_object() -> None:
    other = pod("a")
    other["metadata"]["namespace"] = "elsewhere"
    assert lines(text_of(pod("a"), other, pod_group("a"))) == []


def test_missing_files_and_empty_folders_are_told(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    found = read_bundle([str(tmp_path / "none.yaml"), str(tmp_path / "empty")]).errors
    assert [str(error) for error in found] == [
        f"{tmp_path}/none.yaml: cannot be read: no such file or directory",
        f"{tmp_path}/empty: folder has no .yaml, .yml or .json file",
    ]


def test_a_file_that_claims_a_terabyte_is_refused_unread(tmp_path: Path) -> None:
    huge = tmp_path / "huge.json"
    with huge.open("wb") as file:
        file.truncate(sources.MAX_SOURCE_BYTES + 1)
    assert [str(error) for error in read_bundle([str(huge)]).errors] == [
        f"{huge}: is 2.0 GiB; at most 2 GiB are read at once"
    ]


def test_a_flood_of_problems_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "MAX_ERRORS", 3)
    flood = text_of(*(pod_group(f"gang-{number}", minMember=-1) for number in range(9)), node())
    stopped = read_bundle(["-"], stdin=flood)
    assert len(stopped.errors) == 4
    assert str(stopped.errors[-1]) == "input: there are more than 3 problems; reading stopped here"
    assert stopped.nodes == []
    going = read_bundle(["-"], stdin=flood, keep_going=True)
    assert str(going.errors[-1]) == "input: 6 more problems are not told"
    assert len(going.nodes) == 1


def test_no_message_breaks_the_line() -> None:
    (line,) = lines(text_of(pod("\x1b[31m\r\nfake.yaml: all is well")))
    assert line.isprintable()
