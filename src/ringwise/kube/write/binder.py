"""Executes bindings: one request each, many concurrently, and never a guess about the outcome.

    POST ──201──> bound
     │ ├─404─────────────────────────> failed: the pod is gone
     │ ├─429, not sent ──> wait ──> POST
     │ └─409, 5xx, no answer ──> read the pod
     │        ├─ on the node, with the annotations ──> bound
     │        ├─ without a node ──> wait ──> POST
     └────────└─ gone, or bound by another scheduler ──> failed

Every POST goes through the write gate of the client: credentials first, then the fence, then one attempt.
Chips are released only when it is known that the pod did not get them. The timeout of the server is shorter
than the one here, so a request without an answer has ended before the pod is read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping

import msgspec

from ringwise.kube.write.context import WriteContext
from ringwise.kube.write.fence import CANCEL_MARGIN, MIN_FENCE_GAP
from ringwise.kubeclient.client import (
    API_ERRORS,
    MAX_CONFLICTS,
    MERGE_PATCH,
    ApiError,
    Client,
    FencedError,
    UnreachableError,
)
from ringwise.kubeclient.credentials import KubeConfigError
from ringwise.kubeclient.resources import PODS
from ringwise.kubeclient.retry import Backoff
from ringwise.log import Logger
from ringwise.manifests.text.wire import ObjectWire
from ringwise.messages.commands import Bind
from ringwise.messages.events import BindFailed
from ringwise.wellknown import ASCEND_REAL, PREDICATE_TIME

_LOG = Logger()

#: Concurrent requests.
MAX_IN_FLIGHT = 64
#: Seconds after which the binding of a pod that still has no node is given up.
BIND_DEADLINE = 30.0
#: Seconds for one request. Also the last one before the fence closed ends within the fence gap.
_TIMEOUT = MIN_FENCE_GAP - CANCEL_MARGIN
#: The device plugin changes these on a pod that has started, so they do not tell who bound it.
_CHANGED_LATER = frozenset({PREDICATE_TIME, ASCEND_REAL})


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str | None = None


class _Pod(ObjectWire):
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _BindFailedError(Exception):
    """It is certain that the pod was not bound."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind


class Binder:
    def __init__(
        self,
        context: WriteContext,
        *,
        on_failed: Callable[[BindFailed], None],
        on_bound: Callable[[Bind], None] = lambda bind: None,
        in_flight: int = MAX_IN_FLIGHT,
    ) -> None:
        self._context = context
        self._client, self._clock, self._observer = context.client, context.clock, context.observer
        self._on_failed = on_failed
        self._on_bound = on_bound
        self._in_flight = in_flight
        self._slots = asyncio.Semaphore(in_flight)
        #: Bindings that pause before their next attempt. Others are made meanwhile: one that always fails,
        #: because of its pod or its namespace, must not delay them.
        self._paused = 0
        self._waiting: deque[tuple[Bind, float]] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._stopping = False
        #: Set while there is nothing to bind.
        self.idle = asyncio.Event()
        self.idle.set()

    def submit(self, binds: Iterable[Bind]) -> None:
        moment = self._clock.monotonic()
        new = [(bind, moment) for bind in binds]
        self._waiting.extend(new)
        self._observer.queue_length("bindings", len(self._waiting))
        self._start_workers()

    def _start_workers(self) -> None:
        for _ in range(min(len(self._waiting), self._in_flight + self._paused - len(self._workers))):
            worker = asyncio.create_task(self._work(), name="binder")
            self._workers.add(worker)
            worker.add_done_callback(self._ended)
            self.idle.clear()

    async def stop(self) -> None:
        """Bindings that were not sent yet fail; those under way are awaited."""
        self._stopping = True
        while self._waiting:
            bind, _ = self._waiting.popleft()
            self._fail(bind, _BindFailedError("stopped", "the scheduler is stopping"))
        await asyncio.gather(*self._workers, return_exceptions=True)

    def _ended(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        if not self._workers and not self._waiting:
            self.idle.set()

    async def _work(self) -> None:
        while self._waiting and len(self._workers) <= self._in_flight + self._paused:
            bind, decided = self._waiting.popleft()
            try:
                await self._bind(bind, decided)
            except _BindFailedError as failure:
                self._fail(bind, failure)
            except Exception as defect:
                _LOG.exception("internal error while binding", pod=f"{bind.namespace}/{bind.pod}")
                self._fail(bind, _BindFailedError("defect", f"internal error: {defect}"))
            else:
                self._observer.bound(self._clock.monotonic() - decided)
                self._on_bound(bind)
        self._observer.queue_length("bindings", len(self._waiting))
        # Here and not in a callback: a binding submitted in between would rely on a worker that has ended.
        if (worker := asyncio.current_task()) is not None:
            self._workers.discard(worker)

    def _fail(self, bind: Bind, failure: _BindFailedError) -> None:
        self._observer.bind_failed(failure.kind)
        if not self._context.namespaces.explain(str(failure)):
            _LOG.warning("not bound", pod=f"{bind.namespace}/{bind.pod}", node=bind.node, why=str(failure))
        self._on_failed(BindFailed(bind.uid, str(failure)))

    async def _bind(self, bind: Bind, decided: float) -> None:
        backoff: Backoff | None = None
        conflicts = 0
        while True:
            pause = 0.0
            try:
                async with self._slots:
                    await self._wait_for_rate_limit()
                    if bind.remove:
                        await self._remove_stray(bind)
                    await post_binding(self._client, bind)
                    return
            except ApiError as error:
                kind, why, unclear = error.kind, str(error), error.status == 409 or error.status >= 500
                pause = error.retry_after or 0.0
                conflicts += error.status == 409
                if not unclear and error.status != 429:
                    raise _BindFailedError(kind, why) from None
            except FencedError as error:
                raise _BindFailedError("fenced", str(error)) from None
            except UnreachableError as error:
                kind, why, unclear = error.kind, str(error), error.maybe_done
            except KubeConfigError as error:
                kind, why, unclear = "no-credentials", str(error), False
            self._observer.bind_retries.inc(kind)
            if unclear and await self._is_bound(bind):
                return
            waited = self._clock.monotonic() - decided
            if waited >= BIND_DEADLINE or conflicts >= MAX_CONFLICTS:
                raise _BindFailedError(kind, why)
            backoff = backoff or Backoff(0.1, 5.0, self._context.rng)
            self._paused += 1
            self._start_workers()
            await self._clock.sleep(max(pause, backoff.pause()))
            self._paused -= 1

    async def _remove_stray(self, bind: Bind) -> None:
        """N8: owned annotations that a user copied would outlive the binding, which only sets its own."""
        body = {"metadata": {"uid": bind.uid, "annotations": dict.fromkeys(bind.remove)}}
        await self._client.request(
            "PATCH",
            PODS.path(bind.namespace, bind.pod),
            body=msgspec.json.encode(body),
            content_type=MERGE_PATCH,
            timeout=_TIMEOUT,
            rate_limited=False,
        )
        await self._wait_for_rate_limit()

    async def _wait_for_rate_limit(self) -> None:
        """Its turn may come late, and only then it is known whether the binding is still wanted."""
        await self._client.wait_for_rate_limit()
        if self._stopping or not self._context.fence.is_open:
            raise _BindFailedError("fenced", "this replica is no longer the leader")

    async def _is_bound(self, bind: Bind) -> bool:
        """Whether the pod is bound as decided; retried until there is an answer."""
        backoff = Backoff(0.1, 5.0, self._context.rng)
        while True:
            try:
                pod = await self._client.find(PODS, bind.namespace, bind.pod, _Pod)
            except API_ERRORS as error:
                why = str(error)
            else:
                return _matches(bind, pod)
            if self._stopping or not self._context.fence.is_open:
                # The state is read again before the next decision, so an unknown outcome does no harm.
                raise _BindFailedError("fenced", f"it is not known whether it was bound: {why}")
            await self._clock.sleep(backoff.pause())


def _matches(bind: Bind, pod: _Pod | None) -> bool:
    if pod is None:
        raise _BindFailedError("not-found", "the pod is gone")
    if pod.metadata.uid != bind.uid:
        raise _BindFailedError("replaced", "another pod has its name now")
    node = pod.spec.node_name
    if not node:
        if pod.metadata.deletion_timestamp is not None:
            raise _BindFailedError("not-found", "the pod is being deleted")
        return False
    if node != bind.node:
        raise _BindFailedError("taken", f"it was bound to {node} by another scheduler")
    current = pod.metadata.annotations or {}
    differing = sorted(_differing(bind.annotations, current))
    # With the time of this decision it is our binding, and the pod was edited since: it has the chips.
    if differing and current.get(PREDICATE_TIME) != bind.annotations.get(PREDICATE_TIME, ""):
        raise _BindFailedError(
            "taken", f"it was bound to {node} by another scheduler, with another {differing[0]}"
        )
    return True


def _differing(ours: Mapping[str, str], theirs: Mapping[str, str | None]) -> Iterable[str]:
    return (key for key, value in ours.items() if key not in _CHANGED_LATER and theirs.get(key) != value)


async def post_binding(client: Client, bind: Bind) -> None:
    """Chips and node in one request. With the uid it cannot bind another pod of the same name."""
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": bind.pod,
            "namespace": bind.namespace,
            "uid": bind.uid,
            "annotations": bind.annotations,
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
    }
    path = PODS.path(bind.namespace, bind.pod, "binding")
    # The caller has waited for the rate limit.
    await client.request("POST", path, body=msgspec.json.encode(body), timeout=_TIMEOUT, rate_limited=False)
