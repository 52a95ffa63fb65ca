"""Jobs with a network topology: which HyperNode they get, what they are told, and what is left of a try."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.actions.allocate import allocate
from ringwise.actions.backfill import backfill
from ringwise.framework.configuration import PluginOption
from ringwise.framework.gangs.gang_placement import node_preferences, place_gang
from ringwise.framework.job import PreviousNode
from ringwise.framework.statement import Allocation
from ringwise.reasons import Trigger
from ringwise.state.model import NetworkTopology, PodTerm, Requirement
from ringwise.wellknown import SP_BLOCK, TOR_AFFINITY
from tests.builders.session_lab import Lab, cluster, option
from tests.builders.values import pod, pod_class
from tests.examples import examples
from tests.fingerprint import fingerprint

PLUGINS = ("gang", "topology910", "predicates", "network-topology-aware")
SOFT = NetworkTopology(soft=True)


def hard(tier: int | None = None, name: str = "") -> NetworkTopology:
    return NetworkTopology(highest_tier=tier, highest_tier_name=name)


def tree(leaves: int = 4, width: int = 2, *, spare: int = 0, **offered: Any) -> Lab:
    """Leaves s0, s1, ... of `width` nodes on tier 1, pairs of them (p0, ...) on tier 2, top on tier 3."""
    lab = cluster()
    for number in range(leaves * width + spare):
        lab.node(f"n{number}", **(offered or {"chips": 8}))
    for leaf in range(leaves):
        lab.hyper_node(f"s{leaf}", 1, *(f"n{leaf * width + node}" for node in range(width)), tier_name="leaf")
    pairs = [f"p{pair}" for pair in range((leaves + 1) // 2)]
    for pair, name in enumerate(pairs):
        members = [f"s{leaf}" for leaf in (2 * pair, 2 * pair + 1) if leaf < leaves]
        lab.hyper_node(name, 2, *members, tier_name="spine")
    return lab.hyper_node("top", 3, *pairs, tier_name="core")


def nodes_of(lab: Lab, name: str = "job") -> list[str]:
    """The nodes of its pods, in the order of the pods; `-` for one that waits."""
    names = [*lab.state.names, "-"]
    return [names[lab.state.pods[pod.uid].node] for pod in lab[name].in_order]


def run(lab: Lab, *plugins: str | PluginOption) -> list[str]:
    allocate(lab.session(*(plugins or PLUGINS)))
    return nodes_of(lab)


# -- hard and soft ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topology", "pods", "expected"),
    [
        (hard(1), 2, ["n0", "n1"]),
        (hard(1), 3, ["-", "-", "-"]),
        (hard(2), 3, ["n0", "n1", "n2"]),
        (hard(2), 5, ["-"] * 5),
        (hard(3), 5, ["n0", "n1", "n2", "n3", "n4"]),
        (hard(3), 9, ["-"] * 9),
        # One tier above the highest are all nodes, those in no HyperNode too.
        (hard(4), 9, [f"n{number}" for number in range(9)]),
        (hard(name="leaf"), 2, ["n0", "n1"]),
        (hard(name="leaf"), 3, ["-", "-", "-"]),
        (hard(name="spine"), 4, ["n0", "n1", "n2", "n3"]),
        # Without a tier, or with one that nothing has, hard mode restricts nothing.
        (hard(), 9, [f"n{number}" for number in range(9)]),
        (hard(name="rack"), 9, [f"n{number}" for number in range(9)]),
        (SOFT, 2, ["n0", "n1"]),
        (SOFT, 9, [f"n{number}" for number in range(9)]),
        (NetworkTopology(soft=True, highest_tier=1), 3, ["n0", "n1", "n2"]),
    ],
)
def test_the_lowest_tier_that_takes_the_job(
    topology: NetworkTopology, pods: int, expected: list[str]
) -> None:
    assert run(tree(spare=1).job("job", pods=pods, chips=8, topology=topology)) == expected


def test_soft_mode_finds_the_leaf_that_fits_whatever_the_order_of_nodes_prefers() -> None:
    lab = tree().job("a", on=["n0", "n2", "n4"], pods=3, chips=4)
    assert run(lab.job("job", pods=2, chips=8, topology=SOFT)) == ["n6", "n7"]


def test_without_the_plugin_a_topology_has_no_effect() -> None:
    lab = tree().job("job", pods=3, chips=8, topology=hard(1))
    assert run(lab, "gang", "topology910", "predicates") == ["n0", "n1", "n2"]


def test_a_flag_of_the_plugin_turns_its_part_off() -> None:
    lab = tree().job("job", pods=3, chips=8, topology=hard(1))
    off = option("network-topology-aware", {"hyper_node_gradient": False})
    assert run(lab, "gang", "topology910", "predicates", off) == ["n0", "n1", "n2"]


def test_the_fullest_hyper_node_of_a_tier_is_taken_and_the_flag_turns_that_off() -> None:
    def lab() -> Lab:
        return (
            tree(chips=8, cpu=8_000)
            .job("old", on="n5", cpu=1_000)
            .job("job", pods=2, cpu=2_000, topology=hard(1))
        )

    assert set(run(lab())) <= {"n4", "n5"}
    unordered = option("network-topology-aware", {"hyper_node_order": False})
    assert set(run(lab(), *PLUGINS[:-1], unordered)) <= {"n0", "n1"}


def test_chips_count_in_the_score_by_their_weight() -> None:
    def lab() -> Lab:
        return (
            tree(chips=8, cpu=8_000)
            .job("chips", on="n2", chips=4)
            .job("cpu", on="n4", cpu=3_000)
            .job("job", chips=2, cpu=1_000, topology=hard(1))
        )

    assert run(lab()) == ["n2"]
    cpu_only = option(
        "network-topology-aware",
        hypernode_binpack_cpu=5,
        hypernode_binpack_resources=("huawei.com/Ascend910",),
    )
    assert set(run(lab(), *PLUGINS[:-1], cpu_only)) <= {"n4", "n5"}


def test_inside_the_domain_the_order_of_the_board_decides() -> None:
    # N3: the two-chip ring of n3 before the idle n2.
    lab = tree().job("old", on="n3", chips=2).job("job", chips=2, topology=hard(1))
    assert run(lab) == ["n3"]


def test_pods_of_several_kinds_are_placed_together() -> None:
    def lab(topology: NetworkTopology) -> Lab:
        """A server that needs a node of its own, and two workers."""
        found = tree(width=2, cpu=8_000, chips=8)
        found.job("job", pods=2, chips=8, cpu=1_000, topology=topology)
        found.put(pod("job-x", cls=pod_class(cpu=8_000), group="job"), found["job"])
        found["job"].min_available = 3
        return found

    assert run(lab(hard(1))) == ["-", "-", "-"]
    assert run(lab(hard(2))) == ["n0", "n1", "n2"]


# -- trees --------------------------------------------------------------------------------------


def two_trees() -> Lab:
    """Racks of two nodes directly on tier 2 beside a tree of three tiers: `rack` is another tier in each."""
    lab = cluster()
    for number in range(8):
        lab.node(f"n{number}", chips=8)
    lab.hyper_node("a0", 1, "n0", "n1").hyper_node("a1", 1, "n2", "n3")
    lab.hyper_node("a", 2, "a0", "a1", tier_name="rack").hyper_node("all-a", 3, "a")
    return lab.hyper_node("b0", 1, "n4", "n5", "n6", "n7", tier_name="rack").hyper_node("all-b", 2, "b0")


def test_a_tier_name_is_resolved_inside_its_own_tree() -> None:
    lab = two_trees().job("job", pods=4, chips=8, topology=hard(name="rack"))
    assert run(lab) == ["n4", "n5", "n6", "n7"]
    lab = two_trees().job("busy", on="n5", chips=8)
    # In the other tree the same name is on a higher tier.
    assert run(lab.job("job", pods=4, chips=8, topology=hard(name="rack"))) == ["n0", "n1", "n2", "n3"]
    lab = two_trees().job("job", pods=4, chips=8, topology=hard(1))
    assert run(lab) == ["n4", "n5", "n6", "n7"]


def test_a_tree_without_the_tier_name_is_no_candidate() -> None:
    lab = two_trees().hyper_node("c", 1, "m0", "m1")
    lab.node("m0", chips=8).node("m1", chips=8)
    lab.hyper_node("c", 1, "m0", "m1").job("busy", pods=4, on=["n0", "n2", "n4", "n5"], chips=8)
    assert run(lab.job("job", pods=2, chips=8, topology=hard(name="rack"))) == ["n6", "n7"]


def test_no_hyper_nodes_at_all() -> None:
    lab = cluster().node("n0", chips=8).job("job", chips=8, topology=hard(1))
    assert run(lab) == ["-"]
    reason = lab["job"].reason
    assert reason is not None
    assert reason.message == "the job must run in a HyperNode up to tier 1, but none with nodes exists"
    assert Trigger.HYPER_NODES_CHANGED in reason.kind.resolved_by
    assert run(cluster().node("n0", chips=8).job("job", chips=8, topology=SOFT)) == ["n0"]


# -- pods that run pin the others ---------------------------------------------------------------


def test_pods_that_run_pin_the_others() -> None:
    lab = tree().job("job", pods=3, min_available=2, chips=8, topology=hard(2))
    lab.change("job-0", node="n5", phase="Running", holds=tuple(range(8)))
    assert run(lab) == ["n5", "n4", "n6"]


def test_a_replaced_pod_waits_for_its_domain_and_does_not_leave_it() -> None:
    lab = tree().job("job", pods=2, chips=8, topology=hard(1)).job("other", on="n3", chips=8)
    lab.change("job-0", node="n2", phase="Running", holds=tuple(range(8)))
    assert run(lab) == ["n2", "-"]
    reason = lab["job"].reason
    assert reason is not None
    assert reason.message == (
        "no HyperNode up to tier 1 fits 1 pod: of 1 HyperNode the closest is s1 "
        "(tier 1) with 0; its other pods run in s1"
    )
    assert reason.fixes[0] == "set networkTopology.highestTierAllowed to 2: p0 has room for all of them"


def test_a_pod_that_terminates_does_not_keep_its_job_in_a_domain() -> None:
    lab = tree().job("job", pods=2, min_available=1, chips=8, topology=hard(1))
    lab.job("other", on="n3", chips=8)
    lab.change("job-0", node="n2", phase="Running", holds=tuple(range(8)), deleting=True)
    assert run(lab) == ["n2", "n0"]


@pytest.mark.parametrize(
    ("former", "expected"),
    [
        # The nodes of healthy pods decide the domain, before a lower one; a node that broke does not.
        ((PreviousNode("n2", held=True), PreviousNode("n1", held=True)), ["n2", "n1"]),
        ((PreviousNode("n2", held=True), PreviousNode("n1", held=True, faulty=True)), ["n2", "n3"]),
        ((PreviousNode("n2", held=True, faulty=True), PreviousNode("n7", held=True)), ["n6", "n7"]),
    ],
)
def test_S9_pods_return_to_the_lowest_domain_with_their_healthy_nodes(
    former: tuple[PreviousNode, ...], expected: list[str]
) -> None:
    lab = tree().job("job", pods=2, chips=8, topology=hard(3))
    lab["job"].previous_nodes = dict(enumerate(former))
    assert run(lab) == expected


def test_pods_beyond_the_gang_stay_in_the_domain() -> None:
    lab = tree().job("job", pods=4, min_available=1, chips=8, topology=hard(1))
    assert run(lab) == ["n0", "n1", "-", "-"]
    soft = tree(spare=1).job("job", pods=9, min_available=1, chips=8, topology=SOFT)
    assert run(soft) == [f"n{number}" for number in range(9)]


def test_a_gang_that_grows_starts_as_a_whole_inside_its_domain_or_not_at_all() -> None:
    lab = tree(width=3).job("job", pods=4, min_available=4, chips=8, topology=hard(1))
    for name, node in (("job-0", "n3"), ("job-1", "n4")):
        lab.change(name, node=node, phase="Running", holds=tuple(range(8)))
    # n5 is free, and one more node of the domain is missing.
    assert run(lab) == ["n3", "n4", "-", "-"]
    lab["job"].min_available = 3
    assert run(lab) == ["n3", "n4", "n5", "-"]


def test_pods_outside_of_any_allowed_domain_are_told_of() -> None:
    lab = tree(spare=1).job("job", pods=3, min_available=3, chips=8, topology=hard(1))
    for name, node in (("job-0", "n0"), ("job-1", "n3")):
        lab.change(name, node=node, phase="Running", holds=tuple(range(8)))
    run(lab)
    reason = lab["job"].reason
    assert reason is not None
    assert reason.message == ("the running pods are no longer in one HyperNode up to tier 1: n0, n3")
    assert reason.fixes[0] == "set networkTopology.highestTierAllowed to 2"


def test_best_effort_pods_go_where_the_others_are() -> None:
    lab = tree(chips=8, pods=110).job("job", pods=2, chips=8, topology=hard(1), on=["n4", "n5"])
    lab.put(pod("job-x", cls=pod_class(), group="job"), lab["job"])
    backfill(lab.session(*PLUGINS))
    assert nodes_of(lab)[2] in ("n4", "n5")


# -- what is told, and what is left ----------------------------------------------------------------


def test_what_came_nearest_is_told_with_what_would_do() -> None:
    lab = tree().job("busy", pods=4, on=["n0", "n3", "n4", "n6"], chips=8)
    run(lab.job("job", pods=2, chips=8, topology=hard(1)))
    reason = lab["job"].reason
    assert reason is not None
    assert reason.message == (
        "no HyperNode up to tier 1 fits 2 pods: of 4 HyperNodes the closest is s0 (tier 1) with 1"
    )
    assert reason.fixes == (
        "set networkTopology.highestTierAllowed to 2: p0 has room for all of them",
        "wait until more of s0 is free",
        "set networkTopology.mode to soft: the job then uses the lowest tier that fits",
    )
    assert {Trigger.CHIPS_FREED, Trigger.HYPER_NODES_CHANGED, Trigger.JOB_CHANGED} <= reason.kind.resolved_by


def test_a_job_that_no_hyper_node_would_hold_is_not_told_to_wait() -> None:
    lab = tree().job("job", pods=3, chips=8, topology=hard(1))
    run(lab)
    reason = lab["job"].reason
    assert reason is not None
    assert reason.message == (
        "no HyperNode up to tier 1 is large enough for 3 pods: the largest is s0 with 2 nodes"
    )
    assert reason.fixes[0] == "set networkTopology.highestTierAllowed to 2: p0 has room for all of them"
    assert Trigger.CHIPS_FREED not in reason.kind.resolved_by


def test_a_queue_that_may_use_no_more_is_the_reason_where_nodes_fit() -> None:
    lab = tree().queue("small", capability={"huawei.com/Ascend910": 8})
    lab.job("job", pods=2, chips=8, queue="small", topology=hard(1))
    allocate(lab.session(*PLUGINS, "proportion"))
    reason = lab["job"].reason
    assert reason is not None
    assert "hyper" not in reason.code


@pytest.mark.parametrize(("key", "value"), [(TOR_AFFINITY, "large-model-schema"), (SP_BLOCK, "16")])
def test_s12_a_topology_and_switches_or_superpods_exclude_each_other(key: str, value: str) -> None:
    lab = tree().job("job", pods=2, chips=8, topology=hard(1))
    lab["job"].labels = lab["job"].annotations = {key: value}
    run(lab)
    reason = lab["job"].reason
    assert reason is not None
    assert reason.code == "topology-combined"
    assert key in reason.message
    assert value in reason.message


def test_what_was_tried_in_vain_leaves_nothing_behind() -> None:
    """Anti-affinity is not counted before: each domain is tried, and given back."""
    alone = (PodTerm("kubernetes.io/hostname", (Requirement("app", "In", ("job",)),)),)
    lab = tree(chips=8, cpu=8_000)
    for number in range(8):
        node = lab.state.nodes[number]
        assert node is not None
        lab.node(node.name, chips=8, cpu=8_000, labels={"kubernetes.io/hostname": "h"})
    lab.job(
        "job",
        pods=2,
        topology=hard(2),
        labels={"app": "job"},
        cls=pod_class(cpu=1_000, pod_anti_affinity=alone),
    )
    session = lab.session(*PLUGINS)
    assert session.job_valid(lab["job"]) is None
    lab.state.host_view()
    before, used = fingerprint(lab.state), dict(lab.usage.used_by_job("default/job"))
    statement = session.statement()
    reason = place_gang(session, lab["job"], statement)
    assert reason is not None
    assert reason.code == "no-hyper-node-fits"
    assert not statement.allocations
    statement.discard()
    assert fingerprint(lab.state) == before
    assert dict(lab.usage.used_by_job("default/job")) == used


def test_a_savepoint_keeps_what_was_decided_before_it() -> None:
    lab = tree().job("a", chips=8).job("b", chips=4)
    session = lab.session(*PLUGINS)
    statement = session.statement()
    statement.allocate(Allocation(lab["a"], lab.pod("a-0"), 0, tuple(range(8))))
    before, point = fingerprint(lab.state), statement.savepoint()
    statement.allocate(Allocation(lab["b"], lab.pod("b-0"), 1, (0, 1, 2, 3)))
    statement.rollback_to(point)
    assert fingerprint(lab.state) == before
    assert [allocation.pod.name for allocation in statement.allocations] == ["a-0"]
    statement.discard()


# -- against brute force -----------------------------------------------------------------------------

FREE = st.lists(st.integers(0, 8), min_size=8, max_size=8)


@settings(max_examples=examples(40), deadline=None)
@given(
    used=FREE,
    pods=st.integers(1, 6),
    asked=st.integers(1, 8),
    tier=st.integers(1, 3),
    soft=st.booleans(),
    chips=st.booleans(),
)
def test_the_domain_is_the_fullest_of_the_lowest_tier_on_which_there_is_one(
    used: list[int], pods: int, asked: int, tier: int, soft: bool, chips: bool
) -> None:
    """Of pods by their cpu, and of a distributed job whose pods take whole nodes."""
    asked = 8 if chips else asked

    def asking(amount: int) -> dict[str, Any]:
        return {"chips": amount} if chips else {"cpu": 1_000 * amount}

    lab = tree(cpu=8_000, chips=8)
    for number, amount in enumerate(used):
        if amount:
            lab.job(f"old-{number}", on=f"n{number}", **asking(amount))
    topology = NetworkTopology(soft=soft, highest_tier=None if soft else tier)
    lab.job("job", pods=pods, topology=topology, **asking(asked))
    found = run(lab)

    def room(nodes: Iterable[int]) -> int:
        return sum((8 - used[node]) // asked for node in nodes)

    forest = lab.state.hyper_forest()
    fitting = [
        (domain.tier, -sum(used[node] for node in members) / len(members), domain.name, members)
        for domain in forest.domains.values()
        if (soft or domain.tier <= tier)
        for members in [[node for node in range(8) if domain.nodes >> node & 1]]
        if room(members) >= pods
    ]
    if not fitting:
        assert set(found) == {"-"}
    else:
        assert {int(name[1:]) for name in found} <= set(min(fitting)[3])


# -- pods without a topology ---------------------------------------------------------------------------


def test_ordinary_pods_fill_hyper_nodes_that_are_in_use() -> None:
    def lab() -> Lab:
        return tree(cpu=8_000).job("old", on="n5", cpu=1_000).job("job", cpu=1_000)

    assert run(lab()) == ["n4"]
    off = option("network-topology-aware", {}, **{"hypernode_binpack_normal-pod_enable": False})
    assert run(lab(), *PLUGINS[:-1], off) == ["n0"]
    # Of the leaves none is in use; p1 is.
    far = tree(cpu=8_000).job("old", on=["n6", "n7"], pods=2, cpu=8_000).job("job", cpu=1_000)
    assert run(far) == ["n4"]
    only_leaves = option("network-topology-aware", {}, **{"hypernode_binpack_normal-pod_fading": 0.0})
    assert run(
        tree(cpu=8_000).job("old", on=["n6", "n7"], pods=2, cpu=8_000).job("job", cpu=1_000),
        *PLUGINS[:-1],
        only_leaves,
    ) == ["n0"]


def test_the_scores_of_ordinary_pods_follow_what_is_placed_inside_a_cycle() -> None:
    lab = tree(cpu=4_000)
    for number in range(6):
        lab.job(f"job-{number}", cpu=2_000)
    allocate(lab.session(*PLUGINS))
    # The first opens s0, and the others fill it, then its neighbor.
    assert sorted(nodes_of(lab, f"job-{number}")[0] for number in range(6)) == [
        *("n0", "n0", "n1", "n1", "n2", "n2")
    ]


def test_scores_never_lift_a_node_over_the_order_of_the_board() -> None:
    lab = tree().job("old", on="n0", chips=4).job("filled", pods=1, on="n6", chips=8).job("job", chips=4)
    # N3: the free ring of n0, whatever HyperNode is in use more.
    assert run(lab) == ["n0"]


def test_pods_of_a_job_that_needs_several_leaves_fill_one_after_the_other() -> None:
    lab = tree(leaves=2, width=2, cpu=4_000)
    lab.hyper_node("s0", 1, "n0", "n2").hyper_node("s1", 1, "n1", "n3")
    lab.job("job", pods=3, cpu=3_000, topology=hard(2))
    assert run(lab) == ["n0", "n2", "n1"]


def test_nodes_near_the_placed_pods_score_by_the_lowest_tier_that_holds_both() -> None:
    lab = tree(cpu=8_000, spare=1).job("job", pods=4, cpu=1_000, topology=SOFT)
    session = lab.session("network-topology-aware")
    statement = session.statement()

    def scores() -> list[float]:
        preferred = node_preferences(session, lab["job"], lab.pod("job-3"))
        return [0.0 if preferred is None else preferred.extra(node) for node in range(9)]

    assert scores() == [0.0] * 9
    statement.allocate(Allocation(lab["job"], lab.pod("job-0"), 0, ()))
    assert scores() == [100, 100, 50, 50, 0, 0, 0, 0, 0]
    point = statement.savepoint()
    statement.allocate(Allocation(lab["job"], lab.pod("job-1"), 2, ()))
    assert scores() == [100, 100, 100, 100, 0, 0, 0, 0, 0]
    statement.allocate(Allocation(lab["job"], lab.pod("job-2"), 4, ()))
    assert scores() == [100] * 8 + [0]
    statement.rollback_to(point)
    assert scores() == [100, 100, 50, 50, 0, 0, 0, 0, 0]
    statement.discard()
