"""gang: a job starts with all the pods it needs, or not at all, and keeps them."""

from __future__ import annotations

from ringwise.framework.configuration import PluginOption
from ringwise.framework.extension_points import (
    JOB_ORDER,
    JOB_PIPELINED,
    JOB_READY,
    JOB_STARVING,
    JOB_VALID,
    PREEMPTABLE,
    RECLAIMABLE,
    SUB_JOB_PIPELINED,
    SUB_JOB_READY,
    Vote,
)
from ringwise.framework.gangs.ready_pods import ReadyPods
from ringwise.framework.job import Job, task_minimums_count
from ringwise.framework.registry import PluginSpec
from ringwise.framework.session import Session
from ringwise.plugins.gang.reasons import (
    GANG_NOT_COMPLETE,
    NOT_ENOUGH_PODS,
    NOT_ENOUGH_PODS_OF_TASK,
    NOT_ENOUGH_SUB_GROUPS,
    SUB_GROUPS_NOT_COMPLETE,
    TASKS_NOT_COMPLETE,
)
from ringwise.reasons import Reason
from ringwise.state.model import Pod


class Gang:
    def __init__(self, option: PluginOption) -> None:
        self._option = option

    def open(self, session: Session) -> None:
        self._session = session
        self._ready_pods = session.shared(ReadyPods)
        session.register(JOB_VALID, self.valid)
        session.register(JOB_ORDER, self.job_order)
        session.register(JOB_READY, self.ready)
        session.register(JOB_PIPELINED, self.pipelined)
        session.register(SUB_JOB_READY, self._ready_pods.sub_groups_complete)
        session.register(SUB_JOB_PIPELINED, self.sub_groups_pipelined)
        session.register(JOB_STARVING, self.starving)
        session.register(PREEMPTABLE, self.spare_pods)
        session.register(RECLAIMABLE, self.spare_pods)

    def valid(self, job: Job) -> Reason | None:
        """Enough pods exist that run, have succeeded, or can still be placed: in every task, then in all."""
        if self._awaits_pods(job):
            return None
        able = [pod for pod in job.pods.values() or job.prospective if _can_take_part(pod)]
        if task_minimums_count(job):
            per_task: dict[str, int] = {}
            for pod in able:
                per_task[pod.task] = per_task.get(pod.task, 0) + 1
            for task, needed in job.min_per_task.items():
                valid = per_task.get(task, 0)
                if valid < needed:
                    return NOT_ENOUGH_PODS_OF_TASK(
                        job=job.name, task=task, valid=valid, needed=needed, missing=needed - valid
                    )
        short = _short_of_sub_groups(job, {pod.uid for pod in able}) if job.sub_groups else None
        if short is not None:
            return short
        missing = job.min_available - len(able)
        if missing > 0:
            return NOT_ENOUGH_PODS(job=job.name, valid=len(able), needed=job.min_available, missing=missing)
        return None

    def _awaits_pods(self, job: Job) -> bool:
        """Whether the owner of its PodGroup creates the pods once the job is admitted: none can be required.

        A job that lost its admission with its pods may have some of them again; the others wait for it.
        """
        if not job.pods:
            return not job.prospective
        owned = job.group is not None and job.group.owner is not None
        return owned and not self._session.is_admitted(job)

    def ready(self, job: Job) -> bool:
        """Every task and the job as a whole have their minimum."""
        return self._ready_pods.complete(job)

    def job_order(self, job: Job) -> bool:
        """Jobs whose gang is incomplete go before jobs that only want more pods."""
        return self._ready_pods.complete(job)

    def pipelined(self, job: Job) -> tuple[Vote, Reason | None]:
        """Whether the gang is complete with the nodes it gets once the victims are gone.

        Inside the statement those count like free ones.
        """
        if self.ready(job):
            return Vote.PERMIT, None
        started = self._ready_pods.startable(job)
        missing = job.min_available - started
        if missing <= 0:
            return Vote.REJECT, TASKS_NOT_COMPLETE(
                job=job.name, short=self._ready_pods.tasks_short(job), tasks=len(job.min_per_task)
            )
        return Vote.REJECT, GANG_NOT_COMPLETE(
            job=job.name, started=started, needed=job.min_available, missing=missing
        )

    def sub_groups_pipelined(self, job: Job) -> tuple[Vote, Reason | None]:
        short = self._ready_pods.sub_groups_short(job)
        if short is None:
            return Vote.PERMIT, None
        policy, have, needed = short
        return Vote.REJECT, SUB_GROUPS_NOT_COMPLETE(job=job.name, policy=policy, complete=have, needed=needed)

    def starving(self, job: Job) -> bool:
        started = self._ready_pods.started(job)
        return started < job.min_available or not self._ready_pods.sub_groups_complete(job)

    def spare_pods(self, job: Job, pod: Pod, candidates: list[str]) -> list[str] | None:
        """A pod may be evicted only while its job keeps its minimum; each one counts for the next."""
        if self._session.searches_bundles:
            return None
        remaining: dict[str, int] = {}
        taken: dict[str, list[str]] = {}
        spare = []
        for uid in candidates:
            owner = self._session.job_of(self._session.state.pods[uid].pod)
            if owner is not None:
                left = remaining.get(owner.key)
                if left is None:
                    left = self._ready_pods.started(owner)
                lost = taken.setdefault(owner.key, [])
                if left <= owner.min_available or not self._ready_pods.keeps_sub_groups(owner, [*lost, uid]):
                    continue
                lost.append(uid)
                remaining[owner.key] = left - 1
            spare.append(uid)
        return spare


def _short_of_sub_groups(job: Job, able: set[str]) -> Reason | None:
    """Why a policy cannot have as many complete sub-groups as must run."""
    valid: dict[int, int] = {}
    for group in job.sub_groups:
        if len(able.intersection(group.pods)) >= group.size:
            valid[group.position] = valid.get(group.position, 0) + 1
    for position, policy in enumerate(job.group.sub_groups if job.group is not None else ()):
        found = valid.get(position, 0)
        if found < policy.min_groups:
            return NOT_ENOUGH_SUB_GROUPS(
                job=job.name,
                policy=policy.name,
                valid=found,
                needed=policy.min_groups,
                missing=policy.min_groups - found,
                size=policy.size,
            )
    return None


def _can_take_part(pod: Pod) -> bool:
    return pod.phase == "Succeeded" or (pod.phase in ("Pending", "Running") and not pod.deleting)


SPEC = PluginSpec("gang", "starts a job with all the pods it needs or not at all", Gang)
