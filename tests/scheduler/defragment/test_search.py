"""Plans for jobs of every kind, and what a plan must not do."""

from __future__ import annotations

from typing import Any

import pytest

import ringwise.framework.job
from ringwise.framework.job import Job
from ringwise.messages import events as ev
from ringwise.messages.move_plan import MovePlan
from ringwise.reasons import Reason
from ringwise.scheduler.defragment.search import PlanBudget, find_plan, find_plans
from ringwise.scheduler.explain.why import explain
from ringwise.state.model import (
    Node,
    NodeReservation,
    Owner,
    Pod,
    PodGroup,
    Queue,
)
from ringwise.topology.switches import LeafSwitch, Server, SwitchTopology
from tests.builders.values import CHIP, gang, group, node, pod, pod_class, report, seen
from tests.scheduler.rig import NOW, scheduler_told, told

SERVICE = Owner("ReplicaSet", "service", "uid-of-service", "apps/v1")


def runs(name: str, where: str, *chips: int, **more: Any) -> Pod:
    """A pod that may be moved."""
    more.setdefault("owner", SERVICE)
    return pod(name, len(chips), on=where, holds=chips, **more)


def whole(name: str, where: str, chips: int = 8, **more: Any) -> Pod:
    return runs(name, where, *range(chips), **more)


def plan_of(*events: Any, job: str = "waiting", **settings: Any) -> MovePlan:
    view = told(*events, **settings)
    found = find_plan(view, _job(view, job), NOW)
    assert isinstance(found, MovePlan), found.message
    return found


def refusal_of(*events: Any, job: str = "waiting") -> str:
    view = told(*events)
    found = find_plan(view, _job(view, job), NOW)
    assert isinstance(found, Reason)
    return found.code


def _job(view: Any, name: str) -> Any:
    return next(job for job in view.jobs.values() if job.name == name)


def moved(plan: MovePlan) -> dict[str, str]:
    return {pod.name.partition("/")[2]: pod.node for move in plan.moves for pod in move.pods}


# -- jobs of every size


def test_two_chips_of_a_ring() -> None:
    plan = plan_of(
        node("n1"),
        runs("a", "n1", 0, 1),
        runs("b", "n1", 2),
        runs("c", "n1", 4, 5),
        runs("d", "n1", 6, owner=None),
        pod("waiting", 2),
    )
    assert moved(plan) == {"b": "n1"}
    assert plan.moves[0].pods[0].chips == (7,)
    assert plan.room[0].chips == (2, 3)


def test_a_ring() -> None:
    plan = plan_of(node("n1"), runs("a", "n1", 0), runs("b", "n1", 4), pod("waiting", 4))
    assert len(plan.moves) == 1
    assert len(plan.room[0].chips) == 4


def test_a_whole_node_is_emptied_where_the_fewest_chips_are_in_use() -> None:
    plan = plan_of(
        node("n1"),
        node("n2"),
        node("n3"),
        runs("a", "n1", 0, 1),
        runs("b", "n2", 0),
        runs("c", "n3", 0, 1, 2, 3),
        pod("waiting", 8),
    )
    assert moved(plan) in ({"b": "n1"}, {"b": "n3"})
    assert [(one.node, one.chips) for one in plan.room] == [("n2", tuple(range(8)))]
    assert plan.cost == 600 * 1_000_000_000


@pytest.mark.parametrize("kept", ["n1", "n3"])
def test_no_job_is_moved_to_a_node_that_is_reserved_for_others(kept: str) -> None:
    """Of two nodes that could take it, it goes to the other one."""
    both = (node("n1"), node("n2"), node("n3"))
    busy = (runs("a", "n1", 0, 1), runs("b", "n2", 0), runs("c", "n3", 0, 1))
    one = NodeReservation("r", (kept,), NOW, NOW + 3600 * 10**9, queue="research")
    plan = plan_of(*both, *busy, one, pod("waiting", 8))
    assert moved(plan) == {"b": "n3" if kept == "n1" else "n1"}


def test_a_gang_of_several_nodes() -> None:
    plan = plan_of(
        *(node(f"n{number}") for number in range(1, 5)),
        whole("big", "n1"),
        runs("a", "n2", 0),
        runs("b", "n3", 0),
        runs("c", "n4", 0, 1),
        gang("waiting", 2, 8),
    )
    assert moved(plan) == {"a": "n4", "b": "n4"}
    assert {one.node for one in plan.room} == {"n2", "n3"}


def test_the_one_that_costs_less_moves() -> None:
    plan = plan_of(
        node("n1"),
        node("n2"),
        runs("a", "n1", 0),
        runs("b", "n2", 0, 1, annotations={"ringwise.io/restart-cost": "1m"}),
        pod("waiting", 8),
    )
    assert moved(plan) == {"b": "n1"}
    assert plan.cost == 2 * 60 * 1_000_000_000


def test_a_pod_that_gives_way_makes_others_give_way() -> None:
    """The ring of four that has to leave finds no ring: two of one chip leave theirs."""
    plan = plan_of(
        node("n1"),
        node("n2"),
        node("n3"),
        runs("four", "n1", 0, 1, 2, 3),
        runs("stays", "n2", 0, 1, 2, 3, owner=None),
        runs("one", "n2", 4, 5),
        runs("fixed", "n3", 0, 1, owner=None),
        runs("other", "n3", 4, 5, 6, 7, owner=None),
        pod("waiting", 8),
    )
    assert moved(plan) == {"four": "n2", "one": "n3"}


def test_a_job_as_a_whole_under_its_switch() -> None:
    servers = [tuple(Server(f"10.0.0.{3 * leaf + index}", 0, index) for index in range(3)) for leaf in (0, 1)]
    topology = SwitchTopology((LeafSwitch("leaf-a", 0, servers[0]), LeafSwitch("leaf-b", 1, servers[1])), 3)
    nodes: list[Any] = [node(f"n{number}", internal_ip=f"10.0.0.{number}") for number in range(6)]
    plan = plan_of(
        nodes,
        topology,
        whole("big", "n0"),
        whole("large", "n1"),
        runs("a", "n2", 0),
        runs("b", "n3", 0),
        runs("c", "n4", 0),
        gang("waiting", 3, 8, labels={"tor-affinity": "normal-schema"}),
    )
    assert set(moved(plan)) == {"b", "c"}
    assert {one.node for one in plan.room} == {"n3", "n4", "n5"}


def test_a_job_of_blocks_in_its_superpod() -> None:
    def big(name: str, superpod: int) -> Node:
        return node(name, 16, superpod=superpod)

    small: dict[str, Any] = {"annotations": {"huawei.com/schedule_policy": "chip2-node16"}}
    notes = {"sp-block": "32", "huawei.com/schedule_policy": "chip2-node16-sp"}
    view = told(
        *(big(f"n{number}", number // 2) for number in range(4)),
        whole("large", "n0", 16, **small),
        runs("a", "n1", 0, 1, **small),
        runs("b", "n2", 0, 1, **small),
        gang("waiting", 2, 16, annotations=notes),
    )
    found = find_plan(view, _job(view, "waiting"), NOW)
    assert isinstance(found, MovePlan), found.message
    assert moved(found) == {"b": "n1"}
    assert {one.node for one in found.room} == {"n2", "n3"}


def test_a_job_of_racks() -> None:
    nodes: list[object] = []
    for number in range(4):
        rack = number // 2
        nodes.append(node(f"n{number}", superpod=0, rack=rack))
        nodes.append(report(f"n{number}", superpod=0, rack=rack))
    notes = {"huawei.com/schedule_policy": "chip8-node8-ra64-sp", "sp-block": "16", "ra-block": "16"}
    plan = plan_of(
        nodes,
        whole("large", "n0"),
        runs("a", "n1", 0),
        runs("b", "n2", 0),
        gang("waiting", 2, 8, annotations=notes),
    )
    assert moved(plan) == {"b": "n1"}


# -- who moves, and where to


def test_of_pods_that_run_alone_only_one_moves() -> None:
    group = PodGroup("default", "podgroup-u", min_member=1, ordinary=True, replicas=3, owner=SERVICE)
    plan = plan_of(
        *(node(f"n{number}") for number in range(1, 4)),
        group,
        *(runs(f"s-{number}", f"n{number}", 0, group="podgroup-u") for number in range(1, 4)),
        pod("waiting", 8),
    )
    assert len(plan.moves) == 1
    assert len(plan.moves[0].pods) == 1
    assert plan.cost == 600 * 1_000_000_000


def test_a_gang_moves_as_a_whole() -> None:
    pair: list[Any] = [
        group("pair", 2),
        whole("pair-0", "n1", group="pair"),
        whole("pair-1", "n2", group="pair"),
    ]
    plan = plan_of(
        node("n1", labels={"zone": "a"}),
        *(node(f"n{number}") for number in range(2, 4)),
        pair,
        pod("waiting", 8, cls=pod_class(8, node_selector=(("zone", "a"),))),
    )
    assert [len(move.pods) for move in plan.moves] == [2]
    assert plan.cost == 16 * 600 * 1_000_000_000
    assert plan.room[0].node == "n1"


def test_a_moved_pod_keeps_to_its_selector() -> None:
    cls = pod_class(1, node_selector=(("zone", "a"),))
    events: list[Any] = [
        node("n1", labels={"zone": "a"}),
        node("n2", labels={"zone": "b"}),
        node("n3", labels={"zone": "b"}),
        runs("a", "n1", 0, cls=cls),
        runs("b", "n2", 0),
        whole("c", "n3"),
    ]
    assert moved(plan_of(*events, pod("waiting", 8))) == {"b": "n1"}


def test_a_job_is_not_spread_over_more_switches() -> None:
    """The pair is under one switch; its only other places are under two."""
    servers = [
        tuple(Server(f"10.0.0.{2 * leaf + index}", 0, index) for index in range(2)) for leaf in range(3)
    ]
    leaves = tuple(LeafSwitch(f"leaf-{leaf}", leaf, servers[leaf]) for leaf in range(3))
    nodes: list[Any] = [
        node(f"n{number}", internal_ip=f"10.0.0.{number}", labels={"zone": "a" if number < 2 else "b"})
        for number in range(6)
    ]
    pair: list[Any] = [
        group("pair", 2),
        whole("pair-0", "n0", group="pair"),
        whole("pair-1", "n1", group="pair"),
    ]
    waiting = gang("waiting", 2, 8)
    for event in waiting:
        if isinstance(event, Pod):
            event.cls = pod_class(8, node_selector=(("zone", "a"),))
    others: list[Any] = [whole("x", "n2", owner=None), whole("y", "n4", owner=None)]
    view = told(nodes, SwitchTopology(leaves, 2), pair, others, waiting)
    found = find_plan(view, _job(view, "waiting"), NOW)
    assert isinstance(found, Reason)
    assert "leaf switches" in found.message
    without_topology = told(nodes, pair, others, waiting)
    assert isinstance(find_plan(without_topology, _job(without_topology, "waiting"), NOW), MovePlan)


def test_jobs_of_a_closed_queue_stay() -> None:
    """Nothing would place them again."""
    events: list[Any] = [
        node("n1"),
        node("n2"),
        Queue("shut"),
        group("a", queue="shut"),
        runs("a-0", "n1", 0, group="a"),
        runs("b", "n2", 0, 1, owner=None),
    ]
    assert moved(plan_of(*events, pod("waiting", 8))) == {"a-0": "n2"}
    closed = Queue("shut", state="Closed")
    assert refusal_of(*events, closed, pod("waiting", 8)) == "no-moves-help"


# -- jobs for which there is no plan


def test_jobs_that_do_not_wait_for_holes() -> None:
    busy: list[Any] = [node("n1"), node("n2"), runs("a", "n1", 0), runs("b", "n2", 0)]
    assert refusal_of(*busy, gang("waiting", 2, 8)) == "too-few-free-chips"
    assert refusal_of(*busy, pod("waiting", 4)) == "not-pending"
    small = Queue("small", capability={CHIP: 4})
    in_queue = gang("waiting", 1, 8, queue="small")
    assert refusal_of(*busy, small, in_queue) not in ("no-moves-help", "plan-search-limit-reached")


def test_a_share_that_moves_stays_with_its_job() -> None:
    """F6: while the small job is on its way, its chips count in the queue: the waiting one has no room."""
    queue = Queue("small", capability={CHIP: 8})
    group = PodGroup("default", "a", min_member=1, queue="small")
    events: list[Any] = [
        node("n1"),
        node("n2"),
        queue,
        group,
        runs("a-0", "n1", 0, group="a"),
        runs("b", "n2", 0, owner=None),
    ]
    view = told(*events, gang("waiting", 1, 8, queue="small"))
    assert isinstance(find_plan(view, _job(view, "waiting"), NOW), Reason)


def test_a_search_ends_with_its_steps() -> None:
    view = told(node("n1"), node("n2"), runs("a", "n1", 0), runs("b", "n2", 0), pod("waiting", 8))
    found = find_plan(view, _job(view, "waiting"), NOW, budget=PlanBudget(1))
    assert isinstance(found, Reason)
    assert found.code == "plan-search-limit-reached"


@pytest.mark.parametrize("cost", [0, 600])
def test_a_search_looks_at_the_nodes_that_lack_the_fewest_chips_whatever_moves_cost(cost: int) -> None:
    nodes = 400
    events: list[Any] = [node(f"n{number}") for number in range(nodes)]
    events += [
        runs(f"a{number}-{chip}", f"n{number}", chip, annotations={"ringwise.io/restart-cost": f"{cost}s"})
        for number in range(nodes)
        for chip in range(number % 5 + 1)
    ]
    view = told(*events, pod("waiting", 8))
    budget = PlanBudget()
    left = budget.remaining
    found = find_plan(view, _job(view, "waiting"), NOW, budget=budget)
    assert isinstance(found, MovePlan)
    assert found.moved_chips == 1
    assert left - budget.remaining < nodes // 2


# -- several jobs


def test_plans_follow_each_other_in_queue_order() -> None:
    view = told(
        *(node(f"n{number}") for number in range(1, 6)),
        runs("a", "n1", 0),
        runs("b", "n2", 0),
        runs("c", "n3", 0),
        runs("d", "n4", 0, 1, 2, 3, 4, 5, owner=None),
        whole("e", "n5"),
        *gang("second", 1, 8, created=2),
        *gang("first", 1, 8, created=1),
    )
    plans, without = find_plans(view, NOW)
    assert [plan.job for plan in plans] == ["default/first", "default/second"]
    assert without == {}
    movers = [pod.uid for plan in plans for move in plan.moves for pod in move.pods]
    assert len(movers) == len(set(movers)) == 2
    taken = [(one.node, chip) for plan in plans for one in plan.room for chip in one.chips]
    taken += [
        (one.node, chip) for plan in plans for move in plan.moves for one in move.pods for chip in one.chips
    ]
    assert len(taken) == len(set(taken))


def test_no_pod_is_in_two_plans() -> None:
    scheduler = scheduler_told(
        *(node(name, labels={"name": name}) for name in ("n1", "n2", "n3")),
        runs("a", "n1", 0),
        runs("b", "n2", *range(6), owner=None),
        runs("c", "n3", *range(7), owner=None),
        *gang("first", 1, 8, created=1),
    )
    # No cycle has run since: it is pending, and would fit if the first plan moved no pod to its node.
    second = pod_class(1, node_selector=(("name", "n3"),))
    scheduler.handle(seen(pod("second", 1, cls=second, created=2)), NOW, ev.Decide.NOTHING)
    plans, without = find_plans(scheduler.view, NOW)
    assert [(plan.job, moved(plan)) for plan in plans] == [("default/first", {"a": "n3"})]
    assert len(without) == 1


def test_why_names_the_moves_as_a_fix() -> None:
    events: list[Any] = [node("n1"), node("n2"), runs("a", "n1", 0), runs("b", "n2", 0), pod("waiting", 8)]
    view = told(*events)
    fixes = explain(view, _job(view, "waiting"), NOW).fixes
    assert [fix.text for fix in fixes if fix.kind == "moves"] == [
        "move job default/a to other nodes (`ringwise defrag --plan --for default/waiting`)"
    ]


def test_without_the_setting_no_moves_are_named() -> None:
    from tests.scheduler.rig import configuration

    events: list[Any] = [node("n1"), node("n2"), runs("a", "n1", 0), runs("b", "n2", 0), pod("waiting", 8)]
    view = told(*events, configuration=configuration(("allocate",), defragment="off"))
    assert not [fix for fix in explain(view, _job(view, "waiting"), NOW).fixes if fix.kind == "moves"]


def test_equal_jobs_without_a_plan_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from ringwise.scheduler.defragment import search

    tried: list[str] = []
    original = search.Planner.find

    def find(self: search.Planner, job: Any) -> MovePlan | Reason:
        tried.append(job.key)
        return original(self, job)

    monkeypatch.setattr(search.Planner, "find", find)
    stuck = [runs("a", "n1", 0, owner=None), runs("b", "n2", 0, owner=None)]
    jobs = [event for number in range(9) for event in gang(f"g{number}", 1, 8, created=number)]
    view = told(node("n1"), node("n2"), *stuck, *jobs)
    plans, without = find_plans(view, NOW)
    assert not plans
    assert len(without) == 9
    assert len(tried) == 1


def test_a_plan_copies_the_jobs_that_it_touches_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied: list[str] = []
    contents = ringwise.framework.job._contents

    def counted(job: Job) -> tuple[Any, ...]:
        copied.append(job.key)
        return contents(job)

    monkeypatch.setattr(ringwise.framework.job, "_contents", counted)
    counts = []
    for others in (10, 200):
        view = told(
            *(node(f"n{number}") for number in range(others + 2)),
            runs("a", "n0", 0),
            runs("b", "n1", 0),
            *(whole(f"full-{number}", f"n{number}") for number in range(2, others + 2)),
            pod("waiting", 8),
        )
        copied.clear()
        assert isinstance(find_plan(view, _job(view, "waiting"), NOW), MovePlan)
        counts.append(len(copied))
    assert counts[0] == counts[1] > 0
