"""The loop of an embedded cluster: events to controller and scheduler, and their commands to the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from ringwise.embed.clock import SimulationClock, VirtualClock
from ringwise.embed.cluster import EmbeddedCluster
from ringwise.embed.objects import TableWatch
from ringwise.embed.records import events_of
from ringwise.grammar import counted
from ringwise.messages.accounting import AccountCommand
from ringwise.messages.commands import AskJob, Command
from ringwise.messages.events import Event, JobCommand, LeaderRecordRead
from ringwise.wellknown import (
    FAULT_NODE_KEY,
    FAULT_NODES_CONFIG_MAP,
    MINDX_DL,
    RECORD_CONFIG_MAPS,
    RESCHEDULE_REASON_CONFIG_MAP,
    RESCHEDULE_RECORDS_KEY,
    VOLCANO_SYSTEM,
)

#: Rounds of events and commands at one time. With more, scheduler and controller undo each other's work.
MAX_ROUNDS = 10_000


class Decider(Protocol):
    """The scheduler or the controller: events in, commands out, and the time of the next deadline."""

    def handle(self, events: Iterable[Event], now: int, /) -> list[Command]: ...

    def next_deadline(self) -> int | None: ...


class NotConvergingError(RuntimeError):
    """Scheduler and controller send commands without end, so the time cannot advance."""


class EmbeddedLoop:
    """Delivers events and executes commands until there are none."""

    def __init__(
        self, cluster: EmbeddedCluster, scheduler: Decider, controller: Decider, clock: SimulationClock
    ) -> None:
        self.cluster = cluster
        self.scheduler = scheduler
        self.controller = controller
        self.clock = clock
        #: Number of commands executed, by type; what is accounted for changes no object.
        self.command_counts: dict[str, int] = {}
        self._for_controller = cluster.watch()
        self._for_scheduler = cluster.watch()
        #: For the scheduler alone: what it wrote before it started, and commands that failed.
        self._for_scheduler_only: list[Event] = _written(cluster)
        self._injected: list[Event] = []
        #: Events of what is computed beside the scheduler once nothing else happens at a time.
        self.forked_queries: Callable[[int], Sequence[Event]] | None = None

    def inject(self, *events: Event) -> None:
        """Deliver events that do not come from objects: a new configuration, a user's command for a job."""
        self._injected += events

    def replace_controller(self, controller: Decider) -> None:
        """Continue with a new controller, as after a crash: it receives all objects, and nothing else."""
        self.controller = controller
        self._for_controller = self.cluster.watch()

    def replace_scheduler(self, scheduler: Decider) -> None:
        self.scheduler = scheduler
        self._for_scheduler = self.cluster.watch()
        self._for_scheduler_only = _written(self.cluster)

    def step(self) -> int:
        """Run until there are no commands at the current time. Returns the number of commands executed."""
        self.cluster.pass_time(max(self.clock.now(), self.cluster.now))
        total = 0
        for rounds in range(MAX_ROUNDS):
            # The first round calls both also without events: a deadline may have passed.
            injected, self._injected = self._injected, []
            executed = self._call(self.controller, self._for_controller, injected, always=not rounds)
            own, self._for_scheduler_only = self._for_scheduler_only, []
            extra = own + injected
            executed += self._call(self.scheduler, self._for_scheduler, extra, always=not rounds)
            total += executed
            if not executed and not self._injected and not self._for_scheduler_only and self._settled():
                events = () if self.forked_queries is None else self.forked_queries(self.cluster.now)
                self.inject(*events)
                if not events and self._settled():
                    return total
        raise NotConvergingError(
            f"no end after {MAX_ROUNDS} rounds and {counted(total, 'command')}: {self.command_counts}"
        )

    def _call(self, decider: Decider, watch: TableWatch, extra: list[Event], *, always: bool) -> int:
        events = events_of(watch.poll()) + extra
        if not events and not always:
            return 0
        commands = decider.handle(events, self.cluster.now)
        self._apply(commands)
        return len(commands)

    def _settled(self) -> bool:
        version = self.cluster.table.version
        return self._for_controller.version == version == self._for_scheduler.version

    def next_deadline(self) -> int | None:
        """The next deadline. One that has passed without effect is skipped."""
        now = self.cluster.now
        moments = (
            self.cluster.next_deadline(),
            self.scheduler.next_deadline(),
            self.controller.next_deadline(),
        )
        future = [moment for moment in moments if moment is not None and moment > now]
        return min(future, default=None)

    def run_until(self, moment: int) -> None:
        """Advance virtual time up to and including that moment."""
        clock = self._virtual()
        self.step()
        while (due := self.next_deadline()) is not None and due <= moment:
            clock.move_to(due)
            self.step()
        clock.move_to(max(moment, clock.now()))
        self.step()

    def _virtual(self) -> VirtualClock:
        if not isinstance(self.clock, VirtualClock):
            raise TypeError(
                "only virtual time can be advanced; with a real clock call step() at each deadline"
            )
        return self.clock

    def _apply(self, commands: Iterable[Command]) -> None:
        for command in commands:
            if not isinstance(command, AccountCommand):
                name = type(command).__name__
                self.command_counts[name] = self.command_counts.get(name, 0) + 1
            if isinstance(command, AskJob):
                self.inject(JobCommand(command.key, command.action, command.message))
            else:
                self._for_scheduler_only += self.cluster.apply(command)


def _written(cluster: EmbeddedCluster) -> list[Event]:
    """What the scheduler before it wrote."""
    # F1: the record of the scheduler before it.
    tables = cluster.published_data(VOLCANO_SYSTEM, RECORD_CONFIG_MAPS)
    records = cluster.published(MINDX_DL, RESCHEDULE_REASON_CONFIG_MAP, RESCHEDULE_RECORDS_KEY)
    nodes = cluster.published(VOLCANO_SYSTEM, FAULT_NODES_CONFIG_MAP, FAULT_NODE_KEY)
    written: list[Event] = [LeaderRecordRead(tables, records, nodes)] if tables or records or nodes else []
    return written if cluster.accounts is None else [*written, cluster.accounts.state()]
