"""Racks, the cut of a job into blocks and groups, and where its pods go.

A block is a logical SuperPoD: it lies inside one physical SuperPoD. A group is a logical
rack: consecutive ranks that lie inside one physical rack. Rack ids count inside a
SuperPoD, so a rack is known by both ids.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from ringwise.placement.matching import PodClasses
from ringwise.records import dataclass
from ringwise.topology.superpods import NodeId, SuperPodId

RackId: TypeAlias = int
#: Nodes that can take a pod of the job now: SuperPoD -> rack -> nodes in the order in which they are taken.
FreeRacks: TypeAlias = Mapping[SuperPodId, Mapping[RackId, Sequence[NodeId]]]


@dataclass(frozen=True, slots=True)
class RackSystem:
    """The hardware: chips of a node, nodes of a rack, racks of a UB-memory domain."""

    chips_per_node: int = 8
    nodes_per_rack: int = 8
    racks_per_domain: int = 16
    #: Nodes; the largest `super-pod-size` that such a SuperPoD can have.
    largest_superpod: int = 1024

    @property
    def rack_chips(self) -> int:
        return self.chips_per_node * self.nodes_per_rack

    @property
    def domain_chips(self) -> int:
        return self.rack_chips * self.racks_per_domain

    def domain_of(self, rack: RackId) -> int:
        """The UB-memory domain of a rack, counted inside its SuperPoD."""
        return rack // self.racks_per_domain


@dataclass(frozen=True, slots=True)
class RackShape:
    """How a job is cut: `blocks` blocks of `nodes_per_block` nodes, in groups of `nodes_per_group`."""

    nodes_per_block: int
    nodes_per_group: int
    blocks: int

    @property
    def pods(self) -> int:
        return self.nodes_per_block * self.blocks

    def block_of(self, rank: int) -> int:
        return rank // self.nodes_per_block

    def group_of(self, rank: int) -> int:
        """The number of the rank's logical rack, counted through the whole job."""
        return rank // self.nodes_per_group

    def ranks_of(self, block: int) -> range:
        return range(block * self.nodes_per_block, (block + 1) * self.nodes_per_block)


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of one rank."""

    node: NodeId
    superpod: SuperPodId
    rack: RackId


class RackOrigin(enum.Enum):
    """Which rule gave a block its place."""

    RACK = "one rack holds the job"
    DOMAIN = "one UB-memory domain holds the job"
    SUPERPOD = "one SuperPoD holds the job"
    MULTI = "several SuperPoDs"
    FRAGMENTS = "fragments"
    SERVICE = "inference service"
    KEPT = "kept"
    REFILLED = "refilled"


@dataclass(frozen=True, slots=True)
class RackBlock:
    """One block with the slots of its ranks in order."""

    logical: int
    slots: tuple[Slot, ...]
    origin: RackOrigin

    def parts(self) -> list[tuple[SuperPodId, RackId, int]]:
        """(SuperPoD, rack, nodes) of each run of slots in one rack."""
        result: list[tuple[SuperPodId, RackId, int]] = []
        for slot in self.slots:
            if result and result[-1][:2] == (slot.superpod, slot.rack):
                result[-1] = (slot.superpod, slot.rack, result[-1][2] + 1)
            else:
                result.append((slot.superpod, slot.rack, 1))
        return result


@dataclass(frozen=True, slots=True)
class RackRequest:
    """What is to be placed: the open blocks of a job, in ascending order of their ids."""

    shape: RackShape
    open_blocks: tuple[int, ...]
    soft: bool = False
    ub_memory: bool = False
    #: Fewest pods of the open blocks that must get a node; None: all (P8).
    minimum: int | None = None
    #: None where all pods have the same needs.
    classes: PodClasses | None = None
    system: RackSystem = field(default_factory=RackSystem)

    @property
    def pods(self) -> int:
        return len(self.open_blocks) * self.shape.nodes_per_block

    @property
    def fewest(self) -> int:
        return self.pods if self.minimum is None else min(self.minimum, self.pods)
