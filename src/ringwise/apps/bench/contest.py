"""Several binders do the same work on the same processors, a quarter of a second each, turn by turn.

    bare loop   ███░░░░███░░░░███░░░░██
    scheduler   ░░░███░░░░███░░░░███░░░██

Each has a world of its own: etcd, API server and its own process. A world whose turn it is not stands still
as a whole, so it neither works nor costs anything. What the machine does meanwhile, faster now and slower
then, happens to all of them alike. A world's time is the sum of its turns.
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

from ringwise.apps.bench.binders import BEGAN, DONE, KUBE_SCHEDULER, Failed, Ready, Task, work
from ringwise.apps.bench.control_plane import ControlPlane, ControlPlaneError, find_program
from ringwise.apps.bench.scene import NAMESPACE, Scene
from ringwise.apps.install import deployment

#: Seconds of one turn.
TURN = 0.25
#: Seconds after which a binder that does not answer has failed.
PATIENCE = 600.0


def contest(scene: Scene, who: Sequence[str]) -> list[dict[str, float]]:
    """For every round: the seconds each of them needed to bind all pods. Making the pods is not counted."""
    if KUBE_SCHEDULER in who:
        # A missing program is told before anything runs.
        find_program("kube-scheduler")
    with contextlib.ExitStack() as stack, ThreadPoolExecutor() as starting:
        worlds = list(starting.map(lambda name: stack.enter_context(_world(scene, name)), who))
        rounds = []
        for number in range(scene.rounds):
            for world in worlds:
                world.prepare(number)
            for world in worlds:
                world.expect_ready()
            # Who goes first has it a little easier: they take turns in that, too.
            rounds.append(_race(worlds if number % 2 == 0 else worlds[::-1]))
        return rounds


def _race(worlds: Sequence[_World]) -> dict[str, float]:
    for world in worlds:
        world.stand_still(True)
    try:
        racing = list(worlds)
        while racing:
            for world in list(racing):
                world.take_turn()
                if world.finished:
                    racing.remove(world)
    finally:
        for world in worlds:
            world.stand_still(False)
    return {world.who: world.seconds for world in worlds}


@contextlib.contextmanager
def _world(scene: Scene, who: str) -> Iterator[_World]:
    with tempfile.TemporaryDirectory() as name, ControlPlane(Path(name)) as plane:
        for definition in deployment.definitions():
            plane.admin.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        plane.admin.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        world = _World(scene, who, plane)
        try:
            yield world
        finally:
            world.end()


class _World:
    def __init__(self, scene: Scene, who: str, plane: ControlPlane) -> None:
        self.who = who
        self.seconds = 0.0
        self.finished = False
        self._plane = plane
        self._programs: tuple[int, ...] = ()
        self._asked = False
        self._counting = False
        # A process of its own that shares nothing with us.
        fresh = multiprocessing.get_context("spawn")
        self._pipe, theirs = fresh.Pipe()
        task = Task(who, scene, str(plane.kubeconfig("admin", plane.admin_token)), plane.folder)
        self._binder = fresh.Process(target=work, args=(task, theirs), daemon=True)
        self._binder.start()
        theirs.close()

    def prepare(self, number: int) -> None:
        self.seconds, self.finished, self._asked, self._counting = 0.0, False, False, False
        self._pipe.send(number)

    def expect_ready(self) -> None:
        word = self._hear(PATIENCE)
        if not isinstance(word, Ready):
            raise ControlPlaneError(f"{self.who} did not get ready: {word}")
        self._programs = word.programs

    def take_turn(self) -> None:
        """Work for a quarter of a second, or to the end if that is nearer."""
        started = time.perf_counter()
        self.stand_still(False)
        if not self._asked:
            self._asked = True
            self._pipe.send("go")
        ends = started + TURN
        while (left := ends - time.perf_counter()) > 0 and not self.finished:
            word = self._hear(left)
            if word == BEGAN:
                self._counting, started = True, time.perf_counter()
            elif word == DONE:
                self.finished = True
        if self._counting:
            self.seconds += time.perf_counter() - started
        self.stand_still(True)
        if self.seconds > PATIENCE:
            raise ControlPlaneError(f"{self.who} is not done after {PATIENCE:g} s")

    def _hear(self, seconds: float) -> object:
        """What the binder says within this time; None for nothing."""
        try:
            word: object = self._pipe.recv() if self._pipe.poll(seconds) else None
        except EOFError:
            word = Failed(f"{self.who} ended with {self._binder.exitcode}")
        if isinstance(word, Failed):
            raise ControlPlaneError(word.why)
        return word

    def stand_still(self, still: bool) -> None:
        for program in (*self._plane.programs, *self._programs, self._binder.pid):
            if program is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(program, signal.SIGSTOP if still else signal.SIGCONT)

    def end(self) -> None:
        self.stand_still(False)
        with contextlib.suppress(OSError):
            self._pipe.send(None)
        self._pipe.close()
        self._binder.join(10)
        if self._binder.is_alive():
            self._binder.kill()
