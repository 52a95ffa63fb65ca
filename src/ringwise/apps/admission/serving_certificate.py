"""The webhook's own certificate, which it keeps in a Secret.

    Secret   ca.crt  authorities that the API server trusts, the newest first
             ca.key  key of the newest authority
             tls.crt, tls.key   server certificate of all replicas

The chart creates the Secret empty. Replicas agree through it: it is changed only if it is still as it was
read. The authorities are written into the webhook configurations before a certificate that they signed is
served, and a new authority signs only when every replica and API server has had time to see it. So the API
server trusts the server certificate at every moment.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from cryptography import x509

from ringwise.apps.admission.certificates import Pair, created_at, make_authority, make_server, parse_pair
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.config import load_pair
from ringwise.kubeclient.resources import MUTATING_WEBHOOKS, SECRETS, WEBHOOKS
from ringwise.log import Logger
from ringwise.records import dataclass
from ringwise.wellknown import SCHEDULER_NAMES

_LOG = Logger()

#: The Secret, the Service and the webhook configurations.
NAME = "ringwise-admission"
#: The matchCondition that leaves out objects of other schedulers.
OUR_SCHEDULER = "our-scheduler"
AUTHORITY_LIFETIME = timedelta(days=3 * 365)
SERVER_LIFETIME = timedelta(days=90)
#: A certificate is renewed when less than 1/_LEFT of its lifetime remains: enough for a webhook that is
#: stopped for some weeks.
_LEFT = 3
#: Age at which a new authority begins to sign. Certificates of that moment are valid from its creation on.
SIGNS_AFTER = timedelta(hours=1)


class _Secret(msgspec.Struct):
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


class SecretNotFoundError(Exception):
    """The Secret does not exist. The webhook may change it, but not create one."""


@dataclass(frozen=True, slots=True)
class Material:
    """The content of the Secret."""

    #: The newest first, as PEM.
    authorities: tuple[str, ...]
    authority_key: str
    server: Pair

    def renewed(self, hosts: Iterable[str], now: datetime) -> Material | None:
        """Return it with one certificate renewed; None if nothing is due."""
        newest, serving = _parsed(self.authorities[0]), _parsed(self.server.certificate)
        if newest.not_valid_after_utc <= now:
            return created(hosts, now)
        signs = len(self.authorities) == 1 or now - created_at(newest) >= SIGNS_AFTER
        if signs and (_is_due(serving, now) or serving.issuer != newest.subject):
            _LOG.info("server certificate renewed")
            authority = Pair(self.authorities[0], self.authority_key)
            return replace(self, server=make_server(authority, hosts, now, SERVER_LIFETIME))
        if _is_due(newest, now):
            _LOG.info("authority renewed", signs_after=str(SIGNS_AFTER))
            authority = _new_authority(now)
            # The authority that signed the current server certificate stays trusted; older ones do not.
            both = (authority.certificate, self.authorities[0])
            return replace(self, authorities=both, authority_key=authority.key)
        return None


def created(hosts: Iterable[str], now: datetime) -> Material:
    _LOG.info("certificates created")
    authority = _new_authority(now)
    server = make_server(authority, hosts, now, SERVER_LIFETIME)
    return Material((authority.certificate,), authority.key, server)


def _new_authority(now: datetime) -> Pair:
    return make_authority(f"{NAME}-{int((now + AUTHORITY_LIFETIME).timestamp())}", now, AUTHORITY_LIFETIME)


def _parsed(certificate: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(certificate.encode())


def _is_due(certificate: x509.Certificate, now: datetime) -> bool:
    lifetime = certificate.not_valid_after_utc - created_at(certificate)
    return certificate.not_valid_after_utc - now < lifetime / _LEFT


class CertificateManager:
    """The webhook's own certificate, in a Secret that all replicas share."""

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
        #: Webhooks to which objects of some scheduler names are not sent; each is logged once.
        self._unsent: dict[str, str] = {}
        self._clock = clock
        self._hosts = [f"{NAME}.{namespace}.svc", f"{NAME}.{namespace}.svc.cluster.local", NAME]
        self._hosts += more_hosts

    async def check(self) -> Pair:
        """Renew what is due in the Secret, and correct the webhook configurations.

        Raises an error of API_ERRORS, or SecretNotFoundError.
        """
        now = datetime.fromtimestamp(self._clock.now() // 10**9, UTC)
        material: Material | None = None

        def renew(secret: _Secret | None) -> dict[str, Any] | None:
            nonlocal material
            if secret is None:
                name = f"{self._namespace}/{NAME}"
                raise SecretNotFoundError(f"Secret {name} not found; the chart creates it: apply it again")
            current = read_material(secret.data or {})
            changed = created(self._hosts, now) if current is None else current.renewed(self._hosts, now)
            material = changed or current
            return None if changed is None else {"data": secret_data(changed)}

        await self._client.update(SECRETS, self._namespace, NAME, _Secret, renew)
        assert material is not None
        await self._publish("".join(material.authorities))
        return material.server

    async def _publish(self, bundle: str) -> None:
        """Write the authorities into the webhook configurations, so that the API server trusts the server."""
        encoded = base64.b64encode(bundle.encode()).decode()
        for resource in (WEBHOOKS, MUTATING_WEBHOOKS):
            # The administrator may leave out the mutating one: then no field is filled in.
            read = self._client.get if resource is WEBHOOKS else self._client.find
            present = await read(resource, None, NAME, _Hooks) or _Hooks()
            for hook in present.webhooks or ():
                self._compare_names(hook)
            stale = [hook.name for hook in present.webhooks or () if hook.client_config.ca_bundle != encoded]
            if stale:
                # All of them: those that are left out would lose it.
                names = [hook.name for hook in present.webhooks or ()]
                hooks = [{"name": name, "clientConfig": {"caBundle": encoded}} for name in names]
                await self._client.apply(resource, None, NAME, {"webhooks": hooks})
                _LOG.info("authorities written to the webhook configuration", webhooks=stale)

    def _compare_names(self, hook: _Hook) -> None:
        """Log which of the names that are served here the API server's conditions do not let through.

        A name is in such an expression as a quoted text, or it is not one of those that are sent.
        """
        expressions = [one.expression for one in hook.match_conditions or () if one.name == OUR_SCHEDULER]
        unsent = [
            name
            for name in self._scheduler_names
            if any(f"'{name}'" not in one and f'"{name}"' not in one for one in expressions)
        ]
        names = ", ".join(unsent)
        if names != self._unsent.get(hook.name, ""):
            self._unsent[hook.name] = names
            if names:
                _LOG.warning(
                    "the webhook configuration does not match objects of these schedulers",
                    webhook=hook.name,
                    schedulers=names,
                    fix=f"add them to its matchCondition {OUR_SCHEDULER}, or with the chart to "
                    "scheduler.schedulerNames",
                )


def secret_data(material: Material) -> dict[str, str]:
    texts = {
        "ca.crt": "".join(material.authorities),
        "ca.key": material.authority_key,
        "tls.crt": material.server.certificate,
        "tls.key": material.server.key,
    }
    return {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}


def read_material(data: dict[str, str]) -> Material | None:
    """Return the content of the Secret; None if it is empty, or damaged so that all must be created again."""
    if not data:
        return None
    try:
        texts = {name: base64.b64decode(text, validate=True).decode() for name, text in data.items()}
        server = Pair(texts["tls.crt"], texts["tls.key"])
        authorities = tuple(_certificates(texts["ca.crt"]))
        for authority in authorities:
            _parsed(authority)
        parse_pair(server)
        parse_pair(Pair(authorities[0], texts["ca.key"]))
    except (KeyError, IndexError, ValueError) as error:
        _LOG.warning("the Secret of the certificates cannot be used", why=str(error))
        return None
    return Material(authorities, texts["ca.key"], server)


_END = "-----END CERTIFICATE-----\n"


def _certificates(bundle: str) -> list[str]:
    return [part + _END for part in bundle.split(_END) if part.strip()]


def server_context(pair: Pair, context: ssl.SSLContext | None = None) -> ssl.SSLContext:
    """Return a TLS context with this certificate. New connections of a given context use it from now on."""
    if context is None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_pair(context, pair.certificate, pair.key)
    return context
