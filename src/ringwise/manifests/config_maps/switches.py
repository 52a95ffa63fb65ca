"""The ConfigMap `basic-tor-node-cm` with the leaf-switch topology: read and written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from ringwise.manifests.text.checking import decoded
from ringwise.manifests.text.errors import Findings, ManifestError
from ringwise.topology.reasons import TOPOLOGY_UNREADABLE
from ringwise.topology.switches import Server, SwitchTopology, make_topology
from ringwise.wellknown import KUBE_SYSTEM, TOR_INFO_KEY, TOR_LEVEL_KEY, TOR_NODE_CONFIG_MAP

SINGLE_LAYER = "single_layer"
DOUBLE_LAYER = "double_layer"


class _ServerWire(msgspec.Struct):
    server_ip: str
    slice_id: int | None = None
    npu_count: int = 8


class _SwitchWire(msgspec.Struct):
    tor_ip: str
    server: list[_ServerWire] | None = None


class _TopologyWire(msgspec.Struct):
    tor_count: int = 0
    server_list: list[_SwitchWire] | None = None


def read_topology(tor_info: str | bytes, tor_level: str | None, origin: str) -> SwitchTopology:
    """The topology of `tor_info`. Raises ManifestError; doubtful entries are in its `problems`."""
    issues = Findings(origin)
    wire = decoded(tor_info, _TopologyWire, f"data.{TOR_INFO_KEY}", issues)
    if wire is None:
        raise issues.errors[0]
    switches = [
        (
            switch.tor_ip,
            [
                Server(
                    server.server_ip,
                    index if server.slice_id is None else server.slice_id,
                    index,
                    server.npu_count,
                )
                for index, server in enumerate(switch.server or ())
            ],
        )
        for switch in wire.server_list or ()
    ]
    single = (tor_level or "").strip() == SINGLE_LAYER
    return make_topology(switches, wire.tor_count, single_layer=single, origin=origin)


def topology_of_config_map(data: Mapping[str, str], origin: str) -> SwitchTopology:
    """Like `read_topology`; an unreadable ConfigMap gives an empty topology with the reason."""
    try:
        if TOR_INFO_KEY not in data:
            raise ManifestError(origin, f"data.{TOR_INFO_KEY}", "Required value")
        return read_topology(data[TOR_INFO_KEY], data.get(TOR_LEVEL_KEY), origin)
    except ManifestError as error:
        return SwitchTopology((), 0, problems=(TOPOLOGY_UNREADABLE(problem=str(error)),), origin=origin)


def topology_from_data(data: Mapping[str, str], issues: Findings) -> SwitchTopology:
    topology = topology_of_config_map(data, issues.origin)
    if topology.unusable is not None:
        # Sent all the same: it is the reason of jobs that need switches.
        issues.add_error("data", topology.unusable.message)
    return topology


def tor_info_of(topology: SwitchTopology) -> str:
    """The JSON text of `tor_info`, with one switch per line to be readable."""
    switches = [
        json.dumps(
            {
                "tor_id": switch.position,
                "tor_ip": switch.ip,
                "server": [
                    {
                        "server_ip": server.server_ip,
                        "npu_count": server.npu_count,
                        "slice_id": server.slice_id,
                    }
                    for server in switch.servers
                ],
            },
            ensure_ascii=False,
        )
        for switch in topology.switches
    ]
    listed = ",\n".join(switches)
    return f'{{"version": "1.0", "tor_count": {topology.nodes_per_switch}, "server_list": [\n{listed}\n]}}\n'


def tor_config_map(topology: SwitchTopology) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": TOR_NODE_CONFIG_MAP, "namespace": KUBE_SYSTEM},
        "data": {
            TOR_LEVEL_KEY: SINGLE_LAYER if topology.single_layer else DOUBLE_LAYER,
            TOR_INFO_KEY: tor_info_of(topology),
        },
    }
