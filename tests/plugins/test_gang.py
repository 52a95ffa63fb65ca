"""gang: valid, ready, pipelined, starving, order, victims."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.framework.gangs.gang_count import placed_pods
from ringwise.framework.gangs.gang_placement import place_gang
from ringwise.framework.statement import Allocation, Eviction
from tests.builders.session_lab import cluster


def test_valid_too_few_pods_gives_both_numbers() -> None:
    lab = cluster().node("n1").job("job", pods=3, min_available=3, cpu=1)
    session = lab.session("gang")
    assert session.job_valid(lab["job"]) is None
    lab.change("job-2", phase="Failed")
    reason = session.job_valid(lab["job"])
    assert reason is not None
    assert reason.code == "not-enough-pods"
    assert (reason.details["valid"], reason.details["needed"], reason.details["missing"]) == (2, 3, 1)


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        ({}, True),
        ({"phase": "Running", "node": "n1"}, True),
        ({"phase": "Succeeded"}, True),
        ({"gated": True}, True),
        ({"phase": "Failed"}, False),
        ({"phase": "Unknown"}, False),
        ({"phase": "Running", "node": "n1", "deleting": True}, False),
        # It may have exited with code 0 because it is deleted.
        ({"phase": "Succeeded", "deleting": True}, False),
    ],
)
def test_valid_counts_pods_that_run_ran_well_or_wait(change: Mapping[str, object], counts: bool) -> None:
    lab = cluster().node("n1").job("job", pods=1).change("job-0", **change)
    assert (lab.session("gang").job_valid(lab["job"]) is None) is counts


@pytest.mark.parametrize(
    ("min_available", "valid"),
    [
        (3, False),  # 3 covers the tasks' 1 + 2, so each task must have its own
        (2, True),  # below the sum of the tasks' minimums, tasks are not looked at
    ],
)
def test_valid_each_task_needs_its_minimum_unless_the_jobs_is_below_their_sum(
    min_available: int, valid: bool
) -> None:
    lab = cluster().job(
        "job",
        tasks={"master": 0, "worker": 3},
        min_per_task={"master": 1, "worker": 2},
        min_available=min_available,
    )
    reason = lab.session("gang").job_valid(lab["job"])
    assert (reason is None) is valid
    if reason is not None:
        assert reason.code == "not-enough-pods-of-task"
        assert reason.details["task"] == "master"


@pytest.mark.parametrize(("running", "ready"), [(0, False), (1, False), (2, True), (3, True)])
def test_ready_when_as_many_pods_as_needed_have_a_place(running: int, ready: bool) -> None:
    lab = cluster().node("n1").job("job", pods=3, min_available=2, cpu=1, on=["n1"] * running)
    session = lab.session("gang")
    assert session.job_ready(lab["job"]) is ready
    assert session.job_pipelined(lab["job"]) is ready
    assert session.job_starving(lab["job"]) is (running < 2)


def test_ready_pods_that_ask_for_nothing_count_while_they_wait_but_the_job_starves() -> None:
    lab = cluster().node("n1").job("job", pods=2)
    session = lab.session("gang")
    assert session.job_ready(lab["job"])
    assert session.job_starving(lab["job"])


def test_ready_a_pod_that_asks_for_nothing_counts_once_when_it_gets_a_place() -> None:
    lab = cluster().node("n1").job("job", pods=2, min_available=3)
    session = lab.session("gang")
    assert not session.job_ready(lab["job"])
    session.statement().allocate(Allocation(lab["job"], lab.pod("job-0"), 0, ()))
    assert not session.job_ready(lab["job"])


def test_ready_a_pod_that_is_being_deleted_does_not_count() -> None:
    lab = cluster().node("n1").job("job", cpu=1, on="n1").change("job-0", deleting=True)
    assert not lab.session("gang").job_ready(lab["job"])


def test_ready_each_task_must_reach_its_minimum() -> None:
    lab = cluster().node("n1")
    lab.job(
        "job",
        tasks={"master": 1, "worker": 3},
        min_per_task={"master": 1, "worker": 1},
        min_available=2,
        cpu=1,
    )
    session = lab.session("gang")
    job, statement = lab["job"], session.statement()
    for name in ("job-worker-0", "job-worker-1"):
        statement.allocate(Allocation(job, lab.pod(name), 0, ()))
    assert not session.job_ready(job)
    assert not session.job_pipelined(job)
    statement.allocate(Allocation(job, lab.pod("job-master-0"), 0, ()))
    assert session.job_ready(job)
    statement.discard()
    assert not session.job_ready(job)


def test_pipelined_a_gang_that_is_not_complete_is_a_rejection_whatever_others_say() -> None:
    lab = cluster().job("job", pods=2, cpu=1)
    assert not lab.session("priority", "gang").job_pipelined(lab["job"])


def test_order_jobs_that_are_not_ready_go_before_ready_ones() -> None:
    lab = cluster().node("n1")
    lab.job("ready", pods=2, min_available=1, cpu=1, on=["n1"]).job("waiting", cpu=1)
    session = lab.session("gang")
    assert session.job_key(lab["waiting"]) < session.job_key(lab["ready"])


@pytest.mark.parametrize(("min_available", "spare"), [(1, 2), (2, 1), (3, 0)])
def test_victims_only_while_the_job_keeps_its_minimum_counting_down(min_available: int, spare: int) -> None:
    lab = cluster().node("n1").job("new").job("old", pods=3, min_available=min_available, on="n1")
    session = lab.session("gang")
    candidates = ["old-2", "old-1", "old-0"]
    for ask in (session.preemptable, session.reclaimable):
        assert ask(lab["new"], lab.pod("new-0"), candidates) == candidates[:spare]


@given(st.integers(1, 4), st.integers(0, 2), st.integers(1, 6))
def test_victims_pods_that_wait_do_not_stand_in_for_those_that_run(
    running: int, waiting: int, min_available: int
) -> None:
    """Also if they request nothing, so that they can start at any time."""
    lab = cluster().node("n1").job("new")
    lab.job("old", pods=running + waiting, min_available=min_available, on=["n1"] * running)
    candidates = [f"old-{at}" for at in range(running)]
    victims = lab.session("gang").preemptable(lab["new"], lab.pod("new-0"), candidates)
    assert len(victims) == max(0, running - min_available)


def test_the_gang_is_placed_or_gets_a_reason() -> None:
    lab = cluster().nodes(2, cpu=1000).job("fits", pods=2, cpu=600).job("not", pods=3, cpu=600)
    session = lab.session("gang", "predicates")
    statement = session.statement()
    reason = place_gang(session, lab["not"], statement)
    assert reason is not None
    assert reason.code == "gang-incomplete"
    statement.discard()
    assert place_gang(session, lab["fits"], session.statement()) is None
    assert session.job_ready(lab["fits"])
    assert not session.job_ready(lab["not"])


def test_a_pod_that_succeeded_and_is_deleted_does_not_complete_its_gang() -> None:
    lab = cluster().nodes(1, cpu=1000).job("job", pods=3, min_available=2, cpu=600)
    lab.change("job-0", phase="Succeeded", deleting=True)
    session = lab.session("gang", "predicates")
    reason = place_gang(session, lab["job"], session.statement())
    assert reason is not None
    assert reason.code == "gang-incomplete"
    assert not session.job_ready(lab["job"])


@given(st.lists(st.integers(0, 5), max_size=12), st.integers(1, 6), st.booleans())
def test_counts_kept_by_notices_equal_a_recount(pods: list[int], needed: int, discard: bool) -> None:
    """Placing, evicting and undoing in any order."""
    lab = cluster().node("n1").job("job", pods=6, min_available=needed, cpu=1, on=["n1"] * 2)
    session = lab.session("gang")
    job, statement = lab["job"], session.statement()
    assert session.job_ready(job) is (needed <= 2)
    for number in pods:
        pod = lab.pod(f"job-{number}")
        if session.is_pending(pod):
            statement.allocate(Allocation(job, pod, 0, ()))
        elif pod.phase == "Running" and lab.state.pods[pod.uid].node >= 0:
            statement.evict(Eviction(job, pod, "test", job))
        assert session.job_ready(job) is (placed_pods(session.state, job) >= needed)
    if discard:
        statement.discard()
        assert session.job_ready(job) is (needed <= 2)
