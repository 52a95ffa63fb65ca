"""Where a pod that comes back goes first (`prefer-previous-node`).

Its old node still has its image, so it goes there if it fits. Else it keeps off the old
nodes of its peers, which come back too. A pod that failed avoids its old node as long as
there is another. Jobs that are placed as a whole have a rule of their own for this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ringwise.framework.extension_points import first_reason
from ringwise.framework.job import Job
from ringwise.framework.node_selection import Choice, NodeFilter, NodeSelection
from ringwise.framework.ranks import ranks_of
from ringwise.framework.session import Session
from ringwise.reasons import Reason
from ringwise.state.model import Pod


def comes_back(session: Session, job: Job, pod: Pod) -> bool:
    """Whether the job's old nodes have a say in where this pod goes."""
    policy = job.policy
    return (
        bool(job.previous_nodes)
        and session.settings.prefer_previous_node
        and bool(pod.cls.chips)
        and policy is not None
        and policy.block_nodes is None
        and policy.switch_class is None
    )


def old_seats_first(session: Session, job: Job, pods: Sequence[Pod]) -> Sequence[Pod]:
    """Pods with an old node go before those without, who might take it."""
    if not job.previous_nodes:
        return pods
    ranks = ranks_of(job)
    return sorted(
        pods, key=lambda pod: not comes_back(session, job, pod) or ranks[pod.uid] not in job.previous_nodes
    )


def choose_like_before(
    session: Session,
    job: Job,
    pod: Pod,
    selection: NodeSelection,
    hidden: dict[int, Reason],
    filters: Sequence[NodeFilter],
    favoured: Mapping[int, float],
) -> Choice | None:
    """Its old node, else the best one that no rank of the job used; None leaves it to the usual order."""
    former = job.previous_nodes.get(ranks_of(job)[pod.uid])
    own = None if former is None else session.state.node_id.get(former.node)
    if former is None or not former.faulty:
        chosen = _own(selection, own, filters)
        if chosen is not None:
            return chosen
    chosen = selection.choose(hidden, filters, favoured, _used(session, job))
    if chosen is None and former is not None and former.faulty:
        return _own(selection, own, filters)
    return chosen


def _own(selection: NodeSelection, node: int | None, filters: Sequence[NodeFilter]) -> Choice | None:
    if node is None or not selection.fits(node) or first_reason(filters, node) is not None:
        return None
    return Choice(node, selection.verdict(node)[0] or 0)


def _used(session: Session, job: Job) -> set[int]:
    """The nodes where ranks of the job were or are."""
    ids, placements = session.state.node_id, session.state.pods
    used = {ids.get(seat.node, -1) for seat in job.previous_nodes.values()}
    used.update(placements[uid].node for uid, pod in job.pods.items() if pod.cls.chips)
    return used
