"""Late, lost and foreign events, given to the controller directly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringwise.controller.job_record import RETRY_AFTER, later
from ringwise.controller.machine import Controller
from ringwise.messages.commands import (
    Command,
    CreateGroup,
    CreatePod,
    DeleteGroup,
    DeletePod,
    RecordVcJobEvent,
    SetJobStatus,
)
from ringwise.messages.events import (
    JobCommand,
    PodGone,
    PodGroupGone,
    VcJobGone,
)
from ringwise.messages.job_expansion import pod_group_of
from ringwise.state.model import Owner, Pod, PriorityClass
from ringwise.state.vcjob import Policy, VcJob
from ringwise.wellknown import JOB_CONTROLLER, JOB_NAME, JOB_VERSION
from tests.builders.values import job_of, pod, seen, task_of
from tests.scheduler.rig import deleted_pods

RESTART_EVICTED = Policy("RestartJob", ("PodEvicted",))


def status_in(commands: list[Command]) -> SetJobStatus:
    (status,) = [command for command in commands if isinstance(command, SetJobStatus)]
    return status


def created_in(commands: list[Command]) -> list[Pod]:
    return [command.pod for command in commands if isinstance(command, CreatePod)]


def with_pods(job: VcJob) -> tuple[Controller, list[Pod]]:
    """A controller that has just requested the job's pods."""
    controller = Controller()
    group = pod_group_of(job)
    group.phase = "Inqueue"
    commands = controller.handle(seen(job, group), 1)
    return controller, created_in(commands)


@pytest.mark.parametrize(
    ("known", "seen", "kept"),
    [
        (("Pending", False), ("Running", False), "seen"),
        (("Running", False), ("Pending", False), "known"),
        (("Failed", False), ("Running", False), "known"),
        (("Succeeded", False), ("Pending", False), "known"),
        (("Running", True), ("Running", False), "known"),
        (("Running", True), ("Failed", True), "seen"),
        (("Running", False), ("Unknown", False), "seen"),
        (("Unknown", False), ("Running", False), "seen"),
    ],
)
def test_a_late_event_does_not_set_a_pod_back(
    known: tuple[str, bool], seen: tuple[str, bool], kept: str
) -> None:
    before = pod("p", phase=known[0], deleting=known[1])
    after = pod("p", phase=seen[0], deleting=seen[1])
    assert later(before, after) is (after if kept == "seen" else before)
    assert later(None, after) is after


def test_a_late_event_does_not_bring_back_a_deleted_pod() -> None:
    controller, pods = with_pods(job_of())
    controller.handle(seen(*pods), 2)
    made = created_in(controller.handle(seen(PodGone(pods[0].uid), pods[0]), 3))
    assert [pod.name for pod in made] == [pods[0].name]


def test_a_pod_first_seen_terminating_was_evicted() -> None:
    controller, pods = with_pods(job_of(policies=[RESTART_EVICTED]))
    commands = controller.handle(seen(replace(pods[0], deleting=True), pods[1]), 2)
    assert (status_in(commands).phase, status_in(commands).reason) == ("Restarting", "PodEvicted")
    assert [command.uid for command in commands if isinstance(command, DeletePod)] == [pods[1].uid]


def test_a_pod_gone_without_a_deletion_timestamp_was_evicted() -> None:
    controller, pods = with_pods(job_of(policies=[RESTART_EVICTED]))
    controller.handle(seen(*pods), 2)
    assert status_in(controller.handle([PodGone(pods[1].uid)], 3)).phase == "Restarting"


@pytest.mark.parametrize(("attempt", "restarts"), [("1", 1), ("0", 0)])
def test_an_eviction_counts_if_the_new_pod_already_runs_and_not_in_an_earlier_attempt(
    attempt: str, restarts: int
) -> None:
    controller, pods = with_pods(job_of(policies=[RESTART_EVICTED], version=1))
    old, other = (replace(pod, annotations={**pod.annotations, JOB_VERSION: "1"}) for pod in pods)
    controller.handle(seen(replace(old, phase="Running"), replace(other, phase="Running")), 2)
    lost = replace(old, uid="lost", deleting=True, annotations={**old.annotations, JOB_VERSION: attempt})
    gone = controller.handle(seen(lost, PodGone("lost")), 3)
    assert sum(one.retries for one in gone if isinstance(one, SetJobStatus)) == restarts


def test_pods_that_the_controller_deletes_are_not_evicted() -> None:
    job = job_of(task_of(replicas=2, min_available=1), policies=[RESTART_EVICTED])
    controller, pods = with_pods(job)
    controller.handle(seen(*pods), 2)
    smaller = replace(job, tasks=(replace(job.tasks[0], replicas=1),))
    commands = controller.handle(seen(smaller), 3)
    assert deleted_pods(commands) == [pods[1].name]
    gone = controller.handle(seen(replace(pods[1], deleting=True), PodGone(pods[1].uid)), 4)
    assert (status_in(gone).phase, status_in(gone).retries) == ("Pending", 0)


@pytest.mark.parametrize(("counts", "retries"), [({"Running": 1, "Terminating": 1}, 0), ({"Running": 2}, 1)])
def test_the_next_controller_tells_pods_that_were_being_deleted_from_lost_ones(
    counts: dict[str, int], retries: int
) -> None:
    """Its predecessor deleted the second pod, or it was evicted while no controller ran."""
    job = job_of(policies=[RESTART_EVICTED])
    _, pods = with_pods(job)
    job = replace(job, phase="Running", counts=counts)
    group = replace(pod_group_of(job), phase="Running")
    first = Controller().handle(seen(job, group, replace(pods[0], phase="Running", node="n1")), 2)
    assert max([one.retries for one in first if isinstance(one, SetJobStatus)], default=0) == retries


def test_pods_requested_before_a_restart_are_not_counted_after_it() -> None:
    controller, pods = with_pods(job_of())
    restarted = status_in(controller.handle([JobCommand("default/train", "RestartJob")], 2))
    assert (restarted.phase, restarted.version, restarted.counts["Pending"]) == ("Restarting", 1, 0)
    # The phase was reported, and time alone leads to the next one.
    assert controller.next_deadline() == 2
    assert status_in(controller.handle([], 2)).phase == "Pending"
    # One that comes all the same belongs to the old attempt and goes.
    late = controller.handle(seen(pods[0]), 3)
    assert [command.uid for command in late if isinstance(command, DeletePod)] == [pods[0].uid]


@pytest.mark.parametrize(("action", "phase"), [("RestartJob", "Pending"), ("AbortJob", "Aborted")])
def test_the_deletion_of_a_pod_group_is_requested_until_it_is_gone(action: str, phase: str) -> None:
    """It may fail for good, for example while the API server is overloaded."""
    job = job_of()
    controller, _ = with_pods(job)
    deletion = DeleteGroup(pod_group_of(job).key)
    assert deletion in controller.handle([JobCommand("default/train", action)], 2)
    assert status_in(controller.handle([], 2)).phase == phase
    assert controller.handle([], 2 + RETRY_AFTER - 1) == []
    assert controller.next_deadline() == 2 + RETRY_AFTER
    assert controller.handle([], 2 + RETRY_AFTER) == [deletion]
    made = controller.handle([PodGroupGone(deletion.key)], 3 + RETRY_AFTER)
    assert [type(one) for one in made] == ([CreateGroup] if phase == "Pending" else [])


def test_actions_are_events_on_the_job() -> None:
    controller, _ = with_pods(job_of())
    told = [
        (command.reason, command.message.split(",")[0].split(":")[0])
        for command in controller.handle([JobCommand("default/train", "AbortJob")], 2)
        if isinstance(command, RecordVcJobEvent)
    ]
    assert told == [
        ("CommandIssued", "Start to execute command AbortJob"),
        ("ExecuteAction", "Start to execute action AbortJob"),
    ]


def test_ignored_arguments_of_job_plugins_are_told_once() -> None:
    job = job_of(plugins={"ssh": ("--no-root",), "svc": tuple(f"--x{number}" for number in range(9))})
    controller = Controller()
    (told,) = [one for one in controller.handle(seen(job), 1) if isinstance(one, RecordVcJobEvent)]
    assert (told.key, told.warning) == ("default/train", True)
    assert told.message.startswith("job plugin ssh has no argument --no-root")
    assert told.message.endswith("; and 5 more")
    said = controller.handle(seen(replace(job, phase="Pending")), 2)
    # Nor by a controller that starts later.
    said += Controller().handle(seen(replace(job, phase="Pending")), 3)
    assert [one for one in said if isinstance(one, RecordVcJobEvent)] == []


def test_a_pod_group_keeps_the_queue_that_a_webhook_gave_it() -> None:
    """Its job names none; the namespace of both does."""
    job = job_of()
    controller, group = Controller(), replace(pod_group_of(job), queue="of-the-namespace", phase="Inqueue")
    controller.handle(seen(job, group), 1)
    larger = replace(job, tasks=(replace(job.tasks[0], replicas=3),), min_available=3)
    for one in (controller, Controller()):
        said = one.handle(seen(larger, group), 2)
        (changed,) = [command.group for command in said if isinstance(command, CreateGroup)]
        assert (changed.queue, changed.min_member) == ("of-the-namespace", 3)


def test_a_job_that_is_moved_takes_its_pod_group_along() -> None:
    for before, after in (("closed", "other"), ("closed", "default")):
        job = job_of(queue=before)
        controller, group = Controller(), replace(pod_group_of(job), phase="Inqueue")
        controller.handle(seen(job, group), 1)
        said = controller.handle(seen(replace(job, queue=after)), 2)
        assert [command.group.queue for command in said if isinstance(command, CreateGroup)] == [after]


def test_chips_that_a_job_holds_stay_in_the_queue_that_gave_them() -> None:
    """A job whose pods are placed and do not start waits as its phase says; it must not exceed a limit so."""
    job = job_of(queue="small")
    controller, pods = with_pods(job)
    placed = [replace(pod, node="node-1") for pod in pods]
    group = replace(pod_group_of(job), phase="Inqueue")
    changed = replace(job, queue="full")
    said = controller.handle(seen(group, *placed, changed), 2)
    assert "full" not in [command.group.queue for command in said if isinstance(command, CreateGroup)]
    said = controller.handle([PodGone(pod.uid) for pod in placed], 3)
    assert [command.group.queue for command in said if isinstance(command, CreateGroup)] == ["full"]


@pytest.mark.parametrize("named", ["small", "default"])
def test_the_pod_group_of_a_running_job_gets_its_queue_back(named: str) -> None:
    """Whoever names another queue in the PodGroup does not move the job."""
    job = job_of(queue=named)
    controller, pods = with_pods(job)
    placed = [replace(pod, node="node-1", phase="Running") for pod in pods]
    group = replace(pod_group_of(job), phase="Running", queue="small", labels={JOB_CONTROLLER: "true"})
    assert _queues_written(controller.handle(seen(group, *placed), 2)) == []
    moved = replace(group, queue="elsewhere")
    assert _queues_written(controller.handle(seen(moved), 3)) == ["small"]
    # The answer, and again.
    assert _queues_written(controller.handle(seen(group), 4)) == []
    assert _queues_written(controller.handle(seen(moved), 5)) == ["small"]
    # Deleted.
    assert _queues_written(controller.handle([PodGroupGone(group.key)], 6)) == ["small"]
    # A job that has no node any more keeps what was written last.
    said = controller.handle(seen(group, *[PodGone(pod.uid) for pod in placed]), 7)
    said += controller.handle(seen(moved), 8)
    assert _queues_written(said) == []


def _queues_written(said: list[Command]) -> list[str]:
    return [command.group.queue for command in said if isinstance(command, CreateGroup)]


def test_a_lost_status_is_written_again() -> None:
    controller, _ = with_pods(job_of())
    stale = job_of()
    said = status_in(controller.handle(seen(stale), 2))
    assert (said.phase, said.counts["Pending"]) == ("Pending", 2)
    current = replace(stale, phase=said.phase, since=said.since, counts=dict(said.counts))
    assert controller.handle(seen(current), 3) == []


def test_pods_of_others_are_left_alone() -> None:
    controller, pods = with_pods(job_of())
    plain = pod("plain", uid="a")
    # The name of our job, but another job of that name that was deleted before.
    former = replace(pods[0], uid="b", owner=Owner("Job", "train", "older"))
    commands = controller.handle(seen(plain, former), 2)
    assert [command for command in commands if isinstance(command, DeletePod)] == []
    # It had the name of a pod we asked for, which is asked for again when the name is free.
    freed = controller.handle([PodGone("a"), PodGone("b"), PodGone("never seen")], 3)
    assert [pod.name for pod in created_in(freed)] == [pods[0].name]


@pytest.mark.parametrize("edited", [{}, {JOB_NAME: "other"}])
def test_a_pod_whose_annotation_was_edited_stays_with_its_job(edited: dict[str, str]) -> None:
    controller, pods = with_pods(job_of())
    running = [replace(pod, phase="Running", node="n1") for pod in pods]
    assert status_in(controller.handle(seen(*running), 2)).counts["Running"] == 2
    others = {key: value for key, value in pods[0].annotations.items() if key != JOB_NAME}
    ended = [replace(pod, phase="Succeeded", annotations={**others, **edited}) for pod in running]
    done = status_in(controller.handle(seen(*ended), 3))
    assert (done.phase, done.counts["Succeeded"]) == ("Completed", 2)
    gone = status_in(controller.handle([PodGone(pod.uid) for pod in pods], 4))
    assert sum(gone.counts.values()) == 0


def test_a_job_that_is_gone_is_forgotten() -> None:
    controller, pods = with_pods(job_of(ttl_seconds=1))
    assert controller.handle([VcJobGone("default/train"), VcJobGone("default/train")], 2) == []
    assert controller.handle(seen(pods[0], PodGone(pods[0].uid)), 3) == []
    assert controller.next_deadline() is None


def test_a_job_being_deleted_gets_nothing_new() -> None:
    controller = Controller()
    assert controller.handle(seen(replace(job_of(), deleting=True)), 1) == []


def test_priorities_decide_whose_resources_the_smallest_gang_counts() -> None:
    low, high = task_of("low", 1, chips=1), task_of("high", 1, chips=8)
    named = replace(high, template=replace(high.template, priority_class="urgent"))
    job = job_of(low, named, min_available=1)
    for value, chips in ((10, 8), (-10, 1)):
        commands = Controller().handle(seen(PriorityClass("urgent", value), job), 1)
        (group,) = [command.group for command in commands if isinstance(command, CreateGroup)]
        assert group.min_resources["huawei.com/Ascend910"] == chips
