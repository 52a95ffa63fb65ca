"""The whole state as one comparable value: what changes nothing leaves it equal."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping

from ringwise.framework.usage import ResourceUsage
from ringwise.scheduler.view import SchedulerView
from ringwise.state.cluster import ClusterState
from ringwise.state.index import View
from ringwise.state.node_shapes import NodeShape


def state_of(view: SchedulerView) -> ClusterState:
    """The state behind the read-only view."""
    return view._state


def usage_of(view: SchedulerView) -> ResourceUsage:
    return view.usage


def fingerprint(state: ClusterState) -> tuple[object, ...]:
    """Everything a decision can depend on, comparable: equal fingerprints, equal state."""
    fleets = tuple(
        (
            resource,
            tuple(fleet.held),
            tuple(fleet.requested),
            tuple(fleet.reserved),
            tuple(fleet.free_mask),
            fleet.free_total,
            fleet.healthy_total,
            tuple(sorted((code, count) for code, count in fleet.closed_counts.items() if count)),
            tuple(sorted(fleet.extra_claims.items())),
            tuple(sorted((n, tuple(sorted(h.items()))) for n, h in fleet.unknown_holders.items())),
            tuple((key, tuple(sorted(_members(view)))) for key, view in sorted(fleet.views.items())),
        )
        for resource, fleet in sorted(state.fleets.items())
    )
    pods = tuple(sorted((uid, p.node, p.chips, p.assumed) for uid, p in state.pods.items()))
    shapes = [state.shape_of(number) for number in range(len(state.names))]
    loads = tuple(
        None if s is None else (s.node_class.number, s.cpu_used, s.memory_used, s.pods, s.extended_used)
        for s in shapes
    )
    return fleets, pods, loads


def _members(view: View) -> list[tuple[str, int, tuple[int, ...]]]:
    return [
        (repr(group.bucket.signature), group.shape.number, tuple(view.members(group)))
        for group in view.groups()
    ]


#: Left out: numbers that only grow, the table of shapes (shapes are looked up by what they are), and maps
#: that are computed from the nodes when they are needed. Boards and plugins never change.
_LEFT_OUT = frozenset(
    {
        "ClusterState.version",
        "ClusterState.shapes",
        "ClusterState.anti_affinity_changes",
        "ClusterState.placed_changes",
        "ClusterState.node_changes",
        "ClusterState._chip_memories",
        "NodeLabels._by_key",
        "TopologyCache._switches",
        "TopologyCache._indexed",
        "TopologyCache._superpods",
        "TopologyCache._racks",
        "TopologyCache.catalog",
        "TopologyCache.node_sets",
        "TopologyCache.anti_affinity_index",
        "TopologyCache.domain_loads",
        "TopologyCache.filled_domains",
        "ResourceUsage._amounts",
        "Scheduler._registry",
        "SessionFactory.registry",
    }
)


def whole_state(root: object) -> object:
    """Everything that can be reached from an object, as nested tuples: values, and the order of entries.

    Of index views only the members count: stale heap entries and empty buckets are dropped in their time.
    """
    seen: dict[int, int] = {}

    def walk(value: object) -> object:
        if value is None or isinstance(value, str | int | float | bool | bytes | enum.Enum | type):
            return value
        if isinstance(value, NodeShape):
            return ("shape", value.number)
        if id(value) in seen:
            return ("seen", seen[id(value)])
        if type(value).__module__.startswith("ringwise.placement.rules"):
            # A rule keeps the scores it computed; they follow from their arguments.
            return ("rule", type(value).__name__)
        if isinstance(value, View):
            return ("view", tuple(sorted(_members(value))))
        if callable(value) or isinstance(value, Iterator):
            return ("code", type(value).__name__)
        if isinstance(value, tuple | list):
            return (type(value).__name__, *(walk(item) for item in value))
        if isinstance(value, set | frozenset):
            return ("set", *sorted(repr(item) for item in value))
        seen[id(value)] = len(seen)
        if isinstance(value, Mapping):
            return ("map", *((walk(key), walk(item)) for key, item in value.items()))
        names = [name for base in type(value).__mro__ for name in getattr(base, "__slots__", ())]
        names += list(getattr(value, "__dict__", ()))
        kind = type(value).__name__
        return (
            kind,
            *(
                (name, walk(getattr(value, name, None)))
                for name in names
                if f"{kind}.{name}" not in _LEFT_OUT and not name.startswith("__")
            ),
        )

    return walk(root)


def difference(one: object, two: object, path: str = "") -> str:
    """Where two results of `whole_state` differ first."""
    if one == two:
        return ""
    if isinstance(one, tuple) and isinstance(two, tuple) and len(one) == len(two):
        head = one[0] if one and isinstance(one[0], str) else ""
        for position, (a, b) in enumerate(zip(one, two, strict=True)):
            if a != b:
                return difference(a, b, f"{path}/{head}[{position}]")
    return f"{path}: {str(one)[:300]} is now {str(two)[:300]}"
