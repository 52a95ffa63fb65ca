"""Issue 17, 19: pods with scheduling gates are named as such, and units are those of people."""

from __future__ import annotations

import pytest

from ringwise.messages.commands import SetPodCondition
from tests.builders.objects import node, pod, pod_group, pod_spec
from tests.place.asking import ask, job_of
from tests.scheduler.rig import Rig


def gated(name: str, group: str | None = None) -> dict[str, object]:
    return pod(name, pod_spec(1, schedulingGates=[{"name": "example.com/wait"}]), group=group)


@pytest.mark.parametrize(
    ("objects", "name", "message"),
    [
        (
            [gated("alone")],
            "alone",
            "1 pod is gated (schedulingGates); 0 of 1 required pod are ready",
        ),
        (
            [pod_group("gang", 2), gated("a", "gang"), pod("b", pod_spec(1), group="gang")],
            "gang",
            "1 pod is gated (schedulingGates); 1 of 2 required pods is ready",
        ),
        (
            [pod_group("gang", 2), gated("a", "gang"), gated("b", "gang")],
            "gang",
            "2 pods are gated (schedulingGates); 0 of 2 required pods are ready",
        ),
    ],
)
def test_gated_pods_are_named_as_gated(objects: list[dict[str, object]], name: str, message: str) -> None:
    job = job_of(ask([node("n-0"), *objects], {"multi-pod-requests": "vendor"}), name)
    assert (job["state"], job["reason"]["code"]) == ("pending", "pods-gated")
    assert job["reason"]["message"] == message


def test_a_gated_pod_keeps_the_condition_of_the_api_server() -> None:
    """It says SchedulingGated; Unschedulable would be wrong."""
    rig = Rig(2)
    rig.submit("train", pods=2, chips=8, min_available=2)
    rig.change("train-0", gated=True)
    rig.run()
    assert rig.reason("train") == "pods-gated"
    assert {command.pod for command in rig.commands if isinstance(command, SetPodCondition)} <= {"train-1"}
    rig.change("train-0", gated=False)
    rig.run()
    assert len(rig.nodes_of("train")) == 2
    assert rig.reason("train") is None


def test_a_pod_without_chips_says_what_it_asks_for() -> None:
    rig = Rig()
    for name in ("n1", "n2"):
        rig.node(name, cpu_milli=10_000, memory=8 << 30)
    rig.submit("web", chips=0, cpu_milli=16_000, memory=2 << 30)
    rig.run()
    found = rig.machine.view.jobs["default/web"].reason
    assert found is not None
    assert "web-0 (16 cpu, 2 GiB memory)" in found.message
