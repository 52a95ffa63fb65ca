"""What others read about switches: pod annotations and `tor-share-cm`.

Both are output only. The scheduler reads back `isSharedTor` alone, because it
says how a pod's switch was taken; health and states are always computed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ringwise.placement.switches.states import State, SwitchState
from ringwise.placement.switches.view import PlanEntry
from ringwise.topology.switches import ResolvedTopology

IS_SHARED_TOR = "isSharedTor"
IS_HEALTHY = "isHealthy"
SHARED_TOR_IP = "sharedTorIp"

#: ConfigMap in namespace volcano-system and its one data key.
TOR_SHARE_CONFIG_MAP = "tor-share-cm"
TOR_SHARE_KEY = "global-tor-info"


def pod_annotations(entry: PlanEntry, version: str, single_layer: bool = False) -> dict[str, str]:
    """The annotations of a pod of this entry. Version 1.0 and single layer write none."""
    if version != "2.0" or single_layer:
        return {}
    annotations = {
        IS_SHARED_TOR: str(entry.mark),
        IS_HEALTHY: "0" if entry.healthy or entry.mark != State.SHARED else "1",
    }
    if entry.mark == State.SHARED:
        annotations[SHARED_TOR_IP] = entry.name
    return annotations


def read_mark(annotations: Mapping[str, str]) -> int:
    """The mark of a live pod; missing or unreadable counts as 0."""
    value = annotations.get(IS_SHARED_TOR, "0").strip()
    return int(value) if value in ("1", "2") else 0


def tor_share_config(
    resolved: ResolvedTopology,
    states: Sequence[SwitchState],
    jobs_of_node: Mapping[str, Sequence[str]],
) -> str:
    """The value of `global-tor-info`: state, health, nodes and job names of every switch."""
    content = {
        switch.ip: {
            "IsHealthy": 0 if facts.healthy else 1,
            "IsSharedTor": int(facts.state),
            "nodes": [
                {
                    "NodeIp": seat.server_ip,
                    "NodeName": seat.node,
                    "JobName": list(jobs_of_node.get(seat.node, ())),
                }
                for seat in seats
            ],
        }
        for switch, seats, facts in zip(resolved.topology.switches, resolved.nodes, states, strict=True)
    }
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)
