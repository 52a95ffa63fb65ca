"""The webhook: `kubectl apply` of a job that can never run prints the reason and what helps.

It also fills in what a user may leave out of new jobs and queues, and writes who created a job.

After any error in the webhook itself the object is allowed.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from ringwise import wellknown
from ringwise.apps.admission import rules
from ringwise.apps.admission.cost import Cost, cost_of
from ringwise.apps.admission.defaults import Operation, filled_kinds
from ringwise.apps.admission.queue_reads import QueueLister
from ringwise.apps.admission.serving_certificate import (
    CertificateManager,
    SecretNotFoundError,
    server_context,
)
from ringwise.apps.admission.users import name_user
from ringwise.apps.certificate_files import CertificateFiles
from ringwise.apps.extensions import installed_registry
from ringwise.framework.reasons import OTHER_SCHEDULER
from ringwise.kube.watch.kinds import WatchTarget, watched_kinds
from ringwise.kube.watch.objects import KeyedObjects
from ringwise.kube.watch.readers import Observed, StatusReader
from ringwise.kube.watch.reflector import Reflector
from ringwise.kube.write.tenant_text import problem_text
from ringwise.kubeclient.client import API_ERRORS, Client
from ringwise.kubeclient.client import run as run_connected
from ringwise.kubeclient.clock import Clock, RealClock
from ringwise.kubeclient.config import find_access
from ringwise.kubeclient.resources import NAMESPACES
from ringwise.kubeclient.retry import Backoff
from ringwise.kubeclient.tasks import end, stop_signal
from ringwise.log import Logger
from ringwise.manifests.kinds import Watcher
from ringwise.manifests.objects.workloads import OPERATOR_KINDS, REPLICATED_KINDS
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.readable import UNREADABLE, readable
from ringwise.manifests.text.unknown_fields import manifest_notes
from ringwise.manifests.text.wire import ObjectWire
from ringwise.messages.events import Event
from ringwise.metrics.connections import listening_sockets
from ringwise.metrics.endpoints import parse_address, serving
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.web.connections import read_body, serving_application

_LOG = Logger()

#: Paths of the three webhooks, as the chart has them: check, fill in, and write who created an object.
PATH = "/validate"
MUTATE_PATH = "/mutate"
USER_PATH = "/user"
WEBHOOK_PORT = 9443
#: Seconds that the API server waits for a response, as the chart says.
TIMEOUT = 5
#: What `kubectl debug` adds to a running pod.
DEBUG_CONTAINERS = "ephemeralcontainers"
#: Largest request body. Objects of the API server are smaller.
MAX_REVIEW_BYTES = 8 << 20
#: Seconds that a review waits for its turn. The rest of the API server's time-out is for the check itself.
MAX_WAIT = TIMEOUT / 2
#: Seconds that a connection stays open without a request. The API server, as programs in Go do, closes its
#: own after 90: with fewer here a review could be sent just when its connection is closed, and fail.
KEEP_ALIVE = 100.0
#: Seconds between two checks of the certificates.
CHECK_INTERVAL = 60.0
#: Reasons in one response, and its longest message: it must stay readable in a terminal.
_MAX_REASONS = 5
_MAX_MESSAGE = 3000
#: The API server truncates longer warnings.
_MAX_WARNING = 250


class _Kind(msgspec.Struct):
    group: str = ""
    kind: str = ""


class _UserInfo(msgspec.Struct):
    username: str = ""


class _Request(msgspec.Struct, rename="camel"):
    uid: str = ""
    kind: _Kind = msgspec.field(default_factory=_Kind)
    name: str = ""
    namespace: str = ""
    operation: str = ""
    sub_resource: str = ""
    user_info: _UserInfo = msgspec.field(default_factory=_UserInfo)
    object: msgspec.Raw = msgspec.Raw(b"null")
    old_object: msgspec.Raw = msgspec.Raw(b"null")


class _Review(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


class _Object(ObjectWire):
    spec: msgspec.Raw = msgspec.Raw(b"null")


_JUDGES: dict[tuple[str, str], Callable[[msgspec.Raw, rules.ClusterFacts], rules.Review]] = {
    rules.VCJOB: rules.judge_vcjob,
    rules.POD_GROUP: rules.judge_pod_group,
    rules.QUEUE: rules.judge_queue,
    rules.HYPER_NODE: rules.judge_hyper_node,
    rules.POD: rules.judge_pod,
    **{kind: partial(rules.judge_replicated, kind=kind) for kind in REPLICATED_KINDS},
    **{kind: partial(rules.judge_operator_job, kind=kind) for kind in OPERATOR_KINDS},
}


def read_review(body: bytes) -> _Request | None:
    """The request of an AdmissionReview of admission.k8s.io/v1; None when the body is none."""
    review = readable(body, _Review, _Review())
    if (review.api_version, review.kind) != (wellknown.ADMISSION_API, "AdmissionReview"):
        return None
    request = review.request
    return request if request is not None and request.uid else None


def _cost(request: _Request) -> Cost:
    """Of both objects of an update: the old one is checked, too."""
    new, old = cost_of(request.object), cost_of(request.old_object)
    return Cost(max(new.bytes, old.bytes), max(new.tasks, old.tasks), max(new.pods, old.pods))


def _unchecked(request: _Request, why: str) -> dict[str, Any]:
    """Allowed with a warning: the scheduler checks every job again."""
    _LOG.warning("allowed without a check", kind=request.kind.kind, why=why)
    warning = f"not checked at submission ({why}); the scheduler checks it"[:_MAX_WARNING]
    return _reviewed(request, {"warnings": [warning]})


def _reviewed(request: _Request, response: Mapping[str, Any]) -> dict[str, Any]:
    """The AdmissionReview of a response, which allows the request unless it says otherwise."""
    response = {"uid": request.uid, "allowed": True, **response}
    return {"apiVersion": wellknown.ADMISSION_API, "kind": "AdmissionReview", "response": response}


def _judged(request: _Request, cluster: rules.ClusterFacts, excess: str) -> rules.Review:
    """With an excess of cost only sizes are checked: that takes as long as to read the object."""
    try:
        if excess:
            return _of_sizes(request, cluster)
        verdict = _verdict(request, cluster)
        if verdict.refusals and cluster.queues is not None:
            without = _verdict(request, replace(cluster, queues=None))
            verdict = replace(verdict, queues_matter=without.refusals != verdict.refusals)
        return verdict
    except Exception as defect:
        # A defect here, or an unreadable object: the scheduler or the controller reports it later.
        _LOG.warning("allowed without a check", kind=request.kind.kind, why=repr(defect)[:300])
        return rules.ALLOWED


def _answered(request: _Request, verdict: rules.Review, excess: str) -> dict[str, Any]:
    if excess and not verdict.refusals:
        return _unchecked(request, excess)
    response: dict[str, Any] = {"allowed": not verdict.refusals}
    if verdict.refusals:
        shown = [rules.refusal_text(reason, request.kind.kind) for reason in verdict.refusals[:_MAX_REASONS]]
        more = len(verdict.refusals) - len(shown)
        message = "; also: ".join(shown) + (f"; and {more} more" if more else "")
        response["status"] = {"code": 400, "reason": "BadRequest", "message": message[:_MAX_MESSAGE]}
    warnings = [] if verdict.refusals else [*map(_warning, verdict.warnings), *verdict.notes]
    warnings += _notes(request)
    if warnings:
        response["warnings"] = [text[:_MAX_WARNING] for text in warnings]
    return _reviewed(request, response)


def _notes(request: _Request) -> list[str]:
    """Unknown fields of a new object that a person wrote; pods of a controller are its business."""
    if request.operation != "CREATE" or request.sub_resource:
        return []
    if (request.kind.group, request.kind.kind) not in _JUDGES:
        return []
    try:
        document = msgspec.json.decode(request.object)
        meta = document["metadata"]
        if meta.get("ownerReferences"):
            return []
        # The API server has set the uid, and what it adds is known; the names it has checked itself.
        written = {**document, "metadata": {**meta, "uid": ""}}
        return list(islice(manifest_notes("", request.kind.kind, written), _MAX_REASONS))
    except (msgspec.MsgspecError, AttributeError, KeyError, TypeError, RecursionError):
        return []


def _warning(reason: Reason) -> str:
    if reason.code == OTHER_SCHEDULER.code:
        return problem_text(reason)
    return f"it will wait: {problem_text(reason)}"


def _of_sizes(request: _Request, cluster: rules.ClusterFacts) -> rules.Review:
    """Status and finalizers are never in the way: subresources and objects that are deleted are allowed."""
    if request.sub_resource or request.operation not in ("CREATE", "UPDATE"):
        return rules.ALLOWED
    kind = (request.kind.group, request.kind.kind)
    if request.operation == "CREATE":
        return rules.judge_sizes(kind, request.object, cluster)
    if msgspec.json.decode(request.object, type=_Object).metadata.deletion_timestamp:
        return rules.ALLOWED
    return rules.judge_sizes(kind, request.object, cluster, request.old_object)


def _verdict(request: _Request, cluster: rules.ClusterFacts) -> rules.Review:
    if request.operation == "DELETE":
        if (request.kind.group, request.kind.kind) != rules.QUEUE:
            return rules.ALLOWED
        return rules.judge_queue_deletion(request.name, cluster, request.old_object)
    if request.sub_resource == DEBUG_CONTAINERS and request.operation == "UPDATE":
        return rules.judge_debug_containers(request.object, request.old_object, cluster)
    judge = _JUDGES.get((request.kind.group, request.kind.kind))
    if judge is None or request.sub_resource or request.operation not in ("CREATE", "UPDATE"):
        return rules.ALLOWED
    if request.operation == "UPDATE":
        new = msgspec.json.decode(request.object, type=_Object)
        old = msgspec.json.decode(request.old_object, type=_Object)
        # Existing objects must stay editable and deletable: only a change from valid to invalid is rejected.
        if new.metadata.deletion_timestamp:
            return rules.ALLOWED
        if judge is rules.judge_queue:
            # It is compared rule by rule: annotations count, and one wrong part hides no other.
            return rules.judge_queue(request.object, cluster, request.old_object)
        sizes = _of_sizes(request, cluster)
        # Of pods and PodGroups that exist nothing else is checked, as in Volcano.
        if sizes.refusals or judge is rules.judge_pod or bytes(new.spec) == bytes(old.spec):
            return sizes
        if judge is rules.judge_pod_group:
            return rules.note_queue_change(request.object, request.old_object)
        if judge is rules.judge_vcjob:
            return rules.judge_vcjob_change(request.object, request.old_object, cluster)
        if judge(request.old_object, cluster).refusals:
            return rules.ALLOWED
    return judge(request.object, cluster)


def filled(
    body: bytes,
    scheduler_names: Collection[str] = wellknown.SCHEDULER_NAMES,
    namespace_queues: Mapping[str, str] | None = None,
) -> dict[str, Any] | None:
    """The AdmissionReview of the response, with what is filled in; None when the body is not a review."""
    request = read_review(body)
    if request is None:
        return None
    queue = (namespace_queues or {}).get(request.namespace)
    fill = filled_kinds(scheduler_names, queue).get((request.kind.group, request.kind.kind))
    if fill is None or request.operation != "CREATE" or request.sub_resource:
        return _reviewed(request, {})
    if excess := cost_of(request.object).excess:
        _LOG.warning("defaults not set", kind=request.kind.kind, why=excess)
        return _reviewed(request, {})
    return _reviewed(request, _patch(request, fill))


def _patch(request: _Request, fill: Callable[[dict[str, Any]], list[Operation]]) -> dict[str, Any]:
    try:
        sent = msgspec.json.decode(request.object)
        operations = fill(sent) if isinstance(sent, dict) else []
    except UNREADABLE as problem:
        _LOG.warning("defaults not set", kind=request.kind.kind, why=repr(problem)[:300])
        operations = []
    if not operations:
        return {}
    return {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(operations)).decode()}


def attributed(
    body: bytes, scheduler_names: Collection[str] = wellknown.SCHEDULER_NAMES
) -> dict[str, Any] | None:
    """The AdmissionReview of the response, with the user of a job; None when the body is not a review.

    This is done for objects of every size: a job that is too large to be checked must have a user, too.
    """
    request = read_review(body)
    if request is None:
        return None
    if request.operation not in ("CREATE", "UPDATE") or request.sub_resource:
        return _reviewed(request, {})

    def name(made: dict[str, Any]) -> list[Operation]:
        before = msgspec.json.decode(request.old_object) if request.operation == "UPDATE" else None
        kind = (request.kind.group, request.kind.kind)
        return name_user(kind, made, before, request.user_info.username, scheduler_names)

    return _reviewed(request, _patch(request, name))


class Reviews:
    """Checks reviews one by one; small ones do not wait for large ones.

    More at once would only make each of them slower, and all of them late.
    """

    def __init__(
        self, cluster: rules.ClusterFacts, queues: QueueLister | None = None, max_wait: float | None = None
    ) -> None:
        """`queues` reads the queues again before a review is rejected because of one."""
        self._cluster = cluster
        self._queues = queues
        self._max_wait = MAX_WAIT if max_wait is None else max_wait
        self._small = asyncio.Semaphore(1)
        self._large = asyncio.Semaphore(1)

    async def answer(self, body: bytes) -> dict[str, Any] | None:
        """The AdmissionReview of the response; None when the body is not an AdmissionReview."""
        request = read_review(body)
        if request is None:
            return None
        cost = _cost(request)
        deadline = asyncio.get_running_loop().time() + self._max_wait
        try:
            verdict = await self._judged(request, cost, self._cluster, deadline)
        except TimeoutError:
            return _unchecked(request, f"other reviews took more than {self._max_wait:g}s")
        if self._queues is not None and verdict.queues_matter:
            # If it takes too long, the watch cache decides.
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    current = await self._queues.updated(self._cluster, request.namespace)
                if current is not None:
                    verdict = await self._judged(request, cost, current, deadline)
        return _answered(request, verdict, cost.excess)

    async def _judged(
        self, request: _Request, cost: Cost, cluster: rules.ClusterFacts, deadline: float
    ) -> rules.Review:
        """Wait for the turn of a review and check it. TimeoutError: its turn did not come in time."""
        turn = self._small if cost.is_small else self._large
        async with asyncio.timeout_at(deadline):
            await turn.acquire()
        try:
            # In a thread: health checks must not wait for it.
            return await asyncio.to_thread(_judged, request, cluster, cost.excess)
        finally:
            turn.release()


def _response(review: dict[str, Any] | None) -> web.Response:
    if review is None:
        return web.Response(status=400, text="the body is not an AdmissionReview of admission.k8s.io/v1")
    return web.json_response(review)


def application(cluster: rules.ClusterFacts, queues: QueueLister | None = None) -> web.Application:
    reviews = Reviews(cluster, queues)

    async def validate(request: web.Request) -> web.Response:
        return _response(await reviews.answer(await read_body(request)))

    async def mutate(request: web.Request) -> web.Response:
        body = await read_body(request)
        return _response(filled(body, cluster.scheduler_names, cluster.namespace_queues))

    async def attribute(request: web.Request) -> web.Response:
        return _response(attributed(await read_body(request), cluster.scheduler_names))

    app = web.Application(client_max_size=MAX_REVIEW_BYTES)
    app.router.add_post(PATH, validate)
    app.router.add_post(MUTATE_PATH, mutate)
    app.router.add_post(USER_PATH, attribute)
    return app


@dataclass(frozen=True, slots=True)
class Options:
    kubeconfig: str | None = None
    context: str | None = None
    namespace: str = wellknown.VOLCANO_SYSTEM
    configuration_map: tuple[str, str] | None = None
    address: str = f"127.0.0.1:{WEBHOOK_PORT}"
    health_address: str = "127.0.0.1:11251"
    #: DNS names in addition to those of the Service: for a webhook outside the cluster.
    hosts: tuple[str, ...] = ()
    scheduler_names: tuple[str, ...] = wellknown.SCHEDULER_NAMES
    #: Board files of one's own.
    boards: tuple[Path, ...] = ()
    #: A certificate that another program renews; without it the webhook creates its own.
    certificate: Path | None = None
    key: Path | None = None
    #: Refuse to delete queues that have pods, also when they are Closed.
    protect_used_queues: bool = False


def run(options: Options) -> None:
    async def until_stopped(client: Client) -> None:
        await serve(options, client, stop_signal())

    run_connected(find_access(options.kubeconfig, options.context), until_stopped, "admission")


async def serve(
    options: Options,
    client: Client,
    stop: asyncio.Event,
    *,
    clock: Clock | None = None,
    started: Callable[[int], None] = lambda port: None,
) -> None:
    """Serve until `stop` is set; `started` is called with the port."""
    clock = clock or RealClock()
    cluster = rules.ClusterFacts(
        shipped_catalog(options.boards),
        options.scheduler_names,
        protect_used_queues=options.protect_used_queues,
    )
    queues = QueueLister(client, clock)
    ready = asyncio.Event()
    servers = AsyncExitStack()
    reflectors = _reflectors(client, options, cluster, clock)

    async def listen(context: ssl.SSLContext) -> None:
        site = serving_application(
            application(cluster, queues),
            await listening_sockets(*parse_address(options.address)),
            context,
            keep_alive=KEEP_ALIVE,
            shutdown_timeout=5,
        )
        started(await servers.enter_async_context(site))
        ready.set()

    async def serve_files(certificate: Path, key: Path) -> None:
        files = CertificateFiles(certificate, key)
        await listen(files.context)
        await files.renew(CHECK_INTERVAL)

    async def serve_own() -> None:
        certificates = CertificateManager(
            client,
            options.namespace,
            clock=clock,
            more_hosts=options.hosts,
            scheduler_names=options.scheduler_names,
        )
        context: ssl.SSLContext | None = None
        backoff = Backoff(1.0, CHECK_INTERVAL)
        while True:
            pause = CHECK_INTERVAL
            try:
                pair = await certificates.check()
                if context is None:
                    context = server_context(pair)
                    await listen(context)
                else:
                    server_context(pair, context)
                backoff.reset()
            except (*API_ERRORS, SecretNotFoundError) as error:
                pause = backoff.pause()
                _LOG.warning("certificates not checked", why=str(error), retry_in=round(pause, 1))
            await clock.sleep(pause)

    if options.certificate is not None and options.key is not None:
        serving_work = serve_files(options.certificate, options.key)
    else:
        serving_work = serve_own()
    tasks: list[asyncio.Task[Any]] = []
    try:
        await servers.enter_async_context(
            serving(
                None,
                ready.is_set,
                not_ready="no certificate yet",
                metrics_address="",
                health_address=options.health_address,
            )
        )
        for reflector in reflectors:
            reflector.start()
        tasks = [
            asyncio.create_task(serving_work, name="certificates"),
            asyncio.create_task(stop.wait()),
        ]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await end(*tasks)
        await asyncio.gather(*(reflector.stop() for reflector in reflectors))
        await servers.aclose()


class NamespaceReader(StatusReader[ObjectWire]):
    """Stores the queues that namespaces name for their PodGroups, by an annotation as in Volcano.

    The core has no need of namespaces.
    """

    def __init__(self, queues: dict[str, str]) -> None:
        super().__init__(ObjectWire, queues)

    def objects(self, wire: ObjectWire, issues: Findings) -> KeyedObjects | None:
        meta = wire.metadata
        queue = (meta.annotations or {}).get(wellknown.SCHEDULING_QUEUE_NAME)
        if queue:
            self._observed[meta.name or ""] = queue
        else:
            self._observed.pop(meta.name or "", None)
        return ()


def _reflectors(
    client: Client, options: Options, cluster: rules.ClusterFacts, clock: Clock
) -> list[Reflector]:
    def take(events: list[Event]) -> None:
        for event in events:
            cluster.take(event)

    registry = installed_registry()
    watched = watched_kinds(
        Observed(queues=cluster.observed),
        options.configuration_map,
        component=Watcher.ADMISSION,
        registry=registry,
    )
    watched.append((WatchTarget(NAMESPACES), NamespaceReader(cluster.namespace_queues)))
    return [Reflector(client, target, reader, take, clock=clock) for target, reader in watched]
