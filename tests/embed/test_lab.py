"""Cluster, controller and scheduler as one: until quiet, through time, and again the same."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.controller.machine import Controller
from ringwise.embed import loop
from ringwise.embed.clock import SECOND, ScaledClock, VirtualClock
from ringwise.embed.cluster import EmbeddedCluster
from ringwise.embed.fleets import make_fleet
from ringwise.embed.loop import EmbeddedLoop, NotConvergingError
from ringwise.messages.commands import Command, SetGroupStatus
from ringwise.messages.events import Event, JobCommand
from ringwise.state.model import Pod, PodGroup
from ringwise.state.vcjob import VcJob
from tests.embed.builders import FirstFit, job_of, lab_of, pod_of, task_of

MINUTE = {"ringwise.io/expected-duration": "60s"}


class Chatterbox:
    """Changes its mind each time it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def handle(self, events: Iterable[Event], now: int) -> list[Command]:
        self.calls += 1
        return [SetGroupStatus("default/gang", "Inqueue" if self.calls % 2 else "Pending")]

    def next_deadline(self) -> int | None:
        return None


class Sleeper:
    """Asks to be woken at fixed times and notes when it was."""

    def __init__(self, *moments: int) -> None:
        self.moments = list(moments)
        self.woken: list[int] = []

    def handle(self, events: Iterable[Event], now: int) -> list[Command]:
        self.woken.append(now)
        return []

    def next_deadline(self) -> int | None:
        return min((moment for moment in self.moments if moment > self.woken[-1]), default=None)


def test_parts_that_never_agree_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "MAX_ROUNDS", 20)
    lab = EmbeddedLoop(EmbeddedCluster(), Chatterbox(), Controller(), VirtualClock())
    lab.cluster.submit(PodGroup("default", "gang"))
    with pytest.raises(NotConvergingError, match="'SetGroupStatus': 20"):
        lab.step()


def test_everybody_is_woken_when_they_asked_to_be() -> None:
    sleeper = Sleeper(3, 10, 70)
    lab = EmbeddedLoop(EmbeddedCluster(), sleeper, Controller(), VirtualClock())
    lab.run_until(50)
    assert [moment for moment in sleeper.woken if moment in (3, 10)] == [3, 10]
    assert lab.next_deadline() == 70
    assert lab.clock.now() == lab.cluster.now == 50
    assert lab.run_until_quiet(60) is False
    assert lab.run_until_quiet(100) is True
    assert sleeper.woken[-1] == 70


def test_a_deadline_that_passed_in_vain_does_not_hold_time_up() -> None:
    class Late(Sleeper):
        def next_deadline(self) -> int | None:
            return 5

    lab = EmbeddedLoop(EmbeddedCluster(), Late(), Controller(), VirtualClock())
    lab.run_until(100)
    assert lab.cluster.now == 100


def test_a_failed_binding_is_told_and_tried_again() -> None:
    lab = lab_of(1)
    lab.cluster.fail_next_binds("node-0", 2)
    lab.cluster.submit(pod_of("p"))
    lab.step()
    pod = lab.cluster.get(Pod, "default/p")
    assert pod is not None
    assert pod.node == "node-0"
    assert lab.done["Bind"] == 3


def test_a_new_scheduler_learns_everything_and_gives_no_chip_twice() -> None:
    lab = lab_of(1)
    lab.cluster.submit(job_of(task_of(replicas=1, chips=4)))
    lab.run_until(10 * SECOND)
    replacement = FirstFit()
    lab.replace_scheduler(replacement)
    lab.step()
    assert set(replacement.nodes) == {"node-0"}
    assert [pod.node for pod in replacement.pods.values()] == ["node-0"]


def test_equal_runs_leave_equal_objects() -> None:
    def run() -> list[object]:
        lab = lab_of(3)
        for number in range(4):
            lab.cluster.submit(job_of(task_of(chips=4, annotations=MINUTE), name=f"job-{number}"))
        lab.run_until(30 * SECOND)
        lab.cluster.drain("node-1")
        lab.inject(JobCommand("default/job-0", "RestartJob"))
        lab.run_until(300 * SECOND)
        return [(change.version, change.object) for change in lab.cluster.table.all()]

    assert run() == run()


def test_only_virtual_time_can_be_run_through() -> None:
    lab = EmbeddedLoop(EmbeddedCluster(), FirstFit(), Controller(), ScaledClock())
    with pytest.raises(TypeError, match="only virtual time"):
        lab.run_until(1)
    assert lab.step() == 0


def test_real_time_never_goes_back_also_when_the_machines_clock_was_set_back() -> None:
    future = 2**62
    clock = ScaledClock(not_before=future)
    first = clock.now()
    assert first >= future
    assert clock.now() >= first
    assert clock.seconds_until(first) == 0.0
    waits = clock.seconds_until(first + 1000 * SECOND)
    assert waits is not None
    assert 0 < waits <= 1000
    with pytest.raises(ValueError, match="cannot go back"):
        VirtualClock(5).move_to(4)


@pytest.mark.parametrize("sizes", [(4, 2, 1, 1), (1, 1, 2, 4), (8,)])
def test_with_the_scheduler_itself_jobs_pack_and_run_to_their_end(sizes: tuple[int, ...]) -> None:
    cluster = EmbeddedCluster()
    fleet = make_fleet(4, "910-x8")
    cluster.submit_all(fleet.nodes)
    cluster.submit_all(fleet.reports)
    lab = EmbeddedLoop(cluster, new_scheduler(), Controller(), VirtualClock())
    for number, chips in enumerate(sizes):
        cluster.submit(job_of(task_of("w", 1, chips=chips, annotations=MINUTE), name=f"job-{number}"))
    lab.run_until(10 * SECOND)
    pods = cluster.all(Pod)
    assert {pod.phase for pod in pods} == {"Running"}
    assert len({pod.node for pod in pods}) == 1
    assert sorted(chip for pod in pods for chip in pod.holds) == list(range(8))
    lab.run_until(100 * SECOND)
    assert {job.phase for job in cluster.all(VcJob)} == {"Completed"}
    assert cluster.alarms == []
