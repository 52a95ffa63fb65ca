"""Find racks for all open blocks of a job, or explain with numbers why there is no room (R1).

The stages, each all or nothing for the blocks that are open:

- RACK: the whole job in one rack, for jobs of at most a rack's nodes;
- DOMAIN: UB-memory jobs, inside one UB-memory domain;
- SUPERPOD: the whole job in one SuperPoD, the smallest that holds it, groups inside racks;
- MULTI: whole blocks from the largest SuperPoDs;
- FRAGMENTS: what a soft job still lacks, from any rack.

No nodes are kept in reserve. Ties are decided by SuperPoD id, rack id and node order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace

from ringwise.grammar import counted
from ringwise.placement.node_groups import matched_nodes, useful_matched_nodes
from ringwise.placement.racks.model import (
    FreeRacks,
    RackBlock,
    RackId,
    RackOrigin,
    RackRequest,
    RackShape,
    RackSystem,
    Slot,
)
from ringwise.placement.racks.pool import RackNodes, RackPool, SuperPodNodes, in_order, merged_classes
from ringwise.placement.racks.reasons import (
    BLOCKS_NOT_PLACED,
    NO_DOMAIN_HOLDS_JOB,
    NO_RACK_FOR_SERVICE,
    NO_RACK_HOLDS_GROUP,
    NOT_ENOUGH_BLOCKS,
    NOT_ENOUGH_NODES,
)
from ringwise.placement.superpods.packing import check_counts
from ringwise.reasons import Reason
from ringwise.topology.superpods import NodeId, SuperPodId, order_key


def select(free: FreeRacks, request: RackRequest, super_pod_size: int) -> tuple[RackBlock, ...] | Reason:
    """Places for the open blocks, by block id (R1).

    All or nothing, except that with a `minimum` the whole blocks that fit are enough
    if they hold so many pods (P8).
    """
    problem = check_sizes(free, super_pod_size)
    if problem is not None:
        return problem
    if not request.open_blocks:
        return ()
    request = replace(request, classes=merged_classes(request.classes, free))
    answer = _stages(free, request, super_pod_size)
    if isinstance(answer, Reason):
        return answer.with_fixes(_fixes(free, request, super_pod_size))
    return in_order(answer)


def fullest_nodes(free: FreeRacks, idle_chips: Mapping[NodeId, int]) -> FreeRacks:
    """For a job of one pod: the nodes with fewest idle chips, so that emptier nodes stay whole."""
    fewest = min(
        (idle_chips[node] for racks in free.values() for nodes in racks.values() for node in nodes),
        default=0,
    )
    return {
        superpod: {
            rack: [node for node in nodes if idle_chips[node] == fewest] for rack, nodes in racks.items()
        }
        for superpod, racks in free.items()
    }


def check_sizes(free: FreeRacks, super_pod_size: int) -> Reason | None:
    """Rule P6, for the nodes of all racks of a SuperPoD."""
    counts = ((one, sum(map(len, free[one].values()))) for one in sorted(free, key=order_key))
    return check_counts(counts, super_pod_size)


def _stages(free: FreeRacks, request: RackRequest, super_pod_size: int) -> Sequence[RackBlock] | Reason:
    pool = RackPool(free, request)
    small = request.pods <= request.system.nodes_per_rack
    if small:
        result = _one_rack(pool)
        if result is not None:
            return result
        problem = _final_for_small_jobs(pool)
        if problem is not None:
            return problem
    if request.ub_memory:
        return _one_domain(pool)
    if small or request.pods <= super_pod_size:
        result = _one_superpod(pool)
        if result is not None:
            return result
    # The order of the SuperPoDs is fixed here, whatever is taken from them.
    order = pool.largest_first()
    placed, left = _whole_blocks(pool, order)
    if not left:
        return placed
    if request.soft:
        fragments = _fragments(pool, order, left)
        if fragments is not None:
            return [*placed, *fragments]
    start = first_blocks(placed, request)
    return _no_room(RackPool(free, request), len(placed)) if start is None else start


def _no_room(pool: RackPool, held: int) -> Reason:
    request, shape, free = pool.request, pool.request.shape, pool.free
    if request.soft:
        return NOT_ENOUGH_NODES(
            pods=request.pods, free=free, missing=max(1, request.pods - free), listing=pool.listing()
        )
    return BLOCKS_NOT_PLACED(
        blocks=len(request.open_blocks),
        block_nodes=shape.nodes_per_block,
        group_nodes=shape.nodes_per_group,
        held=held,
        listing=pool.listing(),
    )


def first_blocks(placed: Iterable[RackBlock], request: RackRequest) -> list[RackBlock] | None:
    """The placed blocks up to the first that is missing, if they are enough to start with (P8)."""
    if request.fewest == request.pods:
        return None
    by_id = {block.logical: block for block in placed}
    start: list[RackBlock] = []
    for logical in request.open_blocks:
        if logical not in by_id:
            break
        start.append(by_id[logical])
    pods = len(start) * request.shape.nodes_per_block
    return start if pods >= max(1, request.fewest) else None


# -- the stages ---------------------------------------------------------------------------


def _one_rack(pool: RackPool) -> list[RackBlock] | None:
    """RACK: SuperPoDs with fewest free nodes first; in each the closest-fitting rack."""
    request = pool.request
    ranks = [rank for block in request.open_blocks for rank in request.shape.ranks_of(block)]
    for superpod in pool.smallest_first(request.pods):
        for rack in superpod.ascending():
            if not request.pods <= len(rack.nodes) <= request.system.nodes_per_rack:
                continue
            nodes = matched_nodes(pool.classes, ranks, rack.nodes)
            if nodes is not None:
                return _cut(rack.take(nodes), request, request.open_blocks, RackOrigin.RACK)
    return None


def _final_for_small_jobs(pool: RackPool) -> Reason | None:
    """What no later stage can fix, with the numbers that matter."""
    request, shape = pool.request, pool.request.shape
    if request.soft or request.fewest < request.pods:
        return None
    held = sum(superpod.free // shape.nodes_per_block for superpod in pool.superpods)
    if held < len(request.open_blocks) and not request.ub_memory:
        return NOT_ENOUGH_BLOCKS(
            blocks=len(request.open_blocks),
            block_nodes=shape.nodes_per_block,
            held=held,
            listing=pool.listing(),
        )
    if request.pods == shape.nodes_per_group:
        return NO_RACK_HOLDS_GROUP(group_nodes=shape.nodes_per_group, listing=pool.listing())
    return None


def _one_domain(pool: RackPool) -> list[RackBlock] | Reason:
    """DOMAIN: SuperPoDs with fewest free nodes first; in each the fullest domain that holds the job."""
    request, system = pool.request, pool.request.system
    group_nodes = request.shape.nodes_per_group
    for superpod in pool.smallest_first(request.pods):
        for domain in sorted(_domains(superpod, system), key=lambda domain: domain.free):
            if domain.groups(group_nodes) * group_nodes >= request.pods:
                result = _all_blocks(pool, domain, RackOrigin.DOMAIN)
                if result is not None:
                    return result
    domains = [domain for superpod in pool.superpods for domain in _domains(superpod, system)]
    held = max((domain.groups(group_nodes) * group_nodes for domain in domains), default=0)
    reason = NO_DOMAIN_HOLDS_JOB(
        pods=request.pods,
        group_nodes=group_nodes,
        held=held,
        listing=pool.listing(),
        domain_racks=system.racks_per_domain,
    )
    if request.fewest == request.pods:
        return reason
    best: list[RackBlock] = []
    for domain in sorted(domains, key=lambda domain: domain.free):
        placed, _ = _take_blocks(pool, domain.copy(), request.open_blocks, RackOrigin.DOMAIN)
        if len(placed) > len(best):
            best = placed
    start = first_blocks(best, request)
    return reason if start is None else start


def _domains(superpod: SuperPodNodes, system: RackSystem) -> list[SuperPodNodes]:
    racks: dict[int, list[RackNodes]] = {}
    for rack in superpod.racks:
        racks.setdefault(system.domain_of(rack.rack), []).append(rack)
    return [SuperPodNodes(superpod.superpod, members) for _, members in sorted(racks.items())]


def _one_superpod(pool: RackPool) -> list[RackBlock] | None:
    """SUPERPOD: the SuperPoD with fewest free nodes whose racks hold all groups."""
    request, shape = pool.request, pool.request.shape
    for superpod in pool.smallest_first(request.pods):
        if superpod.groups(shape.nodes_per_group) >= request.pods // shape.nodes_per_group:
            result = _all_blocks(pool, superpod, RackOrigin.SUPERPOD)
            if result is not None:
                return result
    return None


def _all_blocks(pool: RackPool, superpod: SuperPodNodes, origin: RackOrigin) -> list[RackBlock] | None:
    trial = superpod.copy()
    placed, left = _take_blocks(pool, trial, pool.request.open_blocks, origin)
    if left:
        return None
    superpod.assign(trial)
    return placed


def _whole_blocks(pool: RackPool, order: Sequence[SuperPodNodes]) -> tuple[list[RackBlock], list[int]]:
    """MULTI: as many whole blocks as fit, one SuperPoD after the other, most free nodes first."""
    placed: list[RackBlock] = []
    left = list(pool.request.open_blocks)
    for superpod in order:
        if not left:
            break
        more, left = _take_blocks(pool, superpod, left, RackOrigin.MULTI)
        placed += more
    return placed, left


def _take_blocks(
    pool: RackPool, superpod: SuperPodNodes, blocks: Sequence[int], origin: RackOrigin
) -> tuple[list[RackBlock], list[int]]:
    """Blocks in rank order, each if its pods can all have nodes there, and the blocks that are left."""
    group_nodes = pool.request.shape.nodes_per_group
    placed: list[RackBlock] = []
    left: list[int] = []
    for number, block in enumerate(blocks):
        slots = pool.fill_block(superpod, block, group_nodes)
        if slots is not None:
            placed.append(RackBlock(block, slots, origin))
        elif pool.classes is None:
            # Blocks of equal pods: where one does not fit, no other does.
            left += blocks[number:]
            break
        else:
            left.append(block)
    return placed, left


def _fragments(pool: RackPool, order: Sequence[SuperPodNodes], left: Sequence[int]) -> list[RackBlock] | None:
    """FRAGMENTS: the missing nodes rack by rack, cut into blocks in pick order."""
    request = pool.request
    picks = [
        Slot(node, rack.superpod, rack.rack)
        for superpod in order
        for rack in superpod.ascending()
        for node in rack.nodes
    ]
    ranks = [rank for block in left for rank in request.shape.ranks_of(block)]
    nodes = useful_matched_nodes(pool.classes, ranks, [slot.node for slot in picks])
    if nodes is None:
        return None
    slot_of = {slot.node: slot for slot in picks}
    return _cut([slot_of[node] for node in nodes], request, left, RackOrigin.FRAGMENTS)


def _cut(
    slots: Sequence[Slot], request: RackRequest, blocks: Sequence[int], origin: RackOrigin
) -> list[RackBlock]:
    """The slots of consecutive ranks as blocks."""
    size = request.shape.nodes_per_block
    return [
        RackBlock(block, tuple(slots[number * size : (number + 1) * size]), origin)
        for number, block in enumerate(blocks)
    ]


# -- fixes ----------------------------------------------------------------------------------


def _fixes(free: FreeRacks, request: RackRequest, super_pod_size: int) -> list[str]:
    """Smaller requests that would fit now."""

    def fits(changed: RackRequest) -> bool:
        return not isinstance(_stages(free, changed, super_pod_size), Reason)

    fixes = []
    if request.ub_memory and fits(replace(request, ub_memory=False)):
        fixes.append("remove the annotation huawei.com/schedule_ubmemory: without UB memory the job fits now")
    group_nodes = request.shape.nodes_per_group // 2
    while group_nodes:
        shape = RackShape(request.shape.nodes_per_block, group_nodes, request.shape.blocks)
        if fits(replace(request, shape=shape)):
            chips = group_nodes * request.system.chips_per_node
            fixes.append(f'ra-block: "{chips}": logical racks of {counted(group_nodes, "node")} fit now')
            break
        group_nodes //= 2
    if not (request.soft or request.ub_memory) and fits(replace(request, soft=True)):
        fixes.append("label the job super-pod-affinity: soft: then blocks and logical racks may be split")
    return fixes


# -- inference services ----------------------------------------------------------------------------------


def select_for_service(
    free: FreeRacks,
    request: RackRequest,
    super_pod_size: int,
    service_racks: Set[tuple[SuperPodId, RackId]] = frozenset(),
) -> tuple[RackBlock, ...] | Reason:
    """A rack for each open block, near other jobs of the service (R1): in `service_racks` these have nodes.

    Unlike training jobs they go to the emptiest racks. Logical racks, soft affinity and UB memory play no
    part.
    """
    problem = check_sizes(free, super_pod_size)
    if problem is not None:
        return problem
    request = replace(request, classes=merged_classes(request.classes, free))
    pool = RackPool(free, request)
    used = set(service_racks)
    placed: list[RackBlock] = []
    for block in request.open_blocks:
        ranks = request.shape.ranks_of(block)
        for rack in _by_preference(pool, used):
            nodes = matched_nodes(pool.classes, ranks, rack.nodes)
            if nodes is not None:
                placed.append(RackBlock(block, tuple(rack.take(nodes)), RackOrigin.SERVICE))
                used.add((rack.superpod, rack.rack))
                break
    if len(placed) == len(request.open_blocks):
        return in_order(placed)
    start = first_blocks(placed, request)
    if start is not None:
        return in_order(start)
    return NO_RACK_FOR_SERVICE(
        blocks=len(request.open_blocks),
        block_nodes=request.shape.nodes_per_block,
        held=len(placed),
        listing=RackPool(free, request).listing(),
        largest=request.system.rack_chips,
    )


def _by_preference(pool: RackPool, used: Set[tuple[SuperPodId, RackId]]) -> list[RackNodes]:
    """Racks of the service, most free first; then its SuperPoDs, then others, emptiest first.

    Equal racks stay in the order of their ids, because sorting keeps it.
    """
    near = {superpod for superpod, _ in used}
    whole = pool.request.system.nodes_per_rack
    keyed: list[tuple[tuple[int, ...], RackNodes]] = []
    for superpod in pool.superpods:
        free = superpod.free
        whole_racks = sum(len(rack.nodes) == whole for rack in superpod.racks)
        distance = 1 if superpod.superpod in near else 2
        for rack in superpod.racks:
            if (rack.superpod, rack.rack) in used:
                key: tuple[int, ...] = (0, -len(rack.nodes))
            else:
                key = (distance, -whole_racks, -len(rack.nodes), -free)
            keyed.append((key, rack))
    return [rack for _, rack in sorted(keyed, key=lambda entry: entry[0])]
