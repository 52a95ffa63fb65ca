from __future__ import annotations

import asyncio
import base64
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from ringwise.apps.admission.certificates import Pair, make_authority, make_server, parse_pair
from ringwise.apps.admission.serving_certificate import (
    AUTHORITY_LIFETIME,
    NAME,
    SERVER_LIFETIME,
    SIGNS_AFTER,
    CertificateManager,
    SecretNotFoundError,
    server_context,
)
from ringwise.apps.admission.webhook import PATH, Options, serve
from ringwise.kubeclient.client import ApiError, Client
from ringwise.kubeclient.resources import SECRETS as SECRETS_RESOURCE
from ringwise.metrics.endpoints import AddressError
from tests.admission.reviews import review, vcjob
from tests.deploy.shipped import only, webhooks
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import InstantClock, ManualClock, server, until

SECRETS = "/api/v1/secrets"
MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
KEY = f"volcano-system/{NAME}"
HOST = f"{NAME}.volcano-system.svc"
DAY = 86_400.0


def handshake(serving: Pair, authorities: str, host: str = HOST) -> None:
    """A TLS handshake in memory; raises when the client does not trust the server."""
    client = ssl.create_default_context(cadata=authorities)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    # Certificates of tests are of another time than now.
    client.verify_flags |= 0x200000
    left, right = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(left, right, server_hostname=host)
    answering = server_context(serving).wrap_bio(right, left, server_side=True)
    waiting = [asking, answering]
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
        if not waiting:
            return
    raise AssertionError("the handshake does not end")


def made(host: str = HOST) -> tuple[Pair, Pair]:
    now = datetime.now(UTC)
    authority = make_authority("test", now, timedelta(days=2))
    return authority, make_server(authority, [host], now, timedelta(days=1))


def test_a_server_certificate_is_trusted_with_its_authority_only() -> None:
    authority, serving = made()
    handshake(serving, authority.certificate)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(serving, made()[0].certificate)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(serving, authority.certificate, "other.svc")


def test_a_server_certificate_is_no_authority() -> None:
    _, serving = made()
    forged = make_server(serving, [HOST], datetime.now(UTC), timedelta(days=1))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(forged, serving.certificate)


def test_an_authority_that_cannot_be_used_is_an_error() -> None:
    now, day = datetime.now(UTC), timedelta(days=1)
    authority, other = made()[0], made()[0]
    with pytest.raises(ValueError, match="cannot be read"):
        make_server(Pair(authority.certificate, "AAAA"), [HOST], now, day)
    with pytest.raises(ValueError, match="cannot be read"):
        make_server(Pair("", authority.key), [HOST], now, day)
    with pytest.raises(ValueError, match="does not belong"):
        make_server(Pair(authority.certificate, other.key), [HOST], now, day)


def test_the_form_of_certificates_and_keys() -> None:
    authority, serving = made()
    for pair, is_authority in ((authority, True), (serving, False)):
        assert pair.key.startswith("-----BEGIN PRIVATE KEY-----\n")
        certificate, key = parse_pair(pair)
        assert isinstance(key.curve, ec.SECP256R1)
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        assert constraints.critical
        assert constraints.value.ca is is_authority
    certificate, _ = parse_pair(serving)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [HOST]


# -- renewal


def prepared(api: FakeApiServer) -> None:
    api.put(WEBHOOKS, webhooks("Validating"))
    api.put(MUTATING, webhooks("Mutating"))
    api.put(SECRETS, only("Secret"))


def secret(api: FakeApiServer) -> dict[str, str]:
    data = api.get(SECRETS, KEY)["data"]
    return {name: base64.b64decode(text).decode() for name, text in data.items()}


def published(api: FakeApiServer) -> str:
    bundles = {
        hook["clientConfig"]["caBundle"]
        for kind in (WEBHOOKS, MUTATING)
        for hook in api.get(kind, NAME)["webhooks"]
    }
    (bundle,) = bundles
    return base64.b64decode(bundle).decode()


def manager(client: Client, clock: InstantClock) -> CertificateManager:
    return CertificateManager(client, "volcano-system", clock=clock)


async def test_a_bundle_that_another_client_removed_is_written_again_and_the_others_stay() -> None:
    async with server() as (api, client):
        prepared(api)
        await manager(client, InstantClock()).check()
        before = published(api)
        hooks = api.get(WEBHOOKS, NAME)
        assert len(hooks["webhooks"]) > 1
        hooks["webhooks"][0]["clientConfig"]["caBundle"] = ""
        api.put(WEBHOOKS, hooks)
        await manager(client, InstantClock()).check()
        assert published(api) == before
        assert all(hook["rules"] for hook in api.get(WEBHOOKS, NAME)["webhooks"])


async def test_the_first_check_creates_everything_and_the_second_nothing() -> None:
    async with server() as (api, client):
        prepared(api)
        first = await manager(client, InstantClock()).check()
        assert secret(api)["tls.crt"] == first.certificate
        handshake(first, published(api))
        version = api.version
        assert await manager(client, InstantClock()).check() == first
        assert api.version == version


async def test_the_server_certificate_is_renewed_when_a_third_is_left() -> None:
    async with server() as (api, client):
        prepared(api)
        clock = InstantClock()
        certificates = manager(client, clock)
        first = await certificates.check()
        authorities = published(api)
        clock.moment += SERVER_LIFETIME.total_seconds() * 2 / 3 - DAY
        assert await certificates.check() == first
        clock.moment += 2 * DAY
        second = await certificates.check()
        assert second.certificate != first.certificate
        assert published(api) == authorities
        handshake(second, authorities)


async def test_a_new_authority_is_published_an_hour_before_it_signs() -> None:
    async with server() as (api, client):
        prepared(api)
        clock = InstantClock()
        certificates = manager(client, clock)
        clock.moment += 0
        await certificates.check()
        first = published(api)
        clock.moment += AUTHORITY_LIFETIME.total_seconds() * 2 / 3 + DAY
        # The server certificate expired long ago. The old authority signs a new one at once.
        handshake(await certificates.check(), first)
        before = await certificates.check()
        both = published(api)
        assert both.endswith(first)
        assert both != first
        handshake(before, first)
        clock.moment += SIGNS_AFTER.total_seconds() - 60
        assert await certificates.check() == before
        clock.moment += 60
        after = await certificates.check()
        handshake(after, both)
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(after, first)
        assert await certificates.check() == after


@pytest.mark.parametrize("damage", ["tls.key", "ca.key", "ca.crt", "swapped", "all"])
async def test_a_damaged_secret_is_replaced(damage: str) -> None:
    async with server() as (api, client):
        prepared(api)
        certificates = manager(client, InstantClock())
        await certificates.check()
        object = api.get(SECRETS, KEY)
        data = object["data"]
        if damage == "all":
            data = {}
        elif damage == "swapped":
            data = {**data, "ca.key": data["tls.key"]}
        else:
            data = {**data, damage: "bm9uc2Vuc2U="}
        object["data"] = data
        api.put(SECRETS, object)
        handshake(await certificates.check(), published(api))


async def test_the_webhook_changes_its_secret_and_creates_none() -> None:
    """The release of Helm owns it, so its labels and annotations stay."""
    async with server() as (api, client):
        prepared(api)
        owned = api.get(SECRETS, KEY)
        owned["metadata"]["annotations"] = {"meta.helm.sh/release-name": "ringwise"}
        owned["data"] = {"of-another-version": "eA=="}
        api.put(SECRETS, owned)
        await manager(client, InstantClock()).check()
        after = api.get(SECRETS, KEY)
        assert after["metadata"]["annotations"] == owned["metadata"]["annotations"]
        assert after["metadata"]["labels"] == owned["metadata"]["labels"]
        assert after["data"]["of-another-version"] == "eA=="
        await client.delete(SECRETS_RESOURCE, "volcano-system", NAME)
        with pytest.raises(SecretNotFoundError, match="Secret volcano-system/ringwise-admission not found"):
            await manager(client, InstantClock()).check()
        assert not api.all(SECRETS)


async def test_two_replicas_that_start_together_agree() -> None:
    async with server() as (api, client):
        prepared(api)
        one, other = manager(client, InstantClock()), manager(client, InstantClock())
        pairs = await asyncio.gather(one.check(), other.check())
        assert pairs[0] == pairs[1] == await one.check()
        handshake(pairs[0], published(api))


async def test_an_error_of_the_api_server_is_raised() -> None:
    async with server() as (api, client):
        api.fault("GET /api/v1/namespaces/volcano-system/secrets", status=403)
        with pytest.raises(ApiError):
            await manager(client, InstantClock()).check()


# -- the whole webhook


async def test_the_webhook_serves_over_tls_and_uses_renewed_certificates() -> None:
    async with server() as (api, client):
        prepared(api)
        api.put("/apis/scheduling.volcano.sh/v1beta1/queues", {"metadata": {"name": "default"}})
        ports: list[int] = []
        stop, clock = asyncio.Event(), ManualClock()
        options = Options(address="127.0.0.1:0", health_address="")
        serving = asyncio.create_task(serve(options, client, stop, clock=clock, started=ports.append))
        await until(lambda: ports)
        refused = await ask(ports[0], published(api), review(vcjob(3)))
        assert refused["response"]["allowed"] is False
        assert "a pod requests 3 chips" in refused["response"]["status"]["message"]
        assert (await ask(ports[0], published(api), review(vcjob(8))))["response"]["allowed"] is True
        before = secret(api)["tls.crt"]
        await clock.pass_time(SERVER_LIFETIME.total_seconds())
        await until(lambda: secret(api)["tls.crt"] != before)
        stop.set()
        await serving


async def test_the_webhook_serves_the_certificate_of_files_and_writes_nothing(
    tmp_path: Path,
) -> None:
    """tests/web/test_tls.py replaces the files."""
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    authority, serving = made()
    certificate.write_text(serving.certificate)
    key.write_text(serving.key)
    async with server() as (api, client):
        ports: list[int] = []
        stop = asyncio.Event()
        options = Options(address="127.0.0.1:0", health_address="", certificate=certificate, key=key)
        task = asyncio.create_task(serve(options, client, stop, started=ports.append))
        await until(lambda: ports)
        answer = await ask(ports[0], authority.certificate, review(vcjob(3)))
        assert answer["response"]["allowed"] is False
        assert {method for method, _ in api.requests} == {"GET"}
        stop.set()
        await task
        key.write_text(made()[1].key)
        with pytest.raises(AddressError, match="the certificate cannot be used"):
            await serve(options, client, asyncio.Event())


async def ask(port: int, authorities: str, body: bytes) -> Any:
    trust = ssl.create_default_context(cadata=authorities)
    trust.verify_flags |= 0x200000
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"https://127.0.0.1:{port}{PATH}", data=body, ssl=trust, server_hostname=HOST
        ) as response,
    ):
        return await response.json()
