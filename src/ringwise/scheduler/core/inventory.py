"""What the cluster offers."""

from __future__ import annotations

from ringwise.framework.amounts import Amounts, add, amounts_of
from ringwise.state.cluster import ClusterState
from ringwise.state.fleet import HOSTS
from ringwise.state.loads import NO_LOAD


def offered(state: ClusterState) -> Amounts:
    """What all ready nodes offer together, and on each node at least what is in use there.

    A chip that fails while a pod uses it, or a node that is removed with its pods, does not reduce
    the total: the queues' shares of the rest would otherwise be smaller than what is free.
    """
    total: Amounts = {}
    for number, node in enumerate(state.nodes):
        there: Amounts = {}
        if node is not None and node.ready:
            there = {"cpu": node.cpu_milli, "memory": node.memory, **dict(node.extended)}
        add(total, _at_least(there, _used(state, number)))
    for resource, fleet in state.fleets.items():
        if resource != HOSTS:
            counts = zip(fleet.allocatable, fleet.requested, strict=True)
            add(total, {resource: sum(max(0, count, used) for count, used in counts)})
    return total


def _used(state: ClusterState, number: int) -> Amounts:
    """What pods use on the node, without chips and without what is reserved."""
    shape = state.shape_of(number)
    if shape is not None and state.reserved_load(number) == NO_LOAD:
        return {"cpu": shape.cpu_used, "memory": shape.memory_used, **dict(shape.extended_used)}
    used: Amounts = {}
    for uid in state.pods_on[number]:
        cls = state.pods[uid].pod.cls
        add(used, {name: count for name, count in amounts_of(cls).items() if name != cls.resource})
    return used


def _at_least(there: Amounts, used: Amounts) -> Amounts:
    return {name: max(there.get(name, 0), used.get(name, 0)) for name in there | used}
