"""Those who bind in a benchmark on a real API server, each in a process of its own.

the comparison                 a binder
    ──── round n ────────────────> makes its pods, reads what it has to read
    <─── ready, its programs ─────
    ──── go ─────────────────────> binds
    <─── began, done ─────────────
    <─── quiet, its cost ────────── has written everything else, too
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec

from ringwise.apps.kube_scheduler import ComponentOptions, controllers, runner_settings, scheduler_of
from ringwise.kube.run import idle_event_loop
from ringwise.kube.run.core_thread import SchedulerAdapter
from ringwise.kube.run.runner import Runner
from ringwise.kube.write.binder import MAX_IN_FLIGHT, post_binding
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.config import Access, find_access
from ringwise.kubeclient.resources import NODES, POD_GROUPS, PODS, VCJOBS, Resource
from ringwise.messages.commands import Bind
from ringwise.metrics.prometheus import Metrics
from ringwise.records import dataclass
from ringwise.scheduler.defaults import default_configuration
from ringwise.wellknown import DEFAULT_SCHEDULER
from ringwise_bench import scenario as objects
from ringwise_bench.control_plane import Process, find_program
from ringwise_bench.scenario import NAMESPACE, Scenario

LOOP, SCHEDULER, KUBE_SCHEDULER = "bare Bindings", "scheduler", "kube-scheduler"
#: Without the controller, which other installations run in a process of its own.
ALONE = "scheduler --no-controller"
#: `schedulerName` of the pods each of them binds.
_NAMES = {LOOP: "none", SCHEDULER: "ringwise", ALONE: "ringwise", KUBE_SCHEDULER: DEFAULT_SCHEDULER}

BEGAN, DONE = "began", "done"
_CONFIGURATION = default_configuration()
#: Seconds between two looks at what is written, and how many in a row must find nothing. Looks are counted,
#: not seconds: the process may be stopped in between.
_LOOK_INTERVAL = 0.5
_LOOKS = 4


@dataclass(frozen=True, slots=True)
class Ready:
    """The round is prepared. These programs run for this binder only."""

    programs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Quiet:
    """Everything is written. What the process used: 0 where that was not measured."""

    cpu: float = 0.0
    writes: int = 0


@dataclass(frozen=True, slots=True)
class Round:
    number: int
    #: Wait until everything is written: events take a quarter of a minute.
    until_quiet: bool = False


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
        while (asked := pipe.recv()) is not None:
            idle_event_loop.run(binder.round(asked))
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
    async def _client(self) -> AsyncIterator[_CountingClient]:
        client = _CountingClient(find_access(self._task.kubeconfig))
        async with client:
            yield client

    async def make_nodes(self) -> None:
        async with self._client() as client:
            await self._make(client, NODES, None, [objects.node(n) for n in range(self._scenario.nodes)])

    async def round(self, asked: Round) -> None:
        scenario, team = self._scenario, f"round-{asked.number}"
        who = self._task.who
        if scenario.vcjob:
            await (self._bare_gang(team) if who == LOOP else self._scheduler(asked, team))
            return
        async with self._client() as client:
            if scenario.gang:
                await client.create(POD_GROUPS, NAMESPACE, objects.group(team, scenario.pods))
            pods = [objects.pod(scenario, team, place, _NAMES[who]) for place in range(scenario.pods)]
            made = await self._make(client, PODS, NAMESPACE, pods)
        if who == LOOP:
            await self._bare_loop([objects.bind_of(scenario, *each) for each in enumerate(made)])
        elif who == KUBE_SCHEDULER:
            await self._kube_scheduler()
        else:
            await self._scheduler(asked)

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
            await self._measured(client, [partial(post_binding, client, bind) for bind in binds])

    async def _bare_gang(self, team: str) -> None:
        """The pods that the controller would create for the vcjob, each created and then bound."""
        async with self._client() as client:
            created = await client.create(VCJOBS, NAMESPACE, objects.vcjob(self._scenario, team))

            async def make(number: int, body: dict[str, Any]) -> None:
                made = await client.create(PODS, NAMESPACE, body)
                await post_binding(client, objects.bind_of(self._scenario, number, made))

            bodies = objects.pods_of_vcjob(created)
            await self._measured(client, [partial(make, *each) for each in enumerate(bodies)])

    async def _measured(
        self, client: _CountingClient, works: Sequence[Callable[[], Coroutine[Any, Any, Any]]]
    ) -> None:
        # A scheduler that begins to bind has an open connection, too.
        await client.request("GET", "/version")
        self._wait_for_go()
        self._pipe.send(BEGAN)
        client.tally.start()
        await _at_once([work() for work in works])
        self._pipe.send(DONE)
        self._pipe.send(client.tally.cost())

    async def _scheduler(self, asked: Round, vcjob: str = "") -> None:
        """From the list of the pods, or from the creation of the vcjob, to the last binding.

        The processor time counts from the same moment until everything is written.
        """
        # A process that is stopped in between cannot renew a lease in time.
        options = ComponentOptions(with_controller=self._task.who == SCHEDULER, leader_elect=False)
        count = _Count(self._scenario.pods)
        stop = asyncio.Event()
        async with self._client() as client:
            runner = Runner(
                client,
                lambda: [*controllers(options), SchedulerAdapter(scheduler_of(options, _CONFIGURATION))],
                runner_settings(options),
                observer=count,
                on_synced=self._wait_for_go,
            )
            running = asyncio.create_task(runner.run(stop))
            await runner.deciding.wait()
            self._pipe.send(BEGAN)
            if vcjob:
                client.tally.start()
                await client.create(VCJOBS, NAMESPACE, objects.vcjob(self._scenario, vcjob))
            await count.all_bound.wait()
            if not count.failed:
                self._pipe.send(DONE)
                if asked.until_quiet:
                    await client.tally.quiet(lambda: not count.waiting)
                self._pipe.send(client.tally.cost() if asked.until_quiet else Quiet())
            stop.set()
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
                    self._pipe.send(Quiet())
            finally:
                process.stop()

    async def _all_placed(self, bundles: AsyncIterator[list[bytes]]) -> None:
        """From the first pod that has its node to the last."""
        placed: set[str] = set()
        async for lines in bundles:
            seen = [_POD_EVENT.decode(line).object for line in lines]
            began = not placed
            placed.update(pod.metadata.uid for pod in seen if pod.spec.nodeName)
            if placed and began:
                self._pipe.send(BEGAN)
            if len(placed) >= self._scenario.pods:
                self._pipe.send(DONE)
                return
        raise RuntimeError("the watch ended before all pods had their nodes")


class _Tally:
    """Writes of a client, and the processor time of the process since they are counted."""

    def __init__(self) -> None:
        self._began = time.process_time()
        self._in_flight = 0
        self._writes = 0

    def start(self) -> None:
        self._began, self._writes = time.process_time(), 0

    @contextmanager
    def write(self) -> Iterator[None]:
        self._in_flight += 1
        self._writes += 1
        try:
            yield
        finally:
            self._in_flight -= 1

    async def quiet(self, is_empty: Callable[[], bool]) -> None:
        """Until nothing waits to be written, and for a while nothing was."""
        looks = 0
        while looks < _LOOKS:
            before = self._writes
            await asyncio.sleep(_LOOK_INTERVAL)
            calm = not self._in_flight and is_empty() and self._writes == before
            looks = looks + 1 if calm else 0

    def cost(self) -> Quiet:
        return Quiet(time.process_time() - self._began, self._writes)


class _CountingClient(Client):
    """Counts what it writes. Listing pods starts the count: they are what is measured."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self.tally = _Tally()

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        if method == "GET":
            if path == PODS.path(None) and "continue" not in (options.get("params") or {}):
                self.tally.start()
            return await super().request(method, path, **options)
        with self.tally.write():
            return await super().request(method, path, **options)


class _Count(Metrics):
    """Sets an event when all pods are bound, and knows what waits to be written."""

    def __init__(self, wanted: int) -> None:
        super().__init__()
        self._lengths: dict[str, int] = {}
        self._missing = wanted
        self.all_bound = asyncio.Event()
        self.failed: str = ""

    @property
    def waiting(self) -> int:
        return sum(self._lengths.values())

    def queue_length(self, queue: str, length: int) -> None:
        super().queue_length(queue, length)
        self._lengths[queue] = length

    def bound(self, seconds: float) -> None:
        super().bound(seconds)
        self._missing -= 1
        if not self._missing:
            self.all_bound.set()

    def bind_failed(self, kind: str) -> None:
        super().bind_failed(kind)
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


class _PodMeta(msgspec.Struct):
    uid: str


class _PodSpec(msgspec.Struct):
    nodeName: str = ""


class _Pod(msgspec.Struct):
    metadata: _PodMeta
    spec: _PodSpec


class _PodEvent(msgspec.Struct):
    object: _Pod


_POD_EVENT = msgspec.json.Decoder(_PodEvent)
