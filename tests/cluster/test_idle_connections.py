"""Idle connections, without any token, keep neither the API server nor readers nor probes out."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest

from ringwise_bench.control_plane import free_port
from tests.cluster.cluster import Cluster
from tests.cluster.dashboard import Dashboard
from tests.cluster.objects import nodes, vcjob
from tests.cluster.test_admission import ADDRESS, DENIED, applied, port, refused, start
from tests.cluster.test_dashboard import SNAPSHOT, Account, Exposed, exposed, reader

pytestmark = [pytest.mark.cluster, pytest.mark.alone]

__all__ = ["exposed", "port", "reader"]


@contextmanager
def idle(address: str, port: int, count: int, *, tls: bool = True, path: str = "/") -> Iterator[None]:
    """Connections that stay open after a request; then some more, in the middle of a header."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with ExitStack() as stack:
        for number in range(count + count // 4):
            made = stack.enter_context(socket.create_connection((address, port), timeout=30))
            if tls:
                made = stack.enter_context(context.wrap_socket(made))
            request = f"GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode()
            if number < count:
                made.sendall(request)
                assert made.recv(12) == b"HTTP/1.1 200" or path != "/"
            else:
                made.sendall(request[:-2])
        yield


@pytest.mark.skipif(not ADDRESS, reason="this machine has no address but loopback")
def test_a_job_is_reviewed_beside_idle_connections_to_the_webhook(cluster: Cluster, port: int) -> None:
    webhook = start(cluster, port)
    # They come from the address of the API server, as where all are behind one, and they were there first.
    with (
        idle(ADDRESS, port, 600, path="/nothing"),
        idle("127.0.0.1", webhook.health_port, 200, tls=False, path="/nothing"),
    ):
        refused(cluster)
        for number in range(3):
            assert DENIED in applied(cluster, vcjob(f"impossible-{number}", 1, 3))
        cluster.wait(lambda: webhook.healthy and webhook.ready, "the webhook says that it is well")
    assert "idle connections are closed to make room" in webhook.log()


def test_a_dashboard_and_its_health_answer_beside_idle_connections(
    cluster: Cluster, exposed: Exposed, reader: Account
) -> None:
    cluster.apply(nodes(2))
    scheduler, web = exposed.start()
    cluster.wait(lambda: scheduler.leads, "the scheduler leads")
    token = reader.token()
    with (
        idle("127.0.0.1", web.port, 600),
        idle("127.0.0.1", scheduler.health_port, 200, tls=False, path="/nothing"),
        idle("127.0.0.1", scheduler.metrics_port, 200, tls=False, path="/nothing"),
    ):
        assert web.request(SNAPSHOT, token).status == 200
        # Of the metrics page, too.
        cluster.wait(lambda: scheduler.healthy and scheduler.leads, "the scheduler says that it is well")
        # And it schedules.
        cluster.run("controller")
        cluster.apply([vcjob("train", 1, 8)])
        cluster.wait_running("train", 1)


def reason_of(web: Dashboard, path: str, token: str) -> str | None:
    answered = web.request(path, token)
    return answered.document["reason"] if answered.status == 200 else None


def test_a_standby_replica_answers_the_questions_that_the_leader_is_asked(
    cluster: Cluster, exposed: Exposed, reader: Account
) -> None:
    cluster.apply(nodes(2))
    other = free_port()
    first, web = exposed.start(f"--web-replicas=127.0.0.1:{other}")
    cluster.wait(lambda: first.leads, "the first replica leads")
    cluster.run("controller")
    cluster.apply([vcjob("too-large", 9, 8)])
    path = f"/api/v1/jobs/{cluster.namespace}/too-large/why"
    token = reader.token()
    cluster.wait(partial(reason_of, web, path, token), "the leader answers alone")
    assert "no standby" not in first.log()
    second, standby = exposed.start(port=other)
    answer = web.request(path, token)
    assert answer.status == 200, answer.text
    assert f'"address": "127.0.0.1:{other}"' in first.log()
    own = standby.request(path, token).document
    assert answer.document["reason"] == own["reason"]
    assert "omitted" not in answer.document
    # The reader's token decides there, too.
    assert web.request(path, "no.such.token").refusal == (401, "token-invalid")
    second.process.kill()
    cluster.wait(partial(reason_of, web, path, token), "the leader answers again")
    assert "no standby replica answers questions" in first.log()
