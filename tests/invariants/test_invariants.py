"""Every rule of `tests/invariants` fails: for each, turns and states that it forbids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ringwise.framework.holdings import Scope
from ringwise.framework.reasons import PODS_GATED, QUEUE_NOT_OPEN, UNKNOWN_QUEUE
from ringwise.framework.reserved_quota import ReservedQuota
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Command, Evict, EvictionCause, RemoveQueueGate, SetGroupStatus
from ringwise.reasons import ReasonKind
from ringwise.scheduler.faults.share_records import ShareRecords
from ringwise.state.limits import RUNNING_JOBS, UsageLimit
from ringwise.state.model import (
    PRE_SEPARATE_LEVEL,
    DeviceReport,
    Isolation,
    ReportedFault,
    SubGroupPolicy,
)
from ringwise.state.reservations import Borrowed, Reservation
from ringwise.topology.chips import chip_names
from tests import invariants
from tests.builders.values import CHIP, SECOND, isolated
from tests.invariants.placements import moved_twice
from tests.scheduler.core.test_queue_gate import gated_job
from tests.scheduler.defragment.test_moves import apply, fragmented, moves_of
from tests.scheduler.rig import Rig, with_capacity

PLAIN = ("enqueue", "allocate", "backfill")
ALL = tuple(range(8))
_RULES = (*invariants.RULES, *invariants.SAMPLED)


def see(rig: Rig) -> Rig:
    """The scheduler sees what happened and decides nothing."""
    events, rig.events = rig.events, []
    rig.machine.handle(events, rig.now, ev.Decide.NOTHING)
    return rig


def violated(rig: Rig, *commands: Command) -> set[str]:
    """Return the names of the rules that a turn with these commands violates."""
    ledger = invariants.ledger_of(rig.machine)
    ledger.turn((), rig.now, commands, ev.Decide.ALL)
    ledger.note_queues(rig.machine.view.job_of)
    ledger.turns = 0  # a turn in which everything is checked
    found = {rule.__name__ for rule in _RULES if list(rule(ledger, rig.machine))}
    ledger.apply()
    return found


def bind(rig: Rig, name: str, node: str, *chips: int) -> Bind:
    return Bind(rig.pods[name].uid, "default", name, node, chips)


def evict(rig: Rig, name: str) -> Evict:
    return Evict(rig.pods[name].uid, "default", name, "preempt", EvictionCause.PREEMPT)


def lose(rig: Rig, job: str) -> None:
    """The scheduler believes that the first pod of a job has no node."""
    rig.machine._book.undo_binding(rig.machine.view.jobs[f"default/{job}"], rig.pods[f"{job}-0"].uid)


def two_jobs(pods: int = 1, chips: int = 8, **more: Any) -> Rig:
    """Two nodes of eight chips; the jobs `first` and `second` are pending."""
    rig = Rig(2, actions=PLAIN)
    rig.queue("limited", **more)
    for name in ("first", "second"):
        rig.submit(name, pods=pods, chips=chips, queue="limited" if more else "default")
    return see(rig)


def test_turns_that_are_allowed() -> None:
    rig = two_jobs()
    assert not violated(rig, bind(rig, "first-0", "n1", *ALL))
    assert not violated(rig, bind(rig, "second-0", "n2", *ALL))
    rig = two_jobs(pods=2)
    both = bind(rig, "first-0", "n1", *ALL), bind(rig, "first-1", "n2", *ALL)
    assert not violated(rig, *both)
    assert not violated(rig, evict(rig, "first-0"), evict(rig, "first-1"))


# -- placements --------------------------------------------------------------------------------------


def chip_of_a_pod_that_runs() -> set[str]:
    rig = two_jobs()
    assert not violated(rig, bind(rig, "first-0", "n1", *ALL))
    return violated(rig, bind(rig, "second-0", "n1", *ALL))


def chip_of_a_pod_of_the_same_turn() -> set[str]:
    rig = two_jobs()
    return violated(rig, bind(rig, "first-0", "n1", *ALL), bind(rig, "second-0", "n1", *ALL))


def pod_with_a_node() -> set[str]:
    rig = two_jobs()
    assert not violated(rig, bind(rig, "first-0", "n1", *ALL))
    return violated(rig, bind(rig, "first-0", "n2", *ALL))


def too_few_chips() -> set[str]:
    rig = two_jobs()
    return violated(rig, bind(rig, "first-0", "n1", 0, 1))


def pod_that_is_gone() -> set[str]:
    return violated(two_jobs(), Bind("no-such-uid", "default", "gone", "n1", ALL))


def chip_is(**masks: Any) -> Callable[[], set[str]]:
    def case() -> set[str]:
        rig = two_jobs()
        rig.tell(ev.ReportSeen(DeviceReport("n1", CHIP, network_unhealthy=0, **masks)))
        see(rig)
        return violated(rig, bind(rig, "first-0", "n1", *ALL))

    return case


def chip_is_isolated() -> set[str]:
    rig = two_jobs()
    isolation = Isolation("n1", (chip_names(CHIP, (3,)),))
    rig.tell(isolated(isolation))
    return violated(see(rig), bind(rig, "first-0", "n1", *ALL))


def part_of_a_gang() -> set[str]:
    rig = two_jobs(pods=2)
    return violated(rig, bind(rig, "first-0", "n1", *ALL))


def rest_of_a_gang_that_lost_a_pod() -> set[str]:
    """Three must run together: one runs, one of the two others is bound."""
    rig = two_jobs(pods=3, chips=2)
    places = [bind(rig, f"first-{number}", "n1", 2 * number, 2 * number + 1) for number in range(3)]
    assert not violated(rig, *places)
    for name in ("first-0", "first-1"):
        rig.tell(ev.PodGone(rig.pods[name].uid))
        rig.replacement(name)
    return violated(see(rig), bind(rig, "first-0", "n1", 0, 1))


def task_without_its_minimum() -> set[str]:
    rig = two_jobs(pods=3, chips=2)
    for number, task in enumerate(("chief", "worker", "worker")):
        rig.change(f"first-{number}", task=task)
    group = replace(rig.groups["default/first"], min_member=2, min_task_member={"chief": 1, "worker": 1})
    rig.tell(ev.PodGroupSeen(group))
    see(rig)
    return violated(rig, bind(rig, "first-1", "n1", 0, 1), bind(rig, "first-2", "n1", 2, 3))


def part_of_a_sub_group() -> set[str]:
    rig = two_jobs(pods=4, chips=2)
    for number in range(4):
        rig.change(f"first-{number}", labels={"part": str(number // 2)})
    policy = SubGroupPolicy("parts", size=2, min_groups=1, match_label_keys=("part",))
    group = replace(rig.groups["default/first"], min_member=2, sub_groups=(policy,))
    rig.tell(ev.PodGroupSeen(group))
    see(rig)
    return violated(rig, bind(rig, "first-0", "n1", 0, 1), bind(rig, "first-2", "n1", 2, 3))


def evicted_part_of_a_gang() -> set[str]:
    rig = two_jobs(pods=2)
    assert not violated(rig, bind(rig, "first-0", "n1", *ALL), bind(rig, "first-1", "n2", *ALL))
    return violated(rig, evict(rig, "first-0"))


def evicted_pods_that_were_not_spare() -> set[str]:
    """Two of three may go one by one, but only one of them can be spared."""
    rig = Rig(2, actions=PLAIN)
    rig.submit("first", pods=3, chips=2, min_available=2)
    see(rig)
    places = [bind(rig, f"first-{number}", "n1", 2 * number, 2 * number + 1) for number in range(3)]
    assert not violated(rig, *places)
    assert not violated(rig, evict(rig, "first-0"))
    return violated(rig, evict(rig, "first-1"))


# -- plans and reservations --------------------------------------------------------------------------


def pod_in_two_plans() -> set[str]:
    rig, plan = fragmented()
    apply(rig, plan)
    plans = moves_of(rig).plans
    (live,) = plans.values()
    plans["plan-2"] = replace(live, plan=replace(plan, id="plan-2"))
    return violated(rig)


def reserved(**node: Any) -> Rig:
    """Chips of a node, of which something is reported, are reserved for a pending job."""
    rig = two_jobs(pods=3)
    for name, value in node.items():
        if name == "isolated":
            rig.tell(isolated(Isolation("n1")))
        elif name in ("ready", "unschedulable"):
            rig.node("n1", **{name: value})
        else:
            rig.tell(ev.ReportSeen(DeviceReport("n1", CHIP, network_unhealthy=0, **{name: value})))
    see(rig)
    number = rig.machine.view.cluster.node_id["n1"]
    rig.machine._context.reservations.make(
        Reservation("default/first", CHIP, {number: 0xFF}, why="waited long", expires=rig.now + SECOND)
    )
    return rig


def reserved_for_two() -> set[str]:
    rig = reserved()
    assert not violated(rig)
    (first,) = rig.machine.view.reservations
    number = rig.machine.view.cluster.node_id["n2"]
    other = Reservation("default/second", CHIP, {number: 0xFF}, why="waited long", expires=rig.now + SECOND)
    rig.machine._context.reservations.make(other)
    other.chips = dict(first.chips)
    return violated(rig)


# -- holds -------------------------------------------------------------------------------------------


def hold_that_is_over() -> set[str]:
    rig = reserved()
    rig.now += 2 * SECOND
    return violated(rig)


def hold_without_an_end() -> set[str]:
    rig = reserved()
    for one in rig.machine.view.reservations:
        one.why, one.expires = "because", None
    return violated(rig)


def hold_for_a_job_that_is_gone() -> set[str]:
    rig = reserved()
    for one in rig.machine.view.reservations:
        one.expires, one.owner = None, "default/gone"
    return violated(rig)


def hold_of_a_plan_that_is_over() -> set[str]:
    rig = reserved()
    for one in rig.machine.view.reservations:
        one.expires, one.lasting = None, True
    return violated(rig)


def hold_for_which_the_scheduler_does_not_wake_up() -> set[str]:
    rig = two_jobs()
    share = ReservedQuota("default/first", "default", {0: {CHIP: 8}}, until=rig.now + SECOND)
    rig.machine._components.of(ShareRecords)._shares["default/first"] = share
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rig.machine, "next_deadline", lambda: None)
        return violated(rig)


def quota_without_an_end() -> set[str]:
    rig = two_jobs()
    share = ReservedQuota("default/first", "default", {0: {CHIP: 8}}, leaving={"gone": 0})
    rig.machine._components.of(ShareRecords)._shares["default/first"] = share
    return violated(rig)


def quota_beyond_its_limit() -> set[str]:
    rig = two_jobs()
    rig.submit("third", chips=1)
    rig.step()
    until = rig.now + 100 * 3600 * SECOND
    share = ReservedQuota("default/first", "default", {0: {CHIP: 8}}, until=until)
    rig.machine._components.of(ShareRecords)._shares["default/first"] = share
    return violated(rig)


def borrowed_by_a_pod_that_is_gone() -> set[str]:
    rig = two_jobs()
    rig.machine._context.reservations.borrowed["gone"] = Borrowed(rig.now, rig.now + SECOND)
    return violated(rig)


# -- queues and limits -------------------------------------------------------------------------------


def more_than_the_capability() -> set[str]:
    rig = two_jobs(capability={CHIP: 8})
    assert not violated(rig, bind(rig, "first-0", "n1", *ALL))
    return violated(rig, bind(rig, "second-0", "n2", *ALL))


def more_than_the_guarantees_leave() -> set[str]:
    rig = Rig(2, actions=PLAIN, tiers=with_capacity())
    rig.queue("guaranteed", guarantee={CHIP: 8})
    rig.queue("other")
    for name in ("first", "second"):
        rig.submit(name, chips=8, queue="other")
    see(rig)
    assert not violated(rig, bind(rig, "first-0", "n1", *ALL))
    return violated(rig, bind(rig, "second-0", "n2", *ALL))


def admitted(by_gate: bool, jobs: tuple[str, ...]) -> set[str]:
    rig = Rig(2, actions=PLAIN)
    rig.queue("small", capability={"cpu": 4000})
    for name in ("first", "second"):
        gated_job(rig, name, "small")
    see(rig)
    commands: list[Command] = []
    for name in jobs:
        rig.machine.view.jobs[f"default/{name}"].inqueue = True
        gate = RemoveQueueGate(rig.pods[f"{name}-0"].uid, "default", f"{name}-0")
        commands.append(gate if by_gate else SetGroupStatus(f"default/{name}", "Inqueue"))
    return violated(rig, *commands)


@pytest.mark.parametrize("by_gate", [True, False])
def test_a_job_within_the_capability_is_admitted(by_gate: bool) -> None:
    assert not admitted(by_gate, ("first",))


def more_chips_than_the_limit() -> set[str]:
    rig = two_jobs()
    rig.tell(UsageLimit("few", queue="default", hard={CHIP: 8}))
    see(rig)
    assert not violated(rig, bind(rig, "first-0", "n1", *ALL))
    return violated(rig, bind(rig, "second-0", "n2", *ALL))


def more_jobs_than_the_limit() -> set[str]:
    rig = two_jobs()
    rig.tell(UsageLimit("few", queue="default", hard={RUNNING_JOBS: 1}))
    see(rig)
    assert not violated(rig, bind(rig, "first-0", "n1", *ALL))
    return violated(rig, bind(rig, "second-0", "n2", *ALL))


# -- reasons -----------------------------------------------------------------------------------------


def waiting() -> Rig:
    """The job `second` is pending: no node has the label that it selects."""
    rig = Rig(2, actions=PLAIN)
    rig.queue("limited")
    rig.submit("second", chips=8, queue="limited", node_selector=(("zone", "a"),))
    rig.run()
    assert not violated(rig)
    return rig


def job_that_would_start() -> set[str]:
    rig = waiting()
    rig.node("n2", labels={"zone": "a"})
    return violated(see(rig))


def fact_that_is_none(kind: ReasonKind, **details: Any) -> Callable[[], set[str]]:
    def case() -> set[str]:
        rig = waiting()
        rig.machine.view.jobs["default/second"].reason = kind(**details)
        return violated(rig)

    return case


def counts_that_are_out_of_date() -> set[str]:
    rig = two_jobs()
    rig.tell(UsageLimit("few", queue="default", hard={RUNNING_JOBS: 3}))
    rig.run()
    usage, queue = rig.machine._context.usage, Scope(queue="default")
    usage.reserved.put(ReservedQuota("default/third", "default", {0: {CHIP: 8}}, most=2))
    rig.machine.view.limits.used(queue)
    usage.holdings.add("default/third", "default", {CHIP: 8}, 1)
    return violated(rig)


def pod_that_stays_on_an_unhealthy_chip() -> set[str]:
    rig = Rig(2, actions=PLAIN)
    rig.submit("first", chips=8, labels={"fault-scheduling": "force"})
    rig.run()
    rig.sick(rig.node_of("first-0"), 1)
    return violated(see(rig))


CASES: dict[str, tuple[Callable[[], set[str]], ...]] = {
    "no_chip_is_given_twice": (
        chip_of_a_pod_that_runs,
        chip_of_a_pod_of_the_same_turn,
        pod_with_a_node,
        too_few_chips,
        pod_that_is_gone,
    ),
    "bindings_use_usable_chips": (
        chip_is(unhealthy=1),
        chip_is(recovering=2),
        chip_is(faults=(ReportedFault(2, "code", PRE_SEPARATE_LEVEL),)),
        chip_is_isolated,
    ),
    "gangs_start_whole": (
        part_of_a_gang,
        rest_of_a_gang_that_lost_a_pod,
        task_without_its_minimum,
        part_of_a_sub_group,
    ),
    "evictions_leave_whole_gangs": (evicted_part_of_a_gang, evicted_pods_that_were_not_spare),
    "no_pod_is_in_two_plans": (pod_in_two_plans,),
    "reservations_lie_on_usable_chips": (
        lambda: violated(reserved(ready=False)),
        lambda: violated(reserved(unschedulable=True)),
        lambda: violated(reserved(isolated=True)),
        lambda: violated(reserved(unhealthy=1)),
        lambda: violated(reserved(recovering=1)),
        reserved_for_two,
    ),
    "every_hold_has_an_end": (
        hold_that_is_over,
        hold_without_an_end,
        hold_for_a_job_that_is_gone,
        hold_of_a_plan_that_is_over,
        hold_for_which_the_scheduler_does_not_wake_up,
        quota_without_an_end,
        quota_beyond_its_limit,
        borrowed_by_a_pod_that_is_gone,
    ),
    "queues_use_no_more_than_they_may": (more_than_the_capability, more_than_the_guarantees_leave),
    "queues_admit_no_more_than_they_may": (
        lambda: admitted(True, ("first", "second")),
        lambda: admitted(False, ("first", "second")),
    ),
    "limits_count_what_runs_and_what_is_reserved": (counts_that_are_out_of_date,),
    "pods_leave_unhealthy_chips": (pod_that_stays_on_an_unhealthy_chip,),
    "limits_hold_when_a_job_starts": (more_chips_than_the_limit, more_jobs_than_the_limit),
    "pending_jobs_have_true_reasons": (
        job_that_would_start,
        fact_that_is_none(UNKNOWN_QUEUE, queue="default", known="none", nearest="none"),
        fact_that_is_none(QUEUE_NOT_OPEN, queue="default", state="Closed"),
        fact_that_is_none(PODS_GATED, gated=1, needed=1, pods=1),
    ),
}


@pytest.mark.parametrize(("rule", "case"), [(rule, case) for rule, cases in CASES.items() for case in cases])
def test_a_turn_that_a_rule_forbids_is_reported_under_its_name(
    rule: str, case: Callable[[], set[str]]
) -> None:
    assert rule in case()


def test_every_rule_is_violated_by_a_case() -> None:
    assert sorted(CASES) == sorted(rule.__name__ for rule in _RULES)


def test_a_pod_that_two_plans_move_is_reported() -> None:
    _, plan = fragmented()
    assert not list(moved_twice([plan]))
    assert list(moved_twice([plan, replace(plan, job="default/other")]))


def test_a_violation_fails_the_turn_and_the_test() -> None:
    """The scheduler believes that chips are free which a pod uses: the hook compares with its own count."""
    rig = two_jobs()
    rig.run()
    rig.submit("third", chips=8)
    lose(rig, "first")
    with pytest.raises(AssertionError, match="no_chip_is_given_twice"):
        rig.step()
    assert invariants.violations
    invariants.violations.clear()
