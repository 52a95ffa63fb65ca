"""Ranks follow blocks, and pods are told theirs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ringwise.placement.rank_table import (
    RankTableDevice,
    carries_rank_table,
    rank_table_fragment,
    rank_table_key,
)
from ringwise.placement.superpods.annotations import block_annotations
from ringwise.placement.superpods.blocks import Block, Origin
from ringwise.placement.superpods.ranks import blocks_by_rank

RULES = json.loads((Path(__file__).parents[2] / "vectors" / "superpod_rules.json").read_text())


def slots(sizes: Mapping[int, int]) -> list[tuple[int, int]]:
    """(logical id, place inside the block) of every rank of a job with blocks of these sizes."""
    blocks = [
        Block(logical, "A", size, tuple(f"{logical}-{place}" for place in range(size)), Origin.QUEUE_1)
        for logical, size in sizes.items()
    ]
    return [(block.logical, place) for block, place in blocks_by_rank(blocks)]


@pytest.mark.parametrize("case", RULES["rank_vectors"], ids=lambda case: json.dumps(case))
def test_worked_case(case: dict[str, Any]) -> None:
    found = slots({int(logical): size for logical, size in case["block_sizes"].items()})
    slot = dict(enumerate(found)).get(case["rank"])
    assert (None if slot is None else [str(slot[0]), slot[1]]) == case["expect"]


def test_equal_blocks_are_division() -> None:
    assert slots(dict.fromkeys(range(12), 4)) == [divmod(rank, 4) for rank in range(48)]


def test_ids_compare_as_numbers() -> None:
    assert slots({10: 2, 2: 3, 0: 1}) == [(0, 0), (2, 0), (2, 1), (2, 2), (10, 0), (10, 1)]


def test_all_ranks_with_their_block() -> None:
    whole = Block(0, "A", 2, ("a", "b"), Origin.QUEUE_1)
    fragment = Block(1, "B", 1, ("c",), Origin.QUEUE_3)
    assert blocks_by_rank([fragment, whole]) == [(whole, 0), (whole, 1), (fragment, 0)]


def test_annotations_name_the_logical_and_the_physical_superpod() -> None:
    assert block_annotations(Block(3, 7, 1, ("a",), Origin.KEPT)) == {
        "super-pod-rank": "3",
        "super-pod-id": "7",
    }


def test_rank_table_fragment() -> None:
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


def test_rank_table_fragment_outside_any_superpod() -> None:
    fragment = json.loads(rank_table_fragment(pod_name="p", pod_uid="u", node_ip="1.2.3.4", devices=[]))
    assert (fragment["super_pod_id"], fragment["server_index"], fragment["devices"]) == (-2, "-2", [])


def test_rank_table_key_follows_the_resource() -> None:
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
def test_who_carries_a_rank_table(
    operator: str | None, chips: int, allocatable: int, listed: int, carries: bool
) -> None:
    assert carries_rank_table(operator, chips, allocatable, listed) is carries
