"""Physical SuperPoDs: which nodes share one fast fabric (rules P1, P6).

The value is built once from the ids of the nodes and never changes. A missing or
invalid id is kept as a reason: such a node belongs to no SuperPoD, because with a
guessed one a block could cross SuperPoDs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.topology.natural import natural_key
from ringwise.topology.numbers import whole_number
from ringwise.topology.reasons import (
    SUPERPOD_ID_MISSING,
    SUPERPOD_ID_WRONG,
    SUPERPOD_NONE,
    SUPERPOD_OVERSIZE,
)

#: Numbers, as clusters have them; names are allowed for drawings and tests.
SuperPodId: TypeAlias = int | str
NodeId: TypeAlias = int | str
OrderKey: TypeAlias = tuple[int, int, tuple[tuple[tuple[int, int, str], ...], str]]

#: Ids are 32-bit numbers; the driver's 0xffffffff means "none" and is not an id.
MAX_ID = 2**31 - 1
#: What device plugins report of a server without a SuperPoD: the driver says so, or knows no SuperPoDs.
NO_SUPERPOD = (-1, -2)


def order_key(identity: int | str) -> OrderKey:
    """Natural order of SuperPoD and node ids: numbers by value, then names (`sp-2` before `sp-10`)."""
    if isinstance(identity, int):
        return (0, identity, ((), ""))
    return (1, 0, natural_key(identity))


@dataclass(frozen=True, slots=True)
class SuperPods:
    """The SuperPoDs of a cluster, by id, each with its nodes by server index, then natural order."""

    nodes_of: Mapping[SuperPodId, tuple[NodeId, ...]]
    superpod_of: Mapping[NodeId, SuperPodId]
    #: Why a node belongs to no SuperPoD.
    node_problems: Mapping[NodeId, Reason]
    #: What is wrong with a whole SuperPoD. It keeps its nodes; jobs that would use it show the reason.
    superpod_problems: Mapping[SuperPodId, Reason]

    @property
    def problems(self) -> tuple[Reason, ...]:
        return (*self.node_problems.values(), *self.superpod_problems.values())


def build_superpods(
    members: Iterable[tuple[NodeId, int | str | None, int | None]],
    super_pod_size: int,
    name_of: Callable[[NodeId], str] = str,
) -> SuperPods:
    """Rule P6: group (node, SuperPoD id or None, server index or None) into SuperPoDs.

    Nodes may be dense numbers; `name_of` then gives the name that orders and names them.
    """
    grouped: dict[int, list[tuple[tuple[int, int], NodeId]]] = {}
    superpod_of: dict[NodeId, SuperPodId] = {}
    node_problems: dict[NodeId, Reason] = {}
    seen: set[NodeId] = set()
    for node, reported, server_index in sorted(members, key=lambda member: natural_key(name_of(member[0]))):
        if node in seen:
            raise ValueError(f"node {name_of(node)} is listed twice")
        seen.add(node)
        if reported is None:
            node_problems[node] = SUPERPOD_ID_MISSING(node=name_of(node))
            continue
        superpod = _id_of(reported)
        if superpod is None and str(reported) in map(str, NO_SUPERPOD):
            node_problems[node] = SUPERPOD_NONE(node=name_of(node), superpod=reported)
            continue
        if superpod is None:
            node_problems[node] = SUPERPOD_ID_WRONG(node=name_of(node), superpod=reported, largest=MAX_ID)
            continue
        superpod_of[node] = superpod
        grouped.setdefault(superpod, []).append((_index_key(server_index), node))
    nodes_of: dict[SuperPodId, tuple[NodeId, ...]] = {}
    superpod_problems: dict[SuperPodId, Reason] = {}
    for superpod in sorted(grouped):
        # The names are in order already, and sorting by index alone keeps them so.
        placed = sorted(grouped[superpod], key=lambda entry: entry[0])
        nodes_of[superpod] = tuple(node for _, node in placed)
        if len(placed) > super_pod_size:
            superpod_problems[superpod] = SUPERPOD_OVERSIZE(
                superpod=superpod, nodes=len(placed), what="node", super_pod_size=super_pod_size
            )
    return SuperPods(
        MappingProxyType(nodes_of),
        MappingProxyType(superpod_of),
        MappingProxyType(node_problems),
        MappingProxyType(superpod_problems),
    )


def _id_of(reported: int | str) -> int | None:
    number = whole_number(reported) if isinstance(reported, str) else reported
    return number if number is not None and 0 <= number <= MAX_ID else None


def _index_key(server_index: int | None) -> tuple[int, int]:
    """Known indexes first; nodes without one come after them."""
    return (1, 0) if server_index is None or server_index < 0 else (0, server_index)
