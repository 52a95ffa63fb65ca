"""What domains have and use follows what is placed, and is never stale."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.framework.domain_loads import FULL, DomainLoads, FilledDomains, tier_shares
from ringwise.state.changes import RecentChanges
from ringwise.state.node_labels import members_of
from tests.builders.session_lab import Lab, cluster
from tests.builders.values import CHIP
from tests.examples import examples

NAMES = ("cpu", "memory", CHIP, "example.com/x")
WEIGHTS = {"cpu": 2, "memory": 1, CHIP: 1}
ASKED = (("cpu", 1_000), (CHIP, 1))


def lab() -> Lab:
    """Three leaves, two of them under p; n6 is in none."""
    made = cluster()
    for number in range(7):
        made.node(f"n{number}", cpu=8_000, memory=1 << 33, chips=8, extended={"example.com/x": 4})
    made.hyper_node("a", 1, "n0", "n1").hyper_node("b", 1, "n2", "n3").hyper_node("c", 1, "n4", "n5")
    return made.hyper_node("p", 2, "a", "b")


def fresh(made: Lab) -> tuple[dict[str, float], dict[int, int]]:
    """How full each domain gets, and the numbers of the nodes, counted anew."""
    loads = DomainLoads()
    loads.follow(made.state, made.state.hyper_forest(), NAMES)
    numbers = FilledDomains().numbers(loads, made.state.labels.existing, ASKED, WEIGHTS, 0.8)
    nodes = {node: numbers.of(node) for node in members_of(made.state.labels.existing)}
    return {name: loads.fill(name, dict(ASKED), WEIGHTS) for name in "abcp"}, nodes


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 3), st.sampled_from(["place", "undo", "end", "cordon"])),
        max_size=12,
    )
)
def test_sums_and_scores_follow_every_change(steps: list[tuple[int, int, str]]) -> None:
    made = lab()
    loads, filled = DomainLoads(), FilledDomains()
    for count, (node, size, what) in enumerate(steps):
        name = f"job-{count}"
        if what == "cordon":
            made.node(f"n{node}", cpu=8_000, memory=1 << 33, chips=8, cordoned=bool(size))
        else:
            made.job(name, cpu=500 * size, memory=size << 20, chips=size)
            mark = made.state.checkpoint()
            free = made.state.fleets[CHIP].free_mask[node] if size else 0
            chips = [chip for chip in range(8) if free >> chip & 1][:size]
            if len(chips) == size:
                made.state.place(f"{name}-0", node, sum(1 << chip for chip in chips))
            if what == "undo":
                made.state.rollback(mark)
            else:
                made.state.commit(mark)
            if what == "end":
                made.state.drop_pod(f"{name}-0")
        loads.follow(made.state, made.state.hyper_forest(), NAMES)
        numbers = filled.numbers(loads, made.state.labels.existing, ASKED, WEIGHTS, 0.8)
        fills, nodes = fresh(made)
        assert {one: loads.fill(one, dict(ASKED), WEIGHTS) for one in "abcp"} == fills
        assert {one: numbers.of(one) for one in nodes} == nodes


def test_scores_follow_a_change_of_the_domains() -> None:
    made = lab().job("full", pods=2, on=["n0", "n1"], cpu=8_000)
    loads, filled = DomainLoads(), FilledDomains()
    for domains in ((), ("n0", "n6"), ("n6",)):
        if domains:
            made.hyper_node("a", 1, *domains)
        loads.follow(made.state, made.state.hyper_forest(), NAMES)
        numbers = filled.numbers(loads, made.state.labels.existing, ASKED, WEIGHTS, 0.8)
        _, nodes = fresh(made)
        assert {one: numbers.of(one) for one in nodes} == nodes


@pytest.mark.parametrize("why", ["another resource", "many changes"])
def test_scores_follow_a_change_that_was_seen_when_all_was_counted_again(why: str) -> None:
    """For another request, or for a job with a network topology, which asks for no scores of nodes."""
    made = lab()
    loads, filled = DomainLoads(), FilledDomains()
    loads.follow(made.state, made.state.hyper_forest(), NAMES)
    filled.numbers(loads, made.state.labels.existing, ASKED, WEIGHTS, 0.8)
    made.job("full", pods=2, on=["n0", "n1"], cpu=8_000)
    if why == "many changes":
        # More than are remembered, of a node in no domain.
        for _ in range(3 * RecentChanges.MOST):
            made.state.refresh_node(6)
    names = (*NAMES, "example.com/y") if why == "another resource" else NAMES
    loads.follow(made.state, made.state.hyper_forest(), names)
    numbers = filled.numbers(loads, made.state.labels.existing, ASKED, WEIGHTS, 0.8)
    _, nodes = fresh(made)
    assert {one: numbers.of(one) for one in nodes} == nodes


def test_a_node_that_did_not_change_is_not_looked_at() -> None:
    made = lab()
    loads = DomainLoads()
    assert loads.follow(made.state, made.state.hyper_forest(), NAMES) == 6
    assert loads.follow(made.state, made.state.hyper_forest(), NAMES) == 0
    made.job("job", on="n2", cpu=1_000)
    assert loads.follow(made.state, made.state.hyper_forest(), NAMES) == 1


def test_a_full_domain_has_no_score_and_nodes_outside_the_highest() -> None:
    made = lab().job("full", pods=2, on=["n0", "n1"], cpu=8_000)
    fills, nodes = fresh(made)
    assert fills["a"] == 0
    assert nodes[6] == FULL == max(nodes.values())


def test_tiers_of_any_number_have_shares() -> None:
    assert tier_shares({1: 0, 2: 0}, 0.5) == {1: 2 / 3, 2: 1 / 3}
    assert tier_shares({1: 0, 2: 0}, 0.0) == {1: 1.0, 2: 0.0}
    assert tier_shares({2: 0, 3: 0}, 0.0) == {2: 0.0, 3: 0.0}
    assert sum(tier_shares({0: 0, 1: 0, 2**31: 0}, 0.8).values()) == 1.0
    assert tier_shares({1: 0, 2**31: 0}, 3.0) == {1: 0.0, 2**31: 1.0}
    assert tier_shares({}, 0.8) == {}
