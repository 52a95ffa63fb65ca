"""The fragment of the rank table that a pod carries."""

from __future__ import annotations

import json

import pytest

from ringwise.messages.rank_table import (
    RankTableDevice,
    carries_rank_table,
    rank_table_fragment,
    rank_table_key,
)


def test_rank_table_fragment_D1() -> None:
    devices = [
        RankTableDevice(10, "10.0.0.10", "110"),
        RankTableDevice(2, "10.0.0.2", "102"),
        RankTableDevice(3),
    ]
    text = rank_table_fragment(
        pod_name="train-0", pod_uid="3f1c", node_ip="10.1.2.3", devices=devices, superpod=4, server_index="7"
    )
    assert " " not in text
    assert json.loads(text) == {
        "pod_name": "train-0",
        "server_id": "3f1c",
        "host_ip": "10.1.2.3",
        "server_ip": "10.1.2.3",
        "super_pod_id": 4,
        "rack_id": 0,
        "server_index": "7",
        "devices": [
            {"device_id": "2", "device_ip": "10.0.0.2", "super_device_id": "102"},
            {"device_id": "3", "device_ip": ""},
            {"device_id": "10", "device_ip": "10.0.0.10", "super_device_id": "110"},
        ],
    }


def test_rank_table_fragment_outside_any_superpod_D1() -> None:
    fragment = json.loads(rank_table_fragment(pod_name="p", pod_uid="u", node_ip="1.2.3.4", devices=[]))
    assert (fragment["super_pod_id"], fragment["server_index"], fragment["devices"]) == (-2, "-2", [])


def test_rank_table_key_follows_the_resource_D1() -> None:
    assert rank_table_key("huawei.com/Ascend910") == "ascend.kubectl.kubernetes.io/ascend-910-configuration"
    assert rank_table_key("huawei.com/npu") == "ascend.kubectl.kubernetes.io/ascend-npu-configuration"


@pytest.mark.parametrize(
    ("operator", "chips", "allocatable", "listed", "carries"),
    [
        (None, 8, 8, 8, True),
        (None, 4, 8, 8, False),
        (None, 7, 7, 8, False),
        (None, 8, 8, 7, False),
        (None, 0, 0, 0, False),
        ("pytorchjob-controller", 1, 8, 8, True),
        ("", 1, 8, 8, False),
    ],
)
def test_who_carries_a_rank_table_D1(
    operator: str | None, chips: int, allocatable: int, listed: int, carries: bool
) -> None:
    assert carries_rank_table(operator, chips, allocatable, listed) is carries
