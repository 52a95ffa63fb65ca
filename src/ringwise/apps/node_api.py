"""The part of an API server that a device plugin uses, in memory: pods, nodes, ConfigMaps and events.

The lab and the benchmarks run the plugin's real code against it, through `MemoryClient`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from ringwise.kubeclient.client import ApiError, Client
from ringwise.kubeclient.config import direct
from ringwise.wellknown import OPERATOR_API

Object = dict[str, Any]

_SELECTABLE: dict[str, Callable[[Object], str]] = {
    "spec.nodeName": lambda one: str(one.get("spec", {}).get("nodeName", "")),
    "metadata.name": lambda one: str(one["metadata"]["name"]),
}
_encode = msgspec.json.Encoder().encode


class NodeApi:
    """Objects by kind and name, with versions and watches."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[tuple[str, str], Object]] = {}
        #: Requests by verb and kind.
        self.requests: Counter[str] = Counter()
        #: Hears of every change that a request made: kind of change, kind of object, object.
        self.on_change: Callable[[str, str, Object], None] = lambda change, plural, one: None
        self._version = 0
        self._watches: set[tuple[str, str, asyncio.Queue[bytes | None]]] = set()

    # -- objects -------------------------------------------------------------------------------------

    def get(self, plural: str, namespace: str, name: str) -> Object | None:
        return self.objects.get(plural, {}).get((namespace, name))

    def put(self, plural: str, one: Object) -> Object:
        """Create or replace an object."""
        meta = one.setdefault("metadata", {})
        key = (str(meta.get("namespace", "")), str(meta["name"]))
        table = self.objects.setdefault(plural, {})
        self._version += 1
        meta["resourceVersion"] = str(self._version)
        meta.setdefault("uid", f"{plural}-{self._version}")
        change = "MODIFIED" if key in table else "ADDED"
        table[key] = one
        self._send_event(change, plural, one)
        return one

    def remove(self, plural: str, namespace: str, name: str) -> None:
        one = self.objects.get(plural, {}).pop((namespace, name), None)
        if one is not None:
            self._version += 1
            one["metadata"]["resourceVersion"] = str(self._version)
            self._send_event("DELETED", plural, one)

    def _send_event(self, change: str, plural: str, one: Object) -> None:
        line = None
        for watched, selector, queue in self._watches:
            if watched == plural and _selected(one, selector):
                line = line or _encode({"type": change, "object": one})
                queue.put_nowait(line)

    # -- requests ------------------------------------------------------------------------------------

    def answer(self, method: str, path: str, params: Mapping[str, str], body: bytes | None) -> Object:
        """The document of an answer. Raises ApiError."""
        plural, namespace, name = _parts(path)
        self.requests[f"{method} {plural}"] += 1
        if not plural:
            return {"resources": [{"name": "isolations", "verbs": ["create"]}]}
        if method == "GET" and not name:
            return self._listed(plural, namespace, params.get("fieldSelector", ""))
        if method == "POST":
            made: Object = msgspec.json.decode(body or b"{}")
            if self.get(plural, namespace, made["metadata"]["name"]) is not None:
                raise ApiError(409, "AlreadyExists", f"{plural} {made['metadata']['name']} exists")
            return self._changed("ADDED", plural, self.put(plural, made))
        result = self.get(plural, namespace, name)
        if result is None:
            raise ApiError(404, "NotFound", f"{plural} {name} not found")
        if method == "PATCH":
            return self._changed("MODIFIED", plural, self._patched(plural, result, body or b"{}"))
        if method == "DELETE":
            self.remove(plural, namespace, name)
            return self._changed("DELETED", plural, result)
        return result

    def _listed(self, plural: str, namespace: str, selector: str) -> Object:
        items = [
            one
            for (space, _), one in self.objects.get(plural, {}).items()
            if (not namespace or space == namespace) and _selected(one, selector)
        ]
        return {"metadata": {"resourceVersion": str(self._version)}, "items": items}

    def _patched(self, plural: str, current: Object, body: bytes) -> Object:
        patch = msgspec.json.decode(body)
        meta = patch.get("metadata", {})
        for field in ("uid", "resourceVersion"):
            if field in meta and meta[field] != current["metadata"].get(field):
                raise ApiError(409, "Conflict", f"the {field} does not match")
        return self.put(plural, _merged(current, patch))

    def _changed(self, change: str, plural: str, one: Object) -> Object:
        self.on_change(change, plural, one)
        return one

    async def watched(self, path: str, params: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The changes of a kind until the time of the watch is over."""
        plural, _, _ = _parts(path)
        self.requests[f"WATCH {plural}"] += 1
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        entry = (plural, params.get("fieldSelector", ""), queue)
        self._watches.add(entry)
        seconds = float(params.get("timeoutSeconds", "300"))
        end = asyncio.get_running_loop().call_later(seconds, queue.put_nowait, None)
        try:
            while (line := await queue.get()) is not None:
                yield line
        finally:
            end.cancel()
            self._watches.discard(entry)


def _parts(path: str) -> tuple[str, str, str]:
    """Kind, namespace and name; a subresource is its object."""
    words = path.removeprefix("/api/v1/").removeprefix(f"/apis/{OPERATOR_API}").lstrip("/").split("/")
    namespace = ""
    if words[0] == "namespaces" and len(words) > 2:
        namespace, words = words[1], words[2:]
    return words[0], namespace, words[1] if len(words) > 1 else ""


def _selected(one: Object, selector: str) -> bool:
    if not selector:
        return True
    field, _, value = selector.partition("=")
    return _SELECTABLE[field](one) == value


def _merged(old: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


class MemoryClient(Client):
    """Talks to a `NodeApi` of the same process."""

    def __init__(self, api: NodeApi) -> None:
        super().__init__(direct("http://memory"))
        self._api = api

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float = 0.0,
        rate_limited: bool = True,
    ) -> bytes:
        return _encode(self._api.answer(method, path, params or {}, body))

    @asynccontextmanager
    async def watch(
        self, path: str, params: Mapping[str, str], version: str, *, seconds: int = 300
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        lines = self._api.watched(path, {**params, "timeoutSeconds": str(seconds)})

        async def batches() -> AsyncIterator[list[bytes]]:
            async for line in lines:
                yield [line]

        yield batches()
