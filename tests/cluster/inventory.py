"""The objects of a control plane: what a story has left, and what it has changed."""

from __future__ import annotations

from collections import defaultdict

from ringwise_bench.control_plane import ApiAnswer, ControlPlane

#: What the programs of Kubernetes write for themselves at any time, by the beginning of its key.
_OWN = (
    "apiregistration.k8s.io/",
    "leases/kube-system/",
    "masterleases/",
    "ranges/",
    "serviceaccounts/kube-system/",
)
#: Resources that have another name in etcd.
_NAMES = {"minions": "nodes", "services/specs": "services", "services/endpoints": "endpoints"}
#: More objects than this are deleted by one request.
_MANY = 20


class Inventory:
    """Compares the objects of all kinds and namespaces with those that were there when it was made."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        #: Where the API server has each resource.
        self._roots: dict[str, str] = {}
        self._installed = {
            key: number for key, number in self._revisions().items() if not key.startswith("events/")
        }

    def _revisions(self) -> dict[str, int]:
        found = {key.removeprefix("/registry/"): number for key, number in self._plane.revisions().items()}
        return {key: number for key, number in found.items() if not key.startswith(_OWN)}

    def keep(self, key: str) -> None:
        self._installed[key] = 0

    def leftovers(self) -> list[str]:
        return sorted(self._revisions().keys() - self._installed.keys())

    def missing(self) -> list[str]:
        return sorted(self._installed.keys() - self._revisions().keys())

    def has_changed(self, word: str) -> bool:
        """Whether an object was written whose key has the word."""
        now = self._revisions()
        return any(now.get(key) != number for key, number in self._installed.items() if word in key)

    def remove_leftovers(self) -> bool:
        """Delete what was not there; True when there was nothing to delete."""
        collections: dict[str, list[str]] = defaultdict(list)
        for key in self.leftovers():
            collection, _, name = key.rpartition("/")
            collections[collection].append(name)
        for collection, names in collections.items():
            path = self._path(collection)
            shared = any(key.startswith(f"{collection}/") for key in self._installed)
            whole = len(names) > _MANY and not shared
            for target in [path] if whole else [f"{path}/{name}" for name in names]:
                try:
                    self._plane.admin.delete(target, {"gracePeriodSeconds": 0})
                except ApiAnswer as answer:
                    # It is gone, or is being deleted, or is so much that one request does not suffice.
                    if answer.status not in (404, 409, 504):
                        raise
                except ConnectionError:
                    # The API server ends a request after a minute, and not always with a status.
                    continue
        return not collections

    def _path(self, collection: str) -> str:
        """Of a resource, with its group if a CRD defines it, and a namespace if it has one."""
        for stored, name in _NAMES.items():
            if f"{collection}/".startswith(f"{stored}/"):
                collection = name + collection.removeprefix(stored)
        parts = collection.split("/")
        resource = "/".join(parts[: 2 if "." in parts[0] else 1])
        if resource not in self._roots:
            self._discover()
        namespace = collection.removeprefix(resource)
        root = self._roots.get(resource, "/unknown")
        return f"{root}{namespace and f'/namespaces{namespace}'}/{resource.rpartition('/')[2]}"

    def _discover(self) -> None:
        api = self._plane.admin
        versions = [one["preferredVersion"]["groupVersion"] for one in api.get("/apis")["groups"]]
        for root in ("/api/v1", *(f"/apis/{version}" for version in versions)):
            for one in api.get(root)["resources"]:
                self._roots.setdefault(one["name"], root)
                self._roots.setdefault(f"{root.split('/')[2]}/{one['name']}", root)
