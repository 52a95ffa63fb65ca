"""Follows a few objects of the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

import msgspec

from ringwise.kubeclient.client import ApiError, Client
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.list_watch import ListWatch, version_number
from ringwise.kubeclient.resources import Resource
from ringwise.log import Logger
from ringwise.manifests.objects.custom_resources import CustomResourceWire
from ringwise.manifests.objects.isolations import isolation_from_wire
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.readable import UNREADABLE
from ringwise.state.model import Isolation
from ringwise.wellknown import ISOLATIONS

_LOG = Logger()

_ISOLATIONS = Resource(*ISOLATIONS)

#: Seconds of one watch. A node has little news, and thousands of nodes ask: the longer the better.
WATCH_SECONDS = 3400

Wire = TypeVar("Wire")


class ObjectWatch(ListWatch, Generic[Wire]):
    """`listed` gets all objects with the version of the list, `changed` each change after it.

    An object that cannot be read is skipped, so that it does not affect the others.
    """

    def __init__(
        self,
        client: Client,
        title: str,
        path: str,
        params: Mapping[str, str],
        wire: type[Wire],
        *,
        clock: Clock,
        listed: Callable[[list[Wire], int], None],
        changed: Callable[[str, Wire], None],
    ) -> None:
        super().__init__(client, title, path, params, clock=clock, watch_seconds=WATCH_SECONDS)
        self._decoder = msgspec.json.Decoder(wire)
        self._listed = listed
        self._changed = changed

    async def read(self) -> str:
        items: list[Wire] = []
        version = ""
        async for page in self._pages():
            version = version or page.metadata.resource_version
            items += [one for raw in page.items or () if (one := self._decoded(raw)) is not None]
        await self._check(items)
        self._listed(items, version_number(version))
        self.synced.set()
        return version

    async def _check(self, listed: list[Wire]) -> None:
        """Raise ApiError if objects that were not listed may exist."""

    async def _take(self, lines: list[bytes]) -> None:
        for line in lines:
            change = self._change(line)
            if change is not None and change[0].type in ("ADDED", "MODIFIED", "DELETED"):
                one = self._decoded(change[0].object)
                if one is not None:
                    self._changed(change[0].type, one)

    def _decoded(self, raw: msgspec.Raw) -> Wire | None:
        try:
            return self._decoder.decode(raw)
        except UNREADABLE as problem:
            _LOG.warning("object not read", kind=self._title, why=str(problem))
            return None


class IsolationWatch(ObjectWatch[CustomResourceWire]):
    """Those that were known last stay while the API server does not serve Isolations.

    As in the scheduler, what is missing was deleted only if objects of the kind can be created: those of a
    definition that is being deleted are deleted with it.
    """

    def __init__(self, client: Client, clock: Clock, changed: Callable[[], None]) -> None:
        self.isolations: dict[str, Isolation] = {}
        self._on_change = changed
        self._restored = asyncio.Event()
        path = _ISOLATIONS.path()
        super().__init__(
            client,
            ISOLATIONS.kind,
            path,
            {},
            CustomResourceWire,
            clock=clock,
            listed=self._replace,
            changed=self._change_one,
        )

    def restore(self, node: str, chips: Iterable[str]) -> None:
        """What was isolated before the start, which stays until a list succeeds."""
        if isolated := tuple(sorted(chips)):
            # No object has this name, so every list lacks it.
            self.isolations = {"": Isolation(node, isolated, reason="reported before the restart")}
            self._on_change()
        self._restored.set()

    async def run(self) -> None:
        await self._restored.wait()
        await super().run()

    async def _check(self, listed: list[CustomResourceWire]) -> None:
        names = {one.metadata.name for one in listed}
        if not self.isolations.keys() <= names:
            await self._require_served()

    async def _require_served(self) -> None:
        if not await self._client.can_create(_ISOLATIONS):
            raise ApiError(404, "", "the definition of this kind is being deleted")

    def _replace(self, wires: list[CustomResourceWire], _version: int) -> None:
        self.isolations = {one.name: one for wire in wires if (one := self._read(wire)) is not None}
        self._on_change()

    def _change_one(self, kind: str, wire: CustomResourceWire) -> None:
        one = self._read(wire)
        if one is not None:
            self.isolations.pop(one.name, None)
            if kind != "DELETED":
                self.isolations[one.name] = one
            self._on_change()

    def _read(self, wire: CustomResourceWire) -> Isolation | None:
        issues = Findings(ISOLATIONS.kind)
        one = isolation_from_wire(wire, issues)
        if not issues.errors:
            return one
        _LOG.warning("isolation is invalid; its last valid version stays in use", why=str(issues.errors[0]))
        return self.isolations.get(one.name)

    async def _take(self, lines: list[bytes]) -> None:
        if any(b'"DELETED"' in line[:40] for line in lines):
            await self._require_served()
        await super()._take(lines)

    def _refused(self, error: ApiError) -> float:
        if error.status == 404:
            self._list_again("not served")
            self.synced.set()
        return super()._refused(error)
