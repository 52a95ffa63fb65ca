"""How the server reads a scheduler that runs on a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from ringwise.scheduler.view import SchedulerView
from ringwise.state.changes import Changes

Answer = TypeVar("Answer")


class WatchedScheduler(Protocol):
    """A scheduler as the dashboard needs it."""

    @property
    def view(self) -> SchedulerView: ...

    def record_changes(self, changes: Changes | None) -> None: ...


class NotLeadingError(Exception):
    """This replica decides nothing: another one has the answer."""

    def __init__(self, leader: str = "", address: str = "") -> None:
        who = f"{leader} leads" if leader else "no replica leads yet"
        super().__init__(f"{who}; ask it for the state of the cluster")
        #: Its identity, and the address of its dashboard; empty where they are not known.
        self.leader = leader
        self.address = address


class Core(Protocol):
    """Runs work on the thread that the scheduler belongs to, between two of its turns."""

    async def call(self, work: Callable[[WatchedScheduler, int], Answer]) -> Answer:
        """`work` gets the scheduler and the time in nanoseconds. Raises NotLeadingError."""

    async def copy(self, fork: Callable[[WatchedScheduler, int], Answer]) -> Answer:
        """The same for work that copies the process. Also a replica that waits for the lease does it: it
        knows the objects. Raises NotLeadingError where they are not known yet."""
