"""Jobs of a lab as their users know them: vcjobs, PodGroups of others, pods on their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from ringwise.apps.lab.lab import LiveLab
from ringwise.framework.amounts import lacking
from ringwise.framework.job import Job
from ringwise.messages.job_expansion import group_name
from ringwise.reasons import Reason, Stage
from ringwise.records import dataclass
from ringwise.state.model import Pod, PodGroup
from ringwise.state.vcjob import OVER, VcJob

#: Reasons that only another cluster or another job can cure, beside those of a job that is wrong in itself.
_NEVER = frozenset({"cluster-too-small"})


@dataclass(slots=True)
class JobView:
    namespace: str
    name: str
    #: vcjob, PodGroup or Pod
    kind: str
    queue: str
    priority: int
    phase: str
    pods: list[Pod]
    wanted: int
    needed: int
    created: int
    #: Chips that its pods ask for together.
    chips: int = 0
    reason: Reason | None = None
    #: As the scheduler knows it; None for a job that is over.
    job: Job | None = None
    vcjob: VcJob | None = None
    counts: dict[str, int] = field(default_factory=dict)
    #: Waiting alone will not help it.
    never: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def placed(self) -> int:
        return sum(1 for pod in self.pods if pod.node is not None and pod.live)

    @property
    def outcome(self) -> str:
        """placed, waiting, refused (waiting will not help), ended"""
        if self.never:
            return "refused"
        if self.placed >= max(1, self.needed):
            return "placed"
        over = self.phase in OVER or (self.pods and not any(pod.live for pod in self.pods))
        return "ended" if over else "waiting"

    def as_json(self) -> dict[str, Any]:
        return {
            "namespace": self.namespace,
            "name": self.name,
            "kind": self.kind,
            "queue": self.queue,
            "priority": self.priority,
            "phase": self.phase,
            "outcome": self.outcome,
            "pods": self.wanted,
            "min_available": self.needed,
            "placed": self.placed,
            "running": sum(1 for pod in self.pods if pod.phase == "Running"),
            "chips": self.chips,
            "created": self.created,
            "nodes": list(dict.fromkeys(pod.node for pod in self.pods if pod.node is not None)),
            "reason": None if self.reason is None else self.reason.as_json(),
        }


def job_views(live: LiveLab) -> list[JobView]:
    """All jobs in the order in which they were created."""
    by_group: dict[str, list[Pod]] = {}
    alone: list[Pod] = []
    for pod in live.cluster.all(Pod):
        if pod.group is None:
            alone.append(pod)
        else:
            by_group.setdefault(f"{pod.namespace}/{pod.group}", []).append(pod)
    found = list(_of_vcjobs(live, by_group))
    found += _of_groups(live, by_group)
    found += [_of_pod(live, pod) for pod in alone]
    for view in found:
        view.never = _never(live, view)
    found.sort(key=lambda view: view.created)
    return found


def _of_vcjobs(live: LiveLab, by_group: dict[str, list[Pod]]) -> Iterator[JobView]:
    for vcjob in live.cluster.all(VcJob):
        key = f"{vcjob.namespace}/{group_name(vcjob)}"
        job = live.view.jobs.get(key)
        yield JobView(
            vcjob.namespace,
            vcjob.name,
            "vcjob",
            vcjob.queue,
            0 if job is None else job.priority,
            vcjob.phase or "Pending",
            by_group.get(key, []),
            vcjob.replicas,
            vcjob.min_available,
            vcjob.created,
            sum(task.template.cls.chips * task.replicas for task in vcjob.tasks),
            _reason(live, job),
            job,
            vcjob,
            dict(vcjob.counts),
        )


def _of_groups(live: LiveLab, by_group: dict[str, list[Pod]]) -> Iterator[JobView]:
    owners = {vcjob.uid for vcjob in live.cluster.all(VcJob)}
    for group in live.cluster.all(PodGroup):
        if group.owner is not None and group.owner.uid in owners:
            continue
        job = live.view.jobs.get(group.key)
        pods = by_group.get(group.key, [])
        yield JobView(
            group.namespace,
            group.name,
            "PodGroup",
            group.queue,
            0 if job is None else job.priority,
            group.phase or "Pending",
            pods,
            max(len(pods), group.min_member),
            group.min_member,
            group.created,
            sum(pod.cls.chips for pod in pods),
            _reason(live, job),
            job,
        )


def _of_pod(live: LiveLab, pod: Pod) -> JobView:
    job = live.view.jobs.get(pod.key)
    return JobView(
        pod.namespace,
        pod.name,
        "Pod",
        "default" if job is None else job.queue,
        pod.priority,
        pod_phase(pod),
        [pod],
        1,
        1,
        pod.created,
        pod.cls.chips,
        _reason(live, job),
        job,
    )


def pod_phase(pod: Pod) -> str:
    return "Terminating" if pod.deleting else pod.phase


def _reason(live: LiveLab, job: Job | None) -> Reason | None:
    """Why it waits; a job whose pods all have nodes has no reason any more."""
    if job is None or job.reason is None:
        return None
    if job.pods and not live.view.has_pending_pods(job):
        return None
    return job.reason


def _never(live: LiveLab, view: JobView) -> bool:
    if view.reason is None:
        return False
    if view.reason.kind.stage is Stage.VALIDATE or view.reason.code in _NEVER:
        return True
    queue = live.view.queues.get(view.queue)
    if view.job is None or queue is None or not queue.capability:
        return False
    return bool(lacking(view.job.min_asked(), {}, queue.capability))
