"""Every reader of watched objects, fed with changed objects of its kind: it never raises."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from ringwise.kube.watch.job_templates import TemplateStore
from ringwise.kube.watch.kinds import Reader, watched_kinds
from ringwise.kube.watch.objects import change_events, deletion_events
from ringwise.kubeclient.client import UnreachableError
from ringwise.manifests.errors import Findings
from ringwise.manifests.switches import tor_config_map
from ringwise.topology.switches import LeafSwitch, Server, SwitchTopology
from ringwise.wellknown import SCHEDULER_CONFIG_KEY
from tests.manifests.builders import (
    config_map,
    device_info,
    pod_group,
    priority_class,
    queue,
    real_node,
    real_pod,
    vcjob,
)
from tests.manifests.hostile_values import changed_documents

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

VALID: dict[str, list[Any]] = {
    "configuration": [config_map("ringwise", {SCHEDULER_CONFIG_KEY: _CONFIGURATION})],
    "nodes": [real_node(1)],
    "priorityclasses": [priority_class()],
    "queues": [queue(capability={"cpu": "4"}, guarantee={"resource": {"memory": "1Gi"}})],
    "node-reports": [_REPORT],
    "cluster-reports": [_CHUNK],
    "topology": [tor_config_map(SwitchTopology((LeafSwitch("10.1.0.1", 0, _SERVERS),), 2))],
    "jobs": [vcjob(policies=[{"event": "PodEvicted", "action": "RestartJob"}], plugins={"env": []})],
    "podgroups": [pod_group(minTaskMember={"work": 1}, minResources={"cpu": "1"})],
    "pods": [real_pod(1, 10), _BOUND],
}
#: JSON inside a text: changed on its own, for a change of the whole document seldom leaves it readable.
INNER = {"node-reports": "DeviceInfoCfg", "cluster-reports": "cluster-info-device-0"}


def readers() -> dict[str, Reader]:
    kinds = watched_kinds(TemplateStore(), {}, ("kube-system", "ringwise"))
    return {target.title: reader for target, reader in kinds}


def test_every_watched_kind_is_tried() -> None:
    assert set(readers()) == set(VALID)


def read(reader: Reader, document: Any) -> int:
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
            objects = reader.stand_in(received, "here")
        for sent in (*change_events((), objects), *(e for _, one in objects for e in deletion_events(one))):
            # What is decided from can also be written to a journal.
            msgspec.json.encode(sent)
    return errors


@pytest.mark.parametrize("kind", VALID)
def test_changed_objects_are_read_or_reported(kind: str) -> None:
    reader = readers()[kind]
    assert all(read(reader, document) == 0 for document in VALID[kind])
    wrong = sum(read(reader, document) > 0 for document in changed_documents(VALID[kind]))
    assert wrong > 0


@pytest.mark.parametrize("kind", INNER)
def test_changed_reports_are_read_or_reported(kind: str) -> None:
    reader, key = readers()[kind], INNER[kind]
    document = VALID[kind][0]
    inner = json.loads(document["data"][key])
    wrong = 0
    for changed in changed_documents([inner]):
        wrong += read(reader, {**document, "data": {key: json.dumps(changed)}}) > 0
    assert wrong > 0


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
    assert bool(reader.stand_in(received, "here")) is closes
    ended = msgspec.Raw(json.dumps({**pod, "status": {"phase": "Succeeded"}}).encode())
    assert reader.stand_in(ended, "here") == ()
