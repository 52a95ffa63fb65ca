"""What a session is opened with, for a cycle and for a what-if question beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ringwise.framework.amounts import Amounts
from ringwise.framework.configuration import Configuration, Settings
from ringwise.framework.job import Job
from ringwise.framework.registry import Registry
from ringwise.framework.session import Session
from ringwise.framework.topology_cache import TopologyCache
from ringwise.framework.usage import ResourceUsage
from ringwise.scheduler.cache.inventory import Inventory, offered
from ringwise.scheduler.cache.job_book import JobBook
from ringwise.state.cluster import ClusterState
from ringwise.state.reservations import Reservations


class ActiveConfiguration:
    """The configuration in force. All parts of the scheduler share this object, so a change reaches all."""

    __slots__ = ("current",)

    def __init__(self, configuration: Configuration) -> None:
        self.current = configuration

    @property
    def settings(self) -> Settings:
        return self.current.settings


class SessionFactory:
    """Opens sessions on the live state."""

    def __init__(
        self,
        *,
        state: ClusterState,
        book: JobBook,
        usage: ResourceUsage,
        inventory: Inventory,
        reservations: Reservations,
        topology: TopologyCache,
        configuration: ActiveConfiguration,
        registry: Registry,
    ) -> None:
        self._state = state
        self._book = book
        self._usage = usage
        self._inventory = inventory
        self._reservations = reservations
        self._topology = topology
        self._configuration = configuration
        self.registry = registry

    def open(
        self,
        now: int,
        pending: Iterable[Job] = (),
        observer: Callable[[Session, Job], None] | None = None,
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
        )
        return self.registry.open_plugins(session)

    @property
    def missing_chip_plugins(self) -> tuple[str, ...]:
        """The plugins that could give chips, where the configuration has none of them."""
        return self.registry.missing_chip_plugins(self._configuration.current)

    def capacity(self) -> Amounts:
        """What all ready nodes offer together."""
        capacity = self._usage.capacity
        if self._inventory.stale:
            capacity.clear()
            capacity.update(self._inventory.total())
        elif not capacity:
            # A what-if changed a node.
            capacity.update(offered(self._state))
        return capacity
