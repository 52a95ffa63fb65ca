"""`ringwise bench web`: what the dashboard costs the scheduler.

A cluster of 10,000 nodes with 80,000 chips and 2,000 jobs. One-pod jobs end and others start, 1,000 changes
of nodes a second in all; each pod is read from JSON three times, as from a watch, and its binding is written
as JSON. Compared is the processor time of this process while ten clients follow the stream and while none
does, in pairs that alternate. The clients are a process of their own. Where a browser is found, the page is
opened in it under the same changes.
"""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import time
from collections import deque
from collections.abc import Callable
from itertools import count
from statistics import median
from typing import Any

import aiohttp
import msgspec

from ringwise.apps.extensions import installed_registry, new_scheduler
from ringwise.apps.web.job_documents import SchedulerAnswers
from ringwise.apps.web.serving import listening
from ringwise.kube.watch.kinds import Reader, read_object, watched_kinds
from ringwise.kube.watch.readers import Observed
from ringwise.kubeclient.resources import PODS
from ringwise.manifests.text.errors import Findings
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind
from ringwise.state.model import Device, Node, Pod
from ringwise.views.documents.dashboard import DashboardSource
from ringwise.web.application import DashboardServer
from ringwise.web.guard import Guard
from ringwise.web.hub import Answer, Hub, WatchedScheduler
from ringwise.wellknown import ACCELERATOR_TYPE, ASCEND910, VOLCANO_SCHEDULER
from ringwise_bench.page import BROWSER_VARIABLE, BrowserError, PageFigures, find_browser, measure_page
from ringwise_bench.report import Figure, at_least, at_most, shown

NODES, JOBS, CLIENTS, CHANGES = 10_000, 2_000, 10, 1_000
#: Seconds between two turns of the scheduler, of one measurement, and how many pairs there are. A pair
#: takes about 13 s, a full run less than three minutes. Each order comes as often as the other: even numbers.
TURN, WINDOW = 0.05, 4.0
SMALL_PAIRS, FULL_PAIRS = 4, 10
#: Seconds for which the frames of the page are counted, and in which the browser must have done so.
PAGE_SECONDS, PAGE_TIMEOUT = 10.0, 90.0
MAX_MEGABYTES, MAX_SHARE = 2.0, 0.10
#: Of the page, at twice the nodes for which they must hold: seconds, and frames a second.
MAX_DRAWN, MIN_FRAMES = 2.0, 50.0
_SECOND = 1_000_000_000

#: Follows a stream until it is killed: URL, epoch, sequence, clients.
_FOLLOW = """
import asyncio, sys, aiohttp
async def follow(session, url):
    async with session.get(url) as response:
        async for part in response.content.iter_any():
            pass
async def main(url, clients):
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0),
                                     auto_decompress=False) as session:
        await asyncio.gather(*(follow(session, url) for _ in range(clients)))
asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


class BusyCluster:
    """A scheduler with a full cluster, in which jobs come and go."""

    def __init__(self, nodes: int, jobs: int, seed: int = 18) -> None:
        self.scheduler = new_scheduler()
        self.now = 1_760_000_000 * _SECOND
        self._random = random.Random(seed)
        self._serial = 0
        self._running: deque[Pod] = deque()
        self._confirmed: list[bytes] = []
        kinds = watched_kinds(Observed(), registry=installed_registry())
        self._reader: Reader = next(reader for target, reader in kinds if target.resource == PODS)
        self.scheduler.handle([ev.NodeSeen(_node(number)) for number in range(nodes)], self.now)
        self.turn(jobs, 0)
        self.turn(0, 0)

    async def call(self, work: Callable[[WatchedScheduler, int], Answer]) -> Answer:
        return work(self.scheduler, self.now)

    async def copy(self, fork: Callable[[WatchedScheduler, int], Answer]) -> Answer:
        return await self.call(fork)

    def turn(self, starts: int, ends: int) -> None:
        """One turn: the last bindings are confirmed, jobs end, and others are submitted."""
        self.now += int(TURN * _SECOND)
        events: list[ev.Event] = [self._seen(raw) for raw in self._confirmed]
        self._confirmed = []
        for _ in range(ends):
            gone = self._running.popleft()
            events.append(ev.PodGone(gone.uid))
        submitted: dict[str, dict[str, Any]] = {}
        for _ in range(starts):
            self._serial += 1
            made = _pod(self._serial, self._random.choice((1, 2, 4, 8)))
            submitted[made["metadata"]["uid"]] = made
            events.append(self._seen(msgspec.json.encode(made)))
        for command in self.scheduler.handle(events, self.now):
            raw = msgspec.json.encode(command)
            if isinstance(command, Bind) and raw:
                self._bound(submitted[command.uid], command)

    def _bound(self, made: dict[str, Any], bind: Bind) -> None:
        made["spec"]["nodeName"] = bind.node
        made["metadata"]["annotations"].update(bind.annotations)
        self._confirmed.append(msgspec.json.encode(made))
        made["status"]["phase"] = "Running"
        self._confirmed.append(msgspec.json.encode(made))

    def _seen(self, raw: bytes) -> ev.PodSeen:
        objects = read_object(self._reader, msgspec.Raw(raw), Findings("pod"))
        assert objects is not None
        ((_, pod),) = objects
        assert isinstance(pod, Pod)
        if pod.phase == "Running":
            self._running.append(pod)
        return ev.PodSeen(pod)


def _node(number: int) -> Node:
    return Node(
        f"node-{number}",
        labels={ACCELERATOR_TYPE: "module"},
        chips_allocatable={ASCEND910: 8},
        chips_capacity={ASCEND910: 8},
        devices=tuple(Device(chip) for chip in range(8)),
        internal_ip=f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
        cpu_milli=192_000,
        memory=1 << 40,
        max_pods=110,
    )


def _pod(number: int, chips: int) -> dict[str, Any]:
    """A pod about as long as those of a cluster are."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"train-{number}",
            "namespace": f"team-{number % 20}",
            "uid": f"00000000-0000-0000-0000-{number:012d}",
            "resourceVersion": str(number),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"team": f"team-{number % 20}"},
            "annotations": {"note": "x" * 200},
        },
        "spec": {
            "schedulerName": VOLCANO_SCHEDULER,
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/train:1",
                    "command": ["python", "train.py"],
                    "env": [{"name": f"V{index}", "value": "x" * 30} for index in range(10)],
                    "resources": {"limits": {ASCEND910: str(chips), "cpu": "4", "memory": "16Gi"}},
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }
            ],
            "volumes": [{"name": "data", "emptyDir": {}}],
            "tolerations": [{"key": "spare", "operator": "Exists"}],
        },
        "status": {"phase": "Pending"},
    }


def run(full: bool = False) -> list[Figure]:
    return asyncio.run(measure(FULL_PAIRS if full else SMALL_PAIRS))


async def measure(
    pairs: int,
    *,
    nodes: int = NODES,
    jobs: int = JOBS,
    window: float = WINDOW,
    changes: int = CHANGES,
    page_seconds: float = PAGE_SECONDS,
) -> list[Figure]:
    cluster = BusyCluster(nodes, jobs)
    hub = Hub(cluster, _source)
    server = DashboardServer(hub, SchedulerAnswers(cluster), Guard())
    async with listening(server, "127.0.0.1:0") as url:
        gc.collect()
        gc.freeze()
        try:
            began = time.perf_counter()
            snapshot = await hub.snapshot()
            first = time.perf_counter() - began
            await hub.forget()
            # Caches and memory settle: not measured.
            await _window(cluster, window, changes)
            shares, noise, alone_times = [], [], []
            sent = 0
            for pair in range(pairs):
                # The order alternates: what grows or warms up during the run counts for both.
                times: dict[bool, float] = {}
                for watched in (False, True) if pair % 2 else (True, False):
                    if watched:
                        async with _Followers(hub, url, CLIENTS) as followers:
                            times[watched] = await _window(cluster, window, changes)
                            sent += followers.frames()
                    else:
                        times[watched] = await _window(cluster, window, changes)
                        again = await _window(cluster, window, changes)
                        noise.append(abs(again / times[watched] - 1))
                shares.append(times[True] / times[False] - 1)
                alone_times.append(times[False] / window)
            quiet = median(noise) < MAX_SHARE
            page = await _page(cluster, url, page_seconds, changes, quiet=quiet)
        finally:
            gc.unfreeze()
    title = f"{nodes:,} nodes, {8 * nodes:,} chips, {jobs:,} jobs"
    more = f"{changes:,} changes a second: more processor time with {CLIENTS} clients than with none"
    return [
        at_most(f"{title}: first document, gzip", len(snapshot.packed) / 1e6, "MB", MAX_MEGABYTES),
        shown(f"{title}: first document, plain", len(snapshot.raw) / 1e6, "MB"),
        shown(f"{title}: time to the first document", first, "s"),
        # Where equal measurements differ by as much, a difference says nothing, and no goal is judged by it.
        at_most(more, median(shares), "x", MAX_SHARE)
        if quiet
        else shown(f"{more}; not judged, other work disturbs the machine", median(shares), "x"),
        shown("the same between two measurements without clients, in either direction", median(noise), "x"),
        shown(f"{changes:,} changes a second: processor time without clients", median(alone_times), "s/s"),
        shown(f"{changes:,} changes a second: events that each client got", sent / (pairs * window), "1/s"),
        *page,
    ]


async def _window(cluster: BusyCluster, seconds: float, changes: int) -> float:
    """Processor time of this process for one measurement."""
    began = time.process_time()
    await _change(cluster, changes, round(seconds / TURN))
    return time.process_time() - began


async def _change(cluster: BusyCluster, changes: int, turns: int | None = None) -> None:
    """Let jobs come and go at this speed; without a number of turns until it is canceled."""
    each = round(changes * TURN / 2)
    loop = asyncio.get_running_loop()
    due = loop.time()
    for _ in count() if turns is None else range(turns):
        cluster.turn(each, each)
        due += TURN
        await asyncio.sleep(max(0.0, due - loop.time()))


async def _page(cluster: BusyCluster, url: str, seconds: float, changes: int, *, quiet: bool) -> list[Figure]:
    """The page in a browser while the cluster changes. Where there is none, a row says so."""
    if find_browser() is None:
        return [_no_page(f"no Chromium is found, {BROWSER_VARIABLE} can name one")]
    changing = asyncio.create_task(_change(cluster, changes))
    try:
        async with asyncio.timeout(PAGE_TIMEOUT + seconds):
            figures = await measure_page(url, seconds)
        if changing.done():
            changing.result()
    except TimeoutError:
        return [_no_page(f"the browser took longer than {PAGE_TIMEOUT:g} s")]
    except (BrowserError, aiohttp.ClientError, OSError) as error:
        return [_no_page(str(error).partition("\n")[0].rstrip(":"))]
    finally:
        changing.cancel()
        await asyncio.gather(changing, return_exceptions=True)
    return page_rows(figures, seconds, changes, quiet=quiet)


def page_rows(figures: PageFigures, seconds: float, changes: int, *, quiet: bool) -> list[Figure]:
    title = f"page in a browser, software rendering, {changes:,} changes a second"
    frames = f"{title}: frames a second while it zooms"
    return [
        at_most(f"{title}: map drawn after the document", figures.drawn_ms / 1e3, "s", MAX_DRAWN),
        at_least(frames, figures.frames_per_second, "1/s", MIN_FRAMES)
        if quiet
        else shown(
            f"{frames}; not judged, other work disturbs the machine", figures.frames_per_second, "1/s"
        ),
        at_most(f"{title}: work of its thread for a frame", figures.work_ms, "ms", 1e3 / MIN_FRAMES),
        shown(f"{title}: longest frame", figures.longest_frame_ms, "ms"),
        shown(f"{title}: memory of the page", figures.heap_mb, "MB"),
        shown(f"{title}: events it applied", figures.changes_applied / seconds, "1/s"),
    ]


def _no_page(why: str) -> Figure:
    return shown(f"pages measured in a browser: {why}", 0, "")


class _Followers:
    """Clients in a process of their own, from the moment that all of them follow."""

    def __init__(self, hub: Hub, url: str, clients: int) -> None:
        self._hub = hub
        self._url = url
        self._clients = clients
        self._process: asyncio.subprocess.Process | None = None
        self._epoch, self._first = "", 0

    def frames(self) -> int:
        """Events since all clients follow. Raises RuntimeError where they have not followed all the time."""
        if self._hub.streams != self._clients or self._hub.epoch != self._epoch:
            raise RuntimeError(f"only {self._hub.streams} of {self._clients} clients followed to the end")
        return self._hub.history.last - self._first

    async def __aenter__(self) -> _Followers:
        await self._hub.snapshot()
        stream = f"{self._url}api/v1/stream?epoch={self._hub.epoch}&since={self._hub.history.last}"
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _FOLLOW, stream, str(self._clients)
        )
        while self._hub.streams < self._clients:
            await asyncio.sleep(0.02)
        self._epoch, self._first = self._hub.epoch, self._hub.history.last
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self._process is not None
        self._process.kill()
        await self._process.wait()
        while self._hub.streams:
            await asyncio.sleep(0.02)
        await self._hub.forget()


def _source() -> DashboardSource:
    return {"kind": "lab", "name": "bench", "version": "", "live": True, "leader": ""}
