"""The library and a plain search choose the same number of nodes per switch (S3 to S8, S11)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.placement.switches.classes import SwitchClass
from ringwise.placement.switches.planning import plan, plan_at_least
from ringwise.placement.switches.states import SwitchFacts, SwitchState
from ringwise.placement.switches.view import (
    SwitchPlan,
    SwitchRequest,
    SwitchSettings,
    SwitchView,
    TopologyView,
)
from tests.examples import examples
from tests.placement.switches import reference
from tests.placement.switches.reference import Case, Leaf

CLASSES = {
    "foundation": SwitchClass.FOUNDATION_MODEL,
    "common": SwitchClass.COMMON,
    "padding": SwitchClass.PADDING,
}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    width = draw(st.integers(1, 6))
    leaves = []
    for _ in range(draw(st.integers(1, 7))):
        state = draw(st.sampled_from(["idle", "idle", "shared", "shared", "exclusive"]))
        free = draw(st.sets(st.integers(0, width - 1)))
        if draw(st.booleans()):
            free = set(range(width))
        leaves.append(
            Leaf(
                tuple(sorted(free)),
                state,
                state != "shared" or draw(st.booleans()),
                state == "idle" or draw(st.booleans()),
                draw(st.integers(0, 2)),
                state != "idle" and draw(st.booleans()),
            )
        )
    job = draw(st.sampled_from(sorted(CLASSES)))
    most = 3 if job == "padding" else sum(len(leaf.free) for leaf in leaves) + 1
    pods = draw(st.integers(1, most))
    return Case(tuple(leaves), width, draw(st.integers(1, 2)), job, pods, draw(st.booleans()))


def view_of(case: Case, version: str, *, single_layer: bool = False) -> TopologyView:
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
        nodes = tuple(number * 100 + position for position in leaf.free)
        switches.append(SwitchView(f"leaf-{number}", nodes, leaf.free, facts))
    rules = SwitchSettings(version, case.limit, case.single_first)
    return TopologyView(tuple(switches), case.width, rules, single_layer)


def request_of(case: Case) -> SwitchRequest:
    return SwitchRequest(CLASSES[case.job], case.pods)


def per_switch(answer: SwitchPlan) -> dict[int, int]:
    counts: dict[int, int] = {}
    for node in answer.nodes:
        counts[node // 100] = counts.get(node // 100, 0) + 1
    return counts


def per_position(answer: SwitchPlan) -> dict[int, int]:
    counts: dict[int, int] = {}
    for node in answer.nodes:
        counts[node % 100] = counts.get(node % 100, 0) + 1
    return counts


@given(cases())
@settings(max_examples=examples(150))
def test_version2_equals_the_reference_S3_S4_S5_S6_S7(case: Case) -> None:
    expected = reference.version2(case)
    answer = plan(view_of(case, "2.0"), request_of(case))
    if expected is None:
        assert not isinstance(answer, SwitchPlan)
        return
    assert isinstance(answer, SwitchPlan), answer.message
    assert per_switch(answer) == expected[0]
    assert {entry.switch: entry.mark for entry in answer.entries} == expected[1]
    # Ranks follow switches: each switch has one unbroken run of them.
    assert len(answer.entries) == len(expected[1])


@given(cases())
@settings(max_examples=examples(150))
def test_version1_equals_the_reference_S8(case: Case) -> None:
    expected = reference.version1(case)
    answer = plan(view_of(case, "1.0"), request_of(case))
    if expected is None:
        assert not isinstance(answer, SwitchPlan)
        return
    assert isinstance(answer, SwitchPlan), answer.message
    assert (per_switch(answer), per_position(answer)) == expected
    assert len(set(answer.nodes)) == case.pods


@given(cases())
@settings(max_examples=examples(60))
def test_single_layer_equals_the_reference_S11(case: Case) -> None:
    expected = reference.single_layer(case)
    answer = plan(view_of(case, "1.0", single_layer=True), request_of(case))
    assert (per_switch(answer) if isinstance(answer, SwitchPlan) else None) == expected


@given(cases(), st.sampled_from(["1.0", "2.0"]))
@settings(max_examples=examples(100))
def test_a_refusal_names_the_largest_job_that_fits_S6_S8(case: Case, version: str) -> None:
    """The fix is true: that many pods are placed, one more is not."""
    view = view_of(case, version)
    answer = plan(view, request_of(case))
    if isinstance(answer, SwitchPlan):
        return
    assert "unknown)" not in " ".join((answer.message, *answer.fixes))
    # No switch is called so, and none of its name has 0 free nodes.
    assert "none" not in answer.message
    largest = answer.details.get("largest", answer.details.get("best_free"))
    assert isinstance(largest, int)
    assert largest < case.pods
    if largest:
        assert isinstance(plan(view, SwitchRequest(CLASSES[case.job], largest)), SwitchPlan)
    assert not isinstance(plan(view, SwitchRequest(CLASSES[case.job], largest + 1)), SwitchPlan)
    if "as a common job" in " ".join(answer.fixes):
        assert isinstance(plan(view, SwitchRequest(SwitchClass.COMMON, case.pods)), SwitchPlan)


@given(cases(), st.sampled_from(["1.0", "2.0"]), st.integers(1, 4))
@settings(max_examples=examples(60))
def test_the_largest_part_of_a_job_is_found_S10(case: Case, version: str, minimum: int) -> None:
    view = view_of(case, version)
    answer = plan_at_least(view, request_of(case), minimum)
    fitting = [
        pods
        for pods in range(min(minimum, case.pods), case.pods + 1)
        if isinstance(plan(view, SwitchRequest(CLASSES[case.job], pods)), SwitchPlan)
    ]
    found = len(answer.nodes) if isinstance(answer, SwitchPlan) else None
    assert found == (max(fitting) if fitting else None)


@pytest.mark.parametrize(
    ("counts", "needed", "chosen"),
    [
        ((3, 2, 2, 1), 4, {0: 3, 3: 1}),  # equal pairs: the one with the first switch
        ((2, 2, 4), 4, {0: 2, 1: 2}),  # equal totals: the pair
        ((1, 4), 4, {1: 4}),  # closer total: the single one
        ((5, 3, 2), 4, {1: 2, 2: 2}),  # 5 and 2 + 3 are equal: the pair, smaller switch first
    ],
)
def test_one_or_two_shared_switches_S4(counts: tuple[int, ...], needed: int, chosen: dict[int, int]) -> None:
    leaves = tuple(Leaf(tuple(range(count)), "shared") for count in counts)
    case = Case(leaves, 6, 2, "foundation", needed)
    answer = plan(view_of(case, "2.0"), request_of(case))
    assert isinstance(answer, SwitchPlan)
    assert per_switch(answer) == chosen
