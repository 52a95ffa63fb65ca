"""Everything that is not watched, with changed values: read, or rejected with the reader's own error.

Journals, lab submissions, manifests, admission reviews, kubeconfigs, the output of exec plugins, and what the
device plugin reads.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ringwise.apps.admission.rules import ClusterFacts
from ringwise.apps.journal.format import JournalError, batch_line, header_line, open_journal
from ringwise.apps.lab.submission import StoredObjects, Submission, refusals, submission_of
from ringwise.device.pods import NodePodWire, pod_from_wire
from ringwise.embed.cluster import EmbeddedCluster
from ringwise.kubeclient.clock import RealClock
from ringwise.kubeclient.config import Access, read_kubeconfig
from ringwise.kubeclient.connection_pool import ConnectionPool
from ringwise.kubeclient.credentials import ExecPlugin, KubeConfigError
from ringwise.manifests.bundle import read_bundle
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.messages import events as ev
from ringwise.scheduler.defaults import default_configuration
from ringwise.scheduler.journal import Batch
from ringwise.state.model import Device, DeviceReport, Node
from tests.admission.reviews import answer, review
from tests.builders.values import pod
from tests.manifests.builders import pod_group, priority_class, queue, real_node, real_pod, text_of, vcjob
from tests.manifests.hostile_values import COUNT, changed_documents

BUNDLE = read_bundle(
    ["-"], stdin=text_of(real_node(1), real_pod(1, 10), pod_group(), queue(), priority_class(), vcjob())
)


def test_changed_journals_are_read_or_rejected(tmp_path: Path) -> None:
    configuration = default_configuration()
    header = header_line(configuration, ["volcano"])
    events: list[ev.Event] = [
        ev.ConfigurationSeen(configuration),
        *(ev.NodeSeen(node) for node in BUNDLE.nodes),
        *(ev.QueueSeen(one) for one in BUNDLE.queues),
        *(ev.PodGroupSeen(group) for group in BUNDLE.pod_groups),
        *(ev.VcJobSeen(job) for job in BUNDLE.vcjobs),
        *(ev.PodSeen(pod) for pod in BUNDLE.pods),
    ]
    line = json.loads(batch_line(Batch(0, 1, tuple(events), ())))
    path = tmp_path / "journal"
    rejected = read = 0
    for number, (head, body) in enumerate(
        zip(changed_documents([json.loads(header)]), changed_documents([line], seed=14), strict=True)
    ):
        first = json.dumps(head).encode() + b"\n" if number % 4 == 0 else header
        path.write_bytes(first + json.dumps(body).encode() + b"\n")
        try:
            read += len(list(open_journal(path).batches))
        except JournalError:
            rejected += 1
    assert rejected
    assert read


def test_changed_submissions_are_read_or_rejected() -> None:
    made, problems = submission_of(BUNDLE)
    assert not problems
    rejected = read = 0
    for document in changed_documents([json.loads(msgspec.json.encode(made))]):
        try:
            submission = msgspec.json.decode(json.dumps(document), type=Submission)
            submission.share_classes()
            list(submission.objects())
            read += 1
        except (msgspec.MsgspecError, ValueError, RecursionError):
            rejected += 1
    assert rejected
    assert read


MANIFESTS: dict[str, dict[str, Any]] = {
    "Node": real_node(1),
    "Pod": real_pod(1, 10),
    "PodGroup": pod_group(),
    "Queue": queue(),
    "PriorityClass": priority_class(),
    "Job": vcjob(),
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_changed_manifests_are_read_or_reported(kind: str) -> None:
    """Many in one file: the good object at its end is read whatever stands before it."""
    changed = [one for one in changed_documents([MANIFESTS[kind]]) if isinstance(one, dict)]
    reported = 0
    for first in range(0, len(changed), 50):
        good = real_node(2)
        part = json.dumps({"kind": "List", "items": [*changed[first : first + 50], good]})
        bundle = read_bundle(["-"], stdin=part.encode(), keep_going=True)
        reported += len(bundle.errors)
        assert good["metadata"]["name"] in [node.name for node in bundle.nodes]
        assert all(str(error).isprintable() for error in bundle.errors)
    assert reported


@pytest.mark.parametrize("kind", ["Job", "Pod", "PodGroup"])
def test_changed_reviews_are_answered(kind: str) -> None:
    """Allowed or refused; None: no AdmissionReview at all."""
    cluster = ClusterFacts(shipped_catalog())
    valid = json.loads(review({**MANIFESTS[kind], "kind": kind}))
    answered = refused = 0
    for document in changed_documents([valid]):
        found = answer(json.dumps(document).encode(), cluster)
        answered += found is not None
        refused += found is not None and not found["response"]["allowed"]
        json.dumps(found)
    assert answered > COUNT // 4
    assert refused


class PrintingPlugin(ExecPlugin):
    """An exec plugin that prints what a test gives it."""

    printed = b""

    async def _run(self) -> bytes:
        return self.printed


async def test_changed_exec_credentials_are_used_or_rejected() -> None:
    status = {
        "token": "secret",
        "clientCertificateData": "",
        "expirationTimestamp": "2025-01-31T08:00:00Z",
    }
    valid = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    used = rejected = 0

    async def ask(printed: bytes) -> None:
        plugin = PrintingPlugin("login", (), {}, RealClock())
        plugin.printed = printed
        pool = ConnectionPool(Access("http://localhost", plugin), "test", 1)
        try:
            await pool.acquire({})
        finally:
            await pool.close()

    for document in changed_documents([valid]):
        try:
            await ask(json.dumps(document).encode())
            used += 1
        except KubeConfigError:
            rejected += 1
    assert used
    assert rejected


def test_changed_kubeconfigs_are_used_or_rejected(tmp_path: Path) -> None:
    user = {"token": "t", "exec": {"command": "login", "apiVersion": "client.authentication.k8s.io/v1"}}
    valid = {
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": "https://example.com", "insecure-skip-tls-verify": True}}
        ],
        "users": [{"name": "u", "user": user}],
    }
    path = tmp_path / "config"
    used = rejected = 0
    for document in changed_documents([valid], COUNT // 5):
        path.write_text(json.dumps(document))
        try:
            read_kubeconfig([path], None, RealClock())
            used += 1
        except KubeConfigError:
            rejected += 1
    assert used
    assert rejected


def test_changed_pods_of_a_node_are_read_or_skipped_by_the_device_plugin() -> None:
    read = skipped = 0
    for document in changed_documents([real_pod(1, 10)]):
        try:
            wire = msgspec.json.decode(json.dumps(document).encode(), type=NodePodWire)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            # What `ObjectWatch` skips.
            skipped += 1
            continue
        pod = pod_from_wire(wire)
        if pod is not None:
            pod.asks_for("huawei.com/Ascend910")
            read += 1
    assert read
    assert skipped


@pytest.mark.parametrize(
    "wrong",
    [
        Submission(StoredObjects(Node=[Node("a", chips_allocatable={"huawei.com/Ascend910": 10**15})])),
        Submission(StoredObjects(Node=[Node("a", devices=(Device(10**15),))])),
        Submission(StoredObjects(DeviceReport=[DeviceReport("a", "huawei.com/Ascend910", free=1 << 5000)])),
        Submission(StoredObjects(Pod=[pod("p", 0, uid="u", namespace="team", holds=(10**15,))])),
    ],
)
def test_a_lab_refuses_numbers_that_do_not_fit_in_memory(wrong: Submission) -> None:
    (problem,) = refusals(EmbeddedCluster(), wrong.objects())
    assert "3600" in problem or "3599" in problem
