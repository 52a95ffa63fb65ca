"""Jobs with a network topology in the scheduler: waiting, reservations, faults, moves (M2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ringwise.framework.configuration import PluginOption, Tier
from ringwise.framework.network_topology import PLUGIN
from ringwise.messages import events as ev
from ringwise.messages.commands import AnnotateGroup, Bind, Evict, RecordJobEvent
from ringwise.messages.expected_start import StartKind
from ringwise.messages.move_plan import MovePlan
from ringwise.reasons import Reason
from ringwise.scheduler.defaults import BUILT_IN, default_tiers
from ringwise.scheduler.defragment.search import find_plan, find_plans
from ringwise.scheduler.explain.doctor import diagnose
from ringwise.scheduler.explain.forecast import estimates
from ringwise.scheduler.explain.why import explain
from ringwise.state.model import (
    NetworkTopology,
    Owner,
    Requirement,
    SubGroupPolicy,
)
from ringwise.wellknown import JOB_ALLOCATED_HYPER_NODE
from tests.builders.values import hyper_node, on_node
from tests.fingerprint import whole_state
from tests.scheduler.rig import PLAIN, Rig, gangs_may_end
from tests.scheduler.volume_rig import VolumeRig

HARD_1, HARD_2 = NetworkTopology(highest_tier=1), NetworkTopology(highest_tier=2)
SOFT = NetworkTopology(soft=True)
SERVICE = Owner("ReplicaSet", "service", "uid-of-service", "apps/v1")


def tiers(base: Sequence[Tier] | None = None) -> tuple[Tier, ...]:
    option: PluginOption = BUILT_IN.plugins[PLUGIN].option()
    return (*(base or default_tiers()), Tier((option,)))


def rig_of(nodes: int = 4, **more: Any) -> Rig:
    """Leaves s1, s2, ... of two nodes, under one HyperNode of tier 2."""
    rig = Rig(nodes, **{"tiers": tiers(), **more})
    leaves = [
        hyper_node(f"s{number}", 1, f"n{2 * number - 1}", f"n{2 * number}")
        for number in range(1, nodes // 2 + 1)
    ]
    rig.tell(*(*leaves, hyper_node("top", 2, *(one.name for one in leaves))))
    return rig


def nodes_of(rig: Rig, job: str) -> list[str]:
    """Of its pods in the order of their names; `-` for one that waits."""
    return [pod.node or "-" for name, pod in sorted(rig.pods.items()) if pod.group == job]


def annotated(rig: Rig) -> list[tuple[str, str | None]]:
    return [
        (command.key.partition("/")[2], command.annotations[JOB_ALLOCATED_HYPER_NODE])
        for _, _, commands in rig.history
        for command in commands
        if isinstance(command, AnnotateGroup)
    ]


# -- the annotation ------------------------------------------------------------------------------


def test_the_hyper_node_of_a_job_is_written_once_and_again_when_it_changes() -> None:
    rig = rig_of()
    rig.submit("train", pods=2, chips=8, topology=HARD_2)
    rig.submit("plain", pods=2, chips=8)
    rig.run()
    assert annotated(rig) == [("train", "s1")]
    # The write comes back; nothing else follows.
    group = rig.groups["default/train"]
    rig.tell(replace(group, annotations={JOB_ALLOCATED_HYPER_NODE: "s1"}))
    rig.run()
    assert annotated(rig) == [("train", "s1")]
    rig.tell(hyper_node("s1", 1, "n1"))
    rig.run()
    # n2 is in no HyperNode now: no HyperNode has both pods.
    assert annotated(rig) == [("train", "s1"), ("train", None)]
    rig.tell(hyper_node("s3", 1, "n2"), hyper_node("top", 2, "s1", "s2", "s3"))
    rig.run()
    assert annotated(rig) == [("train", "s1"), ("train", None), ("train", "top")]


def test_the_hyper_node_of_a_job_stays_while_it_is_restarted_and_goes_when_it_waits() -> None:
    rig = rig_of()
    rig.submit("train", pods=2, chips=8, topology=HARD_1)
    rig.run()
    pods = [pod for pod in rig.pods.values() if pod.group == "train"]
    rig.tell(*(ev.PodGone(pod.uid) for pod in pods))
    rig.run()
    # Nothing waits, and it may have ended.
    assert annotated(rig) == [("train", "s1")]
    rig.submit("other", pods=4, chips=8)
    rig.run()
    rig.tell(*(replace(pod, uid=f"{pod.uid}+", node=None, phase="Pending") for pod in pods))
    rig.run()
    assert annotated(rig) == [("train", "s1"), ("train", None)]


def test_a_job_that_is_created_again_without_a_topology_gets_no_hyper_node() -> None:
    """Others that changed in the same turn get theirs."""
    rig = rig_of()
    rig.submit("train", pods=2, chips=8, topology=HARD_1)
    rig.submit("other", chips=8, topology=HARD_2)
    rig.run()
    pods = [pod for pod in rig.pods.values() if pod.group == "train"]
    again = [replace(pod, uid=f"{pod.uid}-again") for pod in pods]
    group = rig.groups["default/train"] = replace(rig.groups["default/train"], topology=None)
    changed = replace(pods[0], labels={"changed": "yes"})
    rig.tell(hyper_node("s2", 1, "n3"), hyper_node("s3", 1, "n4"), hyper_node("top", 2, "s1", "s2", "s3"))
    gone = [*(ev.PodGone(pod.uid) for pod in pods), ev.PodGroupGone(group.key)]
    rig.tell(changed, *gone, group, *again)
    rig.run()
    assert annotated(rig) == [("train", "s1"), ("other", "s2")]


def test_after_a_restart_what_is_written_already_is_not_written_again() -> None:
    rig = rig_of()
    rig.submit("train", pods=2, chips=8, topology=SOFT, annotations={JOB_ALLOCATED_HYPER_NODE: "s1"})
    rig.run()
    assert nodes_of(rig, "train") == ["n1", "n2"]
    assert annotated(rig) == []


def test_without_the_plugin_nothing_is_written() -> None:
    rig = rig_of(tiers=default_tiers())
    rig.submit("train", pods=2, chips=8, topology=HARD_1)
    rig.run()
    assert annotated(rig) == []


# -- waiting ----------------------------------------------------------------------------------------


def test_a_pending_job_starts_when_its_domain_has_room_or_a_domain_is_added_M2() -> None:
    rig = rig_of()
    rig.submit("a", chips=8, expected="1h")
    rig.run()
    rig.submit("b", pods=2, chips=8, topology=HARD_1)
    rig.run()
    assert nodes_of(rig, "b") == ["n3", "n4"]
    rig.submit("late", pods=1, min_available=1, chips=8, topology=HARD_1)
    rig.submit("later", pods=2, chips=8, topology=HARD_1)
    rig.run()
    assert nodes_of(rig, "late") == ["n2"]
    assert nodes_of(rig, "later") == ["-", "-"]
    rig.node("n5")
    rig.node("n6")
    rig.run()
    # The new nodes are in no HyperNode.
    assert nodes_of(rig, "later") == ["-", "-"]
    rig.tell(hyper_node("s3", 1, "n5", "n6"))
    rig.run()
    assert nodes_of(rig, "later") == ["n5", "n6"]


def test_why_tells_what_came_nearest() -> None:
    rig = rig_of()
    rig.submit("a", chips=8)
    rig.submit("train", pods=3, chips=8, topology=HARD_1)
    rig.run()
    view = rig.machine.view
    job = view.jobs["default/train"]
    reason = explain(view, job, rig.now).reason
    assert reason is not None
    assert reason.message == (
        "no HyperNode up to tier 1 is large enough for 3 pods: the largest is s1 with 2 nodes"
    )
    assert reason.fixes[:2] == (
        "set networkTopology.highestTierAllowed to 2 (now 1)",
        "set networkTopology.mode to soft",
    )
    # A gang of fewer pods is suggested last.
    assert "lower minAvailable from 3 to 2" in reason.fixes[2:]


def test_what_pods_of_the_job_itself_have_is_no_fix() -> None:
    """Its domain is given, and only its own pods run there."""
    rig = rig_of()
    rig.submit("train", pods=3, chips=8, min_available=2, topology=HARD_1)
    rig.run()
    assert nodes_of(rig, "train") == ["n1", "n2", "-"]
    view = rig.machine.view
    reason = explain(view, view.jobs["default/train"], rig.now).reason
    assert reason is not None
    assert reason.fixes == (
        "set networkTopology.highestTierAllowed to 2 (now 1)",
        "set networkTopology.mode to soft",
    )


def test_a_topology_that_restricts_nothing_is_told() -> None:
    rig = rig_of()
    typo = NetworkTopology(highest_tier_name="laef")
    rig.submit("typo", chips=8, topology=typo)
    rig.submit("none", chips=8, topology=NetworkTopology())
    rig.submit("good", chips=8, topology=HARD_1)
    rig.submit("parts", chips=8, topology=SOFT)
    rig.groups["default/parts"].sub_groups = (SubGroupPolicy("work", topology=typo),)
    rig.run()
    view = rig.machine.view
    told = {
        "typo": "its networkTopology restricts nothing: no HyperNode has the tier name laef",
        "none": "its networkTopology restricts nothing: mode hard has neither highestTierAllowed nor "
        "highestTierName",
        "parts": "the networkTopology of its sub-groups work restricts nothing: no HyperNode has the tier "
        "name laef",
    }
    found = {one.object: one.message for one in diagnose(view).findings if one.code == "topology-unlimited"}
    assert found == {f"job default/{name}": text for name, text in told.items()}
    for name in ("typo", "none", "parts", "good"):
        notes = explain(view, view.jobs[f"default/{name}"], rig.now).notes
        assert [one for one in notes if "restricts nothing" in one] == ([told[name]] if name in told else [])


def test_a_question_about_a_topology_leaves_no_trace() -> None:
    rig = rig_of()
    rig.submit("a", chips=8)
    rig.submit("train", pods=2, chips=8, topology=HARD_1)
    rig.submit("late", pods=2, chips=8, topology=HARD_1)
    rig.run()
    view = rig.machine.view
    first = explain(view, view.jobs["default/late"], rig.now).reason
    before = whole_state(rig.machine)
    assert explain(view, view.jobs["default/late"], rig.now).reason == first
    assert whole_state(rig.machine) == before


def test_what_is_reserved_for_a_job_that_waited_long_is_in_one_domain() -> None:
    rig = rig_of(reservation_after=600, actions=PLAIN)
    # n1 and n3 come free first, and are under different switches.
    for name, expected in (("a", "1h"), ("b", "4h"), ("c", "2h"), ("d", "3h")):
        rig.submit(name, chips=8, expected=expected)
        rig.run()
    assert [nodes_of(rig, name)[0] for name in "abcd"] == ["n1", "n2", "n3", "n4"]
    rig.submit("train", pods=2, chips=8, topology=HARD_1)
    rig.run()
    rig.step(600)
    view = rig.machine.view
    kept = view.reservations.of("default/train")
    assert kept is not None
    assert sorted(view.cluster.names[node] for node in kept.chips) == ["n3", "n4"]
    rig.end("a")
    rig.end("c")
    rig.run()
    assert nodes_of(rig, "train") == ["-", "-"]
    rig.end("d")
    rig.run()
    assert nodes_of(rig, "train") == ["n3", "n4"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("laef", 'laef; did you mean "leaf"?'),
        ("leaf", ""),
        ("a\nb", '"a\\nb"'),
        ("x" * 100_000, f'"{"x" * 57}..."'),
    ],
)
def test_a_tier_name_that_no_hyper_node_has_is_told(name: str, told: str) -> None:
    """It limits nothing, as in Volcano; nobody would notice the mistake otherwise."""
    rig = rig_of()
    rig.tell(replace(hyper_node("s1", 1, "n1", "n2"), tier_name="leaf"))
    rig.submit("train", pods=2, chips=8, topology=NetworkTopology(highest_tier_name=name))
    rig.run()
    text = f"its networkTopology restricts nothing: no HyperNode has the tier name {told}"
    view = rig.machine.view
    assert (text in explain(view, view.jobs["default/train"], rig.now).notes) is bool(told)
    found = [one.message for one in diagnose(view).findings if one.code == "topology-unlimited"]
    assert found == ([text] if told else [])


def test_what_of_a_topology_does_not_count_is_told_once_and_in_every_view() -> None:
    """Admission tells it of new objects; these came without it."""
    rig = rig_of()
    wrong = {"volcano.sh/network-topology-mode": "hrad", "volcano.sh/network-topology-highest-tier": "leaf"}
    mode = (
        'annotation volcano.sh/network-topology-mode of its pods must be hard or soft, got "hrad"; '
        'hard is used; did you mean "hard"?'
    )
    tier = (
        "annotation volcano.sh/network-topology-highest-tier of its pods must be a whole number "
        'from 0 to 2147483647, got "leaf"; it counts as none, and hard mode without a tier '
        "restricts nothing"
    )
    both = (
        "its networkTopology has highestTierAllowed and highestTierName: only one is allowed, and "
        "highestTierAllowed counts"
    )
    rig.submit("both", chips=8, topology=NetworkTopology(highest_tier=1, highest_tier_name="leaf"))
    # Of a PodGroup that is not made from them they count for nothing.
    rig.submit("other", chips=8, annotations=wrong, topology=HARD_1)
    rig.submit("wrong", chips=8, annotations=wrong, topology=NetworkTopology())
    rig.groups["default/wrong"].ordinary = True
    rig.run()
    rig.tell(*(replace(group) for group in rig.groups.values()))
    rig.run()
    events = [
        (command.key.partition("/")[2], command.message)
        for _, _, commands in rig.history
        for command in commands
        if isinstance(command, RecordJobEvent) and command.reason == "InvalidNetworkTopology"
    ]
    assert events == [("both", both), ("wrong", f"{mode}; {tier}")]
    view = rig.machine.view
    found = [one.message for one in diagnose(view).findings if one.code == "topology-unread"]
    assert found == [both, mode, tier]
    assert both in explain(view, view.jobs["default/both"], rig.now).notes
    assert {mode, tier} <= set(explain(view, view.jobs["default/wrong"], rig.now).notes)


@pytest.mark.parametrize(
    ("action", "allowed"), [("preempt", [set()]), ("gangpreempt", [{"n1", "n2"}, {"n3", "n4"}])]
)
def test_pods_are_evicted_in_one_domain_only(action: str, allowed: list[set[str]]) -> None:
    """`preempt` evicts nobody for a job with a topology: it does not know of domains."""
    rig = rig_of(tiers=tiers(gangs_may_end()), actions=("enqueue", "allocate", action))
    rig.priority("high", 100)
    for name in "abcd":
        rig.submit(name, chips=8, preemptable=True)
        rig.run()
    rig.submit("train", pods=2, chips=8, priority="high", topology=HARD_1)
    victims = [command.pod for command in rig.step() if isinstance(command, Evict)]
    nodes = {rig.pods[name].node for name in victims}
    assert nodes in allowed, victims


def test_without_the_plugin_no_fix_is_told_that_jobs_without_a_topology_do_not_have() -> None:
    """M2: preempt serves the job as any other."""
    told = []
    for topology in (None, HARD_1):
        rig = rig_of(2, tiers=default_tiers(), actions=("enqueue", "allocate", "preempt"))
        rig.priority("high", 100)
        rig.submit("low", pods=2, chips=8, preemptable=True)
        rig.run()
        rig.submit("train", chips=8, priority="high", topology=topology)
        rig.run()
        view = rig.machine.view
        told.append(explain(view, view.jobs["default/train"], rig.now).reason)
    assert told[0] is not None
    assert told[0] == told[1]


# -- sub-groups that differ ----------------------------------------------------------------------------


def role(*values: str) -> tuple[Requirement, ...]:
    return (Requirement("role", "In", values),)


@pytest.mark.parametrize(
    "policies",
    [
        (SubGroupPolicy("one", role("one"), size=1), SubGroupPolicy("two", role("two"), (), 2, 0, HARD_1)),
        (
            SubGroupPolicy("one", role("one"), (), 1, 1, HARD_1),
            SubGroupPolicy("two", role("two"), (), 2, 1, HARD_1),
        ),
        (SubGroupPolicy("both", None, ("role",), 1, 2, HARD_1),),
    ],
)
def test_a_sub_group_that_could_be_elsewhere_takes_no_place_that_another_needs(
    policies: tuple[SubGroupPolicy, ...],
) -> None:
    rig = Rig(3, tiers=tiers())
    for name in ("n4", "n5", "n6"):
        rig.node(name, unschedulable=True)
    rig.tell(hyper_node("s1", 1, "n1", "n2"), hyper_node("s2", 1, "n3", "n4", "n5", "n6"))
    rig.submit("train", pods=3, chips=8)
    rig.change_group("train", sub_groups=policies)
    for number, value in enumerate(("one", "two", "two")):
        rig.change(f"train-{number}", labels={"role": value})
    rig.run()
    assert nodes_of(rig, "train") == ["n3", "n1", "n2"]


def test_a_sub_group_whose_volumes_are_elsewhere_is_tried_though_another_found_no_place() -> None:
    rig = VolumeRig(4, tiers=tiers())
    rig.tell(hyper_node("s1", 1, "n1", "n2"), hyper_node("s2", 1, "n3", "n4"))
    rig.submit("other", chips=8)
    rig.run()
    assert nodes_of(rig, "other") == ["n1"]
    rig.submit("train", pods=4, chips=8, min_available=2, claims=["data-{}"])
    policy = SubGroupPolicy("work", None, ("part",), 2, 1, HARD_1)
    rig.change_group("train", sub_groups=(policy,))
    for number in range(4):
        rig.claim(f"data-{number}")
        rig.provision(f"data-{number}", node_terms=on_node(f"n{number + 1}"))
        rig.change(f"train-{number}", labels={"part": str(number // 2)})
    rig.run()
    assert nodes_of(rig, "train") == ["-", "-", "n3", "n4"]


# -- faults -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("spare", [False, True])
def test_a_pod_that_a_fault_takes_stays_in_the_domain(spare: bool) -> None:
    """Without a spare node in its HyperNode the job waits, though another one is idle."""
    rig = Rig(6, tiers=tiers())
    rig.tell(hyper_node("s1", 1, "n1", "n2", *(("n3",) if spare else ())))
    rig.tell(hyper_node("s2", 1, "n4", "n5", "n6"))
    rig.submit("train", pods=2, chips=8, topology=HARD_1)
    rig.run()
    assert nodes_of(rig, "train") == ["n1", "n2"]
    rig.sick("n2", 1)
    rig.gone("train-1")
    rig.run()
    rig.pods["train-1"] = replace(rig.pods["train-0"], name="train-1")
    rig.replacement("train-1")
    rig.run()
    assert nodes_of(rig, "train") == ["n1", "n3" if spare else "-"]
    rig.sick("n2", 0)
    rig.run()
    assert nodes_of(rig, "train") == ["n1", "n3" if spare else "n2"]


def test_a_job_that_a_fault_restarts_returns_to_the_domain_of_its_healthy_nodes() -> None:
    """S9, F4: though another HyperNode of the tier is fuller, and so would be taken by a new job."""
    rig = Rig(7, tiers=tiers())
    rig.tell(hyper_node("s1", 1, "n1", "n2", "n3"))
    rig.tell(hyper_node("s2", 1, "n4", "n5", "n6", "n7"))
    rig.submit("train", pods=2, chips=8, topology=HARD_1, labels={"fault-scheduling": "grace"})
    rig.run()
    assert nodes_of(rig, "train") == ["n1", "n2"]
    rig.submit("other", pods=2, chips=8, topology=HARD_1)
    rig.run()
    assert nodes_of(rig, "other") == ["n4", "n5"]
    rig.sick("n2", 1)
    rig.run()
    rig.step(600)
    for name in ("train-0", "train-1"):
        if name in rig.pods:
            rig.gone(name)
    rig.step()
    for name in ("train-0", "train-1"):
        rig.pods[name] = replace(rig.pods["other-0"], name=name, group="train", labels={})
        rig.replacement(name)
    rig.run()
    assert nodes_of(rig, "train") == ["n1", "n3"]


# -- moves ------------------------------------------------------------------------------------------


def test_moves_clear_a_domain_for_a_waiting_job() -> None:
    rig = rig_of()
    for name, node in (("a", "n1"), ("b", "n3")):
        rig.submit(name, chips=4, owner=SERVICE)
        rig.change(f"{name}-0", node=node, phase="Running", holds=(0, 1, 2, 3))
    rig.run()
    rig.submit("train", pods=2, chips=8, topology=HARD_1)
    rig.run()
    view = rig.machine.view
    plan = find_plan(view, view.jobs["default/train"], rig.now)
    assert isinstance(plan, MovePlan)
    assert len(plan.moves) == 1
    assert {one.node for one in plan.room} in ({"n1", "n2"}, {"n3", "n4"})


@pytest.mark.parametrize("topology", [None, HARD_1])
def test_without_the_plugin_moves_are_planned_as_for_any_other_job(topology: NetworkTopology | None) -> None:
    """M2: the same pods go to the same places, whatever the HyperNodes are."""
    rig = rig_of(tiers=default_tiers())
    for name, node in (("a", "n1"), ("b", "n2"), ("c", "n3"), ("d", "n4")):
        rig.submit(name, chips=4 if name in "ac" else 2, owner=SERVICE)
        rig.change(f"{name}-0", node=node, phase="Running", holds=(0, 1, 2, 3) if name in "ac" else (0, 1))
    rig.run()
    rig.submit("train", pods=2, chips=8, topology=topology)
    rig.run()
    view = rig.machine.view
    plan = find_plan(view, view.jobs["default/train"], rig.now)
    assert isinstance(plan, MovePlan)
    assert sorted(one.node for one in plan.room) == ["n2", "n4"]


def test_no_job_is_moved_to_a_higher_tier() -> None:
    rig = rig_of()
    rig.submit("pair", pods=2, chips=8, owner=SERVICE)
    for number in (0, 1):
        rig.change(f"pair-{number}", node=f"n{number + 1}", phase="Running", holds=tuple(range(8)))
    rig.submit("x", chips=4)
    rig.change("x-0", node="n3", phase="Running", holds=(0, 1, 2, 3))
    rig.run()
    rig.submit("train", chips=8, topology=HARD_1)
    rig.run()
    assert nodes_of(rig, "train") == ["n4"]
    rig.submit("wide", chips=8)
    rig.run()
    view = rig.machine.view
    found = find_plan(view, view.jobs["default/wide"], rig.now)
    assert isinstance(found, Reason)
    assert nodes_of(rig, "pair") == ["n1", "n2"]


@pytest.mark.parametrize(("free", "moves"), [("n2", True), ("n4", False)])
def test_no_sub_group_is_moved_to_a_higher_tier(free: str, moves: bool) -> None:
    """Its job uses all of the tree before and after; the sub-group would no longer be under its leaf."""
    rig = rig_of(6, multi_pod_requests="vendor")
    rig.submit("parts", pods=4, chips=2, owner=SERVICE)
    policy = SubGroupPolicy("part", match_label_keys=("part",), size=2, topology=NetworkTopology(soft=True))
    rig.change_group("parts", sub_groups=(policy,))
    for number, node in enumerate(("n1", "n2", "n5", "n6")):
        labels = {"part": str(number // 2)}
        rig.change(f"parts-{number}", labels=labels, node=node, phase="Running", holds=(0, 1))
    for node in ("n2", "n3", "n4", "n5", "n6"):
        for first in range(0, 8, 2):
            if (first == 0 and node not in ("n3", "n4")) or (node == free and first == 2):
                continue
            rig.submit(f"{node}-{first}", chips=2)
            rig.change(f"{node}-{first}-0", node=node, phase="Running", holds=(first, first + 1))
    rig.run()
    rig.submit("train", chips=8)
    rig.run()
    view = rig.machine.view
    found = find_plan(view, view.jobs["default/train"], rig.now)
    assert isinstance(found, MovePlan) is moves
    if isinstance(found, MovePlan):
        assert {one.name: one.node for one in found.moves[0].pods}["default/parts-0"] == "n2"
    else:
        assert "would be on tier 2 instead of 1" in found.message


def test_decisions_are_the_same_in_a_copy() -> None:
    rig = rig_of()
    rig.submit("train", pods=2, chips=8, topology=HARD_1)
    first = [(one.pod, one.node) for one in rig.step() if isinstance(one, Bind)]
    again = rig_of()
    again.submit("train", pods=2, chips=8, topology=HARD_1)
    assert [(one.pod, one.node) for one in again.step() if isinstance(one, Bind)] == first


# -- jobs with equal pods --------------------------------------------------------------------------


def test_a_start_is_expected_whatever_topology_another_job_with_equal_pods_has() -> None:
    rig = rig_of(actions=PLAIN)
    rig.submit("run", chips=8, expected="1h")
    rig.run()
    rig.submit("hard", pods=4, chips=8, topology=HARD_1)
    rig.submit("plain", pods=4, chips=8)
    rig.run()
    starts = estimates(rig.machine.view, rig.now)
    assert starts["default/hard"].kind is StartKind.UNKNOWN
    assert starts["default/plain"].kind is StartKind.KNOWN


def test_moves_are_planned_whatever_topology_another_job_with_equal_pods_has() -> None:
    rig = rig_of(actions=PLAIN)
    for number in range(8):
        rig.submit(f"half-{number}", chips=4, owner=SERVICE)
        rig.run()
    for number in (0, 2, 3, 4, 5, 6):
        rig.end(f"half-{number}")
    rig.submit("hard", pods=3, chips=8, topology=HARD_1)
    rig.submit("plain", pods=3, chips=8)
    rig.run()
    plans, without = find_plans(rig.machine.view, rig.now)
    assert [plan.job for plan in plans] == ["default/plain"]
    assert list(without) == ["default/hard"]


def test_a_job_that_fits_into_no_domain_of_the_empty_cluster_blocks_no_other_job() -> None:
    rig = rig_of(actions=PLAIN, queue_discipline="strict")
    for name in ("n2", "n4"):
        rig.node(name, unschedulable=True)
    rig.submit("run", chips=8)
    rig.run()
    rig.submit("hard", pods=2, chips=8, topology=HARD_1)
    rig.submit("small", chips=8)
    rig.run()
    assert nodes_of(rig, "hard") == ["-", "-"]
    assert nodes_of(rig, "small") == ["n3"]
