"""The core thread: the only writer of the state. It takes events from the event loop and returns commands.

reflectors ──put──> inbox ──> scheduler, controller ──────────deliver──> executor
  (event loop)               (this thread)                      (event loop)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from ringwise.controller.machine import Controller
from ringwise.durations import SECOND, earliest
from ringwise.kube.run.volcano_counts import VolcanoCounts
from ringwise.kubeclient.clock import Clock, SteadyTime
from ringwise.log import Logger
from ringwise.manifests.kinds import Watcher, deletion_of, watched_by
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Command, CreateGroup, SetGroupStatus
from ringwise.metrics.prometheus import Metrics
from ringwise.metrics.volcano import VolcanoMetrics
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.defragment.movable import chips_of_heads
from ringwise.scheduler.node_states import before_drain_counts, chip_counts, nodes_with_stale_reports

_LOG = Logger()

#: Seconds between two updates of the gauges.
COUNT_INTERVAL = 5.0
#: Seconds until a deadline that has passed without effect is handled again.
_PAST_DEADLINE_PAUSE = 1.0
#: Bindings that are sent together during a long cycle.
_EARLY_BATCH = 64
#: Seconds for which a batch of bindings, or of events, waits at most for the event loop to become idle.
_MAX_LOOP_WAIT = 0.05
#: After a turn that neither binds nor admits, the thread rests for this many times as long, at most so many
#: seconds, and collects events: a gang whose pods are being created is not looked at with every pod.
_REST = 8
_MAX_REST = 0.1
#: What users ask for with Command objects.
_COMMANDS = (ev.JobCommand, ev.QueueCommand)
#: Of objects; and all that the scheduler does not need.
_FOR_CONTROLLER = watched_by(Watcher.CONTROLLER) | watched_by(Watcher.DISCOVERY)
_FOR_CONTROLLER_ALONE = {
    *_COMMANDS,
    ev.JobHeldUp,
    *(_FOR_CONTROLLER - watched_by(Watcher.SCHEDULER)),
}

Deliver = Callable[[list[Command]], object]
Answer = TypeVar("Answer")


class CoreStoppedError(Exception):
    """The thread has ended: it answers no question."""


class _Question:
    """Work for the core thread that changes nothing, and where its result goes."""

    def __init__(self, work: Callable[[int], Any], future: Future[Any]) -> None:
        self._work = work
        self._future = future

    def answer(self, now: int) -> None:
        if self._future.set_running_or_notify_cancel():
            try:
                self._future.set_result(self._work(now))
            except Exception as error:
                # It is the caller's to handle: the core has nothing to do with it.
                self._future.set_exception(error)

    def drop(self) -> None:
        if self._future.set_running_or_notify_cancel():
            self._future.set_exception(CoreStoppedError("the core has stopped"))


class MachineAdapter(Protocol):
    """The scheduler or the controller in the core thread. It decides only while this replica leads."""

    def absorb(self, events: Sequence[ev.Event], now: int) -> None:
        """Update the state without a decision."""

    def decide(self, events: Sequence[ev.Event], now: int) -> list[Command]: ...

    def next_deadline(self) -> int | None: ...

    def count(self, observer: Metrics) -> None:
        """Report gauges: pending jobs and chips."""

    def send_early(self, deliver: Deliver, yield_to_loop: Callable[[], object]) -> None:
        """Send commands of a long decision through `deliver` before it ends, and yield to the event loop."""

    def report_progress(self, progress: Callable[[], None]) -> None:
        """Call `progress` with every event and every job: a long decision is not a hung one."""

    def prepare(self, now: int) -> None:
        """All objects are known: do what can be done before the first decision."""


class SchedulerAdapter:
    def __init__(self, scheduler: Scheduler, volcano: VolcanoMetrics | None = None) -> None:
        self.scheduler = scheduler
        self._volcano = None if volcano is None else VolcanoCounts(scheduler, volcano)
        self._deliver: Deliver = lambda commands: None
        self._yield_to_loop: Callable[[], object] = lambda: None
        #: Entries that did not fit when it was counted last.
        self._left_out = 0
        #: Bindings of this turn that were not sent early yet, and the uids of pods whose bindings were.
        self._unsent: list[Bind] = []
        self._sent_early: set[str] = set()

    def send_early(self, deliver: Deliver, yield_to_loop: Callable[[], object]) -> None:
        self._deliver = deliver
        self._yield_to_loop = yield_to_loop
        self.scheduler.on_bindings(self._send_bindings)

    def report_progress(self, progress: Callable[[], None]) -> None:
        self.scheduler.on_progress(progress)
        self.scheduler.measure(time.thread_time_ns)

    def _send_bindings(self, binds: Sequence[Bind]) -> None:
        self._unsent += binds
        if len(self._unsent) >= _EARLY_BATCH:
            ready, self._unsent = self._unsent, []
            self._sent_early.update(bind.uid for bind in ready)
            self._deliver([*ready])
        self._yield_to_loop()

    def absorb(self, events: Sequence[ev.Event], now: int) -> None:
        self.scheduler.handle(_for_scheduler(events), now, ev.Decide.NOTHING)

    def prepare(self, now: int) -> None:
        self.scheduler.prepare(now)

    def decide(self, events: Sequence[ev.Event], now: int) -> list[Command]:
        self._unsent.clear()
        self._sent_early.clear()
        commands = self.scheduler.handle(_for_scheduler(events), now)
        if self._volcano is not None:
            self._volcano.decided(commands, now)
        if not self._sent_early:
            return commands
        return [c for c in commands if not (isinstance(c, Bind) and c.uid in self._sent_early)]

    def next_deadline(self) -> int | None:
        return earliest(self.scheduler.next_deadline(), self.scheduler.next_retry())

    def count(self, observer: Metrics) -> None:
        view = self.scheduler.view
        waiting: dict[str, int] = {}
        for job in view.jobs.values():
            if job.reason is not None and job.waiting_since is not None:
                waiting[job.reason.code] = waiting.get(job.reason.code, 0) + 1
        observer.pending(waiting)
        for reason, times in view.history.backoffs.items():
            observer.job_backoffs.set(times, reason)
        observer.throttled.reset()
        for name, used in view.history.throttled.items():
            observer.throttled.set(used / SECOND, name)
        observer.omitted_entries.set(view.rescheduling_left_out)
        if view.rescheduling_left_out and not self._left_out:
            _LOG.warning(
                "some jobs being rescheduled do not fit into their ConfigMap; the next leader misses them",
                entries=view.rescheduling_left_out,
            )
        self._left_out = view.rescheduling_left_out
        self._count_moves(observer)
        self._count_accounts(observer)
        observer.stale_reports.set(len(nodes_with_stale_reports(view.cluster, view.history.now)))
        drained = before_drain_counts(view.cluster, view.settings, view.history.now)
        chips_of_resource = chips_of_heads(view)
        by_resource = chip_counts(view.cluster, view.history.now)
        observer.resources(by_resource)
        for resource, counts in by_resource.items():
            observer.chips(resource, counts.pop("chips"), counts, drained.get(resource, 0))
            free = counts.get("free", 0)
            unusable = any(chips <= free for chips in chips_of_resource.get(resource, ()))
            observer.unusable_chips.set(free if unusable else 0, resource)
        if self._volcano is not None:
            self._volcano.count()

    def _count_accounts(self, observer: Metrics) -> None:
        history = self.scheduler.view.history
        for queue, total in history.accounts.items():
            now = total.until(history.now)
            observer.held.set(float(now.held / SECOND), queue)
            for cause, work in now.lost.items():
                observer.lost.set(float(work / SECOND), queue, cause)
            for cause, pods in now.evicted.items():
                observer.evicted.set(pods, queue, cause)
            observer.waited.set(now.waited / SECOND, queue)
            observer.starts.set(now.starts, queue)
            observer.failures.set(now.failures, queue)

    def _count_moves(self, observer: Metrics) -> None:
        counts = self.scheduler.view.history.moves.counts
        observer.moves.set(counts.accepted, "planned")
        observer.moves.set(counts.done, "done")
        observer.moves.set(counts.failed, "failed")
        observer.saved.set(counts.saved / SECOND)


class ControllerAdapter:
    """Collects all objects while another replica leads: the controller needs them in its first call."""

    def __init__(self, controller: Controller | None = None) -> None:
        self._controller = controller or Controller()
        #: Each by the event of its deletion, which says which object it is.
        self._waiting: dict[ev.Event, ev.Event] | None = {}

    def absorb(self, events: Sequence[ev.Event], now: int) -> None:
        if self._waiting is None:
            raise RuntimeError("a controller that makes decisions cannot collect objects again")
        for event in events:
            if type(event) not in _FOR_CONTROLLER:
                continue
            gone = deletion_of(event)
            if gone is event:
                self._waiting.pop(event, None)
            else:
                self._waiting[gone] = event

    def decide(self, events: Sequence[ev.Event], now: int) -> list[Command]:
        if self._waiting is not None:
            self.absorb([event for event in events if not isinstance(event, _COMMANDS)], now)
            first = list(self._waiting.values())
            self._waiting = None
            events = [*first, *(event for event in events if isinstance(event, _COMMANDS))]
        return self._controller.handle(events, now)

    def next_deadline(self) -> int | None:
        return self._controller.next_deadline()

    def count(self, observer: Metrics) -> None:
        """The controller has no gauges: it counts pods in the status of each job."""

    def send_early(self, deliver: Deliver, yield_to_loop: Callable[[], object]) -> None:
        """The order of the controller's commands matters, so they are sent together."""

    def report_progress(self, progress: Callable[[], None]) -> None:
        self._controller.on_progress = progress

    def prepare(self, now: int) -> None:
        """Its first decision processes all objects."""


def _for_scheduler(events: Iterable[ev.Event]) -> list[ev.Event]:
    return [event for event in events if type(event) not in _FOR_CONTROLLER_ALONE]


def _advances(command: Command) -> bool:
    """Return whether a job advances with it: it runs, or its controller has to create its pods."""
    match command:
        case Bind() | CreateGroup():
            return True
        case SetGroupStatus():
            return command.phase == "Inqueue"
    return False


class CoreThread:
    """Runs the machines in their own thread. `deliver` and `on_crash` are called from that thread."""

    def __init__(
        self,
        machines: Sequence[MachineAdapter],
        deliver: Callable[[list[Command]], object],
        on_crash: Callable[[BaseException], object],
        *,
        clock: Clock,
        observer: Metrics | None = None,
        loop_is_idle: threading.Event,
    ) -> None:
        self._machines = machines
        self._deliver = deliver
        for machine in machines:
            machine.send_early(self._hand_over, self._yield_to_loop)
            machine.report_progress(self._step)
        self._on_crash = on_crash
        self._clock = clock
        self._time = SteadyTime(clock)
        self._observer = observer or Metrics()
        self._wakeup = threading.Condition()
        self._inbox: list[ev.Event] = []
        self._questions: list[_Question] = []
        self._ended = False
        self._deciding = False
        self._awake = False
        #: Whether the thread works, and how many steps it has made.
        self._busy = False
        self._steps = 0
        self._preparing = False
        self._prepared = threading.Event()
        self._stopping = threading.Event()
        self._loop_is_idle = loop_is_idle
        #: Seconds it may still wait for the event loop, and those it has waited in this turn.
        self._loop_wait_left = _MAX_LOOP_WAIT
        self._waited = 0.0
        self._last_wake = 0
        #: Whether a job advances with this turn, and when the next turn may begin.
        self._advances = False
        self._rests_until = 0.0
        self._counted = float("-inf")
        self._thread = threading.Thread(target=self._run, name="core", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def progress(self) -> int | None:
        """A number that changes while the thread makes progress; None while it waits. For other threads."""
        return self._steps if self._busy else None

    def _step(self) -> None:
        self._steps += 1

    def put(self, events: Sequence[ev.Event]) -> None:
        with self._wakeup:
            self._inbox.extend(events)
            self._wakeup.notify()

    def ask(self, work: Callable[[int], Answer]) -> Future[Answer]:
        """Run work on this thread between two turns, with the time. It must not change what it reads."""
        future: Future[Answer] = Future()
        question = _Question(work, future)
        with self._wakeup:
            if not self._ended:
                self._questions.append(question)
                self._wakeup.notify()
                return future
        question.drop()
        return future

    def prepare(self) -> None:
        """All objects have been put. Returns when the first decision can be made without delay."""
        with self._wakeup:
            self._preparing = self._awake = True
            self._wakeup.notify()
        self._prepared.wait()

    def decide(self) -> None:
        """Start to decide, at once and on everything known so far."""
        with self._wakeup:
            self._deciding = self._awake = True
            self._wakeup.notify()

    def stop(self) -> None:
        """End after the current batch; later events are ignored."""
        with self._wakeup:
            self._stopping.set()
            self._wakeup.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        except BaseException as defect:
            _LOG.exception("the core thread failed")
            self._on_crash(defect)
        finally:
            self._busy = False
            # A caller of `prepare` must not wait for a thread that has ended.
            self._prepared.set()
            with self._wakeup:
                self._ended = True
                questions, self._questions = self._questions, []
            for question in questions:
                question.drop()

    def _turn(self) -> bool:
        with self._wakeup:
            if not (self._inbox or self._awake or self._questions or self._stopping.is_set()):
                self._busy = False
                self._wakeup.wait(self._pause())
            questions, self._questions = self._questions, []
            only_questions = bool(questions) and not self._inbox and not self._awake
        self._step()
        self._busy = True
        for question in questions:
            question.answer(self._time.now())
            self._step()
        if self._stopping.is_set():
            return False
        if only_questions:
            return True
        self._loop_wait_left = _MAX_LOOP_WAIT
        # More events are collected meanwhile.
        if self._rest_is_cut_short():
            return False
        self._yield_to_loop()
        with self._wakeup:
            events, self._inbox = self._inbox, []
            deciding, self._awake = self._deciding, False
            preparing, self._preparing = self._preparing, False
        started = time.perf_counter()
        self._waited = 0.0
        now = self._time.now()
        self._last_wake = now
        if not deciding:
            for machine in self._machines:
                machine.absorb(events, now)
                self._step()
                if preparing:
                    machine.prepare(now)
            if preparing:
                self._prepared.set()
            return True
        self._advances = False
        written = 0
        for machine in self._machines:
            # Pods are created while the scheduler decides on the rest.
            if commands := machine.decide(events, now):
                self._hand_over(commands)
                written += len(commands)
            self._step()
        ended = time.perf_counter()
        worked = ended - started - self._waited
        self._rests_until = 0.0 if self._advances else ended + min(worked * _REST, _MAX_REST)
        self._observer.cycle(worked, len(events), written, now / SECOND)
        moment = self._clock.monotonic()
        if moment - self._counted >= COUNT_INTERVAL:
            self._counted = moment
            for machine in self._machines:
                self._count(machine)
        return True

    def _count(self, machine: MachineAdapter) -> None:
        try:
            machine.count(self._observer)
        except Exception:
            # What is only counted must not end what decides.
            _LOG.exception("the metrics are not counted")

    def _hand_over(self, commands: list[Command]) -> None:
        self._advances = self._advances or any(map(_advances, commands))
        self._deliver(commands)
        self._loop_wait_left = _MAX_LOOP_WAIT

    def _rest_is_cut_short(self) -> bool:
        """Wait until the next turn may begin; whether the thread has to end instead."""
        left = self._rests_until - time.perf_counter()
        return left > 0 and self._stopping.wait(left)

    def _yield_to_loop(self) -> None:
        """Wait until the event loop is idle: sending what was decided has precedence over new decisions."""
        if self._loop_is_idle.is_set() or self._loop_wait_left <= 0 or self._stopping.is_set():
            return
        began = time.perf_counter()
        self._loop_is_idle.wait(self._loop_wait_left)
        waited = time.perf_counter() - began
        self._loop_wait_left -= waited
        self._waited += waited

    def _pause(self) -> float | None:
        """Seconds until the next deadline; None to wait for events only."""
        if not self._deciding:
            return None
        due = [moment for machine in self._machines if (moment := machine.next_deadline()) is not None]
        if not due:
            return COUNT_INTERVAL
        now = self._time.now()
        pause = (min(due) - now) / SECOND
        if min(due) <= self._last_wake:
            pause = _PAST_DEADLINE_PAUSE
        return min(max(pause, 0.0), COUNT_INTERVAL)
