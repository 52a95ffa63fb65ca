"""Chips, gangs, plans of moves and reservations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ringwise.messages.commands import Evict, EvictionCause
from ringwise.messages.move_plan import MovePlan
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.core.reservation import WHY
from ringwise.state.model import Pod, PodGroup, Requirement
from ringwise.topology.policy import is_part_of_a_chip
from ringwise.wellknown import AICORE_QUOTA
from tests.invariants.ledger import Ledger, chips_in


def no_chip_is_given_twice(ledger: Ledger, scheduler: Scheduler) -> Iterator[str]:
    """N6: a pod is bound once, with as many chips as it requests, and no live pod holds one of them."""
    if not ledger.binds:
        return
    guarded = scheduler.view.settings.owned_annotations == "guarded"
    nodes = {bind.node for bind in ledger.binds}
    holder: dict[tuple[str, str, int], str] = {}
    for uid, held in ledger.held.items():
        pod = ledger.pods[uid]
        if held.node in nodes and pod.cls.chips:
            for chip in ledger.chips_of(uid, guarded=guarded):
                holder[held.node, pod.cls.resource or "", chip] = pod.key
    for bind in ledger.binds:
        bound = ledger.pods.get(bind.uid)
        if bound is None:
            yield f"{bind.namespace}/{bind.pod} is bound and does not exist"
            continue
        if bind.uid in ledger.held:
            yield f"{bound.key} has a node and is bound to {bind.node}"
        if AICORE_QUOTA in bind.annotations or is_part_of_a_chip(bound.cls.resource or ""):
            # Chips of shares and vNPUs are counted by `no_chip_has_more_than_it_can_give`.
            continue
        if len(set(bind.chips)) != bound.cls.chips:
            yield f"{bound.key} requests {bound.cls.chips} chips and gets {bind.chips}"
        for chip in bind.chips:
            place = bind.node, bound.cls.resource or "", chip
            if place in holder:
                yield f"chip {chip} of {bind.node} is given to {bound.key}, and {holder[place]} holds it"
            holder[place] = bound.key


def bindings_use_usable_chips(ledger: Ledger, scheduler: Scheduler) -> Iterator[str]:
    """N7: no pod gets a chip that is unhealthy, pre-separated, recovering or isolated."""
    aggregated = scheduler.view.settings.use_cluster_info_manager
    for bind in ledger.binds:
        pod = ledger.pods.get(bind.uid)
        if pod is None or not bind.chips:
            continue
        bad = ledger.unusable(bind.node, pod.cls.resource or "", aggregated=aggregated)
        if bad & set(bind.chips):
            yield f"{pod.key} gets chips {sorted(bad & set(bind.chips))} of {bind.node}, which are unusable"


def gangs_start_whole(ledger: Ledger, scheduler: Scheduler) -> Iterator[str]:
    """All or nothing: after pods of a gang were bound, minMember of its pods have a node or have succeeded.

    Pods that request nothing may come later; pods beyond minMember one by one. A pod that is lost later, and
    a binding that fails, leave less, but what is bound then completes the gang again. The same holds for the
    minimums of tasks, and for sub-groups.
    """
    bound = {bind.uid for bind in ledger.binds if (pod := ledger.pods.get(bind.uid)) and _counts(pod)}
    keys = {_group_key(ledger.pods[uid]) for uid in bound}
    gang_plugin = _plugin_is_configured(scheduler, "gang")
    for key in sorted(keys):
        group = ledger.groups.get(key)
        if group is None:
            continue
        pods = list(ledger.pods_of(key))
        backups = ledger.backups(pods)
        there = [pod for pod in pods if pod.uid not in backups and _is_there(ledger, pod, bound)]
        if bound <= backups:
            continue
        if len(there) < group.min_member:
            yield f"{key} has {len(there)} of {group.min_member} pods after {len(bound)} were bound"
        if not gang_plugin:
            continue
        if sum(group.min_task_member.values()) <= group.min_member:
            tasks = Counter(pod.task for pod in there)
            for task, needed in group.min_task_member.items():
                if tasks[task] < needed:
                    yield f"task {task} of {key} has {tasks[task]} of {needed} pods"
        yield from _torn_sub_groups(group, there, bound)


def evictions_leave_whole_gangs(ledger: Ledger, scheduler: Scheduler) -> Iterator[str]:
    """docs/guides/preemption.md: of a gang that loses pods to another job, minMember pods stay, or none."""
    evicted = {
        command.uid
        for command in ledger.commands
        if isinstance(command, Evict) and command.cause in (EvictionCause.PREEMPT, EvictionCause.RECLAIM)
    }
    keys = {_group_key(ledger.pods[uid]) for uid in evicted & ledger.pods.keys()}
    bound = {bind.uid for bind in ledger.binds} if keys else set()
    for key in sorted(keys & ledger.groups.keys()):
        needed, pods = ledger.groups[key].min_member, list(ledger.pods_of(key))
        backups = ledger.backups(pods)
        there = [
            pod.uid
            for pod in pods
            if pod.uid not in evicted | backups and _counts(pod) and _is_there(ledger, pod, bound)
        ]
        if any(ledger.is_bound(uid) for uid in there) and len(there) < needed:
            yield f"{key} has {len(there)} of {needed} pods after others were evicted"


def _torn_sub_groups(group: PodGroup, there: list[Pod], bound: set[str]) -> Iterator[str]:
    sizes = Counter(part for pod in there if (part := _sub_group(group, pod)) is not None)
    started = {part for pod in there if pod.uid in bound and (part := _sub_group(group, pod)) is not None}
    for position, values in sorted(started):
        needed = group.sub_groups[position].size
        if sizes[position, values] < needed:
            name = group.sub_groups[position].name
            yield f"sub-group {name}/{values} of {group.key} has {sizes[position, values]} of {needed} pods"
    for position, policy in enumerate(group.sub_groups):
        complete = sum(size >= policy.size for (where, _), size in sizes.items() if where == position)
        if complete < policy.min_groups:
            yield f"{group.key} has {complete} of {policy.min_groups} sub-groups {policy.name}"


def _sub_group(group: PodGroup, pod: Pod) -> tuple[int, str] | None:
    """The first policy that is about the pod, and the values of its labels."""
    for position, policy in enumerate(group.sub_groups):
        values = [pod.labels.get(key, "") for key in policy.match_label_keys]
        if all(values) and all(_holds(one, pod) for one in policy.selector or ()):
            return position, "-".join(values)
    return None


def _holds(requirement: Requirement, pod: Pod) -> bool:
    value = pod.labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
    return value is None


def _counts(pod: Pod) -> bool:
    return pod.group is not None and not pod.cls.best_effort


def _group_key(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.group}"


def _is_there(ledger: Ledger, pod: Pod, bound: set[str]) -> bool:
    """Whether the pod counts for its gang; one that requests nothing does while it is pending."""
    if pod.phase == "Succeeded" or pod.uid in bound:
        return True
    if not ledger.stays(pod.uid):
        return False
    if pod.uid in ledger.held:
        return True
    return pod.cls.best_effort and pod.phase == "Pending" and not pod.gated


def _plugin_is_configured(scheduler: Scheduler, name: str) -> bool:
    tiers = scheduler.view.configuration.tiers
    return any(option.name == name for tier in tiers for option in tier.plugins)


def no_pod_is_in_two_plans(ledger: Ledger, scheduler: Scheduler) -> Iterator[str]:
    """M1: of all plans that are carried out at most one moves a pod, and no two give a chip to two pods."""
    moved: dict[str, str] = {}
    places: dict[tuple[str, str, int], str] = {}
    for live in scheduler.view.history.moves.plans.values():
        for job, uid, pod in live.moving_pods():
            if uid in moved:
                yield f"pod {uid} is moved by {moved[uid]} and by {live.plan.id}"
            moved[uid] = live.plan.id
            for chip in () if live.failed else chips_in(pod.target.chips):
                place = pod.target.node, job.resource, chip
                if place in places:
                    yield f"chip {chip} of {pod.target.node} is planned for {places[place]} and {uid}"
                places[place] = uid


def moved_twice(plans: Iterable[MovePlan]) -> Iterator[str]:
    """M1: of plans that were found together at most one moves a pod, or gives it room.

    Each is found as if those before were carried out, so a later one may not move what an earlier one did.
    """
    moved: dict[str, str] = {}
    for plan in plans:
        for pod in (*plan.room, *(pod for move in plan.moves for pod in move.pods)):
            if pod.uid in moved:
                yield f"{pod.name} is in the plan for {moved[pod.uid]} and in the one for {plan.job}"
            moved[pod.uid] = plan.job


def reservations_lie_on_usable_chips(ledger: Ledger, scheduler: Scheduler) -> Iterator[str]:
    """S9, M1: nothing is reserved on chips that are unhealthy, recovering or isolated, or on such nodes.

    No chip is reserved for two jobs. What was chosen while running jobs end is given up when a node is
    cordoned; a job that lost a pod there may wait for the node (P7). A job that evicts pods waits until they
    are gone, and then looks for chips again.
    """
    names = scheduler.view.cluster.names
    aggregated = scheduler.view.settings.use_cluster_info_manager
    owners: dict[tuple[str, str, int], str] = {}
    for reservation in scheduler.view.reservations:
        awaits = reservation.evicting and not ledger.held.keys().isdisjoint(reservation.awaited)
        for number, mask in reservation.chips.items():
            node, chips = names[number], set(chips_in(mask))
            if not awaits and not ledger.takes_pods(node, cordoned=reservation.why != WHY):
                yield f"chips of {node} are reserved for {reservation.owner}, and it takes no pods"
            bad = ledger.unusable(node, reservation.resource, aggregated=aggregated) & chips
            if bad and not awaits:
                yield f"chips {sorted(bad)} of {node} are reserved for {reservation.owner} and unusable"
            for chip in chips:
                place = node, reservation.resource, chip
                if place in owners:
                    yield f"chip {chip} of {node} is reserved for {owners[place]} and {reservation.owner}"
                owners[place] = reservation.owner
