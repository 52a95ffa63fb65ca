"""Edge cases of faults, one test each: what Huawei's plugin does, and what survives a restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ringwise.messages import events as ev
from ringwise.messages.commands import AnnotatePod
from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.scheduler.faults.states import State
from ringwise.state.model import DeviceReport, Isolation, NodeReport, ReportedFault
from tests.builders.records import record_with
from tests.builders.values import SECOND, isolated, report
from tests.scheduler.faults.fault_rig import POD_LEVEL, deletions, running, state_of
from tests.scheduler.rig import PLAIN, Rig

MASKED = {"huawei.com/schedule.filter.faultCode": "80E01801:60"}


def fault(node: str, code: str, level: str, **masks: Any) -> DeviceReport:
    return report(node, faults=(ReportedFault(0, code, level),), **masks)


# -- masks ---------------------------------------------------------------------------------------------


def masked_fault() -> tuple[Rig, str, DeviceReport]:
    """A fault that is tolerated for 1m, 40s after it began."""
    rig = running(POD_LEVEL, annotations=MASKED)
    told = fault("n3", "80E01801", "RestartBusiness", unhealthy=1)
    rig.tell(told)
    assert deletions(rig.step()) == {}
    assert deletions(rig.step(40)) == {}
    return rig, rig.pod_on("n3"), told


def test_F1_the_window_of_a_tolerated_fault_goes_on_after_a_restart() -> None:
    rig, hit, _ = masked_fault()
    other = rig.successor()
    other.run()
    assert other.deletions() == []
    assert deletions(other.step(19)) == {}
    assert deletions(other.step(1)) == {hit: 0}


def test_F1_the_report_may_be_read_after_the_document() -> None:
    rig, hit, told = masked_fault()
    other = rig.successor()
    other.events = [one for one in other.events if not isinstance(one, ev.ReportSeen)]
    other.run()
    other.tell(told)
    assert deletions(other.step(19)) == {}
    assert deletions(other.step(1)) == {hit: 0}


def test_F1_a_fault_that_ended_meanwhile_begins_anew() -> None:
    rig, hit, told = masked_fault()
    other = rig.successor(report("n3"), rig.last_record)
    other.run()
    other.tell(told)
    other.step()
    assert deletions(other.step(59)) == {}
    assert deletions(other.step(1)) == {hit: 0}


def test_F1_a_clock_that_was_ahead_extends_no_window() -> None:
    rig, hit, told = masked_fault()
    ((node, faults),) = rig.entries("tolerated-faults").items()
    ahead = {node: [[fault, seen + 10**6 * SECOND] for fault, seen in faults]}
    other = rig.successor(told, record_with("tolerated-faults", ahead))
    other.step()
    assert deletions(other.step(59)) == {}
    assert deletions(other.step(1)) == {hit: 0}


def test_the_document_forgets_tolerated_faults_that_are_over() -> None:
    rig, _, _ = masked_fault()
    assert set(rig.entries("tolerated-faults")) == {"n3"}
    rig.sick("n3", 0)
    rig.run()
    assert rig.entries("tolerated-faults") == {}


def test_F1_tolerated_faults_of_nodes_that_were_deleted_meanwhile_are_forgotten() -> None:
    rig, _, _ = masked_fault()
    new = Rig(3)
    new.tell(record_with("tolerated-faults", {"gone": rig.entries("tolerated-faults")["n3"]}))
    new.step()
    assert new.entries("tolerated-faults") == {}


# -- external ------------------------------------------------------------------------------------------


def test_external_marks_are_taken_back_when_the_hardware_heals() -> None:
    rig = running({"fault-scheduling": "external-grace", "pod-rescheduling": "on"})
    hit = rig.pod_on("n3")
    rig.sick("n3", 1)
    rig.step()
    assert state_of(rig) is State.DELETING
    rig.sick("n3", 0)
    commands = rig.step(30)
    (mark,) = [one for one in commands if isinstance(one, AnnotatePod)]
    assert (mark.pod, dict(mark.annotations), mark.remove) == (hit, {}, ("huawei.com/pod-status",))
    assert state_of(rig) is None
    rig.sick("n3", 1)
    (again,) = [one for one in rig.step(5) if isinstance(one, AnnotatePod)]
    assert again.annotations == {"huawei.com/pod-status": "Unhealthy-CardUnhealthy"}


def test_external_marks_of_pods_that_terminate_stay() -> None:
    rig = running({"fault-scheduling": "external-grace", "pod-rescheduling": "on"})
    hit = rig.pod_on("n3")
    rig.sick("n3", 1)
    rig.step()
    rig.change(hit, deleting=True)
    rig.sick("n3", 0)
    assert not [one for one in rig.step(5) if isinstance(one, AnnotatePod)]


# -- link down after a relation fault --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "code", "fits"),
    [(0, "81078603", False), (19, "81078603", False), (21, "81078603", True), (0, "80E01801", True)],
)
def test_after_a_relation_fault_chips_with_a_link_down_are_withheld_for_20_s(
    seconds: int, code: str, fits: bool
) -> None:
    rig = running(POD_LEVEL, nodes=5, pods=4)
    hit = rig.pod_on("n3")
    rig.change(hit, labels={**POD_LEVEL, "fault-type": "Separate"})
    rig.tell(fault("n3", code, "NotHandleFault"))
    assert deletions(rig.step()) == {hit: 0}
    rig.tell(ev.PodGone(rig.pods.pop(hit).uid))
    rig.step(seconds)
    # Two pods: network faults matter for them. n5 is free, too. F6 keeps the share of its own queue only.
    rig.queue("elsewhere")
    rig.submit("other", pods=2, chips=8, queue="elsewhere")
    rig.run()
    assert (len(rig.nodes_of("other")) == 2) is fits
    if not fits:
        rig.step(20)
        rig.run()
        assert sorted(rig.nodes_of("other")) == ["n3", "n5"]


# -- nodes ---------------------------------------------------------------------------------------------


def test_a_pod_that_failed_with_its_node_is_moved_at_once_and_costs_no_retry() -> None:
    rig = running(POD_LEVEL | {"fault-retry-times": "1"})
    hit = rig.pod_on("n3")
    rig.change(hit, phase="Failed", ended=rig.now)
    rig.step()
    assert state_of(rig) is not None
    rig.finish()
    rig.run()
    assert rig.machine._components.of(FaultHandler).retries.left("default/train", 1) == 0
    hit = rig.pod_on("n2")
    rig.change(hit, phase="Failed", ended=rig.now)
    rig.tell(ev.NodeGone("n2"))
    assert deletions(rig.step()) == {hit: 0}
    assert rig.machine._components.of(FaultHandler).jobs["default/train"].reason.value == "NodeUnhealthy"


@pytest.mark.parametrize("order", ["pod first", "node first"])
def test_a_failed_pod_whose_node_is_gone_needs_no_retries(order: str) -> None:
    rig = running(POD_LEVEL)
    hit = rig.pod_on("n3")
    if order == "pod first":
        rig.change(hit, phase="Failed", ended=rig.now)
        assert deletions(rig.step(5)) == {}
        rig.tell(ev.NodeGone("n3"))
    else:
        rig.tell(ev.NodeGone("n3"))
        rig.change(hit, phase="Failed", ended=rig.now)
    assert deletions(rig.step()) == {hit: 0}
    rig.finish()
    rig.run()
    assert rig.pods[hit].node not in (None, "n3")
    assert rig.machine._components.of(FaultHandler).detector._gone == set()


# -- what operators take out of use ---------------------------------------------------------------------


def isolate(rig: Rig, node: str) -> None:
    rig.tell(isolated(Isolation(node, by="ana")))


def cordon(rig: Rig, node: str) -> None:
    rig.node(node, unschedulable=True)


def pre_separate(rig: Rig, node: str) -> None:
    rig.tell(NodeReport(node, "node", "PreSeparate"))


@pytest.mark.parametrize("take_out", [isolate, cordon, pre_separate])
def test_no_reservation_stays_on_a_node_that_is_taken_out_of_use(
    take_out: Callable[[Rig, str], None],
) -> None:
    rig = Rig(2, actions=PLAIN, reservation_after=600)
    for number in range(2):
        rig.submit(f"old{number}", chips=8, expected=f"{number + 1}h")
        rig.run()
    rig.submit("big", chips=8)
    rig.run()
    rig.step(600)
    kept = rig.machine.view.reservations.of("default/big")
    assert kept is not None
    assert [rig.machine.view.cluster.names[node] for node in kept.chips] == ["n1"]
    take_out(rig, "n1")
    rig.run()
    kept = rig.machine.view.reservations.of("default/big")
    assert kept is not None
    assert [rig.machine.view.cluster.names[node] for node in kept.chips] == ["n2"]


@pytest.mark.parametrize("take_out", [isolate, cordon, pre_separate])
def test_S9_a_node_that_is_taken_out_of_use_is_not_held(take_out: Callable[[Rig, str], None]) -> None:
    rig = running({"fault-scheduling": "force"}, nodes=8)
    before = {pod.rank: pod.node or "" for pod in rig.pods.values()}
    rig.sick(before[1], 1)
    rig.step()
    take_out(rig, before[2])
    rig.finish()
    rig.run()
    after = {pod.rank: pod.node for pod in rig.pods.values()}
    assert {rank for rank in before if before[rank] != after[rank]} == {1, 2}
    assert rig.now == 1000 * SECOND
