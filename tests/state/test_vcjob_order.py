"""Whether two versions of a vcjob order the same pods: then those that will be created are not made again."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.messages.job_expansion import pod_group_of, pods_of
from ringwise.state.model import Pod
from ringwise.state.vcjob import PodTemplate, Policy, Task, VcJob, Volume
from tests.builders.values import pod_class, seen

JOB = VcJob("team", "train", "uid", (Task("worker", 3, 3, PodTemplate(pod_class(8))),))

#: What the controller writes, and has no effect on pods.
STATUS: dict[str, Any] = {
    "phase": "Pending",
    "since": 5,
    "reason": "why",
    "message": "because",
    "counts": {"pending": 3},
    "conditions": (("Pending", 5),),
    "rejections": {"train-worker-0": 1},
}


@pytest.mark.parametrize("name", STATUS)
def test_the_status_orders_no_other_pods(name: str) -> None:
    changed = replace(JOB, **{name: STATUS[name]})
    assert changed.orders_same_pods(JOB)
    assert pods_of(changed) == pods_of(JOB)


@pytest.mark.parametrize("change", [{"phase": "Aborting"}, {"deleting": True}], ids=str)
def test_a_job_that_ends_orders_none(change: dict[str, Any]) -> None:
    assert not replace(JOB, **change).orders_same_pods(JOB)
    assert pods_of(replace(JOB, **change)) == []


@pytest.mark.parametrize("name", [one.name for one in fields(VcJob) if one.name not in {*STATUS, "deleting"}])
def test_everything_else_counts(name: str) -> None:
    known = getattr(JOB, name)
    others: dict[str, Any] = {
        "tasks": (replace(JOB.tasks[0], replicas=4),),
        "policies": (Policy("RestartJob"),),
        "volumes": (Volume("/data"),),
    }
    by_type: dict[type, Any] = {
        str: "other",
        int: 7,
        type(None): 7,
        tuple: ("other",),
        dict: {"key": "other"},
    }
    other = others.get(name, by_type.get(type(known), {"key": "other"}))
    assert not replace(JOB, **{name: other}).orders_same_pods(JOB)


def test_the_pods_to_be_created_are_kept_while_the_job_orders_the_same() -> None:
    scheduler = new_scheduler()
    key = pod_group_of(JOB).key

    def expected(job: VcJob) -> tuple[Pod, ...]:
        scheduler.handle(seen(job, pod_group_of(job)), 1)
        return scheduler.view.jobs[key].prospective

    first = expected(JOB)
    assert len(first) == 3
    assert expected(replace(JOB, phase="Pending", counts={"pending": 3})) is first
    assert len(expected(replace(JOB, tasks=(replace(JOB.tasks[0], replicas=12),)))) == 12
    assert [pod.name for pod in scheduler.view.jobs[key].in_order][-2:] == [
        "train-worker-10",
        "train-worker-11",
    ]
