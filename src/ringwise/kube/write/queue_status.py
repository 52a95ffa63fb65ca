"""The status of Queues, as `kubectl get queue -o yaml` shows it: written about once a second, at most."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ringwise.kube.watch.facts import Facts
from ringwise.kube.watch.readers import QueueReader
from ringwise.kube.write.status_queue import Lane
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.resources import QUEUES
from ringwise.manifests.errors import Findings
from ringwise.manifests.quantities import written
from ringwise.manifests.wire import QueueStatus, QueueWire
from ringwise.messages.commands import SetQueueStatus

#: Seconds between two words about the same queue. Jobs come in hundreds; people look at the sum.
EVERY = 1.0
#: With very many queues they take turns.
MOST_PER_SECOND = 20.0
PHASES = ("Pending", "Inqueue", "Running", "Unknown", "Completed")


@dataclass(frozen=True, slots=True)
class QueueNote:
    """Of a Queue's status what must be known to write it: the state, if any, and what `allocated` lists."""

    state: str
    allocated: frozenset[str]


class NotingQueueReader(QueueReader):
    def __init__(self, notes: dict[str, QueueNote]) -> None:
        super().__init__()
        self._notes = notes

    def facts(self, wire: QueueWire, found: Findings) -> Facts | None:
        facts = super().facts(wire, found)
        status = wire.status or QueueStatus()
        listed = status.allocated if isinstance(status.allocated, dict) else {}
        for key, _ in facts or ():
            self._notes[key] = QueueNote(status.state or "", frozenset(listed))
        return facts

    def forget(self, key: str) -> None:
        self._notes.pop(key, None)


class QueueWriter:
    def __init__(
        self,
        client: Client,
        lane: Lane[Callable[[], Awaitable[object]]],
        notes: Mapping[str, QueueNote],
        clock: Clock,
    ) -> None:
        self._client = client
        self._lane = lane
        self._notes = notes
        self._clock = clock
        self._waiting: dict[str, SetQueueStatus] = {}
        self._pacer: asyncio.Task[None] | None = None

    def put(self, command: SetQueueStatus) -> None:
        self._waiting[command.name] = command
        if self._pacer is None:
            self._pacer = asyncio.create_task(self._pace(), name="status of queues")

    async def _pace(self) -> None:
        """The first word goes out at once, the next when its time has come."""
        while self._waiting:
            words, self._waiting = self._waiting, {}
            for command in words.values():
                self._lane.put(f"Queue {command.name}", partial(self._write, command))
            await self._clock.sleep(max(EVERY, len(words) / MOST_PER_SECOND))
        self._pacer = None

    async def _write(self, command: SetQueueStatus) -> None:
        note = self._notes.get(command.name)
        # A queue without an object, as `default` where nobody made it, has nothing to be written on.
        if note is not None:
            body = {"status": status_of(command, note)}
            await self._client.patch(QUEUES, "", command.name, body, subresource="status")

    async def finish(self) -> None:
        if self._pacer is not None:
            await self._pacer

    async def stop(self) -> None:
        if self._pacer is not None:
            self._pacer.cancel()
            await asyncio.gather(self._pacer, return_exceptions=True)


def status_of(command: SetQueueStatus, note: QueueNote) -> dict[str, Any]:
    allocated: dict[str, str | None] = dict.fromkeys(sorted(note.allocated))
    allocated |= {name: written(name, amount) for name, amount in sorted(command.allocated.items())}
    status: dict[str, Any] = {phase.lower(): command.groups.get(phase, 0) for phase in PHASES}
    status["allocated"] = allocated
    # People open and close queues: of their word only what is missing is added, and the end of closing.
    if not note.state or (note.state, command.state) == ("Closing", "Closed"):
        status["state"] = command.state
    return status
