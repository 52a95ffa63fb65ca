"""Nodes that are preferred: the chosen one is what a look at every node finds, and costs no such look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ringwise.framework import preferred_nodes
from ringwise.framework.budget import NamespaceSteps, StepBudget
from ringwise.framework.configuration import Settings
from ringwise.framework.gangs.gang_placement import node_preferences, place_gang
from ringwise.framework.node_selection import BOARD_WEIGHT, NodeSelection, SelectedNode
from ringwise.framework.preferred_nodes import PreferredNodes, scored_nodes
from ringwise.framework.reasons import RESOURCE_NOT_OFFERED
from ringwise.framework.selectors import domain_of
from ringwise.framework.statement import Allocation
from ringwise.plugins.nodeorder import NODE_AFFINITY, POD_AFFINITY
from ringwise.reasons import Reason
from ringwise.state import cluster as cluster_state
from ringwise.state import index
from ringwise.state.model import NodeTerm, Pod, PodClass, PodTerm, Requirement
from ringwise.state.node_labels import members_of, node_set
from ringwise.state.node_weights import NodeWeights
from tests.builders.session_lab import Lab, cluster
from tests.builders.values import pod, pod_class
from tests.framework.term_matching import matches_pod

HOST, ZONE = "kubernetes.io/hostname", "zone"
NODES = 12
SETS = st.sets(st.integers(0, NODES - 1)).map(node_set)
ALL = (1 << NODES) - 1


# -- numbers of nodes ------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(-40, 40), SETS)), SETS)
def test_numbers_of_nodes_are_the_sums_of_what_was_added(added: list[tuple[int, int]], asked: int) -> None:
    numbers, plain = NodeWeights(ALL), dict.fromkeys(range(NODES), 0)
    for weight, nodes in added:
        numbers.add(weight, nodes)
        for node in members_of(nodes):
            plain[node] += weight
        assert {node: numbers.of(node) for node in plain} == plain
    twice = NodeWeights(ALL)
    twice.add(5, asked)
    twice.add_times(-2, numbers)
    for node, number in plain.items():
        assert twice.of(node) == 5 * (asked >> node & 1) - 2 * number
    if asked:
        there = {node: plain[node] for node in members_of(asked)}
        highest = max(there.values())
        best = node_set(node for node, number in there.items() if number == highest)
        assert numbers.highest(asked) == (highest, best)
        assert numbers.lowest(asked) == min(there.values())
        halves = numbers.split(asked)
        assert (halves is None) is (len(set(there.values())) == 1)
        if halves is not None:
            high, low = halves
            assert high | low == asked
            assert not high & low
            assert numbers.lowest(high) > numbers.highest(low)[0]


@given(
    st.lists(st.lists(st.integers(-3, 3), min_size=NODES, max_size=NODES), min_size=1, max_size=3),
    SETS,
    st.sampled_from([-4.0, 0.0, 2.5, float("inf")]),
    st.sampled_from([0, 1]),
)
# Nodes that have the same sum of different scores.
@example([[1, 0] * 6, [0, 1] * 6], ALL, float("inf"), 0)
@example([[1, 0] * 6, [0, 1] * 6], ALL, float("inf"), 1)
def test_the_best_of_a_set_is_found_by_halves(
    parts: list[list[int]], asked: int, limit: float, few: int
) -> None:
    """Where scores contradict each other, too: the best node need not have the best score of any part."""
    scored = [
        scored_nodes({node: 10.0 * number / (1 + place // 2) for node, number in enumerate(numbers)}, ALL)
        for place, numbers in enumerate(parts)
    ]
    preferred = PreferredNodes(scored, ALL, StepBudget())
    keys = {node: -1.5 - preferred.extra(node) for node in members_of(asked)}
    for node in keys:
        wanted = sum(10 * numbers[node] / (1 + place // 2) for place, numbers in enumerate(parts))
        assert preferred.extra(node) == pytest.approx(wanted)
        assert preferred.extra(node) <= preferred.most()
    lowest = min(keys.values(), default=float("inf"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preferred_nodes, "_FEW", few)
        patch.setattr(preferred_nodes, "_SHARE", few)
        found = preferred.best(asked, 1.5, limit) if asked else None
    if not asked or lowest > limit:
        assert found is None
    else:
        assert found == (lowest, node_set(node for node, key in keys.items() if key == lowest))


def runs(name: str, node: str, app: str) -> Pod:
    return pod(name, 0, on=node, phase="Running", labels={"app": app})


# -- gangs -----------------------------------------------------------------------------------

VALUES = st.sampled_from(["a", "b", "c"])
NODE_TERMS = st.one_of(
    st.builds(
        lambda key, operator, values: NodeTerm((Requirement(key, operator, tuple(values)),)),
        st.sampled_from([ZONE, "rack"]),
        st.sampled_from(["In", "NotIn"]),
        st.lists(VALUES, min_size=1, max_size=2, unique=True),
    ),
    st.builds(
        lambda operator, names: NodeTerm(fields=(Requirement("metadata.name", operator, tuple(names)),)),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from([f"n{number}" for number in range(NODES)]), min_size=1, max_size=6),
    ),
)
POD_TERMS = st.lists(
    st.builds(
        lambda key, app, weight: PodTerm(key, (Requirement("app", "In", (app,)),), (), weight),
        st.sampled_from([ZONE, HOST, "rack"]),
        VALUES,
        st.integers(1, 9),
    ),
    max_size=2,
).map(tuple)
CLASSES = st.builds(
    pod_class,
    cpu=st.sampled_from([1, 2]),
    chips=st.sampled_from([1, 8]),
    node_terms=st.lists(NODE_TERMS, max_size=1).map(tuple),
    preferred_nodes=st.lists(st.tuples(st.integers(1, 9), NODE_TERMS), max_size=3).map(tuple),
    preferred_pod_affinity=POD_TERMS,
    preferred_pod_anti_affinity=POD_TERMS,
)
PLACES = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from([8, 8, 16]),
        "chips": st.just(8),
        "labels": st.dictionaries(st.sampled_from([ZONE, "rack"]), VALUES),
    }
)


def look_at_all(
    lab: Lab, selection: NodeSelection, pod: Pod, combination: str, left: Sequence[int], avoided: set[int]
) -> int | None:
    """The best node, with its scores computed from the specification of the pod."""
    cls, state = pod.cls, lab.state
    there = [(record.pod, record.node) for record in state.pods.values() if record.node >= 0]
    terms = [(term, term.weight) for term in cls.preferred_pod_affinity]
    terms += [(term, -term.weight) for term in cls.preferred_pod_anti_affinity]

    def near(node: int) -> int:
        return sum(
            weight
            for term, weight in terms
            if (domain := domain_of(state, node, term.topology_key)) is not None
            for one, where in there
            if domain_of(state, where, term.topology_key) == domain and matches_pod(term, "default", one)
        )

    raw = {node: near(node) for node in state.existing_nodes()}
    spread = max(0, *raw.values()) - min(0, *raw.values())
    total = sum(weight for weight, _ in cls.preferred_nodes)
    by_class = cls.preferred_keys is not None and cls.preferred_keys <= state.shapes.watched
    ranked = []
    for node in left:
        shape = state.shape_of(node)
        if node in avoided or shape is None or not selection.fits(node):
            continue
        extra = 0.0
        if cls.preferred_nodes and not by_class:
            held = sum(weight for weight, term in cls.preferred_nodes if _holds(lab, term, node))
            extra += NODE_AFFINITY.default * (100 * held / total)
        if spread:
            extra += POD_AFFINITY.default * 100 * raw[node] / spread
        board = selection.verdict(node)[0] or 0
        if combination == "sum":
            key = (0, -(BOARD_WEIGHT * board + selection.score(shape)) - extra)
        else:
            key = (-board, -selection.score(shape) - extra)
        ranked.append((key, state.rank_of(node), node))
    return min(ranked)[2] if ranked else None


def _holds(lab: Lab, term: NodeTerm, number: int) -> bool:
    node = lab.state.nodes[number]
    assert node is not None
    (requirement,) = (*term.labels, *term.fields)
    value = node.name if term.fields else node.labels.get(requirement.key)
    return (value in requirement.values) is (requirement.operator == "In")


@given(
    st.lists(PLACES, min_size=1, max_size=NODES),
    st.permutations(range(NODES)),
    st.lists(st.tuples(st.integers(0, NODES - 1), VALUES), max_size=6),
    st.lists(st.tuples(CLASSES, VALUES), min_size=1, max_size=3),
    st.sets(st.integers(0, NODES - 1), max_size=4),
    st.sets(st.integers(0, NODES - 1), max_size=4),
    st.sampled_from(["strict", "sum"]),
    st.sampled_from([0, 3]),
    st.booleans(),
)
def test_the_chosen_node_is_the_best_one_found_by_looking_at_all(
    places: list[dict[str, Any]],
    names: list[int],
    running: list[tuple[int, str]],
    kinds: list[tuple[PodClass, str]],
    avoided: set[int],
    refused: set[int],
    combination: Literal["strict", "sum"],
    few: int,
    by_class: bool,
) -> None:
    """For the pods of a gang of several kinds, each after those before it; also when some are taken back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preferred_nodes, "_FEW", few)
        patch.setattr(preferred_nodes, "_SHARE", few)
        patch.setattr(index, "_STRETCH", 2)
        patch.setattr(cluster_state, "_MAX_LABEL_VALUES", 256 if by_class else 0)
        lab = cluster()
        for number, described in enumerate(places):
            lab.node(f"n{names[number]}", **described)
        for number, (place, app) in enumerate(running):
            where = f"n{names[place % len(places)]}"
            lab.put(runs(f"r{number}", where, app))
        lab.job("new", pods=9, chips=8)
        job = lab["new"]
        for number in range(9):
            cls, app = kinds[number % len(kinds)]
            pod = replace(lab.pod(f"new-{number}"), cls=cls, labels={"app": app})
            lab.put(pod)
            job.pods[pod.uid] = pod
        job.changed()
        session = lab.session(
            *("predicates", "nodeorder", "topology910"),
            settings=Settings(score_combination=combination, multi_pod_requests="vendor"),
        )
        assert session.job_valid(job) is None
        statement = session.statement()
        reason = RESOURCE_NOT_OFFERED(node="n", resource="x")

        def refuse(node: int) -> Reason | None:
            return reason if node in refused else None

        for pod in job.in_order:
            selection = session.node_selection(job, pod)
            hidden: dict[int, Reason] = {}
            left = [node for node in lab.state.existing_nodes() if node not in refused]
            preferred = node_preferences(session, job, pod)
            found: SelectedNode | None = None
            for avoid in (avoided, set[int]()):
                wanted = look_at_all(lab, selection, pod, combination, left, avoid)
                found = selection.choose(hidden, (refuse,), preferred, avoid)
                selection.unhide(hidden)
                assert (None if found is None else found.node) == wanted
            if found is not None:
                statement.allocate(
                    Allocation(job, pod, found.node, selection.chips_of_chosen(found.node), found.score)
                )
            if pod.uid == "new-5":
                statement.discard()
                statement = session.statement()


# -- what it costs ---------------------------------------------------------------------------


def gang(nodes: int, pods: int, *, kinds: int = 1, running: bool = False) -> Lab:
    """A gang whose preferences cover all nodes: by 200 terms for nodes, by zone and by host."""
    lab = cluster()
    names = [f"n{number}" for number in range(nodes)]
    for number, name in enumerate(names):
        lab.node(name, chips=8, labels={ZONE: f"z{number % 20}", HOST: name})
    if running:
        for name in names:
            lab.put(runs(f"r-{name}", name, "a"))
    lab.job("new", pods=pods, chips=8, labels={"app": "a"})
    classes = [_preferring(names, kind) for kind in range(kinds)]
    for number in range(pods):
        pod = replace(lab.pod(f"new-{number}"), cls=classes[number % kinds])
        lab.put(pod)
        lab["new"].pods[pod.uid] = pod
    lab["new"].changed()
    return lab


def _preferring(names: Sequence[str], kind: int) -> PodClass:
    others = [Requirement(HOST, "NotIn", (names[(37 * place + kind) % len(names)],)) for place in range(200)]
    near = PodTerm(ZONE, (Requirement("app", "In", ("a", f"near-{kind}")),), (), 7)
    far = PodTerm(HOST, (Requirement("app", "In", ("a", f"far-{kind}")),), (), 3)
    return pod_class(
        chips=8,
        preferred_nodes=tuple((1 + place % 100, NodeTerm((other,))) for place, other in enumerate(others)),
        preferred_pod_affinity=(near,),
        preferred_pod_anti_affinity=(far,),
    )


class Steps(StepBudget):
    """Counts all steps, and limits those of a job as a scheduler does."""

    def __init__(self) -> None:
        super().__init__(NamespaceSteps())
        self.all = 0

    def spend(self, steps: int, besides: int = 0) -> None:
        self.all += steps
        super().spend(steps)


def steps_of(lab: Lab) -> int:
    session = lab.session("predicates", "nodeorder", "topology910")
    session.budget = budget = Steps()
    assert session.job_valid(lab["new"]) is None
    budget.begin("default", len(lab["new"].pods))
    assert place_gang(session, lab["new"], session.statement()) is None
    return budget.all


@pytest.mark.parametrize("running", [False, True])
def test_a_pod_with_preferences_costs_what_changed_and_not_all_nodes(running: bool) -> None:
    few, many = (steps_of(gang(nodes, 40, running=running)) for nodes in (200, 1_600))
    # Each pod that runs is looked at once.
    assert many <= 1.5 * few + 4 * 1_600 * running
    assert many <= 40 * 400 + 4 * 1_600 * running


def test_pods_whose_preferences_differ_look_at_no_node_either() -> None:
    alike, differing = (steps_of(gang(1_600, 40, kinds=kinds, running=True)) for kinds in (1, 40))
    assert differing <= 3 * alike


@pytest.mark.full
def test_a_gang_that_prefers_all_of_ten_thousand_nodes_is_placed_within_its_steps() -> None:
    assert steps_of(gang(10_000, 1_000)) <= 500_000
