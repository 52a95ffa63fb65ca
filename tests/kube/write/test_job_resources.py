"""Services, keys, policies and claims of a job: created once, never taken from another owner."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from ringwise.messages.commands import (
    CreateGroup,
    CreateJobResources,
    CreatePod,
    DeleteGroup,
    JobKeys,
    JobService,
    Publish,
)
from ringwise.state.model import Owner, PodGroup
from tests.examples import sample
from tests.kube.harness import EVENTS, GROUPS, JOBS, PODS
from tests.kube.write.executing import Executing, executing, worker

NETWORK_POLICIES = "/apis/networking.k8s.io/v1/networkpolicies"

#: What svc and ssh need.
WANTED = CreateJobResources(
    "default/train", (JobService("train"),), isolated=True, keys=JobKeys("train-ssh", "")
)


async def test_resources_of_a_job_are_created_once() -> None:
    async with executing() as one:
        await one.do(WANTED, *(CreatePod(worker(index), "default/train") for index in range(3)))
        assert len(one.api.all(PODS)) == 3
        assert one.writes().count("POST services") == 1
        assert one.writes().count("POST secrets") == 1
        assert one.writes().count("POST networkpolicies") == 1
        claim = one.api.get("/api/v1/persistentvolumeclaims", "default/train-volume-0")
        assert claim["spec"] == {"accessModes": ["ReadWriteMany"]}
        assert claim["metadata"]["ownerReferences"][0]["uid"] == "j1"
        secret = one.api.get("/api/v1/secrets", "default/train-ssh")
        assert secret["stringData"]["authorized_keys"] == secret["stringData"]["id_rsa.pub"]
        # Again: everything exists, and there is no error.
        await one.do(WANTED, CreatePod(worker(0), "default/train"))
        assert one.api.all(EVENTS) == []


async def test_keys_of_the_user_and_a_service_for_one_task() -> None:
    async with executing() as one:
        wanted = CreateJobResources(
            "default/train",
            (JobService("train-head-svc", "head", (("gcs", 6379),)),),
            keys=JobKeys("train-ssh", "Port 2222\n", "private", "public"),
        )
        await one.do(wanted, CreatePod(worker(0), "default/train"))
        secret = one.api.get("/api/v1/secrets", "default/train-ssh")
        assert secret["stringData"] == {
            "id_rsa": "private",
            "id_rsa.pub": "public",
            "authorized_keys": "public",
            "config": "Port 2222\n",
        }
        spec = one.api.get("/api/v1/services", "default/train-head-svc")["spec"]
        assert spec["selector"]["volcano.sh/task-spec"] == "head"
        assert "clusterIP" not in spec
        assert spec["ports"] == [{"name": "gcs", "port": 6379, "protocol": "TCP", "targetPort": "gcs"}]


@pytest.mark.parametrize("open_to_all", [False, True])
async def test_only_pods_of_the_job_can_connect_to_each_other(open_to_all: bool) -> None:
    async with executing() as one:
        service = JobService("train", found_early=open_to_all)
        wanted = CreateJobResources("default/train", (service,), isolated=not open_to_all)
        await one.do(wanted, CreatePod(worker(0), "default/train"))
        made = one.api.get("/api/v1/services", "default/train")
        assert made["spec"]["publishNotReadyAddresses"] is open_to_all
        assert "ports" not in made["spec"]
        walls = one.api.all("/apis/networking.k8s.io/v1/networkpolicies")
        assert len(walls) == (not open_to_all)
        for wall in walls:
            pods = {"volcano.sh/job-name": "train", "volcano.sh/job-namespace": "default"}
            assert wall["metadata"]["name"] == "train"
            assert wall["metadata"]["ownerReferences"][0]["uid"] == "j1"
            assert wall["spec"] == {
                "podSelector": {"matchLabels": pods},
                "ingress": [{"from": [{"podSelector": {"matchLabels": pods}}]}],
                "policyTypes": ["Ingress"],
            }


OWNERS: dict[str, list[dict[str, Any]]] = {
    "nothing": [],
    "a Deployment": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "train", "uid": "d1"}],
    "a Job of another group": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "b1"}],
    "another vcjob": [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "x", "uid": "j2"}],
}
FOREIGN = {
    "/api/v1/configmaps": "train-svc",
    "/api/v1/services": "train",
    "/api/v1/persistentvolumeclaims": "train-volume-0",
    "/api/v1/secrets": "train-ssh",
    "/apis/networking.k8s.io/v1/networkpolicies": "train",
    GROUPS: "train-j1",
}


@pytest.mark.parametrize(("collection", "owner"), sample([*product(FOREIGN, OWNERS)], 3))
async def test_an_object_of_another_owner_is_reported_and_not_written(collection: str, owner: str) -> None:
    async with executing() as one:
        name = FOREIGN[collection]
        meta = {"name": name, "namespace": "default", "ownerReferences": OWNERS[owner]}
        before = one.api.put(collection, {"metadata": meta, "data": {"theirs": "x"}, "spec": {"a": 1}})
        group = PodGroup("default", "train-j1", min_member=2, owner=Owner("Job", "train", "j1"))
        for _ in range(2):
            await one.do(
                CreateGroup(group),
                WANTED,
                Publish("default", "train-svc", {"worker.host": "h"}),
                CreatePod(worker(0), "default/train"),
            )
        await one.do(DeleteGroup("default/train-j1"))
        assert one.api.get(collection, f"default/{name}") == before
        (event,) = one.api.all(EVENTS)
        about = event["involvedObject"]
        assert (event["reason"], event["type"], about["name"], about["uid"]) == (
            "ObjectConflict",
            "Warning",
            "train",
            "j1",
        )
        assert name in event["message"]
        assert "What helps" in event["message"]
        assert len(one.api.all(PODS)) == 1


@pytest.mark.parametrize("collection", [one for one in FOREIGN if "secrets" not in one])
async def test_what_an_earlier_job_of_the_name_left_is_waited_for(collection: str) -> None:
    async with executing() as one:
        name = FOREIGN[collection]
        earlier = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "j0"}
        meta = {"name": name, "namespace": "default", "ownerReferences": [earlier]}
        one.api.put(collection, {"metadata": meta})

        def deleted_by_garbage_collector(method: str, path: str) -> bool:
            found = one.api.collections[collection].get(f"default/{name}")
            is_left = found is not None and found["metadata"]["ownerReferences"] == [earlier]
            if is_left and one.api.count(f"/{name}") >= 2:
                one.api.remove(collection, f"default/{name}")
            return False

        one.api.fault(deleted_by_garbage_collector)
        group = PodGroup("default", "train-j1", min_member=2, owner=Owner("Job", "train", "j1"))
        await one.do(
            CreateGroup(group),
            Publish("default", "train-svc", {"worker.host": "h"}),
            CreateJobResources("default/train", (JobService("train"),), isolated=True),
            CreatePod(worker(0), "default/train"),
        )
        (owner,) = one.api.get(collection, f"default/{name}")["metadata"]["ownerReferences"]
        assert owner["uid"] == "j1"
        assert one.api.all(EVENTS) == []


EARLIER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "j0"}


def left_by(owners: list[dict[str, Any]], name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "ownerReferences": owners, **more}}


async def make_all(one: Executing) -> None:
    await one.do(Publish("default", "train-svc", {"worker.host": "h"}), WANTED)
    await one.do(CreatePod(worker(0), "default/train"))


@pytest.mark.parametrize("collection", [one for one in FOREIGN if one not in ("/api/v1/secrets", GROUPS)])
async def test_what_an_earlier_job_of_the_name_left_is_removed_where_nothing_else_does(
    collection: str,
) -> None:
    async with executing() as one:
        name = FOREIGN[collection]
        one.api.put(collection, left_by([EARLIER], name))
        await make_all(one)
        (owner,) = one.api.get(collection, f"default/{name}")["metadata"]["ownerReferences"]
        assert owner["uid"] == "j1"
        assert len(one.api.all(PODS)) == 1
        assert one.api.all(EVENTS) == []
        assert one.held_up == []


async def test_the_secret_that_was_created_for_an_earlier_job_is_removed() -> None:
    async with executing() as one:
        await make_all(one)
        first = one.api.get("/api/v1/secrets", "default/train-ssh")
        one.recreate("j9")
        await make_all(one)
        second = one.api.get("/api/v1/secrets", "default/train-ssh")
        assert second["metadata"]["ownerReferences"][0]["uid"] == "j9"
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        assert one.api.count("GET /api/v1/namespaces/default/secrets") == 0
        assert one.held_up == []


async def test_a_secret_that_somebody_else_made_meanwhile_stays() -> None:
    async with executing() as one:
        await make_all(one)
        one.api.remove("/api/v1/secrets", "default/train-ssh")
        theirs = one.api.put("/api/v1/secrets", left_by([], "train-ssh", uid="theirs"))
        one.recreate("j9")
        await make_all(one)
        assert one.api.get("/api/v1/secrets", "default/train-ssh") == theirs


@pytest.mark.parametrize(
    ("sentence", "body", "job"),
    [
        ("somebody else owns it, too", left_by([EARLIER, OWNERS["a Deployment"][0]], "train"), "j1"),
        ("it is being deleted", left_by([EARLIER], "train", deletionTimestamp="2026-01-01T00:00:00Z"), "j1"),
        ("its owner may exist: the vcjob of the name does not match", left_by([EARLIER], "train"), "j0"),
    ],
)
async def test_what_cannot_be_removed_is_said(sentence: str, body: dict[str, Any], job: str) -> None:
    async with executing() as one:
        before = one.api.put(NETWORK_POLICIES, body)
        one.api.get(JOBS, "default/train")["metadata"]["uid"] = job
        await one.do(WANTED, *(CreatePod(worker(index), "default/train") for index in range(3)))
        assert one.api.get(NETWORK_POLICIES, "default/train") == before, sentence
        assert one.api.all(PODS) == []
        assert {(event.key, event.uid) for event in one.held_up} == {("default/train", "j1")}
        assert "NetworkPolicy train belongs to an earlier job of the same name" in one.held_up[0].why
        # The pods of a job share one attempt.
        assert one.writes().count("POST networkpolicies") == 5
        (event,) = one.api.all(EVENTS)
        assert (event["reason"], event["type"]) == ("FailedCreate", "Warning")


async def test_a_secret_created_before_a_later_failure_is_known_as_ours() -> None:
    async with executing() as one:
        one.api.fault("POST /api/v1/namespaces/default/persistentvolumeclaims", status=503, times=2)
        await one.do(WANTED, CreatePod(worker(0), "default/train"))
        assert len(one.api.all(PODS)) == 1
        assert one.writes().count("POST secrets") == 1
        assert one.api.count("GET /api/v1/namespaces/default/secrets") == 0
        assert one.api.all(EVENTS) == []
