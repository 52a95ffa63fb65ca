"""The free nodes of racks while a job takes some of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ringwise.grammar import first_of
from ringwise.placement.matching import PodClasses, can_match
from ringwise.placement.node_groups import first_matching, matched_nodes
from ringwise.placement.racks.model import FreeRacks, RackBlock, RackId, RackRequest, Slot
from ringwise.topology.chips import mask_of, union_of
from ringwise.topology.superpods import NodeId, SuperPodId, order_key

#: Pods that differ are put into racks by search. It gives up after so many tries.
SEARCH_LIMIT = 5_000
#: A message names this many SuperPoDs, the freest ones; the rest are counted.
_LISTED = 6


class RackNodes:
    """The free nodes of one rack, in the order in which they are taken."""

    __slots__ = ("nodes", "rack", "superpod")

    def __init__(self, superpod: SuperPodId, rack: RackId, nodes: list[NodeId]) -> None:
        self.superpod = superpod
        self.rack = rack
        self.nodes = nodes

    def take(self, nodes: Iterable[NodeId]) -> list[Slot]:
        chosen = list(nodes)
        gone = set(chosen)
        self.nodes = [node for node in self.nodes if node not in gone]
        return [Slot(node, self.superpod, self.rack) for node in chosen]


class SuperPodNodes:
    """The free racks of one SuperPoD, or of a part of it, by rack id."""

    __slots__ = ("offer", "racks", "superpod")

    def __init__(self, superpod: SuperPodId, racks: list[RackNodes]) -> None:
        self.superpod = superpod
        self.racks = racks
        #: Where pods differ: the classes that its nodes could take when this was found; later on no more.
        self.offer: int | None = None

    @property
    def free(self) -> int:
        return sum(len(rack.nodes) for rack in self.racks)

    def groups(self, size: int) -> int:
        """How many groups of so many nodes its racks hold."""
        return sum(len(rack.nodes) // size for rack in self.racks)

    def ascending(self) -> list[RackNodes]:
        """Racks with fewest free nodes first; equal ones by id."""
        return sorted(self.racks, key=lambda rack: len(rack.nodes))

    def copy(self) -> SuperPodNodes:
        racks = [RackNodes(rack.superpod, rack.rack, rack.nodes) for rack in self.racks]
        copied = SuperPodNodes(self.superpod, racks)
        copied.offer = self.offer
        return copied

    def assign(self, other: SuperPodNodes) -> None:
        """Become what `other`, a copy of this one, has become."""
        for rack, changed in zip(self.racks, other.racks, strict=True):
            rack.nodes = changed.nodes


class RackPool:
    """Free nodes by SuperPoD and rack, SuperPoDs in natural order of their ids.

    Where pods differ, only nodes that some pod of the open blocks can take are there.
    """

    def __init__(self, free: FreeRacks, request: RackRequest) -> None:
        self.request = request
        self.classes = request.classes
        #: Where pods differ: the classes of each open block.
        self._needs: dict[int, int] = {}
        if self.classes is not None:
            of_rank = self.classes.of_rank
            self._needs = {
                block: mask_of(of_rank[rank] for rank in request.shape.ranks_of(block))
                for block in request.open_blocks
            }
        wanted = union_of(self._needs.values())
        self.superpods = [
            SuperPodNodes(
                superpod,
                [
                    RackNodes(superpod, rack, self._usable(free[superpod][rack], wanted))
                    for rack in sorted(free[superpod])
                ],
            )
            for superpod in sorted(free, key=order_key)
        ]

    def _usable(self, nodes: Sequence[NodeId], wanted: int) -> list[NodeId]:
        classes = self.classes
        if classes is None:
            return list(nodes)
        return [node for node in nodes if classes.of_node.get(node, 0) & wanted]

    @property
    def free(self) -> int:
        return sum(superpod.free for superpod in self.superpods)

    def smallest_first(self, at_least: int) -> list[SuperPodNodes]:
        """SuperPoDs with at least so many free nodes, fewest first; equal ones by id."""
        holding = [superpod for superpod in self.superpods if superpod.free >= at_least]
        return sorted(holding, key=lambda superpod: superpod.free)

    def largest_first(self) -> list[SuperPodNodes]:
        return sorted(self.superpods, key=lambda superpod: -superpod.free)

    def listing(self) -> str:
        """The racks of the freest SuperPoDs, as a person reads them."""
        entries = [
            f"SuperPoD {superpod.superpod} has {superpod.free} in racks of "
            + "+".join(str(len(rack.nodes)) for rack in superpod.racks if rack.nodes)
            for superpod in self.largest_first()
            if superpod.free
        ]
        if not entries:
            return "no rack has a free node"
        return "; ".join(first_of(entries, _LISTED, "{n} more"))

    # -- taking nodes ----------------------------------------------------------------------

    def fill_block(self, superpod: SuperPodNodes, block: int, group_nodes: int) -> tuple[Slot, ...] | None:
        """Take a whole block from the racks of a SuperPoD, groups inside racks, smallest racks first.

        Nothing is taken where the block does not fit.
        """
        ranks = self.request.shape.ranks_of(block)
        groups = [ranks[start : start + group_nodes] for start in range(0, len(ranks), group_nodes)]
        classes = self.classes
        if classes is not None and not self._offers(classes, superpod, block):
            return None
        if superpod.groups(group_nodes) < len(groups):
            return None
        racks = superpod.ascending()
        if classes is None:
            return self._fill_equal(racks, groups)
        chosen = _search(classes, racks, groups) if group_nodes > 1 else _match(classes, racks, ranks)
        if chosen is None:
            return None
        slots: dict[int, Slot] = {}
        for rack, members in zip(racks, chosen, strict=True):
            nodes = matched_nodes(classes, members, rack.nodes) or []
            slots.update(zip(members, rack.take(nodes), strict=True))
        return tuple(slots[rank] for rank in ranks)

    def _offers(self, classes: PodClasses, superpod: SuperPodNodes, block: int) -> bool:
        """Whether a SuperPoD has a node for each class of the block's pods."""
        classes.spend(1)
        offer = superpod.offer
        if offer is None:
            offer = superpod.offer = union_of(
                mask for rack in superpod.racks for mask in classes.masks(rack.nodes)
            )
        return not self._needs[block] & ~offer

    def _fill_equal(self, racks: Sequence[RackNodes], groups: Sequence[range]) -> tuple[Slot, ...]:
        slots: list[Slot] = []
        left, size = len(groups), len(groups[0])
        for rack in racks:
            count = min(len(rack.nodes) // size, left)
            slots += rack.take(rack.nodes[: count * size])
            left -= count
            if not left:
                break
        return tuple(slots)


def _match(classes: PodClasses, racks: Sequence[RackNodes], ranks: range) -> list[list[int]] | None:
    """Ranks by rack where groups are single nodes: one matching over all nodes."""
    nodes = [node for rack in racks for node in rack.nodes]
    chosen = first_matching(classes.of_ranks(ranks), classes.masks(nodes), classes.spend)
    if chosen is None:
        return None
    rack_of = [number for number, rack in enumerate(racks) for _ in rack.nodes]
    members: list[list[int]] = [[] for _ in racks]
    for rank, position in zip(ranks, chosen, strict=True):
        members[rack_of[position]].append(rank)
    return members


def _search(
    classes: PodClasses, racks: Sequence[RackNodes], groups: Sequence[range]
) -> list[list[int]] | None:
    """Ranks by rack: group by group the first rack from which the rest can be completed."""
    masks = [classes.masks(rack.nodes) for rack in racks]
    needs = [sorted(classes.of_ranks(group)) for group in groups]
    offers, wanted = [union_of(rack_masks) for rack_masks in masks], [mask_of(need) for need in needs]
    members: list[list[int]] = [[] for _ in racks]
    #: For each group on the way, the rack that is tried next.
    tries = [0]
    for _ in range(SEARCH_LIMIT):
        classes.spend(1)
        depth = len(tries) - 1
        number = tries[depth]
        if number == len(racks):
            tries.pop()
            if not tries:
                return None
            del members[tries[-1]][-len(groups[depth - 1]) :]
            tries[-1] += 1
        elif not wanted[depth] & ~offers[number] and can_match(
            classes.of_ranks([*members[number], *groups[depth]]), masks[number], classes.spend
        ):
            members[number].extend(groups[depth])
            if depth + 1 == len(groups):
                return members
            # A group like the one before need not try the racks that were not good for that one.
            tries.append(number if needs[depth + 1] == needs[depth] else 0)
        else:
            tries[-1] += 1
    return None


def in_order(blocks: Iterable[RackBlock]) -> tuple[RackBlock, ...]:
    return tuple(sorted(blocks, key=lambda block: block.logical))


def merged_classes(classes: PodClasses | None, free: FreeRacks) -> PodClasses | None:
    """None where every pod can take every free node: then counting decides."""
    if classes is None:
        return None
    all_classes = mask_of(classes.of_rank.values())
    for racks in free.values():
        for nodes in racks.values():
            if any(classes.of_node.get(node, 0) & all_classes != all_classes for node in nodes):
                return classes
    return None
