"""What pods are near, compiled for all terms of a job together, equals a look at all pods for each term."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.framework import placed_labels
from ringwise.framework.affinity import pod_affinity
from ringwise.framework.affinity.pod_affinity import PodAffinityIndex
from ringwise.framework.selectors import domain_of
from ringwise.framework.session import Session
from ringwise.framework.statement import Allocation
from ringwise.state.changes import RecentChanges
from ringwise.state.model import Namespace, Pod, PodClass, PodTerm, Requirement, TopologySpread
from ringwise.state.node_labels import members_of
from tests.builders.session_lab import CountedSteps, Lab, cluster
from tests.builders.values import pod, pod_class
from tests.framework.term_matching import matches_pod

HOST, ZONE = "kubernetes.io/hostname", "zone"
KEYS = st.sampled_from(["app", "tier", "team"])
VALUES = st.sampled_from(["a", "b", "c"])
SPACES = st.sampled_from(["default", "other", "third"])
LABELS = st.dictionaries(KEYS, VALUES)
REQUIREMENTS = st.one_of(
    st.builds(
        Requirement,
        KEYS,
        st.sampled_from(["In", "In", "NotIn"]),
        st.lists(VALUES, min_size=1, max_size=2, unique=True).map(tuple),
    ),
    st.builds(Requirement, KEYS, st.sampled_from(["Exists", "DoesNotExist"])),
)
TERMS = st.lists(
    st.builds(
        PodTerm,
        st.sampled_from([ZONE, HOST, "absent"]),
        st.lists(REQUIREMENTS, max_size=3).map(tuple),
        st.sampled_from([(), ("*",), ("other",), ("default", "third", "nowhere", "void")]),
        st.integers(1, 9),
        st.sampled_from([None, None, (Requirement("team", "In", ("a",)),), (Requirement("team", "Exists"),)]),
    ),
    max_size=3,
).map(tuple)
CLASSES = st.builds(
    lambda wants, shuns, likes, dislikes: pod_class(
        pod_affinity=wants,
        pod_anti_affinity=shuns,
        preferred_pod_affinity=likes,
        preferred_pod_anti_affinity=dislikes,
    ),
    *(TERMS, TERMS, TERMS, TERMS),
)
PODS = st.lists(st.tuples(SPACES, LABELS, st.integers(0, 3)), max_size=8)


def zones() -> Lab:
    lab = cluster()
    for number in range(3):
        lab.node(f"n{number}", labels={ZONE: "xy"[number > 1]})
    lab.state.namespaces.put(Namespace("other", {"team": "a"}))
    lab.state.namespaces.put(Namespace("third", {"team": "b"}))
    return lab.node("n3")


def give(lab: Lab, name: str, cls: PodClass) -> None:
    """Pods of a job that differ."""
    pod = replace(lab.pod(name), cls=cls)
    lab.put(pod)
    lab["new"].pods[pod.uid] = pod


def check(lab: Lab, session: Session, classes: list[PodClass]) -> None:
    """For every class of the job: what the index says about every node, and what a look at all pods says."""
    index = session.shared(PodAffinityIndex)
    there = [(record.pod, record.node) for record in lab.state.pods.values() if record.node >= 0]
    for number, cls in enumerate(classes):
        pod = lab.pod(f"new-{number}")
        nearby = index.nearby(lab["new"], pod)
        single = (*cls.pod_anti_affinity, *cls.preferred_pod_affinity)
        items: list[tuple[PodTerm, ...]] = [(term,) for term in single]
        if cls.pod_affinity:
            items.append(cls.pod_affinity)
        for terms in items:
            bit = nearby.bit_of_all(terms) if terms == cls.pod_affinity else nearby.bit_of(terms[0])

            def matches(other: Pod, terms: tuple[PodTerm, ...] = terms) -> bool:
                labels = lab.state.namespaces.labels(other.namespace)
                return all(matches_pod(term, "default", other, labels) for term in terms)

            assert bool(nearby.anywhere() & bit) is any(matches(one) for one, _ in there)
            assert bool(nearby.matching(pod) & bit) is matches(pod)
            for term in terms:
                for node in range(4):
                    domain = domain_of(lab.state, node, term.topology_key)
                    if domain is not None:
                        wanted = sum(
                            matches(one) and domain_of(lab.state, where, term.topology_key) == domain
                            for one, where in there
                        )
                        assert nearby.count(term.topology_key, domain, bit) == wanted
                        assert bool(nearby.at(term.topology_key, domain) & bit) is (wanted > 0)
        if not cls.preferred_pod_affinity and not cls.preferred_pod_anti_affinity:
            continue
        weighted = [(term, term.weight) for term in cls.preferred_pod_affinity]
        weighted += [(term, -term.weight) for term in cls.preferred_pod_anti_affinity]
        preferred = index.preferred(lab["new"], pod)
        sums = [
            sum(
                weight
                for term, weight in weighted
                for one, where in there
                if matches_pod(term, "default", one, lab.state.namespaces.labels(one.namespace))
                and domain_of(lab.state, node, term.topology_key) is not None
                and domain_of(lab.state, where, term.topology_key)
                == domain_of(lab.state, node, term.topology_key)
            )
            for node in range(4)
        ]
        assert [preferred.numbers.of(node) for node in range(4)] == sums
        assert preferred.spread == max(0, *sums) - min(0, *sums)


@given(st.lists(CLASSES, min_size=1, max_size=3), PODS, PODS, LABELS, st.booleans(), st.integers(1, 8))
def test_it_equals_a_look_at_all_pods_for_each_term(
    classes: list[PodClass], running: list[Any], placed: list[Any], own: Any, forgetful: bool, keys: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placed_labels, "MAX_KEYS", keys)
        if forgetful:
            patch.setattr(RecentChanges, "MOST", 1)
        lab = zones().job("new", pods=len(classes), labels=own)
        for number, cls in enumerate(classes):
            give(lab, f"new-{number}", cls)
        for number, (space, labels, node) in enumerate(running):
            lab.put(pod(f"r{number}", 0, namespace=space, on=f"n{node}", labels=labels))
        for number, (space, labels, _) in enumerate(placed):
            lab.job(f"p{number}", labels=labels, namespace=space)
        session = lab.session("predicates", "nodeorder")
        check(lab, session, classes)
        statement = session.statement()
        for number, (space, _, node) in enumerate(placed):
            statement.allocate(Allocation(lab[f"{space}/p{number}"], lab.pod(f"p{number}-0"), node, ()))
            check(lab, session, classes)
        statement.discard()
        check(lab, session, classes)
        # The next cycle, after labels changed and pods left.
        for number, (space, labels, node) in enumerate(running):
            if number % 3 == 0:
                lab.state.drop_pod(f"r{number}")
            elif number % 3 == 1:
                changed = {**labels, "app": "c"}
                lab.state.put_pod(pod(f"r{number}", 0, namespace=space, on=f"n{node}", labels=changed))
        check(lab, lab.session("predicates", "nodeorder"), classes)


def steps_for(pods: int, terms: tuple[PodTerm, ...], classes: int = 1) -> int:
    """Steps of the first look at the nodes for a job of so many classes, with pods of many jobs placed."""
    lab = zones().job("new", pods=classes)
    for number in range(classes):
        own = PodTerm(ZONE, (Requirement("app", "Exists"), Requirement("x", "NotIn", (str(number),))), ("*",))
        give(lab, f"new-{number}", pod_class(pod_anti_affinity=(*terms, own)))
    for number in range(pods):
        labels = {"app": "a", "job": f"j{number // 4}"}
        lab.put(pod(f"r{number}", 0, on=f"n{number % 4}", labels=labels))
    session = lab.session("predicates", "nodeorder")
    session.budget = budget = CountedSteps()
    for number in range(classes):
        session.shared(PodAffinityIndex).nearby(lab["new"], lab.pod(f"new-{number}")).at(ZONE, "x")
    return budget.all


def test_each_placed_pod_is_looked_at_once_for_all_terms_of_a_job() -> None:
    broad = [PodTerm(ZONE, (Requirement(f"no-{number}", "DoesNotExist"),), ("*",)) for number in range(200)]

    def for_more_pods(terms: list[PodTerm], classes: int = 1) -> int:
        return steps_for(800, tuple(terms), classes) - steps_for(400, tuple(terms), classes)

    assert for_more_pods(broad[:1]) == for_more_pods(broad) <= 4 * 400
    # The classes of a gang whose pods differ are counted together.
    assert for_more_pods(broad, classes=50) == for_more_pods(broad)


def test_to_compile_a_term_counts_once_for_all_pods_of_a_job() -> None:
    """A gang each pod of which has terms of its own is compiled in every cycle in which it is tried."""
    terms = [PodTerm(ZONE, (Requirement("x", "In", (f"{number}",)),)) for number in range(200)]
    own = steps_for(0, tuple(terms)) // 200
    assert own >= 10
    assert steps_for(0, tuple(terms), classes=50) <= (200 + 2 * 50) * own


def test_a_term_that_wants_a_label_looks_at_the_pods_that_have_it() -> None:
    """As every job has it that keeps its pods apart: the index of the label exists after the first."""
    lab = zones()
    for number in range(400):
        labels = {"job": f"j{number // 4}"}
        lab.put(pod(f"r{number}", 0, on=f"n{number % 4}", labels=labels))
    for number in range(3):
        apart = PodTerm(HOST, (Requirement("job", "In", (f"j{number}",)),))
        lab.job(f"new{number}", pod_anti_affinity=(apart,))
    session = lab.session("predicates")
    steps = []
    for number in range(3):
        session.budget = budget = CountedSteps()
        session.shared(PodAffinityIndex).nearby(lab[f"new{number}"], lab.pod(f"new{number}-0"))
        steps.append(budget.all)
    # Four pods, and the term.
    assert steps[1:] == [24, 24]
    # So does the next cycle find it.
    following = lab.session("predicates")
    following.topology.placed_labels = session.topology.placed_labels
    following.budget = budget = CountedSteps()
    following.shared(PodAffinityIndex).nearby(lab["new0"], lab.pod("new0-0"))
    assert budget.all == 24


def test_classes_that_differ_otherwise_share_what_is_compiled_of_equal_terms() -> None:
    """300 pods with 60 constraints of 50 expressions took 10 s and 440 MiB in one turn."""

    def constraints(number: int) -> tuple[TopologySpread, ...]:
        wanted = tuple(Requirement(f"k{place}", "NotIn", (f"v{number}",)) for place in range(8))
        return tuple(TopologySpread(PodTerm(ZONE, (*wanted, one)), 1, True) for one in wanted)

    lab = zones()
    for number in range(3):
        lab.job(f"new{number}", cls=pod_class(cpu=100 + number, spread=constraints(number // 2)))
    session = lab.session("predicates")
    index = session.shared(PodAffinityIndex)
    steps, nearby = [], []
    for number in range(3):
        session.budget = budget = CountedSteps()
        job, pod = lab[f"new{number}"], lab.pod(f"new{number}-0")
        nearby.append(index.nearby(job, pod))
        index.spread(job, pod)
        steps.append(budget.all)
    assert nearby[0] is nearby[1]
    assert nearby[0] is not nearby[2]
    # Each expression takes its time.
    assert steps[0] >= steps[2] >= 8 * 9 * 8
    assert steps[1] <= 1


def test_a_pod_weighs_its_own_preferences_and_not_those_of_its_gang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the cost of a gang grows with the square of its pods: 300 with 512 terms took minutes."""
    weighed = 0

    def counting(terms: int) -> list[int]:
        nonlocal weighed
        found = members_of(terms)
        weighed += len(found)
        return found

    monkeypatch.setattr(pod_affinity, "members_of", counting)
    lab = zones().job("new", pods=30)
    for number in range(30):
        terms = tuple(
            PodTerm(ZONE, (Requirement("x", "NotIn", (f"{number}-{term}",)),), weight=1) for term in range(10)
        )
        give(lab, f"new-{number}", pod_class(preferred_pod_affinity=terms))
    lab.put(pod("running", 0, on="n0"))
    session = lab.session("predicates", "nodeorder")
    for number in range(30):
        preferred = session.shared(PodAffinityIndex).preferred(lab["new"], lab.pod(f"new-{number}"))
        assert preferred.numbers.of(0) == 10
    assert weighed == 30 * 10
