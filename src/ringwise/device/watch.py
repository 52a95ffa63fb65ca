"""Follows a few objects of the API server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import msgspec

from ringwise.kubeclient.client import Client
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.list_watch import ListWatch, version_number
from ringwise.log import Logger
from ringwise.manifests.text.readable import UNREADABLE

_LOG = Logger()

#: Seconds of one watch. A node has little news, and thousands of nodes ask: the longer the better.
WATCH_SECONDS = 3400

Wire = TypeVar("Wire")


class ObjectWatch(ListWatch, Generic[Wire]):
    """`listed` gets all objects with the version of the list, `changed` each change after it.

    An object that cannot be read is skipped: the others must go on.
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
        found: list[Wire] = []
        version = ""
        async for page in self._pages():
            version = version or page.metadata.resource_version
            found += [one for raw in page.items or () if (one := self._decoded(raw)) is not None]
        self._listed(found, version_number(version))
        self.synced.set()
        return version

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
