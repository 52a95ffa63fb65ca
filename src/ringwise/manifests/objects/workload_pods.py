"""The pods and PodGroups that an input still lacks: a dump has most of them, a manifest none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ringwise.messages.ordinary_groups import group_for, group_owner, needs_group
from ringwise.messages.workload_expansion import workload_group, workload_pods
from ringwise.state.model import Owner, Pod, PodGroup
from ringwise.state.workload import Workload
from ringwise.wellknown import GROUP_NAME, SCHEDULER_NAMES


def add_workloads(pods: list[Pod], groups: list[PodGroup], workloads: list[Workload]) -> None:
    """Add the pods that the controllers of the workloads would create, and PodGroups as ours would."""
    names = {pod.key for pod in pods}
    owned: dict[tuple[str, str, str], list[Pod]] = {}
    for pod in pods:
        for key in _owner_keys(pod.namespace, pod.owner):
            owned.setdefault(key, []).append(pod)
    groups_of = {key: group for group in groups for key in _owner_keys(group.namespace, group.owner)}
    taken = {group.key for group in groups}
    # Pods with random names make way for those whose names are fixed.
    for workload in sorted(workloads, key=lambda one: one.random_names):
        key = (workload.namespace, workload.kind, workload.name)
        existing = owned.get(key, [])
        _join(workload, groups_of.get(key), existing, taken)
        missing = _missing(workload, existing, names)
        alone = [pod for pod in existing if workload.creates_group and _awaits_group(pod)]
        if missing or alone:
            names.update(pod.key for pod in missing)
            pods += missing
            group = workload_group(workload)
            if group is not None:
                taken.add(group.key)
                groups.append(group)
                for pod in alone:
                    _set_group(pod, group)
    _add_groups(pods, groups, taken)


def _add_groups(pods: list[Pod], groups: list[PodGroup], taken: set[str]) -> None:
    """The PodGroups of pods whose owner is not in the input, and of bare pods that need one."""
    made: dict[str, PodGroup] = {}
    for pod in pods:
        if _awaits_group(pod) and needs_group(pod) and not group_owner(pod).is_vcjob:
            group = group_for(pod, None)
            if group.key not in taken:
                group = made.setdefault(group.key, replace(group, created=pod.created, origin=pod.origin))
            _set_group(pod, group)
    groups += made.values()


def _awaits_group(pod: Pod) -> bool:
    return pod.group is None and pod.scheduler in SCHEDULER_NAMES and pod.live and not pod.deleting


def _set_group(pod: Pod, group: PodGroup) -> None:
    pod.group = group.name
    pod.annotations = {**pod.annotations, GROUP_NAME: group.name}


def _owner_keys(namespace: str, owner: Owner | None) -> Iterator[tuple[str, str, str]]:
    """A ReplicaSet stands for its Deployment, too, with whose name its own begins."""
    if owner is not None:
        yield namespace, owner.kind, owner.name
        deployment, dash, _ = owner.name.rpartition("-")
        if owner.kind == "ReplicaSet" and dash:
            yield namespace, "Deployment", deployment


def _join(workload: Workload, group: PodGroup | None, existing: list[Pod], taken: set[str]) -> None:
    """Take the PodGroup that the workload has already, or a name that no other has."""
    name = group.name if group is not None else next((pod.group for pod in existing if pod.group), None)
    if name is not None:
        workload.group, workload.creates_group = name, False
    while workload.creates_group and f"{workload.namespace}/{workload.group}" in taken:
        workload.group = f"{workload.group}-{workload.kind.lower()}"


def _missing(workload: Workload, existing: list[Pod], names: set[str]) -> list[Pod]:
    if not workload.random_names:
        return [pod for pod in workload_pods(workload) if pod.key not in names]
    made = list(workload_pods(workload))[: max(0, workload.replicas - sum(pod.live for pod in existing))]
    while any(pod.key in names for pod in made):
        # Another owner has a pod of that name.
        workload.stem = f"{workload.stem or workload.name}-{workload.kind.lower()}"
        made = list(workload_pods(workload))[: len(made)]
    return made
