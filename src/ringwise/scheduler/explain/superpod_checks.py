"""Nodes that ought to be in a SuperPoD and are not.

A cluster may have SuperPoDs and servers without. A node that reports none (-2, as device plugins write it, or
-1), and one of a board that has no SuperPoDs, is as it should be.
"""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.reasons import Reason
from ringwise.scheduler.explain.findings import WARNING, Finding, Subject, named
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import Node
from ringwise.topology.board import Board
from ringwise.topology.policy import PolicyFacts, select_board
from ringwise.topology.reasons import SUPERPOD_ID_MISSING, SUPERPOD_NONE
from ringwise.wellknown import ACCELERATOR_TYPE

#: What a node says of its hardware: its accelerator-type, and how many chips of which resource it has.
_Kind = tuple[str, tuple[tuple[str, int], ...]]


def superpod_problems(view: SchedulerView) -> dict[int, Reason]:
    """By node, in natural order: why it is in no SuperPoD although it ought to be."""
    superpods, nodes = view.superpods(), view.cluster.nodes
    boards: dict[tuple[str, str], bool] = {}
    #: Kinds of nodes of which some are in a SuperPoD.
    members = {_kind(node) for number in superpods.superpod_of if (node := nodes[int(number)]) is not None}
    result: dict[int, Reason] = {}
    for number, problem in superpods.node_problems.items():
        node = nodes[int(number)]
        if node is None:
            continue
        if problem.code == SUPERPOD_NONE.code:
            expected = _is_superpod_board(view, node, boards)
        elif problem.code == SUPERPOD_ID_MISSING.code:
            expected = _kind(node) in members or _is_superpod_board(view, node, boards)
        else:
            expected = True
        if expected:
            result[int(number)] = problem
    return result


def _kind(node: Node) -> _Kind:
    chips = ((name, node.chips_capacity.get(name, count)) for name, count in node.chips_allocatable.items())
    return node.labels.get(ACCELERATOR_TYPE, ""), tuple(sorted(chips))


def _is_superpod_board(view: SchedulerView, node: Node, cache: dict[tuple[str, str], bool]) -> bool:
    """Whether its own label says that it is a server of a SuperPoD."""
    label = node.labels.get(ACCELERATOR_TYPE)
    if not label:
        return False
    for resource in node.chips_allocatable:
        key = resource, label
        if key not in cache:
            board = select_board(view.catalog, PolicyFacts(resource, {}, {}, {ACCELERATOR_TYPE: label}))
            cache[key] = isinstance(board, Board) and board.superpod
        if cache[key]:
            return True
    return False


def superpod_findings(view: SchedulerView) -> Iterator[Finding]:
    """The same as findings: nodes with the same problem in one."""
    names_of: dict[str, list[str]] = {}
    for number, problem in superpod_problems(view).items():
        name = view.cluster.names[number]
        if problem.code in _OF_SEVERAL:
            names_of.setdefault(problem.code, []).append(name)
        else:
            yield Subject(f"node {name}").refused(WARNING, problem)
    for code, (message, fix) in _OF_SEVERAL.items():
        if code in names_of:
            yield Subject(named(names_of[code], "node")).warning(code, message, fix)


#: Problems that many nodes have: what is wrong, and what to do.
_OF_SEVERAL = {
    SUPERPOD_ID_MISSING.code: (
        "no SuperPoD ID, so jobs with blocks are never scheduled there",
        "configure the device plugin to report SuperPodID, or annotate the node with superPodID",
    ),
    SUPERPOD_NONE.code: (
        f"labeled {ACCELERATOR_TYPE} as a server of a SuperPoD, but reported to be in none, "
        "so jobs with blocks are never scheduled there",
        "check driver and cabling of the node, or correct its label",
    ),
}
