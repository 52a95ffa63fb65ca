"""A lab in a thread of its own, with time that stands still, and the commands to talk to it."""

from __future__ import annotations

import asyncio
import json
import shlex
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from ringwise.apps.forked_queries import BetweenTurns, Copy, ForkedQueries, Progress, Work
from ringwise.apps.lab.api import LabServer
from ringwise.apps.lab.client import LabClient
from ringwise.apps.lab.folder import LabFolder
from ringwise.apps.lab.lab import FleetSettings, LabSettings, LiveLab
from ringwise.cli.commands import cli

SMALL = LabSettings(fleet=FleetSettings(4, "910-x8", leaf_size=2), speed=None)


class Here(ForkedQueries):
    """Answers in the lab itself: a copy of the process of all tests costs more than most questions.

    For tests of what is answered; that a copy answers, and what it costs the lab, others look at.
    """

    async def answer(
        self, between_turns: BetweenTurns, work: Work, progress: Progress | None = None
    ) -> bytes:
        found: list[bytes] = []

        def answered(*arguments: Any) -> list[Copy]:
            found.append(work(*arguments))
            return []

        await between_turns(answered)
        return found[0]


def running(path: Path, settings: LabSettings = SMALL) -> AbstractContextManager[LabServer]:
    """A lab that answers on its socket, by itself, until the block ends."""
    return _running(path, settings, Here())


def with_copies(path: Path, settings: LabSettings = SMALL) -> AbstractContextManager[LabServer]:
    """As users have it: copies answer long questions."""
    return _running(path, settings, None)


@contextmanager
def _running(path: Path, settings: LabSettings, forked_queries: ForkedQueries | None) -> Iterator[LabServer]:
    found: list[LabServer] = []
    failed: list[BaseException] = []
    ready = threading.Event()
    loop = asyncio.new_event_loop()

    async def main() -> None:
        folder = LabFolder(path)
        folder.take()
        live = LiveLab(folder, settings)
        try:
            server = LabServer(live, forked_queries=forked_queries)
            found.append(server)
            await server.run(ready.set)
        finally:
            live.close()
            folder.leave()

    def work() -> None:
        try:
            loop.run_until_complete(main())
        except BaseException as error:
            failed.append(error)
        finally:
            ready.set()
            loop.close()

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    try:
        if failed:
            raise failed[0]
        yield found[0]
    finally:
        if not loop.is_closed():
            loop.call_soon_threadsafe(found[0].stop)
        thread.join()
    if failed:
        raise failed[0]


def nodes(count: int, **more: Any) -> LabSettings:
    return replace(SMALL, fleet=FleetSettings(count, **more))


class Terminal:
    """The other terminal."""

    def __init__(self, folder: Path, columns: int = 120) -> None:
        self._folder = folder
        self._runner = CliRunner(env={"RINGWISE_LAB": str(folder), "COLUMNS": str(columns)})

    def run(self, command: str, stdin: str | None = None) -> Result:
        return self._runner.invoke(cli, shlex.split(command), input=stdin)

    def ok(self, command: str, stdin: str | None = None) -> str:
        ran = self.run(command, stdin)
        # What is refused is stored all the same.
        refused = command.startswith("submit ") and ran.exit_code == 1 and "is rejected" in ran.stderr
        assert ran.exit_code == 0 or refused, (command, ran.output, ran.exception)
        return ran.stdout

    def json(self, command: str, stdin: str | None = None) -> Any:
        return json.loads(self.ok(f"{command} -o json", stdin))

    def submit(self, *documents: str) -> Any:
        return self.json("submit -", "---\n".join(documents))

    def refused(self, command: str, stdin: str | None = None) -> str:
        """The one line or more of a command that is bad input."""
        ran = self.run(command, stdin)
        assert (ran.exit_code, ran.stdout) == (2, ""), (command, ran.output)
        return ran.stderr

    def seats(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Every pod that has a node, with its chips; no chip is there twice."""
        seats = {}
        taken: set[tuple[str, int]] = set()
        for pod in self.json("get pods")["pods"]:
            if pod["node"] is None or pod["phase"] in ("Succeeded", "Failed"):
                continue
            for chip in pod["chips"]:
                assert (pod["node"], chip) not in taken, pod
                taken.add((pod["node"], chip))
            seats[f"{pod['namespace']}/{pod['name']}"] = (pod["node"], tuple(pod["chips"]))
        status = LabClient(self._folder).ask("status")
        assert status["alarms"] == status["wrong"] == status["incidents"] == []
        return seats


def job(
    name: str, pods: int = 1, chips: int = 1, *, queue: str = "default", minutes: int | None = None
) -> str:
    note = f'annotations: {{ringwise.io/expected-duration: "{minutes}m"}}' if minutes else "labels: {}"
    return f"""apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: {name}, namespace: lab}}
spec:
  schedulerName: volcano
  queue: {queue}
  minAvailable: {pods}
  tasks:
  - name: worker
    replicas: {pods}
    template:
      metadata: {{{note}}}
      spec:
        containers:
        - name: train
          image: train
          resources: {{limits: {{huawei.com/Ascend910: {chips}}}}}
"""


def queue(name: str, weight: int = 1, chips: int | None = None) -> str:
    capability = "" if chips is None else f", capability: {{huawei.com/Ascend910: {chips}}}"
    return f"""apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {{name: {name}}}
spec: {{weight: {weight}{capability}}}
"""


def pod(name: str, chips: int, *, node: str = "", holds: str = "") -> str:
    notes = f"annotations: {{huawei.com/Ascend910: '{holds}'}}" if holds else "labels: {}"
    return f"""apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: lab, {notes}}}
spec:
  schedulerName: volcano
  {f"nodeName: {node}" if node else ""}
  containers:
  - name: main
    image: main
    resources: {{limits: {{huawei.com/Ascend910: {chips}}}, requests: {{huawei.com/Ascend910: {chips}}}}}
status: {{phase: {"Running" if node else "Pending"}}}
"""
