"""Inter-pod affinity: pods that the terms of a pod match, counted by topology domain.

A *domain* is all nodes that share a value of a term's topology key. All terms of a job are compiled together
(`TermSets`): a set of terms is an integer with a bit for each, and each placed pod is looked at
once, however many terms there are. Pods are counted when a job first asks, and the counts follow what is
placed from then on, so a pod sees those that were placed before it in the same statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log
from typing import TypeVar

from ringwise.framework.affinity.topology_spread import (
    STEPS_A_SET,
    SpreadCounts,
    count_domains,
    counted_nodes,
)
from ringwise.framework.anti_affinity_index import TermSets
from ringwise.framework.extension_points import ALLOCATED, DEALLOCATED
from ringwise.framework.job import Job
from ringwise.framework.selectors import domain_of, nodes_in
from ringwise.framework.session import Session
from ringwise.state.model import Pod, PodClass, PodTerm, TopologySpread
from ringwise.state.node_labels import members_of
from ringwise.state.node_weights import NodeWeights
from ringwise.topology.chips import union_of

#: Weights of spread constraints are whole numbers.
_SCALE = 16
#: Pods that are looked at before progress is reported.
_CHUNK = 4_096
#: Labels that are indexed for one job. Terms that want others look at all pods of their namespaces, once.
_MAX_KEYS = 4
#: What a term, and each of its expressions, takes besides its values.
_STEPS_A_TERM, _STEPS_AN_EXPRESSION = 12, 8
#: Pods with the same terms matching, by the set of these terms.
_Counts = dict[int, int]
#: A node, or a domain.
Place = TypeVar("Place", int, str)
#: The terms of a class, by what they are for.
_Terms = tuple[tuple[PodTerm, ...], ...]
#: Terms with their weights, and the namespace of the pod.
_Preferences = tuple[tuple[tuple[PodTerm, int], ...], str]
#: The term of a preferred spread constraint, its weight, and the nodes on which it counts pods.
_Even = tuple[PodTerm, int, int]
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
            start = len(self._terms.terms)
            for term in _single_terms(cls):
                self._terms.bit_of((term, namespace))
            if len(cls.pod_affinity) > 1:
                groups.append(cls.pod_affinity)
                for term in cls.pod_affinity:
                    self._terms.bit_of((term, namespace))
            session.budget.spend(sum(map(_steps_to_compile, self.terms_from(start))))
        for group in dict.fromkeys(groups):
            bit = 1 << len(self._terms.terms) + len(self._together)
            self._together[group] = union_of(map(self.bit_of, group)), bit
        self._read = 0
        self._on_node: dict[int, _Counts] = {}
        #: Of those, the pods that terminate.
        self._terminating: dict[int, _Counts] = {}
        #: By topology key and domain, for keys that were asked for; and the terms that match any pod there.
        self._domains: dict[str, dict[str, _Counts]] = {}
        self._unions: dict[str, dict[str, int]] = {}
        #: The terms that match any pod anywhere; None: to be computed.
        self._anywhere: int | None = None
        self._counted: dict[tuple[str, str, int], int] = {}
        #: By topology key, for those of preferences: how many pods there are in the domain of each node,
        #: by the set of terms that match them.
        self._numbers: dict[str, dict[int, NodeWeights]] = {}

    # -- questions -------------------------------------------------------------------------

    def bit_of(self, term: PodTerm) -> int:
        """What stands for a term in sets of terms."""
        return 1 << self._terms.bit_of((term, self._namespace))

    def bit_of_all(self, terms: tuple[PodTerm, ...]) -> int:
        """What stands for all of a pod's affinity terms: a pod counts that all of them match."""
        return self._together[terms][1] if len(terms) > 1 else self.bit_of(terms[0])

    def matching(self, pod: Pod) -> int:
        """The terms that match a pod."""
        self._session.budget.spend(self._terms.steps(pod))
        result = self._terms.matching(pod, self._session.state.namespaces)
        if not result or not self._together:
            return result
        completed = self._completed.get(result)
        if completed is None:
            completed = result
            self._session.budget.spend(len(self._together) // 16)
            for mask, bit in self._together.values():
                if result & mask == mask:
                    completed |= bit
            self._completed[result] = completed
        return completed

    def anywhere(self) -> int:
        """The terms that match any placed pod."""
        if self._anywhere is None:
            self._anywhere = union_of(terms for counts in self._on_node.values() for terms in counts)
        return self._anywhere

    def at(self, key: str, domain: str) -> int:
        """The terms that match a pod in this domain."""
        unions = self._unions.get(key)
        if unions is None:
            self._index(key)
            unions = self._unions[key]
        result = unions.get(domain)
        if result is None:
            result = unions[domain] = union_of(self._domains[key].get(domain, ()))
        return result

    def count(self, key: str, domain: str, bit: int) -> int:
        """How many pods a term matches in this domain."""
        place = (key, domain, bit)
        total = self._counted.get(place)
        if total is None:
            counts = self._by_domain(key).get(domain, {})
            total = self._counted[place] = sum(pods for terms, pods in counts.items() if terms & bit)
        return total

    def staying(self, bit: int) -> Iterator[tuple[int, int]]:
        """By node: how many pods a term matches that do not terminate."""
        self._session.budget.spend(len(self._on_node))
        for node, counts in self._on_node.items():
            pods = sum(pods for terms, pods in counts.items() if terms & bit)
            if node in self._terminating:
                pods -= sum(pods for terms, pods in self._terminating[node].items() if terms & bit)
            if pods:
                yield node, pods

    def numbers(self, key: str) -> Mapping[int, NodeWeights]:
        """How many pods there are in the domain of each node, by the set of terms that match them."""
        result = self._numbers.get(key)
        if result is None:
            together: dict[tuple[int, int], list[str]] = {}
            domains = self._by_domain(key)
            self._session.budget.spend(len(domains))
            for domain, counts in domains.items():
                for same in counts.items():
                    together.setdefault(same, []).append(domain)
            result = self._numbers[key] = {}
            state = self._session.state
            for (terms, pods), where in together.items():
                _numbers_of(result, terms, state.labels.existing).add(pods, nodes_in(state, key, where))
        return result

    def _by_domain(self, key: str) -> dict[str, _Counts]:
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
                pod, node = placements[uid].pod, placements[uid].node
                terms = self.matching(pod)
                if terms:
                    _add(self._on_node, node, terms, 1)
                    if pod.deleting:
                        _add(self._terminating, node, terms, 1)

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
            if pod.deleting:
                _add(self._terminating, node, terms, by)
            self._anywhere = self._anywhere | terms if by > 0 and self._anywhere is not None else None
            self._counted.clear()
            for key, domains in self._domains.items():
                domain = domain_of(self._session.state, node, key)
                if domain is not None:
                    _add(domains, domain, terms, by)
                    self._unions[key].pop(domain, None)
                    if key in self._numbers:
                        numbers = _numbers_of(self._numbers[key], terms, self._session.state.labels.existing)
                        numbers.add(by, nodes_in(self._session.state, key, (domain,)))
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

    @property
    def terms(self) -> list[PodTerm]:
        return self.terms_from(0)

    def terms_from(self, number: int) -> list[PodTerm]:
        return [term for term, _ in self._terms.terms[number:]]


class PreferredDomains:
    """By node, for some terms: their weights times the pods in its domains that they match.

    A pod that is placed changes the numbers of the nodes in its domains, and nothing else is looked at.
    """

    def __init__(
        self, session: Session, nearby: NearbyPods, weighted: Iterable[tuple[PodTerm, int]], changes: int
    ) -> None:
        self._session = session
        self._nearby = nearby
        self._read = changes
        #: By topology key: the weight of each term, by its number; all these terms; and of sets of terms.
        self._weights: dict[str, dict[int, int]] = {}
        self._own: dict[str, int] = {}
        for term, weight in weighted:
            weights = self._weights.setdefault(term.topology_key, {})
            bit = nearby.bit_of(term)
            number = bit.bit_length() - 1
            weights[number] = weights.get(number, 0) + weight
            self._own[term.topology_key] = self._own.get(term.topology_key, 0) | bit
        self._cache: dict[tuple[str, int], int] = {}
        self.numbers = NodeWeights(session.state.labels.existing)
        for key in self._weights:
            for matching, pods in nearby.numbers(key).items():
                weight = self._weight(key, matching)
                if weight:
                    session.budget.spend(pods.digits)
                    self.numbers.add_times(weight, pods)
        self._measure()

    def follow(self, changes: Sequence[_Change]) -> None:
        if self._read == len(changes):
            return
        state, budget = self._session.state, self._session.budget
        budget.spend(len(changes) - self._read)
        changed = False
        for pod, node, by in changes[self._read :]:
            terms = self._nearby.matching(pod)
            if not terms:
                continue
            for key in self._weights:
                weight = self._weight(key, terms)
                domain = domain_of(state, node, key) if weight else None
                if domain is not None:
                    budget.spend(self.numbers.digits)
                    self.numbers.add(by * weight, nodes_in(state, key, (domain,)))
                    changed = True
        self._read = len(changes)
        if changed:
            self._measure()

    def _measure(self) -> None:
        """The widest difference of numbers, and of 0, which nodes have that are near no pod."""
        nodes = self._session.state.labels.existing
        self._session.budget.spend(2 * self.numbers.digits)
        self.spread = max(0, self.numbers.highest(nodes)[0]) - min(0, self.numbers.lowest(nodes))

    def _weight(self, key: str, terms: int) -> int:
        # The other pods of a gang may have terms of their own, each any number of them.
        terms &= self._own[key]
        weight = self._cache.get((key, terms))
        if weight is None:
            weights = self._weights[key]
            self._session.budget.spend(1 + len(weights) // 2)
            weight = self._cache[key, terms] = sum(weights[number] for number in members_of(terms))
        return weight


class EvenDomains:
    """By node, for preferred spread constraints: less for every pod that they count in its domains.

    Pods that terminate, and pods on nodes that a constraint does not count, are left out, as in
    kube-scheduler.
    """

    def __init__(self, session: Session, nearby: NearbyPods, counted: Sequence[_Even], changes: int) -> None:
        self._session = session
        self._nearby = nearby
        self._counted = [(*one, nearby.bit_of(one[0])) for one in counted]
        self._read = changes
        self.numbers = NodeWeights(session.state.labels.existing)
        for term, weight, nodes, bit in self._counted:
            pods: dict[str, int] = {}
            for node, number in nearby.staying(bit):
                domain = domain_of(session.state, node, term.topology_key)
                if domain is not None and nodes >> node & 1:
                    pods[domain] = pods.get(domain, 0) + number
            together: dict[int, list[str]] = {}
            for domain, number in pods.items():
                together.setdefault(number, []).append(domain)
            session.budget.spend(len(pods) + STEPS_A_SET * len(together))
            for number, domains in together.items():
                self.numbers.add(-weight * number, nodes_in(session.state, term.topology_key, domains))
        self._measure()

    def follow(self, changes: Sequence[_Change]) -> None:
        if self._read == len(changes):
            return
        state, budget = self._session.state, self._session.budget
        budget.spend(len(changes) - self._read)
        changed = False
        for pod, node, by in changes[self._read :]:
            matching = 0 if pod.deleting else self._nearby.matching(pod)
            for term, weight, nodes, bit in self._counted if matching else ():
                domain = domain_of(state, node, term.topology_key) if matching & bit else None
                if domain is not None and nodes >> node & 1:
                    budget.spend(self.numbers.digits)
                    self.numbers.add(-weight * by, nodes_in(state, term.topology_key, (domain,)))
                    changed = True
        self._read = len(changes)
        if changed:
            self._measure()

    def _measure(self) -> None:
        self._session.budget.spend(self.numbers.digits)
        self.spread = -min(0, self.numbers.lowest(self._session.state.labels.existing))


class PodAffinityIndex:
    """The pods near which pods of this cycle want to be, or do not want to be."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._nearby: dict[tuple[PodClass, str], NearbyPods] = {}
        #: The same by the terms: those of classes that differ otherwise are compiled and counted once.
        self._compiled: dict[tuple[tuple[_Terms, ...], str], NearbyPods] = {}
        #: By class and namespace of the pods: for their preferences, and for their spread constraints.
        self._preferred: dict[tuple[PodClass, str], PreferredDomains] = {}
        self._even: dict[tuple[PodClass, str], EvenDomains] = {}
        #: The same by the terms: those of classes that differ otherwise are counted together.
        self._weighted: dict[_Preferences, PreferredDomains] = {}
        self._spread_out: dict[tuple[tuple[_Even, ...], str], EvenDomains] = {}
        self._spread: dict[tuple[PodClass, str], list[SpreadCounts]] = {}
        self._spread_counts: dict[tuple[TopologySpread, int, str], SpreadCounts] = {}
        #: What was placed and removed since the first question; whoever asks catches up.
        self._changes: list[_Change] = []
        session.register(ALLOCATED, self._placed)
        session.register(DEALLOCATED, self._removed)

    def nearby(self, job: Job, pod: Pod) -> NearbyPods:
        """For the terms of this pod. Those of all pods of its job are counted together."""
        result = self._nearby.get((pod.cls, pod.namespace))
        if result is None:
            others = (one.cls for one in (*job.pods.values(), pod) if one.namespace == pod.namespace)
            classes = [
                cls
                for cls in dict.fromkeys(others)
                if (cls, pod.namespace) not in self._nearby and has_pod_terms(cls)
            ]
            key = tuple(dict.fromkeys(map(_terms_of, classes))), pod.namespace
            compiled = self._compiled.get(key)
            result = self._compiled[key] = compiled or self._count(classes, pod.namespace)
            for cls in (*classes, pod.cls):
                self._nearby[cls, pod.namespace] = result
        result.follow(self._changes)
        return result

    def preferred(self, job: Job, pod: Pod) -> PreferredDomains:
        """For the preferences of this pod."""
        cls = pod.cls
        result = self._preferred.get((cls, pod.namespace))
        if result is None:
            attracted = ((term, term.weight) for term in cls.preferred_pod_affinity)
            repelled = ((term, -term.weight) for term in cls.preferred_pod_anti_affinity)
            result = self._of_terms(job, pod, (*attracted, *repelled))
            self._preferred[cls, pod.namespace] = result
        result.follow(self._changes)
        return result

    def even(self, job: Job, pod: Pod) -> EvenDomains:
        """For the spread constraints that this pod prefers.

        Fewer pods are better, and more so where there are many domains, as in kube-scheduler.
        """
        cls, session = pod.cls, self._session
        result = self._even.get((cls, pod.namespace))
        if result is None:
            preferred = [constraint for constraint in cls.spread if not constraint.required]
            counted = []
            for constraint, nodes in zip(preferred, counted_nodes(session, cls, preferred), strict=True):
                domains = count_domains(session, constraint.term.topology_key, nodes)
                counted.append((constraint.term, round(_SCALE * log(domains + 2)), nodes))
            key = tuple(counted), pod.namespace
            spread = self._spread_out.get(key)
            if spread is None:
                nearby = self.nearby(job, pod)
                spread = EvenDomains(session, nearby, counted, len(self._changes))
                self._spread_out[key] = spread
            result = self._even[cls, pod.namespace] = spread
        result.follow(self._changes)
        return result

    def _of_terms(self, job: Job, pod: Pod, weighted: tuple[tuple[PodTerm, int], ...]) -> PreferredDomains:
        result = self._weighted.get((weighted, pod.namespace))
        if result is None:
            nearby = self.nearby(job, pod)
            result = PreferredDomains(self._session, nearby, weighted, len(self._changes))
            self._weighted[weighted, pod.namespace] = result
        return result

    @property
    def version(self) -> int:
        """It grows when a pod is placed or removed."""
        return len(self._changes)

    def spread(self, job: Job, pod: Pod) -> list[SpreadCounts]:
        """For the required spread constraints of this pod."""
        result = self._spread.get((pod.cls, pod.namespace))
        if result is None:
            nearby, cls = self.nearby(job, pod), pod.cls
            required = [constraint for constraint in cls.spread if constraint.required]
            counted = counted_nodes(self._session, cls, required)
            result = self._spread[cls, pod.namespace] = []
            for constraint, nodes in zip(required, counted, strict=True):
                key = constraint, nodes, pod.namespace
                counts = self._spread_counts.get(key)
                if counts is None:
                    bit = nearby.bit_of(constraint.term)
                    counts = SpreadCounts(self._session, constraint, bit, nodes, nearby, len(self._changes))
                    self._spread_counts[key] = counts
                result.append(counts)
        for counts in result:
            counts.follow(self._changes)
        return result

    def _count(self, classes: Sequence[PodClass], namespace: str) -> NearbyPods:
        session = self._session
        result = NearbyPods(session, classes, namespace)
        result.begin_at(len(self._changes))
        labels = session.topology.placed_labels
        keys = dict.fromkeys(
            next((one.key for one in term.selector if one.operator == "In"), None) for term in result.terms
        )
        wanted = [key for key in keys if key is not None][:_MAX_KEYS]
        session.budget.spend(labels.index(session.state, wanted))
        result.count_all(list(labels.candidates(result.terms, namespace)))
        return result

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
        or cls.spread
    )


def _terms_of(cls: PodClass) -> _Terms:
    """All its terms, by what they are for."""
    return (
        cls.pod_affinity,
        cls.pod_anti_affinity,
        cls.preferred_pod_affinity,
        cls.preferred_pod_anti_affinity,
        tuple(constraint.term for constraint in cls.spread),
    )


def _steps_to_compile(term: PodTerm) -> int:
    """Terms of a job are compiled in every cycle in which it is tried."""
    requirements = (*term.selector, *(term.namespace_selector or ()))
    values = len(term.namespaces) + sum(len(requirement.values) for requirement in requirements)
    return _STEPS_A_TERM + _STEPS_AN_EXPRESSION * len(requirements) + values // 2


def _single_terms(cls: PodClass) -> Iterator[PodTerm]:
    """The terms that count each by itself."""
    yield from cls.pod_anti_affinity
    yield from cls.preferred_pod_affinity
    yield from cls.preferred_pod_anti_affinity
    yield from (constraint.term for constraint in cls.spread)
    if len(cls.pod_affinity) == 1:
        yield from cls.pod_affinity


def _numbers_of(table: dict[int, NodeWeights], terms: int, nodes: int) -> NodeWeights:
    result = table.get(terms)
    if result is None:
        result = table[terms] = NodeWeights(nodes)
    return result


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
