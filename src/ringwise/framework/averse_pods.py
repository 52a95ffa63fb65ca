"""Placed pods with a required anti-affinity, and where they keep other pods away.

Every pod that is tried is held against all their terms, whoever wrote them. So a set of terms is an integer
with a bit for each, as sets of nodes are (`state.node_labels`): which terms match a pod, and which of them
have pods in the domain of a node, are a few operations however many terms there are. They are kept from cycle
to cycle, and brought up to date by what changed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TypeVar

from ringwise.framework.selectors import ALL_NAMESPACES, OwnedTerm, domain_of, matches_pod
from ringwise.state.cluster import ClusterState
from ringwise.state.model import Pod, PodClass, PodTerm
from ringwise.state.node_labels import members_of

Key = TypeVar("Key")


class TermSets:
    """Terms, found by what a pod must have for them to match it."""

    def __init__(self) -> None:
        self.terms: list[OwnedTerm] = []
        self._bits: dict[OwnedTerm, int] = {}
        self._unused: list[int] = []
        #: By namespace of the pod that they concern.
        self._reach: defaultdict[str, int] = defaultdict(int)
        #: By a label that a pod must have for them; `None` for those that need no label.
        self._need: defaultdict[str | None, int] = defaultdict(int)
        #: By label: those that want one of certain values. By label and value: those that want it, and those
        #: that do not want it. By label: those that do not want it with any value.
        self._wants: defaultdict[str, int] = defaultdict(int)
        self._wants_value: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._refuses_value: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._refuses: defaultdict[str, int] = defaultdict(int)
        #: Those that need two labels or name one twice: each is held against the pod by itself.
        self._single = 0

    def bit_of(self, owned: OwnedTerm) -> int:
        """The number of a term; a new one is added."""
        found = self._bits.get(owned)
        if found is None:
            if self._unused:
                found = self._unused.pop()
                self.terms[found] = owned
            else:
                found = len(self.terms)
                self.terms.append(owned)
            self._bits[owned] = found
            self._flip(owned, 1 << found)
        return found

    def drop(self, owned: OwnedTerm) -> None:
        bit = self._bits.pop(owned)
        self._flip(owned, 1 << bit)
        self._unused.append(bit)

    def _flip(self, owned: OwnedTerm, bit: int) -> None:
        """Add the term to its sets, or remove it from them."""
        term, namespace = owned
        for space in set(term.namespaces or (namespace,)):
            _flip(self._reach, space, bit)
        keys = [requirement.key for requirement in term.selector]
        needed = sorted({one.key for one in term.selector if one.operator in ("In", "Exists")})
        _flip(self._need, needed[0] if needed else None, bit)
        if len(needed) > 1 or len(set(keys)) < len(keys):
            self._single ^= bit
            return
        for requirement in term.selector:
            key = requirement.key
            match requirement.operator:
                case "In":
                    _flip(self._wants, key, bit)
                    for value in set(requirement.values):
                        _flip(self._wants_value, (key, value), bit)
                case "NotIn":
                    for value in set(requirement.values):
                        _flip(self._refuses_value, (key, value), bit)
                case "DoesNotExist":
                    _flip(self._refuses, key, bit)

    def matching(self, pod: Pod) -> int:
        """The terms that match a pod."""
        found = self._need.get(None, 0)
        refused = 0
        for key, value in pod.labels.items():
            found |= self._need.get(key, 0)
            refused |= self._refuses.get(key, 0) | self._refuses_value.get((key, value), 0)
            wanted = self._wants.get(key, 0)
            if wanted:
                refused |= wanted & ~self._wants_value.get((key, value), 0)
        found &= self._reach.get(pod.namespace, 0) | self._reach.get(ALL_NAMESPACES, 0)
        found &= ~refused
        for bit in members_of(found & self._single):
            term, namespace = self.terms[bit]
            if not matches_pod(term, namespace, pod):
                found ^= 1 << bit
        return found


def _flip(sets: defaultdict[Key, int], key: Key, bit: int) -> None:
    sets[key] ^= bit
    if not sets[key]:
        del sets[key]


class AversePods:
    def __init__(self) -> None:
        self._forget()
        self._labels_version = -1
        self._read = -1

    def _forget(self) -> None:
        self._terms = TermSets()
        #: The pods that are counted: their class, namespace and node.
        self._counted: dict[str, tuple[PodClass, str, int]] = {}
        #: By topology key and domain: its terms, and how many pods have each.
        self._here: dict[str, dict[str, int]] = {}
        self._pods: Counter[tuple[str, str, int]] = Counter()
        #: In how many domains a term has pods.
        self._domains: Counter[int] = Counter()

    def terms_against(self, state: ClusterState, pod: Pod) -> int:
        """The terms of placed pods that match this one, as a set for `at`."""
        self._follow(state)
        return self._terms.matching(pod) if self._here else 0

    def at(self, state: ClusterState, terms: int, node: int) -> tuple[PodTerm, int] | None:
        """A term of the set that has pods in a domain of this node, and how many; None for none."""
        for key, domains in self._here.items():
            domain = domain_of(state, node, key)
            found = 0 if domain is None else domains.get(domain, 0) & terms
            if found and domain is not None:
                bit = (found & -found).bit_length() - 1
                return self._terms.terms[bit][0], self._pods[key, domain, bit]
        return None

    # -- counting --------------------------------------------------------------------------

    def _follow(self, state: ClusterState) -> None:
        changed: Iterable[str] | None
        if self._labels_version != state.labels.version:
            # A node may be in another domain now.
            self._labels_version = state.labels.version
            self._forget()
            changed = state.averse
        else:
            changed = state.averse_changes.since(self._read)
            if changed is None:
                changed = (*self._counted, *state.averse)
        self._read = state.averse_changes.end
        for uid in changed:
            self._update(state, uid)

    def _update(self, state: ClusterState, uid: str) -> None:
        before, record = self._counted.get(uid), state.pods.get(uid)
        after = None
        if record is not None and record.node >= 0 and uid in state.averse:
            after = (record.pod.cls, record.pod.namespace, record.node)
        if before == after:
            return
        if before is not None:
            del self._counted[uid]
            self._count(state, *before, -1)
        if after is not None:
            self._counted[uid] = after
            self._count(state, *after, 1)

    def _count(self, state: ClusterState, cls: PodClass, namespace: str, node: int, by: int) -> None:
        for term in cls.pod_anti_affinity:
            key = term.topology_key
            domain = domain_of(state, node, key)
            if domain is None:
                continue
            owned = (term, namespace)
            bit = self._terms.bit_of(owned)
            place = (key, domain, bit)
            self._pods[place] += by
            if self._pods[place] == by > 0:
                self._domains[bit] += 1
                domains = self._here.setdefault(key, {})
                domains[domain] = domains.get(domain, 0) | 1 << bit
            elif not self._pods[place]:
                del self._pods[place]
                self._leave(key, domain, bit)
                self._domains[bit] -= 1
                if not self._domains[bit]:
                    del self._domains[bit]
                    self._terms.drop(owned)

    def _leave(self, key: str, domain: str, bit: int) -> None:
        domains = self._here[key]
        domains[domain] ^= 1 << bit
        if not domains[domain]:
            del domains[domain]
            if not domains:
                del self._here[key]
