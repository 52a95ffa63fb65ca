"""What Volcano's admission refuses of new PodGroups, pods and HyperNodes, in its words.

It is more than what the readers need. Objects that exist are not checked: they run as they are. The webhook,
the lab and `place` read it from here; HyperNodes the webhook alone.
"""

from __future__ import annotations

import re

from ringwise.manifests.text.errors import Findings, shown
from ringwise.manifests.text.name_expressions import expression_error
from ringwise.manifests.text.wire import (
    HyperNodeSpecWire,
    HyperNodeWire,
    MemberSelectorWire,
    NetworkTopologyWire,
    PodGroupSpecWire,
    PodGroupWire,
    PodWire,
)
from ringwise.state.job_rules import TWO_TIERS
from ringwise.wellknown import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE

#: A count above 0, or 1% to 99%.
_BUDGET = re.compile(r"0*[1-9][0-9]{0,9}|[1-9][0-9]?%", re.ASCII)
#: A name of a node or of a HyperNode.
_PART = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = re.compile(rf"(?=.{{1,253}}\Z){_PART}(?:\.{_PART})*", re.ASCII)


def check_new_pod_group(wire: PodGroupWire, issues: Findings) -> None:
    spec = wire.spec or PodGroupSpecWire()
    _check_tiers(spec.network_topology, "spec.networkTopology", issues)
    for position, policy in enumerate(spec.sub_group_policy or ()):
        _check_tiers(policy.network_topology, f"spec.subGroupPolicy[{position}].networkTopology", issues)


def check_new_pod(wire: PodWire, issues: Findings) -> None:
    annotations = wire.metadata.annotations or {}
    keys = [name for name in (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE) if annotations.get(name) is not None]
    for name in keys:
        text = annotations[name] or ""
        if not _BUDGET.fullmatch(text):
            issues.invalid(
                f"metadata.annotations.{name}",
                text,
                "must be a positive integer or a valid percentage which between 1% ~ 99%",
            )
    if len(keys) > 1:
        issues.add_error(
            f"metadata.annotations.{keys[0]}",
            f"not allow configure multiple annotations: only one of {' and '.join(keys)} is allowed",
        )


def check_new_hyper_node(wire: HyperNodeWire, issues: Findings) -> None:
    """Of one that exists, or is in a file or lab, an invalid expression is reported and ignored by itself."""
    members = (wire.spec or HyperNodeSpecWire()).members or []
    if not members:
        issues.add_error("spec.members", "member must have at least one member, has none")
    if issues.oversized:
        # Expressions that are too long, or too many, are not even looked at.
        return
    for position, member in enumerate(members):
        selector, path = member.selector or MemberSelectorWire(), f"spec.members[{position}].selector"
        name = selector.exact_match.name if selector.exact_match else None
        pattern = selector.regex_match.pattern if selector.regex_match else None
        if name and not _DNS_SUBDOMAIN.fullmatch(name):
            allowed = "at most 253 lower-case letters, digits, - and ., not - at the ends of parts"
            message = f"member exactMatch validate failed: invalid name {shown(name)}: must be {allowed}"
            issues.add_error(f"{path}.exactMatch.name", message)
        if pattern and (error := expression_error(pattern)):
            message = f"member regexMatch pattern is invalid: {shown(pattern)}: {error}"
            issues.add_error(f"{path}.regexMatch.pattern", message)


def _check_tiers(topology: NetworkTopologyWire | None, path: str, issues: Findings) -> None:
    if topology is not None and topology.highest_tier_allowed is not None and topology.highest_tier_name:
        issues.add_error(path, f"{TWO_TIERS}: it has both; only one is allowed")
