"""Pods that go because of a drain: the event on the PodGroup names it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.messages.commands import RecordJobEvent
from ringwise.state.model import Isolation
from tests.builders.values import SECOND, group, isolated, node, pod, seen


def told(*before: object, count: int = 1, times: int = 1) -> list[str]:
    scheduler = new_scheduler()
    running = [pod(f"train-{at}", on="n1", group="train", holds=[at]) for at in range(count)]
    gang = group("train", count, phase="Running")
    scheduler.handle(seen(node("n1", superpod=3), gang, *running, *before), SECOND)
    found = []
    for turn in range(times):
        leaving = [replace(pod, deleting=True) for pod in running]
        for command in scheduler.handle(seen(*leaving), (2 + turn) * SECOND):
            if isinstance(command, RecordJobEvent) and command.reason == "Drained":
                assert command.key == "default/train"
                found.append(command.message)
    return found


@pytest.mark.parametrize(
    ("isolation", "message"),
    [
        (Isolation("n1", by="alice", reason="drain"), "n1 is drained by alice"),
        (Isolation(superpod=3, reason="drain"), "n1 is drained with superpod/3"),
    ],
)
def test_a_pod_that_is_deleted_on_a_drained_node(isolation: Isolation, message: str) -> None:
    assert told(isolated(isolation), times=2) == [f"train-0 must be evicted: {message}"]


def test_a_pod_that_is_deleted_on_a_cordoned_node() -> None:
    assert told(node("n1", unschedulable=True), count=5) == [
        "train-0, train-1, train-2 and 2 more must be evicted: n1 is cordoned"
    ]


@pytest.mark.parametrize(
    "isolation",
    [
        Isolation("n1", reason="bad fan"),
        Isolation("n2", reason="drain"),
        Isolation("n1", ("Ascend910-0",), reason="drain"),
        Isolation("n1", reason="drain", start=10**20),
    ],
)
def test_other_deletions_are_no_drain(isolation: Isolation) -> None:
    assert told(isolated(isolation)) == []
