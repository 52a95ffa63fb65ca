"""Node selectors, affinities and tolerations of a pod, validated like the API server does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ringwise.manifests.text.checking import check_word
from ringwise.manifests.text.errors import Findings, shown
from ringwise.manifests.text.strings import shared
from ringwise.manifests.text.wire import (
    ExpressionWire,
    LabelSelectorWire,
    NodeAffinityWire,
    NodeSelectorTermWire,
    PodAffinityTermWire,
    PodAffinityWire,
    PodSpecWire,
    TolerationWire,
    TopologySpreadWire,
)
from ringwise.state.model import NodeTerm, PodTerm, Requirement, Toleration, TopologySpread
from ringwise.wellknown import NAMESPACE_NAME

#: In `PodTerm.namespaces`: every namespace.
ALL_NAMESPACES = "*"

#: A requirement that no object meets, for selectors that Kubernetes defines to match nothing.
_NOTHING = Requirement("metadata.name", "In", ())

_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_POD_OPERATORS = _NODE_OPERATORS[:4]
_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_NO_SCHEDULE = "DoNotSchedule"
_HONOR, _IGNORE = "Honor", "Ignore"
_EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")


def requirement(
    wire: ExpressionWire, path: str, issues: Findings, operators: Sequence[str] = _NODE_OPERATORS
) -> Requirement:
    values = tuple(shared(value) for value in wire.values or ())
    if not wire.key:
        issues.add_error(f"{path}.key", "Required value")
    if wire.operator not in operators:
        check_word(f"{path}.operator", wire.operator, operators, issues)
    elif wire.operator in ("In", "NotIn") and not values:
        issues.add_error(f"{path}.values", f"must not be empty for {wire.operator}")
    elif wire.operator in ("Exists", "DoesNotExist") and values:
        issues.add_error(f"{path}.values", f"must be empty for {wire.operator}")
    elif wire.operator in ("Gt", "Lt") and not (len(values) == 1 and _INTEGER.fullmatch(values[0])):
        issues.add_error(f"{path}.values", f"must be one whole number for {wire.operator}")
    return Requirement(shared(wire.key), shared(wire.operator), values)


def node_rules(
    affinity: NodeAffinityWire, path: str, issues: Findings
) -> tuple[tuple[NodeTerm, ...], tuple[tuple[int, NodeTerm], ...]]:
    """The required terms (any of them must hold) and the preferred ones with their weights."""
    required: tuple[NodeTerm, ...] = ()
    if affinity.required is not None:
        where = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        terms = affinity.required.node_selector_terms or ()
        if not terms:
            issues.add_error(where, "must have at least one term")
        required = tuple(
            node_term(term, f"{where}[{position}]", issues) for position, term in enumerate(terms)
        )
    preferred = []
    for position, wire in enumerate(affinity.preferred or ()):
        where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{position}]"
        weight = issues.count(f"{where}.weight", wire.weight, 1, least=1, most=100)
        if wire.preference is None:
            issues.add_error(f"{where}.preference", "Required value")
        elif wire.preference.match_expressions or wire.preference.match_fields:
            preferred.append((weight, node_term(wire.preference, f"{where}.preference", issues)))
    return required, tuple(preferred)


def node_term(wire: NodeSelectorTermWire, path: str, issues: Findings) -> NodeTerm:
    labels = tuple(
        requirement(one, f"{path}.matchExpressions[{position}]", issues)
        for position, one in enumerate(wire.match_expressions or ())
    )
    fields = tuple(
        requirement(one, f"{path}.matchFields[{position}]", issues, ("In", "NotIn"))
        for position, one in enumerate(wire.match_fields or ())
    )
    for position, one in enumerate(fields):
        if one.key != "metadata.name":
            issues.invalid(f"{path}.matchFields[{position}].key", one.key, "must be metadata.name")
    return NodeTerm(labels, fields) if labels or fields else NodeTerm(fields=(_NOTHING,))


def label_keys(spec: PodSpecWire) -> set[str]:
    """The labels whose values of the pod itself its terms ask for, or refuse, in other pods."""
    keys: set[str] = set()
    for constraint in spec.topology_spread_constraints or ():
        keys.update(constraint.match_label_keys or ())
    if spec.affinity is not None:
        for term in _affinity_terms(spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity):
            keys.update(term.match_label_keys or (), term.mismatch_label_keys or ())
    return keys


def _affinity_terms(*affinities: PodAffinityWire | None) -> Iterator[PodAffinityTermWire]:
    for affinity in affinities:
        if affinity is not None:
            yield from affinity.required or ()
            yield from (one.pod_affinity_term for one in affinity.preferred or () if one.pod_affinity_term)


def pod_rules(
    affinity: PodAffinityWire, labels: Mapping[str, str], path: str, issues: Findings
) -> tuple[tuple[PodTerm, ...], tuple[PodTerm, ...]]:
    """The required terms (all must hold) and the preferred ones, which carry their weights."""
    required = tuple(
        _pod_term(
            term, 0, labels, f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{position}]", issues
        )
        for position, term in enumerate(affinity.required or ())
    )
    preferred = []
    for position, wire in enumerate(affinity.preferred or ()):
        where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{position}]"
        weight = issues.count(f"{where}.weight", wire.weight, 1, least=1, most=100)
        if wire.pod_affinity_term is None:
            issues.add_error(f"{where}.podAffinityTerm", "Required value")
        else:
            where = f"{where}.podAffinityTerm"
            preferred.append(_pod_term(wire.pod_affinity_term, weight, labels, where, issues))
    return required, tuple(preferred)


def _pod_term(
    wire: PodAffinityTermWire, weight: int, labels: Mapping[str, str], path: str, issues: Findings
) -> PodTerm:
    if not wire.topology_key:
        issues.add_error(f"{path}.topologyKey", "Required value")
    selector: tuple[Requirement, ...] = (_NOTHING,)
    if wire.label_selector is not None:
        selector = label_selector(wire.label_selector, f"{path}.labelSelector", issues)
    same, other = wire.match_label_keys or (), wire.mismatch_label_keys or ()
    _check_label_keys(wire.label_selector, same, other, path, issues)
    selector = _with_own_values(_with_own_values(selector, "In", same, labels), "NotIn", other, labels)
    namespaces = set(wire.namespaces or ())
    selected: tuple[Requirement, ...] | None = None
    if wire.namespace_selector is not None:
        selected = label_selector(wire.namespace_selector, f"{path}.namespaceSelector", issues)
        named = _namespaces(selected)
        if named is not None:
            namespaces.update(named)
            selected = None
    return PodTerm(shared(wire.topology_key), selector, tuple(sorted(namespaces)), weight, selected)


def _check_label_keys(
    selector: LabelSelectorWire | None,
    same: Sequence[str],
    other: Sequence[str],
    path: str,
    issues: Findings,
) -> None:
    for name, keys in (("matchLabelKeys", same), ("mismatchLabelKeys", other)):
        if keys and selector is None:
            issues.add_error(f"{path}.{name}", "must not be set without labelSelector")
    for key in sorted(set(same).intersection(other)):
        issues.add_error(
            f"{path}.matchLabelKeys", f"contains {shown(key)}, which is also in mismatchLabelKeys"
        )


def _with_own_values(
    selector: tuple[Requirement, ...], operator: str, keys: Iterable[str], labels: Mapping[str, str]
) -> tuple[Requirement, ...]:
    """With a requirement for each of these labels that the pod has. An API server has added them already."""
    added = (Requirement(shared(key), operator, (shared(labels[key]),)) for key in keys if key in labels)
    return tuple(dict.fromkeys((*selector, *added)))


def spread_rules(
    wires: Sequence[TopologySpreadWire] | None, labels: Mapping[str, str], path: str, issues: Findings
) -> tuple[TopologySpread, ...]:
    previous: set[tuple[str, str]] = set()
    rules = []
    for position, wire in enumerate(wires or ()):
        where = f"{path}[{position}]"
        if (wire.topology_key, wire.when_unsatisfiable) in previous:
            issues.add_error(where, f"{wire.topology_key} with {wire.when_unsatisfiable} is duplicated")
        previous.add((wire.topology_key, wire.when_unsatisfiable))
        rules.append(_spread_rule(wire, labels, where, issues))
    return tuple(rules)


def _spread_rule(
    wire: TopologySpreadWire, labels: Mapping[str, str], path: str, issues: Findings
) -> TopologySpread:
    if not wire.topology_key:
        issues.add_error(f"{path}.topologyKey", "Required value")
    check_word(f"{path}.whenUnsatisfiable", wire.when_unsatisfiable, (_NO_SCHEDULE, "ScheduleAnyway"), issues)
    required = wire.when_unsatisfiable == _NO_SCHEDULE
    if wire.max_skew is None:
        issues.add_error(f"{path}.maxSkew", "Required value")
    if wire.min_domains is not None and not required:
        issues.add_error(f"{path}.minDomains", f"is allowed only with whenUnsatisfiable: {_NO_SCHEDULE}")
    policies = (wire.node_affinity_policy or _HONOR, wire.node_taints_policy or _IGNORE)
    for name, policy in zip(("nodeAffinityPolicy", "nodeTaintsPolicy"), policies, strict=True):
        check_word(f"{path}.{name}", policy, (_HONOR, _IGNORE), issues)
    selector: tuple[Requirement, ...] = (_NOTHING,)
    if wire.label_selector is not None:
        selector = label_selector(wire.label_selector, f"{path}.labelSelector", issues)
    _check_label_keys(wire.label_selector, wire.match_label_keys or (), (), path, issues)
    return TopologySpread(
        PodTerm(
            shared(wire.topology_key), _with_own_values(selector, "In", wire.match_label_keys or (), labels)
        ),
        issues.count(f"{path}.maxSkew", wire.max_skew, 1, least=1),
        required,
        issues.count(f"{path}.minDomains", wire.min_domains, 1, least=1),
        policies[0] == _HONOR,
        policies[1] == _HONOR,
    )


def _namespaces(selector: tuple[Requirement, ...]) -> tuple[str, ...] | None:
    """Those that a selector names, by the label that every namespace has; None: it asks for other labels."""
    if not selector:
        return (ALL_NAMESPACES,)
    if len(selector) == 1 and (selector[0].key, selector[0].operator) == (NAMESPACE_NAME, "In"):
        return selector[0].values
    return None


def label_selector(wire: LabelSelectorWire, path: str, issues: Findings) -> tuple[Requirement, ...]:
    """All requirements must hold; an empty selector matches every pod."""
    matches = [
        Requirement(shared(key), "In", (shared(value or ""),))
        for key, value in sorted((wire.match_labels or {}).items())
    ]
    matches += [
        requirement(one, f"{path}.matchExpressions[{position}]", issues, _POD_OPERATORS)
        for position, one in enumerate(wire.match_expressions or ())
    ]
    return tuple(matches)


def tolerations(read: Sequence[TolerationWire] | None, path: str, issues: Findings) -> tuple[Toleration, ...]:
    return tuple(_toleration(wire, f"{path}[{index}]", issues) for index, wire in enumerate(read or ()))


def _toleration(wire: TolerationWire, path: str, issues: Findings) -> Toleration:
    operator = wire.operator or "Equal"
    if operator not in ("Equal", "Exists"):
        issues.invalid(f"{path}.operator", wire.operator, "must be Equal or Exists")
    if not wire.key and operator != "Exists":
        issues.add_error(f"{path}.operator", "must be Exists when key is empty")
    if (wire.effect or "") not in _EFFECTS:
        allowed = ", ".join(_EFFECTS[1:])
        issues.invalid(f"{path}.effect", wire.effect, f"must be one of {allowed}, or empty")
    return Toleration(
        shared(wire.key or ""),
        shared(operator),
        shared(wire.value or ""),
        shared(wire.effect or ""),
    )
