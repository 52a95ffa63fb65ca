"""Per-block packing (rule P5): the order of Volcano with Huawei's plugin, made deterministic.

Every SuperPoD belongs to a cell of a table: how many blocks it holds above the
reserve (`quotient`) and what would be left over (`remainder`). The cell is computed
once, from the free nodes at the start; the rules then go through the table.
Huawei's plugin may lose blocks, or take more nodes than there are pods; this does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import TypeAlias

from ringwise.placement.superpods.blocks import BlockAssignment, Origin
from ringwise.placement.superpods.differing import DifferingAssignment, take_fragments
from ringwise.records import dataclass

#: remainder -> quotient -> positions of SuperPoDs, ascending.
Table: TypeAlias = dict[int, dict[int, list[int]]]


def pack_per_block(
    assignment: BlockAssignment, nodes_per_block: int, blocks: int, reserve: int, soft: bool
) -> None:
    """Rule P5: place `blocks` blocks; a soft job takes missing nodes as fragments."""
    packing = _Packing(assignment, nodes_per_block, reserve, blocks)
    packing.use_up_small_ones()
    packing.open_bigger_ones()
    packing.use_reserves()
    if soft and isinstance(assignment, DifferingAssignment):
        order = list(packing.fragment_order())
        take_fragments(assignment, lambda: order)
    elif soft:
        packing.use_fragments()


@dataclass(slots=True)
class _Packing:
    assignment: BlockAssignment
    size: int
    reserve: int
    #: Blocks that are still to be placed.
    left: int
    table: Table = field(default_factory=dict)

    def __post_init__(self) -> None:
        for position, count in enumerate(self.assignment.free):
            quotient, remainder = 0, count % self.size
            if count >= self.reserve:
                quotient, remainder = divmod(count - self.reserve, self.size)
            self.table.setdefault(remainder, {}).setdefault(quotient, []).append(position)

    def _drain(self, cell: Iterable[int]) -> None:
        """Blocks from every SuperPoD of the cell while the reserve stays untouched."""
        for position in cell:
            while self.left and self.assignment.free[position] >= self.size + self.reserve:
                if not self.assignment.take(position, self.size, Origin.QUEUE_1):
                    break
                self.left -= 1

    def use_up_small_ones(self) -> None:
        """SuperPoDs the job can use up, least left over first. The bound shrinks as blocks are placed."""
        for remainder in sorted(self.table):
            for quotient in sorted(self.table[remainder]):
                if quotient > self.left:
                    break
                if quotient:
                    self._drain(self.table[remainder][quotient])

    def open_bigger_ones(self) -> None:
        """SuperPoDs that hold more blocks than the job needs, smallest number of blocks first."""
        cells = sorted(
            (quotient, remainder)
            for remainder, row in self.table.items()
            for quotient in row
            if quotient > self.left
        )
        for quotient, remainder in cells:
            self._drain(self.table[remainder][quotient])

    def use_reserves(self) -> None:
        """One block from every SuperPoD that still holds one, again and again until none does."""
        took = True
        while self.left and took:
            took = False
            for remainder in sorted(self.table, reverse=True):
                for position in self._fullest_first(remainder):
                    if not self.left or self.assignment.free[position] < self.size:
                        continue
                    if self.assignment.take(position, self.size, Origin.QUEUE_2):
                        self.left -= 1
                        took = True

    def use_fragments(self) -> None:
        """What is left of every SuperPoD, in the plugin's two-part order of remainders."""
        missing = self.left * self.size
        for position in self.fragment_order():
            size = min(self.assignment.free[position], missing)
            if size:
                self.assignment.take(position, size, Origin.QUEUE_3)
                missing -= size

    def fragment_order(self) -> Iterator[int]:
        first = range(self.size - 1, self.reserve - 1, -1)
        for remainder in (*first, *range(min(self.size, self.reserve))):
            yield from self._fullest_first(remainder)

    def _fullest_first(self, remainder: int) -> Iterator[int]:
        """The SuperPoDs of a row of the table, cell by cell."""
        free, row = self.assignment.free, self.table.get(remainder, {})
        for quotient in sorted(row):
            yield from sorted(row[quotient], key=lambda position: (-free[position], position))
