"""Jobs all pods of which differ: the steps of the search grow with the pods, and not faster (S13, P8)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ringwise.placement.matching import PodClasses
from ringwise.placement.racks.model import RackRequest, RackShape
from ringwise.placement.racks.selection import select
from ringwise.placement.superpods.blocks import BlockPlan, Free
from ringwise.placement.superpods.differing import BlockPods
from ringwise.placement.superpods.packing import BlockRequest, SuperPodSettings
from ringwise.placement.superpods.packing import plan as pack
from ringwise.placement.switches.classes import SwitchClass
from ringwise.placement.switches.planning import plan
from ringwise.placement.switches.view import (
    SwitchPlan,
    SwitchRequest,
    SwitchSettings,
    SwitchView,
    TopologyView,
)
from ringwise.reasons import Reason
from ringwise.topology.superpods import NodeId, SuperPodId
from tests.examples import sample

SMALL, LARGE = 144, 1_152
Masks = dict[NodeId, int]
Nodes = Callable[[int], Masks]


def pinned(pods: int) -> Masks:
    """A node for each pod, and nodes for none."""
    return {node: 1 << node if node < pods else 0 for node in range(2 * pods)}


def scattered(pods: int) -> Masks:
    """The same, with neighboring ranks far from each other."""
    return {**dict.fromkeys(range(2 * pods), 0), **{pod * 11 % (2 * pods): 1 << pod for pod in range(pods)}}


def repelled(pods: int) -> Masks:
    """Each pod can take every node but two."""
    return {node: ((1 << pods) - 1) & ~(1 << node % pods) for node in range(2 * pods)}


def chained(pods: int) -> Masks:
    """Two nodes for each pod, each of them the second of another."""
    return {node: 1 << node % pods | 1 << (node + 1) % pods for node in range(pods)}


class Steps:
    def __init__(self) -> None:
        self.count = 0

    def spend(self, steps: int) -> None:
        self.count += steps


def in_switches(pods: int, masks: Masks, steps: Steps, version: str, width: int, single: bool = False) -> int:
    switches = []
    for start in range(0, len(masks), width):
        free = tuple(node for node in range(start, min(len(masks), start + width)) if masks[node])
        switches.append(SwitchView(f"leaf-{start}", free, tuple(node - start for node in free)))
    view = TopologyView(tuple(switches), width, SwitchSettings(version), single)
    classes = PodClasses({rank: rank for rank in range(pods)}, masks, steps.spend)
    answer = plan(view, SwitchRequest(SwitchClass.FOUNDATION_MODEL, pods, classes))
    return len(answer.nodes) if isinstance(answer, SwitchPlan) else 0


def in_superpods(pods: int, masks: Masks, steps: Steps, soft: bool) -> int:
    free: dict[SuperPodId, Free] = {
        start // 48: [node for node in range(start, min(len(masks), start + 48)) if masks[node]]
        for start in range(0, len(masks), 48)
    }
    blocks = {block: range(block * 8, block * 8 + 8) for block in range(pods // 8)}
    answer = pack(
        free,
        BlockRequest(8, pods // 8, soft=soft, pods=BlockPods(blocks, masks, steps.spend)),
        SuperPodSettings(48, 2),
    )
    return sum(block.size for block in answer.blocks) if isinstance(answer, BlockPlan) else 0


def in_racks(pods: int, masks: Masks, steps: Steps, soft: bool) -> int:
    free: dict[SuperPodId, dict[int, list[NodeId]]] = {}
    for node in range(len(masks)):
        rack = free.setdefault(node // 64, {}).setdefault(node % 64 // 8, [])
        if masks[node]:
            rack.append(node)
    classes = PodClasses({rank: rank for rank in range(pods)}, masks, steps.spend)
    request = RackRequest(RackShape(8, 4, pods // 8), tuple(range(pods // 8)), soft=soft, classes=classes)
    answer = select(free, request, 64)
    return 0 if isinstance(answer, Reason) else sum(len(block.slots) for block in answer)


PLANS: dict[str, Callable[[int, Masks, Steps], int]] = {
    "version 2.0": lambda pods, masks, steps: in_switches(pods, masks, steps, "2.0", 32),
    "version 1.0": lambda pods, masks, steps: in_switches(pods, masks, steps, "1.0", 32),
    "single layer": lambda pods, masks, steps: in_switches(pods, masks, steps, "2.0", 2 * pods, True),
    "SuperPoDs": lambda pods, masks, steps: in_superpods(pods, masks, steps, False),
    "fragments of SuperPoDs": lambda pods, masks, steps: in_superpods(pods, masks, steps, True),
    "racks": lambda pods, masks, steps: in_racks(pods, masks, steps, False),
    "fragments of racks": lambda pods, masks, steps: in_racks(pods, masks, steps, True),
}
#: Neighboring ranks make blocks, which cannot be pinned to nodes that are far from each other.
IN_BLOCKS = ("SuperPoDs", "racks")


@pytest.mark.parametrize(
    ("name", "nodes"),
    sample(
        [
            (name, nodes)
            for name in PLANS
            for nodes in (pinned, scattered, repelled, chained)
            if name not in IN_BLOCKS or nodes is not scattered
        ],
        3,
    ),
)
def test_a_pod_costs_few_steps_and_not_more_in_a_large_job_P8_S13(name: str, nodes: Nodes) -> None:
    taken = []
    for pods in (SMALL, LARGE):
        steps = Steps()
        assert PLANS[name](pods, nodes(pods), steps) == pods
        taken.append(steps.count / pods)
    small, large = taken
    assert large <= 3 * small
    assert large <= 400


@pytest.mark.parametrize("name", IN_BLOCKS)
def test_a_job_that_finds_no_place_costs_few_steps_too_P8_S13(name: str) -> None:
    for pods in (SMALL, LARGE):
        steps = Steps()
        assert PLANS[name](pods, scattered(pods), steps) == 0
        assert steps.count <= 1_000 * pods


class EnoughError(Exception):
    """What the caller's counter raises."""


class Limited(Steps):
    def spend(self, steps: int) -> None:
        super().spend(steps)
        if self.count > 300:
            raise EnoughError


@pytest.mark.parametrize("name", PLANS)
def test_a_search_ends_when_its_caller_has_counted_enough_steps(name: str) -> None:
    with pytest.raises(EnoughError):
        PLANS[name](SMALL, pinned(SMALL), Limited())
