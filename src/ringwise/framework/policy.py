"""How the chips of a job are chosen: its board and its rule (N1), its switch class (S1), its blocks (P1)."""

from __future__ import annotations

from ringwise.placement.racks.model import RackShape, RackSystem
from ringwise.placement.rules import ChipRule
from ringwise.records import dataclass
from ringwise.topology.board import Board


@dataclass(frozen=True, slots=True)
class RackPolicy:
    """How a job for racks is cut and placed (R1)."""

    shape: RackShape
    system: RackSystem
    ub_memory: bool = False
    #: The inference service of the job; None for training jobs.
    service: str | None = None


@dataclass(frozen=True, slots=True)
class ChipPolicy:
    resource: str
    board: Board
    rule: ChipRule
    #: More than one pod of the job requests chips.
    multi_pod: bool
    #: Chips with network faults are withheld from this job.
    withholds_network: bool
    #: `foundation-model`, `common`, `padding`, or None when it is not switch-aware.
    switch_class: str | None = None
    #: Nodes per logical SuperPoD and number of them, for SuperPoD jobs.
    block_nodes: int | None = None
    blocks: int | None = None
    soft: bool = False
    #: Set for jobs on boards with racks; such a job has blocks, too.
    rack: RackPolicy | None = None
    #: `distributed-job`: more than one pod requests chips, whether or not they exist yet or start together.
    distributed: bool = False
