"""The whole state as one comparable value: what changes nothing leaves it equal."""

from __future__ import annotations

from ringwise.framework.usage import ResourceUsage
from ringwise.scheduler.view import SchedulerView
from ringwise.state.cluster import ClusterState
from ringwise.state.index import View


def state_of(view: SchedulerView) -> ClusterState:
    """The state behind the read-only view."""
    return view._state


def usage_of(view: SchedulerView) -> ResourceUsage:
    return view._usage


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
