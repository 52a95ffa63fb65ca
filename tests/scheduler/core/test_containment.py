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
from ringwise.messages.commands import Bind, SetAside
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.defaults import BUILT_IN, default_configuration
from ringwise.scheduler.explain.doctor import diagnose
from ringwise.state.model import Node, Pod, PodClass, PodGroup, Queue
from ringwise.wellknown import SCHEDULE_MIN_AVAILABLE

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


# -- objects that raise ---------------------------------------------------------------------------


def told(scheduler: Scheduler, *events: ev.Event, now: int) -> list[Any]:
    return scheduler.handle(events, now)


def a_node(name: str, chips: Any = 8) -> Node:
    return Node(name, chips_allocatable={RESOURCE: chips}, chips_capacity={RESOURCE: 8}, max_pods=100)


def a_pod(name: str, **fields: Any) -> Pod:
    return replace(Pod(name, "ns", name, PodClass(resource=RESOURCE, chips=8), created=1), **fields)


def test_a_number_with_thousands_of_digits_refuses_its_job_and_no_other() -> None:
    scheduler = new_scheduler()
    group = PodGroup("ns", "bad", annotations={SCHEDULE_MIN_AVAILABLE: "9" * 4301})
    commands = told(
        scheduler,
        ev.NodeSeen(a_node("n1")),
        ev.PodGroupSeen(group),
        ev.PodSeen(a_pod("member", group="bad")),
        ev.PodSeen(a_pod("good")),
        now=1,
    )
    assert [one.pod for one in commands if isinstance(one, Bind)] == ["good"]
    reason = scheduler.view.jobs["ns/bad"].reason
    assert reason is not None
    assert reason.code == "malformed-job"
    assert "from 0 to 2147483647" in reason.message
    assert len(reason.message) < 300


def test_a_node_that_raises_keeps_its_last_good_version_and_is_reported_once() -> None:
    scheduler = new_scheduler()
    told(scheduler, ev.NodeSeen(a_node("n1")), ev.NodeSeen(a_node("n2")), now=1)
    bad = ev.NodeSeen(a_node("n1", chips="many"))
    commands = told(scheduler, bad, ev.PodSeen(a_pod("one")), ev.PodSeen(a_pod("two")), now=2)
    assert sorted(one.node for one in commands if isinstance(one, Bind)) == ["n1", "n2"]
    assert [(one.kind, one.key) for one in commands if isinstance(one, SetAside)] == [("Node", "n1")]
    assert scheduler.view.inconsistencies() == []
    assert not [one for one in told(scheduler, bad, now=3) if isinstance(one, SetAside)]
    assert [(kind, key) for kind, key, _ in scheduler.view.set_aside] == [("Node", "n1")]
    told(scheduler, ev.NodeSeen(a_node("n1")), now=4)
    assert scheduler.view.set_aside == []


def test_a_pod_that_raises_is_left_out_or_stays_as_it_was() -> None:
    scheduler = new_scheduler()
    (bind,) = [
        one
        for one in told(scheduler, ev.NodeSeen(a_node("n1")), ev.PodSeen(a_pod("one")), now=1)
        if isinstance(one, Bind)
    ]
    wrong: Any = ("zero",)
    commands = told(
        scheduler,
        ev.PodSeen(a_pod("one", node="n1", holds=bind.chips, mounted=wrong)),
        ev.PodSeen(a_pod("stranger", node="n1", holds=wrong)),
        now=2,
    )
    assert sorted(one.key for one in commands if isinstance(one, SetAside)) == ["ns/one", "ns/stranger"]
    # The binding under way still holds its chips; the pod that was never readable closes the node.
    assert scheduler.view.cluster.pods["one"].chips == 0xFF
    assert scheduler.view.cluster.pods["stranger"].pod.unreadable
    assert scheduler.view.inconsistencies() == []


def test_a_node_that_comes_and_goes_before_a_cycle_does_no_harm() -> None:
    scheduler = new_scheduler()
    told(scheduler, ev.NodeSeen(a_node("n1")), ev.PodSeen(a_pod("one")), now=1)
    commands = told(
        scheduler,
        ev.NodeSeen(a_node("n2")),
        ev.NodeGone("n2"),
        ev.NodeSeen(a_node("n3")),
        ev.PodSeen(a_pod("two")),
        now=2,
    )
    assert [one.node for one in commands if isinstance(one, Bind)] == ["n3"]


def test_n7_a_live_bound_pod_that_always_raised_closes_its_node_until_it_is_gone() -> None:
    scheduler = new_scheduler()
    bad = a_pod("bad", node="n1", phase="Running", holds=("zero",))
    commands = told(scheduler, ev.NodeSeen(a_node("n1")), ev.PodSeen(bad), ev.PodSeen(a_pod("one")), now=1)
    assert not [one for one in commands if isinstance(one, Bind)]
    assert [(one.kind, one.key) for one in commands if isinstance(one, SetAside)] == [("Pod", "ns/bad")]
    cluster = scheduler.view.cluster
    closed = cluster.fleets[RESOURCE].closed[cluster.node_id["n1"]]
    assert closed is not None
    assert closed.message == (
        "pod ns/bad on n1 cannot be read and may use chips, so n1 takes no new NPU pod until it is "
        "corrected or gone"
    )
    assert "unreadable-pod" in {finding.code for finding in diagnose(scheduler.view).findings}
    assert scheduler.view.inconsistencies() == []
    commands = told(scheduler, ev.PodGone("bad"), now=2)
    assert [one.pod for one in commands if isinstance(one, Bind)] == ["one"]
    assert scheduler.view.inconsistencies() == []


def test_n7_a_pod_that_raises_since_another_scheduler_bound_it_closes_its_node() -> None:
    """Its last good version has no node and says nothing about its chips."""
    scheduler = new_scheduler()
    told(scheduler, ev.PodSeen(a_pod("bad")), now=1)
    bound = a_pod("bad", node="n1", phase="Running", holds=("zero",))
    commands = told(scheduler, ev.NodeSeen(a_node("n1")), ev.PodSeen(bound), ev.PodSeen(a_pod("one")), now=2)
    assert not [one for one in commands if isinstance(one, Bind)]
    assert "unreadable-pod" in {finding.code for finding in diagnose(scheduler.view).findings}
    assert scheduler.view.inconsistencies() == []
