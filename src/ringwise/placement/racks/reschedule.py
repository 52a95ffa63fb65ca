"""After a fault: intact blocks and logical racks stay, broken ones move no further than they must (R3).

The level is that of the job's clock (F2):

- POD: every lost place is filled from its own rack;
- RACK: a broken logical rack may move to another rack of its SuperPoD;
- BLOCK: a broken block may move, by the rules of `selection`;
- JOB: the same, and if that fails the whole job is placed again.

A place is good when its pod still runs there, or when its node is free again and was not the
faulty one. Good places are held for their rank before any broken block chooses. Pods that run
are never moved: a logical rack or block with running pods stays where these are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import field, replace
from typing import TypeVar

from ringwise.placement.node_groups import useful_matched_nodes
from ringwise.placement.racks.levels import Level
from ringwise.placement.racks.model import (
    FreeRacks,
    RackBlock,
    RackId,
    RackOrigin,
    RackRequest,
    Slot,
)
from ringwise.placement.racks.pool import in_order
from ringwise.placement.racks.previous import PreviousRackBlock, PreviousSlot
from ringwise.placement.racks.reasons import RUNNING_PODS_HOLD_GROUP, WAIT_FOR_RACK, WAIT_FOR_SUPERPOD
from ringwise.placement.racks.selection import check_sizes
from ringwise.placement.superpods.reschedule import BlockFault, must_wait
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.topology.superpods import NodeId, SuperPodId, order_key

Answer = TypeVar("Answer")

#: Rack or SuperPoD of a pod that runs on a node which no longer reports them.
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class RackFault(BlockFault):
    """The same with how far the fault may move pods."""

    level: Level = Level.POD
    #: What time alone will change, in words.
    outlook: str = ""


#: Places for open blocks: the rule for training jobs or the one for inference services.
SelectBlocks = Callable[[FreeRacks, RackRequest], tuple[RackBlock, ...] | Reason]


def reschedule(
    previous: Sequence[PreviousRackBlock],
    free: FreeRacks,
    request: RackRequest,
    fault: RackFault,
    super_pod_size: int,
    select_blocks: SelectBlocks,
) -> tuple[RackBlock, ...] | Reason:
    """All blocks that have a place now, or why the job waits (R3).

    `request.open_blocks` is not read: the blocks without a known place are open, too, and
    for them `request.minimum` counts (P8).
    """
    problem = check_sizes(free, super_pod_size)
    if problem is not None:
        return problem
    repair = _Repair(previous, free, request, fault, select_blocks)
    wait = must_wait(fault.release, fault.running, repair.healthy_previous_nodes(), repair.where.keys())
    return repair.run() if wait is None else wait


@dataclass(slots=True)
class _Repair:
    """Free nodes and the places that are held while blocks are completed."""

    previous: Sequence[PreviousRackBlock]
    free: FreeRacks
    request: RackRequest
    fault: RackFault
    select_blocks: SelectBlocks
    #: F3: whether nodes that broke the job may be taken in the step that is tried.
    with_faulty: bool = False
    #: SuperPoD and rack of every node that may be taken.
    where: dict[NodeId, tuple[SuperPodId, RackId]] = field(init=False)
    held: set[NodeId] = field(init=False)

    def __post_init__(self) -> None:
        self.where = {
            node: (superpod, rack)
            for superpod, racks in self.free.items()
            for rack, nodes in racks.items()
            for node in nodes
            if node not in self.fault.running
        }
        self.held = {
            slot.node
            for block in self.previous
            for slot in block.slots
            if slot is not None and self._is_good(slot)
        }

    # -- what is left ---------------------------------------------------------------------------

    def _is_running(self, slot: PreviousSlot | None) -> bool:
        return slot is not None and slot.node in self.fault.running

    def _is_good(self, slot: PreviousSlot | None) -> bool:
        if slot is None:
            return False
        is_free_again = self.where.get(slot.node) == (slot.superpod, slot.rack)
        return slot.node in self.fault.running or (is_free_again and slot.node not in self.fault.faulty)

    def healthy_previous_nodes(self) -> set[NodeId]:
        previous = {slot.node for block in self.previous for slot in block.slots if slot is not None}
        return previous - self.fault.running - self.fault.faulty

    def _spare(self, superpod: SuperPodId | None, rack: RackId | None) -> list[NodeId]:
        """Free nodes of a rack that no rank holds."""
        if superpod is None or rack is None:
            return []
        return self._without(self.held, self.free.get(superpod, {}).get(rack, ()))

    def _without(self, taken: Set[NodeId], nodes: Iterable[NodeId]) -> list[NodeId]:
        """Those of the nodes that may be taken; the ones that broke the job before stand last."""
        left = (node for node in nodes if node in self.where and node not in taken)
        usable = (node for node in left if self.with_faulty or node not in self.fault.faulty)
        return sorted(usable, key=self.fault.faulty.__contains__)

    def _avoiding_faulty(self, step: Callable[[], Answer | None]) -> Answer | None:
        """F3: each step without nodes that broke the job, then with them; only then comes the next step."""
        for self.with_faulty in (False, True):
            result = step()
            if result is not None or not self.fault.faulty:
                return result
        return None

    # -- the levels -----------------------------------------------------------------------------

    def run(self) -> tuple[RackBlock, ...] | Reason:
        settled: list[RackBlock] = []
        moving: list[PreviousRackBlock] = []
        unplaced: list[int] = []
        broken: list[PreviousRackBlock] = []
        for block in self.previous:
            if all(self._is_good(slot) for slot in block.slots):
                places = self._good_places(block)
                slots = tuple(places[position] for position in range(len(block.slots)))
                settled.append(RackBlock(block.logical, slots, RackOrigin.KEPT))
            elif any(slot is not None for slot in block.slots):
                broken.append(block)
            else:
                unplaced.append(block.logical)
        # Fewest lost places first: so most blocks can stay where they are.
        for block in sorted(broken, key=lambda block: (self._lost(block), block.logical)):
            repaired = self._repaired(block)
            if repaired is not None:
                settled.append(RackBlock(block.logical, repaired, RackOrigin.REFILLED))
            elif self.fault.level >= Level.BLOCK and not self._running_in(block):
                self.held -= {slot.node for slot in block.slots if slot is not None and self._is_good(slot)}
                moving.append(block)
            else:
                return self._waiting(block)
        moved = self._select([block.logical for block in moving], settled, None)
        if isinstance(moved, Reason):
            return self._anew(moved)
        settled += moved
        late = self._select(unplaced, settled, self.request.minimum)
        if isinstance(late, Reason):
            # The blocks that lost places do not wait for those that never had one.
            return in_order(settled) if broken else late
        return in_order([*settled, *late])

    def _select(
        self, blocks: Sequence[int], settled: Sequence[RackBlock], minimum: int | None
    ) -> tuple[RackBlock, ...] | Reason:
        """Whole blocks by the rules for new jobs, from what nothing holds."""
        if not blocks:
            return ()
        taken = {slot.node for block in settled for slot in block.slots} | self.held
        domain = self._domain_of(settled)
        request = replace(self.request, open_blocks=tuple(sorted(blocks)), minimum=minimum)
        answers: list[tuple[RackBlock, ...] | Reason] = []
        attempts = (False, True) if self.fault.faulty else (False,)
        for self.with_faulty in attempts:
            left = {
                superpod: {
                    rack: self._without(taken, nodes)
                    for rack, nodes in racks.items()
                    if domain is None or domain == (superpod, self.request.system.domain_of(rack))
                }
                for superpod, racks in self.free.items()
            }
            answers.append(self.select_blocks(left, request))
            if not isinstance(answers[-1], Reason):
                return answers[-1]
        return answers[0]

    def _domain_of(self, settled: Sequence[RackBlock]) -> tuple[SuperPodId, int] | None:
        """The UB-memory domain that the job may not leave, once it is in one."""
        if not self.request.ub_memory:
            return None
        slots = (slot for block in settled for slot in block.slots if slot.rack != UNKNOWN)
        slot = next(slots, None)
        return None if slot is None else (slot.superpod, self.request.system.domain_of(slot.rack))

    def _anew(self, reason: Reason) -> tuple[RackBlock, ...] | Reason:
        """The whole job once more, where no placement with the intact blocks exists (R3)."""
        if self.fault.level < Level.JOB or any(self._running_in(block) for block in self.previous):
            return reason
        self.held = set()
        blocks = [block for block in self.previous if any(slot is not None for slot in block.slots)]
        return self._select([block.logical for block in blocks], (), None)

    def _repaired(self, block: PreviousRackBlock) -> tuple[Slot, ...] | None:
        """The block with its lost places filled as near as the level allows; None where that fails."""
        level = self.fault.level
        if None in block.slots:
            # A place that no pod ever had was lost by no fault: it may be in any rack of the SuperPoD.
            level = max(level, Level.RACK)
        good = any(self._is_good(slot) for slot in block.slots)
        if level >= Level.BLOCK and not good:
            return None
        filled = self._avoiding_faulty(lambda: self._refill(block))
        stays = self._running_in(block) or any(self._is_intact(block, group) for group in self._groups())
        if filled is None and (level == Level.RACK or (level >= Level.BLOCK and stays)):
            filled = self._avoiding_faulty(lambda: self._move_groups(block))
        if filled is None and level >= Level.BLOCK and stays and self.request.soft:
            filled = self._avoiding_faulty(lambda: self._scatter(block))
        if filled is None:
            return None
        slots = tuple(filled[position] for position in range(len(block.slots)))
        self.held.update(slot.node for slot in slots)
        return slots

    def _refill(self, block: PreviousRackBlock) -> dict[int, Slot] | None:
        """POD: good places stay, every other one gets a free node of its own rack."""
        filled = self._good_places(block)
        return self._fill_own_racks(block, [p for p in range(len(block.slots)) if p not in filled], filled)

    def _fill_own_racks(
        self, block: PreviousRackBlock, lost: Sequence[int], filled: dict[int, Slot]
    ) -> dict[int, Slot] | None:
        by_rack: dict[tuple[SuperPodId, RackId], list[int]] = {}
        for position in lost:
            rack = self._rack_of(block, position)
            if rack is None:
                return None
            by_rack.setdefault(rack, []).append(position)
        for rack, positions in by_rack.items():
            slots = self._take(block, positions, rack, self._spare(*rack))
            if slots is None:
                return None
            filled.update(slots)
        return filled

    def _move_groups(self, block: PreviousRackBlock) -> dict[int, Slot] | None:
        """RACK: broken logical racks go to another rack of their SuperPoD, as wholes.

        One whose other pods still run can only be completed where these are.
        """
        filled: dict[int, Slot] = {}
        tied: list[int] = []
        movable: dict[SuperPodId, list[range]] = {}
        good = self._good_places(block)
        for group in self._groups():
            running = any(self._is_running(block.slots[position]) for position in group)
            if running or self._is_intact(block, group):
                filled.update((position, good[position]) for position in group if position in good)
                tied += [position for position in group if position not in good]
                continue
            superpod = self._superpod_of(block, group)
            if superpod is None:
                return None
            movable.setdefault(superpod, []).append(group)
        if self._fill_own_racks(block, tied, filled) is None:
            return None
        held = set(self.held)
        self.held |= {slot.node for slot in filled.values()}
        for superpod, groups in movable.items():
            self.held -= {good[position].node for group in groups for position in group if position in good}
            slots = self._into_racks(block, superpod, groups)
            if slots is None:
                self.held = held
                return None
            filled.update(slots)
        return filled

    def _into_racks(
        self, block: PreviousRackBlock, superpod: SuperPodId, groups: Sequence[range]
    ) -> dict[int, Slot] | None:
        """All these logical racks in one rack if it holds them, else each in a rack of its own choice."""
        size = self.request.shape.nodes_per_group
        lost = [position for group in groups for position in group]
        racks = self._racks_for(block, superpod)
        chosen = next(
            (rack for rack in self._by_preference(block, lost[0], racks) if len(racks[rack]) >= size), None
        )
        if chosen is not None:
            result = self._take(block, lost, (superpod, chosen), racks[chosen])
            if result is not None:
                return result
        filled: dict[int, Slot] = {}
        homeless: list[range] = []
        for group in groups:
            own = self._rack_of(block, group[0])
            if own is None or not self._fill_group(block, group, own, racks, filled):
                homeless.append(group)
        for group in homeless:
            order = self._by_preference(block, group[0], racks)
            if not any(self._fill_group(block, group, (superpod, rack), racks, filled) for rack in order):
                return None
        return filled

    def _fill_group(
        self,
        block: PreviousRackBlock,
        group: range,
        rack: tuple[SuperPodId, RackId],
        racks: dict[RackId, list[NodeId]],
        filled: dict[int, Slot],
    ) -> bool:
        """Put one logical rack into a rack and take its nodes out of `racks`, if they are enough."""
        nodes = racks.get(rack[1], [])
        slots = self._take(block, group, rack, nodes)
        if slots is None:
            return False
        taken = {slot.node for slot in slots.values()}
        racks[rack[1]] = [node for node in nodes if node not in taken]
        filled.update(slots)
        return True

    def _scatter(self, block: PreviousRackBlock) -> dict[int, Slot] | None:
        """A soft job's lost places on any nodes, in the order in which fragments are picked."""
        filled = self._good_places(block)
        lost = [position for position in range(len(block.slots)) if position not in filled]
        racks = {
            superpod: {rack: self._spare(superpod, rack) for rack in sorted(self.free[superpod])}
            for superpod in sorted(self.free, key=order_key)
        }
        order = sorted(racks, key=lambda superpod: -sum(map(len, racks[superpod].values())))
        nodes = [
            node
            for superpod in order
            for rack in sorted(racks[superpod], key=lambda rack: len(racks[superpod][rack]))
            for node in racks[superpod][rack]
        ]
        chosen = self._match(block, lost, nodes)
        if chosen is None:
            return None
        for position, node in zip(lost, chosen, strict=True):
            filled[position] = Slot(node, *self.where[node])
        return filled

    # -- places of a block ------------------------------------------------------------------------

    def _groups(self) -> list[range]:
        """The positions of each logical rack of a block."""
        shape = self.request.shape
        return [
            range(start, start + shape.nodes_per_group)
            for start in range(0, shape.nodes_per_block, shape.nodes_per_group)
        ]

    def _group_of(self, position: int) -> range:
        size = self.request.shape.nodes_per_group
        return range(position // size * size, (position // size + 1) * size)

    def _is_intact(self, block: PreviousRackBlock, group: range) -> bool:
        return all(self._is_good(block.slots[position]) for position in group)

    def _good_places(self, block: PreviousRackBlock) -> dict[int, Slot]:
        return {
            position: Slot(
                slot.node,
                UNKNOWN if slot.superpod is None else slot.superpod,
                UNKNOWN if slot.rack is None else slot.rack,
            )
            for position, slot in enumerate(block.slots)
            if slot is not None and self._is_good(slot)
        }

    def _lost(self, block: PreviousRackBlock) -> int:
        return sum(not self._is_good(slot) for slot in block.slots)

    def _running_in(self, block: PreviousRackBlock) -> int:
        return sum(self._is_running(slot) for slot in block.slots)

    def _rack_of(self, block: PreviousRackBlock, position: int) -> tuple[SuperPodId, RackId] | None:
        """The rack of a place; one that is not known is where the rest of its logical rack is."""
        for near in (position, *self._group_of(position)):
            slot = block.slots[near]
            if slot is not None and slot.superpod is not None and slot.rack is not None:
                return slot.superpod, slot.rack
        return None

    def _superpod_of(self, block: PreviousRackBlock, group: Iterable[int] = ()) -> SuperPodId | None:
        for position in itertools.chain(group, range(len(block.slots))):
            slot = block.slots[position]
            if slot is not None and slot.superpod is not None:
                return slot.superpod
        return None

    def _racks_for(self, block: PreviousRackBlock, superpod: SuperPodId) -> dict[RackId, list[NodeId]]:
        """Spare nodes of the racks that the block may use; UB-memory jobs stay in their domain."""
        racks = sorted(self.free.get(superpod, {}))
        if self.request.ub_memory:
            domain_of = self.request.system.domain_of
            domains = {
                domain_of(slot.rack)
                for other in self.previous
                for slot in other.slots
                if slot is not None and slot.rack is not None
            }
            racks = [rack for rack in racks if domain_of(rack) in domains]
        return {rack: self._spare(superpod, rack) for rack in racks}

    def _by_preference(
        self, block: PreviousRackBlock, position: int, racks: Mapping[RackId, Sequence[NodeId]]
    ) -> list[RackId]:
        """The place's own rack, then those with fewest spare nodes, equal ones by id."""
        own = self._rack_of(block, position)
        return sorted(racks, key=lambda rack: (own is None or rack != own[1], len(racks[rack])))

    def _take(
        self,
        block: PreviousRackBlock,
        positions: Sequence[int],
        rack: tuple[SuperPodId, RackId],
        nodes: Sequence[NodeId],
    ) -> dict[int, Slot] | None:
        """Nodes of one rack for these places; a place whose own healthy node is among them keeps it."""
        if len(nodes) < len(positions):
            return None
        own = {
            position: slot.node
            for position in positions
            if (slot := block.slots[position]) is not None
            and slot.node in nodes
            and slot.node not in self.fault.faulty
        }
        taken = set(own.values())
        rest = [position for position in positions if position not in own]
        others = self._match(block, rest, [node for node in nodes if node not in taken])
        if others is None:
            own, rest = {}, list(positions)
            others = self._match(block, rest, nodes)
        if others is None:
            return None
        chosen = {**own, **dict(zip(rest, others, strict=True))}
        return {position: Slot(chosen[position], *rack) for position in positions}

    def _match(
        self, block: PreviousRackBlock, positions: Sequence[int], nodes: Sequence[NodeId]
    ) -> list[NodeId] | None:
        """A node for each place, first ones first."""
        start = self.request.shape.ranks_of(block.logical).start
        ranks = [start + position for position in positions]
        return useful_matched_nodes(self.request.classes, ranks, nodes)

    # -- reasons -----------------------------------------------------------------------------------

    def _waiting(self, block: PreviousRackBlock) -> Reason:
        level = self.fault.level
        lost = [position for position, slot in enumerate(block.slots) if not self._is_good(slot)]
        rack = self._rack_of(block, lost[0])
        superpod = self._superpod_of(block)
        if level == Level.POD:
            needs = [position for position in lost if self._rack_of(block, position) == rack]
            free = 0 if rack is None else len(self._spare(*rack))
            return WAIT_FOR_RACK(
                block=block.logical,
                missing=len(needs),
                rack="unknown" if rack is None else rack[1],
                superpod="unknown" if rack is None else rack[0],
                free=free,
                short_by=max(1, len(needs) - free),
                outlook=self.fault.outlook,
            )
        if level == Level.RACK:
            return WAIT_FOR_SUPERPOD(
                block=block.logical,
                missing=len(lost),
                superpod=superpod,
                group_nodes=self.request.shape.nodes_per_group,
                outlook=self.fault.outlook,
            )
        return RUNNING_PODS_HOLD_GROUP(
            block=block.logical,
            missing=len(lost),
            superpod=superpod,
            rack="unknown" if rack is None else rack[1],
            running=self._running_in(block),
        )
