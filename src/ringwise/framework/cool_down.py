"""F3: a job does not get chips that broke it a short while ago, unless nothing else fits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ringwise.framework.job import WHOLE_NODE, Job
from ringwise.framework.session import Session


def cooling_chips(session: Session, job: Job) -> dict[int, int]:
    """Node to the free chips that the job avoids at the moment.

    Jobs with blocks that are rescheduled have a rule of their own: a broken block is refilled with such a
    node before it moves (P7).
    """
    policy = job.policy
    if policy is not None and policy.block_nodes is not None and job.previous_nodes:
        return {}
    fleet = session.state.fleets.get(policy.resource) if policy is not None and job.cooling else None
    if fleet is None:
        return {}
    ids, masks = session.state.node_id, dict[int, int]()
    for broken, until in job.cooling.items():
        node = ids.get(broken.node)
        if node is None or until <= session.now:
            continue
        chips = fleet.free_mask[node]
        if broken.chip != WHOLE_NODE:
            chips &= 1 << broken.chip
        if chips:
            masks[node] = masks.get(node, 0) | chips
    return masks


def cooling_nodes(session: Session, job: Job) -> set[int]:
    """Nodes with such chips."""
    ids, now = session.state.node_id, session.now
    return {ids[chip.node] for chip, until in job.cooling.items() if until > now and chip.node in ids}


@contextmanager
def set_aside(session: Session, job: Job, chips: dict[int, int]) -> Iterator[None]:
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
