"""Commands for vcjobs, tasks that depend on others, and what job plugins add to pods."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.controller.job_plugins import JobPlugins
from ringwise.controller.machine import Controller
from ringwise.durations import SECOND
from ringwise.embed.loop import EmbeddedLoop
from ringwise.embed.records import ConfigMap
from ringwise.messages.commands import Command, RecordVcJobEvent
from ringwise.messages.events import Event, JobCommand
from ringwise.state.model import Pod, PodGroup
from ringwise.state.vcjob import Policy, VcJob
from tests.builders.values import job_of, seen, task_of
from tests.controller.controller_lab import FOREVER, at, job_in, lab_with, pods_in
from tests.embed.faulty import update
from tests.embed.first_fit import FirstFit


class OneByOne(FirstFit):
    """A scheduler that places what fits."""

    def handle(self, events: Iterable[Event], now: int) -> list[Command]:
        for event in events:
            self.update(event)
        waiting = [pod for pod in self.pods.values() if self.waits(pod)]
        return [command for pod in waiting for command in self.place_all([pod])]


def test_abort_and_resume() -> None:
    lab = lab_with(job_of(task_of(annotations=FOREVER)))
    at(lab, 5)
    lab.inject(JobCommand("default/train", "AbortJob"))
    assert at(lab, 5).phase == "Aborting"
    aborted = at(lab, 10)
    assert (aborted.phase, pods_in(lab)) == ("Aborted", {})
    lab.inject(JobCommand("default/train", "ResumeJob"))
    resumed = at(lab, 20)
    assert (resumed.phase, resumed.retry_count, resumed.counts["Running"]) == ("Running", 0, 2)


@given(
    st.lists(
        st.tuples(st.sampled_from(("AbortJob", "ResumeJob", "RestartJob")), st.integers(0, 6)), max_size=30
    ),
    st.integers(1, 3),
)
def test_what_somebody_requests_uses_no_retry_however_often(
    requests: list[tuple[str, int]], max_retry: int
) -> None:
    lab = lab_with(job_of(task_of(annotations=FOREVER), max_retry=max_retry))
    seconds = 5
    at(lab, seconds)
    for action, pause in requests:
        lab.inject(JobCommand("default/train", action))
        seconds += pause
        job = at(lab, seconds)
        assert job.retry_count == 0
        assert job.phase not in ("Failed", "Terminated", "Completed")
    lab.inject(JobCommand("default/train", "ResumeJob"))
    assert at(lab, seconds + 20).phase == "Running"


def test_a_request_does_not_end_a_job_whose_policies_used_all_but_one_retry() -> None:
    policy = Policy("RestartJob", ("PodEvicted",))
    lab = lab_with(job_of(task_of(annotations=FOREVER), policies=[policy], max_retry=2))
    at(lab, 5)
    lab.cluster.delete("Pod", "default/train-worker-0")
    assert at(lab, 15).retry_count == 1
    lab.inject(JobCommand("default/train", "RestartJob", "by anna"))
    again = at(lab, 30)
    assert (again.phase, again.retry_count, again.message) == (
        "Running",
        1,
        "RestartJob was requested by anna",
    )
    lab.cluster.delete("Pod", "default/train-worker-0")
    assert at(lab, 40).phase == "Failed"


def test_what_is_said_with_a_request_is_one_bounded_line() -> None:
    lab = lab_with(job_of(task_of(annotations=FOREVER)))
    at(lab, 5)
    lab.inject(JobCommand("default/train", "AbortJob", "by\nanna:\t" + "x" * 10_000))
    message = at(lab, 10).message
    assert message.startswith("AbortJob was requested by anna: xxx")
    assert len(message) == 500


@pytest.mark.parametrize("action", ["ResumeJob", "Dance", "RestartPod"])
def test_commands_without_effect_in_this_phase_change_nothing(action: str) -> None:
    lab = lab_with(job_of(task_of(annotations=FOREVER)))
    before = at(lab, 5)
    lab.inject(JobCommand("default/train", action), JobCommand("default/nobody", action))
    assert at(lab, 10) == before


@pytest.mark.parametrize(
    ("action", "problems", "said"),
    [
        ("ResumeJob", (), "Command ResumeJob has no effect: the job is Pending"),
        ("AbortJob", ("no plugin ssx",), "Command AbortJob has no effect: the job cannot run as it is"),
        ("RestartPod", (), "Command RestartPod has no effect: for a job as a whole there are AbortJob, "),
        ("Dance", (), "Command Dance has no effect: for a job as a whole there are AbortJob, "),
    ],
)
def test_a_command_without_effect_says_so(action: str, problems: tuple[str, ...], said: str) -> None:
    commands = Controller().handle(seen(job_of(problems=problems), JobCommand("default/train", action)), 0)
    (told,) = [one for one in commands if isinstance(one, RecordVcJobEvent)]
    assert told.reason == "CommandIssued"
    assert told.message.startswith(said)


def test_scaling_up_and_down() -> None:
    lab = lab_with(job_of(task_of(replicas=2, annotations=FOREVER)))
    at(lab, 5)
    lab.cluster.submit(job_of(task_of(replicas=4, annotations=FOREVER)))
    assert at(lab, 10).counts["Running"] == 4
    (group,) = lab.cluster.all(PodGroup)
    assert group.min_member == 4
    lab.cluster.submit(job_of(task_of(replicas=1, annotations=FOREVER)))
    assert at(lab, 20).counts["Running"] == 1
    assert pods_in(lab) == {"train-worker-0": "Running"}
    assert job_in(lab).phase == "Running"


def test_a_change_may_restart_the_job() -> None:
    policies = [Policy("RestartJob", ("JobUpdated",))]
    lab = lab_with(job_of(task_of(replicas=1, annotations=FOREVER), policies=policies))
    at(lab, 5)
    lab.cluster.submit(job_of(task_of(replicas=2, annotations=FOREVER), policies=policies))
    job = at(lab, 20)
    assert (job.version, job.counts["Running"]) == (1, 2)


def test_a_deleted_job_takes_all_it_owns_and_a_new_one_of_the_same_name_starts() -> None:
    lab = lab_with(job_of(task_of(annotations=FOREVER)))
    first = at(lab, 5)
    lab.cluster.delete("VcJob", "default/train")
    lab.cluster.submit(job_of(task_of(annotations=FOREVER)))
    second = at(lab, 20)
    assert second.uid != first.uid
    assert (second.phase, second.version, second.retry_count) == ("Running", 0, 0)
    assert len(lab.cluster.all(PodGroup)) == 1
    assert {pod.owner.uid for pod in lab.cluster.all(Pod) if pod.owner} == {second.uid}


# -- tasks that wait, plugins ----------------------------------------------------------------


@pytest.mark.parametrize(("any_of_them", "starts"), [(True, True), (False, False)])
def test_a_task_waits_for_those_it_depends_on(any_of_them: bool, starts: bool) -> None:
    tasks = (
        task_of("data", 1, annotations=FOREVER),
        task_of("huge", 1, chips=8, annotations=FOREVER),
        task_of("train", 1, depends_on=["data", "huge"], depends_on_any=any_of_them, annotations=FOREVER),
    )
    # One chip of the only node is taken by `data`, so `huge` never runs.
    lab = lab_with(job_of(*tasks, name="j", min_available=1), nodes=1)
    lab.run_until(0)
    assert pods_in(lab) == {"j-data-0": "Pending", "j-huge-0": "Pending"}
    lab.replace_scheduler(OneByOne())
    lab.run_until(30 * SECOND)
    assert ("j-train-0" in pods_in(lab)) == starts


def test_job_plugins_give_pods_their_index_and_the_host_names() -> None:
    plugins: dict[str, tuple[str, ...]] = {
        "env": (),
        "svc": (),
        "ssh": ("--ssh-key-file-path=/etc/keys",),
    }
    tasks = (task_of("ps-a", 1, annotations=FOREVER), task_of("worker", 2, annotations=FOREVER))
    lab = lab_with(job_of(*tasks, plugins=plugins))
    at(lab, 5)
    pods = {pod.name: pod for pod in lab.cluster.all(Pod)}
    assert {name: pod.rank for name, pod in pods.items()} == {
        "train-ps-a-0": 0,
        "train-worker-0": 1,
        "train-worker-1": 2,
    }
    given = lab.cluster.additions(pods["train-worker-1"].uid)
    env = dict(given.env)
    assert env["VC_TASK_INDEX"] == env["VK_TASK_INDEX"] == "1"
    # Read from the ConfigMap at every start of a container, so that they are right after scaling.
    assert given.env_from == tuple(
        (name, "train-svc") for name in ("VC_PS_A_HOSTS", "VC_PS_A_NUM", "VC_WORKER_HOSTS", "VC_WORKER_NUM")
    )
    assert (given.hostname, given.subdomain) == ("train-worker-1", "train")
    assert given.mounts == (
        ("/etc/volcano", "ConfigMap", "train-svc"),
        ("/etc/keys", "Secret", "train-ssh"),
    )
    published = lab.cluster.table.get("ConfigMap", "default/train-svc")
    assert isinstance(published, ConfigMap)
    assert published.data == {
        "ps_a.host": "train-ps-a-0.train",
        "VC_PS_A_HOSTS": "train-ps-a-0.train",
        "VC_PS_A_NUM": "1",
        "worker.host": "train-worker-0.train\ntrain-worker-1.train",
        "VC_WORKER_HOSTS": "train-worker-0.train,train-worker-1.train",
        "VC_WORKER_NUM": "2",
    }


def workers_listed(lab: EmbeddedLoop) -> tuple[str, str]:
    hosts, number = (
        lab.cluster.published("default", "train-svc", key) for key in ("worker.host", "VC_WORKER_NUM")
    )
    return hosts, number


def scale(lab: EmbeddedLoop, replicas: int) -> None:
    def scaled(job: VcJob) -> VcJob:
        (worker,) = job.tasks
        return replace(job, tasks=(replace(worker, replicas=replicas, min_available=1),), min_available=1)

    update(lab.cluster, VcJob, "default/train", scaled)


@pytest.mark.parametrize("restarted", [False, True])
def test_host_lists_follow_the_replicas(restarted: bool) -> None:
    job = job_of(task_of("worker", 2, annotations=FOREVER), plugins={"svc": ()}, min_available=1)
    lab = lab_with(job)
    at(lab, 5)
    for now, replicas in ((10, 3), (20, 1)):
        scale(lab, replicas)
        if restarted:
            # A controller that starts after the change, and knows nothing of what was published.
            lab.replace_controller(Controller())
        at(lab, now)
        assert len(lab.cluster.all(Pod)) == replicas
        hosts = [f"train-worker-{index}.train" for index in range(replicas)]
        assert workers_listed(lab) == ("\n".join(hosts), str(replicas))


@pytest.mark.parametrize(
    ("plugin", "svc", "ssh"),
    [("mpi", True, True), ("pytorch", True, False), ("ray", True, False), ("env", False, False)],
)
def test_framework_plugins_include_the_plugins_they_need(plugin: str, svc: bool, ssh: bool) -> None:
    job = job_of(task_of("master", 1), task_of("head", 1), plugins={plugin: ()})
    resources = JobPlugins(job).resources()
    names = {service.name for service in resources.services}
    assert ("train" in names, resources.keys is not None) == (svc, ssh)


@pytest.mark.parametrize(
    ("plugins", "isolated", "found_early"),
    [
        ({"svc": ()}, True, False),
        ({"pytorch": ()}, True, False),
        ({"env": ()}, False, False),
        ({"svc": ("--disable-network-policy",)}, False, False),
        ({"svc": ("--disable-network-policy=true",)}, False, False),
        ({"svc": ("-disable-network-policy=T",)}, False, False),
        ({"svc": ("--disable-network-policy=false",)}, True, False),
        ({"svc": ("--disable-network-policy=true", "--disable-network-policy=false")}, True, False),
        ({"pytorch": (), "svc": ("--disable-network-policy=1",)}, False, False),
        ({"svc": ("--publish-not-ready-addresses=true",)}, True, True),
    ],
)
def test_network_policy_and_early_host_names(
    plugins: dict[str, tuple[str, ...]], isolated: bool, found_early: bool
) -> None:
    lab = lab_with(job_of(plugins=plugins))
    at(lab, 2)
    given = lab.cluster.additions(lab.cluster.all(Pod)[0].uid)
    assert (given.isolated, given.found_early) == (isolated, found_early)
