"""`kubectl ringwise` shows facts: no placement that did not happen, and no pod that does not exist."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from ringwise.kubeclient.resources import CONFIG_MAPS
from ringwise.wellknown import RESCHEDULING_CONFIG_MAP, VOLCANO_SYSTEM
from tests.builders.records import with_entries
from tests.cli.test_one_command_line import on_cluster
from tests.kube.fake_api_server import FakeApiServer, Object
from tests.kube.harness import GROUPS, JOBS, LEASES, NODES, PODS, QUEUES, group, lease, node, pod

HOUR = 3_600_000_000_000
REFUSED = 'pods "one" is forbidden: User "ringwise" cannot create resource "pods/binding"'
NO_LEASE = "no scheduler holds the Lease volcano-system/ringwise-scheduler: no pod is placed"


def ask(tmp_path: Path, prepare: Callable[[FakeApiServer], object], *questions: str) -> list[Result]:
    def prepared(api: FakeApiServer) -> None:
        api.put(NODES, node("node-0"))
        api.put(QUEUES, {"metadata": {"name": "default"}})
        prepare(api)

    return list(on_cluster(tmp_path, prepared, *questions)[0])


def one_pod(api: FakeApiServer) -> None:
    api.put(PODS, pod("one", 8))


def test_a_decision_of_the_command_is_never_shown_as_a_placement(tmp_path: Path) -> None:
    why, jobs, top, described, table, top_table = ask(
        tmp_path,
        one_pod,
        "why one -o json",
        "get jobs -o json",
        "top --once -o json",
        "describe job one -o json",
        "get jobs",
        "top --once",
    )
    found = json.loads(why.stdout)
    assert (found["state"], found["message"]) == ("pending", "would be placed on node-0 now")
    (place,) = found["pods"]
    assert (place["node"], place["would_be_scheduled_on"]) == (None, "node-0")
    (job,) = json.loads(jobs.stdout)["jobs"]
    for row in (job, json.loads(described.stdout)):
        assert (row["state"], row["phase"], row["scheduled"], row["nodes"]) == ("pending", "Pending", 0, [])
        assert (row["would_be_scheduled_on"], row["reason_message"]) == (
            ["node-0"],
            "would be placed on node-0 now",
        )
    status = json.loads(top.stdout)["status"]
    assert (status["scheduled"], status["pending"]) == (0, 1)
    assert "would be placed on node-0 now" in table.stdout
    assert table.stderr == f"warning: scheduler: {NO_LEASE}\n"
    assert "default/one is pending" in top_table.stdout
    assert "would be placed on node-0 now" in top_table.stdout


def written(reason: str, message: str) -> Object:
    made = pod("one", 8)
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return {**made, "status": {"phase": "Pending", "conditions": [condition]}}


def labeled(namespace: str, **labels: str) -> Object:
    made = pod("scheduler-0", 0)
    made["metadata"] = {**made["metadata"], "namespace": namespace, "labels": labels}
    return made


SHADOW = {"ringwise.io/shadow": "true"}


CASES: dict[str, tuple[list[tuple[str, Object]], str | None, str, list[str]]] = {
    # objects, of a Lease its holder and age; code of the finding, its severity, errors of `why`
    "no Lease": ([], "no-scheduler", "error", [NO_LEASE]),
    "a Lease that was released": ([(LEASES, {"holder": ""})], "no-scheduler", "error", [NO_LEASE]),
    "an old Lease": (
        [(LEASES, {"hours": 1})],
        "scheduler-not-renewing",
        "error",
        ["last renewed the Lease volcano-system/ringwise-scheduler"],
    ),
    "an old Lease beside one of a tenant": (
        [(LEASES, {"hours": 1}), (LEASES, {"namespace": "team"})],
        "scheduler-not-renewing",
        "error",
        ["last renewed the Lease volcano-system/ringwise-scheduler"],
    ),
    "a leader in a namespace of its own": ([(LEASES, {"namespace": "ringwise"})], None, "", []),
    "a leader": ([(LEASES, {})], None, "", []),
    "shadow mode": ([(PODS, labeled("volcano-system", **SHADOW))], "scheduler-shadow", "note", []),
    "before the migration": (
        [(PODS, labeled("volcano-system", app="volcano-scheduler"))],
        "scheduler-shadow",
        "note",
        [],
    ),
    "the label on a pod of a tenant": (
        [(PODS, labeled("team", **SHADOW))],
        "no-scheduler",
        "error",
        [NO_LEASE],
    ),
    "refused Bindings": (
        [(LEASES, {}), (PODS, written("SchedulerError", REFUSED))],
        "bindings-fail",
        "error",
        [REFUSED],
    ),
    "a job that does not fit": (
        [(LEASES, {}), (PODS, written("Unschedulable", "no node"))],
        None,
        "",
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_doctor_and_why_say_what_keeps_the_scheduler_from_placing(case: str, tmp_path: Path) -> None:
    objects, code, severity, errors = CASES[case]

    def prepare(api: FakeApiServer) -> None:
        one_pod(api)
        for path, one in objects:
            if path == LEASES:
                renewed = time.time_ns() - one.get("hours", 0) * HOUR
                holder, namespace = one.get("holder", "ringwise-0"), one.get("namespace", "volcano-system")
                one = lease(holder, namespace=namespace, renewed=renewed)
            api.put(path, one)

    doctor, why, jobs, job = ask(
        tmp_path, prepare, "doctor -o json", "why default/one -o json", "get jobs", "describe job one"
    )
    codes = {one["code"]: one for one in json.loads(doctor.stdout)["findings"]}
    about = {
        "no-scheduler",
        "scheduler-not-renewing",
        "scheduler-unknown",
        "scheduler-shadow",
        "bindings-fail",
    }
    assert set(codes) & about == ({code} if code else set())
    assert code is None or codes[code]["severity"] == severity
    assert doctor.exit_code == (1 if severity == "error" else 0)
    found = json.loads(why.stdout).get("errors", [])
    where = "job default/one" if code == "bindings-fail" else "scheduler"
    for ran in (jobs, job):
        assert ran.stderr == "".join(f"warning: {where}: {text}\n" for text in found)
    assert len(found) == len(errors)
    assert all(part in text for part, text in zip(errors, found, strict=True))


@pytest.mark.parametrize("throttled", [["default", "other"], ["other"], []])
def test_doctor_and_why_name_a_namespace_that_the_scheduler_throttles(
    throttled: list[str], tmp_path: Path
) -> None:
    def prepare(api: FakeApiServer) -> None:
        one_pod(api)
        metadata = {"namespace": VOLCANO_SYSTEM, "name": RESCHEDULING_CONFIG_MAP}
        api.put(
            CONFIG_MAPS.path(),
            {"metadata": metadata, "data": with_entries({}, "throttled", dict.fromkeys(throttled))},
        )

    doctor, why = ask(tmp_path, prepare, "doctor -o json", "why one -o json")
    findings = json.loads(doctor.stdout)["findings"]
    found = [one["object"] for one in findings if one["code"] == "namespace-throttled"]
    assert found == [f"namespace {name}" for name in throttled]
    notes = [note for note in json.loads(why.stdout).get("notes", []) if "fair share" in note]
    assert [note.split(" is above")[0] for note in notes] == ["namespace default"] * ("default" in throttled)


def test_who_may_not_read_the_lease_gets_unknown_and_the_right_to_ask_for(tmp_path: Path) -> None:
    def prepare(api: FakeApiServer) -> None:
        one_pod(api)
        api.fault(f"GET {LEASES}", status=403, times=2)

    doctor, why = ask(tmp_path, prepare, "doctor -o json", "why one -o json")
    (finding,) = [one for one in json.loads(doctor.stdout)["findings"] if one["code"] == "scheduler-unknown"]
    right = "you need the verb list on leases.coordination.k8s.io in the whole cluster"
    assert (finding["severity"], doctor.exit_code) == ("warning", 0)
    assert right in finding["message"]
    document = json.loads(why.stdout)
    assert "errors" not in document
    assert any(right in note for note in document["notes"])


def vcjob(**status: Any) -> Object:
    template = pod("x", 8)["spec"]
    return {
        "metadata": {"name": "train", "namespace": "default", "uid": "u1"},
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": 1,
            "tasks": [{"name": "worker", "replicas": 1, "template": {"spec": template}}],
        },
        "status": {"state": {"phase": "Pending", **status}},
    }


INVALID = 'pod train-worker-0: Pod "train-worker-0" is invalid: spec.containers[0].name: Invalid value'


@pytest.mark.parametrize("with_group", [True, False])
def test_pods_that_the_api_server_refused_are_not_shown(with_group: bool, tmp_path: Path) -> None:
    def prepare(api: FakeApiServer) -> None:
        api.put(LEASES, lease())
        api.put(JOBS, vcjob(reason="PodsNotCreated", message=INVALID))
        if with_group:
            gang = group("train-u1", 1)
            owner = {"kind": "Job", "name": "train", "uid": "u1", "apiVersion": "batch.volcano.sh/v1alpha1"}
            gang["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
            api.put(GROUPS, gang)

    why, jobs, described, pods = ask(
        tmp_path,
        prepare,
        "why train -o json",
        "get jobs -o json",
        "describe job train -o json",
        "get pods -o json",
    )
    message = f"pods not created: {INVALID}"
    answer = json.loads(why.stdout)
    assert (answer["state"], answer["message"], answer["pods"]) == ("pending", message, [])
    (job,) = json.loads(jobs.stdout)["jobs"]
    for row in (job, json.loads(described.stdout)):
        assert (row["phase"], row["scheduled"], row["reason"]["message"]) == ("Pending", 0, message)
    assert json.loads(described.stdout)["pod_details"] == []
    assert json.loads(pods.stdout)["pods"] == []


def test_a_vcjob_without_a_controller_has_no_pods(tmp_path: Path) -> None:
    why, pods = ask(tmp_path, lambda api: api.put(JOBS, vcjob()), "why train -o json", "get pods -o json")
    answer = json.loads(why.stdout)
    assert answer["state"] == "pending"
    assert answer["message"] == "pods not created: its controller has not created its PodGroup yet"
    assert json.loads(pods.stdout)["pods"] == []
