"""sla: a limit puts a job first, and lets it in when it is over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ringwise.actions.enqueue import enqueue
from ringwise.framework.configuration import Configuration, PluginOption, Tier
from ringwise.messages import events as ev
from ringwise.messages.commands import SetGroupStatus
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.defaults import BUILT_IN
from ringwise.state.model import Node, Owner, PodClass, PodGroup
from ringwise.state.vcjob import PodTemplate, Task, VcJob
from tests.builders import Lab, cluster

MINUTE = 60_000_000_000
NEW, OLD = "volcano.sh/sla-waiting-time", "sla-waiting-time"


def sla(limit: int = 0) -> PluginOption:
    return PluginOption.of("sla", arguments={"sla-waiting-time": limit})


def waiting(lab: Lab, name: str, annotations: Mapping[str, str], created: int = 0, **more: Any) -> Lab:
    lab.job(name, **more)
    job = lab[name]
    assert job.group is not None
    job.group.annotations, job.created = annotations, created
    return lab


@pytest.mark.parametrize(
    ("limit", "annotations", "due"),
    [
        (0, {}, None),
        (10 * MINUTE, {}, 10 * MINUTE),
        (10 * MINUTE, {NEW: "1m"}, MINUTE),  # the job's own limit beats the global one
        (0, {NEW: "1h30m"}, 90 * MINUTE),
        (0, {OLD: "2m"}, 2 * MINUTE),
        (0, {NEW: "3m", OLD: "2m"}, 3 * MINUTE),  # the old key counts only where the new one is absent
        (10 * MINUTE, {NEW: "soon"}, 10 * MINUTE),  # unreadable: as if it were absent
        (10 * MINUTE, {NEW: "0s"}, 10 * MINUTE),
        (0, {NEW: "-1m"}, None),
    ],
)
def test_a_job_is_let_in_once_it_waited_long_enough(
    limit: int, annotations: dict[str, str], due: int | None
) -> None:
    lab = waiting(cluster().node("n1", cpu=1), "job", annotations, min_resources={"cpu": 9}, cpu=9)
    for now in (0, (due or MINUTE) - 1, due or 10**18):
        session = lab.session([sla(limit)], ["overcommit"])
        session.now = now
        late = due is not None and now >= due
        assert session.job_enqueueable(lab["job"])[0] is late
        assert session.retries == ({} if late or due is None else {"default/job": due})


def test_jobs_with_a_limit_go_first_and_the_nearest_limit_before_others() -> None:
    lab = cluster().node("n1", cpu=1)
    waiting(lab, "old", {}, created=0)
    waiting(lab, "late", {NEW: "10m"}, created=MINUTE)
    waiting(lab, "soon", {NEW: "2m"}, created=2 * MINUTE)
    session = lab.session("sla")
    assert [job.name for job in sorted(lab.jobs.values(), key=session.job_key)] == ["soon", "late", "old"]


def test_a_tier_before_the_limit_still_refuses() -> None:
    lab = waiting(cluster().node("n1", cpu=1), "job", {NEW: "1m"}, min_resources={"cpu": 9}, cpu=9)
    session = lab.session(["overcommit"], ["sla"])
    session.now = MINUTE
    enqueue(session)
    assert not lab["job"].inqueue


def test_the_scheduler_tries_the_job_again_when_its_limit_is_over() -> None:
    """No event happens then: the time alone lets it in."""
    tiers = (("gang", "sla"), ("overcommit", "predicates"))
    configuration = Configuration(
        ("enqueue", "allocate"),
        tuple(Tier(tuple(BUILT_IN.plugins[name].option() for name in tier)) for tier in tiers),
    )
    scheduler = Scheduler(configuration, registry=BUILT_IN)
    task = Task("main", 1, 1, PodTemplate(PodClass(cpu_milli=9_000)))
    vcjob = VcJob("default", "job", "u1", tasks=(task,), min_available=1, created=MINUTE)
    group = PodGroup(
        "default",
        "job-u1",
        min_resources={"cpu": 9_000},
        created=MINUTE,
        annotations={NEW: "5m"},
        owner=Owner("Job", "job", "u1"),
    )
    commands = scheduler.handle(
        [ev.NodeSeen(Node("n1", cpu_milli=1_000)), ev.VcJobSeen(vcjob), ev.PodGroupSeen(group)], MINUTE
    )
    assert [command.phase for command in commands if isinstance(command, SetGroupStatus)] == ["Pending"]
    assert scheduler.next_deadline() == 6 * MINUTE
    assert not scheduler.handle([], 6 * MINUTE - 1)
    commands = scheduler.handle([], 6 * MINUTE)
    assert [command.phase for command in commands if isinstance(command, SetGroupStatus)] == ["Inqueue"]
