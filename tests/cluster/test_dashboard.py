"""The dashboard on a cluster: who may read it, leaders and standby replicas, and `ringwise web` beside it."""

from __future__ import annotations

import json
import ssl
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ringwise.apps.admission.certificates import make_authority, make_server
from ringwise.wellknown import SCHEDULER_LEASE, VOLCANO_SYSTEM
from ringwise_bench.control_plane import Process, free_port, ringwise_command
from tests.cluster.cluster import Cluster, Component, arguments_of, launch_here, shipped_objects
from tests.cluster.dashboard import Dashboard, Follower, signed_token
from tests.cluster.objects import Object, nodes, vcjob
from tests.cluster.rights import grant_reading
from tests.web.client import Mirror

pytestmark = pytest.mark.cluster

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{VOLCANO_SYSTEM}/leases/{SCHEDULER_LEASE}"
SNAPSHOT = "/api/v1/snapshot"
DOCUMENTS = (SNAPSHOT, "/api/v1/series", "/api/v1/openapi.json", "/api/v1/nodes/node-1")


class Exposed:
    """Schedulers with the dashboard as the chart exposes it."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        authority = make_authority("web", datetime.now(UTC), timedelta(days=1))
        pair = make_server(authority, ["localhost"], datetime.now(UTC), timedelta(days=1))
        self.authority, self._certificate, self._key = (
            folder / name for name in ("ca.crt", "tls.crt", "tls.key")
        )
        self.authority.write_text(authority.certificate)
        self._certificate.write_text(pair.certificate)
        self._key.write_text(pair.key)
        web = {"enabled": True, "tlsSecret": "web-tls", "hosts": ["npu.example.com"]}
        objects = shipped_objects({"scheduler": {"web": web}})
        self.access: list[Object] = [
            one
            for one in objects
            if one["metadata"]["name"] == "ringwise-web" and one["kind"].startswith("ClusterRole")
        ]
        assert sorted(one["kind"] for one in self.access) == ["ClusterRole", "ClusterRoleBinding"]
        arguments = arguments_of(objects)["scheduler"]
        self._names = [one for one in arguments if one.startswith("--web-host=")]
        cluster.apply(self.access)

    def start(self, *more: str, port: int = 0) -> tuple[Component, Dashboard]:
        port = port or free_port()
        component = self._cluster.start(
            "scheduler",
            f"--web-address=:{port}",
            f"--web-tls-cert-file={self._certificate}",
            f"--web-tls-private-key-file={self._key}",
            *self._names,
            *more,
            # A standby replica on a busy machine is not one that is away.
            launch=launch_here(waits={"ringwise.apps.web.replicas.CONNECT_TIMEOUT": 60}),
        )
        self._cluster.wait(lambda: component.ready, "the scheduler has read everything")
        return component, Dashboard(port, self.authority)

    def close(self) -> None:
        for one in self.access:
            self._cluster.kubectl(
                "delete", one["kind"], one["metadata"]["name"], "--ignore-not-found", "--wait=false"
            )


@pytest.fixture
def exposed(cluster: Cluster, tmp_path: Path) -> Exposed:
    return Exposed(cluster, tmp_path)


class Account:
    """A ServiceAccount of a reader."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self.name = name
        metadata = {"name": name}
        cluster.apply([{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}])

    @property
    def who(self) -> str:
        return f"--serviceaccount={self._cluster.namespace}:{self.name}"

    def token(self) -> str:
        return self._cluster.plane.account_token(self._cluster.namespace, self.name)

    def allow(self) -> None:
        """As docs/guides/dashboard.md says."""
        self._cluster.kubectl(
            "create", "clusterrolebinding", f"web-{self.name}", "--clusterrole=ringwise-reader", self.who
        )

    def forbid(self) -> None:
        self._cluster.kubectl(
            "delete", "clusterrolebinding", f"web-{self.name}", "--ignore-not-found", "--wait=false"
        )


@pytest.fixture
def reader(cluster: Cluster) -> Account:
    account = Account(cluster, "reader")
    account.allow()
    return account


@pytest.fixture
def stranger(cluster: Cluster) -> Account:
    return Account(cluster, "stranger")


def jobs(mirror: Mirror) -> dict[str, Any]:
    return {row["name"]: row for row in mirror.jobs.values()}


def leader_identity(cluster: Cluster) -> str:
    return str(cluster.api.get(LEASE)["spec"]["holderIdentity"])


# -- in the scheduler


def test_an_exposed_dashboard_asks_the_api_server_who_reads(
    cluster: Cluster, exposed: Exposed, reader: Account, stranger: Account
) -> None:
    cluster.apply(nodes(3))
    scheduler, web = exposed.start()
    cluster.wait(lambda: scheduler.leads, "the scheduler leads")
    cluster.run("controller")
    cluster.apply([vcjob("train", 2, 8), vcjob("too-large", 9, 8)])
    cluster.wait_running("train", 2)

    # The page itself tells nothing about the cluster.
    page = web.request("/")
    assert page.status == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert web.request("/api/").status == 200

    may, forbidden = reader.token(), stranger.token()
    job = f"/api/v1/jobs/{cluster.namespace}/train"
    documents = (*DOCUMENTS, job, f"{job}/why")
    for path in (*documents, "/api/v1/stream?epoch=&since=0"):
        missing = web.request(path)
        assert missing.refusal == (401, "token-missing"), (path, missing)
        assert missing.headers["www-authenticate"].startswith("Bearer")
        assert web.request(path, "no.such.token").refusal == (401, "token-invalid"), path
        refused = web.request(path, forbidden)
        assert refused.refusal == (403, "forbidden"), path
        # One sentence with who and what.
        message = refused.document["error"]["message"]
        assert message == (
            f"system:serviceaccount:{cluster.namespace}:stranger cannot list nodes in the whole cluster"
        )
    for path in documents:
        assert web.request(path, may).status == 200, path

    # A token that has ended differs from an accepted one in nothing but its times.
    assert web.request(SNAPSHOT, signed_token(cluster, "reader", ended=False)).status == 200
    ended = signed_token(cluster, "reader", ended=True)
    assert web.request(SNAPSHOT, ended).refusal == (401, "token-invalid")

    # The stream goes on where the snapshot ended; a what-if changes nothing.
    document = web.request(SNAPSHOT, may).document
    assert {row["name"] for row in document["nodes"]} == {"node-1", "node-2", "node-3"}
    assert document["source"]["leader"] == leader_identity(cluster)
    follower = Follower([web], may)
    follower.follow(lambda mirror: jobs(mirror)["train"]["running"] == 2)
    mirror = follower.follow(lambda mirror: jobs(mirror)["too-large"]["reason_code"])
    assert jobs(mirror)["too-large"]["pods"] == 9
    asked = web.request(
        "/api/v1/what-if",
        may,
        method="POST",
        body=json.dumps(vcjob("later", 1, 8)),
        Origin=f"https://localhost:{web.port}",
    )
    assert asked.status == 200, asked.text
    assert [job["name"] for job in asked.document["jobs"]] == ["later"]
    assert not cluster.pods("later")

    # Names and origins of others are refused, whatever token comes with them.
    for name in ("ringwise-web", f"ringwise-web.{VOLCANO_SYSTEM}.svc", "npu.example.com"):
        assert web.request(SNAPSHOT, may, Host=name).status == 200, name
    assert web.request(SNAPSHOT, may, Host="rebound.example").refusal == (421, "unknown-host")
    for headers in ({"Origin": "https://rebound.example"}, {"Sec_Fetch_Site": "cross-site"}):
        assert web.request(SNAPSHOT, may, **headers).refusal == (403, "other-origin")

    # TLS only, with the given certificate.
    plain = Dashboard(web.port)
    with pytest.raises(OSError):  # noqa: PT011 - which one depends on how far the request went
        plain.request("/")
    with pytest.raises(ssl.SSLCertVerificationError):
        Dashboard(web.port, cluster.plane.authority).request("/")

    # No request of the scheduler was forbidden; the rules that were added are what it needed.
    refused_lines = [line for line in scheduler.log().splitlines() if "403 " in line or "orbidden" in line]
    assert not refused_lines, refused_lines[0]


def test_without_its_permissions_the_dashboard_says_that_it_cannot_check(
    cluster: Cluster, exposed: Exposed, reader: Account
) -> None:
    exposed.close()
    cluster.apply(nodes(1))
    scheduler, web = exposed.start()
    cluster.wait(lambda: scheduler.leads, "the scheduler leads")
    answered = web.request(SNAPSHOT, reader.token())
    assert answered.refusal == (503, "not-checked")
    (line,) = [line for line in scheduler.log().splitlines() if "a token could not be checked" in line]
    assert "tokenreviews" in line


def test_a_client_follows_the_leader(cluster: Cluster, exposed: Exposed, reader: Account) -> None:
    cluster.apply(nodes(2))
    first, old = exposed.start()
    cluster.wait(lambda: first.leads, "the first replica leads")
    second, new = exposed.start()
    cluster.run("controller")
    token, identity = reader.token(), leader_identity(cluster)

    def names_the_leader() -> bool:
        """A replica that has read everything may not have looked at the lease yet."""
        refused = new.request(SNAPSHOT, token)
        assert refused.refusal == (503, "not-leading")
        return bool(refused.document["error"]["leader"] == identity)

    cluster.wait(names_the_leader, "the standby names the leader")
    assert list(new.events("", 0, token)) == [("leader", {"leader": identity, "address": ""})]
    # Who may not read is not told who leads.
    assert new.request(SNAPSHOT).refusal == (401, "token-missing")

    follower = Follower([new, old], token)
    cluster.apply([vcjob("train", 1, 8)])
    follower.follow(lambda mirror: jobs(mirror).get("train", {}).get("running") == 1)
    cluster.crash(first)
    cluster.apply([vcjob("after", 1, 8)])
    mirror = follower.follow(lambda mirror: jobs(mirror).get("after", {}).get("running") == 1)
    cluster.wait(lambda: second.leads, "the second replica leads")
    assert jobs(mirror)["train"]["running"] == 1
    assert len(follower.epochs) == 2, follower.epochs
    assert follower.epochs[0] != follower.epochs[1]
    assert follower.leaders[0] == identity
    document = new.request(SNAPSHOT, token).document
    assert document["source"]["leader"] == leader_identity(cluster) != identity

    def agrees(mirror: Mirror) -> bool:
        """What happened between the two answers comes by the stream."""
        document = new.request(SNAPSHOT, token).document
        return bool(Mirror.of_document(document).plain()["jobs"] == mirror.plain()["jobs"])

    follower.follow(agrees)


# -- beside the cluster


def run_web(cluster: Cluster, name: str, user: str) -> tuple[Process, Dashboard]:
    """`ringwise web` with the kubeconfig of a user."""
    port = free_port()
    config = cluster.plane.kubeconfig(name, cluster.plane.account_token(cluster.namespace, user))
    command = ringwise_command("web", f"--kubeconfig={config}", f"--web-address=127.0.0.1:{port}")
    return cluster.plane.run(name, command), Dashboard(port)


def snapshot(process: Process, web: Dashboard) -> Any:
    """None until everything is read."""
    assert process.ended is None, process.last_lines()
    try:
        answered = web.request(SNAPSHOT)
    except OSError:
        return None
    return answered.document if answered.status == 200 else None


def test_web_beside_a_cluster_shows_it_with_the_rights_of_a_reader(
    cluster: Cluster, stranger: Account
) -> None:
    cluster.apply(nodes(3))
    cluster.run()
    cluster.apply([vcjob("train", 2, 8), vcjob("too-large", 9, 8)])
    cluster.wait_running("train", 2)

    # Without any right: one line that names what is missing, and no server.
    process, _ = run_web(cluster, "web-without", "stranger")
    cluster.wait(lambda: process.ended is not None, "the command ends")
    assert process.ended == 2
    (line,) = process.log.read_text().strip().splitlines()
    assert line.startswith(
        "ringwise: nodes: not allowed; you need the verb list on nodes in the whole cluster"
    )
    assert "pods: not allowed; you need the verb list on pods" in line

    # With the ClusterRole alone everything but the ConfigMaps is there; each missing right is told once.
    stranger.allow()
    process, web = run_web(cluster, "web-partly", "stranger")
    document = cluster.wait(partial(snapshot, process, web), "the dashboard has read everything")
    assert {row["name"] for row in document["nodes"]} == {"node-1", "node-2", "node-3"}
    told = [json.loads(text) for text in process.log.read_text().splitlines() if "not allowed" in text]
    assert {one["why"].partition(" (")[0] for one in told} == {
        f"you need the verb list on configmaps in namespace {namespace}"
        for namespace in ("kube-system", "mindx-dl", VOLCANO_SYSTEM)
    }
    assert len({one["kind"] for one in told}) == len(told)
    process.stop()
    stranger.forbid()

    # With the steps of docs/reference/rbac.md nothing is missing, and it follows what happens.
    grant_reading(cluster, stranger.who)
    process, web = run_web(cluster, "web", "stranger")
    document = cluster.wait(partial(snapshot, process, web), "the dashboard has read everything")
    rows = {row["name"]: row for row in document["jobs"]}
    assert rows["train"]["running"] == 2
    assert rows["too-large"]["state"] == "pending"
    assert "default" in {row["name"] for row in document["queues"]}
    why = web.request(f"/api/v1/jobs/{cluster.namespace}/too-large/why")
    assert (why.status, why.document["state"]) == (200, "pending"), why.text
    follower = Follower([web], "")
    cluster.apply([vcjob("later", 1, 8)])
    follower.follow(lambda mirror: jobs(mirror).get("later", {}).get("running") == 1)
    assert "not allowed" not in process.log.read_text()
    process.stop()
    assert process.ended == 0
