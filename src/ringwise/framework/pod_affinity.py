"""Inter-pod affinity: pods that an affinity term matches, counted by topology domain.

A *domain* is all nodes that share a value of a term's topology key. Pods are counted when
a term is first used, and the counts are kept by notices from then on, so a pod sees those
that were placed before it in the same statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ringwise.framework.extension_points import ALLOCATED, DEALLOCATED
from ringwise.framework.job import Job
from ringwise.framework.selectors import ALL_NAMESPACES, domain_of, matches_pod
from ringwise.framework.session import Session
from ringwise.state.model import Pod, PodTerm

#: Pods per value of a topology key.
DomainCounts = dict[str, int]


class MatchingPods:
    """Pods that all of some terms match, counted for each topology key of the terms."""

    __slots__ = ("_namespace", "_session", "domains", "terms", "total")

    def __init__(
        self, session: Session, terms: tuple[PodTerm, ...], namespace: str, candidates: Sequence[str]
    ) -> None:
        self._session = session
        self._namespace = namespace
        self.terms = terms
        self.domains: dict[str, DomainCounts] = {term.topology_key: {} for term in terms}
        self.total = 0
        session.budget.spend(len(candidates))
        placements = session.state.pods
        for uid in candidates:
            self.change(placements[uid].pod, placements[uid].node, 1)

    def change(self, pod: Pod, node: int, by: int) -> None:
        if not self.match(pod):
            return
        self.total += by
        for key, counts in self.domains.items():
            _count(counts, domain_of(self._session.state, node, key), by)

    def match(self, pod: Pod) -> bool:
        return all(matches_pod(term, self._namespace, pod) for term in self.terms)

    def in_domain(self, node: int, key: str) -> int:
        """How many of them run in the domain of this node."""
        domain = domain_of(self._session.state, node, key)
        return 0 if domain is None else self.domains[key].get(domain, 0)


class PodAffinityIndex:
    """The counts of all terms used in this cycle."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._matching: dict[tuple[tuple[PodTerm, ...], str], MatchingPods] = {}
        #: Placed pods by namespace, once a term asks for them.
        self._placed_in: dict[str, dict[str, None]] | None = None
        session.register(ALLOCATED, self._placed)
        session.register(DEALLOCATED, self._removed)

    def matching(self, terms: tuple[PodTerm, ...], namespace: str) -> MatchingPods:
        key = (terms, namespace)
        found = self._matching.get(key)
        if found is None:
            found = self._matching[key] = MatchingPods(
                self._session, terms, namespace, self._candidates(terms[0], namespace)
            )
        return found

    def _candidates(self, term: PodTerm, namespace: str) -> list[str]:
        """The placed pods in the namespaces of a term."""
        if self._placed_in is None:
            self._placed_in = {}
            for uid, placement in self._session.state.pods.items():
                if placement.node >= 0:
                    self._placed_in.setdefault(placement.pod.namespace, {})[uid] = None
        spaces: Iterable[str] = term.namespaces or (namespace,)
        if ALL_NAMESPACES in spaces:
            spaces = self._placed_in
        return [uid for space in spaces for uid in self._placed_in.get(space, ())]

    def _placed(self, job: Job, pod: Pod, node: int) -> None:
        if self._placed_in is not None:
            self._placed_in.setdefault(pod.namespace, {})[pod.uid] = None
            self._change(pod, node, 1)

    def _removed(self, job: Job, pod: Pod, node: int) -> None:
        if self._placed_in is not None:
            self._placed_in.get(pod.namespace, {}).pop(pod.uid, None)
            self._change(pod, node, -1)

    def _change(self, pod: Pod, node: int, by: int) -> None:
        for pods in self._matching.values():
            pods.change(pod, node, by)


def _count(counts: DomainCounts, domain: str | None, by: int) -> None:
    if domain is None:
        return
    value = counts.get(domain, 0) + by
    if value:
        counts[domain] = value
    else:
        counts.pop(domain, None)
