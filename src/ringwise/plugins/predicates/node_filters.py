"""Filters that depend on the single node: its ports, and the pods in its topology domains.

Most pods need none of them and get no filter.
"""

from __future__ import annotations

from ringwise.framework.extension_points import NodeFilter, first_reason
from ringwise.framework.job import Job
from ringwise.framework.pod_affinity import (
    DomainCounts,
    MatchingPods,
    PodAffinityIndex,
)
from ringwise.framework.selectors import domain_of, written_term
from ringwise.framework.session import Session
from ringwise.plugins.predicates.reasons import (
    ANTI_AFFINITY_OF_OTHERS,
    POD_AFFINITY_UNMET,
    POD_ANTI_AFFINITY,
    PORT_TAKEN,
)
from ringwise.reasons import Reason, ReasonKind
from ringwise.state.model import Pod, PodTerm

_ANY_ADDRESS = frozenset({"", "0.0.0.0"})


class NodeFilters:
    def __init__(self, session: Session, *, ports: bool, pod_affinity: bool) -> None:
        self._session = session
        self._ports = ports
        self._pod_affinity = session.shared(PodAffinityIndex) if pod_affinity else None

    def filter(self, job: Job, pod: Pod) -> NodeFilter | None:
        cls = pod.cls
        asks = cls.host_ports or cls.pod_affinity or cls.pod_anti_affinity
        if not asks and not self._session.state.averse:
            return None
        filters: list[NodeFilter] = []
        if self._ports and cls.host_ports:
            filters.append(self._by_ports(job, pod))
        if self._pod_affinity is not None:
            self._by_pod_affinity(pod, self._pod_affinity, filters)
        if len(filters) <= 1:
            return filters[0] if filters else None
        return lambda node: first_reason(filters, node)

    def _by_ports(self, job: Job, pod: Pod) -> NodeFilter:
        state = self._session.state
        wanted: dict[tuple[str, int], list[str]] = {}
        for address, protocol, port in pod.cls.host_ports:
            wanted.setdefault((protocol, port), []).append(address)
        nominated = self._nominated(job)

        def check(number: int) -> Reason | None:
            for uid in (*state.pods_on[number], *nominated.get(number, ())):
                other = state.pods[uid].pod
                for address, protocol, port in other.cls.host_ports:
                    if any(_clash(address, ours) for ours in wanted.get((protocol, port), ())):
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
        if self._session.state.averse:
            terms = self._session.topology.averse_pods.terms_against(self._session.state, pod)
            if terms:
                filters.append(self._away_from(terms))

    def _apart(self, kind: ReasonKind, term: PodTerm, counts: DomainCounts) -> NodeFilter:
        """Not in a domain where one of the counted pods runs."""
        session, key = self._session, term.topology_key

        def check(node: int) -> Reason | None:
            domain = domain_of(session.state, node, key)
            pods = 0 if domain is None else counts.get(domain, 0)
            if not pods:
                return None
            return kind(pods=pods, key=key, node=session.state.names[node], wanted=written_term(term))

        return check

    def _away_from(self, terms: int) -> NodeFilter:
        """Not in a domain where a pod with one of these anti-affinity terms runs."""
        state, averse = self._session.state, self._session.topology.averse_pods

        def check(node: int) -> Reason | None:
            found = averse.at(state, terms, node)
            if found is None:
                return None
            term, pods = found
            return ANTI_AFFINITY_OF_OTHERS(
                pods=pods, key=term.topology_key, node=state.names[node], wanted=written_term(term)
            )

        return check

    def _together(self, pods: MatchingPods, anywhere: bool) -> NodeFilter:
        """Only where such pods run, for every topology key. `anywhere`: the first pod of a group with
        affinity to itself may start on any node that has the keys."""
        session = self._session

        def check(node: int) -> Reason | None:
            for term in pods.terms:
                key = term.topology_key
                if domain_of(session.state, node, key) is None or not (anywhere or pods.in_domain(node, key)):
                    return POD_AFFINITY_UNMET(
                        key=key, node=session.state.names[node], wanted=written_term(term)
                    )
            return None

        return check


def _clash(address: str, other: str) -> bool:
    return address == other or address in _ANY_ADDRESS or other in _ANY_ADDRESS
