"""When a vcjob changes its phase: one row for each rule."""

from __future__ import annotations

import pytest

from ringwise.controller.job_record import Counts, JobRecord
from ringwise.controller.phases import is_allowed, must_delete, next_phase, start_action
from ringwise.messages.job_expansion import pods_of
from ringwise.state.failures import policy_for
from ringwise.state.vcjob import Policy, VcJob
from tests.builders.values import job_of, task_of

TWO = job_of(task_of("w", 2))
#: Four pods, two of them enough.
LOOSE = job_of(task_of("w", 4, min_available=2))
TASKS = job_of(task_of("m", 1), task_of("w", 2, min_available=1))
SOME = job_of(task_of("w", 3, min_available=1), min_success=2)
#: The job asks for less than its tasks together, so the tasks' own minimums do not count.
LESS = job_of(task_of("m", 1), task_of("w", 2), min_available=2)

ROWS = [
    # (sentence, job, phase, retries, {task: {phase: pods}}, next phase)
    ("a new job is pending", TWO, "", 0, "", "Pending"),
    (
        "Pending -> Running when minAvailable <= running + succeeded + failed",
        TWO,
        "Pending",
        0,
        "2 w Running",
        "Running",
    ),
    ("succeeded and failed count as well", TWO, "Pending", 0, "1 w Succeeded, 1 w Failed", "Running"),
    ("pending pods do not", TWO, "Pending", 0, "1 w Running, 1 w Pending", None),
    ("terminating pods do not", TWO, "Pending", 0, "1 w Running, 1 w Terminating", None),
    ("Running stays while pods run", TWO, "Running", 0, "1 w Running, 1 w Succeeded", None),
    (
        "Running -> Completed when minSuccess is reached",
        SOME,
        "Running",
        0,
        "1 w Running, 2 w Succeeded",
        "Completed",
    ),
    ("below minSuccess it goes on", SOME, "Running", 0, "2 w Running, 1 w Succeeded", None),
    ("all finished below minSuccess is a failure", SOME, "Running", 0, "2 w Failed, 1 w Succeeded", "Failed"),
    ("all finished and succeeded >= minAvailable", TWO, "Running", 0, "2 w Succeeded", "Completed"),
    ("enough successes make up for failures", LOOSE, "Running", 0, "2 w Succeeded, 2 w Failed", "Completed"),
    ("Failed otherwise when all finished", LOOSE, "Running", 0, "1 w Succeeded, 3 w Failed", "Failed"),
    (
        "each task with minAvailable has that many successes",
        TASKS,
        "Running",
        0,
        "1 m Failed, 2 w Succeeded",
        "Failed",
    ),
    ("and then it is complete", TASKS, "Running", 0, "1 m Succeeded, 1 w Succeeded, 1 w Failed", "Completed"),
    (
        "only if job.minAvailable >= sum of task minimums",
        LESS,
        "Running",
        0,
        "1 m Failed, 2 w Succeeded",
        "Completed",
    ),
    (
        "-> Pending again if pending pods > replicas - minAvailable",
        LOOSE,
        "Running",
        0,
        "1 w Running, 3 w Pending",
        "Pending",
    ),
    ("not while enough run", LOOSE, "Running", 0, "2 w Running, 2 w Pending", None),
    ("Restarting -> Failed if retryCount >= maxRetry", TWO, "Restarting", 3, "2 w Terminating", "Failed"),
    ("else -> Pending once total - terminating >= minAvailable", TWO, "Restarting", 2, "", "Pending"),
    ("not before", TWO, "Restarting", 2, "1 w Terminating", None),
    ("two of four may still be terminating", LOOSE, "Restarting", 1, "2 w Terminating", "Pending"),
    ("Aborting -> Aborted when nothing is alive", TWO, "Aborting", 0, "1 w Succeeded, 1 w Failed", "Aborted"),
    ("not while something terminates", TWO, "Aborting", 0, "1 w Terminating", None),
    ("Terminating -> Terminated", TWO, "Terminating", 0, "", "Terminated"),
    ("not while something runs", TWO, "Terminating", 0, "1 w Running", None),
    ("Completing -> Completed", TWO, "Completing", 0, "2 w Succeeded", "Completed"),
    ("ends are ends", TWO, "Completed", 0, "2 w Running", None),
    ("ends are ends", TWO, "Failed", 3, "2 w Running", None),
    ("ends are ends", TWO, "Aborted", 0, "", None),
    ("ends are ends", TWO, "Terminated", 0, "", None),
]


@pytest.mark.parametrize(("sentence", "job", "phase", "retries", "pods", "following"), ROWS)
def test_phases(
    sentence: str,
    job: VcJob,
    phase: str,
    retries: int,
    pods: str,
    following: str | None,
) -> None:
    counts = Counts()
    for entry in filter(None, pods.split(", ")):
        number, task, pod_phase = entry.split()
        counts.add(task, pod_phase, int(number))
    found = next_phase(JobRecord(job, {}, phase=phase, retries=retries), counts)
    assert (found and found[0]) == following, sentence


@pytest.mark.parametrize(
    ("action", "phases"),
    [
        ("RestartJob", {"Pending", "Running"}),
        ("RestartTask", {"Pending", "Running"}),
        ("RestartPod", {"Pending", "Running"}),
        ("AbortJob", {"Pending", "Running", "Restarting"}),
        ("TerminateJob", {"Pending", "Running", "Restarting"}),
        ("CompleteJob", {"Pending", "Running", "Restarting"}),
        ("ResumeJob", {"Aborting", "Aborted"}),
        ("Dance", set()),
    ],
)
def test_in_which_phases_an_action_has_an_effect(action: str, phases: set[str]) -> None:
    every = "Pending Aborting Aborted Running Restarting Completing Completed Terminating Terminated Failed"
    assert {phase for phase in every.split() if is_allowed(phase, action)} == phases


@pytest.mark.parametrize(
    ("action", "retries", "following", "kept"),
    [
        # Kill keeps Succeeded/Failed pods for abort/complete/terminate and on the last retry
        # (retryCount >= maxRetry - 1); RestartJob removes all.
        ("RestartJob", 0, "Restarting", set()),
        ("RestartJob", 1, "Restarting", set()),
        ("RestartJob", 2, "Restarting", {"Succeeded", "Failed"}),
        ("AbortJob", 0, "Aborting", {"Succeeded", "Failed"}),
        ("TerminateJob", 0, "Terminating", {"Succeeded", "Failed"}),
        ("CompleteJob", 0, "Completing", {"Succeeded", "Failed"}),
        ("RestartPod", 0, "Restarting", {"Pending", "Running", "Succeeded", "Failed"}),
    ],
)
def test_what_an_action_keeps(action: str, retries: int, following: str, kept: set[str]) -> None:
    job = job_of(task_of("w", 4))
    record = JobRecord(job, {}, phase="Running", retries=retries)
    start_action(record, action, 7, "why", "because")
    assert (record.phase, record.since, record.reason) == (following, 7, "why")
    assert record.retries == retries + (1 if following == "Restarting" else 0)
    # A whole-job kill increments the version; a partial one does not.
    assert record.version == (0 if action == "RestartPod" else 1)
    pods = pods_of(job)
    for pod, phase in zip(pods, ("Pending", "Running", "Succeeded", "Failed"), strict=True):
        pod.phase = phase
    assert {pod.phase for pod in pods if not must_delete(record, pod)} == kept


ABORT = Policy("AbortJob", ("PodFailed",))
RESTART = Policy("RestartJob", ("PodEvicted", "PodFailed"))
ANY = Policy("TerminateJob", ("*",))
CODE = Policy("CompleteJob", (), 137)


@pytest.mark.parametrize(
    ("sentence", "event", "code", "of_task", "of_job", "action"),
    [
        (
            "task-level policies are tried before job-level ones",
            "PodFailed",
            1,
            [ABORT],
            [RESTART],
            "AbortJob",
        ),
        (
            "the job's where the task has none that matches",
            "PodEvicted",
            None,
            [ABORT],
            [RESTART],
            "RestartJob",
        ),
        ("the first match wins", "PodFailed", 1, [], [RESTART, ABORT], "RestartJob"),
        ("an asterisk is any event", "TaskCompleted", None, [], [ABORT, ANY], "TerminateJob"),
        ("an exit code matches a failed pod", "PodFailed", 137, [], [CODE, ABORT], "CompleteJob"),
        ("no other exit code", "PodFailed", 1, [], [CODE, ABORT], "AbortJob"),
        ("and no other event", "PodEvicted", 137, [], [CODE], None),
        ("nothing matches: only sync", "Unknown", None, [ABORT], [RESTART], None),
    ],
)
def test_which_policy_applies(
    sentence: str,
    event: str,
    code: int | None,
    of_task: list[Policy],
    of_job: list[Policy],
    action: str | None,
) -> None:
    task = task_of("w", 1, policies=of_task)
    found = policy_for(event, code, task, tuple(of_job))
    assert (found and found.action) == action, sentence


@pytest.mark.parametrize(
    ("reason", "following"), [("CommandIssued", "Pending"), ("PodFailed", "Failed"), ("", "Failed")]
)
def test_a_restart_that_somebody_requested_is_no_attempt(reason: str, following: str) -> None:
    """Also where the counter is at its end: an earlier controller counted such restarts."""
    record = JobRecord(TWO, {}, phase="Restarting", retries=3, reason=reason)
    found = next_phase(record, Counts())
    assert found is not None
    assert found[0] == following
