"""Validity of jobs that request soft shares of chips or vNPUs (rules V2, V5, V9, V10)."""

from __future__ import annotations

from ringwise.framework.job import Job
from ringwise.framework.reasons import CHIPS_OF_INIT_CONTAINER, TOO_MANY_CHIP_CONTAINERS
from ringwise.framework.session import Session
from ringwise.plugins.topology910.reasons import (
    AICORE_QUOTA_RANGE,
    COUNT_NOT_ALLOWED,
    DVPP_NOT_ALLOWED,
    HBM_QUOTA_RANGE,
    LEVEL_NOT_ALLOWED,
    MIXED_RESOURCES,
    MORE_THAN_ONE_PART,
    NETWORK_AFFINITY_WITH_PARTS,
    POLICY_AND_RESOURCE_DIFFER,
    QUOTA_NOT_A_NUMBER,
    REQUEST_DIFFERS_FROM_QUOTA,
    RING_LABEL_UNKNOWN,
    SEVERAL_CHIP_RESOURCES,
    SHARE_LABEL_MISSING,
    SHARE_LABELS_DIFFER,
    SHARE_POLICY_UNKNOWN,
    STATIC_VNPUS_ONLY,
    UNKNOWN_DVPP,
)
from ringwise.reasons import Reason
from ringwise.state.model import DYNAMIC, SOFT, STATIC, PartRequest, Pod
from ringwise.state.part_requests import SHARE_LABELS, quota, requested
from ringwise.topology.policy import SOFT_SHARE_POLICY, is_chip_resource, is_static_part
from ringwise.topology.vnpu_templates import DVPP_VALUES, FAMILY_OF_RING, DividedChip, kinds_of
from ringwise.wellknown import (
    AICORE_QUOTA,
    HBM_QUOTA,
    SCHEDULE_POLICY,
    SHARE_POLICIES,
    SHARE_POLICY,
    SP_BLOCK,
    TOR_AFFINITY,
    VNPU_DVPP,
    VNPU_LEVEL,
)


def requests_parts(job: Job) -> bool:
    """Whether the job requests a share or a vNPU, or what looks like one."""
    return any(
        pod.cls.part is not None
        or (pod.cls.chips and "+" in (pod.cls.resource or ""))
        or (pod.cls.chips and _policy(job, pod) == SOFT_SHARE_POLICY)
        for pod in job.in_order
        if pod.phase != "Failed"
    )


def check_parts(job: Job, session: Session) -> Reason | None:
    """Why such a job is refused; None for a valid one."""
    pods = [pod for pod in job.in_order if pod.phase != "Failed" and requested(pod.cls)[1]]
    for pod in pods:
        names = (requested(pod.cls)[0] or "").split("+")
        if len(names) > 1 and not all(map(is_static_part, names)):
            return SEVERAL_CHIP_RESOURCES(pod=pod.name, resources=names)
    for pod in pods:
        resource = requested(pod.cls)[0] or ""
        are_chips = all(map(is_chip_resource, resource.split("+")))
        if _policy(job, pod) == SOFT_SHARE_POLICY and not are_chips:
            return POLICY_AND_RESOURCE_DIFFER(policy=SOFT_SHARE_POLICY, resource=resource)
    sp_block = job.annotations.get(SP_BLOCK)
    tor = job.labels.get(TOR_AFFINITY, "null")
    if sp_block is not None or tor != "null":
        what = f"{SP_BLOCK}: {sp_block}" if sp_block is not None else f"{TOR_AFFINITY}: {tor}"
        return NETWORK_AFFINITY_WITH_PARTS(what=what)
    resources = sorted({requested(pod.cls)[0] or "" for pod in pods})
    if len(resources) > 1:
        return MIXED_RESOURCES(resources=resources)
    for pod in pods:
        if pod.chip_containers > 1 and "+" not in resources[0]:
            return TOO_MANY_CHIP_CONTAINERS(
                containers=pod.chip_containers, pod=pod.name, chips=requested(pod.cls)[1]
            )
        if pod.cls.chips_before_start:
            return CHIPS_OF_INIT_CONTAINER(pod=pod.name)
    parts = [pod.cls.part for pod in pods if pod.cls.part is not None]
    if not parts or parts[0].mode == STATIC:
        more = next((pod for pod in pods if requested(pod.cls)[1] > 1), None)
        return None if more is None else MORE_THAN_ONE_PART(pod=more.name, count=requested(more.cls)[1])
    if parts[0].mode == SOFT:
        waiting = [pod for pod in pods if pod.node is None]
        reasons = [_check_share(job, pod) for pod in waiting]
        # If the first pod is valid, the others differ from it.
        first = next(iter(reasons), None)
        return first or _check_equal(job, pods) or next((one for one in reasons if one is not None), None)
    return next((reason for part in parts if (reason := _check_vnpu(part, session)) is not None), None)


def _policy(job: Job, pod: Pod) -> str | None:
    group = job.group.annotations if job.group is not None else {}
    return pod.annotations.get(SCHEDULE_POLICY) or group.get(SCHEDULE_POLICY)


def _labels(job: Job, pod: Pod) -> list[str | None]:
    group = job.group.labels if job.group is not None else {}
    return [pod.labels.get(key, group.get(key)) for key in SHARE_LABELS]


def _check_share(job: Job, pod: Pod) -> Reason | None:
    """Rule V5."""
    values = _labels(job, pod)
    for key, value in zip(SHARE_LABELS, values, strict=True):
        if value is None:
            return SHARE_LABEL_MISSING(label=key)
    percent, mb = quota(values[0]), quota(values[1])
    for key, value, number in ((AICORE_QUOTA, values[0], percent), (HBM_QUOTA, values[1], mb)):
        if number is None:
            return QUOTA_NOT_A_NUMBER(label=key, value=value)
    if percent is None or not 1 <= percent <= 100:
        return AICORE_QUOTA_RANGE(label=AICORE_QUOTA, value=percent)
    if not mb:
        return HBM_QUOTA_RANGE(label=HBM_QUOTA, value=mb)
    if values[2] not in SHARE_POLICIES:
        return SHARE_POLICY_UNKNOWN(label=SHARE_POLICY, value=values[2], allowed=tuple(SHARE_POLICIES))
    resource, count = requested(pod.cls)
    if count != percent:
        return REQUEST_DIFFERS_FROM_QUOTA(resource=resource, count=count, percent=percent)
    return None


def _check_equal(job: Job, pods: list[Pod]) -> Reason | None:
    if job.has_independent_pods:
        return None
    label_sets = {tuple(_labels(job, pod)) for pod in pods}
    if len(label_sets) < 2 and len({pod.cls.part is None for pod in pods}) < 2:
        return None
    return SHARE_LABELS_DIFFER(labels=SHARE_LABELS)


def _check_vnpu(part: PartRequest, session: Session) -> Reason | None:
    """Rule V10."""
    if session.settings.preset_virtual_device:
        return STATIC_VNPUS_ONLY(count=part.count)
    family = FAMILY_OF_RING.get(part.ring)
    if family is None:
        return RING_LABEL_UNKNOWN(value=part.ring, allowed=tuple(FAMILY_OF_RING))
    if part.dvpp not in DVPP_VALUES:
        return UNKNOWN_DVPP(label=VNPU_DVPP, value=part.dvpp, allowed=DVPP_VALUES)
    kinds = [kind for kind in _kinds(family, session) if kind.takes_count(part.count)]
    if not kinds:
        return COUNT_NOT_ALLOWED(count=part.count, family=family)
    kinds = [kind for kind in kinds if kind.takes_dvpp(part.count, part.dvpp)]
    if not kinds:
        return DVPP_NOT_ALLOWED(label=VNPU_DVPP, value=part.dvpp, count=part.count)
    if not any(kind.takes_level(part.count, part.level) for kind in kinds):
        return LEVEL_NOT_ALLOWED(label=VNPU_LEVEL, value=part.level, count=part.count)
    return None


def _kinds(family: str, session: Session) -> list[DividedChip]:
    """The kinds of chips of the nodes with dynamic vNPUs; without such nodes all of the family."""
    state = session.state
    modes = (state.modes[number] for number in state.nodes_in_mode[DYNAMIC])
    kinds = {id(one.divided): one.divided for one in modes if one.divided is not None}
    return [kind for kind in kinds.values() if kind.family == family] or kinds_of(family)
