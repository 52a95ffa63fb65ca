"""conformance: pods that the cluster itself needs are never evicted."""

from __future__ import annotations

from ringwise.framework.extension_points import PREEMPTABLE, RECLAIMABLE
from ringwise.framework.job import Job
from ringwise.framework.registry import PluginSpec
from ringwise.framework.session import Session
from ringwise.state.model import Pod
from ringwise.wellknown import KUBE_SYSTEM, SYSTEM_CLASSES, SYSTEM_NAMESPACES


class Conformance:
    def open(self, session: Session) -> None:
        self._session = session
        session.register(PREEMPTABLE, self.not_critical)
        session.register(RECLAIMABLE, self.not_critical)

    def not_critical(self, job: Job, pod: Pod, candidates: list[str]) -> list[str]:
        pods = self._session.state.pods
        return [uid for uid in candidates if not _critical(pods[uid].pod)]


def _critical(pod: Pod) -> bool:
    if pod.priority_class in SYSTEM_CLASSES:
        # Kubernetes lets every namespace use these classes. Pods that the cluster itself requires, such as an
        # agent on each node, do not request chips. If pods with chips were critical in every namespace,
        # tenants could protect their jobs from eviction.
        return not pod.cls.chips or pod.namespace in SYSTEM_NAMESPACES
    return pod.namespace == KUBE_SYSTEM


SPEC = PluginSpec(
    "conformance",
    "protects pods that the cluster itself requires from eviction",
    lambda option: Conformance(),
)
