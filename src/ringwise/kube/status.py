"""What people and controllers read about jobs: PodGroup status, pod conditions, events.

Two lanes. *News* is what others wait for: a PodGroup that is let in makes its controller create pods.
*Chatter* is for people: conditions and events; it gives way to bindings. In both lanes a newer word
about an object replaces one that was not written yet.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

from ringwise.kube.chains import GivenUpError, Persistence
from ringwise.kube.client import STRATEGIC_PATCH, ApiError, Client
from ringwise.kube.clock import Clock
from ringwise.kube.lease import Fence
from ringwise.kube.notes import Note, Subject, rfc3339, sentence
from ringwise.kube.observer import Nobody, Observer
from ringwise.kube.readers import GroupNote
from ringwise.kube.resources import EVENTS, POD_GROUPS, PODS, VCJOBS, Resource
from ringwise.scheduler.commands import Bind, SetGroupStatus, TellPod

_LOG = structlog.get_logger("ringwise.kube")

#: Events per second, and how many may come at once.
EVENT_RATE = 50.0
EVENT_BURST = 200
#: Words that wait to be written; above that the oldest is dropped and counted.
MOST_WAITING = 20_000
#: Seconds that chatter waits for bindings to end before a little of it is written all the same.
PATIENCE = 2.0
_ATTEMPTS = 5

Write = Callable[[], Awaitable[object]]

_READY = "tasks in gang are ready to be scheduled"


class Lane:
    """Words by object, written by a few workers in the order in which objects came up."""

    def __init__(
        self,
        name: str,
        persistence: Persistence,
        workers: int,
        observer: Observer,
        gate: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._name = name
        self._persistence = persistence
        self._most = workers
        self._observer = observer
        self._gate = gate
        self._waiting: dict[str, Write] = {}
        #: Objects that are being written: the next word about them waits, or it could be overtaken.
        self._busy: set[str] = set()
        self._workers: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, key: str, write: Write) -> None:
        if len(self._waiting) >= MOST_WAITING and key not in self._waiting:
            del self._waiting[next(iter(self._waiting))]
            self._observer.status_dropped(self._name)
        self._waiting[key] = write
        if len(self._workers) < self._most:
            worker = asyncio.create_task(self._work(), name=f"status {self._name}")
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def _work(self) -> None:
        while self._waiting:
            if self._gate is not None:
                await self._gate()
            key = next((key for key in self._waiting if key not in self._busy), None)
            if key is None:
                # Whoever writes these objects now takes up what waits for them.
                break
            write = self._waiting.pop(key)
            self._busy.add(key)
            try:
                await self._persistence.insist(write, _ATTEMPTS)
            except GivenUpError as error:
                # Gone objects need no word any more.
                if error.status != 404:
                    self._observer.status_dropped(self._name)
                    _LOG.info("status not written", object=key, why=str(error))
            finally:
                self._busy.discard(key)
        self._observer.queue_length(self._name, len(self._waiting))

    async def finish(self) -> None:
        while self._workers:
            await asyncio.gather(*self._workers, return_exceptions=True)

    async def stop(self) -> None:
        self._waiting.clear()
        for worker in list(self._workers):
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)


class StatusWriter:
    def __init__(
        self,
        client: Client,
        fence: Fence,
        groups: Mapping[str, GroupNote],
        *,
        clock: Clock,
        binding: asyncio.Event | None = None,
        observer: Observer | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self._client = client
        self._groups = groups
        self._clock = clock
        #: Set while nothing is being bound.
        self._idle = binding
        observer = observer or Nobody()
        self._observer: Observer = observer
        persistence = Persistence(fence, clock, chance)
        self.news = Lane("news", persistence, 8, observer)
        self.chatter = Lane("chatter", persistence, 4, observer, self._wait_for_bindings)
        #: Groups we have said something about.
        self._told: set[str] = set()
        self._tokens = float(EVENT_BURST)
        self._filled = clock.monotonic()
        self._written = 0
        #: Kinds whose CRD has no status of its own; theirs is a part of the object.
        self._plain: set[str] = set()

    # -- what is told ---------------------------------------------------------------------

    def group(self, command: SetGroupStatus) -> None:
        namespace, _, name = command.key.partition("/")
        known = self._groups.get(command.key)
        if known is not None and command.key not in self._told and _says(known, command):
            # Written before we were born. Later words are news in any case: an older one may be on its way.
            return
        self._told.add(command.key)
        if len(self._told) > 2 * len(self._groups) + 1000:
            self._told.intersection_update(self._groups)
        status = _group_status(command, self._clock.now())
        self.news.put(
            f"PodGroup {command.key}",
            lambda: self.write_status(POD_GROUPS, namespace, name, status),
        )
        if command.reason is not None:
            text = sentence(command.reason)
            self.note(_group_subject(namespace, name, known), "Unschedulable", text, warning=True)
            if known is not None and known.owner is not None and known.owner.kind == VCJOBS.kind:
                owner = Subject(VCJOBS.version, VCJOBS.kind, namespace, known.owner.name, known.owner.uid)
                message = f"PodGroup {namespace}:{known.owner.name} unschedulable, reason: {text}"
                self.note(owner, "PodGroupPending", message, warning=True)

    def pod(self, command: TellPod) -> None:
        text = sentence(command.reason)
        body = {
            "metadata": {"uid": command.uid},
            "status": {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": text,
                        "lastTransitionTime": rfc3339(self._clock.now()),
                    }
                ]
            },
        }
        self.chatter.put(
            f"Pod {command.namespace}/{command.pod}",
            lambda: self._client.patch(
                PODS,
                command.namespace,
                command.pod,
                body,
                subresource="status",
                content_type=STRATEGIC_PATCH,
            ),
        )
        subject = Subject("v1", "Pod", command.namespace, command.pod, command.uid)
        self.note(subject, "FailedScheduling", text, warning=True)

    def bound(self, bind: Bind) -> None:
        subject = Subject("v1", "Pod", bind.namespace, bind.pod, bind.uid)
        self.note(subject, "Scheduled", f"Successfully assigned {bind.namespace}/{bind.pod} to {bind.node}")

    def note(self, subject: Subject, reason: str, message: str, *, warning: bool = False) -> None:
        """An event on an object; at most one of a kind waits."""
        note = Note(subject, reason, message, warning)
        self.chatter.put(
            f"Event {subject.kind} {subject.namespace}/{subject.name} {reason}",
            lambda: self._write_note(note),
        )

    # -- writing ------------------------------------------------------------------------------

    async def write_status(
        self, resource: Resource, namespace: str, name: str, status: Mapping[str, Any]
    ) -> None:
        """Through the status subresource; where the CRD has none, as a part of the object."""
        body = {"status": dict(status)}
        if resource.plural not in self._plain:
            try:
                await self._client.patch(resource, namespace, name, body, subresource="status")
                return
            except ApiError as error:
                if error.status != 404:
                    raise
        await self._client.patch(resource, namespace, name, body)
        # The object is there although its status was not: the CRD has none.
        self._plain.add(resource.plural)

    async def _write_note(self, note: Note) -> None:
        if not self._may_write_note():
            self._observer.status_dropped("event")
            return
        self._written += 1
        await self._client.create(
            EVENTS, note.subject.namespace or "default", note.body(self._clock.now(), self._written)
        )

    def _may_write_note(self) -> bool:
        moment = self._clock.monotonic()
        self._tokens = min(EVENT_BURST, self._tokens + (moment - self._filled) * EVENT_RATE)
        self._filled = moment
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    async def _wait_for_bindings(self) -> None:
        if self._idle is None or self._idle.is_set():
            return
        try:
            async with asyncio.timeout(PATIENCE):
                await self._idle.wait()
        except TimeoutError:
            return

    async def finish(self) -> None:
        await self.news.finish()
        await self.chatter.finish()

    async def stop(self) -> None:
        await self.news.stop()
        await self.chatter.stop()


def _group_subject(namespace: str, name: str, known: GroupNote | None) -> Subject:
    return Subject(
        POD_GROUPS.version, POD_GROUPS.kind, namespace, name, known.uid if known is not None else ""
    )


def _condition(command: SetGroupStatus) -> dict[str, str] | None:
    if command.reason is not None:
        return {
            "type": "Unschedulable",
            "status": "True",
            "reason": command.reason.kind.stage.value,
            "message": sentence(command.reason),
        }
    if command.phase in ("Running", "Completed"):
        return {"type": "Scheduled", "status": "True", "reason": _READY, "message": ""}
    return None


def _group_status(command: SetGroupStatus, now: int) -> dict[str, Any]:
    status: dict[str, Any] = {
        "phase": command.phase,
        "running": command.running,
        "succeeded": command.succeeded,
        "failed": command.failed,
    }
    condition = _condition(command)
    if condition is not None:
        moment = rfc3339(now)
        status["conditions"] = [{**condition, "lastTransitionTime": moment, "transitionID": f"{now:x}"}]
    return status


def _says(known: GroupNote, command: SetGroupStatus) -> bool:
    """Whether the object tells the same already."""
    status = known.status
    counts = (status.running or 0, status.succeeded or 0, status.failed or 0)
    if status.phase != command.phase or counts != (command.running, command.succeeded, command.failed):
        return False
    condition = _condition(command)
    if condition is None:
        return True
    last = status.conditions[-1] if status.conditions else None
    return last is not None and condition == {
        "type": last.type,
        "status": last.status,
        "reason": last.reason or "",
        "message": last.message or "",
    }
