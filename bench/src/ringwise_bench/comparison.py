"""Several schedulers do the same work on the same processors, in alternating time slices of a quarter second.

    bare loop   ███░░░░███░░░░███░░░░██
    scheduler   ░░░███░░░░███░░░░███░░░██

Each side has an etcd, an API server and a process of its own. Outside its slice all processes of a side are
stopped, so it costs the other sides nothing. When the machine becomes faster or slower, it does so for all
sides alike. The time of a side is the sum of its slices.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ringwise.records import dataclass
from ringwise.wellknown import VOLCANO_SYSTEM
from ringwise_bench.binders import (
    BEGAN,
    DONE,
    KUBE_SCHEDULER,
    BinderTask,
    Failed,
    Quiet,
    Ready,
    Round,
    work,
)
from ringwise_bench.checkout import definitions
from ringwise_bench.control_plane import ControlPlane, ControlPlaneError, find_program
from ringwise_bench.scenario import NAMESPACE, Scenario

#: Seconds of one time slice.
TIME_SLICE = 0.25
#: Seconds after which a binder that does not answer has failed.
TIMEOUT = 600.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one side needed in one round. Processor time and writes are measured in the first."""

    seconds: float
    cpu: float
    writes: int


#: A scenario, and who does its work.
Plan = tuple[Scenario, Sequence[str]]


def compare(scenario: Scenario, who: Sequence[str]) -> list[dict[str, Outcome]]:
    """For every round: what each side needed to bind all pods, and to create those of a vcjob."""
    return compare_in_turn([(scenario, who)])[0]


def compare_in_turn(plans: Sequence[Plan]) -> list[list[dict[str, Outcome]]]:
    """The same for several scenarios, with the sides of all of them started together.

    While one is prepared and measured, the processes of the others are stopped. What all of them write after
    the last Binding of the last round is written at the end, at the same time: the rate of events is limited,
    so that takes longest.
    """
    if any(KUBE_SCHEDULER in who for _, who in plans):
        # A missing program is reported before anything runs.
        find_program("kube-scheduler")
    with contextlib.ExitStack() as stack, ThreadPoolExecutor() as starting:
        named = [(scenario, name) for scenario, who in plans for name in who]
        started = iter(list(starting.map(lambda one: stack.enter_context(_side(*one)), named)))
        groups = [[next(started) for _ in who] for _, who in plans]
        outcomes: list[list[dict[str, Outcome]]] = []
        for (scenario, _), sides in zip(plans, groups, strict=True):
            others = [side for group in groups for side in group if group is not sides]
            with _stopped(others):
                outcomes.append(_run_rounds(scenario, sides))
        return [
            [*rounds, {side.component: side.outcome() for side in sides}]
            for rounds, sides in zip(outcomes, groups, strict=True)
        ]


def _run_rounds(scenario: Scenario, sides: Sequence[_Side]) -> list[dict[str, Outcome]]:
    """What each side needed in every round but the last, which is not over while something is written."""
    rounds = []
    for number in range(scenario.rounds):
        if number:
            rounds.append({side.component: side.outcome() for side in sides})
        for side in sides:
            side.prepare(Round(number, until_quiet=number == 0))
        for side in sides:
            side.expect_ready()
        # The first side of a round has a small advantage, so the order alternates.
        _run_round(sides if number % 2 == 0 else sides[::-1])
    return rounds


def _run_round(sides: Sequence[_Side]) -> None:
    with _stopped(sides):
        running = list(sides)
        while running:
            for side in list(running):
                side.run_slice()
                if side.finished:
                    running.remove(side)


@contextlib.contextmanager
def _stopped(sides: Sequence[_Side]) -> Iterator[None]:
    for side in sides:
        side.stop_processes()
    try:
        yield
    finally:
        for side in sides:
            side.continue_processes()


@contextlib.contextmanager
def _side(scenario: Scenario, who: str) -> Iterator[_Side]:
    with tempfile.TemporaryDirectory() as name, ControlPlane(Path(name)) as plane:
        for definition in definitions():
            plane.admin.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        for namespace in (NAMESPACE, VOLCANO_SYSTEM):
            plane.admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        side = _Side(scenario, who, plane)
        try:
            yield side
        finally:
            side.end()


class _Side:
    def __init__(self, scenario: Scenario, who: str, plane: ControlPlane) -> None:
        self.component = who
        self.seconds = 0.0
        self.finished = False
        self._plane = plane
        self._programs: tuple[int, ...] = ()
        self._started = False
        self._counting = False
        # A new process that shares no memory with this one.
        fresh = multiprocessing.get_context("spawn")
        self._pipe, theirs = fresh.Pipe()
        task = BinderTask(who, scenario, str(plane.kubeconfig("admin", plane.admin_token)), plane.folder)
        self._binder = fresh.Process(target=work, args=(task, theirs), daemon=True)
        self._binder.start()
        theirs.close()

    def prepare(self, wanted: Round) -> None:
        self.seconds, self.finished, self._started, self._counting = 0.0, False, False, False
        self._pipe.send(wanted)

    def expect_ready(self) -> None:
        message = self._receive(TIMEOUT)
        if not isinstance(message, Ready):
            raise ControlPlaneError(f"{self.component} is not ready: {message}")
        self._programs = message.programs

    def run_slice(self) -> None:
        """Work for one time slice, or until the work is done."""
        started = time.perf_counter()
        self.continue_processes()
        if not self._started:
            self._started = True
            self._pipe.send("go")
        ends = started + TIME_SLICE
        while (left := ends - time.perf_counter()) > 0 and not self.finished:
            message = self._receive(left)
            if message == BEGAN:
                self._counting, started = True, time.perf_counter()
            elif message == DONE:
                self.finished = True
        if self._counting:
            self.seconds += time.perf_counter() - started
        self.stop_processes()
        if self.seconds > TIMEOUT:
            raise ControlPlaneError(f"{self.component} is not done after {TIMEOUT:g} s")

    def outcome(self) -> Outcome:
        """All sides continue together until each has written the rest: processor time is not shared."""
        message = self._receive(TIMEOUT)
        if not isinstance(message, Quiet):
            raise ControlPlaneError(f"{self.component} does not become quiet: {message}")
        return Outcome(self.seconds, message.cpu, message.writes)

    def _receive(self, seconds: float) -> object:
        """The next message of the binder within this time; None if there is none."""
        try:
            message: object = self._pipe.recv() if self._pipe.poll(seconds) else None
        except EOFError:
            message = Failed(f"{self.component} ended with {self._binder.exitcode}")
        if isinstance(message, Failed):
            raise ControlPlaneError(message.why)
        return message

    def stop_processes(self) -> None:
        self._signal(signal.SIGSTOP)

    def continue_processes(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for program in (*self._plane.programs, *self._programs, self._binder.pid):
            if program is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(program, number)

    def end(self) -> None:
        self.continue_processes()
        with contextlib.suppress(OSError):
            self._pipe.send(None)
        self._pipe.close()
        self._binder.join(10)
        if self._binder.is_alive():
            self._binder.kill()
