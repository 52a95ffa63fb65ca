"""What a drawing of chips needs to know of a node, beside the documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from ringwise.scheduler.explain.boards_present import board_of_node
from ringwise.scheduler.node_states import CHIP_STATES, NodeChips, chips_of_node, node_states
from ringwise.scheduler.view import SchedulerView
from ringwise.topology.board import Board
from ringwise.topology.chips import chips_of

if TYPE_CHECKING:
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
    chips: NodeChips, board: Board | None, percent: Mapping[int, int] | None = None
) -> ChipsFields:
    """The chips of one resource of a node. `percent`: how much of them shares and vNPUs use."""
    states = chips.states
    marks = "faulty", "pre_separated", "network_faulty", "isolated", "reserved"
    fields = {
        "resource": chips.resource,
        "board": None if board is None else board.name,
        "rings": ring_rows(states.listed, board),
        "count": states.listed.bit_count(),
        **{name: list(chips_of(getattr(states, name))) for name in CHIP_STATES},
        "marks": {name: list(chips_of(getattr(chips, name))) for name in marks},
    }
    if percent:
        fields["used_percent"] = [percent.get(chip, 100) for chip in chips_of(states.used)]
    return cast("ChipsFields", fields)


def node_chips(
    view: SchedulerView, now: int, node: str, resource: str, board: Board
) -> NodeChipsFields | None:
    """The chips of a node for a job with this board; None where the node does not offer them."""
    cluster = view.cluster
    number = cluster.node_id[node]
    for chips in chips_of_node(cluster, number, node_states(cluster, number, now)):
        if chips.resource == resource:
            return {"node": node, **chips_fields(chips, board_of_node(view, resource, number, board))}
    return None
