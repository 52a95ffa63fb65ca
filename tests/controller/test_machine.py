"""Vcjobs from creation to end, in a lab with a scheduler that takes the first node that fits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import pytest

from ringwise.controller.job_record import Counts, JobRecord
from ringwise.controller.machine import Controller
from ringwise.durations import SECOND
from ringwise.messages.commands import (
    Command,
    CreateGroup,
    CreatePod,
    DeleteJob,
    DeletePod,
    Publish,
    SetAside,
    SetJobStatus,
)
from ringwise.messages.events import (
    Event,
    JobCommand,
    JobHeldUp,
    PodGone,
    PodGroupSeen,
    PodSeen,
    VcJobGone,
    VcJobSeen,
)
from ringwise.messages.job_expansion import pod_group_of
from ringwise.state.model import Pod, PodGroup
from ringwise.state.vcjob import Partitions, Policy, VcJob
from ringwise.wellknown import PARTITION_ID
from tests.builders.values import job_of, seen, task_of
from tests.controller.controller_lab import FAILS, FOREVER, TEN, at, job_in, lab_with, pods_in
from tests.embed.drains import drain
from tests.embed.faulty import update


def of_kind(commands: list[Command], *kinds: type) -> list[Command]:
    return [command for command in commands if isinstance(command, kinds)]


# -- the ordinary life ------------------------------------------------------------------


def test_a_job_runs_and_completes_and_its_group_is_deleted() -> None:
    lab = lab_with(job_of(task_of(annotations=TEN)))
    assert at(lab, 0.5).phase == "Pending"
    running = at(lab, 2)
    assert (running.phase, running.counts["Running"], running.since) == ("Running", 2, SECOND)
    done = at(lab, 11)
    assert (done.phase, done.since) == ("Completed", 11 * SECOND)
    assert done.message == "2 of 2 pods succeeded"
    assert pods_in(lab) == {"train-worker-0": "Succeeded", "train-worker-1": "Succeeded"}
    assert lab.cluster.all(PodGroup) == []
    assert lab.next_deadline() is None


def test_pods_are_created_only_when_the_group_is_neither_empty_nor_pending() -> None:
    controller = Controller()
    job = job_of()
    first = controller.handle(seen(job), 5)
    assert [group.group.min_member for group in first if isinstance(group, CreateGroup)] == [2]
    group = pod_group_of(job)
    for phase in ("", "Pending"):
        group.phase = phase
        assert of_kind(controller.handle(seen(group), 6), CreatePod) == []
    group.phase = "Inqueue"
    made = controller.handle(seen(group), 7)
    assert [made.pod.name for made in made if isinstance(made, CreatePod)] == [
        "train-worker-0",
        "train-worker-1",
    ]
    # The status counts them from then on; the same events again change nothing.
    (status,) = of_kind(made, SetJobStatus)
    assert isinstance(status, SetJobStatus)
    assert status.counts["Pending"] == 2
    assert status.tasks == {"worker": {"Pending": 2}}
    assert controller.handle(seen(group, group), 8) == []


def test_a_request_without_effect_is_repeated() -> None:
    controller = Controller()
    job = job_of()
    assert of_kind(controller.handle(seen(job), 0), CreateGroup)
    due = controller.next_deadline()
    assert due == 10 * SECOND
    assert of_kind(controller.handle([], due), CreateGroup)
    group = pod_group_of(job)
    group.phase = "Inqueue"
    assert len(of_kind(controller.handle(seen(group), due), CreatePod)) == 2
    assert controller.next_deadline() == 20 * SECOND
    made = controller.handle([], 20 * SECOND)
    pods = [replace(one.pod, uid=one.pod.name) for one in made if isinstance(one, CreatePod)]
    assert len(pods) == 2
    controller.handle(seen(*pods), 21 * SECOND)
    fewer = replace(job, tasks=(replace(job.tasks[0], replicas=1, min_available=1),), min_available=1)
    for now, deleted in ((22, 1), (31, 0), (32, 1), (41, 0), (42, 1)):
        commands = controller.handle(seen(fewer) if now == 22 else [], now * SECOND)
        assert len(of_kind(commands, DeletePod)) == deleted, now
        assert controller.next_deadline() == (32 if now < 32 else 42 if now < 42 else 52) * SECOND


def test_a_job_that_cannot_run_stays_pending_with_the_reason_and_gets_nothing() -> None:
    lab = lab_with(job_of(problems=["task a wants 3 pods", "no plugin ssx"]), job_of(name="good"))
    job = at(lab, 10)
    assert (job.phase, job.message) == ("Pending", "task a wants 3 pods; no plugin ssx")
    assert job_in(lab, "good").phase == "Running"
    assert all(pod.name.startswith("good") for pod in lab.cluster.all(Pod))
    assert len(lab.cluster.all(PodGroup)) == 1


def test_a_running_job_that_is_changed_into_an_impossible_one_goes_on_and_hurts_no_other() -> None:
    controller = Controller()
    job, other = job_of(name="train"), job_of(name="other")
    groups = [replace(pod_group_of(one), phase="Inqueue") for one in (job, other)]
    seen: list[Event] = [VcJobSeen(job), VcJobSeen(other), *map(PodGroupSeen, groups)]
    pods = [
        replace(made.pod, uid=made.pod.name, phase="Running", node="n1")
        for made in controller.handle(seen, 0)
        if isinstance(made, CreatePod)
    ]
    controller.handle(map(PodSeen, pods), SECOND)
    wrong = replace(
        job, phase="Running", tasks=(), plugins={"ssx": ()}, problems=('job "plugin" not found ssx',)
    )
    lost = [PodGone("train-worker-0"), PodGone("other-worker-0")]
    commands = controller.handle([VcJobSeen(wrong), *lost], 2 * SECOND)
    assert [made.pod.name for made in commands if isinstance(made, CreatePod)] == ["other-worker-0"]
    assert of_kind(commands, DeletePod, SetAside) == []
    states = {one.key: (one.phase, one.message) for one in commands if isinstance(one, SetJobStatus)}
    assert states["default/train"] == ("Running", 'job "plugin" not found ssx')
    # It is corrected.
    commands = controller.handle([VcJobSeen(replace(job, phase="Running"))], 3 * SECOND)
    assert [made.pod.name for made in commands if isinstance(made, CreatePod)] == ["train-worker-0"]


def test_a_job_that_raises_is_told_once_and_the_others_go_on() -> None:
    controller = Controller()
    # No reader lets it through.
    bad, good = job_of(name="bad", plugins={"ssx": ()}), job_of(name="good")
    groups = [replace(pod_group_of(one), phase="Inqueue") for one in (bad, good)]
    seen: list[Event] = [VcJobSeen(bad), VcJobSeen(good), *map(PodGroupSeen, groups)]
    commands = controller.handle(seen, 0)
    assert [one.key for one in commands if isinstance(one, SetAside)] == ["default/bad"]
    assert [made.job for made in commands if isinstance(made, CreatePod)] == ["default/good"] * 2
    assert controller.handle([VcJobSeen(bad)], 1) == []


def test_failed_pods_fail_the_job_where_no_policy_helps() -> None:
    job = at(lab_with(job_of(task_of(annotations=FAILS))), 20)
    assert (job.phase, job.counts["Failed"], job.retry_count) == ("Failed", 2, 0)
    assert job.message == "0 of 2 pods of task worker succeeded, at least 2 must"


def test_min_success_completes_the_job_and_ends_the_rest() -> None:
    quick, slow = task_of("quick", 1, annotations=TEN), task_of("slow", 1, annotations=FOREVER)
    lab = lab_with(job_of(quick, slow, min_success=1))
    assert at(lab, 11).phase == "Completed"
    assert pods_in(lab) == {"train-quick-0": "Succeeded", "train-slow-0": "Terminating"}
    at(lab, 20)
    assert pods_in(lab) == {"train-quick-0": "Succeeded"}


@pytest.mark.parametrize(("end", "expected"), [("succeed@5", "Completed"), ("fail@5", "Failed")])
def test_a_time_to_live_removes_the_job_and_all_it_owns(end: str, expected: str) -> None:
    lab = lab_with(job_of(task_of(annotations={"ringwise.io/simulate": end}), ttl_seconds=30))
    assert at(lab, 6).phase == expected
    assert at(lab, 35.9).phase == expected
    lab.run_until(36 * SECOND)
    assert lab.cluster.get(VcJob, "default/train") is None
    assert lab.cluster.all(Pod) == []


def test_an_aborted_job_does_not_expire() -> None:
    lab = lab_with(job_of(task_of(annotations=FOREVER), ttl_seconds=5))
    at(lab, 5)
    lab.inject(JobCommand("default/train", "AbortJob"))
    assert at(lab, 500).phase == "Aborted"


# -- policies ---------------------------------------------------------------------------


def test_restart_job_kills_all_and_gives_up_at_max_retry() -> None:
    restart = Policy("RestartJob", ("PodFailed",))
    tasks = (task_of("bad", 1, annotations=FAILS), task_of("good", 1, annotations=FOREVER))
    lab = lab_with(job_of(*tasks, policies=[restart]))
    first = at(lab, 6)
    assert (first.phase, first.retry_count, first.version) == ("Restarting", 1, 1)
    assert first.reason == "PodFailed"
    assert first.message == "pod train-bad-0 failed with exit code 9: RestartJob"
    again = at(lab, 8)
    assert (again.phase, again.retry_count) == ("Running", 1)
    assert {pod.annotations["volcano.sh/job-version"] for pod in lab.cluster.all(Pod)} == {"1"}
    assert {pod.annotations["volcano.sh/job-retry-count"] for pod in lab.cluster.all(Pod)} == {"1"}
    last = at(lab, 100)
    assert (last.phase, last.retry_count, last.version) == ("Failed", 3, 3)
    assert "it was the last of 3 attempts" in last.message
    # On the last retry what has ended is kept to be looked at.
    assert pods_in(lab) == {"train-bad-0": "Failed"}
    assert lab.cluster.all(PodGroup) == []


@pytest.mark.parametrize(
    ("action", "restarted"),
    [("RestartPod", {"train-bad-0"}), ("RestartTask", {"train-bad-0", "train-bad-1"})],
)
def test_partial_restarts_kill_only_their_target_and_keep_the_group(action: str, restarted: set[str]) -> None:
    bad = task_of("bad", 2, annotations=FOREVER, policies=[Policy(action, ("PodEvicted",))])
    lab = lab_with(job_of(bad, task_of("good", 1, annotations=FOREVER)))
    at(lab, 5)
    before = {pod.name: pod.uid for pod in lab.cluster.all(Pod)}
    (group,) = lab.cluster.all(PodGroup)
    lab.cluster.delete("Pod", "default/train-bad-0")
    during = at(lab, 5.5)
    assert (during.phase, during.retry_count, during.version) == ("Restarting", 1, 0)
    after = at(lab, 20)
    assert (after.phase, after.retry_count, after.counts["Running"]) == ("Running", 1, 3)
    now = {pod.name: pod.uid for pod in lab.cluster.all(Pod)}
    assert {name for name in now if now[name] != before[name]} == restarted
    (kept,) = lab.cluster.all(PodGroup)
    assert (kept.uid, kept.created) == (group.uid, group.created)


def test_restart_partition_kills_the_pods_of_one_partition() -> None:
    work = task_of("work", 6, annotations=FOREVER, policies=[Policy("RestartPartition", ("PodEvicted",))])
    lab = lab_with(
        job_of(replace(work, partitions=Partitions(3, 2)), task_of("other", 3, annotations=FOREVER))
    )
    at(lab, 5)
    before = {pod.name: pod for pod in lab.cluster.all(Pod)}
    assert [before[f"train-work-{index}"].labels[PARTITION_ID] for index in range(6)] == list("001122")
    assert PARTITION_ID not in before["train-other-0"].labels
    lab.cluster.delete("Pod", "default/train-work-3")
    during = at(lab, 5.5)
    assert (during.phase, during.retry_count, during.version) == ("Restarting", 1, 0)
    after = at(lab, 20)
    assert (after.phase, after.retry_count, after.counts["Running"]) == ("Running", 1, 9)
    now = {pod.name: pod.uid for pod in lab.cluster.all(Pod)}
    assert {name for name in now if now[name] != before[name].uid} == {"train-work-2", "train-work-3"}


@pytest.mark.parametrize("apart", [0.0, 0.2])
def test_partitions_that_are_lost_together_are_restarted_together(apart: float) -> None:
    """Under one switch for example: the rest of each would wait for pods that do not know it."""
    work = task_of("work", 6, annotations=FOREVER, policies=[Policy("RestartPartition", ("PodEvicted",))])
    lab = lab_with(job_of(replace(work, partitions=Partitions(3, 2))))
    at(lab, 5)
    before = {pod.name: pod.uid for pod in lab.cluster.all(Pod)}
    for number, name in enumerate(("train-work-1", "train-work-4")):
        at(lab, 5 + number * apart)
        lab.cluster.delete("Pod", f"default/{name}")
    after = at(lab, 60)
    now = {pod.name: pod.uid for pod in lab.cluster.all(Pod)}
    assert {int(name[-1]) for name in now if now[name] != before[name]} == {0, 1, 4, 5}
    assert (after.phase, after.retry_count, after.counts["Running"]) == ("Running", 1, 6)


def test_without_partitions_restart_partition_restarts_the_task() -> None:
    work = task_of("work", 2, annotations=FOREVER, policies=[Policy("RestartPartition", ("PodEvicted",))])
    lab = lab_with(job_of(work, task_of("other", 1, annotations=FOREVER)))
    at(lab, 5)
    before = {pod.name: pod.uid for pod in lab.cluster.all(Pod)}
    lab.cluster.delete("Pod", "default/train-work-1")
    at(lab, 20)
    now = {pod.name: pod.uid for pod in lab.cluster.all(Pod)}
    assert {name for name in now if now[name] != before[name]} == {"train-work-0", "train-work-1"}


def test_the_status_names_tasks_without_pods_so_that_their_counts_are_removed() -> None:
    job = job_of(task_of("work", 2), task_of("more", 1))
    counts = Counts()
    counts.add("more", "Failed")
    assert JobRecord(job, {}).status(counts).tasks == {"work": {}, "more": {"Failed": 1}}


@pytest.mark.parametrize("minimum", [1, 2])
def test_a_failed_pod_that_is_restarted_counts_as_terminating_while_it_goes(minimum: int) -> None:
    """Volcano's clients look for Restarting together with a terminating pod."""
    work = task_of("work", 2, min_available=minimum, annotations=FAILS)
    lab = lab_with(job_of(work, min_available=minimum, policies=[Policy("RestartPod", ("PodFailed",))]))
    watch = lab.cluster.watch(lab.cluster.table.version)
    at(lab, 6)
    seen = [change.object for change in watch.poll() if isinstance(change.object, VcJob)]
    restarting = [job for job in seen if job.phase == "Restarting"]
    assert restarting
    assert restarting[0].counts["Terminating"] == 1


def test_a_restarted_pod_beyond_the_minimum_is_a_restart_of_the_job_too() -> None:
    """The phase is Restarting although the job keeps its minimum, and the cause stays in the status."""
    policy = Policy("RestartPod", ("PodEvicted",))
    elastic = task_of("work", 3, min_available=1, annotations=FOREVER, policies=[policy])
    lab = lab_with(job_of(elastic, min_available=1))
    at(lab, 5)
    lab.cluster.delete("Pod", "default/train-work-2")
    after = at(lab, 20)
    assert (after.phase, after.retry_count, after.counts["Running"]) == ("Running", 1, 3)
    assert (after.reason, after.message) == (
        "PodEvicted",
        "pod train-work-2 was evicted: RestartPod",
    )
    assert [phase for phase, _ in after.conditions] == ["Restarting", "Pending", "Running"]
    assert lab.command_counts["RecordVcJobEvent"] == 1


@pytest.mark.parametrize(
    ("action", "end"), [("AbortJob", "Aborted"), ("TerminateJob", "Terminated"), ("CompleteJob", "Completed")]
)
def test_a_completed_task_may_end_the_job(action: str, end: str) -> None:
    chief = task_of("chief", 1, annotations=TEN, policies=[Policy(action, ("TaskCompleted",))])
    lab = lab_with(job_of(chief, task_of("helper", 2, annotations=FOREVER)))
    at(lab, 11)
    assert (
        at(lab, 11).phase
        == {"Aborted": "Aborting", "Terminated": "Terminating", "Completed": "Completing"}[end]
    )
    job = at(lab, 12)
    assert (job.phase, job.reason) == (end, "TaskCompleted")
    assert pods_in(lab) == {"train-chief-0": "Succeeded"}


def test_an_exit_code_picks_its_policy() -> None:
    policies = [
        Policy("AbortJob", (), 3),
        Policy("TerminateJob", (), 9),
        Policy("RestartJob", ("PodFailed",)),
    ]
    assert at(lab_with(job_of(task_of(annotations=FAILS), policies=policies)), 20).phase == "Terminated"


def test_an_evicted_pod_restarts_the_job_and_the_pods_own_deletions_do_not() -> None:
    lab = lab_with(job_of(task_of(annotations=FOREVER), policies=[Policy("RestartJob", ("PodEvicted",))]))
    at(lab, 5)
    drain(lab.cluster, "node-0")
    job = at(lab, 30)
    assert (job.phase, job.retry_count) == ("Running", 1)
    assert {pod.node for pod in lab.cluster.all(Pod)} == {"node-1"}


def test_without_a_policy_an_evicted_pod_is_only_replaced() -> None:
    lab = lab_with(job_of(task_of(annotations=FOREVER)))
    at(lab, 5)
    lab.cluster.delete("Pod", "default/train-worker-1")
    job = at(lab, 30)
    assert (job.phase, job.retry_count, job.counts["Running"]) == ("Running", 0, 2)


def test_ignore_stops_the_search_for_a_policy() -> None:
    worker = task_of(annotations=FOREVER, policies=[Policy("Ignore", ("PodEvicted",))])
    lab = lab_with(job_of(worker, policies=[Policy("RestartJob", ("*",))]))
    at(lab, 5)
    lab.cluster.delete("Pod", "default/train-worker-1")
    assert at(lab, 30).retry_count == 0


def test_a_pod_pending_too_long_aborts_the_job_and_one_that_starts_does_not() -> None:
    late = Policy("AbortJob", ("PodPending",), timeout=60 * SECOND)
    small = job_of(task_of(annotations=FOREVER), policies=[late])
    large = job_of(task_of(replicas=9, chips=8), name="large", policies=[late])
    lab = lab_with(small, large)
    at(lab, 59.9)
    assert job_in(lab, "large").phase == "Pending"
    at(lab, 60)
    assert job_in(lab, "large").phase == "Aborted"
    assert job_in(lab, "large").message == "pod large-worker-0 has been pending too long: AbortJob"
    assert at(lab, 600).phase == "Running"


def test_pending_without_a_time_limit_means_nothing() -> None:
    job = job_of(task_of(annotations=TEN), policies=[Policy("AbortJob", ("PodPending",))])
    assert at(lab_with(job), 30).phase == "Completed"


def test_a_failure_with_a_timeout_acts_when_the_time_has_passed() -> None:
    wait = Policy("TerminateJob", ("PodFailed",), timeout=20 * SECOND)
    lab = lab_with(
        job_of(task_of("bad", 1, annotations=FAILS), task_of("good", 1, annotations=FOREVER), policies=[wait])
    )
    assert at(lab, 25.9).phase == "Running"
    assert at(lab, 26).phase == "Terminating"


@pytest.mark.parametrize(("room", "phase"), [(True, "Running"), (False, "Terminated")])
def test_an_eviction_with_a_timeout_is_forgiven_when_the_pod_runs_again(room: bool, phase: str) -> None:
    wait = Policy("TerminateJob", ("PodEvicted",), timeout=20 * SECOND)
    lab = lab_with(job_of(task_of(chips=8, annotations=FOREVER), policies=[wait]), nodes=3 if room else 2)
    at(lab, 5)
    drain(lab.cluster, "node-0")
    assert at(lab, 24.9).phase in ("Running", "Pending")
    assert at(lab, 40).phase == phase


def test_an_unknown_gang_may_be_restarted() -> None:
    lab = lab_with(job_of(task_of(annotations=FOREVER), policies=[Policy("RestartJob", ("Unknown",))]))
    at(lab, 5)
    (group,) = lab.cluster.all(PodGroup)
    group.phase = "Unknown"
    lab.cluster.table.put("PodGroup", group.key, group)
    job = at(lab, 20)
    assert (job.phase, job.retry_count) == ("Running", 1)


def test_a_task_without_retries_fails_with_the_first_restart_and_not_before() -> None:
    policy = Policy("TerminateJob", ("TaskFailed",))
    lab = lab_with(job_of(task_of(annotations=FOREVER, max_retry=0), policies=[policy]))
    assert at(lab, 5).phase == "Running"
    update(lab.cluster, Pod, "default/train-worker-0", partial(replace, restarts=1))
    assert at(lab, 5).phase == "Terminating"


def test_a_task_restarted_too_often_fails() -> None:
    policy = Policy("TerminateJob", ("TaskFailed",))
    lab = lab_with(job_of(task_of(annotations=FOREVER, max_retry=2), policies=[policy]))
    at(lab, 5)
    for restarts, phase in ((1, "Running"), (2, "Terminating")):
        update(lab.cluster, Pod, "default/train-worker-0", partial(replace, restarts=restarts))
        assert at(lab, 5).phase == phase


def test_a_job_whose_objects_are_in_the_way_says_so_until_its_first_pod() -> None:
    job = job_of(task_of("w", 1))
    group = replace(pod_group_of(job), phase="Inqueue")
    controller = Controller()
    (create,) = [c for c in controller.handle(seen(job, group), 0) if isinstance(c, CreatePod)]
    why = "NetworkPolicy train belongs to an earlier job of the same name and is not deleted yet"
    told = controller.handle([JobHeldUp(job.key, job.uid, why)], SECOND)
    (status,) = [command for command in told if isinstance(command, SetJobStatus)]
    assert (status.phase, status.reason, status.message) == ("Pending", "PodsNotCreated", why)
    assert not controller.handle([JobHeldUp(job.key, "an earlier one", "other")], SECOND)
    after = controller.handle(seen(create.pod), 2 * SECOND)
    (status,) = [command for command in after if isinstance(command, SetJobStatus)]
    assert (status.phase, status.reason, status.message) == ("Pending", "", "")


def test_host_lists_are_published_again_if_objects_of_the_job_could_not_be_written() -> None:
    job = job_of(task_of("w", 1), plugins={"svc": ()})
    group = replace(pod_group_of(job), phase="Inqueue")
    controller = Controller()

    def published(events: Iterable[Event], seconds: int) -> bool:
        return any(isinstance(one, Publish) for one in controller.handle(events, seconds * SECOND))

    assert published(seen(job, group), 0)
    assert not published([JobHeldUp(job.key, job.uid, "ConfigMap train-svc: 503")], 3)
    # A second one does not put it off.
    assert not published([JobHeldUp(job.key, job.uid, "ConfigMap train-svc: 503")], 8)
    assert not published((), 12)
    due = controller.next_deadline()
    assert due is not None
    assert due <= 13 * SECOND
    assert published((), 13)
    assert not published((), 60)


def test_a_pod_group_is_changed_again_if_objects_of_the_job_could_not_be_written() -> None:
    job = job_of(task_of("w", 2), min_available=2)
    group = replace(pod_group_of(job), phase="Inqueue", labels={"ringwise.io/job-controller": "true"})
    controller = Controller()

    def changed(events: Iterable[Event], seconds: int) -> list[int]:
        commands = controller.handle(events, seconds * SECOND)
        return [one.group.min_member for one in commands if isinstance(one, CreateGroup)]

    assert changed(seen(job, group), 0) == []
    smaller = replace(job, tasks=(replace(job.tasks[0], replicas=1, min_available=1),), min_available=1)
    assert changed(seen(smaller), 1) == [1]
    assert changed([JobHeldUp(job.key, job.uid, "PodGroup train: 503")], 4) == []
    assert changed((), 14) == [1]
    assert changed(seen(replace(group, min_member=1)), 15) == []
    assert changed((), 60) == []


def test_the_deletion_of_a_job_that_has_expired_is_requested_again() -> None:
    job = replace(job_of(ttl_seconds=5), phase="Completed", since=SECOND)
    controller = Controller()
    asked: list[int] = []
    controller.handle(seen(job), SECOND)
    while (due := controller.next_deadline()) is not None and due < 40 * SECOND:
        asked += [due // SECOND for one in controller.handle([], due) if isinstance(one, DeleteJob)]
    assert asked == [6, 16, 26, 36]
    assert controller.handle([VcJobGone(job.key)], 37 * SECOND) == []
    assert controller.next_deadline() is None


def test_an_eviction_before_a_restart_does_not_restart_the_job_again() -> None:
    """Two pods were evicted, one after the other; the policy of the second waits for its timeout."""
    policy = Policy("RestartJob", ("PodEvicted",), timeout=20 * SECOND)
    job = job_of(policies=[policy])
    group = replace(pod_group_of(job), phase="Inqueue")
    controller = Controller()
    made = [one.pod for one in controller.handle(seen(job, group), 0) if isinstance(one, CreatePod)]
    running = [replace(pod, phase="Running", node="n1") for pod in made]
    controller.handle(seen(*running), SECOND)
    controller.handle([PodGone(running[0].uid)], 2 * SECOND)
    controller.handle([JobCommand(job.key, "RestartJob")], 3 * SECOND)
    controller.handle([PodGone(running[1].uid)], 4 * SECOND)
    for second in range(5, 60):
        commands = controller.handle([], second * SECOND)
        assert not [one for one in commands if isinstance(one, SetJobStatus) and one.phase == "Restarting"]


def test_jobs_that_are_gone_use_no_memory() -> None:
    job = job_of(task_of("w", 1))
    controller = Controller()
    controller.handle(seen(job), 0)
    controller.handle([VcJobGone(job.key)], SECOND)
    assert (controller._records, controller._pods, controller._job_of_group) == ({}, {}, {})
