"""Annotations of placed pods about switches (rule S2) and blocks (rule P7)."""

from __future__ import annotations

import pytest

from ringwise.framework.gangs.switch_use import switch_mark
from ringwise.placement.superpods.blocks import Block, Origin
from ringwise.placement.switches.states import SwitchState
from ringwise.placement.switches.view import PlanEntry
from ringwise.plugins.topology910.superpods import block_annotations
from ringwise.plugins.topology910.switches import switch_annotations


def entry(mark: int, state: SwitchState, healthy: bool = True) -> PlanEntry:
    return PlanEntry(0, "10.0.0.1", (1,), mark, state, healthy, "a rule")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (entry(2, SwitchState.EXCLUSIVE), {"isSharedTor": "2", "isHealthy": "0"}),
        (entry(1, SwitchState.SHARED), {"isSharedTor": "1", "isHealthy": "0", "sharedTorIp": "10.0.0.1"}),
        (
            entry(1, SwitchState.SHARED, False),
            {"isSharedTor": "1", "isHealthy": "1", "sharedTorIp": "10.0.0.1"},
        ),
        (entry(0, SwitchState.SHARED, False), {"isSharedTor": "0", "isHealthy": "0"}),
    ],
)
def test_annotations_of_a_pod_name_its_switch_S2(made: PlanEntry, expected: dict[str, str]) -> None:
    assert switch_annotations(made, "2.0") == expected
    assert switch_mark(expected) == made.mark
    assert switch_annotations(made, "1.0") == {}
    assert switch_annotations(made, "2.0", single_layer=True) == {}


@pytest.mark.parametrize("value", ["", "3", "shared", "-1"])
def test_unreadable_marks_count_as_none_S2(value: str) -> None:
    assert switch_mark({"isSharedTor": value}) == 0


def test_annotations_name_the_logical_and_the_physical_superpod_P7() -> None:
    assert block_annotations(Block(3, 7, 1, ("a",), Origin.KEPT)) == {
        "super-pod-rank": "3",
        "super-pod-id": "7",
    }
