"""Which board serves a job, beyond the worked cases."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ringwise.manifests.settings.boards import parse_board, shipped_catalog
from ringwise.reasons import Reason
from ringwise.topology.board import Board
from ringwise.topology.boards import BoardCatalog
from ringwise.topology.policy import PolicyFacts, select_board

A910 = "huawei.com/Ascend910"
NPU = "huawei.com/npu"
POLICY = "huawei.com/schedule_policy"
TYPE = "accelerator-type"
NONE: Mapping[str, str] = {}


def select(
    resource: str,
    annotations: Mapping[str, str] = NONE,
    labels: Mapping[str, str] = NONE,
    selector: Mapping[str, str] = NONE,
    catalog: BoardCatalog | None = None,
) -> Board | Reason:
    facts = PolicyFacts(resource, annotations, labels, selector.get(TYPE, ""))
    return select_board(catalog or shipped_catalog(), facts)


@pytest.mark.parametrize(
    ("resource", "annotations", "labels", "selector", "board"),
    [
        (A910, {}, {}, {}, "910-x8"),
        (A910, {POLICY: ""}, {}, {}, "910-x8"),
        (A910, {}, {}, {TYPE: "module"}, "910-x8"),
        (A910, {}, {}, {TYPE: "card"}, "910-card"),
        (A910, {}, {}, {TYPE: "any-card-at-all"}, "910-card"),
        (A910, {POLICY: "chip8-node8"}, {}, {TYPE: "half"}, "910b-x8"),
        (A910, {POLICY: "chip8-node8", "sp-block": "16"}, {}, {}, "910b-x8"),
        (A910, {"sp-block": "8"}, {}, {TYPE: "module-a3-8-super-pod"}, "a3-x8-superpod"),
        (A910, {"sp-block": "8"}, {}, {TYPE: "half"}, "a3-x16-superpod"),
        (A910, {POLICY: "typo", "sp-block": "8"}, {}, {}, "a3-x16-superpod"),
        (A910, {POLICY: "typo"}, {}, {TYPE: "half"}, "910-half"),
        (NPU, {POLICY: "chip8-node8-sp"}, {}, {}, "850-x8-superpod"),
        ("huawei.com/Ascend310", {}, {"npu-310-strategy": "chip"}, {}, "310-chip"),
        ("huawei.com/Ascend310", {POLICY: "chip8-node8"}, {}, {}, "310-chip"),
        ("huawei.com/Ascend310P", {}, {"duo": "true"}, {}, "310p"),
        ("huawei.com/Ascend310P", {}, {"duo": "false", "npu-310-strategy": "card"}, {}, "310p"),
        ("huawei.com/Ascend310P", {}, {"duo": "true", "npu-310-strategy": "chip"}, {}, "310p-duo-chip"),
        (
            "huawei.com/Ascend310P",
            {},
            {"duo": "true", "npu-310-strategy": "chip", "distributed": "true"},
            {},
            "310p-duo-chip-distributed",
        ),
        (
            "huawei.com/Ascend310P",
            {},
            {"duo": "true", "npu-310-strategy": "card", "distributed": "false"},
            {},
            "310p-duo-card",
        ),
    ],
)
def test_board_is_found_N1(
    resource: str,
    annotations: Mapping[str, str],
    labels: Mapping[str, str],
    selector: Mapping[str, str],
    board: str,
) -> None:
    chosen = select(resource, annotations, labels, selector)
    assert isinstance(chosen, Board)
    assert chosen.name == board


@pytest.mark.parametrize(
    ("resource", "annotations", "selector", "code", "words"),
    [
        (A910, {POLICY: "chip8-nod8"}, {}, "unknown-schedule-policy", "did you mean chip8-node8?"),
        (A910, {POLICY: "chip8-nod8"}, {}, "unknown-schedule-policy", "; must be one of chip"),
        (NPU, {POLICY: "chip8-nod8"}, {TYPE: "half"}, "unknown-schedule-policy", "did you mean chip8-node8?"),
        (NPU, {}, {TYPE: "half"}, "schedule-policy-needed", "chip8-node8-sp"),
        (NPU, {"sp-block": "8"}, {}, "schedule-policy-needed", "chip8-node8-sp"),
        (A910, {}, {TYPE: "module-910-8"}, "unknown-accelerator-type", "did you mean module-910b-8?"),
        (A910, {POLICY: "multilevel"}, {TYPE: "half"}, "policy-not-supported", "chip4-node4"),
        ("huawei.com/npu-core", {}, {}, "virtual-chips-not-supported", "huawei.com/npu"),
        ("huawei.com/Ascend910-4c", {}, {}, "virtual-chips-not-supported", "huawei.com/Ascend910"),
        ("huawei.com/Ascend310P-2c", {}, {}, "virtual-chips-not-supported", "huawei.com/Ascend310P"),
        ("huawei.com/Ascend901", {}, {}, "unknown-chip-resource", "did you mean huawei.com/Ascend910?"),
    ],
)
def test_no_board_is_found_N1(
    resource: str, annotations: Mapping[str, str], selector: Mapping[str, str], code: str, words: str
) -> None:
    reason = select(resource, annotations, {}, selector)
    assert isinstance(reason, Reason)
    assert reason.code == code
    assert words in reason.message
    assert "unknown)" not in reason.message + "".join(reason.fixes)


def test_an_unknown_310_strategy_is_refused_N1() -> None:
    reason = select("huawei.com/Ascend310", labels={"npu-310-strategy": "cart"})
    assert isinstance(reason, Reason)
    assert "npu-310-strategy=cart" in reason.message
    assert "must be one of npu-310-strategy=card" in reason.message


OWN = """
name = "own"
resources = ["huawei.com/Ascend910", "example.com/chip"]
accelerator_types = ["green-card"]
chips_per_node = 2
[requests]
one_pod = "1,2"
[rule]
name = "free-count"
"""


def test_a_users_board_is_selected_by_its_own_policy_N1() -> None:
    catalog = shipped_catalog()
    catalog.add(parse_board(OWN, "own.toml"))
    for resource in (A910, "example.com/chip"):
        chosen = select(resource, selector={TYPE: "green-card"}, catalog=catalog)
        assert isinstance(chosen, Board)
        assert chosen.name == "own", "a type spelled out wins over the pattern of cards"
    nothing = select("example.com/chip", catalog=catalog)
    assert isinstance(nothing, Reason)
    assert nothing.code == "schedule-policy-needed"
