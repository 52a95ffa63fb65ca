"""A fault in a job with sub-groups: a pod returns near the rest of its sub-group, or that moves as a unit."""

from __future__ import annotations

import pytest

from ringwise.framework.configuration import PluginOption, Tier
from ringwise.scheduler.defaults import default_tiers
from ringwise.scheduler.faults.states import State
from ringwise.state.model import NetworkTopology, SubGroupPolicy
from tests.builders.values import hyper_node
from tests.scheduler.faults.fault_rig import POD_LEVEL, deletions, node_down, state_of
from tests.scheduler.rig import Rig

PART = "volcano.sh/partition-id"
TIERS = (*default_tiers(), Tier((PluginOption.of("network-topology-aware"),)))
LEAVES = {"l0": ("n1", "n2"), "l1": ("n3", "n4"), "l2": ("n5", "n6")}


def leaf_of(node: str) -> str:
    return next(leaf for leaf, nodes in LEAVES.items() if node in nodes)


def running(
    topology: NetworkTopology | None,
    *,
    groups: int = 2,
    least: int = 4,
    nodes: int = 6,
    tiers: tuple[Tier, ...] = TIERS,
) -> Rig:
    """Two partitions of two whole nodes each, on leaves of two nodes."""
    rig = Rig(nodes, tiers=tiers)
    for leaf, names in LEAVES.items():
        rig.tell(hyper_node(leaf, 1, *names))
    rig.submit("train", pods=4, chips=8, labels=POD_LEVEL, min_available=least)
    policy = SubGroupPolicy("work", None, (PART,), 2, groups, topology)
    rig.change_group("train", sub_groups=(policy,))
    for number in range(4):
        rig.change(f"train-{number}", labels={**POD_LEVEL, PART: str(number // 2)}, rank=number)
    rig.run()
    assert len(rig.nodes_of("train")) == 4
    return rig


HARD = NetworkTopology(highest_tier=1)


def leaves(rig: Rig) -> list[str]:
    return [leaf_of(node) for node in rig.nodes_of("train")]


def test_a_sub_group_whose_domain_has_no_room_moves_as_a_unit_and_others_run_on() -> None:
    rig = running(HARD)
    assert leaves(rig) == ["l0", "l0", "l1", "l1"]
    before = {name: pod.uid for name, pod in rig.pods.items()}
    node_down(rig, rig.node_of("train-3"))
    assert deletions(rig.step()) == {"train-3": 0}
    rig.finish()
    rig.run()
    assert "train-3" not in rig.places("train")
    assert rig.reason("train") == "no-hyper-node-fits"
    # Not before the seconds of F2 for a block.
    assert deletions(rig.step(5)) == {}
    assert deletions(rig.step(1)) == {"train-2": 0}
    rig.finish()
    rig.run()
    assert leaves(rig) == ["l0", "l0", "l2", "l2"]
    assert [rig.pods[name].uid == before[name] for name in sorted(before)] == [True, True, False, False]
    assert state_of(rig) in (None, State.HEALTHY)
    told = "\n".join(str(getattr(one, "message", "")) for one in rig.commands)
    assert "sub-group level: 1 pod of the sub-groups that lost pods is restarted" in told


def test_a_pod_returns_into_the_domain_of_its_sub_group() -> None:
    rig = running(HARD)
    node = rig.node_of("train-3")
    node_down(rig, node)
    rig.step()
    rig.finish()
    rig.run()
    rig.node(node)
    rig.step(1)
    rig.run()
    assert leaves(rig) == ["l0", "l0", "l1", "l1"]
    assert rig.deletions() == ["train-3"]


@pytest.mark.parametrize("topology", [None, NetworkTopology(soft=True)])
def test_without_a_topology_that_demands_it_a_pod_goes_anywhere(topology: NetworkTopology | None) -> None:
    rig = running(topology)
    node_down(rig, rig.node_of("train-3"))
    rig.step()
    rig.finish()
    rig.run()
    assert len(rig.nodes_of("train")) == 4
    assert rig.deletions() == ["train-3"]


@pytest.mark.parametrize(("groups", "restarts"), [(1, False), (2, True)])
def test_above_its_minimum_of_pods_and_sub_groups_nothing_healthy_is_restarted(
    groups: int, restarts: bool
) -> None:
    """F2: minAvailable pods run either way."""
    rig = running(HARD, groups=groups, least=2)
    node_down(rig, rig.node_of("train-3"))
    rig.step()
    rig.finish()
    rig.run()
    rig.step(6)
    assert rig.deletions() == (["train-3", "train-2"] if restarts else ["train-3"])


@pytest.mark.parametrize(
    ("topology", "tiers"),
    [
        (HARD, default_tiers()),
        (NetworkTopology(), TIERS),
        (NetworkTopology(highest_tier_name="unknown"), TIERS),
    ],
)
def test_a_topology_without_effect_restarts_no_sub_group(
    topology: NetworkTopology, tiers: tuple[Tier, ...]
) -> None:
    """M2: without the plugin, or without a limit, the clock goes on to the level of the job as for others."""
    rig = running(topology, nodes=4, tiers=tiers)
    node_down(rig, rig.node_of("train-3"))
    rig.step()
    rig.finish()
    rig.run()
    assert deletions(rig.step(6)) == {}
    assert sorted(deletions(rig.step(6))) == ["train-0", "train-1", "train-2"]
