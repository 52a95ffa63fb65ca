"""Pods without a PodGroup are jobs of their own: which new pod takes the place of which one that is gone.

A StatefulSet creates a pod again under its name; a ReplicaSet or a Job under another one.
"""

from __future__ import annotations

from ringwise.framework.job import Job
from ringwise.state.model import Pod


class Successors:
    """By owner of the pods: the keys of places that no new pod has taken yet, oldest first."""

    def __init__(self) -> None:
        self._open: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def leave(self, owner: str, key: str) -> None:
        """The pod of this place is gone."""
        if owner:
            self._open.setdefault(owner, {})[key] = None

    def take(self, owner: str, key: str) -> str | None:
        """The place for a new pod: the one of its own key, else the oldest."""
        places = self._open.get(owner)
        if not places:
            return None
        taken = key if key in places else next(iter(places))
        self.forget(owner, taken)
        return taken

    def forget(self, owner: str, key: str) -> None:
        places = self._open.get(owner)
        if places is not None:
            places.pop(key, None)
            if not places:
                del self._open[owner]


class EarlySuccessors:
    """New pods that their owner created while the old ones still terminate, as a ReplicaSet does."""

    def __init__(self) -> None:
        #: By owner: uids of pods that terminate.
        self._going: dict[str, set[str]] = {}
        #: By owner: keys of the jobs of new pods, oldest first; no more than pods that terminate.
        self._came: dict[str, dict[str, None]] = {}

    def leaves(self, owner: str, uid: str) -> None:
        if owner:
            self._going.setdefault(owner, set()).add(uid)

    def comes(self, pod: Pod, job: str) -> None:
        """A pod that has no node yet."""
        owner = owner_of_pod(pod)
        going = self._going.get(owner)
        if not going or pod.uid in going:
            return
        came = self._came.setdefault(owner, {})
        if len(came) < len(going):
            came[job] = None

    def gone(self, owner: str, uid: str) -> str | None:
        """The pod no longer terminates. Returns the key of its successor, where that came before."""
        going = self._going.get(owner)
        if going is None or uid not in going:
            return None
        going.discard(uid)
        came = self._came.get(owner, {})
        result = next(iter(came), None)
        if result is not None:
            del came[result]
        if not going:
            del self._going[owner]
            self._came.pop(owner, None)
        return result


def lone_pod(job: Job) -> Pod | None:
    """The pod of a job that is nothing but this pod."""
    if len(job.pods) != 1 or job.group is not None:
        return None
    (pod,) = job.pods.values()
    return pod if pod.group is None else None


def owner_id(namespace: str, uid: str) -> str:
    """An owner, for those that remember by it.

    Anyone may write the uid of a foreign owner into an object: it counts in its namespace only.
    """
    return f"{namespace}/{uid}"


def owner_of_pod(pod: Pod | None) -> str:
    """Who creates the pod again; empty where none does."""
    if pod is None or pod.owner is None or not pod.owner.uid:
        return ""
    return owner_id(pod.namespace, pod.owner.uid)


def is_recreated(job: Job, pod: Pod) -> bool:
    """Whether anyone creates the pod again."""
    return job.group is not None or bool(owner_of_pod(pod))
