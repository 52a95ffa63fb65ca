"""The PodGroup and pods of a workload that is not a vcjob, as its controller or operator creates them.

Names that end with random letters on a cluster (Deployment, ReplicaSet, Job) end with a number here, so that
equal inputs have equal answers.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace

from ringwise.messages.claim_expansion import (
    ephemeral_claims_of,
    pod_claims,
    stateful_claim,
    stateful_claims_of,
)
from ringwise.messages.job_expansion import resources_of
from ringwise.messages.ordinary_groups import group_for
from ringwise.state.model import Owner, Pod, PodGroup
from ringwise.state.owned_annotations import owned_in
from ringwise.state.volumes import PersistentVolumeClaim
from ringwise.state.workload import Role, Workload
from ringwise.wellknown import GROUP_NAME, KUBERNETES_JOB_API, RANK_INDEX, TASK_SPEC

_UIDS = uuid.UUID("5d0e3f0a-6a55-5a7c-9d36-8a4be2c1f7d4")


def workload_group(workload: Workload) -> PodGroup | None:
    """Its PodGroup; None where its pods get none, or name one themselves."""
    if workload.group is None or not workload.creates_group:
        return None
    if workload.owner is not None:
        pod = next(workload_pods(workload), None)
        made = group_for(pod, workload.owner) if pod is not None else None
        if made is None:
            return None
    else:
        made = _group_of_operator(workload)
    # The uid of a manifest is made up, so that a name made from it would tell nothing.
    return replace(
        made,
        name=workload.group,
        uid=str(uuid.uuid5(_UIDS, f"{workload.uid}/podgroup")),
        created=workload.created,
        origin=workload.origin,
    )


def _group_of_operator(workload: Workload) -> PodGroup:
    return PodGroup(
        namespace=workload.namespace,
        name="",
        min_member=workload.min_member,
        queue=workload.queue,
        priority_class=workload.priority_class,
        min_resources=workload.min_resources or _min_resources(workload),
        labels=workload.group_labels,
        annotations=workload.group_annotations,
        owner=_owner(workload),
    )


def workload_pods(workload: Workload) -> Iterator[Pod]:
    """All its pods, role by role."""
    owner = _owner(workload)
    for role in workload.roles:
        for index in range(role.replicas):
            yield _pod(workload, role, index, owner)


def workload_claims(workload: Workload) -> Iterator[PersistentVolumeClaim]:
    """The volume claims that are made for them."""
    owner = _owner(workload)
    for role in workload.roles:
        if role.claim_templates or role.template.ephemeral_volumes:
            for index in range(role.replicas):
                pod = _pod(workload, role, index, owner)
                yield from stateful_claims_of(pod, role)
                yield from ephemeral_claims_of(pod, role.template.ephemeral_volumes)


def _owner(workload: Workload) -> Owner:
    # A vcjob is a Job, too.
    api = KUBERNETES_JOB_API if workload.kind == "Job" else ""
    return Owner(workload.kind, workload.name, workload.uid, api)


def _pod(workload: Workload, role: Role, index: int, owner: Owner) -> Pod:
    template = role.template
    task = role.name.lower()
    stem = workload.stem or workload.name
    stem = f"{stem}-{task}" if task else stem
    name = stem if role.unnumbered else f"{stem}-{role.first + index}"
    stray = owned_in(template.annotations)
    annotations = {key: value for key, value in template.annotations.items() if key not in stray}
    if workload.group is not None and workload.creates_group:
        annotations[GROUP_NAME] = workload.group
        if task:
            annotations[TASK_SPEC] = task
    rank = template.rank if role.first_rank is None else role.first_rank + index
    if role.writes_rank:
        annotations[RANK_INDEX] = str(rank)
    of_set = (stateful_claim(one, name) for one, _ in role.claim_templates)
    claims, ephemeral = pod_claims(template, name, of_set)
    return Pod(
        uid=str(uuid.uuid5(_UIDS, f"{workload.uid}/{name}")),
        namespace=workload.namespace,
        name=name,
        cls=template.cls,
        created=workload.created,
        labels={**template.labels, **role.labels, **dict.fromkeys(role.index_labels, str(index))},
        annotations=annotations,
        group=workload.group,
        task=task,
        rank=rank,
        owner=owner,
        scheduler=template.scheduler,
        priority=template.priority,
        priority_class=template.priority_class,
        preemptable=template.preemptable,
        never_preempts=template.never_preempts,
        gated=template.gated,
        chip_containers=template.chip_containers,
        visible_devices=template.visible_devices,
        origin=workload.origin,
        claims=claims,
        ephemeral_claims=ephemeral,
    )


def _min_resources(workload: Workload) -> dict[str, int]:
    """What the smallest gang requests: its first pods, role by role."""
    total: dict[str, int] = {}
    left = workload.min_member
    for role in workload.roles:
        taken = min(role.replicas, left)
        left -= taken
        for name, count in resources_of(role.template.cls):
            total[name] = total.get(name, 0) + count * taken
    return total
