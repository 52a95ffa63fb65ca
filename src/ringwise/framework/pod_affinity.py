"""Inter-pod affinity: pods that an affinity term matches, counted by topology domain.

A *domain* is all nodes that share a value of a term's topology key. Pods are counted when
a term is first used, and the counts are kept by notices from then on, so a pod sees those
that were placed before it in the same statement.
"""

from __future__ import annotations

from collections.abc import Iterable

from ringwise.framework.extension_points import ALLOCATED, DEALLOCATED
from ringwise.framework.job import Job
from ringwise.framework.selectors import ALL_NAMESPACES, all_hold
from ringwise.framework.session import Session
from ringwise.state.model import Pod, PodTerm
from ringwise.wellknown import HOSTNAME

#: Pods per value of a topology key.
DomainCounts = dict[str, int]
#: A term, and the namespace of the pod it belongs to.
OwnedTerm = tuple[PodTerm, str]


def matches(term: PodTerm, owner_namespace: str, pod: Pod) -> bool:
    """Whether a term of a pod in `owner_namespace` matches this pod."""
    spaces = term.namespaces or (owner_namespace,)
    if pod.namespace not in spaces and ALL_NAMESPACES not in spaces:
        return False
    return all_hold(term.selector, pod.labels)


def domain_of(session: Session, node: int, key: str) -> str | None:
    """The node's value of a topology key. Without a host name label its name is used."""
    found = session.state.nodes[node]
    if found is None:
        return None
    value = found.labels.get(key)
    return found.name if value is None and key == HOSTNAME else value


class MatchingPods:
    """Pods that all of some terms match, counted for each topology key of the terms."""

    __slots__ = ("_namespace", "_session", "domains", "terms", "total")

    def __init__(self, session: Session, terms: tuple[PodTerm, ...], namespace: str) -> None:
        self._session = session
        self._namespace = namespace
        self.terms = terms
        self.domains: dict[str, DomainCounts] = {term.topology_key: {} for term in terms}
        self.total = 0
        for placement in session.state.pods.values():
            if placement.node >= 0:
                self.change(placement.pod, placement.node, 1)

    def change(self, pod: Pod, node: int, by: int) -> None:
        if not self.match(pod):
            return
        self.total += by
        for key, counts in self.domains.items():
            _count(counts, domain_of(self._session, node, key), by)

    def match(self, pod: Pod) -> bool:
        return all(matches(term, self._namespace, pod) for term in self.terms)

    def in_domain(self, node: int, key: str) -> int:
        """How many of them run in the domain of this node."""
        domain = domain_of(self._session, node, key)
        return 0 if domain is None else self.domains[key].get(domain, 0)


class PodAffinityIndex:
    """The counts of all terms used in this cycle, and the required anti-affinity of placed pods."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._matching: dict[tuple[tuple[PodTerm, ...], str], MatchingPods] = {}
        #: Required anti-affinity terms of placed pods, by the labels that their first `In` requires.
        self._anti_affinity: dict[tuple[str, str], dict[OwnedTerm, DomainCounts]] | None = None
        session.register(ALLOCATED, self._placed)
        session.register(DEALLOCATED, self._removed)

    def matching(self, terms: tuple[PodTerm, ...], namespace: str) -> MatchingPods:
        key = (terms, namespace)
        found = self._matching.get(key)
        if found is None:
            found = self._matching[key] = MatchingPods(self._session, terms, namespace)
        return found

    def anti_affinity_to(self, pod: Pod) -> list[tuple[PodTerm, DomainCounts]]:
        """Required anti-affinity terms of placed pods that match this one, with the counts of those pods."""
        table = self._anti_affinity
        if table is None:
            table = self._anti_affinity = {}
            placements = self._session.state.pods
            for uid in self._session.state.averse:
                self._count_anti_affinity(placements[uid].pod, placements[uid].node, 1)
        if not table:
            return []
        return [
            (term, counts)
            for label in (("", ""), *pod.labels.items())
            for (term, namespace), counts in table.get(label, {}).items()
            if counts and matches(term, namespace, pod)
        ]

    def _count_anti_affinity(self, pod: Pod, node: int, by: int) -> None:
        table = self._anti_affinity
        if table is None:
            return
        for term in pod.cls.pod_anti_affinity:
            owned = (term, pod.namespace)
            labels = list(_index_labels(term))
            counts = table.setdefault(labels[0], {}).setdefault(owned, {})
            for label in labels[1:]:
                table.setdefault(label, {})[owned] = counts
            _count(counts, domain_of(self._session, node, term.topology_key), by)

    def _placed(self, job: Job, pod: Pod, node: int) -> None:
        if self._matching or pod.cls.pod_anti_affinity:
            self._change(pod, node, 1)

    def _removed(self, job: Job, pod: Pod, node: int) -> None:
        self._change(pod, node, -1)

    def _change(self, pod: Pod, node: int, by: int) -> None:
        for pods in self._matching.values():
            pods.change(pod, node, by)
        if pod.cls.pod_anti_affinity:
            self._count_anti_affinity(pod, node, by)


def _index_labels(term: PodTerm) -> Iterable[tuple[str, str]]:
    """The labels under which a term is looked up: those of its first `In`, else any."""
    for requirement in term.selector:
        if requirement.operator == "In" and requirement.values:
            return [(requirement.key, value) for value in requirement.values]
    return [("", "")]


def _count(counts: DomainCounts, domain: str | None, by: int) -> None:
    if domain is None:
        return
    value = counts.get(domain, 0) + by
    if value:
        counts[domain] = value
    else:
        counts.pop(domain, None)
