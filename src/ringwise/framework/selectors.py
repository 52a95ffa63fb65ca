"""Selectors, taints and tolerations, as Kubernetes defines them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ringwise.state.model import NodeTerm, PodTerm, Requirement, Taint, Toleration
from ringwise.topology.numbers import whole_number
from ringwise.wellknown import UNSCHEDULABLE_TAINT

#: The taint that stands for a cordoned node.
CORDON = Taint(UNSCHEDULABLE_TAINT, "", "NoSchedule")
#: Effects that keep pods away; PreferNoSchedule only lowers the score.
FORBIDDING = frozenset({"NoSchedule", "NoExecute"})
#: The only field a node selector term may name.
NODE_NAME = "metadata.name"
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


def may_match(term: NodeTerm, labels: Mapping[str, str]) -> bool:
    """Whether some node with these labels can satisfy the term, whatever its name."""
    if not term.labels and not term.fields:
        return False
    impossible = any(field.operator == "In" and not field.values for field in term.fields)
    return not impossible and all_hold(term.labels, labels)


def matches_node(term: NodeTerm, labels: Mapping[str, str], name: str) -> bool:
    """Whether this node satisfies the term. An empty term matches nothing."""
    return may_match(term, labels) and all_hold(term.fields, {NODE_NAME: name})


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


def written(requirement: Requirement) -> str:
    if requirement.operator in _SIGNS:
        return f"{requirement.key} {_SIGNS[requirement.operator]} {'|'.join(requirement.values)}"
    return f"{requirement.key} {'exists' if requirement.operator == 'Exists' else 'does not exist'}"


def written_term(term: NodeTerm | PodTerm) -> str:
    requirements = (*term.labels, *term.fields) if isinstance(term, NodeTerm) else term.selector
    return " and ".join(written(requirement) for requirement in requirements) or "any"


def written_taint(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"
