"""The PodGroup of pods whose owner creates none: of a Deployment, a StatefulSet, a Job, or of a bare pod.

As Volcano's pg-controller builds it. The controller, `ringwise place` and the lab all build it here, so that
a manifest and the same objects on a cluster get the same decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ringwise.framework.amounts import without_quota_names
from ringwise.messages.job_expansion import quota_usage
from ringwise.state.model import DEFAULT_QUEUE, Owner, Pod, PodGroup, ordinary_group_name
from ringwise.state.topology_annotations import annotated_topology, asks_by_annotations
from ringwise.state.workload import PodOwner
from ringwise.topology.numbers import INT32, whole_number
from ringwise.wellknown import (
    COOLDOWN_TIME,
    FILTER_FAULT_CODE,
    FILTER_FAULT_LEVEL,
    GROUP_MIN_MEMBER,
    GROUP_REPLICAS,
    GROUP_SUSPENDED,
    JDB_MAX_UNAVAILABLE,
    JDB_MIN_AVAILABLE,
    PREEMPTABLE,
    QUEUE_NAME,
    RA_BLOCK,
    RECOVER_POLICY_PATH,
    REVOCABLE_ZONE,
    SCHEDULE_MIN_AVAILABLE,
    SCHEDULE_POLICY,
    SCHEDULING_QUEUE_NAME,
    SP_BLOCK,
    UB_MEMORY,
    USER,
    VOLCANO_PREFIX,
)

#: Huawei's annotations of a job that its scheduler reads from the ReplicaSet. Those of a Deployment reach it.
REPLICA_SET_ANNOTATIONS = (
    *(SCHEDULE_POLICY, SP_BLOCK, RA_BLOCK, UB_MEMORY),
    *(FILTER_FAULT_CODE, FILTER_FAULT_LEVEL, RECOVER_POLICY_PATH),
)

#: Labels and annotations of such a PodGroup that only its builder writes: one that is not wanted is removed.
BUILT_LABELS = (PREEMPTABLE, COOLDOWN_TIME)
BUILT_ANNOTATIONS = (
    PREEMPTABLE,
    COOLDOWN_TIME,
    REVOCABLE_ZONE,
    JDB_MIN_AVAILABLE,
    JDB_MAX_UNAVAILABLE,
    GROUP_REPLICAS,
    GROUP_SUSPENDED,
    *REPLICA_SET_ANNOTATIONS,
)
#: For its PodGroups Volcano reads only the first.
_QUEUE_KEYS = (SCHEDULING_QUEUE_NAME, QUEUE_NAME)
_OF_THE_POD = (PREEMPTABLE, COOLDOWN_TIME, REVOCABLE_ZONE)
#: Kinds whose annotations count. Those of a Deployment reach its ReplicaSet: Kubernetes copies them.
_TELLING_KINDS = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet", "Job"})


def group_for(pod: Pod, owner: PodOwner | None) -> PodGroup:
    """The PodGroup of a pod and of all others of its owner. `owner` is None where it is not known."""
    reference = group_owner(pod)
    from_owner = owner.annotations if owner is not None and owner.kind in _TELLING_KINDS else {}
    members = _min_member(pod, from_owner)
    resources: dict[str, int] = {}
    if members:
        for name, count in quota_usage(pod.cls):
            resources[name] = resources.get(name, 0) + count * members
    replicas = owner.replicas if owner is not None else 0
    annotations = _annotations(pod, from_owner)
    if replicas > 1:
        annotations[GROUP_REPLICAS] = str(replicas)
    return PodGroup(
        namespace=pod.namespace,
        name=ordinary_group_name(reference.uid),
        min_member=members,
        queue=queue_without_group(pod.annotations, _QUEUE_KEYS[:1] if has_siblings(pod) else _QUEUE_KEYS),
        priority_class=pod.priority_class,
        min_resources=resources,
        labels={key: pod.labels[key] for key in BUILT_LABELS if key in pod.labels},
        annotations=annotations,
        owner=reference,
        ordinary=True,
        replicas=replicas,
        topology=annotated_topology(pod.annotations),
    )


def marked_suspended(group: PodGroup, owner: PodOwner) -> PodGroup:
    """The PodGroup of a Job of Kubernetes, with what it says about whether that is suspended."""
    annotations = {key: value for key, value in group.annotations.items() if key != GROUP_SUSPENDED}
    if owner.suspended:
        annotations[GROUP_SUSPENDED] = "true"
    return replace(group, annotations=annotations)


def group_owner(pod: Pod) -> Owner:
    """The controller of the pod; the pod itself where it has none."""
    if pod.owner is not None and not pod.owner.loose and pod.owner.uid:
        return pod.owner
    return Owner("Pod", pod.name, pod.uid, "v1")


def has_siblings(pod: Pod) -> bool:
    """Whether its PodGroup is also that of other pods."""
    return group_owner(pod).uid != pod.uid


def needs_group(pod: Pod) -> bool:
    """Whether its PodGroup says what the pod does not: it is also that of others, or has a network topology.

    Any other bare pod is a job of one pod with or without a PodGroup.
    """
    return has_siblings(pod) or asks_by_annotations(pod.annotations)


def queue_without_group(annotations: Mapping[str, str], keys: Iterable[str] = _QUEUE_KEYS) -> str:
    """The queue of a pod that is a job of its own. It stays in that queue when it gets a PodGroup."""
    return next((annotations[key] for key in keys if annotations.get(key)), DEFAULT_QUEUE)


def is_as_wanted(group: PodGroup, wanted: PodGroup) -> bool:
    """Whether a PodGroup that exists says what it should. What others wrote to it besides is theirs."""
    return (
        group.min_member == wanted.min_member
        # A webhook may give another one to groups that name none.
        and wanted.queue in (DEFAULT_QUEUE, group.queue)
        and group.priority_class == wanted.priority_class
        and without_quota_names(group.min_resources) == without_quota_names(wanted.min_resources)
        # One that its pods do not ask for is somebody else's.
        and wanted.topology in (None, group.topology)
        and _agree(group.labels, wanted.labels, BUILT_LABELS)
        and _agree(group.annotations, wanted.annotations, BUILT_ANNOTATIONS)
    )


def _agree(actual: Mapping[str, str], wanted: Mapping[str, str], built: tuple[str, ...]) -> bool:
    return all(actual.get(key) == wanted.get(key) for key in (*wanted, *built))


def _min_member(pod: Pod, from_owner: Mapping[str, str]) -> int:
    """The gang that the owner or Huawei's annotation of the pod asks for. What cannot be read counts as 1."""
    number = whole_number(from_owner[GROUP_MIN_MEMBER], 0, INT32) if GROUP_MIN_MEMBER in from_owner else None
    members = 1 if number is None else number
    if members <= 1 and SCHEDULE_MIN_AVAILABLE in pod.annotations:
        number = whole_number(pod.annotations[SCHEDULE_MIN_AVAILABLE], 0, INT32)
        members = members if number is None else number
    return members


def _annotations(pod: Pod, from_owner: Mapping[str, str]) -> dict[str, str]:
    """Volcano's and Huawei's annotations of the owner, and some of the pod, which come first.

    A pod's own Huawei annotations count without the PodGroup.
    """
    result = {
        key: value
        for key, value in from_owner.items()
        if key.startswith(VOLCANO_PREFIX) or (key in REPLICA_SET_ANNOTATIONS and key not in pod.annotations)
    }
    budget = JDB_MIN_AVAILABLE if JDB_MIN_AVAILABLE in pod.annotations else JDB_MAX_UNAVAILABLE
    for key in (*_OF_THE_POD, budget):
        if key in pod.annotations:
            result[key] = pod.annotations[key]
    # With siblings, the owner's user: any client that may create pods can create one that names this owner.
    user = from_owner.get(USER) if has_siblings(pod) else pod.annotations.get(USER)
    if user:
        result[USER] = user
    return result
