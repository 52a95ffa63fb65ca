"""One node and one request: does it fit, with which score, on which chips, or why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ringwise.placement.reasons import CHIPS_UNKNOWN, NETWORK_KEY_MISSING, NODE_LABEL_MISSING
from ringwise.placement.rules import chip_rule
from ringwise.reasons import Reason
from ringwise.topology.board import Board


@dataclass(frozen=True, slots=True)
class NodeChips:
    """A node's chips of one resource, as a board's rule wants to see them. Sets are masks."""

    #: None: the node does not say which chips it has.
    free: int | None
    allocatable: int
    faulty: int = 0
    #: None: the node does not publish network health.
    network_unhealthy: int | None = 0
    labels: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class NodeFit:
    score: int
    chips: tuple[int, ...]
    group: str | None = None


def missing_label(board: Board, labels: Mapping[str, str]) -> Reason | None:
    """The first label the board demands of a node and this one lacks."""
    for label, value in board.node_labels:
        if labels.get(label) != value:
            return NODE_LABEL_MISSING(
                board=board.name, label=label, value=value, found=labels.get(label, "no such label")
            )
    return None


def usable_chips(board: Board, free: int, network_unhealthy: int | None, multi_pod: bool) -> int | Reason:
    """The free chips a job may have: without those with network faults, where the board watches them."""
    if not (multi_pod and board.watches_network):
        return free
    if network_unhealthy is None:
        return NETWORK_KEY_MISSING()
    return free & ~network_unhealthy


def fit_node(board: Board, node: NodeChips, request: int, multi_pod: bool) -> NodeFit | Reason:
    """The whole answer for one node. The index finds the same node faster; this one explains it."""
    lacking = missing_label(board, node.labels or {})
    if lacking is not None:
        return lacking
    if node.free is None:
        return CHIPS_UNKNOWN(request=request)
    usable = usable_chips(board, node.free, node.network_unhealthy, multi_pod)
    if isinstance(usable, Reason):
        return usable
    rule = chip_rule(board)
    signature = rule.signature(usable, node.allocatable, node.faulty)
    score = rule.score(signature, request, multi_pod)
    if score is None:
        return rule.lack(usable, request, multi_pod)
    return NodeFit(score, rule.chips(usable, request, multi_pod), rule.group(signature, request))
