"""Pods on simulated nodes: start, run, end, fail, deletion; chips, faults, drains, failed bindings."""

from __future__ import annotations

import pytest

from ringwise.durations import SECOND
from ringwise.embed.cluster import EmbeddedCluster
from ringwise.embed.fleets import make_fleet
from ringwise.embed.kubelet import SimulationSettings
from ringwise.embed.objects import ConflictError
from ringwise.embed.records import ObjectRefusedError
from ringwise.messages import events as ev
from ringwise.messages.commands import (
    Bind,
    Command,
    CreateGroup,
    CreatePod,
    DeletePod,
    Evict,
    Publish,
    SetGroupStatus,
    SetPodCondition,
    UpdateQueue,
)
from ringwise.messages.job_expansion import pod_group_of, pods_of
from ringwise.reasons import CAPACITY, ReasonKind, Stage
from ringwise.state.model import Node, Pod, PodGroup, Queue
from ringwise.state.vcjob import VcJob
from tests.builders.values import CHIP, group, job_of, pod, task_of
from tests.embed.drains import drain
from tests.embed.faulty import FaultyCluster, fail_next_binds, set_health

HABITS = SimulationSettings(start_delay=2 * SECOND, grace=3 * SECOND)
WAITS = ReasonKind("waits", Stage.GANG, "waits", ("wait",), CAPACITY)


def cluster_of(nodes: int = 2) -> EmbeddedCluster:
    cluster = FaultyCluster(settings=HABITS)
    fleet = make_fleet(nodes)
    cluster.submit_all(fleet.nodes)
    cluster.submit_all(fleet.reports)
    return cluster


def submitted(cluster: EmbeddedCluster, name: str = "p", /, **annotations: str) -> Pod:
    notes = {f"ringwise.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    cluster.submit(pod(name, uid="", annotations=notes))
    return found(cluster, name)


def found(cluster: EmbeddedCluster, name: str = "p") -> Pod:
    pod = cluster.get(Pod, f"default/{name}")
    assert pod is not None
    return pod


def bind(
    cluster: EmbeddedCluster, pod: Pod, node: str = "node-0", chips: tuple[int, ...] = (0,)
) -> list[ev.Event]:
    return cluster.apply(Bind(pod.uid, pod.namespace, pod.name, node, chips, {CHIP: "x"}))


def free(cluster: EmbeddedCluster, node: str = "node-0") -> int:
    report = cluster.nodes.report(node, CHIP)
    assert report is not None
    return report.free


def test_a_bound_pod_starts_runs_and_succeeds() -> None:
    cluster = cluster_of()
    pod = submitted(cluster, expected_duration="10s")
    assert bind(cluster, pod, chips=(3,)) == []
    assert found(cluster).phase == "Pending"
    assert free(cluster) == 0xFF
    events = cluster.advance(2 * SECOND)
    running = found(cluster)
    assert running.phase == "Running"
    assert running.annotations["huawei.com/AscendReal"] == "Ascend910-3"
    assert running.annotations["predicate-time"] == "18446744073709551615"
    assert ev.PodSeen(running) in events
    assert free(cluster) == 0xFF & ~(1 << 3)
    cluster.advance(11 * SECOND)
    assert found(cluster).phase == "Running"
    cluster.advance(12 * SECOND)
    ended = found(cluster)
    assert (ended.phase, ended.exit_code, ended.ended) == ("Succeeded", 0, 12 * SECOND)
    assert free(cluster) == 0xFF
    assert cluster.next_deadline() is None


@pytest.mark.parametrize(
    ("script", "duration", "phase", "code", "at"),
    [
        ("fail", None, "Failed", 1, 2),
        ("fail@30", None, "Failed", 1, 32),
        ("fail@30:137", "5s", "Failed", 137, 32),
        ("fail:7", "1m", "Failed", 7, 62),
        ("succeed@4", "1h", "Succeeded", 0, 6),
        ("nonsense", None, "Failed", 128, 2),
        (None, "90", "Succeeded", 0, 92),
        (None, "not a time", "Failed", 128, 2),
    ],
)
def test_annotations_decide_how_and_when_a_pod_ends(
    script: str | None, duration: str | None, phase: str, code: int, at: int
) -> None:
    cluster = cluster_of()
    notes = {"simulate": script, "expected_duration": duration}
    pod = submitted(cluster, **{key: value for key, value in notes.items() if value is not None})
    bind(cluster, pod)
    cluster.advance(at * SECOND - 1)
    assert found(cluster).live
    cluster.advance(at * SECOND)
    assert (found(cluster).phase, found(cluster).exit_code) == (phase, code)


@pytest.mark.parametrize("script", [{"simulate": "forever", "expected_duration": "5s"}, {}])
def test_a_pod_without_an_end_runs_until_it_is_deleted(script: dict[str, str]) -> None:
    cluster = cluster_of()
    bind(cluster, submitted(cluster, **script))
    cluster.advance(10**6 * SECOND)
    assert found(cluster).phase == "Running"
    assert cluster.next_deadline() is None


def test_N6_a_terminating_pod_keeps_its_chips_until_it_is_deleted() -> None:
    cluster = cluster_of()
    first = submitted(cluster)
    bind(cluster, first)
    cluster.advance(5 * SECOND)
    cluster.apply(Evict(first.uid, "default", "p", "preempted"))
    assert found(cluster).deleting
    assert not free(cluster) & 1
    cluster.advance(8 * SECOND - 1)
    assert found(cluster).live
    events = cluster.advance(8 * SECOND)
    assert ev.PodGone(first.uid) in events
    # As kubelet does, its phase says first that its containers have ended.
    ended = [event.pod for event in events if isinstance(event, ev.PodSeen)]
    assert [(pod.phase, pod.exit_code, pod.deleting) for pod in ended] == [("Failed", 143, True)]
    assert free(cluster) == 0xFF
    assert cluster.alarms == []


def test_N6_a_chip_assigned_twice_raises_an_alarm_and_the_second_pod_fails() -> None:
    cluster = cluster_of()
    bind(cluster, submitted(cluster, "one"), chips=(0,))
    bind(cluster, submitted(cluster, "two"), chips=(0,))
    assert len(cluster.alarms) == 1
    assert "default/two was given chips (0,) of node-0" in cluster.alarms[0]
    cluster.advance(2 * SECOND)
    assert found(cluster, "one").phase == "Running"
    assert found(cluster, "two").phase == "Failed"


def test_N6_a_chip_of_a_terminating_pod_assigned_again_raises_an_alarm() -> None:
    cluster = cluster_of()
    first = submitted(cluster, "one")
    bind(cluster, first)
    cluster.advance(2 * SECOND)
    cluster.apply(DeletePod(first.uid, "default", "one"))
    bind(cluster, submitted(cluster, "two"))
    assert len(cluster.alarms) == 1


def test_chips_of_ended_pods_can_be_assigned_again() -> None:
    cluster = cluster_of()
    bind(cluster, submitted(cluster, "one", simulate="succeed@1"))
    cluster.advance(5 * SECOND)
    bind(cluster, submitted(cluster, "two"))
    cluster.advance(10 * SECOND)
    assert found(cluster, "two").phase == "Running"
    assert cluster.alarms == []


def test_unhealthy_chips_are_reported_and_fail_pods_until_they_recover() -> None:
    cluster = cluster_of()
    set_health(cluster, "node-0", (0, 1), healthy=False)
    report = cluster.nodes.report("node-0", CHIP)
    node = cluster.get(Node, "node-0")
    assert report is not None
    assert node is not None
    assert (report.unhealthy, report.free, node.chips_allocatable[CHIP]) == (0b11, 0xFC, 6)
    bind(cluster, submitted(cluster, "unlucky"), chips=(1,))
    cluster.advance(2 * SECOND)
    assert found(cluster, "unlucky").phase == "Failed"
    set_health(cluster, "node-0", (0, 1), healthy=True)
    set_health(cluster, "node-0", (5,), healthy=False, network=True)
    healed = cluster.nodes.report("node-0", CHIP)
    assert healed is not None
    assert (healed.unhealthy, healed.network_unhealthy, healed.free) == (0, 1 << 5, 0xFF)


@pytest.mark.parametrize("case", ["gone", "terminating", "bound", "no node", "refused"])
def test_an_impossible_binding_fails_with_a_reason_and_takes_no_chips(case: str) -> None:
    cluster = cluster_of()
    pod = submitted(cluster)
    node, why = (
        "node-0",
        {
            "gone": "is gone",
            "terminating": "is terminating",
            "bound": "already on node-1",
            "no node": 'node "moon" not found',
            "refused": "was refused",
        }[case],
    )
    if case == "gone":
        cluster.delete("Pod", pod.key)
    elif case in ("terminating", "bound"):
        bind(cluster, pod, "node-1")
        if case == "terminating":
            cluster.delete("Pod", pod.key)
    elif case == "no node":
        node = "moon"
    else:
        fail_next_binds(cluster, "node-0")
    before = cluster.get(Pod, pod.key)
    failures = bind(cluster, pod, node, (7,))
    assert len(failures) == 1
    assert isinstance(failures[0], ev.BindFailed)
    assert why in failures[0].why
    assert cluster.get(Pod, pod.key) == before
    other = submitted(cluster, "other")
    assert bind(cluster, other, "node-0", (7,)) == []
    assert cluster.alarms == []


def test_pods_of_a_node_that_is_not_ready_do_not_change() -> None:
    cluster = cluster_of()
    pod = submitted(cluster, expected_duration="10s")
    bind(cluster, pod)
    cluster.set_ready("node-0", False)
    cluster.advance(60 * SECOND)
    assert found(cluster).phase == "Pending"
    cluster.set_ready("node-0", True)
    cluster.advance(60 * SECOND)
    assert found(cluster).phase == "Running"
    cluster.set_ready("node-0", False)
    cluster.delete("Pod", pod.key)
    cluster.advance(600 * SECOND)
    assert found(cluster).deleting
    cluster.delete("Node", "node-0")
    assert cluster.get(Pod, pod.key) is None
    assert cluster.nodes.report("node-0", CHIP) is None


def test_a_drain_cordons_the_node_and_deletes_its_pods() -> None:
    cluster = cluster_of()
    bind(cluster, submitted(cluster, "one"))
    bind(cluster, submitted(cluster, "two"), "node-1")
    cluster.advance(5 * SECOND)
    assert drain(cluster, "node-0") == ["default/one"]
    cluster.advance(20 * SECOND)
    assert [pod.name for pod in cluster.all(Pod)] == ["two"]
    node = cluster.get(Node, "node-0")
    assert node is not None
    assert node.unschedulable
    cluster.cordon("node-0", False)
    node = cluster.get(Node, "node-0")
    assert node is not None
    assert not node.unschedulable


def test_a_new_pod_the_same_name_has_another_uid() -> None:
    cluster = cluster_of()
    first = submitted(cluster)
    with pytest.raises(ObjectRefusedError, match="already exists"):
        cluster.submit(pod("p", uid=""))
    cluster.delete("Pod", first.key)
    second = submitted(cluster)
    assert second.uid != first.uid
    cluster.apply(DeletePod(first.uid, "default", "p"))
    assert found(cluster) == second
    with pytest.raises(ConflictError, match="has the uid"):
        cluster.delete("Pod", first.key, uid=first.uid)


def test_of_a_job_only_replicas_minimums_and_priority_may_change() -> None:
    cluster = cluster_of()
    cluster.submit(job_of(task_of(replicas=2)))
    cluster.submit(job_of(task_of(replicas=3, min_available=1)))
    with pytest.raises(
        ObjectRefusedError, match="only replicas and minAvailable of its tasks can be changed"
    ):
        cluster.submit(job_of(task_of(replicas=3, chips=4)))
    with pytest.raises(ObjectRefusedError, match="its max_retry is immutable"):
        cluster.submit(job_of(task_of(replicas=3), max_retry=9))


def test_changes_of_a_queue() -> None:
    cluster = cluster_of()
    cluster.submit(Queue("blue", annotations={"a": "b"}))
    cluster.apply(UpdateQueue("blue", "Closing", True, "root"))
    cluster.apply(UpdateQueue("gone", "Closing"))
    queue = cluster.get(Queue, "blue")
    assert queue is not None
    assert (queue.state, queue.parent) == ("Closing", "root")
    assert queue.annotations == {"a": "b", "volcano.sh/closed-by-parent": "true"}
    cluster.apply(UpdateQueue("blue", closed_by_parent=False))
    queue = cluster.get(Queue, "blue")
    assert queue is not None
    assert (queue.state, queue.annotations["volcano.sh/closed-by-parent"]) == ("Closing", "false")


def test_what_a_queue_lacked_is_written_once() -> None:
    """A queue of a live cluster, with neither state nor parent: the controller would write both for ever."""
    cluster = cluster_of()
    cluster.submit(Queue("blue", parent="root", missing=("state", "parent")))
    cluster.apply(UpdateQueue("blue", "Open"))
    cluster.apply(UpdateQueue("blue", parent="root"))
    queue = cluster.get(Queue, "blue")
    assert queue is not None
    assert queue.missing == ()


def test_status_commands_are_kept_and_change_versions_only_when_new() -> None:
    cluster = cluster_of()
    cluster.submit(group("g"))
    pod = submitted(cluster)
    cluster.apply(SetGroupStatus("default/g", "Inqueue", WAITS()))
    cluster.apply(Publish("kube-system", "tor-share-cm", {"a": "b"}))
    version = cluster.table.version
    cluster.apply(SetGroupStatus("default/g", "Inqueue", WAITS()))
    cluster.apply(Publish("kube-system", "tor-share-cm", {"a": "b"}))
    cluster.apply(SetPodCondition(pod.uid, "default", "p", WAITS()))
    assert cluster.table.version == version
    assert cluster.group_status["default/g"].reason == WAITS()
    cluster.delete("Pod", pod.key)
    cluster.delete("PodGroup", "default/g")
    assert not cluster.group_status


def test_time_does_not_go_back() -> None:
    cluster = cluster_of()
    cluster.advance(10)
    with pytest.raises(ValueError, match="cannot go back"):
        cluster.advance(9)


def test_nothing_is_created_for_a_deleted_job() -> None:
    cluster = cluster_of()
    cluster.submit(job_of())
    job = cluster.get(VcJob, "default/train")
    assert job is not None
    orders: list[Command] = [CreateGroup(pod_group_of(job)), *(CreatePod(pod) for pod in pods_of(job))]
    cluster.delete("VcJob", job.key)
    for order in orders:
        cluster.apply(order)
    assert (cluster.all(PodGroup), cluster.all(Pod)) == ([], [])
    cluster.submit(job_of())
    for order in orders:
        cluster.apply(order)
    assert (cluster.all(PodGroup), cluster.all(Pod)) == ([], [])
