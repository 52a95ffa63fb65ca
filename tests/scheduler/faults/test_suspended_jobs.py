"""Suspended jobs: they give their chips back at once, and return to their old nodes where these are free."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ringwise.messages import events as ev
from ringwise.scheduler.faults.lost_pods import RETENTION
from ringwise.scheduler.faults.previous_placements import PreviousPlacements
from ringwise.state.model import Owner, Pod, PodGroup
from ringwise.state.vcjob import VcJob
from ringwise.wellknown import BATCH_API
from tests.builders.records import with_entries
from tests.builders.values import SECOND, switches
from tests.scheduler.rig import PLAIN, Rig

OWNER = Owner("Job", "train", "uid-of-train", BATCH_API)
VCJOB = VcJob("default", "train", OWNER.uid)
SWITCHES = switches(2, 2)
SWITCH_JOB = {"tor-affinity": "normal-schema"}


def rig_of(kind: str = "gang", nodes: int = 4, **settings: Any) -> Rig:
    rig = Rig(**settings)
    for number in range(1, nodes + 1):
        rig.node(f"n{number}", internal_ip=f"10.0.0.{number}")
    if kind == "switches":
        rig.tell(SWITCHES)
    return rig


def running(kind: str = "gang", pods: int = 2) -> tuple[Rig, list[str]]:
    """The job runs on n3 and n4, and n1 and n2 are free."""
    rig = rig_of(kind)
    rig.submit("other", pods=2, chips=8)
    rig.run()
    rig.tell(VCJOB)
    rig.submit("train", pods=pods, chips=8, owner=OWNER, labels=SWITCH_JOB if kind == "switches" else {})
    rig.run()
    rig.end("other")
    rig.run()
    before = rig.nodes_of("train")
    assert before == ["n3", "n4"][:pods]
    return rig, before


Left = tuple[PodGroup, list[Pod]]


def leave(rig: Rig, phase: str = "Aborting", **more: Any) -> Left:
    """Its controller writes the phase, and deletes its pods and its PodGroup."""
    rig.tell(replace(VCJOB, phase=phase, **more))
    names = rig.pods_of("train")
    for name in names:
        rig.change(name, deleting=True)
    rig.step()
    left = rig.groups["default/train"], [rig.pods[name] for name in names]
    rig.end("train")
    rig.step()
    return left


def come_back(rig: Rig, left: Left) -> list[str]:
    group, pods = left
    rig.tell(replace(VCJOB, phase="Pending", version=1))
    rig.put_group(group)
    for pod in pods:
        rig.pods[pod.name] = pod
        rig.replacement(pod.name)
    rig.run()
    return rig.nodes_of("train")


REQUEUED = {"phase": "Restarting", "reason": "CommandIssued"}
KINDS = pytest.mark.parametrize("kind", ["gang", "switches"])


@KINDS
@pytest.mark.parametrize("how", [{"phase": "Aborting"}, REQUEUED], ids=["suspended", "requeued"])
def test_nothing_is_held_and_the_job_returns(kind: str, how: dict[str, str]) -> None:
    rig, before = running(kind)
    left = leave(rig, **how)
    assert list(rig.machine.view.reservations) == []
    assert rig.machine._components.of(PreviousPlacements).rescheduling == 0
    rig.submit("thief", pods=4, chips=8)
    rig.run()
    assert len(rig.nodes_of("thief")) == 4
    rig.end("thief")
    rig.run()
    assert come_back(rig, left) == before
    # Then only its present nodes count.
    assert rig.machine._components.of(PreviousPlacements)._rescheduling == {}


@KINDS
def test_what_was_held_for_it_when_it_is_suspended_is_for_others(kind: str) -> None:
    """Its pods go first, as with Volcano's controller, or it was being rescheduled."""
    rig, before = running(kind)
    left = rig.groups["default/train"], [rig.pods[name] for name in ("train-0", "train-1")]
    for pod in left[1]:
        rig.change(pod.name, deleting=True)
    rig.step()
    rig.gone("train-0")
    rig.step()
    rig.tell(replace(VCJOB, phase="Aborting"))
    rig.step()
    assert list(rig.machine.view.reservations) == []
    rig.end("train")
    rig.step()
    # Of a job that is not placed as a whole, pods that went before the suspension was seen start anywhere.
    assert come_back(rig, left) == (before if kind == "switches" else ["n1", before[1]])


@KINDS
@pytest.mark.parametrize("how", [{"phase": "Aborting"}, {"phase": "Aborted"}, {}], ids=str)
@pytest.mark.parametrize("first", ["train-0", "train-1"])
def test_a_cycle_between_the_ends_of_two_pods_forgets_neither_node(
    kind: str, how: dict[str, str], first: str
) -> None:
    """The second pod, whose deletion was not seen yet, is not the job that came back."""
    rig, before = running(kind)
    left = rig.groups["default/train"], [rig.pods[name] for name in ("train-0", "train-1")]
    changes: dict[str, Any] = how or REQUEUED
    rig.tell(replace(VCJOB, **changes))
    rig.step()
    rig.gone(first)
    rig.run()
    rig.end("train")
    rig.step()
    assert come_back(rig, left) == before
    assert rig.machine._components.of(PreviousPlacements)._rescheduling == {}


def test_S9_a_pod_that_is_lost_after_the_job_came_back_in_part_has_its_node_held() -> None:
    rig = rig_of("switches", actions=PLAIN)
    rig.tell(VCJOB)
    rig.submit("train", pods=2, chips=8, owner=OWNER, labels=SWITCH_JOB, min_available=1)
    rig.run()
    assert rig.nodes_of("train") == ["n1", "n2"]
    left = leave(rig)
    rig.submit("thief", pods=3, chips=8)
    rig.run()
    (node,) = come_back(rig, left)
    name = rig.pod_on(node)
    rig.change(name, deleting=True)
    rig.step()
    rig.priority("high", 100)
    rig.gone(name)
    rig.submit("first", chips=8, priority="high")
    rig.run()
    assert rig.nodes_of("first") == []
    assert rig.nodes_of("train") == [node]


def test_a_node_that_is_taken_or_broke_is_not_waited_for() -> None:
    rig, _ = running()
    left = leave(rig)
    rig.sick("n4", 1)
    rig.step()
    assert come_back(rig, left) == ["n3", "n1"]


@KINDS
def test_F1_the_next_leader_knows_its_nodes(kind: str) -> None:
    rig, before = running(kind)
    left = leave(rig)
    rig.step(1)
    other = rig.successor()
    other.tell(replace(VCJOB, phase="Aborted"))
    if kind == "switches":
        other.tell(SWITCHES)
    other.run()
    assert list(other.machine.view.reservations) == []
    assert come_back(other, left) == before


@KINDS
def test_F1_the_next_leader_knows_the_nodes_of_pods_that_went_before_it_began(kind: str) -> None:
    rig, before = running(kind)
    rig.tell(replace(VCJOB, phase="Aborting"))
    for name in rig.pods_of("train"):
        rig.change(name, deleting=True)
    rig.step()
    left = rig.groups["default/train"], [rig.pods[name] for name in rig.pods_of("train")]
    rig.pods.clear()
    rig.groups.clear()
    other = rig.successor()
    other.run()
    assert list(other.machine.view.reservations) == []
    assert come_back(other, left) == before


def test_F1_a_time_without_end_in_the_record_costs_no_other_entry() -> None:
    rig, before = running()
    left = leave(rig)
    rig.step(1)
    other = rig.successor()
    assert isinstance(other.events[-1], ev.LeaderRecordRead)
    ((owner, entry),) = rig.entries("previous-placements").items()
    entries = {"default/x": entry | {"until": float("inf")}, owner: entry}
    other.events[-1] = ev.LeaderRecordRead(with_entries(rig.record, "previous-placements", entries))
    other.tell(replace(VCJOB, phase="Aborted"))
    other.run()
    assert come_back(other, left) == before


def test_they_are_forgotten_after_three_days_and_with_the_job() -> None:
    rig, _ = running()
    leave(rig)
    rig.step(RETENTION // SECOND)
    assert rig.machine._components.of(PreviousPlacements)._rescheduling == {}
    for gone in (ev.VcJobGone("default/train"), ev.VcJobSeen(replace(VCJOB, phase="Terminated"))):
        rig, _ = running()
        leave(rig)
        assert len(rig.machine._components.of(PreviousPlacements)._rescheduling) == 1
        rig.tell(gone)
        rig.step()
        assert rig.machine._components.of(PreviousPlacements)._rescheduling == {}


def test_a_job_that_was_made_smaller_meanwhile_is_complete() -> None:
    rig, _ = running()
    group, pods = leave(rig)
    assert come_back(rig, (replace(group, min_member=1), pods[:1])) == ["n3"]
    assert rig.machine._components.of(PreviousPlacements)._rescheduling == {}


# -- Jobs of Kubernetes

JOB = Owner("Job", "train", "uid-of-job", "batch/v1")


@KINDS
@pytest.mark.parametrize("first", ["the PodGroup", "the pods that terminate", "the pods that are gone"])
def test_a_job_of_kubernetes_returns_too(kind: str, first: str) -> None:
    rig = rig_of(kind)
    rig.submit("other", pods=2, chips=8)
    rig.run()
    rig.submit("train", pods=2, chips=8, owner=JOB, labels=SWITCH_JOB if kind == "switches" else {})

    def tell_group(**annotations: str) -> None:
        group = rig.groups["default/train"]
        rig.put_group(replace(group, ordinary=True, annotations=annotations))

    suspended = {"ringwise.io/suspended": "true"}
    tell_group()
    rig.run()
    rig.end("other")
    rig.run()
    before = rig.nodes_of("train")
    assert before == ["n3", "n4"]
    pods = [rig.pods[name] for name in ("train-0", "train-1")]
    if first == "the PodGroup":
        tell_group(**suspended)
    for pod in pods:
        rig.change(pod.name, deleting=True)
    rig.step()
    if first == "the pods that terminate":
        tell_group(**suspended)
    rig.gone("train-0", "train-1")
    rig.step()
    if first == "the pods that are gone":
        tell_group(**suspended)
        rig.step()
    assert list(rig.machine.view.reservations) == []
    rig.submit("thief", pods=4, chips=8)
    rig.run()
    assert len(rig.nodes_of("thief")) == 4
    rig.end("thief")
    tell_group()
    for pod in pods:
        # Its controller creates pods of other names.
        fresh = replace(pod, phase="Pending", node=None, holds=(), annotations={}, rank=None)
        rig.put(replace(fresh, uid=f"{pod.uid}.again", name=f"{pod.name}x"))
    rig.run()
    elsewhere = kind == "gang" and first == "the pods that are gone"
    assert rig.nodes_of("train") == (["n1", "n2"] if elsewhere else before)
    assert rig.machine._components.of(PreviousPlacements)._rescheduling == {}


def test_pods_that_come_one_after_the_other_return_whatever_their_names_are() -> None:
    """Ranks follow names, and the owner makes those up: the second may get the rank of the first."""
    rig = rig_of("nodes")
    rig.submit("other", pods=2, chips=8)
    rig.run()
    rig.submit("train", pods=2, chips=8, owner=JOB, min_available=1)

    def tell_group(**annotations: str) -> None:
        group = rig.groups["default/train"]
        rig.put_group(replace(group, ordinary=True, replicas=2, annotations=annotations))

    tell_group()
    rig.run()
    rig.end("other")
    rig.run()
    before = rig.nodes_of("train")
    pods = [rig.pods[name] for name in ("train-0", "train-1")]
    tell_group(**{"ringwise.io/suspended": "true"})
    for pod in pods:
        rig.change(pod.name, deleting=True)
    rig.step()
    rig.gone("train-0", "train-1")
    rig.step()
    tell_group()
    for pod, name in zip(pods, ("train-z", "train-a"), strict=True):
        fresh = replace(pod, phase="Pending", node=None, holds=(), annotations={}, rank=None)
        rig.put(replace(fresh, uid=f"{pod.uid}.again", name=name))
        rig.run()
    assert sorted(rig.nodes_of("train")) == sorted(before)
