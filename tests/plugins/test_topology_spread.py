"""predicates and nodeorder: topology spread constraints, as kube-scheduler defines them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.framework.affinity import topology_spread
from ringwise.framework.configuration import Settings
from ringwise.framework.extension_points import NODE_FILTER
from ringwise.framework.gangs.gang_placement import node_preferences, place_gang
from ringwise.framework.selectors import CORDON, all_hold, tolerates
from ringwise.framework.session import Session
from ringwise.framework.statement import Allocation
from ringwise.reasons import Reason
from ringwise.state.model import Node, NodeTerm, Pod, PodClass, PodTerm, Requirement, Taint, TopologySpread
from tests.builders.session_lab import CountedSteps, Lab, cluster, option
from tests.builders.values import pod_class
from tests.examples import examples

HOST, ZONE = "kubernetes.io/hostname", "zone"


def spread(
    key: str, skew: int = 1, *, required: bool = True, app: str = "web", **more: Any
) -> TopologySpread:
    return TopologySpread(PodTerm(key, (Requirement("app", "In", (app,)),)), skew, required, **more)


def zones() -> Lab:
    """Zone a has n1 and n2, zone b n3, zone c n4; n5 is in none."""
    lab = cluster()
    for number, zone in enumerate("aabc", 1):
        lab.node(f"n{number}", cpu=1000, labels={ZONE: zone})
    return lab.node("n5", cpu=1000)


def refusals(lab: Lab, session: Session, pod: Pod) -> dict[str, Reason | None]:
    filters = [made for make in session.registered(NODE_FILTER) if (made := make(lab["new"], pod))]
    found = {}
    for number in lab.state.existing_nodes():
        reasons = [reason for ask in filters if (reason := ask(number)) is not None]
        found[lab.state.names[number]] = reasons[0] if reasons else None
    return found


def codes(lab: Lab, *constraints: TopologySpread, app: str = "web", **more: Any) -> dict[str, str]:
    """By node: why the pod may not run there; open nodes are missing."""
    lab.job("new", labels={"app": app}, cls=pod_class(spread=constraints, **more))
    found = refusals(lab, lab.session("predicates"), lab.pod("new-0"))
    return {node: reason.kind.code for node, reason in found.items() if reason is not None}


def on(lab: Lab, *nodes: str, app: str = "web") -> Lab:
    for number, node in enumerate(nodes):
        lab.job(f"old{number}{app}", labels={"app": app}, on=node)
    return lab


SKEWED, KEYLESS = "topology-spread", "spread-key-missing"


def test_keys_of_required_constraints_lower_no_score() -> None:
    """Whether a node needs them is a question of predicates, which may be switched off."""
    lab = zones()
    constraints = spread(ZONE, required=False), spread("rack")
    lab.job("new", labels={"app": "web"}, cls=pod_class(spread=constraints))
    session = lab.session("nodeorder")
    preferred = node_preferences(session, lab["new"], lab.pod("new-0"))
    assert preferred is not None
    extra = {name: preferred.extra(lab.state.node_id[name]) for name in ("n1", "n3", "n5")}
    assert extra["n1"] == extra["n3"] == 0 > extra["n5"]


@pytest.mark.parametrize(
    ("there", "constraint", "closed"),
    [
        ((), spread(ZONE), {"n5": KEYLESS}),
        (("n1",), spread(ZONE), {"n1": SKEWED, "n2": SKEWED, "n5": KEYLESS}),
        (("n1", "n3"), spread(ZONE), {"n1": SKEWED, "n2": SKEWED, "n3": SKEWED, "n5": KEYLESS}),
        (("n1", "n3", "n4"), spread(ZONE), {"n5": KEYLESS}),
        (("n1", "n3"), spread(ZONE, 2), {"n5": KEYLESS}),
        (("n1",), spread(HOST), {"n1": SKEWED}),
        # Three zones are fewer than four: the emptiest counts as empty.
        (("n1", "n3", "n4"), spread(ZONE, min_domains=4), {
            "n1": SKEWED, "n2": SKEWED, "n3": SKEWED, "n4": SKEWED, "n5": KEYLESS
        }),
        # A pod on a node without the key is in no domain.
        (("n5", "n5"), spread(ZONE), {"n5": KEYLESS}),
    ],
)  # fmt: skip
def test_a_domain_has_at_most_so_many_pods_more_than_the_emptiest(
    there: tuple[str, ...], constraint: TopologySpread, closed: dict[str, str]
) -> None:
    assert codes(on(zones(), *there), constraint) == closed


def test_a_pod_that_does_not_count_itself_may_join_the_fullest_within_the_skew() -> None:
    assert codes(on(zones(), "n1"), spread(ZONE), app="other") == {"n5": KEYLESS}
    assert codes(on(zones(), "n1", "n1"), spread(ZONE), app="other") == {
        "n1": SKEWED,
        "n2": SKEWED,
        "n5": KEYLESS,
    }


def test_only_nodes_that_the_pod_selects_count_unless_the_constraint_says_otherwise() -> None:
    b_or_c = (NodeTerm((Requirement(ZONE, "In", ("b", "c")),)),)
    there = ("n3", "n4")
    assert codes(on(zones(), *there), spread(ZONE), node_terms=b_or_c) == {"n5": KEYLESS}
    # Zone a counts and is empty.
    closed = codes(on(zones(), *there), spread(ZONE, selected_only=False), node_terms=b_or_c)
    assert closed == {"n3": SKEWED, "n4": SKEWED, "n5": KEYLESS}


def test_pods_on_nodes_that_the_pod_does_not_select_do_not_hide_an_empty_domain() -> None:
    b_or_c = (NodeTerm((Requirement(ZONE, "In", ("b", "c")),)),)
    closed = codes(on(zones(), "n1", "n4"), spread(ZONE), node_terms=b_or_c)
    assert closed == {"n4": SKEWED, "n5": KEYLESS}


@pytest.mark.parametrize("closed", [{"taints": (Taint("team", "x"),)}, {"cordoned": True}])
def test_nodes_with_taints_and_cordoned_nodes_count_unless_the_constraint_says_otherwise(
    closed: dict[str, Any],
) -> None:
    lab = zones()
    lab.node("n6", cpu=1000, labels={ZONE: "d"}, **closed)
    there = ("n1", "n3", "n4")
    assert set(codes(on(lab, *there), spread(ZONE))) == {"n1", "n2", "n3", "n4", "n5"}
    lab = zones()
    lab.node("n6", cpu=1000, labels={ZONE: "d"}, **closed)
    assert codes(on(lab, *there), spread(ZONE, tolerated_only=True)) == {"n5": KEYLESS}


def test_pods_that_terminate_or_are_of_other_namespaces_do_not_count() -> None:
    lab = on(zones(), "n1")
    lab.put(replace(lab.pod("old0web-0"), deleting=True))
    lab.job("elsewhere", namespace="other", labels={"app": "web"}, on="n3")
    assert codes(lab, spread(ZONE)) == {"n5": KEYLESS}


def test_the_reason_has_numbers_and_fixes() -> None:
    lab = on(zones(), "n1", "n2")
    lab.job("new", labels={"app": "web"}, cls=pod_class(spread=(spread(ZONE),)))
    reason = refusals(lab, lab.session("predicates"), lab.pod("new-0"))["n1"]
    assert reason is not None
    assert reason.message == (
        "zone of n1 would have 3 pods matching app in web; the minimum is 0, maxSkew is 1"
    )
    assert reason.fixes == (
        "start such pods, or free capacity for them, in the zone with the fewest",
        "raise maxSkew to 3, or set whenUnsatisfiable: ScheduleAnyway",
    )


def test_the_plugin_argument_turns_the_check_off() -> None:
    lab = on(zones(), "n1")
    lab.job("new", labels={"app": "web"}, cls=pod_class(spread=(spread(ZONE),)))
    arguments: dict[str, Any] = {"predicate.PodTopologySpreadEnable": False}
    off = option("predicates", **arguments)
    assert set(refusals(lab, lab.session(off), lab.pod("new-0")).values()) == {None}


def test_a_preference_leads_to_the_emptiest_domain() -> None:
    lab = on(zones(), "n1", "n3")
    lab.job("new", labels={"app": "web"}, cls=pod_class(spread=(spread(ZONE, required=False),)))
    session = lab.session("predicates", "nodeorder")
    preferences = node_preferences(session, lab["new"], lab.pod("new-0"))
    assert preferences is not None
    extra = {lab.state.names[node]: preferences.extra(node) for node in lab.state.existing_nodes()}
    assert extra["n4"] == max(extra.values())
    assert extra["n1"] == extra["n2"] == extra["n3"] < extra["n4"]
    assert extra["n5"] <= extra["n1"]


def test_a_preference_counts_what_a_requirement_counts() -> None:
    """Neither pods that terminate nor those on nodes that the pod does not select."""
    lab = on(zones(), "n2", "n3", "n4")
    lab.put(replace(lab.pod("old1web-0"), deleting=True))
    names = (NodeTerm(fields=(Requirement("metadata.name", "In", ("n1", "n3", "n4")),)),)
    cls = pod_class(spread=(spread(ZONE, required=False),), node_terms=names)
    lab.job("new", labels={"app": "web"}, cls=cls)
    preferences = node_preferences(lab.session("predicates", "nodeorder"), lab["new"], lab.pod("new-0"))
    assert preferences is not None
    extra = {lab.state.names[node]: preferences.extra(node) for node in lab.state.existing_nodes()}
    assert extra["n1"] == extra["n3"] > extra["n4"]


# -- equals a look at all nodes and pods -----------------------------------------------------------------

TAINT = Taint("team", "x")
NODES = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from([ZONE, "rack"]), st.sampled_from("abc")), st.booleans(), st.booleans()
    ),
    min_size=1,
    max_size=6,
)
CONSTRAINTS = st.lists(
    st.builds(
        spread,
        st.sampled_from([ZONE, "rack", HOST]),
        st.integers(1, 3),
        app=st.sampled_from("xy"),
        min_domains=st.integers(1, 4),
        selected_only=st.booleans(),
        tolerated_only=st.booleans(),
    ),
    min_size=1,
    max_size=3,
).map(tuple)


@given(
    NODES,
    st.lists(st.tuples(st.sampled_from("xy"), st.integers(0, 5), st.booleans()), max_size=9),
    CONSTRAINTS,
    st.sampled_from("xyz"),
    st.booleans(),
)
def test_counts_equal_a_look_at_all_nodes(
    nodes: list[tuple[dict[str, str], bool, bool]],
    pods: list[tuple[str, int, bool]],
    constraints: tuple[TopologySpread, ...],
    app: str,
    selects: bool,
) -> None:
    lab = cluster()
    for number, (labels, tainted, cordoned) in enumerate(nodes):
        taints = (TAINT,) if tainted else ()
        lab.node(f"n{number}", cpu=1000, labels=labels, taints=taints, cordoned=cordoned)
    for number, (other, node, deleting) in enumerate(pods):
        lab.job(f"old{number}", labels={"app": other}, on=f"n{node % len(nodes)}")
        lab.put(replace(lab.pod(f"old{number}-0"), deleting=deleting))
    terms = (NodeTerm((Requirement(ZONE, "Exists"),)),) if selects else ()
    cls = pod_class(spread=constraints, node_terms=terms)
    lab.job("new", labels={"app": app}, cls=cls)
    session, pod = lab.session("predicates"), lab.pod("new-0")
    found = refusals(lab, session, pod)

    keys = {constraint.term.topology_key for constraint in constraints}

    def domain(number: int, key: str) -> str | None:
        return f"n{number}" if key == HOST else nodes[number][0].get(key)

    def counted(number: int, constraint: TopologySpread) -> bool:
        labels, tainted, cordoned = nodes[number]
        taints = (*([TAINT] if tainted else []), *([CORDON] if cordoned else []))
        return (
            all(domain(number, key) is not None for key in keys)
            and (not constraint.selected_only or not terms or all_hold(terms[0].labels, labels))
            and (not constraint.tolerated_only or all(tolerates((), taint) for taint in taints))
        )

    for number in range(len(nodes)):
        refused = False
        for constraint in constraints:
            key, selector = constraint.term.topology_key, constraint.term.selector
            where = [one for one in range(len(nodes)) if counted(one, constraint)]
            count = {domain(one, key): 0 for one in where}
            for other, node, deleting in pods:
                if node % len(nodes) in where and not deleting and all_hold(selector, {"app": other}):
                    count[domain(node % len(nodes), key)] += 1
            fewest = min(count.values(), default=0) if len(count) >= constraint.min_domains else 0
            here = domain(number, key)
            own = all_hold(selector, {"app": app})
            if here is None or count.get(here, 0) + own - fewest > constraint.max_skew:
                refused = True
        assert (found[f"n{number}"] is not None) == refused


# -- gangs -----------------------------------------------------------------------------------------------

RACK = "rack"


def spread_gang(
    nodes: Sequence[Mapping[str, str]], pods: int, chips: int, *constraints: TopologySpread
) -> Lab:
    lab = cluster()
    for number, labels in enumerate(nodes):
        lab.node(f"n{number}", chips=8, labels=labels)
    cls = pod_class(chips=chips, spread=constraints)
    return lab.job("new", pods=pods, labels={"app": "web"}, cls=cls)


def placed(lab: Lab) -> tuple[Session, list[Allocation], Reason | None]:
    settings = Settings(multi_pod_requests="vendor")
    session = lab.session("gang", "predicates", "topology910", settings=settings)
    assert session.job_valid(lab["new"]) is None
    statement = session.statement()
    reason = place_gang(session, lab["new"], statement)
    found = list(statement.allocations)
    statement.discard()
    return session, found, reason


def fits(nodes: list[dict[str, str]], pods: int, chips: int, constraints: Sequence[TopologySpread]) -> bool:
    """Whether there is any order of nodes in which all pods can be placed, one after the other."""

    def domain(node: int, key: str) -> str:
        return f"n{node}" if key == HOST else nodes[node][key]

    def takes(counts: tuple[int, ...], node: int) -> bool:
        for constraint in constraints:
            key = constraint.term.topology_key
            having = Counter({domain(one, key): 0 for one in range(len(nodes))})
            for one, count in enumerate(counts):
                having[domain(one, key)] += count
            fewest = min(having.values()) if len(having) >= constraint.min_domains else 0
            if having[domain(node, key)] + 1 - fewest > constraint.max_skew:
                return False
        return counts[node] < 8 // chips

    @cache
    def rest_fits(counts: tuple[int, ...], left: int) -> bool:
        return not left or any(
            takes(counts, node)
            and rest_fits((*counts[:node], counts[node] + 1, *counts[node + 1 :]), left - 1)
            for node in range(len(nodes))
        )

    return rest_fits((0,) * len(nodes), pods)


KEYS = st.lists(st.sampled_from([ZONE, RACK, HOST]), min_size=1, max_size=3, unique=True)
SKEWS = st.lists(st.tuples(st.integers(1, 2), st.integers(1, 3)), min_size=3, max_size=3)


def constraints_of(keys: list[str], skews: list[tuple[int, int]]) -> tuple[TopologySpread, ...]:
    return tuple(
        spread(key, skew, min_domains=least) for key, (skew, least) in zip(keys, skews, strict=False)
    )


@given(
    st.lists(st.sampled_from(["a1", "a2", "b1", "b2", "c1"]), min_size=2, max_size=6),
    *(st.integers(2, 7), st.sampled_from([4, 8]), KEYS, SKEWS),
)
@settings(max_examples=examples(150))
def test_a_gang_that_fits_in_any_order_is_placed(
    racks: list[str], pods: int, chips: int, keys: list[str], skews: list[tuple[int, int]]
) -> None:
    """Racks are in zones, as everywhere: it does not matter which node comes first."""
    nodes = [{RACK: rack, ZONE: rack[0]} for rack in racks]
    constraints = constraints_of(keys, skews)
    _, _, reason = placed(spread_gang(nodes, pods, chips, *constraints))
    assert (reason is None) == fits(nodes, pods, chips, constraints)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("12")), min_size=2, max_size=6),
    *(st.integers(2, 7), st.sampled_from([2, 4, 8]), KEYS, SKEWS),
)
def test_each_pod_of_a_gang_gets_the_best_node_that_is_open_to_it(
    places: list[tuple[str, str]], pods: int, chips: int, keys: list[str], skews: list[tuple[int, int]]
) -> None:
    """As a look at all nodes finds it, with the pods that were placed before."""
    nodes = [{ZONE: zone, RACK: rack} for zone, rack in places]
    lab = spread_gang(nodes, pods, chips, *constraints_of(keys, skews))
    session, found, reason = placed(lab)
    statement = session.statement()
    for pod in lab["new"].in_order:
        selection = session.node_selection(lab["new"], pod)
        filters = [made for make in session.registered(NODE_FILTER) if (made := make(lab["new"], pod))]
        ranked = [
            (rank[0], node)
            for node in lab.state.existing_nodes()
            if all(ask(node) is None for ask in filters) and (rank := selection.rank(node)) is not None
        ]
        if not ranked:
            break
        node = min(ranked)[1]
        statement.allocate(Allocation(lab["new"], pod, node, selection.chips_of_chosen(node), 0))
    taken = [(one.pod.uid, one.node, one.chips) for one in statement.allocations]
    assert [(one.pod.uid, one.node, one.chips) for one in found] == taken
    assert (reason is None) == (len(taken) == pods)


def test_pods_of_one_task_wait_for_those_of_another_that_are_placed_after_them() -> None:
    """The second of zone a has to wait for one in zone b, which is of another task and comes later."""
    lab = cluster()
    for number, zone in enumerate("aabb"):
        lab.node(f"n{number}", chips=8, labels={ZONE: zone})
    lab.job("new", pods=4, chips=8, labels={"app": "web"})
    for number, zone in enumerate("aabb"):
        cls = pod_class(chips=8, spread=(spread(ZONE, selected_only=False),), node_selector=((ZONE, zone),))
        lab.change(f"new-{number}", cls=cls)
    _, found, reason = placed(lab)
    assert reason is None
    assert {one.pod.uid: one.node for one in found} == {"new-0": 0, "new-2": 2, "new-1": 1, "new-3": 3}
    assert [one.pod.uid for one in found] == ["new-0", "new-2", "new-3", "new-1"]


def steps_of(nodes: int, pods: int, key: str) -> int:
    places = [{ZONE: "abc"[number % 3]} for number in range(nodes)]
    lab = spread_gang(places, pods, 8, spread(key))
    session = lab.session("gang", "predicates", "topology910")
    session.budget = budget = CountedSteps()
    assert session.job_valid(lab["new"]) is None
    assert place_gang(session, lab["new"], session.statement()) is None
    return budget.all


@pytest.mark.parametrize("key", [ZONE, HOST])
def test_a_pod_of_a_spread_gang_costs_the_same_however_many_nodes_are_closed_to_it(key: str) -> None:
    few, many = (steps_of(nodes, 60, key) for nodes in (90, 1_800))
    # The nodes are read once for the gang.
    assert many <= few + 2 * 1_800


def test_taints_are_looked_at_once_however_many_constraints_honor_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []

    def look(cls: PodClass, node: Node) -> bool:
        looked.append(node.name)
        return True

    monkeypatch.setattr(topology_spread, "_tolerates", look)
    lab = zones().node("n6", cpu=1000, labels={ZONE: "c"}, taints=(Taint("busy", "", "NoSchedule"),))
    constraints = [spread(ZONE, app=f"app{number}", tolerated_only=True) for number in range(64)]
    codes(lab, *constraints)
    assert looked == ["n6"]
