"""Node objects into nodes of the state."""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.manifests.objects.chips import chip_of
from ringwise.manifests.objects.metadata import MAX_ANNOTATION_CHARACTERS, identity, number_in
from ringwise.manifests.objects.resources import CPU, MEMORY, PODS, amounts, extended
from ringwise.manifests.text.checking import check_word, decoded, keyed
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.strings import shared
from ringwise.manifests.text.wire import NodeSpecWire, NodeStatusWire, NodeWire, TaintWire, WireStruct
from ringwise.state.model import Device, Node, Taint
from ringwise.state.ranges import MAX_NODE_CHIPS
from ringwise.wellknown import (
    BASE_DEVICE_INFOS,
    CHIP_RESOURCE_PREFIX,
    RACK_ANNOTATION,
    RACK_LABEL,
    SERVER_INDEX,
    SUPERPOD_ANNOTATION,
    SUPERPOD_LABEL,
)

#: The default of kubelets, for nodes in hand-written manifests.
DEFAULT_MAX_PODS = 110

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class _DeviceWire(WireStruct, rename=None):
    IP: str | None = None
    SuperDeviceID: int | str | None = None


_NO_SPEC = NodeSpecWire()
_NO_STATUS = NodeStatusWire()


def node_from_wire(wire: NodeWire, issues: Findings) -> Node:
    """The node. It must not be used when there are errors in `found`."""
    who = identity(wire.metadata, "Node", issues, namespaced=False)
    spec, status = wire.spec or _NO_SPEC, wire.status or _NO_STATUS
    capacity = amounts(status.capacity, "status.capacity", issues, MAX_NODE_CHIPS)
    # The API server copies the capacity when a kubelet reports nothing allocatable.
    allocatable = (
        capacity
        if status.allocatable is None
        else amounts(status.allocatable, "status.allocatable", issues, MAX_NODE_CHIPS)
    )
    devices = None
    raw = wire.metadata.annotations
    if raw and BASE_DEVICE_INFOS in raw:
        devices = _devices(
            raw[BASE_DEVICE_INFOS] or "", keyed("metadata.annotations", BASE_DEVICE_INFOS), issues
        )
    ready = next((one.status for one in status.conditions or () if one.type == "Ready"), "True")
    return Node(
        name=who.name,
        labels=who.labels,
        annotations=who.annotations,
        taints=tuple(_taint(one, f"spec.taints[{at}]", issues) for at, one in enumerate(spec.taints or ())),
        unschedulable=bool(spec.unschedulable),
        ready=ready == "True",
        internal_ip=next((one.address for one in status.addresses or () if one.type == "InternalIP"), ""),
        cpu_milli=allocatable.get(CPU, 0),
        memory=allocatable.get(MEMORY, 0),
        max_pods=allocatable.get(PODS, capacity.get(PODS, DEFAULT_MAX_PODS)),
        extended=extended(allocatable),
        chips_allocatable=_chips(allocatable),
        chips_capacity={**_chips(allocatable), **_chips(capacity)},
        devices=devices,
        superpod=_superpod(who.annotations, who.labels, issues),
        rack=_rack(who.annotations, who.labels),
        server_index=who.annotations.get(SERVER_INDEX, ""),
        origin=issues.origin,
        created=who.created,
    )


def _chips(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if name.startswith(CHIP_RESOURCE_PREFIX)}


def _taint(wire: TaintWire, path: str, issues: Findings) -> Taint:
    if not wire.key:
        issues.add_error(f"{path}.key", "Required value")
    check_word(f"{path}.effect", wire.effect, _EFFECTS, issues)
    return Taint(shared(wire.key), shared(wire.value or ""), shared(wire.effect))


def _superpod(annotations: Mapping[str, str], labels: Mapping[str, str], issues: Findings) -> int | None:
    """The SuperPoD id of the node.

    A negative one (unknown to the driver) is kept; jobs with blocks reject it.
    """
    if annotations.get(SUPERPOD_ANNOTATION):
        return number_in(
            annotations[SUPERPOD_ANNOTATION], keyed("metadata.annotations", SUPERPOD_ANNOTATION), issues
        )
    if labels.get(SUPERPOD_LABEL):
        return number_in(labels[SUPERPOD_LABEL], keyed("metadata.labels", SUPERPOD_LABEL), issues)
    return None


def _rack(annotations: Mapping[str, str], labels: Mapping[str, str]) -> int | None:
    """The rack id as the node tells it.

    Text that is not a number makes no node unusable: only jobs for racks need the id, and they miss it.
    """
    text = annotations.get(RACK_ANNOTATION) or labels.get(RACK_LABEL, "")
    return int(text) if text.isascii() and text.removeprefix("-").isdecimal() and len(text) <= 11 else None


def _devices(text: str, path: str, issues: Findings) -> tuple[Device, ...]:
    """The chips in the annotation of the device plugin, ascending. Names with two dashes are vNPUs."""
    if len(text) > MAX_ANNOTATION_CHARACTERS:
        return ()
    named = decoded(text, dict[str, _DeviceWire], path, issues)
    devices: dict[int, Device] = {}
    for name, wire in (named or {}).items():
        if name.count("-") > 1:
            continue
        chip = chip_of(name)
        if chip is None:
            allowed = f"must name chips like Ascend910-0, with numbers 0 to {MAX_NODE_CHIPS - 1}"
            issues.invalid(path, name, allowed)
            return ()
        if chip in devices:
            issues.add_error(path, f"contains the chip {chip} twice")
            return ()
        number = wire.SuperDeviceID
        devices[chip] = Device(chip, wire.IP or "", "" if number is None else str(number))
    return tuple(devices[chip] for chip in sorted(devices))
