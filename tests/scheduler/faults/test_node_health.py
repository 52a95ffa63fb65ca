"""Nodes that are reported as faulty do not accept new pods with chips; sub-healthy ones, by job strategy."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ringwise.messages import events as ev
from ringwise.state.model import NodeReport, ReportedFault
from tests.builders.values import CHIP, report
from tests.scheduler.rig import Rig


@pytest.mark.parametrize("source", ["node", "switch"])
@pytest.mark.parametrize("status", ["UnHealthy", "PreSeparate"])
def test_a_faulty_node_takes_no_new_pod_until_its_report_is_gone(status: str, source: str) -> None:
    rig = Rig(1)
    rig.tell(NodeReport("n1", source, status))
    rig.submit("train", chips=8)
    rig.run()
    assert rig.nodes_of("train") == []
    assert rig.reason("train") is not None
    rig.tell(ev.NodeReportGone("n1", source))
    rig.run()
    assert rig.nodes_of("train") == ["n1"]


@pytest.mark.parametrize(
    ("status", "code"),
    [("UnHealthy", "node-unhealthy"), ("PreSeparate", "node-pre-separated"), ("Healthy", None), ("?", None)],
)
def test_the_reason_says_what_is_wrong_with_the_node(status: str, code: str | None) -> None:
    rig = Rig(1)
    rig.tell(NodeReport("n1", "node", status))
    rig.step()
    reason = rig.machine._state.closed(0, CHIP)
    assert (None if reason is None else reason.code) == code


def test_a_report_that_comes_before_its_node_counts() -> None:
    rig = Rig(0)
    rig.tell(NodeReport("n1", "node", "UnHealthy"))
    rig.node("n1")
    rig.submit("train", chips=8)
    rig.run()
    assert rig.nodes_of("train") == []


def test_pods_without_chips_go_to_an_unhealthy_node() -> None:
    rig = Rig(1)
    rig.tell(NodeReport("n1", "node", "UnHealthy"))
    rig.submit("web", chips=0)
    rig.run()
    assert rig.nodes_of("web") == ["n1"]


def sub_healthy_switch(rig: Rig) -> None:
    rig.tell(NodeReport("n1", "switch", "SubHealthy"))


def sub_healthy_chip(rig: Rig) -> None:
    fault = ReportedFault(1, "80E01801", "SubHealthFault")
    rig.tell(report("n1", range(8), faults=(fault,)))


@pytest.mark.parametrize("make", [sub_healthy_switch, sub_healthy_chip])
@pytest.mark.parametrize(
    ("strategy", "refused"),
    [("graceExit", True), ("forceExit", True), ("hotSwitch", True), ("ignore", False), ("other", False)],
)
def test_a_sub_healthy_node_is_refused_by_the_strategy_of_the_job(
    make: Callable[[Rig], None], strategy: str, refused: bool
) -> None:
    rig = Rig(1)
    make(rig)
    rig.submit("train", chips=8, labels={"subHealthyStrategy": strategy})
    rig.run()
    assert rig.nodes_of("train") == ([] if refused else ["n1"])


def test_a_job_that_avoids_sub_healthy_nodes_takes_the_others() -> None:
    rig = Rig(3)
    sub_healthy_switch(rig)
    rig.submit("train", pods=2, chips=8, labels={"subHealthyStrategy": "forceExit"})
    rig.run()
    assert sorted(rig.nodes_of("train")) == ["n2", "n3"]
