"""Every worked case of rack affinity, through the library (R1, R3)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ringwise.placement.racks.levels import Level, LevelTimes
from ringwise.placement.racks.model import FreeRacks, RackBlock, RackRequest, RackShape
from ringwise.placement.racks.previous import PreviousRackBlock, PreviousSlot
from ringwise.placement.racks.reschedule import RackFault, reschedule
from ringwise.placement.racks.selection import select, select_for_service
from ringwise.placement.racks.validity import check_rack_job
from ringwise.reasons import Reason, Stage
from tests.placement.racks.clusters import free_racks, per_rack

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "vectors" / "rack.json").read_text())
LEVELS = {"pod": Level.POD, "group": Level.RACK, "block": Level.BLOCK}
SECONDS = {"pod": 0, "group": 3, "block": 6}


def shape_of(case: dict[str, Any]) -> RackShape | Reason:
    job = case["job"]
    return check_rack_job(
        [job["chips_per_pod"]] * job["pods"],
        job["sp_block"],
        job["ra_block"],
        super_pod_size=case["settings"]["super_pod_size"],
        ub_memory=job.get("ubmemory", False),
    )


def free_of(case: dict[str, Any]) -> FreeRacks:
    """One network rule: a job of several pods does without nodes that have a network-unhealthy chip."""
    several = case["job"]["pods"] > 1
    return free_racks(
        {
            superpod["id"]: {
                rack["id"]: rack["free_nodes"] - (rack.get("network_unhealthy_nodes", 0) if several else 0)
                for rack in superpod["racks"]
            }
            for superpod in case["superpods"]
        }
    )


def placed(case: dict[str, Any], shape: RackShape) -> tuple[RackBlock, ...] | Reason:
    job, size = case["job"], case["settings"]["super_pod_size"]
    request = RackRequest(
        shape,
        tuple(range(shape.blocks)),
        soft=job["policy"] == "soft",
        ub_memory=job.get("ubmemory", False),
    )
    if "infer_service" in job:
        used = {(place["superpod"], place["rack"]) for place in job["service_runs_in"]}
        return select_for_service(free_of(case), request, size, used)
    if "fault" in case:
        return after_fault(case, request, size)
    return select(free_of(case), request, size)


def after_fault(case: dict[str, Any], request: RackRequest, size: int) -> tuple[RackBlock, ...] | Reason:
    old: dict[str, list[dict[str, Any]]] = case["fault"]["old_blocks"]
    previous = [
        PreviousRackBlock(
            int(logical), tuple(PreviousSlot(slot["node"], slot["superpod"], slot["rack"]) for slot in slots)
        )
        for logical, slots in sorted(old.items(), key=lambda entry: int(entry[0]))
    ]
    every = [slot for slots in old.values() for slot in slots]
    stage = case["fault"]["stage"]
    fault = RackFault(
        running={slot["node"] for slot in every if not slot["lost"]},
        faulty={slot["node"] for slot in every if slot["lost"]},
        level=LEVELS[stage],
    )
    return reschedule(
        previous, free_of(case), request, fault, size, lambda free, asked: select(free, asked, size)
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_worked_case_R1_R3(case: dict[str, Any]) -> None:
    expected = case["expect"]
    shape = shape_of(case)
    if isinstance(shape, Reason):
        assert not expected["ok"], shape.message
        assert expected["stage"] == "validity"
        assert shape.kind.stage is Stage.VALIDATE
        assert shape.fixes
        return
    answer = placed(case, shape)
    if isinstance(answer, Reason):
        assert not expected["ok"], answer.message
        assert expected["stage"] == "selection"
        assert answer.kind.stage is Stage.PLAN
        assert answer.fixes
        return
    assert expected["ok"], answer
    assert [block.logical for block in answer] == list(range(shape.blocks))
    assert per_rack(answer) == {
        (entry["superpod"], entry["rack"]): entry["nodes"] for entry in expected["per_rack"]
    }
    if "blocks" in expected:
        assert [(block.logical, block.parts()) for block in answer] == [
            (
                block["logical_id"],
                [(part["superpod"], part["rack"], part["nodes"]) for part in block["parts"]],
            )
            for block in expected["blocks"]
        ]
    for logical, slots in expected.get("slots", {}).items():
        for got, wanted in zip(answer[int(logical)].slots, slots, strict=True):
            assert (got.superpod, got.rack) == (wanted["superpod"], wanted["rack"])
            assert got.node == wanted.get("kept", got.node)


def test_the_levels_of_the_cases_begin_when_the_law_says_F2() -> None:
    assert {stage: LevelTimes().level_at(SECONDS[stage]) for stage in LEVELS} == LEVELS
