"""Clients of a dashboard on a cluster: requests with a token, and a client that follows the stream."""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tests.cluster.cluster import WAIT_TIMEOUT, Cluster
from tests.web.client import Mirror

#: Seconds in which a replica must answer. A stream shows at least every 15 s that it is alive.
TIMEOUT = 30.0


class Answered(NamedTuple):
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def document(self) -> Any:
        return json.loads(self.text)

    @property
    def refusal(self) -> tuple[int, str]:
        return self.status, self.document["error"]["code"]


class Dashboard:
    """The dashboard of one replica, reached as `localhost`."""

    def __init__(self, port: int, authority: Path | None = None) -> None:
        """`authority`: who signed its certificate; None: plain HTTP."""
        self.port = port
        self._authority = authority

    def connect(self) -> HTTPConnection:
        if self._authority is None:
            return HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        context = ssl.create_default_context(cafile=str(self._authority))
        return HTTPSConnection("localhost", self.port, timeout=TIMEOUT, context=context)

    def request(
        self,
        path: str,
        token: str | None = None,
        *,
        method: str = "GET",
        body: str | None = None,
        **headers: str,
    ) -> Answered:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            given["Authorization"] = f"Bearer {token}"
        with closing(self.connect()) as connection:
            connection.request(method, path, body, given)
            response = connection.getresponse()
            text = response.read().decode()
            return Answered(response.status, {key.lower(): v for key, v in response.getheaders()}, text)

    def events(self, epoch: str, since: int, token: str | None = None) -> Iterator[tuple[str, Any]]:
        """The events of the stream until it ends."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        with closing(self.connect()) as connection:
            connection.request("GET", f"/api/v1/stream?epoch={epoch}&since={since}", None, headers)
            response = connection.getresponse()
            assert response.status == 200, response.read()
            name = ""
            while line := response.readline():
                key, _, value = line.decode().rstrip("\n").partition(": ")
                if key == "event":
                    name = value
                elif key == "data":
                    yield name, json.loads(value)


class Follower:
    """What the page does: a snapshot, then the stream; from the next replica where one cannot answer."""

    def __init__(self, replicas: Sequence[Dashboard], token: str) -> None:
        self._replicas = list(replicas)
        self._token = token
        self._turn = 0
        self.mirror: Mirror | None = None
        self.epochs: list[str] = []
        self.sequence = 0
        #: What other replicas said about the leader.
        self.leaders: list[str] = []

    def follow(self, until: Any) -> Mirror:
        """Until the mirror is as wanted."""
        deadline = time.monotonic() + WAIT_TIMEOUT
        while time.monotonic() < deadline:
            try:
                if self.mirror is None:
                    self._fetch()
                if self.mirror is not None and (until(self.mirror) or self._read(until, deadline)):
                    return self.mirror
            except (OSError, HTTPException):
                # The replica is gone: another one may lead, in a while.
                self._turn += 1
            time.sleep(0.2)
        shown = None if self.mirror is None else self.mirror.plain()
        raise AssertionError(f"not within {WAIT_TIMEOUT:g} s; {self.leaders}, {shown}")

    def _fetch(self) -> None:
        answered = self._replica.request("/api/v1/snapshot", self._token)
        if answered.status == 503:
            error = answered.document["error"]
            assert error["code"] == "not-leading", error
            self.leaders.append(error["leader"])
            self._turn += 1
            return
        assert answered.status == 200, answered
        document = answered.document
        self.mirror, self.sequence = Mirror.of_document(document), document["sequence"]
        self.epochs.append(document["epoch"])

    def _read(self, until: Any, deadline: float) -> bool:
        assert self.mirror is not None
        for name, data in self._replica.events(self.epochs[-1], self.sequence, self._token):
            match name:
                case "change":
                    assert data["sequence"] == self.sequence + 1, (data, self.sequence)
                    self.mirror.apply(data)
                    self.sequence = data["sequence"]
                case "reset":
                    self.mirror = None
                    return False
                case "leader":
                    self.leaders.append(data["leader"])
                    self._turn += 1
                    return False
            if until(self.mirror):
                return True
            if time.monotonic() > deadline:
                return False
        return False

    @property
    def _replica(self) -> Dashboard:
        return self._replicas[self._turn % len(self._replicas)]


def signed_token(cluster: Cluster, name: str, *, ended: bool) -> str:
    """A token of a ServiceAccount with times of our own, signed by the key of the control plane."""
    namespace, account = cluster.namespace, cluster.api.get(f"/api/v1/namespaces/-/serviceaccounts/{name}")
    now = int(time.time())
    begin = now - 7200 if ended else now - 60
    claims = {
        "iss": "https://ringwise.invalid",
        "aud": ["https://ringwise.invalid"],
        "sub": f"system:serviceaccount:{namespace}:{name}",
        "iat": begin,
        "nbf": begin,
        "exp": begin + 3600,
        "kubernetes.io": {
            "namespace": namespace,
            "serviceaccount": {"name": name, "uid": account["metadata"]["uid"]},
        },
    }
    parts = [_encoded(json.dumps(part).encode()) for part in ({"alg": "ES256", "typ": "JWT"}, claims)]
    key = serialization.load_pem_private_key((cluster.plane.folder / "accounts.key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    signature = decode_dss_signature(key.sign(".".join(parts).encode(), ec.ECDSA(hashes.SHA256())))
    return ".".join((*parts, _encoded(b"".join(number.to_bytes(32, "big") for number in signature))))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
