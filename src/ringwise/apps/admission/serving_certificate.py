"""Maintains the webhook's certificates: creates and renews them, and shares them among replicas.

    Secret   ca.crt  authorities whose signatures may still be in use, the newest first
             ca.key  key of the newest authority
             tls.crt, tls.key   the server certificate of all replicas
             state.json   when each certificate expires, and which authority signed the server certificate

Replicas agree through the Secret: it is replaced with the resource version that was read, and after a
conflict it is read again. A new authority is first written into the webhook configuration and signs one step
later, so that the API server trusts the server certificate at every moment.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from ringwise.apps.admission.certificates import Pair, make_authority, make_server, parse_pair
from ringwise.apps.admission.objects import NAME, OUR_SCHEDULER
from ringwise.apps.install.steps import MUTATING_WEBHOOKS, SECRETS, WEBHOOKS
from ringwise.kubeclient.client import STRATEGIC_PATCH, ApiError, Client
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.config import load_pair
from ringwise.log import Logger
from ringwise.records import dataclass
from ringwise.wellknown import APP_NAME, APP_PART_OF, SCHEDULER_NAMES

_LOG = Logger()

AUTHORITY_LIFETIME = timedelta(days=3 * 365)
SERVER_LIFETIME = timedelta(days=90)
#: A certificate is renewed when less than 1/_LEFT of its lifetime remains: enough for a webhook that is
#: stopped for some weeks.
_LEFT = 3


class _Entry(msgspec.Struct):
    """One certificate: when it expires (Unix seconds), and the authority that signed it."""

    until: int
    issuer: str


class _State(msgspec.Struct):
    server: _Entry
    #: In the order of ca.crt, the newest first.
    authorities: list[_Entry]


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Secret(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    data: dict[str, str] | None = None


class _ClientConfig(msgspec.Struct, rename="camel"):
    ca_bundle: str = ""


class _Condition(msgspec.Struct):
    name: str = ""
    expression: str = ""


class _Hook(msgspec.Struct, rename="camel"):
    name: str = ""
    client_config: _ClientConfig = msgspec.field(default_factory=_ClientConfig)
    match_conditions: list[_Condition] | None = None


class _Hooks(msgspec.Struct):
    webhooks: list[_Hook] | None = None


@dataclass(slots=True)
class Material:
    """The content of the Secret."""

    authorities: list[str]
    authority_key: str
    server: Pair
    state: _State

    @property
    def bundle(self) -> str:
        return "".join(self.authorities)


class CertificateManager:
    def __init__(
        self,
        client: Client,
        namespace: str,
        *,
        clock: Clock,
        more_hosts: Iterable[str] = (),
        scheduler_names: Iterable[str] = SCHEDULER_NAMES,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._scheduler_names = tuple(scheduler_names)
        #: Webhooks whose objects of some scheduler names are not sent here; told once.
        self._unsent: dict[str, str] = {}
        self._clock = clock
        self._hosts = [f"{NAME}.{namespace}.svc", f"{NAME}.{namespace}.svc.cluster.local", NAME]
        self._hosts += more_hosts

    async def check(self) -> Pair:
        """Check the Secret and the webhook configuration, correct them, and return what to serve.

        Raises ApiError or UnreachableError; the certificate that was served before is then still valid.
        """
        material = await self._agreed()
        await self._publish(material.bundle)
        return material.server

    async def _agreed(self) -> Material:
        """The content of the Secret after renewal, written by this replica or by another one."""
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
        """The same object when nothing is due; at most one certificate is renewed at a time."""
        now = datetime.fromtimestamp(self._clock.now() // 10**9, UTC)
        if known is None or known.state.authorities[0].until <= now.timestamp():
            _LOG.info("certificates created")
            authority, entry = self._authority(now)
            server, signed = self._server(authority, entry, now)
            return Material([authority.certificate], authority.key, server, _State(signed, [entry]))
        newest = known.state.authorities[0]
        if _is_due(newest, AUTHORITY_LIFETIME, now):
            _LOG.info("authority renewed; it signs from the next check on")
            authority, entry = self._authority(now)
            # The authority that signed the current server certificate stays trusted; older ones do not.
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
        made = make_server(authority, self._hosts, now, SERVER_LIFETIME)
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

    async def _publish(self, bundle: str) -> None:
        """Write the authorities into the webhook configurations, so that the API server trusts the server."""
        encoded = base64.b64encode(bundle.encode()).decode()
        for resource in (WEBHOOKS, MUTATING_WEBHOOKS):
            try:
                found = await self._client.get(resource, None, NAME, _Hooks)
            except ApiError as error:
                if error.status != 404 or resource is WEBHOOKS:
                    raise
                # Left out by the administrator: nothing is filled in.
                continue
            for hook in found.webhooks or ():
                self._compare_names(hook)
            stale = [hook.name for hook in found.webhooks or () if hook.client_config.ca_bundle != encoded]
            if stale:
                hooks = [{"name": name, "clientConfig": {"caBundle": encoded}} for name in stale]
                await self._client.patch(
                    resource, None, NAME, {"webhooks": hooks}, content_type=STRATEGIC_PATCH
                )
                _LOG.info("authorities written to the webhook configuration", webhooks=stale)

    def _compare_names(self, hook: _Hook) -> None:
        """Tell which of the names that are served here the API server's conditions do not let through.

        A name is in such an expression as a quoted text, or it is not one of those that are sent.
        """
        asked = [one.expression for one in hook.match_conditions or () if one.name == OUR_SCHEDULER]
        unsent = [
            name
            for name in self._scheduler_names
            if any(f"'{name}'" not in one and f'"{name}"' not in one for one in asked)
        ]
        names = ", ".join(unsent)
        if names != self._unsent.get(hook.name, ""):
            self._unsent[hook.name] = names
            if names:
                _LOG.warning(
                    "the webhook configuration does not send objects of these schedulers here",
                    webhook=hook.name,
                    schedulers=names,
                    cure=f"add them to its matchCondition {OUR_SCHEDULER}, or with the chart to "
                    "scheduler.schedulerNames",
                )


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
    """The content of the Secret; None when it cannot be used and all certificates must be created again."""
    try:
        texts = {name: base64.b64decode(text, validate=True).decode() for name, text in data.items()}
        state = msgspec.json.decode(texts["state.json"], type=_State)
        server = Pair(texts["tls.crt"], texts["tls.key"])
        authorities = _certificates(texts["ca.crt"])
        server_context(server)
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=texts["ca.crt"])
        if not authorities or len(authorities) != len(state.authorities):
            raise ValueError(
                f"ca.crt has {len(authorities)} authorities, state.json {len(state.authorities)}"
            )
        parse_pair(Pair(authorities[0], texts["ca.key"]))
    except (KeyError, ValueError, msgspec.MsgspecError, ssl.SSLError, RecursionError) as why:
        _LOG.warning("the Secret of the certificates cannot be used", why=str(why))
        return None
    return Material(authorities, texts["ca.key"], server, state)


_END = "-----END CERTIFICATE-----\n"


def _certificates(bundle: str) -> list[str]:
    return [part + _END for part in bundle.split(_END) if part.strip()]


def server_context(pair: Pair, context: ssl.SSLContext | None = None) -> ssl.SSLContext:
    """A TLS context with this certificate. New connections of a given context use it from now on."""
    if context is None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_pair(context, pair.certificate, pair.key)
    return context
