"""Jobs whose pods differ: the library and a plain search choose the same nodes (S13)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ringwise.placement.matching import PodClasses
from ringwise.placement.switches.classes import SwitchClass
from ringwise.placement.switches.planning import plan, plan_at_least
from ringwise.placement.switches.positions import PodPosition
from ringwise.placement.switches.reschedule import reschedule
from ringwise.placement.switches.states import SwitchFacts, SwitchState
from ringwise.placement.switches.view import (
    SwitchPlan,
    SwitchRequest,
    SwitchSettings,
    SwitchView,
    TopologyView,
)
from ringwise.topology.superpods import NodeId
from tests.examples import examples
from tests.placement.switches import roles_reference as reference
from tests.placement.switches.plans import node_of_rank
from tests.placement.switches.roles_reference import RoleCase, RoleLeaf, Taken
from tests.placement.switches.test_reference import CLASSES

ROLES = 3


@st.composite
def cases(draw: st.DrawFn) -> RoleCase:
    width = draw(st.integers(1, 4))
    leaves = []
    role = st.frozensets(st.integers(0, ROLES - 1), min_size=1)
    for _ in range(draw(st.integers(1, 5))):
        state = draw(st.sampled_from(["idle", "idle", "shared", "shared", "exclusive"]))
        takes = draw(st.dictionaries(st.integers(0, width - 1), role, min_size=draw(st.integers(0, width))))
        leaves.append(
            RoleLeaf(
                takes,
                state,
                state != "shared" or draw(st.booleans()),
                state == "idle" or draw(st.booleans()),
                draw(st.integers(0, 2)),
                state != "idle" and draw(st.booleans()),
            )
        )
    job = draw(st.sampled_from(sorted(CLASSES)))
    roles = draw(st.lists(st.integers(0, ROLES - 1), min_size=1, max_size=3 if job == "padding" else 6))
    return RoleCase(
        tuple(leaves), width, draw(st.integers(1, 2)), job, tuple(roles), draw(st.integers(0, 3)) == 0
    )


def node_id(switch: int, position: int) -> int:
    return switch * 100 + position


def view_of(case: RoleCase, version: str, *, single_layer: bool = False) -> TopologyView:
    wanted = set(case.roles)
    switches = []
    for number, leaf in enumerate(case.leaves):
        facts = SwitchFacts(
            SwitchState[leaf.state.upper()],
            leaf.healthy,
            leaf.only_common,
            leaf.owner_shared,
            leaf.state != "idle",
            leaf.cross_model,
        )
        places = tuple(place for place in sorted(leaf.takes) if leaf.takes[place] & wanted)
        nodes = tuple(node_id(number, place) for place in places)
        switches.append(SwitchView(f"leaf-{number}", nodes, places, facts))
    rules = SwitchSettings(version, case.limit, case.single_first)
    return TopologyView(tuple(switches), case.width, rules, single_layer)


def request_of(case: RoleCase) -> SwitchRequest:
    masks: dict[NodeId, int] = {
        node_id(number, place): sum(1 << role for role in roles)
        for number, leaf in enumerate(case.leaves)
        for place, roles in leaf.takes.items()
    }
    classes = PodClasses(dict(enumerate(case.roles)), masks)
    return SwitchRequest(CLASSES[case.job], len(case.roles), classes)


def compare(case: RoleCase, version: str, model: Callable[[RoleCase], Taken | None], **more: bool) -> None:
    expected = model(case)
    answer = plan(view_of(case, version, **more), request_of(case))
    if expected is None:
        assert not isinstance(answer, SwitchPlan)
        return
    assert isinstance(answer, SwitchPlan), answer.message
    counted: dict[int, int] = {}
    for nodes, count, _ in expected:
        if count:
            switch = nodes[0][0] if len({node[0] for node in nodes}) == 1 else -1
            counted[switch] = counted.get(switch, 0) + count
    if -1 not in counted:
        found: dict[int, int] = {}
        for entry in answer.entries:
            found[entry.switch] = found.get(entry.switch, 0) + len(entry.nodes)
        assert found == counted
        if version == "2.0" and not more:
            marks = {nodes[0][0]: mark for nodes, count, mark in expected if count}
            assert {entry.switch: entry.mark for entry in answer.entries} == marks
        ranks = reference.by_rank(case, expected)
        assert node_of_rank(answer) == {rank: node_id(*node) for rank, node in enumerate(ranks)}
    else:
        used = {node_id(*node) for nodes, _, _ in expected for node in nodes}
        assert set(answer.nodes) <= used


#: One switch holds both pods, and so do two others with as many nodes in all.
EQUAL_TOTALS = RoleCase(
    tuple(
        RoleLeaf(takes, "shared")
        for takes in (
            {0: frozenset({0, 1}), 1: frozenset({0, 1})},
            {0: frozenset({0})},
            {0: frozenset({1})},
        )
    ),
    width=4,
    limit=2,
    job="common",
    roles=(0, 1),
)


@example(EQUAL_TOTALS)
@given(cases())
@settings(max_examples=examples(100))
def test_version2_equals_the_reference_S13(case: RoleCase) -> None:
    compare(case, "2.0", reference.version2)


@given(cases())
@settings(max_examples=examples(60))
def test_version1_equals_the_reference_S13(case: RoleCase) -> None:
    compare(case, "1.0", reference.version1)


@given(cases())
@settings(max_examples=examples(50))
def test_single_layer_equals_the_reference_S13(case: RoleCase) -> None:
    compare(case, "1.0", reference.single_layer, single_layer=True)


@given(cases(), st.sampled_from(["1.0", "2.0"]))
@settings(max_examples=examples(60))
def test_every_pod_gets_a_node_of_its_own_that_it_can_take_S13(case: RoleCase, version: str) -> None:
    request = request_of(case)
    answer = plan(view_of(case, version), request)
    if not isinstance(answer, SwitchPlan):
        return
    assert request.classes is not None
    placed = node_of_rank(answer)
    assert sorted(placed) == list(range(len(case.roles)))
    assert len(set(placed.values())) == len(placed)
    for rank, node in placed.items():
        assert request.classes.of_node[node] >> case.roles[rank] & 1


@given(cases(), st.sampled_from(["1.0", "2.0"]), st.booleans())
@settings(max_examples=examples(50))
def test_pods_that_can_take_everything_are_placed_like_equal_pods_S13(
    case: RoleCase, version: str, single: bool
) -> None:
    everything = frozenset(range(ROLES))
    leaves = tuple(replace(leaf, takes=dict.fromkeys(leaf.takes, everything)) for leaf in case.leaves)
    case = replace(case, leaves=leaves)
    view = view_of(case, version, single_layer=single)
    matched = plan(view, request_of(case))
    counted = plan(view, replace(request_of(case), classes=None))
    if not isinstance(counted, SwitchPlan):
        assert not isinstance(matched, SwitchPlan)
        assert matched.code == counted.code
        return
    assert isinstance(matched, SwitchPlan)
    assert node_of_rank(matched) == node_of_rank(counted)
    assert [(e.switch, e.mark, e.state, e.healthy) for e in matched.entries] == [
        (e.switch, e.mark, e.state, e.healthy) for e in counted.entries
    ]


@given(cases(), st.sampled_from(["1.0", "2.0"]))
@settings(max_examples=examples(50))
def test_a_refusal_names_the_largest_job_that_fits_S13(case: RoleCase, version: str) -> None:
    view, request = view_of(case, version), request_of(case)
    answer = plan(view, request)
    if isinstance(answer, SwitchPlan):
        return
    largest = answer.details.get("largest", answer.details.get("best_free"))
    assert isinstance(largest, int)
    fitting = [
        pods
        for pods in range(1, len(case.roles) + 1)
        if isinstance(plan(view, replace(request, pods=pods)), SwitchPlan)
    ]
    assert fitting == list(range(1, largest + 1))
    part = plan_at_least(view, request, 1)
    assert (len(part.nodes) if isinstance(part, SwitchPlan) else 0) == largest
    if "as a common job" in " ".join(answer.fixes):
        assert isinstance(plan(view, replace(request, job_class=SwitchClass.COMMON)), SwitchPlan)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@given(case=cases(), data=st.data())
@settings(max_examples=examples(30))
def test_replaced_pods_get_nodes_that_they_can_take_S9_S13(
    version: str, case: RoleCase, data: st.DataObject
) -> None:
    """Lose some pods of a placed job: the others keep their nodes, the lost ones get fitting ones."""
    view, request = view_of(case, version), request_of(case)
    answer = plan(view, request)
    if not isinstance(answer, SwitchPlan) or len(case.roles) < 2 or request.classes is None:
        return
    placed = node_of_rank(answer)
    lost = data.draw(st.sets(st.sampled_from(sorted(placed)), min_size=1, max_size=len(placed) - 1))
    marks = {node: entry.mark for entry in answer.entries for node in entry.nodes}

    def position(rank: int) -> PodPosition:
        node = placed[rank]
        return PodPosition(rank, node // 100, node % 100, marks[node])

    kept = {placed[rank] for rank in placed if rank not in lost}
    switches = tuple(
        replace(
            switch,
            free=tuple(node for node in switch.free if node not in kept),
            positions=tuple(node % 100 for node in switch.free if node not in kept),
        )
        for switch in view.switches
    )
    classes = PodClasses({rank: case.roles[rank] for rank in lost}, request.classes.of_node)
    again = reschedule(
        TopologyView(switches, view.nodes_per_switch, view.settings),
        replace(request, classes=classes),
        [position(rank) for rank in placed if rank not in lost],
        [position(rank) for rank in sorted(lost)],
    )
    if not isinstance(again, SwitchPlan):
        # Their own nodes are free again; only limits of other jobs' switches and rows can refuse.
        assert again.code in ("replacement-over-limit", "replacement-position-taken")
        return
    found = node_of_rank(again)
    assert set(found) == lost
    assert len(set(found.values())) == len(lost)
    for rank, node in found.items():
        assert node not in kept
        assert classes.of_node[node] >> case.roles[rank] & 1
