"""What only a single node can tell a pod: its name, its ports, and who runs near it.

Most pods ask nothing of the kind; for them there is no filter at all.
"""

from __future__ import annotations

from collections.abc import Callable

from ringwise.framework.job import Job
from ringwise.framework.neighbours import Company, Neighbours, Places, place_of
from ringwise.framework.selectors import matches_node, written_term
from ringwise.framework.session import Session
from ringwise.plugins.reasons import (
    AFFINITY_MISMATCH,
    NO_NEIGHBOUR,
    PORT_TAKEN,
    UNWANTED_BY_NEIGHBOUR,
    UNWANTED_NEIGHBOUR,
)
from ringwise.reasons import Reason, ReasonKind
from ringwise.state.model import Pod, PodTerm

Filter = Callable[[int], Reason | None]

_ANY_ADDRESS = frozenset({"", "0.0.0.0"})


class NodeFilters:
    def __init__(self, session: Session, *, names: bool, ports: bool, neighbours: bool) -> None:
        self._session = session
        self._names = names
        self._ports = ports
        self._neighbours = session.shared(Neighbours) if neighbours else None

    def filter(self, job: Job, pod: Pod) -> Filter | None:
        cls = pod.cls
        asks = cls.node_terms or cls.host_ports or cls.pod_affinity or cls.pod_anti_affinity
        if not asks and not self._session.state.averse:
            return None
        filters: list[Filter] = []
        if self._names and cls.node_terms and any(term.fields for term in cls.node_terms):
            filters.append(self._by_name(pod))
        if self._ports and cls.host_ports:
            filters.append(self._by_ports(pod))
        if self._neighbours is not None:
            self._by_neighbours(pod, self._neighbours, filters)
        if len(filters) <= 1:
            return filters[0] if filters else None
        return lambda node: next((reason for ask in filters if (reason := ask(node)) is not None), None)

    def _by_name(self, pod: Pod) -> Filter:
        nodes = self._session.state.nodes
        terms = pod.cls.node_terms

        def check(number: int) -> Reason | None:
            node = nodes[number]
            if node is not None and any(matches_node(term, node.labels, node.name) for term in terms):
                return None
            wanted = [written_term(term) for term in terms]
            return AFFINITY_MISMATCH(terms=len(terms), wanted=wanted)

        return check

    def _by_ports(self, pod: Pod) -> Filter:
        state = self._session.state
        wanted = pod.cls.host_ports

        def check(number: int) -> Reason | None:
            for uid in state.pods_on[number]:
                other = state.pods[uid].pod
                for taken in other.cls.host_ports:
                    if any(_clash(port, taken) for port in wanted):
                        _, protocol, port = taken
                        return PORT_TAKEN(
                            node=state.names[number], port=port, protocol=protocol, pod=other.key
                        )
            return None

        return check

    def _by_neighbours(self, pod: Pod, neighbours: Neighbours, filters: list[Filter]) -> None:
        cls = pod.cls
        for term in cls.pod_anti_affinity:
            company = neighbours.company((term,), pod.namespace)
            filters.append(self._without(UNWANTED_NEIGHBOUR, term, company.places[term.topology_key]))
        if cls.pod_affinity:
            company = neighbours.company(cls.pod_affinity, pod.namespace)
            filters.append(self._beside(company, anywhere=not company.total and company.named(pod)))
        for term, places in neighbours.aversions_to(pod):
            filters.append(self._without(UNWANTED_BY_NEIGHBOUR, term, places))

    def _without(self, kind: ReasonKind, term: PodTerm, places: Places) -> Filter:
        """Not where a pod of these places is."""
        session, key = self._session, term.topology_key

        def check(node: int) -> Reason | None:
            place = place_of(session, node, key)
            pods = 0 if place is None else places.get(place, 0)
            if not pods:
                return None
            return kind(pods=pods, key=key, node=session.state.names[node], wanted=written_term(term))

        return check

    def _beside(self, company: Company, anywhere: bool) -> Filter:
        """Only where the company is, for every topology key. `anywhere`: the first of a group that
        wants to be together starts where it likes, as long as the node has the keys at all."""
        session = self._session

        def check(node: int) -> Reason | None:
            for term in company.terms:
                key = term.topology_key
                if place_of(session, node, key) is None or not (anywhere or company.near(node, key)):
                    return NO_NEIGHBOUR(key=key, node=session.state.names[node], wanted=written_term(term))
            return None

        return check


def _clash(port: tuple[str, str, int], taken: tuple[str, str, int]) -> bool:
    if port[1:] != taken[1:]:
        return False
    return port[0] == taken[0] or port[0] in _ANY_ADDRESS or taken[0] in _ANY_ADDRESS
