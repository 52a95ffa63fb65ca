"""Filters that depend on the single node: its name, its ports, and the pods in its topology domains.

Most pods need none of them and get no filter.
"""

from __future__ import annotations

from ringwise.framework.extension_points import NodeFilter, first_reason
from ringwise.framework.job import Job
from ringwise.framework.pod_affinity import DomainCounts, MatchingPods, PodAffinityIndex, domain_of
from ringwise.framework.selectors import matches_node, written_term
from ringwise.framework.session import Session
from ringwise.plugins.predicates.reasons import (
    AFFINITY_MISMATCH,
    ANTI_AFFINITY_OF_OTHERS,
    POD_AFFINITY_UNMET,
    POD_ANTI_AFFINITY,
    PORT_TAKEN,
)
from ringwise.reasons import Reason, ReasonKind
from ringwise.state.model import Pod, PodTerm

_ANY_ADDRESS = frozenset({"", "0.0.0.0"})


class NodeFilters:
    def __init__(self, session: Session, *, names: bool, ports: bool, pod_affinity: bool) -> None:
        self._session = session
        self._names = names
        self._ports = ports
        self._pod_affinity = session.shared(PodAffinityIndex) if pod_affinity else None

    def filter(self, job: Job, pod: Pod) -> NodeFilter | None:
        cls = pod.cls
        asks = cls.node_terms or cls.host_ports or cls.pod_affinity or cls.pod_anti_affinity
        if not asks and not self._session.state.averse:
            return None
        filters: list[NodeFilter] = []
        if self._names and cls.node_terms and any(term.fields for term in cls.node_terms):
            filters.append(self._by_name(pod))
        if self._ports and cls.host_ports:
            filters.append(self._by_ports(job, pod))
        if self._pod_affinity is not None:
            self._by_pod_affinity(pod, self._pod_affinity, filters)
        if len(filters) <= 1:
            return filters[0] if filters else None
        return lambda node: first_reason(filters, node)

    def _by_name(self, pod: Pod) -> NodeFilter:
        nodes = self._session.state.nodes
        terms = pod.cls.node_terms

        def check(number: int) -> Reason | None:
            node = nodes[number]
            if node is not None and any(matches_node(term, node.labels, node.name) for term in terms):
                return None
            wanted = [written_term(term) for term in terms]
            return AFFINITY_MISMATCH(terms=len(terms), wanted=wanted)

        return check

    def _by_ports(self, job: Job, pod: Pod) -> NodeFilter:
        state = self._session.state
        wanted = pod.cls.host_ports
        nominated = self._nominated(job)

        def check(number: int) -> Reason | None:
            for uid in (*state.pods_on[number], *nominated.get(number, ())):
                other = state.pods[uid].pod
                for taken in other.cls.host_ports:
                    if any(_clash(port, taken) for port in wanted):
                        _, protocol, port = taken
                        user = other.key if uid in state.pods_on[number] else f"{other.key} (nominated)"
                        return PORT_TAKEN(node=state.names[number], port=port, protocol=protocol, pod=user)
            return None

        return check

    def _nominated(self, job: Job) -> dict[int, list[str]]:
        """Pods of other jobs for which pods are evicted, by node: freed ports are kept for them."""
        state = self._session.state
        found: dict[int, list[str]] = {}
        for reservation in self._session.reservations:
            if reservation.owner != job.key:
                for uid, node in reservation.nominated.items():
                    if uid in state.pods and state.pods[uid].pod.cls.host_ports:
                        found.setdefault(node, []).append(uid)
        return found

    def _by_pod_affinity(self, pod: Pod, affinity: PodAffinityIndex, filters: list[NodeFilter]) -> None:
        cls = pod.cls
        for term in cls.pod_anti_affinity:
            pods = affinity.matching((term,), pod.namespace)
            filters.append(self._apart(POD_ANTI_AFFINITY, term, pods.domains[term.topology_key]))
        if cls.pod_affinity:
            pods = affinity.matching(cls.pod_affinity, pod.namespace)
            filters.append(self._together(pods, anywhere=not pods.total and pods.match(pod)))
        for term, counts in affinity.anti_affinity_to(pod):
            filters.append(self._apart(ANTI_AFFINITY_OF_OTHERS, term, counts))

    def _apart(self, kind: ReasonKind, term: PodTerm, counts: DomainCounts) -> NodeFilter:
        """Not in a domain where one of the counted pods runs."""
        session, key = self._session, term.topology_key

        def check(node: int) -> Reason | None:
            domain = domain_of(session, node, key)
            pods = 0 if domain is None else counts.get(domain, 0)
            if not pods:
                return None
            return kind(pods=pods, key=key, node=session.state.names[node], wanted=written_term(term))

        return check

    def _together(self, pods: MatchingPods, anywhere: bool) -> NodeFilter:
        """Only where such pods run, for every topology key. `anywhere`: the first pod of a group with
        affinity to itself may start on any node that has the keys."""
        session = self._session

        def check(node: int) -> Reason | None:
            for term in pods.terms:
                key = term.topology_key
                if domain_of(session, node, key) is None or not (anywhere or pods.in_domain(node, key)):
                    return POD_AFFINITY_UNMET(
                        key=key, node=session.state.names[node], wanted=written_term(term)
                    )
            return None

        return check


def _clash(port: tuple[str, str, int], taken: tuple[str, str, int]) -> bool:
    if port[1:] != taken[1:]:
        return False
    return port[0] == taken[0] or port[0] in _ANY_ADDRESS or taken[0] in _ANY_ADDRESS
