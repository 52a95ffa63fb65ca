"""Who a job belongs to, and whether anybody could have said so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringwise.framework.configuration import Settings
from ringwise.framework.job import Job
from ringwise.framework.users import NO_USER, JobUser, user_of, user_of_pod
from ringwise.messages.job_expansion import pod_group_of, pods_of
from ringwise.messages.ordinary_groups import group_for
from ringwise.state.model import Owner
from ringwise.state.workload import PodOwner
from ringwise.wellknown import DEPLOYMENT_API, USER
from tests.builders.values import job_of, pod, task_of

GUARDED = Settings(user_annotation="guarded", user_label="team/owner")
OPEN = Settings(user_label="team/owner")


def job(annotation: str = "", label: str = "") -> Job:
    found = Job("ml/a", "ml", "a")
    found.annotations = {USER: annotation} if annotation else {}
    found.labels = {"team/owner": label} if label else {}
    return found


@pytest.mark.parametrize(
    ("settings", "annotation", "label", "expected"),
    [
        (GUARDED, "alice", "", JobUser("alice", True)),
        (GUARDED, "alice", "bob", JobUser("alice", True)),
        (GUARDED, "", "bob", JobUser("bob", False)),
        (GUARDED, "", "", NO_USER),
        # Anybody may write the annotation: it says nothing.
        (OPEN, "alice", "", NO_USER),
        (OPEN, "alice", "bob", JobUser("bob", False)),
        (Settings(), "alice", "bob", NO_USER),
        (Settings(user_annotation="guarded"), "", "bob", NO_USER),
        (GUARDED, "system:serviceaccount:ml:alice", "", JobUser("system:serviceaccount:ml:alice", True)),
    ],
)
def test_the_user_of_a_job(settings: Settings, annotation: str, label: str, expected: JobUser) -> None:
    assert user_of(job(annotation, label), settings) == expected


def test_a_verified_user_and_an_unverified_one_of_the_same_name_are_two() -> None:
    assert user_of(job("alice"), GUARDED) != user_of(job("", "alice"), GUARDED)


def test_a_pod_that_joins_the_job_of_another_is_of_who_created_it() -> None:
    joined = pod("a-0", 0, namespace="ml", annotations={USER: "mallory"})
    assert user_of_pod(joined, job("alice"), GUARDED) == JobUser("mallory", True)
    assert user_of_pod(joined, job("alice", "bob"), OPEN) == JobUser("bob")
    assert user_of_pod(pod("a-0", 0, namespace="ml"), job("alice"), GUARDED) == JobUser("alice", True)


def test_the_pod_group_of_replicated_pods_has_the_user_of_their_owner_and_not_of_a_pod() -> None:
    reference = Owner("ReplicaSet", "web", "rs", DEPLOYMENT_API)
    replica = pod("web-1", 0, namespace="ml", annotations={USER: "mallory"}, owner=reference)
    owner = PodOwner(reference.kind, "ml", "web", "rs", annotations={USER: "alice"})
    assert group_for(replica, owner).annotations[USER] == "alice"
    assert USER not in group_for(replica, None).annotations
    alone = replace(replica, owner=None)
    assert group_for(alone, None).annotations[USER] == "mallory"


def test_pods_and_pod_group_of_a_vcjob_have_its_user() -> None:
    vcjob = job_of(task_of(chips=0, annotations={USER: "bob"}), annotations={USER: "alice"})
    assert {pod.annotations[USER] for pod in pods_of(vcjob)} == {"alice"}
    assert pod_group_of(vcjob).annotations[USER] == "alice"
