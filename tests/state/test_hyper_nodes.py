"""HyperNodes become trees of domains; a wrong one is told and hurts no other."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.manifests.text.name_expressions import NameExpressions
from ringwise.state import hyper_nodes
from ringwise.state.cluster import ClusterState
from ringwise.state.hyper_nodes import NO_TIER, Forest
from ringwise.state.model import HyperNode, HyperNodeMember, NetworkTopology, Node, Requirement
from ringwise.state.node_labels import members_of
from tests.builders.values import hyper_node
from tests.examples import examples


def matching(name: str, *patterns: str, tier: int = 1) -> HyperNode:
    return HyperNode(name, tier, tuple(HyperNodeMember(pattern=pattern) for pattern in patterns))


def labeled(name: str, *requirements: Requirement, tier: int = 1) -> HyperNode:
    return HyperNode(name, tier, (HyperNodeMember(selector=requirements),))


def state_of(nodes: int, *objects: HyperNode) -> ClusterState:
    state = ClusterState(compile_expressions=NameExpressions)
    for number in range(nodes):
        state.put_node(Node(f"n{number}", labels={"rack": f"r{number // 2}"}))
    for one in objects:
        state.hyper_nodes.put(one)
    return state


def forest(*objects: HyperNode, nodes: int = 8) -> Forest:
    return state_of(nodes, *objects).hyper_forest()


def drawn(trees: Forest) -> dict[str, tuple[str, list[int]]]:
    """By domain: its parent and its nodes."""
    return {one.name: (one.parent, members_of(one.nodes)) for one in trees.domains.values()}


def told(trees: Forest) -> dict[str, list[str]]:
    return {name: [problem.kind.value for problem in found] for name, found in trees.problems.items()}


GOOD = (hyper_node("s0", 1, "n0", "n1"), hyper_node("s1", 1, "n2", "n3"), hyper_node("s4", 2, "s0", "s1"))
GOOD_DRAWN = {"s0": ("s4", [0, 1]), "s1": ("s4", [2, 3]), "s4": ("", [0, 1, 2, 3])}


def test_a_tree() -> None:
    trees = forest(*reversed(GOOD))
    assert drawn(trees) == GOOD_DRAWN
    assert not trees.problems
    assert [one.name for one in trees.tops] == ["s4"]
    assert {tier: [one.name for one in same] for tier, same in trees.by_tier.items()} == {
        1: ["s0", "s1"],
        2: ["s4"],
    }
    assert trees.domains["s0"].top == "s4"
    assert trees.domains["s4"].children == ("s0", "s1")
    assert [one.name for one in trees.ancestors("s0")] == ["s4"]
    assert [one.name for one in trees.domains_below("s4")] == ["s0", "s1"]
    found = trees.leaf_of(3)
    assert found is not None
    assert found.name == "s1"
    assert trees.leaf_of(5) is None


@pytest.mark.parametrize(
    ("nodes", "name"),
    [(0b0001, "s0"), (0b0011, "s0"), (0b0110, "s4"), (0b10000, None), (0b10001, None), (0, None)],
)
def test_the_lowest_domain_that_holds_nodes(nodes: int, name: str | None) -> None:
    found = forest(*GOOD).holding(nodes)
    assert (found.name if found else None) == name


@pytest.mark.parametrize(
    ("wrong", "problems", "more"),
    [
        pytest.param(
            [
                hyper_node("a", 3, "b"),
                hyper_node("b", 2, "c", "z"),
                hyper_node("c", 4, "a"),
                hyper_node("z", 1, "n7"),
            ],
            {"b": ["circle"]},
            {"c": ("", [7]), "a": ("c", [7]), "b": ("a", [7]), "z": ("b", [7])},
            id="circle: the member whose tier is not below does not count",
        ),
        pytest.param(
            [hyper_node("a", 3, "a", "z"), hyper_node("z", 1, "n7")],
            {"a": ["circle"]},
            {"a": ("", [7]), "z": ("a", [7])},
            id="member of itself",
        ),
        pytest.param(
            [hyper_node("a", 3, "b"), hyper_node("b", 3, "a")],
            {"a": ["tier-order"], "b": ["tier-order"]},
            {"a": ("", []), "b": ("", [])},
            id="circle on one tier",
        ),
        pytest.param(
            [hyper_node("p10", 2, "c"), hyper_node("p9", 2, "c"), hyper_node("c", 1, "n7")],
            {"p10": ["two-parents"], "c": ["two-parents"]},
            {"c": ("p9", [7]), "p9": ("", [7]), "p10": ("", [])},
            id="two parents: the first in natural order",
        ),
        pytest.param(
            [hyper_node("p", 2, "c", "gone"), hyper_node("c", 1, "n7")],
            {"p": ["missing-member"]},
            {"c": ("p", [7]), "p": ("", [7])},
            id="missing member",
        ),
        pytest.param(
            [hyper_node("p", 2, "c", "d"), hyper_node("c", 2, "n7", of_nodes=True), hyper_node("d", 1, "n6")],
            {"p": ["tier-order"]},
            {"c": ("", [7]), "d": ("p", [6]), "p": ("", [6])},
            id="tier not below",
        ),
        pytest.param(
            [hyper_node("p", 2, "c", "d"), hyper_node("c", 1, "n7", "n6"), hyper_node("d", 1, "n6", "n5")],
            {"d": ["overlapping-nodes"]},
            {"c": ("p", [6, 7]), "p": ("", [6, 7])},
            id="overlap: the later name goes",
        ),
        pytest.param(
            [matching("z-all", "n")],
            {"z-all": ["overlapping-nodes"]},
            {},
            id="overlap with several",
        ),
        pytest.param(
            [
                hyper_node("c", 1, "n7", "n6"),
                hyper_node("d", 1, "n6", "n5"),
                hyper_node("e", 1, "n5"),
                hyper_node("p", 2, "c", "d", "e"),
            ],
            {"d": ["overlapping-nodes"]},
            {"c": ("p", [6, 7]), "e": ("p", [5]), "p": ("", [5, 6, 7])},
            id="what overlaps with an ignored one counts",
        ),
        pytest.param(
            [
                hyper_node("c", 2, "n7", of_nodes=True),
                HyperNode("a", 3, (HyperNodeMember(True, "c"), HyperNodeMember(name="n7"))),
                hyper_node("d", 1, "n7"),
            ],
            {"d": ["overlapping-nodes"]},
            {"a": ("", [7]), "c": ("a", [7])},
            id="overlap with one below another that has the node",
        ),
        pytest.param(
            [
                HyperNode(
                    "a",
                    3,
                    (HyperNodeMember(True, "c"), HyperNodeMember(True, "d"), HyperNodeMember(name="n7")),
                ),
                hyper_node("c", 1, "n7"),
                hyper_node("d", 1, "n7", "n6"),
            ],
            {"d": ["overlapping-nodes"]},
            {"a": ("", [7]), "c": ("a", [7])},
            id="overlap of two below one that has the node",
        ),
        pytest.param(
            [hyper_node("c", 2, "n7", of_nodes=True), hyper_node("d", 1, "n7")],
            {"d": ["overlapping-nodes"]},
            {"c": ("", [7])},
            id="overlap on different tiers",
        ),
        pytest.param(
            [
                HyperNode("p", 2, (HyperNodeMember(True, "c"), HyperNodeMember(name="n7"))),
                hyper_node("c", 1, "n7"),
            ],
            {},
            {"p": ("", [7]), "c": ("p", [7])},
            id="a parent may name the nodes of its members",
        ),
        pytest.param(
            [
                hyper_node("p", 3, "bad"),
                HyperNode("bad", 2, (HyperNodeMember(pattern="("), HyperNodeMember(True, "c"))),
                hyper_node("c", 1, "n7"),
            ],
            {"bad": ["bad-expression"]},
            {"p": ("", [7]), "c": ("p", [7])},
            id="bad expression: what is below it counts as below its parent",
        ),
        pytest.param([matching("e", "(?=n)")], {"e": ["bad-expression"]}, {}, id="not in Go"),
        pytest.param([labeled("e")], {"e": ["empty-selector"]}, {"e": ("", [])}, id="empty selector"),
        pytest.param(
            [HyperNode("e", 2, (HyperNodeMember(True, pattern="s"), HyperNodeMember(True, selector=())))],
            {"e": ["member-selector"]},
            {"e": ("", [])},
            id="HyperNodes by expression",
        ),
        pytest.param(
            [hyper_node("e", 1, "n7", "n99")], {"e": ["missing-node"]}, {"e": ("", [7])}, id="missing node"
        ),
        pytest.param([matching("e", "x")], {"e": ["no-nodes"]}, {"e": ("", [])}, id="no node"),
        pytest.param(
            [
                hyper_node("l", 1, "n7", tier_name="t"),
                hyper_node("m", 2, "l", tier_name="t"),
                hyper_node("h", 3, "m", tier_name="u"),
            ],
            {"m": ["tier-name"]},
            {"l": ("m", [7]), "m": ("h", [7]), "h": ("", [7])},
            id="a name for two tiers",
        ),
    ],
)
def test_a_wrong_one_is_told_and_ignored_by_itself(
    wrong: list[HyperNode], problems: dict[str, list[str]], more: dict[str, tuple[str, list[int]]]
) -> None:
    for objects in ((*GOOD, *wrong), (*reversed(wrong), *GOOD)):
        trees = forest(*objects)
        assert told(trees) == problems
        assert drawn(trees) == {**GOOD_DRAWN, **more}


def test_members_by_expression_and_labels() -> None:
    trees = forest(
        matching("a", "^n[01]$", "2"),
        labeled("b", Requirement("rack", "In", ("r2",))),
        labeled("c", Requirement("rack", "NotIn", ("r0", "r1", "r2"))),
    )
    assert drawn(trees) == {"a": ("", [0, 1, 2]), "b": ("", [4, 5]), "c": ("", [6, 7])}


def test_the_expressions_of_all_hyper_nodes_together_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hyper_nodes, "MAX_CHARACTERS", 4)
    trees = forest(matching("a", "n1"), matching("b", "n1", "n2"), matching("c", "n3"), nodes=4)
    assert told(trees) == {"c": ["bad-expression"], "b": ["overlapping-nodes"]}
    assert drawn(trees) == {"a": ("", [1])}


def test_a_name_is_searched_once_while_the_expressions_stay_the_same() -> None:
    searched: list[str] = []

    class Counting(NameExpressions):
        def matching(self, name: str) -> list[str]:
            searched.append(name)
            return super().matching(name)

    state = ClusterState(compile_expressions=Counting)
    state.put_node(Node("n1"))
    state.put_node(Node("n2"))
    state.hyper_nodes.put(matching("a", "n1"))
    assert drawn(state.hyper_forest()) == {"a": ("", [0])}
    state.put_node(Node("n10"))
    state.drop_node("n2")
    assert drawn(state.hyper_forest()) == {"a": ("", [0, 2])}
    assert searched == ["n1", "n2", "n10"]
    state.hyper_nodes.put(matching("a", "n10"))
    assert drawn(state.hyper_forest()) == {"a": ("", [2])}
    assert searched[3:] == ["n1", "n10"]


def test_expressions_do_not_count_where_nothing_compiles_them() -> None:
    state = ClusterState()
    state.put_node(Node("n1"))
    state.hyper_nodes.put(matching("a", "n1"))
    assert told(state.hyper_forest()) == {"a": ["bad-expression"]}


def test_tier_names_inside_their_tree() -> None:
    trees = forest(
        hyper_node("a0", 1, "n0", tier_name="leaf"),
        hyper_node("a1", 2, "a0", tier_name="spine"),
        hyper_node("b0", 1, "n1", tier_name="leaf"),
        hyper_node("b1", 2, "b0", tier_name="middle"),
        hyper_node("b2", 3, "b1", tier_name="spine"),
        hyper_node("c0", 1, "n2"),
    )
    spine = NetworkTopology(highest_tier_name="spine")
    assert {top: trees.highest_tier(spine, top) for top in ("a1", "b2", "c0")} == {
        "a1": 2,
        "b2": 3,
        "c0": NO_TIER,
    }
    assert trees.highest_tier(NetworkTopology(highest_tier_name="other"), "a1") is None
    assert trees.highest_tier(NetworkTopology(highest_tier=7), "a1") == 7
    assert trees.highest_tier(NetworkTopology(), "a1") is None
    assert not trees.problems


def test_a_name_for_two_tiers_refers_to_the_lower_one() -> None:
    trees = forest(
        hyper_node("a", 1, "n0", tier_name="t"),
        hyper_node("b", 2, "a", tier_name="t"),
    )
    assert trees.highest_tier(NetworkTopology(highest_tier_name="t"), "b") == 1


def test_it_is_built_again_only_when_something_it_depends_on_changes() -> None:
    state = state_of(4, labeled("a", Requirement("rack", "In", ("r0",))), matching("b", "n[23]"))
    first = state.hyper_forest()
    state.put_node(Node("n0", labels={"rack": "r0", "heartbeat": "1"}))
    state.put_node(Node("n3", labels={"heartbeat": "2"}))
    state.hyper_nodes.put(HyperNode("b", 1, (HyperNodeMember(pattern="n[23]"),), node_count=2))
    assert state.hyper_forest() is not first, "n3 lost its rack"
    second = state.hyper_forest()
    state.put_node(Node("n3", labels={"heartbeat": "3"}))
    assert state.hyper_forest() is second
    state.put_node(Node("n1", labels={"rack": "r7"}))
    assert drawn(state.hyper_forest()) == {"a": ("", [0]), "b": ("", [2, 3])}
    state.drop_node("n2")
    assert drawn(state.hyper_forest())["b"] == ("", [3])
    state.put_node(Node("n2-again"))
    assert drawn(state.hyper_forest())["b"] == ("", [2, 3])
    assert state.hyper_nodes.drop("b")
    assert list(state.hyper_forest().domains) == ["a"]
    assert state.hyper_nodes.drop("a")
    assert not state.hyper_forest().domains


_NAMES = [f"h{number}" for number in range(6)]
_MEMBER = st.builds(HyperNodeMember, st.just(True), st.sampled_from(_NAMES)) | st.builds(
    HyperNodeMember, name=st.sampled_from(["n0", "n1", "n2", "n3"])
)


@settings(max_examples=examples(100))
@given(
    st.lists(
        st.builds(
            HyperNode, st.sampled_from(_NAMES), st.integers(0, 3), st.lists(_MEMBER, max_size=4).map(tuple)
        ),
        unique_by=lambda one: one.name,
    ),
)
def test_whatever_is_written_the_trees_are_trees(objects: list[HyperNode]) -> None:
    trees = forest(*objects, nodes=4)
    assert drawn(trees) == drawn(forest(*reversed(objects), nodes=4))
    domains = list(trees.domains.values())
    for one in domains:
        if one.parent:
            parent = trees.domains[one.parent]
            assert one.tier < parent.tier
            assert not one.nodes & ~parent.nodes
            assert one.name in parent.children
            assert one.top == parent.top
        related = {other.name for other in (*trees.ancestors(one.name), *trees.domains_below(one.name))}
        assert not any(
            one.nodes & other.nodes for other in domains if other is not one and other.name not in related
        )
    ignored = {name for name, found in trees.problems.items() if any(problem.ignored for problem in found)}
    assert ignored | set(trees.domains) == {one.name for one in objects}
    assert not ignored & set(trees.domains)
