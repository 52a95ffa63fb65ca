"""Filters that depend on the single node: its ports, and the pods in its topology domains.

Most pods need none of them and get no filter.
"""

from __future__ import annotations

from collections.abc import Iterable

from ringwise.framework.affinity.pod_affinity import PodAffinityIndex
from ringwise.framework.affinity.topology_spread import SpreadCounts
from ringwise.framework.extension_points import NodeFilter, SetFilter, first_reason
from ringwise.framework.job import Job
from ringwise.framework.selectors import domain_of, written_term
from ringwise.framework.session import Session
from ringwise.plugins.predicates.reasons import (
    ANTI_AFFINITY_OF_OTHERS,
    POD_AFFINITY_UNMET,
    POD_ANTI_AFFINITY,
    PORT_TAKEN,
    SPREAD_KEY_MISSING,
    TOPOLOGY_SPREAD,
)
from ringwise.reasons import Reason
from ringwise.state.model import Pod, PodTerm

_ANY_ADDRESS = frozenset({"", "0.0.0.0"})
#: So many are compared in the time of a step.
_PORTS_A_STEP = 16


class NodeFilters:
    def __init__(self, session: Session, *, ports: bool, pod_affinity: bool, spread: bool) -> None:
        self._session = session
        self._ports = ports
        self._pod_affinity = session.shared(PodAffinityIndex) if pod_affinity else None
        self._spread = session.shared(PodAffinityIndex) if spread else None

    def filter(self, job: Job, pod: Pod) -> NodeFilter | None:
        cls = pod.cls
        asks = cls.host_ports or cls.pod_affinity or cls.pod_anti_affinity
        if not asks and not self._session.state.anti_affinity_pods:
            return None
        filters: list[NodeFilter] = []
        if self._ports and cls.host_ports:
            filters.append(self._by_ports(job, pod))
        if self._pod_affinity is not None:
            self._by_pod_affinity(job, pod, self._pod_affinity, filters)
        if len(filters) <= 1:
            return filters[0] if filters else None
        return lambda node: first_reason(filters, node)

    def evenly(self, job: Job, pod: Pod) -> NodeFilter | None:
        """For pods with required spread constraints."""
        spread = pod.cls.spread
        if not spread or self._spread is None or not any(constraint.required for constraint in spread):
            return None
        return Evenly(self._session, self._spread, job, pod)

    def _by_ports(self, job: Job, pod: Pod) -> NodeFilter:
        state = self._session.state
        wanted: dict[tuple[str, int], list[str]] = {}
        self._session.budget.spend(len(pod.cls.ports) // _PORTS_A_STEP)
        for address, protocol, port in pod.cls.host_ports:
            wanted.setdefault((protocol, port), []).append(address)
        nominated, budget, own = self._nominated(job), self._session.budget, pod.cls.ports

        def check(number: int) -> Reason | None:
            for uid in (*state.pods_on[number], *nominated.get(number, ())):
                other = state.pods[uid].pod
                if not other.cls.ports:
                    continue
                # As much as this pod itself asks for: others may have any number.
                budget.spend(1 + len(own) // _PORTS_A_STEP)
                if own.isdisjoint(other.cls.ports):
                    continue
                for address, protocol, port in other.cls.host_ports:
                    if any(_clash(address, ours) for ours in wanted.get((protocol, port), ())):
                        user = other.key if uid in state.pods_on[number] else f"{other.key} (nominated)"
                        return PORT_TAKEN(node=state.names[number], port=port, protocol=protocol, pod=user)
            return None

        return check

    def _nominated(self, job: Job) -> dict[int, list[str]]:
        """Pods of other jobs for which pods are evicted, by node: freed ports are kept for them."""
        state = self._session.state
        result: dict[int, list[str]] = {}
        for reservation in self._session.reservations:
            if reservation.owner != job.key:
                for uid, node in reservation.nominated.items():
                    if uid in state.pods:
                        result.setdefault(node, []).append(uid)
        return result

    def _by_pod_affinity(
        self, job: Job, pod: Pod, affinity: PodAffinityIndex, filters: list[NodeFilter]
    ) -> None:
        cls = pod.cls
        if cls.pod_anti_affinity:
            filters.append(self._apart(job, pod, affinity))
        if cls.pod_affinity:
            filters.append(self._together(job, pod, affinity))
        if self._session.state.anti_affinity_pods:
            session = self._session
            terms = session.topology.anti_affinity_index.terms_against(session.state, pod, session.budget)
            if terms:
                filters.append(self._away_from(terms))

    def _apart(self, job: Job, pod: Pod, affinity: PodAffinityIndex) -> NodeFilter:
        """Not in a domain where a pod runs that one of the terms matches."""
        state, terms = self._session.state, pod.cls.pod_anti_affinity
        nearby = affinity.nearby(job, pod)
        by_key: dict[str, int] = {}
        for term in terms:
            by_key[term.topology_key] = by_key.get(term.topology_key, 0) | nearby.bit_of(term)
        first_of: dict[int, tuple[PodTerm, str]] = {}

        def first(matching: int) -> tuple[PodTerm, str]:
            entry = first_of.get(matching)
            if entry is None:
                term = next(one for one in terms if nearby.bit_of(one) & matching)
                entry = first_of[matching] = term, written_term(term)
            return entry

        def check(node: int) -> Reason | None:
            nearby = affinity.nearby(job, pod)
            matching = 0
            for key, bits in by_key.items():
                domain = domain_of(state, node, key)
                if domain is not None:
                    matching |= nearby.at(key, domain) & bits
            if not matching:
                return None
            term, wanted = first(matching)
            key = term.topology_key
            pods = nearby.count(key, domain_of(state, node, key) or "", nearby.bit_of(term))
            return POD_ANTI_AFFINITY(pods=pods, key=key, node=state.names[node], wanted=wanted)

        return check

    def _away_from(self, terms: int) -> NodeFilter:
        """Not in a domain where a pod with one of these anti-affinity terms runs."""
        state, anti_affinity = self._session.state, self._session.topology.anti_affinity_index

        def check(node: int) -> Reason | None:
            conflict = anti_affinity.at(state, terms, node)
            if conflict is None:
                return None
            term, pods = conflict
            return ANTI_AFFINITY_OF_OTHERS(
                pods=pods, key=term.topology_key, node=state.names[node], wanted=written_term(term)
            )

        return check

    def _together(self, job: Job, pod: Pod, affinity: PodAffinityIndex) -> NodeFilter:
        """Only where pods run that all terms match, for every topology key.

        The first pod of a group with affinity to itself may start on any node that has the keys.
        """
        state, terms = self._session.state, pod.cls.pod_affinity
        nearby = affinity.nearby(job, pod)
        bit = nearby.bit_of_all(terms)
        anywhere = not nearby.anywhere() & bit and bool(nearby.matching(pod) & bit)
        first_with = {term.topology_key: term for term in reversed(terms)}
        # In the order of the terms.
        keys = dict.fromkeys(term.topology_key for term in terms)

        def check(node: int) -> Reason | None:
            nearby = affinity.nearby(job, pod)
            for key in keys:
                domain = domain_of(state, node, key)
                if domain is None or not (anywhere or nearby.at(key, domain) & bit):
                    wanted = written_term(first_with[key])
                    return POD_AFFINITY_UNMET(key=key, node=state.names[node], wanted=wanted)
            return None

        return check


class Evenly(SetFilter):
    """Rejects nodes in domains that would exceed the domain with the fewest pods by more than maxSkew."""

    def __init__(self, session: Session, index: PodAffinityIndex, job: Job, pod: Pod) -> None:
        self._state = session.state
        self._index = index
        self._job = job
        self._pod = pod
        #: For each constraint: whether it counts the pod.
        self._counted = [(counts, counts.counts(pod)) for counts in index.spread(job, pod)]
        self._version = index.version

    def _counts(self) -> Iterable[tuple[SpreadCounts, bool]]:
        # Every node is asked about, and a pod may have many constraints.
        if self._version != self._index.version:
            self._index.spread(self._job, self._pod)
            self._version = self._index.version
        return self._counted

    def nodes(self) -> int:
        result = self._state.labels.existing
        for counts, itself in self._counts():
            result &= counts.open_nodes(itself)
        return result

    def __call__(self, node: int) -> Reason | None:
        for counts, itself in self._counts():
            key = counts.constraint.term.topology_key
            domain = domain_of(self._state, node, key)
            if domain is None:
                return SPREAD_KEY_MISSING(key=key, node=self._state.names[node])
            if counts.at(domain) > counts.most(itself):
                pods, fewest = counts.at(domain) + itself, counts.fewest()
                return TOPOLOGY_SPREAD(
                    key=key,
                    node=self._state.names[node],
                    pods=pods,
                    fewest=fewest,
                    most=counts.constraint.max_skew,
                    needed=pods - fewest,
                    wanted=written_term(counts.constraint.term),
                )
        return None


def _clash(address: str, other: str) -> bool:
    return address == other or address in _ANY_ADDRESS or other in _ANY_ADDRESS
