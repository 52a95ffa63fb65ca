"""What the events of a job say about its faults and its labels."""

from __future__ import annotations

import pytest

from tests.scheduler.faults.fault_rig import deletions, running
from tests.scheduler.rig import messages


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({}, "job level: all 2 pods are restarted"),
        ({"pod-rescheduling": "on"}, "job level: all 2 pods are restarted (rank 0 is affected)"),
    ],
)
def test_F2_rank_0_is_named_only_where_it_raised_the_level(labels: dict[str, str], words: str) -> None:
    rig = running({"fault-scheduling": "force", **labels}, pods=2)
    node = rig.node_of("train-0")
    rig.sick(node, 1)
    assert messages(rig.step(), "Rescheduling") == [words]


def test_a_fault_scheduling_that_cannot_be_read_is_told_once_when_hardware_breaks() -> None:
    rig = running({"fault-scheduling": "Force"}, pods=2)
    assert messages(rig.commands, "FaultPolicyIgnored") == []
    node = rig.node_of("train-1")
    rig.sick(node, 1)
    commands = rig.step()
    assert messages(commands, "FaultPolicyIgnored") == [
        f"train-1: Ascend910-0 of {node} is unhealthy; no pod is restarted: label fault-scheduling "
        'must be one of off, grace, force, external-grace, external-force, got "Force"; taken as '
        "off"
    ]
    assert deletions(commands) == {}
    rig.sick(node, 3)
    assert messages(rig.step(5), "FaultPolicyIgnored") == []


def test_a_fault_scheduling_that_is_off_is_not_told() -> None:
    rig = running({"fault-scheduling": "off"}, pods=2)
    rig.sick("n1", 1)
    rig.sick("n2", 1)
    assert messages(rig.step(), "FaultPolicyIgnored") == []
