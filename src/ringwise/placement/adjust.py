"""What happens to the nodes' raw scores after the board has given them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ringwise.topology.natural import natural_key

PREVIOUS_NODE_BONUS = 100
SUB_HEALTHY_PENALTY = 1
#: For a node where this job's failed pods ran.
FAULTY_PENALTY = 64


def prefer_previous_node(
    scores: Mapping[str, float], previous_nodes: Mapping[int, str], rank: int, after_fault: bool
) -> dict[str, float]:
    """The one score that changes when a pod comes back: {node: best score + 100}, or nothing.

    `previous_nodes` tells where the job's ranks ran before. A pod goes back to its
    own node, else to the best node no rank used, else to the best node of a peer.
    A pod whose rank failed avoids its old node as long as an unused one is left.
    """
    if not scores:
        return {}
    own = previous_nodes.get(rank)
    own_choice = [own] if own is not None and own in scores else []
    used = set(previous_nodes.values())
    unused = _best(scores, [node for node in scores if node not in used])
    if after_fault:
        choices = unused + own_choice
    else:
        choices = own_choice + unused + _best(scores, [node for node in scores if node in used])
    return {node: max(scores.values()) + PREVIOUS_NODE_BONUS for node in choices[:1]}


def _best(scores: Mapping[str, float], nodes: list[str]) -> list[str]:
    """The node with the highest score, the first in natural order on a tie; empty for no nodes."""
    return [min(nodes, key=lambda node: (-scores[node], natural_key(node)))] if nodes else []


def lower_for_health(
    scores: Mapping[str, float], sub_healthy: Collection[str] = (), faulty: Collection[str] = ()
) -> dict[str, float]:
    """All scores, those of sub-healthy nodes 1 and of this job's faulty nodes 64 lower, never below 0."""
    lowered: dict[str, float] = {}
    for node, score in scores.items():
        if node in sub_healthy:
            score = max(0, score - SUB_HEALTHY_PENALTY)
        if node in faulty:
            score = max(0, score - FAULTY_PENALTY)
        lowered[node] = score
    return lowered
