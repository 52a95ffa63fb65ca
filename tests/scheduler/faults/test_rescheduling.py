"""S9, P7: after a fault healthy pods keep their nodes, and the nodes of lost ones are reserved for them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ringwise.messages import events as ev
from ringwise.scheduler.faults.previous_placements import PreviousPlacements
from ringwise.state.model import Owner
from ringwise.state.vcjob import VcJob
from tests.builders.values import SECOND
from tests.scheduler.rig import PLAIN, Rig

OWNER = Owner("Job", "model", "uid-of-model")


def switch_rig(switches: int = 3, nodes: int = 4, version: str = "2.0") -> Rig:
    """Switches A, B, C of four nodes: n1-n4, n5-n8, n9-n12."""
    rig = Rig(actions=PLAIN, nslb_version=version)
    rig.switches(switches, nodes)
    return rig


def model(rig: Rig, pods: int = 6, owner: Owner | None = None) -> None:
    rig.submit("model", pods=pods, chips=8, labels={"tor-affinity": "large-model-schema"}, owner=owner)
    rig.run()


def rest(rig: Rig) -> None:
    """Other pods take every other node."""
    free = 12 - len(rig.places("model"))
    for number in range(free):
        rig.submit(f"filler{number}", chips=8)
    rig.run()


def lose(rig: Rig, name: str) -> None:
    """The pod fails, is deleted, and its controller creates it again."""
    rig.change(name, phase="Failed")
    rig.step()
    rig.tell(ev.PodGone(rig.pods[name].uid))
    rig.step()


def test_s9_the_node_of_a_lost_pod_is_reserved_and_its_replacement_gets_node_and_rank() -> None:
    rig = switch_rig()
    model(rig)
    before = rig.by_rank("model")
    assert sorted(before.values(), key=lambda name: int(name[1:])) == ["n1", "n2", "n3", "n4", "n5", "n6"]
    rest(rig)
    name = rig.pod_on("n2")
    lose(rig, name)
    rig.submit("thief", chips=8)
    rig.run()
    assert rig.places("thief") == {}
    rig.replacement(name)
    rig.run()
    assert rig.by_rank("model") == before
    assert rig.machine.view.reservations.of("default/model") is None
    assert rig.machine._components.of(PreviousPlacements).rescheduling == 0
    rig.run()
    assert rig.places("thief") == {}


def test_s9_the_reservation_has_a_limit_and_the_deadline_is_reported() -> None:
    rig = switch_rig()
    model(rig)
    rest(rig)
    name = rig.pod_on("n2")
    rig.change(name, phase="Failed")
    rig.step()
    lost = rig.now
    rig.submit("thief", chips=8)
    rig.run()
    rig.step(11)
    assert rig.machine.next_deadline() == lost + 120 * SECOND
    rig.step(108)
    assert rig.places("thief") == {}
    rig.step(1)
    rig.run()
    assert rig.nodes_of("thief") == ["n2"]
    assert rig.machine.view.jobs["default/model"].previous_nodes == {}


@pytest.mark.parametrize(
    ("faulty", "taken", "expected"),
    [
        ("n2", [], "n7"),
        ("n6", [], "n7"),
        ("n2", ["n7", "n8"], "n9"),
    ],
    ids=["exclusive is full, then its shared one", "its shared one", "nothing of its own left, then unused"],
)
def test_s9_a_pod_of_a_failed_node_tries_exclusive_then_shared_then_unused_switches(
    faulty: str, taken: list[str], expected: str
) -> None:
    rig = switch_rig()
    model(rig)
    for node in taken:
        rig.submit(f"on-{node}", chips=8, node_selector=(("only", node),))
        rig.node(node, internal_ip=f"10.0.0.{node[1:]}", labels={"only": node})
    rig.run()
    before = rig.by_rank("model")
    rank = next(rank for rank, node in before.items() if node == faulty)
    name = rig.pod_on(faulty)
    rig.node(faulty, ready=False, internal_ip=f"10.0.0.{faulty[1:]}")
    lose(rig, name)
    rig.replacement(name)
    rig.run()
    assert rig.by_rank("model") == {**before, rank: expected}


def test_s9_a_previous_node_with_faulty_chips_is_not_used() -> None:
    rig = switch_rig()
    model(rig)
    before = rig.by_rank("model")
    name = rig.pod_on("n2")
    rank = next(rank for rank, node in before.items() if node == "n2")
    lose(rig, name)
    rig.sick("n2", 1)
    rig.replacement(name)
    rig.run()
    assert rig.by_rank("model") == {**before, rank: "n7"}


def restart(rig: Rig, vcjob: VcJob) -> None:
    """The whole job restarts: its pods and its PodGroup are deleted and created again."""
    names = rig.pods_of("model")
    rig.tell(replace(vcjob, phase="Restarting", version=1))
    for name in names:
        rig.change(name, deleting=True)
    rig.step()
    rig.tell(ev.PodGroupGone("default/model"))
    rig.step()
    for name in names:
        rig.tell(ev.PodGone(rig.pods[name].uid))
        rig.step()


def test_s9_a_restarted_job_gets_its_healthy_nodes_back() -> None:
    rig = switch_rig()
    vcjob = VcJob("default", "model", OWNER.uid)
    rig.tell(vcjob)
    model(rig, owner=OWNER)
    before = rig.by_rank("model")
    rest(rig)
    rig.end("filler0")
    rig.run()
    rig.node("n2", ready=False, internal_ip="10.0.0.2")
    restart(rig, vcjob)
    assert "default/model" not in rig.machine.view.jobs
    rig.submit("thief", chips=8, pods=2)
    rig.run()
    assert rig.places("thief") == {}
    rig.tell(rig.groups["default/model"])
    rig.run()
    for index in range(6):
        rig.replacement(f"model-{index}")
    rig.run()
    rank = next(rank for rank, node in before.items() if node == "n2")
    after = rig.by_rank("model")
    assert {key: node for key, node in after.items() if key != rank} == {
        key: node for key, node in before.items() if key != rank
    }
    assert after[rank] == "n7"
    assert rig.machine._components.of(PreviousPlacements).rescheduling == 0


def test_previous_placements_of_a_deleted_job_are_forgotten() -> None:
    rig = switch_rig()
    vcjob = VcJob("default", "model", OWNER.uid)
    rig.tell(vcjob)
    model(rig, owner=OWNER)
    rest(rig)
    rig.submit("next", chips=8)
    rig.run()
    rig.tell(ev.VcJobGone("default/model"))
    rig.end("model")
    rig.run()
    assert rig.machine._components.of(PreviousPlacements).rescheduling == 0
    assert len(list(rig.machine.view.reservations)) == 0
    assert len(rig.places("next")) == 1


def test_pods_that_finish_are_not_lost() -> None:
    rig = switch_rig()
    model(rig)
    rig.change("model-0", phase="Succeeded")
    rig.run()
    assert rig.machine._components.of(PreviousPlacements).rescheduling == 0


def test_a_failed_pod_that_is_not_deleted_gives_its_rank_to_its_replacement() -> None:
    """A Deployment's pods come back under other names, and the failed one is still there."""
    rig = switch_rig()
    model(rig)
    before = rig.by_rank("model")
    lost = rig.pod_on("n3")
    rig.change(lost, phase="Failed")
    rig.step()
    rig.put(
        replace(
            rig.pods[lost], uid="new", name="model-z9", phase="Pending", node=None, holds=(), annotations={},
            rank=None,
        )
    )  # fmt: skip
    rig.run()
    assert rig.nodes_of("model").count("n3") == 2  # the failed pod still names its node
    assert rig.pods["model-z9"].annotations["hccl/rankIndex"] == str(
        next(rank for rank, node in before.items() if node == "n3")
    )


# -- what is published --------------------------------------------------------------------------


def test_s2_switch_states_are_published_when_they_change() -> None:
    rig = switch_rig()
    rig.run()
    model(rig)
    published = rig.published()
    assert [(news.namespace, news.name) for news in published] == [("volcano-system", "tor-share-cm")] * 2
    content = json.loads(published[-1].data["global-tor-info"])
    assert [content[name]["IsSharedTor"] for name in "ABC"] == [2, 1, 0]
    assert content["A"]["nodes"][0] == {"NodeIp": "10.0.0.1", "NodeName": "n1", "JobName": ["model"]}
    rig.submit("plain", chips=8)
    rig.run()
    assert len(rig.published()) == 2
    rig.end("model")
    rig.run()
    assert len(rig.published()) == 3


def test_s8_version_1_publishes_nothing() -> None:
    rig = switch_rig(version="1.0")
    model(rig)
    assert len(rig.places("model")) == 6
    assert rig.published() == []


# -- SuperPoDs -------------------------------------------------------------------------------------


def superpod_rig() -> Rig:
    """Two SuperPoDs of six nodes; a job of two blocks of two nodes."""
    rig = Rig(actions=PLAIN, super_pod_size=6, reserve_nodes=1)
    rig.superpods(2, 6)
    return rig


def blocks_job(rig: Rig) -> None:
    rig.submit(
        "model",
        pods=4,
        chips=16,
        annotations={"sp-block": "32", "huawei.com/schedule_policy": "chip2-node16-sp"},
    )
    rig.run()


def test_p7_a_broken_block_is_refilled_in_its_superpod_and_intact_blocks_stay() -> None:
    rig = superpod_rig()
    blocks_job(rig)
    before = rig.by_rank("model")
    assert len(before) == 4
    broken = before[3]
    rig.node(broken, chips=16, ready=False, superpod=0 if int(broken[1:]) <= 6 else 1)
    name = rig.pod_on(broken)
    lose(rig, name)
    rig.replacement(name)
    rig.run()
    after = rig.by_rank("model")
    assert {rank: after[rank] for rank in (0, 1, 2)} == {rank: before[rank] for rank in (0, 1, 2)}
    assert after[3] != broken
    assert (int(after[3][1:]) <= 6) is (int(broken[1:]) <= 6)
    assert rig.pods[name].annotations["super-pod-rank"] == "1"


def test_p7_a_superpod_job_waits_for_its_own_node_and_then_takes_another() -> None:
    """Its node is healthy but cannot be had: after ten seconds it is placed elsewhere. No pod of it runs."""
    rig = superpod_rig()
    blocks_job(rig)
    before = rig.by_rank("model")
    names = [rig.pod_on(node) for node in before.values()]
    for name in names:
        rig.change(name, phase="Failed")
    rig.step()
    number = int(before[3][1:])
    rig.node(f"n{number}", chips=16, unschedulable=True, superpod=0 if number <= 6 else 1)
    rig.recreate(*names)
    rig.run()
    assert rig.reason("model") == "superpod-wait-for-old-nodes"
    deadline = rig.machine.next_deadline()
    assert deadline is not None
    assert deadline <= rig.now + 10 * SECOND + 1
    rig.step((deadline - rig.now) / SECOND)
    rig.run()
    after = rig.by_rank("model")
    assert len(after) == 4
    assert after[3] != before[3]


def test_p7_nothing_is_waited_for_while_pods_of_the_job_run() -> None:
    rig = superpod_rig()
    blocks_job(rig)
    before = rig.by_rank("model")
    name = rig.pod_on(before[3])
    rig.change(name, phase="Failed")
    rig.step()
    number = int(before[3][1:])
    rig.node(f"n{number}", chips=16, unschedulable=True, superpod=0 if number <= 6 else 1)
    rig.recreate(name)
    rig.run()
    after = rig.by_rank("model")
    assert after[3] != before[3]
    assert {rank: after[rank] for rank in range(3)} == {rank: before[rank] for rank in range(3)}


def all_terminate(rig: Rig) -> dict[int, str]:
    """Every pod of the job is deleted, and one node is cordoned: it is waited for in vain."""
    before = rig.by_rank("model")
    number = int(before[3][1:])
    rig.node(f"n{number}", chips=16, unschedulable=True, superpod=0 if number <= 6 else 1)
    for node in before.values():
        rig.change(rig.pod_on(node), deleting=True)
    rig.step()
    return before


def come_back(rig: Rig, *names: str) -> None:
    rig.recreate(*names)
    rig.run()


def test_p7_the_wait_counts_from_when_the_last_pod_on_a_healthy_node_is_gone() -> None:
    rig = superpod_rig()
    blocks_job(rig)
    before = all_terminate(rig)
    names = [rig.pod_on(node) for node in before.values()]
    for index, name in enumerate(names):
        rig.step(8)
        # The gang cannot start before the last one: its pods still terminate.
        come_back(rig, name)
        assert len(rig.by_rank("model")) < 4 or index == 3
    assert rig.reason("model") == "superpod-wait-for-old-nodes"
    rig.step(10)
    assert rig.reason("model") == "superpod-wait-for-old-nodes"
    rig.step(0.1)
    rig.run()
    assert rig.reason("model") is None
    assert rig.by_rank("model")[3] != before[3]


def test_p7_a_pod_that_terminates_and_the_one_that_replaces_it_count_once_for_the_blocks() -> None:
    """An owner that names its pods anew may create the new one before the old one is gone."""
    rig = superpod_rig()
    blocks_job(rig)
    old = rig.pods["model-0"]
    rig.change(old.name, deleting=True)
    rig.step()
    rig.put(replace(old, name="model-new", uid="new", phase="Pending", node=None, holds=(), rank=None))
    rig.run()
    assert rig.reason("model") is None
    assert rig.pods["model-new"].node is not None


def test_p7_a_faulty_pod_that_terminates_does_not_extend_the_wait_for_a_healthy_node() -> None:
    rig = superpod_rig()
    blocks_job(rig)
    before = rig.by_rank("model")
    names = [rig.pod_on(node) for node in before.values()]
    number = int(before[2][1:])
    rig.node(before[2], chips=16, ready=False, superpod=0 if number <= 6 else 1)
    all_terminate(rig)
    come_back(rig, names[0], names[1], names[3])
    # The kubelet of its node does not answer: its pod is never gone.
    rig.replacement(names[2])
    rig.run()
    assert rig.reason("model") == "superpod-wait-for-old-nodes"
    rig.step(10.1)
    rig.run()
    assert rig.reason("model") is None
    assert len(rig.by_rank("model")) == 4


def test_p7_a_job_that_waits_for_its_nodes_names_them() -> None:
    rig = superpod_rig()
    blocks_job(rig)
    before = rig.by_rank("model")
    names = [f"model-{index}" for index in range(4)]
    for name in names:
        rig.change(name, phase="Failed")
    rig.step()
    for name in names:
        rig.tell(ev.PodGone(rig.pods[name].uid))
    number = int(before[3][1:])
    rig.node(before[3], chips=16, unschedulable=True, superpod=0 if number <= 6 else 1)
    for name in names:
        rig.replacement(name)
    rig.run()
    reason = rig.machine.view.jobs["default/model"].reason
    assert reason is not None
    assert reason.code == "superpod-wait-for-old-nodes"
    assert reason.message.endswith(f"released: {before[3]}")


def test_p7_a_whole_superpod_job_gets_its_nodes_back() -> None:
    rig = superpod_rig()
    blocks_job(rig)
    before = rig.by_rank("model")
    names = [f"model-{index}" for index in range(4)]
    for name in names:
        rig.change(name, phase="Failed")
    rig.step()
    for name in names:
        rig.tell(ev.PodGone(rig.pods[name].uid))
    rig.submit("thief", chips=16, annotations={"huawei.com/schedule_policy": "chip2-node16"})
    rig.run()
    assert not set(rig.nodes_of("thief")) & set(before.values())
    for name in names:
        rig.replacement(name)
    rig.run()
    assert rig.by_rank("model") == before


def test_s9_a_new_node_is_not_reserved_for_the_job_that_lost_a_deleted_one() -> None:
    """The new node may get the id of the deleted one, also between two cycles."""
    rig = switch_rig()
    model(rig)
    name = rig.pod_on("n2")
    rig.change(name, phase="Failed")
    rig.tell(ev.PodGone(rig.pods[name].uid))
    rig.tell(ev.NodeGone("n2"))
    rig.node("n99")
    rig.step()
    view = rig.machine.view
    assert view.cluster.node_id["n99"] == 1
    assert not any(fleet.reserved[1] for fleet in view.cluster.fleets.values())


def test_s9_the_cpu_of_a_lost_pod_is_reserved_with_its_chips() -> None:
    rig = switch_rig()
    for number in range(1, 13):
        rig.node(f"n{number}", internal_ip=f"10.0.0.{number}", cpu_milli=16_000)
    rig.submit("model", pods=6, chips=8, labels={"tor-affinity": "large-model-schema"}, cpu_milli=16_000)
    rig.run()
    name = rig.pod_on("n2")
    lose(rig, name)
    for number in range(7):
        rig.submit(f"thief{number}", chips=0, cpu_milli=16_000)
    rig.run()
    assert all(rig.nodes_of(f"thief{number}") != ["n2"] for number in range(7))
    rig.replacement(name)
    rig.run()
    assert rig.by_rank("model")[1] == "n2"
