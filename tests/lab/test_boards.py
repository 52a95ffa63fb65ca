"""Labs with several boards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.rig import SMALL, Terminal, job, nodes, queue, running

MIXED = "910-x8:3,310p:2"


def test_a_lab_of_mixed_boards_continues_with_its_nodes(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(16, board=MIXED, leaf_size=2)):
        terminal.submit(job("train", 1, 8), job("infer", 1, 48).replace("Ascend910", "Ascend310P"))
        terminal.ok("advance 5s")
        before = terminal.json("get nodes")
        boards = [chips["board"] for node in before["nodes"] for chips in node["chips"]]
        assert boards == ["910-x8"] * 3 + ["310p"] * 2
        seats = terminal.seats()
        assert seats["lab/train-worker-0"][0] in ("node-0", "node-1", "node-2")
        assert seats["lab/infer-worker-0"][0] in ("node-3", "node-4")
        shapes = {board["board"]: board["shapes"] for board in terminal.json("capacity")["boards"]}
        assert max(shape["chips_per_pod"] for shape in shapes["910-x8"]) == 8
        assert max(shape["chips_per_pod"] for shape in shapes["310p"]) == 64
    with running(tmp_path, SMALL):
        assert terminal.json("get nodes") == before


def test_chips_of_different_resources_are_never_added(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, columns=80)
    train, infer = "huawei.com/Ascend910", "huawei.com/Ascend310P"
    with running(tmp_path, nodes(16, board=MIXED)):
        terminal.submit(queue("research", 3), job("train", 1, 8, queue="research"))
        terminal.submit(job("infer", 1, 48).replace("Ascend910", "Ascend310P"))
        terminal.ok("advance 5s")
        terminal.ok("cordon node-4")
        found = {one["name"]: one for one in terminal.json("get queues")["queues"]}
        assert {name: (one["used"], one["fair_share"]) for name, one in found.items()} == {
            "default": ({infer: 48}, {infer: 32, train: 6}),
            "research": ({train: 8}, {infer: 96, train: 18}),
        }
        resources = terminal.json("top --once")["status"]["resources"]
        assert {
            name: (one["chips"], one["used"], one["unschedulable"]) for name, one in resources.items()
        } == {
            infer: (128, 48, 64),
            train: (24, 8, 0),
        }
        top = " ".join(terminal.ok("top --once").split())
        assert "48 of 128 chips Ascend310P in use, 64 unschedulable; 8 of 24 chips Ascend910 in use" in top
        assert "[48# 16.]" in top
        assert "share 96 Ascend310P, 18 Ascend910" in " ".join(terminal.ok("describe queue research").split())


def test_the_only_resource_needs_no_name(terminal: Terminal) -> None:
    assert "0 of 32 chips in use" in terminal.ok("top --once")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            "--board 910-x8,310p",
            '--board: invalid boards "910-x8,310p": the number of nodes of 910-x8 is missing',
        ),
        ("--board 910-x8:2,310q:1", '--board: board "310q" not found; must be one of'),
        ("--board 910-x8:2 --nodes 4", "--nodes cannot be combined with --board 910-x8:2"),
    ],
)
def test_boards_that_cannot_be_delete_nothing(tmp_path: Path, options: str, says: str) -> None:
    (tmp_path / "lab.db").write_bytes(b"kept")
    told = Terminal(tmp_path).refused(f"lab --data-dir {tmp_path} --reset {options}")
    assert told.startswith(f"ringwise: {says}")
    assert told.count("\n") == 1
    assert (tmp_path / "lab.db").read_bytes() == b"kept"
