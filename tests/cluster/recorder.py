"""The history of a story: every version of its pods, Events and PodGroups."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from http.client import HTTPException, HTTPSConnection
from typing import NamedTuple

from ringwise_bench.control_plane import ApiAnswer, ControlPlane
from tests.cluster.objects import Object

_WATCHED = ("/api/v1/pods", "/api/v1/events", "/apis/scheduling.volcano.sh/v1beta1/podgroups")


class Change(NamedTuple):
    """`kind` as in the path of the API; `type`: ADDED, MODIFIED or DELETED."""

    kind: str
    type: str
    object: Object

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.object["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        return str(self.object["metadata"]["uid"])

    @property
    def terminates(self) -> bool:
        return self.type == "DELETED" or "deletionTimestamp" in self.object["metadata"]

    def __str__(self) -> str:
        said = self.object.get("message") or self.object.get("status", {}).get("phase")
        return f"{self.type.lower()} {self.kind} {self.name}: {said}{', terminating' * self.terminates}"


class Watch:
    """Calls `take` with each change of one kind in all namespaces, in a thread, while the control plane runs.

    Where `take` raises an error of the API server, the change comes again.
    """

    def __init__(self, plane: ControlPlane, path: str, take: Callable[[Change], object]) -> None:
        self._plane = plane
        self._path = path
        self._take = take
        #: From where to go on; empty: from all that exists.
        self._version = ""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        url = self._plane.url.removeprefix("https://")
        context = ssl.create_default_context(cafile=str(self._plane.authority))
        headers = {"Authorization": f"Bearer {self._plane.admin_token}"}
        while self._plane.programs:
            try:
                with closing(HTTPSConnection(url, context=context)) as connection:
                    path = f"{self._path}?watch=1&resourceVersion={self._version}"
                    connection.request("GET", path, headers=headers)
                    self._read(connection.getresponse())
            except (OSError, HTTPException, ValueError, ApiAnswer):
                # ValueError: of a line that was cut off.
                time.sleep(0.2)

    def _read(self, lines: Iterable[bytes]) -> None:
        kind = self._path.rpartition("/")[2]
        for line in lines:
            event = json.loads(line)
            if event.get("type") not in ("ADDED", "MODIFIED", "DELETED"):
                self._version = ""
                return
            change = Change(kind, event["type"], event["object"])
            self._take(change)
            self._version = change.object["metadata"]["resourceVersion"]


class Recorder:
    """Watches all namespaces, so that no state is missed between two polls."""

    def __init__(self, plane: ControlPlane) -> None:
        self.changes: list[Change] = []
        #: By uid: the newest resource version. Versions of one kind can be compared.
        self._newest: dict[str, int] = {}
        #: The uids of what exists, by kind and namespace. Of Events nothing is known: no story deletes any.
        self._existing: dict[tuple[str, str], set[str]] = {}
        for path in _WATCHED:
            Watch(plane, path, self._record)

    def begin(self) -> bool:
        """Forget the story before; False while its deletions are still to come."""
        if any(list(self._existing.values())):
            return False
        self.changes = []
        self._newest = {}
        return True

    def agrees(self, kind: str, namespace: str, objects: list[Object]) -> bool:
        """Whether these versions, or later ones, are recorded, and that all others are gone."""
        there = {one["metadata"]["uid"]: int(one["metadata"]["resourceVersion"]) for one in objects}
        existing = self._existing.get((kind, namespace), set())
        return not existing.difference(there) and all(
            self._newest.get(uid, 0) >= version for uid, version in there.items()
        )

    def _record(self, change: Change) -> None:
        self.changes.append(change)
        self._newest[change.uid] = int(change.object["metadata"]["resourceVersion"])
        existing = self._existing.setdefault((change.kind, change.namespace), set())
        if change.type == "DELETED":
            existing.discard(change.uid)
        elif change.kind != "events":
            existing.add(change.uid)
