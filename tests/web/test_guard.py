"""Which requests the dashboard answers at all, and how: hosts, origins, headers, methods and sizes."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest

from ringwise.apps.web.job_documents import SchedulerAnswers
from ringwise.log import ERROR, Logger
from ringwise.metrics.connections import OpenConnections
from ringwise.web.addresses import is_loopback
from ringwise.web.application import Asker
from ringwise.web.guard import CONTENT_SECURITY_POLICY, Guard
from tests.tools.schemas import check_document
from tests.web.rig import TestCore, address_of, dashboard, raw_answer


async def test_page_files_have_etags_and_types() -> None:
    async with dashboard() as at:
        async with at.session.get(at.url) as response:
            assert response.content_type == "text/html"
            etag = response.headers["ETag"]
        async with at.session.get(at.url, headers={"If-None-Match": etag}) as response:
            assert response.status == 304
            assert not await response.read()
        async with at.session.get(f"{at.url}page/app.js") as response:
            assert response.content_type == "text/javascript"
            assert await response.read() == b"export {}"


@pytest.mark.parametrize("path", ["", "page/none", "api/v1/snapshot", "api/", "elsewhere"])
async def test_every_response_has_the_security_headers(path: str) -> None:
    async with dashboard() as at, at.session.get(f"{at.url}{path}") as response:
        assert response.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in response.headers
        assert "Server" not in response.headers


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8090", 200),
        ("localhost:1", 200),
        ("LOCALHOST.:1", 200),
        ("[::1]:8090", 200),
        ("10.1.2.3", 200),
        ("dashboard.example", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("evil.example@localhost", 421),
        ("localhost/evil.example", 421),
        ("", 421),
        ("a b", 421),
        ("[", 421),
    ],
)
async def test_a_server_answers_by_its_own_names_only(host: str, status: int) -> None:
    async with dashboard(guard=Guard(["Dashboard.Example"])) as at:
        address, port = address_of(at)
        request = f"GET /api/v1/snapshot HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        raw = await raw_answer(address, port, request)
        assert raw.startswith(f"HTTP/1.1 {status} ".encode()), raw[:200]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "same"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "same", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403),
    ],
)
async def test_requests_of_other_sites_are_refused(headers: dict[str, str], status: int) -> None:
    async with dashboard() as at:
        sent = {key: at.url.rstrip("/") if value == "same" else value for key, value in headers.items()}
        async with at.session.get(f"{at.url}api/v1/snapshot", headers=sent) as response:
            assert response.status == status


async def test_a_huge_body_is_refused() -> None:
    body = io.BytesIO(b"x" * (1 << 21))
    async with dashboard() as at, at.session.post(f"{at.url}api/v1/what-if", data=body) as response:
        assert response.status == 413
        assert (await response.json())["error"]["code"] == "too-large"


async def test_a_manifest_beyond_the_limit_is_refused_before_its_body_is_read() -> None:
    async with dashboard(max_manifests=1) as at:
        host, port = address_of(at)
        header = f"POST /api/v1/what-if HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1000\r\n\r\n"
        _, writer = await asyncio.open_connection(host, port)
        writer.write(header.encode())
        while not at.server._manifests:
            await asyncio.sleep(0.005)
        reader, second = await asyncio.open_connection(host, port)
        second.write(header.encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 503")
        # Who goes makes room.
        writer.close()
        while at.server._manifests:
            await asyncio.sleep(0.005)
        second.close()
        async with at.session.post(f"{at.url}api/v1/what-if", data=b"[") as response:
            assert response.status == 400


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "POST"])
async def test_nothing_can_be_changed(method: str) -> None:
    async with dashboard() as at, at.session.request(method, f"{at.url}api/v1/snapshot") as response:
        assert response.status == 405
        assert check_document(await response.json()) == "ringwise.io/error/v1"


async def test_a_defect_is_told_without_its_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests of this process may have sent the log elsewhere.
    monkeypatch.setattr(Logger, "_stream", None)
    monkeypatch.setattr(Logger, "_written", frozenset({ERROR}))

    class Broken(SchedulerAnswers):
        async def why(self, asker: Asker, namespace: str, name: str) -> dict[str, Any]:
            raise RuntimeError("secret")

    core = TestCore()
    async with dashboard(core) as at:
        at.server._answers = Broken(core)
        status, document = await at.get("api/v1/jobs/a/b/why")
        assert (status, document["error"]["code"]) == (500, "internal-error")
        assert "secret" not in str(document)
    assert "secret" in capsys.readouterr().err


async def test_half_a_request_does_not_keep_its_connection() -> None:
    async with dashboard(connections=OpenConnections(header_timeout=0.05)) as at:
        host, port = address_of(at)
        assert await raw_answer(host, port, "GET / HTTP/1.1\r\nHost:") == b""


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        *((host, True) for host in ("127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost")),
        *((host, False) for host in ("0.0.0.0", "::", "10.0.0.1", "example.com", "")),
    ],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) == loopback
