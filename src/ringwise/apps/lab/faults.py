"""Faults of a lab: written as the ConfigMaps of device plugin and NodeD, and read from them.

So a fault of the lab takes the same way as one of a real cluster: document, reader, report, detection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ringwise.device.health.configuration import NETWORK_CODES, shipped_configuration
from ringwise.device.health.levels import (
    LEVELS,
    NETWORK_LEVELS,
    SWITCH_LEVELS,
    FaultLevel,
    chip_is_healthy,
    network_is_healthy,
    worst,
)
from ringwise.device.health.tracker import NO_FAULT, NO_NETWORK_FAULT, ChipFault
from ringwise.device.report import ChipReport, device_info_cfg, device_list
from ringwise.durations import SECOND
from ringwise.embed.cluster import EmbeddedCluster
from ringwise.embed.parts import reported_chips
from ringwise.embed.records import ObjectRefusedError, key_of
from ringwise.grammar import quoted
from ringwise.manifests.config_maps.device_info import config_map_from_wire
from ringwise.manifests.config_maps.node_info import NODE, SWITCH, node_reports_of
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.go_json import compact
from ringwise.manifests.text.wire import ConfigMapWire, MetaWire
from ringwise.state.model import DeviceReport, Node, NodeReport
from ringwise.topology.chips import chip_names
from ringwise.topology.natural import natural_key
from ringwise.topology.nearest import did_you_mean
from ringwise.views.documents.cluster import FaultFields
from ringwise.wellknown import (
    DEVICE_INFO_KEY,
    DEVICE_INFO_PREFIX,
    KUBE_SYSTEM,
    MINDX_DL,
    NODE_INFO_KEY,
    NODE_INFO_PREFIX,
    SWITCH_INFO_KEY,
)

#: What can fail. Of a SuperPoD all nodes do; a leaf switch, or a node, says so of the switches of nodes.
KINDS = ("chip", "network", "node", "switch", "superpod")
NOT_READY = "not-ready"
#: Whose report a ConfigMap is: of the device plugin, or of NodeD.
DEVICE = "device"
REPORT_KINDS = (DEVICE, NODE)
#: The health of a node, as kubelet, NodeD and device plugin report it.
STATUSES = (NOT_READY, "UnHealthy", "PreSeparate", "SubHealthy")
CHIP_LEVELS = tuple(level for level in LEVELS if level != FaultLevel.NORMAL)
_SWITCH_LEVEL = {status: level for level, status in reversed(SWITCH_LEVELS.items())}
_NODE_LEVEL = {
    "UnHealthy": "SeparateFault",
    "PreSeparate": "PreSeparateFault",
    "SubHealthy": "SubHealthFault",
}
#: The code of a network port that does not work.
_PORT_FAULT = "110001024"


# -- chips ---------------------------------------------------------------------------------------------


def resolve_chip_fault(level: str | None, code: str | None, *, network: bool) -> tuple[str, str]:
    """Level and code; what is not given follows from the table of fault codes. Raises ObjectRefusedError."""
    table = shipped_configuration()
    allowed = [one for one in CHIP_LEVELS if not network or one in NETWORK_LEVELS]
    if level is not None and level not in allowed:
        what = "a network fault" if network else "a chip fault"
        near = did_you_mean(level, allowed)
        raise ObjectRefusedError(
            f"{quoted(level)} is not a level of {what}; must be one of {', '.join(allowed)}{near}"
        )
    if code is not None:
        number = int(code, 16) if _is_code(code) else None
        if number is None:
            raise ObjectRefusedError(f"invalid fault code {quoted(code)}: must be 1 to 16 hexadecimal digits")
        return level or table.level_of(number), code.upper()
    if network:
        return level or FaultLevel.SEPARATE, _PORT_FAULT
    level = level or FaultLevel.SEPARATE
    codes = [number for number, one in table.levels.items() if one == level and number not in NETWORK_CODES]
    return level, table.written(codes[0]) if codes else "80E01801"


def _is_code(text: str) -> bool:
    return 0 < len(text) <= 16 and all(sign in "0123456789abcdefABCDEF" for sign in text)


#: Chip -> code -> level.
Faults = dict[int, dict[str, str]]


def _change_chips(
    cluster: EmbeddedCluster, name: str, chips: Sequence[int], network: bool, change: Callable[[Faults], None]
) -> None:
    """Change the faults of chips, or of their network ports. Raises ObjectRefusedError."""
    for report in _reports_of(cluster, name, chips):
        faults = _faults_of(report, network)
        change(faults)
        _write(cluster, report, {chip: codes for chip, codes in faults.items() if codes}, network)


def _reports_of(cluster: EmbeddedCluster, name: str, chips: Sequence[int]) -> list[DeviceReport]:
    node = cluster.get(Node, name)
    if node is None:
        raise ObjectRefusedError(f'node "{name}" not found')
    if not node.chips_capacity:
        raise ObjectRefusedError(f"{name} has no chips")
    here = reported_chips(node)
    for capacity in here.values():
        wrong = [chip for chip in chips if not 0 <= chip < capacity]
        if wrong:
            raise ObjectRefusedError(f"{name} has the chips 0 to {capacity - 1}, not {wrong[0]}")
    reports = (cluster.nodes.report(name, resource) for resource in here)
    return [
        DeviceReport(name, resource, network_unhealthy=0) if one is None else cluster.nodes.own_health(one)
        for resource, one in zip(here, reports, strict=True)
    ]


def _faults_of(report: DeviceReport, network: bool) -> Faults:
    """Chip -> code -> level. A chip that is unhealthy without a code has one of no name."""
    result: dict[int, dict[str, str]] = {}
    bad = (report.network_unhealthy or 0) if network else report.unhealthy
    for fault in report.faults:
        # An isolated chip is listed without a code, and is not broken.
        if _is_network_code(fault.code) is network and (fault.code or bad >> fault.chip & 1):
            result.setdefault(fault.chip, {})[fault.code] = fault.level
    for chip in range(bad.bit_length()):
        if bad >> chip & 1 and chip not in result:
            result[chip] = {"": FaultLevel.SEPARATE}
    return result


def _is_network_code(code: str) -> bool:
    return _is_code(code) and int(code, 16) in NETWORK_CODES


def _write(
    cluster: EmbeddedCluster, report: DeviceReport, faults: Mapping[int, Mapping[str, str]], network: bool
) -> None:
    """The device plugin's ConfigMap with these faults, read back as the scheduler reads it."""
    node = cluster.get(Node, report.node)
    assert node is not None
    other = _faults_of(report, not network)
    of_chips, of_ports = (other, faults) if network else (faults, other)
    in_use = cluster.nodes.chips_in_use(report.node, report.resource)
    moment = cluster.now // 1_000_000
    listed = [
        _chip_report(report.resource, chip, of_chips.get(chip, {}), of_ports.get(chip, {}), in_use, moment)
        for chip in sorted(
            range(reported_chips(node)[report.resource])
            if node.devices is None
            else (device.chip for device in node.devices)
        )
    ]
    used = {chip_names(report.resource, (chip,)) for chip in range(in_use.bit_length()) if in_use >> chip & 1}
    lists = device_list(report.resource, listed, used)
    superpod = -1 if report.superpod is None else report.superpod
    index = -1 if report.server_index is None else report.server_index
    text = device_info_cfg(lists, cluster.now // SECOND, superpod, index, report.rack)
    wire = _config_map(KUBE_SYSTEM, DEVICE_INFO_PREFIX + report.node, {DEVICE_INFO_KEY: text})
    issues = Findings("lab")
    read = config_map_from_wire(wire, issues)
    if read is None or issues.errors:
        raise ObjectRefusedError("; ".join(map(str, issues.errors)) or "the report cannot be read")
    for one in read[0]:
        if one.resource == report.resource:
            cluster.nodes.put_report(one, cluster.now)


def _chip_report(
    resource: str,
    chip: int,
    codes: Mapping[str, str],
    network_codes: Mapping[str, str],
    in_use: int,
    moment: int,
) -> ChipReport:
    level = worst(codes.values())
    network_level = worst(network_codes.values())
    return ChipReport(
        chip_names(resource, (chip,)),
        healthy=chip_is_healthy(level, bool(in_use >> chip & 1)),
        network_healthy=not network_codes or network_is_healthy(network_level),
        fault=_fault(level, codes, moment) if codes else NO_FAULT,
        network_fault=_fault(network_level, network_codes, moment) if network_codes else NO_NETWORK_FAULT,
    )


def _fault(level: str, codes: Mapping[str, str], moment: int) -> ChipFault:
    return ChipFault(level, tuple(codes), {code: (moment, one) for code, one in codes.items()})


# -- nodes and their switches ----------------------------------------------------------------------------


def set_node_status(cluster: EmbeddedCluster, name: str, status: str | None, code: str | None = None) -> None:
    """NodeD's report of a fault of the node; None takes it away: it exists only while there is a fault."""
    if status is None:
        _drop(cluster, name, NODE)
        return
    device = {
        "DeviceType": "CPU",
        "DeviceId": 0,
        "FaultCode": [code or "00000001"],
        "FaultLevel": _NODE_LEVEL[status],
    }
    text = compact({NODE_INFO_KEY: {"FaultDevList": [device], "NodeStatus": status}})
    _report(cluster, _config_map(MINDX_DL, NODE_INFO_PREFIX + name, {NODE_INFO_KEY: text}))


def set_switch_status(cluster: EmbeddedCluster, name: str, status: str | None) -> None:
    """The device plugin's report of the node's switches; None: they are healthy again."""
    if status is None:
        _drop(cluster, name, SWITCH)
        return
    text = compact(
        {
            "FaultCode": [],
            "FaultLevel": _SWITCH_LEVEL[status],
            "UpdateTime": cluster.now // SECOND,
            "NodeStatus": status,
            "FaultTimeAndLevelMap": {},
        }
    )
    _report(cluster, _config_map(KUBE_SYSTEM, DEVICE_INFO_PREFIX + name, {SWITCH_INFO_KEY: text}))


def put_report(cluster: EmbeddedCluster, name: str, kind: str, text: str) -> list[str]:
    """A report of a node with this value; what is wrong with it. One that cannot be read changes nothing."""
    if kind == DEVICE:
        wire = _config_map(KUBE_SYSTEM, DEVICE_INFO_PREFIX + name, {DEVICE_INFO_KEY: text})
    else:
        wire = _config_map(MINDX_DL, NODE_INFO_PREFIX + name, {NODE_INFO_KEY: text})
    issues = Findings(f"ConfigMap {wire.metadata.name or ''}")
    devices = config_map_from_wire(wire, issues)
    health = node_reports_of(wire, issues)
    if issues.errors:
        return [str(error) for error in issues.errors]
    if cluster.get(Node, name) is None:
        return [f'{issues.origin}: node "{name}" not found']
    for report in devices[0] if devices is not None else ():
        cluster.nodes.put_report(report, cluster.now)
    for node_report in health or ():
        cluster.submit(node_report)
    return []


def _config_map(namespace: str, name: str, data: dict[str, str]) -> ConfigMapWire:
    return ConfigMapWire(metadata=MetaWire(name=name, namespace=namespace), data=dict(data))


def _report(cluster: EmbeddedCluster, wire: ConfigMapWire) -> None:
    issues = Findings("lab")
    for report in node_reports_of(wire, issues) or ():
        cluster.submit(report)
    if issues.errors:
        raise ObjectRefusedError("; ".join(map(str, issues.errors)))


def _drop(cluster: EmbeddedCluster, name: str, source: str) -> None:
    for report in cluster.all(NodeReport):
        if report.node == name and report.source == source:
            cluster.delete(*key_of(report))


# -- all of them -------------------------------------------------------------------------------------------


def inject(
    cluster: EmbeddedCluster,
    kind: str,
    nodes: Iterable[str],
    *,
    chips: Sequence[int] = (),
    level: str | None = None,
    code: str | None = None,
    status: str | None = None,
) -> None:
    """Break hardware of these nodes. Everything is checked before anything is changed."""
    names = list(nodes)
    _check(kind, chips, level, status)
    if kind in ("chip", "network"):
        network = kind == "network"
        fault, written = resolve_chip_fault(level, code, network=network)
        for name in names:
            _reports_of(cluster, name, chips)
        for name in names:
            node = cluster.get(Node, name)
            every = range(min(reported_chips(node).values())) if node is not None else ()
            broken = tuple(chips or every)

            def add(faults: Faults, broken: Sequence[int] = broken) -> None:
                for chip in broken:
                    faults.setdefault(chip, {})[written] = fault

            _change_chips(cluster, name, broken, network, add)
        return
    for name in names:
        if kind == "switch":
            set_switch_status(cluster, name, status or "UnHealthy")
        elif status in (None, NOT_READY):
            cluster.set_ready(name, False)
        else:
            set_node_status(cluster, name, status, code)


def _check(kind: str, chips: Sequence[int], level: str | None, status: str | None) -> None:
    if kind not in KINDS:
        raise ObjectRefusedError(
            f"unknown kind of fault {quoted(kind)}; must be one of {', '.join(KINDS)}"
            f"{did_you_mean(kind, KINDS)}"
        )
    of_chips = kind in ("chip", "network")
    if kind == "chip" and not chips:
        raise ObjectRefusedError("name the chips that fail: 3, 0-3 or 0,2,5")
    if chips and not of_chips:
        raise ObjectRefusedError(f"a fault of a {kind} cannot have chips")
    if level is not None and not of_chips:
        raise ObjectRefusedError(f"a fault of a {kind} cannot have a level")
    if status is None:
        return
    if of_chips:
        raise ObjectRefusedError(f"a {kind} fault cannot have a status")
    allowed = [one for one in STATUSES if kind != "switch" or one != NOT_READY]
    if status not in allowed:
        near = did_you_mean(status, allowed)
        raise ObjectRefusedError(
            f"{quoted(status)} is not a status of a {kind}; must be one of {', '.join(allowed)}{near}"
        )


def clear(
    cluster: EmbeddedCluster,
    kind: str,
    nodes: Iterable[str],
    *,
    chips: Sequence[int] = (),
    code: str | None = None,
) -> None:
    """The hardware of these nodes is healthy again, as far as the kind and the chips say."""
    names = list(nodes)
    if kind not in KINDS:
        _check(kind, chips, None, None)

    def remove(faults: Faults) -> None:
        for chip in chips or list(faults):
            if code is None:
                faults.pop(chip, None)
            else:
                faults.get(chip, {}).pop(code.upper(), None)

    for name in names:
        _reports_of(cluster, name, chips) if chips else None
    for name in names:
        if kind in ("chip", "network"):
            _change_chips(cluster, name, chips, kind == "network", remove)
        elif kind == "switch":
            set_switch_status(cluster, name, None)
        else:
            cluster.set_ready(name, True)
            set_node_status(cluster, name, None)


def clear_all(cluster: EmbeddedCluster) -> None:
    for row in faults_now(cluster):
        clear(cluster, row["kind"], [row["node"]])


def faults_now(cluster: EmbeddedCluster) -> list[FaultFields]:
    """Every fault of every node of a lab, nodes in natural order."""
    rows = [_row(node.name, "node", NOT_READY) for node in cluster.all(Node) if not node.ready]
    for report in cluster.all(NodeReport):
        if report.status not in ("", "Healthy"):
            kind = "switch" if report.source == SWITCH else "node"
            rows.append(_row(report.node, kind, report.status))
    for device_report in cluster.all(DeviceReport):
        rows += _chip_rows(cluster.nodes.own_health(device_report))
    order = {kind: place for place, kind in enumerate(("node", "switch", "chip", "network"))}
    return sorted(
        rows, key=lambda row: (natural_key(row["node"]), order[row["kind"]], natural_key(row["chip"] or ""))
    )


def _chip_rows(report: DeviceReport) -> Iterator[FaultFields]:
    for kind in ("chip", "network"):
        for chip, codes in _faults_of(report, kind == "network").items():
            for code, level in codes.items():
                yield _row(report.node, kind, level, chip_names(report.resource, (chip,)), code)


def _row(node: str, kind: str, level: str, chip: str = "", code: str = "") -> FaultFields:
    return {"node": node, "kind": kind, "chip": chip or None, "level": level, "code": code or None}
