"""Answers for a class of nodes, or for a set of nodes, equal answers worked out for each node by itself.

`plain_*` are written from the rules with nothing but a node and the pods on it: no
classes, no shapes, no memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.framework.configuration import Settings
from ringwise.framework.gangs.gang_placement import node_preferences, place_gang
from ringwise.state import cluster as cluster_state
from ringwise.state.model import Node, NodeTerm, PodClass, Requirement, Taint, Toleration
from tests.builders.session_lab import Lab, cluster
from tests.builders.values import pod, pod_class

KEYS = st.sampled_from(["zone", "disk"])
#: Labels with more values than this are answered by sets of nodes: none, some or all of the labels here.
MAX_VALUES = st.sampled_from([0, 1, 2, 64])
VALUES = st.sampled_from(["1", "2", "x"])
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
DISK = "example.com/disk"

LABELS = st.dictionaries(KEYS, VALUES, max_size=2)
TAINTS = st.lists(st.builds(Taint, KEYS, st.sampled_from(["", "1"]), EFFECTS), max_size=2)
NODES = st.lists(
    st.fixed_dictionaries(
        {
            "cpu": st.sampled_from([0, 4, 8]),
            "memory": st.sampled_from([0, 40]),
            "pods": st.sampled_from([0, 2, 4]),
            "labels": LABELS,
            "taints": TAINTS,
            "cordoned": st.sampled_from([False, False, False, True]),
            "extended": st.sampled_from([{}, {DISK: 2}, {DISK: 3}]),
        }
    ),
    min_size=1,
    max_size=6,
)
REQUIREMENTS = st.one_of(
    st.builds(
        Requirement,
        KEYS,
        st.sampled_from(["In", "NotIn"]),
        st.lists(VALUES, min_size=1, max_size=2).map(tuple),
    ),
    st.builds(Requirement, KEYS, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(Requirement, KEYS, st.sampled_from(["Gt", "Lt"]), st.sampled_from([("1",), ("2",)])),
)
NAMES = st.lists(st.sampled_from(["n0", "n1", "n2", "gone"]), min_size=1, max_size=2).map(tuple)
FIELDS = st.builds(Requirement, st.just("metadata.name"), st.sampled_from(["In", "NotIn"]), NAMES)
TERMS = st.builds(
    NodeTerm, st.lists(REQUIREMENTS, max_size=2).map(tuple), st.lists(FIELDS, max_size=1).map(tuple)
)
TOLERATIONS = st.lists(
    st.one_of(
        st.builds(
            Toleration, KEYS, st.just("Equal"), st.sampled_from(["", "1"]), st.sampled_from(["", "NoExecute"])
        ),
        st.builds(
            Toleration,
            st.sampled_from(["", "zone", "node.kubernetes.io/unschedulable"]),
            st.just("Exists"),
            st.just(""),
            st.sampled_from(["", "NoSchedule"]),
        ),
    ),
    max_size=2,
).map(tuple)
CLASSES = st.builds(
    pod_class,
    cpu=st.sampled_from([0, 1, 3]),
    memory=st.sampled_from([0, 10, 25]),
    extended=st.sampled_from([{}, {DISK: 1}]),
    node_selector=st.lists(st.tuples(KEYS, VALUES), max_size=1).map(tuple),
    node_terms=st.lists(TERMS, max_size=2).map(tuple),
    preferred_nodes=st.lists(st.tuples(st.integers(1, 9), TERMS), max_size=2).map(tuple),
    tolerations=TOLERATIONS,
)
RUNNING = st.lists(st.tuples(st.integers(0, 5), CLASSES), max_size=8)


@contextmanager
def few_values_in_classes(most: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster_state, "_MAX_LABEL_VALUES", most)
        yield


def build(nodes: Sequence[dict[str, Any]], running: Sequence[tuple[int, PodClass]], cls: PodClass) -> Lab:
    lab = cluster()
    for number, described in enumerate(nodes):
        lab.node(f"n{number}", **described)
    for number, (place, other) in enumerate(running):
        lab.put(pod(f"r{number}", cls=other, namespace="x", on=f"n{place % len(nodes)}"))
    return lab.job("new", pods=2, cls=cls)


@given(NODES, RUNNING, CLASSES, MAX_VALUES)
def test_what_is_found_about_a_node_is_what_a_look_at_it_finds(
    nodes: list[dict[str, Any]], running: list[tuple[int, PodClass]], cls: PodClass, most: int
) -> None:
    with few_values_in_classes(most):
        lab = build(nodes, running, cls)
        session = lab.session("predicates", "nodeorder", "binpack")
        asking = session.node_selection(lab["new"], lab.pod("new-0"))
        preferred = node_preferences(session, lab["new"], lab.pod("new-0"))
        fitting = asking.fitting_nodes()
        for number in lab.state.existing_nodes():
            node, pods = on_node(lab, number)
            fits = plain_fits(cls, node, pods)
            assert asking.fits(number) is fits
            assert (asking.verdict(number)[1] is None) is fits
            assert (number in fitting) is fits
            if fits:
                shape = lab.state.shape_of(number)
                assert shape is not None
                score = asking.score(shape) + (preferred.extra(number) if preferred is not None else 0.0)
                assert score == pytest.approx(plain_score(cls, node, pods))


@given(NODES, RUNNING, CLASSES, MAX_VALUES, st.sampled_from(["strict", "sum"]))
def test_the_chosen_node_is_the_best_one_found_by_looking_at_all(
    nodes: list[dict[str, Any]],
    running: list[tuple[int, PodClass]],
    cls: PodClass,
    most: int,
    combination: Literal["strict", "sum"],
) -> None:
    with few_values_in_classes(most):
        lab = build(nodes, running, cls)
        session = lab.session(
            "predicates", "nodeorder", "binpack", settings=Settings(score_combination=combination)
        )
        for pod in ("new-0", "new-1"):
            ranked = [
                (-round(plain_score(cls, node, pods), 6), number)
                for number in lab.state.existing_nodes()
                for node, pods in [on_node(lab, number)]
                if plain_fits(cls, node, pods)
            ]
            preferred = node_preferences(session, lab["new"], lab.pod(pod))
            choice = session.node_selection(lab["new"], lab.pod(pod)).choose({}, (), preferred)
            assert (choice.node if choice else None) == (min(ranked)[1] if ranked else None)
            if choice is None:
                break
            lab.state.place(pod, choice.node, 0)


@given(NODES, CLASSES, MAX_VALUES)
def test_a_reason_counts_every_node_once(nodes: list[dict[str, Any]], cls: PodClass, most: int) -> None:
    if cls.best_effort:
        return
    with few_values_in_classes(most):
        lab = build(nodes, [], cls)
        session = lab.session("gang", "predicates")
        reason = place_gang(session, lab["new"], session.statement())
    if reason is not None and "refusals" in reason.details:
        assert sum(reason.details["refusals"].values()) == len(nodes)


# -- the plain way -------------------------------------------------------------------------


def on_node(lab: Lab, number: int) -> tuple[Node, list[PodClass]]:
    node = lab.state.nodes[number]
    assert node is not None
    return node, [lab.state.pods[uid].pod.cls for uid in lab.state.pods_on[number]]


def plain_holds(requirement: Requirement, labels: Any) -> bool:
    value = labels.get(requirement.key)
    if requirement.operator == "In":
        return value in requirement.values
    if requirement.operator == "NotIn":
        return value not in requirement.values
    if requirement.operator in ("Exists", "DoesNotExist"):
        return (value is not None) == (requirement.operator == "Exists")
    if value is None or not value.isdigit():
        return False
    difference = int(value) - int(requirement.values[0])
    return difference > 0 if requirement.operator == "Gt" else difference < 0


def plain_term(term: NodeTerm, node: Node) -> bool:
    return bool(term.labels or term.fields) and all(
        plain_holds(one, {**node.labels, "metadata.name": node.name}) for one in (*term.labels, *term.fields)
    )


def plain_tolerated(cls: PodClass, taint: Taint) -> bool:
    return any(
        toleration.effect in ("", taint.effect)
        and toleration.key in ("", taint.key)
        and (toleration.operator == "Exists" or toleration.value == taint.value)
        for toleration in cls.tolerations
    )


def plain_fits(cls: PodClass, node: Node, pods: list[PodClass]) -> bool:
    taints = [taint for taint in node.taints if taint.effect != "PreferNoSchedule"]
    if node.unschedulable:
        taints.append(Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"))
    if not all(plain_tolerated(cls, taint) for taint in taints):
        return False
    if any(node.labels.get(key) != value for key, value in cls.node_selector):
        return False
    if cls.node_terms and not any(plain_term(term, node) for term in cls.node_terms):
        return False
    if node.max_pods and len(pods) + 1 > node.max_pods:
        return False
    together = [*pods, cls]
    if cls.cpu_milli and node.cpu_milli and sum(one.cpu_milli for one in together) > node.cpu_milli:
        return False
    if cls.memory and node.memory and sum(one.memory for one in together) > node.memory:
        return False
    disks = sum(dict(one.extended).get(DISK, 0) for one in together)
    return not dict(cls.extended).get(DISK) or disks <= dict(node.extended).get(DISK, 0)


def plain_score(cls: PodClass, node: Node, pods: list[PodClass]) -> float:
    """nodeorder and binpack with their default weights."""
    together = [*pods, cls]
    rows = [
        (sum(one.cpu_milli for one in together), node.cpu_milli, cls.cpu_milli),
        (sum(one.memory for one in together), node.memory, cls.memory),
    ]
    listed = [row for row in rows if row[1]]
    total = 0.0
    if listed:
        total += sum(max(0, has - used) * 100 // has for used, has, _ in listed) // len(listed)
    parts = [min(1.0, used / has) for used, has, _ in listed]
    total += int((1 - abs(parts[0] - parts[1]) / 2) * 100) if len(parts) == 2 else 100
    weight = sum(weight for weight, _ in cls.preferred_nodes)
    if weight:
        total += 2 * 100 * sum(w for w, term in cls.preferred_nodes if plain_term(term, node)) / weight
    soft = [taint for taint in node.taints if taint.effect == "PreferNoSchedule"]
    total += 3 * 100 / (1 + sum(not plain_tolerated(cls, taint) for taint in soft))
    asked = [row for row in rows if row[2]]
    if asked and not any(has and used > has for used, has, _ in asked):
        total += 100 * sum(used / has for used, has, _ in asked if has) / len(asked)
    return total
