"""Inter-pod affinity: pods that the terms of a pod match, counted by topology domain.

A *domain* is all nodes that share a value of a term's topology key. All terms of a job are compiled together
(`averse_pods.TermSets`): a set of terms is an integer with a bit for each, and each placed pod is looked at
once, however many terms there are. Pods are counted when a job first asks, and the counts follow what is
placed from then on, so a pod sees those that were placed before it in the same statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from ringwise.framework.averse_pods import TermSets
from ringwise.framework.extension_points import ALLOCATED, DEALLOCATED
from ringwise.framework.job import Job
from ringwise.framework.selectors import domain_of
from ringwise.framework.session import Session
from ringwise.state.model import Pod, PodClass, PodTerm
from ringwise.state.node_labels import members_of

#: Pods that are looked at before progress is reported.
_CHUNK = 4_096
#: Labels that are indexed for one job. Terms that want others look at all pods of their namespaces, once.
_MOST_KEYS = 4
#: Pods with the same terms matching, by the set of these terms.
_Counts = dict[int, int]
#: A node, or a domain.
Place = TypeVar("Place", int, str)
#: A pod was placed on a node (1) or removed from it (-1).
_Change = tuple[Pod, int, int]


class NearbyPods:
    """Pods that the terms of some classes of pods match, by topology domain."""

    def __init__(self, session: Session, classes: Iterable[PodClass], namespace: str) -> None:
        self._session = session
        self._namespace = namespace
        self._terms = TermSets()
        #: Affinity terms that one pod must match together: their bits, and the bit that stands for all.
        self._together: dict[tuple[PodTerm, ...], tuple[int, int]] = {}
        #: Sets of terms, and the same with those bits.
        self._completed: dict[int, int] = {}
        groups = []
        for cls in classes:
            for term in _single_terms(cls):
                self._terms.bit_of((term, namespace))
            if len(cls.pod_affinity) > 1:
                groups.append(cls.pod_affinity)
                for term in cls.pod_affinity:
                    self._terms.bit_of((term, namespace))
        for group in dict.fromkeys(groups):
            bit = 1 << len(self._terms.terms) + len(self._together)
            self._together[group] = self._mask(group), bit
        self._read = 0
        self._on_node: dict[int, _Counts] = {}
        #: By topology key and domain, for keys that were asked for; and the terms that match any pod there.
        self._domains: dict[str, dict[str, _Counts]] = {}
        self._unions: dict[str, dict[str, int]] = {}
        #: The terms that match any pod anywhere; None: to be computed.
        self._anywhere: int | None = None
        self._counted: dict[tuple[str, str, int], int] = {}

    # -- questions -------------------------------------------------------------------------

    def bit_of(self, term: PodTerm) -> int:
        """What stands for a term in sets of terms."""
        return 1 << self._terms.bit_of((term, self._namespace))

    def bit_of_all(self, terms: tuple[PodTerm, ...]) -> int:
        """What stands for all of a pod's affinity terms: a pod counts that all of them match."""
        return self._together[terms][1] if len(terms) > 1 else self.bit_of(terms[0])

    def matching(self, pod: Pod) -> int:
        """The terms that match a pod."""
        found = self._terms.matching(pod)
        if not found or not self._together:
            return found
        known = self._completed.get(found)
        if known is None:
            known = found
            self._session.budget.spend(len(self._together) // 16)
            for mask, bit in self._together.values():
                if found & mask == mask:
                    known |= bit
            self._completed[found] = known
        return known

    def anywhere(self) -> int:
        """The terms that match any placed pod."""
        if self._anywhere is None:
            self._anywhere = 0
            for counts in self._on_node.values():
                for terms in counts:
                    self._anywhere |= terms
        return self._anywhere

    def at(self, key: str, domain: str) -> int:
        """The terms that match a pod in this domain."""
        unions = self._unions.get(key)
        if unions is None:
            self._index(key)
            unions = self._unions[key]
        found = unions.get(domain)
        if found is None:
            found = 0
            for terms in self._domains[key].get(domain, ()):
                found |= terms
            unions[domain] = found
        return found

    def count(self, key: str, domain: str, bit: int) -> int:
        """How many pods a term matches in this domain."""
        place = (key, domain, bit)
        known = self._counted.get(place)
        if known is None:
            counts = self.domains(key).get(domain, {})
            known = self._counted[place] = sum(pods for terms, pods in counts.items() if terms & bit)
        return known

    def domains(self, key: str) -> Mapping[str, Mapping[int, int]]:
        """All domains with such pods: how many pods there are, by the set of terms that match them."""
        if key not in self._domains:
            self._index(key)
        return self._domains[key]

    # -- counting --------------------------------------------------------------------------

    def count_all(self, candidates: Sequence[str]) -> None:
        placements, budget = self._session.state.pods, self._session.budget
        for start in range(0, len(candidates), _CHUNK):
            chunk = candidates[start : start + _CHUNK]
            budget.spend(len(chunk))
            for uid in chunk:
                terms = self.matching(placements[uid].pod)
                if terms:
                    _add(self._on_node, placements[uid].node, terms, 1)

    def begin_at(self, changes: int) -> None:
        """So many changes were made before the pods were counted."""
        self._read = changes

    def follow(self, changes: Sequence[_Change]) -> None:
        if self._read == len(changes):
            return
        self._session.budget.spend(len(changes) - self._read)
        for pod, node, by in changes[self._read :]:
            terms = self.matching(pod)
            if not terms:
                continue
            _add(self._on_node, node, terms, by)
            self._anywhere = self._anywhere | terms if by > 0 and self._anywhere is not None else None
            self._counted.clear()
            for key, domains in self._domains.items():
                domain = domain_of(self._session.state, node, key)
                if domain is not None:
                    _add(domains, domain, terms, by)
                    self._unions[key].pop(domain, None)
        self._read = len(changes)

    def _index(self, key: str) -> None:
        domains = self._domains[key] = {}
        self._unions[key] = {}
        state = self._session.state
        self._session.budget.spend(len(self._on_node))
        for node, counts in self._on_node.items():
            domain = domain_of(state, node, key)
            if domain is not None:
                for terms, pods in counts.items():
                    _add(domains, domain, terms, pods)

    def _mask(self, terms: Iterable[PodTerm]) -> int:
        mask = 0
        for term in terms:
            mask |= self.bit_of(term)
        return mask

    @property
    def terms(self) -> list[PodTerm]:
        return [term for term, _ in self._terms.terms]


class PodAffinityIndex:
    """The pods near which pods of this cycle want to be, or do not want to be."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._nearby: dict[tuple[PodClass, str], NearbyPods] = {}
        #: What was placed and removed since the first question; whoever asks catches up.
        self._changes: list[_Change] = []
        session.register(ALLOCATED, self._placed)
        session.register(DEALLOCATED, self._removed)

    def nearby(self, job: Job, pod: Pod) -> NearbyPods:
        """For the terms of this pod. Those of all pods of its job are counted together."""
        found = self._nearby.get((pod.cls, pod.namespace))
        if found is None:
            others = (one.cls for one in (*job.pods.values(), pod) if one.namespace == pod.namespace)
            classes = [
                cls
                for cls in dict.fromkeys(others)
                if (cls, pod.namespace) not in self._nearby and has_pod_terms(cls)
            ]
            found = self._count(classes, pod.namespace)
            for cls in (*classes, pod.cls):
                self._nearby[cls, pod.namespace] = found
        found.follow(self._changes)
        return found

    def _count(self, classes: Sequence[PodClass], namespace: str) -> NearbyPods:
        session = self._session
        found = NearbyPods(session, classes, namespace)
        found.begin_at(len(self._changes))
        labels = session.topology.placed_labels
        keys = dict.fromkeys(
            next((one.key for one in term.selector if one.operator == "In"), None) for term in found.terms
        )
        wanted = [key for key in keys if key is not None][:_MOST_KEYS]
        session.budget.spend(labels.index(session.state, wanted))
        found.count_all(list(labels.candidates(found.terms, namespace)))
        return found

    def _placed(self, job: Job, pod: Pod, node: int) -> None:
        if self._nearby:
            self._changes.append((pod, node, 1))

    def _removed(self, job: Job, pod: Pod, node: int) -> None:
        if self._nearby:
            self._changes.append((pod, node, -1))


def has_pod_terms(cls: PodClass) -> bool:
    return bool(
        cls.pod_affinity
        or cls.pod_anti_affinity
        or cls.preferred_pod_affinity
        or cls.preferred_pod_anti_affinity
    )


def _single_terms(cls: PodClass) -> Iterator[PodTerm]:
    """The terms that count each by itself."""
    yield from cls.pod_anti_affinity
    yield from cls.preferred_pod_affinity
    yield from cls.preferred_pod_anti_affinity
    if len(cls.pod_affinity) == 1:
        yield from cls.pod_affinity


def weights_of(nearby: NearbyPods, weighted: Iterable[tuple[PodTerm, int]]) -> dict[str, dict[int, int]]:
    """By topology key: the weight of each term, by its bit."""
    found: dict[str, dict[int, int]] = {}
    for term, weight in weighted:
        bits = found.setdefault(term.topology_key, {})
        bit = nearby.bit_of(term)
        bits[bit] = bits.get(bit, 0) + weight
    return found


def domain_scores(nearby: NearbyPods, key: str, weights: Mapping[int, int]) -> dict[str, int]:
    """Weight times matching pods of each domain."""
    mask = 0
    for bit in weights:
        mask |= bit
    known: dict[int, int] = {}
    found: dict[str, int] = {}
    for domain, counts in nearby.domains(key).items():
        score = 0
        for terms, pods in counts.items():
            ours = terms & mask
            weight = known.get(ours)
            if weight is None:
                weight = known[ours] = sum(weights[1 << number] for number in members_of(ours))
            score += weight * pods
        if score:
            found[domain] = score
    return found


def _add(table: dict[Place, _Counts], place: Place, terms: int, by: int) -> None:
    counts = table.get(place)
    if counts is None:
        counts = table[place] = {}
    left = counts.get(terms, 0) + by
    if left:
        counts[terms] = left
    else:
        del counts[terms]
        if not counts:
            del table[place]
