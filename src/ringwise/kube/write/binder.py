"""Carries out bindings: one request each, many at once, and never a guess about the outcome.

    POST ──201──> bound
     │ ├─404─────────────────────────> failed: the pod is gone
     │ ├─429, not sent ──> wait ──> POST
     │ └─409, 5xx, no answer ──> look at the pod
     │        ├─ on our node with our annotations ──> bound
     │        ├─ without a node ──> wait ──> POST
     └────────└─ gone, or bound by somebody else ──> failed

Chips are given back only when it is known that the pod did not get them. The server is told to give up
before we stop waiting, so a request without an answer has ended before the pod is looked at.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping

import msgspec
import structlog

from ringwise.kube.observer import Nobody, Observer
from ringwise.kube.run.leader_election import SMALLEST_GAP, Fence
from ringwise.kubeclient.client import ApiError, Client, UnreachableError
from ringwise.kubeclient.clock import Backoff, Clock
from ringwise.kubeclient.credentials import KubeConfigError
from ringwise.kubeclient.resources import PODS
from ringwise.messages.commands import Bind
from ringwise.messages.events import BindFailed
from ringwise.wellknown import ASCEND_REAL, PREDICATE_TIME

_LOG = structlog.get_logger("ringwise.kube")

#: Requests under way at once.
IN_FLIGHT = 64
#: Seconds after which a pod that is still without a node is given back.
GIVE_UP = 30.0
#: Conflicts with a pod that has no node all the same: it is gated or being deleted.
MOST_CONFLICTS = 5
#: The server's own limit is below ours, and both below the gap between fence and lease.
_SERVER_TIMEOUT = "timeout=4s"
_TIMEOUT = SMALLEST_GAP - 0.5
#: What the device plugin writes on a pod that has started: it does not tell who bound it.
_LATER_WRITTEN = frozenset({PREDICATE_TIME, ASCEND_REAL})


class _Meta(msgspec.Struct, rename="camel"):
    uid: str = ""
    annotations: dict[str, str | None] | None = None
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _FailedError(Exception):
    """The pod did not get its node, for sure."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind


class Binder:
    def __init__(
        self,
        client: Client,
        fence: Fence,
        *,
        clock: Clock,
        failed: Callable[[BindFailed], None],
        bound: Callable[[Bind], None] = lambda bind: None,
        observer: Observer | None = None,
        chance: random.Random | None = None,
        in_flight: int = IN_FLIGHT,
    ) -> None:
        self._client = client
        self._fence = fence
        self._clock = clock
        self._failed = failed
        self._bound = bound
        self._observer: Observer = observer or Nobody()
        self._chance = chance or random.Random()
        self._in_flight = in_flight
        self._waiting: deque[tuple[Bind, float]] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._stopping = False
        #: Set while nothing is to be bound.
        self.idle = asyncio.Event()
        self.idle.set()

    def submit(self, binds: Iterable[Bind]) -> None:
        moment = self._clock.monotonic()
        new = [(bind, moment) for bind in binds]
        self._waiting.extend(new)
        self._observer.queue_length("bindings", len(self._waiting))
        for _ in range(min(len(new), self._in_flight - len(self._workers))):
            worker = asyncio.create_task(self._work(), name="binder")
            self._workers.add(worker)
            worker.add_done_callback(self._ended)
            self.idle.clear()

    async def stop(self) -> None:
        """What was not sent yet is given back; what is under way is awaited."""
        self._stopping = True
        while self._waiting:
            bind, _ = self._waiting.popleft()
            self._give_back(bind, _FailedError("stopped", "the scheduler is stopping"))
        await asyncio.gather(*self._workers, return_exceptions=True)

    def _ended(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        if not self._workers and not self._waiting:
            self.idle.set()

    async def _work(self) -> None:
        while self._waiting:
            bind, decided = self._waiting.popleft()
            try:
                await self._bind(bind, decided)
            except _FailedError as failure:
                self._give_back(bind, failure)
            except Exception as defect:
                _LOG.exception("defect while binding", pod=f"{bind.namespace}/{bind.pod}")
                self._give_back(bind, _FailedError("defect", f"internal error: {defect}"))
            else:
                self._observer.bound(self._clock.monotonic() - decided)
                self._bound(bind)
        self._observer.queue_length("bindings", 0)
        # Now, not in a callback: bindings that come in between would count on a worker that has ended.
        if (worker := asyncio.current_task()) is not None:
            self._workers.discard(worker)

    def _give_back(self, bind: Bind, failure: _FailedError) -> None:
        self._observer.bind_failed(failure.kind)
        _LOG.warning("not bound", pod=f"{bind.namespace}/{bind.pod}", node=bind.node, why=str(failure))
        self._failed(BindFailed(bind.uid, str(failure)))

    async def _bind(self, bind: Bind, decided: float) -> None:
        backoff: Backoff | None = None
        conflicts = 0
        while True:
            # Before the look at the fence: between that and the request no time may pass.
            await self._client.turn()
            if self._stopping or not self._fence.is_open:
                raise _FailedError("fenced", "this replica does not lead any more")
            pause = 0.0
            try:
                await post_binding(self._client, bind)
                return
            except ApiError as error:
                kind, why, unclear = error.kind, str(error), error.status == 409 or error.status >= 500
                pause = error.retry_after or 0.0
                conflicts += error.status == 409
                if not unclear and error.status != 429:
                    raise _FailedError(kind, why) from None
            except UnreachableError as error:
                kind, why, unclear = error.kind, str(error), error.maybe_done
            except KubeConfigError as error:
                kind, why, unclear = "no-credentials", str(error), False
            self._observer.bind_retried(kind)
            if unclear and await self._is_bound(bind):
                return
            waited = self._clock.monotonic() - decided
            if waited >= GIVE_UP or conflicts >= MOST_CONFLICTS:
                raise _FailedError(kind, why)
            backoff = backoff or Backoff(0.1, 5.0, self._chance)
            await self._clock.sleep(max(pause, backoff.pause()))

    async def _is_bound(self, bind: Bind) -> bool:
        """Whether the pod sits where it should; asked until there is an answer."""
        backoff = Backoff(0.1, 5.0, self._chance)
        while True:
            try:
                pod = await self._client.get(PODS, bind.namespace, bind.pod, _Pod)
            except ApiError as error:
                if error.status == 404:
                    raise _FailedError("not-found", "the pod is gone") from None
                why = str(error)
            except (UnreachableError, KubeConfigError) as error:
                why = str(error)
            else:
                return _judge(bind, pod)
            if self._stopping or not self._fence.is_open:
                # Nothing is decided on this state any more: it is read anew before the next decision.
                raise _FailedError("fenced", f"nobody knows whether it was bound: {why}")
            await self._clock.sleep(backoff.pause())


def _judge(bind: Bind, pod: _Pod) -> bool:
    if pod.metadata.uid != bind.uid:
        raise _FailedError("replaced", "another pod has its name now")
    node = pod.spec.node_name
    if not node:
        if pod.metadata.deletion_timestamp is not None:
            raise _FailedError("not-found", "the pod is being deleted")
        return False
    if node != bind.node:
        raise _FailedError("taken", f"somebody else bound it to {node}")
    differing = sorted(_differing(bind.annotations, pod.metadata.annotations or {}))
    if differing:
        raise _FailedError("taken", f"somebody else bound it to {node}, with another {differing[0]}")
    return True


def _differing(ours: Mapping[str, str], found: Mapping[str, str | None]) -> Iterable[str]:
    return (key for key, value in ours.items() if key not in _LATER_WRITTEN and found.get(key) != value)


async def post_binding(client: Client, bind: Bind) -> None:
    """Chips and node in one write; the uid makes sure that it is this pod and no namesake."""
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
    path = f"{PODS.path(bind.namespace, bind.pod, 'binding')}?{_SERVER_TIMEOUT}"
    await client.request("POST", path, body=msgspec.json.encode(body), timeout=_TIMEOUT)
