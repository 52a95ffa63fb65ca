"""`queue-discipline: strict`: a job that does not fit blocks those of its resource behind it in its queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.framework import budget
from ringwise.framework.queue_heads import Head, Line, QueueHeads
from ringwise.framework.statement import Statement
from ringwise.messages.commands import Bind, SetGroupStatus
from ringwise.scheduler.explain.why import explain
from ringwise.state.limits import UsageLimit
from ringwise.state.model import NodeReservation, NodeTerm, PodTerm, Requirement, TopologySpread
from ringwise.wellknown import USER
from tests.builders.values import CHIP, SECOND
from tests.scheduler.rig import PLAIN, Rig, bound_pods, configuration, with_capacity

ALLOCATE = ("allocate",)
WEB = PodTerm("zone", (Requirement("app", "In", ("web",)),))


def strict(nodes: int = 1, actions: Sequence[str] = ALLOCATE) -> Rig:
    return Rig(nodes, actions=actions, queue_discipline="strict")


def blocked(rig: Rig | None = None) -> Rig:
    """One node with a job of one chip; `whole` waits for the whole node, `small` behind it."""
    rig = rig or strict()
    rig.submit("old", chips=1)
    rig.run()
    rig.submit("whole", chips=8)
    rig.submit("small", chips=1)
    rig.run()
    return rig


def test_by_default_a_job_that_fits_passes_one_that_does_not() -> None:
    rig = blocked(Rig(1, actions=ALLOCATE))
    assert rig.nodes_of("small") == ["n1"]


def test_a_job_that_does_not_fit_blocks_those_behind_it() -> None:
    rig = blocked()
    assert rig.nodes_of("whole") == []
    assert rig.nodes_of("small") == []
    assert rig.reason("small") == "blocked-by-head-of-queue"


def test_a_job_whose_owner_has_not_created_all_pods_blocks_no_other() -> None:
    rig = strict()
    rig.submit("old", chips=1)
    rig.run()
    rig.submit("whole", chips=8)
    rig.change_group("whole", replicas=2)
    rig.submit("small", chips=1)
    rig.run()
    assert rig.nodes_of("small") == ["n1"]


def test_why_says_the_same_of_a_job_that_would_not_be_admitted_either() -> None:
    rig = strict(actions=("enqueue", "allocate"))
    rig.submit("old", chips=1)
    rig.run()
    for name in ("whole", "behind"):
        rig.submit(name, chips=8)
        key = f"default/{name}"
        rig.groups[key] = replace(rig.groups[key], min_resources={CHIP: 8})
        rig.tell(rig.groups[key])
    rig.run()
    job = rig.machine.view.jobs["default/behind"]
    answer = explain(rig.machine.view, job, rig.now)
    assert answer.reason is not None
    assert (rig.reason("behind"), answer.reason.code) == (
        "blocked-by-head-of-queue",
        "blocked-by-head-of-queue",
    )
    assert answer.reason.details["job"] == "default/whole"
    assert all(fix.text.startswith("let default/whole start: ") for fix in answer.fixes)
    assert answer.fixes


def test_a_job_that_comes_later_is_blocked_by_one_that_was_tried_before() -> None:
    rig = blocked()
    rig.submit("later", chips=1)
    rig.run()
    assert rig.reason("later") == "blocked-by-head-of-queue"


def test_jobs_behind_start_once_the_first_has_started() -> None:
    rig = blocked(strict(2))
    # Two nodes: `whole` takes the second one; another whole node is what blocks now.
    rig.submit("whole-2", chips=8)
    rig.submit("small-2", chips=1)
    rig.run()
    assert rig.reason("small-2") == "blocked-by-head-of-queue"
    rig.end("whole")
    rig.run()
    assert rig.nodes_of("whole-2") == ["n2"]
    assert rig.nodes_of("small-2") == ["n1"]


def test_jobs_behind_start_once_the_first_is_deleted() -> None:
    rig = blocked()
    rig.end("whole")
    rig.run()
    assert rig.nodes_of("small") == ["n1"]


def test_jobs_of_another_queue_and_of_another_resource_pass() -> None:
    rig = strict()
    rig.queue("other")
    rig = blocked(rig)
    rig.submit("elsewhere", chips=1, queue="other")
    rig.submit("no-chips", chips=0, cpu_milli=100)
    rig.run()
    assert rig.nodes_of("elsewhere") == ["n1"]
    assert rig.nodes_of("no-chips") == ["n1"]
    assert rig.reason("small") == "blocked-by-head-of-queue"


def test_a_more_important_job_is_ahead_of_one_that_came_before() -> None:
    rig = blocked()
    rig.priority("high", 1000)
    rig.submit("urgent", chips=1, priority="high")
    rig.run()
    assert rig.nodes_of("urgent") == ["n1"]
    assert rig.reason("small") == "blocked-by-head-of-queue"


def test_a_refused_job_blocks_nobody() -> None:
    rig = strict()
    rig.submit("three", chips=3)
    rig.run()
    rig.submit("small", chips=1)
    rig.run()
    assert rig.nodes_of("small") == ["n1"]


def test_a_job_that_becomes_gated_blocks_nobody_any_more() -> None:
    rig = blocked()
    rig.change("whole-0", gated=True)
    rig.run()
    assert rig.nodes_of("small") == ["n1"]


def test_a_job_that_lacks_pods_blocks_nobody() -> None:
    rig = strict()
    rig.submit("old", chips=1)
    rig.run()
    rig.submit("gang", pods=2, chips=8)
    rig.gone("gang-1")
    rig.run()
    rig.submit("small", chips=1)
    rig.run()
    assert rig.nodes_of("small") == ["n1"]


def test_a_job_that_runs_with_min_available_blocks_nobody() -> None:
    rig = strict(2)
    rig.submit("old", chips=1)
    rig.run()
    rig.submit("elastic", pods=2, chips=8, min_available=1)
    rig.run()
    rig.submit("small", chips=1)
    rig.run()
    assert rig.nodes_of("elastic") == ["n2"]
    assert rig.nodes_of("small") == ["n1"]


def test_a_job_that_was_too_costly_blocks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "JOB_STEPS", 10)
    monkeypatch.setattr(budget, "POD_STEPS", 0)
    rig = strict(30)
    names = tuple(f"n{number}" for number in range(1, 15))
    rig.submit("costly", node_terms=(NodeTerm(fields=(Requirement("metadata.name", "In", names),)),))
    rig.run()
    assert rig.reason("costly") == "search-limit-reached"
    rig.submit("small", chips=1)
    rig.run()
    assert rig.nodes_of("small") != []


def test_jobs_too_large_for_the_empty_cluster_block_nobody() -> None:
    rig = strict(2)
    rig.submit("old", chips=1)
    rig.run()
    rig.submit("three-nodes", pods=3, chips=8)
    rig.submit("five-nodes", pods=5, chips=8)
    rig.submit("both-nodes", pods=2, chips=8)
    rig.submit("small", chips=1)
    rig.run()
    assert rig.reason("small") == "blocked-by-head-of-queue"
    rig.end("both-nodes")
    rig.run()
    assert rig.nodes_of("small") == ["n1"]


def test_a_selector_that_no_node_has_blocks_nobody() -> None:
    rig = strict()
    rig.submit("nowhere", chips=1, node_selector=(("zone", "none"),))
    rig.submit("small", chips=1)
    rig.run()
    assert rig.nodes_of("small") == ["n1"]


def test_a_job_larger_than_its_queue_may_use_blocks_nobody() -> None:
    rig = strict(2)
    rig.queue("team", capability={CHIP: 4})
    for name in ("old", "old-2"):
        rig.submit(name, chips=8)
    rig.submit("whole", chips=8, queue="team")
    rig.run()
    rig.end("old")
    rig.submit("small", chips=1, queue="team")
    rig.run()
    assert rig.nodes_of("whole") == []
    assert rig.nodes_of("small") != []


@pytest.mark.parametrize("by_capacity", [False, True])
def test_a_job_larger_than_what_guarantees_leave_blocks_no_other_job(
    by_capacity: bool,
) -> None:
    rig = Rig(2, actions=PLAIN, queue_discipline="strict", tiers=with_capacity() if by_capacity else None)
    rig.queue("other", guarantee={CHIP: 8})
    rig.submit("large", pods=2, chips=8)
    rig.submit("small", chips=8)
    rig.run()
    assert rig.nodes_of("large") == []
    assert len(rig.nodes_of("small")) == 1


#: Of a job that fits on the node at no time, and of jobs that fit once another one has ended.
UNALIKE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "another namespace": ({}, {"namespace": "team"}),
    "another expected duration": ({"expected": "5h"}, {"expected": "10s"}),
    "another user, whose jobs end sooner": ({"annotations": {USER: "bob"}}, {"annotations": {USER: "ann"}}),
}


@pytest.mark.parametrize("case", UNALIKE)
def test_a_job_that_is_too_large_makes_none_too_large_that_may_be_where_it_may_not(case: str) -> None:
    first, others = UNALIKE[case]
    rig = Rig(1, actions=ALLOCATE, queue_discipline="strict", user_annotation="guarded")
    start, end = rig.now + 3600 * SECOND, rig.now + 7200 * SECOND
    rig.tell(NodeReservation("r", ("n1",), start, end, namespace="team"))
    rig.tell(UsageLimit("short", queue="*", user="ann", max_run_time=600 * SECOND))
    rig.submit("old", chips=1, **others)
    rig.run()
    rig.submit("never", chips=8, **first)
    rig.run()
    # The next attempt with the empty cluster takes place some time after the first.
    rig.step(30)
    rig.submit("whole", chips=8, **others)
    rig.submit("small", chips=1, **others)
    rig.run()
    reasons = {job.name: job.reason and job.reason.code for job in rig.machine.view.jobs.values()}
    assert (reasons["whole"], reasons["small"]) == ("no-node-fits", "blocked-by-head-of-queue")


#: What both ask for, and the labels of a job that fits at no time and of one that does.
TERMS: dict[str, tuple[dict[str, Any], dict[str, str], dict[str, str]]] = {
    "apart from itself": ({"pod_anti_affinity": (WEB,)}, {"app": "web"}, {}),
    "near itself": ({"pod_affinity": (WEB,)}, {}, {"app": "web"}),
    "spread evenly": ({"spread": (TopologySpread(WEB, 1, True),)}, {"app": "web"}, {}),
}


@pytest.mark.parametrize("case", TERMS)
def test_jobs_with_equal_terms_are_alike_only_with_equal_labels(case: str) -> None:
    """Whether the terms of a job match its own pods decides whether it fits into the empty cluster."""
    asked, never, one_day = TERMS[case]
    rig = strict(0)
    for name in ("n1", "n2"):
        rig.node(name, labels={"zone": "a"})
    if case == "spread evenly":
        rig.node("n3", chips=0, labels={"zone": "b"})
    rig.submit("old", chips=1)
    rig.run()
    rig.submit("never", pods=2, chips=8, labels=never, **asked)
    rig.run()
    # The next attempt with the empty cluster takes place some time after the first.
    rig.step(30)
    rig.submit("whole", pods=2, chips=8, labels=one_day, **asked)
    rig.submit("small", chips=1)
    rig.run()
    assert rig.reason("never") is not None
    assert rig.reason("small") == "blocked-by-head-of-queue"
    rig.end("old")
    rig.run()
    assert len(rig.nodes_of("whole")) == 2


def test_a_plain_job_is_not_tried_on_the_empty_cluster() -> None:
    rig = strict(2)
    for name in ("old", "old-2"):
        rig.submit(name, chips=1)
        rig.submit(f"{name}-half", chips=4)
    rig.submit("more", chips=4)
    rig.run()
    made = Statement.made
    rig.submit("whole", chips=8)
    rig.step()
    assert rig.reason("whole") == "no-node-fits"
    assert Statement.made - made == 1


def test_a_job_that_was_too_large_blocks_once_the_cluster_has_grown() -> None:
    rig = strict(1)
    rig.submit("old", chips=1)
    rig.submit("both-nodes", pods=2, chips=8)
    rig.submit("small", chips=1)
    rig.run()
    assert rig.nodes_of("small") == ["n1"]
    rig.node("n2")
    rig.run()
    # The next attempt with the empty cluster takes place some time after the first.
    rig.step(30)
    rig.run()
    rig.submit("late", chips=1)
    rig.run()
    assert rig.reason("late") == "blocked-by-head-of-queue"


def test_whether_a_job_is_too_large_is_tried_once_for_a_shape_and_not_all_the_time() -> None:
    rig = blocked(strict(2))
    rig.submit("first", chips=8)
    rig.run()
    deadline = rig.machine.next_deadline()
    made = Statement.made
    for number in range(20):
        rig.submit(f"more-{number}", chips=8)
        rig.run()
    # None is tried: they wait behind the first, whose shape was tested.
    assert Statement.made == made
    assert rig.machine.next_deadline() == deadline


def test_chips_that_become_free_wake_the_first_job_only() -> None:
    rig = Rig(2, actions=ALLOCATE, queue_discipline="strict", reservation_after=604800)
    for name in ("a", "b", "c"):
        rig.submit(name, chips=4)
    rig.run()
    rig.submit("whole", chips=8)
    rig.submit("next", chips=8)
    rig.run()
    for number in range(50):
        rig.submit(f"small-{number}", chips=1)
    rig.run()
    made = Statement.made
    # One chip pod ends on the node that another job still uses: the first is tried in vain.
    rig.submit("probe", chips=0, cpu_milli=10)
    rig.run()
    rig.end("probe")
    rig.run()
    assert Statement.made - made <= 4


def test_few_of_many_jobs_are_tried_when_the_first_starts() -> None:
    rig = Rig(1, actions=ALLOCATE, queue_discipline="strict", reservation_after=604800)
    rig.submit("old", chips=8)
    rig.run()
    for number in range(300):
        rig.submit(f"job-{number}", chips=8)
    rig.run()
    looked_at = 0

    def count() -> None:
        nonlocal looked_at
        looked_at += 1

    rig.machine.on_progress(count)
    rig.end("old")
    rig.run()
    assert rig.nodes_of("job-0") == ["n1"]
    assert rig.reason("job-1") == "queue-overused"
    assert rig.reason("job-299") == "blocked-by-head-of-queue"
    # Events, jobs that are validated, and attempts to place one; not 300.
    assert looked_at < 60


def test_a_job_that_changes_all_the_time_is_remembered_once() -> None:
    heads = QueueHeads()
    line = Line("default", "chips")
    for number in range(10_000):
        heads.park("job", Head(line, (number % 7,)))
    heads.park("other", Head(line, (4,)))
    assert sum(map(len, heads._behind.values())) < 1000
    heads.moved[line] = 8
    assert heads.to_try(line) == ["job", "other"]
    assert heads.to_try(line) == []


def test_all_that_fit_start_when_the_first_does_and_in_order() -> None:
    rig = strict(13)
    rig.submit("old", chips=8)
    rig.run()
    rig.submit("all", pods=13, chips=8)
    for number in range(100):
        rig.submit(f"job-{number}", chips=1)
    rig.run()
    rig.end("all")
    commands = rig.step()
    assert bound_pods(commands) == [f"job-{number}-0" for number in range(96)]
    assert rig.reason("job-96") == "queue-overused"
    assert rig.reason("job-97") == "blocked-by-head-of-queue"


def test_a_blocked_job_is_not_enqueued_and_its_reason_does_not_change_with_the_first() -> None:
    rig = strict(2, actions=("enqueue", "allocate"))
    rig.submit("old", chips=8)
    rig.submit("old-2", chips=8)
    rig.run()
    for name in ("first", "second", "third"):
        rig.submit(name, chips=8)
    rig.run()
    assert rig.reason("third") == "blocked-by-head-of-queue"
    rig.commands.clear()
    rig.end("old")
    rig.run()
    assert rig.nodes_of("first") != []
    assert rig.reason("third") == "blocked-by-head-of-queue"
    # Its PodGroup is not written: with hundreds of waiting jobs that would be hundreds of requests.
    written = {command.key for command in rig.commands if isinstance(command, SetGroupStatus)}
    assert "default/third" not in written


def test_a_blocked_job_evicts_nobody() -> None:
    rig = strict(1, actions=("allocate", "preempt"))
    rig.priority("high", 1000)
    rig.submit("old", chips=4)
    rig.submit("victim", chips=4, preemptable=True)
    rig.run()
    rig.submit("whole", chips=8, priority="high")
    rig.submit("half", chips=4, priority="high")
    rig.run()
    assert rig.reason("half") == "blocked-by-head-of-queue"
    assert rig.evictions() == []


def test_other_settings_end_the_discipline() -> None:
    rig = blocked()
    rig.tell(configuration(ALLOCATE))
    rig.run()
    assert rig.nodes_of("small") == ["n1"]


def test_why_names_the_job_it_waits_behind_and_the_fix_of_that_one() -> None:
    rig = blocked()
    view = rig.machine.view
    before = view.jobs["default/small"].reason
    answer = explain(view, view.jobs["default/small"], rig.now)
    assert answer.reason is not None
    assert answer.reason.code == "blocked-by-head-of-queue"
    assert answer.reason.details["job"] == "default/whole"
    assert "the first of them is default/whole: 0 of 1 node can run whole-0 " in answer.sentence
    assert "let default/whole start: wait for job default/old to end" in [
        fix.sentence for fix in answer.fixes
    ]
    assert view.jobs["default/small"].reason == before


def test_a_job_that_changes_as_the_first_starts_does_not_pass_the_one_before_it() -> None:
    rig = blocked()
    rig.submit("whole-2", chips=8)
    rig.submit("late", chips=1)
    rig.run()
    rig.end("old")
    rig.run()
    assert rig.nodes_of("whole") == ["n1"]
    # `late` is tried because it changes, `whole` goes, and `small` and `whole-2` come before it.
    rig.end("whole")
    rig.change("late-0", labels={"a": "b"})
    rig.run()
    assert rig.nodes_of("small") == ["n1"]
    assert rig.nodes_of("late") == []


@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 4, 8, 16, 32]), st.integers(1, 40), st.integers(0, 10)),
        min_size=1,
        max_size=25,
    )
)
def test_jobs_of_one_queue_start_in_its_order(jobs: list[tuple[int, int, int]]) -> None:
    """Whatever comes and goes: nobody starts before one that came before and fits the empty cluster."""
    rig = strict(3)
    rig.step()
    order = [f"job-{number}" for number in range(len(jobs))]
    ends: dict[str, int] = {}
    started: list[str] = []
    time, submitted = 0, 0
    arrivals = []
    at = 0
    for _, _, gap in jobs:
        at += gap
        arrivals.append(at)
    while len(started) < sum(size <= 24 for size, _, _ in jobs):
        while submitted < len(jobs) and arrivals[submitted] <= time:
            size = jobs[submitted][0]
            rig.submit(order[submitted], pods=max(1, size // 8), chips=min(8, size))
            submitted += 1
        for name in [name for name, end in ends.items() if end <= time]:
            rig.end(name)
            del ends[name]
        for command in rig.step(1):
            if isinstance(command, Bind) and (name := command.pod.rpartition("-")[0]) not in started:
                started.append(name)
                ends[name] = time + jobs[int(name[4:])][1]
        time += 1
        assert time < 10_000
    fitting = [name for name, (size, _, _) in zip(order, jobs, strict=True) if size <= 24]
    assert started == fitting


def test_nothing_is_kept_for_a_job_that_has_to_wait_behind_another() -> None:
    """It starts after that one, which would wait for the chips that are kept for it: both for ever."""
    rig = Rig(1, actions=ALLOCATE, queue_discipline="strict", reservation_after=600)
    rig.priority("high", 10)
    rig.submit("runs", chips=8)
    rig.run()
    rig.submit("later", chips=4)
    rig.run()
    rig.step(600)
    assert rig.machine.view.reservations.of("default/later") is not None
    # Now another one comes first.
    rig.submit("first", chips=8, priority="high")
    rig.run()
    assert rig.machine.view.reservations.of("default/later") is None
    rig.end("runs")
    rig.run()
    assert rig.nodes_of("first") == ["n1"]
    rig.step(600)
    assert rig.machine.view.reservations.of("default/later") is not None
