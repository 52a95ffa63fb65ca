"""The core's thread: facts always, decisions only when they are wanted, time when it has come."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from ringwise.kube.core import ControllerPart, Core
from ringwise.scheduler import events as ev
from ringwise.scheduler.commands import Command, DeleteJob
from ringwise.scheduler.controller import Controller
from ringwise.state.model import Pod, PodClass, PriorityClass
from tests.kube.harness import JumpingClock

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


def core_of(part: Any, commands: list[Command]) -> Core:
    core = Core([part], commands.extend, lambda defect: None, clock=JumpingClock())
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
    part.deadline = JumpingClock().now() + 1000
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

    part = ControllerPart(Listening())
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
