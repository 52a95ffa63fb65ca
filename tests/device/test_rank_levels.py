"""A5 boards: the layers on which a chip is reached."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ringwise.device.cards import ASCEND910A5, ASCEND910B, Chip, chips_per_standard_card
from ringwise.device.rank_tables import level_lists, read_links
from ringwise.device.report import base_device_infos
from tests.device.rig import NODES, rig

ALL = 0x3F


def entity(die: int, port: int, function: int, *, ip: tuple[int, ...] = ()) -> str:
    raw = bytearray(16)
    raw[5], raw[6] = die << 6 | port, function
    if ip:
        raw[6], raw[7], raw[12:15] = ip[0], 0xC0, bytes(ip[1:])
    return raw.hex()


def card_entity(die: int, port: int, *, outside: bool = False) -> str:
    raw = bytearray(16)
    raw[14], raw[15] = die << 2 | outside << 3, port << 3
    return raw.hex()


def device(die: int, function: int, *ports: int) -> tuple[str, ...]:
    return tuple(entity(die, port, function) for port in ports)


LINKS = json.dumps(
    {
        "edge_list": [
            {"net_layer": 1, "link_type": "PEER2NET", "local_a": 1, "local_a_ports": ["0/4", "1/5", "0/4"]},
            {"net_layer": 1, "link_type": "PEER2PEER", "local_a": 1, "local_a_ports": ["0/7"]},
            {"net_layer": 2, "link_type": "PEER2NET", "local_a": 1, "local_a_ports": ["0/8"]},
        ]
    }
)
IDS = (
    device(0, 1, 1),
    device(0, 4, 2, 3, ALL),
    device(1, 9, 6),
    device(0, 2, ALL),
    device(0, 3, ALL),
    device(1, 2, 1, ALL),
    (entity(0, 0, 0, ip=(0xFE, 1, 2, 3)), entity(0, 0, 0, ip=(10, 20, 30, 40))),
    ("no id", "12"),
)
CHIP = Chip(9, 1, 1, 0, superpod=5, server_index=2, rack=7, network_ids=IDS)


def levels(chip: Chip, links: str = LINKS) -> list[tuple[int, str, dict[str, Any]]]:
    (found,) = level_lists(ASCEND910A5, [chip], "10.1.2.3", read_links(links)).values()
    return [(one["level"], kind, info) for one in found for kind, info in one["info"].items()]


def addresses(info: dict[str, Any]) -> list[tuple[str, str, list[str], str]]:
    return [(one["addr_type"], one["addr"], one["ports"], one["plane_id"]) for one in info["rank_addr_list"]]


def test_a_chip_of_a_rack() -> None:
    (first, second) = levels(replace(CHIP, superpod_type=1))
    assert first[:2] == (0, "UB")
    assert list(first[2]) == ["net_layer", "net_instance_id", "net_type", "net_attr", "rank_addr_list"]
    assert (first[2]["net_instance_id"], first[2]["net_type"]) == ("5_7", "TOPO_FILE_DESC")
    # The second half of a node is joined by its other die.
    assert addresses(first[2]) == [
        ("EID", entity(0, 2, 4), ["0/2"], "0"),
        ("EID", entity(0, 3, 4), ["0/3"], "0"),
    ]
    (other, _) = levels(
        replace(CHIP, superpod_type=1, physical=13), LINKS.replace(': 1, "local_a_', ': 5, "local_a_')
    )
    assert addresses(other[2]) == [("EID", entity(1, 6, 9), ["1/6"], "1")]
    assert (second[0], second[2]["net_instance_id"], second[2]["net_type"]) == (1, "5", "CLOS")
    assert addresses(second[2]) == [
        ("EID", entity(0, ALL, 2), ["0/4"], "0"),
        ("EID", entity(1, ALL, 2), ["1/5"], "1"),
    ]


def test_a_chip_of_a_server_in_a_superpod() -> None:
    (first, second, third) = levels(replace(CHIP, superpod_type=0))
    assert (first[2]["net_instance_id"], addresses(first[2])) == (
        "5_2",
        [("EID", entity(1, 6, 9), ["1/6"], "1")],
    )
    assert addresses(second[2]) == [("EID", entity(0, ALL, 3), ["0/4"], "0")]
    assert third[:2] == (2, "UBOE")
    assert third[2]["net_instance_id"] == "CLUSTER1"
    assert addresses(third[2]) == [("IPV4", "10.20.30.40", ["0/8"], "CLUSTER")]


@pytest.mark.parametrize("change", [{"superpod": -2, "superpod_type": 0}, {"superpod_type": 3}])
def test_a_server_alone_has_the_address_of_its_node(change: dict[str, Any]) -> None:
    (first, second) = levels(replace(CHIP, **change))
    assert (first[0], first[2]["net_instance_id"]) == (0, "10.1.2.3")
    assert second[0] == 2


def test_standard_cards() -> None:
    ids = ((card_entity(1, 3), card_entity(0, 9), card_entity(0, 2, outside=True)),)
    chip = Chip(0, 0, 0, 0, board=0x1A, mainboard=0x6C, network_ids=ids)
    assert chips_per_standard_card(ASCEND910A5, [chip]) == 4
    ((_, kind, info),) = levels(chip)
    assert (kind, info["net_instance_id"]) == ("UB", "10.1.2.3")
    assert addresses(info) == [("EID", card_entity(1, 3), ["1/3"], "1")]
    assert levels(replace(chip, mainboard=0x68)) == []


@pytest.mark.parametrize(
    "links",
    ["", "{", "[]", '{"edge_list": 3}', '{"edge_list": [{"link_type": "PEER2NET"}]}', '{"edge_list": [7]}'],
)
def test_without_links_the_layers_above_have_no_ports(links: str) -> None:
    assert read_links(links) == {}
    assert [level for level, _, _ in levels(replace(CHIP, superpod_type=1), links)] == [0]


def test_other_boards_have_no_layers() -> None:
    assert level_lists(ASCEND910B, [CHIP], "10.1.2.3", {}) == {}
    infos = base_device_infos({9: "npu-9"}, [CHIP], with_logic_id=True, levels={9: []})
    assert json.loads(infos) == {"npu-9": {"IP": "", "SuperDeviceID": 0, "DeviceID": 1}}


async def test_node_and_rank_table_name_the_layers() -> None:
    description = {
        "chip_name": "Ascend950PR",
        "superpod": 5,
        "superpod_type": 1,
        "chips": [{"network_ids": [list(ids) for ids in IDS]}],
    }
    async with rig(description, started=False) as node:
        await node.start()

        def infos() -> dict[str, Any]:
            text = node.api.get(NODES, "node-1")["metadata"]["annotations"]["baseDeviceInfos"]
            found: dict[str, Any] = json.loads(text)["npu-0"]
            return found

        await node.until(lambda: infos()["levelList"][0]["info"]["UB"]["net_instance_id"] == "5_0")
        assert list(infos()) == ["IP", "SuperDeviceID", "DeviceID", "levelList"]
        resource = "huawei.com/npu"
        node.api.put(
            "/api/v1/pods",
            {
                "metadata": {
                    "namespace": "default",
                    "name": "train",
                    "annotations": {resource: "npu-0", "predicate-time": "1"},
                },
                "spec": {
                    "nodeName": "node-1",
                    "containers": [{"name": "main", "resources": {"limits": {resource: "1"}}}],
                },
                "status": {"phase": "Pending"},
            },
        )
        await node.kubelet.devices(resource, 1)
        await node.kubelet.admit("default/train", resource, 1)
        table = node.annotations("train")["ascend.kubectl.kubernetes.io/ascend-npu-configuration"]
        (one,) = json.loads(table)["devices"]
        assert list(one) == ["device_id", "device_ip", "super_device_id", "levelList"]
        assert one["levelList"] == infos()["levelList"]
