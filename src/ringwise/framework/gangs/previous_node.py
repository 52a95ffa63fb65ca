"""Prefers the node a pod had before it was lost: `prefer-previous-node`, and always after a fault or suspend.

The previous node still has the image, so the pod returns there if it fits. Otherwise it
avoids the previous nodes of the job's other pods, which return too. A pod that failed
avoids its previous node while another node fits. Jobs that are placed as a whole have
their own rule (S9, P7).
"""

from __future__ import annotations

from collections.abc import Sequence

from ringwise.durations import SECOND
from ringwise.framework.extension_points import NodeFilter, first_reason
from ringwise.framework.gangs.ranks import ranks_of
from ringwise.framework.job import Job
from ringwise.framework.node_selection import NodeSelection, SelectedNode
from ringwise.framework.reasons import WAIT_FOR_PREVIOUS_NODES
from ringwise.framework.session import Session
from ringwise.grammar import listed
from ringwise.reasons import Reason
from ringwise.state.model import Pod
from ringwise.topology.natural import natural_key

#: Nodes that one reason names.
_NAMED = 5


def prefers_previous_node(session: Session, job: Job, pod: Pod) -> bool:
    """Whether the job's previous nodes matter for this pod."""
    policy = job.policy
    # Those of one job are all held, or none is; the same holds of suspended ones.
    first = next(iter(job.previous_nodes.values()), None)
    return (
        first is not None
        and (session.settings.prefer_previous_node or first.held or first.suspended)
        and bool(pod.cls.chips)
        and policy is not None
        and policy.block_nodes is None
        and policy.switch_class is None
    )


def wait_for_previous_nodes(session: Session, job: Job, pods: Sequence[Pod]) -> Reason | None:
    """S9: replacements that exist before the healthy pods they replace are gone wait, to return there.

    The owner of the pods creates them again under other names. Nodes that broke are not waited for.
    """
    if not job.awaited_nodes:
        return None
    ranks = ranks_of(job)
    waiting = {ranks[pod.uid] for pod in pods if pod.cls.chips}
    awaited = [one for one in job.awaited_nodes.values() if one.rank in waiting and one.until > session.now]
    if not awaited:
        return None
    first = min(awaited, key=lambda one: one.until)
    session.retry_at(job, first.until)
    nodes = sorted({one.node for one in awaited}, key=natural_key)
    return WAIT_FOR_PREVIOUS_NODES(
        waiting=len(awaited),
        limit=(first.until - first.since) // SECOND,
        nodes=len(nodes),
        seconds=round((session.now - first.since) / SECOND, 1),
        listing=listed(nodes, _NAMED),
    )


def pods_with_previous_node_first(session: Session, job: Job, pods: Sequence[Pod]) -> Sequence[Pod]:
    """Pods with a previous node go before those without, which might take it."""
    if not job.previous_nodes:
        return pods
    ranks = ranks_of(job)

    def last(pod: Pod) -> bool:
        return not prefers_previous_node(session, job, pod) or ranks[pod.uid] not in job.previous_nodes

    return sorted(pods, key=last)


def node_if_it_fits(
    selection: NodeSelection, node: int | None, filters: Sequence[NodeFilter]
) -> SelectedNode | None:
    """The previous node of a pod, if the pod can have it now."""
    if node is None or not selection.fits(node) or first_reason(filters, node) is not None:
        return None
    return SelectedNode(node, selection.verdict(node)[0] or 0)


class UsedNodes:
    """The nodes where ranks of the job were or are: found once for all pods that are placed together."""

    def __init__(self, session: Session, job: Job) -> None:
        self._session = session
        self._job = job
        self._nodes: set[int] | None = None

    def add(self, node: int) -> None:
        if self._nodes is not None:
            self._nodes.add(node)

    def nodes(self) -> set[int]:
        if self._nodes is None:
            ids, placements = self._session.state.node_id, self._session.state.pods
            used = {ids.get(previous.node, -1) for previous in self._job.previous_nodes.values()}
            used.update(placements[uid].node for uid, pod in self._job.pods.items() if pod.cls.chips)
            self._nodes = used
        return self._nodes
