"""Whether the scheduler's tables agree with each other: all computed again from the pods. Slow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from ringwise.framework.usage import ResourceUsage
from ringwise.scheduler.cache.job_book import JobBook
from ringwise.state.cluster import ClusterState
from ringwise.state.fleet import HOSTS
from ringwise.state.part_requests import requested
from ringwise.state.reservations import Reservation
from ringwise.state.volume_table import VolumeTable
from ringwise.topology.chips import chip_names, chips_of

K = TypeVar("K")


def inconsistencies(
    state: ClusterState, book: JobBook, usage: ResourceUsage, reservations: Iterable[Reservation]
) -> list[str]:
    """One line for each table that is wrong; none unless the scheduler has a defect."""
    state.settle()
    return [
        *_chips(state),
        *_reserved(state, reservations),
        *_nodes(state),
        *_jobs(state, book),
        *_usage(state, book, usage),
        *_reserved_quota(usage),
        *_volumes(state),
    ]


def _chips(state: ClusterState) -> Iterator[str]:
    """N6: no chip is given twice, and the masks agree with the pods."""
    if state.node_count != sum(node is not None for node in state.nodes):
        yield f"the number of nodes is wrong: {state.node_count}"
    for resource, fleet in state.fleets.items():
        if fleet.size != sum(allocatable >= 0 for allocatable in fleet.allocatable):
            yield f"the number of nodes with {resource} is wrong: {fleet.size}"
        if resource == HOSTS:
            continue
        held = [0] * len(state.names)
        doubtful = [0] * len(state.names)
        sums = [0] * len(state.names)
        for placement in state.pods.values():
            if placement.node < 0:
                continue
            if resource in placement.entire:
                held[placement.node] |= placement.part_chips
            requested_resource, count = requested(placement.pod.cls)
            if requested_resource != resource:
                continue
            sums[placement.node] += count
            twice = held[placement.node] & placement.chips
            if twice and not fleet.extra_claims:
                chips = chip_names(resource, chips_of(twice))
                yield f"{state.names[placement.node]}: {chips} given twice"
            held[placement.node] |= placement.chips
            if placement.pod.node == state.names[placement.node]:
                doubtful[placement.node] |= placement.doubtful
        for node, name in enumerate(state.names):
            for left in state.left_chips(name, resource).values():
                doubtful[node] |= left
            if held[node] != fleet.held[node]:
                yield f"{name}: pods hold {held[node]:b} of {resource}, recorded are {fleet.held[node]:b}"
            if doubtful[node] != fleet.doubtful[node]:
                yield f"{name}: the mask of doubtful chips of {resource} is wrong"
            if sums[node] != fleet.requested[node]:
                yield f"{name}: pods ask {sums[node]} of {resource}, recorded are {fleet.requested[node]}"
            if fleet.free(node) != fleet.free_mask[node]:
                yield f"{name}: the free chips of {resource} are out of date"


def _reserved(state: ClusterState, reservations: Iterable[Reservation]) -> Iterator[str]:
    reserved: dict[tuple[str, int], int] = {}
    for reservation in reservations:
        for node, mask in reservation.chips.items():
            key = (reservation.resource, node)
            if reserved.get(key, 0) & mask:
                yield f"{state.names[node]}: a chip is reserved for two jobs"
            reserved[key] = reserved.get(key, 0) | mask
    for resource, fleet in state.fleets.items():
        for node, mask in enumerate(fleet.reserved):
            if mask != reserved.get((resource, node), 0):
                yield f"{state.names[node]}: the mask of reserved chips is wrong"


def _nodes(state: ClusterState) -> Iterator[str]:
    if state.open_marks:
        yield "a transaction is still open"
    for number, name in enumerate(state.names):
        there = {uid for uid, placement in state.pods.items() if placement.node == number}
        if there != set(state.pods_on[number]):
            yield f"{name}: its list of pods is wrong"
        shape = state.shape_of(number)
        if shape is not None and state.nodes[number] is not None:
            cpu = sum(state.pods[uid].pod.cls.cpu_milli for uid in there)
            memory = sum(state.pods[uid].pod.cls.memory for uid in there)
            more = state.reserved_load(number)
            counted = (cpu + more.cpu_milli, memory + more.memory, len(there) + more.pods)
            if (shape.cpu_used, shape.memory_used, shape.pods) != counted:
                yield f"{name}: its load is wrong"


def _jobs(state: ClusterState, book: JobBook) -> Iterator[str]:
    for job in book.jobs.values():
        for uid, pod in job.pods.items():
            placement = state.pods.get(uid)
            if placement is None or placement.pod is not pod:
                yield f"{job.key}: pod {pod.name} is not the one the state knows"
            if book.job_of(uid) is not job:
                yield f"{job.key}: pod {pod.name} is recorded with another job"


def _usage(state: ClusterState, book: JobBook, usage: ResourceUsage) -> list[str]:
    """What jobs and queues use and what limits count, from the pods."""
    counted, holdings = ResourceUsage(), usage.holdings
    counted.holdings.users, counted.holdings.shapes = holdings.users, holdings.shapes
    for uid, placement in state.pods.items():
        if placement.node >= 0:
            counted.add_pod(*book.counts_for(uid, book.job_of(uid)), placement.pod.cls)
    tables: tuple[tuple[str, Mapping[Any, Any], Mapping[Any, Any]], ...] = (
        ("how many pods queue", counted.pods_by_queue, usage.pods_by_queue),
        ("what job", counted.by_job, usage.by_job),
        ("what queue", counted.by_queue, usage.by_queue),
        ("what", counted.holdings.used, holdings.used),
    )
    return [
        f"{what} {key} uses: {right}, recorded is {recorded}"
        for what, anew, stored in tables
        for key, right, recorded in _differing(anew, stored)
    ]


def _differing(counted: Mapping[K, Any], stored: Mapping[K, Any]) -> Iterator[tuple[K, Any, Any]]:
    """Yield the keys whose values differ, with both values; an empty one is as good as none."""
    for key in sorted({*counted, *stored}, key=str):
        right, recorded = counted.get(key) or 0, stored.get(key) or 0
        if right != recorded:
            yield key, right, recorded


def _reserved_quota(usage: ResourceUsage) -> list[str]:
    """F6: the quota that each queue reserves for jobs that are being rescheduled."""
    differing = _differing(usage.reserved.counted_anew(), usage.reserved.by_queue())
    return [
        f"queue {name}: {right} are kept for jobs, recorded are {stored}" for name, right, stored in differing
    ]


def _volumes(state: ClusterState) -> list[str]:
    """Which pods use claims, and what those get; no volume is given twice."""
    table, counted = state.volumes, VolumeTable()
    issues = []
    for placement in state.pods.values():
        if placement.node >= 0 and placement.pod.claims:
            for claim, volume in placement.volumes:
                if volume and counted.holders.get(volume, claim) != claim:
                    issues.append(f"volume {volume} is given to {counted.holders[volume]} and to {claim}")
            counted.hold(placement.pod, placement.node, placement.volumes)
        if placement.reserved and not placement.assumed:
            issues.append(f"{placement.pod.key} is reserved and has no node")
    right = (counted.users, counted.on_node, counted.chosen, counted.holders)
    stored = (table.users, table.on_node, table.chosen, table.holders)
    return issues if right == stored else [*issues, "the pods that use claims, or what those get, are wrong"]
