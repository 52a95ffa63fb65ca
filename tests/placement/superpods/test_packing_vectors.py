"""Every worked packing case, in both modes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ringwise.placement.superpods.blocks import BlockPlan, Free
from ringwise.placement.superpods.packing import BlockRequest, Packing, SuperPodSettings, plan
from ringwise.reasons import Reason
from ringwise.topology.superpods import SuperPodId
from tests.placement.superpods.plans import per_superpod

CASES = json.loads((Path(__file__).parents[2] / "vectors" / "superpod.json").read_text())


def _plan(case: dict[str, Any], as_nodes: bool) -> BlockPlan | Reason:
    free: dict[SuperPodId, Free] = {
        entry["id"]: [f"{entry['id']}-{number}" for number in range(entry["free_nodes"])]
        if as_nodes
        else entry["free_nodes"]
        for entry in case["superpods"]
    }
    blocks, rest = divmod(case["job_pods"], case["block_nodes"])
    assert rest == 0
    return plan(
        free,
        BlockRequest(case["block_nodes"], blocks, soft=case["policy"] == "soft"),
        SuperPodSettings(case["super_pod_size"], case["reserve"], Packing(case["mode"])),
    )


@pytest.mark.parametrize("as_nodes", [False, True], ids=["counts", "nodes"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_worked_case_P2_P3_P4_P5(case: dict[str, Any], as_nodes: bool) -> None:
    answer = _plan(case, as_nodes)
    expected = case["expect"]
    if not expected["ok"]:
        assert isinstance(answer, Reason)
        assert answer.fixes
        return
    assert isinstance(answer, BlockPlan), answer
    assert list(per_superpod(answer).items()) == [
        (entry["superpod"], entry["nodes"]) for entry in expected["per_superpod"]
    ]
    if "blocks_in_pick_order" in expected:
        assert [(block.logical, block.superpod, block.size) for block in answer.blocks] == [
            (entry["logical_id"], entry["superpod"], entry["nodes"])
            for entry in expected["blocks_in_pick_order"]
        ]
    if as_nodes:
        for block in answer.blocks:
            assert len(block.nodes) == block.size
            assert all(str(node).startswith(f"{block.superpod}-") for node in block.nodes)


def test_there_are_cases_of_both_modes_P5() -> None:
    assert {case["mode"] for case in CASES} == {packing.value for packing in Packing}
