"""Kubernetes Events on pods, PodGroups and jobs, written at a limited rate."""

from __future__ import annotations

import hashlib
import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from ringwise.kube.watch.invalid_objects import BadObject
from ringwise.kube.write.context import WriteContext
from ringwise.kube.write.status_queue import MAX_EVENT_WAIT, Precedence, StatusQueue
from ringwise.kube.write.tenant_text import cut_text, reason_message
from ringwise.kubeclient.clock import RateLimit
from ringwise.kubeclient.resources import EVENTS, JOB_COMMANDS, PODS, Resource
from ringwise.kubeclient.retry import Retrier
from ringwise.manifests.kinds import KINDS
from ringwise.manifests.text.errors import one_line
from ringwise.manifests.text.quantities import rfc3339
from ringwise.messages.commands import Bind, SetPodCondition
from ringwise.messages.event_reasons import EventReason
from ringwise.records import dataclass

COMPONENT = "ringwise"
#: Events per second, and how many may be written at once.
EVENT_RATE = 50.0
EVENT_BURST = 200
#: Seconds between two bursts: many events in a row cost a third of the processor time of single ones.
EVENT_PAUSE = 4.0
EVENT_WORKERS = 32
#: Events that wait, above which a pod that was bound at its first attempt gets none: in a storm of pods they
#: would be written minutes later. The recorder of other components of Kubernetes has the same bound.
MAX_ROUTINE_WAITING = 1000
#: Under this kind those are counted that are not written because of it.
ROUTINE_EVENTS = "scheduled-events"
#: Pods with an event that says why they wait, not bound yet; above that the oldest is forgotten.
MAX_PENDING_PODS = 20_000
#: Events on one object that cannot be read; `doctor` lists all its problems.
MAX_PROBLEM_EVENTS = 5

_VERSIONS = {resource.kind: resource.version for resource in (JOB_COMMANDS, *(one.resource for one in KINDS))}


class ObjectReference(msgspec.Struct, frozen=True, rename={"version": "apiVersion"}):
    """The object that an event is about."""

    version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""

    @classmethod
    def to(cls, resource: Resource, namespace: str, name: str, uid: str = "") -> ObjectReference:
        return cls(resource.version, resource.kind, namespace, name, uid)


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """A core/v1 Event before it is written."""

    regarding: ObjectReference
    reason: EventReason
    message: str
    warning: bool = False
    #: Last part of the event's name. One that does not change lets the server reject a second event of the
    #: same content, also from the next leader. Empty: it is made from the time.
    name_suffix: str = ""

    def body(self, now: int) -> Mapping[str, Any]:
        """Every attempt makes the same name, so a retry after a lost response creates no second event."""
        regarding = self.regarding
        timestamp = rfc3339(now)
        number = zlib.crc32(f"{regarding.kind} {self.reason}".encode()) & 0xFFFF
        return {
            "metadata": {
                "name": f"{regarding.name[:200].rstrip('-.')}.{self.name_suffix or f'{now:x}{number:04x}'}",
                "namespace": regarding.namespace or "default",
            },
            "involvedObject": msgspec.to_builtins(regarding),
            "type": "Warning" if self.warning else "Normal",
            "reason": self.reason,
            "message": cut_text(self.message),
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": COMPONENT,
            "firstTimestamp": timestamp,
            "lastTimestamp": timestamp,
            "count": 1,
        }


class EventRecorder:
    """Writes events. Bindings have precedence, and the rate is limited."""

    def __init__(self, context: WriteContext, retrier: Retrier, precedence: Precedence) -> None:
        self._client, self._clock, self._observer = context.client, context.clock, context.observer
        self._precedence = precedence
        #: Pods with an event that says why they wait: the event of their binding ends it, and is written.
        self._pending_pods: OrderedDict[str, None] = OrderedDict()
        self._rate_limit = RateLimit(EVENT_RATE, EVENT_BURST, context.clock, pause=EVENT_PAUSE)
        self.queue = StatusQueue("events", context, retrier, EVENT_WORKERS, self._wait)

    def record_once(self, regarding: ObjectReference, reason: EventReason, message: str) -> None:
        """A warning that is written once for each object and message, also by the next leader."""
        digest = _digest(f"{regarding.kind} {regarding.uid} {reason} {message}")
        key = f"{reason} {regarding.kind} {regarding.namespace}/{regarding.name} {digest}"
        self._put(key, partial(ObjectEvent, regarding, reason, message, True, digest))

    def record(
        self,
        regarding: ObjectReference,
        reason: EventReason,
        message: str,
        *,
        warning: bool = False,
        key: str = "",
    ) -> None:
        """An event on an object.

        Of two that wait under one key (by default: object and reason) the newer stays.
        """
        key = key or f"Event {regarding.kind} {regarding.namespace}/{regarding.name} {reason}"
        self._put(key, partial(ObjectEvent, regarding, reason, message, warning))

    def scheduled(self, bind: Bind) -> None:
        """The pod is bound. Called between two bindings for every pod, so it only keeps what is needed later.

        It replaces a FailedScheduling event of the same pod that still waits.
        """
        if bind.uid in self._pending_pods:
            del self._pending_pods[bind.uid]
        elif len(self.queue) >= MAX_ROUTINE_WAITING:
            self._observer.dropped_updates.inc(ROUTINE_EVENTS)
            return
        # All that its event needs: the command with its annotations would be kept for as long as it waits.
        self._put(bind.uid, partial(_scheduled, bind.namespace, bind.pod, bind.uid, bind.node))

    def unschedulable(self, command: SetPodCondition) -> None:
        """Under the pod's uid, too: the event of its binding replaces this one."""
        self._pending_pods[command.uid] = None
        if len(self._pending_pods) > MAX_PENDING_PODS:
            self._pending_pods.popitem(last=False)
        self._put(command.uid, partial(_failed_scheduling, command))

    def malformed(self, bad: BadObject) -> None:
        """Each problem of an object that cannot be read, once: the next leader finds the event there."""
        version = _VERSIONS.get(bad.kind)
        if version is None or not bad.is_named:
            return
        namespace, _, name = bad.key.rpartition("/")
        regarding = ObjectReference(version, bad.kind, namespace, name, bad.uid)
        for problem in bad.problems[:MAX_PROBLEM_EVENTS]:
            digest = _digest(f"{bad.kind} {bad.uid} {problem}")
            message = one_line(f"Ringwise cannot read this object: {problem}")
            event = partial(ObjectEvent, regarding, EventReason.MALFORMED, message, True, digest)
            self._put(f"Malformed {bad.kind} {bad.key} {digest}", event)

    def _put(self, key: str, make: Callable[[], ObjectEvent]) -> None:
        self.queue.put(key, partial(self._write, make, self._clock.now()))

    async def _write(self, make: Callable[[], ObjectEvent], time: int) -> None:
        event = make()
        namespace = event.regarding.namespace or "default"
        await self._client.create_if_missing(EVENTS, namespace, event.body(time))

    async def _wait(self, since: float) -> None:
        await self._rate_limit.wait()
        await self._precedence.wait(since, MAX_EVENT_WAIT)


def _scheduled(namespace: str, name: str, uid: str, node: str) -> ObjectEvent:
    pod = ObjectReference.to(PODS, namespace, name, uid)
    return ObjectEvent(pod, EventReason.SCHEDULED, f"Successfully assigned {namespace}/{name} to {node}")


def _failed_scheduling(command: SetPodCondition) -> ObjectEvent:
    pod = ObjectReference.to(PODS, command.namespace, command.pod, command.uid)
    return ObjectEvent(
        pod, EventReason.FAILED_SCHEDULING, reason_message(command.reason, command.namespace), warning=True
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
