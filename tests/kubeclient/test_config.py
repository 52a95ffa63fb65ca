"""Access to a cluster, and one clear line where it is not configured."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ringwise.kubeclient.client import ApiError, Client
from ringwise.kubeclient.config import Access, find_access, in_cluster, read_kubeconfig
from ringwise.kubeclient.credentials import TOKEN_FILE_AGE, Credential, ExecPlugin, KubeConfigError, TokenFile
from ringwise.kubeclient.resources import PODS as POD_KIND
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import InstantClock


def kubeconfig(folder: Path, user: dict[str, Any] | None = None, **cluster: Any) -> Path:
    document = {
        "current-context": "main",
        "contexts": [
            {"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
            {"name": "broken", "context": {"cluster": "missing", "user": "u"}},
            {"name": "nobody", "context": {"cluster": "c", "user": "missing"}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": "https://example.com:6443/", **cluster}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(document))
    return path


def read(path: Path, context: str | None = None) -> Access:
    return read_kubeconfig([path], context, InstantClock())


def token_of(access: Access) -> str:
    return asyncio.run(_current(access)).token


async def _current(access: Access) -> Credential:
    return await access.credentials.current()


def test_a_token_and_a_namespace(tmp_path: Path) -> None:
    access = read(kubeconfig(tmp_path, {"token": "secret"}))
    assert access.server == "https://example.com:6443"
    assert access.namespace == "team"
    assert token_of(access) == "secret"


def test_certificates_inline_and_in_files_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("AUTHORITY")
    inline = {
        "client-certificate-data": base64.b64encode(b"CERT").decode(),
        "client-key-data": base64.b64encode(b"KEY").decode(),
    }
    access = read(kubeconfig(tmp_path, inline, **{"certificate-authority": "ca.pem"}))
    assert (access.authority, access.certificate, access.key) == ("AUTHORITY", "CERT", "KEY")


def test_an_insecure_cluster_is_not_verified(tmp_path: Path) -> None:
    context = read(kubeconfig(tmp_path, None, **{"insecure-skip-tls-verify": True})).tls(Credential())
    assert context is not None
    assert not context.check_hostname


@pytest.mark.parametrize(
    ("user", "cluster", "context", "expected"),
    [
        ({}, {}, "other", 'context "other" not found; must be one of broken, main, nobody'),
        ({}, {}, "broken", 'cluster "missing" has no server'),
        ({}, {}, "nobody", 'user "missing" not found'),
        ({}, {"server": "example.com"}, None, "server must begin with https://"),
        ({"client-certificate-data": "!!"}, {}, None, "client-certificate-data is not base64"),
        ({"client-key": "gone.pem"}, {}, None, "gone.pem: No such file"),
        ({"client-key-data": base64.b64encode(b"K").decode()}, {}, None, "client-certificate is missing"),
        ({"auth-provider": {"name": "gcp"}}, {}, None, "use an exec plugin"),
        ({"username": "me"}, {}, None, "passwords were removed"),
        ({"exec": {"command": "x", "apiVersion": "v0"}}, {}, None, "apiVersion must be one of"),
        ({"token": 5}, {}, None, "Expected `str | null`, got `int`"),
    ],
)
def test_errors_are_one_line(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], context: str | None, expected: str
) -> None:
    path = kubeconfig(tmp_path, user, **cluster)
    with pytest.raises(KubeConfigError) as caught:
        read(path, context)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value) or "exec plugin" in str(caught.value)


@pytest.mark.parametrize("text", ["{", "- 1", "clusters: {}", "\x00"])
def test_a_file_that_is_not_a_kubeconfig(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(KubeConfigError) as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_invalid_certificates_are_reported(tmp_path: Path) -> None:
    access = read(
        kubeconfig(tmp_path, None, **{"certificate-authority-data": base64.b64encode(b"nonsense").decode()})
    )
    with pytest.raises(KubeConfigError, match="certificates cannot be used"):
        access.tls(Credential())


def test_several_files_are_merged(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    first = kubeconfig(tmp_path / "one", {"token": "first"})
    (tmp_path / "two").mkdir()
    second = kubeconfig(tmp_path / "two", {"token": "second"})
    paths = os.pathsep.join([str(tmp_path / "absent"), str(first), str(second)])
    assert token_of(find_access(environ={"KUBECONFIG": paths})) == "first"


def account(folder: Path, token: str = "abc") -> Path:
    (folder / "token").write_text(token)
    (folder / "ca.crt").write_text("CA")
    (folder / "namespace").write_text("mine\n")
    return folder


def test_in_a_pod_the_service_account_is_used(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    access = find_access(environ=environ, service_account=account(tmp_path))
    assert access.server == "https://[fd00::1]:6443"
    assert (access.namespace, access.authority, token_of(access)) == ("mine", "CA", "abc")


def test_without_configuration_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(KubeConfigError, match="--kubeconfig"):
        find_access(environ={"HOME": str(tmp_path)})
    with pytest.raises(KubeConfigError, match="service account"):
        in_cluster({"KUBERNETES_SERVICE_HOST": "1.2.3.4"}, InstantClock(), tmp_path)


async def test_a_rotated_token_is_read_again(tmp_path: Path) -> None:
    clock = InstantClock()
    tokens = TokenFile(account(tmp_path) / "token", clock)
    assert (await tokens.current()).token == "abc"
    (tmp_path / "token").write_text("def\n")
    assert (await tokens.current()).token == "abc"
    clock.moment += TOKEN_FILE_AGE
    assert (await tokens.current()).token == "def"
    (tmp_path / "token").unlink()
    clock.moment += TOKEN_FILE_AGE
    assert (await tokens.current()).token == "def"


async def test_a_rejected_token_is_read_again_at_once(tmp_path: Path) -> None:
    tokens = TokenFile(account(tmp_path, "old") / "token", InstantClock())
    async with FakeApiServer(tokens={"new"}) as api, Client(Access(api.url, tokens)) as client:
        with pytest.raises(ApiError, match="401"):
            await client.request("GET", POD_KIND.path())
        (tmp_path / "token").write_text("new")
        await client.request("GET", POD_KIND.path())


def plugin(folder: Path, script: str, clock: InstantClock, **more: Any) -> ExecPlugin:
    program = folder / "plugin"
    program.write_text(f"#!{sys.executable}\n{script}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return ExecPlugin(str(program), ("--x",), {"GREETING": "hello"}, clock, **more)


ANSWER = """
import json, os, pathlib, sys
place = pathlib.Path(sys.argv[0]).with_name("asked")
asked = int(place.read_text()) + 1 if place.exists() else 1
place.write_text(str(asked))
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
status = {"token": f"{os.environ['GREETING']}-{asked}", "expirationTimestamp": "2025-10-09T09:30:00Z"}
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


async def test_an_exec_plugin_runs_again_when_its_credential_expires(tmp_path: Path) -> None:
    clock = InstantClock()
    asked = plugin(tmp_path, ANSWER, clock)
    assert (await asked.current()).token == "hello-1"
    assert (await asked.current()).token == "hello-1"
    clock.moment += 40 * 60
    assert (await asked.current()).token == "hello-2"
    asked.refused()
    assert (await asked.current()).token == "hello-3"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("print('nonsense')", "did not print an ExecCredential"),
        ("print('{}')", "neither a token nor a certificate"),
        ("import sys; sys.exit('no login')", "exited with 1: no login"),
        ('import sys; sys.stdout.buffer.write(b\'{"status": "\\xff"}\')', "did not print an ExecCredential"),
        ('print(\'{"status": {"token": "t", "expirationTimestamp": "soon"}}\')', "expirationTimestamp"),
    ],
)
async def test_the_error_names_a_failed_exec_plugin(tmp_path: Path, script: str, expected: str) -> None:
    with pytest.raises(KubeConfigError, match=expected):
        await plugin(tmp_path, script, InstantClock()).current()


async def test_the_error_names_an_exec_plugin_that_cannot_run(tmp_path: Path) -> None:
    broken = plugin(tmp_path, "", InstantClock())
    (tmp_path / "plugin").write_text("#!/no/such/interpreter\n")
    with pytest.raises(KubeConfigError, match="plugin cannot run: "):
        await broken.current()


async def test_an_exec_plugin_slower_than_the_requests_still_gives_a_credential(tmp_path: Path) -> None:
    """Requests that time out leave the program running: the next request gets what it printed."""
    signal = tmp_path / "signal"
    os.mkfifo(signal)
    script = f"open({str(signal)!r}).read()\n{ANSWER}"
    slow = plugin(tmp_path, script, InstantClock())
    for _ in range(2):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await slow.current()
    waiting = [asyncio.create_task(slow.current()) for _ in range(2)]
    # Opening it for writing waits until the program reads.
    await asyncio.to_thread(signal.write_text, "go")
    assert [one.token for one in await asyncio.gather(*waiting)] == ["hello-1", "hello-1"]


async def test_the_error_of_a_missing_exec_plugin_has_its_hint() -> None:
    missing = ExecPlugin("no-such-program", (), {}, InstantClock(), hint="install it")
    with pytest.raises(KubeConfigError, match="is not on the PATH; install it"):
        await missing.current()
