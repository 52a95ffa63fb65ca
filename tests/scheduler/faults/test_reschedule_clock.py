"""F2: a job that lost pods has one clock: when it counts, what sets it back, and who reads it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.framework.gangs.gang_count import placed_pods
from ringwise.framework.reschedule_clock import RescheduleClock
from ringwise.messages import events as ev
from ringwise.placement.racks.levels import Level
from ringwise.scheduler.explain.why import explain
from ringwise.scheduler.faults.states import State
from ringwise.state.model import Owner
from tests.builders.values import SECOND, report
from tests.scheduler.faults.fault_rig import POD_LEVEL, deletions, running, state_of
from tests.scheduler.faults.test_rack_rescheduling import deleted, rack_rig, submit
from tests.scheduler.rig import Rig

RACKS = {"huawei.com/schedule_policy": "chip8-node8-ra64-sp"}


def clock(rig: Rig, job: str = "default/train") -> RescheduleClock:
    found = rig.machine.view.jobs[job].clock
    assert found is not None
    return found


def seconds(rig: Rig) -> float:
    return clock(rig).seconds(rig.now)


def waits(rig: Rig, job: str = "default/train") -> str:
    view = rig.machine.view
    return "\n".join(explain(view, view.jobs[job], rig.now).faults)


def waiting_for_a_node(labels: dict[str, str] = POD_LEVEL, **more: Any) -> tuple[Rig, str]:
    """Four pods on four nodes; that of the last rank is lost and its replacement waits."""
    rig = running(labels, nodes=4, **more)
    hit = rig.pod_on("n4")
    rig.sick("n4", 1)
    assert list(deletions(rig.step())) == [hit]
    rig.finish()
    rig.run()
    return rig, hit


# -- when it counts


def test_F2_it_counts_while_the_replacement_waits_and_ends_when_all_are_placed() -> None:
    rig, _ = waiting_for_a_node()
    rig.step(5)
    assert (seconds(rig), clock(rig).level) == (5, Level.POD)
    rig.node("n9")
    rig.run()
    assert rig.machine.view.jobs["default/train"].clock is None
    assert state_of(rig) is None


def test_F2_it_stands_while_pods_terminate_and_counts_on_without_one_that_does_so_too_long() -> None:
    rig, hit = waiting_for_a_node(POD_LEVEL, min_available=4)
    rig.step(5)
    other = rig.pod_on("n2")
    rig.change(other, deleting=True)
    rig.step()
    rig.step(100)
    assert seconds(rig) == 5
    assert "the clock stands while 1 pod terminates" in waits(rig)
    # Its owner replaces it before it is gone.
    pod = rig.pods[other]
    rig.put(replace(pod, uid="spare", name="spare", node=None, deleting=False, annotations={}, holds=()))
    rig.step(799)
    assert seconds(rig) == 5
    assert rig.machine.next_deadline() == rig.now + SECOND
    rig.step(1)
    rig.step(4)
    assert seconds(rig) == 9
    assert hit in rig.pods


def test_F2_it_stands_where_pods_are_not_made_again_and_why_names_owner_and_number() -> None:
    rig = running(POD_LEVEL, nodes=4, owner=Owner("AscendJob", "train", "u"))
    rig.sick("n4", 1)
    rig.step()
    rig.finish(recreate=False)
    rig.step()
    rig.step(500)
    assert seconds(rig) == 0
    stands = "the clock stands until AscendJob train makes 1 pod again: minAvailable is 4, 3 exist"
    assert f"pod level, 0s counted; {stands}" in waits(rig)


def test_F2_pods_behind_gates_do_not_wait_for_a_node() -> None:
    rig, hit = waiting_for_a_node()
    rig.change(hit, gated=True)
    rig.step()
    rig.step(60)
    assert seconds(rig) == 0
    rig.change(hit, gated=False)
    rig.step()
    rig.step(3)
    assert seconds(rig) == 3


def test_F2_succeeded_pods_are_placed() -> None:
    rig, _ = waiting_for_a_node()
    rig.node("n2", unschedulable=True)
    rig.change(rig.pod_on("n2"), phase="Succeeded")
    rig.step(4)
    assert seconds(rig) == 4
    assert deletions(rig.step(7.9)) == {}
    assert deletions(rig.step(0.1))


def test_F2_a_pod_that_is_being_deleted_is_not_placed_also_where_it_exits_with_code_0() -> None:
    rig = running(POD_LEVEL)
    job, cluster = rig.machine.view.jobs["default/train"], rig.machine._state
    assert placed_pods(cluster, job) == 4
    rig.change("train-1", phase="Succeeded")
    rig.step()
    assert placed_pods(cluster, job) == 4
    rig.change("train-2", phase="Succeeded", deleting=True)
    rig.step()
    assert placed_pods(cluster, job) == 3


def test_F2_without_clusterd_process_recovery_escalates_to_the_job() -> None:
    rig, _ = waiting_for_a_node({**POD_LEVEL, "process-recover-enable": "on"})
    assert deletions(rig.step(11.9)) == {}
    assert len(deletions(rig.step(0.1))) == 3
    assert clock(rig).level is Level.JOB


# -- each level deletes once; its deletions do not set it back


def lost_rank_7(**labels: str) -> Rig:
    """Eight pods in one rack, in logical racks of two, without a free node; another rack is free."""
    rig = rack_rig({(0, 0): 8, (0, 1): 8})
    submit(rig, 8, 64, 16, **{"fault-scheduling": "grace", "pod-rescheduling": "on", **labels})
    node = rig.by_rank()[7]
    rig.sick(node, 0xFF, aggregated=True)
    return rig


def end(rig: Rig) -> None:
    rig.finish()
    rig.run()


@pytest.mark.parametrize("grace", [0, 60])
def test_F2_R3_rack_level_moves_two_pods_also_with_long_grace_periods(grace: int) -> None:
    rig = lost_rank_7()
    before = rig.by_rank()
    rig.step()
    rig.step(grace)
    end(rig)
    assert rig.reason("train") == "rack-wait-for-same-rack"
    assert rig.machine.next_deadline() == rig.now + 3 * SECOND
    (mate,) = deletions(rig.step(3))
    assert rig.pods[mate].annotations["hccl/rankIndex"] == "6"
    rig.step(grace)
    assert (seconds(rig), clock(rig).level) == (3, Level.RACK)
    end(rig)
    after = rig.by_rank()
    assert {after[6][:4], after[7][:4]} == {"s0r1"}
    assert {rank: after[rank] for rank in range(6)} == {rank: before[rank] for rank in range(6)}


def test_F2_each_level_deletes_once() -> None:
    rig = rack_rig({(0, 0): 8, (1, 0): 4})
    submit(rig, 12, 32, 16, **POD_LEVEL)
    node = rig.by_rank()[5]
    rig.sick(node, 0xFF)
    found = [deleted(rig)] + [deleted(rig, 0.5) for _ in range(40)]
    assert [ranks for ranks in found if ranks] == [[5], [4], [6, 7], [0, 1, 2, 3, 8, 9, 10, 11]]


# -- what sets it back, and what does not


def test_F2_a_fault_of_another_pod_sets_seconds_and_level_back() -> None:
    rig = rack_rig({(0, 0): 8, (1, 0): 4})
    submit(rig, 12, 32, 16, **POD_LEVEL)
    for rank, first in ((5, True), (10, False)):
        node = rig.by_rank()[rank]
        rig.sick(node, 1)
        assert deleted(rig) == [rank]
        if first:
            assert deleted(rig, 3) == [4]
            assert (clock(rig).level, seconds(rig)) == (Level.RACK, 3)
    assert (clock(rig).level, seconds(rig)) == (Level.POD, 0)


def test_F2_hardware_that_broke_the_job_before_sets_nothing_back() -> None:
    """A second pod waits in vain; meanwhile a pod that returned to a healed chip loses it again."""
    rig = running(POD_LEVEL, nodes=5)
    first = rig.pod_on("n3")
    rig.node("n5", unschedulable=True)
    rig.sick("n3", 1)
    rig.step()
    rig.sick("n3", 0)
    end(rig)
    assert rig.pods[first].node == "n3"
    rig.sick("n4", 1)
    rig.step()
    end(rig)
    rig.step(5)
    rig.sick("n3", 1)
    assert list(deletions(rig.step())) == [first]
    assert seconds(rig) == 5
    end(rig)
    rig.step(2)
    assert seconds(rig) == 7


def test_F2_process_recovery_holds_it_below_block_level_and_pause_sets_it_back_once() -> None:
    rig = lost_rank_7(**{"process-recover-enable": "on"})
    for number in range(8):
        rig.node(f"s0r1n{number}", superpod=0, rack=1, unschedulable=True)
    rig.step()
    end(rig)
    assert len(deletions(rig.step(3))) == 1
    end(rig)
    assert deletions(rig.step(60)) == {}
    assert clock(rig).level is Level.RACK
    assert seconds(rig) < 6
    rig.label("train", {"process-recover-enable": "pause"})
    rig.step()
    assert (clock(rig).level, seconds(rig)) == (Level.POD, 0)
    rig.step(2)
    rig.change("train-0", labels={**rig.pods["train-0"].labels, "touched": "yes"})
    rig.step()
    assert seconds(rig) == 2
    other = rig.successor()
    other.step()
    assert seconds(other) <= 2
    other.step(1.5)
    assert clock(other).recovery == "pause"


def test_F2_clusterd_that_is_away_for_a_while_does_not_change_the_label() -> None:
    rig = Rig(3)
    aggregate = report("n1", aggregated=True)
    rig.tell(aggregate)
    rig.submit(
        "train", pods=3, chips=8, labels={"fault-scheduling": "force", "process-recover-enable": "pause"}
    )
    rig.run()
    rig.node("n2", ready=False)
    rig.step()
    end(rig)
    rig.step()
    rig.tell(ev.ReportGone("n1", True))
    for _ in range(70):
        rig.step(1)
        end(rig)
    counted = seconds(rig)
    assert counted > 60
    rig.tell(aggregate)
    rig.change("train-1", labels={**rig.pods["train-1"].labels, "touched": "yes"})
    rig.step()
    assert seconds(rig) == counted
    assert clock(rig).recovery == "pause"


def test_F2_recover_policy_path_pod_promises_no_other_rack() -> None:
    rig = rack_rig({(0, 0): 8, (0, 1): 8})
    notes = {**RACKS, "sp-block": "64", "ra-block": "16", "huawei.com/recover_policy_path": "pod"}
    rig.submit("train", pods=8, chips=8, annotations=notes, labels=POD_LEVEL)
    rig.run()
    rig.sick(rig.by_rank()[7], 1)
    rig.step()
    end(rig)
    assert deletions(rig.step(100)) == {}
    reason = rig.machine.view.jobs["default/train"].reason
    assert reason is not None
    assert reason.code == "rack-wait-for-same-rack"
    assert "other racks" not in reason.message
    assert "healthy pods of this job are never restarted" in reason.message
    assert "healthy pods of this job are never restarted" in waits(rig)


def test_F2_a_refused_fault_that_heals_does_not_make_the_job_forget_the_pods_it_lacks() -> None:
    rig, hit = waiting_for_a_node()
    rig.step(5)
    rig.change_group("train", annotations={"ProcessRecoverStrategy": "recover"})
    rig.sick("n2", 1)
    assert deletions(rig.step()) == {}
    assert state_of(rig) is State.BLOCKED
    rig.sick("n2", 0)
    rig.step()
    assert state_of(rig) is State.WAITING
    rig.change_group("train", annotations={})
    rig.step()
    assert sorted(deletions(rig.step(12))) == sorted(rig.pods.keys() - {hit})


def test_F3_a_chip_that_is_reported_with_more_faults_breaks_the_job_once() -> None:
    rig = running(POD_LEVEL, annotations={"ProcessRecoverStrategy": "recover"})
    for mask in (1, 3):
        rig.sick("n3", mask)
        rig.step(1)
    cooling = rig.machine.view.jobs["default/train"].cooling
    assert {broken.chip: one.times for broken, one in cooling.items()} == {0: 1, 1: 1}


@pytest.mark.parametrize(
    ("labels", "rank", "level"),
    [
        ({"pod-rescheduling": "on"}, 7, Level.POD),
        ({"pod-rescheduling": "on"}, 0, Level.JOB),
        ({}, 7, Level.JOB),
    ],
)
def test_F2_R3_a_rack_job_without_fault_scheduling_has_the_clock_too(
    labels: dict[str, str], rank: int, level: Level
) -> None:
    """Rank 0 or a missing `pod-rescheduling` sets its level at once. Nothing healthy is deleted."""
    rig = rack_rig({(0, 0): 8, (0, 1): 1})
    submit(rig, 8, 64, 16, **labels)
    name = rig.pod_on(rig.by_rank()[rank])
    rig.node(rig.by_rank()[rank], superpod=0, rack=0, unschedulable=True)
    rig.recreate(name)
    rig.run()
    assert clock(rig).level is level
    assert deletions(rig.step(60)) == {}
    assert clock(rig).level is Level.JOB


# -- minAvailable


@pytest.mark.parametrize("labels", [POD_LEVEL, {"fault-scheduling": "force"}])
@pytest.mark.parametrize("hit_rank", ["0", "3"])
def test_F2_at_or_above_min_available_nothing_healthy_is_deleted(
    labels: dict[str, str], hit_rank: str
) -> None:
    rig = running(labels, nodes=4, min_available=3)
    hit = next(pod for pod in rig.pods.values() if pod.annotations["hccl/rankIndex"] == hit_rank)
    rig.sick(hit.node or "", 1)
    assert list(deletions(rig.step())) == [hit.name]
    end(rig)
    assert deletions(rig.step(100)) == {}
    assert rig.machine.view.jobs["default/train"].clock is None
    assert "pod level: 1 pod waits for nodes; the job has its 3 pods of minAvailable" in waits(rig)


def test_F2_R3_a_rack_job_at_min_available_waits_at_pod_level_with_that_reason() -> None:
    rig = rack_rig({(0, 0): 4, (0, 1): 8})
    notes = {**RACKS, "sp-block": "32", "ra-block": "8"}
    rig.submit(
        "train", pods=4, chips=8, min_available=3, annotations=notes, labels={"fault-scheduling": "force"}
    )
    rig.run()
    rig.sick(rig.by_rank()[3], 1)
    assert len(deletions(rig.step())) == 1
    end(rig)
    rig.step(60)
    reason = rig.machine.view.jobs["default/train"].reason
    assert reason is not None
    assert "the job has its 3 pods of minAvailable, so lost pods wait at pod level" in reason.message


# -- F1


def test_F1_F2_seconds_are_kept_and_do_not_grow_while_no_scheduler_runs() -> None:
    rig = lost_rank_7()
    rig.step()
    end(rig)
    rig.step(3)
    rig.step(50)
    other = rig.successor()
    other.now += 3600 * SECOND
    other.step()
    assert (seconds(other), clock(other).level) == (3, Level.RACK)
    end(other)
    assert {other.by_rank()[rank][:4] for rank in (6, 7)} == {"s0r1"}


def test_F1_F2_a_clock_that_counts_goes_on_from_what_was_written() -> None:
    rig, hit = waiting_for_a_node()
    rig.step(5)
    # Something of the job is written.
    rig.change(rig.pod_on("n2"), deleting=True)
    rig.step()
    rig.change(rig.pod_on("n2"), deleting=False)
    rig.step()
    other = rig.successor()
    other.now += 3600 * SECOND
    other.step()
    assert seconds(other) == 5
    assert deletions(other.step(6.9)) == {}
    assert len(deletions(other.step(0.1))) == 3
    assert hit in other.pods


def test_F2_the_next_leader_starts_the_clock_of_a_rack_job_of_whose_loss_it_was_not_told() -> None:
    rig = rack_rig({(0, 0): 8, (0, 1): 8})
    submit(rig, 8, 64, 16, **{"pod-rescheduling": "on"})
    lost = rig.pod_on(rig.by_rank()[7])
    new = rack_rig({(0, 0): 8, (0, 1): 8})
    new.node(rig.by_rank()[7], superpod=0, rack=0, unschedulable=True)
    new.groups = {key: replace(one, phase="Running") for key, one in rig.groups.items()}
    new.tell(*new.groups.values())
    for name, pod in rig.pods.items():
        if name != lost:
            new.put(pod)
    new.pods[lost] = rig.pods[lost]
    new.replacement(lost)
    new.tell(ev.LeaderRecordRead())
    new.run()
    assert clock(new).level is Level.POD
    assert new.reason("train") == "rack-wait-for-same-rack"


# -- the clock itself


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20)), max_size=20), st.integers(0, 50))
def test_F2_it_is_the_sum_of_the_seconds_in_which_it_counts(spans: list[tuple[bool, int]], most: int) -> None:
    now, expected = 5 * SECOND, 0
    one = RescheduleClock("owner", now)
    for counts, span in spans:
        one.read(now)
        one.running = now if counts else None
        now += span * SECOND
        expected += span if counts else 0
        assert one.seconds(now) == expected
    one.most = most * SECOND
    assert one.seconds(now) == min(most, expected)
