"""Selectors, topology domains, taints and tolerations, as Kubernetes defines them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ringwise.grammar import first_of, listed
from ringwise.state.cluster import ClusterState
from ringwise.state.model import NodeTerm, PodTerm, Requirement, Taint, Toleration
from ringwise.state.node_labels import node_set
from ringwise.topology.numbers import whole_number
from ringwise.wellknown import HOSTNAME, UNSCHEDULABLE_TAINT

#: The taint that stands for a cordoned node.
CORDON = Taint(UNSCHEDULABLE_TAINT, "", "NoSchedule")
#: Effects that keep pods away; PreferNoSchedule only lowers the score.
FORBIDDING = frozenset({"NoSchedule", "NoExecute"})
#: Every namespace, in a pod term.
ALL_NAMESPACES = "*"


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return value is not None and _compares(requirement, value)
    return False


def _compares(requirement: Requirement, value: str) -> bool:
    """Only whole numbers compare; anything else matches nothing."""
    bound = requirement.values[0] if len(requirement.values) == 1 else ""
    left, right = whole_number(value), whole_number(bound)
    if left is None or right is None:
        return False
    return left > right if requirement.operator == "Gt" else left < right


def all_hold(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    return all(holds(requirement, labels) for requirement in requirements)


def matches_labels(term: NodeTerm, labels: Mapping[str, str]) -> bool:
    """Whether these labels satisfy a term that names no node. An empty term matches nothing."""
    return bool(term.labels) and all_hold(term.labels, labels)


#: A term of a pod, and the namespace of that pod.
OwnedTerm = tuple[PodTerm, str]


def spaces_of(term: PodTerm, owner_namespace: str) -> tuple[str, ...]:
    """The namespaces that a term of a pod in `owner_namespace` names."""
    return term.namespaces or (() if term.namespace_selector is not None else (owner_namespace,))


def domain_of(state: ClusterState, node: int, key: str) -> str | None:
    """The node's value of a topology key. Without a host name label its name is used."""
    entry = state.nodes[node]
    if entry is None:
        return None
    value = entry.labels.get(key)
    return entry.name if value is None and key == HOSTNAME else value


def nodes_in(state: ClusterState, key: str, domains: Collection[str]) -> int:
    """The nodes in these domains (`domain_of`), as a set."""
    labels = state.labels
    result = labels.with_any(key, domains)
    if key == HOSTNAME and (unlabeled := labels.existing & ~labels.with_label(HOSTNAME)):
        ids = (state.node_id.get(name) for name in domains)
        result |= node_set(number for number in ids if number is not None) & unlabeled
    return result


def nodes_with_all(state: ClusterState, keys: Iterable[str]) -> int:
    """The nodes that have a domain for each of these topology keys, as a set."""
    result = state.labels.existing
    for key in keys:
        if key != HOSTNAME:
            result &= state.labels.with_label(key)
    return result


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


# -- as text ------------------------------------------------------------------

_SIGNS = {"In": "in", "NotIn": "not in", "Gt": ">", "Lt": "<"}


#: How many values of a requirement, and terms of a selector, are written out.
_MAX_VALUES, _MAX_TERMS = 8, 4


def written(requirement: Requirement) -> str:
    if requirement.operator in _SIGNS:
        values = listed(requirement.values, _MAX_VALUES, "|")
        return f"{requirement.key} {_SIGNS[requirement.operator]} {values}"
    return f"{requirement.key} {'exists' if requirement.operator == 'Exists' else 'does not exist'}"


def written_term(term: NodeTerm | PodTerm) -> str:
    requirements = (*term.labels, *term.fields) if isinstance(term, NodeTerm) else term.selector
    return " and ".join(written(requirement) for requirement in requirements) or "any"


def written_terms(terms: Sequence[NodeTerm]) -> list[str]:
    """The first terms, and how many more there are."""
    return first_of(terms, _MAX_TERMS, text=written_term)


def written_taint(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"
