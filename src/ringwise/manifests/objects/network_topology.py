"""HyperNodes, and what jobs and PodGroups ask of them: network topologies, sub-groups. Read and written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ringwise.manifests.objects.affinity import label_selector
from ringwise.manifests.objects.metadata import identity
from ringwise.manifests.text.checking import check_word
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.limits import MEMBERS, PATTERN, PATTERNS, SUB_GROUP_LABELS, SUB_GROUPS, check
from ringwise.manifests.text.strings import shared
from ringwise.manifests.text.wire import (
    HyperNodeMemberWire,
    HyperNodeSpecWire,
    HyperNodeStatusWire,
    HyperNodeWire,
    MemberSelectorWire,
    NetworkTopologyWire,
    SubGroupPolicyWire,
)
from ringwise.state.model import (
    HyperNode,
    HyperNodeMember,
    NetworkTopology,
    Requirement,
    SubGroupPolicy,
)

_MODES = ("hard", "soft")
_TYPES = ("Node", "HyperNode")


def network_topology(wire: NetworkTopologyWire | None, path: str, issues: Findings) -> NetworkTopology | None:
    if wire is None:
        return None
    mode = wire.mode or _MODES[0]
    check_word(f"{path}.mode", mode, _MODES, issues)
    return NetworkTopology(
        soft=mode == "soft",
        highest_tier=issues.count(f"{path}.highestTierAllowed", wire.highest_tier_allowed, None),
        highest_tier_name=shared(wire.highest_tier_name or ""),
    )


#: Of a network topology as it is written.
TOPOLOGY_FIELDS = ("mode", "highestTierAllowed", "highestTierName")


def network_topology_body(topology: NetworkTopology) -> dict[str, Any]:
    """As `network_topology` reads it."""
    body: dict[str, Any] = {"mode": _MODES[topology.soft]}
    if topology.highest_tier is not None:
        body["highestTierAllowed"] = topology.highest_tier
    if topology.highest_tier_name:
        body["highestTierName"] = topology.highest_tier_name
    return body


def sub_group_policies(
    wires: Sequence[SubGroupPolicyWire] | None, path: str, issues: Findings
) -> tuple[SubGroupPolicy, ...]:
    if not check(SUB_GROUPS, wires or (), path, issues):
        return ()
    policies = [_sub_group(wire, f"{path}[{position}]", issues) for position, wire in enumerate(wires or ())]
    labels = {key for policy in policies for key in policy.labels}
    return tuple(policies) if check(SUB_GROUP_LABELS, labels, path, issues) else ()


def _sub_group(wire: SubGroupPolicyWire, path: str, issues: Findings) -> SubGroupPolicy:
    selector = wire.label_selector
    return SubGroupPolicy(
        name=shared(wire.name or ""),
        selector=None if selector is None else label_selector(selector, f"{path}.labelSelector", issues),
        match_label_keys=tuple(map(shared, wire.match_label_keys or ())),
        size=issues.count(f"{path}.subGroupSize", wire.sub_group_size, 1, least=1),
        min_groups=issues.count(f"{path}.minSubGroups", wire.min_sub_groups, 0),
        topology=network_topology(wire.network_topology, f"{path}.networkTopology", issues),
    )


def sub_group_body(policy: SubGroupPolicy) -> dict[str, Any]:
    written: dict[str, Any] = {
        "name": policy.name,
        "matchLabelKeys": list(policy.match_label_keys),
        "subGroupSize": policy.size,
        "minSubGroups": policy.min_groups,
    }
    if policy.selector is not None:
        written["labelSelector"] = _written_selector(policy.selector)
    if policy.topology is not None:
        written["networkTopology"] = network_topology_body(policy.topology)
    return written


def _written_selector(requirements: Iterable[Requirement]) -> dict[str, Any]:
    labels: dict[str, str] = {}
    expressions: list[dict[str, Any]] = []
    for one in requirements:
        if one.operator == "In" and len(one.values) == 1 and one.key not in labels:
            labels[one.key] = one.values[0]
        else:
            expressions.append({"key": one.key, "operator": one.operator, "values": list(one.values)})
    return {"matchLabels": labels, "matchExpressions": expressions}


def hyper_node_from_wire(wire: HyperNodeWire, issues: Findings) -> HyperNode:
    who = identity(wire.metadata, "HyperNode", issues, namespaced=False)
    spec = wire.spec or HyperNodeSpecWire()
    members: Iterable[HyperNodeMemberWire] = spec.members or ()
    expressions = [one for one in members if one.selector is not None and one.selector.regex_match]
    if not check(MEMBERS, spec.members or (), "spec.members", issues) or not check(
        PATTERNS, expressions, "spec.members", issues
    ):
        members = ()
    return HyperNode(
        name=who.name,
        tier=issues.count("spec.tier", spec.tier, 0),
        members=tuple(
            _member(member, f"spec.members[{position}]", issues) for position, member in enumerate(members)
        ),
        tier_name=shared(spec.tier_name or ""),
        labels=who.labels,
        node_count=(wire.status or HyperNodeStatusWire()).node_count or 0,
        origin=issues.origin,
    )


def _member(wire: HyperNodeMemberWire, path: str, issues: Findings) -> HyperNodeMember:
    check_word(f"{path}.type", wire.type, _TYPES, issues)
    selector, path = wire.selector or MemberSelectorWire(), f"{path}.selector"
    kinds = {
        "exactMatch": selector.exact_match,
        "regexMatch": selector.regex_match,
        "labelMatch": selector.label_match,
    }
    types = [kind for kind, one in kinds.items() if one]
    if not types:
        issues.add_error(
            path, "member selector must have one of exactMatch, regexMatch, or labelMatch, has none"
        )
    elif len(types) > 1:
        issues.add_error(path, f"cannot specify more than one selector type, has {' and '.join(types)}")
    name = selector.exact_match.name if selector.exact_match else None
    pattern = selector.regex_match.pattern if selector.regex_match else None
    if selector.exact_match and not name:
        issues.add_error(f"{path}.exactMatch.name", "member exactMatch name is required")
    if selector.regex_match and not pattern:
        issues.add_error(f"{path}.regexMatch.pattern", "member regexMatch pattern is required")
    # An invalid expression is reported for its HyperNode, and only that is ignored.
    check(PATTERN, pattern or "", f"{path}.regexMatch.pattern", issues)
    labels = selector.label_match
    return HyperNodeMember(
        hyper_node=wire.type == _TYPES[1],
        name=shared(name or ""),
        pattern=pattern or "",
        selector=None if labels is None else label_selector(labels, f"{path}.labelMatch", issues),
    )
