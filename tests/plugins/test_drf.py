"""drf: dominant shares of jobs, and of queues in a tree."""

from __future__ import annotations

import pytest

from ringwise.framework.statement import Allocation
from tests.builders.session_lab import Lab, cluster, option


def test_order_the_share_is_the_largest_part_of_any_resource_and_the_smaller_goes_first() -> None:
    lab = cluster().node("n1", cpu=100, memory=1000)
    lab.job("cpu-heavy", pods=2, on=["n1"], cpu=30, memory=10)  # 30 of 100 cpu
    lab.job("memory-heavy", pods=2, on=["n1"], cpu=1, memory=200)  # 200 of 1000 memory
    lab.job("new", cpu=90)
    session = lab.session("drf")
    order = [job.name for job in sorted(lab.jobs.values(), key=session.job_key)]
    assert order == ["new", "memory-heavy", "cpu-heavy"]


def test_order_shares_follow_placements_inside_the_cycle() -> None:
    lab = cluster().node("n1", cpu=100).job("a", pods=2, cpu=10).job("b", cpu=10)
    session = lab.session("drf")
    assert session.job_key(lab["a"]) < session.job_key(lab["b"])
    statement = session.statement()
    statement.allocate(Allocation(lab["a"], lab.pod("a-0"), 0, ()))
    assert session.job_key(lab["a"]) > session.job_key(lab["b"])
    statement.discard()
    assert session.job_key(lab["a"]) < session.job_key(lab["b"])


@pytest.mark.parametrize(
    ("running", "victims"),
    [
        (1, 0),  # it would keep 0, less than the 10 the new job gets
        (2, 1),  # it would keep 10: equal is enough
        (4, 3),  # each victim counts against the next: 30, 20, 10, and then 0
    ],
)
def test_victims_whose_job_keeps_at_least_the_share_that_the_other_gets(running: int, victims: int) -> None:
    lab = cluster().node("n1", cpu=100).job("new", cpu=10)
    lab.job("old", pods=running, cpu=10, on="n1")
    session = lab.session("drf")
    candidates = [f"old-{number}" for number in range(running)]
    assert session.preemptable(lab["new"], lab.pod("new-0"), candidates) == candidates[:victims]


def test_victims_equal_means_within_a_millionth() -> None:
    lab = cluster().node("n1", cpu=100_000_000).job("new", cpu=50).job("old", pods=2, cpu=1, on="n1")
    assert lab.session("drf").preemptable(lab["new"], lab.pod("new-0"), ["old-0"]) == ["old-0"]
    lab = cluster().node("n1", cpu=100_000).job("new", cpu=50).job("old", pods=2, cpu=1, on="n1")
    assert lab.session("drf").preemptable(lab["new"], lab.pod("new-0"), ["old-0"]) == []


def tree(**used: int) -> Lab:
    """root: research (weight 1) with vision (1) and speech (3); sales (weight 2). Every queue wants more."""
    lab = cluster().node("n1", cpu=100)
    for name, path, weights in (
        ("vision", "root/research/vision", "1/1/1"),
        ("speech", "root/research/speech", "1/1/3"),
        ("sales", "root/sales", "1/2"),
    ):
        annotations = {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}
        lab.queue(name, annotations=annotations)
        amount = used.get(name, 0)
        lab.job(name, queue=name, pods=amount + 1, min_available=1, cpu=1, on=["n1"] * amount)
    return lab


HIERARCHY = option("drf", {"hierarchy": True})


@pytest.mark.parametrize(
    ("used", "order"),
    [
        # research 10/1 against sales 10/2: sales; inside research 9/3 against 1/1: vision
        ({"vision": 1, "speech": 9, "sales": 10}, ["sales", "vision", "speech"]),
        # research 8/1 against sales 20/2: research first, both of it before sales
        ({"vision": 4, "speech": 4, "sales": 20}, ["speech", "vision", "sales"]),
    ],
)
def test_tree_queues_are_ordered_by_share_over_weight_from_the_root_down(
    used: dict[str, int], order: list[str]
) -> None:
    lab = tree(**used)
    session = lab.session(HIERARCHY)
    queues = [queue for name, queue in lab.queues.items() if name != "default"]
    assert [queue.name for queue in sorted(queues, key=session.queue_key)] == order


def test_tree_a_queue_that_wants_nothing_more_is_saturated_and_goes_last() -> None:
    lab = tree(sales=20, vision=5)
    session = lab.session(HIERARCHY)
    sales, vision = lab.queues["sales"], lab.queues["vision"]
    assert session.queue_key(vision) < session.queue_key(sales)
    statement = session.statement()
    for name in ("vision", "speech"):
        job = lab[name]
        waiting = next(pod for pod in job.pods.values() if session.is_pending(pod))
        statement.allocate(Allocation(job, waiting, 0, ()))
    assert session.queue_key(sales) < session.queue_key(vision)
    statement.discard()
    assert session.queue_key(vision) < session.queue_key(sales)


@pytest.mark.parametrize(
    ("sales", "victims"),
    [
        (2, 0),  # after the move: research 1/1, sales 1/2
        (4, 1),  # 1/1 against 3/2; a second one would leave 2/2, no longer after it
        (6, 3),
    ],
)
def test_tree_victims_whose_queue_still_comes_later_after_the_move(sales: int, victims: int) -> None:
    lab = tree(sales=sales)
    session = lab.session(HIERARCHY)
    candidates = [f"sales-{number}" for number in range(sales)]
    pod = lab.pod("vision-0")
    assert session.reclaimable(lab["vision"], pod, candidates) == candidates[:victims]
    # Asking changes nothing.
    assert session.reclaimable(lab["vision"], pod, candidates) == candidates[:victims]


def test_without_the_switch_queues_are_not_ordered() -> None:
    lab = tree(sales=20)
    session = lab.session("drf")
    assert session.queue_key(lab.queues["vision"])[:-2] == ()
