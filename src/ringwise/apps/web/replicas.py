"""The dashboards of the other replicas: the one that leads passes long questions on to them."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout, Fingerprint

from ringwise.log import Logger
from ringwise.metrics.endpoints import parse_address
from ringwise.web.application import FORWARDED, Asker
from ringwise.web.guard import RequestRefusedError

_LOG = Logger()

#: Seconds for a connection, and without a byte of the answer: a copy may need 120 of processor time.
CONNECT_TIMEOUT = 1.0
ANSWER_TIMEOUT = 180.0
#: Refusals of a replica that says nothing about the question: it leads itself, it has not read everything,
#: or it has not seen yet what the leader knows.
_NOT_ITS_QUESTION = frozenset({"leading", "not-leading", "not-found"})


class _Error(msgspec.Struct):
    code: str
    message: str


class _Refusal(msgspec.Struct):
    error: _Error


class Replicas:
    """They are found by one name that has the addresses of all of them, this one's among them.

    A replica has the same certificate as this one: whoever shows another gets no token.
    """

    def __init__(self, address: str, certificate: Path | None) -> None:
        """Raises AddressError."""
        self._host, self._port = parse_address(address)
        self._certificate = certificate
        #: The one that answered last.
        self._standby = ""

    async def ask(self, asker: Asker, method: str, path: str, body: bytes = b"") -> Mapping[str, Any] | None:
        """The answer of a standby replica; None where there is none. Raises RequestRefusedError."""
        try:
            trusted = self._trusted()
            addresses = await self._addresses()
        except (OSError, ValueError) as problem:
            _LOG.warning("no other replicas found", name=self._host, why=str(problem))
            addresses, trusted = [], True
        timeout = ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=ANSWER_TIMEOUT)
        headers = {FORWARDED: "1", "Content-Type": "application/yaml"}
        if asker.authorization:
            headers["Authorization"] = asker.authorization
        scheme = "http" if self._certificate is None else "https"
        async with ClientSession(timeout=timeout) as session:
            for address in addresses:
                url = f"{scheme}://{address}{path}"
                try:
                    async with session.request(
                        method, url, data=body or None, headers=headers, ssl=trusted, allow_redirects=False
                    ) as response:
                        sent = await response.read()
                    if response.status == 200:
                        answer = msgspec.json.decode(sent, type=dict[str, Any])
                        self._note_standby(address)
                        return answer
                    error = msgspec.json.decode(sent, type=_Refusal).error
                except (ClientError, OSError, TimeoutError, msgspec.MsgspecError):
                    continue
                if error.code not in _NOT_ITS_QUESTION:
                    self._note_standby(address)
                    raise RequestRefusedError(response.status, error.code, error.message)
        self._note_standby("")
        return None

    def _trusted(self) -> Fingerprint | bool:
        if self._certificate is None:
            return True
        first = self._certificate.read_text().partition(ssl.PEM_FOOTER)[0] + ssl.PEM_FOOTER
        return Fingerprint(hashlib.sha256(ssl.PEM_cert_to_DER_cert(first.lstrip())).digest())

    async def _addresses(self) -> list[str]:
        """The one that answered last comes first."""
        infos = await asyncio.get_running_loop().getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        hosts = [(family, str(address[0])) for family, _, _, _, address in infos]
        named = {
            f"[{host}]:{self._port}" if family == socket.AF_INET6 else f"{host}:{self._port}"
            for family, host in hosts
        }
        return sorted(named, key=lambda address: (address != self._standby, address))

    def _note_standby(self, address: str) -> None:
        if address != self._standby:
            self._standby = address
            if address:
                _LOG.info("a standby replica answers questions", address=address)
            else:
                _LOG.info("no standby replica answers questions: a copy of this process does")
