"""cdp: a job is not preempted or reclaimed before it has run as long as it asks for, within a queue's limit.

Volcano counts from when the pod was scheduled, and so does this plugin; of a gang from when its first pod
was, so that it does not become young again with each pod that is replaced. It protects in whichever tier it
stands: in Volcano another tier is asked about the pods that the plugin refuses, and may allow them.
"""

from __future__ import annotations

from ringwise.framework.evictions.lost_work import cooldown_span, gang_started, pod_started
from ringwise.framework.extension_points import PREEMPT_PROTECTION, RECLAIM_PROTECTION
from ringwise.framework.job import Job
from ringwise.framework.registry import PluginSpec
from ringwise.framework.session import Session
from ringwise.state.model import Pod


class Cdp:
    def open(self, session: Session) -> None:
        self._session = session
        #: Asked for each of thousands of candidates several times in a cycle.
        self._until: dict[str, int | None] = {}
        self._gangs: dict[str, int] = {}
        session.register(PREEMPT_PROTECTION, self.protected_until)
        session.register(RECLAIM_PROTECTION, self.protected_until)

    def protected_until(self, uid: str) -> int | None:
        if uid in self._until:
            return self._until[uid]
        session = self._session
        pod = session.state.pods[uid].pod
        job = session.job_of(pod)
        until = None
        if job is not None:
            span = cooldown_span(job, pod, session.queues.get(job.queue))
            until = self._started(job, pod) + span if span else None
        self._until[uid] = until
        return until

    def _started(self, job: Job, pod: Pod) -> int:
        if job.has_independent_pods:
            return pod_started(job, pod, self._session.now)
        result = self._gangs.get(job.key)
        if result is None:
            result = self._gangs[job.key] = gang_started(job, self._session.now)
        return result


SPEC = PluginSpec(
    "cdp", "protects jobs from eviction after their start (`volcano.sh/cooldown-time`)", lambda option: Cdp()
)
