"""Limits of namespaces, queues and users of a queue: who may start, who waits, who wakes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ringwise.framework.amounts import Amount
from ringwise.framework.holdings import Scope
from ringwise.framework.job import Job
from ringwise.framework.limits import LimitTable
from ringwise.framework.reserved_quota import ReservedQuota
from ringwise.framework.usage import ResourceUsage
from ringwise.messages import events as ev
from ringwise.messages.accounting import PodHeld
from ringwise.messages.commands import Bind, Evict, EvictionCause, SetQueueStatus
from ringwise.scheduler.defragment.search import find_plans
from ringwise.scheduler.explain.why import explain
from ringwise.state.limits import PENDING_JOBS, RUNNING_JOBS, UsageLimit
from ringwise.state.model import Owner, Queue
from tests.builders.values import CHIP, SECOND, pod_class
from tests.examples import examples
from tests.scheduler.rig import PLAIN, Rig, configuration, gangs_may_end

WITH_RECLAIM = ("enqueue", "allocate", "reclaim", "backfill")
GUARDED: dict[str, Any] = {"user_annotation": "guarded"}


#: What the tests call them, and what UsageLimits do.
_NAMES = {"chips": CHIP, "running_jobs": RUNNING_JOBS, "waiting_jobs": PENDING_JOBS}


def limit_queue(made: Rig, name: str = "default", **limits: int) -> None:
    """Limits of all jobs of the queue, and with `_per_user` of each user: `max_chips`, `burst_chips` ..."""
    made.tell(Queue(name, created=1))
    for user in ("", "*"):
        hard, borrowing = dict[str, int](), dict[str, int]()
        for key, value in limits.items():
            kind, _, what = key.removesuffix("_per_user").partition("_")
            if key.endswith("_per_user") == bool(user):
                (hard if kind == "max" else borrowing)[_NAMES[what]] = value
        named = f"{name}-each" if user else name
        limit = UsageLimit(named, queue=name, user=user, hard=hard, borrowing=borrowing)
        made.tell(limit if hard else ev.UsageLimitGone(named))


def limit_namespace(made: Rig, name: str, hard: Mapping[str, int], burst: int = 0) -> None:
    borrowing = {CHIP: burst} if burst else {}
    made.tell(UsageLimit(f"of-{name}", namespace=name, hard=hard, borrowing=borrowing))


def started(made: Rig, *names: str) -> list[str]:
    return [name for name in names if made.nodes_of(name)]


def user(name: str) -> dict[str, str]:
    return {"ringwise.io/user": name}


def test_chips_of_a_queue() -> None:
    made = Rig(4, actions=PLAIN)
    limit_queue(made, max_chips=12)
    made.submit("a", chips=8)
    made.submit("b", chips=8)
    made.submit("c", chips=4)
    made.run()
    assert started(made, "a", "b", "c") == ["a", "c"]
    assert made.reason("b") == "chip-limit-reached"
    found = made.machine.view.jobs["default/b"].reason
    assert found is not None
    assert found.message.startswith(
        "queue default uses 8 of 12 Ascend910 and the job requests 8 more"
    ) or found.message.startswith("queue default uses 12 of 12 Ascend910 and the job requests 8 more")
    made.end("a")
    made.run()
    assert started(made, "b", "c") == ["b", "c"]


@pytest.mark.parametrize("of", ["queue", "namespace"])
def test_who_waits_for_room_says_so_when_a_limit_that_is_lowered_keeps_him_too(of: str) -> None:
    made = Rig(2, actions=PLAIN)
    made.submit("a", chips=8)
    made.submit("b", pods=2, chips=8)
    made.run()
    assert made.reason("b") != "larger-than-limit"
    if of == "queue":
        limit_queue(made, max_chips=8)
    else:
        limit_namespace(made, "default", {CHIP: 8})
    made.run()
    assert made.reason("b") == "larger-than-limit"


def test_running_jobs_of_a_queue() -> None:
    made = Rig(4, actions=PLAIN)
    limit_queue(made, max_running_jobs=2)
    for name in ("a", "b", "c"):
        made.submit(name)
    made.run()
    assert started(made, "a", "b", "c") == ["a", "b"]
    assert made.reason("c") == "running-jobs-limit-reached"
    made.end("a")
    made.run()
    assert started(made, "b", "c") == ["b", "c"]


@pytest.mark.parametrize("of", ["queue", "user", "namespace"])
def test_a_burst_lets_no_more_jobs_run(of: str) -> None:
    made = Rig(3, actions=(*PLAIN, "reclaim"), user_annotation="guarded")
    if of == "namespace":
        limit_namespace(made, "default", {CHIP: 8, RUNNING_JOBS: 1}, burst=16)
    else:
        more = "_per_user" if of == "user" else ""
        limits: dict[str, Any] = {
            f"max_chips{more}": 8,
            f"burst_chips{more}": 16,
            f"max_running_jobs{more}": 1,
        }
        limit_queue(made, **limits)
    made.submit("a", chips=4, preemptable=True, annotations=user("ann"))
    made.run()
    made.submit("b", chips=8, preemptable=True, annotations=user("ann"))
    made.run()
    assert started(made, "a", "b") == ["a"]
    made.end("a")
    made.run()
    assert started(made, "b") == ["b"]


def test_chips_of_a_namespace_and_of_each_without_an_entry() -> None:
    made = Rig(4, actions=PLAIN)
    limit_namespace(made, "*", {CHIP: 8})
    made.submit("a", chips=8)
    made.submit("b")
    made.run()
    assert started(made, "a", "b") == ["a"]
    assert made.reason("b") == "chip-limit-reached"
    limit_namespace(made, "default", {CHIP: 9})
    made.run()
    assert started(made, "a", "b") == ["a", "b"]


def test_moves_are_planned_for_a_user_whatever_limit_another_one_has() -> None:
    made = Rig(2, actions=PLAIN, **GUARDED)
    made.tell(UsageLimit("few", queue="default", user="ann", hard={CHIP: 4}))
    service = Owner("ReplicaSet", "service", "uid-of-service", "apps/v1")
    for number in range(4):
        made.submit(f"half-{number}", chips=4, owner=service)
        made.run()
    made.end("half-0")
    made.end("half-2")
    made.submit("a", chips=8, annotations=user("ann"))
    made.submit("b", chips=8, annotations=user("bob"))
    made.run()
    plans, without = find_plans(made.machine.view, made.now)
    assert [plan.job for plan in plans] == ["default/b"]
    assert list(without) == ["default/a"]


def test_a_user_of_a_queue() -> None:
    made = Rig(4, actions=PLAIN, **GUARDED)
    limit_queue(made, max_chips_per_user=8)
    made.submit("a", chips=8, annotations=user("ann"))
    made.submit("b", chips=1, annotations=user("ann"))
    made.submit("c", chips=8, annotations=user("bob"))
    # Named to collide with another scope.
    made.submit("d", chips=8, annotations=user("queue default"))
    made.run()
    assert started(made, "a", "b", "c", "d") == ["a", "c", "d"]
    assert made.reason("b") == "chip-limit-reached"


def test_who_only_says_who_he_is_counts_for_nobody() -> None:
    made = Rig(4, actions=PLAIN)
    limit_queue(made, max_chips_per_user=8)
    made.submit("a", chips=8, annotations=user("ann"))
    made.submit("b", chips=8, annotations=user("ann"))
    made.run()
    assert started(made, "a", "b") == ["a", "b"]


def submit_at(made: Rig, name: str, created: int, **job: Any) -> None:
    made.submit(name, chips=8, **job)
    made.change_group(name, created=created * SECOND)


@pytest.mark.parametrize("label", [None, {"owner": "carl"}])
@pytest.mark.parametrize("first", ["known", "unknown"])
def test_jobs_without_a_user_share_the_limit_of_one_once_admission_is_there(
    label: dict[str, str] | None, first: str
) -> None:
    made = Rig(8, actions=PLAIN, user_label="owner", **GUARDED)
    limit_queue(made, max_chips_per_user=8)

    def submit_known() -> None:
        submit_at(made, "known", 100, annotations=user("ann"))

    if first == "known":
        submit_known()
        made.run()
    submit_at(made, "old", 99, labels=label)
    submit_at(made, "a", 100, labels=label)
    submit_at(made, "b", 101, labels={"owner": "dora"})
    # Another user of that name, and a job that waits for nothing.
    submit_at(made, "c", 102, annotations=user("unknown"))
    if first == "unknown":
        submit_known()
    made.run()
    assert started(made, "known", "old", "a", "b", "c") == ["known", "old", "a", "c"]
    assert made.reason("b") == "chip-limit-reached"
    job = made.machine.view.jobs["default/b"]
    assert job.reason is not None
    assert "user unknown (namespace default) in queue default uses 8 of 8 Ascend910" in job.reason.message
    notes = explain(made.machine.view, job, made.now).notes
    assert any("it counts for the user unknown of namespace default" in note for note in notes)
    # The next leader knows it, also if no job with a user is left.
    made.end("known")
    made.end("c")
    made.change_leader()
    made.run()
    assert not started(made, "b")
    made.end("a")
    made.run()
    assert started(made, "b") == ["b"]


def test_a_job_without_chips_is_a_running_job() -> None:
    made = Rig(4, actions=PLAIN)
    limit_queue(made, max_running_jobs=1)
    made.submit("a", chips=0, cpu_milli=100)
    made.submit("b")
    made.run()
    assert len(started(made, "a", "b")) == 1


def test_a_gang_starts_with_its_minimum_and_elastic_pods_follow_one_by_one() -> None:
    made = Rig(8, actions=PLAIN)
    limit_queue(made, max_chips=24)
    made.submit("a", pods=5, chips=8, min_available=2)
    made.run()
    assert len(made.nodes_of("a")) == 3
    assert made.reason("a") == "chip-limit-reached"
    limit_queue(made, max_chips=32)
    made.run()
    assert len(made.nodes_of("a")) == 4


def test_a_gang_that_is_larger_than_the_limit_starts_with_no_pod() -> None:
    made = Rig(4, actions=PLAIN)
    limit_queue(made, max_chips=23)
    made.submit("a", pods=3, chips=8)
    made.run()
    assert made.nodes_of("a") == []
    assert made.reason("a") == "larger-than-limit"


def test_a_limit_holds_for_the_pods_that_fit_not_for_the_first_ones() -> None:
    made = Rig(2, actions=WITH_RECLAIM)
    limit_queue(made, max_chips=8)
    made.submit("a", chips=8)
    made.run()
    # Its first pod asks for no chips and fits nowhere; its second one is enough for the gang.
    made.submit("b", pods=2, chips=0, cpu_milli=10**9, min_available=1)
    made.change("b-1", cls=pod_class(8))
    made.node("n2", cpu_milli=1000)
    made.node("n1", cpu_milli=1000)
    made.run()
    assert started(made, "a", "b") == ["a"]
    made.end("a")
    made.run()
    assert started(made, "b") == ["b"]


def test_jobs_that_wait() -> None:
    made = Rig(1, actions=PLAIN)
    limit_queue(made, max_waiting_jobs=2)
    made.submit("runs", chips=8)
    made.run()
    for name in ("a", "b", "c"):
        made.submit(name, chips=8)
    made.run()
    assert made.reason("c") == "pending-jobs-limit-reached"
    assert made.groups["default/c"].phase == "Pending"
    made.end("runs")
    made.run()
    assert started(made, "a") == ["a"]
    assert made.reason("c") == "too-few-free-chips"


def test_a_job_that_waits_for_a_limit_keeps_nobody_waiting_in_strict_order() -> None:
    made = Rig(2, actions=PLAIN, queue_discipline="strict")
    limit_queue(made, max_chips_per_user=4)
    made.tell(configuration(PLAIN, queue_discipline="strict", **GUARDED))
    made.submit("a", chips=4, annotations=user("ann"))
    made.run()
    made.submit("b", chips=4, annotations=user("ann"))
    made.submit("c", chips=4, annotations=user("bob"))
    made.run()
    assert started(made, "a", "b", "c") == ["a", "c"]


def test_who_waits_for_a_limit_and_finds_no_room_either_keeps_nobody_waiting() -> None:
    made = Rig(1, actions=PLAIN, queue_discipline="strict")
    limit_queue(made, max_chips=4)
    limit_queue(made, "other")
    made.submit("other", chips=4, queue="other")
    made.submit("a", chips=4)
    made.run()
    # Full, and at the limit.
    made.submit("b", chips=4)
    made.run()
    assert made.reason("b") == "chip-limit-reached"


def test_F6_what_is_kept_for_jobs_counts_as_long_as_it_is_kept() -> None:
    usage = ResourceUsage()
    limits, everybody = LimitTable(usage), Scope("default")
    limits.put([UsageLimit("a", namespace="*"), UsageLimit("b", queue="*")])
    for job, queue, chips in (("a", "q", 2), ("b", "r", 4)):
        usage.reserved.put(ReservedQuota(f"default/{job}", queue, {0: {CHIP: chips}}, most=1))
        assert limits.used(Scope(queue=queue)) == {CHIP: chips, RUNNING_JOBS: 1}
    assert limits.used(everybody) == {CHIP: 6, RUNNING_JOBS: 2}
    usage.reserved.drop("default/a")
    assert limits.used(everybody) == {CHIP: 4, RUNNING_JOBS: 1}
    assert limits.used(Scope(queue="q")) == {}


def test_F6_a_job_of_which_another_pod_starts_is_counted_once() -> None:
    usage = ResourceUsage()
    limits, queue = LimitTable(usage), Scope(queue="q")
    limits.put([UsageLimit("each", queue="*")])
    usage.reserved.put(ReservedQuota("default/a", "q", {0: {CHIP: 2}}, most=2))
    for running, chips in ((0, 2), (1, 6), (0, 2)):
        assert limits.used(queue) == {CHIP: chips, RUNNING_JOBS: 1}
        (usage.remove_pod if running else usage.add_pod)("default/a", "q", pod_class(4))


def test_F6_what_is_kept_for_a_job_in_one_queue_is_not_subtracted_in_another() -> None:
    usage = ResourceUsage()
    limits = LimitTable(usage)
    limits.put([UsageLimit("each", queue="*")])
    for name, queue, chips in (("moved", "q", 2), ("other", "r", 4)):
        usage.reserved.put(ReservedQuota(f"default/{name}", queue, {0: {CHIP: chips}}, most=1))
    moved = Job("default/moved", "default", "moved", queue="r")
    assert limits.used(Scope(queue="r"), moved) == {CHIP: 4, RUNNING_JOBS: 1}
    assert limits.used(Scope(queue="q"), moved) == {}


def test_what_is_reserved_for_a_job_that_waited_long_is_not_kept_while_it_waits_for_a_limit() -> None:
    made = Rig(1, actions=PLAIN, reservation_after=60)
    limit_queue(made, "limited", max_running_jobs=1)
    limit_queue(made, "other")
    made.submit("runs", chips=4, queue="other")
    made.run()
    made.submit("big", chips=8, queue="limited")
    made.run()
    made.step(60)
    assert made.machine.view.reservations.of("default/big") is not None
    made.submit("first", chips=0, cpu_milli=1_000, queue="limited")
    made.run()
    assert started(made, "first") == ["first"]
    assert made.reason("big") == "running-jobs-limit-reached"
    assert made.machine.view.reservations.of("default/big") is None


@pytest.mark.parametrize("how", ["another job of the queue starts", "the limit is lowered"])
def test_what_a_job_evicts_others_for_is_not_kept_while_it_waits_for_a_limit(how: str) -> None:
    made = Rig(3, actions=("enqueue", "allocate", "reclaim", "backfill"), tiers=gangs_may_end())
    made.priority("high", 100)
    limit_queue(made, "limited", max_chips=8)
    for name, chips in (("low-1", 8), ("low-2", 8), ("filler", 4)):
        made.submit(name, chips=chips, preemptable=True)
    made.run()
    made.submit("big", chips=8, queue="limited")
    made.run()
    (evicted,) = made.evictions()
    assert made.machine.view.reservations.of("default/big") is not None
    if how == "the limit is lowered":
        limit_queue(made, "limited", max_chips=4)
    else:
        made.submit("small", chips=4, queue="limited", priority="high")
    made.run()
    made.gone(evicted)
    made.run()
    assert made.reason("big") in ("chip-limit-reached", "larger-than-limit")
    assert made.machine.view.reservations.of("default/big") is None
    limit_queue(made, "other")
    made.submit("next", chips=8, queue="other")
    made.run()
    assert started(made, "next") == ["next"]


def test_a_limit_that_is_lowered_ends_nobody_and_a_job_that_is_rescheduled_comes_back() -> None:
    made = Rig(3, actions=PLAIN)
    fault = {"fault-scheduling": "force", "pod-rescheduling": "on"}
    made.submit("a", pods=2, chips=8, labels=fault)
    made.run()
    node = made.nodes_of("a")[1]
    limit_queue(made, max_chips=1, max_running_jobs=0)
    made.run()
    assert len(made.nodes_of("a")) == 2
    made.sick(node, 0xFF)
    made.run()
    assert made.deletions() == ["a-1"]
    lost = made.pods["a-1"]
    made.gone("a-1")
    made.pods["a-1"] = lost
    made.replacement("a-1")
    made.run()
    assert len(made.nodes_of("a")) == 2


@pytest.mark.parametrize(
    ("pods", "chips", "min_member", "asks"),
    [(6, 8, 6, 8), (6, 8, 3, 8), (2, 4, 2, 8)],
    ids=["minMember", "one pod more", "chips"],
)
def test_nobody_exceeds_a_limit_with_more_than_he_lost(
    pods: int, chips: int, min_member: int, asks: int
) -> None:
    """The owner of a job that lost a pod raises its minMember, or asks for more chips in what he creates."""
    made = Rig(6, actions=PLAIN, hold_healthy_nodes=15, grace_over_time=20, multi_pod_requests="vendor")
    limit_queue(made, max_chips=2 * chips)
    fault = {"fault-scheduling": "grace", "fault-retry-times": "9"}
    made.submit("a", pods=pods, chips=chips, min_available=1, labels=fault)
    made.run()
    assert len(made.nodes_of("a")) == 2
    for name in made.places("a"):
        made.change(name, phase="Failed")
    made.change_group("a", min_member=min_member)
    made.run()
    for _ in range(20):
        made.step(3)
        for name in [name for name, pod in made.pods.items() if pod.deleting or pod.phase == "Failed"]:
            made.replacement(name)
            made.change(name, cls=replace(made.pods[name].cls, chips=asks))
        made.run()
        assert sum(pod.cls.chips for pod in made.pods.values() if pod.node) <= 2 * chips


def test_who_ends_elsewhere_wakes_nobody_who_waits_for_a_limit() -> None:
    made = Rig(4, actions=PLAIN)
    limit_queue(made, max_chips=8)
    limit_queue(made, "other")
    made.submit("a", chips=8)
    made.submit("x", chips=8, queue="other")
    made.run()
    for number in range(20):
        made.submit(f"w{number}", chips=8)
    made.run()
    tried: list[str] = []
    made.machine.observe(lambda session, job: tried.append(job.name))
    made.end("x")
    made.run()
    assert tried == []
    made.end("a")
    made.run()
    assert started(made, *(f"w{number}" for number in range(20))) == ["w0"]


def test_a_jobs_own_annotations_are_no_limits() -> None:
    made = Rig(4, actions=PLAIN)
    limit_queue(made, max_chips=8)
    made.submit("a", chips=8, annotations={"ringwise.io/max-chips": "1000"})
    made.submit("b", chips=8, annotations={"ringwise.io/max-chips": "1000"})
    made.run()
    assert started(made, "a", "b") == ["a"]


# -- a job that is moved while it runs


def move(made: Rig, job: str, queue: str) -> None:
    made.change_group(job, queue=queue)
    made.run()


def delete_group(made: Rig, job: str) -> None:
    made.tell(ev.PodGroupGone(f"default/{job}"))
    made.run()


def join(made: Rig, job: str, other: str) -> None:
    """The pods of a job are written to belong to the PodGroup of another."""
    for name in made.pods_of(job):
        made.change(name, group=other)
    made.run()


def to_two(made: Rig) -> None:
    move(made, "a", "two")


def deleted(made: Rig) -> None:
    delete_group(made, "a")


def joins(made: Rig) -> None:
    join(made, "a", "z")


def joins_none(made: Rig) -> None:
    """A PodGroup that does not exist; the queue is that of an annotation."""
    for queue in ("one", "two"):
        made.change("a-0", group="none", annotations={"volcano.sh/queue-name": queue})
        made.run()


def held(made: Rig, *queues: str) -> list[Amount]:
    used = made.machine.view.usage.holdings.used
    return [used.get(Scope(queue=queue), {}).get(CHIP, 0) for queue in queues]


@pytest.mark.parametrize(
    "tricks",
    [
        [to_two],
        [to_two, lambda made: move(made, "a", "three")],
        [deleted],
        [to_two, deleted],
        [joins],
        [deleted, joins],
        [joins_none],
    ],
    ids=["moved", "twice", "deleted", "moved and deleted", "joins", "deleted and joins", "joins none"],
)
def test_what_runs_counts_for_the_queue_it_was_bound_in(tricks: Sequence[Callable[[Rig], None]]) -> None:
    made = Rig(6, actions=PLAIN)
    for queue in ("one", "two"):
        limit_queue(made, queue, max_chips=8, max_running_jobs=1)
    limit_queue(made, "three")
    made.submit("a", chips=8, queue="one")
    made.submit("z", chips=8, queue="three")
    made.run()
    for trick in tricks:
        trick(made)
    made.submit("b", chips=8, queue="one")
    made.submit("c", chips=8, queue="two")
    made.run()
    assert started(made, "b", "c") == ["c"]
    assert made.reason("b") in ("chip-limit-reached", "running-jobs-limit-reached")
    assert held(made, "one", "two", "three", "default") == [8, 8, 8, 0]
    made.gone("a-0")
    made.run()
    assert started(made, "b", "c") == ["b", "c"]
    assert held(made, "one", "two", "three", "default") == [8, 8, 8, 0]


def test_pods_that_start_after_the_move_count_for_the_new_queue() -> None:
    made = Rig(6, actions=PLAIN)
    limit_queue(made, "one", max_chips=16)
    limit_queue(made, "two", max_chips=8)
    made.submit("a", pods=4, chips=8, min_available=1, queue="one")
    made.run()
    assert len(made.nodes_of("a")) == 2
    move(made, "a", "two")
    assert len(made.nodes_of("a")) == 3
    assert held(made, "one", "two") == [16, 8]
    move(made, "a", "one")
    assert held(made, "one", "two") == [16, 8]
    assert len(made.nodes_of("a")) == 3


def test_the_user_of_a_job_that_was_moved_is_counted_where_it_runs() -> None:
    made = Rig(6, actions=PLAIN, **GUARDED)
    for queue in ("one", "two"):
        limit_queue(made, queue, max_chips_per_user=8)
    made.submit("a", chips=8, queue="one", annotations=user("ann"))
    made.run()
    move(made, "a", "two")
    made.change_group("a", annotations=user("bob"))
    made.run()
    made.submit("b", chips=8, queue="one", annotations=user("ann"))
    made.submit("c", chips=8, queue="one", annotations=user("bob"))
    made.run()
    assert started(made, "b", "c") == ["b"]


def test_a_job_with_pods_in_two_queues_is_one_job_of_its_user() -> None:
    made = Rig(6, actions=PLAIN, **GUARDED)
    for queue in ("one", "two"):
        limit_queue(made, queue, max_chips=8)
    limit_queue(made, "three")
    made.tell(UsageLimit("each", user="*", hard={RUNNING_JOBS: 2}))
    made.submit("a", pods=2, chips=8, min_available=1, queue="one", annotations=user("ann"))
    made.run()
    move(made, "a", "two")
    assert held(made, "one", "two") == [8, 8]
    made.change_group("a", annotations=user("bob"))
    made.run()
    for name in ("b", "c"):
        made.submit(name, chips=8, queue="three", annotations=user("bob"))
    made.run()
    assert started(made, "b", "c") == ["b"]


def test_what_a_moved_job_lost_is_kept_where_it_was_and_returns_within_the_limits_of_the_new_queue() -> None:
    made = Rig(6, actions=PLAIN)
    for queue in ("one", "two"):
        limit_queue(made, queue, max_chips=8)
    made.submit("a", chips=8, queue="one", labels={"fault-scheduling": "grace", "fault-retry-times": "9"})
    made.submit("c", chips=8, queue="two")
    made.run()
    move(made, "a", "two")
    made.change("a-0", phase="Failed")
    made.run()
    made.replacement("a-0")
    made.submit("b", chips=8, queue="one")
    made.run()
    assert not made.nodes_of("a")
    assert sum(pod.cls.chips for pod in made.pods.values() if pod.node) <= 16


def test_a_queue_reclaims_what_a_moved_job_holds_of_it() -> None:
    """By share of queues: the pods give back what counts for the queue they were bound in."""
    made = Rig(2, actions=WITH_RECLAIM)
    made.queue("one", weight=1)
    made.queue("two", weight=1)
    made.queue("three", weight=1)
    made.submit("a", chips=8, queue="one", preemptable=True)
    made.submit("b", chips=8, queue="one", preemptable=True)
    made.run()
    move(made, "b", "three")
    made.submit("c", chips=8, queue="two")
    made.run()
    assert made.evictions() in (["a-0"], ["b-0"])


def test_another_leader_counts_for_the_queue_in_which_pods_were_bound() -> None:
    made = Rig(6, actions=PLAIN)
    for queue in ("one", "two"):
        limit_queue(made, queue, max_chips=8)
    made.submit("a", chips=8, queue="one")
    made.run()
    move(made, "a", "two")
    made.submit("b", chips=8, queue="one")
    made.change_leader()
    made.run()
    assert started(made, "a", "b") == ["a"]
    assert held(made, "one", "two") == [8, 0]
    # And the one after that.
    made.change_leader()
    made.run()
    assert held(made, "one", "two") == [8, 0]


def test_a_queue_that_was_changed_while_no_scheduler_ran_moves_nothing() -> None:
    made = Rig(6, actions=PLAIN)
    for queue in ("one", "two"):
        limit_queue(made, queue, max_chips=8)
    made.tell(ev.AccountsRead())
    made.submit("a", chips=8, queue="one")
    made.run()
    open_pods = tuple(one for one in made.commands if isinstance(one, PodHeld))
    made.groups["default/a"] = replace(made.groups["default/a"], queue="two")
    made.submit("b", chips=8, queue="one")
    made.change_leader(ev.AccountsRead(held=open_pods, written=made.now))
    made.run()
    assert held(made, "one", "two") == [8, 0]
    assert started(made, "a", "b") == ["a"]


def test_accounting_and_the_status_of_queues_follow_the_queue_in_which_pods_were_bound() -> None:
    made = Rig(2, actions=PLAIN)
    made.tell(ev.AccountsRead())
    for queue in ("one", "two"):
        limit_queue(made, queue)
    made.deaf = True
    made.submit("a", chips=8, queue="one")
    made.run()
    (bind,) = [one for one in made.commands if isinstance(one, Bind)]
    # Its owner is faster than the API server's answer.
    made.change_group("a", queue="two")
    made.step()
    made.change("a-0", node=bind.node, holds=bind.chips, annotations=bind.annotations, phase="Running")
    made.step()
    assert [one.queue for one in made.commands if isinstance(one, PodHeld)] == ["one"]
    status = {one.name: one.allocated for one in made.commands if isinstance(one, SetQueueStatus)}
    assert (status["one"].get(CHIP), status["two"].get(CHIP)) == (8, None)
    made.gone("a-0")
    made.step()
    status = {one.name: one.allocated for one in made.commands if isinstance(one, SetQueueStatus)}
    assert (status["one"].get(CHIP), status["two"].get(CHIP)) == (None, None)


# -- bursts


def test_a_burst_is_lent_while_nobody_else_needs_it_and_given_back() -> None:
    made = Rig(2, actions=WITH_RECLAIM)
    limit_queue(made, max_chips=8, burst_chips=8)
    limit_queue(made, "other")
    made.submit("a", chips=8, preemptable=True)
    made.submit("b", chips=8, preemptable=True)
    made.run()
    assert started(made, "a", "b") == ["a", "b"]
    made.submit("x", chips=8, queue="other")
    made.run()
    assert made.evictions() == ["b-0"]
    assert [c.cause for c in made.commands if isinstance(c, Evict)] == [EvictionCause.RECLAIM]
    made.gone("b-0")
    made.run()
    assert started(made, "a", "x") == ["a", "x"]


def test_no_more_is_given_back_than_was_lent() -> None:
    made = Rig(2, actions=WITH_RECLAIM, tiers=gangs_may_end())
    limit_queue(made, max_chips=8, burst_chips=8)
    limit_queue(made, "other")
    made.submit("a", chips=8, preemptable=True)
    made.submit("b", chips=8, preemptable=True)
    made.run()
    assert started(made, "a", "b") == ["a", "b"]
    # Only the last one that started is above the limit, and its node alone is of no use.
    made.submit("x", pods=2, chips=8, queue="other")
    made.run()
    assert made.evictions() == []


def test_others_come_before_a_burst_in_the_same_turn() -> None:
    made = Rig(2, actions=WITH_RECLAIM)
    limit_queue(made, max_chips=8, burst_chips=8)
    limit_queue(made, "other")
    made.submit("a", chips=8, preemptable=True)
    made.submit("b", chips=8, preemptable=True)
    made.submit("x", chips=8, queue="other")
    made.run()
    assert started(made, "a", "b", "x") == ["a", "x"]
    assert made.evictions() == []
    made.end("x")
    made.run()
    assert started(made, "a", "b") == ["a", "b"]


def flip(made: Rig, job: str) -> None:
    for name in made.pods_of(job):
        made.change(name, preemptable=False)
    made.run()


def _another_leader(made: Rig) -> None:
    made.change_leader()
    made.run()


def _replaced_after_a_fault(made: Rig) -> None:
    made.change("b-0", phase="Failed")
    made.run()
    made.replacement("b-0")
    made.run()


@pytest.mark.parametrize(
    "tricks",
    [
        [],
        [_another_leader],
        [lambda made: move(made, "b", "other")],
        [lambda made: delete_group(made, "b")],
        [lambda made: join(made, "b", "a")],
        [_replaced_after_a_fault],
        [_another_leader, _replaced_after_a_fault],
    ],
)
def test_what_was_lent_stays_lent_whatever_the_job_says_later(
    tricks: Sequence[Callable[[Rig], None]],
) -> None:
    made = Rig(2, actions=WITH_RECLAIM)
    limit_queue(made, max_chips=8, burst_chips=8)
    limit_queue(made, "other")
    fault = {"fault-scheduling": "grace", "fault-retry-times": "9"}
    made.submit("a", chips=8, preemptable=True)
    made.submit("b", chips=8, preemptable=True, labels=fault)
    made.run()
    assert started(made, "a", "b") == ["a", "b"]
    flip(made, "b")
    flip(made, "a")
    for trick in tricks:
        trick(made)
    assert made.pods["b-0"].node
    made.submit("x", chips=8, queue="other")
    made.run()
    assert made.evictions() == ["b-0"]
    made.gone("b-0")
    made.run()
    assert started(made, "x") == ["x"]


def test_what_started_within_its_limit_is_not_lent_when_the_limit_is_lowered() -> None:
    made = Rig(2, actions=WITH_RECLAIM)
    limit_queue(made, max_chips=16, burst_chips=8)
    limit_queue(made, "other")
    made.submit("a", chips=8, preemptable=True)
    made.submit("b", chips=8, preemptable=True)
    made.run()
    flip(made, "a")
    flip(made, "b")
    limit_queue(made, max_chips=8, burst_chips=8)
    made.submit("x", chips=8, queue="other")
    made.run()
    assert made.evictions() == []


@pytest.mark.parametrize(
    ("actions", "preemptable", "hint"),
    [
        (PLAIN, True, "the action reclaim is not configured"),
        (WITH_RECLAIM, False, "lent only to jobs whose pods are all preemptable"),
    ],
)
def test_what_cannot_be_taken_back_is_not_lent(actions: Sequence[str], preemptable: bool, hint: str) -> None:
    made = Rig(2, actions=actions)
    limit_queue(made, max_chips=8, burst_chips=8)
    made.submit("a", chips=8, preemptable=preemptable)
    made.submit("b", chips=8, preemptable=preemptable)
    made.run()
    assert started(made, "a", "b") == ["a"]
    found = made.machine.view.jobs["default/b"].reason
    assert found is not None
    assert hint in found.message


def test_nobody_is_evicted_for_a_burst() -> None:
    made = Rig(2, actions=WITH_RECLAIM)
    limit_queue(made, max_chips=8, burst_chips=8)
    limit_queue(made, "other")
    made.submit("x", chips=8, queue="other", preemptable=True)
    made.submit("a", chips=8, preemptable=True)
    made.run()
    made.submit("b", chips=8, preemptable=True)
    made.run()
    assert made.evictions() == []
    assert made.reason("b") == "chip-limit-reached"


# -- a random life


class Life(RuleBasedStateMachine):
    """New starts never exceed a limit, and the counts are those of the pods."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig(4, actions=PLAIN, **GUARDED)
        self.serial = 0
        self.most: dict[str, int | None] = {"chips": None, "running": None, "user": None}
        limit_queue(self.rig, "other")
        self.rig.run()

    def _in_use(self, name: str = "") -> tuple[int, int]:
        pods = [
            pod
            for pod in self.rig.pods.values()
            if pod.node is not None and self.rig.groups[f"default/{pod.group}"].queue == "default"
            if not name or pod.annotations.get("ringwise.io/user") == name
        ]
        return sum(pod.cls.chips for pod in pods), len({pod.group for pod in pods})

    def _turn(self) -> None:
        before = self._in_use(), self._in_use("ann")
        self.rig.run()
        after = self._in_use(), self._in_use("ann")
        if self.most["chips"] is not None:
            assert after[0][0] <= max(before[0][0], self.most["chips"])
        if self.most["running"] is not None:
            assert after[0][1] <= max(before[0][1], self.most["running"])
        if self.most["user"] is not None:
            assert after[1][0] <= max(before[1][0], self.most["user"])

    @rule(
        pods=st.integers(1, 3),
        chips=st.sampled_from((1, 2, 4, 8)),
        queue=st.sampled_from(("default", "default", "other")),
        who=st.sampled_from(("ann", "bob")),
        elastic=st.booleans(),
    )
    def submit(self, pods: int, chips: int, queue: str, who: str, elastic: bool) -> None:
        self.serial += 1
        self.rig.submit(
            f"j{self.serial}",
            pods=pods,
            chips=8 if pods > 1 else chips,
            min_available=1 if elastic else pods,
            queue=queue,
            annotations=user(who),
        )
        self._turn()

    @precondition(lambda self: self.rig.groups)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.rig.groups)))
        self.rig.end(name.partition("/")[2])
        self._turn()

    @rule(
        chips=st.none() | st.integers(0, 40),
        running=st.none() | st.integers(0, 6),
        own=st.none() | st.integers(0, 24),
    )
    def limit(self, chips: int | None, running: int | None, own: int | None) -> None:
        self.most = {"chips": chips, "running": running, "user": own}
        written: dict[str, Any] = {"max_chips": chips, "max_running_jobs": running, "max_chips_per_user": own}
        limit_queue(self.rig, **{key: value for key, value in written.items() if value is not None})
        self._turn()

    @invariant()
    def counts_are_those_of_the_pods(self) -> None:
        holdings = self.rig.machine.view.usage.holdings
        for scope, name in ((Scope(queue="default"), ""), (Scope(queue="default", user="ann"), "ann")):
            if scope.shape in holdings.shapes:
                used = holdings.used.get(scope, {})
                assert (used.get(CHIP, 0), used.get(RUNNING_JOBS, 0)) == self._in_use(name)

    @invariant()
    def nobody_waits_for_a_limit_that_has_room(self) -> None:
        for job in self.rig.machine.view.jobs.values():
            if job.reason is not None and job.reason.code == "running-jobs-limit-reached":
                assert self.most["running"] is not None
                assert self._in_use()[1] >= self.most["running"]


Life.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=25, deadline=None)
TestLife = Life.TestCase
