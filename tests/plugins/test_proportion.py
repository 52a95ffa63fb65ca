"""proportion: water filling, and what follows from a queue's share."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.framework.amounts import WeightedClaim, share_out
from ringwise.framework.configuration import PluginOption
from ringwise.framework.gangs.gang_placement import place_gang
from ringwise.framework.reserved_quota import ReservedQuota
from ringwise.framework.session import Session
from ringwise.framework.statement import Allocation, Eviction
from ringwise.plugins.gang.reasons import NOT_ENOUGH_PODS
from ringwise.plugins.proportion.queue_accounts import QueueAccounts
from tests.builders.session_lab import Lab, cluster
from tests.builders.values import CHIP

# -- water filling -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "claims", "shares"),
    [
        (12, [WeightedClaim(1, 99), WeightedClaim(3, 99)], [3, 9]),  # by weight
        (
            12,
            [WeightedClaim(1, 99), WeightedClaim(3, 2)],
            [10, 2],
        ),  # no claim gets more than it wants
        (12, [WeightedClaim(1, 1), WeightedClaim(1, 5), WeightedClaim(2, 99)], [1, 4, 7]),
        (12, [WeightedClaim(1, 2), WeightedClaim(1, 3)], [2, 3]),  # all are met and some is left
        (12, [WeightedClaim(1, 99, least=6), WeightedClaim(5, 99)], [6, 6]),  # a guarantee is a floor
        (12, [WeightedClaim(1, 10, least=10), WeightedClaim(1, 99)], [10, 2]),
        (
            8,
            [WeightedClaim(1, 99), WeightedClaim(2, 99)],
            [3, 5],
        ),  # 2.67 and 5.33: whole chips
        (1, [WeightedClaim(1, 9), WeightedClaim(1, 9)], [1, 0]),  # the tie goes to the first
        (5, [], []),
        (0, [WeightedClaim(1, 4)], [0]),
    ],
)
def test_shares_by_weight_capped_by_request_floored_by_guarantee(
    total: int, claims: list[WeightedClaim], shares: list[int]
) -> None:
    assert share_out(total, claims) == shares


CLAIMS = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 40), st.integers(0, 10)).map(
        lambda drawn: WeightedClaim(drawn[0], max(drawn[1], drawn[2]), drawn[2])
    ),
    min_size=1,
    max_size=6,
)


@given(st.integers(0, 100), CLAIMS)
def test_shares_use_all_that_is_wanted_and_are_fair(total: int, claims: list[WeightedClaim]) -> None:
    shares = share_out(total, claims)
    assert all(claim.least <= part <= claim.most for claim, part in zip(claims, shares, strict=True))
    wanted = sum(claim.most for claim in claims)
    guaranteed = sum(claim.least for claim in claims)
    assert sum(shares) == max(guaranteed, min(total, wanted))
    for claim, part in zip(claims, shares, strict=True):
        for other, others in zip(claims, shares, strict=True):
            if part < claim.most and others > other.least:
                # Whoever wants more is not behind anybody beyond its guarantee by a whole unit.
                assert (part + 1) * other.weight > (others - 1) * claim.weight


# -- the ceiling ---------------------------------------------------------------------------


def two_queues(total: int = 12, **weights: int) -> Lab:
    lab = cluster().node("n1", cpu=total)
    for name in ("a", "b"):
        lab.queue(name, weight=weights.get(name, 1))
    return lab


def accounts_of(session: Session) -> QueueAccounts:
    found: list[QueueAccounts] = []

    class Counts:
        def open(self, session: Session) -> None:
            found.append(QueueAccounts(session))

    session.open_plugin(PluginOption.of("counts", {}), lambda option: Counts())
    return found[0]


def allowed(lab: Lab, session: Session, queue: str) -> int:
    """How many one-cpu pods the queue may place now, by its share alone."""
    statement = session.statement()
    placed = 0
    for job in lab.jobs.values():
        for pod in job.pods.values():
            if job.queue == queue and session.is_pending(pod):
                if session.allocatable(lab.queues[queue], pod) is not None:
                    continue
                statement.allocate(Allocation(job, pod, 0, ()))
                placed += 1
    statement.discard()
    return placed


@pytest.mark.parametrize(
    ("a", "b", "weight", "share"),
    [
        ((0, 20), (0, 20), 1, 6),  # both want all: half
        ((0, 20), (0, 20), 2, 8),  # by weight 2 to 1
        ((0, 20), (0, 0), 1, 12),  # no other queue asks: all of it
        ((0, 20), (0, 2), 1, 10),  # the other is content with 2
        ((4, 20), (0, 20), 1, 2),  # 4 of its 6 are in use
        ((8, 20), (0, 20), 1, 0),  # already beyond its share
    ],
)
def test_allocatable_up_to_the_share_and_not_beyond(
    a: tuple[int, int], b: tuple[int, int], weight: int, share: int
) -> None:
    lab = two_queues(a=weight)
    for name, (running, waiting) in (("a", a), ("b", b)):
        lab.job(name, queue=name, pods=running + waiting, min_available=1, cpu=1, on=["n1"] * running)
    assert allowed(lab, lab.session("proportion"), "a") == share


def test_allocatable_names_queue_resource_use_share_and_a_fix() -> None:
    lab = two_queues().job("a", queue="a", pods=20, min_available=1, cpu=1, on=["n1"] * 6)
    lab.job("b", queue="b", pods=20, min_available=1, cpu=1)
    session = lab.session("proportion")
    reason = session.allocatable(lab.queues["a"], lab.pod("a-6"))
    assert reason is not None
    assert reason.code == "queue-over-fair-share"
    assert reason.details == {
        "queue": "a", "resource": "cpu", "used": 6, "asked": 1, "deserved": 6, "weight": 1,
    }  # fmt: skip
    assert reason.fixes


@pytest.mark.parametrize(
    ("capability", "share"),
    [
        ({"cpu": 3}, 3),
        ({"cpu": 0}, 12),  # 0 cpu or memory means no limit
        ({"memory": 5}, 12),  # what is not named has no limit
    ],
)
def test_capability_is_never_exceeded_even_when_all_is_idle(capability: dict[str, int], share: int) -> None:
    lab = cluster().node("n1", cpu=12).queue("a", capability=capability)
    lab.job("a", queue="a", pods=20, min_available=1, cpu=1)
    session = lab.session("proportion")
    assert allowed(lab, session, "a") == share
    if share == 3:
        statement = session.statement()
        for number in range(3):
            statement.allocate(Allocation(lab["a"], lab.pod(f"a-{number}"), 0, ()))
        reason = session.allocatable(lab.queues["a"], lab.pod("a-3"))
        assert reason is not None
        assert reason.code == "queue-capability-reached"
        assert (reason.details["used"], reason.details["limit"], reason.details["needed"]) == (3, 3, 4)


def test_capability_of_a_chip_resource_at_zero_is_a_limit() -> None:
    lab = cluster().node("n1", chips=8).queue("a", capability={CHIP: 0}).job("a", queue="a", chips=1)
    reason = lab.session("proportion").allocatable(lab.queues["a"], lab.pod("a-0"))
    assert reason is not None
    assert reason.code == "queue-capability-reached"


def test_guarantee_of_one_queue_is_kept_from_the_others_even_while_it_is_empty() -> None:
    lab = two_queues().queue("c", guarantee={"cpu": 5})
    lab.job("a", queue="a", pods=20, min_available=1, cpu=1)
    assert allowed(lab, lab.session("proportion"), "a") == 7


@pytest.mark.parametrize("state", ["Closed", "Closing", "Unknown"])
def test_a_queue_that_is_not_open_gets_nothing_and_asks_for_nothing(state: str) -> None:
    lab = two_queues()
    lab.queues["b"].state = state
    for name in ("a", "b"):
        lab.job(name, queue=name, pods=20, min_available=1, cpu=1)
    session = lab.session("proportion")
    reason = session.allocatable(lab.queues["b"], lab.pod("b-0"))
    assert reason is not None
    assert reason.code == "queue-not-open"
    assert not session.preemptive(lab.queues["b"], lab.pod("b-0"))
    assert allowed(lab, session, "a") == 12


@pytest.mark.parametrize("why", ["invalid", "larger than the cluster", "larger than its queue"])
def test_a_job_that_can_never_run_takes_no_share_from_others(why: str) -> None:
    lab = two_queues().job("a", queue="a", pods=20, min_available=1, cpu=1)
    lab.job("b", queue="b", pods={"larger than the cluster": 13}.get(why, 10), cpu=1)
    if why == "larger than its queue":
        lab.queues["b"].capability = {"cpu": 9}
    if why == "invalid":
        lab["b"].reason = NOT_ENOUGH_PODS()
    assert allowed(lab, lab.session("proportion"), "a") == 12


def test_resources_that_no_node_lists_are_not_shared() -> None:
    lab = cluster().node("n1", cpu=12).job("job", cpu=1, memory=10**9)
    assert lab.session("proportion").allocatable(lab.queues["default"], lab.pod("job-0")) is None


def test_what_is_not_shared_is_not_summed_up_either() -> None:
    """A pod may ask for thousands of resources that no node has: the others do not pay for them."""
    lab = two_queues().job("a", queue="a", pods=2, cpu=1).job("b", queue="b", pods=1, cpu=1, memory=10**9)
    assert accounts_of(lab.session("proportion"))._waiting() == {"a": {"cpu": 2}, "b": {"cpu": 1}}


def test_shares_at_a_later_time_of_a_forecast_are_those_of_accounts_that_begin_then() -> None:
    lab = two_queues().job("old", queue="a", pods=3, cpu=2, on=["n1"] * 3)
    lab.job("a", queue="a", pods=2, min_available=1, cpu=1)
    lab.job("b", queue="b", pods=9, min_available=1, cpu=1)
    session = lab.session("gang", "predicates", "proportion")
    accounts, statement = accounts_of(session), session.statement()
    shares = []
    for step, uids in enumerate(((), ("b-0", "a-0"), ("old-0",), ("old-1", "a-1"), ("old-2", "b-1"), ())):
        for uid in uids:
            job = lab[uid.partition("-")[0]]
            if job is lab["old"]:
                statement.evict(Eviction(job, lab.pod(uid), "supposed to end", job))
            else:
                statement.allocate(Allocation(job, lab.pod(uid), 0, ()))
        session.now += 1
        shares.append((accounts.deserved("a"), accounts.deserved("b")))
        again = accounts_of(session)
        assert shares[-1] == (again.deserved("a"), again.deserved("b")), step
    assert [share["cpu"] for share, _ in shares] == [6, 6, 6, 4, 2, 2]


@pytest.mark.parametrize(("pods", "cpu", "share"), [(0, 0, 5), (1, 1, 5), (1, 3, 5), (1, 4, 6)])
def test_F6_the_share_of_a_queue_grows_by_what_is_kept_and_not_asked_for_by_pods_again(
    pods: int, cpu: int, share: int
) -> None:
    """2 run, 3 are kept: those of a pod that was created again are asked for once."""
    lab = two_queues(20).job("a", queue="a", pods=2, cpu=1, on=["n1"] * 2)
    lab.job("lost", queue="a", pods=pods, cpu=cpu).job("b", queue="b", pods=20, min_available=1, cpu=1)
    lab.usage.reserved.put(ReservedQuota(lab["lost"].key, "a", {0: {"cpu": 3}}, most=1))
    accounts = accounts_of(lab.session("proportion"))
    assert accounts.deserved("a") == {"cpu": 2 + cpu}
    assert accounts.deserved_with_reserved("a") == {"cpu": share}


def test_two_gangs_larger_than_their_shares_do_not_block_each_other_for_ever() -> None:
    """By shares alone neither of 10 and 10 could start on 12. One starts, whole, when its queue is empty."""
    lab = two_queues().job("a", queue="a", pods=10, cpu=1).job("b", queue="b", pods=10, cpu=1)
    lab.job("more", queue="a", pods=1, cpu=1)
    session = lab.session("gang", "predicates", "proportion")
    assert place_gang(session, lab["a"], session.statement()) is None
    assert session.overused(lab.queues["a"])
    denied = session.allocatable(lab.queues["a"], lab.pod("more-0"))
    assert denied is not None
    assert denied.code == "queue-over-fair-share"


def test_a_large_gang_waits_while_its_queue_uses_anything_and_may_not_take_from_others() -> None:
    lab = two_queues().job("a", queue="a", pods=10, cpu=1).job("b", queue="b", pods=10, cpu=1)
    session = lab.session("proportion")
    assert session.allocatable(lab.queues["a"], lab.pod("a-0")) is None
    lab.job("old", queue="a", cpu=1, on="n1")
    session = lab.session("proportion")
    statement = session.statement()
    for number in range(5):
        statement.allocate(Allocation(lab["a"], lab.pod(f"a-{number}"), 0, ()))
    assert session.allocatable(lab.queues["a"], lab.pod("a-5")) is not None
    assert not session.preemptive(lab.queues["a"], lab.pod("a-5"))


# -- order, overuse, victims ---------------------------------------------------------------


def test_queues_are_ordered_by_priority_and_then_by_the_part_of_their_share_they_use() -> None:
    lab = two_queues(a=2).queue("c", priority=1)
    lab.job("a", queue="a", pods=20, min_available=1, cpu=1, on=["n1"] * 3)
    lab.job("b", queue="b", pods=20, min_available=1, cpu=1, on=["n1"] * 2)
    lab.job("c", queue="c", pods=1, cpu=1, on="n1")
    session = lab.session("proportion")
    queues = sorted((lab.queues[name] for name in "abc"), key=session.queue_key)
    assert [queue.name for queue in queues] == ["c", "a", "b"]


@pytest.mark.parametrize(("running", "overused"), [(0, False), (5, False), (6, True), (7, True)])
def test_overused_from_its_whole_share_on(running: int, overused: bool) -> None:
    lab = two_queues()
    for name in ("a", "b"):
        on = ["n1"] * (running if name == "a" else 0)
        lab.job(name, queue=name, pods=20, min_available=1, cpu=1, on=on)
    assert lab.session("proportion").overused(lab.queues["a"]) is overused


def test_overused_needs_every_resource_to_be_used_up() -> None:
    lab = cluster().node("n1", cpu=12, memory=12).queue("a").queue("b")
    for name in ("a", "b"):
        lab.job(
            f"{name}-cpu", queue=name, pods=20, min_available=1, cpu=1, on=["n1"] * (6 if name == "a" else 0)
        )
        lab.job(f"{name}-memory", queue=name, pods=20, min_available=1, memory=1)
    assert not lab.session("proportion").overused(lab.queues["a"])


@pytest.mark.parametrize(("running", "victims"), [(6, 0), (8, 2), (12, 6)])
def test_victims_as_long_as_their_queue_is_beyond_its_share(running: int, victims: int) -> None:
    lab = two_queues().job("new", queue="b", pods=20, min_available=1, cpu=1)
    lab.job("old", queue="a", pods=20, min_available=1, cpu=1, on=["n1"] * running)
    session = lab.session("proportion")
    candidates = [f"old-{number}" for number in range(running)]
    assert session.reclaimable(lab["new"], lab.pod("new-0"), candidates) == candidates[:victims]


def test_victims_must_use_what_their_queue_has_too_much_of() -> None:
    lab = cluster().node("n1", cpu=12, memory=100).queue("a").queue("b")
    lab.job("new", queue="b", pods=12, min_available=1, cpu=1)
    lab.job("cpu", queue="a", pods=12, cpu=1, on="n1").job("memory", queue="a", memory=1, on="n1")
    session = lab.session("proportion")
    assert session.reclaimable(lab["new"], lab.pod("new-0"), ["memory-0", "cpu-0"]) == ["cpu-0"]


# -- admission -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("others", "asked", "admitted"),
    [
        ({}, 10, True),
        ({}, 11, False),
        ({"on": ["n1"] * 4}, 6, True),  # 4 in use
        ({"on": ["n1"] * 4}, 7, False),
        ({"inqueue": True}, 6, True),  # 4 promised to a job that is pending
        ({"inqueue": True}, 7, False),
        ({"inqueue": True, "on": ["n1"]}, 6, True),  # 1 in use and 3 promised
        ({"inqueue": True, "on": ["n1"]}, 7, False),
        ({"on": ["n1"] * 4, "min_available": 1}, 9, True),  # 3 of them can be taken back
        ({"on": ["n1"] * 4, "min_available": 1}, 10, False),
        ({}, 0, True),  # asks for nothing
    ],
)
def test_enqueueable_need_plus_use_plus_promises_within_the_capability(
    others: dict[str, Any], asked: int, admitted: bool
) -> None:
    lab = cluster().node("n1", cpu=12).queue("a", capability={"cpu": 10})
    if others:
        lab.job("other", queue="a", pods=4, cpu=1, **others)
    lab.job("new", queue="a", cpu=asked)
    permitted, reason = lab.session("proportion").job_enqueueable(lab["new"])
    assert permitted is admitted
    if reason is not None:
        assert reason.code == "queue-quota-insufficient"
        assert reason.message.startswith("queue resource quota insufficient")
        assert reason.details["asked"] == asked


def test_enqueueable_counts_jobs_admitted_in_the_same_cycle() -> None:
    lab = cluster().node("n1", cpu=10)
    for name in ("first", "refused by another plugin", "third"):
        lab.job(name, cpu=5)
    lab.job("fourth", cpu=1)
    session = lab.session("proportion")
    for name, enters in (("first", True), ("refused by another plugin", False), ("third", True)):
        assert session.job_enqueueable(lab[name])[0]
        lab[name].inqueue = enters
        if enters:
            session.job_enqueued(lab[name])
    assert not session.job_enqueueable(lab["fourth"])[0]


@pytest.mark.parametrize(("needs", "admitted"), [(10, True), (11, False)])
def test_enqueueable_reads_min_resources_before_pods_exist(needs: int, admitted: bool) -> None:
    lab = cluster().node("n1", cpu=10).job("job", pods=0, min_resources={"cpu": needs})
    assert lab.session("proportion").job_enqueueable(lab["job"])[0] is admitted


def test_enqueueable_a_queue_that_is_not_open_rejects() -> None:
    lab = two_queues().job("a", queue="a", cpu=1)
    lab.queues["a"].state = "Closing"
    permitted, reason = lab.session("proportion").job_enqueueable(lab["a"])
    assert not permitted
    assert reason is not None
    assert reason.code == "queue-not-open"


@pytest.mark.parametrize("others", [0, 1])
def test_a_queue_alone_gets_what_it_would_get_beside_one_that_is_content(others: int) -> None:
    lab = two_queues().job("a", queue="a", pods=20, min_available=1, cpu=1, on=["n1"] * 3)
    if others:
        lab.job("b", queue="b", pods=1).change("b-0", phase="Succeeded")
    session = lab.session("proportion")
    assert allowed(lab, session, "a") == 9
    assert not session.overused(lab.queues["a"])


def test_guarantee_is_no_limit_for_its_own_queue() -> None:
    lab = two_queues().queue("c", guarantee={"cpu": 5}).job("c", queue="c", pods=20, min_available=1, cpu=1)
    assert allowed(lab, lab.session("proportion"), "c") == 12


def test_a_large_gang_gets_its_gang_and_no_pod_beyond_it() -> None:
    lab = two_queues().job("a", queue="a", pods=12, min_available=10, cpu=1)
    lab.job("b", queue="b", pods=10, cpu=1)
    assert allowed(lab, lab.session("proportion"), "a") == 10


@pytest.mark.parametrize(("owner", "placed"), [("a", 3), ("lost", 1)])
def test_F6_a_large_gang_is_not_alone_beside_what_is_reserved_for_another_job(
    owner: str, placed: int
) -> None:
    lab = two_queues().job("a", queue="a", pods=3, cpu=4).job("b", queue="b", pods=10, cpu=1)
    lab.job("lost", queue="a", pods=0)
    lab.usage.reserved.put(ReservedQuota(lab[owner].key, "a", {0: {"cpu": 1}}, most=1))
    assert allowed(lab, lab.session("proportion"), "a") == placed


def test_a_large_gang_does_not_reach_into_what_others_are_guaranteed() -> None:
    lab = two_queues().queue("c", guarantee={"cpu": 5}).job("a", queue="a", pods=10, cpu=1)
    lab.job("b", queue="b", pods=1, cpu=1)
    assert allowed(lab, lab.session("proportion"), "a") == 0
