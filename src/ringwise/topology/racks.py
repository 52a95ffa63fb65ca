"""Physical racks inside SuperPoDs.

Rack ids count inside a SuperPoD: rack 0 of two SuperPoDs is two racks. A node without a
usable rack id is in no rack; its problem is kept beside the view (R1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.topology.natural import natural_key
from ringwise.topology.reasons import RACK_ID_MISSING, RACK_ID_WRONG
from ringwise.topology.superpods import MAX_ID, NodeId, SuperPodId, SuperPods


@dataclass(frozen=True, slots=True)
class Racks:
    """The racks of each SuperPoD by id, each with its nodes in natural order."""

    nodes_of: Mapping[SuperPodId, Mapping[int, tuple[NodeId, ...]]]
    rack_of: Mapping[NodeId, tuple[SuperPodId, int]]
    #: Why a node is in no rack.
    node_problems: Mapping[NodeId, Reason]


def build_racks(
    superpods: SuperPods, rack_id_of: Callable[[NodeId], int | None], name_of: Callable[[NodeId], str] = str
) -> Racks:
    """Group the nodes of SuperPoDs by the rack id that each reports."""
    nodes_of: dict[SuperPodId, dict[int, tuple[NodeId, ...]]] = {}
    rack_of: dict[NodeId, tuple[SuperPodId, int]] = {}
    problems: dict[NodeId, Reason] = dict(superpods.node_problems)
    for superpod, nodes in superpods.nodes_of.items():
        grouped: dict[int, list[NodeId]] = {}
        for node in sorted(nodes, key=lambda node: natural_key(name_of(node))):
            rack = rack_id_of(node)
            if rack is None:
                problems[node] = RACK_ID_MISSING(node=name_of(node))
            elif not 0 <= rack <= MAX_ID:
                problems[node] = RACK_ID_WRONG(node=name_of(node), rack=rack, largest=MAX_ID)
            else:
                grouped.setdefault(rack, []).append(node)
                rack_of[node] = (superpod, rack)
        if grouped:
            nodes_of[superpod] = {rack: tuple(grouped[rack]) for rack in sorted(grouped)}
    return Racks(MappingProxyType(nodes_of), MappingProxyType(rack_of), MappingProxyType(problems))
