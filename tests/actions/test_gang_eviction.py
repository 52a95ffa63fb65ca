"""gangpreempt and gangreclaim: what jobs can spare first, then whole jobs; all that a gang needs or nothing.

The table has the specs of Volcano's suite `gangevict` by their names; a node has eight chips, not one cpu.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from itertools import combinations, pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.framework.configuration import Configuration, PluginOption, Tier
from ringwise.framework.evictions import victim_search
from ringwise.framework.job import Job
from ringwise.messages import events as ev
from ringwise.messages.commands import AnnotatePod, Bind, Evict, EvictionCause, RecordJobEvent
from ringwise.plugins.conformance import Conformance
from ringwise.records import dataclass
from ringwise.scheduler.explain.why import explain
from ringwise.state.model import HyperNode, HyperNodeMember, NetworkTopology, Pod, SubGroupPolicy
from ringwise.wellknown import COOLDOWN_TIME, EVICTED
from tests.builders.values import CHIP, hyper_node
from tests.examples import examples
from tests.scheduler.rig import Rig, configuration

ACTIONS = ("allocate", "backfill", "gangreclaim", "gangpreempt")
PRIORITIES = {"low": 10, "middle": 50, "high": 100}


def tiers(*, shares: str = "capacity", more: tuple[str, ...] = ()) -> tuple[Tier, ...]:
    """Those of the suite, with the plugin that gives chips."""
    first = ("conformance", "sla", shares, "topology910", "cdp")
    second = ("predicates", "nodeorder", "binpack", *more)
    return (
        Tier(
            (
                PluginOption.of("priority"),
                PluginOption.of("gang", {"preemptable": False}),
                *(PluginOption.of(name) for name in first),
            )
        ),
        Tier(
            (
                PluginOption.of("overcommit"),
                PluginOption.of("drf", {"preemptable": False}),
                *(PluginOption.of(name) for name in second),
            )
        ),
    )


def rig_of(nodes: int, *, actions: tuple[str, ...] = ACTIONS, **settings: Any) -> Rig:
    rig = Rig(nodes, actions=actions, **{"tiers": tiers(), **settings})
    for name, value in PRIORITIES.items():
        rig.priority(name, value)
    return rig


def with_arguments(given: Mapping[str, Any], action: str = "gangpreempt") -> Configuration:
    return replace(configuration(ACTIONS, tiers=tiers()), action_arguments={action: given})


@dataclass(frozen=True, slots=True)
class Gang:
    """A job of whole nodes: its name, pods and minimum."""

    name: str
    pods: int
    minimum: int
    queue: str = "q"
    priority: str = "low"
    preemptable: bool = True
    #: Task -> pods and minimum; empty: it has one task without a minimum.
    tasks: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    #: The highest tier of one HyperNode that must take it.
    tier: int | None = None
    #: Pods of each sub-group, and how many sub-groups must run.
    parts: tuple[int, int] | None = None


def submit(rig: Rig, job: Gang) -> None:
    rig.submit(
        job.name,
        pods=job.pods,
        chips=8,
        min_available=job.minimum,
        queue=job.queue,
        priority=job.priority,
        preemptable=job.preemptable,
    )
    if job.tier is not None:
        _put(rig, job.name, topology=NetworkTopology(highest_tier=job.tier))
    if job.parts is not None:
        size, least = job.parts
        policy = SubGroupPolicy("part", match_label_keys=("part",), size=size, min_groups=least)
        _put(rig, job.name, sub_groups=(policy,))
        for number in range(job.pods):
            rig.change(f"{job.name}-{number}", labels={"part": str(number // size)})
    if job.tasks:
        _put(rig, job.name, min_task_member={task: least for task, (_, least) in job.tasks.items()})
        names = [task for task, (pods, _) in job.tasks.items() for _ in range(pods)]
        for number, task in enumerate(names):
            rig.change(f"{job.name}-{number}", task=task)


def _put(rig: Rig, job: str, **fields: Any) -> None:
    rig.change_group(job, **fields)


def left(rig: Rig, job: str) -> list[Pod]:
    return [pod for pod in rig.pods.values() if pod.group == job and pod.node and not pod.deleting]


def taker(pods: int, *, queue: str = "q", priority: str = "high", tier: int | None = None) -> Gang:
    return Gang("taker", pods, pods, queue, priority, preemptable=False, tier=tier)


@dataclass(frozen=True, slots=True)
class Spec:
    id: str
    running: tuple[Gang, ...]
    wants: Gang
    #: How many pods the jobs that ran have left, in any order.
    left: tuple[int, ...]
    starts: bool = True
    #: Chips that queues deserve, in nodes.
    deserved: Mapping[str, int] = field(default_factory=lambda: {"q": 4})
    guarantee: Mapping[str, int] = field(default_factory=dict)
    keeps: frozenset[str] = frozenset()


TWO = {"q": 2, "other": 2}
ROLES = {"ps": (1, 1), "worker": (3, 2)}
SPECS = (
    # Four pods run of which two are needed: the other two go.
    Spec("GP-1", (Gang("a", 4, 2),), taker(2), (2,)),
    # Each of two jobs can spare one: both keep running.
    Spec("GP-2", (Gang("a", 2, 1), Gang("b", 2, 1)), taker(2), (1, 1)),
    # No job can spare a pod: one of them goes, the other is not touched.
    Spec("GP-3", (Gang("a", 2, 2), Gang("b", 2, 2)), taker(2), (0, 2)),
    # All nodes are needed: both go.
    Spec("GP-4", (Gang("a", 2, 2), Gang("b", 2, 2)), taker(4), (0, 0)),
    # A gang of four ends for one of two.
    Spec("GP-5", (Gang("a", 4, 4),), taker(2), (0,)),
    # Nobody of another queue is preempted.
    Spec(
        "GP-6",
        (Gang("a", 4, 4, "other"),),
        taker(2),
        (4,),
        starts=False,
        deserved=TWO,
        keeps=frozenset({"other"}),
    ),
    # Nor of equal priority.
    Spec("GP-7", (Gang("a", 4, 4, priority="middle"),), taker(2, priority="middle"), (4,), starts=False),
    # The low job alone would not be enough: it is not evicted in vain, and the high one not at all.
    Spec(
        "GP-8",
        (Gang("a", 2, 2, priority="high"), Gang("b", 2, 2)),
        taker(4, priority="middle"),
        (2, 2),
        starts=False,
    ),
    # A worker goes, not the only pod of its task.
    Spec("GP-R1", (Gang("a", 4, 3, tasks=ROLES),), taker(1), (3,)),
    # The queue beyond what it deserves gives what its job can spare.
    Spec("GR-1", (Gang("a", 4, 2, "other"),), taker(2, priority="low"), (2,), deserved=TWO),
    # Where no job can spare a pod, exactly one job goes.
    Spec(
        "GR-2",
        (Gang("a", 2, 2, "other"), Gang("b", 2, 2, "other")),
        taker(2, priority="low"),
        (0, 2),
        deserved=TWO,
    ),
    Spec("GR-3", (Gang("a", 4, 2, "other"),), taker(2, priority="low"), (2,), deserved=TWO),
    # Queues within what they deserve give nothing.
    Spec(
        "GR-4",
        (Gang("a", 2, 2, "other"), Gang("b", 2, 2, "third")),
        taker(2, priority="low"),
        (2, 2),
        starts=False,
        deserved={**TWO, "third": 2},
    ),
    # Nor does a queue that is not reclaimable.
    Spec(
        "GR-5",
        (Gang("a", 4, 2, "other"),),
        taker(2, priority="low"),
        (4,),
        starts=False,
        deserved=TWO,
        keeps=frozenset({"other"}),
    ),
    # What is guaranteed stays, so that a gang which needs more takes nothing.
    Spec(
        "GR-6",
        (Gang("a", 4, 2, "other"),),
        taker(4, priority="low"),
        (4,),
        starts=False,
        deserved={"q": 4, "other": 2},
        guarantee={"other": 2},
    ),
    # A queue that has more than it deserves gets nothing back.
    Spec(
        "GR-7",
        (Gang("a", 2, 2), Gang("b", 2, 2, "other")),
        taker(2, priority="low"),
        (2, 2),
        starts=False,
        deserved={"q": 1, "other": 3},
    ),
    # As GP-R1; the queue may lose one pod, and that is not the only one of its task.
    Spec(
        "GR-R1",
        (Gang("a", 4, 3, "other", tasks=ROLES),),
        taker(1, priority="low"),
        (3,),
        deserved={"q": 1, "other": 3},
    ),
)


def run_spec(spec: Spec, rig: Rig) -> None:
    for name, nodes in spec.deserved.items():
        more = {"guarantee": {CHIP: 8 * spec.guarantee[name]}} if name in spec.guarantee else {}
        rig.queue(name, deserved={CHIP: 8 * nodes}, reclaimable=name not in spec.keeps, **more)
    for job in spec.running:
        submit(rig, job)
        rig.run()
        assert len(left(rig, job.name)) == job.pods
    submit(rig, spec.wants)
    rig.run()
    gone = rig.evictions()
    assert sorted(len(left(rig, job.name)) for job in spec.running) == sorted(spec.left)
    assert (rig.reason("taker") == "evictions-in-progress") is spec.starts
    rig.gone(*gone)
    rig.run()
    assert len(rig.places("taker")) == (spec.wants.pods if spec.starts else 0)
    assert rig.evictions() == gone


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.id)
def test_the_specs_of_volcano(spec: Spec) -> None:
    rig = rig_of(4)
    run_spec(spec, rig)
    for job in spec.running:
        for task, (_, least) in job.tasks.items():
            assert sum(pod.task == task for pod in left(rig, job.name)) >= least


def test_GR_N1_what_was_freed_is_kept_from_a_queue_that_is_served_first() -> None:
    rig = rig_of(4)
    rig.queue("q", deserved={CHIP: 16})
    rig.queue("other", deserved={CHIP: 16}, priority=100)
    submit(rig, Gang("a", 4, 2, "other"))
    rig.run()
    submit(rig, Gang("racer", 2, 2, "other", preemptable=False))
    rig.run()
    submit(rig, taker(2, priority="low"))
    rig.run()
    freed = {rig.pods[name].node for name in rig.evictions()}
    rig.gone(*rig.evictions())
    rig.run()
    assert set(rig.nodes_of("taker")) == freed
    assert rig.places("racer") == {}


# -- HyperNodes ----------------------------------------------------------------------------------

DOMAINS = ({"n1", "n2"}, {"n3", "n4"})
#: q wants three of four nodes, which are more than half of them.
THREE = {"q": 3, "other": 1}
TOPOLOGY_SPECS = (
    # One of two sub-groups goes, the other runs on.
    Spec("GP-S1", (Gang("a", 4, 2, tier=2, parts=(2, 1)),), taker(2, tier=2), (2,)),
    # Two pods of the same HyperNode go.
    Spec("GP-T1", (Gang("a", 4, 2, tier=2),), taker(2, tier=1), (2,)),
    # No HyperNode of that tier could hold the gang: nobody goes.
    Spec("GP-T2", (Gang("a", 4, 4, tier=2),), taker(3, tier=1), (4,), starts=False),
    # The HyperNode above them can.
    Spec("GP-T3", (Gang("a", 4, 2, tier=2),), taker(3, tier=2), (0,)),
    # It may be there, but the lower tier is enough.
    Spec("GP-T4", (Gang("a", 4, 2, tier=2),), taker(2, tier=2), (2,)),
    Spec(
        "GR-S1",
        (Gang("a", 4, 2, "other", tier=2, parts=(2, 1)),),
        taker(2, priority="low", tier=2),
        (2,),
        deserved=TWO,
    ),
    Spec("GR-T1", (Gang("a", 4, 2, "other", tier=2),), taker(2, priority="low", tier=1), (2,), deserved=TWO),
    Spec(
        "GR-T2",
        (Gang("a", 4, 4, "other", tier=2),),
        taker(3, priority="low", tier=1),
        (4,),
        starts=False,
        deserved=THREE,
    ),
    Spec(
        "GR-T3", (Gang("a", 4, 1, "other", tier=2),), taker(3, priority="low", tier=2), (1,), deserved=THREE
    ),
    Spec("GR-T4", (Gang("a", 4, 2, "other", tier=2),), taker(2, priority="low", tier=2), (2,), deserved=TWO),
)


def hyper_rig(nodes: int = 4, **settings: Any) -> Rig:
    """HyperNodes of two nodes each, and one above them."""
    rig = rig_of(nodes, **{"tiers": tiers(more=("network-topology-aware",)), **settings})
    names = [f"s{number}" for number in range(nodes // 2)]
    for number, name in enumerate(names):
        pair = (HyperNodeMember(name=f"n{2 * number + 1}"), HyperNodeMember(name=f"n{2 * number + 2}"))
        rig.tell(HyperNode(name, 1, pair))
    rig.tell(hyper_node("top", 2, *names))
    return rig


@pytest.mark.parametrize("spec", TOPOLOGY_SPECS, ids=lambda spec: spec.id)
def test_the_specs_of_volcano_with_hyper_nodes(spec: Spec) -> None:
    rig = hyper_rig()
    run_spec(spec, rig)
    if spec.starts and spec.wants.pods == 2:
        assert set(rig.nodes_of("taker")) in DOMAINS
    for job in spec.running:
        if job.parts is not None:
            assert len({pod.labels["part"] for pod in left(rig, job.name)}) == 1


def test_the_room_is_made_where_it_costs_least_and_nobody_else_gets_it() -> None:
    rig = hyper_rig()
    rig.queue("q")
    for name, seconds in (("a", 3600), ("b", 60), ("c", 60), ("d", 60)):
        rig.submit(name, chips=8, queue="q", priority="low", preemptable=True)
        rig.run()
        rig.step(seconds)
    cheap = next(nodes for nodes in DOMAINS if rig.nodes_of("a")[0] not in nodes)
    submit(rig, taker(2, tier=1))
    rig.run()
    gone = rig.evictions()
    assert {rig.pods[name].node for name in gone} == cheap
    rig.gone(gone[0])
    rig.submit("thief", chips=8, queue="q", priority="high")
    rig.run()
    assert rig.places("thief") == {}
    rig.gone(gone[1])
    rig.run()
    assert set(rig.nodes_of("taker")) == cheap


@pytest.mark.parametrize(("most", "starts"), [(1, False), (2, True)])
def test_so_many_hyper_nodes_are_searched(most: int, starts: bool) -> None:
    """In each of them a pod may be evicted; where that is enough is found out by a search."""
    rig = hyper_rig()
    given = configuration(ACTIONS, tiers=tiers(more=("network-topology-aware",)))
    arguments = {"gangpreempt": {"maxDomains": most}}
    rig.tell(replace(given, action_arguments=arguments))
    rig.queue("q")
    for name, node, preemptable in (
        ("keeps", "n1", False),
        ("a", "n2", True),
        ("b", "n3", True),
        ("c", "n4", True),
    ):
        rig.submit(name, chips=8, queue="q", priority="low", preemptable=preemptable)
        rig.change(f"{name}-0", node=node, phase="Running", holds=tuple(range(8)))
    rig.run()
    submit(rig, taker(2, tier=1))
    rig.run()
    assert sorted(rig.evictions()) == (["b-0", "c-0"] if starts else [])


def test_preempt_leaves_a_job_with_a_topology_to_gangpreempt_and_says_so() -> None:
    rig = hyper_rig(actions=("allocate", "preempt"))
    rig.queue("q")
    submit(rig, Gang("a", 4, 2))
    rig.run()
    submit(rig, taker(2, tier=1))
    rig.run()
    assert rig.evictions() == []
    view = rig.machine.view
    answer = explain(view, view.jobs["default/taker"], rig.now)
    assert answer.notes == (
        "preempt evicts no pod for a job with a network topology: add gangpreempt to the actions",
    )
    [fix] = [fix.text for fix in answer.fixes if fix.kind == "bundles"]
    assert fix.startswith("add gangpreempt to the actions: default/a loses 16 chips")


def test_soft_mode_evicts_in_a_hyper_node_and_without_one_where_none_is_enough() -> None:
    for pods in (2, 3):
        rig = hyper_rig()
        rig.queue("q")
        submit(rig, Gang("a", 4, 1))
        rig.run()
        submit(rig, taker(pods))
        _put(rig, "taker", topology=NetworkTopology(soft=True))
        rig.run()
        assert len(rig.evictions()) == pods


# -- who goes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("action", "kept"), [("gangpreempt", 1), ("preempt", 2)])
def test_what_jobs_can_spare_goes_before_whole_jobs_of_a_lower_priority(action: str, kept: int) -> None:
    """For a gang preempt takes the lowest priority first, whole jobs or not."""
    rig = rig_of(4, actions=("allocate", action))
    rig.queue("q")
    for job in (Gang("a", 1, 1), Gang("b", 1, 1), Gang("spare", 2, 1, priority="middle")):
        submit(rig, job)
        rig.run()
    submit(rig, taker(2))
    rig.run()
    assert len(rig.evictions()) == 2
    assert len(left(rig, "spare")) == kept


def test_no_more_than_needed_goes_of_what_a_job_can_spare() -> None:
    rig = rig_of(5)
    rig.queue("q")
    submit(rig, Gang("a", 5, 1))
    rig.run()
    submit(rig, taker(1))
    rig.run()
    assert len(rig.evictions()) == 1


def test_a_whole_job_that_is_enough_alone_leaves_what_others_can_spare() -> None:
    rig = rig_of(4)
    rig.queue("q")
    submit(rig, Gang("spare", 2, 1))
    submit(rig, Gang("whole", 2, 2))
    rig.run()
    submit(rig, taker(2))
    rig.run()
    assert len(left(rig, "spare")) == 2
    assert left(rig, "whole") == []


def test_the_gang_plugin_does_not_keep_bundles_from_going() -> None:
    """With `enablePreemptable: true` it keeps the minimum of every job from preempt, which evicts nobody."""
    for action, gone in (("preempt", 0), ("gangpreempt", 2)):
        rig = Rig(2, actions=("allocate", action))
        for name, value in PRIORITIES.items():
            rig.priority(name, value)
        rig.submit("a", pods=2, chips=8, priority="low", preemptable=True)
        rig.run()
        rig.submit("taker", pods=1, chips=8, priority="high")
        rig.run()
        assert len(rig.evictions()) == gone


def test_whole_jobs_stay_where_they_may_not_be_evicted_and_why_says_so() -> None:
    rig = rig_of(2)
    rig.tell(with_arguments({"allowWholeBundle": False}))
    rig.queue("q")
    submit(rig, Gang("a", 2, 2))
    rig.run()
    submit(rig, taker(1))
    rig.run()
    assert rig.evictions() == []
    view = rig.machine.view
    answer = explain(view, view.jobs["default/taker"], rig.now)
    [told] = [fix.text for fix in answer.fixes if fix.kind == "bundles"]
    assert told.startswith("set allowWholeBundle: true for gangpreempt: default/a loses 16")
    assert view.inconsistencies() == []
    # What a job can spare goes all the same.
    rig.end("a")
    submit(rig, Gang("b", 2, 1))
    rig.end("taker")
    rig.run()
    submit(rig, taker(1))
    rig.run()
    assert len(left(rig, "b")) == 1


def test_a_job_that_is_admitted_and_may_evict_no_pod_reports_why_it_does_not_start() -> None:
    """It would be admitted without the other pods, and may not evict them."""
    rig = rig_of(2)
    actions = configuration(("enqueue", "allocate", "gangpreempt"), tiers=tiers())
    arguments = {"gangpreempt": {"allowWholeBundle": False}}
    rig.tell(replace(actions, action_arguments=arguments))
    rig.queue("q")
    submit(rig, Gang("a", 2, 2))
    rig.run()
    submit(rig, taker(2))
    _put(rig, "taker", min_resources={CHIP: 16})
    rig.step()
    assert rig.evictions() == []
    job = rig.machine.view.jobs["default/taker"]
    assert job.inqueue
    assert job.reason is not None
    assert job.reason.code == "gang-incomplete"


def test_a_job_is_spared_for_its_cooldown_and_the_cheapest_of_equals_goes() -> None:
    rig = rig_of(3)
    rig.queue("q")
    for name, seconds, notes in (("old", 3600, {}), ("young", 60, {}), ("spared", 1, {COOLDOWN_TIME: "1h"})):
        rig.submit(name, chips=8, queue="q", priority="low", preemptable=True, annotations=notes)
        rig.run()
        rig.step(seconds)
    rig.submit("taker", chips=8, queue="q", priority="high")
    rig.run()
    assert rig.evictions() == ["young-0"]


def test_victims_are_warned_and_what_they_lose_counts_as_preempted() -> None:
    rig = rig_of(1)
    rig.queue("q")
    submit(rig, Gang("a", 1, 1))
    rig.run()
    rig.step(1800)
    submit(rig, taker(1))
    rig.run()
    [evicted] = [one for one in rig.commands if isinstance(one, Evict)]
    assert (evicted.why, evicted.cause, evicted.by) == ("gangpreempt", EvictionCause.PREEMPT, "default/taker")
    [warned] = [one for one in rig.commands if isinstance(one, AnnotatePod) and EVICTED in one.annotations]
    assert warned.annotations[EVICTED].endswith(" preempt for default/taker")
    view = rig.machine.view
    told = explain(view, view.jobs["default/taker"], rig.now).sentence
    assert told.startswith("1 pod is being evicted for it (gangpreempt); nodes reserved: n1")
    assert told.endswith("default/a loses 8 chips and 4 chip-hours")


def test_what_a_share_allows_goes_to_a_whole_job_where_spare_pods_would_use_it_up() -> None:
    """The other queue may lose two pods. One that a job can spare and half of another job help nobody."""
    rig = rig_of(5)
    rig.queue("q", deserved={CHIP: 16})
    rig.queue("other", deserved={CHIP: 24})
    for name, node in (("n1", "x"), ("n2", "x"), ("n3", "y"), ("n4", "y"), ("n5", "y")):
        rig.node(name, labels={"kind": node})
    rig.submit(
        "spare",
        pods=3,
        chips=8,
        min_available=2,
        queue="other",
        preemptable=True,
        node_selector=(("kind", "y"),),
    )
    rig.submit("whole", pods=2, chips=8, queue="other", preemptable=True, node_selector=(("kind", "x"),))
    rig.run()
    rig.submit("taker", pods=2, chips=8, queue="q", node_selector=(("kind", "x"),))
    rig.run()
    assert sorted(rig.evictions()) == ["whole-0", "whole-1"]


@pytest.mark.parametrize("shares", ["capacity", "proportion"])
@pytest.mark.parametrize("later", [False, True])
def test_nobody_is_evicted_for_more_than_its_queue_may_have_then(shares: str, later: bool) -> None:
    """Two of q would be within its share each, and not together; who is evicted goes for the third queue."""
    rig = rig_of(3, tiers=tiers(shares=shares))
    for name in ("q", "other", "third"):
        rig.queue(name, deserved={CHIP: 8})
    for name in ("a", "b", "c"):
        submit(rig, Gang(name, 1, 1, "other"))
        rig.run()
    for name in ("first", "second"):
        submit(rig, replace(taker(1, priority="low"), name=name))
        if later:
            rig.run()
    submit(rig, replace(taker(1, queue="third", priority="low"), name="of-third"))
    rig.run()
    assert len(rig.evictions()) == 2
    rig.gone(*rig.evictions())
    rig.run()
    assert [len(rig.places(name)) for name in ("first", "second", "of-third")] == [1, 0, 1]


def test_a_job_waits_for_the_pods_that_are_evicted_for_it_and_for_no_others() -> None:
    rig = rig_of(3)
    rig.queue("q")
    for name in ("a", "b", "c"):
        submit(rig, Gang(name, 1, 1))
        rig.run()
        rig.step(10)
    for name in ("first", "second"):
        submit(rig, replace(taker(1), name=name))
    rig.run()
    for name in ("first", "second"):
        reason = rig.machine.view.jobs[f"default/{name}"].reason
        assert reason is not None
        assert reason.message.startswith("1 pod is being evicted for it (gangpreempt)")


def test_two_jobs_that_may_reclaim_from_each_other_do_so_in_turns() -> None:
    """Each queue has more than it deserves of one resource while it runs, and not of the other."""
    rig = rig_of(1, preempt_again_after=3600)
    rig.queue("q", deserved={CHIP: 8, "cpu": 2000})
    rig.queue("other", deserved={CHIP: 4, "cpu": 10000})
    for name in ("q", "other"):
        rig.submit(name, chips=8, queue=name, preemptable=True, cpu_milli=8000)
        rig.run()
    evicted_after = []
    for minute in range(180):
        began = len(rig.evictions())
        for name in [name for name, pod in rig.pods.items() if pod.deleting]:
            rig.recreate(name)
        rig.step(60)
        if len(rig.evictions()) > began:
            evicted_after.append(minute)
    # At first at once; who was evicted waits an hour before it evicts who got its place.
    assert rig.evictions()[:2] == ["q-0", "other-0"]
    assert evicted_after == [59, 119, 179]


# -- evictions that fail ------------------------------------------------------------------------------

BUDGET = "disruption budget b allows 1 eviction, and 2 would be needed"


@pytest.mark.parametrize("action", ["preempt", "gangpreempt"])
def test_who_is_refused_is_asked_again_later_and_others_go_meanwhile(action: str) -> None:
    """A budget must not keep a job waiting for a gang that cannot go, nor what it was to get from others."""
    rig = rig_of(4, actions=("allocate", action))
    rig.queue("q")
    submit(rig, Gang("costly", 2, 2))
    rig.run()
    rig.step(3600)
    submit(rig, Gang("cheap", 2, 2))
    rig.run()
    rig.deaf = True
    submit(rig, taker(2))
    rig.step()
    assert sorted(rig.evictions()) == ["cheap-0", "cheap-1"]
    for name in rig.evictions():
        rig.tell(ev.EvictFailed(rig.pods[name].uid, BUDGET))
    rig.commands.clear()
    rig.step(1)
    assert sorted(rig.evictions()) == ["costly-0", "costly-1"]
    [told] = [one for one in rig.commands if isinstance(one, RecordJobEvent) and one.key == "default/taker"]
    assert (told.reason, told.message) == (
        "FailedEviction",
        f"default/cheap is not evicted for it: {BUDGET}",
    )
    removed = [one.pod for one in rig.commands if isinstance(one, AnnotatePod) and EVICTED in one.remove]
    assert sorted(removed) == ["cheap-0", "cheap-1"]


def test_a_job_that_only_refused_ones_could_make_room_for_waits_and_why_names_them() -> None:
    rig = rig_of(2)
    rig.queue("q")
    submit(rig, Gang("a", 2, 2))
    rig.run()
    submit(rig, taker(2))
    rig.deaf = True
    asked_after = []
    for _ in range(7):
        for _ in range(700):
            began = len(rig.evictions())
            rig.step(1)
            if len(rig.evictions()) > began:
                break
        asked_after.append(rig.now)
        for name in ("a-0", "a-1"):
            rig.tell(ev.EvictFailed(rig.pods[name].uid, BUDGET))
        rig.step()
    rig.step()
    gaps = [(later - sooner) // 10**9 for sooner, later in pairwise(asked_after)]
    assert gaps == [30, 60, 120, 240, 480, 600]
    # Nothing is kept for it as if they went; only because it has waited long.
    view = rig.machine.view
    kept = view.reservations.of("default/taker")
    assert kept is not None
    assert not kept.evicting
    notes = explain(view, view.jobs["default/taker"], rig.now).notes
    assert [note.partition(" before ")[0] for note in notes] == ["default/a is not evicted"]
    assert notes[0].endswith(f", as that was refused: {BUDGET}")


def test_a_pod_of_a_plan_that_could_have_gone_is_no_more_spared_than_before() -> None:
    """Only the budget of one of two jobs forbids it: the next plan takes the other one, and a third."""
    rig = rig_of(3)
    rig.queue("q")
    for name in ("third", "kept", "innocent"):
        submit(rig, Gang(name, 1, 1))
        rig.run()
        rig.step(600)
    rig.deaf = True
    submit(rig, taker(2))
    rig.step()
    assert sorted(rig.evictions()) == ["innocent-0", "kept-0"]
    rig.tell(
        ev.EvictFailed(rig.pods["kept-0"].uid, BUDGET),
        ev.EvictFailed(rig.pods["innocent-0"].uid, in_vain=True),
    )
    rig.commands.clear()
    rig.step(1)
    assert sorted(rig.evictions()) == ["innocent-0", "third-0"]


def test_a_pod_that_should_have_ended_long_ago_is_not_waited_for_while_others_can_go() -> None:
    rig = rig_of(2, grace_over_time=100)
    rig.queue("q")
    for name in ("a", "stuck"):
        submit(rig, Gang(name, 1, 1))
        rig.run()
        rig.step(60)
    submit(rig, taker(1))
    rig.run()
    assert rig.evictions() == ["stuck-0"]
    for _ in range(4):
        rig.step(50)
    assert rig.evictions() == ["stuck-0", "a-0"]


# -- properties ------------------------------------------------------------------------------------

GANGS = st.lists(
    st.tuples(
        st.integers(1, 3), st.integers(0, 2), st.sampled_from(("low", "middle", "high")), st.booleans()
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=examples(25), deadline=None)
@given(GANGS, st.integers(1, 4))
def test_victims_are_minimal_gangs_stay_whole_or_go_and_spare_pods_come_first(
    gangs: list[tuple[int, int, str, bool]], pods: int
) -> None:
    rig = rig_of(sum(size for size, _, _, _ in gangs))
    rig.queue("q")
    jobs = []
    for number, (size, spare, priority, preemptable) in enumerate(gangs):
        job = Gang(f"g{number}", size, max(1, size - spare), "q", priority, preemptable)
        jobs.append(job)
        submit(rig, job)
        rig.run()
    submit(rig, taker(pods, priority="middle"))
    rig.run()
    gone = {job.name: job.pods - len(left(rig, job.name)) for job in jobs}
    low = [job for job in jobs if job.priority == "low" and job.preemptable]
    safe = sum(job.pods - job.minimum for job in low)
    # Every pod holds a whole node, so that a set of victims is enough when it has as many pods.
    options = [job.pods for job in low]
    most = sum(options)
    victims = sum(gone.values())
    assert {name for name, count in gone.items() if count} <= {job.name for job in low}
    if most < pods:
        assert victims == 0
        return
    ended = [job for job in low if gone[job.name] == job.pods > job.pods - job.minimum]
    for job in low:
        assert gone[job.name] in (*range(job.pods - job.minimum + 1), job.pods)
    if safe >= pods:
        assert victims == pods
        assert ended == []
        return
    assert victims >= pods
    # None can be spared: neither a whole job, nor a pod of one that runs on.
    alone = [gone[job.name] for job in low if gone[job.name] and job not in ended]
    for job in ended:
        assert victims - job.pods < pods
    assert not alone or victims - 1 < pods
    # Nor are jobs ended where fewer would do.
    fewest = min(
        count
        for count in range(len(low) + 1)
        for chosen in combinations(low, count)
        if sum(job.pods for job in chosen) + sum(job.pods - job.minimum for job in low if job not in chosen)
        >= pods
    )
    assert len(ended) >= fewest


@pytest.mark.parametrize(
    ("action", "queue", "priority"),
    [
        ("preempt", "other", "low"),
        ("gangpreempt", "other", "low"),
        ("reclaim", "q", "high"),
        ("gangreclaim", "q", "high"),
    ],
)
def test_a_job_that_may_evict_nobody_looks_at_no_candidate(
    action: str, queue: str, priority: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands may wait beside thousands of pods of equal priority, or of a queue within its share."""
    rig = rig_of(2, actions=("allocate", action))
    rig.queue("q", deserved={CHIP: 8})
    rig.queue("other", deserved={CHIP: 16})
    submit(rig, Gang("a", 2, 1, "other"))
    rig.run()
    asked: list[str] = []

    def noted(self: Conformance, job: Job, pod: Pod, candidates: list[str]) -> list[str]:
        asked.extend(candidates)
        return candidates

    monkeypatch.setattr(Conformance, "not_critical", noted)
    submit(rig, taker(1, queue=queue, priority=priority))
    rig.run()
    assert asked == []
    assert rig.evictions() == []


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(("preempt", "gangpreempt", "reclaim", "gangreclaim")))
def test_the_same_victims_go_however_many_candidates_are_looked_at_first(seed: int, action: str) -> None:
    """Most searches look at the cheapest candidates only: those behind them would change nothing."""

    def victims(first: int) -> list[tuple[str, str]]:
        random = Random(seed)
        rig = rig_of(
            12, actions=("allocate", action), tiers=tiers(shares=random.choice(("capacity", "proportion")))
        )
        for name in ("q", "other"):
            rig.queue(name, deserved={CHIP: 8 * random.randint(1, 12)})
        for number in range(1, 13):
            chips = random.choice((1, 2, 4, 8))
            for offset in range(0, 8, chips):
                name = f"r{number}-{offset}"
                rig.submit(
                    name,
                    chips=chips,
                    queue=random.choice(("q", "other")),
                    priority=random.choice(("low", "low", "middle")),
                    preemptable=random.random() < 0.9,
                )
                rig.change(
                    f"{name}-0",
                    node=f"n{number}",
                    phase="Running",
                    holds=tuple(range(offset, offset + chips)),
                    bound=rig.now - random.choice((0, random.randint(0, 86400))) * 10**9,
                )
        rig.step()
        for number in range(3):
            pods = random.choice((1, 1, 2, 4))
            chips = 8 if pods > 1 else random.choice((1, 4, 8))
            rig.submit(f"t{number}", pods=pods, chips=chips, queue="q", priority="high")
        rig.deaf = True
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(victim_search, "FIRST_LOOKED_AT", first)
            patched.setattr(victim_search, "TIMES_AS_MANY", 2)
            rig.step(1)
        return [(one.pod, one.by) for one in rig.commands if isinstance(one, Evict)]

    assert victims(1) == victims(10**6)


@settings(max_examples=examples(10), deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from((("gangreclaim", "gangpreempt"), ("preempt", "reclaim"), ("reclaim", "gangpreempt"))),
    st.sampled_from(("capacity", "proportion")),
)
def test_evictions_end_start_those_they_are_for_and_tear_no_gang(
    seed: int, actions: tuple[str, ...], shares: str
) -> None:
    """Jobs of all queues and priorities come one after the other; whoever is evicted is created again."""
    random = Random(seed)
    nodes = random.randint(2, 6)
    rig = rig_of(nodes, actions=("allocate", *actions), tiers=tiers(shares=shares))
    for name in ("q", "other", "third"):
        deserved = {CHIP: 8 * random.randint(0, nodes)} if shares == "capacity" else {}
        rig.queue(name, deserved=deserved, weight=random.randint(1, 3))
    minimums: dict[str, int] = {}

    def turn(seconds: int) -> None:
        rig.step(seconds)
        for name in [name for name, pod in rig.pods.items() if pod.deleting]:
            rig.recreate(name)

    for number in range(random.randint(2, 8)):
        pods = random.randint(1, min(3, nodes))
        minimums[f"j{number}"] = random.randint(1, pods)
        rig.submit(
            f"j{number}",
            pods=pods,
            chips=8,
            min_available=minimums[f"j{number}"],
            queue=random.choice(("q", "other", "third")),
            priority=random.choice(list(PRIORITIES)),
            preemptable=random.random() < 0.85,
            annotations={COOLDOWN_TIME: "5m"} if random.random() < 0.3 else {},
        )
        for _ in range(random.randint(0, 2)):
            turn(random.choice((1, 60, 600)))
    evicted_by: list[int] = []
    for _ in range(40):
        turn(30)
        evicted_by.append(len(rig.evictions()))
    assert evicted_by[-1] == evicted_by[-15]
    if shares == "capacity":
        # By weights a queue deserves less as soon as another one asks for more, also while pods end.
        started = {f"default/{one.pod.partition('-')[0]}" for one in rig.commands if isinstance(one, Bind)}
        assert {one.by for one in rig.commands if isinstance(one, Evict)} <= started
    for name, least in minimums.items():
        assert len(left(rig, name)) == 0 or len(left(rig, name)) >= least
