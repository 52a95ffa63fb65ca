"""The webhook behind its Service: the API server finds it by name and verifies its certificate."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from ringwise.apps.admission.serving_certificate import SIGNS_AFTER
from ringwise.apps.admission.webhook import Options, serve
from ringwise.kube.run.leader_term import default_queues
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.clock import RealClock
from ringwise.kubeclient.config import find_access
from ringwise.wellknown import VOLCANO_SYSTEM
from ringwise_bench.control_plane import free_port
from tests.cluster.cluster import (
    GROUPS,
    JOBS,
    PATIENT,
    PODS,
    WAIT_TIMEOUT,
    WITH_ADMISSION,
    Cluster,
    Component,
    launch_here,
    patient,
    shipped_objects,
)
from tests.cluster.objects import Object, node, nodes, pod, vcjob

NAME = "ringwise-admission"
HOOKS = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{NAME}"
SECRET = f"/api/v1/namespaces/{VOLCANO_SYSTEM}/secrets/{NAME}"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{VOLCANO_SYSTEM}/endpointslices"
#: The node of the webhook's pod, without chips.
HOST = "webhook-host"
DENIED = 'admission webhook "jobs.ringwise.io" denied the request'


def own_address() -> str:
    """An address of this machine that is not loopback: the API server refuses endpoints on that."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: the system only selects the local address.
            probe.connect(("198.51.100.1", 9))
        except OSError:
            return ""
        address: str = probe.getsockname()[0]
    return "" if address.startswith("127.") else address


ADDRESS = own_address()

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not ADDRESS, reason="this machine has no address but loopback"),
]


def webhook_pod(shipped: list[Object], port: int) -> Object:
    """A pod of the shipped Deployment in the network of its node: the webhook runs at that address."""
    (template,) = [
        one["spec"]["template"]
        for one in shipped
        if one["kind"] == "Deployment" and one["metadata"]["name"] == NAME
    ]
    (container,) = template["spec"]["containers"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME, "namespace": VOLCANO_SYSTEM, "labels": template["metadata"]["labels"]},
        "spec": {
            "nodeName": HOST,
            "hostNetwork": True,
            "containers": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "ports": [{"name": "webhook", "containerPort": port}],
                }
            ],
        },
    }


@pytest.fixture
def port(cluster: Cluster) -> int:
    """The webhook's port: Service, endpoints and access exist, the webhook does not run yet."""
    port = free_port()
    shipped = shipped_objects(WITH_ADMISSION)
    cluster.apply([*patient(shipped), *default_queues(), *nodes(1), node(HOST, 0, address=ADDRESS)])
    cluster.apply([webhook_pod(shipped, port)])

    def has_endpoints() -> bool:
        found = [
            (one["addresses"], one["conditions"]["ready"], [entry["port"] for entry in part["ports"]])
            for part in cluster.api.items(SLICES)
            if part["metadata"]["labels"].get("kubernetes.io/service-name") == NAME
            for one in part.get("endpoints") or ()
        ]
        return found == [([ADDRESS], True, [port])]

    cluster.wait(has_endpoints, "the Service has its endpoint")
    return port


def start(cluster: Cluster, port: int) -> Component:
    launch = launch_here(waits=PATIENT)
    webhook = cluster.start("admission", f"--address={ADDRESS}:{port}", launch=launch)
    cluster.wait(lambda: webhook.ready, "the webhook is ready")
    return webhook


def queue(name: str, **spec: str) -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, **spec},
    }


def applied(cluster: Cluster, thing: Object) -> str:
    return cluster.kubectl("apply", "-f", "-", stdin=json.dumps(thing), check=False)


def refused(cluster: Cluster) -> str:
    """The response to a job that can never run, as soon as the API server calls the webhook again."""

    def message() -> str | None:
        answer = applied(cluster, vcjob("impossible", 1, 3))
        if DENIED in answer:
            return answer
        assert "created" in answer or "unchanged" in answer, answer
        cluster.api.delete(f"{JOBS}/impossible")
        return None

    answer: str = cluster.wait(message, "the job is refused")
    return answer


def test_impossible_job_is_rejected_with_its_reason(cluster: Cluster, port: int) -> None:
    start(cluster, port)
    (client, *_) = [hook["clientConfig"] for hook in cluster.api.get(HOOKS)["webhooks"]]
    assert client["service"]["name"] == NAME
    assert "url" not in client
    answer = refused(cluster)
    assert "a pod requests 3 chips; 910-x8 allows 1, 2, 4, 8 per pod" in answer
    assert not cluster.api.items(JOBS)

    assert "created" in applied(cluster, vcjob("good", 1, 8))
    answer = applied(cluster, pod("impossible-0", 3))
    assert 'admission webhook "pods.ringwise.io" denied the request' in answer
    assert "created" in applied(cluster, pod("others-0", 3, scheduler="default-scheduler"))
    waits = vcjob("waits", 2, 8, labels={"tor-affinity": "large-model-schema"})
    answer = applied(cluster, waits)
    assert "created" in answer
    assert "Warning: it will wait" in answer


def test_an_oversized_field_is_refused_at_apply_and_in_the_way_of_nothing_else(
    cluster: Cluster, port: int
) -> None:
    """A pod that waits gets more tolerations; one that was too large before stays editable."""
    large = [{"key": f"k{number}", "operator": "Exists"} for number in range(300)]
    waits, grown = pod("waits", 8), pod("grown", 8)
    for one in (waits, grown):
        one["spec"]["schedulerName"] = "volcano"
        one["metadata"]["finalizers"] = ["example.com/hold"]
    grown["spec"]["tolerations"] = large
    cluster.apply([waits, grown])
    start(cluster, port)
    refused(cluster)

    def changed(name: str, body: Object, *options: str) -> str:
        merge = ("--type=merge", "-p", json.dumps(body))
        return cluster.kubectl("patch", "pod", name, *merge, *options, check=False)

    tolerations = cluster.api.get(f"{PODS}/waits")["spec"].get("tolerations", [])
    said = changed("waits", {"spec": {"tolerations": [*tolerations, *large]}})
    assert "spec.tolerations: has" in said
    assert "at most 256 are allowed" in said
    labels = {f"l{number}": "" for number in range(1_100)}
    assert "metadata.labels: has 1,1" in changed("waits", {"metadata": {"labels": labels}})
    assert "created" not in applied(cluster, {**grown, "metadata": {"name": "new"}})
    # Labels, status and finalizers of the one that exists.
    assert "patched" in changed("grown", {"metadata": {"labels": {"a": "b"}}})
    assert "patched" in changed("grown", {"status": {"message": "waits"}}, "--subresource=status")
    for name in ("waits", "grown"):
        assert "patched" in changed(name, {"metadata": {"finalizers": None}})


def test_job_that_an_edit_makes_impossible_is_rejected(cluster: Cluster, port: int) -> None:
    start(cluster, port)
    refused(cluster)
    assert "created" in applied(cluster, vcjob("train", 1, 8))
    changed = vcjob("train", 1, 8)
    changed["spec"]["tasks"][0]["template"]["spec"]["containers"] = vcjob("train", 1, 3)["spec"]["tasks"][0][
        "template"
    ]["spec"]["containers"]
    assert DENIED in applied(cluster, changed)
    assert "deleted" in cluster.kubectl("delete", "vcjob/train", "--wait=false")


def test_a_new_job_is_filled_in_and_only_its_size_can_change(cluster: Cluster, port: int) -> None:
    start(cluster, port)
    refused(cluster)
    job = vcjob("bare", 2, 8)
    for field in ("schedulerName", "minAvailable", "queue", "policies"):
        del job["spec"][field]
    del job["spec"]["tasks"][0]["name"]
    job["spec"]["plugins"] = {"pytorch": []}
    assert "created" in applied(cluster, job)
    spec = cluster.api.get(f"{JOBS}/bare")["spec"]
    assert (spec["queue"], spec["schedulerName"], spec["minAvailable"]) == ("default", "volcano", 2)
    assert spec["plugins"] == {"pytorch": [], "svc": []}
    (task,) = spec["tasks"]
    assert (task["name"], task["minAvailable"], task["maxRetry"]) == ("default0", 2, 3)

    job["spec"]["minAvailable"] = 1
    job["spec"]["tasks"][0].update(replicas=3, minAvailable=1)
    assert "configured" in applied(cluster, job)
    job["spec"]["maxRetry"] = 7
    assert "spec.maxRetry was changed" in applied(cluster, job)


def test_a_job_that_is_suspended_can_go_to_another_queue(cluster: Cluster, port: int) -> None:
    start(cluster, port)
    refused(cluster)
    cluster.apply([queue("night"), vcjob("train", 1, 8)])

    def patched(body: Object, *options: str) -> str:
        merge = ("--type=merge", "-p", json.dumps(body))
        return cluster.kubectl("patch", "vcjob", "train", *merge, *options, check=False)

    def is_in(phase: str, running: int) -> None:
        status = {"status": {"state": {"phase": phase}, "running": running}}
        assert "patched" in patched(status, "--subresource=status")

    is_in("Running", 1)
    assert "spec.queue was changed" in patched({"spec": {"queue": "night"}})
    is_in("Aborted", 0)
    assert "unable to find job queue" in patched({"spec": {"queue": "nigt"}})
    assert "patched" in patched({"spec": {"queue": "night"}})
    cluster.api.delete(f"{JOBS}/train")
    cluster.kubectl("delete", "queue", "night")


def test_objects_that_refer_to_each_other_are_applied_and_deleted_at_once(
    cluster: Cluster, port: int
) -> None:
    """The webhook's watch is a moment behind: what it would refuse for that, it reads first."""
    start(cluster, port)
    refused(cluster)
    for number in range(10):
        dept, team, job = f"dept-{number}", f"team-{number}", vcjob(f"train-{number}", 1, 8)
        job["spec"]["queue"] = team
        cluster.apply([queue(dept), queue(team, parent=dept), job])
        cluster.kubectl("delete", "vcjob", f"train-{number}")
        cluster.kubectl("delete", "queue", team, dept)
    lost = vcjob("lost", 1, 8)
    lost["spec"]["queue"] = "team"
    assert "unable to find job queue" in applied(cluster, lost)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"plugins": {"pytorhc": []}}, "unable to find job plugin: pytorhc"),
        (
            {"policies": [{"event": "PodFailed", "action": action} for action in ("AbortJob", "RestartJob")]},
            "duplicate event PodFailed: the job has 2 policies for it",
        ),
        ({"volumes": [{"mountPath": "/data"}]}, "either VolumeClaim or VolumeClaimName must be specified"),
        ({"queue": "root"}, "can not submit job to root queue: queue root has child queues"),
    ],
)
def test_what_volcano_refuses_is_refused(
    cluster: Cluster, port: int, change: dict[str, Any], problem: str
) -> None:
    start(cluster, port)
    refused(cluster)
    job = vcjob("wrong", 1, 8)
    job["spec"].update(change)
    answer = applied(cluster, job)
    assert DENIED in answer
    assert problem in answer


def test_ignored_arguments_are_warnings_and_missing_replicas_are_0(cluster: Cluster, port: int) -> None:
    start(cluster, port)
    refused(cluster)
    job = vcjob("tolerant", 1, 8)
    job["spec"]["plugins"] = {"ssh": ["--no-root"]}
    del job["spec"]["tasks"][0]["replicas"]
    del job["spec"]["minAvailable"]
    answer = applied(cluster, job)
    assert "created" in answer
    assert "Warning: spec.plugins: job plugin ssh has no argument --no-root" in answer
    assert "Warning: spec.tasks[0].replicas: it is missing, which means 0" in answer
    assert cluster.api.get(f"{JOBS}/tolerant")["spec"]["tasks"][0]["minAvailable"] == 0


def test_a_pod_group_gets_the_queue_of_its_namespace(cluster: Cluster, port: int) -> None:
    start(cluster, port)
    refused(cluster)
    namespace, annotation = "/api/v1/namespaces/-", "scheduling.volcano.sh/queue-name"
    research = queue("research")
    cluster.apply([research])

    def queue_of(name: str, **spec: str) -> str:
        group = {"metadata": {"name": name}, "spec": {"minMember": 1, **spec}}
        assert "created" in applied(cluster, {**research, **group, "kind": "PodGroup"})
        found: str = cluster.api.get(f"{GROUPS}/{name}")["spec"].get("queue", "")
        cluster.api.delete(f"{GROUPS}/{name}")
        return found

    try:
        assert queue_of("before", queue="default") == "default"
        cluster.api.patch(namespace, {"metadata": {"annotations": {annotation: "research"}}})
        cluster.wait(lambda: queue_of("after") == "research", "the webhook has seen the annotation")
        assert queue_of("after", queue="default") == "research"
        assert queue_of("own", queue="research") == "research"
    finally:
        cluster.api.patch(namespace, {"metadata": {"annotations": {annotation: None}}})


def test_a_webhook_that_is_down_rejects_nothing(cluster: Cluster, port: int) -> None:
    webhook = start(cluster, port)
    refused(cluster)
    webhook.process.kill()
    assert "created" in applied(cluster, vcjob("impossible", 1, 3))
    cluster.api.delete(f"{JOBS}/impossible")
    # The alert RingwiseAdmissionDown counts on it.
    failed = 'apiserver_admission_webhook_fail_open_count{name="jobs.ringwise.io"'
    assert failed in cluster.kubectl("get", "--raw", "/metrics")
    start(cluster, port)
    refused(cluster)


def test_an_emptied_secret_gets_new_certificates(cluster: Cluster, port: int) -> None:
    webhook = start(cluster, port)
    refused(cluster)
    before = bundle(cluster)
    webhook.stop()
    cluster.api.patch(SECRET, {"data": None})
    start(cluster, port)
    assert bundle(cluster) != before
    refused(cluster)
    # The webhook does not need the Secret to serve.
    cluster.api.delete(SECRET)
    refused(cluster)


# -- expiring certificates


class OldClock(RealClock):
    """Starts in the past and is set by the test; certificates are checked only in `step`."""

    def __init__(self, behind: timedelta) -> None:
        self.behind = behind
        self._steps = threading.Semaphore(0)

    def now(self) -> int:
        return time.time_ns() - int(self.behind.total_seconds()) * 10**9

    def step(self) -> None:
        self._steps.release()

    async def sleep(self, seconds: float) -> None:
        while not self._steps.acquire(blocking=False):
            await asyncio.sleep(0.02)


@contextmanager
def webhook_with(cluster: Cluster, clock: OldClock, port: int) -> Iterator[None]:
    """The webhook inside the test process, because the test sets its clock."""
    token = cluster.plane.account_token(VOLCANO_SYSTEM, NAME)
    access = find_access(str(cluster.plane.kubeconfig("old-admission", token)), None)
    options = Options(namespace=VOLCANO_SYSTEM, address=f"{ADDRESS}:{port}", health_address="")
    listening, loops = threading.Event(), list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]()

    async def run() -> None:
        stop = asyncio.Event()
        loops.append((asyncio.get_running_loop(), stop))
        async with Client(access, component="admission") as client:
            await serve(options, client, stop, clock=clock, started=lambda _: listening.set())

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        assert listening.wait(WAIT_TIMEOUT)
        yield
    finally:
        loop, stop = loops[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join(WAIT_TIMEOUT)
        assert not thread.is_alive()


def bundle(cluster: Cluster) -> str:
    """The authorities that the API server trusts."""
    return base64.b64decode(cluster.api.get(HOOKS)["webhooks"][0]["clientConfig"]["caBundle"]).decode()


def served(port: int) -> str:
    return ssl.get_server_certificate((ADDRESS, port))


def is_trusted(cluster: Cluster, port: int) -> bool:
    """Like the API server: by the configured authorities, under the name of the Service."""
    context = ssl.create_default_context(cadata=bundle(cluster))
    with socket.create_connection((ADDRESS, port), timeout=60) as plain:
        try:
            with context.wrap_socket(plain, server_hostname=f"{NAME}.{VOLCANO_SYSTEM}.svc"):
                return True
        except ssl.SSLCertVerificationError:
            return False


def test_the_server_certificate_is_renewed_without_a_restart(cluster: Cluster, port: int) -> None:
    clock = OldClock(timedelta(days=61))
    with webhook_with(cluster, clock, port):
        refused(cluster)
        first = served(port)
        clock.behind = timedelta()
        clock.step()
        cluster.wait(lambda: served(port) != first, "another certificate is served")
        assert is_trusted(cluster, port)
        refused(cluster)


def test_the_authority_is_renewed_without_a_failed_verification(cluster: Cluster, port: int) -> None:
    clock = OldClock(timedelta(days=2 * 365 + 10))
    with webhook_with(cluster, clock, port):
        oldest = served(port)
        # A month ago: the authority is valid, the certificate that it signed two years before is not.
        clock.behind = timedelta(days=30)
        clock.step()
        cluster.wait(lambda: served(port) != oldest, "another certificate is served")
        assert is_trusted(cluster, port)
        first = served(port)
        # Now: a new authority, which the API server gets before it signs anything.
        clock.behind = timedelta()
        clock.step()
        cluster.wait(lambda: bundle(cluster).count("BEGIN CERTIFICATE") == 2, "both authorities are trusted")
        assert served(port) == first
        assert is_trusted(cluster, port)
        refused(cluster)
        clock.behind = -SIGNS_AFTER
        clock.step()
        cluster.wait(lambda: served(port) != first, "the new authority signs")
        assert is_trusted(cluster, port)
        refused(cluster)


def test_queues_are_checked_filled_in_and_protected(cluster: Cluster, port: int) -> None:
    def queue(name: str, **spec: Any) -> Object:
        meta = {"name": name}
        return {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": meta,
            "spec": spec,
        }

    queues = "/apis/scheduling.volcano.sh/v1beta1/queues"
    start(cluster, port)
    refused(cluster)
    assert "created" in applied(cluster, queue("area"))
    assert cluster.api.get(f"{queues}/area")["spec"] == {"parent": "root", "reclaimable": True, "weight": 1}
    assert "created" in applied(cluster, queue("group", parent="area"))
    assert "its parent nowhere does not exist" in applied(cluster, queue("lost", parent="nowhere"))

    def deleted(name: str, *options: str) -> str:
        return cluster.kubectl("delete", f"queue/{name}", "--wait=false", *options, check=False)

    def would_be_deleted(name: str) -> str:
        """The answer of the webhook, which may not have heard of the last change: nothing is deleted."""
        return deleted(name, "--dry-run=server")

    cluster.wait(lambda: "it has the 1 queue group below it" in would_be_deleted("area"), "parents stay")
    for name in ("default", "root"):
        assert f"`{name}` queue can not be deleted: it exists in every cluster" in deleted(name)

    cluster.run()
    in_parent = vcjob("parent", 1, 8)
    in_parent["spec"]["queue"] = "area"
    answer = applied(cluster, in_parent)
    assert DENIED in answer
    assert "queue area has child queues (group); jobs run only in leaf queues" in answer
    runs = vcjob("runs", 1, 8)
    runs["spec"]["queue"] = "group"
    assert "created" in applied(cluster, runs)
    cluster.wait_running("runs", 1)
    # What a queue has is read from its status, which is written a moment later.
    cluster.wait(lambda: "and 1 pod" in would_be_deleted("group"), "queues with jobs stay")
    assert "because it has allocated Pods: it has 1 job and 1 pod" in deleted("group")
    # Whoever closes a queue may delete it.
    cluster.api.patch(f"{queues}/group/status", {"status": {"state": "Closed"}})
    assert '"group" deleted' in deleted("group")
    cluster.wait(lambda: '"area" deleted' in deleted("area"), "the parent is empty")


def test_the_gate_of_a_queue_is_added_where_it_is_asked_for_and_removed_with_the_admission(
    cluster: Cluster, port: int
) -> None:
    gate = "scheduling.volcano.sh/queue-allocation-gate"
    start(cluster, port)
    refused(cluster)
    job = vcjob("asks", 2, 8, pod_annotations={gate: "true"})
    assert "created" in applied(cluster, pod("plain", 8))
    assert "created" in applied(cluster, pod("asks-0", 8, annotations={gate: "true"}))
    pods = {one["metadata"]["name"]: one["spec"].get("schedulingGates") for one in cluster.pods()}
    assert pods == {"plain": None, "asks-0": [{"name": gate}]}
    cluster.api.delete("/api/v1/namespaces/-/pods/plain")
    cluster.api.delete("/api/v1/namespaces/-/pods/asks-0")
    cluster.apply(nodes(2))
    cluster.run()
    assert "created" in applied(cluster, job)
    running = cluster.wait_running("asks", 2)
    assert all(not one["spec"].get("schedulingGates") for one in running)


def test_what_chooses_its_chips_is_refused_also_in_a_debug_container(cluster: Cluster, port: int) -> None:
    start(cluster, port)
    refused(cluster)
    variable = {"name": "ASCEND_VISIBLE_DEVICES", "value": "0-7"}
    job = vcjob("greedy", 1, 8)
    job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["env"] = [variable]
    answer = applied(cluster, job)
    assert DENIED in answer
    assert "spec.tasks[0].template.spec.containers[0].env[0].value sets ASCEND_VISIBLE_DEVICES" in answer
    greedy = pod("greedy-0", 0)
    greedy["spec"]["containers"][0]["env"] = [variable]
    assert 'admission webhook "pods.ringwise.io" denied the request' in applied(cluster, greedy)
    assert "created" in applied(cluster, pod("good-0", 1))
    debug = {"name": "debug", "image": "busybox", "env": [variable]}
    for containers, words in (([debug], "container debug of pod good-0"), ([{**debug, "env": []}], "")):
        body = json.dumps({"spec": {"ephemeralContainers": containers}})
        answer = cluster.kubectl(
            *("patch", "pod", "good-0", "--subresource=ephemeralcontainers"),
            *("--type=strategic", f"--patch={body}"),
            check=False,
        )
        assert words in answer, answer
        assert ("denied the request" in answer) is bool(words), answer


#: What Volcano's own suite sends of HyperNodes, and the words that it looks for; none: it is allowed.
HYPER_NODES: dict[str, tuple[Object, str]] = {
    "exact": ({"exactMatch": {"name": "node-1"}}, ""),
    "regex": ({"regexMatch": {"pattern": "node-[0-9]+"}}, ""),
    "label": ({"labelMatch": {"matchLabels": {"topology-rack": "rack1"}}}, ""),
    "no-name": ({"exactMatch": {"name": ""}}, "member exactMatch name is required"),
    "no-pattern": ({"regexMatch": {"pattern": ""}}, "member regexMatch pattern is required"),
    "no-expression": ({"regexMatch": {"pattern": "a(b"}}, "member regexMatch pattern is invalid"),
    "two-selectors": (
        {"exactMatch": {"name": "node-1"}, "regexMatch": {"pattern": "node"}},
        "cannot specify more than one selector type",
    ),
    "no-selector": ({}, "member selector must have one of exactMatch, regexMatch, or labelMatch"),
    "no-dns-name": (
        {"exactMatch": {"name": "Node_with_invalid@characters"}},
        "member exactMatch validate failed",
    ),
}


def test_hyper_nodes_are_allowed_and_refused_in_the_words_of_volcano(cluster: Cluster, port: int) -> None:
    start(cluster, port)
    refused(cluster)

    def hyper_node(name: str, *selectors: Object) -> Object:
        members = [{"type": "Node", "selector": selector} for selector in selectors]
        return {
            "apiVersion": "topology.volcano.sh/v1alpha1",
            "kind": "HyperNode",
            "metadata": {"name": name},
            "spec": {"tier": 1, "members": members},
        }

    for name, (selector, words) in HYPER_NODES.items():
        answer = applied(cluster, hyper_node(name, selector))
        assert words in answer if words else "created" in answer, (name, answer)
    assert "at least one member" in applied(cluster, hyper_node("none"))
    assert "configured" in applied(cluster, hyper_node("exact", HYPER_NODES["regex"][0]))
    assert "at least one member" in applied(cluster, hyper_node("exact"))
    kept = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
    assert len(cluster.api.items(kept)) == 3
