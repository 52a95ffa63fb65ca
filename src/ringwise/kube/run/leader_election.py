"""Leader election on a Lease, with a fence of our own.

The fence opens when the server has written our name and closes by our own clock, counted from before
the request was sent. Another replica waits longer, counted from after it saw our last sign of life. So
whatever happens to requests in between, two replicas never bind at the same time:

    sent    written                     fence closes            lease ends for others
     |---------|------- renew deadline ------|------------------------|
     |<------------ 10 s ------------------->|                        |
               |<------------------ 15 s ---------------------------->|

A binding that was sent just before the fence closed ends, one way or the other, within the gap: its
time-out is shorter, and settings with a smaller gap are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
import structlog

from ringwise.kubeclient.client import ApiError, Client, UnreachableError
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.credentials import KubeConfigError
from ringwise.kubeclient.resources import LEASES
from ringwise.wellknown import SCHEDULER_LEASE, VOLCANO_SYSTEM

_LOG = structlog.get_logger("ringwise.kube")

#: Seconds between the fence and the end of the lease, at least: a binding under way ends in this time.
SMALLEST_GAP = 5.0


class LeaseSettingsError(Exception):
    """With these times two replicas could bind at once, or nobody could keep the lead."""


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    namespace: str = VOLCANO_SYSTEM
    name: str = SCHEDULER_LEASE
    #: Seconds. How long others wait for a sign of life, how long we go on without one, how often we give one.
    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if self.duration - self.renew_deadline < SMALLEST_GAP:
            raise LeaseSettingsError(
                f"the lease lasts {self.duration:g} s and the renew deadline is {self.renew_deadline:g} s: "
                f"the deadline must be {SMALLEST_GAP:g} s earlier at least, or a binding may still be under "
                "way when another replica takes over"
            )
        if not 0 < self.retry <= self.renew_deadline / 2:
            raise LeaseSettingsError(
                f"the retry period is {self.retry:g} s and the renew deadline {self.renew_deadline:g} s: "
                "at least two attempts must fit"
            )

    @property
    def timeout(self) -> float:
        """Seconds for one request: a second one fits before the deadline."""
        return self.renew_deadline / 2


class Fence:
    """Whether anything may be written now. Closed until somebody opens it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = float("-inf")

    @property
    def is_open(self) -> bool:
        return self._clock.monotonic() < self._until

    def open_until(self, moment: float) -> None:
        self._until = moment

    def open_for_good(self) -> None:
        """There is one replica only."""
        self._until = float("inf")

    def close(self) -> None:
        self._until = float("-inf")


class _Meta(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str
    namespace: str
    resource_version: str | None = None


class _Spec(msgspec.Struct, rename="camel", omit_defaults=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct, rename="camel"):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    api_version: str = LEASES.version
    kind: str = LEASES.kind


class LeaderElection:
    """`leading` is set while we lead. `run` goes on until it is cancelled."""

    def __init__(
        self,
        client: Client,
        fence: Fence,
        identity: str,
        *,
        clock: Clock,
        settings: LeaseSettings | None = None,
        changed: Callable[[bool], None] = lambda leads: None,
    ) -> None:
        self.identity = identity
        self.leading = asyncio.Event()
        self.lost = asyncio.Event()
        self.lost.set()
        self._client = client
        self._fence = fence
        self._clock = clock
        self._settings = settings or LeaseSettings()
        self._changed = changed
        #: The lease as we wrote it last, while it is ours.
        self._ours: _Lease | None = None
        #: The lease of somebody else as we saw it, and since when it has looked so.
        self._seen: tuple[object, float] | None = None

    async def run(self) -> None:
        try:
            while True:
                while not await self._attempt():
                    await self._clock.sleep(self._settings.retry)
                self._lead(True)
                await self._keep()
                self._lead(False)
        finally:
            self._lead(False)

    async def release(self) -> None:
        """Let another replica take over at once. The fence is closed first."""
        ours, self._ours = self._ours, None
        self._fence.close()
        self._lead(False)
        if ours is None:
            return
        try:
            try:
                await self._give_back(ours)
            except ApiError as error:
                if error.status != 409:
                    raise
                # A renewal was under way when we stopped: the lease is one version further.
                lease = await self._look()
                if lease is not None and lease.spec.holder_identity == self.identity:
                    await self._give_back(lease)
        except (ApiError, UnreachableError, KubeConfigError) as error:
            _LOG.info("the lease was not given back; it ends by itself", why=str(error))

    async def _give_back(self, lease: _Lease) -> None:
        lease.spec.holder_identity = ""
        lease.spec.lease_duration_seconds = 1
        await self._put(lease)

    def _lead(self, leads: bool) -> None:
        if leads == self.leading.is_set():
            return
        if leads:
            self.leading.set()
            self.lost.clear()
        else:
            self._fence.close()
            self.leading.clear()
            self.lost.set()
        _LOG.info("leading" if leads else "not leading any more", identity=self.identity)
        self._changed(leads)

    async def _keep(self) -> None:
        """Returns when the lease is lost: taken by another, or not renewed before the deadline."""
        while self._fence.is_open:
            await self._clock.sleep(self._settings.retry)
            if not await self._attempt() and self._ours is None and self._seen is not None:
                _LOG.warning("another replica holds the lease")
                return
        _LOG.warning("the lease could not be renewed in time")
        self._ours = None

    async def _attempt(self) -> bool:
        """Take or renew the lease; whether it is ours now."""
        sent = self._clock.monotonic()
        try:
            lease = self._ours or await self._look()
            if lease is None:
                return False
            written = await self._put(self._renewed(lease))
        except ApiError as error:
            if error.status in (404, 409):
                # Somebody wrote or deleted it meanwhile: look again the next time.
                self._ours = None
            else:
                _LOG.warning("lease not written", why=str(error))
            return False
        except (UnreachableError, KubeConfigError) as error:
            # It may have been written; the version we know is then too old, and we look again.
            self._ours = None
            _LOG.warning("lease not written", why=str(error))
            return False
        self._ours = written
        self._seen = None
        if self.leading.is_set() and not self._fence.is_open:
            # Too late: what was to be written since the deadline has been given up, and nobody would say it
            # again. The lead is lost, and everything begins anew.
            return False
        self._fence.open_until(sent + self._settings.renew_deadline)
        return True

    async def _look(self) -> _Lease | None:
        """The lease if it may be ours, None while somebody else has it."""
        settings = self._settings
        try:
            lease = await self._client.get(
                LEASES, settings.namespace, settings.name, _Lease, settings.timeout
            )
        except ApiError as error:
            if error.status != 404:
                raise
            return _Lease(_Meta(settings.name, settings.namespace))
        holder = lease.spec.holder_identity
        if not holder or holder == self.identity:
            self._seen = None
            return lease
        moment = self._clock.monotonic()
        sign = (holder, lease.spec.renew_time, lease.spec.lease_transitions)
        if self._seen is None or self._seen[0] != sign:
            self._seen = (sign, moment)
        # Only what we saw ourselves counts: clocks of other machines may be wrong.
        held_for = lease.spec.lease_duration_seconds or settings.duration
        return lease if moment - self._seen[1] >= held_for else None

    def _renewed(self, lease: _Lease) -> _Lease:
        now = micro_time(self._clock.now())
        spec = lease.spec
        if spec.holder_identity != self.identity:
            spec.lease_transitions = (
                0 if lease.metadata.resource_version is None else (spec.lease_transitions or 0) + 1
            )
            spec.acquire_time = now
            spec.holder_identity = self.identity
        spec.lease_duration_seconds = int(self._settings.duration)
        spec.renew_time = now
        return lease

    async def _put(self, lease: _Lease) -> _Lease:
        settings = self._settings
        body = msgspec.json.encode(lease)
        if lease.metadata.resource_version is None:
            path, method = LEASES.path(settings.namespace), "POST"
        else:
            path, method = LEASES.path(settings.namespace, settings.name), "PUT"
        answer = await self._client.request(method, path, body=body, timeout=settings.timeout)
        try:
            return msgspec.json.decode(answer, type=_Lease)
        except msgspec.MsgspecError as problem:
            raise UnreachableError(f"the lease cannot be read: {problem}", maybe_done=True) from None


def micro_time(now: int) -> str:
    """Kubernetes' MicroTime."""
    return datetime.fromtimestamp(now / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
