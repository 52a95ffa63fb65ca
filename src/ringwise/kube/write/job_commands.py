"""Commands of the bus (`bus.volcano.sh`): a person's wish for a job, deleted before it is obeyed.

So a wish comes true at most once, whatever happens to the one who obeys it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import msgspec

from ringwise.kube.watch.decoding import Change, bare_change, bare_page
from ringwise.kube.watch.facts import Facts
from ringwise.kube.write.ordered_work import Chains, Persistence
from ringwise.kubeclient.client import Client, Page
from ringwise.kubeclient.resources import JOB_COMMANDS, VCJOBS
from ringwise.manifests.errors import Findings
from ringwise.messages.events import Event, JobCommand


class _Target(msgspec.Struct):
    kind: str = ""
    name: str = ""


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _Command(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    action: str = ""
    target: _Target | None = None


class Wishes:
    """Reads the commands; obeys them while we lead."""

    def __init__(self, client: Client, persistence: Persistence, sink: Callable[[list[Event]], None]) -> None:
        self._client = client
        self._persistence = persistence
        self._sink = sink
        self._leads = False
        self._waiting: dict[str, _Command] = {}
        self._chains = Chains(4)

    def page(self, answer: bytes) -> Page[Any]:
        return bare_page(answer)

    def change(self, line: bytes) -> Change[Any]:
        return bare_change(line)

    def read(self, sight: object, found: Findings) -> Facts | None:
        try:
            command = msgspec.json.decode(cast(msgspec.Raw, sight), type=_Command)
        except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
            found.wrong("", str(problem))
            return None
        if command.target is None or command.target.kind != VCJOBS.kind:
            return ()
        self._waiting[f"{command.metadata.namespace}/{command.metadata.name}"] = command
        self._obey()
        return ()

    def forget(self, key: str) -> None:
        self._waiting.pop(key, None)

    def lead(self) -> None:
        self._leads = True
        self._obey()

    def _obey(self) -> None:
        if self._leads:
            for key, command in list(self._waiting.items()):
                del self._waiting[key]
                self._chains.add(key, [partial(self._grant, command)])

    async def _grant(self, command: _Command) -> None:
        meta = command.metadata
        await self._persistence.insist(
            partial(self._client.delete, JOB_COMMANDS, meta.namespace, meta.name, uid=meta.uid)
        )
        if command.target is not None:
            self._sink([JobCommand(f"{meta.namespace}/{command.target.name}", command.action)])

    async def stop(self) -> None:
        await self._chains.stop()
