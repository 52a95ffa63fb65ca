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
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, SetAside
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.defaults import BUILT_IN, default_configuration
from ringwise.scheduler.explain.doctor import diagnose
from ringwise.state.model import Queue
from ringwise.wellknown import SCHEDULE_MIN_AVAILABLE
from tests.builders.values import CHIP, group, node, pod, seen
from tests.scheduler.rig import bound_pods


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
    scheduler = Scheduler(configuration_with("grumbler"), registry=registry, catalog=shipped_catalog())
    commands = scheduler.handle(seen(node(), *map(pod, ("a", "bad", "b"))), 1)
    return scheduler, bound_pods(commands)


@pytest.mark.parametrize("point", [JOB_VALID, JOB_ORDER, JOB_PLAN, JOB_READY])
def test_a_plugin_that_fails_for_one_job_stops_only_that_job(point: ExtensionPoint[Any]) -> None:
    scheduler, bound = run(point)
    assert [name for name in bound if name != "bad"] == ["a", "b"]
    assert "bad" not in bound
    reason = scheduler.view.jobs["default/pod:bad"].reason
    assert reason is not None
    assert "grumbler" in reason.message
    assert scheduler.view.history.incidents
    assert scheduler.view.history.incidents[0].where == "plugin grumbler"
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
    scheduler = Scheduler(configuration_with("grumbler"), registry=registry, catalog=shipped_catalog())
    scheduler.handle(seen(node()), 1)
    commands = scheduler.handle(seen(pod("a")), 2)
    assert any(isinstance(command, Bind) for command in commands)
    assert [incident.where for incident in scheduler.view.history.incidents] == ["plugin grumbler"]


def test_a_new_configuration_activates_every_pending_job() -> None:
    """Without `allocate` a job stays pending; with it, the job starts although nothing else changed."""
    without = replace(default_configuration(), actions=("enqueue",))
    scheduler = new_scheduler(without)
    assert not bound_pods(scheduler.handle(seen(node(), pod("a")), 1))
    commands = scheduler.handle(seen(default_configuration()), 2)
    assert bound_pods(commands) == ["a"]


def test_ended_pods_need_no_pod_group() -> None:
    scheduler = new_scheduler()
    ended = pod("a", 1, on="n1", phase="Succeeded", group="gone")
    scheduler.handle(seen(node(), ended), 1)
    assert scheduler.view.jobs["default/gone"].reason is None


# -- objects that raise ---------------------------------------------------------------------------


def test_a_number_with_thousands_of_digits_refuses_its_job_and_no_other() -> None:
    scheduler = new_scheduler()
    bad = group("bad", annotations={SCHEDULE_MIN_AVAILABLE: "9" * 4301})
    commands = scheduler.handle(seen(node("n1"), bad, pod("member", 8, group="bad"), pod("good", 8)), 1)
    assert bound_pods(commands) == ["good"]
    reason = scheduler.view.jobs["default/bad"].reason
    assert reason is not None
    assert reason.code == "invalid-job"
    assert "from 0 to 2147483647" in reason.message
    assert len(reason.message) < 300


def test_a_node_that_raises_keeps_its_last_good_version_and_is_reported_once() -> None:
    scheduler = new_scheduler()
    scheduler.handle(seen(node("n1"), node("n2")), 1)
    bad = node("n1", chips_allocatable={CHIP: "many"})
    commands = scheduler.handle(seen(bad, pod("one", 8), pod("two", 8)), 2)
    assert sorted(one.node for one in commands if isinstance(one, Bind)) == ["n1", "n2"]
    assert [(one.kind, one.key) for one in commands if isinstance(one, SetAside)] == [("Node", "n1")]
    assert scheduler.view.inconsistencies() == []
    assert not [one for one in scheduler.handle(seen(bad), 3) if isinstance(one, SetAside)]
    assert [(kind, key) for kind, key, _ in scheduler.view.contained_objects] == [("Node", "n1")]
    scheduler.handle(seen(node("n1")), 4)
    assert scheduler.view.contained_objects == []


@pytest.mark.parametrize("field", ["labels", "chips_allocatable"])
def test_a_new_node_that_raises_is_left_out(field: str) -> None:
    scheduler = new_scheduler()
    scheduler.handle(seen(node("n1"), pod("one", 4)), 1)
    wrong: dict[str, Any] = {field: 3}
    assert bound_pods(scheduler.handle(seen(node("n2", **wrong), pod("two", 4)), 2)) == ["two"]
    assert scheduler.view.inconsistencies() == []


def test_a_pod_that_raises_is_left_out_or_stays_as_it_was() -> None:
    scheduler = new_scheduler()
    (bind,) = [one for one in scheduler.handle(seen(node("n1"), pod("one", 8)), 1) if isinstance(one, Bind)]
    wrong: Any = ("zero",)
    commands = scheduler.handle(
        seen(
            pod("one", 8, on="n1", phase="Pending", holds=bind.chips, mounted=wrong),
            pod("stranger", 8, on="n1", phase="Pending", holds=wrong),
        ),
        2,
    )
    assert sorted(one.key for one in commands if isinstance(one, SetAside)) == [
        "default/one",
        "default/stranger",
    ]
    # The binding under way still holds its chips; the pod that was never readable closes the node.
    assert scheduler.view.cluster.pods["one"].chips == 0xFF
    assert scheduler.view.cluster.pods["stranger"].pod.unreadable
    assert scheduler.view.inconsistencies() == []


def test_a_node_that_comes_and_goes_before_a_cycle_does_no_harm() -> None:
    scheduler = new_scheduler()
    scheduler.handle(seen(node("n1"), pod("one", 8)), 1)
    commands = scheduler.handle(seen(node("n2"), ev.NodeGone("n2"), node("n3"), pod("two", 8)), 2)
    assert [one.node for one in commands if isinstance(one, Bind)] == ["n3"]


def test_n7_a_live_bound_pod_that_always_raised_closes_its_node_until_it_is_gone() -> None:
    scheduler = new_scheduler()
    bad = pod("bad", 8, on="n1", holds=("zero",))
    commands = scheduler.handle(seen(node("n1"), bad, pod("one", 8)), 1)
    assert not [one for one in commands if isinstance(one, Bind)]
    assert [(one.kind, one.key) for one in commands if isinstance(one, SetAside)] == [("Pod", "default/bad")]
    cluster = scheduler.view.cluster
    closed = cluster.fleets[CHIP].closed[cluster.node_id["n1"]]
    assert closed is not None
    assert closed.message == ("n1 is rejected for NPU pods: pod default/bad is invalid and may use chips")
    assert "invalid-pod" in {finding.code for finding in diagnose(scheduler.view).findings}
    assert scheduler.view.inconsistencies() == []
    commands = scheduler.handle(seen(ev.PodGone("bad")), 2)
    assert bound_pods(commands) == ["one"]
    assert scheduler.view.inconsistencies() == []


def test_n7_a_pod_that_raises_since_another_scheduler_bound_it_closes_its_node() -> None:
    """Its last good version has no node and says nothing about its chips."""
    scheduler = new_scheduler()
    scheduler.handle(seen(pod("bad", 8)), 1)
    bound = pod("bad", 8, on="n1", holds=("zero",))
    commands = scheduler.handle(seen(node("n1"), bound, pod("one", 8)), 2)
    assert not [one for one in commands if isinstance(one, Bind)]
    assert "invalid-pod" in {finding.code for finding in diagnose(scheduler.view).findings}
    assert scheduler.view.inconsistencies() == []
