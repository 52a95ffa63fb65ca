"""Rules P1, P6, S12: which jobs may be cut into blocks, and the reasons of the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ringwise.placement.superpods.validity import (
    BlockShape,
    Family,
    check_block,
    check_not_combined,
    check_pods,
)
from ringwise.reasons import Reason

RULES = json.loads((Path(__file__).parents[2] / "vectors" / "superpod_rules.json").read_text())
A3, A850 = Family.A3, Family.A850


@pytest.mark.parametrize("case", RULES["validation_vectors"], ids=lambda case: json.dumps(case))
def test_worked_case_P1_P6(case: dict[str, Any]) -> None:
    pods = case["pods"] or 0
    requests = [case["total_npus"] // pods] * pods if pods else []
    family = A3 if case["npus_per_node"] == 16 else A850
    size = case.get("super_pod_size", 48)
    answer = check_block(case["npus_per_node"], str(case["sp_block_npus"]), requests, size, family)
    assert isinstance(answer, BlockShape) == case["pass"], answer


ACCEPTED: list[tuple[int, str | None, list[int], Family, BlockShape]] = [
    (16, "32", [16] * 4, A3, BlockShape(2, 2)),
    (16, None, [16] * 4, A3, BlockShape(4, 1)),
    (16, "16", [16] * 4, A3, BlockShape(1, 4)),
    (8, "32", [8] * 8, A3, BlockShape(4, 2)),
    (16, "16", [16], A3, BlockShape(1, 1)),
    (16, None, [16], A3, BlockShape(1, 1)),
    (16, "1", [1], A3, BlockShape(1, 1)),
    (16, "6", [6], A3, BlockShape(1, 1)),
    (8, None, [3], A850, BlockShape(1, 1)),
    (8, "1", [1], A850, BlockShape(1, 1)),
    (8, "8", [8, 8], A850, BlockShape(1, 2)),
    (8, "4", [8, 8], A850, BlockShape(1, 2)),
    (8, "16", [8] * 4, A850, BlockShape(2, 2)),
]


@pytest.mark.parametrize(("chips", "sp_block", "requests", "family", "shape"), ACCEPTED)
def test_accepted_P1(
    chips: int, sp_block: str | None, requests: list[int], family: Family, shape: BlockShape
) -> None:
    answer = check_block(chips, sp_block, requests, 48, family)
    assert answer == shape
    assert shape.pods == len(requests)


REFUSED: list[tuple[int, str | None, list[int], Family, str]] = [
    (16, "0", [16], A3, "sp-block-not-positive"),
    (16, "-32", [16] * 2, A3, "sp-block-not-positive"),
    (16, "32.0", [16] * 2, A3, "sp-block-not-a-number"),
    (16, "", [16] * 2, A3, "sp-block-not-a-number"),
    (16, " 32", [16] * 2, A3, "sp-block-not-a-number"),
    (16, "two", [16] * 2, A3, "sp-block-not-a-number"),
    (16, "9" * 5000, [16] * 2, A3, "sp-block-not-a-number"),
    (16, "25", [16] * 2, A3, "sp-block-not-whole-nodes"),
    (16, "2", [1], A3, "superpod-one-pod-block"),
    (16, "1", [16, 16], A3, "sp-block-below-node"),
    (16, "3", [3], A3, "superpod-one-pod-request"),
    (16, "18", [18], A3, "superpod-one-pod-request"),
    (16, "32", [16], A3, "superpod-one-pod-block"),
    (16, "48", [16] * 4, A3, "superpod-blocks-do-not-divide"),
    (16, "784", [16] * 49, A3, "sp-block-above-superpod"),
    (16, None, [16] * 49, A3, "sp-block-above-superpod"),
    (16, None, [16, 8], A3, "superpod-pod-not-whole-node"),
    (16, None, [0], A3, "superpod-pod-not-whole-node"),
    (16, "32", [16, 16, 0], A3, "superpod-pod-not-whole-node"),
    (8, "3", [1], A850, "superpod-one-pod-block"),
    (8, None, [9], A850, "superpod-one-pod-request"),
    (8, "8", [5, 5], A850, "superpod-pod-not-whole-node"),
    (8, None, [3, 3], A850, "superpod-pod-not-whole-node"),
    (8, "5", [8, 8], A850, "superpod-blocks-do-not-divide"),
]


@pytest.mark.parametrize(("chips", "sp_block", "requests", "family", "code"), REFUSED)
def test_refused_P6(chips: int, sp_block: str | None, requests: list[int], family: Family, code: str) -> None:
    answer = check_block(chips, sp_block, requests, 48, family)
    assert isinstance(answer, Reason)
    assert answer.code == code
    assert answer.fixes
    assert "unknown)" not in answer.message + "".join(answer.fixes)


def test_pods_that_may_request_nothing_P1() -> None:
    assert check_block(16, "32", [16, 16, 0], 48, A3, exempt=[False, False, True]) == BlockShape(2, 1)
    assert check_block(16, None, [0], 48, A3, exempt=[True]) == BlockShape(1, 0)
    assert isinstance(check_block(8, "16", [8, 8, 0], 48, A850, exempt=[False, False, True]), Reason)


def test_a_one_pod_job_may_have_pods_without_chips_P1() -> None:
    assert check_block(16, "4", [4, 0], 48, A3) == BlockShape(1, 1)


def test_every_pod_of_several_takes_a_whole_node_P1() -> None:
    assert check_pods(16, [16], A3) is None
    assert check_pods(16, [0], A3, [True]) is None
    for wrong in (check_pods(8, [3], A850), check_pods(16, [16, 8], A3), check_pods(16, [0], A3)):
        assert isinstance(wrong, Reason)
    reason = check_pods(16, [16, 8, 8, 0], A3)
    assert reason is not None
    assert reason.message == (
        "each pod of a job with blocks must request a whole node (16 chips); 3 of 4 pods request 0, 8"
    )


def test_messages_name_what_was_requested_and_what_is_allowed_P6() -> None:
    def message(*arguments: Any) -> tuple[str, tuple[str, ...]]:
        answer = check_block(*arguments)
        assert isinstance(answer, Reason)
        return answer.message, answer.fixes

    assert message(16, "25", [16] * 2, 48, A3) == (
        "sp-block is 25 chips, which is not a multiple of the 16 of a node",
        ('set sp-block to "16" or "32"',),
    )
    assert message(16, "48", [16] * 4, 48, A3)[0] == (
        "64 chips in 4 pods cannot be divided into blocks of 48 chips: 16 chips are left over"
    )
    assert message(16, "784", [16] * 49, 48, A3)[0] == (
        "sp-block is 784 chips = 49 nodes, more than the 48 of a SuperPoD (super-pod-size)"
    )


@pytest.mark.parametrize("tor_affinity", [None, "null"])
def test_blocks_without_switch_affinity_S12(tor_affinity: str | None) -> None:
    assert check_not_combined(tor_affinity, "32") is None


@pytest.mark.parametrize("tor_affinity", ["normal-schema", "large-model-schema", "anything"])
def test_blocks_and_switch_affinity_exclude_each_other_S12(tor_affinity: str) -> None:
    assert check_not_combined(tor_affinity, None) is None
    reason = check_not_combined(tor_affinity, "32")
    assert reason is not None
    assert reason.code == "switch-and-superpod"
    assert tor_affinity in reason.message
    assert len(reason.fixes) == 2
