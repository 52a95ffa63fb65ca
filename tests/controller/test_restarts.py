"""F5: restarts after failed pods: the scheduler counts and deletes, the controller waits for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.controller.job_record import JobRecord
from ringwise.controller.machine import Controller
from ringwise.controller.restarts import RestartAnswer, restart_answer
from ringwise.durations import SECOND
from ringwise.embed.clock import VirtualClock
from ringwise.embed.fleets import make_fleet
from ringwise.embed.loop import Decider, EmbeddedLoop
from ringwise.embed.objects import TableWatch
from ringwise.embed.records import events_of
from ringwise.messages.commands import Command, DeletePod
from ringwise.messages.events import Event, PodGroupSeen, PodSeen
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.state.failures import max_restarts
from ringwise.state.model import Owner, Pod, PodGroup
from ringwise.state.vcjob import Policy, VcJob
from ringwise.wellknown import SCHEDULER_NAMES
from tests.builders.values import job_of, pod, task_of
from tests.controller.controller_lab import FAST, at, lab_with, pods_in
from tests.embed.faulty import FaultyCluster
from tests.examples import sample

FAILS = {"ringwise.io/simulate": "fail@5:9"}
TWICE = {"fault-scheduling": "force", "fault-retry-times": "2"}
USED_UP = "not restarted: all 2 restarts that fault-retry-times allows are used up"


class Silent:
    """A scheduler that hangs."""

    def handle(self, events: Iterable[Event], now: int) -> list[Command]:
        return []

    def next_deadline(self) -> int | None:
        return None


class Crashing(EmbeddedLoop):
    """After the `crash`-th command of a component a new one goes on, with the objects alone."""

    what = ""
    crash = 0
    count = 0
    #: Deletions do not reach the cluster.
    deletes_nothing = False

    def _call(self, decider: Decider, watch: TableWatch, extra: list[Event], *, always: bool) -> int:
        events = events_of(watch.poll()) + extra
        if not events and not always:
            return 0
        commands = decider.handle(events, self.cluster.now)
        mine = "controller" if decider is self.controller else "scheduler"
        for done, command in enumerate(commands, 1):
            if not (self.deletes_nothing and isinstance(command, DeletePod)):
                self._apply([command])
            self.count += mine == self.what
            if mine == self.what and self.count == self.crash:
                self.restart(mine)
                return done
        return len(commands)

    def restart(self, what: str) -> None:
        if what == "controller":
            self.replace_controller(Controller())
        else:
            self.replace_scheduler(new_scheduler())


def lab_of(job: VcJob, *, nodes: int = 4) -> Crashing:
    cluster = FaultyCluster(settings=FAST)
    fleet = make_fleet(nodes)
    cluster.submit_all(fleet.nodes)
    cluster.submit_all(fleet.reports)
    cluster.submit(job)
    return Crashing(cluster, new_scheduler(), Controller(), VirtualClock(0))


def failing(
    pods: int = 1,
    *,
    labels: Mapping[str, str] = TWICE,
    annotations: Mapping[str, str] | None = None,
    policies: Sequence[Policy] = (),
) -> VcJob:
    job = job_of(task_of("w", pods, chips=8, annotations=FAILS), policies=policies)
    return replace(job, labels=labels, annotations=annotations or {})


def used(lab: EmbeddedLoop) -> int:
    assert isinstance(lab.scheduler, Scheduler)
    budgets = lab.scheduler._components.of(FaultHandler).retries.owners.values()
    return sum(budget.used for budget in budgets)


@pytest.mark.parametrize("pods", [1, 3])
@pytest.mark.parametrize("mode", ["force", "grace"])
@pytest.mark.parametrize("level", ["off", "on"])
def test_F5_a_retry_counts_when_all_pods_fail_together(pods: int, mode: str, level: str) -> None:
    lab = lab_of(failing(pods, labels={**TWICE, "fault-scheduling": mode, "pod-rescheduling": level}))
    at(lab, 2)
    first = {pod.uid for pod in lab.cluster.all(Pod)}
    job = at(lab, 7)
    assert (job.phase, used(lab)) == ("Running", 1)
    assert first.isdisjoint(pod.uid for pod in lab.cluster.all(Pod))
    assert at(lab, 13).phase == "Running"
    job = at(lab, 60)
    assert (job.phase, job.reason) == ("Failed", "NotRestarted")
    assert job.message.endswith(USED_UP)
    assert used(lab) == 2
    assert set(pods_in(lab).values()) == {"Failed"}


@pytest.mark.parametrize(
    ("sentence", "labels", "annotations", "ends"),
    [
        ("without fault-scheduling", {"fault-retry-times": "2"}, {}, 6),
        ("with fault-scheduling: off", {**TWICE, "fault-scheduling": "off"}, {}, 6),
        ("external modes restart nothing here", {**TWICE, "fault-scheduling": "external-force"}, {}, 6),
        ("no number", {**TWICE, "fault-retry-times": "often"}, {}, 6),
        ("handled elsewhere", TWICE, {"ProcessRecoverStrategy": "retry"}, 6),
    ],
)
def test_F5_no_retry_is_left(
    sentence: str, labels: Mapping[str, str], annotations: Mapping[str, str], ends: float
) -> None:
    lab = lab_of(failing(labels=labels, annotations=annotations))
    job = at(lab, ends)
    assert (job.phase, job.reason, used(lab)) == ("Failed", "", 0), sentence


@pytest.mark.parametrize(
    ("sentence", "chips", "scheduler", "phase"),
    [
        ("a job with chips that is ours waits", 8, "volcano", "Running"),
        ("one without chips does not", 0, "volcano", "Failed"),
        ("nor one of another scheduler", 8, "default-scheduler", "Failed"),
    ],
)
def test_F5_which_jobs_wait(sentence: str, chips: int, scheduler: str, phase: str) -> None:
    """The scheduler of this lab places pods and does nothing about failed ones."""
    job = job_of(task_of("w", 1, chips=chips, annotations=FAILS))
    lab = lab_with(replace(job, labels=TWICE, scheduler=scheduler))
    assert at(lab, 6).phase == phase, sentence


@pytest.mark.parametrize(
    ("pods", "waits"),
    [
        ([{}], True),
        ([{"node": None}], False),
        ([{"node": None}, {}], True),
        ([{"scheduler": "default-scheduler"}], False),
        ([{"phase": "Succeeded"}], False),
    ],
)
def test_F5_which_failed_pods_are_restarted(pods: list[dict[str, Any]], waits: bool) -> None:
    job, ours = job_of(), Owner("Job", "train", "uid-train")
    members = [
        replace(pod(f"train-{at}", on="n1", phase="Failed", owner=ours, labels=TWICE), **changed)
        for at, changed in enumerate(pods)
    ]
    record = JobRecord.of(job, {member.uid: member for member in members})
    assert restart_answer(record, None, SCHEDULER_NAMES, SECOND) == RestartAnswer(waits=waits)


def test_F5_the_controller_waits_for_a_job_that_the_scheduler_restarts() -> None:
    """What it reads from PodGroup and pods is what the scheduler reads from them."""
    values = {"fault-scheduling": (None, "off", "force"), "fault-retry-times": (None, "0", "2")}
    labels = [
        {key: value for key, value in zip(values, chosen, strict=True) if value is not None}
        for chosen in product(*values.values())
    ]
    scheduler, ours, seen = new_scheduler(), Owner("Job", "train", "uid-train"), list[Event]()
    records: dict[str, tuple[JobRecord, PodGroup]] = {}
    for number, (of_group, of_pods) in enumerate(product(labels, labels)):
        name = f"train-{number}"
        group = PodGroup("default", name, labels=of_group)
        members = {
            f"{name}-{at}": replace(
                pod(f"{name}-{at}", chips, on="n1", phase="Failed", owner=ours, group=name),
                # A launcher without chips may lack them.
                labels=of_pods if chips else {},
            )
            for at, chips in enumerate((0, 8))
        }
        records[group.key] = JobRecord.of(job_of(), members), group
        seen += [PodGroupSeen(group), *map(PodSeen, members.values())]
    scheduler.handle(seen, SECOND)
    for key, (record, group) in records.items():
        known = scheduler.view.jobs[key]
        answer = restart_answer(record, group, SCHEDULER_NAMES, SECOND)
        assert answer.waits is bool(max_restarts(known.labels, known.annotations)), key


def test_F5_a_refusal_that_somebody_else_wrote_does_not_fill_the_status() -> None:
    refusal = {"ringwise.io/restart-rejected": "no " * 50_000}
    job = job_of(task_of("w", 1, chips=8, annotations={**FAILS, **refusal}))
    lab = lab_with(replace(job, labels=TWICE))
    ended = at(lab, 6)
    assert (ended.phase, ended.reason) == ("Failed", "NotRestarted")
    assert len(ended.message) < 1000


ACTIONS = {
    "RestartJob": "Running",
    "AbortJob": "Aborted",
    "CompleteJob": "Completed",
    "TerminateJob": "Terminated",
}


@pytest.mark.parametrize(
    "policy",
    [
        Policy("RestartJob", ("PodFailed",)),
        Policy("RestartJob", ("*",)),
        Policy("RestartJob", (), 9),
        Policy("AbortJob", ("PodFailed",)),
        Policy("TerminateJob", ("PodFailed",)),
        Policy("CompleteJob", ("*",)),
    ],
)
@pytest.mark.parametrize("of_task", [True, False])
@pytest.mark.parametrize("failed", [1, 2])
def test_F5_a_policy_that_matches_comes_first_and_no_retry_is_used(
    policy: Policy, of_task: bool, failed: int
) -> None:
    job = failing(2, policies=() if of_task else (policy,))
    if of_task:
        task = replace(job.tasks[0], policies=(policy,))
        # The job's own policy is not asked: the first that matches decides.
        job = replace(job, tasks=(task,), policies=(Policy("Ignore", ("PodFailed",)),))
    lab = lab_of(job)
    lab.run_until(2 * SECOND)
    if failed == 1:
        pod = min(lab.cluster.all(Pod), key=lambda pod: pod.name)
        lab.cluster._put_pod(replace(pod, phase="Failed", exit_code=9))
    job = at(lab, 6.4)
    assert used(lab) == 0
    assert job.phase in ("Pending", ACTIONS[policy.action])
    assert job.retry_count == (policy.action == "RestartJob")


@pytest.mark.parametrize(
    "policies",
    [
        (Policy("Ignore", ("PodFailed",)),),
        (Policy("Ignore", ("*",)),),
        (Policy("RestartJob", (), 8),),
        (Policy("RestartJob", ("TaskCompleted",)),),
    ],
)
def test_F5_ignore_and_policies_that_do_not_match_leave_it_to_the_retries(
    policies: tuple[Policy, ...],
) -> None:
    lab = lab_of(failing(2, policies=policies))
    job = at(lab, 7)
    assert (job.phase, used(lab), job.retry_count) == ("Running", 1, 0)


def test_F5_the_controller_says_that_it_waits_and_at_most_for_60_seconds() -> None:
    lab = lab_of(failing())
    lab.run_until(2 * SECOND)
    lab.scheduler = Silent()
    job = at(lab, 6)
    assert (job.phase, job.reason) == ("Running", "AwaitsRestart")
    assert at(lab, 65.9).phase == "Running"
    job = at(lab, 66)
    assert (job.phase, job.reason) == ("Failed", "NotRestarted")
    assert "no scheduler restarted it, or said why not, within 1m" in job.message


def test_F5_the_60_seconds_are_of_the_controllers_own_running() -> None:
    lab = lab_of(failing())
    lab.run_until(2 * SECOND)
    lab.scheduler = Silent()
    assert at(lab, 60).phase == "Running"
    lab.replace_controller(Controller())
    assert at(lab, 119).phase == "Running"
    lab.replace_scheduler(new_scheduler())
    job = at(lab, 120.5)
    assert (job.phase, job.reason, used(lab)) == ("Running", "", 1)


def test_F5_a_new_leader_deletes_nothing_of_a_finished_vcjob() -> None:
    """The old one recorded the restart and ended; the controller waited for 1m and ended the job."""
    lab = lab_of(failing(2))
    lab.deletes_nothing = True
    at(lab, 6)
    assert used(lab) == 1
    assert set(pods_in(lab).values()) == {"Failed"}
    lab.scheduler = Silent()
    assert at(lab, 70).phase == "Failed"
    assert not lab.cluster.all(PodGroup)
    before = {pod.uid for pod in lab.cluster.all(Pod)}
    lab.deletes_nothing = False
    lab.restart("scheduler")
    assert at(lab, 200).phase == "Failed"
    assert before == {pod.uid for pod in lab.cluster.all(Pod)}


@pytest.mark.parametrize("what", ["controller", "scheduler"])
@pytest.mark.parametrize("pods", [1, 2])
def test_F5_a_restart_at_every_step_changes_nothing(what: str, pods: int) -> None:
    """After each single command of a component it is replaced by a new one, which has the objects alone."""

    def commands_with_a_restart_after(crash: int) -> int:
        lab = lab_of(failing(pods))
        lab.what, lab.crash = what, crash
        job = at(lab, 100)
        at_crash = f"{what}, command {crash}"
        assert (job.phase, job.reason) == ("Failed", "NotRestarted"), at_crash
        assert job.message.endswith(USED_UP), at_crash
        assert lab.command_counts["CreatePod"] == 3 * pods, at_crash
        return lab.count

    commands = commands_with_a_restart_after(0)
    assert commands > 5
    for crash in sample(range(1, commands + 1)):
        commands_with_a_restart_after(crash)
