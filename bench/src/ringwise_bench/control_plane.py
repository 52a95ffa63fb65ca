"""A real control plane on this machine: etcd and kube-apiserver on loopback, in a folder of their own.

For benchmarks and cluster tests. Nothing is shared with other clusters, and nothing stays behind.
"""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import random
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from http.client import BadStatusLine, HTTPSConnection
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from ringwise.topology.natural import natural_key
from ringwise.wellknown import TOKEN_API

#: Seconds within which a program must be ready, on a busy machine.
TIMEOUT = 120.0
#: Seconds within which a program must end after SIGTERM.
FAREWELL = 10.0
#: Seconds within which the server must answer a request: it gives up itself after 60.
ANSWER = 70.0
#: The order of the curve P-256.
_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
#: SEQUENCE { 1, OCTET STRING of 32 bytes, [0] { prime256v1 } }, around the 32 bytes.
_KEY_HEAD = bytes.fromhex("30310201010420")
_KEY_TAIL = bytes.fromhex("a00a06082a8648ce3d030107")


class ControlPlaneError(Exception):
    """The control plane did not come up, or a program it needs is missing."""


def find_program(name: str) -> Path:
    """From KUBEBUILDER_ASSETS, from the path, or built for the cluster tests; the newest of those."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and os.access(Path(assets) / name, os.X_OK):
        return Path(assets) / name
    program = shutil.which(name)
    if program:
        return Path(program)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    built = (cache / "ringwise" / "cluster-tools").glob(f"*/{name}")
    newest = sorted(
        (path for path in built if os.access(path, os.X_OK)), key=lambda path: natural_key(str(path))
    )
    if newest:
        return newest[-1]
    raise ControlPlaneError(
        f"{name} is neither on the path nor in KUBEBUILDER_ASSETS; "
        "`python tests/cluster/tools/build.py` in Ringwise's sources builds it"
    )


#: Ports below those that systems give to connections.
_PORTS = range(10_000, 32_000)
#: Each process has an order of its own.
_next_port = itertools.cycle(random.Random(os.getpid()).sample(_PORTS, len(_PORTS)))


def free_port() -> int:
    """A port that is free, and that no connection or other process gets before a program listens there."""
    while True:
        port = next(_next_port)
        with suppress(OSError), socket.socket() as probe:
            fcntl.lockf(_port_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port


@cache
def _port_locks() -> IO[bytes]:
    """A file of which a process that uses a port locks the byte with this number until it ends."""
    return Path(tempfile.gettempdir(), f"ringwise-ports-{os.getuid()}").open("wb")


class Process:
    """A program with its own log file."""

    def __init__(
        self, name: str, command: Sequence[str | Path], folder: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                [str(part) for part in command],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **(env or {})},
            )

    @property
    def ended(self) -> int | None:
        """The exit code, None while it runs."""
        return self._child.poll()

    @property
    def pid(self) -> int:
        return self._child.pid

    def stop(self, seconds: float = FAREWELL) -> None:
        if self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """At once, without a farewell."""
        self._child.kill()
        try:
            self._child.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            raise ControlPlaneError(
                f"{self.name} ({self.pid}) is still there {TIMEOUT:g} s after it was killed"
            ) from None

    def pause(self, pausing: bool = True) -> None:
        """Stop it in the middle of whatever it does, or let it continue."""
        self._child.send_signal(signal.SIGSTOP if pausing else signal.SIGCONT)

    def last_lines(self, count: int = 20) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])

    def expect(self, ready: Callable[[], bool]) -> None:
        """Wait until it is ready; an early end or none in time is an error with its last lines."""
        deadline = time.monotonic() + TIMEOUT
        while not ready():
            if self.ended is not None:
                raise ControlPlaneError(f"{self.name} ended with {self.ended}:\n{self.last_lines()}")
            if time.monotonic() > deadline:
                raise ControlPlaneError(f"{self.name} is not ready after {TIMEOUT:g} s:\n{self.last_lines()}")
            time.sleep(0.05)


class ApiAnswer(Exception):
    """The server refused the request."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body[:500]}")
        self.status = status


class _Connection(HTTPSConnection):
    """Closed when it is no longer used."""

    def __del__(self) -> None:
        self.close()


class _Kept(threading.local):
    """The open connection of a thread: a handshake costs both sides more than most requests."""

    process = 0
    open: _Connection | None = None


class Api:
    """Plain requests, one after the other: for those who set things up and look on."""

    def __init__(self, url: str, authority: Path, token: str) -> None:
        self.url = url
        self._token = token
        self._tls = ssl.create_default_context(cafile=str(authority))
        self._kept = _Kept()

    def request(
        self, method: str, path: str, body: object | None = None, content_type: str = "application/json"
    ) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type}
        deadline = time.monotonic() + TIMEOUT
        while True:
            status, text = self._answer(method, path, data, headers)
            if status < 400:
                return json.loads(text) if text[:1] in (b"{", b"[") else text.decode()
            # A kind that was defined a moment ago is not served yet.
            if status != 429 or time.monotonic() > deadline:
                raise ApiAnswer(status, text.decode(errors="replace"))
            time.sleep(0.2)

    def _answer(
        self, method: str, path: str, data: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        kept = self._kept
        if kept.process != os.getpid():
            # A copy of this process shares no connection with it.
            kept.process, kept.open = os.getpid(), None
        fresh = kept.open is None
        connection = kept.open or _Connection(
            self.url.removeprefix("https://"), timeout=ANSWER, context=self._tls
        )
        kept.open = None
        try:
            connection.request(method, path, data, dict(headers))
            with connection.getresponse() as answer:
                text = answer.read()
        except (ConnectionError, BadStatusLine, ssl.SSLEOFError):
            connection.close()
            if fresh:
                raise
            # The server had closed it, as it does with idle ones.
            return self._answer(method, path, data, headers)
        except TimeoutError:
            connection.close()
            raise TimeoutError(f"{method} {path}: no response within {ANSWER:g} s") from None
        except BaseException:
            connection.close()
            raise
        kept.open = connection
        return answer.status, text

    def get(self, path: str) -> Any:
        return self.request("GET", path)

    def items(self, path: str) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = self.get(path)["items"]
        return result

    def create(self, path: str, body: Mapping[str, Any]) -> Any:
        return self.request("POST", path, body)

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        return self.request("PATCH", path, body, "application/merge-patch+json")

    def delete(self, path: str, options: Mapping[str, Any] | None = None) -> None:
        self.request("DELETE", path, options or {})


class ControlPlane:
    """etcd and kube-apiserver. RBAC is on; the administrator's token is in `admin`."""

    def __init__(self, folder: Path, client_authority: Path | None = None) -> None:
        """`client_authority`: whose client certificates are believed, beside tokens."""
        self.folder = folder
        self._client_authority = client_authority
        folder.mkdir(parents=True, exist_ok=True)
        self.authority = folder / "certificates" / "apiserver.crt"
        self.url = ""
        self.admin_token = secrets.token_hex(16)
        self._store = ""
        self._running: list[Process] = []

    def __enter__(self) -> ControlPlane:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End everything, the last one started first. Nothing is kept, so nothing waits for open requests."""
        while self._running:
            self._running.pop().kill()

    @cached_property
    def admin(self) -> Api:
        return Api(self.url, self.authority, self.admin_token)

    def run(self, name: str, command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> Process:
        """Start another program that ends with the control plane."""
        process = Process(name, command, self.folder, env)
        self._running.append(process)
        return process

    @property
    def programs(self) -> list[int]:
        """The process ids of everything that runs for it."""
        return [process.pid for process in self._running]

    def set_full(self, full: bool) -> None:
        """Make etcd refuse writes as it does when its database exceeds its quota, or accept them again."""
        action = "ACTIVATE" if full else "DEACTIVATE"
        self._ask_etcd("maintenance/alarm", {"action": action, "memberID": "0", "alarm": "NOSPACE"})

    def revisions(self) -> dict[str, int]:
        """The key of every object of every kind in etcd, with the revision of its last change."""
        first, last = (base64.b64encode(key).decode() for key in (b"/registry/", b"/registry0"))
        answer = self._ask_etcd("kv/range", {"key": first, "range_end": last, "keys_only": True})
        return {
            base64.b64decode(found["key"]).decode(): int(found["mod_revision"]) for found in answer["kvs"]
        }

    def _ask_etcd(self, path: str, body: Mapping[str, Any]) -> Any:
        request = urllib.request.Request(
            f"{self._store}/v3/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=ANSWER) as answer:
            return json.load(answer)

    def kubeconfig(self, name: str, token: str, server: str | None = None) -> Path:
        """A kubeconfig for a token; `server` stands for the real one, as a proxy in between does."""
        return self.kubeconfig_of(name, {"token": token}, server)

    def kubeconfig_of(
        self, name: str, user: Mapping[str, Any], server: str | None = None, namespace: str = ""
    ) -> Path:
        """A kubeconfig with whatever proves who it is."""
        cluster: dict[str, Any] = {"server": server or self.url}
        if cluster["server"].startswith("https:"):
            cluster["certificate-authority"] = str(self.authority)
        context = {"cluster": "here", "user": name}
        if namespace:
            context["namespace"] = namespace
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": name, "user": dict(user)}],
            "contexts": [{"name": "here", "context": context}],
        }
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(json.dumps(content, indent=1))
        path.chmod(0o600)
        return path

    def account_token(self, namespace: str, name: str, bound_to: Mapping[str, str] | None = None) -> str:
        """A token of a ServiceAccount, as its pods would get it; `bound_to` refers to one of them."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        spec = {} if bound_to is None else {"boundObjectRef": dict(bound_to)}
        body = {"apiVersion": TOKEN_API, "kind": "TokenRequest", "spec": spec}
        token: str = self.admin.create(path, body)["status"]["token"]
        return token

    # -- starting -------------------------------------------------------------------------

    def _start(self) -> None:
        # A missing program is reported before anything runs.
        etcd, server = find_program("etcd"), find_program("kube-apiserver")
        self._store = self._start_etcd(etcd)
        port = free_port()
        self.url = f"https://127.0.0.1:{port}"
        users = self.folder / "tokens.csv"
        users.write_text(f'{self.admin_token},admin,admin,"system:masters"\n')
        users.chmod(0o600)
        key = self.folder / "accounts.key"
        key.write_text(_signing_key())
        key.chmod(0o600)
        process = self.run(
            "kube-apiserver",
            [
                server,
                f"--etcd-servers={self._store}",
                f"--secure-port={port}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                f"--cert-dir={self.authority.parent}",
                f"--token-auth-file={users}",
                "--authorization-mode=RBAC",
                "--service-account-issuer=https://ringwise.invalid",
                f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
                "--service-cluster-ip-range=10.96.0.0/16",
                "--allow-privileged=true",
                # No kube-proxy runs here: webhooks behind a Service are reached by its endpoints.
                "--enable-aggregator-routing=true",
                # No controller runs that would create tokens of accounts or remove taints of new nodes.
                "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
                "--profiling=false",
                *([f"--client-ca-file={self._client_authority}"] if self._client_authority else ()),
            ],
        )
        process.expect(self._is_ready)

    def _start_etcd(self, program: Path) -> str:
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        process = self.run(
            "etcd",
            [
                program,
                f"--data-dir={self.folder / 'etcd'}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                # What is in it need not outlive a loss of power.
                "--unsafe-no-fsync",
                "--log-level=warn",
            ],
        )
        process.expect(lambda: _answers(f"{client}/health"))
        return client

    def _is_ready(self) -> bool:
        if not self.authority.is_file():
            return False
        try:
            return bool(self.admin.get("/readyz") == "ok")
        except (OSError, ssl.SSLError, ApiAnswer):
            return False


def ringwise_command(*arguments: str) -> list[str]:
    """This very program, as another process."""
    return [sys.executable, "-c", "from ringwise.cli.main import main; main()", *arguments]


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _signing_key() -> str:
    """A new private key to sign the tokens of accounts; no other program is needed for it."""
    number = secrets.randbelow(_P256_ORDER - 1) + 1
    der = _KEY_HEAD + number.to_bytes(32, "big") + _KEY_TAIL
    text = base64.encodebytes(der).decode()
    return f"-----BEGIN EC PRIVATE KEY-----\n{text}-----END EC PRIVATE KEY-----\n"
