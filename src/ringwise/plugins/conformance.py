"""conformance: pods that the cluster itself needs are never evicted."""

from __future__ import annotations

from ringwise.framework.configuration import PluginOption
from ringwise.framework.extension_points import PREEMPTABLE, RECLAIMABLE
from ringwise.framework.job import Job
from ringwise.framework.registry import PluginSpec
from ringwise.framework.session import Session
from ringwise.state.model import Pod
from ringwise.wellknown import KUBE_SYSTEM, SYSTEM_CLUSTER_CRITICAL, SYSTEM_NODE_CRITICAL

_CRITICAL_CLASSES = frozenset({SYSTEM_CLUSTER_CRITICAL, SYSTEM_NODE_CRITICAL})


class Conformance:
    def __init__(self, option: PluginOption) -> None:
        self._option = option

    def open(self, session: Session) -> None:
        self._session = session
        session.register(PREEMPTABLE, self.not_critical)
        session.register(RECLAIMABLE, self.not_critical)

    def not_critical(self, job: Job, pod: Pod, candidates: list[str]) -> list[str]:
        pods = self._session.state.pods
        return [uid for uid in candidates if not _critical(pods[uid].pod)]


def _critical(pod: Pod) -> bool:
    return pod.namespace == KUBE_SYSTEM or pod.priority_class in _CRITICAL_CLASSES


SPEC = PluginSpec("conformance", "never evicts what the cluster itself needs", Conformance)
