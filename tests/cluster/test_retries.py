"""Pods that failed, and pods that never ran, with scheduler and controller as processes of their own (F5)."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import JOBS, PODS, Cluster
from tests.cluster.objects import ENDS, HOLDS_START, Object, nodes, pod, vcjob

pytestmark = pytest.mark.cluster

RETRIES = {"fault-scheduling": "force", "fault-retry-times": "1"}
FAILS = {ENDS: "fails"}
#: The story takes the place of kubelet.
LATE = {HOLDS_START: "true"}
POLICIES = "/apis/networking.k8s.io/v1/namespaces/-/networkpolicies"


def state(cluster: Cluster, job: str = "train") -> Object:
    found: Object = cluster.api.get(f"{JOBS}/{job}").get("status", {}).get("state", {})
    return found


def ended(cluster: Cluster) -> Object | None:
    cluster.release("train")
    found = state(cluster)
    return found if found.get("phase") == "Failed" else None


def made(cluster: Cluster) -> int:
    """How many pods the job has had."""
    return len({one.uid for one in cluster.history(PODS, "train-")})


@pytest.mark.parametrize("pods", [1, 2])
def test_F5_a_job_whose_pods_all_fail_is_restarted_and_then_ends_with_the_reason(
    cluster: Cluster, pods: int
) -> None:
    cluster.apply(nodes(3))
    cluster.run()
    cluster.apply([vcjob("train", pods, 8, labels=RETRIES, pod_annotations=FAILS)])
    end = cluster.wait(lambda: ended(cluster), "the job has ended")
    assert end["reason"] == "NotRestarted"
    assert "the one restart that fault-retry-times allows is used up" in end["message"]
    assert made(cluster) == 2 * pods
    assert {one["status"]["phase"] for one in cluster.pods("train")} == {"Failed"}


@pytest.mark.parametrize("kind", ["scheduler", "controller"])
def test_F5_a_component_is_killed_while_the_pods_fail(cluster: Cluster, kind: str) -> None:
    """The controller waits for the next scheduler; the next controller waits, too, or finds new pods."""
    cluster.apply(nodes(3))
    scheduler = cluster.run("scheduler")
    controller = cluster.run("controller")
    cluster.apply([vcjob("train", 2, 8, labels=RETRIES, pod_annotations={**FAILS, **LATE})])
    cluster.wait(lambda: len(cluster.pods("train")) == 2, "the pods exist")
    cluster.wait(lambda: all(one["spec"].get("nodeName") for one in cluster.pods("train")), "they are bound")
    cluster.crash(scheduler if kind == "scheduler" else controller)

    def failed() -> bool:
        return all(one["status"]["phase"] == "Failed" for one in cluster.pods("train"))

    cluster.release("train")
    if kind == "scheduler":
        cluster.wait(failed, "the pods have failed")
        cluster.wait(lambda: state(cluster).get("reason") == "AwaitsRestart", "the controller waits")
    cluster.run(kind)
    end = cluster.wait(lambda: ended(cluster), "the job has ended")
    assert end["reason"] == "NotRestarted"
    assert "the one restart that fault-retry-times allows is used up" in end["message"]
    assert made(cluster) == 4


def reject(cluster: Cluster, one: Object) -> None:
    """What kubelet writes while its device plugin is not back."""
    status = {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": "Pod was rejected: Allocate failed due to no healthy devices present",
    }
    cluster.api.patch(f"{PODS}/{one['metadata']['name']}/status", {"status": status})


def bound(cluster: Cluster, job: str) -> list[Object]:
    return [one for one in cluster.pods(job) if one["spec"].get("nodeName")]


def test_F5_a_pod_that_kubelet_rejects_is_made_again(cluster: Cluster) -> None:
    cluster.apply(nodes(3))
    cluster.run()
    abort = {"event": "PodFailed", "action": "AbortJob"}
    cluster.apply([vcjob("train", 2, 8, pod_annotations=LATE, policies=[abort])])
    first = cluster.wait(lambda: bound(cluster, "train")[1:], "the pods are bound")[0]
    reject(cluster, first)
    name, old = first["metadata"]["name"], first["metadata"]["uid"]

    def again() -> Object | None:
        found = next((one for one in bound(cluster, "train") if one["metadata"]["name"] == name), None)
        return found if found is not None and found["metadata"]["uid"] != old else None

    made = cluster.wait(again, "it is made again")
    assert made["metadata"]["annotations"]["ringwise.io/kubelet-rejections"] == "1"
    cluster.release("train")
    cluster.wait_running("train", 2)
    status = cluster.api.get(f"{JOBS}/train")["status"]
    assert status.get("retryCount", 0) == 0
    assert "kubelet-rejections" not in status.get("controlledResources", {})
    (told,) = cluster.wait(
        lambda: [one for one in cluster.events("Job", "train") if one["reason"] == "PodRejected"],
        "an event is recorded",
    )
    assert f"rejected pod {name} (UnexpectedAdmissionError)" in told["message"]


def test_F5_a_bare_pod_that_kubelet_rejects_is_left_with_an_event(cluster: Cluster) -> None:
    cluster.apply(nodes(3))
    cluster.run()
    cluster.apply([pod("lone", 8, annotations=LATE)])
    (one,) = cluster.wait(lambda: [o for o in cluster.pods() if o["spec"].get("nodeName")], "it is bound")
    reject(cluster, one)
    told = cluster.wait(
        lambda: [event for event in cluster.events("Pod", "lone") if event["reason"] == "PodRejected"],
        "the event is there",
    )
    assert "delete it and create it again" in told[0]["message"]


def with_plugins() -> Object:
    job = vcjob("train", 1, 8)
    job["spec"]["plugins"] = {"svc": [], "ssh": []}
    return job


def test_a_job_that_is_created_again_removes_what_the_first_one_left(cluster: Cluster) -> None:
    """The garbage collector deletes it; until a finalizer is gone, the new job waits for one of them."""
    cluster.apply(nodes(3))
    cluster.run()
    cluster.apply([with_plugins()])
    cluster.wait_running("train", 1)
    held = f"{POLICIES}/train"
    cluster.api.patch(held, {"metadata": {"finalizers": ["tests.ringwise/held"]}})
    cluster.api.delete(f"{JOBS}/train")
    cluster.wait(lambda: not cluster.pods("train"), "its pods are gone")
    cluster.apply([with_plugins()])
    said = cluster.wait(
        lambda: found if (found := state(cluster)).get("reason") == "PodsNotCreated" else None,
        "it says what it waits for",
    )
    assert "NetworkPolicy train belongs to an earlier job of the same name" in said["message"]
    cluster.api.patch(held, {"metadata": {"finalizers": None}})
    cluster.wait_running("train", 1)
    uid = cluster.api.get(f"{JOBS}/train")["metadata"]["uid"]
    for path in (held, "/api/v1/namespaces/-/secrets/train-ssh"):
        assert cluster.api.get(path)["metadata"]["ownerReferences"][0]["uid"] == uid
    cluster.wait(lambda: not state(cluster).get("reason"), "its status has no reason")
