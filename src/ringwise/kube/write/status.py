"""What people and controllers read about jobs: status of PodGroups and queues, pod conditions, events.

Three lanes. *News* is what others wait for: a PodGroup that is let in makes its controller create pods.
*Chatter* (conditions) and *events* are for people and give way to bindings. Events come at a bounded rate;
those beyond it wait in a lane of their own, so conditions do not stand behind them. In all lanes a newer
word about an object replaces one that was not written yet.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from ringwise.kube.observer import Nobody, Observer
from ringwise.kube.run.leader_election import Fence
from ringwise.kube.watch.malformed import BadObject
from ringwise.kube.watch.readers import GroupNote
from ringwise.kube.write.event_recorder import Note, Subject, rfc3339, sentence
from ringwise.kube.write.ordered_work import Persistence
from ringwise.kube.write.queue_status import QueueNote, QueueWriter
from ringwise.kube.write.status_queue import Lane, Rate
from ringwise.kubeclient.client import STRATEGIC_PATCH, ApiError, Client
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.resources import (
    CONFIG_MAPS,
    EVENTS,
    JOB_COMMANDS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    VCJOBS,
    Resource,
)
from ringwise.manifests.errors import one_line
from ringwise.messages.commands import Bind, SetGroupStatus, TellPod

#: Events per second, and how many may come at once.
EVENT_RATE = 50.0
EVENT_BURST = 200
#: Seconds that chatter waits for bindings to end before a little of it is written all the same.
PATIENCE = 2.0
#: Events about one object that cannot be read; `doctor` lists all its problems.
MOST_PROBLEMS = 5

Write = Callable[[], Awaitable[object]]
#: Namespace, name and uid of a pod, its node and the time of the binding: all that its event says. The
#: binding itself, with all its annotations, would be kept for as long as the event waits.
Assigned = tuple[str, str, str, str, int]

_READ = (CONFIG_MAPS, JOB_COMMANDS, NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES, VCJOBS)
_VERSIONS = {resource.kind: resource.version for resource in _READ}
_READY = "tasks in gang are ready to be scheduled"


class StatusWriter:
    def __init__(
        self,
        client: Client,
        fence: Fence,
        groups: Mapping[str, GroupNote],
        *,
        clock: Clock,
        queues: Mapping[str, QueueNote] | None = None,
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
        persistence = Persistence(fence, clock, chance)
        self.news: Lane[Write] = Lane("news", _carry_out, persistence, 8, observer, lasting=True)
        self.chatter: Lane[Write] = Lane(
            "chatter", _carry_out, persistence, 4, observer, self._wait_for_bindings
        )
        self.queues = QueueWriter(client, self.news, {} if queues is None else queues, clock)
        self._rate = Rate(clock, EVENT_RATE, EVENT_BURST)
        self.events: Lane[tuple[Note, int] | Assigned] = Lane(
            "events", self._write_event, persistence, 4, observer, self._wait_for_my_turn
        )
        #: Groups we have said something about.
        self._told: set[str] = set()
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
            command.uid,
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
        # Under the pod's uid: once it is bound, it is not told any more that it was not.
        self._put_note(command.uid, Note(subject, "FailedScheduling", text, warning=True))

    def to_be_bound(self, binds: Iterable[Bind]) -> None:
        """These pods get their nodes: a condition that is not written yet would come after the fact."""
        if not self.chatter.is_silent:
            for bind in binds:
                self.chatter.withdraw(bind.uid)

    def bound(self, bind: Bind) -> None:
        """Called for every pod between two bindings: it keeps the little that is needed later."""
        self.events.put(bind.uid, (bind.namespace, bind.pod, bind.uid, bind.node, self._clock.now()))

    def note(self, subject: Subject, reason: str, message: str, *, warning: bool = False) -> None:
        """An event on an object; at most one of a kind waits."""
        key = f"Event {subject.kind} {subject.namespace}/{subject.name} {reason}"
        self._put_note(key, Note(subject, reason, message, warning))

    def malformed(self, bad: BadObject) -> None:
        """Each problem of an object that cannot be read, once: the next leader finds the event there."""
        version = _VERSIONS.get(bad.kind)
        if version is None or not bad.is_named:
            return
        namespace, _, name = bad.key.rpartition("/")
        subject = Subject(version, bad.kind, namespace, name, bad.uid)
        for problem in bad.problems[:MOST_PROBLEMS]:
            mark = hashlib.sha256(f"{bad.kind} {bad.uid} {problem}".encode(errors="replace")).hexdigest()[:16]
            message = one_line(f"Ringwise cannot read this object: {problem}")
            note = Note(subject, "Malformed", message, warning=True, mark=mark)
            self._put_note(f"Malformed {bad.kind} {bad.key} {mark}", note)

    def _put_note(self, key: str, note: Note) -> None:
        self.events.put(key, (note, self._clock.now()))

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

    async def _write_event(self, word: tuple[Note, int] | Assigned) -> None:
        if len(word) == 2:
            note, happened = word
        else:
            namespace, pod, uid, node, happened = word
            note = Note(
                Subject("v1", "Pod", namespace, pod, uid),
                "Scheduled",
                f"Successfully assigned {namespace}/{pod} to {node}",
            )
        # The same name with every attempt: an event whose first attempt had no answer is not told twice.
        number = zlib.crc32(f"{note.subject.kind} {note.reason}".encode())
        try:
            await self._client.create(
                EVENTS, note.subject.namespace or "default", note.body(happened, number)
            )
        except ApiError as error:
            if error.status != 409 or error.reason != "AlreadyExists":
                raise

    async def _wait_for_my_turn(self) -> None:
        await self._rate.turn()
        await self._wait_for_bindings()

    async def _wait_for_bindings(self) -> None:
        if self._idle is None or self._idle.is_set():
            return
        try:
            async with asyncio.timeout(PATIENCE):
                await self._idle.wait()
        except TimeoutError:
            return

    async def finish(self) -> None:
        await self.queues.finish()
        for lane in (self.news, self.chatter, self.events):
            await lane.finish()

    async def stop(self) -> None:
        await self.queues.stop()
        for lane in (self.news, self.chatter, self.events):
            await lane.stop()


async def _carry_out(write: Write) -> None:
    await write()


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
