"""Keeps the webhook's certificates: made when absent, renewed in time, the same for all replicas.

    Secret   ca.crt  authorities that may still have signed something, the newest first
             ca.key  key of the newest
             tls.crt, tls.key   what all replicas serve
             state.json   until when each is good, and which authority signed the server certificate

Replicas agree through the Secret: it is replaced only as it was read, and whoever comes second reads
again. A new authority is first told to the API server and only a step later used, so that there is no
moment in which the API server does not know who signed.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import structlog

from ringwise.apps.admission.certificates import Pair, make_authority, make_server, secret_of
from ringwise.apps.admission.objects import NAME
from ringwise.apps.install.steps import SECRETS, WEBHOOKS
from ringwise.kubeclient.client import STRATEGIC_PATCH, ApiError, Client
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.config import load_pair
from ringwise.wellknown import APP_NAME, APP_PART_OF

_LOG = structlog.get_logger("ringwise.admission")

AUTHORITY_LIFETIME = timedelta(days=3 * 365)
SERVER_LIFETIME = timedelta(days=90)
#: Renewed when less than this part of the lifetime is left: a webhook that is off for weeks finds time.
_LEFT = 3


class _Entry(msgspec.Struct):
    """One certificate: until when it is good (Unix seconds), and by which authority it was signed."""

    until: int
    issuer: str


class _State(msgspec.Struct):
    server: _Entry
    #: As in ca.crt, the newest first.
    authorities: list[_Entry]


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Secret(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    data: dict[str, str] | None = None


class _ClientConfig(msgspec.Struct, rename="camel"):
    ca_bundle: str = ""


class _Hook(msgspec.Struct, rename="camel"):
    name: str = ""
    client_config: _ClientConfig = msgspec.field(default_factory=_ClientConfig)


class _Hooks(msgspec.Struct):
    webhooks: list[_Hook] | None = None


@dataclass(slots=True)
class Material:
    """All that the Secret holds."""

    authorities: list[str]
    authority_key: str
    server: Pair
    state: _State

    @property
    def bundle(self) -> str:
        return "".join(self.authorities)


class Keeper:
    def __init__(
        self, client: Client, namespace: str, *, clock: Clock, more_hosts: Iterable[str] = ()
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._hosts = [f"{NAME}.{namespace}.svc", f"{NAME}.{namespace}.svc.cluster.local", NAME]
        self._hosts += more_hosts

    async def step(self) -> Pair:
        """Look at everything once, put right what is not, and say what to serve.

        Raises ApiError or UnreachableError; what was served before is then still good.
        """
        material = await self._agreed()
        await self._tell(material.bundle)
        return material.server

    async def _agreed(self) -> Material:
        """The Secret as it should be, written by us or by another replica."""
        while True:
            secret = await self._read()
            known = read_material(secret.data or {}) if secret is not None else None
            wanted = self._renewed(known)
            if known is not None and wanted is known:
                return known
            try:
                await self._write(secret, wanted)
            except ApiError as error:
                if error.status != 409:
                    raise
                continue
            return wanted

    def _renewed(self, known: Material | None) -> Material:
        """The same object when nothing is due; at most one thing is renewed at a time."""
        now = datetime.fromtimestamp(self._clock.now() // 10**9, UTC)
        if known is None or known.state.authorities[0].until <= now.timestamp():
            _LOG.info("certificates made")
            authority, entry = self._authority(now)
            server, signed = self._server(authority, entry, now)
            return Material([authority.certificate], authority.key, server, _State(signed, [entry]))
        newest = known.state.authorities[0]
        if _is_due(newest, AUTHORITY_LIFETIME, now):
            _LOG.info("authority renewed; it signs from the next step on")
            authority, entry = self._authority(now)
            # The one that signed what is served now stays known; those before it have nothing left.
            return Material(
                [authority.certificate, known.authorities[0]],
                authority.key,
                known.server,
                _State(known.state.server, [entry, newest]),
            )
        signed = known.state.server
        if _is_due(signed, SERVER_LIFETIME, now) or signed.issuer != newest.issuer:
            _LOG.info("server certificate renewed")
            authority = Pair(known.authorities[0], known.authority_key)
            server, signed = self._server(authority, newest, now)
            return Material(
                known.authorities, known.authority_key, server, _State(signed, known.state.authorities)
            )
        return known

    def _authority(self, now: datetime) -> tuple[Pair, _Entry]:
        until = int((now + AUTHORITY_LIFETIME).timestamp())
        name = f"ringwise-admission-{until}"
        return make_authority(name, now, AUTHORITY_LIFETIME), _Entry(until, name)

    def _server(self, authority: Pair, issuer: _Entry, now: datetime) -> tuple[Pair, _Entry]:
        made = make_server(authority, issuer.issuer, self._hosts, now, SERVER_LIFETIME)
        return made, _Entry(int((now + SERVER_LIFETIME).timestamp()), issuer.issuer)

    async def _read(self) -> _Secret | None:
        try:
            return await self._client.get(SECRETS, self._namespace, NAME, _Secret)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    async def _write(self, before: _Secret | None, material: Material) -> None:
        meta: dict[str, Any] = {
            "name": NAME,
            "namespace": self._namespace,
            "labels": {APP_NAME: "ringwise", APP_PART_OF: "ringwise"},
        }
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": meta,
            "type": "Opaque",
            "data": secret_data(material),
        }
        if before is None:
            await self._client.create(SECRETS, self._namespace, body)
        else:
            meta["resourceVersion"] = before.metadata.resource_version
            await self._client.replace(SECRETS, self._namespace, NAME, body)

    async def _tell(self, bundle: str) -> None:
        """Let the API server trust what we serve."""
        encoded = base64.b64encode(bundle.encode()).decode()
        found = await self._client.get(WEBHOOKS, None, NAME, _Hooks)
        stale = [hook.name for hook in found.webhooks or () if hook.client_config.ca_bundle != encoded]
        if stale:
            hooks = [{"name": name, "clientConfig": {"caBundle": encoded}} for name in stale]
            await self._client.patch(WEBHOOKS, None, NAME, {"webhooks": hooks}, content_type=STRATEGIC_PATCH)
            _LOG.info("authority told to the API server", webhooks=stale)


def _is_due(entry: _Entry, lifetime: timedelta, now: datetime) -> bool:
    return entry.until - now.timestamp() < lifetime.total_seconds() / _LEFT


def secret_data(material: Material) -> dict[str, str]:
    texts = {
        "ca.crt": material.bundle,
        "ca.key": material.authority_key,
        "tls.crt": material.server.certificate,
        "tls.key": material.server.key,
        "state.json": msgspec.json.encode(material.state).decode(),
    }
    return {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}


def read_material(data: dict[str, str]) -> Material | None:
    """What the Secret says; None when it says nothing usable, and everything is to be made anew."""
    try:
        texts = {name: base64.b64decode(text, validate=True).decode() for name, text in data.items()}
        state = msgspec.json.decode(texts["state.json"], type=_State)
        server = Pair(texts["tls.crt"], texts["tls.key"])
        authorities = _certificates(texts["ca.crt"])
        server_context(server)
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=texts["ca.crt"])
        secret_of(texts["ca.key"])
    except (KeyError, ValueError, msgspec.MsgspecError, ssl.SSLError, RecursionError) as why:
        _LOG.warning("the Secret of the certificates cannot be used", why=str(why))
        return None
    if not authorities or len(authorities) != len(state.authorities):
        return None
    return Material(authorities, texts["ca.key"], server, state)


_END = "-----END CERTIFICATE-----\n"


def _certificates(bundle: str) -> list[str]:
    return [part + _END for part in bundle.split(_END) if part.strip()]


def server_context(pair: Pair, context: ssl.SSLContext | None = None) -> ssl.SSLContext:
    """TLS with this certificate; connections of a context that was given use it from now on."""
    if context is None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_pair(context, pair.certificate, pair.key)
    return context
