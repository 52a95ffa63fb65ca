"""Chip rules (N1, N3, N4, N5): one small class for each family of boards, and their registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from ringwise.placement.rules.cards import BrokenCardsFirst, FreeCount, OneCard, TwoChipCards, WholeCards
from ringwise.placement.rules.protocol import OVERFULL, ChipRule, ScoreTable
from ringwise.placement.rules.rings import Meshes, PairedRings, RingGroups
from ringwise.topology.board import Board

__all__ = ["OVERFULL", "RULES", "ChipRule", "ScoreTable", "chip_rule"]

#: Rules by the names that profiles use (`topology.rule_specs`).
RULES: Mapping[str, Callable[[Board], ChipRule]] = {
    "ring-groups": RingGroups,
    "free-count": FreeCount,
    "paired-rings": PairedRings,
    "two-chip-cards": TwoChipCards,
    "meshes": Meshes,
    "one-card": OneCard,
    "broken-cards-first": BrokenCardsFirst,
    "whole-cards": WholeCards,
}


def chip_rule(board: Board, ring_packing: str = "document") -> ChipRule:
    """The rule of a board; one instance for each board and order of nodes, so that its caches are shared.

    `ring_packing` (K) changes the order on boards with groups, and on no other.
    """
    return _rule(board, ring_packing if board.rule == "ring-groups" else "document")


@cache
def _rule(board: Board, ring_packing: str) -> ChipRule:
    return RULES[board.rule](board) if ring_packing == "document" else RingGroups(board, ring_packing)
