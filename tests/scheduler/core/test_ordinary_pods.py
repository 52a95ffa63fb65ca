"""Pods of Deployments and the like in the scheduler: their PodGroup, N2 for services, and ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.embed.fleets import make_fleet
from ringwise.messages.commands import Bind, Command, SetGroupStatus, SetPodCondition
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.core.status_reporter import TIMEOUT
from ringwise.state.model import Owner, Pod, PodGroup
from ringwise.state.vcjob import VcJob
from tests.builders.values import group, pod, seen

SET = Owner("ReplicaSet", "chat-1", "rs", "apps/v1")


def replica(number: int, chips: int = 1, **described: Any) -> Pod:
    described = {"group": "podgroup-rs", "owner": SET, **described}
    return pod(f"chat-1-{number}", chips, uid=f"p{number}", **described)


def group_of_set(pods: int = 1, **described: Any) -> PodGroup:
    return group("podgroup-rs", pods, **{"owner": SET, "ordinary": True, **described})


def decided(scheduler: Scheduler, *known: object) -> list[Command]:
    fleet = make_fleet(2)
    return scheduler.handle(seen(*fleet.nodes, *fleet.reports, *known), 1)


def binds(commands: list[Command]) -> dict[str, Bind]:
    return {one.pod: one for one in commands if isinstance(one, Bind)}


def test_N2_the_pods_of_a_service_are_checked_one_by_one() -> None:
    pods = [replica(number) for number in range(2)]
    made = binds(decided(new_scheduler(), group_of_set(), *pods))
    assert {pod: bind.annotations["hccl/rankIndex"] for pod, bind in made.items()} == {
        "chat-1-0": "0",
        "chat-1-1": "1",
    }
    assert {bind.annotations["distributed-job"] for bind in made.values()} == {"true"}


@pytest.mark.parametrize(
    ("group", "chips"),
    [(group_of_set(2), 1), (group_of_set(1, ordinary=False), 1), (group_of_set(1), 3)],
    ids=["gang", "PodGroup of another owner", "no pod may have 3"],
)
def test_N2_gangs_and_wrong_pods_are_refused(group: PodGroup, chips: int) -> None:
    pods = [replica(number, chips) for number in range(2)]
    assert binds(decided(new_scheduler(), group, *pods)) == {}


def test_pods_without_a_group_wait_only_where_a_controller_creates_it() -> None:
    alone = replica(0, group=None)
    assert list(binds(decided(new_scheduler(), alone))) == ["chat-1-0"]
    waiting = new_scheduler(awaits_groups=True)
    # A bare pod is a job of one pod, with or without a PodGroup.
    bare = replica(9, group=None, owner=None)
    assert list(binds(decided(new_scheduler(awaits_groups=True), bare))) == ["chat-1-9"]
    # Unless only that can say what it asks for.
    near = replace(bare, annotations={"volcano.sh/network-topology-mode": "soft"})
    assert binds(decided(new_scheduler(awaits_groups=True), near)) == {}
    commands = decided(waiting, alone)
    assert binds(commands) == {}
    assert not [one for one in commands if isinstance(one, SetPodCondition)]
    reason = waiting.view.jobs["default/pod:chat-1-0"].reason
    assert reason is not None
    assert reason.code == "pod-group-not-created"
    later = waiting.handle(seen(group_of_set(), replica(0)), 2)
    assert list(binds(later)) == ["chat-1-0"]
    assert waiting.next_deadline() is None


def test_a_pod_that_waits_long_for_its_group_is_told_why() -> None:
    waiting = new_scheduler(awaits_groups=True)
    decided(waiting, replica(0, group=None))
    due = waiting.next_deadline()
    assert due == 1 + TIMEOUT
    assert waiting.handle([], due - 1) == []
    (told,) = waiting.handle([], due)
    assert isinstance(told, SetPodCondition)
    assert told.reason.code == "pod-group-not-created"
    assert "--no-pod-groups" in " ".join(told.reason.fixes)
    assert waiting.next_deadline() is None
    assert list(binds(waiting.handle(seen(group_of_set(), replica(0)), due + 1)))


@pytest.mark.parametrize("confirmed", [False, True])
def test_a_bare_pod_that_is_bound_before_its_group_comes_is_bound_once(confirmed: bool) -> None:
    """Its PodGroup is created while its binding is on its way."""
    scheduler = new_scheduler(awaits_groups=True)
    pod = replica(0, group=None, owner=None)
    (bind,) = binds(decided(scheduler, pod)).values()
    pod = replace(pod, group="podgroup-p0")
    if confirmed:
        pod = replace(pod, node=bind.node, annotations=dict(bind.annotations))
    own = group("podgroup-p0", owner=Owner("Pod", "chat-1-0", "p0", "v1"), ordinary=True)
    commands = scheduler.handle(seen(own, pod), 2)
    assert binds(commands) == {}
    if not confirmed:
        bound = replace(pod, node=bind.node, annotations=dict(bind.annotations))
        commands += scheduler.handle(seen(bound), 3)
    assert binds(commands) == {}
    (job,) = scheduler.view.jobs.values()
    assert (job.key, job.reason) == ("default/podgroup-p0", None)
    assert [one.phase for one in commands if isinstance(one, SetGroupStatus)][-1:] == ["Running"]


def test_a_pod_that_is_bound_before_its_siblings_exist_is_distributed() -> None:
    scheduler = new_scheduler()
    first = binds(decided(scheduler, group_of_set(replicas=2), replica(0)))["chat-1-0"]
    assert (first.annotations["distributed-job"], first.annotations["hccl/rankIndex"]) == ("true", "0")
    # Equal pods that are alone are not, and the two are validated apart.
    alone = replace(group_of_set(), name="podgroup-x", owner=replace(SET, uid="x"))
    other = replica(7, group="podgroup-x")
    made = scheduler.handle(seen(alone, other, replica(1)), 2)
    assert {pod: bind.annotations["distributed-job"] for pod, bind in binds(made).items()} == {
        "chat-1-7": "false",
        "chat-1-1": "true",
    }


@pytest.mark.parametrize(
    "labels",
    [
        {"batch.kubernetes.io/job-completion-index": "0"},
        {"training.kubeflow.org/operator-name": "ascendjob-controller"},
    ],
)
def test_no_rank_is_written_where_the_owner_numbers_its_pods(labels: dict[str, str]) -> None:
    made = binds(decided(new_scheduler(), replica(0, group=None, labels=labels)))
    assert "hccl/rankIndex" not in made["chat-1-0"].annotations


@pytest.mark.parametrize(("api", "bound"), [("batch/v1", True), ("batch.volcano.sh/v1alpha1", False)])
def test_a_kubernetes_job_is_not_the_vcjob_of_its_name(api: str, bound: bool) -> None:
    """The vcjob is malformed, so that its own PodGroup is refused."""
    vcjob = VcJob("default", "chat-1", "rs", problems=("it has no tasks",))
    owner = Owner("Job", "chat-1", "rs", api)
    made = decided(new_scheduler(), vcjob, group_of_set(owner=owner), replica(0))
    assert bool(binds(made)) is bound
