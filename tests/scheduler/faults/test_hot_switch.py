"""Hot switch: a backup pod stands by, then it has rank and place of the pod on sub-healthy hardware."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from ringwise.framework.gangs.ranks import ranks_of
from ringwise.messages import events as ev
from ringwise.messages.commands import Command, DeletePod
from ringwise.state.model import ReportedFault
from tests.builders.values import CHIP, address
from tests.clusterd import HotSwitch
from tests.scheduler.faults.fault_rig import state_of
from tests.scheduler.rig import PLAIN, Rig, gangs_may_end

LABELS = {"fault-scheduling": "force", "subHealthyStrategy": "hotSwitch"}
OWNED = ("predicate-time", CHIP, "huawei.com/AscendReal", "super-pod-rank", "super-pod-id", "isSharedTor")


class RigPods:
    def __init__(self, rig: Rig, *, with_rank: bool = True) -> None:
        self._rig = rig
        self._with_rank = with_rank
        self._serial = 0

    def phase(self, name: str) -> str | None:
        pod = self._rig.pods.get(name)
        return None if pod is None else pod.phase

    def patch(
        self, name: str, annotations: Mapping[str, str | None], labels: Mapping[str, str] | None = None
    ) -> None:
        pod = self._rig.pods[name]
        merged = {**pod.annotations, **annotations}
        kept = {key: value for key, value in merged.items() if value is not None}
        self._rig.change(name, annotations=kept, labels={**pod.labels, **(labels or {})})
        self._rig.step()

    def copy(self, name: str, to: str, annotations: Mapping[str, str]) -> None:
        source = self._rig.pods[name]
        dropped = (*OWNED, *(() if self._with_rank else ("hccl/rankIndex",)))
        kept = {key: value for key, value in source.annotations.items() if key not in dropped}
        self._serial += 1
        self._rig.put(
            replace(
                source,
                uid=f"{to}.backup{self._serial}",
                name=to,
                node=None,
                phase="Pending",
                holds=(),
                annotations={**kept, **annotations},
                rank=source.rank if self._with_rank else None,
            )
        )
        self._rig.step()

    def delete(self, name: str) -> None:
        self._rig.gone(name)
        self._rig.step()


def sub_healthy(rig: Rig, node: str) -> None:
    """ClusterD's aggregate has the node, with a sub-healthy chip."""
    rig.sick(node, 0, faults=(ReportedFault(2, "1", "SubHealthFault"),), aggregated=True)
    rig.step()


def plain_rig() -> Rig:
    rig = Rig(6)
    rig.submit("train", pods=4, chips=8, labels=LABELS)
    return rig


def small_rig() -> Rig:
    """One pod of two chips: two such pods would be no valid job (N2)."""
    rig = Rig(2)
    rig.submit("train", pods=1, chips=2, labels=LABELS)
    return rig


def superpod_rig() -> Rig:
    rig = Rig(actions=PLAIN, super_pod_size=6, reserve_nodes=0)
    rig.superpods(2, 6)
    notes = {"sp-block": "32", "huawei.com/schedule_policy": "chip2-node16-sp"}
    rig.submit("train", pods=4, chips=16, labels=LABELS, annotations=notes)
    return rig


def rack_rig() -> Rig:
    rig = Rig(actions=PLAIN)
    rig.racks(2, 6)
    notes = {"huawei.com/schedule_policy": "chip8-node8-ra64-sp", "sp-block": "16", "ra-block": "16"}
    rig.submit("train", pods=4, chips=8, labels=LABELS, annotations=notes)
    return rig


def switch_rig() -> Rig:
    rig = Rig(actions=PLAIN, nslb_version="2.0", shared_tor_num=2)
    rig.switches(3, 4)
    rig.submit("train", pods=6, chips=8, labels={**LABELS, "tor-affinity": "large-model-schema"})
    return rig


KINDS: dict[str, Callable[[], Rig]] = {
    "plain": plain_rig,
    "one pod": small_rig,
    "SuperPoD": superpod_rig,
    "racks": rack_rig,
    "switches": switch_rig,
}


def started(kind: str) -> Rig:
    rig = KINDS[kind]()
    rig.run()
    assert all(pod.node for pod in rig.pods.values())
    return rig


def place_of(rig: Rig, name: str) -> Mapping[str, str]:
    keys = ("hccl/rankIndex", "super-pod-rank", "super-pod-id", "ringwise.io/logical-rack")
    return {key: value for key, value in rig.pods[name].annotations.items() if key in keys}


def deleted(commands: list[Command]) -> list[tuple[str, int | None]]:
    return [(one.pod, one.grace) for one in commands if isinstance(one, DeletePod)]


@pytest.mark.parametrize("with_rank", [True, False], ids=["with its rank", "without a rank"])
@pytest.mark.parametrize("backup", ["a-backup", "train-1-backup", "z-backup"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_backup_takes_over_rank_and_place(kind: str, backup: str, with_rank: bool) -> None:
    rig = started(kind)
    before = dict(rig.pods)
    source = "train-0" if kind == "one pod" else "train-1"
    node, chips = rig.node_of(source), rig.pods[source].holds
    sub_healthy(rig, node)
    switch = HotSwitch(RigPods(rig, with_rank=with_rank), source, backup)
    switch.begin()
    rig.run()
    # Nobody else moved, and the chips of the old pod are its own while it is there (N6).
    assert rig.deletions() == []
    assert switch.is_ready
    assert rig.pods[backup].node not in {pod.node for pod in before.values()}
    assert place_of(rig, backup) == place_of(rig, source)
    if kind == "switches":
        # S9: the exclusive switch of the job is full, its shared one is not.
        assert rig.pods[backup].node in ("n7", "n8")
        assert rig.pods[backup].annotations["isSharedTor"] == "1"
    (job,) = rig.machine.view.jobs.values()
    assert ranks_of(job)[rig.pods[backup].uid] == ranks_of(job)[rig.pods[source].uid]
    assert rig.pods[source].holds == chips
    switch.take_over()
    assert deleted(rig.commands) == [(source, 0)]
    rig.gone(source)
    rig.run()
    switch.finish()
    rig.run()
    assert state_of(rig) is None
    assert deleted(rig.commands) == [(source, 0)]
    assert rig.machine.view.jobs["default/train"].previous_nodes == {}
    assert sorted(ranks_of(job).values()) == list(range(len(before)))
    assert {name: pod.node for name, pod in rig.pods.items() if name != backup} == {
        name: pod.node for name, pod in before.items() if name != source
    }
    assert not rig.machine.view.has_pending_pods(job)
    assert rig.reason("train") is None


@pytest.mark.parametrize("kind", ["SuperPoD", "racks"])
def test_P7_a_backup_waits_where_its_place_has_no_other_node(kind: str) -> None:
    rig = started(kind)
    source = "train-1"
    node = rig.node_of(source)
    first = (int(node[1:]) - 1) // 6 * 6 + 1
    for other in range(first, first + 6):
        if f"n{other}" not in rig.nodes_of("train"):
            rig.tell(ev.NodeGone(f"n{other}"))
    switch = HotSwitch(RigPods(rig), source, "train-1-backup")
    sub_healthy(rig, node)
    switch.begin()
    rig.run()
    assert not switch.is_ready
    assert rig.reason("train") == "backup-pod-pending"
    switch.give_up()
    rig.run()
    assert rig.reason("train") is None
    assert rig.deletions() == []
    assert rig.machine.view.jobs["default/train"].previous_nodes == {}


@pytest.mark.parametrize("kind", KINDS)
def test_a_backup_that_is_given_up_leaves_no_trace(kind: str) -> None:
    rig = started(kind)
    source = "train-0" if kind == "one pod" else "train-1"
    sub_healthy(rig, rig.node_of(source))
    switch = HotSwitch(RigPods(rig), source, "train-backup")
    switch.begin()
    rig.run()
    assert switch.is_ready
    # It fails to do its work, and breaks: no reason to restart a job that runs.
    rig.change("train-backup", phase="Failed", exit_code=1)
    rig.step()
    switch.give_up()
    rig.run()
    assert rig.deletions() == []
    assert state_of(rig) is None
    assert rig.machine.view.jobs["default/train"].previous_nodes == {}
    assert not list(rig.machine.view.reservations)


def test_hardware_of_a_backup_that_breaks_restarts_nothing() -> None:
    rig = started("plain")
    sub_healthy(rig, rig.node_of("train-1"))
    switch = HotSwitch(RigPods(rig), "train-1", "train-backup")
    switch.begin()
    rig.run()
    rig.sick(rig.node_of("train-backup"), 0xFF)
    rig.run()
    assert rig.deletions() == []
    # Once it has taken over it is a pod of the job.
    switch.take_over()
    rig.gone("train-1")
    rig.run()
    assert "train-backup" in rig.deletions()


def test_a_pod_of_the_gang_that_is_lost_comes_before_a_backup() -> None:
    """One spare node: the job needs it more than the backup does."""
    rig = Rig(5)
    rig.submit("train", pods=4, chips=8, labels={**LABELS, "pod-rescheduling": "on"})
    rig.run()
    sub_healthy(rig, rig.node_of("train-1"))
    rig.sick("n5", 0xFF)
    switch = HotSwitch(RigPods(rig), "train-1", "a-backup")
    switch.begin()
    rig.run()
    assert not switch.is_ready
    lost = rig.node_of("train-3")
    rig.sick(lost, 0xFF)
    rig.step()
    rig.recreate("train-3")
    rig.step()
    rig.sick("n5", 0)
    rig.run()
    assert rig.pods["train-3"].node == "n5"
    assert rig.pods["a-backup"].node is None


def test_F2_a_backup_does_not_stand_for_a_lost_pod() -> None:
    """Four pods have a node, and one of them is a backup: the job is not complete."""
    rig = Rig(5)
    rig.submit("train", pods=4, chips=8, labels={**LABELS, "pod-rescheduling": "on"})
    rig.run()
    sub_healthy(rig, rig.node_of("train-1"))
    switch = HotSwitch(RigPods(rig), "train-1", "a-backup")
    switch.begin()
    rig.run()
    assert switch.is_ready
    rig.sick(rig.node_of("train-3"), 0xFF)
    rig.step()
    rig.recreate("train-3")
    rig.run()
    assert rig.pods["train-3"].node is None
    assert state_of(rig) is not None
    assert rig.groups["default/train"].phase == "Unknown"
    # With time the whole job restarts, the backup with it.
    assert {name for name, _ in deleted(rig.step(13))} == {"train-0", "train-1", "train-2", "a-backup"}


def test_without_a_backup_the_word_of_clusterd_restarts_as_any_fault() -> None:
    rig = started("plain")
    sub_healthy(rig, rig.node_of("train-1"))
    HotSwitch(RigPods(rig), "train-1", "train-backup").stop_the_job("train-0")
    assert sorted(name for name, _ in deleted(rig.commands)) == ["train-0", "train-1", "train-2", "train-3"]


def test_F1_the_next_leader_goes_on_with_a_hot_switch() -> None:
    rig = started("SuperPoD")
    sub_healthy(rig, rig.node_of("train-1"))
    switch = HotSwitch(RigPods(rig), "train-1", "a-backup")
    switch.begin()
    rig.run()
    switch.take_over()
    other = rig.successor()
    other.run()
    other.gone("train-1")
    other.run()
    HotSwitch(RigPods(other), "train-1", "a-backup").finish()
    other.run()
    assert {one.pod for one in other.commands if isinstance(one, DeletePod)} <= {"train-1"}
    (job,) = other.machine.view.jobs.values()
    assert ranks_of(job)[other.pods["a-backup"].uid] == 1
    assert state_of(other) is None


@pytest.mark.parametrize(
    "mark", ["train-9", "train-1-other", "other-0"], ids=["no pod", "a backup", "a pod of another job"]
)
def test_a_mark_that_does_not_fit_makes_no_backup(mark: str) -> None:
    rig = started("plain")
    rig.submit("other", pods=1, chips=8)
    pods = RigPods(rig)
    pods.copy("train-1", "train-1-other", {"backupSourcePodName": "train-1"})
    pods.copy("train-1", "train-x", {"backupSourcePodName": mark})
    job = rig.machine.view.jobs["default/train"]
    assert {job.pods[uid].name for uid in job.backups} == {"train-1-other"}
    assert len(job.chip_pods) == 5


def test_a_second_backup_of_a_pod_is_a_further_pod() -> None:
    rig = started("plain")
    pods = RigPods(rig)
    for name in ("b-1", "b-2"):
        pods.copy("train-1", name, {"backupSourcePodName": "train-1"})
    job = rig.machine.view.jobs["default/train"]
    assert [job.pods[uid].name for uid in job.backups] == ["b-1"]
    # One that ends makes room for the next.
    rig.change("b-1", phase="Failed")
    rig.step()
    assert sorted(job.pods[uid].name for uid in job.backups) == ["b-1", "b-2"]


@pytest.mark.parametrize("backup", ["a-backup", "z-backup"])
def test_a_job_with_a_backup_has_no_pod_to_spare(backup: str) -> None:
    """Three pods run and the gang needs two: preemption must not take one of the two for the third."""
    rig = Rig(3, tiers=gangs_may_end())
    rig.priority("high", 100)
    rig.submit("train", pods=2, chips=8, labels=LABELS, preemptable=True)
    rig.run()
    sub_healthy(rig, rig.node_of("train-1"))
    switch = HotSwitch(RigPods(rig), "train-1", backup)
    switch.begin()
    rig.run()
    assert switch.is_ready
    rig.submit("urgent", pods=1, chips=8, priority="high")
    rig.run()
    assert set(rig.evictions()) in (set(), {"train-0", "train-1", backup})


# -- another pod breaks while a backup stands by -----------------------------------------------------------


def with_backup(labels: dict[str, str], nodes: int = 8, **more: Any) -> Rig:
    rig = Rig(nodes)
    rig.queue("capped", capability={CHIP: 40})
    rig.submit("train", pods=4, chips=8, labels=labels, **more)
    rig.run()
    sub_healthy(rig, rig.node_of("train-1"))
    RigPods(rig).copy("train-1", "train-1-backup", {"backupSourcePodName": "train-1"})
    rig.run()
    assert rig.machine._book.jobs["default/train"].backups
    return rig


def test_F2_a_backup_that_stands_by_is_none_of_the_pods_that_stay() -> None:
    """Without pod-rescheduling the whole job restarts, at once."""
    rig = with_backup(LABELS)
    rig.node(rig.node_of("train-2"), ready=False)
    rig.run()
    assert {"train-0", "train-1", "train-2", "train-3"} <= set(rig.deletions())


def test_F6_a_backup_that_stands_by_does_not_complete_the_job() -> None:
    rig = with_backup({**LABELS, "pod-rescheduling": "on"}, queue="capped")
    rig.node(rig.node_of("train-2"), ready=False)
    rig.run()
    rig.gone("train-2")
    rig.run()
    assert rig.machine.view.usage.reserved.against("capped", "") == {CHIP: 8}


def test_F6_a_backup_that_waits_does_not_stand_for_a_pod_that_is_not_created_again() -> None:
    rig = with_backup({**LABELS, "pod-rescheduling": "on"}, nodes=4, queue="capped")
    node = rig.node_of("train-3")
    rig.gone("train-3")
    rig.node(node, unschedulable=True)
    rig.run()
    rig.node(rig.node_of("train-2"), ready=False)
    rig.run()
    rig.gone("train-2")
    rig.run()
    assert rig.machine.view.usage.reserved.against("capped", "") == {CHIP: 8}


def test_S9_a_backup_that_stands_by_draws_no_lost_pod_under_its_switch() -> None:
    """Ranks 4 and 5 of the job stay under switch B; the backup of rank 1 had room only under switch C."""
    rig = Rig(actions=PLAIN, nslb_version="2.0", shared_tor_num=2)
    rig.switches(3, 4)
    labels = {**LABELS, "tor-affinity": "large-model-schema"}
    rig.submit("train", pods=6, chips=8, labels=labels)
    rig.run()
    for name in ("n7", "n8"):
        rig.node(name, internal_ip=address(int(name[1:])), unschedulable=True)
    sub_healthy(rig, rig.node_of("train-1"))
    RigPods(rig).copy("train-1", "train-1-backup", {"backupSourcePodName": "train-1"})
    rig.run()
    assert rig.node_of("train-1-backup") in ("n9", "n10", "n11", "n12")
    for name in ("n7", "n8"):
        rig.node(name, internal_ip=address(int(name[1:])))
    lost = rig.node_of("train-0")
    rig.node(lost, internal_ip=address(int(lost[1:])), unschedulable=True)
    rig.recreate("train-0")
    rig.run()
    assert rig.node_of("train-0") in ("n7", "n8")
