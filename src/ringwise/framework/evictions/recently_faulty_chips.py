"""F3: a job does not get chips that broke it a short while ago, unless nothing else fits.

The order is: its own switches, SuperPoDs or racks without them, the same with them, then others. A chip that
broke it again within its cool-down comes last of all. Jobs with blocks or racks avoid the node, and have this
order in their planners; for the others the chips are set aside while they are placed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ringwise.framework.job import WHOLE_NODE, CoolDown, Job
from ringwise.framework.session import Session
from ringwise.state.fleet import HOSTS


def cooling_chips(
    session: Session, job: Job, *, broke_again: bool = False, in_use: bool = False
) -> dict[int, int]:
    """Node to the free chips that the job avoids at the moment; or only those that broke it again.

    With `in_use` also those that are not free. Empty for jobs with blocks: they avoid nodes, in an order of
    their own.
    """
    policy = job.policy
    if policy is None or policy.block_nodes is not None or policy.resource not in session.state.fleets:
        return {}
    fleet, ids, masks = session.state.fleets[policy.resource], session.state.node_id, dict[int, int]()
    for broken, one in job.cooling.items():
        if broken.node in ids and _counts(session, one, broke_again):
            node = ids[broken.node]
            chips = fleet.listed[node] if in_use else fleet.free_mask[node]
            chips &= chips if broken.chip == WHOLE_NODE else 1 << broken.chip
            masks[node] = masks.get(node, 0) | chips
    return {node: chips for node, chips in masks.items() if chips}


def cooling_nodes(session: Session, job: Job, *, broke_again: bool = False) -> set[int]:
    """Nodes with such chips."""
    ids = session.state.node_id
    return {
        ids[chip.node]
        for chip, one in job.cooling.items()
        if chip.node in ids and _counts(session, one, broke_again)
    }


def _counts(session: Session, one: CoolDown, broke_again: bool) -> bool:
    return one.until > session.now and not one.used and (one.broke_again or not broke_again)


def may_use_all(job: Job) -> bool:
    """Whether nothing else fits anywhere once a placement fails: no larger part of the job may move later."""
    return job.clock is None or job.clock.next_after is None


def withheld_chips(session: Session, job: Job) -> dict[int, int]:
    """Node to the chips that the job does not get even if nothing else fits: a larger part of it may move."""
    withheld = job.policy is not None and job.policy.switch_class is not None and not may_use_all(job)
    return cooling_chips(session, job, broke_again=True, in_use=True) if withheld else {}


@contextmanager
def chips_excluded(session: Session, job: Job, chips: dict[int, int]) -> Iterator[None]:
    """Inside, these chips of the job's resource are not free."""
    state = session.state
    fleet = state.fleets[job.policy.resource if chips and job.policy is not None else HOSTS]
    added = {node: mask & ~fleet.reserved[node] for node, mask in chips.items()}
    for node, mask in added.items():
        fleet.reserved[node] |= mask
        state.refresh_node(node)
    try:
        yield
    finally:
        for node, mask in added.items():
            fleet.reserved[node] &= ~mask
            state.refresh_node(node)
