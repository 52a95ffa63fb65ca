"""Every reader of watched objects, fed with changed objects of its kind: it never raises."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.kube.watch.kinds import Reader, read_object, watched_kinds
from ringwise.kube.watch.objects import change_events, deletion_events
from ringwise.kube.watch.readers import Observed, PodReader
from ringwise.kubeclient.client import UnreachableError
from ringwise.kubeclient.list_watch import name_of
from ringwise.manifests.config_maps.switches import tor_config_map
from ringwise.manifests.objects.move_plans import move_plan_body
from ringwise.manifests.objects.pods import PodClassCache
from ringwise.manifests.text.errors import Findings
from ringwise.messages import events as ev
from ringwise.messages.commands import Command, SetPodCondition
from ringwise.messages.move_plan import APPROVED, MovePlan, PlannedMove, PlannedPod
from ringwise.scheduler.explain.doctor import diagnose
from ringwise.state.model import Pod
from ringwise.topology.switches import LeafSwitch, Server, SwitchTopology
from ringwise.wellknown import RANK_INDEX, SCHEDULER_CONFIG_KEY
from tests.examples import sample
from tests.manifests.builders import (
    config_map,
    device_info,
    pod,
    pod_group,
    priority_class,
    queue,
    real_node,
    real_pod,
    vcjob,
)
from tests.manifests.hostile_values import changed_documents
from tests.manifests.volumes import (
    claim,
    csi_driver,
    csi_node,
    storage_capacity,
    storage_class,
    volume,
    with_claims,
)
from tests.scheduler.rig import bound_pods

_REPORT = config_map("mindx-dl-deviceinfo-a", {"DeviceInfoCfg": json.dumps(device_info(free="Ascend910-0"))})
_CHUNK = config_map(
    "cluster-info-device-0",
    {"cluster-info-device-0": json.dumps({"mindx-dl-deviceinfo-a": device_info(free="Ascend910-0")})},
    "mindx-dl",
)
_SERVERS = tuple(Server(f"10.0.0.{number}", number, number) for number in range(2))
_CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}]
configurations:
- name: init-params
  arguments: {grace-over-time: "900", super-pod-size: 48}
"""
_BOUND = {**real_pod(3, 10), "status": {"phase": "Running", "containerStatuses": [{"restartCount": 1}]}}

_NODE_STATUS = '{"NodeStatus": "UnHealthy", "FaultDevList": [{"DeviceType": "CPU", "DeviceId": 0}]}'
_NODE_INFO = config_map("mindx-dl-nodeinfo-node-1", {"NodeInfo": _NODE_STATUS}, "mindx-dl")
_NODE_CHUNK = config_map(
    "cluster-info-node-cm",
    {"cluster-info-node-cm": f'{{"mindx-dl-nodeinfo-node-1": {_NODE_STATUS}}}'},
    "mindx-dl",
)
_SWITCH_CHUNK = config_map(
    "cluster-info-switch-0",
    {"cluster-info-switch-0": '{"mindx-dl-switchinfo-node-1": {"NodeStatus": "SubHealthy"}}'},
    "mindx-dl",
)
_MOVED = PlannedPod("uid-1", "default/small-0", "node-1", (3,))
_PLAN = MovePlan(
    "plan-1",
    "default/big",
    (PlannedPod("uid-2", "default/big-0", "node-1", (0, 1)),),
    (PlannedMove("default/small", (_MOVED,), (_MOVED,), 600),),
    600,
    900 * 10**9,
    "uid-of-big",
    APPROVED,
)
VALID: dict[str, list[Any]] = {
    "configuration": [config_map("ringwise", {SCHEDULER_CONFIG_KEY: _CONFIGURATION})],
    "nodes": [real_node(1)],
    "namespaces": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": {"a": "b"}}}
    ],
    "hypernodes": [
        {
            "apiVersion": "topology.volcano.sh/v1alpha1",
            "kind": "HyperNode",
            "metadata": {"name": "s0", "uid": "1"},
            "spec": {
                "tier": 1,
                "tierName": "leaf",
                "members": [
                    {"type": "Node", "selector": {"exactMatch": {"name": "node-1"}}},
                    {"type": "HyperNode", "selector": {"exactMatch": {"name": "s1"}}},
                    {"type": "Node", "selector": {"regexMatch": {"pattern": "^node-[0-9]+$"}}},
                    {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"a": "b"}}}},
                ],
            },
            "status": {"nodeCount": 2, "conditions": [{"type": "Other", "status": "True"}]},
        }
    ],
    "priorityclasses": [priority_class()],
    "storageclasses": [storage_class("fast", waits=True, zones=["a"])],
    "csinodes": [csi_node("node-1", {"csi.example.com": 4}, keys=["zone"])],
    "csidrivers": [csi_driver()],
    "csistoragecapacities": [
        storage_capacity("here", "fast", "1Gi", "node-1", maximumVolumeSize="512Mi"),
        storage_capacity(
            "there", "fast", "1Gi", nodeTopology={"matchExpressions": [{"key": "a", "operator": "Exists"}]}
        ),
    ],
    "persistentvolumes": [volume("disk", claim="default/data", node="node-1"), volume("free", zone="a")],
    "persistentvolumeclaims": [claim("data", "fast"), claim("other", bound="disk", node="node-1")],
    "resourcequotas": [
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "q", "namespace": "default"},
            "spec": {"hard": {"requests.cpu": "4", "pods": 5}},
            "status": {"hard": {"pods": "5"}, "used": {"requests.cpu": "500m"}},
        }
    ],
    "queues": [queue(capability={"cpu": "4"}, guarantee={"resource": {"memory": "1Gi"}})],
    "node-reports": [_REPORT],
    "node-health": [_NODE_INFO],
    "cluster-reports": [_CHUNK, _NODE_CHUNK, _SWITCH_CHUNK],
    "topology": [tor_config_map(SwitchTopology((LeafSwitch("10.1.0.1", 0, _SERVERS),), 2))],
    "isolations": [
        {
            "metadata": {"name": "fan", "generation": 1},
            "spec": {"node": "node-1", "chips": ["Ascend910-3"], "startTime": "2026-01-31T08:00:00Z"},
            "status": {"conditions": [{"type": "Accepted", "status": "True", "observedGeneration": 1}]},
        }
    ],
    "nodereservations": [
        {
            "metadata": {"name": "night", "generation": 1},
            "spec": {
                "nodeNames": ["node-1"],
                "holder": {"queue": "q"},
                "startTime": "2026-01-31T08:00:00Z",
                "endTime": "2026-01-31T09:00:00Z",
            },
            "status": {"conditions": [{"type": "Accepted", "status": "True", "observedGeneration": 1}]},
        }
    ],
    "moveplans": [move_plan_body(_PLAN)],
    "usagelimits": [
        {
            "metadata": {"name": "few", "generation": 1},
            "spec": {
                "subject": {"namespace": "a", "queue": "*", "user": "*"},
                "hard": {"requests.huawei.com/Ascend910": 8, "runningJobs": 3, "memory": "1Gi"},
                "borrowingLimit": {"requests.huawei.com/Ascend910": "8"},
                "maxRunTime": "12h",
                "onTimeout": "Requeue",
            },
        }
    ],
    "jobs": [vcjob(policies=[{"event": "PodEvicted", "action": "RestartJob"}], plugins={"env": []})],
    "podgroups": [pod_group(minTaskMember={"work": 1}, minResources={"cpu": "1"})],
    "pods": [real_pod(1, 10), _BOUND, {**_BOUND, "spec": with_claims(_BOUND["spec"], "data")}],
}
#: JSON inside a text: changed on its own, for a change of the whole document seldom leaves it readable.
INNER = {
    "node-health": "NodeInfo",
    "node-reports": "DeviceInfoCfg",
    "cluster-reports": "cluster-info-device-0",
    "topology": "tor_info",
}


def readers() -> dict[str, Reader]:
    kinds = watched_kinds(Observed(), ("kube-system", "ringwise"))
    return {target.title: reader for target, reader in kinds}


def test_every_watched_kind_is_tried() -> None:
    assert set(readers()) == set(VALID)


def read(reader: Reader, document: Any, events: list[ev.Event]) -> int:
    """Through a page, a line of a watch, and the events that follow; the number of errors."""
    try:
        body = json.dumps(document).encode()
        page = reader.page(b'{"metadata":{"resourceVersion":"1"},"items":[%s]}' % body)
        event = reader.watch_event(b'{"type":"ADDED","object":%s}' % body)
    except UnreachableError:
        return 1
    errors = 0
    for received in (*(page.items or ()), event.object, msgspec.Raw(body)):
        found = Findings("here")
        objects = reader.read(received, found)
        assert all(str(error).isprintable() for error in found.errors)
        errors += len(found.errors)
        if objects is None:
            objects = reader.stand_in(received, (), "here")
        for sent in (*change_events((), objects), *(e for _, one in objects for e in deletion_events(one))):
            # What is decided from can also be written to a journal.
            msgspec.json.encode(sent)
            events.append(sent)
    return errors


@pytest.mark.parametrize("kind", VALID)
def test_changed_objects_are_read_or_reported(kind: str) -> None:
    reader = readers()[kind]
    events: list[ev.Event] = []
    assert all(read(reader, document, events) == 0 for document in VALID[kind])
    wrong = sum(read(reader, document, events) > 0 for document in changed_documents(VALID[kind]))
    assert wrong > 0
    taken_in(events)


def taken_in(events: list[ev.Event]) -> None:
    """The core handles whatever the readers let pass: nothing is set aside, and the tables stay true."""
    scheduler = new_scheduler()
    for first in range(0, len(events), 100):
        scheduler.handle(events[first : first + 100], first)
        assert scheduler.view.contained_objects == []
    assert scheduler.view.inconsistencies() == []


@pytest.mark.parametrize("kind", INNER)
def test_changed_reports_are_read_or_reported(kind: str) -> None:
    reader, key = readers()[kind], INNER[kind]
    document = VALID[kind][0]
    inner = json.loads(document["data"][key])
    wrong, events = 0, list[ev.Event]()
    for changed in changed_documents([inner]):
        changed_map = {**document, "data": {**document["data"], key: json.dumps(changed)}}
        wrong += read(reader, changed_map, events) > 0
    assert wrong or kind == "topology"
    taken_in(events)


@pytest.mark.parametrize(
    ("limits", "closes"),
    [
        ({"huawei.com/Ascend910": 10**15}, True),
        ({"huawei.com/Ascend910": "many"}, True),
        ("none", True),
        ({"cpu": "many"}, False),
        ({}, False),
    ],
)
def test_n7_a_bound_pod_that_was_never_readable_closes_its_node_for_its_limits(
    limits: Any, closes: bool
) -> None:
    pod = {
        "metadata": {"name": "p", "namespace": "team", "uid": "u", "annotations": {"a": 1}},
        "spec": {"nodeName": "node-1", "containers": [{"resources": {"limits": limits}}]},
    }
    received = msgspec.Raw(json.dumps(pod).encode())
    reader = readers()["pods"]
    assert reader.read(received, Findings("here")) is None
    assert bool(reader.stand_in(received, (), "here")) is closes
    ended = msgspec.Raw(json.dumps({**pod, "status": {"phase": "Succeeded"}}).encode())
    assert reader.stand_in(ended, (), "here") == ()


def test_n7_a_pod_that_is_bound_with_unreadable_annotations_closes_its_node() -> None:
    """Its last good version has no node, so it says nothing about the chips that the pod has now."""
    reader = readers()["pods"]
    pending = real_pod(1, 10)
    pending["spec"].pop("nodeName", None)
    before = reader.read(msgspec.Raw(json.dumps(pending).encode()), Findings("here"))
    assert before
    pending["spec"]["nodeName"] = "node-1"
    pending["metadata"]["annotations"] = {"a": 1}
    ((_, pod),) = reader.stand_in(msgspec.Raw(json.dumps(pending).encode()), before, "here")
    assert isinstance(pod, Pod)
    assert (pod.node, pod.unreadable) == ("node-1", True)


def test_n7_a_bound_pod_with_a_wrong_annotation_is_read_without_it() -> None:
    """It has decoded already, as in a page, and keeps its own name and uid."""
    reader = readers()["pods"]
    body = json.loads(json.dumps(_BOUND))
    body["spec"]["nodeName"] = "node-1"
    body["metadata"]["annotations"] = {RANK_INDEX: "first"}
    page = reader.page(b'{"metadata":{"resourceVersion":"1"},"items":[%s]}' % json.dumps(body).encode())
    received = (page.items or [])[0]
    assert not isinstance(received, msgspec.Raw)
    assert reader.read(received, Findings("here")) is None
    ((key, pod),) = reader.stand_in(received, (), "here")
    assert isinstance(pod, Pod)
    meta = body["metadata"]
    assert (key, pod.uid, pod.namespace) == (meta["uid"], meta["uid"], meta["namespace"])
    assert (pod.name, pod.node) == (meta["name"], "node-1")


def test_of_an_unreadable_version_only_its_end_is_believed() -> None:
    reader = readers()["pods"]
    body = json.loads(json.dumps(_BOUND))
    body["spec"]["nodeName"] = "node-1"
    before = reader.read(msgspec.Raw(json.dumps(body).encode()), Findings("here"))
    assert before is not None
    ((key, good),) = before
    assert isinstance(good, Pod)
    body["metadata"]["annotations"] = {"a": 1}
    received = msgspec.Raw(json.dumps(body).encode())
    assert reader.stand_in(received, before, "here") == before
    body["metadata"]["deletionTimestamp"] = "2025-01-31T08:00:00Z"
    body["status"]["phase"] = "Succeeded"
    received = msgspec.Raw(json.dumps(body).encode())
    ended = replace(good, deleting=True, phase="Succeeded")
    assert reader.stand_in(received, before, "here") == ((key, ended),)


class RaisingReader(PodReader):
    """A reader with a defect that one pod brings to light."""

    def objects(self, wire: Any, found: Findings) -> Any:
        if wire.metadata.name == "bad":
            raise ZeroDivisionError
        return super().objects(wire, found)


def test_a_reader_that_raises_costs_one_object() -> None:
    reader = RaisingReader(PodClassCache())
    found = Findings("here")
    bad = msgspec.Raw(json.dumps({**real_pod(1, 10), "metadata": {"name": "bad", "uid": "u"}}).encode())
    assert read_object(reader, bad, found) is None
    assert str(found.errors[0]) == 'here: cannot be read: ZeroDivisionError: ""'
    assert read_object(reader, msgspec.Raw(json.dumps(real_pod(1, 10)).encode()), Findings("here"))


@pytest.mark.parametrize("kind", sample([*VALID]))
def test_a_deeply_nested_field_that_is_not_read_changes_nothing(kind: str) -> None:
    reader = readers()[kind]
    body = json.dumps(VALID[kind][0]).encode()
    deep = b'{"deep":' + b"[" * 50_000 + b"]" * 50_000 + b"," + body[1:]
    answer = b'{"metadata":{"resourceVersion":"1"},"items":[%s,%s]}'
    plain, changed = reader.page(answer % (body, body)), reader.page(answer % (body, deep))
    event = reader.watch_event(b'{"type":"ADDED","object":%s}' % deep)
    expected = [reader.read(one, Findings("here")) for one in plain.items or ()]
    found = Findings("here")
    assert [reader.read(one, found) for one in changed.items or ()] == expected
    assert reader.read(event.object, found) == expected[0]
    assert [name_of(one) for one in (*(changed.items or ()), event.object)] == [
        name_of(msgspec.Raw(body))
    ] * 3
    assert not found.errors


_TERM = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
_MANY_TERMS = {
    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM] * 257}}
}


@pytest.mark.parametrize(
    ("spec", "labels", "said"),
    [
        (
            {"affinity": _MANY_TERMS},
            {},
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution: has 257 terms "
            "of one kind of node or pod affinity; at most 256 are allowed",
        ),
        (
            {"tolerations": [{"operator": "Exists"}] * 300},
            {},
            "spec.tolerations: has 300 tolerations; at most 256 are allowed",
        ),
        (
            {},
            {f"l{number}": "" for number in range(1025)},
            "metadata.labels: has 1,025 labels; at most 1,024 are allowed",
        ),
    ],
)
def test_a_pod_that_exceeds_a_limit_is_told_why_it_is_not_placed(
    spec: dict[str, Any], labels: dict[str, str], said: str
) -> None:
    """Where no webhook is installed its owner looks at the pod and at its job."""
    scheduler, kinds = new_scheduler(), readers()
    problems: list[str] = []

    def seen(kind: str, document: Any) -> list[Command]:
        found = Findings("here")
        objects = kinds[kind].read(msgspec.Raw(json.dumps(document).encode()), found)
        problems.extend(f"{error.field}: {error.message}" for error in found.errors)
        assert objects is not None
        return scheduler.handle(list(change_events((), objects)), 0)

    seen("nodes", real_node(0))
    large = pod("large", 2, labels=labels)
    large["spec"] |= spec
    (told,) = (one for one in seen("pods", large) if isinstance(one, SetPodCondition))
    assert told.reason.code == "invalid-job"
    assert told.reason.message == f"pod large: {said}"
    assert scheduler.view.jobs["team/pod:large"].reason == told.reason
    # It is counted, listed by doctor and told by an event all the same.
    assert problems == [said]
    # Nothing but its size keeps it from that node.
    assert bound_pods(seen("pods", pod("other", 2))) == ["other"]


@pytest.mark.parametrize(
    ("kind", "document", "said"),
    [
        ("jobs", vcjob(tasks=[{"name": f"t{one}"} for one in range(1025)]), "spec.tasks: has 1,025 tasks"),
        ("jobs", vcjob(priorityClassName="p" * 254), 'spec.priorityClassName: Invalid value: "ppp'),
        (
            "podgroups",
            pod_group(minTaskMember={f"t{one}": 1 for one in range(1025)}),
            "spec.minTaskMember: has 1,025 tasks",
        ),
        ("podgroups", pod_group(queue="q" * 254), 'spec.queue: Invalid value: "qqq'),
    ],
)
def test_a_job_that_exceeds_a_limit_says_so(kind: str, document: Any, said: str) -> None:
    """Nothing of what is too large is kept."""
    observed, found = Observed(), Findings("here")
    (reader,) = (one for target, one in watched_kinds(observed) if target.title == kind)
    objects = reader.read(msgspec.Raw(json.dumps(document).encode()), found)
    assert objects is not None
    assert found.errors
    assert len(msgspec.json.encode(objects[0][1])) < 2_000
    scheduler = new_scheduler()
    scheduler.handle(list(change_events((), objects)), 0)
    (job,) = scheduler.view.jobs.values()
    assert job.defects[0].message.startswith(said)
    assert any(one.message.startswith(said) for one in diagnose(scheduler.view).findings)


def test_a_vcjob_that_runs_and_exceeds_a_limit_keeps_its_last_good_version() -> None:
    """Without its tasks its pods would be nobody's."""
    document = vcjob(tasks=[{"name": f"t{one}"} for one in range(1025)])
    document["status"] = {"state": {"phase": "Running"}}
    assert readers()["jobs"].read(msgspec.Raw(json.dumps(document).encode()), Findings("here")) is None
