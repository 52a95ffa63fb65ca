"""N8: who holds which chips, whatever annotations a pod carries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind
from ringwise.state.model import Pod, Toleration
from ringwise.topology.chips import chips_of, mask_of
from ringwise.wellknown import ASCEND_REAL, IS_SHARED_TOR, KUBELET_DEVICES, PREDICATE_TIME, SUPER_POD_RANK
from tests.builders.values import CHIP, SECOND, node, pod, pod_class, report, seen
from tests.scheduler.rig import configuration


class Cluster:
    """One node of 8 chips; bindings come back as the API server would report them."""

    def __init__(self, **settings: Any) -> None:
        self.scheduler = new_scheduler(configuration(**settings))
        self.now = 1000 * SECOND
        self.tell(node())

    def tell(self, *known: object) -> list[Bind]:
        self.now += SECOND
        return [one for one in self.scheduler.handle(seen(*known), self.now) if isinstance(one, Bind)]

    def held(self, uid: str) -> tuple[int, ...]:
        return chips_of(self.scheduler.view.cluster.pods[uid].chips)


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
        4,
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
    (bind,) = cluster.tell(copied)
    assert bind.chips == (0, 1, 2, 3)
    assert bind.remove == tuple(sorted((ASCEND_REAL, KUBELET_DEVICES, IS_SHARED_TOR, SUPER_POD_RANK)))
    assert {CHIP, PREDICATE_TIME} <= set(bind.annotations)
    assert cluster.tell(bound(copied, bind)) == []
    assert cluster.held("copy") == (0, 1, 2, 3)
    (second,) = cluster.tell(pod("second", 4))
    assert second.chips == (4, 5, 6, 7)


@pytest.mark.parametrize("where", [CHIP, ASCEND_REAL])
def test_N8_an_edited_annotation_frees_no_chip_of_a_live_pod(where: str) -> None:
    cluster = Cluster()
    (bind,) = cluster.tell(pod("first", 4))
    running = replace(bound(pod("first", 4), bind), phase="Running")
    cluster.tell(running)
    lie = (4, 5, 6, 7)
    edited = replace(running, holds=lie) if where == CHIP else replace(running, mounted=lie)
    cluster.tell(edited)
    assert set(cluster.held("first")) >= {0, 1, 2, 3}
    binds = cluster.tell(pod("second", 4))
    assert all(not set(one.chips) & {0, 1, 2, 3} for one in binds)
    cluster.tell(ev.PodGone("first"))
    assert cluster.scheduler.view.inconsistencies() == []


def test_N8_a_removed_annotation_frees_nothing_either() -> None:
    cluster = Cluster()
    (bind,) = cluster.tell(pod("first", 4))
    cluster.tell(bound(pod("first", 4), bind))
    cluster.tell(pod("first", 4, on="n1"))
    assert cluster.held("first") == (0, 1, 2, 3)


@pytest.mark.parametrize(
    "change", [{"tolerations": (Toleration("any"),)}, {"cpu_milli": 100}, {"memory": 1 << 20}]
)
def test_N8_an_edited_spec_frees_no_chip_of_a_live_pod(change: dict[str, Any]) -> None:
    """Tolerations are added and processor and memory resized in a running pod, with its annotations."""
    cluster = Cluster()
    (bind,) = cluster.tell(pod("first", 4))
    running = replace(bound(pod("first", 4), bind), phase="Running")
    cluster.tell(running)
    cluster.tell(replace(running, cls=pod_class(4, **change), holds=(4, 5, 6, 7)))
    assert cluster.held("first") == (0, 1, 2, 3)
    (second,) = cluster.tell(pod("second", 4))
    assert second.chips == (4, 5, 6, 7)
    assert cluster.scheduler.view.inconsistencies() == []


def test_N8_after_a_restart_both_lists_count_as_first_read() -> None:
    cluster = Cluster()
    cluster.tell(pod("old", 4, on="n1", holds=(0, 1, 2, 3), mounted=(4, 5, 6, 7)))
    assert cluster.held("old") == tuple(range(8))


def test_N8_guarded_the_mounted_chips_stand_for_the_pod() -> None:
    cluster = Cluster(owned_annotations="guarded")
    (bind,) = cluster.tell(pod("first", 4))
    cluster.tell(replace(bound(pod("first", 4), bind), mounted=(4, 5, 6, 7)))
    assert cluster.held("first") == (4, 5, 6, 7)


@pytest.mark.parametrize("owned", ["open", "guarded"])
def test_N8_the_report_of_our_device_plugin_stands_for_the_pod(owned: str) -> None:
    cluster = Cluster(owned_annotations=owned)
    (bind,) = cluster.tell(pod("first", 4))
    here = bound(pod("first", 4), bind)
    cluster.tell(here)
    told = report("n1", range(4), network_unhealthy=None, mounted={"first": mask_of((4, 5, 6, 7))})
    cluster.tell(told)
    assert cluster.held("first") == (4, 5, 6, 7)
    # An annotation does not change that, and another report does not free the chips.
    cluster.tell(replace(here, mounted=(0, 1, 2, 3)))
    assert cluster.held("first") == (4, 5, 6, 7)
    cluster.tell(replace(told, mounted={}))
    assert set(cluster.held("first")) >= {4, 5, 6, 7}


@pytest.mark.parametrize("ended", [False, True])
def test_N8_a_pod_that_vanishes_before_it_ended_keeps_its_chips_until_a_report_without_it(
    ended: bool,
) -> None:
    """Deleted by force its container may still run. One that was seen to end has none."""
    cluster = Cluster()
    (bind,) = cluster.tell(pod("old", 8))
    old = replace(bound(pod("old", 8), bind), phase="Running")
    told = report("n1", network_unhealthy=None, mounted={"old": 0xFF})
    assert not cluster.tell(old, told)
    if ended:
        cluster.tell(replace(old, phase="Succeeded"))
    binds = cluster.tell(ev.PodGone("old"), pod("new", 4))
    assert bool(binds) is ended
    # Nor after a restart of the scheduler, which only has the report.
    again = Cluster()
    assert not again.tell(told, pod("new", 4))
    # Part of it has ended.
    half = replace(told, free=0xF0, mounted={"old": 0x0F})
    for one in (cluster, again)[ended:]:
        (bind,) = one.tell(half)
        assert bind.chips == (4, 5, 6, 7)
        assert one.tell(replace(bound(pod("new", 4), bind), phase="Running")) == []
        (bind,) = one.tell(pod("last", 4), replace(told, free=0x0F, mounted={"new": 0xF0}))
        assert bind.chips == (0, 1, 2, 3)
        assert one.scheduler.view.inconsistencies() == []


def test_N8_a_report_that_comes_before_its_pods_withholds_nothing_for_long() -> None:
    cluster = Cluster()
    cluster.tell(report("n1", network_unhealthy=None, mounted={"old": 0x0F, "gone": 0xF0}))
    cluster.tell(pod("old", 4, on="n1", phase="Succeeded"))
    (bind,) = cluster.tell(pod("new", 4))
    assert bind.chips == (0, 1, 2, 3)
    cluster.tell(ev.ReportGone("n1", aggregated=False))
    (bind,) = cluster.tell(pod("next", 4))
    assert bind.chips == (4, 5, 6, 7)
    assert cluster.scheduler.view.inconsistencies() == []


def test_N8_a_report_that_is_older_than_its_node_counts() -> None:
    cluster = Cluster()
    told = report("n2", network_unhealthy=None, mounted={"gone": 0xFF})
    cluster.tell(ev.NodeGone("n1"), told)
    assert not cluster.tell(node("n2"), pod("new", 4))
    # Another node that takes its place in the tables has chips of its own.
    cluster.tell(ev.NodeGone("n2"))
    assert cluster.tell(node("n3"))
    assert cluster.scheduler.view.inconsistencies() == []


DOUBTFUL = report("n1", network_unhealthy=None, doubtful={"first": mask_of((0, 1, 2, 3, 6, 7))})


@pytest.mark.parametrize("owned", ["open", "guarded"])
@pytest.mark.parametrize("report_first", [False, True])
def test_N8_doubtful_chips_go_to_nobody_until_the_pod_ends(owned: str, report_first: bool) -> None:
    """A pod from before the device plugin: its owner edited AscendReal, and the scheduler starts anew."""
    cluster = Cluster(owned_annotations=owned)
    edited = pod("first", 4, on="n1", holds=(4, 5, 6, 7), mounted=(4, 5, 6, 7))
    events = [edited, DOUBTFUL]
    cluster.tell(*(reversed(events) if report_first else events))
    # The pod itself holds what it did: a fault of another chip is not its own.
    assert cluster.held("first") == (4, 5, 6, 7)
    assert cluster.tell(pod("second", 4)) == []
    # Neither an annotation nor another report takes it back, nor a change of the spec.
    cluster.tell(replace(edited, mounted=(4,), cls=pod_class(4, cpu_milli=100)))
    assert cluster.tell(replace(DOUBTFUL, doubtful={})) == []
    assert cluster.tell(ev.ReportGone("n1", aggregated=False)) == []
    assert cluster.scheduler.view.inconsistencies() == []
    (bind,) = cluster.tell(replace(edited, phase="Succeeded"))
    assert bind.chips == (0, 1, 2, 3)
    assert cluster.scheduler.view.inconsistencies() == []


def test_N8_a_mount_that_is_reported_ends_the_doubt() -> None:
    cluster = Cluster()
    cluster.tell(pod("first", 4, on="n1", holds=(4, 5, 6, 7)))
    cluster.tell(DOUBTFUL)
    assert cluster.tell(pod("second", 4)) == []
    (bind,) = cluster.tell(replace(DOUBTFUL, doubtful={}, mounted={"first": mask_of(range(4))}))
    assert bind.chips == (4, 5, 6, 7)


def test_N8_doubtful_chips_of_kubelet_s_ids_do_not_make_a_pod_s_chips_known() -> None:
    """Nothing names the chips of a pod that another scheduler bound: its node stays closed (N7)."""
    cluster = Cluster()
    cluster.tell(pod("first", 4, on="n1", scheduler="other"))
    cluster.tell(DOUBTFUL)
    assert cluster.tell(pod("one")) == []
    assert set(cluster.scheduler.view.cluster.fleets[CHIP].unknown_holders[0]) == {"default/first"}


def test_N7_a_pod_that_names_some_of_its_chips_closes_its_node_until_it_names_all() -> None:
    cluster = Cluster()
    cluster.tell(pod("first", 4, on="n1", scheduler="other", holds=(4, 5)))
    one = pod("one")
    assert cluster.tell(one) == []
    fleet = cluster.scheduler.view.cluster.fleets[CHIP]
    assert fleet.unknown_holders == {0: {"default/first": 2}}
    # What it named first stays its own (N8).
    (bind,) = cluster.tell(pod("first", 4, on="n1", scheduler="other", holds=(0, 1, 6, 7)))
    assert cluster.held("first") == (0, 1, 4, 5, 6, 7)
    assert bind.chips[0] in (2, 3)
    assert not fleet.unknown_holders
    assert cluster.scheduler.view.inconsistencies() == []


def test_N8_doubtful_chips_of_a_pod_without_chips_or_elsewhere_hold_nothing() -> None:
    cluster = Cluster()
    cluster.tell(pod("cpu", 0, uid="first", cpu_milli=100, on="n1"))
    cluster.tell(pod("away", 4, on="n2", holds=(0, 1, 2, 3)))
    cluster.tell(replace(DOUBTFUL, doubtful={"first": 0xFF, "away": 0xFF, "unknown": 0xFF}))
    (bind,) = cluster.tell(pod("second", 4))
    assert bind.chips == (0, 1, 2, 3)


def test_N8_a_pod_that_asks_for_no_chips_holds_none_and_closes_no_node() -> None:
    cluster = Cluster()
    cluster.tell(pod("cpu", 0, cpu_milli=100, on="n1", holds=range(8)))
    assert cluster.held("cpu") == ()
    (bind,) = cluster.tell(pod("first", 4))
    assert bind.chips == (0, 1, 2, 3)
