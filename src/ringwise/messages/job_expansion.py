"""The PodGroup and pods of a vcjob, as Volcano's controller creates them."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping

from ringwise.messages.claim_expansion import pod_claims
from ringwise.state.job_plugins import arguments_of
from ringwise.state.model import Owner, Pod, PodClass, PodGroup, Requirement, SubGroupPolicy
from ringwise.state.owned_annotations import owned_in
from ringwise.state.vcjob import Task, VcJob, claim_names
from ringwise.wellknown import (
    BATCH_API,
    GROUP_NAME,
    JOB_NAME,
    JOB_NAMESPACE,
    JOB_RETRY_COUNT,
    JOB_VERSION,
    PARTITION_ID,
    PREEMPTABLE,
    QUEUE_NAME,
    RANK_INDEX,
    TASK_INDEX,
    TASK_SPEC,
    TEMPLATE_UID,
    USER,
)

_TRUE = frozenset({"1", "t", "T", "true", "True", "TRUE"})
#: Uids of pods that do not exist yet are derived from their job's uid and their name, the same in every run.
_UIDS = uuid.UUID("0a7e0d7c-4f0e-5f0b-8b67-2f2d1f5f9c11")


def pod_group_of(job: VcJob, priorities: Mapping[str, int] | None = None) -> PodGroup:
    """The gang of the job. `priorities` are the values of the priority classes, by name."""
    return PodGroup(
        namespace=job.namespace,
        name=group_name(job),
        uid=str(uuid.uuid5(_UIDS, f"{job.uid}/podgroup")),
        min_member=job.min_available,
        min_task_member={task.name: task.min_available for task in job.tasks},
        queue=job.queue,
        priority_class=job.priority_class,
        min_resources=_min_resources(job, priorities or {}),
        created=job.created,
        labels=job.labels,
        annotations=job.annotations,
        owner=_owner(job),
        origin=job.origin,
        topology=job.topology,
        sub_groups=tuple(_sub_groups(job)),
    )


def _sub_groups(job: VcJob) -> Iterator[SubGroupPolicy]:
    """Each partition of a task is a sub-group of the gang."""
    for task in job.tasks:
        parts = task.partitions
        if parts is not None:
            yield SubGroupPolicy(
                name=task.name,
                selector=(Requirement(TASK_SPEC, "In", (task.name,)),),
                match_label_keys=(PARTITION_ID,),
                size=parts.size,
                min_groups=parts.minimum,
                topology=parts.topology,
            )


def pods_of(job: VcJob, existing: Collection[str] = ()) -> list[Pod]:
    """The pods of the job that do not exist yet, in task order. `existing` holds keys (`namespace/name`).

    A job that has ended, or that can never run, gets none.
    """
    if job.over or job.problems:
        return []
    return [pod for pod in _all_pods(job) if pod.key not in existing]


def group_name(job: VcJob) -> str:
    return f"{job.name}-{job.uid}"


def _owner(job: VcJob) -> Owner:
    return Owner("Job", job.name, job.uid, BATCH_API)


def _all_pods(job: VcJob) -> Iterator[Pod]:
    owner, group = _owner(job), group_name(job)
    first = 0
    for task in job.tasks:
        for index in range(task.replicas):
            yield _pod(job, task, index, _rank(job, task, index, first), owner, group)
        first += task.replicas


def _pod(job: VcJob, task: Task, index: int, rank: int | None, owner: Owner, group: str) -> Pod:
    template = task.template
    name = f"{job.name}-{task.name}-{index}"
    stray = owned_in(template.annotations)
    annotations = {
        **{key: value for key, value in template.annotations.items() if key not in stray},
        GROUP_NAME: group,
        TASK_SPEC: task.name,
        TASK_INDEX: str(index),
        JOB_NAME: job.name,
        QUEUE_NAME: job.queue,
        JOB_VERSION: str(job.version),
        TEMPLATE_UID: f"{job.name}-{task.name}",
        JOB_RETRY_COUNT: str(job.retry_count),
    }
    if PREEMPTABLE in job.annotations:
        # The live pod is read again, and it alone says whether it may be evicted.
        annotations.setdefault(PREEMPTABLE, job.annotations[PREEMPTABLE])
    if USER in job.annotations:
        annotations[USER] = job.annotations[USER]
    annotations.pop(RANK_INDEX, None)
    if rank is not None and ("hcclrank" in job.plugins or RANK_INDEX in template.annotations):
        annotations[RANK_INDEX] = str(rank)
    claims, ephemeral = pod_claims(template, name, claim_names(job))
    return Pod(
        uid=str(uuid.uuid5(_UIDS, f"{job.uid}/{job.retry_count}/{name}")),
        namespace=job.namespace,
        name=name,
        cls=template.cls,
        created=job.created,
        labels={
            **template.labels,
            TASK_INDEX: str(index),
            TASK_SPEC: task.name,
            JOB_NAME: job.name,
            JOB_NAMESPACE: job.namespace,
            QUEUE_NAME: job.queue,
            **({} if task.partitions is None else {PARTITION_ID: str(index // task.partitions.size)}),
        },
        annotations=annotations,
        group=group,
        task=task.name,
        rank=rank,
        owner=owner,
        scheduler=template.scheduler or job.scheduler,
        priority=template.priority,
        priority_class=template.priority_class or job.priority_class,
        preemptable=template.preemptable or _preemptable(job),
        never_preempts=template.never_preempts,
        gated=template.gated,
        chip_containers=template.chip_containers,
        visible_devices=template.visible_devices,
        origin=job.origin,
        claims=claims,
        ephemeral_claims=ephemeral,
    )


def _preemptable(job: VcJob) -> bool:
    return job.annotations.get(PREEMPTABLE, job.labels.get(PREEMPTABLE, "")) in _TRUE


def _rank(job: VcJob, task: Task, index: int, first: int) -> int | None:
    """The rank that the job plugins give, made unique over the job.

    A task index counts within one task, so two tasks would share ranks; the position over all tasks
    in their order is used instead. Without such a plugin the pod has no rank.
    """
    if task.template.rank is not None and task.replicas == 1:
        return task.template.rank
    if "hcclrank" in job.plugins:
        return _hccl_rank(job, task, index)
    return first + index if "env" in job.plugins else None


def _hccl_rank(job: VcJob, task: Task, index: int) -> int | None:
    """Masters first, then workers; other tasks have no rank."""
    arguments = arguments_of("hcclrank", job.plugins["hcclrank"])
    master, worker = arguments.text("master"), arguments.text("worker")
    if task.name == master:
        return index
    if task.name == worker:
        return index + sum(other.replicas for other in job.tasks if other.name == master)
    return None


def _min_resources(job: VcJob, priorities: Mapping[str, int]) -> dict[str, int]:
    """What the smallest gang requests: every task's minimum first, then more by priority up to the job's."""
    by_priority = sorted(
        job.tasks,
        key=lambda task: -priorities.get(task.template.priority_class, task.template.priority),
    )
    left = job.min_available
    taken = dict.fromkeys(range(len(by_priority)), 0)
    whole = left >= sum(task.min_available for task in job.tasks)
    if whole:
        for position, task in enumerate(by_priority):
            taken[position] = task.min_available
            left -= task.min_available
    for position, task in enumerate(by_priority):
        more = min(task.replicas - taken[position], left)
        taken[position] += max(more, 0)
        left -= max(more, 0)
    total: dict[str, int] = {}
    for position, task in enumerate(by_priority):
        for name, count in quota_usage(task.template.cls, task.template.limits):
            total[name] = total.get(name, 0) + count * taken[position]
    return total


def quota_usage(cls: PodClass, limits: Iterable[tuple[str, int]] = ()) -> Iterator[tuple[str, int]]:
    """What a pod uses, under every name that a ResourceQuota has for it, and extended resources as such."""
    for name, count in resources_of(cls):
        yield name, count
        yield f"requests.{name}", count
    for name, count in limits:
        yield f"limits.{name}", count
    yield "pods", 1
    yield "count/pods", 1


def resources_of(cls: PodClass) -> Iterator[tuple[str, int]]:
    """A pod's requests by name: cpu in milli, memory in bytes, all else in pieces."""
    if cls.resource is not None and cls.chips:
        yield cls.resource, cls.chips
    if cls.cpu_milli:
        yield "cpu", cls.cpu_milli
    if cls.memory:
        yield "memory", cls.memory
    yield from cls.extended
