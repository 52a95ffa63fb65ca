"""One object that raises affects no other. No reader lets such objects through; the controller goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from ringwise.controller.machine import Controller
from ringwise.controller.pod_groups import PodGroupController
from ringwise.messages import events as ev
from ringwise.messages.commands import (
    Command,
    CreateGroup,
    CreatePod,
    RecordQueueEvent,
    RecordVcJobEvent,
    SetAside,
    UpdateQueue,
)
from ringwise.messages.job_expansion import pod_group_of
from ringwise.state.model import Owner, Pod, PodClass, Queue
from ringwise.state.workload import PodOwner
from tests.builders.values import group, job_of, pod, seen

#: Where a mapping is expected.
HOSTILE = cast(Any, 7)
JOB = job_of(name="good")
ADMITTED = ev.PodGroupSeen(replace(pod_group_of(JOB), phase="Inqueue"))


def forked_queries(commands: list[Command]) -> list[tuple[str, str]]:
    return [(one.kind, one.key) for one in commands if isinstance(one, SetAside)]


@pytest.mark.parametrize(
    ("event", "named"),
    [
        (ev.PodSeen(pod("bad", 0, uid="u", annotations=HOSTILE)), ("Pod", "default/bad")),
        (
            ev.VcJobSeen(replace(job_of(name="bad"), annotations=HOSTILE, tasks=HOSTILE)),
            ("Job", "default/bad"),
        ),
        (ev.PodGroupSeen(group("bad", queue=cast(Any, []))), ("PodGroup", "default/bad")),
        (ev.QueueSeen(Queue("bad", parent=cast(Any, []))), ("Queue", "bad")),
        (ev.QueueSeen(Queue("bad", annotations=HOSTILE)), ("Queue", "bad")),
        (
            ev.PodOwnerSeen(PodOwner("ReplicaSet", "default", "bad", cast(Any, []))),
            ("ReplicaSet", "default/bad"),
        ),
    ],
)
def test_an_event_that_raises_is_told_and_the_others_count(event: ev.Event, named: tuple[str, str]) -> None:
    controller = Controller(PodGroupController())
    commands = controller.handle(seen(event, JOB, ADMITTED, Queue("blue")), 0)
    assert named in forked_queries(commands)
    assert [made.job for made in commands if isinstance(made, CreatePod)] == ["default/good"] * 2
    asked = controller.handle([event, ev.QueueCommand("blue", "CloseQueue")], 1)
    assert [(one.name, one.state) for one in asked if isinstance(one, UpdateQueue)] == [("blue", "Closed")]


def test_a_command_for_a_queue_that_raises_leaves_the_other_commands() -> None:
    controller = Controller()
    bad = Queue("bad", annotations=HOSTILE, uid="q7")
    first = controller.handle(seen(bad, Queue("blue")), 0)
    assert [one.uid for one in first if isinstance(one, SetAside)] == ["q7"]
    commands = controller.handle(
        [ev.QueueCommand("bad", "CloseQueue"), ev.QueueCommand("blue", "CloseQueue")], 1
    )
    assert [one.name for one in commands if isinstance(one, UpdateQueue)] == ["blue"]
    # It is corrected: the same queue can be closed.
    controller.handle(seen(replace(bad, annotations={})), 2)
    commands = controller.handle([ev.QueueCommand("bad", "CloseQueue")], 3)
    assert [one.name for one in commands if isinstance(one, UpdateQueue)] == ["bad"]


def test_a_pod_group_that_raises_leaves_the_others() -> None:
    def pod(name: str, labels: Any) -> Pod:
        owner = Owner("Custom", name, f"uid-{name}", "example.com/v1")
        return Pod(name, "default", name, PodClass(), labels=labels, owner=owner)

    bad = replace(pod("bad", {}), created=cast(Any, "x"))
    other = replace(bad, uid="bad-2", name="bad-2", created=1)
    commands = Controller(PodGroupController()).handle(map(ev.PodSeen, [bad, other, pod("good", {})]), 0)
    assert ("PodGroup", "default/podgroup-uid-bad") in forked_queries(commands)
    assert [one.group.name for one in commands if isinstance(one, CreateGroup)] == ["podgroup-uid-good"]


def test_a_command_for_a_job_that_raises_or_is_deleted_is_told() -> None:
    controller = Controller()
    bad, gone = job_of(name="bad", plugins={"ssx": ()}), replace(job_of(name="gone"), deleting=True)
    group = ev.PodGroupSeen(replace(pod_group_of(bad), phase="Inqueue"))
    events: list[ev.Event] = [ev.VcJobSeen(bad), ev.VcJobSeen(gone), group]
    commands = controller.handle(
        [*events, ev.JobCommand("default/bad", "Dance"), ev.JobCommand("default/gone", "AbortJob")], 0
    )
    told = {one.key: one for one in commands if isinstance(one, RecordVcJobEvent)}
    assert told["default/gone"].message == "Command AbortJob has no effect: the job is being deleted"
    assert told["default/bad"].message.startswith("Command Dance has no effect: ")
    assert all(one.warning for one in told.values())
    assert not [one for one in commands if isinstance(one, RecordQueueEvent)]
