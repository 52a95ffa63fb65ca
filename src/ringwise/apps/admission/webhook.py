"""The validating webhook: `kubectl apply` of an impossible job prints the reason and the cure at once.

It answers, or it lets pass: whatever goes wrong in here, nobody's work is stopped by it.
"""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from aiohttp import web

from ringwise.apps.admission.objects import PATH, WEBHOOK_PORT
from ringwise.apps.admission.rules import (
    ALLOWED,
    KnownCluster,
    Verdict,
    judge_pod,
    judge_pod_group,
    judge_vcjob,
)
from ringwise.apps.admission.serving_certificate import Keeper, server_context
from ringwise.apps.extensions import installed_registry
from ringwise.kube.watch.job_templates import TemplateStore
from ringwise.kube.watch.kinds import watched_kinds
from ringwise.kube.watch.reflector import Reflector
from ringwise.kube.write.event_recorder import reason_text
from ringwise.kubeclient.client import ApiError, Client, UnreachableError
from ringwise.kubeclient.clock import Clock, RealClock
from ringwise.kubeclient.config import Access, find_access
from ringwise.kubeclient.credentials import KubeConfigError
from ringwise.kubeclient.retry import Backoff
from ringwise.messages.events import Event
from ringwise.metrics.endpoints import parse_address
from ringwise.topology.boards import shipped_catalog
from ringwise.wellknown import ADMISSION_API, BATCH_GROUP, SCHEDULER_NAMES, SCHEDULING_GROUP, VOLCANO_SYSTEM

_LOG = structlog.get_logger("ringwise.admission")

#: Bytes of a review. The API server's own objects are smaller.
MOST_BYTES = 8 << 20
#: Seconds between two looks at the certificates.
LOOK_EVERY = 60.0
#: Reasons told at once, and characters of all of them; a terminal is to stay readable.
_MOST_REASONS = 5
_LONGEST = 3000
#: Longer warnings are cut by the API server.
_LONGEST_WARNING = 250
_READS = ("queues", "topology", "configuration")


class _Kind(msgspec.Struct):
    group: str = ""
    kind: str = ""


class _Request(msgspec.Struct, rename="camel"):
    uid: str = ""
    kind: _Kind = msgspec.field(default_factory=_Kind)
    operation: str = ""
    sub_resource: str = ""
    object: msgspec.Raw = msgspec.Raw(b"null")
    old_object: msgspec.Raw = msgspec.Raw(b"null")


class _Review(msgspec.Struct):
    request: _Request | None = None


class _Meta(msgspec.Struct, rename="camel"):
    deletion_timestamp: str | None = None


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: msgspec.Raw = msgspec.Raw(b"null")


_JUDGES: dict[tuple[str, str], Callable[[msgspec.Raw, KnownCluster], Verdict]] = {
    (BATCH_GROUP, "Job"): judge_vcjob,
    (SCHEDULING_GROUP, "PodGroup"): judge_pod_group,
    ("", "Pod"): judge_pod,
}


def answer(body: bytes, cluster: KnownCluster) -> dict[str, Any] | None:
    """The AdmissionReview to send back; None for what is no review at all."""
    try:
        review = msgspec.json.decode(body, type=_Review)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    request = review.request
    if request is None or not request.uid:
        return None
    try:
        verdict = _verdict(request, cluster)
    except Exception as defect:
        # A defect of ours, or an object nobody can read; both are told later by those who meet it.
        _LOG.warning("let pass without an opinion", kind=request.kind.kind, why=repr(defect)[:300])
        verdict = ALLOWED
    response: dict[str, Any] = {"uid": request.uid, "allowed": not verdict.refusals}
    if verdict.refusals:
        shown = [reason_text(reason) for reason in verdict.refusals[:_MOST_REASONS]]
        more = len(verdict.refusals) - len(shown)
        message = "; also: ".join(shown) + (f"; and {more} more" if more else "")
        response["status"] = {"code": 400, "reason": "BadRequest", "message": message[:_LONGEST]}
    elif verdict.warnings:
        response["warnings"] = [
            f"it will wait: {reason_text(reason)}"[:_LONGEST_WARNING] for reason in verdict.warnings
        ]
    return {"apiVersion": ADMISSION_API, "kind": "AdmissionReview", "response": response}


def _verdict(request: _Request, cluster: KnownCluster) -> Verdict:
    judge = _JUDGES.get((request.kind.group, request.kind.kind))
    if judge is None or request.sub_resource or request.operation not in ("CREATE", "UPDATE"):
        return ALLOWED
    if request.operation == "UPDATE":
        new = msgspec.json.decode(request.object, type=_Object)
        old = msgspec.json.decode(request.old_object, type=_Object)
        # What exists must stay mendable and removable: only a change from good to bad is refused.
        unchanged = bytes(new.spec) == bytes(old.spec)
        if unchanged or new.metadata.deletion_timestamp or judge(request.old_object, cluster).refusals:
            return ALLOWED
    return judge(request.object, cluster)


def application(cluster: KnownCluster) -> web.Application:
    async def validate(request: web.Request) -> web.Response:
        body = await request.read()
        # A gang of thousands takes a moment; health checks go on meanwhile.
        answered = await asyncio.to_thread(answer, body, cluster)
        if answered is None:
            return web.Response(status=400, text="this is no AdmissionReview of admission.k8s.io/v1")
        return web.json_response(answered)

    app = web.Application(client_max_size=MOST_BYTES)
    app.router.add_post(PATH, validate)
    return app


@dataclass(frozen=True, slots=True)
class Options:
    kubeconfig: str | None = None
    context: str | None = None
    namespace: str = VOLCANO_SYSTEM
    configuration_map: tuple[str, str] | None = None
    address: str = f":{WEBHOOK_PORT}"
    health_address: str = ":11251"
    #: Names beside the Service's under which it is reached: for a webhook outside the cluster.
    hosts: tuple[str, ...] = ()
    scheduler_names: tuple[str, ...] = SCHEDULER_NAMES


def run(options: Options) -> None:
    asyncio.run(_run(options, find_access(options.kubeconfig, options.context)))


async def _run(options: Options, access: Access) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    async with Client(access, component="admission") as client:
        await serve(options, client, stop)


async def serve(
    options: Options,
    client: Client,
    stop: asyncio.Event,
    *,
    clock: Clock | None = None,
    started: Callable[[int], None] = lambda port: None,
) -> None:
    """Answer until `stop` is set; `started` is told the port."""
    clock = clock or RealClock()
    cluster = KnownCluster(shipped_catalog(), options.scheduler_names)
    keeper = Keeper(client, options.namespace, clock=clock, more_hosts=options.hosts)
    context: ssl.SSLContext | None = None
    ready = asyncio.Event()
    runners: list[web.AppRunner] = []
    reflectors = _reflectors(client, options, cluster, clock)

    async def listen(app: web.Application, address: str, tls: ssl.SSLContext | None = None) -> int:
        host, port = parse_address(address)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=5)
        await runner.setup()
        runners.append(runner)
        await web.TCPSite(runner, host or None, port, ssl_context=tls).start()
        return int(runner.addresses[0][1])

    async def keep() -> None:
        nonlocal context
        backoff = Backoff(1.0, LOOK_EVERY)
        while True:
            pause = LOOK_EVERY
            try:
                pair = await keeper.step()
                if context is None:
                    context = server_context(pair)
                    started(await listen(application(cluster), options.address, context))
                    ready.set()
                else:
                    server_context(pair, context)
                backoff.reset()
            except (ApiError, UnreachableError, KubeConfigError) as error:
                pause = backoff.pause()
                _LOG.warning("certificates not looked at", why=str(error), again_in=round(pause, 1))
            await clock.sleep(pause)

    tasks: list[asyncio.Task[Any]] = []
    try:
        if options.health_address:
            await listen(_health(ready), options.health_address)
        for reflector in reflectors:
            reflector.start()
        tasks = [asyncio.create_task(keep(), name="certificates"), asyncio.create_task(stop.wait())]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(reflector.stop() for reflector in reflectors))
        for runner in runners:
            await runner.cleanup()


def _reflectors(client: Client, options: Options, cluster: KnownCluster, clock: Clock) -> list[Reflector]:
    def take(events: list[Event]) -> None:
        for event in events:
            cluster.take(event)

    registry, _ = installed_registry()
    kinds = watched_kinds(TemplateStore(), {}, options.configuration_map, registry=registry)
    return [
        Reflector(client, target, reader, take, clock=clock)
        for target, reader in kinds
        if target.title in _READS
    ]


def _health(ready: asyncio.Event) -> web.Application:
    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def is_ready(_: web.Request) -> web.Response:
        return (
            web.Response(text="ok\n")
            if ready.is_set()
            else web.Response(status=503, text="no certificate yet\n")
        )

    app = web.Application()
    app.router.add_get("/healthz", alive)
    app.router.add_get("/readyz", is_ready)
    return app
