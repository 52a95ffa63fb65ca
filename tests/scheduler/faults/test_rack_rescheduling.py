"""R3, F2: pods of a job for racks that lose their nodes come back in steps, and intact racks stay."""

from __future__ import annotations

from typing import Any

import pytest

from ringwise.messages import events as ev
from tests.builders.values import SECOND
from tests.scheduler.rig import PLAIN, Rig, deleted_pods

POLICY = {"huawei.com/schedule_policy": "chip8-node8-ra64-sp"}
POD_LEVEL = {"pod-rescheduling": "on"}


def rack_rig(racks: dict[tuple[int, int], int], **settings: Any) -> Rig:
    """Nodes `s0r1n0`: SuperPoD 0, rack 1, number 0."""
    rig = Rig(actions=PLAIN, **settings)
    for (superpod, rack), count in racks.items():
        for number in range(count):
            name = f"s{superpod}r{rack}n{number}"
            rig.node(name, superpod=superpod, rack=rack)
            rig.sick(name, 0)
    return rig


def submit(rig: Rig, pods: int, sp_block: int, ra_block: int, **labels: str) -> None:
    notes = {**POLICY, "sp-block": str(sp_block), "ra-block": str(ra_block)}
    rig.submit("train", pods=pods, chips=8, annotations=notes, labels=labels)
    rig.run()


def break_node(rig: Rig, node: str) -> str:
    """The node's chips fail, its pod fails and is created again; the name of the pod."""
    name = rig.pod_on(node)
    rig.sick(node, 0xFF)
    rig.change(name, phase="Failed")
    rig.step()
    rig.recreate(name)
    return name


def test_r2_pods_carry_block_superpod_and_logical_rack() -> None:
    rig = rack_rig({(0, 0): 4, (0, 1): 4})
    submit(rig, 8, 32, 16)
    marks = [
        tuple(
            pod.annotations[key]
            for key in ("super-pod-rank", "super-pod-id", "ringwise.io/logical-rack", "hccl/rankIndex")
        )
        for pod in sorted(rig.pods.values(), key=lambda pod: pod.name)
    ]
    assert marks == [(str(rank // 4), "0", str(rank // 2), str(rank)) for rank in range(8)]


def test_r3_a_lost_pod_takes_a_node_of_its_own_rack_at_once() -> None:
    rig = rack_rig({(0, 0): 3, (0, 1): 8})
    submit(rig, 2, 16, 16, **POD_LEVEL)
    assert rig.by_rank() == {0: "s0r0n0", 1: "s0r0n1"}
    break_node(rig, "s0r0n1")
    rig.run()
    assert rig.by_rank() == {0: "s0r0n0", 1: "s0r0n2"}


def test_f2_other_racks_are_tried_after_three_seconds_and_the_scheduler_wakes_for_it() -> None:
    rig = rack_rig({(0, 0): 2, (0, 1): 8})
    submit(rig, 2, 16, 8, **POD_LEVEL)
    break_node(rig, "s0r0n1")
    lost = rig.now
    rig.run()
    assert rig.by_rank() == {0: "s0r0n0"}
    assert rig.reason("train") == "rack-wait-for-same-rack"
    assert rig.machine.next_deadline() == lost + 3 * SECOND
    rig.step(2.9)
    assert rig.by_rank() == {0: "s0r0n0"}
    rig.step(0.1)
    rig.run()
    assert rig.by_rank() == {0: "s0r0n0", 1: "s0r1n0"}


def test_f2_the_seconds_are_settings() -> None:
    rig = rack_rig({(0, 0): 2, (0, 1): 8}, reschedule_rack_after=30)
    submit(rig, 2, 16, 8, **POD_LEVEL)
    break_node(rig, "s0r0n1")
    rig.run()
    rig.step(5)
    rig.run()
    assert rig.by_rank() == {0: "s0r0n0"}
    rig.step(25)
    rig.run()
    assert rig.by_rank() == {0: "s0r0n0", 1: "s0r1n0"}


def test_r3_without_pod_rescheduling_no_level_is_waited_for() -> None:
    rig = rack_rig({(0, 0): 2, (0, 1): 8})
    submit(rig, 2, 16, 8)
    break_node(rig, "s0r0n1")
    rig.run()
    assert rig.by_rank() == {0: "s0r0n0", 1: "s0r1n0"}


def test_r3_a_logical_rack_that_lost_all_its_pods_moves_as_a_whole() -> None:
    rig = rack_rig({(0, 0): 4, (0, 1): 3, (0, 2): 2, (1, 0): 8, (1, 1): 8})
    submit(rig, 4, 32, 16, **POD_LEVEL)
    assert rig.by_rank() == {rank: f"s0r0n{rank}" for rank in range(4)}
    for node in ("s0r0n2", "s0r0n3"):
        break_node(rig, node)
    rig.run()
    assert rig.by_rank() == {0: "s0r0n0", 1: "s0r0n1"}
    rig.step(3)
    rig.run()
    assert rig.by_rank() == {0: "s0r0n0", 1: "s0r0n1", 2: "s0r2n0", 3: "s0r2n1"}


def test_r3_a_block_without_running_pods_moves_after_six_seconds_and_the_other_stays() -> None:
    rig = rack_rig({(0, 0): 4, (1, 0): 4, (2, 0): 3, (2, 1): 3})
    submit(rig, 8, 32, 32, **POD_LEVEL)
    before = rig.by_rank()
    assert {before[rank][:4] for rank in range(4)} == {"s0r0"}
    assert {before[rank][:4] for rank in range(4, 8)} == {"s1r0"}
    for rank in range(4, 8):
        break_node(rig, before[rank])
    for number in range(4):
        name = f"s3r0n{number}"
        rig.node(name, superpod=3, rack=0)
        rig.sick(name, 0)
    rig.run()
    assert rig.by_rank() == {rank: before[rank] for rank in range(4)}
    rig.step(3)
    rig.run()
    assert rig.reason("train") == "rack-wait-for-same-superpod"
    rig.step(3)
    rig.run()
    after = rig.by_rank()
    assert {rank: after[rank] for rank in range(4)} == {rank: before[rank] for rank in range(4)}
    assert [after[rank] for rank in range(4, 8)] == [f"s3r0n{number}" for number in range(4)]


@pytest.mark.parametrize("sp_block", [True, False])
def test_r3_the_healthy_nodes_of_lost_pods_are_reserved_for_them(sp_block: bool) -> None:
    """Also for a job without sp-block: its pods carry a logical rack."""
    rig = rack_rig({(0, 0): 3, (0, 1): 2})
    notes = {**POLICY, **({"sp-block": "16"} if sp_block else {})}
    rig.submit("train", pods=2, chips=8, annotations=notes, labels=POD_LEVEL)
    rig.run()
    before = rig.by_rank()
    name = next(name for name, pod in rig.pods.items() if pod.node == before[1])
    rig.tell(ev.PodGone(rig.pods[name].uid))
    rig.step()
    for number in range(4):
        rig.submit(f"thief{number}", chips=8, annotations=POLICY)
    rig.run()
    assert before[1] not in {pod.node for pod in rig.pods.values() if pod.group != "train"}
    rig.replacement(name)
    rig.run()
    assert rig.by_rank() == before


def test_r2_the_map_is_read_from_the_pods_after_a_restart_of_the_scheduler() -> None:
    rig = rack_rig({(0, 0): 4, (0, 1): 6, (1, 0): 7, (1, 1): 7})
    submit(rig, 8, 64, 32)
    before = rig.by_rank()
    assert {before[rank][:4] for rank in range(4, 8)} == {"s0r1"}
    # Another scheduler sees the running pods, and a replacement for rank 6 without any memory of its node.
    lost = next(name for name, pod in rig.pods.items() if pod.node == before[6])
    fresh = rack_rig({(0, 0): 4, (0, 1): 6, (1, 0): 7, (1, 1): 7})
    fresh.groups = dict(rig.groups)
    for group in rig.groups.values():
        fresh.tell(group)
    for name, pod in rig.pods.items():
        if name != lost:
            fresh.put(pod)
    fresh.pods[lost] = rig.pods[lost]
    fresh.replacement(lost)
    fresh.run()
    after = fresh.by_rank()
    assert {rank: node for rank, node in after.items() if rank != 6} == {
        rank: node for rank, node in before.items() if rank != 6
    }
    assert after[6][:4] == "s0r1"


# -- with fault-scheduling: which healthy pods are deleted -------------------------------------------------


def deleted(rig: Rig, seconds: float = 0) -> list[int]:
    """Ranks of the pods that one turn deletes; their owner creates them again."""
    commands = rig.step(seconds)
    names = deleted_pods(commands)
    ranks = sorted(int(rig.pods[name].annotations["hccl/rankIndex"]) for name in names)
    rig.recreate(*names)
    if names:
        rig.run()
    return ranks


def broken_rank_5(**labels: str) -> Rig:
    """Twelve pods in blocks of four and logical racks of two; no node is free when that of rank 5 breaks."""
    rig = rack_rig({(0, 0): 8, (1, 0): 4})
    submit(rig, 12, 32, 16, **{"fault-scheduling": "force", **POD_LEVEL, **labels})
    assert len(rig.by_rank()) == 12
    node = rig.by_rank()[5]
    # ClusterD runs: its aggregate is there.
    rig.sick(node, 0xFF, aggregated=True)
    assert deleted(rig) == [5]
    return rig


def test_r3_healthy_pods_are_deleted_as_the_level_grows() -> None:
    """The faulty pod, after 3s its logical rack, after 6s its block, after 12s the whole job."""
    rig = broken_rank_5()
    assert deleted(rig, 2.9) == []
    assert deleted(rig, 0.2) == [4]
    assert deleted(rig, 2.8) == []
    assert deleted(rig, 0.2) == [6, 7]
    assert deleted(rig, 5.8) == []
    assert deleted(rig, 0.2) == [0, 1, 2, 3, 8, 9, 10, 11]


def test_r3_with_process_recovery_no_level_beyond_the_logical_rack_begins() -> None:
    rig = broken_rank_5(**{"process-recover-enable": "on"})
    assert [deleted(rig, seconds) for seconds in (3.1, 3.1, 6.1)] == [[4], [], []]


@pytest.mark.parametrize(("rank", "others"), [(7, [6]), (1, [0, 2, 3, 4, 5, 6, 7])])
def test_f2_the_whole_job_restarts_where_rank_0_would_restart_with_the_rack_of_another_pod(
    rank: int, others: list[int]
) -> None:
    rig = rack_rig({(0, 0): 4, (0, 1): 4})
    submit(rig, 8, 32, 16, **{**POD_LEVEL, "fault-scheduling": "force"})
    names = {at: rig.pod_on(node) for at, node in rig.by_rank().items()}
    rig.sick(rig.by_rank()[rank], 0xFF, superpod=0, rack=rank // 4)
    assert deleted_pods(rig.step()) == [names[rank]]
    rig.recreate(names[rank])
    rig.run()
    assert deleted_pods(rig.step(2)) == []
    assert sorted(deleted_pods(rig.step(1))) == sorted(names[at] for at in others)
