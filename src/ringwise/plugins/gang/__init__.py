"""gang: a job starts with all the pods it needs, or not at all, and keeps them."""

from __future__ import annotations

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
from ringwise.framework.gangs.gang_count import GangCount
from ringwise.framework.gangs.ready_pods import ReadyPods
from ringwise.framework.job import Job
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
        if job.min_per_task or job.sub_groups:
            short = _first_short_part(job, GangCount(job, able))
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
        startable = self._ready_pods.startable(job)
        missing = job.min_available - startable.pods
        if missing <= 0:
            return Vote.REJECT, TASKS_NOT_COMPLETE(
                job=job.name, short=startable.short_tasks, tasks=len(job.min_per_task)
            )
        return Vote.REJECT, GANG_NOT_COMPLETE(
            job=job.name, started=startable.pods, needed=job.min_available, missing=missing
        )

    def sub_groups_pipelined(self, job: Job) -> tuple[Vote, Reason | None]:
        short = self._ready_pods.startable(job).first_short_policy()
        if short is None:
            return Vote.PERMIT, None
        policy, have = short
        return Vote.REJECT, SUB_GROUPS_NOT_COMPLETE(
            job=job.name, policy=policy.name, complete=have, needed=policy.min_groups
        )

    def starving(self, job: Job) -> bool:
        started = self._ready_pods.started(job)
        return started < job.min_available or not self._ready_pods.sub_groups_complete(job)

    def spare_pods(self, job: Job, pod: Pod, candidates: list[str]) -> list[str] | None:
        """A pod may be evicted only while its job keeps its minimum; each one counts for the next."""
        if self._session.searches_bundles:
            return None
        left: dict[str, tuple[GangCount, int]] = {}
        spare = []
        for uid in candidates:
            one = self._session.state.pods[uid].pod
            owner = self._session.job_of(one)
            if owner is not None:
                if owner.key not in left:
                    counts = self._ready_pods.startable(owner)
                    # Pods that wait do not stand in for one that runs.
                    least = counts.pods - self._ready_pods.started(owner) + owner.min_available
                    left[owner.key] = counts.copy(), least
                counts, least = left[owner.key]
                counts.remove(one)
                if counts.pods < least or counts.short_policies:
                    counts.add(one)
                    continue
            spare.append(uid)
        return spare


def _first_short_part(job: Job, able: GangCount) -> Reason | None:
    if (task := able.first_short_task()) is not None:
        name, valid = task
        needed = job.min_per_task[name]
        return NOT_ENOUGH_PODS_OF_TASK(
            job=job.name, task=name, valid=valid, needed=needed, missing=needed - valid
        )
    if (short := able.first_short_policy()) is not None:
        policy, valid = short
        return NOT_ENOUGH_SUB_GROUPS(
            job=job.name,
            policy=policy.name,
            valid=valid,
            needed=policy.min_groups,
            missing=policy.min_groups - valid,
            size=policy.size,
        )
    return None


def _can_take_part(pod: Pod) -> bool:
    return pod.phase in ("Pending", "Running", "Succeeded") and not pod.deleting


SPEC = PluginSpec("gang", "starts a job with all required pods or not at all", lambda option: Gang())
