"""The core thread: state always, decisions only while leading, and deadlines."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.controller.machine import Controller
from ringwise.kube.run import core_thread
from ringwise.kube.run.core_thread import ControllerAdapter, CoreThread, SchedulerAdapter
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Command, CreateGroup, DeleteJob, SetGroupStatus
from ringwise.messages.events import Decide
from ringwise.metrics.prometheus import Metrics
from ringwise.state.model import Node, PriorityClass
from tests.builders.values import CHIP, group, pod
from tests.kube.harness import InstantClock
from tests.metric_text import samples
from tests.timeouts import TEST_TIMEOUT


class Recording:
    def __init__(self) -> None:
        self.absorbed: list[ev.Event] = []
        self.decided: list[ev.Event] = []
        self.deadline: int | None = None
        self.called = threading.Semaphore(0)

    def absorb(self, events: Sequence[ev.Event], now: int) -> None:
        self.absorbed += events
        self.called.release()

    def decide(self, events: Sequence[ev.Event], now: int) -> list[Command]:
        self.decided += events
        self.called.release()
        return [DeleteJob(f"at {now}")]

    def next_deadline(self) -> int | None:
        return self.deadline

    def count(self, observer: Any) -> None: ...

    def send_early(self, deliver: Any, yield_to_loop: Any) -> None: ...

    def report_progress(self, progress: Any) -> None: ...

    def prepare(self, now: int) -> None: ...


def always() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


def core_of(
    adapter: Any,
    commands: list[Command],
    loop_is_idle: threading.Event | None = None,
    clock: InstantClock | None = None,
    observer: Metrics | None = None,
) -> CoreThread:
    core = CoreThread(
        [adapter],
        commands.extend,
        lambda defect: None,
        clock=clock or InstantClock(),
        loop_is_idle=loop_is_idle or always(),
        observer=observer or Metrics(),
    )
    core.start()
    return core


def test_events_only_update_the_state_until_decisions_start() -> None:
    adapter, commands = Recording(), list[Command]()
    core = core_of(adapter, commands)
    core.put([ev.NodeGone("a")])
    assert adapter.called.acquire(timeout=TEST_TIMEOUT)
    assert (adapter.absorbed, adapter.decided, commands) == ([ev.NodeGone("a")], [], [])
    core.decide()
    assert adapter.called.acquire(timeout=TEST_TIMEOUT)
    core.put([ev.NodeGone("b")])
    assert adapter.called.acquire(timeout=TEST_TIMEOUT)
    core.stop()
    assert adapter.decided == [ev.NodeGone("b")]
    assert len(commands) == 2


def test_the_time_of_the_last_turn_is_that_of_a_replica_that_decides() -> None:
    adapter, metrics, clock = Recording(), Metrics(), InstantClock()
    core = core_of(adapter, [], clock=clock, observer=metrics)

    def last_turn() -> float:
        return samples(metrics.text().decode())["ringwise_last_cycle_timestamp_seconds"]

    core.put([ev.NodeGone("a")])
    assert adapter.called.acquire(timeout=TEST_TIMEOUT)
    assert last_turn() == 0
    core.decide()
    for _ in range(2):
        # The second turn begins after the first one was counted.
        assert adapter.called.acquire(timeout=TEST_TIMEOUT)
    assert last_turn() == clock.now() / 10**9
    core.stop()


def test_a_deadline_wakes_the_core() -> None:
    adapter = Recording()
    adapter.deadline = InstantClock().now() + 1000
    core = core_of(adapter, [])
    core.decide()
    assert adapter.called.acquire(timeout=TEST_TIMEOUT)
    # Without an event: only the deadline.
    assert adapter.called.acquire(timeout=TEST_TIMEOUT)
    core.stop()


def test_a_clock_that_is_set_back_moves_no_deadline_away() -> None:
    class SetBack(InstantClock):
        wrong_by = 0

        def now(self) -> int:
            return super().now() - self.wrong_by

    adapter, commands, clock = Recording(), list[Command](), SetBack()
    core = core_of(adapter, commands, clock=clock)
    core.decide()
    assert adapter.called.acquire(timeout=TEST_TIMEOUT)
    clock.wrong_by = 86_400 * 10**9
    clock.moment += 10
    core.put([ev.NodeGone("a")])
    assert adapter.called.acquire(timeout=TEST_TIMEOUT)
    core.stop()
    assert commands[-1] == DeleteJob(f"at {InstantClock().now() + 10 * 10**9}")


def test_the_controller_gets_all_existing_objects_in_its_first_call() -> None:
    calls: list[list[ev.Event]] = []

    class Listening(Controller):
        def handle(self, events: Any, now: int) -> list[Command]:
            calls.append(list(events))
            return []

    adapter = ControllerAdapter(Listening())
    stays = ev.PodSeen(pod("stays", 0, uid="1", namespace="a"))
    changed = ev.PodSeen(pod("stays", 0, uid="1", namespace="a", phase="Running"))
    leaves = ev.PodSeen(pod("leaves", 0, uid="2", namespace="a"))
    priority = ev.PriorityClassSeen(PriorityClass("high", 5))
    adapter.absorb([stays, leaves, priority], 1)
    adapter.absorb([ev.PodGone("2"), changed], 2)
    assert calls == []
    command = ev.JobCommand("a/job", "AbortJob")
    adapter.decide([command], 3)
    adapter.decide([ev.PodGone("1")], 4)
    assert calls == [[changed, priority, command], [ev.PodGone("1")]]


def test_bindings_of_a_long_cycle_are_sent_before_its_end_and_only_once() -> None:
    """The first batches are sent while the cycle still decides; the rest follows, and nothing twice."""
    scheduler = new_scheduler()
    nodes = [ev.NodeSeen(Node(f"node-{n}", chips_allocatable={CHIP: 8})) for n in range(30)]
    pods = [ev.PodSeen(pod(f"p{n}", 1, namespace="x", chip_containers=1)) for n in range(200)]
    adapter = SchedulerAdapter(scheduler)
    early: list[list[Command]] = []
    yielded: list[int] = []
    adapter.send_early(early.append, lambda: yielded.append(len(early)))
    rest = adapter.decide([*nodes, *pods], 1)
    first = [command.uid for batch in early for command in batch if isinstance(command, Bind)]
    last = [command.uid for command in rest if isinstance(command, Bind)]
    assert [len(batch) for batch in early] == [64, 64, 64]
    assert first == [f"p{n}" for n in range(192)]
    assert len(first + last) == len(set(first + last)) == 200
    # After every decision, and complete batches were sent before.
    assert yielded == [n // 64 for n in range(1, 201)]


class Busy(threading.Event):
    """The idle event of a busy loop, which becomes idle when it is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout)
        self.set()
        return True


def test_the_core_waits_for_the_event_loop_but_not_for_ever() -> None:
    adapter, commands, loop_is_idle = Recording(), list[Command](), Busy()
    core = core_of(adapter, commands, loop_is_idle)
    for name in ("a", "b"):
        loop_is_idle.clear()
        core.put([ev.NodeGone(name)])
        assert adapter.called.acquire(timeout=TEST_TIMEOUT)
    core.stop()
    assert adapter.absorbed == [ev.NodeGone("a"), ev.NodeGone("b")]
    assert len(loop_is_idle.waited) == 2
    assert all(limit is not None and 0 < limit < 1 for limit in loop_is_idle.waited)


def test_after_a_turn_that_binds_nothing_events_are_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gang whose pods are being created is not looked at with every pod."""
    monkeypatch.setattr(core_thread, "_REST", 1e9)
    monkeypatch.setattr(core_thread, "_MAX_REST", 1e9)
    adapter = Recording()
    core = core_of(adapter, [])
    core.decide()
    assert adapter.called.acquire(timeout=TEST_TIMEOUT)
    for name in ("a", "b", "c"):
        core.put([ev.NodeGone(name)])
        assert not adapter.called.acquire(timeout=0.02)
    # The thread that rests ends at once.
    core.stop()
    assert adapter.decided == []


@pytest.mark.parametrize(
    "command",
    [CreateGroup(group("gang", namespace="team")), SetGroupStatus("team/gang", "Inqueue")],
    ids=lambda command: type(command).__name__,
)
def test_after_a_turn_that_admits_a_job_nothing_is_waited_for(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its controller answers within milliseconds: with the PodGroup, then with the pods."""
    monkeypatch.setattr(core_thread, "_REST", 1e9)
    monkeypatch.setattr(core_thread, "_MAX_REST", 1e9)

    class Admitting(Recording):
        def decide(self, events: Sequence[ev.Event], now: int) -> list[Command]:
            super().decide(events, now)
            return [command]

    adapter = Admitting()
    core = core_of(adapter, [])
    core.decide()
    for name in ("a", "b"):
        assert adapter.called.acquire(timeout=TEST_TIMEOUT)
        core.put([ev.NodeGone(name)])
    assert adapter.called.acquire(timeout=TEST_TIMEOUT)
    core.stop()
    assert adapter.decided == [ev.NodeGone("a"), ev.NodeGone("b")]


def test_what_one_decides_is_sent_before_the_next_decides() -> None:
    seen: list[int] = []
    sent: list[Command] = []

    class Second(Recording):
        def decide(self, events: Sequence[ev.Event], now: int) -> list[Command]:
            seen.append(len(sent))
            return super().decide(events, now)

    second = Second()
    core = CoreThread(
        [Recording(), second],
        sent.extend,
        lambda defect: None,
        clock=InstantClock(),
        loop_is_idle=always(),
    )
    core.start()
    core.decide()
    assert second.called.acquire(timeout=TEST_TIMEOUT)
    core.stop()
    assert seen[0] == 1


def test_preparation_changes_no_decision() -> None:
    nodes = [ev.NodeSeen(Node(f"node-{n}", chips_allocatable={CHIP: 8})) for n in range(3)]
    pods = [ev.PodSeen(pod(f"p{n}", (1, 2, 4)[n % 3], namespace="x", chip_containers=1)) for n in range(12)]
    plain, prepared = new_scheduler(), new_scheduler()
    for scheduler in (plain, prepared):
        scheduler.handle([*nodes, *pods], 1, Decide.NOTHING)
    prepared.prepare(1)
    assert prepared.view.inconsistencies() == []
    assert all(job.policy is not None for job in prepared.view.jobs.values())
    # A job that changes afterwards is checked again.
    bad = ev.PodSeen(pod("p0", 3, namespace="x", chip_containers=2))
    assert prepared.handle([bad], 2) == plain.handle([bad], 2)
    assert prepared.view.jobs["x/pod:p0"].reason is not None


def test_prepare_returns_when_the_core_fails() -> None:
    class Broken(SchedulerAdapter):
        def prepare(self, now: int) -> None:
            raise RuntimeError("no")

    crashed: list[BaseException] = []
    core = CoreThread(
        [Broken(new_scheduler())],
        lambda commands: None,
        crashed.append,
        clock=InstantClock(),
        loop_is_idle=always(),
    )
    core.start()
    core.prepare()
    core.stop()
    assert [str(defect) for defect in crashed] == ["no"]
