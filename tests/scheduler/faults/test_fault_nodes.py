"""Hardware that changes under running pods, and what is published of faulty nodes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ringwise.messages import events as ev
from ringwise.messages.commands import DeletePod
from ringwise.scheduler.faults import publisher
from ringwise.state.model import Device, Node, NodeReport, Owner, ReportedFault
from tests.builders.values import CHIP, pod, report
from tests.scheduler.rig import Rig

LABELS = {"fault-scheduling": "force", "pod-rescheduling": "on"}


def written(rig: Rig) -> list[Any]:
    found = [one.data["fault-node"] for one in rig.published() if "fault-node" in one.data]
    nodes: list[Any] = json.loads(found[-1])
    return nodes


def test_faulty_nodes_are_published_as_huaweis_plugin_does_and_healed_ones_leave() -> None:
    rig = Rig(3)
    rig.run()
    assert rig.published() == []
    fault = ReportedFault(1, "80E01801", "SeparateNPU")
    rig.tell(
        report("n1", network_unhealthy=4, unhealthy=2, faults=(fault,)),
        report("n2", network_unhealthy=1, unhealthy=0),
        NodeReport("n3", "node", "UnHealthy"),
    )
    rig.step()
    assert written(rig) == [
        {
            "NodeName": "n1",
            "UpdateTime": 1000,
            "UnhealthyNPU": ["Ascend910-1"],
            "NetworkUnhealthyNPU": ["Ascend910-2"],
            "NodeHealthState": "CardUnhealthy",
            "FaultDeviceList": [
                {
                    "fault_type": "CardUnhealthy",
                    "npu_name": "Ascend910-1",
                    "fault_level": "SeparateNPU",
                    "fault_handling": "SeparateNPU",
                    "large_model_fault_level": "SeparateNPU",
                    "fault_code": "80E01801",
                }
            ],
        },
        {
            "NodeName": "n2",
            "UpdateTime": 1000,
            "UnhealthyNPU": [],
            "NetworkUnhealthyNPU": ["Ascend910-0"],
            "NodeHealthState": "CardNetworkUnhealthy",
            "FaultDeviceList": [],
        },
        {
            "NodeName": "n3",
            "UpdateTime": 1000,
            "UnhealthyNPU": [],
            "NetworkUnhealthyNPU": [],
            "NodeHealthState": "NodeUnhealthy",
            "FaultDeviceList": [],
        },
    ]
    before = len(rig.published())
    # The same report again changes nothing, also not the time.
    rig.tell(report("n2", network_unhealthy=1, unhealthy=0))
    rig.step(60)
    assert len(rig.published()) == before
    rig.sick("n1", 0)
    rig.sick("n2", 0)
    rig.tell(ev.NodeReportGone("n3", "node"))
    rig.step()
    assert written(rig) == []


def test_F1_what_an_earlier_leader_published_is_corrected() -> None:
    rig = Rig(1)
    rig.tell(ev.LeaderRecordRead(fault_nodes='[{"NodeName":"n1"}]'))
    rig.step()
    assert written(rig) == []


def test_the_document_of_faulty_nodes_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "MAX_DOCUMENT", 2_000)
    rig = Rig(20)
    for number in range(1, 21):
        rig.sick(f"n{number}", 0xFF)
    rig.step()
    text = [one.data["fault-node"] for one in rig.published() if "fault-node" in one.data][-1]
    assert 1_500 < len(text.encode()) <= 2_000
    assert written(rig)[0]["NodeName"] == "n1"


def test_the_annotation_of_a_node_beats_a_healthy_report() -> None:
    rig = Rig(2)
    rig.submit("train", chips=8, labels=LABELS)
    rig.run()
    (node,) = rig.nodes_of("train")
    rig.tell(NodeReport(node, "node", "Healthy"))
    rig.node(node, annotations={"NodeHealthyStatus": "UnHealthy"})
    rig.step()
    assert rig.pods["train-0"].deleting
    rig.recreate("train-0")
    rig.run()
    assert rig.nodes_of("train") != [node]


@pytest.mark.parametrize(("used", "moves"), [(True, True), (False, False)])
def test_N7_without_use_cluster_info_manager_reports_of_clusterd_do_not_count(
    used: bool, moves: bool
) -> None:
    rig = Rig(2, useClusterInfoManager=used)
    rig.submit("train", chips=8, labels=LABELS)
    rig.run()
    (node,) = rig.nodes_of("train")
    rig.tell(NodeReport(node, "node", "UnHealthy", aggregated=True))
    rig.step()
    assert rig.pods["train-0"].deleting is moves
    rig.tell(NodeReport(node, "node", "UnHealthy"))
    rig.step()
    assert rig.pods["train-0"].deleting


# -- hardware that changes under running pods ------------------------------------------------------------


def offer(rig: Rig, name: str, chips: tuple[int, ...]) -> None:
    """The node lists these chips."""
    count = {CHIP: len(chips)}
    rig.tell(Node(name, chips_allocatable=count, chips_capacity=count, devices=tuple(map(Device, chips))))


def test_a_chip_lost_under_a_running_pod_moves_the_pod_and_says_which() -> None:
    rig = Rig(2)
    rig.submit("train", chips=8, labels=LABELS)
    rig.run()
    (node,) = rig.nodes_of("train")
    offer(rig, node, (0, 1, 2, 3, 4, 5, 6))
    commands = rig.step()
    (deleted,) = [command for command in commands if isinstance(command, DeletePod)]
    assert deleted.why == f"{node} no longer lists Ascend910-7"
    rig.recreate("train-0")
    rig.run()
    assert rig.nodes_of("train") not in ([], [node])


def test_a_node_that_returns_with_other_chips_gives_them_to_new_pods_only() -> None:
    rig = Rig(0)
    offer(rig, "n1", tuple(range(8)))
    rig.submit("train", chips=4, labels=LABELS)
    rig.run()
    assert rig.places("train")["train-0"] == ("n1", (0, 1, 2, 3))
    rig.tell(ev.NodeGone("n1"))
    rig.step()
    offer(rig, "n1", (4, 5, 6, 7))
    rig.step()
    assert rig.pods["train-0"].deleting
    # While the pod has not ended, Kubernetes counts its chips: there is none for another pod.
    rig.submit("other", chips=4)
    rig.run()
    assert rig.nodes_of("other") == []
    assert rig.reason("other") is not None
    rig.tell(ev.PodGone(rig.pods["train-0"].uid))
    rig.end("other")
    rig.replacement("train-0")
    rig.run()
    assert rig.places("train")["train-0"] == ("n1", (4, 5, 6, 7))


def test_more_chips_used_than_offered_closes_the_node_with_a_reason() -> None:
    rig = Rig(0)
    offer(rig, "n1", tuple(range(8)))
    rig.submit("train", chips=4)
    rig.run()
    offer(rig, "n1", (0, 1))
    rig.submit("other", chips=1)
    rig.run()
    assert rig.nodes_of("other") == []
    assert rig.reason("other") is not None


def test_a_pod_that_never_ends_is_deleted_by_force_and_keeps_its_chips() -> None:
    """N6: a finalizer keeps it; its chips are not given away, and the job says what it waits for."""
    rig = Rig(1, grace_over_time=20)
    rig.submit("train", chips=8, labels={"fault-scheduling": "grace"})
    rig.run()
    rig.tell(NodeReport("n1", "node", "UnHealthy"))
    first = rig.step()
    assert [command.grace for command in first if isinstance(command, DeletePod)] == [None]
    later = rig.step(21)
    assert [command.grace for command in later if isinstance(command, DeletePod)] == [0]
    rig.tell(ev.NodeReportGone("n1", "node"))
    rig.submit("other", chips=8)
    rig.run()
    rig.step(1000)
    assert rig.nodes_of("other") == []
    assert [command for command in rig.step() if isinstance(command, DeletePod)] == []


def test_each_pod_on_a_node_that_was_never_seen_has_time_until_that_appears() -> None:
    """The node of an earlier pod, which is gone, may have been another one of that name."""
    rig = Rig(1)
    for name in ("first", "second"):
        owner = Owner("ReplicaSet", "serve", "uid-serve")
        rig.put(pod(name, 8, on="ghost", holds=range(8), labels=LABELS, owner=owner))
        rig.step()
        rig.step(59)
        assert rig.deletions() == []
        if name == "first":
            rig.gone(name)
            rig.step()
    rig.step(1)
    assert rig.deletions() == ["second"]
