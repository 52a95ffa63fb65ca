"""`ringwise bench api`: how fast pods get their nodes on a real API server.

Turn by turn, on the same control plane and with the same client: a loop that only posts Bindings, and the
scheduler, which reads everything, decides, and posts them. The ratio says what deciding costs.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import structlog

from ringwise.apps import deployment
from ringwise.apps.bench import Measured, at_least, shown
from ringwise.apps.control_plane import Api, ControlPlane, find_program
from ringwise.framework.configuration import default_configuration
from ringwise.kube.binder import IN_FLIGHT, post_binding
from ringwise.kube.client import Client
from ringwise.kube.config import find_access
from ringwise.kube.core import SchedulerPart
from ringwise.kube.life import RunnerSettings
from ringwise.kube.observer import Nobody
from ringwise.kube.resources import NODES, POD_GROUPS, PODS
from ringwise.kube.runner import Runner
from ringwise.scheduler.commands import Bind
from ringwise.scheduler.machine import Scheduler

NAMESPACE = "bench"
CHIP = "huawei.com/Ascend910"
GOAL = 0.9
#: Those who bind.
LOOP, SCHEDULER, KUBE_SCHEDULER = "bare Bindings", "scheduler", "kube-scheduler"
#: Seconds after which a turn that does not end is a failure.
PATIENCE = 600.0


@dataclass(frozen=True, slots=True)
class Scene:
    """What is there and what is asked for."""

    name: str
    nodes: int
    pods: int
    chips: int = 1
    gang: bool = False
    rounds: int = 2
    #: Which ratio to the bare loop is wanted.
    goal: float | None = None


USUAL = Scene("1,000 nodes, 3,000 one-chip pods", 1_000, 3_000, goal=GOAL)
MORE = (
    Scene("1,000 nodes, one gang of 1,000 whole nodes", 1_000, 1_000, chips=8, gang=True),
    Scene("1,000 nodes, 100 one-chip jobs at once", 1_000, 100),
    Scene("5,000 nodes, 3,000 one-chip pods", 5_000, 3_000),
    Scene("10,000 nodes, 3,000 one-chip pods", 10_000, 3_000),
)


def run(full: bool = False) -> list[Measured]:
    return measure((replace(USUAL, rounds=5), *MORE) if full else (USUAL,))


def run_beside_kube_scheduler(full: bool = False) -> list[Measured]:
    """The same, and the same work by kube-scheduler in the same run."""
    return measure((replace(USUAL, rounds=5), *MORE) if full else (USUAL,), beside=True)


def measure(scenes: Iterable[Scene], *, beside: bool = False) -> list[Measured]:
    # What the scheduler tells of its day is no result.
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    return [measured for scene in scenes for measured in _measured(scene, beside)]


def _measured(scene: Scene, beside: bool) -> list[Measured]:
    rounds = [_round(scene, number, beside) for number in range(scene.rounds)]
    rates = {who: median(found[who] for found in rounds) for who in rounds[0]}
    ratio = rates[SCHEDULER] / rates[LOOP]
    name = f"{scene.name}, beside {LOOP}"
    return [
        *(shown(f"{scene.name}, {who}", rate, "pods/s") for who, rate in rates.items()),
        at_least(name, ratio, "x", scene.goal) if scene.goal else shown(name, ratio, "x"),
    ]


def _round(scene: Scene, number: int, beside: bool) -> dict[str, float]:
    """Pods bound per second, by who bound them.

    Every round has a control plane of its own: nothing must be removed in between, and all are alike.
    Who goes first has it easier, so they take turns in that, too.
    """
    turns = [LOOP, SCHEDULER]
    if number % 2:
        turns.reverse()
    if beside and not scene.gang:
        turns.append(KUBE_SCHEDULER)
    with tempfile.TemporaryDirectory() as folder, ControlPlane(Path(folder)) as plane:
        _prepare(plane.admin)
        rates = asyncio.run(_Stage(plane, scene).rates(turns))
    return {who: rates[who] for who in (LOOP, SCHEDULER, KUBE_SCHEDULER) if who in rates}


def _prepare(api: Api) -> None:
    for definition in deployment.definitions():
        api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})


class _Count(Nobody):
    """Rings when all are bound."""

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


class _Stage:
    """One scene on one control plane."""

    def __init__(self, plane: ControlPlane, scene: Scene) -> None:
        self._plane = plane
        self._scene = scene
        self._config = str(plane.kubeconfig("admin", plane.admin_token))

    async def rates(self, turns: Sequence[str]) -> dict[str, float]:
        scene = self._scene
        async with self._client() as client:
            await _at_once([_creation(client, NODES, None, _node(number)) for number in range(scene.nodes)])
        work = {LOOP: self._bare_loop, SCHEDULER: self._scheduler, KUBE_SCHEDULER: self._kube_scheduler}
        return {who: await self._turn(who, work[who]) for who in turns}

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Client]:
        async with Client(find_access(self._config)) as client:
            yield client

    async def _turn(self, who: str, work: Callable[[list[Bind]], Coroutine[Any, Any, float]]) -> float:
        """Pods bound per second. Making the pods is not counted."""
        scene, team = self._scene, _TEAMS[who]
        async with self._client() as client:
            if scene.gang:
                await client.create(POD_GROUPS, NAMESPACE, _group(team, scene.pods))
            answers = await _at_once(
                [
                    _creation(client, PODS, NAMESPACE, _pod(scene, number, team))
                    for number in range(scene.pods)
                ]
            )
        binds = [_bind(scene, number, team, answer) for number, answer in enumerate(answers)]
        gc.collect()
        async with asyncio.timeout(PATIENCE):
            seconds = await work(binds)
        return scene.pods / seconds

    async def _bare_loop(self, binds: list[Bind]) -> float:
        async with self._client() as client:
            # The connections of the scheduler are open, too, when it begins to bind.
            await client.request("GET", "/version")
            started = time.perf_counter()
            await _at_once([post_binding(client, bind) for bind in binds])
            return time.perf_counter() - started

    async def _scheduler(self, binds: list[Bind]) -> float:
        count = _Count(len(binds))
        stop = asyncio.Event()
        async with self._client() as client:
            runner = Runner(
                client,
                lambda: [SchedulerPart(Scheduler(default_configuration()))],
                RunnerSettings(),
                observer=count,
                synced=_settle,
            )
            running = asyncio.create_task(runner.run(stop))
            await runner.deciding.wait()
            started = time.perf_counter()
            await count.all_bound.wait()
            seconds = time.perf_counter() - started
            stop.set()
            await running
        gc.unfreeze()
        if count.failed:
            raise RuntimeError(f"a binding failed: {count.failed}")
        return seconds

    async def _kube_scheduler(self, binds: list[Bind]) -> float:
        configuration = self._plane.folder / "kube-scheduler.yaml"
        configuration.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\n"
            "kind: KubeSchedulerConfiguration\n"
            "leaderElection: {leaderElect: false}\n"
            f"clientConnection: {{kubeconfig: {self._config}, qps: 100000, burst: 100000}}\n"
        )
        program = find_program("kube-scheduler")
        async with self._client() as client:
            path = PODS.path(NAMESPACE)
            listed = msgspec.json.decode(await client.request("GET", path, params={"limit": "1"}))
            version = listed["metadata"]["resourceVersion"]
            process = self._plane.run(
                "kube-scheduler", [program, f"--config={configuration}", "--secure-port=0"]
            )
            try:
                async with client.watch(path, {}, version) as bundles:
                    return await _all_placed(bundles, len(binds))
            finally:
                process.stop()


async def _all_placed(bundles: AsyncIterator[list[bytes]], wanted: int) -> float:
    """Seconds from the first pod that has its node to the last."""
    started = 0.0
    placed: set[str] = set()
    async for lines in bundles:
        seen = [_SEEN.decode(line).object for line in lines]
        placed.update(pod.metadata.uid for pod in seen if pod.spec.nodeName)
        if placed and not started:
            started = time.perf_counter()
        if len(placed) >= wanted:
            return time.perf_counter() - started
    raise RuntimeError("the watch ended before all pods had their nodes")


def _settle() -> None:
    """As the scheduler does when everything is read."""
    gc.collect()
    gc.freeze()


async def _at_once(works: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    """All of them, as many under way as bindings of the scheduler."""
    answers: list[Any] = [None] * len(works)
    waiting = iter(enumerate(works))

    async def worker() -> None:
        for place, work in waiting:
            answers[place] = await work

    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
    return answers


async def _creation(client: Client, resource: Any, namespace: str | None, body: dict[str, Any]) -> bytes:
    return await client.create(resource, namespace, body)


class _Named(msgspec.Struct):
    uid: str


class _Made(msgspec.Struct):
    metadata: _Named


class _Placed(msgspec.Struct):
    nodeName: str = ""


class _Pod(msgspec.Struct):
    metadata: _Named
    spec: _Placed


class _Seen(msgspec.Struct):
    object: _Pod


_MADE = msgspec.json.Decoder(_Made)
_SEEN = msgspec.json.Decoder(_Seen)


#: `schedulerName` of the pods each of them binds, name of their PodGroup and first part of their names.
_TEAMS = {LOOP: "nobody", SCHEDULER: "ringwise", KUBE_SCHEDULER: "default-scheduler"}


def _bind(scene: Scene, number: int, team: str, answer: bytes) -> Bind:
    """As the scheduler would say it, but on nodes that it does not see: its own are to be empty."""
    place = number // scene.nodes * scene.chips
    chips = tuple(range(place, place + scene.chips))
    annotations = {
        "distributed-job": "true" if scene.gang else "false",
        CHIP: ",".join(f"Ascend910-{chip}" for chip in chips),
        "predicate-time": str(1_760_000_000_000_000_000 + number),
        "hccl/rankIndex": str(number if scene.gang else 0),
    }
    uid = _MADE.decode(answer).metadata.uid
    return Bind(uid, NAMESPACE, f"{team}-{number}", f"elsewhere-{number % scene.nodes}", chips, annotations)


def _group(team: str, members: int) -> dict[str, Any]:
    return {
        "apiVersion": POD_GROUPS.version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": team},
        "spec": {"minMember": members, "queue": "default"},
        "status": {"phase": "Inqueue"},
    }


def _pod(scene: Scene, number: int, team: str) -> dict[str, Any]:
    amounts = {"cpu": "1", "memory": "1Gi", CHIP: str(scene.chips)}
    annotations = {"scheduling.k8s.io/group-name": team} if scene.gang else {}
    return {
        "metadata": {"name": f"{team}-{number}", "annotations": annotations},
        "spec": {
            "schedulerName": team,
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "main",
                    "image": "train:latest",
                    "resources": {"requests": amounts, "limits": amounts},
                }
            ],
        },
    }


def _node(number: int) -> dict[str, Any]:
    amounts = {"cpu": "192", "memory": "768Gi", "pods": "110", CHIP: "8"}
    labels = {"accelerator": "huawei-Ascend910", "accelerator-type": "module", "host-arch": "huawei-arm"}
    return {
        "metadata": {"name": f"node-{number}", "labels": labels},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated"}
            ],
        },
    }
