"""Credentials of requests: a fixed token, a token file that is rotated, or an exec plugin."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ringwise.durations import SECOND
from ringwise.kubeclient.clock import Clock
from ringwise.manifests.text.errors import one_line, shown
from ringwise.manifests.text.quantities import NotReadableError, nanoseconds
from ringwise.manifests.text.readable import UNREADABLE
from ringwise.records import dataclass
from ringwise.wellknown import CREDENTIAL_API, CREDENTIAL_API_BETA

#: Seconds after which a token file is read again. Kubelets rotate a token minutes before it expires.
TOKEN_FILE_AGE = 10.0
#: Nanoseconds before its expiry at which a credential is renewed.
EXPIRY_MARGIN = 10 * SECOND
#: Seconds for an exec plugin; one that prompts for input would wait for ever.
EXEC_TIMEOUT = 60.0

_EXEC_VERSIONS = (CREDENTIAL_API, CREDENTIAL_API_BETA)


class KubeConfigError(Exception):
    """Access to the cluster is not configured or cannot be used.

    The message is one line and says what to do.
    """


@dataclass(frozen=True, slots=True)
class Credential:
    token: str = ""
    #: PEM texts, where an exec plugin provides a client certificate.
    certificate: str = ""
    key: str = ""


class Credentials(Protocol):
    async def current(self) -> Credential: ...

    def refused(self) -> None:
        """The server rejected the credential: get a new one before the next request."""


class FixedCredential:
    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        return self._credential

    def refused(self) -> None:
        """There is no other credential."""


class TokenFile:
    """A token in a file that is rotated from time to time."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._read_at: float | None = None
        self._credential = Credential()

    async def current(self) -> Credential:
        moment = self._clock.monotonic()
        if self._read_at is None or moment - self._read_at >= TOKEN_FILE_AGE:
            try:
                token = self._path.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeError) as problem:
                if not self._credential.token:
                    raise KubeConfigError(f"token file {self._path}: {problem}") from None
                # The file is being replaced: the old token stays valid for a while.
                token = self._credential.token
            self._credential = Credential(token)
            self._read_at = moment
        return self._credential

    def refused(self) -> None:
        self._read_at = None


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    status: _ExecStatus | None = None


class ExecPlugin:
    """A program that prints an ExecCredential; run again when the credential expires or is rejected.

    It runs in a task that all requests wait for, each up to its own timeout. A request that times out does
    not end the program: a slow one would never finish.
    """

    def __init__(
        self,
        command: str,
        arguments: tuple[str, ...],
        environment: Mapping[str, str],
        clock: Clock,
        *,
        api_version: str = _EXEC_VERSIONS[0],
        cluster: Mapping[str, Any] | None = None,
        hint: str = "",
    ) -> None:
        if api_version not in _EXEC_VERSIONS:
            raise KubeConfigError(
                f"exec plugin {command}: apiVersion must be one of {', '.join(_EXEC_VERSIONS)}, "
                f"got {shown(api_version)}"
            )
        self._command = command
        self._arguments = arguments
        self._clock = clock
        self._hint = hint
        info = {
            "apiVersion": api_version,
            "kind": "ExecCredential",
            "spec": {"interactive": False, **({"cluster": dict(cluster)} if cluster else {})},
        }
        self._environment = {
            **os.environ,
            **environment,
            "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
        }
        self._credential: Credential | None = None
        self._expires: int | None = None
        self._running: asyncio.Task[Credential] | None = None

    async def current(self) -> Credential:
        expired = self._expires is not None and self._expires - EXPIRY_MARGIN <= self._clock.now()
        if self._credential is not None and not expired:
            return self._credential
        if self._running is None:
            self._running = asyncio.create_task(self._fetch(), name="exec plugin")
            self._running.add_done_callback(self._ended)
        return await asyncio.shield(self._running)

    def refused(self) -> None:
        self._credential = None

    def _ended(self, task: asyncio.Task[Credential]) -> None:
        self._running = None
        if not task.cancelled():
            # An error counts as seen even if no request waits for it.
            task.exception()

    async def _fetch(self) -> Credential:
        printed = await self._run()
        try:
            answer = msgspec.json.decode(printed, type=_ExecCredential)
        except UNREADABLE as problem:
            raise self._error(f"did not print an ExecCredential: {problem}") from None
        status = answer.status
        if status is None or not (status.token or status.client_certificate_data):
            raise self._error("printed neither a token nor a certificate")
        expires: int | None = None
        if status.expiration_timestamp:
            try:
                expires = nanoseconds(status.expiration_timestamp)
            except NotReadableError as problem:
                raise self._error(f"expirationTimestamp {problem}") from None
        credential = self._credential = Credential(
            status.token or "", status.client_certificate_data or "", status.client_key_data or ""
        )
        self._expires = expires
        return credential

    async def _run(self) -> bytes:
        program = shutil.which(self._command, path=self._environment.get("PATH"))
        if program is None:
            hint = f"; {one_line(self._hint)}" if self._hint else ""
            raise self._error(f"is not on the PATH{hint}")
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *self._arguments,
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except (OSError, ValueError) as problem:
            raise self._error(f"cannot run: {problem}") from None
        try:
            printed, complaint = await asyncio.wait_for(process.communicate(), EXEC_TIMEOUT)
        except asyncio.CancelledError:
            process.kill()
            raise
        except TimeoutError:
            process.kill()
            await process.wait()
            raise self._error(f"did not answer within {EXEC_TIMEOUT:.0f}s") from None
        if process.returncode:
            lines = complaint.decode(errors="replace").strip().splitlines()
            raise self._error(f"exited with {process.returncode}: {lines[-1] if lines else 'no message'}")
        return printed

    def _error(self, why: str) -> KubeConfigError:
        return KubeConfigError(one_line(f"exec plugin {self._command} {why}"))
