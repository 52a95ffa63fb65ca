"""The loop of cluster, controller and scheduler: convergence, time and determinism."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.controller.machine import Controller
from ringwise.durations import SECOND
from ringwise.embed import loop
from ringwise.embed.clock import ScaledClock, VirtualClock
from ringwise.embed.cluster import EmbeddedCluster
from ringwise.embed.fleets import make_fleet
from ringwise.embed.loop import EmbeddedLoop, NotConvergingError
from ringwise.messages.commands import Command, SetGroupStatus
from ringwise.messages.events import Event, JobCommand
from ringwise.state.model import Pod
from ringwise.state.vcjob import VcJob
from tests.builders import values
from tests.builders.values import group, job_of, task_of
from tests.embed.drains import drain
from tests.embed.faulty import fail_next_binds
from tests.embed.first_fit import FirstFit, lab_of

MINUTE = {"ringwise.io/expected-duration": "60s"}


class NeverConverging:
    """Returns another status with each call."""

    def __init__(self) -> None:
        self.calls = 0

    def handle(self, events: Iterable[Event], now: int) -> list[Command]:
        self.calls += 1
        return [SetGroupStatus("default/gang", "Inqueue" if self.calls % 2 else "Pending")]

    def next_deadline(self) -> int | None:
        return None


class WithDeadlines:
    """Has fixed deadlines and records when it was called."""

    def __init__(self, *moments: int) -> None:
        self.moments = list(moments)
        self.called: list[int] = []

    def handle(self, events: Iterable[Event], now: int) -> list[Command]:
        self.called.append(now)
        return []

    def next_deadline(self) -> int | None:
        return min((moment for moment in self.moments if moment > self.called[-1]), default=None)


def test_a_loop_that_does_not_converge_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "MAX_ROUNDS", 20)
    lab = EmbeddedLoop(EmbeddedCluster(), NeverConverging(), Controller(), VirtualClock())
    lab.cluster.submit(group("gang"))
    with pytest.raises(NotConvergingError, match="'SetGroupStatus': 20"):
        lab.step()


def test_every_deadline_is_met() -> None:
    scheduler = WithDeadlines(3, 10, 70)
    lab = EmbeddedLoop(EmbeddedCluster(), scheduler, Controller(), VirtualClock())
    lab.run_until(50)
    assert [moment for moment in scheduler.called if moment in (3, 10)] == [3, 10]
    assert lab.next_deadline() == 70
    assert lab.clock.now() == lab.cluster.now == 50
    lab.run_until(100)
    assert lab.next_deadline() is None
    assert 70 in scheduler.called


def test_a_past_deadline_does_not_stop_the_time() -> None:
    class Late(WithDeadlines):
        def next_deadline(self) -> int | None:
            return 5

    lab = EmbeddedLoop(EmbeddedCluster(), Late(), Controller(), VirtualClock())
    lab.run_until(100)
    assert lab.cluster.now == 100


def test_a_failed_binding_is_reported_and_retried() -> None:
    lab = lab_of(1)
    fail_next_binds(lab.cluster, "node-0", 2)
    lab.cluster.submit(values.pod("p", uid=""))
    lab.step()
    pod = lab.cluster.get(Pod, "default/p")
    assert pod is not None
    assert pod.node == "node-0"
    assert lab.command_counts["Bind"] == 3


def test_a_new_scheduler_gets_all_objects_and_assigns_no_chip_twice() -> None:
    lab = lab_of(1)
    lab.cluster.submit(job_of(task_of(replicas=1, chips=4)))
    lab.run_until(10 * SECOND)
    replacement = FirstFit()
    lab.replace_scheduler(replacement)
    lab.step()
    assert set(replacement.nodes) == {"node-0"}
    assert [pod.node for pod in replacement.pods.values()] == ["node-0"]


def test_equal_runs_end_with_equal_objects() -> None:
    def run() -> list[object]:
        lab = lab_of(3)
        for number in range(4):
            lab.cluster.submit(job_of(task_of(chips=4, annotations=MINUTE), name=f"job-{number}"))
        lab.run_until(30 * SECOND)
        drain(lab.cluster, "node-1")
        lab.inject(JobCommand("default/job-0", "RestartJob"))
        lab.run_until(300 * SECOND)
        return [(change.version, change.object) for change in lab.cluster.table.all()]

    assert run() == run()


def test_only_virtual_time_can_be_advanced() -> None:
    lab = EmbeddedLoop(EmbeddedCluster(), FirstFit(), Controller(), ScaledClock())
    with pytest.raises(TypeError, match="only virtual time"):
        lab.run_until(1)
    assert lab.step() == 0


def test_real_time_never_decreases_also_when_the_machine_s_clock_was_set_back() -> None:
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
def test_jobs_of_the_real_scheduler_share_a_node_and_run_to_their_end(sizes: tuple[int, ...]) -> None:
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
