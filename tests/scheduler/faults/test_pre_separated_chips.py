"""Chips of level `PreSeparateNPU`: the pod on them goes on, and no other pod gets them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ringwise.manifests.config_maps.device_info import config_map_from_wire
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.wire import ConfigMapWire, MetaWire
from ringwise.scheduler.explain.closest_nodes import holders
from ringwise.state.model import DeviceReport, Isolation, ReportedFault
from ringwise.topology.chips import chips_of
from tests.builders.values import CHIP, isolated, report
from tests.scheduler.faults.fault_rig import POD_LEVEL, deletions, running
from tests.scheduler.rig import Rig, gangs_may_end

FAULT = ReportedFault(2, "8F19A000", "PreSeparateNPU")


def reported(node: str, *faults: ReportedFault, unhealthy: int = 0, **described: Any) -> DeviceReport:
    """All chips that no pod has are listed as free."""
    return report(node, chips_of(0xFF & ~unhealthy), unhealthy=unhealthy, faults=faults, **described)


@pytest.mark.parametrize("aggregated", [False, True])
@pytest.mark.parametrize("self_maintain", [False, True])
def test_a_new_pod_does_not_get_it_and_the_running_one_stays(aggregated: bool, self_maintain: bool) -> None:
    rig = running(POD_LEVEL, nodes=1, pods=1)
    rig.machine._state.maintain_free_chips(self_maintain)
    rig.tell(reported("n1", FAULT, aggregated=aggregated))
    assert deletions(rig.step(60)) == {}
    fleet = rig.machine._state.fleets[CHIP]
    assert fleet.broken(0) == 0
    rig.gone("train-0")
    rig.submit("whole", chips=8)
    rig.submit("part", chips=4)
    rig.run()
    assert fleet.broken(0) == 1 << FAULT.chip
    assert rig.places("whole") == {}
    placed = rig.machine._state.pods[rig.pods["part-0"].uid]
    assert placed.chips == 0xF0
    rig.tell(reported("n1", aggregated=aggregated))
    rig.step(1)
    assert rig.machine._state.fleets[CHIP].pre_separated[0] == 0


def test_a_fault_of_the_network_port_with_this_level_does_not_withhold_the_chip() -> None:
    rig = Rig(1)
    rig.tell(reported("n1", ReportedFault(2, "81078603", "PreSeparateNPU", network=True)))
    rig.submit("whole", chips=8)
    rig.run()
    assert rig.places("whole") != {}


def test_S9_its_node_is_not_held_for_the_healthy_pod_that_had_it() -> None:
    rig = running({"fault-scheduling": "force"}, nodes=2, pods=2)
    first, second = rig.node_of("train-0"), rig.node_of("train-1")
    rig.tell(reported(first, FAULT))
    rig.step(1)
    rig.sick(second, 1)
    assert len(deletions(rig.step(1))) == 2
    rig.finish()
    # F6 keeps the share of its own queue only.
    rig.queue("elsewhere", weight=10)
    rig.submit("other", chips=4, queue="elsewhere")
    rig.submit("another", chips=4, queue="elsewhere")
    rig.run()
    assert {*rig.nodes_of("other"), *rig.nodes_of("another")} == {first, second}


@pytest.mark.parametrize("is_isolated", [False, True])
def test_a_pod_is_not_evicted_for_one_that_would_not_get_its_chip(is_isolated: bool) -> None:
    rig = Rig(1, tiers=gangs_may_end())
    rig.priority("lower", 1)
    rig.priority("low", 2)
    rig.priority("high", 100)
    rig.submit("first", chips=4, priority="lower", preemptable=True)
    rig.submit("second", chips=4, priority="low", preemptable=True)
    rig.run()
    chip = rig.places("first")["first-0"][1][0]
    if is_isolated:
        rig.tell(isolated(Isolation("n1", (f"Ascend910-{chip}",))))
    else:
        rig.tell(reported("n1", ReportedFault(chip, "8F19A000", "PreSeparateNPU")))
    rig.submit("urgent", chips=4, priority="high")
    rig.run()
    assert rig.evictions() == ["second-0"]


def test_why_names_it_also_while_a_pod_has_it() -> None:
    rig = running(POD_LEVEL, nodes=1, pods=1)
    rig.tell(reported("n1", FAULT))
    rig.step(1)
    view = rig.machine.view
    assert holders(view, CHIP, 0, 0xFF) == ["held by train (7)", "PreSeparateNPU (1)"]
    rig.gone("train-0")
    rig.step(1)
    assert holders(view, CHIP, 0, 0b100) == ["PreSeparateNPU (1)"]
    rig.tell(reported("n1", FAULT, unhealthy=4))
    rig.step(1)
    assert holders(view, CHIP, 0, 0b100) == ["faulty (1)"]


@pytest.mark.parametrize(("kind", "withheld"), [("CardUnhealthy", 4), ("CardNetworkUnhealthy", 0)])
def test_it_is_read_from_reports_and_from_the_aggregate(kind: str, withheld: int) -> None:
    entry = {
        "fault_type": kind,
        "npu_name": "Ascend910-2",
        "fault_level": "PreSeparateNPU",
        "fault_handling": "PreSeparateNPU",
        "fault_code": "8F19A000",
    }
    lists = {CHIP: "Ascend910-0,Ascend910-2", f"{CHIP}-Unhealthy": "", f"{CHIP}-Fault": json.dumps([entry])}
    of_node = {"DeviceInfo": {"DeviceList": lists, "UpdateTime": 1}}
    of_cluster = {"mindx-dl-deviceinfo-n1": {"DeviceList": lists, "UpdateTime": 1}}
    for namespace, name, data in (
        ("kube-system", "mindx-dl-deviceinfo-n1", {"DeviceInfoCfg": json.dumps(of_node)}),
        ("mindx-dl", "cluster-info-device-0", {"cluster-info-device-0": json.dumps(of_cluster)}),
    ):
        wire = ConfigMapWire(metadata=MetaWire(name=name, namespace=namespace), data=dict(data))
        read = config_map_from_wire(wire, Findings("test"))
        assert read is not None
        assert [report.pre_separated for report in read[0]] == [withheld]
