"""Selectors compiled to sets of nodes: those that name nodes, labels with many values, or very much.

What a selector means is defined in `selectors`; here it is answered for all nodes at once. A class of pods is
compiled once, and again only when labels of nodes change.
"""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakKeyDictionary

from ringwise.framework.selectors import holds
from ringwise.records import dataclass
from ringwise.state.cluster import ClusterState
from ringwise.state.model import NodeTerm, PodClass, Requirement
from ringwise.state.node_labels import node_set
from ringwise.state.node_weights import NodeWeights
from ringwise.topology.chips import union_of


@dataclass(frozen=True, slots=True)
class SelectedNodes:
    """The nodes that a class of pods selects; None where classes of nodes answer it."""

    #: By its node selector, and by its required node affinity.
    by_selector: int | None = None
    by_terms: int | None = None
    #: The weight of the preferred terms that hold on a node.
    preferred: NodeWeights | None = None


#: Nothing is left to single nodes.
BY_CLASS = SelectedNodes()


class NodeSets:
    """What was compiled, for as long as labels and classes of nodes stay as they are."""

    def __init__(self) -> None:
        self._of: WeakKeyDictionary[PodClass, SelectedNodes] = WeakKeyDictionary()
        self._valid: tuple[int, frozenset[str]] = (-1, frozenset())
        self._selected: WeakKeyDictionary[PodClass, int] = WeakKeyDictionary()
        self._labels_version = -1

    def of(self, state: ClusterState, pod_class: PodClass) -> SelectedNodes:
        watched = state.shapes.watched
        required = _by_class(pod_class.required_keys, watched)
        preferred = _by_class(pod_class.preferred_keys, watched)
        if required and preferred:
            return BY_CLASS
        valid = (state.labels.version, watched)
        if self._valid != valid:
            self._valid = valid
            self._of.clear()
        result = self._of.get(pod_class)
        if result is None:
            result = self._of[pod_class] = _compile(state, pod_class, required, preferred)
        return result

    def selected(self, state: ClusterState, pod_class: PodClass) -> int:
        """All nodes that a class of pods selects."""
        if not pod_class.node_selector and not pod_class.node_terms:
            return state.labels.existing
        if self._labels_version != state.labels.version:
            self._labels_version = state.labels.version
            self._selected.clear()
        result = self._selected.get(pod_class)
        if result is None:
            compiled = _compile(state, pod_class, required=False, preferred=True)
            result = state.labels.existing
            for nodes in (compiled.by_selector, compiled.by_terms):
                if nodes is not None:
                    result &= nodes
            self._selected[pod_class] = result
        return result


def _by_class(keys: frozenset[str] | None, watched: frozenset[str]) -> bool:
    return keys is not None and keys <= watched


def _compile(state: ClusterState, pod_class: PodClass, required: bool, preferred: bool) -> SelectedNodes:
    by_selector: int | None = None
    by_terms: int | None = None
    if not required and pod_class.node_selector:
        by_selector = state.labels.existing
        for key, value in pod_class.node_selector:
            by_selector &= state.labels.with_any(key, (value,))
    if not required and pod_class.node_terms:
        by_terms = union_of(nodes_of(state, term) for term in pod_class.node_terms)
    weights: NodeWeights | None = None
    if not preferred:
        weights = NodeWeights(state.labels.existing)
        for weight, term in pod_class.preferred_nodes:
            weights.add(weight, nodes_of(state, term))
    return SelectedNodes(by_selector, by_terms, weights)


def nodes_of(state: ClusterState, term: NodeTerm) -> int:
    """An empty term matches nothing."""
    if not term.labels and not term.fields:
        return 0
    nodes = state.labels.existing
    for requirement in term.labels:
        nodes &= _with_label(state, requirement)
    for requirement in term.fields:
        nodes &= _with_name(state, requirement)
    return nodes


def _with_label(state: ClusterState, requirement: Requirement) -> int:
    labels, key = state.labels, requirement.key
    if requirement.operator in ("Gt", "Lt"):
        values = [value for value in labels.values(key) if holds(requirement, {key: value})]
        return labels.with_any(key, values)
    return labels.holding(requirement)


def _with_name(state: ClusterState, requirement: Requirement) -> int:
    named = _named(state, requirement.values)
    match requirement.operator:
        case "In":
            return named
        case "NotIn":
            return state.labels.existing & ~named
    # Kubernetes allows no other operator for a field.
    return 0


def _named(state: ClusterState, names: Iterable[str]) -> int:
    ids = (state.node_id.get(name) for name in names)
    return node_set(number for number in ids if number is not None) & state.labels.existing
