"""F6: a job that is being rescheduled keeps its share of its queue, against the other jobs of that queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from ringwise.framework.amounts import Amount
from ringwise.framework.configuration import Tier
from ringwise.messages import events as ev
from ringwise.scheduler.defaults import default_tiers
from ringwise.scheduler.explain.why import explain
from ringwise.scheduler.faults import fault_job
from ringwise.scheduler.faults.share_records import ShareRecords
from ringwise.state.failures import policies_come_first
from ringwise.state.model import Isolation, Owner, Pod, Queue
from ringwise.state.vcjob import Policy, VcJob
from tests.builders.records import record_with, with_entries
from tests.builders.values import CHIP, SECOND, isolated, job_of, pod, task_of
from tests.scheduler.faults.fault_rig import POD_LEVEL
from tests.scheduler.rig import Rig, gangs_may_end, with_capacity

CAP = 24


def running(nodes: int = 5, *, labels: dict[str, str] | None = None, **settings: Any) -> Rig:
    """A gang of 3 pods fills its queue, and `next` waits in the queue for a part of it. n5 is free."""
    rig = Rig(nodes, **settings)
    rig.queue("capped", capability={CHIP: CAP})
    rig.submit("train", pods=3, chips=8, queue="capped", labels=labels or {})
    rig.run()
    assert len(rig.nodes_of("train")) == 3
    rig.submit("next", chips=4, queue="capped")
    rig.run()
    assert not rig.nodes_of("next")
    return rig


def kept(rig: Rig) -> Amount:
    return rig.machine.view.usage.reserved.against("capped", "").get(CHIP, 0)


def lose(rig: Rig, name: str = "train-1") -> None:
    """The node is cordoned, and the pod evicted from it, as `kubectl drain` does."""
    node = rig.node_of(name)
    rig.node(node, unschedulable=True)
    rig.step()
    rig.change(name, deleting=True)
    rig.step()


def gone(rig: Rig, name: str = "train-1", *, recreated: bool = True) -> None:
    uid = rig.pods[name].uid
    if recreated:
        rig.tell(ev.PodGone(uid))
        rig.replacement(name)
        # No node fits it: its share alone is asked about.
        rig.change(name, cls=replace(rig.pods[name].cls, node_selector=(("zone", "none"),)))
    else:
        rig.gone(name)
    rig.run()


# -- which losses begin it -----------------------------------------------------------------------------


def cordoned(rig: Rig, node: str) -> None:
    rig.node(node, unschedulable=True)


def drained(rig: Rig, node: str) -> None:
    rig.tell(isolated(Isolation(node, reason="drain")))


def not_ready(rig: Rig, node: str) -> None:
    rig.node(node, ready=False)


def broken(rig: Rig, node: str) -> None:
    rig.sick(node, 1)


def nothing(rig: Rig, node: str) -> None:
    """Its owner or a user deletes the pod."""


@pytest.mark.parametrize("tiers", [default_tiers(), with_capacity()], ids=["proportion", "capacity"])
@pytest.mark.parametrize("recreated", [False, True])
@pytest.mark.parametrize(
    ("happens", "stays"),
    [(cordoned, True), (drained, True), (not_ready, True), (broken, True), (nothing, False)],
)
def test_F6_the_share_of_a_lost_pod_stays(
    happens: Callable[[Rig, str], None], stays: bool, recreated: bool, tiers: tuple[Tier, ...]
) -> None:
    rig = running(tiers=tiers)
    node = rig.node_of("train-1")
    happens(rig, node)
    rig.step()
    rig.change("train-1", deleting=True)
    rig.run()
    # It terminates, and uses its share itself.
    assert kept(rig) == 0
    assert not rig.nodes_of("next")
    gone(rig, recreated=recreated)
    assert kept(rig) == (8 if stays else 0)
    assert bool(rig.nodes_of("next")) is not stays
    if stays:
        assert rig.reason("next") == "queue-quota-reserved"


def test_F6_a_pod_that_is_deleted_does_not_fail_and_is_not_rejected_meanwhile() -> None:
    rig = running()
    rig.change("train-1", deleting=True)
    rig.run()
    rig.change("train-1", phase="Failed", rejected="UnexpectedAdmissionError")
    rig.run()
    assert kept(rig) == 0
    assert rig.nodes_of("next")


def test_F6_why_a_pod_was_deleted_does_not_change_with_its_next_report() -> None:
    rig = running()
    node = rig.node_of("train-1")
    rig.change("train-1", deleting=True)
    rig.run()
    rig.node(node, unschedulable=True)
    rig.run()
    rig.change("train-1", annotations={"told": "again"})
    rig.run()
    rig.node(node)
    rig.run()
    gone(rig, recreated=False)
    assert kept(rig) == 0
    assert rig.nodes_of("next")


def test_F6_the_share_stays_while_a_fault_is_handled() -> None:
    rig = running(nodes=3, labels=POD_LEVEL)
    rig.sick("n2", 1)
    rig.step()
    (name,) = [name for name, pod in rig.pods.items() if pod.deleting]
    rig.recreate(name)
    rig.run()
    # 4 of the 7 healthy chips of n2 would do for it.
    assert rig.reason("next") == "queue-quota-reserved"
    rig.sick("n2", 0)
    rig.run()
    assert len(rig.nodes_of("train")) == 3
    assert rig.deletions() == [name]


def test_F6_a_pod_that_failed_and_is_restarted_keeps_its_share() -> None:
    labels = {**POD_LEVEL, "fault-retry-times": "3"}
    rig = running(labels=labels)
    rig.change("train-1", phase="Failed", exit_code=1)
    rig.step()
    assert kept(rig) == 8
    assert not rig.nodes_of("next")


@pytest.mark.parametrize(
    ("policy", "is_fault"),
    [
        (Policy("RestartTask", ("PodFailed",)), False),
        (Policy("RestartPod", ("*",)), False),
        (Policy("RestartPod", (), 1), False),
        (Policy("RestartPod", (), 2), True),
        (Policy("Ignore", ("PodFailed",)), True),
    ],
)
def test_F6_a_failed_pod_about_which_a_policy_decides_is_no_fault(policy: Policy, is_fault: bool) -> None:
    """F5: the scheduler does not restart it, so nothing is kept for that."""
    labels = {**POD_LEVEL, "fault-retry-times": "3"}
    rig = Rig(5)
    rig.queue("capped", capability={CHIP: CAP})
    job = job_of(task_of("", 3, chips=8), policies=[policy], phase="Running")
    rig.tell(job)
    owner = Owner("Job", "train", job.uid, "batch.volcano.sh/v1alpha1")
    rig.submit("train", pods=3, chips=8, queue="capped", labels=labels, owner=owner)
    rig.run()
    rig.submit("next", chips=4, queue="capped")
    rig.run()
    assert len(rig.nodes_of("train")) == 3
    rig.change("train-1", phase="Failed", exit_code=1)
    rig.run()
    assert kept(rig) == (8 if is_fault else 0)
    assert bool(rig.nodes_of("next")) is not is_fault
    assert rig.deletions() == (["train-1"] if is_fault else [])


def test_policies_are_read_once_for_each_pod_although_all_pods_of_a_gang_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[Pod] = []

    def counting(job: VcJob, pods: Iterable[Pod]) -> bool:
        failed = list(pods)
        read.extend(failed)
        return policies_come_first(job, failed)

    monkeypatch.setattr(fault_job, "policies_come_first", counting)
    rig = Rig(20)
    job = job_of(task_of("", 20, chips=8), policies=[Policy("RestartJob", ("PodEvicted",))], phase="Running")
    rig.tell(job)
    owner = Owner("Job", "train", job.uid, "batch.volcano.sh/v1alpha1")
    rig.submit("train", pods=20, chips=8, labels={**POD_LEVEL, "fault-retry-times": "3"}, owner=owner)
    rig.run()
    for number in range(20):
        rig.change(f"train-{number}", phase="Failed", exit_code=1)
    rig.run()
    assert 20 <= len(read) <= 60


def test_F6_it_holds_where_the_hierarchy_limits_a_queue_above() -> None:
    tiers = with_capacity({"hierarchy": True})
    rig = Rig(5, tiers=tiers)
    rig.tell(Queue("root", reclaimable=False))
    rig.queue("above", parent="root", capability={CHIP: CAP})
    rig.queue("capped", parent="above")
    rig.queue("sister", parent="above")
    rig.submit("train", pods=3, chips=8, queue="capped")
    rig.run()
    rig.submit("next", chips=4, queue="sister")
    lose(rig)
    gone(rig)
    assert rig.reason("next") == "queue-quota-reserved"


# -- how long ------------------------------------------------------------------------------------------


def test_F6_it_ends_when_the_job_is_complete_again() -> None:
    rig = running(nodes=6)
    lose(rig)
    rig.recreate("train-1")
    rig.run()
    assert len(rig.nodes_of("train")) == 3
    assert kept(rig) == 0
    assert rig.machine._components.of(ShareRecords)._shares == {}
    assert rig.reason("next") in ("queue-overused", "queue-capability-reached")


def test_F6_it_counts_until_the_limit_after_a_pod_was_last_gone() -> None:
    rig = running()
    lose(rig)
    gone(rig)
    rig.step(100)
    lose(rig, "train-2")
    rig.step(10)
    assert kept(rig) == 8
    # The time of both counts from now.
    gone(rig, "train-2")
    assert kept(rig) == 16
    rig.step(119)
    rig.run()
    assert not rig.nodes_of("next")
    deadline = rig.machine.next_deadline()
    assert deadline is not None
    assert deadline <= rig.now + 1_000_000_000
    rig.step(1)
    rig.run()
    assert kept(rig) == 0
    assert rig.nodes_of("next")


@pytest.mark.parametrize("phase", ["Running", "Failed", "Succeeded"])
def test_F6_it_ends_at_the_limit_however_the_evicted_pod_ended(phase: str) -> None:
    rig = running()
    lose(rig)
    rig.change("train-1", phase=phase)
    rig.run()
    assert kept(rig) == (0 if phase == "Running" else 8)
    gone(rig)
    assert kept(rig) == 8
    rig.step(120)
    rig.run()
    assert kept(rig) == 0
    assert rig.nodes_of("next")


@pytest.mark.parametrize("how", ["ended", "fewer"])
def test_F6_it_ends_with_the_job_and_when_the_gang_needs_no_more(how: str) -> None:
    rig = running()
    lose(rig)
    gone(rig)
    assert not rig.nodes_of("next")
    if how == "ended":
        rig.end("train")
    else:
        group = replace(rig.groups["default/train"], min_member=2)
        rig.put_group(group)
    rig.run()
    assert kept(rig) == 0
    assert rig.nodes_of("next")


@pytest.mark.parametrize("first", ["PodGroup", "pods"])
def test_F6_it_ends_for_a_vcjob_that_starts_over_whatever_is_deleted_first(first: str) -> None:
    rig = Rig(4)
    owner = Owner("Job", "train", "uid-train", "batch.volcano.sh/v1alpha1")
    rig.tell(VcJob("default", "train", owner.uid))
    rig.queue("capped", capability={CHIP: CAP})
    rig.submit("train", pods=3, chips=8, queue="capped", owner=owner)
    rig.run()
    node = rig.node_of("train-1")
    rig.node(node, ready=False)
    names = sorted(rig.pods)
    for name in names:
        rig.change(name, deleting=True)
    rig.step()
    for what in ("PodGroup", "pods") if first == "PodGroup" else ("pods", "PodGroup"):
        if what == "pods":
            rig.gone(*names)
        else:
            rig.tell(ev.PodGroupGone("default/train"))
        rig.step()
    assert kept(rig) == CAP
    limit = rig.machine.view.settings.hold_healthy_nodes
    rig.step(limit)
    assert kept(rig) == 0


def test_F6_a_suspended_job_of_kubernetes_gave_its_share_back() -> None:
    rig = running()
    lose(rig)
    gone(rig)
    assert kept(rig) == 8
    group = rig.groups["default/train"]
    marked = {**group.annotations, "ringwise.io/suspended": "true"}
    rig.put_group(replace(group, ordinary=True, annotations=marked))
    rig.run()
    assert kept(rig) == 0


def test_F6_a_job_above_its_minimum_is_complete() -> None:
    rig = Rig(5)
    rig.queue("capped", capability={CHIP: CAP})
    rig.submit("train", pods=3, chips=8, min_available=2, queue="capped")
    rig.run()
    rig.submit("next", chips=4, queue="capped")
    lose(rig)
    gone(rig)
    assert rig.nodes_of("next")


def test_F6_a_rank_that_succeeded_does_not_count_and_others_count_once() -> None:
    rig = running()
    rig.change("train-0", phase="Succeeded")
    rig.run()
    # 16 of 24 are used: there is room for `next`, and none for `more`.
    rig.submit("more", chips=8, queue="capped")
    rig.run()
    assert rig.nodes_of("next")
    lose(rig)
    gone(rig)
    assert kept(rig) == 8
    rig.gone("next-0")
    rig.run()
    # 8 are used and 8 are kept.
    assert rig.nodes_of("more")


def test_F6_pods_that_were_missing_before_count_up_to_the_minimum() -> None:
    rig = running()
    rig.change("train-0", deleting=True)
    rig.step()
    gone(rig, "train-0")
    # Deleted by a user: its share is free.
    assert rig.nodes_of("next")
    lose(rig)
    gone(rig)
    assert kept(rig) == 16


def test_F6_no_more_is_kept_than_a_job_had_whatever_ranks_its_pods_say() -> None:
    rig = Rig(5)
    rig.queue("capped", capability={CHIP: 40})
    rig.submit("train", pods=2, chips=8, queue="capped")
    rig.run()
    lose(rig)
    gone(rig)
    # It can never be complete again, and its owner names node and rank of every new pod itself.
    group = replace(rig.groups["default/train"], min_member=50)
    rig.put_group(group)
    for rank in range(100, 106):
        rig.change("train-1", rank=rank, node="n5", holds=tuple(range(8)), phase="Running")
        rig.step(20)
        # Two pods run, and that is all that it had.
        assert kept(rig) == 0
        rig.change("train-1", deleting=True)
        rig.step(1)
        rig.recreate("train-1")
        rig.step(1)
        assert kept(rig) == 8
        rig = rig.successor()


# -- never against itself, never to evict others ---------------------------------------------------------


def test_F6_it_never_counts_against_the_job_itself() -> None:
    rig = running(nodes=4)
    for name in ("train-0", "train-1", "train-2"):
        lose(rig, name)
        gone(rig, name)
    assert kept(rig) == 24
    # Its PodGroup has to be admitted again, too.
    group = replace(rig.groups["default/train"], phase="Pending")
    rig.tell(ev.PodGroupGone(group.key), group)
    rig.groups[group.key] = group
    for number in (1, 2, 3):
        rig.node(f"n{number}", labels={"zone": "none"})
    rig.run()
    assert len(rig.nodes_of("train")) == 3


def test_F6_nothing_is_evicted_for_what_is_only_kept() -> None:
    rig = Rig(5, tiers=gangs_may_end())
    for name, value in (("low", 1), ("high", 100)):
        rig.priority(name, value)
    rig.queue("capped", capability={CHIP: CAP})
    rig.submit("train", pods=2, chips=8, queue="capped", priority="low")
    rig.submit("victim", chips=8, queue="capped", priority="low", preemptable=True)
    rig.run()
    lose(rig)
    gone(rig)
    rig.submit("boss", chips=8, queue="capped", priority="high")
    rig.run()
    assert rig.evictions() == []
    assert rig.reason("boss") == "queue-quota-reserved"


def test_F6_the_reason_names_the_other_jobs_whose_quota_is_reserved() -> None:
    rig = Rig(6)
    rig.queue("capped", capability={CHIP: 32})
    rig.submit("train", pods=3, chips=8, queue="capped")
    rig.submit("other", chips=8, queue="capped")
    rig.run()
    for name in ("train-1", "other-0"):
        lose(rig, name)
    rig.queue("capped", capability={CHIP: 24})
    for name in ("other-0", "train-1"):
        rig.gone(name)
    rig.run()
    rig.submit("more", chips=8, queue="capped")
    rig.change("more-0", group="train")
    rig.run()
    reason = rig.machine.view.jobs["default/train"].reason
    assert reason is not None
    assert (reason.code, reason.details["jobs"]) == ("queue-quota-reserved", "default/other")


def test_F6_a_preemptor_gets_what_it_evicts_and_not_what_is_kept() -> None:
    rig = Rig(5, tiers=gangs_may_end())
    for name, value in (("low", 1), ("high", 100)):
        rig.priority(name, value)
    rig.queue("capped", capability={CHIP: CAP})
    rig.submit("train", pods=2, chips=8, queue="capped", priority="low", preemptable=True)
    rig.submit("victim", chips=8, queue="capped", priority="low", preemptable=True)
    rig.run()
    # The queue is full: one pod has to go for this one.
    rig.submit("boss", chips=8, queue="capped", priority="high")
    rig.run()
    assert rig.evictions() == ["victim-0"]
    rig.gone("victim-0")
    rig.run()
    assert rig.nodes_of("boss")


def test_F6_what_is_evicted_for_another_job_is_not_kept() -> None:
    rig = Rig(2, tiers=gangs_may_end())
    for name, value in (("low", 1), ("high", 100)):
        rig.priority(name, value)
    rig.queue("capped", capability={CHIP: 16})
    rig.submit("train", pods=2, chips=8, queue="capped", priority="low", preemptable=True)
    rig.run()
    rig.submit("boss", pods=2, chips=8, queue="capped", priority="high")
    rig.run()
    assert sorted(rig.evictions()) == ["train-0", "train-1"]
    # Somebody cordons a node meanwhile: that is not a reason why the pods go.
    rig.node("n1", unschedulable=True)
    rig.step()
    rig.node("n1")
    rig.gone("train-0", "train-1")
    rig.run()
    assert len(rig.nodes_of("boss")) == 2


def test_F6_nothing_is_kept_for_a_rank_that_was_evicted_for_another_job() -> None:
    """Another rank of the same job is lost to a fault before that pod is gone."""
    rig = Rig(2, tiers=gangs_may_end())
    for name, value in (("low", 1), ("high", 100)):
        rig.priority(name, value)
    rig.queue("capped", capability={CHIP: 16})
    rig.submit("train", pods=2, chips=8, queue="capped", priority="low", preemptable=True, min_available=1)
    rig.run()
    rig.submit("boss", chips=8, queue="capped", priority="high")
    rig.run()
    (evicted,) = rig.evictions()
    (other,) = {"train-0", "train-1"} - {evicted}
    rig.node(rig.node_of(other), ready=False)
    rig.step()
    rig.gone(other)
    rig.step()
    rig.gone(evicted)
    rig.run()
    assert kept(rig) == 8
    assert len(rig.nodes_of("boss")) == 1


def test_F6_a_pod_that_is_not_created_again_is_forgotten_after_the_limit() -> None:
    rig = Rig(2)
    rig.put(pod("serve-0", 8, owner=Owner("ReplicaSet", "serve", "uid-serve")))
    rig.run()
    rig.node(rig.node_of("serve-0"), unschedulable=True)
    rig.step()
    rig.gone("serve-0")
    rig.step()
    assert len(rig.machine._components.of(ShareRecords)) == 1
    rig.step(rig.machine.view.settings.hold_healthy_nodes)
    assert len(rig.machine._components.of(ShareRecords)) == 0


def test_F6_other_queues_do_not_wait_and_nothing_is_reclaimed() -> None:
    rig = running()
    rig.queue("elsewhere")
    lose(rig)
    gone(rig)
    rig.submit("stranger", chips=8, queue="elsewhere")
    rig.run()
    assert rig.nodes_of("stranger")
    assert rig.evictions() == []


# -- a restart of the scheduler (F1) -----------------------------------------------------------------------


def after_restart(rig: Rig) -> Rig:
    other = rig.successor()
    other.events.insert(0, ev.QueueSeen(Queue("capped", capability={CHIP: CAP})))
    other.run()
    return other


def test_F1_the_share_survives_a_restart_with_its_limit() -> None:
    rig = running()
    lose(rig)
    gone(rig)
    rig.step(100)
    other = after_restart(rig)
    assert kept(other) == 8
    assert not other.nodes_of("next")
    other.step(19)
    other.run()
    assert not other.nodes_of("next")
    other.step(2)
    other.run()
    assert other.nodes_of("next")


def test_F1_a_pod_that_went_between_two_leaders_is_lost() -> None:
    rig = running()
    lose(rig)
    del rig.pods["train-1"]
    other = after_restart(rig)
    assert kept(other) == 8
    assert not other.nodes_of("next")
    other.step(120)
    other.run()
    assert other.nodes_of("next")


@pytest.mark.parametrize(
    "entry",
    [
        {},
        "text",
        {"job": "default/train", "queue": "capped", "ranks": {"0": {CHIP: -8}}},
        {"job": "default/train", "queue": "capped", "ranks": {"0": {CHIP: "8"}}},
        {"job": "default/train", "queue": "capped", "ranks": [0]},
    ],
)
def test_F1_what_cannot_be_read_is_not_there(entry: object) -> None:
    rig = running()
    rig.tell(record_with("reserved-quota", {"default/train": entry}))
    rig.run()
    assert kept(rig) == 0
    assert rig.machine._components.of(ShareRecords)._shares == {}


def test_F1_a_share_is_kept_no_longer_than_the_setting_says() -> None:
    rig = running()
    lose(rig)
    gone(rig)
    (share,) = rig.entries("reserved-quota").values()
    assert share["ranks"] == {"1": {CHIP: 8}}
    share["until"] = 10**18
    other = Rig(5)
    other.now, other.pods, other.groups = rig.now, dict(rig.pods), dict(rig.groups)
    other.queue("capped", capability={CHIP: CAP})
    other.tell(*rig.groups.values(), *rig.pods.values())
    tables = with_entries(rig.record, "reserved-quota", {"default/train": share})
    other.tell(ev.LeaderRecordRead(tables))
    other.run()
    assert kept(other) == 8
    other.step(120)
    assert kept(other) == 0


@pytest.mark.parametrize(("later", "limit"), [(-50, 60), (0, 60), (50, 110)])
def test_F1_of_two_limits_of_a_share_the_later_one_counts(later: int, limit: int) -> None:
    """A replica that stood by saw the pod go, too."""
    rig = running()
    lose(rig)
    gone(rig)
    rig.step(60)
    (share,) = rig.entries("reserved-quota").values()
    share["until"] += later * SECOND
    rig.tell(ev.LeaderRecordRead(with_entries(rig.record, "reserved-quota", {"default/train": share})))
    rig.step()
    rig.step(limit - 1)
    assert kept(rig) == 8
    rig.step(1)
    assert kept(rig) == 0


# -- pods without a PodGroup ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["web-0", "web-1"])
def test_F6_the_pod_that_replaces_a_lone_one_has_its_share(name: str) -> None:
    owner = Owner("ReplicaSet", "web", "web-uid")
    rig = Rig(3)
    rig.queue("capped", capability={CHIP: 8})
    queue = {"scheduling.volcano.sh/queue-name": "capped"}
    rig.submit("web", chips=8, owner=owner, annotations=queue)
    rig.events = [one for one in rig.events if not isinstance(one, ev.PodGroupSeen)]
    rig.change("web-0", group=None, uid="first")
    rig.events = [one for one in rig.events if not (isinstance(one, ev.PodSeen) and one.pod.group)]
    rig.run()
    assert rig.pods["web-0"].node is not None
    rig.submit("next", chips=4, queue="capped")
    lose(rig, "web-0")
    old = rig.pods["web-0"]
    rig.gone("web-0")
    rig.run()
    assert kept(rig) == 8
    assert not rig.nodes_of("next")
    rig.put(
        replace(
            old, uid="second", name=name, node=None, phase="Pending", deleting=False, holds=(), rank=None,
            annotations=queue,
        )
    )  # fmt: skip
    rig.run()
    assert rig.pods[name].node is not None
    assert kept(rig) == 0


# -- what is said about it -----------------------------------------------------------------------------------


def test_why_names_what_is_kept_for_whom_and_for_how_long() -> None:
    rig = running(nodes=6)
    lose(rig)
    gone(rig)
    rig.step(20)
    view = rig.machine.view
    answer = explain(view, view.jobs["default/next"], rig.now)
    assert answer.sentence == (
        f"queue capped: 16 of {CHIP} used, 8 reserved for default/train being "
        "rescheduled, 4 requested, limit 24"
    )
    found = [fix.text for fix in answer.fixes]
    # Each was tried.
    assert found[:2] == [
        "wait until the quota reserved for default/train is released, in 1m40s at the latest",
        f"raise the capability of queue capped to 28 of {CHIP} (now 24)",
    ]
    assert (
        f"rescheduling: queue capped keeps 8 of {CHIP} for it for another 1m40s"
        in explain(view, view.jobs["default/train"], rig.now).faults
    )
    # The question changed nothing.
    assert kept(rig) == 8


def test_a_reason_names_three_jobs_at_most() -> None:
    rig = Rig(6)
    rig.queue("capped", capability={CHIP: 40})
    for number in range(5):
        rig.submit(f"lone{number}", chips=8, queue="capped")
    rig.run()
    rig.submit("next", chips=4, queue="capped")
    for number in range(5):
        lose(rig, f"lone{number}-0")
        gone(rig, f"lone{number}-0")
    assert kept(rig) == 40
    reason = rig.machine.view.jobs["default/next"].reason
    assert reason is not None
    assert reason.details["jobs"] == "default/lone0, default/lone1, default/lone2 and 2 more"
    # Of its own share no job is told.
    assert rig.reason("lone0") != "queue-quota-reserved"
