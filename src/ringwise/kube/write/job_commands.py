"""Command objects (`bus.volcano.sh`): what a user asks for, such as to abort a job or to close a queue.

A command is deleted before it is carried out, so that it takes effect at most once, whatever fails in
between.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ringwise.kube.watch.objects import KeyedObjects
from ringwise.kube.watch.readers import ObjectReader
from ringwise.kube.write.ordered_work import OrderedWork
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.resources import JOB_COMMANDS, QUEUES, VCJOBS
from ringwise.kubeclient.retry import Retrier
from ringwise.manifests.objects.groups import command_from_wire
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.wire import CommandWire, MetaWire
from ringwise.messages.events import Event, JobCommand, QueueCommand


def job_command(
    namespace: str, job: str, uid: str, action: str, message: str, name: str = ""
) -> dict[str, Any]:
    """A Command for a vcjob; without a name the API server makes one. It goes with the job."""
    target = VCJOBS.reference(job, uid, controller=True, blockOwnerDeletion=False)
    named = {"name": name} if name else {"generateName": f"{job}-{action.lower()}-"}
    return {
        "metadata": {**named, "namespace": namespace, "ownerReferences": [target]},
        "action": action,
        "target": target,
        "message": message,
    }


class JobCommands(ObjectReader[CommandWire]):
    """Reads the commands, and passes them to the controller while this replica leads."""

    def __init__(self, client: Client, retrier: Retrier, sink: Callable[[list[Event]], None]) -> None:
        super().__init__(CommandWire)
        self._client = client
        self._retrier = retrier
        self._sink = sink
        self._leading = False
        self._waiting: dict[str, tuple[MetaWire, JobCommand | QueueCommand]] = {}
        self._work = OrderedWork()

    def objects(self, wire: CommandWire, issues: Findings) -> KeyedObjects | None:
        meta, target = wire.metadata, wire.target
        if target is not None and target.kind in (VCJOBS.kind, QUEUES.kind):
            # The controller reports what is wrong with it.
            command = command_from_wire(wire, Findings(issues.origin))
            self._waiting[f"{meta.namespace}/{meta.name}"] = meta, command
            self._start_waiting()
        return ()

    def forget(self, key: str) -> None:
        self._waiting.pop(key, None)

    def lead(self) -> None:
        self._leading = True
        self._start_waiting()

    def _start_waiting(self) -> None:
        if self._leading:
            for key, command in list(self._waiting.items()):
                del self._waiting[key]
                self._work.add(key, [partial(self._carry_out, *command)])

    async def _carry_out(self, meta: MetaWire, command: JobCommand | QueueCommand) -> None:
        delete = partial(
            self._client.delete, JOB_COMMANDS, meta.namespace, meta.name or "", uid=meta.uid or ""
        )
        # One that is gone was withdrawn, or taken by another controller.
        if await self._retrier.run(delete):
            self._sink([command])

    async def stop(self) -> None:
        await self._work.stop()
