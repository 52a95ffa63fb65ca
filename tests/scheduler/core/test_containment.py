"""A plugin that fails, or a job that makes one fail, harms no other job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.framework.configuration import Configuration, PluginOption, Tier
from ringwise.framework.extension_points import (
    JOB_ORDER,
    JOB_PLAN,
    JOB_READY,
    JOB_VALID,
    OVERUSED,
    QUEUE_ORDER,
    ExtensionPoint,
)
from ringwise.framework.job import Job
from ringwise.framework.registry import PluginSpec
from ringwise.framework.session import Session
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.defaults import BUILT_IN, default_configuration
from ringwise.state.model import Node, Pod, PodClass, Queue

RESOURCE = "huawei.com/Ascend910"


class Grumbler:
    """A plugin that fails at one extension point: for one job, or for all."""

    point: ExtensionPoint[Any] = JOB_VALID
    victim = "bad"

    def __init__(self, option: PluginOption) -> None:
        pass

    def open(self, session: Session) -> None:
        session.register(self.point, self.answer)

    def answer(self, *asked: object) -> object:
        about = asked[0]
        name = about.name if isinstance(about, (Job, Queue)) else ""
        if name in (self.victim, "default"):
            raise RuntimeError("grumble")
        if self.point is JOB_READY:
            return True
        return 0 if self.point in (JOB_ORDER, QUEUE_ORDER) else None


def configuration_with(plugin: str) -> Configuration:
    base = default_configuration()
    return replace(base, tiers=(*base.tiers, Tier((PluginOption.of(plugin),))))


def run(point: ExtensionPoint[Any]) -> tuple[Scheduler, list[str]]:
    grumbler = type("Grumbler", (Grumbler,), {"point": point})
    registry = BUILT_IN.with_specs([PluginSpec("grumbler", "", grumbler)])
    scheduler = Scheduler(configuration_with("grumbler"), registry=registry)
    events: list[ev.Event] = [ev.NodeSeen(Node("node-1", chips_allocatable={RESOURCE: 8}))]
    events += [
        ev.PodSeen(Pod(name, "x", name, PodClass(RESOURCE, 1), chip_containers=1))
        for name in ("a", "bad", "b")
    ]
    commands = scheduler.handle(events, 1)
    return scheduler, [command.pod for command in commands if isinstance(command, Bind)]


@pytest.mark.parametrize("point", [JOB_VALID, JOB_ORDER, JOB_PLAN, JOB_READY])
def test_a_plugin_that_fails_for_one_job_stops_only_that_job(point: ExtensionPoint[Any]) -> None:
    scheduler, bound = run(point)
    assert [name for name in bound if name != "bad"] == ["a", "b"]
    assert "bad" not in bound
    reason = scheduler.view.jobs["x/pod:bad"].reason
    assert reason is not None
    assert "grumbler" in reason.message
    assert scheduler.view.incidents
    assert scheduler.view.incidents[0].where == "plugin grumbler"
    assert scheduler.view.inconsistencies() == []


def test_a_plugin_that_fails_for_every_job_leaves_the_tables_consistent() -> None:
    scheduler, bound = run(OVERUSED)
    assert bound == []
    assert {job.reason.code for job in scheduler.view.jobs.values() if job.reason} == {"internal-error"}
    assert scheduler.view.inconsistencies() == []


def test_a_plugin_that_cannot_open_is_reported_and_left_out() -> None:
    def build(option: PluginOption) -> Grumbler:
        raise ValueError("no")

    registry = BUILT_IN.with_specs([PluginSpec("grumbler", "", build)])
    scheduler = Scheduler(configuration_with("grumbler"), registry=registry)
    scheduler.handle([ev.NodeSeen(Node("node-1", chips_allocatable={RESOURCE: 8}))], 1)
    commands = scheduler.handle([ev.PodSeen(Pod("a", "x", "a", PodClass(RESOURCE, 1), chip_containers=1))], 2)
    assert any(isinstance(command, Bind) for command in commands)
    assert [incident.where for incident in scheduler.view.incidents] == ["plugin grumbler"]


def test_a_new_configuration_activates_every_pending_job() -> None:
    """Without `allocate` a job stays pending; with it, the job starts although nothing else changed."""
    without = replace(default_configuration(), actions=("enqueue",))
    scheduler = new_scheduler(without)
    events: list[ev.Event] = [
        ev.NodeSeen(Node("node-1", chips_allocatable={RESOURCE: 8})),
        ev.PodSeen(Pod("a", "x", "a", PodClass(RESOURCE, 1), chip_containers=1)),
    ]
    assert not any(isinstance(command, Bind) for command in scheduler.handle(events, 1))
    commands = scheduler.handle([ev.ConfigurationSeen(default_configuration())], 2)
    assert [command.pod for command in commands if isinstance(command, Bind)] == ["a"]


def test_ended_pods_need_no_pod_group() -> None:
    scheduler = new_scheduler()
    ended = Pod("a", "x", "a", PodClass(RESOURCE, 1), phase="Succeeded", node="node-1", group="gone")
    scheduler.handle([ev.NodeSeen(Node("node-1", chips_allocatable={RESOURCE: 8})), ev.PodSeen(ended)], 1)
    assert scheduler.view.jobs["x/gone"].reason is None
