"""A job that takes too many steps is set aside; the others go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringwise.framework import budget
from ringwise.framework.budget import NamespaceSteps
from ringwise.framework.evictions.victim_search import EvictionPlan, VictimSearch
from ringwise.framework.job import Job
from ringwise.messages.commands import Command, RecordJobEvent
from ringwise.plugins import nodeorder
from ringwise.scheduler.core.job_backoff import AFTER_COST
from ringwise.state.model import NodeTerm, PodClass, Requirement, SubGroupPolicy
from ringwise.state.node_shapes import NodeShape
from tests.builders.values import group, pod
from tests.scheduler.rig import PLAIN, Rig, bound_pods, configuration, gangs_may_end

#: Names 14 of the 30 nodes: each of them is a step.
MANY_NODES = (NodeTerm(fields=(Requirement("metadata.name", "In", tuple(f"n{n}" for n in range(1, 15))),)),)


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "JOB_STEPS", 10)
    monkeypatch.setattr(budget, "POD_STEPS", 0)


@pytest.fixture
def few_steps_for_a_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "NAMESPACE_STEPS", 40)
    monkeypatch.setattr(budget, "NAMESPACE_STEPS_A_SECOND", 20)


@pytest.mark.usefixtures("few_steps")
def test_a_costly_job_is_set_aside_with_its_numbers_and_others_start() -> None:
    rig = Rig(30, actions=PLAIN)
    rig.submit("costly", node_terms=MANY_NODES)
    rig.submit("good")
    assert bound_pods(rig.step()) == ["good-0"]
    reason = rig.machine.view.jobs["default/costly"].reason
    assert reason is not None
    assert reason.code == "search-limit-reached"
    assert reason.details["limit"] == 10
    assert reason.details["steps"] >= 14
    assert reason.fixes
    assert rig.machine.view.inconsistencies() == []


@pytest.mark.usefixtures("few_steps")
def test_it_is_tried_again_with_growing_distance_whatever_happens_meanwhile() -> None:
    rig = Rig(30, actions=PLAIN)
    rig.submit("costly", node_terms=MANY_NODES)
    rig.step()
    job = rig.machine.view.jobs["default/costly"]
    for times in range(12):
        pause = min(2 << times, AFTER_COST.limit)
        before = job.reason
        rig.node(f"more-{times}")
        rig.step(pause - 1)
        assert job.reason is before
        rig.step(1)
        assert job.reason is not before
        assert rig.reason("costly") == "search-limit-reached"


def test_with_enough_steps_it_starts_at_the_next_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(30, actions=PLAIN)
    with monkeypatch.context() as patch:
        patch.setattr(budget, "JOB_STEPS", 10)
        patch.setattr(budget, "POD_STEPS", 0)
        rig.submit("costly", node_terms=MANY_NODES)
        rig.step()
    assert bound_pods(rig.step(2)) == ["costly-0"]
    assert rig.machine.next_deadline() is None


@pytest.mark.usefixtures("few_steps_for_a_namespace")
def test_many_costly_jobs_delay_only_their_own_namespace() -> None:
    rig = Rig(30, actions=PLAIN)
    for number in range(1, 7):
        # Classes of pods share their answers, so each is one of its own.
        rig.submit(f"c{number}", namespace="crowd", cpu_milli=number, node_terms=MANY_NODES)
    rig.submit("good", namespace="other", node_terms=MANY_NODES)
    first = bound_pods(rig.step())
    assert "good-0" in first
    assert 0 < len(first) < 7
    waiting = [job for job in rig.machine.view.jobs.values() if job.reason is not None]
    assert {job.reason.code for job in waiting if job.reason is not None} == {
        "namespace-search-limit-reached"
    }
    assert {job.namespace for job in waiting} == {"crowd"}
    for _ in range(10):
        rig.step(1)
    assert all(job.reason is None for job in rig.machine.view.jobs.values())


def test_progress_is_reported_inside_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "_PROGRESS", 5)
    steps = budget.StepBudget()
    reported: list[int] = []
    steps.on_progress = lambda: reported.append(1)
    steps.begin("team", 1)
    for _ in range(20):
        steps.spend(1)
    assert len(reported) == 4


def told(commands: list[Command]) -> list[RecordJobEvent]:
    return [one for one in commands if isinstance(one, RecordJobEvent)]


@pytest.mark.usefixtures("few_steps")
def test_every_time_it_is_set_aside_it_is_told_once_and_counted() -> None:
    rig = Rig(30, actions=PLAIN)
    rig.submit("costly", node_terms=MANY_NODES)
    (first,) = told(rig.step())
    assert (first.key, first.reason, first.warning) == ("default/costly", "SchedulingBackOff", True)
    assert "the limit is 10" in first.message
    assert "tried again after 2s" in first.message
    assert told(rig.step(1)) == []
    (second,) = told(rig.step(1))
    assert "tried again after 4s" in second.message
    assert rig.machine.view.history.backoffs == {"search-limit-reached": 2}


@pytest.mark.usefixtures("few_steps")
def test_a_pod_without_a_group_is_told_itself() -> None:
    rig = Rig(30, actions=PLAIN)
    rig.put(pod("alone", 1, node_terms=MANY_NODES, namespace="team"))
    (event,) = told(rig.step())
    assert (event.key, event.pod) == ("team/alone", "alone")


@pytest.mark.usefixtures("few_steps_for_a_namespace")
def test_jobs_of_a_crowded_namespace_are_told_once_until_they_are_tried() -> None:
    rig = Rig(30, actions=PLAIN)
    for number in range(1, 7):
        rig.submit(f"c{number}", namespace="crowd", cpu_milli=number, node_terms=MANY_NODES)
    events = told(rig.step())
    while any(job.reason is not None for job in rig.machine.view.jobs.values()):
        events += told(rig.step(1))
    assert events
    assert len({event.key for event in events}) == len(events)
    assert rig.machine.view.history.backoffs["namespace-search-limit-reached"] >= len(events)


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("change", ["job", "group", "settings"])
def test_a_change_of_the_job_or_the_settings_is_tried_at_once_and_the_next_pause_is_longer(
    change: str,
) -> None:
    rig = Rig(30, actions=PLAIN)
    rig.submit("costly", node_terms=MANY_NODES)
    rig.step()
    rig.step(2)
    rig.step()
    if change == "job":
        rig.change("costly-0", labels={"new": "label"})
    elif change == "group":
        rig.change_group("costly", labels={"new": "label"})
    else:
        rig.tell(configuration(PLAIN, reserve_nodes=3))
    (event,) = told(rig.step())
    assert "tried again after 8s" in event.message
    # What the scheduler itself wrote about it changes nothing.
    rig.tell(replace(rig.groups["default/costly"], phase="Inqueue"))
    rig.tell(rig.pods["costly-0"])
    assert told(rig.step()) == []


def test_the_watchdog_sees_progress_inside_one_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the core thread reports it: by the scheduler's own function, in the middle of one attempt."""

    def steps_of(job: bool) -> int:
        beats: list[int] = []
        rig = Rig(30, actions=PLAIN)
        rig.step()
        rig.machine.on_progress(lambda: beats.append(1))
        rig.submit("one", node_terms=MANY_NODES if job else ())
        rig.step()
        return len(beats)

    monkeypatch.setattr(budget, "_PROGRESS", 1_000_000)
    plain = steps_of(True)
    monkeypatch.setattr(budget, "_PROGRESS", 5)
    assert steps_of(True) > plain
    assert steps_of(False) <= plain


def test_the_scores_of_pods_that_differ_count_as_what_they_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each pod is scored on nodes that the pods before it made different: that is most of the work."""
    rated = 0

    def counting(pod_class: PodClass, shape: NodeShape) -> int:
        nonlocal rated
        rated += 1
        return 0

    monkeypatch.setattr(nodeorder, "taint_toleration", counting)
    taken = NamespaceSteps.take
    spent = 0

    def note(steps: NamespaceSteps, namespace: str, count: int, now: int) -> None:
        nonlocal spent
        spent += count
        taken(steps, namespace, count, now)

    monkeypatch.setattr(NamespaceSteps, "take", note)
    rig = Rig(30, actions=PLAIN)
    rig.tell(group("gang", 20))
    for number in range(20):
        cls = PodClass(cpu_milli=100 + number)
        rig.put(pod(f"p{number}", cls=cls, group="gang"))
    assert len(bound_pods(rig.step())) == 20
    assert rated > 20
    # A look and the scores of all plugins.
    assert spent >= 4 * rated


@pytest.mark.usefixtures("few_steps")
def test_ports_that_are_compared_count() -> None:
    """Of the pod that is tried, not of those that run: no tenant makes the jobs of others costly."""
    rig = Rig(1, actions=PLAIN)
    ports = tuple(("0.0.0.0", "TCP", 1 + number) for number in range(200))
    rig.put(pod("running", 0, host_ports=ports, namespace="other", on="n1"))
    rig.step()
    rig.submit("small", host_ports=(("0.0.0.0", "TCP", 8080),))
    others = tuple((address, protocol, 1000 + port) for address, protocol, port in ports)
    rig.submit("large", host_ports=others)
    assert bound_pods(rig.step()) == ["small-0"]
    assert rig.reason("large") == "search-limit-reached"


def test_sub_groups_beyond_the_gang_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each of them all pods of the job are looked at again."""
    monkeypatch.setattr(budget, "NAMESPACE_STEPS", 1000)
    monkeypatch.setattr(budget, "NAMESPACE_STEPS_A_SECOND", 500)
    rig = Rig(41, actions=PLAIN)
    rig.submit("pairs", pods=40, chips=8, min_available=1)
    policy = SubGroupPolicy("pair", match_label_keys=("pair",), size=2)
    rig.tell(replace(rig.groups["default/pairs"], sub_groups=(policy,)))
    for number in range(40):
        rig.change(f"pairs-{number}", labels={"pair": str(number // 2)})
    rig.submit("good", namespace="other", chips=8)
    first = bound_pods(rig.step())
    assert "good-0" in first
    assert 2 <= len(first) - 1 < 40
    assert rig.reason("pairs") == "namespace-search-limit-reached"
    for _ in range(20):
        rig.step(2)
    assert len(rig.places("pairs")) == 40


def searching_rig(waiting: int) -> Rig:
    """Nodes full of pods that may be evicted, and jobs of one namespace that search victims: only the last of
    them can have a node.
    """
    rig = Rig(4, actions=("allocate", "preempt"), tiers=gangs_may_end())
    rig.priority("high", 100)
    for number in range(32):
        rig.submit(f"low{number}", chips=1, preemptable=True)
    rig.run()
    for number in range(waiting):
        rig.submit(f"never{number}", chips=8, priority="high", node_selector=(("no", "such"),))
    rig.submit("last", chips=8, priority="high")
    return rig


def test_searches_for_victims_are_bounded_in_a_turn_and_continue_in_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches: list[str] = []
    find = VictimSearch.find

    def counting(search: VictimSearch) -> EvictionPlan | None:
        searches.append(search._job.name)
        return find(search)

    monkeypatch.setattr(VictimSearch, "find", counting)
    monkeypatch.setattr(budget, "NAMESPACE_STEPS", 10_000)
    monkeypatch.setattr(budget, "NAMESPACE_STEPS_A_SECOND", 5_000)
    rig = searching_rig(20)
    rig.step()
    assert 0 < len(searches) < 10
    turns = 0
    while rig.reason("last") != "evictions-in-progress":
        # Each second all of them are woken: no job is searched for twice before each was once.
        rig.node("flaps", chips=0, labels={"second": str(turns)})
        rig.step(1)
        turns += 1
        assert turns < 60
    assert len(set(searches[:21])) == 21


def test_a_search_for_victims_costs_its_namespace_what_it_reads() -> None:
    """What the job itself may spend is not used up by the size of the cluster."""
    steps = NamespaceSteps()
    spending = budget.StepBudget(steps, 0)
    spending.begin("team", 1)
    spending.spend(budget.JOB_STEPS // 2, budget.JOB_STEPS)
    spending.end()
    assert steps.left("team", 0) == budget.NAMESPACE_STEPS - budget.JOB_STEPS * 3 // 2


def test_of_equal_priority_jobs_that_were_passed_over_come_first_in_the_places_of_their_namespace() -> None:
    jobs = [
        Job(f"{namespace}/{name}", namespace, name, priority=priority)
        for namespace, name, priority in (
            ("bad", "a", 1),
            ("good", "b", 0),
            ("bad", "c", 0),
            ("bad", "d", 0),
            ("bad", "e", 0),
        )
    ]
    steps = NamespaceSteps()
    spending = budget.StepBudget(steps, 0)
    assert [job.name for job in spending.in_turn(jobs)] == ["a", "b", "c", "d", "e"]
    for key in ("bad/e", "bad/d"):
        spending.pass_over("bad", key)
    assert [job.name for job in spending.in_turn(jobs)] == ["a", "b", "e", "d", "c"]
    assert [job.name for job in spending.in_turn(jobs)] == ["a", "b", "c", "d", "e"]
