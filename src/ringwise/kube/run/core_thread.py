"""The core's thread: the one writer of the state. Events go in from the event loop, commands come back.

reflectors ──put──> inbox ──> parts (scheduler, controller) ──deliver──> executor
  (event loop)               (this thread)                      (event loop)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import structlog

from ringwise.controller.machine import Controller
from ringwise.kube.observer import Nobody, Observer
from ringwise.kubeclient.clock import Clock
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Command
from ringwise.scheduler.core.machine import Scheduler
from ringwise.state.fleet import HOSTS

_LOG = structlog.get_logger("ringwise.core")

#: Seconds between two counts of what waits and what is free.
COUNT_EVERY = 5.0
#: A moment that passed in vain is not waited for again before this many seconds.
_AGAIN = 1.0
_SECOND = 1_000_000_000
#: So many bindings leave together while a long cycle is still going on.
_SLICE = 64
#: Seconds for which one slice, or one batch of news, waits at most for the event loop to have time.
_PATIENCE = 0.05


Deliver = Callable[[list[Command]], object]


class Part(Protocol):
    """A decider: told everything, and asked for decisions only while we lead."""

    def absorb(self, events: Sequence[ev.Event], now: int) -> None:
        """Take in facts without deciding anything."""

    def decide(self, events: Sequence[ev.Event], now: int) -> list[Command]: ...

    def next_deadline(self) -> int | None: ...

    def count(self, observer: Observer) -> None:
        """Tell what waits and what is free."""

    def let_out(self, deliver: Deliver, give_way: Callable[[], object]) -> None:
        """Commands of a decision that takes long may leave through `deliver` before it is over.

        And in between, others are given way.
        """

    def prepare(self, now: int) -> None:
        """Everything is known: do what can be done before the first decision."""


class SchedulerPart:
    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self._deliver: Deliver = lambda commands: None
        self._give_way: Callable[[], object] = lambda: None
        #: How many bindings of the present cycle are on their way, and whose.
        self._out = 0
        self._gone_ahead: set[str] = set()

    def let_out(self, deliver: Deliver, give_way: Callable[[], object]) -> None:
        self._deliver = deliver
        self._give_way = give_way
        self.scheduler.early_bindings = self._bound_early

    def _bound_early(self, binds: Sequence[Bind]) -> None:
        if len(binds) < self._out:
            # Another cycle of the same decision has begun.
            self._out = 0
        if len(binds) - self._out >= _SLICE:
            ready = list(binds[self._out :])
            self._out = len(binds)
            self._gone_ahead.update(bind.uid for bind in ready)
            self._deliver([*ready])
        self._give_way()

    def absorb(self, events: Sequence[ev.Event], now: int) -> None:
        self.scheduler.handle(_for_scheduler(events), now, ev.Decide.NOTHING)

    def prepare(self, now: int) -> None:
        self.scheduler.prepare(now)

    def decide(self, events: Sequence[ev.Event], now: int) -> list[Command]:
        self._out = 0
        self._gone_ahead.clear()
        commands = self.scheduler.handle(_for_scheduler(events), now)
        if not self._gone_ahead:
            return commands
        return [c for c in commands if not (isinstance(c, Bind) and c.uid in self._gone_ahead)]

    def next_deadline(self) -> int | None:
        return self.scheduler.next_deadline()

    def count(self, observer: Observer) -> None:
        view = self.scheduler.view
        waiting: dict[str, int] = {}
        for job in view.jobs.values():
            if job.reason is not None and job.waiting_since is not None:
                waiting[job.reason.code] = waiting.get(job.reason.code, 0) + 1
        observer.pending(waiting)
        for resource, fleet in view.cluster.fleets.items():
            if resource == HOSTS:
                continue
            listed = [
                mask for mask, count in zip(fleet.listed, fleet.allocatable, strict=False) if count >= 0
            ]
            free = sum(mask.bit_count() for mask in fleet.free_mask)
            held = sum(mask.bit_count() for mask in fleet.held)
            total = sum(mask.bit_count() for mask in listed)
            observer.chips(resource, free, held, max(0, total - free - held))


class ControllerPart:
    """The controller wants all objects in its first call, so they wait while another replica leads."""

    def __init__(self, controller: Controller | None = None) -> None:
        self._controller = controller or Controller()
        self._waiting: dict[tuple[str, str], ev.Event] | None = {}

    def absorb(self, events: Sequence[ev.Event], now: int) -> None:
        if self._waiting is None:
            raise RuntimeError("a controller that has decided cannot wait again")
        for event in events:
            place = _place_of(event)
            if place is not None:
                kind, key, gone = place
                if gone:
                    self._waiting.pop((kind, key), None)
                else:
                    self._waiting[kind, key] = event

    def decide(self, events: Sequence[ev.Event], now: int) -> list[Command]:
        if self._waiting is not None:
            self.absorb([event for event in events if not isinstance(event, ev.JobCommand)], now)
            first = list(self._waiting.values())
            self._waiting = None
            events = [*first, *(event for event in events if isinstance(event, ev.JobCommand))]
        return self._controller.handle(events, now)

    def next_deadline(self) -> int | None:
        return self._controller.next_deadline()

    def count(self, observer: Observer) -> None:
        """The controller counts in the status of each job."""

    def let_out(self, deliver: Deliver, give_way: Callable[[], object]) -> None:
        """The order of a controller's commands matters: they leave together."""

    def prepare(self, now: int) -> None:
        """Its first call brings everything at once."""


def _for_scheduler(events: Iterable[ev.Event]) -> list[ev.Event]:
    return [event for event in events if not isinstance(event, ev.JobCommand)]


def _place_of(event: ev.Event) -> tuple[str, str, bool] | None:
    """What an event of interest to the controller is about, and whether it is gone."""
    match event:
        case ev.PodSeen():
            return "pod", event.pod.uid, False
        case ev.PodGone():
            return "pod", event.uid, True
        case ev.PodGroupSeen():
            return "group", event.group.key, False
        case ev.PodGroupGone():
            return "group", event.key, True
        case ev.VcJobSeen():
            return "job", event.job.key, False
        case ev.VcJobGone():
            return "job", event.key, True
        case ev.PriorityClassSeen():
            return "priority", event.priority_class.name, False
        case ev.PriorityClassGone():
            return "priority", event.name, True
    return None


class Core:
    """Runs the parts in a thread of its own. `deliver` and `crashed` are called from that thread."""

    def __init__(
        self,
        parts: Sequence[Part],
        deliver: Callable[[list[Command]], object],
        crashed: Callable[[BaseException], object],
        *,
        clock: Clock,
        observer: Observer | None = None,
        loop_is_idle: threading.Event,
    ) -> None:
        self._parts = parts
        self._deliver = deliver
        for part in parts:
            part.let_out(self._hand_over, self._give_way)
        self._crashed = crashed
        self._clock = clock
        self._observer: Observer = observer or Nobody()
        self._bell = threading.Condition()
        self._inbox: list[ev.Event] = []
        self._deciding = False
        self._awake = False
        self._preparing = False
        self._prepared = threading.Event()
        self._stopping = threading.Event()
        self._loop_is_idle = loop_is_idle
        #: How much longer it gives way, and for how long it did in this turn, in seconds.
        self._patience = _PATIENCE
        self._waited = 0.0
        self._last_wake = 0
        self._counted = float("-inf")
        self._thread = threading.Thread(target=self._run, name="core", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, events: Sequence[ev.Event]) -> None:
        with self._bell:
            self._inbox.extend(events)
            self._bell.notify()

    def prepare(self) -> None:
        """Everything there is has been told. Returns when the first decision can be made without delay."""
        with self._bell:
            self._preparing = self._awake = True
            self._bell.notify()
        self._prepared.wait()

    def decide(self) -> None:
        """From now on decisions are wanted; everything known so far is decided upon at once."""
        with self._bell:
            self._deciding = self._awake = True
            self._bell.notify()

    def stop(self) -> None:
        """Ends after the batch of now; what came later is not looked at."""
        with self._bell:
            self._stopping.set()
            self._bell.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        except BaseException as defect:
            _LOG.exception("the core failed")
            self._crashed(defect)
        finally:
            # Nobody waits for a core that has ended.
            self._prepared.set()

    def _turn(self) -> bool:
        with self._bell:
            if not self._inbox and not self._awake and not self._stopping.is_set():
                self._bell.wait(self._pause())
        if self._stopping.is_set():
            return False
        self._patience = _PATIENCE
        # More news gather meanwhile.
        self._give_way()
        with self._bell:
            events, self._inbox = self._inbox, []
            deciding, self._awake = self._deciding, False
            preparing, self._preparing = self._preparing, False
        started = time.perf_counter()
        self._waited = 0.0
        now = self._clock.now()
        self._last_wake = now
        if not deciding:
            for part in self._parts:
                part.absorb(events, now)
                if preparing:
                    part.prepare(now)
            if preparing:
                self._prepared.set()
            return True
        commands: list[Command] = []
        for part in self._parts:
            commands += part.decide(events, now)
        if commands:
            self._hand_over(commands)
        self._observer.cycle(time.perf_counter() - started - self._waited, len(events), len(commands))
        moment = self._clock.monotonic()
        if moment - self._counted >= COUNT_EVERY:
            self._counted = moment
            for part in self._parts:
                part.count(self._observer)
        return True

    def _hand_over(self, commands: list[Command]) -> None:
        self._deliver(commands)
        self._patience = _PATIENCE

    def _give_way(self) -> None:
        """Let the event loop do what it has to do: to send what was decided comes first.

        While it is busy it could not send what is decided now.
        """
        if self._loop_is_idle.is_set() or self._patience <= 0 or self._stopping.is_set():
            return
        began = time.perf_counter()
        self._loop_is_idle.wait(self._patience)
        waited = time.perf_counter() - began
        self._patience -= waited
        self._waited += waited

    def _pause(self) -> float | None:
        """Seconds until time alone changes something; None waits for events only."""
        if not self._deciding:
            return None
        due = [moment for part in self._parts if (moment := part.next_deadline()) is not None]
        if not due:
            return COUNT_EVERY
        now = self._clock.now()
        pause = (min(due) - now) / _SECOND
        if min(due) <= self._last_wake:
            pause = _AGAIN
        return min(max(pause, 0.0), COUNT_EVERY)
