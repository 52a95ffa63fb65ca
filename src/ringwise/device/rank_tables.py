"""The configuration annotation of a pod, as this node's driver describes its chips (rule D3).

On A5 boards it says by which addresses a chip is reached on each layer of the network (`levelList`). The
chip has several network devices, each with entity ids of 32 hexadecimal digits. An id says on which die and
at which port it is. Which of them serve a layer follows from the form of the product; the ports of the layers
above the first one are in the driver's file of links. A layer without addresses is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ringwise.device.cards import (
    ASCEND910A5,
    Chip,
    carries_configuration,
    chips_per_standard_card,
    lead,
    physical_id,
    resource_of,
)
from ringwise.device.pods import NodePod
from ringwise.messages.rank_table import RankTableDevice, rank_table_fragment, rank_table_key
from ringwise.records import dataclass

#: What the entries of one chip are, as they are written.
Levels = Sequence[Mapping[str, Any]]

#: All nodes are reached on the layers above the SuperPoD.
CLUSTER, CLUSTER_PLANE = "CLUSTER1", "CLUSTER"
#: Types of SuperPoDs that have racks, and of servers that are joined in pairs and fours.
_WITH_RACKS = frozenset({1, 2})
_JOINED_SERVERS = frozenset({3, 4})
_CHIPS_OF_A_NODE, _HALF = 8, 4
_ENTITY = re.compile(r"[0-9a-f]{32}")
#: The function of the devices that lead out of a node of a rack, and out of a server.
_POD_UPLINKS, _SERVER_UPLINKS = 2, 3
#: The number of an id that stands for all ports of its device.
_ALL_PORTS = 0x3F
_LINK_LOCAL = 0xFE
#: The chips on a card are joined at ports up to this one.
_LAST_CARD_PORT = 8
_MAX_FILE = 50 << 20


@dataclass(frozen=True, slots=True)
class Entity:
    """One entity id, and what it says."""

    text: str

    @property
    def _bytes(self) -> bytes:
        return bytes.fromhex(self.text)

    @property
    def die(self) -> int:
        return self._bytes[5] >> 6

    @property
    def port(self) -> int:
        return self._bytes[5] & _ALL_PORTS

    @property
    def function(self) -> int:
        """The function of the device that has the id."""
        return self._bytes[6] & 0x7F

    @property
    def over_ethernet(self) -> bool:
        return self._bytes[7] >> 6 == 3

    @property
    def ip(self) -> str:
        """The address that the id of a device over Ethernet holds; empty for a link-local one."""
        first, rest = self._bytes[6], self._bytes[12:15]
        return "" if first == _LINK_LOCAL else ".".join(map(str, (first, *rest)))

    # Ids of standard cards have die and port in their last two bytes.

    @property
    def card_die(self) -> int:
        return self._bytes[14] >> 2 & 1

    @property
    def card_port(self) -> int:
        return (self._bytes[15] & 0x7F) >> 3

    @property
    def between_chips(self) -> bool:
        return not self._bytes[14] >> 3 & 1


@dataclass(frozen=True, slots=True)
class NetworkDevice:
    """The entity ids of one network device of a chip; the first one tells where it is."""

    entities: tuple[Entity, ...]

    @property
    def first(self) -> Entity:
        return self.entities[0]

    @property
    def of_all_ports(self) -> str:
        return next((one.text for one in reversed(self.entities) if one.port == _ALL_PORTS), "")


#: Ports by layer, and by the chip's place on its node.
Links = Mapping[tuple[int, int], Sequence[str]]


def read_links(text: str) -> Links:
    """The ports towards the network in the driver's file of links; none where it cannot be read."""
    try:
        edges = json.loads(text)["edge_list"] if len(text) <= _MAX_FILE else []
        result: dict[tuple[int, int], list[str]] = {}
        for edge in edges:
            if edge.get("link_type") == "PEER2NET":
                key = (int(edge["net_layer"]), int(edge["local_a"]))
                ports = [*result.get(key, ()), *map(str, edge["local_a_ports"])]
                result[key] = list(dict.fromkeys(ports))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}
    return result


def level_lists(card: str, chips: Sequence[Chip], node_ip: str, links: Links) -> dict[int, Levels]:
    """The layers of each chip by physical id; nothing for boards other than A5."""
    if card != ASCEND910A5:
        return {}
    on_card = chips_per_standard_card(card, chips)
    result: dict[int, Levels] = {}
    for chip in chips:
        devices = _devices(chip)
        if on_card:
            layers = _card_layers(devices, node_ip) if on_card > 1 else []
        elif lead(chips).superpod_type in _WITH_RACKS:
            layers = _pod_layers(chip, devices, links)
        else:
            layers = _server_layers(chip, devices, node_ip, links)
        result[chip.physical] = _written(layers)
    return result


def _devices(chip: Chip) -> list[NetworkDevice]:
    devices = [tuple(Entity(text) for text in ids if _ENTITY.fullmatch(text)) for ids in chip.network_ids]
    return [NetworkDevice(entities) for entities in devices if entities]


@dataclass(frozen=True, slots=True)
class _Layer:
    number: int
    kind: str
    instance: str
    addresses: list[dict[str, Any]]


def _written(layers: Sequence[_Layer]) -> Levels:
    return [
        {
            "level": layer.number,
            "info": {
                layer.kind: {
                    "net_layer": layer.number,
                    "net_instance_id": layer.instance,
                    "net_type": "CLOS" if layer.number else "TOPO_FILE_DESC",
                    "net_attr": "",
                    "rank_addr_list": layer.addresses,
                }
            },
        }
        for layer in layers
        if layer.addresses
    ]


def _card_layers(devices: list[NetworkDevice], node_ip: str) -> list[_Layer]:
    """Chips that are joined on a card."""
    addresses = [
        _address("EID", one.text, [f"{one.card_die}/{one.card_port}"], str(one.card_die))
        for device in devices
        for one in device.entities
        if one.function == 0 and one.between_chips and one.card_port <= _LAST_CARD_PORT
    ]
    return [_Layer(0, "UB", node_ip, addresses)]


def _pod_layers(chip: Chip, devices: list[NetworkDevice], links: Links) -> list[_Layer]:
    """Chips of a rack: each half of a node is joined by one of the dies."""
    other = 1 if chip.physical % _CHIPS_OF_A_NODE < _HALF else 0
    return [
        _Layer(0, "UB", f"{chip.superpod}_{chip.rack}", _mesh(devices, other)),
        _Layer(1, "UB", str(chip.superpod), _uplinks(chip, devices, links, _POD_UPLINKS)),
    ]


def _server_layers(chip: Chip, devices: list[NetworkDevice], node_ip: str, links: Links) -> list[_Layer]:
    """Chips of a server: the second die joins them, the first one leads out of it."""
    joined = chip.superpod >= 0 and chip.superpod_type not in _JOINED_SERVERS
    layers = [
        _Layer(0, "UB", f"{chip.superpod}_{chip.server_index}" if joined else node_ip, _mesh(devices, 0))
    ]
    if joined:
        layers.append(_Layer(1, "UB", str(chip.superpod), _uplinks(chip, devices, links, _SERVER_UPLINKS)))
    ethernet = (device for device in devices if device.first.over_ethernet)
    ip = next((one.ip for device in ethernet for one in device.entities if one.ip), "")
    ports = list(links.get((2, chip.physical % _CHIPS_OF_A_NODE), ()))
    layers.append(_Layer(2, "UBOE", CLUSTER, [_address("IPV4", ip, ports, CLUSTER_PLANE)] if ip else []))
    return layers


def _mesh(devices: list[NetworkDevice], other_die: int) -> list[dict[str, Any]]:
    """Every port of the device that joins the chips: the last function that is not on the other die."""
    among = [one for one in devices if not one.first.over_ethernet and one.first.die != other_die]
    if not among:
        return []
    device = max(among, key=lambda one: one.first.function)
    return [
        _address("EID", one.text, [f"{one.die}/{one.port}"], str(one.die))
        for one in device.entities
        if one.port != _ALL_PORTS
    ]


def _uplinks(chip: Chip, devices: list[NetworkDevice], links: Links, function: int) -> list[dict[str, Any]]:
    """The ids of that function which stand for all ports of a die out of the node."""
    result = []
    out = links.get((1, chip.physical % _CHIPS_OF_A_NODE), ())
    for device in devices:
        die = device.first.die
        ports = [port for port in out if port.startswith(f"{die}/")]
        if device.of_all_ports and ports and device.first.function == function:
            result.append(_address("EID", device.of_all_ports, ports, str(die)))
    return result


def _address(kind: str, address: str, ports: list[str], plane: str) -> dict[str, Any]:
    return {"addr_type": kind, "addr": address, "ports": ports, "plane_id": plane}


#: What a rank table says of a chip without an address, and of one that the driver does not list.
NO_ADDRESS, NO_SUPER_DEVICE = "-1", "-2"


class RankTables:
    """The configuration annotations of a node's pods, for the boards that have one."""

    def __init__(self, card: str) -> None:
        self._card = card
        self._inputs: tuple[Sequence[Chip], str, Mapping[int, Levels]] | None = None

    def know(self, chips: Sequence[Chip], node_ip: str, levels: Mapping[int, Levels]) -> None:
        """What the node is like now."""
        self._inputs = (chips, node_ip, levels)

    def of(self, pod: NodePod, mounted: Sequence[str]) -> tuple[str, str] | None:
        """Key and value for a pod with the mounted chips; None for boards whose pods have none.

        Before the node's address is known there is none, either: better than a wrong one.
        """
        if self._inputs is None:
            return None
        chips, node_ip, levels = self._inputs
        if not carries_configuration(self._card, chips):
            return None
        by_number = {chip.physical: chip for chip in chips}
        devices = []
        for number in map(physical_id, mounted):
            chip = by_number.get(number)
            devices.append(
                rank_table_device(self._card, number, chip.ip, chip.super_device, levels.get(number, ()))
                if chip is not None
                else rank_table_device(self._card, number)
            )
        first = lead(chips)
        return rank_table_key(resource_of(self._card)), rank_table_fragment(
            pod_name=pod.name,
            pod_uid=pod.uid,
            node_ip=node_ip,
            devices=devices,
            superpod=first.superpod,
            rack=first.rack if self._card == ASCEND910A5 else 0,
            server_index=str(first.server_index),
        )


def rank_table_device(
    card: str, number: int, ip: str = "", super_device: int | None = None, levels: Levels = ()
) -> RankTableDevice:
    """One chip in the rank table. A5 boards have no addresses there; elsewhere -1 says that there is none."""
    address = "" if card == ASCEND910A5 else ip or NO_ADDRESS
    identity = NO_SUPER_DEVICE if super_device is None else str(super_device)
    return RankTableDevice(number, address, identity, levels)


def same_devices(present: str, wanted: str) -> bool:
    """Whether two configuration annotations name the same devices and node with the same addresses."""
    try:
        one, other = json.loads(present), json.loads(wanted)
        return bool(one["devices"] == other["devices"] and one.get("host_ip") == other.get("host_ip"))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return False
