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


def cooling_chips(session: Session, job: Job, *, broke_again: bool = False) -> dict[int, int]:
    """Node to the free chips that the job avoids at the moment; or only those that broke it again.

    Empty for jobs with blocks: they avoid nodes, in an order of their own.
    """
    policy = job.policy
    if policy is None or policy.block_nodes is not None or not job.cooling:
        return {}
    fleet = session.state.fleets.get(policy.resource)
    if fleet is None:
        return {}
    ids, masks = session.state.node_id, dict[int, int]()
    for broken, one in job.cooling.items():
        node = ids.get(broken.node)
        if node is None or not _counts(session, one, broke_again):
            continue
        chips = fleet.free_mask[node]
        if broken.chip != WHOLE_NODE:
            chips &= 1 << broken.chip
        if chips:
            masks[node] = masks.get(node, 0) | chips
    return masks


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


@contextmanager
def chips_excluded(session: Session, job: Job, chips: dict[int, int]) -> Iterator[None]:
    """Inside, these chips of the job's resource are not free."""
    state = session.state
    fleet = state.fleets[job.policy.resource if job.policy is not None else ""]
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
