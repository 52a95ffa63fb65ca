"""Leader election on a Lease, with a fence.

The fence opens when the server has stored the renewed lease, and closes by this replica's own clock, counted
from before the request was sent. Another replica waits longer, counted from when it saw the last renewal. So
two replicas never bind at the same time, whatever happens to requests in between:

    sent    written                     fence closes            lease ends for others
     |---------|------- renew deadline ------|------------------------|
     |<------------ 10 s ------------------->|                        |
               |<------------------ 15 s ---------------------------->|

A write that was sent just before the fence closed ends within the gap: its timeout is shorter, and settings
with a smaller gap are rejected.

The lease is renewed only while `healthy` holds: a leader whose core hangs gives it up. It closes the fence,
waits for the gap to pass and releases the lease, so that another replica takes over without delay.

A lease that a user deletes or edits ends no term early: a replica that saw another leader waits as long as
that leader may write. Only a release by the leader shortens it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import field

import msgspec

from ringwise.kube.write.fence import MIN_FENCE_GAP, Fence
from ringwise.kubeclient.client import API_ERRORS, ApiError, Client, IgnoredStatus, UnreachableError
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.credentials import KubeConfigError
from ringwise.kubeclient.resources import LEASES
from ringwise.log import Logger
from ringwise.manifests.text.quantities import micro_time
from ringwise.manifests.text.readable import UNREADABLE
from ringwise.records import dataclass
from ringwise.topology.numbers import INT32
from ringwise.wellknown import SCHEDULER_LEASE, VOLCANO_SYSTEM

_LOG = Logger()

#: The duration in seconds of a lease that its holder has released.
_RELEASED = 1


class LeaseSettingsError(Exception):
    """With these times two replicas could bind at once, or no replica could keep the lease."""


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    namespace: str = VOLCANO_SYSTEM
    name: str = SCHEDULER_LEASE
    #: Seconds: how long other replicas wait after a renewal, how long the leader writes without one, and the
    #: interval of renewals and attempts.
    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if self.duration - self.renew_deadline < MIN_FENCE_GAP:
            raise LeaseSettingsError(
                f"the lease lasts {self.duration:g}s and the renew deadline is {self.renew_deadline:g}s: "
                f"the deadline must be at least {MIN_FENCE_GAP:g}s earlier, or a binding may still be in "
                "progress when another replica takes over"
            )
        if not 0 < self.retry <= self.renew_deadline / 2:
            raise LeaseSettingsError(
                f"the retry period is {self.retry:g}s and the renew deadline {self.renew_deadline:g}s: "
                "at least two attempts must fit"
            )

    @property
    def timeout(self) -> float:
        """Seconds for one request, so that two fit before the deadline."""
        return self.renew_deadline / 2


class _LeaseMeta(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str
    namespace: str
    resource_version: str | None = None


class _LeaseSpec(msgspec.Struct, rename="camel", omit_defaults=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct, rename="camel"):
    metadata: _LeaseMeta
    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)
    api_version: str = LEASES.version
    kind: str = LEASES.kind


@dataclass(frozen=True, slots=True)
class _OtherLeader:
    """The last renewal of another replica, and until when that replica may write, by the clock here."""

    renewal: tuple[object, ...]
    until: float


@dataclass(slots=True, eq=False)
class LeaderElection:
    """`leading` is set while this replica leads, `lost` while it does not.

    `run` runs until it is canceled.
    """

    client: Client
    fence: Fence
    identity: str
    clock: Clock
    settings: LeaseSettings = field(default_factory=LeaseSettings)
    on_change: Callable[[bool], None] = lambda leads: None
    healthy: Callable[[], bool] = lambda: True
    leading: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    lost: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    #: Set after the first attempt, whether this replica leads or not.
    attempted: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    #: When this replica became the leader last, by the monotonic clock.
    elected_at: float = field(init=False, default=float("-inf"))
    #: The lease as this replica wrote it last, while it holds it.
    _ours: _Lease | None = field(init=False, default=None)
    _other: _OtherLeader | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.lost.set()

    @property
    def leader(self) -> str:
        """The identity of the replica that leads, as far as it is known here; empty: none does."""
        if self.leading.is_set():
            return self.identity
        return str(self._other.renewal[0] or "") if self._other is not None else ""

    async def run(self) -> None:
        try:
            while True:
                while not (self.healthy() and await self._attempt()):
                    self.attempted.set()
                    await self.clock.sleep(self.settings.retry)
                self._set_leading(True)
                self.attempted.set()
                await self._renew_until_lost()
                self._set_leading(False)
                if self._ours is not None and not self.healthy():
                    # Writes that were sent before the fence closed end first.
                    await self.clock.sleep(MIN_FENCE_GAP)
                    await self.release()
        finally:
            self.attempted.set()
            self._set_leading(False)

    async def release(self) -> None:
        """Give up the lease, so that another replica can take over at once. The fence is closed first."""
        ours, self._ours = self._ours, None
        self.fence.close()
        self._set_leading(False)
        if ours is None:
            return
        try:
            with IgnoredStatus(409):
                await self._put_released(ours)
                return
            # A renewal was under way when the election stopped: the lease has a newer version.
            lease = await self._available_lease()
            if lease is not None and lease.spec.holder_identity == self.identity:
                await self._put_released(lease)
        except API_ERRORS as error:
            _LOG.info("the lease was not released; it expires", why=str(error))

    async def _put_released(self, lease: _Lease) -> None:
        lease.spec.holder_identity = ""
        lease.spec.lease_duration_seconds = _RELEASED
        await self._put(lease)

    def _set_leading(self, leads: bool) -> None:
        if leads == self.leading.is_set():
            return
        if leads:
            self.elected_at = self.clock.monotonic()
            self.leading.set()
            self.lost.clear()
        else:
            self.fence.close()
            self.leading.clear()
            self.lost.set()
        _LOG.info("became the leader" if leads else "no longer the leader", identity=self.identity)
        self.on_change(leads)

    async def _renew_until_lost(self) -> None:
        """Returns when the lease is lost: taken by another replica, or not renewed before the deadline.

        Also when it is to be given up, because this replica is not healthy.
        """
        while self.fence.is_open:
            await self.clock.sleep(self.settings.retry)
            if not self.healthy():
                _LOG.error("the core makes no progress; the lease is released")
                return
            if not await self._attempt() and self._ours is None and self._other is not None:
                _LOG.warning("another replica holds the lease")
                return
        _LOG.warning("the lease could not be renewed in time")
        self._ours = None

    async def _attempt(self) -> bool:
        """Try to take or renew the lease; whether this replica holds it now."""
        sent = self.clock.monotonic()
        try:
            lease = self._ours or await self._available_lease()
            if lease is None:
                return False
            written = await self._put(self._renewed(lease))
        except ApiError as error:
            if error.status in (404, 409):
                # It was changed or deleted meanwhile: read it again in the next attempt.
                self._ours = None
            else:
                _LOG.warning("lease not written", why=str(error))
            return False
        except (UnreachableError, KubeConfigError) as error:
            # It may have been written, and then the known version is too old: read it again.
            self._ours = None
            _LOG.warning("lease not written", why=str(error))
            return False
        self._ours = written
        self._other = None
        if self.leading.is_set() and not self.fence.is_open:
            # Too late: writes since the deadline were given up and would not be repeated. The term ends, and
            # the state is built again.
            return False
        self.fence.open_until(sent + self.settings.renew_deadline)
        return True

    async def _available_lease(self) -> _Lease | None:
        """The lease if this replica may take or renew it; None while another replica holds it."""
        settings = self.settings
        where = (settings.namespace, settings.name)
        # A renewal that waits for the rate limit could be too late.
        existing = await self.client.find(LEASES, *where, _Lease, settings.timeout, rate_limited=False)
        lease = existing or _Lease(_LeaseMeta(settings.name, settings.namespace))
        spec, moment = lease.spec, self.clock.monotonic()
        if spec.holder_identity and spec.holder_identity != self.identity:
            renewal = (spec.holder_identity, spec.renew_time, spec.lease_transitions)
            # Counted from when it was seen here: the clocks of other machines may be wrong. Not less than the
            # duration set here: the leader does not know of a shorter one that a user wrote into the lease.
            held_for = max(spec.lease_duration_seconds or 0, settings.duration)
            if self._other is None or self._other.renewal != renewal:
                self._other = _OtherLeader(renewal, moment + held_for)
        elif spec.holder_identity == "" and spec.lease_duration_seconds == _RELEASED:
            self._other = None
        # A leader whose lease was deleted or edited does not know it yet, and may write until its term
        # would have ended.
        return lease if self._other is None or moment >= self._other.until else None

    def _renewed(self, lease: _Lease) -> _Lease:
        now = micro_time(self.clock.now())
        spec = lease.spec
        if spec.holder_identity != self.identity:
            is_new = lease.metadata.resource_version is None
            # The API has 32 bits for it; a user may have written any number.
            spec.lease_transitions = 0 if is_new else ((spec.lease_transitions or 0) + 1) % INT32
            spec.acquire_time = now
            spec.holder_identity = self.identity
        spec.lease_duration_seconds = int(self.settings.duration)
        spec.renew_time = now
        return lease

    async def _put(self, lease: _Lease) -> _Lease:
        settings = self.settings
        body = msgspec.json.encode(lease)
        if lease.metadata.resource_version is None:
            path, method = LEASES.path(settings.namespace), "POST"
        else:
            path, method = LEASES.path(settings.namespace, settings.name), "PUT"
        answer = await self.client.request(
            method, path, body=body, timeout=settings.timeout, rate_limited=False
        )
        try:
            return msgspec.json.decode(answer, type=_Lease)
        except UNREADABLE as problem:
            raise UnreachableError(f"the lease cannot be decoded: {problem}", maybe_done=True) from None
