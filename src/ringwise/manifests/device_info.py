"""ConfigMaps in which device plugins tell what is free, faulty or recovering on each node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ringwise.manifests.checking import keyed
from ringwise.manifests.chips import CHIP_RESOURCES, chips_in
from ringwise.manifests.embedded import decoded
from ringwise.manifests.errors import Findings
from ringwise.manifests.metadata import identity
from ringwise.manifests.quantities import NANOSECONDS
from ringwise.manifests.wire import ConfigMapWire, Texts, Trimmed
from ringwise.state.model import DeviceReport
from ringwise.topology.chips import mask_of

NODE_PREFIX = "mindx-dl-deviceinfo-"
NODE_NAMESPACE = "kube-system"
NODE_KEY = "DeviceInfoCfg"
CLUSTER_PREFIX = "cluster-info-device-"
CLUSTER_NAMESPACE = "mindx-dl"
#: ConfigMaps that other readers want as they are.
PASSED_ON = frozenset({"basic-tor-node-cm", "volcano-scheduler-configmap"})

_SUFFIXES = ("-Unhealthy", "-NetworkUnhealthy", "-Recovering", "-Fault")


@dataclass(frozen=True, slots=True)
class RawConfigMap:
    """A ConfigMap that is read elsewhere."""

    namespace: str
    name: str
    data: dict[str, str]
    origin: str = ""


class _Listed(Trimmed, rename=None):
    DeviceList: Texts | None = None
    UpdateTime: int | None = None


class _Info(Trimmed, rename=None):
    """Both forms: the device plugin nests the list in `DeviceInfo`, the aggregate does not."""

    DeviceInfo: _Listed | None = None
    DeviceList: Texts | None = None
    UpdateTime: int | None = None
    SuperPodID: int | None = None
    ServerIndex: int | str | None = None


def config_map_from_wire(
    wire: ConfigMapWire, found: Findings
) -> tuple[list[DeviceReport], RawConfigMap | None] | None:
    """Its device reports, or the ConfigMap itself for other readers; None when nobody reads it."""
    given = wire.metadata.namespace if wire.metadata else None
    who = identity(wire.metadata, "ConfigMap", found)
    data = {key: value or "" for key, value in (wire.data or {}).items()}
    if who.name in PASSED_ON:
        return [], RawConfigMap(who.namespace, who.name, data, found.origin)
    if who.name.startswith(NODE_PREFIX) and given in (None, "", NODE_NAMESPACE):
        return _of_node(who.name, data, found), None
    if who.name.startswith(CLUSTER_PREFIX) and given in (None, "", CLUSTER_NAMESPACE):
        return _of_cluster(who.name, data, found), None
    return None


def _of_node(name: str, data: dict[str, str], found: Findings) -> list[DeviceReport]:
    path = keyed("data", NODE_KEY)
    if NODE_KEY not in data:
        found.wrong(path, "is missing")
        return []
    info = decoded(data[NODE_KEY], _Info, path, found)
    if info is None:
        return []
    return list(_reports(name.removeprefix(NODE_PREFIX), info, False, path, found))


def _of_cluster(name: str, data: dict[str, str], found: Findings) -> list[DeviceReport]:
    path = keyed("data", name)
    # Chunks that are not needed any more are written empty.
    if not data.get(name, "").strip():
        return []
    infos = decoded(data[name], dict[str, _Info], path, found)
    reports: list[DeviceReport] = []
    for key, info in (infos or {}).items():
        if not key.startswith(NODE_PREFIX) or key == NODE_PREFIX:
            found.wrong(keyed(path, key), f"must be {NODE_PREFIX}<node>")
            continue
        reports.extend(_reports(key.removeprefix(NODE_PREFIX), info, True, keyed(path, key), found))
    return reports


def _reports(node: str, info: _Info, aggregated: bool, path: str, found: Findings) -> Iterator[DeviceReport]:
    listed = info.DeviceInfo
    given = info.DeviceList
    updated = info.UpdateTime
    if listed is not None:
        path += ".DeviceInfo"
        given, updated = listed.DeviceList, listed.UpdateTime
    if given is None:
        found.wrong(f"{path}.DeviceList", "is missing")
        return
    lists = {key: value or "" for key, value in given.items() if key.startswith(CHIP_RESOURCES)}
    server_index = info.ServerIndex
    if isinstance(server_index, str):
        server_index = int(server_index) if server_index.removeprefix("-").isdecimal() else None

    def chips(key: str, resource: str) -> int:
        return mask_of(chips_in(lists.get(key, ""), resource, keyed(f"{path}.DeviceList", key), found))

    for resource in _resources(lists):
        network = f"{resource}-NetworkUnhealthy"
        yield DeviceReport(
            node=node,
            resource=resource,
            free=chips(resource, resource),
            unhealthy=chips(f"{resource}-Unhealthy", resource),
            network_unhealthy=chips(network, resource) if network in lists else None,
            recovering=chips(f"{resource}-Recovering", resource),
            superpod=info.SuperPodID,
            server_index=server_index,
            update_time=found.count(f"{path}.UpdateTime", updated, 0, most=2**53) * NANOSECONDS,
            aggregated=aggregated,
            origin=found.origin,
        )


def _resources(lists: dict[str, str]) -> list[str]:
    """Whole chips only: `huawei.com/Ascend910`, not its `-Unhealthy` list nor a vNPU `Ascend910-2c`."""
    found: dict[str, None] = {}
    for key in lists:
        suffix = next((one for one in _SUFFIXES if key.endswith(one)), "")
        resource = key.removesuffix(suffix)
        if suffix != "-Fault" and "-" not in resource:
            found[resource] = None
    return sorted(found)
