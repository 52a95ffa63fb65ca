"""sla: a limit puts a job first, and lets it in when it is over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ringwise.actions.enqueue import enqueue
from ringwise.apps.extensions import new_scheduler
from ringwise.framework.configuration import PluginOption, Tier
from ringwise.messages.commands import SetGroupStatus
from ringwise.messages.job_expansion import pod_group_of
from ringwise.scheduler.defaults import BUILT_IN
from ringwise.state.model import Node
from tests.builders.session_lab import Lab, cluster
from tests.builders.values import job_of, seen, task_of
from tests.scheduler.rig import configuration

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
    plugins = [Tier(tuple(BUILT_IN.plugins[name].option() for name in tier)) for tier in tiers]
    scheduler = new_scheduler(configuration(("enqueue", "allocate"), tiers=tuple(plugins)))
    vcjob = job_of(task_of(replicas=1, chips=0, cpu=9_000), name="job", uid="u1", created=MINUTE)
    group = replace(pod_group_of(vcjob), created=MINUTE, annotations={NEW: "5m"})
    commands = scheduler.handle(seen(Node("n1", cpu_milli=1_000), vcjob, group), MINUTE)
    assert [command.phase for command in commands if isinstance(command, SetGroupStatus)] == ["Pending"]
    assert scheduler.next_deadline() == 6 * MINUTE
    assert not scheduler.handle([], 6 * MINUTE - 1)
    commands = scheduler.handle([], 6 * MINUTE)
    assert [command.phase for command in commands if isinstance(command, SetGroupStatus)] == ["Inqueue"]
