"""The history of a story: every version of its pods, Events and PodGroups."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterable
from contextlib import closing
from http.client import HTTPException, HTTPSConnection
from typing import NamedTuple

from ringwise_bench.control_plane import ControlPlane
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


class Recorder:
    """Watches all namespaces, so that no state is missed between two polls."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._stopped = False
        self.changes: list[Change] = []
        #: By uid: the newest resource version. Versions of one kind can be compared.
        self._newest: dict[str, int] = {}
        #: What exists, by uid.
        self._existing: set[str] = set()
        self._threads = [threading.Thread(target=self._watch, args=(path,), daemon=True) for path in _WATCHED]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """The watches end with the API server."""
        self._stopped = True

    def begin(self) -> bool:
        """Forget the story before; False while its deletions are still to come."""
        if self._existing:
            return False
        self.changes = []
        self._newest = {}
        return True

    def has(self, objects: list[Object]) -> bool:
        """Whether these versions, or later ones, are recorded."""
        return all(
            self._newest.get(one["metadata"]["uid"], 0) >= int(one["metadata"]["resourceVersion"])
            for one in objects
        )

    def _watch(self, path: str) -> None:
        url, kind = self._plane.url.removeprefix("https://"), path.rpartition("/")[2]
        context = ssl.create_default_context(cafile=str(self._plane.authority))
        headers = {"Authorization": f"Bearer {self._plane.admin_token}"}
        version = ""
        while not self._stopped:
            try:
                with closing(HTTPSConnection(url, context=context)) as connection:
                    connection.request("GET", f"{path}?watch=1&resourceVersion={version}", headers=headers)
                    version = self._record(kind, connection.getresponse(), version)
            except (OSError, HTTPException):
                time.sleep(0.2)

    def _record(self, kind: str, lines: Iterable[bytes], version: str) -> str:
        """Record until the stream ends; the answer is from where to go on, empty: from all that exists."""
        for line in lines:
            event = json.loads(line)
            if event.get("type") not in ("ADDED", "MODIFIED", "DELETED"):
                return ""
            change = Change(kind, event["type"], event["object"])
            version = change.object["metadata"]["resourceVersion"]
            self.changes.append(change)
            self._newest[change.uid] = int(version)
            if change.type == "DELETED":
                self._existing.discard(change.uid)
            elif kind != "events":
                self._existing.add(change.uid)
        return version
