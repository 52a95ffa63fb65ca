"""F5: pods that kubelet rejected at admission, of other owners than this project's vcjob controller."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from ringwise.framework.job import Job
from ringwise.messages import events as ev
from ringwise.messages.commands import Command
from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.scheduler.faults.rejected_pods import RejectedPods
from ringwise.state.failures import MAX_REJECTIONS, pause_after
from ringwise.state.model import Owner, Pod
from tests.builders.values import CHIP, SECOND
from tests.scheduler.rig import Rig

REJECTED = "UnexpectedAdmissionError"
ASCEND_JOB = Owner("AscendJob", "train", "u1", "mindxdl.gitee.com/v1")
VCJOB = Owner("Job", "train", "u1", "batch.volcano.sh/v1alpha1")
BATCH_JOB = Owner("Job", "train", "u1", "batch/v1")
STATEFUL_SET = Owner("StatefulSet", "train", "u1", "apps/v1")
OURS = {"ringwise.io/job-controller": "true"}


def rig_with(owner: Owner | None, **more: Any) -> Rig:
    rig = Rig(3)
    rig.submit("train", pods=2, chips=8, owner=owner, **more)
    rig.run()
    return rig


def reject(rig: Rig, name: str = "train-0", **more: Any) -> None:
    rig.change(name, phase="Failed", rejected=REJECTED, **more)


def turn(rig: Rig, seconds: float = 0) -> None:
    rig.now += int(seconds * SECOND)
    rig.commands.clear()
    rig.step()


def reject_as_often_as_allowed(rig: Rig) -> None:
    for _ in range(MAX_REJECTIONS):
        reject(rig)
        turn(rig)
        turn(rig, 70)
        rig.recreate("train-0")
        rig.run()


@pytest.mark.parametrize("owner", [ASCEND_JOB, STATEFUL_SET, VCJOB])
def test_F5_a_pod_is_deleted_so_that_its_owner_makes_it_again(owner: Owner) -> None:
    """A vcjob, too, where another controller made its PodGroup."""
    rig = rig_with(owner)
    reject(rig)
    turn(rig)
    assert rig.messages("PodRejected") == [
        f"kubelet of {rig.pods['train-0'].node} rejected the pod ({REJECTED}): it never ran; it is deleted "
        "in 2s, so that its owner makes it again (1 of 5)"
    ]
    assert not rig.deletions()
    turn(rig, 2)
    assert rig.deletions() == ["train-0"]


def test_a_job_that_raises_does_not_hide_the_rejected_pods_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    handled = RejectedPods._rejected

    def rejected(component: RejectedPods, job: Job, pod: Pod, now: int) -> Iterable[Command]:
        if job.name == "bad":
            raise ValueError("a defect")
        yield from handled(component, job, pod, now)

    monkeypatch.setattr(RejectedPods, "_rejected", rejected)
    rig = Rig(4)
    rig.may_fail = True
    for name in ("first", "bad", "last"):
        rig.submit(name, pods=1, chips=8, owner=replace(STATEFUL_SET, name=name, uid=name))
    rig.run()
    for name in ("first", "bad", "last"):
        reject(rig, f"{name}-0")
    turn(rig)
    turn(rig, 2)
    assert rig.deletions() == ["first-0", "last-0"]


def test_F5_a_rejected_pod_that_is_deleted_already_is_left_alone() -> None:
    rig = rig_with(STATEFUL_SET)
    reject(rig, deleting=True)
    turn(rig)
    assert rig.messages("PodRejected") == []
    turn(rig, 10)
    assert rig.deletions() == []


@pytest.mark.parametrize(
    ("owner", "labels", "says"),
    [
        (None, {}, "nothing makes a pod without an owner again. What helps: delete it and create it again"),
        (replace(STATEFUL_SET, loose=True), {}, "nothing makes a pod without an owner again"),
        (BATCH_JOB, {}, "Job train counts this as a failure (backoffLimit)"),
        (VCJOB, OURS, ""),
    ],
)
def test_F5_others_are_left(owner: Owner | None, labels: dict[str, str], says: str) -> None:
    rig = rig_with(owner, labels=labels)
    reject(rig)
    turn(rig)
    assert [says in message for message in rig.messages("PodRejected")] == ([True] if says else [])
    turn(rig, 100)
    assert not rig.deletions()
    assert not rig.messages("PodRejected")


def test_F5_pods_of_another_scheduler_are_none_of_our_business() -> None:
    rig = rig_with(ASCEND_JOB)
    reject(rig, scheduler="default-scheduler")
    turn(rig)
    turn(rig, 100)
    assert not rig.deletions()
    assert not rig.messages("PodRejected")


def replaced(rig: Rig) -> None:
    """Its owner makes it again, and it is bound; kubelet has not looked at it yet."""
    node = rig.pods["train-0"].node
    rig.recreate("train-0")
    rig.change("train-0", rejected="", node=node, holds=tuple(range(8)))
    turn(rig)


def reject_and_replace(rig: Rig) -> None:
    reject(rig)
    turn(rig)
    turn(rig, 100)
    assert rig.deletions() == ["train-0"]
    replaced(rig)


def test_F5_at_most_five_times_with_growing_distance() -> None:
    rig = rig_with(ASCEND_JOB)
    for times in range(1, MAX_REJECTIONS + 1):
        reject(rig)
        turn(rig)
        turn(rig, pause_after(times) / SECOND - 1)
        assert not rig.deletions()
        turn(rig, 1)
        assert rig.deletions() == ["train-0"]
        replaced(rig)
    reject(rig)
    turn(rig)
    assert "this happened 6 times, and it is left as failed" in rig.messages("PodRejected")[0]
    turn(rig, 1000)
    assert not rig.deletions()


def test_F5_a_pod_that_ran_in_between_begins_anew() -> None:
    rig = rig_with(ASCEND_JOB)
    reject_and_replace(rig)
    rig.change("train-0", phase="Running")
    rig.run()
    reject(rig)
    turn(rig)
    assert "(1 of 5)" in rig.messages("PodRejected")[0]


def test_F5_the_next_leader_counts_on_and_counts_none_twice() -> None:
    rig = rig_with(ASCEND_JOB)
    reject_and_replace(rig)
    reject(rig)
    turn(rig)
    assert "(2 of 5)" in rig.messages("PodRejected")[0]
    other = rig.successor()
    turn(other)
    assert "(2 of 5)" in other.messages("PodRejected")[0]
    turn(other, 4)
    assert other.deletions() == ["train-0"]
    counts = rig.entries("rejected-pods")
    assert counts == {"default/u1/train-0": [2, rig.pods["train-0"].uid]}


def test_F5_a_deletion_that_the_api_server_refuses_is_tried_again() -> None:
    rig = rig_with(ASCEND_JOB)
    reject(rig)
    rig.deaf = True
    turn(rig)
    turn(rig, 2)
    assert rig.deletions() == ["train-0"]
    rig.tell(ev.EvictFailed(rig.pods["train-0"].uid))
    turn(rig)
    assert not rig.deletions()
    turn(rig, 5)
    assert rig.deletions() == ["train-0"]


def test_F5_the_refused_deletion_of_a_rejected_pod_that_failed_is_tried_again_once() -> None:
    rig = rig_with(ASCEND_JOB, labels={"fault-scheduling": "force", "fault-retry-times": "2"})
    reject_as_often_as_allowed(rig)
    rig.deaf = True
    reject(rig)
    turn(rig)
    assert "train-0" in rig.deletions()
    rig.tell(ev.EvictFailed(rig.pods["train-0"].uid))
    turn(rig)
    turn(rig, 5)
    assert rig.deletions().count("train-0") == 1


@pytest.mark.parametrize(("before", "restarts"), [("0", 0), ("4", 0), ("5", 1)])
def test_F5_a_rejected_pod_uses_no_retry_until_it_counts_as_failed(before: str, restarts: int) -> None:
    labels = {"fault-scheduling": "force", "fault-retry-times": "3", **OURS}
    rig = rig_with(VCJOB, labels=labels)
    reject(rig, annotations={**rig.pods["train-0"].annotations, "ringwise.io/kubelet-rejections": before})
    turn(rig)
    owners = rig.machine._components.of(FaultHandler).retries.owners
    assert sum(one.used for one in owners.values()) == restarts
    assert bool(rig.deletions()) is bool(restarts)


def test_F5_a_pod_that_is_left_counts_as_failed_and_uses_a_retry() -> None:
    """Also under the next leader."""
    rig = rig_with(ASCEND_JOB, labels={"fault-scheduling": "force", "fault-retry-times": "2"})
    reject_as_often_as_allowed(rig)
    faults = rig.machine._components.of(FaultHandler)
    assert not faults.retries.owners
    reject(rig)
    turn(rig)
    assert [budget.used for budget in faults.retries.owners.values()] == [1]
    assert "train-0" in rig.deletions()
    other = rig.successor()
    other.step()
    owners = other.machine._components.of(FaultHandler).retries.owners
    assert [budget.used for budget in owners.values()] == [1]


def test_F6_a_rejected_pod_keeps_its_share_of_the_queue() -> None:
    rig = Rig(5)
    rig.queue("capped", capability={CHIP: 24})
    rig.submit("train", pods=3, chips=8, queue="capped", owner=ASCEND_JOB)
    rig.run()
    rig.submit("next", chips=8, queue="capped")
    rig.run()
    reject(rig)
    rig.run()
    assert not rig.nodes_of("next")
