"""A small API server with the semantics that a scheduler depends on, and injected faults.

It stores objects as plain dictionaries, numbers every change, pages lists, streams watches with bookmarks,
drops its history on demand (410), binds pods like the real one, and answers requests with errors, late or not
at all.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Object = dict[str, Any]
Match = Callable[[str, str], bool]
Path = tuple[Any, ...]
Fields = dict[Path, Any]


@dataclass
class Fault:
    """What happens to the next requests that match: an error response, or a broken connection."""

    match: Match
    status: int = 0
    retry_after: int | str | None = None
    #: Break the connection instead of answering.
    drop: bool = False
    #: Execute the request before the error response or the broken connection.
    done: bool = False
    times: int = 1
    #: Only for requests whose user agent contains this.
    agent: str = ""
    #: Wait for this first.
    until: asyncio.Event | None = None


@dataclass
class StoredChange:
    version: int
    kind: str
    collection: str
    object: Object


@dataclass
class FakeApiServer:
    collections: dict[str, dict[str, Object]] = field(default_factory=dict)
    history: list[StoredChange] = field(default_factory=list)
    version: int = 100
    forgotten: int = 0
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    #: Custom resources whose CRD is being deleted.
    terminating: set[str] = field(default_factory=set)
    #: Kinds without a status subresource.
    without_status: set[str] = field(default_factory=set)
    duplicate: bool = False
    #: Send a bookmark at the start of every watch.
    bookmarks: bool = True
    tokens: set[str] = field(default_factory=set)
    url: str = ""

    def __post_init__(self) -> None:
        self._changed = asyncio.Event()
        self._watch_generation = 0
        self._runner: web.AppRunner | None = None
        self._uids = 0
        #: Of each object: who applied which fields.
        self._applied: dict[tuple[str, str], dict[str, Fields]] = {}

    # -- start and stop ------------------------------------------------------------------------------

    async def __aenter__(self) -> FakeApiServer:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut_watches()
        if self._runner is not None:
            await self._runner.cleanup()

    # -- for tests ----------------------------------------------------------

    def put(self, collection: str, object: Object) -> Object:
        """Create or replace an object, as another client would."""
        meta = object.setdefault("metadata", {})
        key = _key(meta)
        known = self.collections.setdefault(collection, {}).get(key)
        if known is None:
            self._uids += 1
            meta.setdefault("uid", f"uid-{self._uids}")
            meta.setdefault("creationTimestamp", "2025-01-01T00:00:00Z")
        else:
            for name in ("uid", "creationTimestamp"):
                if name in known["metadata"]:
                    meta.setdefault(name, known["metadata"][name])
        return self._write(collection, key, object, "ADDED" if known is None else "MODIFIED")

    def remove(self, collection: str, key: str) -> None:
        object = self.collections[collection].pop(key)
        self._applied.pop((collection, key), None)
        self.version += 1
        object = {**object, "metadata": {**object["metadata"], "resourceVersion": str(self.version)}}
        self._record(StoredChange(self.version, "DELETED", collection, object))

    def get(self, collection: str, key: str) -> Object:
        return self.collections[collection][key]

    def all(self, collection: str) -> list[Object]:
        return list(self.collections.get(collection, {}).values())

    def forget_history(self) -> None:
        """Older versions are too old for a watch from now on."""
        self.forgotten = self.version
        self.history.clear()

    def cut_watches(self) -> None:
        self._watch_generation += 1
        self._wake()

    def fault(self, match: str | Match, **what: Any) -> Fault:
        """`match`: a part of `METHOD /path`, or a function."""
        wanted = match if callable(match) else (lambda method, path: match in f"{method} {path}")
        fault = Fault(wanted, **what)
        self.faults.append(fault)
        return fault

    def count(self, text: str) -> int:
        return sum(text in f"{method} {path}" for method, path in self.requests)

    # -- requests ------------------------------------------------------------------------------

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        path = "/" + request.match_info["path"]
        self.requests.append((request.method, path))
        body = await request.read()
        agent = request.headers.get("User-Agent", "")
        fault = next(
            (one for one in self.faults if one.agent in agent and one.match(request.method, path)), None
        )
        if fault is not None:
            fault.times -= 1
            if fault.times <= 0:
                self.faults.remove(fault)
            if fault.until is not None:
                await fault.until.wait()
            if fault.done:
                await self._answer(request, path, body)
            if fault.drop:
                if request.transport is not None:
                    request.transport.abort()
                return web.Response(status=500)
            if fault.status:
                headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
                return _status(fault.status, "injected", headers)
        return await self._answer(request, path, body)

    async def _answer(self, request: web.Request, path: str, body: bytes) -> web.StreamResponse:
        if (
            self.tokens
            and request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens
        ):
            return _status(401, "Unauthorized")
        root, namespace, plural, name, sub = _parsed(path)
        collection = f"{root}/{plural}"
        if root == "/apis/ringwise.io/v1alpha1" and not plural:
            kinds = [
                {"name": one, "verbs": ["list"] if one in self.terminating else ["create", "list"]}
                for one in ("isolations", "moveplans", "nodereservations", "usagelimits")
                if one not in self.unknown
            ]
            return web.json_response({"resources": kinds})
        if collection in self.unknown or plural in self.unknown:
            return _status(404, "the server could not find the requested resource")
        content = json.loads(body) if body else {}
        if not name:
            if request.method == "GET":
                if request.query.get("watch"):
                    return await self._watch(request, collection, namespace)
                return self._list(request, collection, namespace)
            return self._create(collection, namespace, content, dry_run="dryRun" in request.query)
        key = f"{namespace}/{name}" if namespace else name
        found = self.collections.get(collection, {}).get(key)
        if request.content_type == "application/apply-patch+yaml":
            if found is None:
                # The real server asks then whether the client may create, too.
                self.requests.append(("POST", path.rpartition("/")[0]))
            return self._apply(request, collection, key, found, content)
        if found is None:
            return _status(404, f"{plural} {name!r} not found")
        match request.method, sub:
            case "GET", "":
                return web.json_response(found)
            case "POST", "binding":
                return self._bind(collection, key, found, content)
            case "POST", "eviction":
                uid = content.get("deleteOptions", {}).get("preconditions", {}).get("uid")
                return self._delete(collection, key, found, uid)
            case "PATCH", ("" | "status"):
                return self._patch(request, collection, key, found, sub, content)
            case "PUT", "":
                return self._replace(collection, key, found, content)
            case "DELETE", "":
                return self._delete(collection, key, found, content.get("preconditions", {}).get("uid"))
        return _status(405, "method not allowed")

    def _create(self, collection: str, namespace: str, object: Object, *, dry_run: bool) -> web.Response:
        meta = object.setdefault("metadata", {})
        if namespace:
            meta["namespace"] = namespace
        if "generateName" in meta and "name" not in meta:
            meta["name"] = f"{meta['generateName']}{len(self.requests):05}"
        if _key(meta) in self.collections.get(collection, {}):
            return _status(409, f"{_key(meta)} already exists", reason="AlreadyExists")
        if dry_run:
            return web.json_response(object, status=201)
        return web.json_response(self.put(collection, object), status=201)

    def _bind(self, collection: str, key: str, pod: Object, binding: Object) -> web.Response:
        meta = binding["metadata"]
        if meta.get("uid") and meta["uid"] != pod["metadata"]["uid"]:
            return _status(409, "Precondition failed: UID in precondition does not match")
        if pod["metadata"].get("deletionTimestamp"):
            return _status(409, f"pod {key} is being deleted, cannot be assigned to a host")
        if pod.get("spec", {}).get("nodeName"):
            return _status(409, f"pod {key} is already assigned to node {pod['spec']['nodeName']!r}")
        bound = _copy(pod)
        bound["spec"]["nodeName"] = binding["target"]["name"]
        bound["metadata"].setdefault("annotations", {}).update(meta.get("annotations") or {})
        self._write(collection, key, bound, "MODIFIED")
        return web.json_response({"kind": "Status", "status": "Success"}, status=201)

    def _patch(
        self, request: web.Request, collection: str, key: str, found: Object, sub: str, patch: Any
    ) -> web.Response:
        plural = collection.rpartition("/")[2]
        if isinstance(patch, list):
            changed = _json_patched(found, patch)
            if changed is None:
                # The words of the real server.
                rejected = "the server rejected our request due to an error in our request"
                return _status(422, rejected, reason="Invalid")
            return web.json_response(self._write(collection, key, changed, "MODIFIED"))
        if sub == "status" and plural in self.without_status:
            return _status(404, "the server could not find the requested resource")
        version = patch.get("metadata", {}).get("resourceVersion")
        if version and version != found["metadata"]["resourceVersion"]:
            return _status(409, "the object has been modified", reason="Conflict")
        uid = patch.get("metadata", {}).get("uid")
        if uid and uid != found["metadata"]["uid"]:
            return _status(409, "the UID in the precondition does not match")
        if not sub and plural not in self.without_status:
            patch = {key: value for key, value in patch.items() if key != "status"}
        if sub == "status":
            # Metadata may be changed there, too; the spec may not.
            patch = {key: value for key, value in patch.items() if key in ("status", "metadata")}
        merged = _merged(found, patch, "strategic" in request.content_type)
        if merged == found:
            return web.json_response(found)
        return web.json_response(self._write(collection, key, merged, "MODIFIED"))

    def _apply(
        self, request: web.Request, collection: str, key: str, found: Object | None, content: Object
    ) -> web.Response:
        version = content["metadata"].pop("resourceVersion", None)
        if version and (found is None or version != found["metadata"]["resourceVersion"]):
            return _status(409, "the object has been modified", reason="Conflict")
        old, new = {} if found is None else _fields(found), _fields(content)
        managers = self._applied.setdefault((collection, key), {})
        owned = managers.get(request.query["fieldManager"], {})
        taken = [path for path in new if path not in owned and old.get(path, new[path]) != new[path]]
        if taken and request.query.get("force") != "true":
            return _status(409, f"Apply failed with {len(taken)} conflicts", reason="Conflict")
        managers[request.query["fieldManager"]] = new
        others = {path for fields in managers.values() for path in fields}
        kept = {path: value for path, value in old.items() if path not in owned or path in others}
        merged = _object({**kept, **new})
        if merged == found:
            return web.json_response(found)
        return web.json_response(self.put(collection, merged), status=201 if found is None else 200)

    def _replace(self, collection: str, key: str, found: Object, object: Object) -> web.Response:
        version = object["metadata"].get("resourceVersion")
        if version and version != found["metadata"]["resourceVersion"]:
            return _status(409, "the object has been modified", reason="Conflict")
        object["metadata"]["uid"] = found["metadata"]["uid"]
        return web.json_response(self._write(collection, key, object, "MODIFIED"))

    def _delete(self, collection: str, key: str, found: Object, uid: str | None) -> web.Response:
        if uid and uid != found["metadata"]["uid"]:
            return _status(409, "the UID in the precondition does not match")
        self.remove(collection, key)
        return web.json_response({"kind": "Status", "status": "Success"})

    # -- lists and watches ------------------------------------------------------------------------

    def _list(self, request: web.Request, collection: str, namespace: str) -> web.Response:
        token = request.query.get("continue", "")
        start, _, version = token.partition("@")
        if token and int(version) < self.forgotten:
            return _status(410, "the continue token is too old", reason="Expired")
        objects = [one for one in self.all(collection) if _selected(one, request.query, namespace)]
        first, limit = int(start or 0), int(request.query.get("limit") or 0)
        last = first + limit if limit else len(objects)
        meta = {"resourceVersion": version or str(self.version)}
        if last < len(objects):
            meta["continue"] = f"{last}@{meta['resourceVersion']}"
        return web.json_response({"kind": "List", "metadata": meta, "items": objects[first:last]})

    async def _watch(self, request: web.Request, collection: str, namespace: str) -> web.StreamResponse:
        version = int(request.query.get("resourceVersion") or self.version)
        response = web.StreamResponse()
        await response.prepare(request)
        generation = self._watch_generation
        bookmarked = False
        while generation == self._watch_generation:
            changed = self._changed
            if version < self.forgotten:
                error = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
                await response.write(_line("ERROR", error))
                break
            changes = [one for one in self.history if one.version > version and one.collection == collection]
            changes = [one for one in changes if _selected(one.object, request.query, namespace)]
            for change in [*changes, *(changes if self.duplicate else [])]:
                # Duplicates are sent later: one of the objects may have been deleted by then.
                await response.write(_line(change.kind, change.object))
            version = max([version, *(one.version for one in changes)])
            if self.bookmarks and not bookmarked and request.query.get("allowWatchBookmarks"):
                bookmarked = True
                mark = {"metadata": {"resourceVersion": str(version)}}
                await response.write(_line("BOOKMARK", mark))
            if changed is self._changed:
                await changed.wait()
        return response

    def _write(self, collection: str, key: str, object: Object, kind: str) -> Object:
        self.version += 1
        object = _copy(object)
        object["metadata"]["resourceVersion"] = str(self.version)
        self.collections.setdefault(collection, {})[key] = object
        self._record(StoredChange(self.version, kind, collection, object))
        return object

    def _record(self, change: StoredChange) -> None:
        self.history.append(change)
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _line(kind: str, object: Object) -> bytes:
    return json.dumps({"type": kind, "object": object}).encode() + b"\n"


def _copy(object: Object) -> Object:
    copied: Object = json.loads(json.dumps(object))
    return copied


def _key(meta: Mapping[str, Any]) -> str:
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def _status(
    code: int, message: str, headers: Mapping[str, str] | None = None, reason: str = ""
) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return web.json_response(body, status=code, headers=headers)


def _parsed(path: str) -> tuple[str, str, str, str, str]:
    """Root, namespace, plural, name, subresource."""
    parts = path.strip("/").split("/")
    depth = 2 if parts[0] == "api" else 3
    root, rest = "/" + "/".join(parts[:depth]), parts[depth:]
    namespace = ""
    if rest and rest[0] == "namespaces" and len(rest) > 2 and rest[2] != "status":
        namespace, rest = rest[1], rest[2:]
    rest += [""] * (3 - len(rest))
    return root, namespace, rest[0], rest[1], rest[2]


def _selected(object: Object, query: Mapping[str, str], namespace: str) -> bool:
    meta = object["metadata"]
    if namespace and meta.get("namespace") != namespace:
        return False
    for pair in filter(None, query.get("labelSelector", "").split(",")):
        key, _, value = pair.partition("=")
        if (meta.get("labels") or {}).get(key) != value:
            return False
    field_selector = query.get("fieldSelector", "")
    if field_selector.startswith("spec.nodeName="):
        return bool(object.get("spec", {}).get("nodeName") == field_selector.removeprefix("spec.nodeName="))
    return not field_selector or meta["name"] == field_selector.removeprefix("metadata.name=")


def _json_patched(object: Object, operations: list[Object]) -> Object | None:
    """RFC 6902, the operations `test` and `add`; None when one of them fails."""
    changed = _copy(object)
    for operation in operations:
        target: Any = changed
        *parents, last = operation["path"].strip("/").split("/")
        try:
            for part in parents:
                target = target[int(part) if isinstance(target, list) else part]
            if operation["op"] == "add":
                target[last] = operation["value"]
            elif target[last] != operation["value"]:
                return None
        except (KeyError, IndexError):
            return None
    return changed


def _fields(object: Any, path: Path = ()) -> Fields:
    """Values by their paths. A list of named objects is a map by name; other lists are one value."""
    if isinstance(object, list) and object and all(isinstance(one, dict) and "name" in one for one in object):
        object = {("name", one["name"]): one for one in object}
    if not isinstance(object, dict) or not object:
        return {path: object}
    return {
        where: value for key, one in object.items() for where, value in _fields(one, (*path, key)).items()
    }


def _object(fields: Fields) -> Any:
    if () in fields:
        return fields[()]
    parts: dict[Any, Fields] = {}
    for (key, *rest), value in fields.items():
        parts.setdefault(key, {})[tuple(rest)] = value
    made = {key: _object(_without_empty(part)) for key, part in parts.items()}
    return list(made.values()) if any(isinstance(key, tuple) for key in made) else made


def _without_empty(fields: Fields) -> Fields:
    """An empty map or list that has got entries is none any more."""
    return {path: value for path, value in fields.items() if path or len(fields) == 1}


def _merged(base: Any, patch: Any, strategic: bool) -> Any:
    if not isinstance(patch, dict) or not isinstance(base, dict):
        return patch
    merged = dict(base)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif strategic and key == "conditions":
            kept = [one for one in merged.get(key, []) if one["type"] not in {new["type"] for new in value}]
            merged[key] = kept + value
        else:
            merged[key] = _merged(merged.get(key, {}), value, strategic)
    return merged
