"""N8: who holds which chips, whatever annotations a pod carries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind
from ringwise.state.model import Device, DeviceReport, Node, Pod, PodClass, Toleration
from ringwise.topology.chips import chips_of, mask_of
from ringwise.wellknown import ASCEND_REAL, IS_SHARED_TOR, KUBELET_DEVICES, PREDICATE_TIME, SUPER_POD_RANK
from tests.scheduler.rig import CHIP, SECOND, configuration

FOUR = PodClass(resource=CHIP, chips=4)
NODE = Node(
    "n1",
    devices=tuple(Device(chip) for chip in range(8)),
    chips_allocatable={CHIP: 8},
    chips_capacity={CHIP: 8},
    cpu_milli=64_000,
    max_pods=100,
)


class Cluster:
    """One node of 8 chips; bindings come back as the API server would report them."""

    def __init__(self, **settings: Any) -> None:
        self.scheduler = new_scheduler(configuration(**settings))
        self.now = 1000 * SECOND
        self.tell(ev.NodeSeen(NODE))

    def tell(self, *events: ev.Event) -> list[Bind]:
        self.now += SECOND
        return [one for one in self.scheduler.handle(events, self.now) if isinstance(one, Bind)]

    def held(self, uid: str) -> tuple[int, ...]:
        return chips_of(self.scheduler.view.cluster.pods[uid].chips)


def pod(name: str, **fields: Any) -> Pod:
    return replace(Pod(name, "ns", name, FOUR, created=1), **fields)


def bound(pod: Pod, bind: Bind, **annotations: str) -> Pod:
    """The pod as the API server reports it after the binding: its own annotations stay, where not removed."""
    kept = {key: value for key, value in pod.annotations.items() if key not in bind.remove}
    return replace(
        pod, node=bind.node, annotations={**kept, **bind.annotations, **annotations}, holds=bind.chips
    )


def test_N8_annotations_copied_from_a_running_pod_mean_nothing_and_are_removed() -> None:
    cluster = Cluster()
    copied = pod(
        "copy",
        annotations={
            CHIP: "Ascend910-4,Ascend910-5,Ascend910-6,Ascend910-7",
            ASCEND_REAL: "Ascend910-4,Ascend910-5,Ascend910-6,Ascend910-7",
            KUBELET_DEVICES: "Ascend910-4",
            PREDICATE_TIME: "5",
            IS_SHARED_TOR: "2",
            SUPER_POD_RANK: "3",
            "volcano.sh/task-spec": "worker",
        },
    )
    (bind,) = cluster.tell(ev.PodSeen(copied))
    assert bind.chips == (0, 1, 2, 3)
    assert bind.remove == tuple(sorted((ASCEND_REAL, KUBELET_DEVICES, IS_SHARED_TOR, SUPER_POD_RANK)))
    assert {CHIP, PREDICATE_TIME} <= set(bind.annotations)
    assert cluster.tell(ev.PodSeen(bound(copied, bind))) == []
    assert cluster.held("copy") == (0, 1, 2, 3)
    (second,) = cluster.tell(ev.PodSeen(pod("second")))
    assert second.chips == (4, 5, 6, 7)


@pytest.mark.parametrize("where", [CHIP, ASCEND_REAL])
def test_N8_an_edited_annotation_frees_no_chip_of_a_live_pod(where: str) -> None:
    cluster = Cluster()
    (bind,) = cluster.tell(ev.PodSeen(pod("first")))
    running = replace(bound(pod("first"), bind), phase="Running")
    cluster.tell(ev.PodSeen(running))
    lie = (4, 5, 6, 7)
    edited = replace(running, holds=lie) if where == CHIP else replace(running, mounted=lie)
    cluster.tell(ev.PodSeen(edited))
    assert set(cluster.held("first")) >= {0, 1, 2, 3}
    binds = cluster.tell(ev.PodSeen(pod("second")))
    assert all(not set(one.chips) & {0, 1, 2, 3} for one in binds)
    cluster.tell(ev.PodGone("first"))
    assert cluster.scheduler.view.inconsistencies() == []


def test_N8_a_removed_annotation_frees_nothing_either() -> None:
    cluster = Cluster()
    (bind,) = cluster.tell(ev.PodSeen(pod("first")))
    cluster.tell(ev.PodSeen(bound(pod("first"), bind)))
    cluster.tell(ev.PodSeen(replace(pod("first"), node="n1", phase="Running")))
    assert cluster.held("first") == (0, 1, 2, 3)


@pytest.mark.parametrize(
    "change", [{"tolerations": (Toleration("any"),)}, {"cpu_milli": 100}, {"memory": 1 << 20}]
)
def test_N8_an_edited_spec_frees_no_chip_of_a_live_pod(change: dict[str, Any]) -> None:
    """Tolerations are added and processor and memory resized in a running pod, with its annotations."""
    cluster = Cluster()
    (bind,) = cluster.tell(ev.PodSeen(pod("first")))
    running = replace(bound(pod("first"), bind), phase="Running")
    cluster.tell(ev.PodSeen(running))
    cluster.tell(ev.PodSeen(replace(running, cls=replace(FOUR, **change), holds=(4, 5, 6, 7))))
    assert cluster.held("first") == (0, 1, 2, 3)
    (second,) = cluster.tell(ev.PodSeen(pod("second")))
    assert second.chips == (4, 5, 6, 7)
    assert cluster.scheduler.view.inconsistencies() == []


def test_N8_after_a_restart_both_lists_count_as_first_read() -> None:
    cluster = Cluster()
    found = replace(pod("old"), node="n1", phase="Running", holds=(0, 1, 2, 3), mounted=(4, 5, 6, 7))
    cluster.tell(ev.PodSeen(found))
    assert cluster.held("old") == tuple(range(8))


def test_N8_guarded_the_mounted_chips_stand_for_the_pod() -> None:
    cluster = Cluster(owned_annotations="guarded")
    (bind,) = cluster.tell(ev.PodSeen(pod("first")))
    cluster.tell(ev.PodSeen(replace(bound(pod("first"), bind), mounted=(4, 5, 6, 7))))
    assert cluster.held("first") == (4, 5, 6, 7)


@pytest.mark.parametrize("owned", ["open", "guarded"])
def test_N8_the_report_of_our_device_plugin_stands_for_the_pod(owned: str) -> None:
    cluster = Cluster(owned_annotations=owned)
    (bind,) = cluster.tell(ev.PodSeen(pod("first")))
    here = bound(pod("first"), bind)
    cluster.tell(ev.PodSeen(here))
    report = DeviceReport("n1", CHIP, free=mask_of(range(4)), mounted={"first": mask_of((4, 5, 6, 7))})
    cluster.tell(ev.ReportSeen(report))
    assert cluster.held("first") == (4, 5, 6, 7)
    # An annotation does not change that, and another report does not free the chips.
    cluster.tell(ev.PodSeen(replace(here, mounted=(0, 1, 2, 3))))
    assert cluster.held("first") == (4, 5, 6, 7)
    cluster.tell(ev.ReportSeen(replace(report, mounted={})))
    assert set(cluster.held("first")) >= {4, 5, 6, 7}


@pytest.mark.parametrize("ended", [False, True])
def test_N8_a_pod_that_vanishes_before_it_ended_keeps_its_chips_until_a_report_without_it(
    ended: bool,
) -> None:
    """Deleted by force its container may still run. One that was seen to end has none."""
    cluster = Cluster()
    (bind,) = cluster.tell(ev.PodSeen(pod("old", cls=PodClass(resource=CHIP, chips=8))))
    old = replace(bound(pod("old", cls=PodClass(resource=CHIP, chips=8)), bind), phase="Running")
    report = DeviceReport("n1", CHIP, mounted={"old": 0xFF})
    assert not cluster.tell(ev.PodSeen(old), ev.ReportSeen(report))
    if ended:
        cluster.tell(ev.PodSeen(replace(old, phase="Succeeded")))
    binds = cluster.tell(ev.PodGone("old"), ev.PodSeen(pod("new")))
    assert bool(binds) is ended
    # Nor after a restart of the scheduler, which only has the report.
    again = Cluster()
    assert not again.tell(ev.ReportSeen(report), ev.PodSeen(pod("new")))
    # Part of it has ended.
    half = ev.ReportSeen(replace(report, free=0xF0, mounted={"old": 0x0F}))
    for one in (cluster, again)[ended:]:
        (bind,) = one.tell(half)
        assert bind.chips == (4, 5, 6, 7)
        assert one.tell(ev.PodSeen(replace(bound(pod("new"), bind), phase="Running"))) == []
        (bind,) = one.tell(
            ev.PodSeen(pod("last")), ev.ReportSeen(replace(report, free=0x0F, mounted={"new": 0xF0}))
        )
        assert bind.chips == (0, 1, 2, 3)
        assert one.scheduler.view.inconsistencies() == []


def test_N8_a_report_that_comes_before_its_pods_withholds_nothing_for_long() -> None:
    cluster = Cluster()
    cluster.tell(ev.ReportSeen(DeviceReport("n1", CHIP, mounted={"old": 0x0F, "gone": 0xF0})))
    cluster.tell(ev.PodSeen(pod("old", node="n1", phase="Succeeded")))
    (bind,) = cluster.tell(ev.PodSeen(pod("new")))
    assert bind.chips == (0, 1, 2, 3)
    cluster.tell(ev.ReportGone("n1", aggregated=False))
    (bind,) = cluster.tell(ev.PodSeen(pod("next")))
    assert bind.chips == (4, 5, 6, 7)
    assert cluster.scheduler.view.inconsistencies() == []


def test_N8_a_report_that_is_older_than_its_node_counts() -> None:
    cluster = Cluster()
    report = DeviceReport("n2", CHIP, mounted={"gone": 0xFF})
    cluster.tell(ev.NodeGone("n1"), ev.ReportSeen(report))
    assert not cluster.tell(ev.NodeSeen(replace(NODE, name="n2")), ev.PodSeen(pod("new")))
    # Another node that takes its place in the tables has chips of its own.
    cluster.tell(ev.NodeGone("n2"))
    assert cluster.tell(ev.NodeSeen(replace(NODE, name="n3")))
    assert cluster.scheduler.view.inconsistencies() == []


DOUBTFUL = DeviceReport("n1", CHIP, doubtful={"first": mask_of((0, 1, 2, 3, 6, 7))})


@pytest.mark.parametrize("owned", ["open", "guarded"])
@pytest.mark.parametrize("report_first", [False, True])
def test_N8_doubtful_chips_go_to_nobody_until_the_pod_ends(owned: str, report_first: bool) -> None:
    """A pod from before the device plugin: its owner edited AscendReal, and the scheduler starts anew."""
    cluster = Cluster(owned_annotations=owned)
    edited = pod("first", node="n1", phase="Running", holds=(4, 5, 6, 7), mounted=(4, 5, 6, 7))
    events: list[ev.Event] = [ev.PodSeen(edited), ev.ReportSeen(DOUBTFUL)]
    cluster.tell(*(reversed(events) if report_first else events))
    # The pod itself holds what it did: a fault of another chip is not its own.
    assert cluster.held("first") == (4, 5, 6, 7)
    assert cluster.tell(ev.PodSeen(pod("second"))) == []
    # Neither an annotation nor another report takes it back, nor a change of the spec.
    cluster.tell(ev.PodSeen(replace(edited, mounted=(4,), cls=replace(FOUR, cpu_milli=100))))
    assert cluster.tell(ev.ReportSeen(replace(DOUBTFUL, doubtful={}))) == []
    assert cluster.tell(ev.ReportGone("n1", aggregated=False)) == []
    assert cluster.scheduler.view.inconsistencies() == []
    (bind,) = cluster.tell(ev.PodSeen(replace(edited, phase="Succeeded")))
    assert bind.chips == (0, 1, 2, 3)
    assert cluster.scheduler.view.inconsistencies() == []


def test_N8_a_mount_that_is_reported_ends_the_doubt() -> None:
    cluster = Cluster()
    cluster.tell(ev.PodSeen(pod("first", node="n1", phase="Running", holds=(4, 5, 6, 7))))
    cluster.tell(ev.ReportSeen(DOUBTFUL))
    assert cluster.tell(ev.PodSeen(pod("second"))) == []
    (bind,) = cluster.tell(
        ev.ReportSeen(replace(DOUBTFUL, doubtful={}, mounted={"first": mask_of(range(4))}))
    )
    assert bind.chips == (4, 5, 6, 7)


def test_N8_doubtful_chips_of_kubelet_s_ids_do_not_make_a_pod_s_chips_known() -> None:
    """Nothing names the chips of a pod that another scheduler bound: its node stays closed (N7)."""
    cluster = Cluster()
    cluster.tell(ev.PodSeen(pod("first", node="n1", phase="Running", scheduler="other")))
    cluster.tell(ev.ReportSeen(DOUBTFUL))
    assert cluster.tell(ev.PodSeen(Pod("one", "ns", "one", PodClass(resource=CHIP, chips=1)))) == []
    assert set(cluster.scheduler.view.cluster.fleets[CHIP].unknown_holders[0]) == {"ns/first"}


def test_N7_a_pod_that_names_some_of_its_chips_closes_its_node_until_it_names_all() -> None:
    cluster = Cluster()
    cluster.tell(ev.PodSeen(pod("first", node="n1", phase="Running", scheduler="other", holds=(4, 5))))
    one = Pod("one", "ns", "one", PodClass(resource=CHIP, chips=1))
    assert cluster.tell(ev.PodSeen(one)) == []
    fleet = cluster.scheduler.view.cluster.fleets[CHIP]
    assert fleet.unknown_holders == {0: {"ns/first": 2}}
    # What it named first stays its own (N8).
    (bind,) = cluster.tell(
        ev.PodSeen(pod("first", node="n1", phase="Running", scheduler="other", holds=(0, 1, 6, 7)))
    )
    assert cluster.held("first") == (0, 1, 4, 5, 6, 7)
    assert bind.chips[0] in (2, 3)
    assert not fleet.unknown_holders
    assert cluster.scheduler.view.inconsistencies() == []


def test_N8_doubtful_chips_of_a_pod_without_chips_or_elsewhere_hold_nothing() -> None:
    cluster = Cluster()
    none = PodClass(cpu_milli=100)
    cluster.tell(ev.PodSeen(Pod("first", "ns", "cpu", none, node="n1", phase="Running")))
    cluster.tell(ev.PodSeen(pod("away", node="n2", phase="Running", holds=(0, 1, 2, 3))))
    cluster.tell(ev.ReportSeen(replace(DOUBTFUL, doubtful={"first": 0xFF, "away": 0xFF, "unknown": 0xFF})))
    (bind,) = cluster.tell(ev.PodSeen(pod("second")))
    assert bind.chips == (0, 1, 2, 3)


def test_N8_a_pod_that_asks_for_no_chips_holds_none_and_closes_no_node() -> None:
    cluster = Cluster()
    free = replace(
        Pod("cpu", "ns", "cpu", PodClass(cpu_milli=100)), node="n1", phase="Running", holds=tuple(range(8))
    )
    cluster.tell(ev.PodSeen(free))
    assert cluster.held("cpu") == ()
    (bind,) = cluster.tell(ev.PodSeen(pod("first")))
    assert bind.chips == (0, 1, 2, 3)
