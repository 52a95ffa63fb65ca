"""The core's thread: facts always, decisions only when they are wanted, time when it has come."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from ringwise.apps.extensions import new_scheduler
from ringwise.controller.machine import Controller
from ringwise.kube.run.core_thread import ControllerAdapter, CoreThread, SchedulerAdapter
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Command, DeleteJob
from ringwise.messages.events import Decide
from ringwise.state.model import Node, Pod, PodClass, PriorityClass
from tests.kube.harness import InstantClock

RESOURCE = "huawei.com/Ascend910"

#: Seconds after which a thread that does not answer is taken for hung.
PATIENCE = 10.0


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


def always() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


def core_of(part: Any, commands: list[Command], loop_is_idle: threading.Event | None = None) -> CoreThread:
    core = CoreThread(
        [part],
        commands.extend,
        lambda defect: None,
        clock=InstantClock(),
        loop_is_idle=loop_is_idle or always(),
    )
    core.start()
    return core


def test_facts_are_absorbed_until_decisions_are_wanted() -> None:
    part, commands = Recording(), list[Command]()
    core = core_of(part, commands)
    core.put([ev.NodeGone("a")])
    assert part.called.acquire(timeout=PATIENCE)
    assert (part.absorbed, part.decided, commands) == ([ev.NodeGone("a")], [], [])
    core.decide()
    assert part.called.acquire(timeout=PATIENCE)
    core.put([ev.NodeGone("b")])
    assert part.called.acquire(timeout=PATIENCE)
    core.stop()
    assert part.decided == [ev.NodeGone("b")]
    assert len(commands) == 2


def test_a_deadline_that_has_come_wakes_the_core() -> None:
    part = Recording()
    part.deadline = InstantClock().now() + 1000
    core = core_of(part, [])
    core.decide()
    assert part.called.acquire(timeout=PATIENCE)
    # Without an event: time alone.
    assert part.called.acquire(timeout=PATIENCE)
    core.stop()


def test_a_controller_that_waited_is_told_everything_that_still_exists_at_once() -> None:
    calls: list[list[ev.Event]] = []

    class Listening(Controller):
        def handle(self, events: Any, now: int) -> list[Command]:
            calls.append(list(events))
            return []

    part = ControllerAdapter(Listening())
    stays = ev.PodSeen(Pod("1", "a", "stays", PodClass()))
    changed = ev.PodSeen(Pod("1", "a", "stays", PodClass(), phase="Running"))
    leaves = ev.PodSeen(Pod("2", "a", "leaves", PodClass()))
    priority = ev.PriorityClassSeen(PriorityClass("high", 5))
    part.absorb([stays, leaves, priority], 1)
    part.absorb([ev.PodGone("2"), changed], 2)
    assert calls == []
    wish = ev.JobCommand("a/job", "AbortJob")
    part.decide([wish], 3)
    part.decide([ev.PodGone("1")], 4)
    assert calls == [[changed, priority, wish], [ev.PodGone("1")]]


def test_bindings_of_a_long_cycle_leave_before_its_end_and_only_once() -> None:
    """The first slices are on their way while the cycle still decides; the rest follows, nothing twice."""
    scheduler = new_scheduler()
    nodes = [ev.NodeSeen(Node(f"node-{n}", chips_allocatable={RESOURCE: 8})) for n in range(30)]
    pods = [
        ev.PodSeen(Pod(f"p{n}", "x", f"p{n}", PodClass(RESOURCE, 1), chip_containers=1)) for n in range(200)
    ]
    part = SchedulerAdapter(scheduler)
    early: list[list[Command]] = []
    gave_way: list[int] = []
    part.send_early(early.append, lambda: gave_way.append(len(early)))
    rest = part.decide([*nodes, *pods], 1)
    first = [command.uid for slice_ in early for command in slice_ if isinstance(command, Bind)]
    last = [command.uid for command in rest if isinstance(command, Bind)]
    assert [len(slice_) for slice_ in early] == [64, 64, 64]
    assert first == [f"p{n}" for n in range(192)]
    assert len(first + last) == len(set(first + last)) == 200
    # After every decision, and what is complete has left before.
    assert gave_way == [n // 64 for n in range(1, 201)]


class Busy(threading.Event):
    """An event loop that has something to do, and is done when somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout)
        self.set()
        return True


def test_the_event_loop_comes_first_but_not_for_ever() -> None:
    part, commands, loop_is_idle = Recording(), list[Command](), Busy()
    core = core_of(part, commands, loop_is_idle)
    for name in ("a", "b"):
        loop_is_idle.clear()
        core.put([ev.NodeGone(name)])
        assert part.called.acquire(timeout=PATIENCE)
    core.stop()
    assert part.absorbed == [ev.NodeGone("a"), ev.NodeGone("b")]
    assert len(loop_is_idle.waited) == 2
    assert all(limit is not None and 0 < limit < 1 for limit in loop_is_idle.waited)


def test_what_was_prepared_changes_no_decision() -> None:
    nodes = [ev.NodeSeen(Node(f"node-{n}", chips_allocatable={RESOURCE: 8})) for n in range(3)]
    pods = [
        ev.PodSeen(Pod(f"p{n}", "x", f"p{n}", PodClass(RESOURCE, (1, 2, 4)[n % 3]), chip_containers=1))
        for n in range(12)
    ]
    plain, prepared = new_scheduler(), new_scheduler()
    for scheduler in (plain, prepared):
        scheduler.handle([*nodes, *pods], 1, Decide.NOTHING)
    prepared.prepare(1)
    assert prepared.view.inconsistencies() == []
    assert all(job.policy is not None for job in prepared.view.jobs.values())
    # A job that changes afterwards is judged anew.
    bad = ev.PodSeen(Pod("p0", "x", "p0", PodClass(RESOURCE, 3), chip_containers=2))
    assert prepared.handle([bad], 2) == plain.handle([bad], 2)
    assert prepared.view.jobs["x/pod:p0"].reason is not None


def test_nobody_waits_for_a_core_that_fails_while_it_prepares() -> None:
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
