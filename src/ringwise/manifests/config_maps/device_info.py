"""ConfigMaps of device plugins: free, faulty and recovering chips of each node (N7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

import msgspec

from ringwise import wellknown
from ringwise.manifests.objects.chips import chip_of, chips_in
from ringwise.manifests.objects.metadata import identity
from ringwise.manifests.text.checking import decoded, keyed, read_entries
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.quantities import NANOSECONDS
from ringwise.manifests.text.readable import readable
from ringwise.manifests.text.wire import ConfigMapWire, Texts, WireStruct
from ringwise.records import dataclass
from ringwise.state.model import EMPTY, DeviceReport, MountedShare, ReportedFault
from ringwise.state.ranges import MAX_NODE_CHIPS
from ringwise.topology.chips import chip_prefix, mask_of
from ringwise.topology.numbers import INT32, whole_number

Entry = TypeVar("Entry")

#: `fault_type` of faults of a network port.
NETWORK_FAULT_TYPE = "CardNetworkUnhealthy"
#: Entries of one list of faults that are read.
MAX_FAULTS = 10_000
#: Seconds that a mean of the use of a chip can be about.
_LONGEST_SPAN = 86_400
#: Percent of a whole chip, and the most MB of memory that a share can have (9 digits).
WHOLE_CHIP = 100
MAX_SHARE_MB = 999_999_999
#: Resources of chips of one node: most have one.
MAX_RESOURCES = 16
_AGGREGATES = (
    wellknown.CLUSTER_INFO_PREFIX,
    wellknown.CLUSTER_NODE_INFO,
    wellknown.CLUSTER_SWITCH_INFO_PREFIX,
)
_NODE_PREFIXES = (wellknown.DEVICE_INFO_PREFIX, wellknown.NODE_INFO_PREFIX, wellknown.SWITCH_INFO_PREFIX)
_SUFFIXES = (
    wellknown.UNHEALTHY_SUFFIX,
    wellknown.NETWORK_UNHEALTHY_SUFFIX,
    wellknown.RECOVERING_SUFFIX,
    wellknown.FAULT_SUFFIX,
)


@dataclass(frozen=True, slots=True)
class RawConfigMap:
    """A ConfigMap for another reader."""

    namespace: str
    name: str
    data: dict[str, str]
    origin: str = ""


class _DeviceList(WireStruct, rename=None):
    DeviceList: Texts | None = None
    UpdateTime: int | None = None


class _CodeLevel(WireStruct, rename=None):
    fault_level: str | None = None


class _FaultEntry(WireStruct, rename=None):
    fault_type: str | None = None
    npu_name: str | None = None
    fault_level: str | None = None
    fault_handling: str | None = None
    #: One code, or several with commas.
    fault_code: str | None = None
    fault_time_and_level_map: dict[str, _CodeLevel] | None = None


class _Info(_DeviceList, rename=None):
    """Both forms: the device plugin nests the list in `DeviceInfo`, the aggregate does not."""

    DeviceInfo: _DeviceList | None = None
    SuperPodID: int | None = None
    ServerIndex: int | str | None = None
    RackID: int | None = None


class _ShareEntry(WireStruct, rename=None):
    """One pod in `RingwiseMountedShares`."""

    chip: str = ""
    percent: int = 0
    mb: int = 0
    policy: str = ""


#: What the entries of aggregates said last: name of the ConfigMap -> entry -> its text, and its reports.
EntryCache = dict[str, dict[str, tuple[bytes, list[DeviceReport]]]]


def config_map_from_wire(
    wire: ConfigMapWire, issues: Findings, cache: EntryCache | None = None
) -> tuple[list[DeviceReport], RawConfigMap | None] | None:
    """Its device reports, or the ConfigMap itself for other readers; None when it is not used.

    An aggregate is written every few seconds, and few of its nodes change: the reports of the others are
    taken from `cache`, which is updated.
    """
    namespace = wire.metadata.namespace
    who = identity(wire.metadata, "ConfigMap", issues)
    data = wire.texts
    if who.name == wellknown.SCHEDULER_CONFIG_MAP:
        return [], RawConfigMap(who.namespace, who.name, data, issues.origin)
    if who.name.startswith(wellknown.DEVICE_INFO_PREFIX) and namespace in (None, "", wellknown.KUBE_SYSTEM):
        return _of_node(who.name, data, issues), None
    if who.name.startswith(wellknown.CLUSTER_INFO_PREFIX) and namespace in (None, "", wellknown.MINDX_DL):
        return _of_cluster(who.name, data, issues, {} if cache is None else cache), None
    return None


def _of_node(name: str, data: dict[str, str], issues: Findings) -> list[DeviceReport]:
    path = keyed("data", wellknown.DEVICE_INFO_KEY)
    if wellknown.DEVICE_INFO_KEY not in data:
        issues.add_error(path, "Required value")
        return []
    info = decoded(data[wellknown.DEVICE_INFO_KEY], _Info, path, issues)
    if info is None:
        return []
    mounted = _of_pods(data, wellknown.MOUNTED_CHIPS_KEY, dict[str, str], issues)
    doubtful = _of_pods(data, wellknown.DOUBTFUL_CHIPS_KEY, dict[str, str], issues)
    shares = _of_pods(data, wellknown.MOUNTED_SHARES_KEY, dict[str, _ShareEntry], issues)
    listing = data.get(wellknown.KUBELET_LISTING_KEY)
    return [
        replace(
            report,
            mounted=_of_resource(mounted, report.resource, wellknown.MOUNTED_CHIPS_KEY, issues),
            mounted_shares=_shares_of_resource(shares, report.resource, issues),
            doubtful=_of_resource(doubtful, report.resource, wellknown.DOUBTFUL_CHIPS_KEY, issues),
            kubelet_ids=_kubelet_ids(listing, report.resource) if listing else None,
            kubelet_silent=listing == "",
            utilization=_utilization(data.get(wellknown.UTILIZATION_KEY, ""), report.resource),
        )
        for report in _reports(name.removeprefix(wellknown.DEVICE_INFO_PREFIX), info, False, path, issues)
    ]


def _utilization(text: str, resource: str) -> tuple[tuple[int, float, int], ...]:
    """Of chips that a node can have. What cannot be read counts as not reported."""
    written = readable(text, dict[str, tuple[float, int]], {})
    entries = ((chip_of(name, resource), mean, span) for name, (mean, span) in written.items())
    return tuple(
        sorted(
            (chip, mean, span)
            for chip, mean, span in entries
            if chip is not None and 0 <= mean <= 100 and 0 <= span <= _LONGEST_SPAN
        )
    )


def _of_pods(
    data: Mapping[str, str], key: str, kind: type[dict[str, Entry]], issues: Findings
) -> Mapping[str, Entry]:
    """By uid, as our device plugin reports it."""
    written = data.get(key)
    return decoded(written, kind, keyed("data", key), issues) or {} if written else {}


def _of_resource(written: Mapping[str, str], resource: str, key: str, issues: Findings) -> Mapping[str, int]:
    """N8: pod uid to its chips of this resource, as our device plugin reports them."""
    prefix = chip_prefix(resource)
    path = keyed("data", key)
    return {
        uid: mask_of(chips_in(names, resource, keyed(path, uid), issues))
        for uid, names in written.items()
        if names.strip().startswith(prefix)
    } or EMPTY


def _shares_of_resource(
    entries: Mapping[str, _ShareEntry], resource: str, issues: Findings
) -> dict[str, MountedShare]:
    prefix = chip_prefix(resource)
    shares: dict[str, MountedShare] = {}
    for uid, entry in entries.items():
        if not entry.chip.startswith(prefix):
            continue
        path = keyed(keyed("data", wellknown.MOUNTED_SHARES_KEY), uid)
        chips = chips_in(entry.chip, resource, f"{path}.chip", issues)
        percent = issues.count(f"{path}.percent", entry.percent, 0, 1, WHOLE_CHIP)
        mb = issues.count(f"{path}.mb", entry.mb, 0, 1, MAX_SHARE_MB)
        if len(chips) > 1:
            issues.add_error(f"{path}.chip", f"must name one chip, got {len(chips)}")
        elif chips:
            shares[uid] = MountedShare(chips[0], percent, mb, entry.policy)
    return shares


def _kubelet_ids(text: str, resource: str) -> Mapping[str, int] | None:
    """What kubelet lists. No decision depends on it, so what cannot be read counts as not reported."""
    listed = readable(text, dict[str, str], None)
    if listed is None:
        return None
    ids = {pod: [chip_of(name, resource) for name in names.split(",")] for pod, names in listed.items()}
    return {pod: mask_of(one for one in chips if one is not None) for pod, chips in ids.items()}


def _of_cluster(name: str, data: dict[str, str], issues: Findings, cache: EntryCache) -> list[DeviceReport]:
    path = keyed("data", name)
    before, entries = cache.pop(name, {}), cache.setdefault(name, {})
    # Chunks of the aggregate that are no longer used are empty.
    if not data.get(name, "").strip():
        return []
    raws = decoded(data[name], dict[str, msgspec.Raw], path, issues) or {}
    texts = {key: bytes(raw) for key, raw in raws.items()}
    reports: list[DeviceReport] = []
    changed: dict[str, msgspec.Raw] = {}
    for key, text in texts.items():
        if key in before and before[key][0] == text:
            entries[key] = before[key]
            reports += before[key][1]
        else:
            changed[key] = raws[key]
    for key, info in read_entries(changed, _Info, path, issues).items():
        if not key.startswith(wellknown.DEVICE_INFO_PREFIX) or key == wellknown.DEVICE_INFO_PREFIX:
            issues.add_error(keyed(path, key), f"must be {wellknown.DEVICE_INFO_PREFIX}<node>")
            continue
        wrong = len(issues.errors)
        read = list(
            _reports(key.removeprefix(wellknown.DEVICE_INFO_PREFIX), info, True, keyed(path, key), issues)
        )
        if len(issues.errors) == wrong:
            reports += read
            entries[key] = texts[key], read
    return reports


def aggregated_nodes(wire: ConfigMapWire) -> frozenset[str] | None:
    """The nodes that an aggregate names; None for another ConfigMap, and for one that cannot be read."""
    name = wire.metadata.name or ""
    text = (wire.data or {}).get(name)
    if not name.startswith(_AGGREGATES) or text is None:
        return None
    keys = readable(text, dict[str, msgspec.Raw], None)
    if keys is None:
        return None
    return frozenset(key.removeprefix(prefix) for key in keys for prefix in _NODE_PREFIXES)


def _reports(node: str, info: _Info, aggregated: bool, path: str, issues: Findings) -> Iterator[DeviceReport]:
    def number(name: str, value: int | None) -> int | None:
        return issues.count(f"{top}.{name}", value, None, -INT32, INT32)

    top, listed = path, info.DeviceInfo or info
    if listed is not info:
        path += ".DeviceInfo"
    devices = listed.DeviceList
    if devices is None:
        issues.add_error(f"{path}.DeviceList", "Required value")
        return
    lists = {
        key: value or "" for key, value in devices.items() if key.startswith(wellknown.CHIP_RESOURCE_PREFIX)
    }
    server_index = info.ServerIndex
    if isinstance(server_index, str):
        server_index = whole_number(server_index, -INT32, INT32)
    else:
        server_index = number("ServerIndex", server_index)
    superpod, rack = number("SuperPodID", info.SuperPodID), number("RackID", info.RackID)
    resources = _resources(lists)
    if len(resources) > MAX_RESOURCES:
        allowed = f"must list the chips of at most {MAX_RESOURCES} resources"
        issues.add_error(f"{path}.DeviceList", f"{allowed}, got {len(resources)}")
        return

    def chips(key: str, resource: str) -> int:
        return mask_of(chips_in(lists.get(key, ""), resource, keyed(f"{path}.DeviceList", key), issues))

    for resource in resources:
        network = f"{resource}{wellknown.NETWORK_UNHEALTHY_SUFFIX}"
        yield DeviceReport(
            node=node,
            resource=resource,
            free=chips(resource, resource),
            unhealthy=chips(f"{resource}{wellknown.UNHEALTHY_SUFFIX}", resource),
            network_unhealthy=chips(network, resource) if network in lists else None,
            recovering=chips(f"{resource}{wellknown.RECOVERING_SUFFIX}", resource),
            superpod=superpod,
            server_index=server_index,
            update_time=issues.count(f"{path}.UpdateTime", listed.UpdateTime, 0, most=2**53) * NANOSECONDS,
            aggregated=aggregated,
            origin=issues.origin,
            rack=rack,
            faults=_chip_faults(lists.get(f"{resource}{wellknown.FAULT_SUFFIX}", ""), resource),
        )


def _chip_faults(text: str, resource: str) -> tuple[ReportedFault, ...]:
    """The codes of the list `<resource>-Fault`, each with its own level where that is known.

    The list explains; which chips are unhealthy is in the other lists. So a list that cannot be read is as
    none, and does not cost the report.
    """
    if len(text) <= len("[]"):
        return ()
    entries = readable(text, list[_FaultEntry], [])
    prefix = chip_prefix(resource)
    faults: dict[ReportedFault, None] = {}
    for entry in entries[:MAX_FAULTS]:
        name = entry.npu_name or ""
        chip = whole_number(name.removeprefix(prefix), 0, MAX_NODE_CHIPS - 1)
        if chip is None or not name.startswith(prefix):
            continue
        network = entry.fault_type == NETWORK_FAULT_TYPE
        levels = entry.fault_time_and_level_map or {}
        for code in (part.strip() for part in (entry.fault_code or "").split(",")):
            own = levels.get(code)
            level = own.fault_level if own is not None and own.fault_level else None
            level = level or entry.fault_handling or entry.fault_level or ""
            faults[ReportedFault(chip, code, level, network)] = None
    return tuple(faults)


def _resources(lists: dict[str, str]) -> list[str]:
    """Whole chips only: `huawei.com/Ascend910`, not its list of unhealthy ones nor vNPUs (`Ascend910-2c`)."""
    resources: dict[str, None] = {}
    for key in lists:
        suffix = next((one for one in _SUFFIXES if key.endswith(one)), "")
        resource = key.removesuffix(suffix)
        if suffix != wellknown.FAULT_SUFFIX and "-" not in resource:
            resources[resource] = None
    return sorted(resources)
