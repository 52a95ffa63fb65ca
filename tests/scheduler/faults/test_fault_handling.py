"""Faults: what is found, which pods are deleted and how, and how a job gets complete again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ringwise.messages import events as ev
from ringwise.messages.commands import AnnotatePod, DeletePod, RecordJobEvent
from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.scheduler.faults.states import State
from ringwise.state.model import DeviceReport, NodeReport, Owner, ReportedFault
from tests.builders.values import SECOND, report
from tests.scheduler.faults.fault_rig import (
    POD_LEVEL,
    chips_vanish,
    deletions,
    node_down,
    node_removed,
    node_unhealthy,
    running,
    separated,
    sick_chip,
    state_of,
    switch_unhealthy,
)
from tests.scheduler.rig import Rig, bound_pods, deleted_pods


@pytest.mark.parametrize(
    "fault",
    [sick_chip, node_down, node_removed, node_unhealthy, switch_unhealthy, chips_vanish, separated],
)
def test_a_fault_deletes_the_pod_that_it_hits_and_no_other(fault: Callable[[Rig, str], None]) -> None:
    rig = running(POD_LEVEL)
    hit = rig.pod_on("n3")
    fault(rig, "n3")
    assert deletions(rig.step()) == {hit: 0}
    assert deletions(rig.step(1)) == {}


@pytest.mark.parametrize(
    "reported",
    [
        report("n3", network_unhealthy=0b11),
        report("n3", faults=(ReportedFault(2, "1", "NotHandleFault"),)),
        report("n3", faults=(ReportedFault(2, "1", "SubHealthFault"),)),
    ],
)
def test_faults_that_leave_running_pods_alone(reported: DeviceReport) -> None:
    rig = running(POD_LEVEL)
    rig.tell(reported, NodeReport("n2", "node", "PreSeparate"))
    rig.tell(NodeReport("n1", "switch", "SubHealthy"))
    assert deletions(rig.step()) == {}


@pytest.mark.parametrize("labels", [{}, {"fault-scheduling": "off"}, {"fault-scheduling": "maybe"}])
def test_a_job_that_does_not_ask_for_it_is_left_alone(labels: dict[str, str]) -> None:
    rig = running(labels)
    rig.sick("n1", 1)
    assert deletions(rig.step()) == {}
    assert state_of(rig) is None


def test_a_node_that_is_lost_and_lists_fewer_chips_is_lost() -> None:
    """Nothing there can terminate a pod, so it is deleted by force at once."""
    rig = running({**POD_LEVEL, "fault-scheduling": "grace"})
    name = rig.pod_on("n3")
    rig.node("n3", chips=4, ready=False)
    assert deletions(rig.step()) == {name: 0}


def test_F2_a_pod_that_terminates_has_its_rank_while_its_replacement_exists() -> None:
    """Rank 0 restarts the whole job, also where its owner made another pod before it was gone."""
    rig = running(POD_LEVEL, nodes=4)
    first = rig.pods["train-0"]
    rig.change("train-0", deleting=True)
    rig.put(
        replace(
            first, uid="new", name="train-x", node=None, phase="Pending", holds=(), annotations={}, rank=None
        )
    )
    rig.step()
    rig.node(first.node or "", ready=False)
    assert set(deletions(rig.step())) == {"train-0", "train-1", "train-2", "train-3"}


def test_a_masked_fault_counts_when_its_window_is_over() -> None:
    rig = running(POD_LEVEL, annotations={"huawei.com/schedule.filter.faultCode": "80E01801:30"})
    hit = rig.pod_on("n3")
    fault = ReportedFault(2, "80E01801", "RestartRequest")
    broken = report("n3", unhealthy=0b100, faults=(fault,))
    rig.tell(broken)
    assert deletions(rig.step()) == {}
    assert rig.machine.next_deadline() == rig.now + 30 * SECOND
    rig.tell(broken)
    assert deletions(rig.step(29)) == {}
    assert deletions(rig.step(1)) == {hit: 0}


def test_a_masked_fault_that_ends_in_its_window_is_no_fault() -> None:
    rig = running(POD_LEVEL, annotations={"huawei.com/schedule.filter.faultLevel": "RestartRequest"})
    fault = ReportedFault(2, "80E01801", "RestartRequest")
    rig.tell(report("n3", unhealthy=4, faults=(fault,)))
    rig.step()
    rig.sick("n3", 0)
    assert deletions(rig.step(10)) == deletions(rig.step(100)) == {}


@pytest.mark.parametrize(
    ("strategy", "grace"), [("ignore", ()), ("graceExit", (None,)), ("forceExit", (0,)), ("hotSwitch", (0,))]
)
def test_sub_health_follows_the_strategy(strategy: str, grace: tuple[int | None, ...]) -> None:
    rig = running({"fault-scheduling": "grace", "pod-rescheduling": "on", "subHealthyStrategy": strategy})
    rig.tell(NodeReport("n3", "switch", "SubHealthy"))
    assert tuple(deletions(rig.step()).values()) == grace


def test_without_pod_level_the_whole_job_restarts_once() -> None:
    rig = running({"fault-scheduling": "force"})
    rig.sick("n3", 1)
    rig.run()
    assert sorted(rig.deletions()) == ["train-0", "train-1", "train-2", "train-3"]


def test_a_faulty_rank_0_restarts_the_whole_job() -> None:
    rig = running(POD_LEVEL)
    rank_0 = next(pod for pod in rig.pods.values() if pod.annotations["hccl/rankIndex"] == "0")
    rig.sick(rank_0.node or "", 1)
    assert len(deletions(rig.step())) == 4


def test_rank_0_of_an_inference_job_restarts_alone() -> None:
    rig = running(POD_LEVEL, annotations={"huawei.com/recover_policy_path": "pod"})
    rank_0 = next(pod for pod in rig.pods.values() if pod.annotations["hccl/rankIndex"] == "0")
    rig.sick(rank_0.node or "", 1)
    assert list(deletions(rig.step())) == [rank_0.name]


def test_grace_ends_in_force_after_grace_over_time() -> None:
    rig = Rig(6, grace_over_time=20)
    rig.submit("train", pods=2, chips=8, labels={"fault-scheduling": "grace"})
    rig.run()
    rig.sick("n2", 1)
    assert deletions(rig.step()) == {"train-0": None, "train-1": None}
    assert deletions(rig.step(19)) == {}
    assert rig.machine.next_deadline() == rig.now + SECOND
    assert deletions(rig.step(1)) == {"train-0": 0, "train-1": 0}
    assert deletions(rig.step(60)) == {}


def test_grace_is_no_use_on_a_node_that_is_lost() -> None:
    rig = running({"fault-scheduling": "grace", "pod-rescheduling": "on"})
    hit = rig.pod_on("n3")
    rig.node("n3", ready=False)
    assert deletions(rig.step()) == {hit: 0}


def test_a_terminating_pod_on_a_lost_node_is_ended_by_force() -> None:
    rig = running({"fault-scheduling": "grace", "pod-rescheduling": "on"})
    hit = rig.pod_on("n3")
    rig.change(hit, deleting=True)
    rig.run()
    rig.node("n3", ready=False)
    assert deletions(rig.step()) == {hit: 0}


def test_external_modes_only_mark_the_faulty_pods() -> None:
    rig = running({"fault-scheduling": "external-force", "pod-rescheduling": "on"})
    hit = rig.pod_on("n3")
    rig.sick("n3", 1)
    commands = rig.step() + rig.step(5)
    (mark,) = [one for one in commands if isinstance(one, AnnotatePod)]
    assert (mark.pod, mark.annotations) == (hit, {"huawei.com/pod-status": "Unhealthy-CardUnhealthy"})
    assert deletions(commands) == {}


def test_a_job_handled_elsewhere_is_blocked_until_the_fault_is_gone() -> None:
    rig = running(POD_LEVEL, annotations={"ProcessRecoverStrategy": "recover"})
    rig.sick("n3", 1)
    assert deletions(rig.step()) == {}
    assert state_of(rig) is State.BLOCKED
    rig.sick("n3", 0)
    rig.step()
    assert state_of(rig) is None


def test_a_replacement_is_placed_in_the_turn_in_which_it_appears() -> None:
    rig = running(POD_LEVEL)
    hit = rig.pod_on("n3")
    before = rig.places("train")
    rig.sick("n3", 1)
    rig.step()
    rig.finish()
    rig.run()
    assert state_of(rig) is None
    assert "n3" not in rig.nodes_of("train")
    after = rig.places("train")
    assert {name: place for name, place in after.items() if name != hit} == {
        name: place for name, place in before.items() if name != hit
    }


def test_F2_pod_level_becomes_job_level_after_twelve_seconds_without_a_node() -> None:
    rig = running(POD_LEVEL, nodes=4)
    hit = rig.pod_on("n3")
    rig.sick("n3", 1)
    rig.step()
    rig.finish()
    rig.run()
    assert state_of(rig) is State.WAITING
    assert rig.deletions() == [hit]
    assert deletions(rig.step(11)) == {}
    assert sorted(deletions(rig.step(1))) == sorted({"train-0", "train-1", "train-2", "train-3"} - {hit})


def test_F2_no_healthy_pod_is_deleted_while_the_owner_creates_no_replacement() -> None:
    rig = running(POD_LEVEL, nodes=4)
    hit = rig.pod_on("n3")
    rig.sick("n3", 1)
    rig.step()
    rig.finish(recreate=False)
    rig.step()
    rig.step(60)
    assert rig.deletions() == [hit]


def test_a_second_fault_is_handled_while_the_first_one_is() -> None:
    rig = running({"fault-scheduling": "grace", "pod-rescheduling": "on"})
    first, second = rig.pod_on("n3"), rig.pod_on("n4")
    rig.sick("n3", 1)
    assert list(deletions(rig.step())) == [first]
    rig.sick("n4", 1)
    assert list(deletions(rig.step())) == [second]
    rig.finish()
    rig.run()
    assert state_of(rig) is None
    assert sorted(rig.nodes_of("train")) == ["n1", "n2", "n5", "n6"]


def test_a_refused_deletion_is_repeated_later() -> None:
    rig = running(POD_LEVEL)
    rig.deaf = True
    hit = rig.pod_on("n3")
    rig.sick("n3", 1)
    assert deletions(rig.step()) == {hit: 0}
    rig.tell(ev.EvictFailed(rig.pods[hit].uid))
    assert deletions(rig.step()) == {}
    assert deletions(rig.step(5)) == {hit: 0}


def test_F2_a_job_that_does_not_recover_is_not_forgotten_while_it_exists() -> None:
    rig = Rig(2, grace_over_time=10)
    rig.submit("train", pods=2, chips=8, labels={"fault-scheduling": "force"})
    rig.run()
    rig.sick("n2", 1)
    rig.step()
    rig.finish()
    rig.run()
    assert state_of(rig) is State.WAITING
    rig.step(100_000)
    assert state_of(rig) is State.WAITING
    assert rig.reason("train") is not None
    rig.tell(ev.PodGroupGone("default/train"), *(ev.PodGone(pod.uid) for pod in rig.pods.values()))
    rig.step()
    assert state_of(rig) is None
    assert not rig.machine._components.of(FaultHandler).clocks.by_job


@pytest.mark.parametrize("labels", [{"pod-rescheduling": "on"}, {}], ids=["pod level", "whole job"])
def test_with_a_spare_node_the_replacement_is_bound_in_the_turn_in_which_it_appears(
    labels: dict[str, str],
) -> None:
    """From the report of the fault no virtual time passes: nothing waits for a clock or a later cycle."""
    rig = Rig(4)
    rig.submit("train", pods=3, chips=8, labels={"fault-scheduling": "force", **labels})
    rig.run()
    start = rig.now
    rig.sick(rig.nodes_of("train")[2], 1)
    deleted = deleted_pods(rig.step())
    assert "train-2" in deleted
    for name in deleted:
        rig.recreate(name)
    bound = bound_pods(rig.step())
    assert sorted(bound) == sorted(deleted)
    assert rig.now == start


def test_a_refused_deletion_is_not_repeated_for_a_pod_that_is_healthy_again() -> None:
    rig = running(POD_LEVEL)
    rig.deaf = True
    node = rig.nodes_of("train")[2]
    rig.sick(node, 1)
    assert deleted_pods(rig.step()) == ["train-2"]
    rig.tell(ev.EvictFailed(rig.pods["train-2"].uid))
    rig.step()
    rig.sick(node, 0)
    rig.step(1)
    assert [c for c in rig.step(60) if isinstance(c, DeletePod)] == []
    assert state_of(rig) is None


def test_without_clusterd_a_note_says_how_such_a_job_is_handled() -> None:
    rig = running({"fault-scheduling": "force", "process-recover-enable": "on"})
    rig.sick(rig.nodes_of("train")[2], 1)
    told = [c for c in rig.step() if isinstance(c, RecordJobEvent) and c.reason == "FaultPolicyIgnored"]
    assert ["needs ClusterD, which does not run" in c.message for c in told] == [True]


def test_hot_switch_the_word_of_clusterd_is_enough() -> None:
    rig = running({"fault-scheduling": "force", "subHealthyStrategy": "hotSwitch"})
    rig.tell(report("n6", aggregated=True))
    rig.step()
    pod = rig.pods["train-2"]
    marks = {"needVolcanoOpe": "delete", "backupNewPodName": "train-2-backup"}
    rig.change("train-2", annotations={**pod.annotations, **marks})
    assert deleted_pods(rig.step()) == ["train-2"]


def test_a_pod_that_returns_to_its_node_while_others_run_says_so() -> None:
    rig = Rig(4, prefer_previous_node=True)
    labels = {**POD_LEVEL, "fault-retry-times": "3"}
    rig.submit("train", pods=4, chips=8, labels=labels, owner=Owner("AscendJob", "train", "u"))
    rig.run()
    hit = rig.pod_on("n3")
    rig.change(hit, phase="Failed")
    assert deletions(rig.step()) == {hit: 0}
    rig.finish()
    rig.run()
    assert rig.pods[hit].node == "n3"
    assert rig.pods[hit].annotations["reschedule-in-place"] == "true"
    others = [pod for name, pod in rig.pods.items() if name != hit]
    assert all("reschedule-in-place" not in pod.annotations for pod in others)


def test_a_whole_job_that_returns_is_not_in_place() -> None:
    rig = Rig(4, prefer_previous_node=True)
    labels = {"fault-scheduling": "force", "fault-retry-times": "3"}
    rig.submit("train", pods=4, chips=8, labels=labels, owner=Owner("AscendJob", "train", "u"))
    rig.run()
    rig.change(rig.pod_on("n3"), phase="Failed")
    assert len(deletions(rig.step())) == 4
    rig.finish()
    rig.run()
    assert sorted(rig.nodes_of("train")) == ["n1", "n2", "n3", "n4"]
    assert all("reschedule-in-place" not in pod.annotations for pod in rig.pods.values())
