"""predicates: what only a single node can tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.framework.extension_points import NODE_FILTER
from ringwise.framework.gangs.gang_placement import node_preferences, place_gang
from ringwise.framework.selectors import all_hold
from ringwise.framework.session import Session
from ringwise.framework.statement import Allocation
from ringwise.state.model import NodeTerm, Pod, PodTerm, Requirement
from tests.builders.session_lab import Lab, cluster, option
from tests.builders.values import GIB, pod, pod_class

HOST = "kubernetes.io/hostname"
ZONE = "zone"


def near(key: str, *app: str, namespaces: tuple[str, ...] = ()) -> PodTerm:
    return PodTerm(key, (Requirement("app", "In", app),), namespaces)


def zones() -> Lab:
    """Two zones of two nodes, and a node in none."""
    lab = cluster()
    for number in range(1, 5):
        lab.node(f"n{number}", cpu=1000, labels={ZONE: "ab"[number > 2]})
    return lab.node("n5", cpu=1000)


def open_nodes(lab: Lab, session: Session, job: str = "new") -> list[str]:
    """The nodes that no filter refuses to the job's first pod."""
    pod = lab.pod(f"{job}-0")
    filters = [made for make in session.registered(NODE_FILTER) if (made := make(lab[job], pod))]
    names = []
    for number in lab.state.existing_nodes():
        reasons = [reason for ask in filters if (reason := ask(number)) is not None]
        if not reasons:
            names.append(lab.state.names[number])
        for reason in reasons:
            assert reason.fixes
            assert "unknown)" not in reason.message + " ".join(reason.fixes)
    return names


ALL = ["n1", "n2", "n3", "n4", "n5"]


def test_pods_that_ask_nothing_of_the_kind_have_no_filter() -> None:
    lab = zones().job("new", cpu=1).job("old", labels={"app": "web"}, on="n1")
    session = lab.session("predicates")
    assert not any(make(lab["new"], lab.pod("new-0")) for make in session.registered(NODE_FILTER))


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([NodeTerm(fields=(Requirement("metadata.name", "In", ("n2", "n3")),))], ["n2", "n3"]),
        ([NodeTerm(fields=(Requirement("metadata.name", "NotIn", ("n2",)),))], ["n1", "n3", "n4", "n5"]),
        (
            [
                NodeTerm(
                    (Requirement(ZONE, "In", ("a",)),), (Requirement("metadata.name", "In", ("n2", "n3")),)
                ),
                NodeTerm((Requirement(ZONE, "DoesNotExist"),)),
            ],
            ["n2", "n5"],
        ),
    ],
)
def test_affinity_to_names_of_nodes(terms: list[NodeTerm], expected: list[str]) -> None:
    lab = zones().job("new", node_terms=tuple(terms))
    selection = lab.session("predicates").node_selection(lab["new"], lab.pod("new-0"))
    assert [lab.state.names[node] for node in selection.fitting_nodes()] == expected


@pytest.mark.parametrize(
    ("wanted", "taken", "clash"),
    [
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "TCP", 80), True),
        (("0.0.0.0", "TCP", 80), ("10.0.0.1", "TCP", 80), True),  # any address includes that one
        (("10.0.0.1", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("10.0.0.2", "TCP", 80), False),
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "UDP", 80), False),
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "TCP", 81), False),
    ],
)
def test_host_ports_one_address_protocol_and_port_belongs_to_one_pod(
    wanted: tuple[str, str, int], taken: tuple[str, str, int], clash: bool
) -> None:
    lab = zones().job("new", host_ports=(wanted,)).job("old", host_ports=(taken,), on="n1")
    assert ("n1" not in open_nodes(lab, lab.session("predicates"))) is clash
    off = lab.session(option("predicates", predicate_NodePortsEnable=False))
    assert open_nodes(lab, off) == ALL


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (near(ZONE, "web"), ["n1", "n2"]),
        (near(HOST, "web"), ["n1"]),  # a node without a host name label is known by its name
        (near(ZONE, "web", "db"), ["n1", "n2", "n3", "n4"]),
        (near(ZONE, "none"), []),
        (near(ZONE, "web", namespaces=("other",)), []),
        (near(ZONE, "web", namespaces=("default",)), ["n1", "n2"]),
        (near(ZONE, "web", namespaces=("*",)), ["n1", "n2"]),
    ],
)
def test_affinity_only_where_a_matching_pod_is(term: PodTerm, expected: list[str]) -> None:
    lab = zones().job("new", pod_affinity=(term,))
    lab.job("web", labels={"app": "web"}, on="n1").job("db", labels={"app": "db"}, on="n3")
    assert open_nodes(lab, lab.session("predicates")) == expected
    off = lab.session(option("predicates", predicate_PodAffinityEnable=False))
    assert open_nodes(lab, off) == ALL


def test_affinity_one_pod_must_match_all_terms() -> None:
    terms = (near(ZONE, "web"), PodTerm(ZONE, (Requirement("tier", "Exists"),)))
    lab = zones().job("new", pod_affinity=terms)
    lab.job("one", labels={"app": "web"}, on="n1").job("two", labels={"tier": "x"}, on="n2")
    assert open_nodes(lab, lab.session("predicates")) == []
    lab.job("both", labels={"app": "web", "tier": "x"}, on="n3")
    assert open_nodes(lab, lab.session("predicates")) == ["n3", "n4"]


def test_affinity_the_first_pod_of_a_group_goes_anywhere_that_has_the_topology_key() -> None:
    lab = zones().job("new", pods=2, labels={"app": "web"}, pod_affinity=(near(ZONE, "web"),))
    session = lab.session("predicates")
    assert open_nodes(lab, session) == ["n1", "n2", "n3", "n4"]
    session.statement().allocate(Allocation(lab["new"], lab.pod("new-1"), 2, ()))
    assert open_nodes(lab, session) == ["n3", "n4"]


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (near(ZONE, "web"), ["n3", "n4", "n5"]),  # a node outside all zones has no such neighbor
        (near(HOST, "web"), ["n2", "n3", "n4", "n5"]),
        (near(ZONE, "web", namespaces=("other",)), ALL),
    ],
)
def test_anti_affinity_not_where_a_matching_pod_is(term: PodTerm, expected: list[str]) -> None:
    lab = zones().job("new", pod_anti_affinity=(term,)).job("web", labels={"app": "web"}, on="n1")
    assert open_nodes(lab, lab.session("predicates")) == expected


@pytest.mark.parametrize(
    ("app", "selector", "expected"),
    [
        ("web", (Requirement("app", "In", ("web", "db")),), ["n3", "n4", "n5"]),
        ("job", (Requirement("app", "In", ("web", "db")),), ALL),
        ("web", (Requirement("app", "NotIn", ("db",)),), ["n3", "n4", "n5"]),
        ("db", (Requirement("app", "NotIn", ("db",)),), ALL),
        ("web", (), ["n3", "n4", "n5"]),  # an empty selector means every pod
    ],
)
def test_anti_affinity_of_a_running_pod_keeps_others_away_too(
    app: str, selector: tuple[Requirement, ...], expected: list[str]
) -> None:
    lab = zones().job("new", labels={"app": app})
    lab.job("shy", on="n1", pod_anti_affinity=(PodTerm(ZONE, selector),))
    assert open_nodes(lab, lab.session("predicates")) == expected


def test_pods_placed_earlier_in_the_statement_are_seen_and_forgotten_when_undone() -> None:
    lab = zones().job("new", labels={"app": "web"}).job("shy", pod_anti_affinity=(near(ZONE, "web"),))
    session = lab.session("predicates")
    assert open_nodes(lab, session) == ALL
    statement = session.statement()
    statement.allocate(Allocation(lab["shy"], lab.pod("shy-0"), 0, ()))
    assert open_nodes(lab, session) == ["n3", "n4", "n5"]
    statement.discard()
    assert open_nodes(lab, session) == ALL


def test_a_gang_that_spreads_takes_one_node_each_or_gets_a_reason() -> None:
    spread: dict[str, Any] = {"labels": {"app": "web"}, "pod_anti_affinity": (near(HOST, "web"),), "cpu": 1}
    lab = zones().job("five", pods=5, **spread)
    session = lab.session("gang", "predicates")
    statement = session.statement()
    assert place_gang(session, lab["five"], statement) is None
    assert sorted(lab.state.names[a.node] for a in statement.allocations) == ALL
    lab = zones().job("six", pods=6, **spread)
    session = lab.session("gang", "predicates")
    reason = place_gang(session, lab["six"], session.statement())
    assert reason is not None
    assert reason.details["refusals"] == {"pod-anti-affinity": 5}


APPS = st.sampled_from(["x", "y"])
TERMS = st.lists(
    st.builds(
        PodTerm,
        st.sampled_from([ZONE, HOST]),
        st.lists(
            st.builds(
                Requirement,
                st.just("app"),
                st.sampled_from(["In", "NotIn", "Exists"]),
                st.lists(APPS, max_size=2, unique=True).map(tuple),
            ),
            max_size=1,
        ).map(tuple),
        st.sampled_from([(), ("other",), ("*",)]),
    ),
    max_size=2,
).map(tuple)
RUNNING = st.lists(
    st.tuples(st.integers(0, 4), APPS, TERMS, st.sampled_from(["default", "other"])), max_size=5
)


@given(RUNNING, RUNNING, APPS, TERMS, TERMS)
def test_counts_by_place_answer_like_looking_at_every_pod(
    running: list[Any], placed: list[Any], app: str, wants: tuple[PodTerm, ...], shuns: tuple[PodTerm, ...]
) -> None:
    lab = zones().job("new", labels={"app": app}, pod_affinity=wants, pod_anti_affinity=shuns)
    for number, (node, label, terms, namespace) in enumerate(running):
        cls = pod_class(pod_anti_affinity=terms)
        lab.put(
            pod(
                f"r{number}",
                uid=f"r{number}",
                cls=cls,
                namespace=namespace,
                on=f"n{node + 1}",
                labels={"app": label},
            )
        )
    for number, (_, label, terms, namespace) in enumerate(placed):
        lab.job(f"p{number}", labels={"app": label}, pod_anti_affinity=terms, namespace=namespace)
    session = lab.session("predicates")
    assert open_nodes(lab, session) == plainly(lab)
    statement = session.statement()
    for number, (node, _, _, namespace) in enumerate(placed):
        statement.allocate(Allocation(lab[f"{namespace}/p{number}"], lab.pod(f"p{number}-0"), node, ()))
    assert open_nodes(lab, session) == plainly(lab)
    statement.discard()
    assert open_nodes(lab, session) == plainly(lab)


def plainly(lab: Lab) -> list[str]:
    """The same by the letter of the rules, pod by pod."""
    new = lab.pod("new-0")
    there = [(p.pod, p.node) for p in lab.state.pods.values() if p.node >= 0]

    def domain(node: int, key: str) -> str | None:
        known = lab.state.nodes[node]
        assert known is not None
        return known.name if key == HOST else known.labels.get(key)

    def same(one: int, other: int, key: str) -> bool:
        return domain(one, key) is not None and domain(one, key) == domain(other, key)

    def speaks_of(owner: Pod, term: PodTerm, pod: Pod) -> bool:
        spaces = term.namespaces or (owner.namespace,)
        return (pod.namespace in spaces or "*" in spaces) and all_hold(term.selector, pod.labels)

    def friendly(node: int) -> bool:
        wants = new.cls.pod_affinity
        friends = [(p, n) for p, n in there if all(speaks_of(new, term, p) for term in wants)]
        alone = not friends and all(speaks_of(new, term, new) for term in wants)
        return all(
            domain(node, term.topology_key) is not None
            and (alone or any(same(node, n, term.topology_key) for _, n in friends))
            for term in wants
        )

    def peaceful(node: int) -> bool:
        return not any(
            same(node, where, term.topology_key)
            for pod, where in there
            for owner, term, other in (
                *((new, term, pod) for term in new.cls.pod_anti_affinity),
                *((pod, term, new) for term in pod.cls.pod_anti_affinity),
            )
            if speaks_of(owner, term, other)
        )

    return [lab.state.names[n] for n in lab.state.existing_nodes() if friendly(n) and peaceful(n)]


#: Around what a node of 1 TiB offers, and around what is rounded.
_bytes = st.integers(0, 600 << 20) | st.sampled_from((0, 1, (1 << 28) - 1, 1 << 28, (1 << 28) + 1))


@given(
    below=st.lists(_bytes, min_size=1, max_size=6),
    used=st.sampled_from((0, 1, 96 * GIB, 96 * GIB + 1)),
    free=_bytes,
    resource=st.sampled_from(("memory", "ephemeral-storage")),
)
def test_room_is_exact_to_the_byte_though_classes_are_rounded(
    below: list[int], used: int, free: int, resource: str
) -> None:
    """A request that fits on some nodes of a shape goes to those, and only to those.

    A node that does not list its memory takes any request for it.
    """
    lab = cluster()

    def amounts(amount: int) -> Any:
        return {"memory": amount} if resource == "memory" else {"extended": {resource: amount}}

    offered = {f"n{number}": 1024 * GIB - less for number, less in enumerate(below)}
    for name, amount in offered.items():
        lab.node(name, cpu=1000, **amounts(amount))
        if used:
            lab.job(f"old-{name}", on=name, **amounts(used))
    if resource == "memory":
        lab.node("bare", cpu=1000, memory=0)
    asked = 1024 * GIB - used - free
    lab.job("new", cls=pod_class(cpu=1, **amounts(asked)))
    session = lab.session("predicates")
    selection = session.node_selection(lab["new"], lab.pod("new-0"))
    nodes = [
        name for name in open_nodes(lab, session) if selection.verdict(lab.state.node_id[name])[1] is None
    ]
    fitting = [name for name, amount in offered.items() if used + asked <= amount]
    assert nodes == [*["bare"] * (resource == "memory"), *fitting]


def test_preferences_for_pods_are_the_sums_of_single_terms() -> None:
    lab = zones().job("web", labels={"app": "web"}, on="n1").job("db", labels={"app": "db"}, on="n4")
    terms = [replace(near(ZONE, "web", f"other-{number}"), weight=2) for number in range(50)]
    apart = [replace(near(ZONE, "db", f"other-{number}"), weight=1) for number in range(50)]
    cls = pod_class(preferred_pod_affinity=tuple(terms), preferred_pod_anti_affinity=tuple(apart))
    lab.job("new", cls=cls)
    preferred = node_preferences(lab.session("nodeorder"), lab["new"], lab.pod("new-0"))
    assert preferred is not None
    # 100 in one zone and -50 in the other, of a spread of 150, times 100 and the weight 2.
    assert {name: round(preferred.extra(lab.state.node_id[name]), 3) for name in ALL} == {
        "n1": 133.333,
        "n2": 133.333,
        "n3": -66.667,
        "n4": -66.667,
        "n5": 0,
    }
