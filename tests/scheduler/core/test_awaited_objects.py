"""No warning before a job has had its pods and one cycle; one that waits for them for long is told."""

from __future__ import annotations

from collections.abc import Iterable

from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Command, SetGroupStatus, SetPodCondition
from ringwise.scheduler.core.status_reporter import TIMEOUT
from ringwise.state.model import Queue
from tests.builders.values import SECOND
from tests.scheduler.rig import Rig


def codes(commands: Iterable[Command]) -> list[str]:
    """What users are told: conditions and warnings of PodGroups and pods."""
    told = [one.reason for one in commands if isinstance(one, SetGroupStatus | SetPodCondition)]
    return [reason.code for reason in told if reason is not None]


def submitted(rig: Rig, *, pods: int = 3, chips: int = 8) -> list[ev.Event]:
    """A gang as its controller creates it; the PodGroup is told, and the pods are returned."""
    rig.submit("train", pods=pods, chips=chips)
    created = [one for one in rig.events if isinstance(one, ev.PodSeen)]
    rig.events = [one for one in rig.events if not isinstance(one, ev.PodSeen)]
    return list(created)


def test_a_job_that_starts_normally_gets_no_warning() -> None:
    rig = Rig(3)
    pods = submitted(rig)
    rig.run()
    assert rig.groups["default/train"].phase == "Inqueue"
    assert rig.reason("train") == "no-pods-yet"
    for pod in pods:
        rig.tell(pod)
        rig.run()
    assert sum(isinstance(one, Bind) for one in rig.commands) == 3
    assert codes(rig.commands) == []


def test_pods_that_are_seen_before_their_PodGroup_get_no_warning() -> None:
    rig = Rig(3)
    pods = submitted(rig)
    groups, rig.events = rig.events, [*pods]
    rig.run()
    assert rig.reason("train") == "pod-group-missing"
    rig.tell(*groups)
    rig.run()
    assert len(rig.nodes_of("train")) == 3
    assert codes(rig.commands) == []


def test_a_job_with_all_its_pods_is_told_in_the_first_cycle() -> None:
    rig = Rig(2)
    rig.tell(*submitted(rig))
    rig.step()
    # Its PodGroup and each of its pods.
    assert codes(rig.commands) == ["cluster-too-small"] * 4


def test_a_job_that_is_not_admitted_is_told_although_it_has_no_pods() -> None:
    rig = Rig(3)
    rig.tell(Queue("default", state="Closed"))
    submitted(rig)
    rig.step()
    assert codes(rig.commands) == ["queue-not-open"]


def test_a_job_whose_pods_do_not_come_is_told_after_a_while() -> None:
    rig = Rig(3)
    pods = submitted(rig)
    rig.run()
    due = rig.machine.next_deadline()
    assert due == rig.now + TIMEOUT
    rig.step(TIMEOUT / SECOND - 1)
    assert codes(rig.commands) == []
    # One came: the time begins again.
    rig.tell(pods[0])
    rig.run()
    rig.step(TIMEOUT / SECOND - 1)
    assert codes(rig.commands) == []
    rig.step(1)
    assert codes(rig.commands) == ["not-enough-pods", "not-enough-pods"]
    rig.tell(*pods[1:])
    rig.run()
    assert len(rig.nodes_of("train")) == 3


def test_a_gang_that_lacks_a_pod_which_failed_is_told_at_once() -> None:
    rig = Rig(2)
    rig.tell(*submitted(rig))
    rig.run()
    rig.commands.clear()
    rig.change("train-1", phase="Failed", exit_code=1)
    rig.run()
    # The pods that wait, and the PodGroup.
    assert codes(rig.commands) == ["not-enough-pods"] * 3
