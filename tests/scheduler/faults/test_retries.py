"""F5: what the scheduler alone answers when all pods of a vcjob have failed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.controller.machine import Controller
from ringwise.messages import events as ev
from ringwise.messages.commands import AnnotatePod, Command, DeletePod, Publish, SetJobStatus
from ringwise.messages.job_expansion import pod_group_of
from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.state.failures import max_restarts, policies_come_first
from ringwise.state.model import Pod
from ringwise.state.vcjob import Policy, VcJob
from tests.builders.values import job_of, seen, task_of
from tests.scheduler.rig import Rig

LABELS = {"fault-scheduling": "force", "fault-retry-times": "1"}
REFUSED = "ringwise.io/restart-rejected"


def job_with(pods: int = 2, policies: tuple[Policy, ...] = (), of_task: tuple[Policy, ...] = ()) -> VcJob:
    job = job_of(task_of("w", pods, chips=8, policies=of_task), policies=policies)
    return replace(job, labels=LABELS, phase="Running")


def failed_pods(job: VcJob, **more: Any) -> list[Pod]:
    group = replace(pod_group_of(job), phase="Inqueue")
    made = Controller().handle(seen(replace(job, phase=""), group), 0)
    pods = [command.pod for command in made if hasattr(command, "pod") and isinstance(command.pod, Pod)]
    return [
        replace(pod, node=f"n{number}", phase="Failed", exit_code=9, holds=tuple(range(8)), **more)
        for number, pod in enumerate(pods, 1)
    ]


def first_look(
    job: VcJob, pods: list[Pod], phase: str = "Inqueue", record: ev.LeaderRecordRead | None = None
) -> Rig:
    """A leader that finds the pods ended: it never saw the gang complete."""
    rig = Rig(3)
    group = replace(pod_group_of(job), phase=phase)
    rig.tell(job, group, *pods)
    if record is not None:
        rig.tell(record)
    rig.deaf = True
    rig.step()
    return rig


def deleted(commands: list[Command]) -> set[str]:
    return {one.uid for one in commands if isinstance(one, DeletePod)}


@pytest.mark.parametrize("pods", [1, 2])
@pytest.mark.parametrize("phase", ["Inqueue", "Running", "Completed"])
def test_F5_a_leader_that_finds_all_pods_failed_restarts_the_job(pods: int, phase: str) -> None:
    job = job_with(pods)
    failed = failed_pods(job)
    rig = first_look(job, failed, phase)
    assert deleted(rig.commands) == {pod.uid for pod in failed}


def test_F5_the_restart_is_recorded_with_the_uids_and_finished_without_counting_again() -> None:
    job = job_with()
    failed = failed_pods(job)
    rig = first_look(job, failed)
    kinds = [type(command) for command in rig.commands]
    assert kinds.index(Publish) < kinds.index(DeletePod)
    (handled,) = rig.entries("fault-jobs").values()
    assert set(handled["deletions"]) == {pod.uid for pod in failed}
    assert [budget["used"] for budget in rig.entries("retries").values()] == [1]
    # Only the first was deleted, and its replacement is there already.
    new = replace(failed[0], uid="new", phase="Pending", node=None, exit_code=None, holds=())
    other = first_look(job, [new, failed[1]], record=rig.last_record)
    assert deleted(other.commands) == {failed[1].uid}
    assert [one.used for one in other.machine._components.of(FaultHandler).retries.owners.values()] == [1]


@pytest.mark.parametrize("phase", ["Failed", "Aborted", "Aborting", "Completed", "Terminated"])
@pytest.mark.parametrize("has_group", [True, False])
def test_F5_nothing_of_a_finished_vcjob_is_deleted(phase: str, has_group: bool) -> None:
    job = job_with()
    failed = failed_pods(job)
    record = first_look(job, failed).last_record
    rig = Rig(3)
    over = replace(job, phase=phase)
    rig.tell(over, *failed, record)
    if has_group:
        rig.tell(replace(pod_group_of(job), phase="Running"))
    rig.step()
    assert deleted(rig.commands) == set()


MATCHING = [Policy("RestartJob", ("PodFailed",)), Policy("AbortJob", ("*",)), Policy("CompleteJob", (), 9)]
OTHERS = [
    Policy("RestartJob", ("PodEvicted",)),
    Policy("RestartJob", (), 8),
    Policy("Ignore", ("PodFailed",)),
]


@pytest.mark.parametrize("policy", [*MATCHING, *OTHERS])
@pytest.mark.parametrize("of_task", [True, False])
@pytest.mark.parametrize("failed", [1, 2])
def test_F5_a_policy_that_matches_comes_first(policy: Policy, of_task: bool, failed: int) -> None:
    job = job_with(2, () if of_task else (policy,), (policy,) if of_task else ())
    pods = failed_pods(job)
    if failed == 1:
        pods[1] = replace(pods[1], phase="Running", exit_code=None)
    rig = first_look(job, pods, "Running")
    expected = set() if policy in MATCHING else {pod.uid for pod in pods}
    assert deleted(rig.commands) == expected
    assert len(rig.machine._components.of(FaultHandler).retries.owners) == (policy in OTHERS)


def test_F5_the_first_policy_that_matches_decides_the_tasks_before_the_jobs() -> None:
    ignore, restart = Policy("Ignore", ("PodFailed",)), Policy("RestartJob", ("PodFailed",))
    for job, first in (
        (job_with(1, (restart,), (ignore,)), False),
        (job_with(1, (ignore,), (restart,)), True),
    ):
        assert policies_come_first(job, failed_pods(job)) is first


def test_F5_a_refusal_is_written_to_the_first_failed_pod_once_and_again_where_that_failed() -> None:
    job = job_with()
    failed = failed_pods(job)
    tables = first_look(job, failed).record
    # The restart that it counts was that of the pods before these.
    for pod in failed:
        tables = {key: text.replace(pod.uid, f"old-{pod.uid}") for key, text in tables.items()}
    rig = first_look(job, failed, "Running", ev.LeaderRecordRead(tables))
    assert deleted(rig.commands) == set()
    (told,) = [one for one in rig.commands if isinstance(one, AnnotatePod)]
    assert told.uid == failed[0].uid
    assert told.annotations == {REFUSED: "the one restart that fault-retry-times allows is used up"}
    rig.commands.clear()
    rig.tell(failed[0])
    rig.step()
    assert not any(isinstance(one, AnnotatePod) for one in rig.commands)
    rig.tell(ev.EvictFailed(failed[0].uid))
    rig.step()
    rig.step(5)
    assert [one.uid for one in rig.commands if isinstance(one, AnnotatePod)] == [failed[0].uid]


@given(
    mode=st.sampled_from(["", "off", "force", "grace", "external-force", "x"]),
    times=st.sampled_from([None, "0", "1", "100", "101", "-1", "many"]),
    elsewhere=st.booleans(),
    pods=st.integers(1, 2),
)
def test_F5_the_controller_waits_exactly_where_the_scheduler_answers(
    mode: str, times: str | None, elsewhere: bool, pods: int
) -> None:
    """Neither ends a job that is restarted, nor waits in vain for a whole minute."""
    labels = {"fault-scheduling": mode} if mode else {}
    if times is not None:
        labels["fault-retry-times"] = times
    annotations = {"ProcessRecoverStrategy": "x"} if elsewhere else {}
    job = replace(job_with(pods), labels=labels, annotations=annotations)
    failed = failed_pods(job)
    group = replace(pod_group_of(job), phase="Running")
    events: list[ev.Event] = [ev.VcJobSeen(job), ev.PodGroupSeen(group), *map(ev.PodSeen, failed)]
    statuses = [one for one in Controller().handle(events, 1) if isinstance(one, SetJobStatus)]
    waits = statuses[-1].phase == "Running"
    rig = first_look(job, failed, "Running")
    answered = deleted(rig.commands) or any(
        isinstance(one, AnnotatePod) and REFUSED in one.annotations for one in rig.commands
    )
    assert waits == (max_restarts(labels, annotations) > 0)
    assert waits == bool(deleted(rig.commands))
    assert bool(answered) >= waits
