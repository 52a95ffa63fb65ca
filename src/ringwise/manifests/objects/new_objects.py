"""What Volcano's admission refuses of new PodGroups and pods, beyond what the readers need, in its words.

Objects that exist are not checked: they run as they are. The webhook, the lab and `place` read it from here.
"""

from __future__ import annotations

import re

from ringwise.manifests.text.errors import Findings, shown
from ringwise.manifests.text.wire import NetworkTopologyWire, PodGroupSpecWire, PodGroupWire, PodWire
from ringwise.state.job_rules import TWO_TIERS
from ringwise.wellknown import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE

#: A count above 0, or 1% to 99%.
_BUDGET = re.compile(r"0*[1-9][0-9]{0,9}|[1-9][0-9]?%", re.ASCII)


def check_new_pod_group(wire: PodGroupWire, found: Findings) -> None:
    spec = wire.spec or PodGroupSpecWire()
    _check_tiers(spec.network_topology, "spec.networkTopology", found)
    for position, policy in enumerate(spec.sub_group_policy or ()):
        _check_tiers(policy.network_topology, f"spec.subGroupPolicy[{position}].networkTopology", found)


def check_new_pod(wire: PodWire, found: Findings) -> None:
    annotations = (wire.metadata.annotations if wire.metadata is not None else None) or {}
    given = [name for name in (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE) if annotations.get(name) is not None]
    for name in given:
        text = annotations[name] or ""
        if not _BUDGET.fullmatch(text):
            found.wrong(
                f"metadata.annotations.{name}",
                f"must be a positive integer or a valid percentage which between 1% ~ 99%, got {shown(text)}",
            )
    if len(given) > 1:
        found.wrong(
            f"metadata.annotations.{given[0]}",
            f"not allow configure multiple annotations: only one of {' and '.join(given)} is allowed",
        )


def _check_tiers(topology: NetworkTopologyWire | None, path: str, found: Findings) -> None:
    if topology is not None and topology.highest_tier_allowed is not None and topology.highest_tier_name:
        found.wrong(path, f"{TWO_TIERS}: it has both; only one is allowed")
