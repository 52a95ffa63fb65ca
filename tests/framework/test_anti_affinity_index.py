"""The anti-affinity of placed pods, kept up to date, equals a look at all of them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.framework.anti_affinity_index import AntiAffinityIndex, TermSets
from ringwise.framework.selectors import domain_of
from ringwise.state.changes import RecentChanges
from ringwise.state.model import Namespace, Pod, PodTerm, Requirement
from ringwise.state.namespaces import Namespaces
from tests.builders import values
from tests.builders.session_lab import Lab, cluster
from tests.builders.values import pod, pod_class
from tests.framework.term_matching import matches_pod

TOPOLOGY_KEYS = ["zone", "kubernetes.io/hostname"]
KEYS = st.sampled_from(["app", "tier"])
VALUES = st.sampled_from(["a", "b"])
SPACES = st.sampled_from(["one", "two"])
LABELS = st.dictionaries(KEYS, VALUES)
REQUIREMENTS = st.one_of(
    st.builds(Requirement, KEYS, st.sampled_from(["In", "NotIn"]), st.tuples(VALUES)),
    st.builds(Requirement, KEYS, st.sampled_from(["Exists", "DoesNotExist"])),
)
TERMS = st.builds(
    PodTerm,
    st.sampled_from(TOPOLOGY_KEYS),
    st.lists(REQUIREMENTS, max_size=2).map(tuple),
    st.sampled_from([(), ("*",), ("two",)]),
    st.just(0),
    st.sampled_from(
        [None, None, (Requirement("team", "In", ("a",)),), (Requirement("team", "DoesNotExist"),)]
    ),
)
PODS = st.lists(st.tuples(SPACES, LABELS, st.lists(TERMS, max_size=3).map(tuple)), min_size=1, max_size=6)
#: A pod is placed on a node or removed, a node gets another zone, or a namespace another label.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("place"), st.integers(0, 5), st.integers(0, 2)),
        st.tuples(st.just("place"), st.integers(0, 5), st.integers(0, 2)),
        st.tuples(st.just("remove"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("zone"), st.integers(0, 2), st.integers(0, 1)),
        st.tuples(st.just("team"), st.integers(0, 1), st.integers(0, 1)),
    ),
    min_size=2,
    max_size=20,
)


def expected(lab: Lab, pod: Pod) -> dict[tuple[str, str], int]:
    """How many terms of placed pods keep the pod away from each domain."""
    found: dict[tuple[str, str], int] = {}
    for record in lab.state.pods.values():
        if record.node < 0:
            continue
        for term in record.pod.cls.pod_anti_affinity:
            domain = domain_of(lab.state, record.node, term.topology_key)
            labels = lab.state.namespaces.labels(pod.namespace)
            if domain is not None and matches_pod(term, record.pod.namespace, pod, labels):
                place = (term.topology_key, domain)
                found[place] = found.get(place, 0) + 1
    return found


@given(PODS, st.lists(st.tuples(SPACES, LABELS), min_size=1, max_size=3), STEPS, st.booleans())
def test_it_equals_a_look_at_all_placed_pods(
    pods: list[tuple[str, Any, Any]],
    tried: list[tuple[str, Any]],
    steps: list[tuple[str, int, int]],
    forgetful: bool,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if forgetful:
            patch.setattr(RecentChanges, "MOST", 1)
        lab = cluster()
        for number in range(3):
            lab.node(f"n{number}", labels={"zone": "x"})
        for number, (space, labels, terms) in enumerate(pods):
            cls = pod_class(pod_anti_affinity=terms)
            lab.put(values.pod(f"p{number}", cls=cls, namespace=space, labels=labels))
        anti_affinity = AntiAffinityIndex()
        new = [values.pod("new", 0, namespace=space, labels=labels) for space, labels in tried]
        for action, first, second in steps:
            uid = f"p{first % len(pods)}"
            if action == "place" and lab.state.pods[uid].node < 0:
                lab.state.place(uid, second, 0)
            elif action == "remove":
                lab.state.release(uid)
            elif action == "zone":
                lab.node(f"n{first}", labels={"zone": "xy"[second]})
            elif action == "team":
                lab.state.namespaces.put(Namespace(("one", "two")[first], {"team": "ab"[second]}))
            for pod in new:
                terms = anti_affinity.terms_against(lab.state, pod)
                wanted = expected(lab, pod)
                for node in range(3):
                    kept = anti_affinity.at(lab.state, terms, node)
                    there = {key: domain_of(lab.state, node, key) for key in TOPOLOGY_KEYS}
                    away = [place for place in wanted if there[place[0]] == place[1]]
                    assert (kept is not None) is bool(away)
                    if kept is not None:
                        domain = there[kept[0].topology_key]
                        assert domain is not None
                        assert 0 < kept[1] <= wanted[kept[0].topology_key, domain]


def test_terms_that_are_gone_leave_nothing_behind() -> None:
    lab = cluster().node("n0", labels={"zone": "x"})
    term = PodTerm(
        "zone",
        (Requirement("app", "In", ("a", "b")), Requirement("tier", "NotIn", ("c",))),
        namespace_selector=(Requirement("team", "DoesNotExist"),),
    )
    lab.put(pod("p", cls=pod_class(pod_anti_affinity=(term,)), namespace="one"))
    anti_affinity = AntiAffinityIndex()
    new = pod("new", cls=pod_class(), namespace="one", labels={"app": "a"})
    for zone in ("x", "x", "y"):
        lab.state.place("p", 0, 0)
        assert anti_affinity.terms_against(lab.state, new) == 1
        lab.state.release("p")
        lab.node("n0", labels={"zone": zone})
        assert anti_affinity.terms_against(lab.state, new) == 0
    kept = vars(anti_affinity._terms)
    for part in (kept, vars(kept.pop("_pods")), vars(kept.pop("_spaces"))):
        assert not any(map(bool, part.values()))


class _LookedAt(dict[str, str]):
    looks = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.looks += 1
        return super().get(key, default)

    def __getitem__(self, key: str) -> str:
        self.looks += 1
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.looks += 1
        return super().__contains__(key)


def test_terms_that_select_namespaces_are_not_held_against_each_namespace() -> None:
    """Ten pods with 256 terms each took two seconds in a cluster of 1,000 namespaces."""
    labels = _LookedAt(team="a")

    class Known(Namespaces):
        def labels(self, name: str) -> _LookedAt:
            return labels

    terms, pod = TermSets(), values.pod("new", 0, namespace="one", labels={"app": "a"})
    for number in range(200):
        selector = (Requirement("team", "NotIn", (f"t{number}",)),)
        app = (Requirement("app", "Exists"),)
        terms.bit_of((PodTerm("zone", app, namespace_selector=selector), "two"))
        if number in (0, 199):
            labels.looks = 0 if number == 0 else labels.looks
            assert terms.matching(pod, Known()) == (1 << number + 1) - 1
    assert labels.looks < 20


@pytest.mark.full
def test_many_terms_need_memory_for_what_they_say_and_no_more() -> None:
    """The set of each value was an integer as long as the number of all terms: 27 MB of pods took 5 GiB."""
    lab = cluster()
    for number in range(16):
        lab.node(f"n{number}")
        terms = tuple(
            PodTerm("kubernetes.io/hostname", (Requirement("app", "NotIn", (f"{number}-{term}-{value}",)),))
            for term in range(250)
            for value in range(2)
        )
        lab.put(pod(f"p{number}", cls=pod_class(pod_anti_affinity=terms), namespace="one"))
        lab.state.place(f"p{number}", number, 0)
    anti_affinity = AntiAffinityIndex()
    new = pod("new", cls=pod_class(), namespace="one", labels={"app": "a"})
    tracemalloc.start(1)
    try:
        assert anti_affinity.terms_against(lab.state, new).bit_count() == 16 * 500
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken < 16 * 500 * 700


def test_labels_of_a_pod_are_looked_at_only_where_a_term_names_them_and_counted() -> None:
    class Labels(dict[str, str]):
        looks = 0

        def __getitem__(self, key: str) -> str:
            self.looks += 1
            return super().__getitem__(key)

        def __contains__(self, key: object) -> bool:
            self.looks += 1
            return super().__contains__(key)

        def __iter__(self) -> Iterator[str]:
            for key in super().__iter__():
                self.looks += 1
                yield key

    sets = TermSets()
    sets.bit_of((PodTerm("zone", tuple(Requirement(f"l{number}", "Exists") for number in range(64))), "one"))
    labels = Labels({f"l{number}": "v" for number in range(1000)})
    assert sets.matching(pod("p", cls=pod_class(), namespace="one", labels=labels), Namespaces()) == 1
    assert 0 < labels.looks <= 4 * 64
    assert sets.steps(pod("p", cls=pod_class(), namespace="one", labels=labels)) >= 64
    assert sets.steps(pod("p", cls=pod_class(), namespace="one", labels={})) == 0


def test_labels_of_nodes_that_no_term_names_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 pods with 256 terms were counted again, in every turn after a label of any node had changed."""
    lab = cluster()
    for number in range(3):
        lab.node(f"n{number}", labels={"zone": "a"})
    terms = tuple(PodTerm("zone", (Requirement("app", "In", (str(place),)),)) for place in range(20))
    for number in range(3):
        lab.job(f"old{number}", on=f"n{number}", cls=pod_class(pod_anti_affinity=terms))
    anti_affinity, pod = AntiAffinityIndex(), values.pod("p", 0, labels={"app": "7"})
    against = anti_affinity.terms_against(lab.state, pod)
    counted: list[int] = []
    count = AntiAffinityIndex._count

    def counting(self: AntiAffinityIndex, *told: Any) -> None:
        counted.append(told[-1])
        count(self, *told)

    monkeypatch.setattr(AntiAffinityIndex, "_count", counting)
    lab.node("n0", labels={"zone": "a", "other": "x"}).node("n3", labels={"zone": "b"})
    assert anti_affinity.terms_against(lab.state, pod) == against
    assert counted == []
    lab.node("n0", labels={"zone": "b", "other": "x"})
    assert anti_affinity.at(
        lab.state, anti_affinity.terms_against(lab.state, pod), lab.state.node_id["n3"]
    ) == (
        terms[7],
        1,
    )
    assert counted == [-1, 1]
