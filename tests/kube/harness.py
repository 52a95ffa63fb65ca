"""How tests with an event loop run: no task or thread may be left, and clocks need no real time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ringwise.apps.live import LiveCluster
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.config import direct
from ringwise.kubeclient.credentials import Credential
from ringwise.manifests.text.quantities import micro_time
from ringwise.scheduler.defragment.movable import DisruptionBudget
from tests.builders.values import CHIP
from tests.kube.fake_api_server import FakeApiServer, Object

PODS, NODES, CONFIG_MAPS = "/api/v1/pods", "/api/v1/nodes", "/api/v1/configmaps"
EVENTS, LEASES = "/api/v1/events", "/apis/coordination.k8s.io/v1/leases"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
JOBS = "/apis/batch.volcano.sh/v1alpha1/jobs"


class InstantClock:
    """Sleeping returns at once and advances the time."""

    def __init__(self, start: float = 1000.0) -> None:
        self.moment = start
        self.slept: list[float] = []

    def now(self) -> int:
        return 1_760_000_000_000_000_000 + int(self.moment * 1e9)

    def monotonic(self) -> float:
        return self.moment

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.moment += seconds
        await asyncio.sleep(0)


class FrozenClock(InstantClock):
    """Sleeping returns soon; the time advances only where the test sets it."""

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0.001)


class HeldCredentials:
    """Credentials that the test can hold back, so that every request waits for them."""

    def __init__(self, token: str = "") -> None:
        self.token = token
        self.available = asyncio.Event()
        self.available.set()
        #: Requests that wait now, and how often the server rejected the credential.
        self.waiting = 0
        self.rejections = 0

    async def current(self) -> Credential:
        self.waiting += 1
        try:
            await self.available.wait()
        finally:
            self.waiting -= 1
        return Credential(self.token)

    def refused(self) -> None:
        self.rejections += 1


class ManualClock(InstantClock):
    """Time advances only by `pass_time`; sleeping waits for it."""

    def __init__(self, start: float = 1000.0) -> None:
        super().__init__(start)
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (self.moment + seconds, woken)
        self._sleepers.append(entry)
        try:
            await woken
        finally:
            if entry in self._sleepers:
                self._sleepers.remove(entry)

    async def pass_time(self, seconds: float) -> None:
        self.moment += seconds
        for due, woken in list(self._sleepers):
            if due <= self.moment and not woken.done():
                woken.set_result(None)
        await asyncio.sleep(0)

    @property
    def sleeping(self) -> int:
        """How many sleep."""
        return len(self._sleepers)


async def until(condition: Callable[[], Any]) -> None:
    """Let other tasks run until the condition holds; the timeout of the test ends it otherwise."""
    while not condition():
        await asyncio.sleep(0.001)


@asynccontextmanager
async def server() -> AsyncIterator[tuple[FakeApiServer, Client]]:
    async with FakeApiServer() as api, Client(direct(api.url)) as client:
        yield api, client


# -- objects


def node(name: str, chips: int = 8) -> Object:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", CHIP: str(chips)}
    return {
        "metadata": {"name": name, "labels": {"accelerator": "huawei-Ascend910"}},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(
    name: str,
    chips: int = 1,
    *,
    namespace: str = "default",
    group: str = "",
    on: str = "",
    held: str = "",
    scheduler: str = "volcano",
) -> Object:
    annotations = {}
    if group:
        annotations["scheduling.k8s.io/group-name"] = group
    if held:
        annotations[CHIP] = held
    limits = {CHIP: str(chips)} if chips else {}
    made: Object = {
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "main", "image": "busybox", "resources": {"limits": limits}}],
        },
        "status": {"phase": "Running" if on else "Pending"},
    }
    if on:
        made["spec"]["nodeName"] = on
    return made


def lease(
    holder: str = "ringwise-scheduler-0", *, namespace: str = "volcano-system", renewed: int | None = None
) -> Object:
    """That of the scheduler; without a time, renewed just now."""
    at = micro_time(time.time_ns() if renewed is None else renewed)
    meta = {"name": "ringwise-scheduler", "namespace": namespace}
    return {"metadata": meta, "spec": {"holderIdentity": holder, "renewTime": at}}


def group(name: str, members: int, *, namespace: str = "default", phase: str = "Inqueue") -> Object:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minMember": members, "queue": "default"},
        "status": {"phase": phase},
    }


def cluster_was_read(monkeypatch: pytest.MonkeyPatch, live: LiveCluster) -> None:
    """Commands on a cluster find these objects, without a server."""
    monkeypatch.setattr("ringwise.cli.query.queries.find_cluster", lambda options: direct("http://stand-in"))
    monkeypatch.setattr("ringwise.apps.sources.cluster.read_live", lambda access, progress: live)

    async def no_budgets(client: Client) -> list[DisruptionBudget]:
        return []

    monkeypatch.setattr("ringwise.apps.sources.cluster.read_budgets", no_budgets)
