"""Those who bind in a benchmark on a real API server, each in a process of its own.

the comparison                 a binder
    ──── round n ────────────────> makes its pods, reads what it has to read
    <─── ready, its programs ─────
    ──── go ─────────────────────> binds
    <─── began, done ─────────────
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec

from ringwise.apps.bench import scenario as objects
from ringwise.apps.bench.scenario import NAMESPACE, Scenario
from ringwise.apps.control_plane import Process, find_program
from ringwise.apps.extensions import new_scheduler
from ringwise.kube.observer import NullObserver
from ringwise.kube.run import idle_event_loop
from ringwise.kube.run.core_thread import SchedulerAdapter
from ringwise.kube.run.leader_term import RunnerSettings
from ringwise.kube.run.runner import Runner
from ringwise.kube.write.binder import MAX_IN_FLIGHT, post_binding
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.config import find_access
from ringwise.kubeclient.resources import NODES, POD_GROUPS, PODS, Resource
from ringwise.messages.commands import Bind
from ringwise.records import dataclass
from ringwise.scheduler.defaults import default_configuration
from ringwise.wellknown import DEFAULT_SCHEDULER

LOOP, SCHEDULER, KUBE_SCHEDULER = "bare Bindings", "scheduler", "kube-scheduler"
#: `schedulerName` of the pods each of them binds.
_NAMES = {LOOP: "none", SCHEDULER: "ringwise", KUBE_SCHEDULER: DEFAULT_SCHEDULER}

BEGAN, DONE = "began", "done"


@dataclass(frozen=True, slots=True)
class Ready:
    """The round is prepared. These programs run for this binder only."""

    programs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    why: str


@dataclass(frozen=True, slots=True)
class BinderTask:
    who: str
    scenario: Scenario
    kubeconfig: str
    folder: Path


def work(task: BinderTask, pipe: Connection) -> None:
    """Run rounds until None is received."""
    binder = _Binder(task, pipe)
    try:
        asyncio.run(binder.make_nodes())
        while (number := pipe.recv()) is not None:
            idle_event_loop.run(binder.round(number))
    except EOFError:
        return
    except Exception as error:
        pipe.send(Failed(f"{task.who}: {type(error).__name__}: {error}"))


class _Binder:
    def __init__(self, task: BinderTask, pipe: Connection) -> None:
        self._task = task
        self._scenario = task.scenario
        self._pipe = pipe

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Client]:
        async with Client(find_access(self._task.kubeconfig)) as client:
            yield client

    async def make_nodes(self) -> None:
        async with self._client() as client:
            await self._make(client, NODES, None, [objects.node(n) for n in range(self._scenario.nodes)])

    async def round(self, number: int) -> None:
        scenario, team = self._scenario, f"round-{number}"
        async with self._client() as client:
            if scenario.gang:
                await client.create(POD_GROUPS, NAMESPACE, objects.group(team, scenario.pods))
            name = _NAMES[self._task.who]
            pods = [objects.pod(scenario, team, place, name) for place in range(scenario.pods)]
            made = await self._make(client, PODS, NAMESPACE, pods)
        if self._task.who == LOOP:
            await self._bare_loop([objects.bind_of(scenario, team, *each) for each in enumerate(made)])
        elif self._task.who == SCHEDULER:
            await self._scheduler()
        else:
            await self._kube_scheduler()

    async def _make(
        self, client: Client, resource: Resource, namespace: str | None, bodies: list[dict[str, Any]]
    ) -> list[bytes]:
        return await _at_once([client.create(resource, namespace, body) for body in bodies])

    def _wait_for_go(self, *programs: int) -> None:
        gc.collect()
        gc.freeze()
        self._pipe.send(Ready(programs))
        self._pipe.recv()

    # -- binders ---------------------------------------------------------------------------

    async def _bare_loop(self, binds: list[Bind]) -> None:
        async with self._client() as client:
            # A scheduler that begins to bind has an open connection, too.
            await client.request("GET", "/version")
            self._wait_for_go()
            self._pipe.send(BEGAN)
            await _at_once([post_binding(client, bind) for bind in binds])
            self._pipe.send(DONE)

    async def _scheduler(self) -> None:
        count = _Count(self._scenario.pods)
        stop = asyncio.Event()
        async with self._client() as client:
            runner = Runner(
                client,
                lambda: [SchedulerAdapter(new_scheduler(default_configuration()))],
                RunnerSettings(),
                observer=count,
                on_synced=self._wait_for_go,
            )
            running = asyncio.create_task(runner.run(stop))
            await runner.deciding.wait()
            self._pipe.send(BEGAN)
            await count.all_bound.wait()
            stop.set()
            if not count.failed:
                self._pipe.send(DONE)
            await running
        if count.failed:
            raise RuntimeError(f"a binding failed: {count.failed}")

    async def _kube_scheduler(self) -> None:
        configuration = self._task.folder / "kube-scheduler.yaml"
        configuration.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\n"
            "kind: KubeSchedulerConfiguration\n"
            "leaderElection: {leaderElect: false}\n"
            f"clientConnection: {{kubeconfig: {self._task.kubeconfig}, qps: 100000, burst: 100000}}\n"
        )
        program = find_program("kube-scheduler")
        async with self._client() as client:
            path = PODS.path(NAMESPACE)
            listed = msgspec.json.decode(await client.request("GET", path, params={"limit": "1"}))
            version = listed["metadata"]["resourceVersion"]
            process = Process(
                "kube-scheduler",
                [program, f"--config={configuration}", "--secure-port=0"],
                self._task.folder,
            )
            try:
                async with client.watch(path, {}, version) as bundles:
                    self._wait_for_go(process.pid)
                    await self._all_placed(bundles)
            finally:
                process.stop()

    async def _all_placed(self, bundles: AsyncIterator[list[bytes]]) -> None:
        """From the first pod that has its node to the last."""
        placed: set[str] = set()
        async for lines in bundles:
            seen = [_SEEN.decode(line).object for line in lines]
            began = not placed
            placed.update(pod.metadata.uid for pod in seen if pod.spec.nodeName)
            if placed and began:
                self._pipe.send(BEGAN)
            if len(placed) >= self._scenario.pods:
                self._pipe.send(DONE)
                return
        raise RuntimeError("the watch ended before all pods had their nodes")


class _Count(NullObserver):
    """Sets an event when all pods are bound."""

    def __init__(self, wanted: int) -> None:
        self._missing = wanted
        self.all_bound = asyncio.Event()
        self.failed: str = ""

    def bound(self, seconds: float) -> None:
        self._missing -= 1
        if not self._missing:
            self.all_bound.set()

    def bind_failed(self, kind: str) -> None:
        self.failed = kind
        self.all_bound.set()


async def _at_once(works: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    """All of them, with as many in flight as the scheduler has bindings."""
    answers: list[Any] = [None] * len(works)
    waiting = iter(enumerate(works))

    async def worker() -> None:
        for place, each in waiting:
            answers[place] = await each

    await asyncio.gather(*(worker() for _ in range(MAX_IN_FLIGHT)))
    return answers


class _Named(msgspec.Struct):
    uid: str


class _Placed(msgspec.Struct):
    nodeName: str = ""


class _Pod(msgspec.Struct):
    metadata: _Named
    spec: _Placed


class _Seen(msgspec.Struct):
    object: _Pod


_SEEN = msgspec.json.Decoder(_Seen)
