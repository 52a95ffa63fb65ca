"""What a session is opened with, for a cycle and for a what-if question beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ringwise.framework.amounts import Amounts
from ringwise.framework.job import Job
from ringwise.framework.registry import Registry
from ringwise.framework.session import Session
from ringwise.framework.step_timer import StepTimer, untimed
from ringwise.scheduler.cache.component import Context, ContextUser
from ringwise.scheduler.cache.inventory import Inventory, offered


class SessionFactory(ContextUser):
    """Opens sessions on the live state."""

    def __init__(self, context: Context, inventory: Inventory, registry: Registry) -> None:
        super().__init__(context)
        self._inventory = inventory
        self.registry = registry

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
        if self._inventory.stale:
            capacity.clear()
            capacity.update(self._inventory.total())
        elif not capacity:
            # A what-if changed a node.
            capacity.update(offered(self._state))
        return capacity
