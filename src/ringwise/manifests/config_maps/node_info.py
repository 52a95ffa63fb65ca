"""ConfigMaps about the health of nodes beside their chips: from NodeD, and of the nodes' own switches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ringwise.manifests.objects.metadata import identity
from ringwise.manifests.text.checking import decoded, decoded_entries, keyed
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.readable import readable
from ringwise.manifests.text.wire import ConfigMapWire, WireStruct
from ringwise.state.model import NodeReport
from ringwise.wellknown import (
    CLUSTER_NODE_INFO,
    CLUSTER_SWITCH_INFO_PREFIX,
    DEVICE_INFO_PREFIX,
    KUBE_SYSTEM,
    MINDX_DL,
    NODE_INFO_KEY,
    NODE_INFO_PREFIX,
    SWITCH_INFO_KEY,
    SWITCH_INFO_PREFIX,
)

#: The sources of `NodeReport`.
NODE, SWITCH = "node", "switch"


#: NodeD's levels of a node's own hardware, and what the worst of them makes of the node.
_STATUS_OF_LEVEL = {
    "NotHandleFault": "Healthy",
    "PreSeparateFault": "PreSeparate",
    "SeparateFault": "UnHealthy",
}


class _Status(WireStruct, rename=None):
    NodeStatus: str | None = None
    FaultDevList: Any = None


class _NodeInfo(_Status, rename=None):
    """Both forms: NodeD nests the status beside a check code, the aggregate does not."""

    NodeInfo: _Status | None = None


def node_reports_of(wire: ConfigMapWire, issues: Findings) -> list[NodeReport] | None:
    """The health of the nodes that it reports on; None when it reports on none."""
    namespace = wire.metadata.namespace
    name = identity(wire.metadata, "ConfigMap", issues).name
    data = wire.texts
    if name.startswith(DEVICE_INFO_PREFIX) and namespace in (None, "", KUBE_SYSTEM):
        return _of_own_switches(name.removeprefix(DEVICE_INFO_PREFIX), data, issues)
    if namespace not in (None, "", MINDX_DL):
        return None
    if name.startswith(NODE_INFO_PREFIX):
        return _of_node(name.removeprefix(NODE_INFO_PREFIX), data, issues)
    if name == CLUSTER_NODE_INFO:
        return _of_cluster(name, data, NODE_INFO_PREFIX, NODE, issues)
    if name.startswith(CLUSTER_SWITCH_INFO_PREFIX):
        return _of_cluster(name, data, SWITCH_INFO_PREFIX, SWITCH, issues)
    return None


def _of_own_switches(node: str, data: dict[str, str], issues: Findings) -> list[NodeReport]:
    """One that cannot be read is as none: it must not cost the chips that the same ConfigMap reports."""
    text = data.get(SWITCH_INFO_KEY, "")
    if not text.strip():
        return []
    info = readable(text, _Status, None)
    return [] if info is None else [NodeReport(node, SWITCH, info.NodeStatus or "", origin=issues.origin)]


def _of_node(node: str, data: dict[str, str], issues: Findings) -> list[NodeReport]:
    path = keyed("data", NODE_INFO_KEY)
    if NODE_INFO_KEY not in data:
        issues.add_error(path, "Required value")
        return []
    info = decoded(data[NODE_INFO_KEY], _NodeInfo, path, issues)
    return [] if info is None else [NodeReport(node, NODE, _status(info), origin=issues.origin)]


def _of_cluster(
    name: str, data: dict[str, str], prefix: str, source: str, issues: Findings
) -> list[NodeReport]:
    path = keyed("data", name)
    if not data.get(name, "").strip():
        return []
    infos = decoded_entries(data[name], _NodeInfo, path, issues)
    reports: list[NodeReport] = []
    for key, info in infos.items():
        node = key.removeprefix(prefix)
        if node == key or not node:
            issues.add_error(keyed(path, key), f"must be {prefix}<node>")
            continue
        reports.append(NodeReport(node, source, _status(info), aggregated=True, origin=issues.origin))
    return reports


def _status(info: _NodeInfo) -> str:
    """NodeD's own word; without one, what follows from the worst of its faults."""
    status = info.NodeInfo or info
    stated, faults = status.NodeStatus, status.FaultDevList
    if stated or not isinstance(faults, list):
        return stated or ""
    return status_of_levels(str(one.get("FaultLevel")) for one in faults if isinstance(one, dict))


def status_of_levels(levels: Iterable[str]) -> str:
    """The state of a node with faults of these levels; levels that are not known count as none."""
    order = list(_STATUS_OF_LEVEL.values())
    statuses = [_STATUS_OF_LEVEL[level] for level in levels if level in _STATUS_OF_LEVEL]
    return max(statuses, key=order.index, default="")
