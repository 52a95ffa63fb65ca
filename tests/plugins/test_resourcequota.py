"""resourcequota: a job is let in while the quotas of its namespace have room for its gang."""

from __future__ import annotations

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.framework.configuration import Tier
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.messages import events as ev
from ringwise.messages.commands import SetGroupStatus
from ringwise.messages.job_expansion import pod_group_of
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.defaults import BUILT_IN
from ringwise.state.model import ClassScope, ResourceQuota
from tests.builders.session_lab import Lab, cluster
from tests.builders.values import CHIP, group, job_of, node, seen, task_of
from tests.scheduler.rig import configuration


def quota(hard: dict[str, int], used: dict[str, int] | None = None, name: str = "q") -> ResourceQuota:
    return ResourceQuota("default", name, hard, used or {})


def verdict(lab: Lab, *quotas: ResourceQuota, job: str = "job") -> tuple[bool, str]:
    session = lab.session("resourcequota")
    session.quotas = {"default": {one.name: one for one in quotas}}
    may, reason = session.job_enqueueable(lab[job])
    return may, reason.message if reason is not None else ""


@pytest.mark.parametrize(
    ("hard", "used", "admitted"),
    [
        ({}, {}, True),
        ({"requests.cpu": 4_000}, {}, True),
        ({"requests.cpu": 4_000}, {"requests.cpu": 1}, False),
        ({"cpu": 3_999}, {}, False),  # the short name of the same thing
        ({"limits.cpu": 8_000}, {"limits.cpu": 1_000}, False),
        ({"pods": 2}, {}, True),
        ({"pods": 2}, {"pods": 1}, False),
        ({"count/pods": 1}, {}, False),
        ({f"requests.{CHIP}": 16}, {f"requests.{CHIP}": 8}, False),
        ({"configmaps": 0}, {"configmaps": 9}, True),  # what pods do not use does not matter
        ({"requests.storage": 1}, {"requests.storage": 1}, True),
    ],
)
def test_used_and_asked_stay_within_every_hard_limit(
    hard: dict[str, int], used: dict[str, int], admitted: bool
) -> None:
    lab = cluster().node("n1", cpu=1)
    needs = {"cpu": 4_000, "limits.cpu": 8_000, CHIP: 16}
    lab.job("job", pods=2, min_resources=needs, cpu=2_000)
    assert verdict(lab, quota(hard, used))[0] is admitted


@pytest.mark.parametrize(
    ("scopes", "admitted"),
    [
        ((), False),
        ((ClassScope("In", ("batch",)),), False),
        ((ClassScope("In", ("high",)),), True),
        ((ClassScope("NotIn", ("batch",)),), True),
        ((ClassScope("Exists"), ClassScope("NotIn", ("high",))), False),
        ((ClassScope("DoesNotExist"),), True),
    ],
)
def test_a_quota_counts_only_pods_of_the_classes_in_its_scope(
    scopes: tuple[ClassScope, ...], admitted: bool
) -> None:
    lab = cluster().node("n1", cpu=1).job("job", pods=2, min_resources={"cpu": 1}, cpu=1)
    for name in ("job-0", "job-1"):
        lab.change(name, priority_class="batch")
    # The pods of this one are not created yet: its PodGroup names the class.
    lab.job("new", pods=0, min_available=2, min_resources={"cpu": 1})
    lab["new"].group = group("new", 2, priority_class="batch", min_resources={"cpu": 1})
    scoped = ResourceQuota("default", "q", {"requests.cpu": 0}, class_scopes=scopes)
    assert verdict(lab, scoped)[0] is admitted
    assert verdict(lab, scoped, job="new")[0] is admitted


def test_the_message_names_only_what_is_exceeded() -> None:
    lab = cluster().node("n1", cpu=1).job("job", min_resources={"cpu": 4_000, "memory": 1}, cpu=4_000)
    may, message = verdict(
        lab,
        quota({"pods": 9}, name="a"),
        quota({"requests.cpu": 5_000, "memory": 9}, {"requests.cpu": 2_000}),
    )
    assert not may
    assert message == (
        "resource quota insufficient, requested: requests.cpu 4, used: requests.cpu 2, "
        "limited: requests.cpu 5 (ResourceQuota default/q)"
    )


def test_no_quota_or_no_min_resources_permits() -> None:
    lab = cluster().node("n1", cpu=1).job("job", cpu=4_000).job("other", min_resources={"cpu": 1}, cpu=1)
    assert verdict(lab, quota({"cpu": 0}))[0]
    assert verdict(lab, job="other")[0]


@pytest.mark.parametrize("created", [False, True])
def test_a_job_that_is_let_in_counts_until_the_quota_counts_its_pods(created: bool) -> None:
    lab = cluster().node("n1", cpu=1)
    for name in ("first", "second"):
        lab.job(name, min_resources={"cpu": 3_000}, cpu=3_000)
        job = lab[name]
        if not created:
            job.prospective, job.pods = tuple(job.pods.values()), {}
    session = lab.session("resourcequota")
    session.quotas = {"default": {"q": quota({"requests.cpu": 5_000})}}
    assert session.job_enqueueable(lab["first"])[0]
    lab["first"].inqueue = True
    session.job_enqueued(lab["first"])
    assert session.job_enqueueable(lab["second"])[0] is created
    # In a later cycle, while the first has no pods, it still counts.
    session = lab.session("resourcequota")
    session.quotas = {"default": {"q": quota({"requests.cpu": 5_000})}}
    assert session.job_enqueueable(lab["second"])[0] is created


def test_a_changed_quota_wakes_the_jobs_that_wait_for_it() -> None:
    tier = Tier(tuple(BUILT_IN.plugins[name].option() for name in ("gang", "resourcequota", "predicates")))
    scheduler = new_scheduler(configuration(("enqueue", "allocate"), tiers=(tier,)))
    vcjob = job_of(task_of(replicas=1, chips=0, cpu=3_000), name="job", uid="u1")

    def phases(*known: object) -> list[str]:
        commands = scheduler.handle(seen(*known), 1)
        return [command.phase for command in commands if isinstance(command, SetGroupStatus)]

    full = quota({"requests.cpu": 4_000}, {"requests.cpu": 2_000})
    assert phases(node("n1", cpu_milli=9_000), full, vcjob, pod_group_of(vcjob)) == ["Pending"]
    assert phases(full) == []
    assert phases(quota({"requests.cpu": 4_000}, {"requests.cpu": 1_000})) == ["Inqueue"]
    assert scheduler.view.jobs["default/job-u1"].inqueue


def test_a_deleted_quota_limits_nothing() -> None:
    scheduler = Scheduler(registry=BUILT_IN, catalog=shipped_catalog())
    scheduler.handle(seen(quota({"cpu": 1})), 1)
    scheduler.handle([ev.QuotaGone("default", "q"), ev.QuotaGone("default", "never there")], 2)
    assert not scheduler.view.contained_objects
