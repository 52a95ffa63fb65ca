"""predicates: what a class of nodes, or the labels of a single node, can tell."""

from __future__ import annotations

from typing import Any

import pytest

from ringwise.framework.configuration import PluginOption
from ringwise.state.model import NodeTerm, PodClass, Requirement, Taint, Toleration
from tests.builders.session_lab import cluster, option
from tests.builders.values import pod_class

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


def refusal(
    cls: PodClass, plugin: str | PluginOption = "predicates", running: int = 0, **node: Any
) -> str | None:
    """The code of the reason why a pod of this class may not run on the node; None if it may."""
    lab = cluster().node("n1", **node).job("new", cls=cls)
    if running:
        lab.job("old", pods=running, cpu=100, memory=100, extended={"example.com/disk": 1}, on="n1")
    session = lab.session(plugin)
    reason = session.node_selection(lab["new"], lab.pod("new-0")).verdict(0)[1]
    if reason is None:
        return None
    assert reason.message
    assert "unknown)" not in reason.message + " ".join(reason.fixes)
    return reason.code


def needs(*terms: NodeTerm) -> PodClass:
    return pod_class(node_terms=terms)


def label(key: str, operator: str, *values: str) -> NodeTerm:
    return NodeTerm((Requirement(key, operator, values),))


@pytest.mark.parametrize(
    ("selector", "labels", "fits"),
    [
        ((), {}, True),
        ((("zone", "a"),), {"zone": "a", "other": "x"}, True),
        ((("zone", "a"),), {"zone": "b"}, False),
        ((("zone", "a"),), {}, False),
        ((("zone", "a"), ("disk", "ssd")), {"zone": "a"}, False),
    ],
)
def test_selector_every_label_must_be_there(selector: Any, labels: dict[str, str], fits: bool) -> None:
    found = refusal(pod_class(node_selector=selector), labels=labels)
    assert found == (None if fits else "node-selector-mismatch")


@pytest.mark.parametrize(
    ("operator", "values", "there", "fits"),
    [
        ("In", ("a", "b"), "b", True),
        ("In", ("a",), "b", False),
        ("In", ("a",), None, False),
        ("NotIn", ("a",), "b", True),
        ("NotIn", ("a",), "a", False),
        ("NotIn", ("a",), None, True),  # a missing label is not among the values
        ("Exists", (), "", True),
        ("Exists", (), None, False),
        ("DoesNotExist", (), None, True),
        ("DoesNotExist", (), "a", False),
        ("Gt", ("5",), "6", True),
        ("Gt", ("5",), "5", False),
        ("Gt", ("5",), "10", True),  # as numbers, not as text
        ("Gt", ("5",), "six", False),
        ("Gt", ("5",), "1_0", False),
        ("Gt", ("5",), None, False),
        ("Lt", ("5",), "-4", True),
        ("Lt", ("5",), "5", False),
        ("Lt", ("five",), "4", False),
    ],
)
def test_affinity_operators(operator: str, values: tuple[str, ...], there: str | None, fits: bool) -> None:
    labels = {} if there is None else {"key": there}
    found = refusal(needs(label("key", operator, *values)), labels=labels)
    assert found == (None if fits else "node-affinity-mismatch")


def test_affinity_one_term_is_enough_and_all_of_a_term_must_hold() -> None:
    both = NodeTerm((Requirement("zone", "In", ("a",)), Requirement("disk", "Exists")))
    assert refusal(needs(both), labels={"zone": "a"}) == "node-affinity-mismatch"
    assert refusal(needs(both, label("zone", "In", "a")), labels={"zone": "a"}) is None


def test_affinity_an_empty_term_matches_nothing() -> None:
    assert refusal(needs(NodeTerm())) == "node-affinity-mismatch"


def test_affinity_a_name_among_none_is_refused() -> None:
    no_node = NodeTerm(fields=(Requirement("metadata.name", "In", ()),))
    assert refusal(needs(no_node)) == "node-affinity-mismatch"


KEY = Taint("gpu", "yes", "NoSchedule")


@pytest.mark.parametrize(
    ("taint", "tolerations", "fits"),
    [
        (KEY, (), False),
        (Taint("gpu", "yes", "NoExecute"), (), False),
        (Taint("gpu", "yes", "PreferNoSchedule"), (), True),  # only makes a node less liked
        (KEY, (Toleration("gpu", "Equal", "yes", "NoSchedule"),), True),
        (KEY, (Toleration("gpu", "Equal", "yes"),), True),  # no effect means every effect
        (KEY, (Toleration("gpu", "Equal", "no"),), False),
        (KEY, (Toleration("gpu", "Exists"),), True),
        (KEY, (Toleration("gpu", "Exists", "", "NoExecute"),), False),
        (KEY, (Toleration("tpu", "Exists"),), False),
        (KEY, (Toleration("", "Exists"),), True),  # no key: everything
    ],
)
def test_taints_must_be_tolerated(taint: Taint, tolerations: tuple[Toleration, ...], fits: bool) -> None:
    found = refusal(pod_class(tolerations=tolerations), taints=[taint])
    assert found == (None if fits else "untolerated-taint")


def test_cordoned_nodes_take_only_pods_that_tolerate_it() -> None:
    assert refusal(pod_class(), cordoned=True) == "node-cordoned"
    assert refusal(pod_class(tolerations=(Toleration(UNSCHEDULABLE, "Exists"),)), cordoned=True) is None


@pytest.mark.parametrize(
    ("asked", "node", "fits"),
    [
        ({"cpu": 800}, {"cpu": 1000}, True),  # 200 in use
        ({"cpu": 801}, {"cpu": 1000}, False),
        ({"cpu": 10**6}, {"cpu": 0}, True),  # a node that lists no cpu has no limit
        ({"memory": 801}, {"memory": 1000}, False),
        ({"memory": 10**12}, {"memory": 0}, True),
        ({"extended": {"example.com/disk": 1}}, {"extended": {"example.com/disk": 3}}, True),
        ({"extended": {"example.com/disk": 2}}, {"extended": {"example.com/disk": 3}}, False),
        ({"extended": {"example.com/fpga": 1}}, {}, False),  # what a node does not list it does not have
        ({}, {"cpu": 1}, True),  # asks for nothing: fits even where nothing is left
    ],
)
def test_room_request_and_use_within_what_the_node_has(
    asked: dict[str, Any], node: dict[str, Any], fits: bool
) -> None:
    found = refusal(pod_class(**asked), running=2, **node)
    assert found == (None if fits else "insufficient-resource")


@pytest.mark.parametrize(("limit", "fits"), [(0, True), (2, False), (3, True)])
def test_room_pod_count_zero_means_no_limit(limit: int, fits: bool) -> None:
    assert refusal(pod_class(), running=2, pods=limit) == (None if fits else "too-many-pods")


@pytest.mark.parametrize(
    ("switch", "cls", "node"),
    [
        ("predicate_NodeAffinityEnable", needs(label("zone", "Exists")), {}),
        ("predicate_NodeAffinityEnable", pod_class(node_selector=(("zone", "a"),)), {}),
        ("predicate_TaintTolerationEnable", pod_class(), {"taints": [KEY]}),
    ],
)
def test_arguments_turn_single_checks_off(switch: str, cls: PodClass, node: dict[str, Any]) -> None:
    assert refusal(cls, **node) is not None
    switched_off: dict[str, Any] = {switch: False}
    assert refusal(cls, option("predicates", **switched_off), **node) is None


def test_the_switch_of_the_plugin_turns_all_of_it_off() -> None:
    assert refusal(pod_class(), option("predicates", {"predicate": False}), cordoned=True) is None


def test_a_pod_with_resource_claims_fits_nowhere() -> None:
    assert refusal(pod_class(resource_claims=1)) == "resource-claims-unsupported"
