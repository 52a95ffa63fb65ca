"""The dashboard by TLS, as it is exposed on a cluster: a certificate from files, and a token to read."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import ClientConnectorCertificateError, ClientConnectorError, ClientSession, TCPConnector, web

from ringwise.apps.admission.certificates import Pair, make_authority, make_server
from ringwise.apps.admission.serving_certificate import server_context
from ringwise.apps.certificate_files import CertificateFiles
from ringwise.apps.extensions import new_scheduler
from ringwise.apps.web.kube import serving_dashboard
from ringwise.apps.web.options import WebOptions
from ringwise.apps.web.replicas import Replicas
from ringwise.kube.run.core_thread import SchedulerAdapter
from ringwise.kube.run.runner import Runner
from ringwise.metrics.connections import listening_sockets
from ringwise.metrics.endpoints import AddressError
from ringwise.web.application import FORWARDED, Asker
from ringwise.web.connections import serving_application
from tests.timeouts import TEST_TIMEOUT
from tests.web.reviews import GOOD, review_server

DAY = timedelta(days=1)


class Issued:
    """A certificate of an authority of its own, so that a client which trusts it accepts no other one."""

    def __init__(self, name: str) -> None:
        now = datetime.now(UTC)
        self.authority = make_authority(name, now, DAY)
        self.pair: Pair = make_server(self.authority, ["localhost"], now, DAY)

    @property
    def trusted(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.authority.certificate)


class Files:
    """The certificate as a mounted Secret has it."""

    def __init__(self, folder: Path, issued: Issued) -> None:
        self.certificate = folder / "tls.crt"
        self.key = folder / "tls.key"
        self.replace(issued.pair)

    def replace(self, pair: Pair) -> None:
        self.certificate.write_text(pair.certificate)
        self.key.write_text(pair.key)


async def test_an_exposed_dashboard_wants_tls_and_a_token_and_takes_a_renewed_certificate(
    tmp_path: Path,
) -> None:
    first, second = Issued("first"), Issued("second")
    files = Files(tmp_path, first)
    options = WebOptions("0.0.0.0:0", certificate=files.certificate, key=files.key)
    async with review_server() as (_, client):
        scheduler = new_scheduler()
        runner = Runner(client, lambda: [SchedulerAdapter(scheduler)])
        serving = serving_dashboard(runner, lambda: scheduler, client, options, certificate_interval=0.01)
        async with serving as url, asyncio.timeout(TEST_TIMEOUT):
            parts = urlsplit(url)
            assert parts.scheme == "https"

            async def status(path: str, issued: Issued, token: str = "") -> int:
                """Of a request on a connection of its own."""
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                connector = TCPConnector(ssl=issued.trusted)
                async with (
                    ClientSession(connector=connector, headers=headers) as session,
                    session.get(f"https://localhost:{parts.port}/{path}") as response,
                ):
                    return response.status

            assert await status("", first) == 200
            assert await status("api/v1/openapi.json", first) == 401
            assert await status("api/v1/openapi.json", first, "wrong") == 401
            assert await status("api/v1/openapi.json", first, GOOD) == 200
            with pytest.raises(ClientConnectorCertificateError):
                await status("", second)
            # Nothing is answered in the clear.
            reader, writer = await asyncio.open_connection("127.0.0.1", parts.port)
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"HTTP/" not in await reader.read()
            writer.close()

            files.replace(second.pair)
            while True:
                try:
                    assert await status("api/v1/openapi.json", second, GOOD) == 200
                    break
                except ClientConnectorCertificateError:
                    await asyncio.sleep(0.01)
            with pytest.raises(ClientConnectorCertificateError):
                await status("", first)


async def test_tls_1_1_is_not_spoken(tmp_path: Path) -> None:
    issued = Issued("one")
    files = Files(tmp_path, issued)
    options = WebOptions("127.0.0.1:0", certificate=files.certificate, key=files.key)
    old = issued.trusted
    # Otherwise the client's own rules would refuse it first.
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    async with review_server() as (_, client):
        scheduler = new_scheduler()
        runner = Runner(client, lambda: [SchedulerAdapter(scheduler)])
        async with serving_dashboard(runner, lambda: scheduler, client, options) as url:
            page = f"https://localhost:{urlsplit(url).port}/"
            async with ClientSession(connector=TCPConnector(ssl=old)) as session:
                with pytest.raises(ClientConnectorError):
                    await session.get(page)
            async with (
                ClientSession(connector=TCPConnector(ssl=issued.trusted)) as session,
                session.get(page) as response,
            ):
                assert response.status == 200


def test_files_that_do_not_fit_leave_the_last_certificate_in_use(tmp_path: Path) -> None:
    first, second = Issued("first"), Issued("second")
    files = Files(tmp_path, first)
    served = CertificateFiles(files.certificate, files.key)
    assert not served.read()
    # One file is replaced, the other one not yet.
    files.certificate.write_text(second.pair.certificate)
    with pytest.raises(ssl.SSLError):
        served.read()
    assert _handshake(served.context, first.trusted)
    files.certificate.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="decode"):
        served.read()
    assert _handshake(served.context, first.trusted)
    files.replace(second.pair)
    assert served.read()
    assert _handshake(served.context, second.trusted)
    assert not _handshake(served.context, first.trusted)


@pytest.mark.parametrize("content", ["", "no certificate", None])
def test_a_certificate_that_cannot_be_used_is_an_error_at_the_start(
    tmp_path: Path, content: str | None
) -> None:
    files = Files(tmp_path, Issued("one"))
    if content is None:
        files.certificate.unlink()
    else:
        files.certificate.write_text(content)
    with pytest.raises(AddressError, match="the certificate cannot be used"):
        CertificateFiles(files.certificate, files.key)


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> bool:
    """Whether the client accepts the certificate of the server; both in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving = server.wrap_bio(to_server, to_client, server_side=True)
    asking = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    for _ in range(4):
        for side in (asking, serving):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                return False
    return asking.version() is not None


async def test_a_question_is_passed_on_only_to_who_has_the_same_certificate(tmp_path: Path) -> None:
    own, other = Issued("own"), Issued("other")
    files = Files(tmp_path, own)
    seen: list[str | None] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        assert request.headers[FORWARDED]
        return web.json_response({"answer": 1})

    async def asked(issued: Issued) -> object:
        app = web.Application()
        app.router.add_get("/why", answer)
        sockets = await listening_sockets("127.0.0.1", 0)
        async with serving_application(app, sockets, server_context(issued.pair)) as port:
            replicas = Replicas(f"127.0.0.1:{port}", files.certificate)
            return await replicas.ask(Asker("Bearer secret"), "GET", "/why")

    assert await asked(other) is None
    assert not seen
    assert await asked(own) == {"answer": 1}
    assert seen == ["Bearer secret"]
