"""An executor with a real client and a fake API server, and the job it works for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from ringwise.kube.watch.job_templates import JobTemplates, TemplateStore
from ringwise.kube.watch.readers import Observed
from ringwise.kube.write.binder import Binder
from ringwise.kube.write.context import WriteContext
from ringwise.kube.write.executor import Creations, Executor
from ringwise.kube.write.fence import Fence
from ringwise.kube.write.status import StatusWriter
from ringwise.kube.write.status_queue import Precedence
from ringwise.kubeclient.retry import Retrier
from ringwise.messages.commands import (
    Command,
)
from ringwise.messages.events import Event, EvictFailed, JobHeldUp
from ringwise.state.model import Pod
from tests.builders import values
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import (
    JOBS,
    InstantClock,
    server,
)

JOB: dict[str, Any] = {
    "metadata": {"name": "train", "namespace": "default", "uid": "j1"},
    "spec": {
        "tasks": [{"name": "worker", "template": {"spec": {"containers": [{"name": "main", "image": "i"}]}}}],
        "volumes": [{"mountPath": "/out", "volumeClaim": {"accessModes": ["ReadWriteMany"]}}],
    },
}


class Executing:
    def __init__(
        self,
        api: FakeApiServer,
        executor: Executor,
        fence: Fence,
        reported: list[Event],
        templates: TemplateStore,
    ) -> None:
        self.api = api
        self.executor = executor
        self.fence = fence
        self.reported = reported
        self.templates = templates

    @property
    def failed(self) -> list[EvictFailed]:
        return [one for one in self.reported if isinstance(one, EvictFailed)]

    @property
    def held_up(self) -> list[JobHeldUp]:
        return [one for one in self.reported if isinstance(one, JobHeldUp)]

    def recreate(self, uid: str) -> None:
        """The job is deleted, and created again; nothing deletes its objects and pods but what is tested."""
        job = {**JOB, "metadata": {**JOB["metadata"], "uid": uid}}
        self.templates["default/train"] = JobTemplates.of(msgspec.Raw(msgspec.json.encode(job)))
        self.api.put(JOBS, job)
        for pod in self.api.all("/api/v1/pods"):
            self.api.remove("/api/v1/pods", f"default/{pod['metadata']['name']}")

    async def do(self, *commands: Command) -> None:
        self.executor.execute(commands)
        await self.executor.finish()

    def writes(self) -> list[str]:
        return [
            f"{method} {path.rpartition('/')[2]}" for method, path in self.api.requests if method != "GET"
        ]


@asynccontextmanager
async def executing(clock: InstantClock | None = None) -> AsyncIterator[Executing]:
    async with server() as (api, client):
        clock = clock or InstantClock()
        fence = Fence(clock)
        fence.open_forever()
        templates: TemplateStore = {}
        templates["default/train"] = JobTemplates.of(msgspec.Raw(msgspec.json.encode(JOB)))
        api.put(JOBS, {**JOB})
        context = WriteContext(client, fence, clock)
        binder = Binder(context, on_failed=lambda failure: None)
        creations = Creations()
        precedence = Precedence(clock, (binder.idle, creations.idle))
        status = StatusWriter(context, Observed(), precedence)
        reported: list[Event] = []
        executor = Executor(
            context,
            binder,
            status,
            templates,
            Retrier(clock, may_write=lambda: fence.is_open),
            reported.append,
            creations=creations,
        )
        yield Executing(api, executor, fence, reported, templates)
        await executor.stop()


def worker(index: int, uid: str = "x") -> Pod:
    return values.pod(f"train-worker-{index}", 0, uid=uid, task="worker")


def job_state(one: Executing) -> Any:
    return one.api.get(JOBS, "default/train").get("status", {}).get("state", {}).get("phase")
