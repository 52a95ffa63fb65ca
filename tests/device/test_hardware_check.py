"""`ringwise device-plugin check` with simulated drivers: one of every board, and what it finds wrong."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ringwise.apps.hardware_check import check_hardware
from ringwise.cli.commands import cli
from ringwise.device.drivers.simulated import SimulatedDriver
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.views.documents.reference import HardwareCheckDocument

CATALOG = shipped_catalog(())
#: What drivers say on nodes of each family of boards.
FAMILIES: dict[str, dict[str, Any]] = {
    "310": {"chip_name": "310", "board": 1},
    "310p": {"chip_name": "310P3", "board": 100},
    "910-": {"chip_name": "910A", "board": 2},
    "910b": {"chip_name": "910B3", "board": 48},
    "a3": {"chip_name": "910B3", "board": 0xB0, "superpod": 1},
    "mesh4": {"chip_name": "Ascend950PR", "board": 0x10},
    "single": {"chip_name": "Ascend950PR", "board": 0x10},
    "850": {"chip_name": "910B3"},
    "950": {"chip_name": "Ascend950PR", "board": 0x10, "superpod": 1},
}


def checked(description: dict[str, Any]) -> HardwareCheckDocument:
    return asyncio.run(check_hardware(SimulatedDriver(description), CATALOG))


@pytest.mark.parametrize("board", [board.name for board in CATALOG])
def test_a_node_of_every_board_is_recognized(board: str) -> None:
    family = max((prefix for prefix in FAMILIES if board.startswith(prefix)), key=len)
    profile = CATALOG[board]
    rings = [list(ring) for ring in profile.rings]
    found = checked({**FAMILIES[family], "count": profile.chips_per_node, "links": rings})
    assert found.problems == []
    assert found.driver_links == (rings or None)
    assert len(found.chips) == profile.chips_per_node
    assert found.resource in profile.resources
    # A label selects one board; without a label, all boards with as many chips are named.
    assert board in found.boards or found.accelerator_type not in ("", *profile.accelerator_types)


@pytest.mark.parametrize(
    ("description", "label", "boards"),
    [
        ({"chip_name": "910A", "board": 2}, "module", ["910-x8"]),
        ({"chip_name": "910B3", "board": 48}, "module-910b-8", ["910b-x8"]),
        ({"chip_name": "910B3", "board": 0x51, "count": 16}, "module-910b-16", ["910b-x16"]),
        (
            {"chip_name": "910B3", "board": 0xB0, "count": 16, "superpod": 1},
            "module-a3-16-super-pod",
            ["a3-x16-superpod"],
        ),
        (
            {"chip_name": "910B3", "board": 0xB0, "count": 8, "superpod": 1},
            "module-a3-8-super-pod",
            ["a3-x8-superpod"],
        ),
        ({"chip_name": "910B3", "board": 0xB0, "count": 16}, "module-a3-16", ["a3-x16"]),
    ],
)
def test_the_board_follows_from_the_label(description: dict[str, Any], label: str, boards: list[str]) -> None:
    found = checked(description)
    assert (found.accelerator_type, found.boards) == (label, boards)


@pytest.mark.parametrize(
    ("more", "problems"),
    [
        ({"faults": {"3": ["80E18402"]}}, ["chip 3: fault 80E18402 (SeparateNPU)"]),
        ({"network_down": [2]}, ["chip 2: the network port is down"]),
        ({"silent": [6]}, ["card 6, chip 0: chip 6 is described as silent"]),
        ({"dropped": [5]}, ["chip 5: the driver does not report its faults"]),
        ({"count": 7}, ["no board profile matches 7 chips of huawei.com/Ascend910"]),
        (
            {"chips": [{"memory": 65536 if n else 32768} for n in range(8)]},
            ["the chips differ in model, memory, number of AI cores or sharing mode"],
        ),
    ],
)
def test_problems_are_named(more: dict[str, Any], problems: list[str]) -> None:
    assert checked({"chip_name": "910B3", "board": 48, **more}).problems == problems


@pytest.mark.parametrize(
    ("count", "links", "problems"),
    [
        (8, [[0, 1, 2], [2, 3, 4], [4, 5, 6, 7]], []),
        (8, [[0, 1, 2, 3], [4, 5, 6, 7]], ["linked chips are 0 1 2 3 | 4 5 6 7; expected 0 1 2 3 4 5 6 7"]),
        (8, [], []),
    ],
)
def test_links_are_compared_with_the_rings_of_the_board(
    count: int, links: list[list[int]], problems: list[str]
) -> None:
    found = checked({"chip_name": "910B3", "board": 48, "count": count, "links": links})
    assert found.boards == ["910b-x8"]
    assert found.problems == problems


def test_the_command_prints_one_page_and_writes_a_report_without_addresses(tmp_path: Path) -> None:
    chips, report = tmp_path / "chips.json", tmp_path / "report.json"
    chips.write_text(json.dumps({"chip_name": "910B3", "board": 48, "superpod": 7, "server_index": 3}))
    arguments = ["device-plugin", "check", "--simulated-chips", str(chips), "--report", str(report)]
    ran = CliRunner().invoke(cli, arguments)
    assert ran.exit_code == 0, ran.output
    assert len(ran.output.splitlines()) < 40
    assert "910b-x8" in ran.output
    assert "no problem found" in ran.output
    text = report.read_text(encoding="utf-8")
    assert json.loads(text)["boards"] == ["910b-x8"]
    for secret in ("192.168", "SIMULATED-", "0000:", str(tmp_path)):
        assert secret not in text


def test_problems_end_with_exit_code_1_and_no_driver_with_2(tmp_path: Path) -> None:
    chips = tmp_path / "chips.json"
    chips.write_text(json.dumps({"faults": {"3": ["80E18402"]}}))
    ran = CliRunner().invoke(cli, ["device-plugin", "check", "--simulated-chips", str(chips), "-o", "json"])
    assert ran.exit_code == 1
    ran = CliRunner().invoke(cli, ["device-plugin", "check", "--driver", "simulated"])
    assert ran.exit_code == 2
    assert "--simulated-chips" in ran.output
