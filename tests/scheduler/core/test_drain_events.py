"""Pods that go because of a drain: the event on the PodGroup names it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.messages import events as ev
from ringwise.messages.commands import RecordJobEvent
from ringwise.state.model import Isolation, Isolations, Node, Pod, PodClass, PodGroup
from ringwise.wellknown import ASCEND910, HOSTNAME

SECOND = 1_000_000_000
CLASS = PodClass(resource=ASCEND910, chips=1, cpu_milli=1_000, memory=1 << 30)


def node(name: str, *, unschedulable: bool = False) -> Node:
    return Node(
        name,
        labels={HOSTNAME: name},
        chips_allocatable={ASCEND910: 8},
        cpu_milli=96_000,
        memory=1 << 39,
        max_pods=110,
        superpod=3,
        unschedulable=unschedulable,
    )


def pods(count: int) -> list[Pod]:
    return [
        Pod(
            f"uid-{index}",
            "default",
            f"train-{index}",
            CLASS,
            node="node-1",
            phase="Running",
            group="train",
            chip_containers=1,
            annotations={ASCEND910: f"Ascend910-{index}"},
        )
        for index in range(count)
    ]


def told(*before: ev.Event, count: int = 1, times: int = 1) -> list[str]:
    scheduler = new_scheduler()
    running = pods(count)
    group = PodGroup("default", "train", uid="train", min_member=count, phase="Running")
    scheduler.handle(
        [
            ev.NodeSeen(node("node-1")),
            ev.PodGroupSeen(group),
            *(ev.PodSeen(pod) for pod in running),
            *before,
        ],
        SECOND,
    )
    found = []
    for turn in range(times):
        leaving = [ev.PodSeen(replace(pod, deleting=True)) for pod in running]
        for command in scheduler.handle(leaving, (2 + turn) * SECOND):
            if isinstance(command, RecordJobEvent) and command.reason == "Drained":
                assert command.key == "default/train"
                found.append(command.message)
    return found


@pytest.mark.parametrize(
    ("isolation", "message"),
    [
        (Isolation("node-1", by="alice", reason="drain"), "node-1 is drained by alice"),
        (Isolation("", superpod="3", reason="drain"), "node-1 is drained with superpod/3"),
    ],
)
def test_a_pod_that_is_deleted_on_a_drained_node(isolation: Isolation, message: str) -> None:
    event = ev.IsolationsSeen(Isolations((isolation,)))
    assert told(event, times=2) == [f"train-0 has to go: {message}"]


def test_a_pod_that_is_deleted_on_a_cordoned_node() -> None:
    cordoned = ev.NodeSeen(node("node-1", unschedulable=True))
    assert told(cordoned, count=5) == ["train-0, train-1, train-2 and 2 more have to go: node-1 is cordoned"]


@pytest.mark.parametrize(
    "isolation",
    [
        Isolation("node-1", reason="bad fan"),
        Isolation("node-2", reason="drain"),
        Isolation("node-1", chip="Ascend910-0", number=0, reason="drain"),
        Isolation("node-1", reason="drain", start=10**20),
    ],
)
def test_other_deletions_are_no_drain(isolation: Isolation) -> None:
    assert told(ev.IsolationsSeen(Isolations((isolation,)))) == []
