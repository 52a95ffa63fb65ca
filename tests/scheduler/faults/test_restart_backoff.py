"""Restarts because of faults back off where the new pods are faulty again; the first one does not wait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from ringwise.messages.commands import Bind, DeletePod, RecordJobEvent
from ringwise.scheduler.explain.fault_waits import fault_waits
from ringwise.scheduler.faults.restarts import BACKOFF, FORGOTTEN_AFTER, Restarts
from ringwise.state.model import Owner
from tests.builders import values
from tests.builders.values import SECOND, pod_class
from tests.scheduler.rig import Rig, deleted_pods

OWNER = Owner("ReplicaSet", "serve", "uid-of-serve")
FORCE = {"fault-scheduling": "force"}
FAULTY = {**FORCE, "fault-type": "Separate"}


def service(pods: int, labels: dict[str, str]) -> Rig:
    """The pods of a Deployment, which have no PodGroup."""
    rig = Rig(2 * pods)
    for number in range(pods):
        name = f"serve-{number}"
        cls = pod_class(8)
        rig.put(values.pod(name, uid=f"{name}.0", cls=cls, created=rig.now, labels=labels, owner=OWNER))
    return rig


def gang(pods: int, labels: dict[str, str]) -> Rig:
    """It ran for a while before its pods had these labels."""
    rig = Rig(2 * pods)
    rig.submit("train", pods=pods, chips=8, labels=FORCE, owner=OWNER)
    rig.run()
    rig.step(30)
    label(rig, labels)
    return rig


def replace_deleted(rig: Rig) -> None:
    """Their owner makes pods again as soon as they are deleted."""
    for name, pod in list(rig.pods.items()):
        if pod.deleting:
            rig.gone(name)
            fresh = replace(pod, uid=f"{name}.{rig.now}", created=rig.now, phase="Pending", annotations={})
            rig.put(replace(fresh, deleting=False, node=None, holds=(), rank=None))


def label(rig: Rig, labels: dict[str, str]) -> None:
    for key, group in list(rig.groups.items()):
        rig.groups[key] = replace(group, labels=labels)
        rig.tell(rig.groups[key])
    for name in list(rig.pods):
        rig.change(name, labels=labels)


def live(rig: Rig, seconds: float) -> list[float]:
    """So long; the seconds after which pods were deleted."""
    began = rig.now
    restarts: list[float] = []
    while rig.now < began + seconds * SECOND:
        if any(isinstance(one, DeletePod) for one in rig.step(0.1)):
            restarts.append((rig.now - began) / SECOND)
        replace_deleted(rig)
    return restarts


@pytest.mark.parametrize("rig_of", [service, gang])
def test_pods_that_say_they_are_faulty_are_restarted_later_each_time(
    rig_of: Callable[[int, dict[str, str]], Rig],
) -> None:
    rig = rig_of(3, FAULTY)
    restarts = live(rig, 120)
    assert restarts[0] < 1
    pauses = [after - before for before, after in pairwise(restarts)]
    assert [round(pause) for pause in pauses] == [1, 2, 4, 8, 16, 32, 32]
    deletions = sum(isinstance(one, DeletePod) for one in rig.commands)
    bindings = sum(isinstance(one, Bind) for one in rig.commands)
    assert deletions == 3 * len(restarts)
    assert bindings == deletions + 3


def test_it_is_told_once_for_each_pause_and_why_says_how_long() -> None:
    rig = gang(4, FAULTY)
    live(rig, 10)
    told = [one for one in rig.commands if isinstance(one, RecordJobEvent) and one.reason == "BackOffRestart"]
    assert [one.message.partition(" because")[0] for one in told] == [
        "train-0 and 3 more pods are faulty again after 1 restart",
        "train-0 and 3 more pods are faulty again after 2 restarts",
        "train-0 and 3 more pods are faulty again after 3 restarts",
        "train-0 and 3 more pods are faulty again after 4 restarts",
    ]
    assert all(one.warning for one in told)
    view = rig.machine.view
    (line,) = [one for one in fault_waits(view, view.jobs["default/train"], rig.now) if "follows in" in one]
    assert "after 4 restarts because of faults" in line
    assert "at most 32s" in line


def test_a_pod_that_is_faulty_before_its_job_is_reported_as_running_is_restarted() -> None:
    """The phase of a PodGroup with minMember 1 says that the job ran, and may be seen after its pods."""
    rig = Rig(2)
    rig.submit("train", pods=1, chips=8, labels=FORCE, owner=OWNER)
    rig.run()
    (key,) = rig.groups
    rig.tell(replace(rig.groups[key], phase="Inqueue"))
    rig.change("train-0", labels=FAULTY)
    assert deleted_pods(rig.step(1)) == []
    rig.tell(replace(rig.groups[key], phase="Running"))
    assert deleted_pods(rig.step(1)) == ["train-0"]


def test_pods_that_are_older_than_the_first_restart_do_not_wait() -> None:
    """A large service loses hardware under one replica after the other."""
    rig = service(6, FORCE)
    rig.run()
    rig.step(30)
    for number in range(6):
        rig.sick(rig.node_of(f"serve-{number}"), 0xFF)
        deleted = deleted_pods(rig.step(0.1))
        assert deleted == [f"serve-{number}"]
        replace_deleted(rig)
        rig.run()


def test_a_restart_of_older_pods_lengthens_no_pause() -> None:
    rig = service(2, FORCE)
    rig.run()
    rig.step(30)
    for number in range(2):
        rig.sick(rig.node_of(f"serve-{number}"), 0xFF)
        assert deleted_pods(rig.step(0.1)) == [f"serve-{number}"]
        replace_deleted(rig)
        rig.run()
    # A new pod fails within a second of the first restart: it waits as after that one.
    rig.sick(rig.node_of("serve-0"), 0xFF)
    assert deleted_pods(rig.step(0.1)) == []
    assert deleted_pods(rig.step(BACKOFF.seconds(1) - 0.2)) == ["serve-0"]


def test_a_fault_long_after_the_restart_before_does_not_wait() -> None:
    rig = gang(2, FORCE)
    for _ in range(2):
        rig.sick(rig.node_of("train-0"), 0xFF)
        assert any(isinstance(one, DeletePod) for one in rig.step(0.1))
        replace_deleted(rig)
        rig.run()
        rig.step(BACKOFF.limit + 1)


def test_an_owner_without_restarts_for_long_begins_anew() -> None:
    rig = gang(2, FAULTY)
    assert len(live(rig, 40)) == 6
    label(rig, FORCE)
    rig.step(FORGOTTEN_AFTER)
    label(rig, FAULTY)
    assert len(live(rig, 2)) == 2


def test_pods_that_are_healthy_again_meanwhile_are_not_restarted() -> None:
    rig = gang(2, FAULTY)
    live(rig, 4)
    assert rig.machine.view.waiting_restarts
    label(rig, FORCE)
    assert live(rig, 60) == []
    assert not rig.machine.view.waiting_restarts


def test_the_next_leader_waits_as_long_F1() -> None:
    rig = gang(4, FAULTY)
    live(rig, 10)
    assert [round(second) for second in live(rig.successor(), 20)] == [5]


def test_nothing_waits_of_a_job_that_is_gone() -> None:
    rig = gang(2, FAULTY)
    live(rig, 4)
    rig.end("train")
    rig.step()
    assert not rig.machine.view.waiting_restarts


def test_pods_created_in_the_moment_of_a_restart_wait_for_the_next_one() -> None:
    """Those that were there before are restarted with it, in however many jobs they are."""
    restarts, now = Restarts(gang(2, FAULTY).machine._context), 100 * SECOND + 5
    before, after = (values.pod("p", cls=pod_class(8), created=time) for time in (now - 1, now))
    restarts.add("owner", [before], now)
    assert restarts.not_before("owner", before, now) is None
    assert restarts.not_before("owner", after, now) == now + SECOND
    assert restarts.not_before("owner", before, now + 1) == now + SECOND
    assert restarts.not_before("owner", after, now + SECOND) is None
