"""Authentication to a real API server: client certificates and exec plugins."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ringwise.apps.admission.certificates import Pair, make_authority
from ringwise.wellknown import VOLCANO_SYSTEM
from ringwise_bench.control_plane import find_program
from tests.cluster.cluster import Cluster, check_chips
from tests.cluster.commands import finished, kubectl_ringwise
from tests.cluster.exec_credentials import EXEC_VERSION, calls, exec_user, launched_with
from tests.cluster.objects import nodes, pod, vcjob
from tests.cluster.rights import grant_reading

pytestmark = pytest.mark.cluster
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to sign a request")

SCHEDULER = f"system:serviceaccount:{VOLCANO_SYSTEM}:ringwise-scheduler"


def signed(cluster: Cluster, folder: Path, user: str, group: str = "") -> Pair:
    """A client certificate: a signing request of the user, signed by the authority."""
    assert cluster.client_authority is not None
    (folder / "ca.crt").write_text(cluster.client_authority.certificate)
    (folder / "ca.key").write_text(cluster.client_authority.key)
    (folder / "usage").write_text("extendedKeyUsage=clientAuth\n")
    subject = f"/CN={user}" + (f"/O={group}" if group else "")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    given = ["-in", "own.csr", "-CA", "ca.crt", "-CAkey", "ca.key"]
    for command in (
        ["req", "-new", *curve, "-keyout", "own.key", "-out", "own.csr", "-subj", subject],
        ["x509", "-req", *given, "-CAcreateserial", "-days", "1", "-extfile", "usage", "-out", "own.crt"],
    ):
        subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True, timeout=60)
    return Pair((folder / "own.crt").read_text(), (folder / "own.key").read_text())


def names_of_nodes(kubeconfig: Path) -> list[str]:
    done = kubectl_ringwise(kubeconfig, "get", "nodes", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert not done.stderr.strip(), done.stderr
    return [one["name"] for one in json.loads(done.stdout)["nodes"]]


@needs_openssl
def test_user_with_a_client_certificate(cluster: Cluster, tmp_path: Path) -> None:
    cluster.apply(nodes(3))
    pair = signed(cluster, tmp_path, "ana")
    inline = {
        "client-certificate-data": base64.b64encode(pair.certificate.encode()).decode(),
        "client-key-data": base64.b64encode(pair.key.encode()).decode(),
    }
    files = {"client-certificate": str(tmp_path / "own.crt"), "client-key": str(tmp_path / "own.key")}
    configs = [
        cluster.plane.kubeconfig_of("ana-inline", inline),
        cluster.plane.kubeconfig_of("ana-files", files),
    ]
    refused = kubectl_ringwise(configs[0], "get", "nodes")
    assert refused.returncode != 0
    assert "list" in refused.stderr, refused.stderr
    assert "nodes" in refused.stderr, refused.stderr

    grant_reading(cluster)
    cluster.wait(lambda: kubectl_ringwise(configs[0], "get", "nodes").returncode == 0, "ana may read")
    for config in configs:
        assert names_of_nodes(config) == ["node-1", "node-2", "node-3"]


@needs_openssl
def test_a_certificate_of_an_unknown_authority_is_rejected(cluster: Cluster, tmp_path: Path) -> None:
    stranger = Cluster(cluster.plane, make_authority("stranger", datetime.now(UTC), timedelta(days=1)))
    pair = signed(stranger, tmp_path, "ana", "system:masters")
    inline = {
        "client-certificate-data": base64.b64encode(pair.certificate.encode()).decode(),
        "client-key-data": base64.b64encode(pair.key.encode()).decode(),
    }
    done = kubectl_ringwise(cluster.plane.kubeconfig_of("stranger", inline), "get", "nodes")
    assert done.returncode != 0
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_user_with_an_exec_plugin_for_tokens(cluster: Cluster, tmp_path: Path) -> None:
    cluster.apply(nodes(2))
    user = exec_user(tmp_path, [{"token": cluster.plane.admin_token}])
    config = cluster.plane.kubeconfig_of("exec-token", user)
    assert names_of_nodes(config) == ["node-1", "node-2"]
    # One credential for all lists of one command.
    assert calls(tmp_path) == 1
    by_kubectl = finished(
        [str(find_program("kubectl")), f"--kubeconfig={config}", "get", "nodes", "-o", "name"]
    )
    assert by_kubectl.stdout.split() == ["node/node-1", "node/node-2"]


def test_a_rejected_token_is_fetched_again(cluster: Cluster, tmp_path: Path) -> None:
    """The first token has expired; the plugin has a valid one."""
    cluster.apply(nodes(1))
    user = exec_user(tmp_path, [{"token": cluster.plane.admin_token}, {"token": "ended"}])
    config = cluster.plane.kubeconfig_of("exec-again", user)
    assert names_of_nodes(config) == ["node-1"]
    assert calls(tmp_path) == 2


@pytest.mark.parametrize(
    ("user", "message"),
    [
        (
            {"exec": {"apiVersion": EXEC_VERSION, "command": "no-such-program", "interactiveMode": "Never"}},
            "no-such-program",
        ),
        (
            {"exec": {"apiVersion": EXEC_VERSION, "command": "false", "interactiveMode": "Never"}},
            "exited with 1",
        ),
        ({"client-certificate": "not-there.crt", "client-key": "not-there.key"}, "not-there.crt"),
    ],
)
def test_errors_are_one_line(cluster: Cluster, user: dict[str, Any], message: str) -> None:
    done = kubectl_ringwise(cluster.plane.kubeconfig_of("broken", user), "get", "nodes")
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()[:1]
    assert message in line


# -- components


def schedule(cluster: Cluster, user: Mapping[str, Any]) -> None:
    cluster.apply(nodes(2))
    scheduler = cluster.start("scheduler", launch=partial(launched_with, user))
    cluster.wait(lambda: scheduler.leads and scheduler.ready, "the scheduler leads")
    cluster.run("controller")
    cluster.apply([vcjob("train", 1, 8), pod("single-0", 4)])
    cluster.wait_running("train", 1)
    cluster.wait_running("single", 1)
    check_chips(cluster.pods())


@needs_openssl
def test_scheduler_with_a_client_certificate(cluster: Cluster, tmp_path: Path) -> None:
    """Signed for the name of the shipped service account, so that its RBAC rules apply."""
    signed(cluster, tmp_path, SCHEDULER)
    schedule(
        cluster, {"client-certificate": str(tmp_path / "own.crt"), "client-key": str(tmp_path / "own.key")}
    )


@needs_openssl
def test_scheduler_with_an_exec_plugin_for_short_lived_certificates(cluster: Cluster, tmp_path: Path) -> None:
    """Valid for 12s and renewed 10s before: every two seconds another connection."""
    pairs = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        pairs.append(signed(cluster, folder, SCHEDULER))
    credentials = [{"clientCertificateData": one.certificate, "clientKeyData": one.key} for one in pairs]
    schedule(cluster, exec_user(tmp_path, credentials, seconds=12))
    before = calls(tmp_path)
    cluster.wait(lambda: calls(tmp_path) >= before + 2, "the exec plugin runs again")
    cluster.apply([pod("late-0", 2)])
    cluster.wait_running("late", 1)
    check_chips(cluster.pods())


def test_scheduler_with_an_exec_plugin_for_short_lived_tokens(cluster: Cluster, tmp_path: Path) -> None:
    token = partial(cluster.plane.account_token, VOLCANO_SYSTEM, "ringwise-scheduler")
    credentials = [{"token": token()}, {"token": token()}]
    schedule(cluster, exec_user(tmp_path, credentials, seconds=12))
    before = calls(tmp_path)
    cluster.wait(lambda: calls(tmp_path) > before, "the exec plugin runs again")
