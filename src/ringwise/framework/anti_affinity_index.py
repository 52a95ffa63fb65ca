"""Placed pods with a required anti-affinity, and where they keep other pods away.

Every pod that is tried is held against all their terms, whoever wrote them. So a set of terms is an integer
with a bit for each, as sets of nodes are (`state.node_labels`): which terms match a pod, and which of them
have pods in the domain of a node, are a few operations however many terms there are. They are kept from cycle
to cycle, and brought up to date by what changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from ringwise.framework.budget import StepBudget
from ringwise.framework.selectors import ALL_NAMESPACES, OwnedTerm, domain_of, spaces_of
from ringwise.state.cluster import ClusterState
from ringwise.state.model import Pod, PodClass, PodTerm, Requirement
from ringwise.state.namespaces import Namespaces
from ringwise.state.node_labels import Members

Key = TypeVar("Key")


class _SetsByKey(Generic[Key]):
    """Sets of terms by key. Users choose how many keys there are: an integer is as long as the number of its
    highest term, so a set is kept as one only where it has many members.
    """

    __slots__ = ("_sets",)

    def __init__(self) -> None:
        #: The only member, or all of them.
        self._sets: dict[Key, int | Members] = {}

    def get(self, key: Key) -> int:
        """The set as an integer with a bit for each member."""
        sets = self._sets.get(key)
        if sets is None:
            return 0
        return 1 << sets if isinstance(sets, int) else sets.as_set()

    def __len__(self) -> int:
        return len(self._sets)

    def among(self, keys: Mapping[Key, object]) -> list[Key]:
        """Those of the keys that have a set: a look at whichever are fewer."""
        if len(keys) <= len(self._sets):
            return [key for key in keys if key in self._sets]
        return [key for key in self._sets if key in keys]

    def flip(self, key: Key, number: int) -> None:
        """Add a term to the set, or remove it."""
        sets = self._sets.get(key)
        if sets is None:
            self._sets[key] = number
        elif isinstance(sets, int):
            if sets == number:
                del self._sets[key]
            else:
                self._sets[key] = Members(sets, number)
        elif number not in sets.ids:
            sets.add(number)
        else:
            sets.discard(number)
            if not sets.ids:
                del self._sets[key]


#: So many labels are looked up in the time of a step.
_LOOKS_A_STEP = 16
#: In the place of one that was dropped.
_NO_TERM: OwnedTerm = (PodTerm("", ()), "")


class _SelectorSets:
    """Selectors by number, found by the labels that they ask for. None is held against labels by itself."""

    def __init__(self) -> None:
        #: By label, those that say anything about it.
        self._about: _SetsByKey[str] = _SetsByKey()
        #: All that can match. By the first label that they need, by the second, ...; and those that need
        #: none, one at most, ...
        self.all = 0
        self._need: list[_SetsByKey[str]] = []
        self._need_fewer: list[int] = []
        #: By label: those that want one of certain values. By label and value: those that want it, and those
        #: that do not want it. By label: those that do not want it with any value.
        self._wants: _SetsByKey[str] = _SetsByKey()
        self._wants_value: _SetsByKey[tuple[str, str]] = _SetsByKey()
        self._refuses_value: _SetsByKey[tuple[str, str]] = _SetsByKey()
        self._refuses: _SetsByKey[str] = _SetsByKey()

    def flip(self, selector: Iterable[Requirement], number: int) -> bool:
        """Add the selector, or remove it; False: nothing can match it."""
        bit = 1 << number
        labels = _labels_wanted(selector)
        if labels is None:
            return False
        self.all ^= bit
        needed = sorted(key for key, label in labels.items() if label.needed)
        while len(self._need) < len(needed):
            # Those that were there before need fewer labels.
            self._need_fewer.append(self.all & ~bit)
            self._need.append(_SetsByKey())
        for level, need in enumerate(self._need):
            if level < len(needed):
                need.flip(needed[level], number)
            else:
                self._need_fewer[level] ^= bit
        while self._need and not self._need[-1]:
            self._need.pop()
            self._need_fewer.pop()
        for key, label in labels.items():
            self._about.flip(key, number)
            if label.allowed is not None:
                self._wants.flip(key, number)
                for value in label.allowed:
                    self._wants_value.flip((key, value), number)
            for value in label.refused:
                self._refuses_value.flip((key, value), number)
            if label.absent:
                self._refuses.flip(key, number)
        return True

    def steps(self, labels: Mapping[str, str]) -> int:
        return min(len(labels), len(self._about)) * (1 + len(self._need)) // _LOOKS_A_STEP

    def matching(self, labels: Mapping[str, str], result: int) -> int:
        """Those of a set that match the labels."""
        for need, fewer in zip(self._need, self._need_fewer, strict=True):
            if not result & ~fewer:
                # None that is left needs so many labels.
                break
            having = fewer
            for key in need.among(labels):
                having |= need.get(key)
            result &= having
        if not result:
            return 0
        refused = 0
        for key in self._about.among(labels):
            value = labels[key]
            refused |= self._refuses.get(key) | self._refuses_value.get((key, value))
            wanted = self._wants.get(key)
            if wanted:
                refused |= wanted & ~self._wants_value.get((key, value))
        return result & ~refused


class TermSets:
    """Terms, found by what a pod must have for them to match it. No term is held against a pod by itself."""

    def __init__(self) -> None:
        self.terms: list[OwnedTerm] = []
        self._bits: dict[OwnedTerm, int] = {}
        self._unused: list[int] = []
        #: By namespace of the pod that they concern.
        self._sets_by_namespace: _SetsByKey[str] = _SetsByKey()
        #: By what they ask of the pod, and those that select namespaces by what they ask of these.
        self._pods = _SelectorSets()
        self._spaces = _SelectorSets()

    def bit_of(self, owned: OwnedTerm) -> int:
        """The number of a term; a new one is added."""
        result = self._bits.get(owned)
        if result is None:
            if self._unused:
                result = self._unused.pop()
                self.terms[result] = owned
            else:
                result = len(self.terms)
                self.terms.append(owned)
            self._bits[owned] = result
            self._flip(owned, result)
        return result

    def drop(self, owned: OwnedTerm) -> None:
        bit = self._bits.pop(owned)
        self._flip(owned, bit)
        # What its owner wrote is not kept beyond its pods.
        self.terms[bit] = _NO_TERM
        self._unused.append(bit)
        if not self._bits:
            self.terms.clear()
            self._unused.clear()

    def _flip(self, owned: OwnedTerm, number: int) -> None:
        """Add the term to its sets, or remove it from them."""
        term, namespace = owned
        if not self._pods.flip(term.selector, number):
            return
        for space in set(spaces_of(term, namespace)):
            self._sets_by_namespace.flip(space, number)
        if term.namespace_selector is not None:
            self._spaces.flip(term.namespace_selector, number)

    def steps(self, pod: Pod) -> int:
        """What it takes to find those: nothing, for labels and terms of an ordinary number."""
        return self._pods.steps(pod.labels)

    def matching(self, pod: Pod, namespaces: Namespaces) -> int:
        """The terms that match a pod."""
        spaces = self._sets_by_namespace.get(pod.namespace) | self._sets_by_namespace.get(ALL_NAMESPACES)
        if self._spaces.all:
            spaces |= self._spaces.matching(namespaces.labels(pod.namespace), self._spaces.all)
        return self._pods.matching(pod.labels, spaces)


class _LabelNeeds:
    """What all requirements of a term together say about one label."""

    __slots__ = ("absent", "allowed", "needed", "refused")

    def __init__(self) -> None:
        self.needed = self.absent = False
        #: Its values; None: any.
        self.allowed: set[str] | None = None
        self.refused: set[str] = set()


def _labels_wanted(selector: Iterable[Requirement]) -> dict[str, _LabelNeeds] | None:
    """By label; None where the requirements contradict each other: no pod has what they want."""
    labels: dict[str, _LabelNeeds] = {}
    for requirement in selector:
        label = labels.setdefault(requirement.key, _LabelNeeds())
        match requirement.operator:
            case "In":
                values = set(requirement.values)
                label.allowed = values if label.allowed is None else label.allowed & values
                label.needed = True
            case "NotIn":
                label.refused.update(requirement.values)
            case "Exists":
                label.needed = True
            case "DoesNotExist":
                label.absent = True
            case _:
                # Labels of pods are not compared as numbers.
                return None
    for label in labels.values():
        if label.allowed is not None:
            label.allowed -= label.refused
            label.refused = set()
        if label.allowed == set() or (label.absent and label.needed):
            return None
    return labels


_Counted = tuple[PodClass, str, dict[str, str | None]]


class AntiAffinityIndex:
    def __init__(self) -> None:
        self._terms = TermSets()
        self._labels_version = -1
        self._read = -1
        #: The pods that are counted: their class, namespace, and domain by topology key.
        self._counted: dict[str, _Counted] = {}
        #: By topology key and domain: its terms, and how many pods have each.
        self._here: dict[str, _SetsByKey[str]] = {}
        self._pods: Counter[tuple[str, str, int]] = Counter()
        #: In how many domains a term has pods.
        self._domains: Counter[int] = Counter()

    def terms_against(self, state: ClusterState, pod: Pod, budget: StepBudget | None = None) -> int:
        """The terms of placed pods that match this one, as a set for `at`."""
        self._follow(state)
        if not self._here:
            return 0
        if budget is not None:
            budget.spend(self._terms.steps(pod))
        return self._terms.matching(pod, state.namespaces)

    def at(self, state: ClusterState, terms: int, node: int) -> tuple[PodTerm, int] | None:
        """A term of the set that has pods in a domain of this node, and how many; None for none."""
        for key, domains in self._here.items():
            domain = domain_of(state, node, key)
            terms_at = 0 if domain is None else domains.get(domain) & terms
            if terms_at and domain is not None:
                bit = (terms_at & -terms_at).bit_length() - 1
                return self._terms.terms[bit][0], self._pods[key, domain, bit]
        return None

    # -- counting --------------------------------------------------------------------------

    def _follow(self, state: ClusterState) -> None:
        changed: Iterable[str] | None
        changed = state.anti_affinity_changes.since(self._read)
        if changed is None or self._labels_version != state.labels.version:
            # A node may be in another domain now. Pods whose domains are the same are not counted again.
            changed = (*self._counted, *state.anti_affinity_pods)
        self._labels_version = state.labels.version
        self._read = state.anti_affinity_changes.end
        for uid in changed:
            self._update(state, uid)

    def _update(self, state: ClusterState, uid: str) -> None:
        before, record = self._counted.get(uid), state.pods.get(uid)
        after = None
        if record is not None and record.node >= 0 and uid in state.anti_affinity_pods:
            cls = record.pod.cls
            keys = {term.topology_key for term in cls.pod_anti_affinity}
            domains = {key: domain_of(state, record.node, key) for key in keys}
            after = cls, record.pod.namespace, domains
        if before == after:
            return
        if before is not None:
            del self._counted[uid]
            self._count(*before, -1)
        if after is not None:
            self._counted[uid] = after
            self._count(*after, 1)

    def _count(self, cls: PodClass, namespace: str, domains: Mapping[str, str | None], by: int) -> None:
        for term in cls.pod_anti_affinity:
            key = term.topology_key
            domain = domains[key]
            if domain is None:
                continue
            owned = (term, namespace)
            bit = self._terms.bit_of(owned)
            place = (key, domain, bit)
            self._pods[place] += by
            if self._pods[place] == by > 0:
                self._domains[bit] += 1
                self._here.setdefault(key, _SetsByKey()).flip(domain, bit)
            elif not self._pods[place]:
                del self._pods[place]
                self._leave(key, domain, bit)
                self._domains[bit] -= 1
                if not self._domains[bit]:
                    del self._domains[bit]
                    self._terms.drop(owned)

    def _leave(self, key: str, domain: str, bit: int) -> None:
        domains = self._here[key]
        domains.flip(domain, bit)
        if not domains:
            del self._here[key]
