"""What a drawing of chips needs to know of a node, beside the documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ringwise.scheduler.cluster_reader import ChipTable, ClusterReader
from ringwise.scheduler.explain.boards_present import board_of_node
from ringwise.scheduler.node_states import chip_states, is_open, node_states
from ringwise.scheduler.view import SchedulerView
from ringwise.topology.board import Board
from ringwise.topology.chips import chips_of
from ringwise.views.documents.cluster import ChipsFields, NodeChipsFields

Row = TypeVar("Row")

#: A job with more pods is drawn with so many: (most that are all drawn, how many of more).
WHY_PODS = (8, 8)
PLACE_PODS = (8, 7)


def first_and_last(rows: Sequence[Row], shown: tuple[int, int]) -> list[Row]:
    """All of a few rows; of many the first ones and the last."""
    all_of, some = shown
    return list(rows) if len(rows) <= all_of else [*rows[: some - 1], rows[-1]]


def ring_rows(listed: int, board: Board | None) -> list[list[int]]:
    """The chips of a node ring by ring; one row where its board has no rings."""
    count = max(listed.bit_length(), 1)
    rings = [list(ring) for ring in (board.rings if board is not None else ()) if ring[0] < count]
    return rings or [list(range(count))]


def chips_fields(
    cluster: ClusterReader,
    number: int,
    resource: str,
    fleet: ChipTable,
    board: Board | None,
    *,
    is_open: bool,
) -> ChipsFields:
    """The chips of one resource of a node. `is_open`: whether the node takes pods, from its states."""
    states = chip_states(cluster, number, fleet, is_open=is_open)
    return {
        "resource": resource,
        "board": None if board is None else board.name,
        "rings": ring_rows(states.listed, board),
        "count": states.listed.bit_count(),
        "used": list(chips_of(states.used)),
        "faulty": list(chips_of(states.faulty)),
        "isolated": list(chips_of(states.isolated)),
        "reserved": list(chips_of(states.reserved)),
        "closed": list(chips_of(states.closed)),
        "free": list(chips_of(states.free)),
        "marks": {
            "faulty": list(chips_of(states.listed & fleet.broken(number))),
            "pre_separated": list(chips_of(fleet.pre_separated[number])),
            "network_faulty": list(chips_of(max(0, fleet.network[number]))),
            "isolated": list(chips_of(isolated_chips(cluster, fleet, number))),
            "reserved": list(chips_of(fleet.reserved[number])),
        },
    }


def isolated_chips(cluster: ClusterReader, fleet: ChipTable, number: int) -> int:
    """Chips that an operator isolated, by themselves or with their node."""
    return fleet.listed[number] if number in cluster.isolated_nodes else fleet.isolated[number]


def node_chips(
    view: SchedulerView, now: int, node: str, resource: str, board: Board
) -> NodeChipsFields | None:
    """The chips of a node for a job with this board; None where the node does not offer them."""
    cluster = view.cluster
    fleet, number = cluster.fleets[resource], cluster.node_id[node]
    if fleet.allocatable[number] < 0:
        return None
    own = board_of_node(view, resource, number, board)
    opened = is_open(node_states(cluster, number, now))
    return {"node": node, **chips_fields(cluster, number, resource, fleet, own, is_open=opened)}
