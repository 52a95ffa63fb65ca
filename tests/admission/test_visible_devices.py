"""The webhook refuses what says itself which chips it sees, in every kind of object that it sees."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from ringwise.apps.admission.rules import ClusterFacts
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.manifests.settings.configuration import read_configuration
from ringwise.messages.events import ConfigurationSeen
from ringwise.scheduler.defaults import BUILT_IN
from ringwise.state.model import Queue
from tests.admission.reviews import answer, pod, review, vcjob
from tests.deploy.shipped import webhooks
from tests.place.workloads import ascend_job, operator_job, replicated, role

CATALOG = shipped_catalog()
LITERAL = {"name": "ASCEND_VISIBLE_DEVICES", "value": "0-7"}
ALLOCATED = {
    "name": "ASCEND_VISIBLE_DEVICES",
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['huawei.com/Ascend910']"}},
}
NO_CHIPS = pod(0)
#: An object of each kind, and where its first container is.
KINDS: list[tuple[dict[str, Any], tuple[str | int, ...]]] = [
    (vcjob(8), ("spec", "tasks", 0, "template", "spec")),
    (pod(8), ("spec",)),
    (pod(8, annotations={"scheduling.k8s.io/group-name": "gang"}), ("spec",)),
    (NO_CHIPS, ("spec",)),
    *((replicated(kind, 8), ("spec", "template", "spec")) for kind in ("Deployment", "StatefulSet", "Job")),
    (replicated("Deployment", 1, 3), ("spec", "template", "spec")),
    (
        ascend_job({"Master": role(8)}, schedulerName="volcano"),
        ("spec", "replicaSpecs", "Master", "template", "spec"),
    ),
    (
        operator_job("PyTorchJob", {"Worker": role(8, schedulerName="volcano")}),
        ("spec", "pytorchReplicaSpecs", "Worker", "template", "spec"),
    ),
]


def known(setting: str = "", queues: bool = True) -> ClusterFacts:
    cluster = ClusterFacts(CATALOG, queues={"default": Queue("default")} if queues else None)
    if setting:
        text = (
            "actions: allocate\ntiers: [{plugins: [{name: topology910}]}]\n"
            f"configurations: [{{name: init-params, arguments: {{visible-devices: {setting}}}}}]\n"
        )
        cluster.take(ConfigurationSeen(read_configuration(text, "conf", BUILT_IN)))
    return cluster


def respond(object: dict[str, Any], cluster: ClusterFacts | None = None, **how: Any) -> dict[str, Any]:
    answered = answer(review(object, **how), cluster or known())
    assert answered is not None
    response: dict[str, Any] = answered["response"]
    return response


def with_variable(
    object: dict[str, Any], where: tuple[str | int, ...], variable: dict[str, Any], kind: str = "containers"
) -> dict[str, Any]:
    changed = copy.deepcopy(object)
    spec: Any = changed
    for part in where:
        spec = spec[part]
    spec.setdefault(kind, [{"name": "more"}])[0]["env"] = [variable]
    return changed


@pytest.mark.parametrize(
    ("object", "where"), KINDS, ids=lambda one: one.get("kind") if isinstance(one, dict) else ""
)
def test_every_kind_is_refused_with_its_field_unless_the_setting_allows_it(
    object: dict[str, Any], where: tuple[str | int, ...]
) -> None:
    assert respond(object)["allowed"] is True
    assert respond(with_variable(object, where, ALLOCATED))["allowed"] is (object is not NO_CHIPS)
    for kind in ("containers", "initContainers"):
        wrong = with_variable(object, where, LITERAL, kind)
        for cluster in (known(), known(queues=False), known("strict")):
            response = respond(wrong, cluster)
            assert response["allowed"] is False
            assert f".{kind}[0].env[0].value sets ASCEND_VISIBLE_DEVICES" in response["status"]["message"]
        assert respond(wrong, known("allowed"))["allowed"] is True


def test_the_field_of_a_vcjob_is_named_from_its_root() -> None:
    message = respond(with_variable(*KINDS[0], LITERAL))["status"]["message"]
    assert "spec.tasks[0].template.spec.containers[0].env[0].value sets" in message


def test_a_pod_that_names_its_node_is_refused_too() -> None:
    wrong = with_variable(*KINDS[1], LITERAL)
    wrong["spec"]["nodeName"] = "node-1"
    assert respond(wrong)["allowed"] is False


def test_pods_of_others_are_theirs() -> None:
    wrong = with_variable(pod(8, scheduler="default-scheduler"), ("spec",), LITERAL)
    assert respond(wrong)["allowed"] is True


def test_a_job_that_exists_with_it_can_still_be_changed() -> None:
    old = with_variable(*KINDS[0], LITERAL)
    new = copy.deepcopy(old)
    new["spec"]["priorityClassName"] = "high"
    assert respond(new, operation="UPDATE", old=old)["allowed"] is True
    assert respond(old, operation="UPDATE", old=KINDS[0][0])["allowed"] is False


def debugged(before: list[dict[str, Any]], after: list[dict[str, Any]], **spec: Any) -> bytes:
    objects = []
    for containers in (before, after):
        one = pod(8)
        one["spec"] |= {"ephemeralContainers": containers, "nodeName": "node-1", **spec}
        objects.append(one)
    body = json.loads(review(objects[1], operation="UPDATE", old=objects[0]))
    body["request"]["subResource"] = "ephemeralcontainers"
    return json.dumps(body).encode()


def allowed(body: bytes, cluster: ClusterFacts | None = None) -> tuple[bool, str]:
    answered = answer(body, cluster or known())
    assert answered is not None
    response = answered["response"]
    return response["allowed"], response.get("status", {}).get("message", "")


def test_a_debug_container_of_a_running_pod_is_refused_and_others_are_not() -> None:
    own = {"name": "debug", "env": [LITERAL]}
    verdict, message = allowed(debugged([], [{"name": "fine"}, own]))
    assert not verdict
    assert "container debug of pod pod" in message
    assert "spec.ephemeralContainers[1].env[0].value" in message
    assert allowed(debugged([], [{"name": "fine", "env": [ALLOCATED]}]))[0]
    # It was there before: nothing of what is added is wrong.
    assert allowed(debugged([own], [own, {"name": "fine"}]))[0]
    assert allowed(debugged([], [own], schedulerName="default-scheduler"))[0]
    assert allowed(debugged([], [own]), known("allowed"))[0]
    # Whatever else is wrong with a pod that runs is not the concern of its debug container.
    assert allowed(debugged([], [{"name": "fine"}], containers=[{"name": "main", "env": [LITERAL]}]))[0]


def test_the_api_server_sends_debug_containers() -> None:
    hooks = {hook["name"]: hook for hook in webhooks("Validating")["webhooks"]}
    rules = [(rule["resources"], rule["operations"]) for rule in hooks["pods.ringwise.io"]["rules"]]
    assert rules == [(["pods"], ["CREATE", "UPDATE"]), (["pods/ephemeralcontainers"], ["UPDATE"])]
