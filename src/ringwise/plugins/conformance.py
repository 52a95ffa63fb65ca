"""conformance: what the cluster itself needs is never evicted."""

from __future__ import annotations

from ringwise.framework.extension_points import Point
from ringwise.framework.job import Job
from ringwise.framework.plugin_options import PluginOption
from ringwise.framework.session import Session
from ringwise.state.model import Pod
from ringwise.wellknown import KUBE_SYSTEM, SYSTEM_CLUSTER_CRITICAL, SYSTEM_NODE_CRITICAL

_CRITICAL_CLASSES = frozenset({SYSTEM_CLUSTER_CRITICAL, SYSTEM_NODE_CRITICAL})


class Conformance:
    def __init__(self, option: PluginOption) -> None:
        self._option = option

    def open(self, session: Session) -> None:
        self._session = session
        session.on(Point.PREEMPTABLE, self.dispensable)
        session.on(Point.RECLAIMABLE, self.dispensable)

    def dispensable(self, job: Job, pod: Pod, candidates: list[str]) -> list[str]:
        pods = self._session.state.pods
        return [uid for uid in candidates if not _critical(pods[uid].pod)]


def _critical(pod: Pod) -> bool:
    return pod.namespace == KUBE_SYSTEM or pod.priority_class in _CRITICAL_CLASSES
