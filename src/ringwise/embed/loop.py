"""The lab: cluster, controller and scheduler on one table, turned by hand or by a clock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ringwise.embed.clock import Clock, VirtualClock
from ringwise.embed.cluster import EmbeddedCluster
from ringwise.embed.happenings import events_of
from ringwise.embed.objects import Watch
from ringwise.messages.commands import Command
from ringwise.messages.events import Event

#: Rounds of events and commands without time passing. More means that two parts never agree.
MOST_ROUNDS = 10_000


class Decider(Protocol):
    """The scheduler or the controller: events in, commands out, and when time alone changes something."""

    def handle(self, events: Iterable[Event], now: int, /) -> list[Command]: ...

    def next_deadline(self) -> int | None: ...


class RestlessError(RuntimeError):
    """The parts of the lab keep answering each other and time cannot go on."""


class Lab:
    """Delivers what happened, carries out what is wanted, until nobody wants anything more."""

    def __init__(
        self, cluster: EmbeddedCluster, scheduler: Decider, controller: Decider, clock: Clock
    ) -> None:
        self.cluster = cluster
        self.scheduler = scheduler
        self.controller = controller
        self.clock = clock
        #: Everything that was wanted, counted by the kind of command.
        self.done: dict[str, int] = {}
        self._for_controller = cluster.watch()
        self._for_scheduler = cluster.watch()
        self._failures: list[Event] = []
        self._wishes: list[Event] = []

    def tell(self, *events: Event) -> None:
        """Deliver events that are no objects: a new configuration, a person's wish for a job."""
        self._wishes += events

    def replace_controller(self, controller: Decider) -> None:
        """Continue with a new controller, as after a crash: it is told every object, and no more."""
        self.controller = controller
        self._for_controller = self.cluster.watch()

    def replace_scheduler(self, scheduler: Decider) -> None:
        self.scheduler = scheduler
        self._for_scheduler = self.cluster.watch()
        self._failures.clear()

    def step(self) -> int:
        """Everything that follows from now, until quiet. Returns how many commands were carried out."""
        self.cluster.pass_time(max(self.clock.now(), self.cluster.now))
        total = 0
        for rounds in range(MOST_ROUNDS):
            # The first round goes to everybody even without events: their time may have come.
            wishes, self._wishes = self._wishes, []
            carried_out = self._turn(self.controller, self._for_controller, wishes, always=not rounds)
            failures, self._failures = self._failures, []
            extra = failures + wishes
            carried_out += self._turn(self.scheduler, self._for_scheduler, extra, always=not rounds)
            total += carried_out
            if not carried_out and not self._wishes and not self._failures and self._settled():
                return total
        raise RestlessError(f"no rest after {MOST_ROUNDS} rounds and {total} commands: {self.done}")

    def _turn(self, decider: Decider, watch: Watch, extra: list[Event], *, always: bool) -> int:
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
        """When something happens by itself. A moment that has passed in vain is skipped."""
        now = self.cluster.now
        moments = (
            self.cluster.next_deadline(),
            self.scheduler.next_deadline(),
            self.controller.next_deadline(),
        )
        coming = [moment for moment in moments if moment is not None and moment > now]
        return min(coming, default=None)

    def run_until(self, moment: int) -> None:
        """Live through virtual time up to and including that moment."""
        clock = self._virtual()
        self.step()
        while (due := self.next_deadline()) is not None and due <= moment:
            clock.move_to(due)
            self.step()
        clock.move_to(max(moment, clock.now()))
        self.step()

    def run_until_quiet(self, limit: int) -> bool:
        """Live on until nothing is left to happen; False when that is not before the limit."""
        clock = self._virtual()
        self.step()
        while (due := self.next_deadline()) is not None:
            if due > limit:
                return False
            clock.move_to(due)
            self.step()
        return True

    def _virtual(self) -> VirtualClock:
        if not isinstance(self.clock, VirtualClock):
            raise TypeError(
                "only virtual time can be run through; with a real clock call step() when it is time"
            )
        return self.clock

    def _apply(self, commands: Iterable[Command]) -> None:
        for command in commands:
            name = type(command).__name__
            self.done[name] = self.done.get(name, 0) + 1
            self._failures += self.cluster.apply(command)
