"""Candidates for eviction: what is known of them beforehand, and which of them a job can spare."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.framework.evictions.candidates import by_queue
from ringwise.framework.evictions.eviction import nominated_shares, starving_jobs
from ringwise.framework.evictions.spare_pods import SparePods
from ringwise.framework.job import Job
from ringwise.framework.shares.backfill_reservations import lending_owners
from ringwise.state.fleet import HOSTS
from ringwise.state.model import SubGroupPolicy
from ringwise.state.reservations import Reservation
from ringwise.wellknown import BACKUP_SOURCE_POD
from tests.builders.session_lab import Lab, cluster
from tests.examples import examples

JOBS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(1, 3), st.sampled_from((0, 4))),
    min_size=1,
    max_size=4,
)
#: Of the job that evicts: whether it requests chips, and whether a pod of it runs that it may evict.
OWN = st.tuples(st.booleans(), st.booleans())


@settings(max_examples=examples(25), deadline=None)
@given(JOBS, st.integers(0, 6), st.integers(0, 6), st.integers(1, 3), OWN)
def test_a_plugin_that_names_none_beforehand_names_none(
    jobs: list[tuple[int, int, int, int]],
    deserved: int,
    guarantee: int,
    asked: int,
    own: tuple[bool, bool],
) -> None:
    """All plugins that can tell it beforehand, for jobs of any priority and size, and their own pods."""
    chips, started = own
    lab = cluster().node("n1", cpu=40, chips=64)
    least = {"cpu": min(guarantee, deserved)}
    lab.queue("q", deserved={"cpu": deserved}, guarantee=least).queue("taker", deserved={"cpu": 20})
    for number, (priority, pods, cpu, held) in enumerate(jobs):
        lab.job(
            f"j{number}",
            priority=priority,
            pods=pods,
            min_available=1,
            queue="q",
            cpu=cpu,
            chips=held,
            on="n1",
        )
    lab.job("own", priority=1, pods=2, queue="q", cpu=asked, chips=4 * chips, on=["n1"] * started)
    if started:
        lab.change("own-0", priority=-1)
    lab.job("other", priority=1, queue="taker", cpu=asked, chips=4 * chips)
    for plugin in ("priority", "drf", "proportion", "capacity"):
        session = lab.session(plugin)
        members = [(job, pod) for job in lab.jobs.values() for pod in job.pods.values() if pod.node]
        [victims] = by_queue(session, members).values()
        uids = [pod.uid for _, pod in members]
        for taker, none, allowed in (
            (lab["own"], session.none_preemptable, session.preemptable),
            (lab["other"], session.none_reclaimable, session.reclaimable),
        ):
            pod = next(pod for pod in taker.pods.values() if not pod.node)
            if none(taker, pod, victims):
                assert allowed(taker, pod, uids) == []


def spare(lab: Lab, *names: str) -> list[list[str]]:
    job = lab["job"]
    found = SparePods(lab.session("gang")).units([(job, job.pods[name]) for name in names])
    return [[pod.uid for _, pod in unit] for unit in found]


@pytest.mark.parametrize(
    ("reserved", "asks"),
    [
        (None, True),
        ({}, True),  # for its long wait, and those that it waits for may be evicted by now
        ({"lasting": True}, False),  # for a move
        ({"expires": 9}, False),  # for its return
        ({"evicting": True, "again": 1}, False),
        ({"evicting": True, "again": 0}, True),  # those that go are not gone in time
        ({"evicting": True, "again": 1, "awaited": frozenset()}, True),  # they are gone, and it did not fit
    ],
)
def test_a_job_with_a_reservation_evicts_no_pod_before_it_is_due(
    reserved: dict[str, Any] | None, asks: bool
) -> None:
    lab = cluster().node("n1", cpu=2).job("there", cpu=2, on="n1").job("job", cpu=2)
    lab["job"].victims_from = 0
    session = lab.session("gang")
    if reserved is not None:
        session.reservations.make(
            Reservation("default/job", HOSTS, **{"awaited": frozenset(("there-0",)), **reserved})
        )
    assert [job.name for job in starving_jobs(session)] == ["job"] * asks


def test_a_nominated_pod_that_has_a_node_is_counted_once() -> None:
    lab = cluster().node("n1", cpu=4).job("job", pods=2, cpu=1, on=["n1"])
    session = lab.session()
    session.reservations.make(
        Reservation("default/job", HOSTS, nominated={"job-0": 0, "job-1": 0, "gone": 0}, evicting=True)
    )
    with nominated_shares(session):
        assert session.usage.used_by_queue("default")["cpu"] == 2
    assert session.usage.used_by_queue("default")["cpu"] == 1


@pytest.mark.parametrize(
    ("expected", "started", "starts", "lends"),
    [
        (5, None, 5, True),
        (6, None, 5, False),
        (None, None, 5, False),
        (5, None, None, False),  # the start of the owner is unknown
        (5, 0, 5, False),  # a pod that is placed again: when its job ends is not known
    ],
)
def test_what_is_reserved_is_lent_to_jobs_that_end_before_it_is_needed(
    expected: int | None, started: int | None, starts: int | None, lends: bool
) -> None:
    lab = cluster().node("n1", cpu=4).job("owner", cpu=4).job("job", cpu=1)
    lab["job"].expected, lab["job"].started = expected, started
    session = lab.session()
    for owner in ("default/owner", "default/job"):
        session.reservations.make(Reservation(owner, HOSTS, starts=starts))
    assert lending_owners(session, lab["job"]) == ["default/owner"] * lends


@pytest.mark.parametrize(
    ("least", "tasks", "expected"),
    [
        (4, {}, []),
        (3, {}, ["job-a-0"]),
        (2, {}, ["job-a-0", "job-b-0"]),
        # The only pod of a is needed.
        (2, {"a": 1}, ["job-b-0", "job-b-1"]),
        (2, {"a": 1, "b": 1}, ["job-b-0", "job-b-1"]),
        # The minimums of tasks count only where that of the job covers them.
        (2, {"a": 1, "b": 3}, ["job-a-0", "job-b-0"]),
    ],
)
def test_what_a_job_can_spare(least: int, tasks: dict[str, int], expected: list[str]) -> None:
    lab = cluster().node("n1", cpu=40)
    lab.job("job", tasks={"a": 1, "b": 3}, min_available=least, min_per_task=tasks, cpu=1, on="n1")
    assert spare(lab, "job-a-0", "job-b-0", "job-b-1", "job-b-2") == [[name] for name in expected]


def test_a_task_that_is_short_keeps_no_pod_of_another_task() -> None:
    lab = cluster().node("n1", cpu=40)
    least = {"a": 1, "b": 2}
    lab.job("job", tasks={"a": 1, "b": 4}, min_available=3, min_per_task=least, cpu=1, on="n1")
    lab.change("job-a-0", phase="Failed")
    assert spare(lab, *(f"job-b-{number}" for number in range(4))) == [["job-b-0"]]


@pytest.mark.parametrize(
    ("size", "groups", "least", "expected"),
    [
        # Two sub-groups of two, one of which must run.
        (2, 1, 2, [["job-0", "job-2"]]),
        (2, 2, 2, []),
        (2, 0, 0, [["job-0", "job-2"], ["job-1", "job-3"]]),
        # The job itself needs more.
        (2, 1, 3, []),
        # Each sub-group has a pod more than it needs.
        (1, 2, 2, [["job-0"], ["job-1"]]),
        (1, 1, 1, [["job-0"], ["job-1"], ["job-2"]]),
        # No sub-group is complete: nothing keeps their pods but the minimum of the job.
        (3, 0, 1, [["job-0"], ["job-1"], ["job-2"]]),
    ],
)
def test_a_sub_group_goes_with_all_its_pods(
    size: int, groups: int, least: int, expected: list[list[str]]
) -> None:
    lab = cluster().node("n1", cpu=40)
    lab.job("job", pods=4, min_available=least, cpu=1, on="n1")
    policy = SubGroupPolicy("part", match_label_keys=("part",), size=size, min_groups=groups)
    job = lab["job"]
    assert job.group is not None
    job.group = replace(job.group, sub_groups=(policy,))
    for number in range(4):
        lab.change(f"job-{number}", labels={"part": str(number % 2)})
    assert spare(lab, *(f"job-{number}" for number in range(4))) == expected


def two_sub_groups(pods: int) -> tuple[Lab, Job]:
    """A job of which one of its two sub-groups, of two pods each, must run."""
    lab = cluster().node("n1", chips=8)
    lab.job("job", pods=pods, min_available=2, chips=1, on="n1")
    job = lab["job"]
    assert job.group is not None
    policy = SubGroupPolicy("part", match_label_keys=("part",), size=2, min_groups=1)
    job.group = replace(job.group, sub_groups=(policy,))
    for number in range(4):
        lab.change(f"job-{number}", labels={"part": str(number // 2)})
    return lab, job


def test_a_backup_pod_goes_alone_and_is_no_member_of_its_sub_group() -> None:
    lab, job = two_sub_groups(pods=5)
    lab.change("job-4", labels={"part": "0"}, annotations={BACKUP_SOURCE_POD: "job-0"})
    assert job.backups == {"job-4": "job-0"}
    # The sub-group of job-0 goes without it, and needs no more than its two members.
    assert spare(lab, "job-0", "job-1") == [["job-0", "job-1"]]
    assert spare(lab, "job-4", "job-0") == [["job-4"]]
    assert spare(lab, "job-4", "job-0", "job-1") == [["job-4"]]


def test_a_sub_group_of_which_not_all_may_go_stays() -> None:
    lab, _ = two_sub_groups(pods=4)
    assert spare(lab, "job-0", "job-2", "job-3") == [["job-2", "job-3"]]
