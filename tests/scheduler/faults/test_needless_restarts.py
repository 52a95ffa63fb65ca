"""Faults that must not restart anything, or not again and again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringwise.messages import events as ev
from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.state.model import NodeReport, Pod, PodClass, ReportedFault
from tests.builders import values
from tests.builders.values import report
from tests.scheduler.rig import Rig, deleted_pods

POD_LEVEL = {"fault-scheduling": "force", "pod-rescheduling": "on", "subHealthyStrategy": "forceExit"}


@pytest.mark.parametrize("status", ["UnHealthy", "SubHealthy"])
def test_a_pod_without_chips_stays_where_it_would_be_placed_again(status: str) -> None:
    rig = Rig(4)
    rig.submit("train", pods=2, chips=8, min_available=3, labels=POD_LEVEL)
    launcher = PodClass(None, 0)
    rig.put(values.pod("launcher", uid="launcher.1", cls=launcher, labels=POD_LEVEL, group="train", rank=2))
    rig.run()
    assert (rig.pods["launcher"].node, rig.pods["train-0"].node) == ("n1", "n1")
    rig.tell(NodeReport("n1", "node", status))
    assert sorted(deleted_pods(rig.step(1))) == ["launcher", "train-0", "train-1"], "rank 0 is hit"
    for _ in range(10):
        rig.finish()
        assert deleted_pods(rig.step(1)) == []
    assert {pod.node for pod in rig.pods.values()} == {"n1", "n2", "n3"}


@pytest.mark.parametrize("labels", [{}, {**POD_LEVEL, "fault-scheduling": "off"}])
def test_labels_that_are_taken_back_end_the_escalation(labels: dict[str, str]) -> None:
    rig = Rig(3)
    rig.submit("train", pods=3, chips=8, labels=POD_LEVEL)
    rig.run()
    rig.sick("n3", 1)
    assert deleted_pods(rig.step(1)) == ["train-2"]
    rig.finish()
    rig.step(1)
    group = replace(rig.groups["default/train"], labels=labels)
    rig.tell(group)
    for name in rig.pods:
        rig.change(name, labels=labels)
    assert deleted_pods(rig.step(1)) == deleted_pods(rig.step(30)) == []


def test_a_pod_that_never_ends_on_a_lost_node_restarts_its_job_once() -> None:
    rig = Rig(8)
    rig.submit("train", pods=3, chips=8, labels={"fault-scheduling": "force"})
    rig.run()
    rig.node("n3", ready=False)
    assert len(deleted_pods(rig.step(1))) == 3
    old = [rig.pods.pop(name) for name in list(rig.pods)]
    rig.tell(*(ev.PodGone(pod.uid) for pod in old if pod.node != "n3"))
    for number, pod in enumerate(old):
        # Its owner uses other names; a finalizer keeps the pod of the lost node.
        name = f"new-{number}"
        rig.put(Pod(f"{name}.2", "default", name, pod.cls, labels=pod.labels, group="train"))
    rig.run()
    assert len(rig.nodes_of("train")) == 3
    for _ in range(10):
        rig.node("n3", ready=False)
        assert deleted_pods(rig.step(400)) == []


@pytest.mark.parametrize("mask", [{"faultCode": "80E01801:30"}, {"faultLevel": "SubHealthFault:30"}])
def test_sub_health_is_masked_as_other_faults(mask: dict[str, str]) -> None:
    filters = {f"huawei.com/schedule.filter.{key}": value for key, value in mask.items()}
    rig = Rig(4)
    rig.submit("train", pods=3, chips=8, labels=POD_LEVEL, annotations=filters)
    rig.run()
    fault = ReportedFault(2, "80E01801", "SubHealthFault")
    rig.tell(report("n3", faults=(fault,)))
    assert deleted_pods(rig.step(0)) == deleted_pods(rig.step(29)) == []
    assert deleted_pods(rig.step(1)) == ["train-2"]


def test_F2_nothing_healthy_is_restarted_for_a_pod_that_nobody_makes_again() -> None:
    rig = Rig(4)
    rig.submit("train", pods=3, chips=8, labels=POD_LEVEL)
    rig.run()
    rig.sick("n3", 1)
    assert deleted_pods(rig.step(1)) == ["train-2"]
    rig.gone("train-2")
    assert deleted_pods(rig.step(2000)) == []
    assert "default/train" in rig.machine._components.of(FaultHandler).jobs
