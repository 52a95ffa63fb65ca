"""F5: pods that kubelet rejected at admission never ran: the controller makes them again, a few times."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from ringwise.controller.job_record import JobRecord
from ringwise.controller.machine import Controller
from ringwise.messages.commands import Command, CreatePod, DeletePod, RecordVcJobEvent, SetJobStatus
from ringwise.messages.events import PodGone, PodGroupGone
from ringwise.messages.job_expansion import pod_group_of, pods_of
from ringwise.state.failures import MAX_REJECTIONS, is_made_again, pause_after
from ringwise.state.model import Pod
from ringwise.state.vcjob import Policy, VcJob
from tests.builders.values import SECOND, job_of, seen, task_of
from tests.controller.controller_lab import FOREVER
from tests.controller.test_restarts import Crashing, lab_of, used
from tests.embed.faulty import reject_next_pods
from tests.examples import sample

REJECTED = "UnexpectedAdmissionError"
RETRIES = {"fault-scheduling": "force", "fault-retry-times": "1"}
#: Times from the first start until the sixth rejection: the pauses, and each time a start.
ALL_PAUSES = sum(pause_after(times) for times in range(1, MAX_REJECTIONS + 1)) // SECOND


def job_with(pods: int = 1, policies: tuple[Policy, ...] = (), labels: dict[str, str] | None = None) -> VcJob:
    job = job_of(task_of("w", pods, chips=8, annotations=FOREVER), policies=policies)
    return replace(job, labels=RETRIES if labels is None else labels)


def run(lab: Crashing, seconds: float) -> VcJob:
    lab.run_until(int(seconds * SECOND))
    job = lab.cluster.get(VcJob, "default/train")
    assert job is not None
    return job


def reject_all(lab: Crashing, times: int) -> None:
    for node in range(4):
        reject_next_pods(lab.cluster, f"node-{node}", times)


POLICY = Policy("AbortJob", ("PodFailed", "PodEvicted"))


@pytest.mark.parametrize("pods", [1, 2])
def test_F5_a_rejected_pod_is_made_again_without_policy_and_retry(pods: int) -> None:
    lab = lab_of(job_with(pods, (POLICY,)))
    for node in range(pods):
        reject_next_pods(lab.cluster, f"node-{node}")
    job = run(lab, 1)
    assert job.phase == "Pending"
    assert job.counts["Pending"] == pods
    assert job.counts["Failed"] == 0
    job = run(lab, 20)
    assert (job.phase, job.retry_count, used(lab)) == ("Running", 0, 0)
    assert {pod.phase for pod in lab.cluster.all(Pod)} == {"Running"}
    assert job.rejections == {}


def test_F5_at_most_five_times_then_it_counts_as_failed() -> None:
    """Only then the retry is used; the pods of that restart are new, and start again with none."""
    lab = lab_of(job_with())
    reject_all(lab, 100)
    seen: dict[str, int] = {}
    for second in range(ALL_PAUSES + 30):
        run(lab, second)
        seen.update((pod.uid, second) for pod in lab.cluster.all(Pod) if pod.uid not in seen)
        if used(lab):
            break
    assert len(seen) - 1 == 1 + MAX_REJECTIONS
    times = list(seen.values())
    gaps = [after - before for before, after in pairwise(times[:-1])]
    assert gaps == sorted(gaps)
    assert gaps[-1] > gaps[0]


def test_F5_a_rejected_pod_that_counts_as_failed_has_its_policy() -> None:
    lab = lab_of(job_with(policies=(POLICY,)))
    reject_all(lab, 100)
    assert run(lab, ALL_PAUSES).phase == "Pending"
    job = run(lab, ALL_PAUSES + 30)
    assert (job.phase, job.reason) == ("Aborted", "PodFailed")
    assert used(lab) == 0


@pytest.mark.parametrize("what", ["controller", "scheduler"])
def test_F5_a_restart_at_every_step_makes_it_no_more_often(what: str) -> None:
    def commands_with_a_restart_after(crash: int) -> int:
        lab = lab_of(job_with(policies=(POLICY,), labels={}))
        lab.what, lab.crash = what, crash
        reject_all(lab, 100)
        job = run(lab, 3 * ALL_PAUSES)
        assert (job.phase, job.reason) == ("Aborted", "PodFailed"), f"{what}, command {crash}"
        assert lab.command_counts["CreatePod"] == 1 + MAX_REJECTIONS, f"{what}, command {crash}"
        return lab.count

    commands = commands_with_a_restart_after(0)
    assert commands > 5
    for crash in sample(range(1, commands + 1)):
        commands_with_a_restart_after(crash)


def controller_with(job: VcJob, *pods: Pod) -> tuple[Controller, list[Command]]:
    controller = Controller()
    group = replace(pod_group_of(job), phase="Inqueue")
    return controller, controller.handle(seen(job, group, *pods), SECOND)


def rejected(job: VcJob, before: int = 0) -> Pod:
    made = Controller()
    group = replace(pod_group_of(job), phase="Inqueue")
    (create,) = [c for c in made.handle(seen(job, group), 0) if isinstance(c, CreatePod)]
    annotations = {**create.pod.annotations, "ringwise.io/kubelet-rejections": str(before)}
    return replace(create.pod, phase="Failed", node="node-3", rejected=REJECTED, annotations=annotations)


def test_F5_the_event_says_what_happens_and_it_is_told_once() -> None:
    job = replace(job_with(), phase="Running")
    pod = rejected(job, 1)
    controller, commands = controller_with(job, pod)
    (told,) = [command for command in commands if isinstance(command, RecordVcJobEvent)]
    assert (told.reason, told.warning) == ("PodRejected", True)
    assert told.message == (
        "kubelet of node-3 rejected pod train-w-0 (UnexpectedAdmissionError): it never ran, and is made "
        "again in 4s (2 of 5); this uses no retry and no policy"
    )
    assert not any(isinstance(command, DeletePod) for command in commands)
    later = controller.handle(seen(pod), 2 * SECOND)
    assert not any(isinstance(command, RecordVcJobEvent) for command in later)


def test_F5_the_number_is_in_the_status_before_the_deletion_and_on_the_next_pod() -> None:
    job = replace(job_with(), phase="Pending")
    pod = rejected(job, 2)
    controller, _ = controller_with(job, pod)
    commands = controller.handle([], SECOND + pause_after(3))
    kinds = [type(command).__name__ for command in commands]
    assert kinds.index("SetJobStatus") < kinds.index("DeletePod")
    status = next(command for command in commands if isinstance(command, SetJobStatus))
    assert status.rejections == {"train-w-0": 3}
    after = controller.handle([PodGone(pod.uid)], 20 * SECOND)
    (create,) = [command for command in after if isinstance(command, CreatePod)]
    assert create.pod.annotations["ringwise.io/kubelet-rejections"] == "3"


def test_F5_a_job_that_is_aborted_does_not_wait_for_its_rejected_pods() -> None:
    job = replace(job_with(), phase="Aborting")
    controller, commands = controller_with(job, rejected(replace(job, phase="Running")))
    status = next(command for command in commands if isinstance(command, SetJobStatus))
    assert status.phase == "Aborted"
    controller.handle([PodGroupGone(pod_group_of(job).key)], 2 * SECOND)
    assert controller.next_deadline() is None


@pytest.mark.parametrize(
    ("word", "before", "again"),
    [
        ("", "0", False),
        (REJECTED, "", True),
        (REJECTED, "4", True),
        (REJECTED, "5", False),
        (REJECTED, "x", True),
    ],
)
def test_F5_when_a_pod_has_not_failed(word: str, before: str, again: bool) -> None:
    pod = rejected(replace(job_with(), phase="Running"))
    pod = replace(pod, rejected=word, annotations={"ringwise.io/kubelet-rejections": before})
    assert is_made_again(pod) is again


def test_F5_a_pod_that_is_being_made_again_was_not_evicted_while_no_controller_ran() -> None:
    """Its creation was counted in the status, and failed."""
    job = replace(job_with(), phase="Running", counts={"Pending": 1}, rejections={"train-w-0": 2})
    record = JobRecord.of(job, {})
    record.note_losses(SECOND)
    assert record.evicted == {}
    record = JobRecord.of(replace(job, rejections={}), {})
    record.note_losses(SECOND)
    assert record.evicted == {"train-w-0": ("w", SECOND)}


def test_F5_beside_a_pod_that_is_being_made_again_one_that_never_existed_was_not_evicted() -> None:
    counts = {"Running": 1, "Pending": 1}
    job = replace(job_with(3), phase="Running", counts=counts, rejections={"train-w-0": 2})
    running = replace(pods_of(job)[1], phase="Running")
    record = JobRecord.of(job, {running.uid: running})
    record.note_losses(SECOND)
    assert record.evicted == {}


@pytest.mark.parametrize("before", [0, 1, 4])
def test_F5_the_deletion_of_a_rejected_pod_does_not_reset_the_number(before: int) -> None:
    """Its last events come after the number was noted; a template may have the annotation, too."""
    job = replace(job_with(), phase="Pending")
    pod = rejected(job, before)
    controller, _ = controller_with(job, pod)
    commands = controller.handle([], 60 * SECOND)
    assert any(isinstance(command, DeletePod) for command in commands)
    controller.handle(seen(replace(pod, deleting=True)), 61 * SECOND)
    (create,) = [
        command
        for command in controller.handle([PodGone(pod.uid)], 62 * SECOND)
        if isinstance(command, CreatePod)
    ]
    assert create.pod.annotations["ringwise.io/kubelet-rejections"] == str(before + 1)
