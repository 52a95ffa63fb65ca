"""Per-block packing (rule P5): the order of Volcano with Huawei's plugin, made deterministic.

Every SuperPoD belongs to a cell of a table: how many blocks it holds above the
reserve (`quotient`) and what would be left over (`remainder`). The cell is computed
once, from the free nodes at the start; the rules then go through the table.
Huawei's plugin may lose blocks, or take more nodes than there are pods; this does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from ringwise.placement.superpods.blocks import BlockAssignment, Origin
from ringwise.placement.superpods.differing import DifferingAssignment, take_fragments

#: remainder -> quotient -> positions of SuperPoDs, ascending.
Table: TypeAlias = dict[int, dict[int, list[int]]]


def pack_per_block(
    assignment: BlockAssignment, nodes_per_block: int, blocks: int, reserve: int, soft: bool
) -> None:
    """Rule P5: place `blocks` blocks; a soft job takes missing nodes as fragments."""
    table = _table(assignment.free, nodes_per_block, reserve)
    left = _use_up_small_ones(assignment, table, nodes_per_block, blocks, reserve)
    left = _open_bigger_ones(assignment, table, nodes_per_block, left, reserve)
    left = _use_reserves(assignment, table, nodes_per_block, left)
    if soft and isinstance(assignment, DifferingAssignment):
        order = list(_fragment_order(assignment, table, nodes_per_block, reserve))
        take_fragments(assignment, lambda: order)
    elif soft:
        _use_fragments(assignment, table, nodes_per_block, left * nodes_per_block, reserve)


def _table(free: list[int], nodes_per_block: int, reserve: int) -> Table:
    table: Table = {}
    for position, count in enumerate(free):
        if count >= reserve:
            quotient, remainder = divmod(count - reserve, nodes_per_block)
        else:
            quotient, remainder = 0, count % nodes_per_block
        table.setdefault(remainder, {}).setdefault(quotient, []).append(position)
    return table


def _drain(
    assignment: BlockAssignment, cell: Iterable[int], nodes_per_block: int, left: int, reserve: int
) -> int:
    """Blocks from every SuperPoD of the cell while the reserve stays untouched."""
    for position in cell:
        while left and assignment.free[position] >= nodes_per_block + reserve:
            if not assignment.take(position, nodes_per_block, Origin.QUEUE_1):
                break
            left -= 1
    return left


def _use_up_small_ones(
    assignment: BlockAssignment, table: Table, nodes_per_block: int, left: int, reserve: int
) -> int:
    """SuperPoDs the job can use up, least left over first. The bound shrinks as blocks are placed."""
    for remainder in sorted(table):
        for quotient in sorted(table[remainder]):
            if quotient > left:
                break
            if quotient:
                left = _drain(assignment, table[remainder][quotient], nodes_per_block, left, reserve)
    return left


def _open_bigger_ones(
    assignment: BlockAssignment, table: Table, nodes_per_block: int, left: int, reserve: int
) -> int:
    """SuperPoDs that hold more blocks than the job needs, smallest number of blocks first."""
    if not left:
        return 0
    cells = sorted(
        (quotient, remainder) for remainder, row in table.items() for quotient in row if quotient > left
    )
    for quotient, remainder in cells:
        left = _drain(assignment, table[remainder][quotient], nodes_per_block, left, reserve)
    return left


def _use_reserves(assignment: BlockAssignment, table: Table, nodes_per_block: int, left: int) -> int:
    """One block from every SuperPoD that still holds one, again and again until none does."""
    took = True
    while left and took:
        took = False
        for remainder in sorted(table, reverse=True):
            for quotient in sorted(table[remainder]):
                for position in _fullest_first(assignment, table[remainder][quotient]):
                    if not left or assignment.free[position] < nodes_per_block:
                        continue
                    if assignment.take(position, nodes_per_block, Origin.QUEUE_2):
                        left -= 1
                        took = True
    return left


def _use_fragments(
    assignment: BlockAssignment, table: Table, nodes_per_block: int, missing: int, reserve: int
) -> None:
    """What is left of every SuperPoD, in the plugin's two-part order of remainders."""
    for position in _fragment_order(assignment, table, nodes_per_block, reserve):
        size = min(assignment.free[position], missing)
        if size:
            assignment.take(position, size, Origin.QUEUE_3)
            missing -= size


def _fragment_order(
    assignment: BlockAssignment, table: Table, nodes_per_block: int, reserve: int
) -> Iterator[int]:
    remainders = [
        *range(nodes_per_block - 1, reserve - 1, -1),
        *range(min(nodes_per_block, reserve)),
    ]
    for remainder in remainders:
        row = table.get(remainder, {})
        for quotient in sorted(row):
            yield from _fullest_first(assignment, row[quotient])


def _fullest_first(assignment: BlockAssignment, cell: list[int]) -> list[int]:
    return sorted(cell, key=lambda position: (-assignment.free[position], position))
