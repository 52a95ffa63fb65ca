"""nodeorder and binpack: worked examples of every formula."""

from __future__ import annotations

from typing import Any

import pytest

from ringwise.framework.configuration import PluginOption
from ringwise.framework.extension_points import NODE_SCORE
from ringwise.framework.gangs.gang_placement import node_preferences, place_gang
from ringwise.state.model import NodeTerm, PodClass, PodTerm, Requirement, Taint, Toleration
from tests.builders.session_lab import Lab, cluster, option
from tests.builders.values import CHIP, pod_class

WEIGHTS = (
    "leastrequested", "mostrequested", "balancedresource", "nodeaffinity", "podaffinity", "tainttoleration",
)  # fmt: skip


def only(scorer: str, weight: int = 1) -> PluginOption:
    weights: dict[str, Any] = {f"{name}_weight": weight if name == scorer else 0 for name in WEIGHTS}
    return option("nodeorder", **weights)


def score(
    plugin: PluginOption | str, cls: PodClass, used: dict[str, Any] | None = None, **node: Any
) -> float:
    lab = cluster().node("n1", **node).job("new", cls=cls)
    if used:
        lab.job("old", on="n1", **used)
    shape = lab.state.shape_of(0)
    assert shape is not None
    return lab.session(plugin).node_selection(lab["new"], lab.pod("new-0")).score(shape)


# -- nodeorder -----------------------------------------------------------------------------

LOADED: dict[str, Any] = {"cpu": 1000, "memory": 1000, "used": {"cpu": 300, "memory": 100}}
ASKS = pod_class(cpu=100, memory=100)


@pytest.mark.parametrize(
    ("scorer", "cls", "node", "expected"),
    [
        ("leastrequested", ASKS, LOADED, 70),  # mean of 60 and 80
        ("leastrequested", pod_class(), LOADED, 80),  # mean of 70 and 90
        ("leastrequested", ASKS, {"cpu": 1000}, 90),  # memory is not listed: cpu alone
        ("leastrequested", ASKS, {}, 0),
        ("leastrequested", ASKS, {"cpu": 3000, "memory": 7000}, 97),  # 96.67 and 98.57, in whole numbers
        ("mostrequested", ASKS, LOADED, 30),  # mean of 40 and 20
        ("mostrequested", ASKS, {}, 0),
        ("mostrequested", pod_class(cpu=1000, memory=100), {"cpu": 1000, "memory": 1000}, 55),  # a full one
        ("mostrequested", ASKS, LOADED | {"used": {"cpu": 950, "memory": 100}}, 60),  # more than it has
        ("leastrequested", ASKS, LOADED | {"used": {"cpu": 950, "memory": 100}}, 40),
        ("balancedresource", ASKS, LOADED, 90),  # 0.4 and 0.2: half the difference is 0.1
        ("balancedresource", pod_class(cpu=200, memory=200), {"cpu": 1000, "memory": 1000}, 100),
        ("balancedresource", pod_class(cpu=1000), {"cpu": 1000, "memory": 1000}, 50),
        ("balancedresource", ASKS, {"cpu": 1000}, 100),  # one resource is in balance with itself
        (
            "balancedresource",
            pod_class(cpu=500, extended={"nvidia.com/gpu": 2}),
            {"cpu": 1000, "memory": 1000, "extended": {"nvidia.com/gpu": 2}},
            59,  # 0.5, 0 and 1: the standard deviation is 0.408
        ),
        (
            "balancedresource",
            pod_class(cpu=500, memory=500, extended={"nvidia.com/gpu": 1}),
            {
                "cpu": 1000,
                "memory": 1000,
                "extended": {"nvidia.com/gpu": 4},
                "used": {"extended": {"nvidia.com/gpu": 1}},
            },
            100,  # two of four are used then
        ),
    ],
)
def test_load(scorer: str, cls: PodClass, node: dict[str, Any], expected: float) -> None:
    assert score(only(scorer), cls, **node) == expected
    assert score(only(scorer, 5), cls, **node) == 5 * expected


def test_load_chips_are_not_in_it() -> None:
    lab = cluster().node("n1", cpu=1000, chips=8).job("new", chips=4).job("old", chips=4, on="n1")
    shape = lab.state.shape_of(0)
    assert shape is not None
    assert (
        lab.session(only("leastrequested")).node_selection(lab["new"], lab.pod("new-0")).score(shape) == 100
    )


def zone(*values: str) -> NodeTerm:
    return NodeTerm((Requirement("zone", "In", values),))


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([(10, zone("a")), (30, zone("b"))], 25),
        ([(10, zone("a", "b")), (30, zone("b", "a"))], 100),
        ([(10, zone("c"))], 0),
        ([], 0),
    ],
)
def test_preferred_node_affinity_weight_that_holds_over_all_weight(
    terms: list[tuple[int, NodeTerm]], expected: float
) -> None:
    cls = pod_class(preferred_nodes=tuple(terms))
    assert score(only("nodeaffinity"), cls, labels={"zone": "a"}) == expected


def favors(lab: Lab, plugin: PluginOption) -> dict[str, float]:
    preferred = node_preferences(lab.session(plugin), lab["new"], lab.pod("new-0"))
    assert preferred is not None
    extras = {lab.state.names[node]: preferred.extra(node) for node in lab.state.existing_nodes()}
    return {name: extra for name, extra in extras.items() if extra}


def test_preferred_node_affinity_to_a_named_node_favors_that_node() -> None:
    named = NodeTerm(fields=(Requirement("metadata.name", "In", ("n2",)),))
    lab = cluster().nodes(3).job("new", preferred_nodes=((10, zone("a")), (30, named)))
    assert favors(lab, only("nodeaffinity", 2)) == {"n2": 150}


@pytest.mark.parametrize(
    ("taints", "tolerations", "expected"),
    [
        ((), (), 100),
        ((Taint("a", "", "PreferNoSchedule"),), (), 50),
        ((Taint("a", "", "PreferNoSchedule"), Taint("b", "", "PreferNoSchedule")), (), 100 / 3),
        (
            (Taint("a", "", "PreferNoSchedule"), Taint("b", "", "PreferNoSchedule")),
            (Toleration("a", "Exists"),),
            50,
        ),
        ((Taint("a", "", "NoSchedule"),), (), 100),  # that is for predicates to say
    ],
)
def test_taints_fewer_untolerated_soft_ones_are_better(
    taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...], expected: float
) -> None:
    assert score(only("tainttoleration"), pod_class(tolerations=tolerations), taints=taints) == expected


def test_preferred_pod_affinity_pods_near_by_times_weight_for_and_against() -> None:
    def wish(app: str, weight: int) -> PodTerm:
        return PodTerm("kubernetes.io/hostname", (Requirement("app", "In", (app,)),), (), weight)

    lab = (
        cluster()
        .nodes(4)
        .job("new", preferred_pod_affinity=(wish("web", 10),), preferred_pod_anti_affinity=(wish("db", 20),))
    )
    lab.job("web", pods=3, labels={"app": "web"}, on=["n1", "n1", "n1"])
    lab.job("both", labels={"app": "web"}, on="n2").job("db", labels={"app": "db"}, on="n2")
    # n1: 3 x 10; n2: 10 - 20; the others 0. The difference of 40 is worth 100.
    assert favors(lab, only("podaffinity", 2)) == {"n1": 150, "n2": -50}
    lab.job("plain")
    assert node_preferences(lab.session("nodeorder"), lab["plain"], lab.pod("plain-0")) is None


def test_all_weights_have_the_defaults_of_the_field() -> None:
    cls = pod_class(cpu=100, memory=100, preferred_nodes=((1, zone("a")),))
    # least 70 x 1, most x 0, balanced 90 x 1, affinity 100 x 2, taints 100 x 3
    assert score("nodeorder", cls, labels={"zone": "a"}, **LOADED) == 70 + 90 + 200 + 300


# -- binpack -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "asked", "expected"),
    [
        ({}, {"cpu": 200, "memory": 100}, 35),  # 0.5 and 0.2
        ({"binpack_cpu": 3}, {"cpu": 200, "memory": 100}, 42.5),  # (3 x 0.5 + 0.2) / 4
        ({"binpack_weight": 10}, {"cpu": 200, "memory": 100}, 350),
        ({}, {"cpu": 200}, 50),  # only what is asked for counts
        ({}, {"cpu": 701, "memory": 100}, 0),  # one resource over capacity: nothing at all
        ({}, {}, 0),
        ({"binpack_cpu": 0, "binpack_memory": 0}, {"cpu": 200}, 0),
        ({}, {"cpu": 200, "extended": {"example.com/disk": 1}}, 50),  # not named: not counted
        (
            {"binpack_resources": ("example.com/disk",)},
            {"cpu": 200, "extended": {"example.com/disk": 1}},
            62.5,
        ),
        (
            {"binpack_resources": ("example.com/disk",), "binpack_resources_example.com/disk": 3},
            {"cpu": 200, "extended": {"example.com/disk": 1}},
            68.75,  # (0.5 + 3 x 0.75) / 4
        ),
        ({"binpack_resources": ("example.com/disk",)}, {"cpu": 200, "extended": {"example.com/disk": 3}}, 0),
        # The node does not list it: it adds nothing, but its weight counts.
        ({"binpack_resources": ("example.com/tape",)}, {"cpu": 200, "extended": {"example.com/tape": 1}}, 25),
    ],
)
def test_binpack_mean_use_after_placing_by_weight(
    arguments: dict[str, Any], asked: dict[str, Any], expected: float
) -> None:
    plugin = option("binpack", **arguments)
    found = score(
        plugin,
        pod_class(**asked),
        used={"cpu": 300, "memory": 100, "extended": {"example.com/disk": 2}},
        cpu=1000,
        memory=1000,
        extended={"example.com/disk": 4},
    )
    assert found == pytest.approx(expected)


def test_binpack_a_weight_of_zero_takes_no_part() -> None:
    lab = cluster()
    assert not lab.session(option("binpack", binpack_weight=0)).registered(NODE_SCORE)


def test_binpack_leaves_chips_to_the_board_even_when_they_are_named() -> None:
    lab = cluster().node("n1", cpu=1000, chips=8).job("new", cpu=100, chips=4)
    shape = lab.state.shape_of(0)
    assert shape is not None
    plugin = option("binpack", binpack_resources=(CHIP,))
    assert lab.session(plugin).node_selection(lab["new"], lab.pod("new-0")).score(shape) == 10


# -- together ------------------------------------------------------------------------------


@pytest.mark.parametrize(("plugin", "node"), [(only("leastrequested"), "n2"), (option("binpack"), "n1")])
def test_the_score_decides_where_a_pod_goes(plugin: PluginOption, node: str) -> None:
    lab = cluster().nodes(2, cpu=1000).job("old", cpu=500, on="n1").job("new", cpu=100)
    session = lab.session("predicates", plugin)
    statement = session.statement()
    assert place_gang(session, lab["new"], statement) is None
    assert [lab.state.names[allocation.node] for allocation in statement.allocations] == [node]
