"""`external-*`: the mark of a faulty pod reaches the pod, whatever the API server or the leader does."""

from __future__ import annotations

import pytest

from ringwise.messages import events as ev
from ringwise.messages.commands import AnnotatePod, Command, DeletePod
from ringwise.scheduler.faults.states import State
from tests.scheduler.faults.fault_rig import state_of
from tests.scheduler.rig import Rig

LABELS = {"fault-scheduling": "external-force", "subHealthyStrategy": "forceExit"}


def running() -> Rig:
    rig = Rig(4)
    rig.submit("train", pods=3, chips=8, labels=LABELS)
    rig.run()
    rig.deaf = True
    return rig


def marked(commands: list[Command]) -> list[str]:
    assert not [one for one in commands if isinstance(one, DeletePod)]
    return [one.pod for one in commands if isinstance(one, AnnotatePod)]


def test_a_mark_that_the_api_server_refused_is_written_again() -> None:
    rig = running()
    rig.sick("n2", 1)
    assert marked(rig.step()) == ["train-1"]
    rig.tell(ev.EvictFailed(rig.pods["train-1"].uid))
    assert marked(rig.step(1)) == []
    assert marked(rig.step(5)) == ["train-1"]
    assert marked(rig.step(1000)) == []


@pytest.mark.parametrize("arrived", [False, True])
def test_F1_a_mark_that_never_arrived_is_written_by_the_next_leader(arrived: bool) -> None:
    rig = running()
    rig.sick("n2", 1)
    rig.step()
    left = rig.last_record
    if arrived:
        pod = rig.pods["train-1"]
        rig.change("train-1", annotations={**pod.annotations, "huawei.com/pod-status": "Unhealthy"})
    later = Rig(4, deaf=True)
    later.sick("n2", 1)
    later.tell(*(ev.PodGroupSeen(group) for group in rig.groups.values()))
    later.tell(*(ev.PodSeen(pod) for pod in rig.pods.values()))
    later.tell(left)
    assert marked(later.step()) == ([] if arrived else ["train-1"])
    assert marked(later.step(5)) == []


@pytest.mark.parametrize("heals", [True, False])
def test_a_removal_that_the_api_server_refused_is_repeated_unless_the_pod_is_faulty_again(
    heals: bool,
) -> None:
    rig = running()
    rig.sick("n2", 1)
    rig.step()
    pod = rig.pods["train-1"]
    rig.change("train-1", annotations={**pod.annotations, "huawei.com/pod-status": "Unhealthy"})
    rig.sick("n2", 0)
    assert marked(rig.step(1)) == ["train-1"]
    rig.tell(ev.EvictFailed(pod.uid))
    assert marked(rig.step(1)) == []
    if not heals:
        rig.sick("n2", 1)
        rig.step(1)
    (*_, last) = [one for one in (*rig.commands, *rig.step(5)) if isinstance(one, AnnotatePod)]
    assert last.remove == (("huawei.com/pod-status",) if heals else ())
    if heals:
        rig.change("train-1", annotations=pod.annotations)
        rig.tell(ev.EvictFailed(pod.uid))
        rig.step(1)
    assert marked(rig.step(100)) == []


def test_a_pod_that_heals_ends_nothing_while_another_that_is_gone_is_missing() -> None:
    rig = running()
    rig.sick("n1", 1)
    rig.sick("n2", 1)
    assert sorted(marked(rig.step())) == ["train-0", "train-1"]
    rig.gone("train-0")
    rig.sick("n2", 0)
    assert marked(rig.step(1)) == ["train-1"]
    assert rig.messages("Recovered") == []
    assert state_of(rig) is State.WAITING
