"""V16: chips on which a vNPU could not be created."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, DeletePod
from ringwise.messages.events import Decide
from ringwise.scheduler.core.machine import Scheduler
from ringwise.state.model import Owner, Pod
from ringwise.wellknown import NO_NPU_RESOURCE, SEGMENT_FAILED
from tests.builders.records import written_tables
from tests.builders.values import SECOND
from tests.place.part_cases import NOW, events_of, node_object, pod_object, report_object

CORE = "huawei.com/npu-core"
NODE = {
    "name": "n1",
    "labels": {
        "accelerator": "huawei-Ascend310P",
        "servertype": "Ascend310P-8",
        "node.kubernetes.io/npu.chip.name": "310P3",
    },
    "capacities": {CORE: 16},
    "device_info": {"huawei.com/Ascend310P": "Ascend310P-0,Ascend310P-1"},
    "pods": [],
}
RING = {"ring-controller.atlas": "ascend-310P"}


def waiting(name: str) -> Pod:
    event = events_of([pod_object(name, name, {CORE: "1"}, annotations={}, labels=RING)])[0]
    assert isinstance(event, ev.PodSeen)
    return event.pod


def cluster() -> Scheduler:
    scheduler = new_scheduler()
    scheduler.handle(events_of([node_object(NODE, None), report_object(NODE, None)]), NOW, Decide.NOTHING)
    return scheduler


def chip_of(scheduler: Scheduler, name: str, now: int) -> str:
    """Where a new pod is bound; it is removed again."""
    commands = scheduler.handle([ev.PodSeen(waiting(name))], now)
    found = [one.annotations[CORE] for one in commands if isinstance(one, Bind)]
    scheduler.handle([ev.PodGone(name)], now)
    return found[0]


def rejected(scheduler: Scheduler, now: int, error: str, **more: Any) -> Pod:
    """A pod that was bound, and that kubelet rejected."""
    pod = waiting("first")
    bind = next(one for one in scheduler.handle([ev.PodSeen(pod)], now) if isinstance(one, Bind))
    bound = replace(pod, node=bind.node, annotations={**pod.annotations, **bind.annotations})
    scheduler.handle([ev.PodSeen(bound)], now, Decide.NOTHING)
    failed = replace(bound, phase="Failed", rejected="UnexpectedAdmissionError", allocate_error=error, **more)
    scheduler.handle([ev.PodSeen(failed)], now)
    return failed


@pytest.mark.parametrize(
    ("error", "edited", "after"),
    [
        (SEGMENT_FAILED, False, "1-vir01"),
        (NO_NPU_RESOURCE, False, "1-vir01"),
        ("", False, "0-vir01"),
        # Its owner edited the annotation.
        (SEGMENT_FAILED, True, "0-vir01"),
    ],
)
def test_V16_the_chip_is_avoided_for_600_seconds(error: str, edited: bool, after: str) -> None:
    scheduler = cluster()
    more: dict[str, Any] = {"annotations": {CORE: "1-vir01"}} if edited else {}
    rejected(scheduler, NOW, error, **more)
    scheduler.handle([ev.PodGone("first")], NOW)
    assert chip_of(scheduler, "second", NOW + SECOND) == after
    assert chip_of(scheduler, "third", NOW + 600 * SECOND - 1) == after
    assert chip_of(scheduler, "fourth", NOW + 600 * SECOND) == "0-vir01"


def test_V16_another_template_is_not_avoided() -> None:
    scheduler = cluster()
    rejected(scheduler, NOW, SEGMENT_FAILED)
    failed = scheduler.view.cluster.failed_vnpus
    assert {node: dict(one) for node, one in failed.items()} == {"n1": {(0, "vir01"): NOW}}


@pytest.mark.parametrize("still_there", [True, False])
def test_V16_F1_the_next_leader_avoids_it_as_long(still_there: bool) -> None:
    scheduler = cluster()
    pod = waiting("first")
    commands = scheduler.handle([ev.PodSeen(pod)], NOW)
    bind = next(one for one in commands if isinstance(one, Bind))
    bound = replace(pod, node=bind.node, annotations={**pod.annotations, **bind.annotations})
    failed = replace(
        bound, phase="Failed", rejected="UnexpectedAdmissionError", allocate_error=SEGMENT_FAILED
    )
    commands = scheduler.handle([ev.PodSeen(bound), ev.PodSeen(failed)], NOW)
    following = cluster()
    read = ev.LeaderRecordRead(written_tables(commands), takes_over=True)
    following.handle([*([ev.PodSeen(failed)] if still_there else []), read], NOW + 300 * SECOND)
    assert chip_of(following, "second", NOW + 599 * SECOND) == "1-vir01"
    assert chip_of(following, "third", NOW + 600 * SECOND) == "0-vir01"


def test_V16_a_job_that_waits_for_the_chip_is_tried_again() -> None:
    scheduler = cluster()
    one_chip = {**NODE, "device_info": {"huawei.com/Ascend310P": "Ascend310P-0"}}
    scheduler.handle(events_of([report_object(one_chip, None)]), NOW, Decide.NOTHING)
    rejected(scheduler, NOW, NO_NPU_RESOURCE)
    scheduler.handle([ev.PodGone("first")], NOW)
    commands = scheduler.handle([ev.PodSeen(waiting("second"))], NOW + SECOND)
    assert not [one for one in commands if isinstance(one, Bind)]
    due = scheduler.next_deadline()
    assert due is not None
    assert due <= NOW + 600 * SECOND
    assert [type(one) for one in scheduler.handle([], NOW + 600 * SECOND) if isinstance(one, Bind)] == [Bind]


@pytest.mark.parametrize(("owned", "deleted"), [(True, ["first"]), (False, [])])
def test_V16_the_pod_is_made_again_if_it_has_an_owner(owned: bool, deleted: list[str]) -> None:
    scheduler = cluster()
    owner = Owner("ReplicaSet", "serve", "u1", "apps/v1") if owned else None
    rejected(scheduler, NOW, SEGMENT_FAILED, owner=owner)
    commands = scheduler.handle([], NOW + 2 * SECOND)
    assert [one.pod for one in commands if isinstance(one, DeletePod)] == deleted
