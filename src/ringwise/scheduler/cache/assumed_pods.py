"""Pods as they will be once the API server has carried out our bindings and evictions."""

from __future__ import annotations

from dataclasses import replace

from ringwise.framework.job import Job
from ringwise.messages.commands import DeletePod, Evict, EvictionCause
from ringwise.state.cluster import ClusterState
from ringwise.state.model import Pod


class AssumedPods:
    """Our own commands take effect at once; a failed one is undone, a confirmed one is forgotten."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        #: Pods as they were before a binding that is not confirmed yet, by uid.
        self._before_binding: dict[str, Pod] = {}
        #: Pods that we evicted and that the API server has not reported as terminating since.
        self._evicting: set[str] = set()

    def bind(self, job: Job, pod: Pod, bound: Pod) -> None:
        """`bound` is the pod as it will be; older reports of the pod do not replace it."""
        self._before_binding[pod.uid] = pod
        self._replace(job, bound)

    def bind_failed(self, job: Job, uid: str) -> None:
        before = self._before_binding.pop(uid, None)
        if before is not None:
            self._replace(job, before)

    def evict(self, job: Job, uid: str, why: str, cause: EvictionCause, by: str = "") -> Evict:
        """The pod holds its chips until it is gone (N6), but counts as terminating from now on."""
        pod = self._terminating(job, uid)
        return Evict(uid, pod.namespace, pod.name, why, cause, by)

    def delete(self, job: Job, uid: str, why: str, grace: int | None) -> DeletePod:
        """The same for a pod that is deleted because of a fault; `grace` 0 is by force."""
        pod = self._terminating(job, uid)
        return DeletePod(uid, pod.namespace, pod.name, why, grace, fault=True, cause=EvictionCause.FAULT)

    def evict_together(self, job: Job, uid: str, why: str, cause: EvictionCause, by: str = "") -> DeletePod:
        """F4: with the others of the job. Budgets may forbid it, so the pod does not count as terminating."""
        pod = job.pods[uid]
        return DeletePod(
            uid,
            pod.namespace,
            pod.name,
            why,
            fault=True,
            together=job.key,
            labels=dict(pod.labels),
            cause=cause,
            by=by,
        )

    def _terminating(self, job: Job, uid: str) -> Pod:
        pod = job.pods[uid]
        if not pod.deleting:
            self._evicting.add(uid)
        self._replace(job, replace(pod, deleting=True))
        job.ranks = None
        return pod

    def evict_failed(self, job: Job, uid: str) -> bool:
        """The pod stays. False when it was not evicted by us, or was reported as terminating."""
        if uid not in self._evicting:
            return False
        self._evicting.discard(uid)
        self._replace(job, replace(job.pods[uid], deleting=False))
        job.ranks = None
        return True

    def is_evicted(self, reported: Pod) -> bool:
        """Whether we evicted the pod, and this report of it is from before."""
        return reported.uid in self._evicting and not reported.deleting and reported.live

    def forget(self, uid: str) -> None:
        """The API server reported the pod, or it is gone: nothing is assumed about it."""
        self._before_binding.pop(uid, None)
        self._evicting.discard(uid)

    def _replace(self, job: Job, pod: Pod) -> None:
        self._state.pods[pod.uid].pod = pod
        job.pods[pod.uid] = pod
