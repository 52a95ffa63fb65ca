"""What a session is opened with, for a cycle and for a what-if question, and what the cluster offers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ringwise.framework.amounts import Amounts, add, amounts_of
from ringwise.framework.job import Job
from ringwise.framework.registry import Registry
from ringwise.framework.session import Session
from ringwise.framework.step_timer import StepTimer, untimed
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on
from ringwise.state.allocation_modes import NO_CHIPS, UNITS_OF_A_CHIP
from ringwise.state.cluster import ClusterState
from ringwise.state.fleet import HOSTS
from ringwise.state.loads import NO_LOAD
from ringwise.state.model import SOFT
from ringwise.topology.policy import is_chip_resource


class SessionFactory(Component):
    """Opens sessions on the live state.

    What all nodes offer together is kept while nodes change: a report about one costs nothing for the others.
    """

    def __init__(self, context: Context, registry: Registry) -> None:
        super().__init__(context)
        self.registry = registry
        self._by_node: dict[int, Amounts] = {}
        self._total: Amounts = {}
        self._changed: set[int] = set()
        #: Nodes on which more is in use than they offer: there the pods count.
        self._exceeded: set[int] = set()
        self._all = True

    def open(
        self,
        now: int,
        pending: Iterable[Job] = (),
        observer: Callable[[Session, Job], None] | None = None,
        timer: StepTimer = untimed,
    ) -> Session:
        self.capacity()
        session = Session(
            state=self._state,
            reservations=self._reservations,
            jobs=self._book.jobs,
            queues=self._book.queues,
            quotas=self._book.quotas,
            usage=self._usage,
            topology=self._topology,
            configuration=self._configuration.current,
            now=now,
            pending=pending,
            ours=self._book.is_ours,
            observer=observer,
            heads=self._book.heads,
            limits=self._book.limits,
            timer=timer,
        )
        return self.registry.open_plugins(session)

    @property
    def missing_chip_plugins(self) -> tuple[str, ...]:
        """The plugins that could give chips, where the configuration has none of them."""
        return self.registry.missing_chip_plugins(self._configuration.current)

    def capacity(self) -> Amounts:
        """What all ready nodes offer together."""
        capacity = self._usage.capacity
        if self._all or self._changed:
            capacity.clear()
            capacity.update(self._current_total())
        elif not capacity:
            # A what-if changed a node.
            capacity.update(offered(self._state))
        return capacity

    @on(ie.NodeChanged)
    def _node_changed(self, event: ie.NodeChanged, now: int) -> None:
        number = self._state.node_id.get(event.name)
        if number is not None:
            self._changed.add(number)

    @on(ie.PodChanged)
    def _pod_changed(self, event: ie.PodChanged, now: int) -> None:
        self._changed |= self._exceeded & {event.before, event.node}

    @on(ie.PodRemoved)
    def _pod_removed(self, event: ie.PodRemoved, now: int) -> None:
        self._changed |= self._exceeded & {event.number}

    @on(ie.StateRebuilt)
    def _state_rebuilt(self, event: ie.StateRebuilt, now: int) -> None:
        self._all = True

    def _current_total(self) -> Amounts:
        if self._all:
            self._all = False
            self._by_node.clear()
            self._total.clear()
            self._exceeded.clear()
            self._changed.update(range(len(self._state.nodes)))
        for number in self._changed:
            amounts, exceeded = _offered_by(self._state, number)
            before = self._by_node.get(number, {})
            if amounts != before:
                add(self._total, before, -1)
                add(self._total, amounts)
                self._by_node[number] = amounts
            (self._exceeded.add if exceeded else self._exceeded.discard)(number)
        self._changed.clear()
        return self._total


def offered(state: ClusterState) -> Amounts:
    """What all ready nodes offer together, and on each node at least what is in use there.

    A chip that fails while a pod uses it, or a node that is removed with its pods, does not reduce
    the total: the queues' shares of the rest would otherwise be smaller than what is free.
    """
    total: Amounts = {}
    for number in range(len(state.nodes)):
        add(total, _offered_by(state, number)[0])
    return total


def _offered_by(state: ClusterState, number: int) -> tuple[Amounts, bool]:
    """What one node adds, and whether more than it offers is in use there."""
    node = state.nodes[number]
    there: Amounts = {}
    if node is not None and node.ready:
        there = {"cpu": node.cpu_milli, "memory": node.memory, **dict(node.extended)}
    used = _used(state, number)
    exceeded = any(count > there.get(name, 0) for name, count in used.items())
    total = {name: max(there.get(name, 0), used.get(name, 0)) for name in there | used}
    for resource, fleet in state.fleets.items():
        if resource != HOSTS:
            count, requested = fleet.allocatable[number], fleet.requested[number]
            mode = state.modes.get(number, NO_CHIPS)
            if mode.mode == SOFT and is_chip_resource(resource):
                # Kubernetes counts each chip as 100 shares (V18).
                count, requested = count // UNITS_OF_A_CHIP, requested // UNITS_OF_A_CHIP
            elif mode.closed is not None and is_chip_resource(resource):
                count = 0  # Shares without limits are not chips.
            exceeded = exceeded or requested > count
            total[resource] = max(0, count, requested)
    return {name: amount for name, amount in total.items() if amount}, exceeded


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
