"""How the chips of a job are to be chosen: its board, its rule, and the view of the fleet they share."""

from __future__ import annotations

from dataclasses import dataclass

from ringwise.placement.rules import ChipRule
from ringwise.topology.board import Board


@dataclass(frozen=True, slots=True)
class ChipPolicy:
    resource: str
    board: Board
    rule: ChipRule
    #: More than one pod of the job asks for chips.
    multi_pod: bool
    #: Chips with network faults are withheld from this job.
    withholds_network: bool
    #: `foundation-model`, `common`, `padding`, or None when it is not switch-aware.
    switch_class: str | None = None
    #: Nodes per logical SuperPoD and number of them, for SuperPoD jobs.
    block_nodes: int | None = None
    blocks: int | None = None
    soft: bool = False
