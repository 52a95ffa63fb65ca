"""Whether the books agree with each other: counted again from the pods, slowly, for tests and doubts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringwise.framework.amounts import Amounts, add, amounts_of
from ringwise.state.fleet import HOSTS
from ringwise.topology.chips import chip_names, chips_of

if TYPE_CHECKING:
    from ringwise.scheduler.core.machine import Scheduler


def disagreements(scheduler: Scheduler) -> list[str]:
    """One line for each thing that is not as it must be; none in a sane machine."""
    scheduler.state.settle()
    return [
        *_chips(scheduler),
        *_reserved(scheduler),
        *_nodes(scheduler),
        *_jobs(scheduler),
        *_ledger(scheduler),
    ]


def _chips(scheduler: Scheduler) -> list[str]:
    """No chip twice, and what is held is what pods hold."""
    state, found = scheduler.state, []
    for resource, fleet in state.fleets.items():
        if resource == HOSTS:
            continue
        held = [0] * len(state.names)
        asked = [0] * len(state.names)
        for placement in state.pods.values():
            if placement.node < 0 or placement.pod.cls.resource != resource:
                continue
            asked[placement.node] += placement.pod.cls.chips
            twice = held[placement.node] & placement.chips
            if twice and not fleet.extra_claims:
                chips = chip_names(resource, chips_of(twice))
                found.append(f"{state.names[placement.node]}: {chips} given twice")
            held[placement.node] |= placement.chips
        for node, name in enumerate(state.names):
            if held[node] != fleet.held[node]:
                found.append(
                    f"{name}: pods hold {held[node]:b} of {resource}, books say {fleet.held[node]:b}"
                )
            if asked[node] != fleet.requested[node]:
                found.append(
                    f"{name}: pods ask {asked[node]} of {resource}, books say {fleet.requested[node]}"
                )
            if fleet.free(node) != fleet.free_mask[node]:
                found.append(f"{name}: the free chips of {resource} are out of date")
    return found


def _reserved(scheduler: Scheduler) -> list[str]:
    found = []
    kept: dict[tuple[str, int], int] = {}
    for reservation in scheduler.reservations:
        for node, mask in reservation.chips.items():
            key = (reservation.resource, node)
            if kept.get(key, 0) & mask:
                found.append(f"{scheduler.state.names[node]}: a chip is kept for two jobs")
            kept[key] = kept.get(key, 0) | mask
    for resource, fleet in scheduler.state.fleets.items():
        for node, mask in enumerate(fleet.reserved):
            if mask != kept.get((resource, node), 0):
                found.append(f"{scheduler.state.names[node]}: chips are kept for nobody, or not kept")
    return found


def _nodes(scheduler: Scheduler) -> list[str]:
    state, found = scheduler.state, []
    mark = state.checkpoint()
    state.commit(mark)
    if mark:
        found.append("a transaction is still open")
    for number, name in enumerate(state.names):
        there = {uid for uid, placement in state.pods.items() if placement.node == number}
        if there != set(state.pods_on[number]):
            found.append(f"{name}: its list of pods is wrong")
        shape = state.shape_of(number)
        if shape is not None and state.nodes[number] is not None:
            cpu = sum(state.pods[uid].pod.cls.cpu_milli for uid in there)
            memory = sum(state.pods[uid].pod.cls.memory for uid in there)
            if (shape.cpu_used, shape.memory_used, shape.pods) != (cpu, memory, len(there)):
                found.append(f"{name}: its load is wrong")
    return found


def _jobs(scheduler: Scheduler) -> list[str]:
    found = []
    for job in scheduler.book.jobs.values():
        for uid, pod in job.pods.items():
            placement = scheduler.state.pods.get(uid)
            if placement is None or placement.pod is not pod:
                found.append(f"{job.key}: pod {pod.name} is not the one the state knows")
            if scheduler.book.job_of(uid) is not job:
                found.append(f"{job.key}: pod {pod.name} is said to belong to another job")
    return found


def _ledger(scheduler: Scheduler) -> list[str]:
    jobs: dict[str, Amounts] = {}
    queues: dict[str, Amounts] = {}
    for uid, placement in scheduler.state.pods.items():
        if placement.node < 0:
            continue
        job = scheduler.book.job_of(uid)
        key, queue = (job.key, job.queue) if job is not None else ("", "")
        add(jobs.setdefault(key, {}), amounts_of(placement.pod.cls))
        add(queues.setdefault(queue, {}), amounts_of(placement.pod.cls))
    return [
        f"{kind} {key} uses {counted.get(key, {})}, the ledger says {kept.get(key, {})}"
        for kind, counted, kept in (
            ("job", jobs, scheduler.ledger.by_job),
            ("queue", queues, scheduler.ledger.by_queue),
        )
        for key in sorted({*counted, *kept})
        if counted.get(key, {}) != kept.get(key, {})
    ]
