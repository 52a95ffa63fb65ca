"""Who runs near whom: pods that a pod term names, counted by place.

A *place* is all nodes that share a value of a term's topology key. Counts are made
when somebody first asks, and kept by notices from then on, so a pod sees those that
were placed before it in the same statement.
"""

from __future__ import annotations

from collections.abc import Iterable

from ringwise.framework.extension_points import Point
from ringwise.framework.job import Job
from ringwise.framework.selectors import ALL_NAMESPACES, all_hold
from ringwise.framework.session import Session
from ringwise.state.model import Pod, PodTerm
from ringwise.wellknown import HOSTNAME

#: Pods per value of a topology key.
Places = dict[str, int]
#: A term, and the namespace of the pod that has it.
OwnedTerm = tuple[PodTerm, str]


def names(term: PodTerm, owner_namespace: str, pod: Pod) -> bool:
    """Whether a term of a pod in `owner_namespace` speaks of this pod."""
    spaces = term.namespaces or (owner_namespace,)
    if pod.namespace not in spaces and ALL_NAMESPACES not in spaces:
        return False
    return all_hold(term.selector, pod.labels)


def place_of(session: Session, node: int, key: str) -> str | None:
    """The node's value of a topology key. A node without a host name label is known by its name."""
    found = session.state.nodes[node]
    if found is None:
        return None
    value = found.labels.get(key)
    return found.name if value is None and key == HOSTNAME else value


class Company:
    """Pods that all of some terms name, counted for each topology key of the terms."""

    __slots__ = ("_namespace", "_session", "places", "terms", "total")

    def __init__(self, session: Session, terms: tuple[PodTerm, ...], namespace: str) -> None:
        self._session = session
        self._namespace = namespace
        self.terms = terms
        self.places: dict[str, Places] = {term.topology_key: {} for term in terms}
        self.total = 0
        for placement in session.state.pods.values():
            if placement.node >= 0:
                self.change(placement.pod, placement.node, 1)

    def change(self, pod: Pod, node: int, by: int) -> None:
        if not self.named(pod):
            return
        self.total += by
        for key, places in self.places.items():
            _count(places, place_of(self._session, node, key), by)

    def named(self, pod: Pod) -> bool:
        return all(names(term, self._namespace, pod) for term in self.terms)

    def near(self, node: int, key: str) -> int:
        place = place_of(self._session, node, key)
        return 0 if place is None else self.places[key].get(place, 0)


class Neighbours:
    """All companies asked about in this cycle, and the pods that want no others near them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._companies: dict[tuple[tuple[PodTerm, ...], str], Company] = {}
        #: Terms of placed pods that keep others away, under the labels their first `In` asks for.
        self._aversions: dict[tuple[str, str], dict[OwnedTerm, Places]] | None = None
        session.on(Point.ALLOCATED, self._placed)
        session.on(Point.DEALLOCATED, self._removed)

    def company(self, terms: tuple[PodTerm, ...], namespace: str) -> Company:
        key = (terms, namespace)
        found = self._companies.get(key)
        if found is None:
            found = self._companies[key] = Company(self._session, terms, namespace)
        return found

    def aversions_to(self, pod: Pod) -> list[tuple[PodTerm, Places]]:
        """Required anti-affinity of placed pods that speaks of this one, with where they are."""
        table = self._aversions
        if table is None:
            table = self._aversions = {}
            placements = self._session.state.pods
            for uid in self._session.state.averse:
                self._avert(placements[uid].pod, placements[uid].node, 1)
        if not table:
            return []
        return [
            (term, places)
            for slot in (("", ""), *pod.labels.items())
            for (term, namespace), places in table.get(slot, {}).items()
            if places and names(term, namespace, pod)
        ]

    def _avert(self, pod: Pod, node: int, by: int) -> None:
        table = self._aversions
        if table is None:
            return
        for term in pod.cls.pod_anti_affinity:
            owned = (term, pod.namespace)
            slots = list(_slots(term))
            places = table.setdefault(slots[0], {}).setdefault(owned, {})
            for slot in slots[1:]:
                table.setdefault(slot, {})[owned] = places
            _count(places, place_of(self._session, node, term.topology_key), by)

    def _placed(self, job: Job, pod: Pod, node: int) -> None:
        if self._companies or pod.cls.pod_anti_affinity:
            self._change(pod, node, 1)

    def _removed(self, job: Job, pod: Pod, node: int) -> None:
        self._change(pod, node, -1)

    def _change(self, pod: Pod, node: int, by: int) -> None:
        for company in self._companies.values():
            company.change(pod, node, by)
        if pod.cls.pod_anti_affinity:
            self._avert(pod, node, by)


def _slots(term: PodTerm) -> Iterable[tuple[str, str]]:
    """The labels under which a term is looked up: those of its first `In`, else any."""
    for requirement in term.selector:
        if requirement.operator == "In" and requirement.values:
            return [(requirement.key, value) for value in requirement.values]
    return [("", "")]


def _count(places: Places, place: str | None, by: int) -> None:
    if place is None:
        return
    value = places.get(place, 0) + by
    if value:
        places[place] = value
    else:
        places.pop(place, None)
