from __future__ import annotations

import asyncio
import base64
import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest

from ringwise.apps.admission.certificates import Pair, make_authority, make_server
from ringwise.apps.admission.objects import NAME, PATH, webhook_configuration
from ringwise.apps.admission.serving_certificate import (
    AUTHORITY_LIFETIME,
    SERVER_LIFETIME,
    Keeper,
    server_context,
)
from ringwise.apps.admission.webhook import Options, serve
from ringwise.kubeclient.client import ApiError, Client
from tests.admission.reviews import review, vcjob
from tests.kube.harness import JumpingClock, StandingClock, run, server, until
from tests.kube.standin import StandIn

SECRETS = "/api/v1/secrets"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
KEY = f"volcano-system/{NAME}"
HOST = f"{NAME}.volcano-system.svc"
DAY = 86_400.0


def shake_hands(serving: Pair, authorities: str, host: str = HOST) -> None:
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
    return authority, make_server(authority, "test", [host], now, timedelta(days=1))


def test_what_is_made_is_trusted_by_those_who_know_the_authority_only() -> None:
    authority, serving = made()
    shake_hands(serving, authority.certificate)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(serving, made()[0].certificate)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(serving, authority.certificate, "somebody.else.svc")


def test_a_server_certificate_is_no_authority() -> None:
    _, serving = made()
    forged = make_server(serving, "ringwise-admission", [HOST], datetime.now(UTC), timedelta(days=1))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(forged, serving.certificate)


def test_a_strange_key_is_told() -> None:
    with pytest.raises(ValueError, match="not one that Ringwise made"):
        make_server(Pair("", "AAAA"), "test", [HOST], datetime.now(UTC), timedelta(days=1))


# -- keeping them


def prepared(standin: StandIn) -> None:
    standin.put(WEBHOOKS, webhook_configuration("volcano-system", {}))


def secret(standin: StandIn) -> dict[str, str]:
    data = standin.get(SECRETS, KEY)["data"]
    return {name: base64.b64decode(text).decode() for name, text in data.items()}


def told(standin: StandIn) -> str:
    bundles = {hook["clientConfig"]["caBundle"] for hook in standin.get(WEBHOOKS, NAME)["webhooks"]}
    (bundle,) = bundles
    return base64.b64decode(bundle).decode()


def keeper(client: Client, clock: JumpingClock) -> Keeper:
    return Keeper(client, "volcano-system", clock=clock)


def test_the_first_step_makes_everything_and_the_second_nothing() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            prepared(standin)
            first = await keeper(client, JumpingClock()).step()
            assert secret(standin)["tls.crt"] == first.certificate
            shake_hands(first, told(standin))
            version = standin.version
            assert await keeper(client, JumpingClock()).step() == first
            assert standin.version == version

    run(test())


def test_the_server_certificate_is_renewed_when_a_third_is_left() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            prepared(standin)
            clock = JumpingClock()
            keeps = keeper(client, clock)
            first = await keeps.step()
            authorities = told(standin)
            clock.moment += SERVER_LIFETIME.total_seconds() * 2 / 3 - DAY
            assert await keeps.step() == first
            clock.moment += 2 * DAY
            second = await keeps.step()
            assert second.certificate != first.certificate
            assert told(standin) == authorities
            shake_hands(second, authorities)

    run(test())


def test_a_new_authority_is_told_a_step_before_it_signs() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            prepared(standin)
            clock = JumpingClock()
            keeps = keeper(client, clock)
            clock.moment += 0
            await keeps.step()
            first = told(standin)
            clock.moment += AUTHORITY_LIFETIME.total_seconds() * 2 / 3 + DAY
            before = await keeps.step()
            both = told(standin)
            assert both.endswith(first)
            assert both != first
            shake_hands(before, first)
            after = await keeps.step()
            shake_hands(after, both)
            with pytest.raises(ssl.SSLCertVerificationError):
                shake_hands(after, first)
            assert await keeps.step() == after

    run(test())


@pytest.mark.parametrize("damage", ["tls.key", "ca.key", "ca.crt", "state.json", "all"])
def test_a_damaged_secret_is_made_anew(damage: str) -> None:
    async def test() -> None:
        async with server() as (standin, client):
            prepared(standin)
            keeps = keeper(client, JumpingClock())
            await keeps.step()
            object = standin.get(SECRETS, KEY)
            object["data"] = {} if damage == "all" else {**object["data"], damage: "bm9uc2Vuc2U="}
            standin.put(SECRETS, object)
            shake_hands(await keeps.step(), told(standin))

    run(test())


def test_two_replicas_that_start_together_agree() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            prepared(standin)
            one, other = keeper(client, JumpingClock()), keeper(client, JumpingClock())
            pairs = await asyncio.gather(one.step(), other.step())
            assert pairs[0] == pairs[1] == await one.step()
            shake_hands(pairs[0], told(standin))

    run(test())


def test_a_refusal_of_the_server_is_handed_on() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            standin.fault("GET /api/v1/namespaces/volcano-system/secrets", status=403)
            with pytest.raises(ApiError):
                await keeper(client, JumpingClock()).step()

    run(test())


# -- the whole webhook


def test_the_webhook_serves_over_tls_and_takes_up_renewed_certificates() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            prepared(standin)
            standin.put("/apis/scheduling.volcano.sh/v1beta1/queues", {"metadata": {"name": "default"}})
            ports: list[int] = []
            stop, clock = asyncio.Event(), StandingClock()
            options = Options(address="127.0.0.1:0", health_address="")
            serving = asyncio.create_task(
                serve(options, client, stop, clock=clock, started=lambda port: ports.append(port))
            )
            await until(lambda: ports)
            refused = await ask(ports[0], told(standin), review(vcjob(3)))
            assert refused["response"]["allowed"] is False
            assert "asks for 3 chips" in refused["response"]["status"]["message"]
            assert (await ask(ports[0], told(standin), review(vcjob(8))))["response"]["allowed"] is True
            before = secret(standin)["tls.crt"]
            await clock.pass_time(SERVER_LIFETIME.total_seconds())
            await until(lambda: secret(standin)["tls.crt"] != before)
            stop.set()
            await serving

    run(test())


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
