"""The status of Queue objects, written about once per second and queue at most.

Their state is not part of it: the controller and users write that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from ringwise.kube.watch.readers import ObservedQueue
from ringwise.kube.write.status_queue import StatusQueue
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.resources import QUEUES
from ringwise.kubeclient.tasks import end
from ringwise.manifests.text.quantities import written
from ringwise.messages.commands import SetQueueStatus

#: Seconds between two writes of one queue. Jobs come in hundreds; only the sum is of interest.
WRITE_INTERVAL = 1.0
#: With many queues the interval is longer, so that not more than this many writes a second are made.
MAX_WRITES_PER_SECOND = 20.0
PHASES = ("Pending", "Inqueue", "Running", "Unknown", "Completed")


class QueueStatusWriter:
    def __init__(
        self,
        client: Client,
        updates: StatusQueue[Callable[[], Awaitable[object]]],
        observed: Mapping[str, ObservedQueue],
        clock: Clock,
    ) -> None:
        self._client = client
        self._updates = updates
        self._observed = observed
        self._clock = clock
        self._waiting: dict[str, SetQueueStatus] = {}
        self._task: asyncio.Task[None] | None = None

    def put(self, command: SetQueueStatus) -> None:
        self._waiting[command.name] = command
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="status of queues")

    async def _run(self) -> None:
        """The first command is written at once; those that follow wait for the interval."""
        while self._waiting:
            commands, self._waiting = self._waiting, {}
            for command in commands.values():
                self._updates.put(f"Queue {command.name}", partial(self._write, command))
            await self._clock.sleep(max(WRITE_INTERVAL, len(commands) / MAX_WRITES_PER_SECOND))
        self._task = None

    async def _write(self, command: SetQueueStatus) -> None:
        observed = self._observed.get(command.name)
        # A queue without an object, such as `default` where it was not created, has no status to write.
        if observed is not None:
            body = {"status": queue_status(command, observed)}
            await self._client.patch(QUEUES, "", command.name, body, subresource="status")

    async def finish(self) -> None:
        if self._task is not None:
            await self._task

    async def stop(self) -> None:
        await end(self._task)


def queue_status(command: SetQueueStatus, observed: ObservedQueue) -> dict[str, Any]:
    # In a merge patch null removes a resource that is no longer allocated.
    allocated: dict[str, str | None] = dict.fromkeys(sorted(observed.allocated))
    allocated |= {name: written(name, amount) for name, amount in sorted(command.allocated.items())}
    status: dict[str, Any] = {phase.lower(): command.groups.get(phase, 0) for phase in PHASES}
    status["allocated"] = allocated
    return status
