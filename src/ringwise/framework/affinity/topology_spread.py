"""Topology spread: how evenly the pods that a constraint counts are spread over its topology domains.

As in kube-scheduler, a domain counts where a node of it has the topology keys of all constraints and, as the
constraint says, is selected and tolerated by the pod. Pods that terminate do not count. Only domains that
have pods are kept: how many there are in all depends on labels alone and is found once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Protocol

from ringwise.framework.selectors import CORDON, FORBIDDING, domain_of, nodes_in, nodes_with_all, tolerates
from ringwise.framework.session import Session
from ringwise.records import dataclass
from ringwise.state.model import Node, Pod, PodClass, TopologySpread

#: To make the set of the nodes of some domains.
STEPS_A_SET = 4
#: So many nodes or domains are looked at in the time of a step.
_LOOKS_A_STEP = 16


class MatchingPods(Protocol):
    """Placed pods by the terms that match them (`pod_affinity.NearbyPods`)."""

    def matching(self, pod: Pod) -> int: ...
    def staying(self, bit: int) -> Iterator[tuple[int, int]]: ...


@dataclass(slots=True, eq=False)
class SpreadCounts:
    """The pods of one constraint by domain. They follow what is placed."""

    _session: Session
    constraint: TopologySpread
    _bit: int
    _nodes: int
    _matching: MatchingPods
    _read: int
    domains: int = field(init=False)
    _in_domains: int = field(init=False)
    #: Of the domains that have pods; and how many domains have so many pods, and their nodes.
    _pods: dict[str, int] = field(default_factory=dict)
    _having: Counter[int] = field(default_factory=Counter)
    _nodes_having: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        session, key = self._session, self.constraint.term.topology_key
        self.domains = count_domains(session, key, self._nodes)
        self._in_domains = nodes_with_all(session.state, (key,))
        for node, number in self._matching.staying(self._bit):
            domain = self._counted_domain(node)
            if domain is not None:
                self._pods[domain] = self._pods.get(domain, 0) + number
        together: dict[int, list[str]] = {}
        for domain, number in self._pods.items():
            together.setdefault(number, []).append(domain)
        session.budget.spend(len(self._pods) // _LOOKS_A_STEP + STEPS_A_SET * len(together))
        for number, domains in together.items():
            self._having[number] = len(domains)
            self._nodes_having[number] = nodes_in(session.state, key, domains)

    def counts(self, pod: Pod) -> bool:
        """Whether the pod itself counts, once it is placed."""
        return bool(self._matching.matching(pod) & self._bit)

    def at(self, domain: str) -> int:
        return self._pods.get(domain, 0)

    def fewest(self) -> int:
        """The pods of the domain with the fewest."""
        if self.domains < self.constraint.min_domains or len(self._pods) < self.domains:
            return 0
        return min(self._having, default=0)

    def most(self, itself: bool) -> int:
        """How many pods a domain may have that gets one more; `itself`: that one counts."""
        return self.fewest() + self.constraint.max_skew - itself

    def open_nodes(self, itself: bool) -> int:
        """The nodes in domains that may get one more pod."""
        most, result = self.most(itself), self._in_domains
        self._session.budget.spend(1 + len(self._nodes_having) // _LOOKS_A_STEP)
        for pods, nodes in self._nodes_having.items():
            if pods > most:
                result &= ~nodes
        return result

    def follow(self, changes: Sequence[tuple[Pod, int, int]]) -> None:
        if self._read == len(changes):
            return
        self._session.budget.spend(len(changes) - self._read)
        for pod, node, by in changes[self._read :]:
            if not pod.deleting and self.counts(pod):
                self._add(node, by)
        self._read = len(changes)

    def _counted_domain(self, node: int) -> str | None:
        """The domain of a node on which pods count."""
        if not self._nodes >> node & 1:
            return None
        return domain_of(self._session.state, node, self.constraint.term.topology_key)

    def _add(self, node: int, by: int) -> None:
        domain = self._counted_domain(node)
        if domain is None:
            return
        nodes = nodes_in(self._session.state, self.constraint.term.topology_key, (domain,))
        before = self._pods.pop(domain, 0)
        if before:
            self._having[before] -= 1
            self._nodes_having[before] ^= nodes
            if not self._having[before]:
                del self._having[before], self._nodes_having[before]
        if before + by:
            self._pods[domain] = before + by
            self._having[before + by] += 1
            self._nodes_having[before + by] = self._nodes_having.get(before + by, 0) | nodes


def counted_nodes(session: Session, cls: PodClass, constraints: Sequence[TopologySpread]) -> list[int]:
    """For each constraint the nodes on which pods count: all must have the topology keys of all of them."""
    state = session.state
    every = nodes_with_all(state, {constraint.term.topology_key for constraint in constraints})
    #: By what a constraint honors: a pod may have many of them.
    nodes_of: dict[tuple[bool, bool], int] = {}
    for constraint in constraints:
        honored = constraint.selected_only, constraint.tolerated_only
        if honored not in nodes_of:
            nodes = every
            if constraint.selected_only:
                nodes &= session.topology.node_sets.selected(state, cls)
            if constraint.tolerated_only:
                nodes &= _tolerated(session, cls)
            nodes_of[honored] = nodes
    return [nodes_of[one.selected_only, one.tolerated_only] for one in constraints]


def _tolerated(session: Session, cls: PodClass) -> int:
    state, nodes = session.state, session.state.labels.existing
    session.budget.spend(len(state.nodes) // _LOOKS_A_STEP)
    for number in state.existing_nodes():
        node = state.nodes[number]
        if node is not None and (node.taints or node.unschedulable) and not _tolerates(cls, node):
            nodes &= ~(1 << number)
    return nodes


def _tolerates(cls: PodClass, node: Node) -> bool:
    taints = (*node.taints, CORDON) if node.unschedulable else node.taints
    return all(taint.effect not in FORBIDDING or tolerates(cls.tolerations, taint) for taint in taints)


def count_domains(session: Session, key: str, nodes: int) -> int:
    number, looks = session.topology.domain_numbers.of(session.state, key, nodes)
    session.budget.spend(looks // _LOOKS_A_STEP)
    return number
