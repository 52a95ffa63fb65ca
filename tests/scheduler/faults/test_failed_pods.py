"""Pods that failed: which are restarted, what it costs, and when hardware was why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.scheduler.faults.states import State
from ringwise.state.model import Owner
from ringwise.state.vcjob import VcJob
from tests.scheduler.faults.fault_rig import (
    POD_LEVEL,
    chips_vanish,
    deletions,
    node_down,
    node_unhealthy,
    running,
    sick_chip,
    state_of,
    switch_unhealthy,
)
from tests.scheduler.rig import Rig

# A pod that failed on broken hardware: the hardware comes first, then `fault-retry-times`.
BROKEN = (sick_chip, node_down, node_unhealthy, switch_unhealthy, chips_vanish)


def test_failed_pods_use_up_the_retries() -> None:
    rig = running({"fault-scheduling": "force", "pod-rescheduling": "on", "fault-retry-times": "2"})
    for _ in range(2):
        rig.change("train-2", phase="Failed", exit_code=1)
        assert deletions(rig.step()) == {"train-2": 0}
        rig.finish()
        rig.change("train-2", exit_code=None)
        rig.run()
        assert state_of(rig) is None
    rig.change("train-2", phase="Failed", exit_code=1)
    assert deletions(rig.step()) == {}
    assert state_of(rig) is State.BLOCKED
    assert "fault-retry-times" in rig.machine._components.of(FaultHandler).jobs["default/train"].blocked


def test_hardware_that_turns_out_to_be_why_gives_one_retry_back_for_one_restart() -> None:
    rig = running(POD_LEVEL | {"fault-retry-times": "3"})
    rig.change("train-0", phase="Failed", exit_code=1)
    rig.step()
    rig.finish()
    rig.change("train-0", exit_code=None)
    rig.run()
    retries = rig.machine._components.of(FaultHandler).retries
    assert retries.left("default/train", 3) == 2
    nodes = [rig.node_of(name) for name in ("train-1", "train-2")]
    for name in ("train-1", "train-2"):
        rig.change(name, phase="Failed", exit_code=1, ended=rig.now)
    assert deletions(rig.step()) == {"train-1": 0, "train-2": 0}
    assert retries.left("default/train", 3) == 1
    for node in nodes:
        rig.step(1)
        sick_chip(rig, node)
        rig.step()
        assert retries.left("default/train", 3) == 2


def test_failed_pods_without_retries_are_their_owners_business() -> None:
    rig = running(POD_LEVEL)
    rig.change("train-2", phase="Failed", exit_code=1)
    assert deletions(rig.step()) == {}


@pytest.mark.parametrize("fault", BROKEN)
@pytest.mark.parametrize("retries", [{}, {"fault-retry-times": "1"}])
def test_a_pod_that_failed_on_broken_hardware_is_moved_and_costs_no_retry(
    fault: Callable[[Rig, str], None], retries: dict[str, str]
) -> None:
    rig = running(POD_LEVEL | retries)
    hit = rig.pod_on("n3")
    rig.change(hit, phase="Failed", exit_code=1, ended=rig.now)
    fault(rig, "n3")
    assert deletions(rig.step()) == {hit: 0}
    assert rig.machine._components.of(FaultHandler).retries.left("default/train", 1) == 1
    rig.finish()
    rig.run()
    assert rig.pods[hit].node not in (None, "n3")


@pytest.mark.parametrize("fault", BROKEN)
def test_the_report_may_come_after_the_pod_failed(fault: Callable[[Rig, str], None]) -> None:
    rig = running(POD_LEVEL)
    hit = rig.pod_on("n3")
    rig.change(hit, phase="Failed", exit_code=1, ended=rig.now)
    assert deletions(rig.step()) == {}
    fault(rig, "n3")
    assert deletions(rig.step(20)) == {hit: 0}


@pytest.mark.parametrize("next_leader", [False, True])
def test_hardware_that_breaks_long_after_the_pod_failed_is_not_why(next_leader: bool) -> None:
    """The time counts from the end of the pod, also for a leader that reads the pod later."""
    rig = running(POD_LEVEL)
    hit = rig.pod_on("n3")
    rig.change(hit, phase="Failed", exit_code=1, ended=rig.now)
    rig.step()
    rig.step(301)
    if next_leader:
        rig.change_leader()
        rig.step()
    rig.sick("n3", 1)
    assert deletions(rig.step()) == {}


def test_chips_that_another_pod_has_by_now_do_not_say_why_a_pod_failed() -> None:
    rig = running(POD_LEVEL, nodes=4)
    hit = rig.pod_on("n3")
    rig.change(hit, phase="Failed", exit_code=1, ended=rig.now)
    rig.submit("other", chips=8)
    rig.run()
    assert rig.pods["other-0"].node == "n3"
    rig.sick("n3", 1)
    assert deletions(rig.step()) == {}


def test_a_job_of_which_every_pod_ended_is_left_to_its_owner() -> None:
    rig = running(POD_LEVEL, pods=1)
    (node,) = rig.nodes_of("train")
    rig.change("train-0", phase="Failed", exit_code=1, ended=rig.now)
    rig.step()
    rig.sick(node, 255)
    assert deletions(rig.step(10)) == {}


def test_a_job_without_retries_left_is_restarted_once_its_hardware_is_known_to_be_broken() -> None:
    rig = running(POD_LEVEL | {"fault-retry-times": "1"})
    rig.change("train-2", phase="Failed", exit_code=1)
    rig.step()
    rig.finish()
    rig.change("train-2", exit_code=None)
    rig.run()
    node = rig.node_of("train-2")
    rig.change("train-2", phase="Failed", exit_code=1, ended=rig.now)
    rig.step()
    assert state_of(rig) is State.BLOCKED
    rig.sick(node, 0b1)
    assert deletions(rig.step(5)) == {"train-2": 0}


def test_a_vcjob_that_is_over_is_left_alone_when_its_pods_failed_together() -> None:
    rig = running({**POD_LEVEL, "fault-retry-times": "2"})
    job = rig.machine._book.jobs["default/train"]
    assert job.group is not None
    owner = Owner("Job", "train", "uid-of-train")
    rig.tell(replace(job.group, owner=owner))
    vcjob = VcJob("default", "train", uid=owner.uid)
    rig.tell(vcjob)
    for name in list(rig.pods):
        rig.change(name, phase="Failed", exit_code=1)
    rig.tell(replace(vcjob, phase="Failed"))
    assert deletions(rig.step()) == {}
    assert rig.machine._components.of(FaultHandler).retries.left(f"default/{owner.uid}", 2) == 2
    assert state_of(rig) is None


def test_retries_are_forgotten_with_the_owner_whatever_it_is() -> None:
    rig = Rig(6)
    owner = Owner("AscendJob", "train", "uid-of-train")
    rig.submit(
        "train",
        pods=2,
        chips=8,
        labels={"fault-scheduling": "force", "fault-retry-times": "3"},
        owner=owner,
    )
    rig.run()
    rig.change("train-0", phase="Failed", exit_code=1)
    rig.step()
    rig.finish()
    rig.run()
    assert set(rig.machine._components.of(FaultHandler).retries.owners) == {f"default/{owner.uid}"}
    rig.end("train")
    rig.run()
    assert not rig.machine._components.of(FaultHandler).retries.owners
