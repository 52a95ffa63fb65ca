"""Chips are reserved for a job that waited long; smaller jobs pass it only where they do not delay it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ringwise.apps.extensions import new_scheduler
from ringwise.framework import budget
from ringwise.framework.configuration import PluginOption, Tier
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Command, Evict, EvictionCause, Publish, RecordJobEvent
from ringwise.messages.events import Decide
from ringwise.scheduler.cache.running_jobs import JobRun, running_jobs
from ringwise.scheduler.core import job_backoff, reservation
from ringwise.scheduler.core.reservation import TRIED_STEPS
from ringwise.scheduler.core.reservation_records import RESERVATIONS
from ringwise.scheduler.defaults import default_tiers
from ringwise.scheduler.explain.why import explain
from ringwise.scheduler.faults.previous_placements import WHY as RESCHEDULED
from ringwise.state.cluster import ClusterState
from ringwise.state.limits import UsageLimit
from ringwise.state.model import DeviceReport, Isolation, NodeReport, NodeReservation, Taint
from ringwise.state.reservations import Reservation
from tests.builders import values
from tests.builders.records import record_with
from tests.builders.values import CHIP, SECOND, isolated, node, report, seen
from tests.examples import examples
from tests.scheduler.rig import ACTIONS, PLAIN, Rig
from tests.scheduler.volume_rig import VolumeRig


def kept_for(rig: Rig, job: str) -> Reservation | None:
    return rig.machine.view.reservations.of(f"default/{job}")


def let_big_wait(rig: Rig, **job: Any) -> None:
    """Submit the job `big`, and wait until it may have a reservation."""
    rig.submit("big", **job)
    rig.run()
    rig.step(600)


def nodes_kept(rig: Rig, job: str) -> list[str]:
    kept = kept_for(rig, job)
    return [] if kept is None else [rig.machine.view.cluster.names[node] for node in kept.chips]


def test_the_reservation_comes_with_time_alone_and_the_deadline_is_reported() -> None:
    rig = Rig(2, actions=PLAIN, reservation_after=600)
    rig.submit("small", chips=4)
    rig.run()
    rig.submit("big", pods=2, chips=8)
    rig.run()
    assert kept_for(rig, "big") is None
    assert rig.machine.next_deadline() == rig.now + 600 * SECOND
    rig.step(599)
    assert kept_for(rig, "big") is None
    rig.step(1)
    assert nodes_kept(rig, "big") == ["n1", "n2"]
    assert rig.machine.next_deadline() is None


def test_small_jobs_do_not_take_reserved_chips_but_run_on_others() -> None:
    rig = Rig(3, actions=PLAIN, reservation_after=600)
    for number, chips in enumerate((8, 8, 4, 4)):
        rig.submit(f"old{number}", chips=chips, expected=f"{number + 1}h")
        rig.run()
    let_big_wait(rig, pods=2, chips=8)
    assert nodes_kept(rig, "big") == ["n1", "n2"]
    kept = kept_for(rig, "big")
    assert kept is not None
    assert kept.starts == 1000 * SECOND + 7200 * SECOND
    rig.end("old0")
    rig.end("old2")
    for number in range(3):
        rig.submit(f"small{number}", chips=4)
    rig.run()
    assert [rig.nodes_of(f"small{number}") for number in range(3)] == [["n3"], [], []]
    assert rig.places("big") == {}
    rig.end("old1")
    rig.run()
    assert sorted(rig.nodes_of("big")) == ["n1", "n2"]
    assert kept_for(rig, "big") is None


def test_jobs_that_end_in_time_may_backfill_reserved_chips() -> None:
    rig = Rig(2, actions=PLAIN, reservation_after=600)
    rig.submit("old", chips=8, expected="2h")
    rig.run()
    let_big_wait(rig, pods=2, chips=8)
    assert nodes_kept(rig, "big") == ["n1", "n2"]
    rig.submit("brief", chips=4, expected="30m")
    rig.submit("long", chips=4, expected="3h")
    rig.submit("unsaid", chips=4)
    rig.run()
    assert rig.nodes_of("brief") == ["n2"]
    assert rig.nodes_of("long") == rig.nodes_of("unsaid") == []
    assert nodes_kept(rig, "big") == ["n1", "n2"]
    rig.end("brief")
    rig.end("old")
    rig.run()
    assert sorted(rig.nodes_of("big")) == ["n1", "n2"]


def test_without_expected_ends_the_oldest_jobs_count_first_and_nothing_is_backfilled() -> None:
    rig = Rig(2, actions=PLAIN, reservation_after=600)
    rig.submit("first", chips=8)
    rig.run()
    rig.step(10)
    rig.submit("second", chips=8)
    rig.run()
    let_big_wait(rig, chips=8)
    kept = kept_for(rig, "big")
    assert kept is not None
    assert kept.starts is None
    assert nodes_kept(rig, "big") == ["n1"]


def test_jobs_end_at_the_latest_by_the_longest_run_time_of_their_queue() -> None:
    rig = Rig(2, actions=PLAIN, reservation_after=600)
    rig.queue("q")
    rig.tell(UsageLimit("short", queue="q", max_run_time=3600 * SECOND))
    rig.submit("first", chips=8, expected="2h")
    rig.submit("second", chips=8, queue="q", expected="3h")
    rig.run()
    let_big_wait(rig, chips=8, queue="q")
    kept = kept_for(rig, "big")
    assert kept is not None
    assert nodes_kept(rig, "big") == rig.nodes_of("second")
    assert kept.starts == 1000 * SECOND + 3600 * SECOND


def test_a_search_without_running_jobs_leaves_no_transaction_open() -> None:
    rig = Rig(1, actions=PLAIN, reservation_after=600)
    rig.submit("big", pods=2, chips=8)
    rig.submit("bigger", pods=3, chips=8)
    rig.run()
    rig.step(600)
    assert rig.machine.view.inconsistencies() == []


def test_nothing_is_reserved_on_a_job_that_exceeds_its_expected_duration_if_another_ends() -> None:
    rig = Rig(2, actions=PLAIN, reservation_after=600)
    rig.submit("overdue", chips=8, expected="1m")
    rig.run()
    rig.submit("ends", chips=8, expected="2h")
    rig.run()
    let_big_wait(rig, chips=8)
    # When the overdue job ends is not known: it may never.
    kept = kept_for(rig, "big")
    assert kept is not None
    assert nodes_kept(rig, "big") == rig.nodes_of("ends")
    assert kept.starts == 1000 * SECOND + 7200 * SECOND


def test_a_job_that_exceeds_its_expected_duration_ends_at_the_latest_by_its_maximum_run_time() -> None:
    rig = Rig(1, actions=PLAIN, reservation_after=600)
    rig.tell(UsageLimit("short", queue="default", max_run_time=3600 * SECOND))
    rig.submit("overdue", chips=8, expected="1m")
    rig.run()
    let_big_wait(rig, chips=8)
    kept = kept_for(rig, "big")
    assert kept is not None
    assert kept.starts == 1000 * SECOND + 3600 * SECOND


def test_terminating_pods_count_as_gone_first() -> None:
    rig = Rig(2, actions=PLAIN, reservation_after=600)
    rig.submit("ends", chips=8, expected="11m")
    rig.run()
    rig.submit("terminates", chips=8)
    rig.run()
    rig.submit("big", chips=8)
    rig.run()
    rig.change("terminates-0", deleting=True)
    rig.step(600)
    kept = kept_for(rig, "big")
    assert kept is not None
    assert nodes_kept(rig, "big") == rig.nodes_of("terminates")
    assert kept.starts == rig.now


def test_what_comes_free_before_it_is_of_use_is_not_kept() -> None:
    rig = Rig(3, actions=PLAIN, reservation_after=600)
    rig.submit("small", chips=8)
    rig.run()
    rig.step(10)
    rig.submit("wide", pods=2, chips=8)
    rig.run()
    let_big_wait(rig, pods=2, chips=8)
    # It cannot start before the wide one ends, and fits there; the node of the small one is of no use to it.
    assert nodes_kept(rig, "big") == rig.nodes_of("wide") == ["n2", "n3"]
    rig.end("small")
    rig.submit("next", chips=8)
    rig.run()
    assert rig.nodes_of("next") == ["n1"]
    rig.end("wide")
    rig.run()
    assert sorted(rig.nodes_of("big")) == ["n2", "n3"]


def test_what_is_free_already_is_not_kept_where_the_job_fits_besides() -> None:
    rig = Rig(3, actions=PLAIN, reservation_after=600)
    rig.submit("small", chips=8)
    rig.run()
    rig.submit("wide", pods=2, chips=8)
    rig.run()
    rig.end("small")
    let_big_wait(rig, pods=2, chips=8)
    assert nodes_kept(rig, "big") == ["n2", "n3"]
    rig.submit("next", chips=8)
    rig.run()
    assert rig.nodes_of("next") == ["n1"]


def test_what_is_free_already_is_not_kept_if_a_job_that_ends_earlier_is_of_no_use() -> None:
    """The search has tried the end of the later one alone before it asks what is free now."""
    rig = Rig(4, actions=PLAIN, reservation_after=600)
    rig.submit("small", chips=8)
    rig.run()
    rig.submit("wide", pods=2, chips=8, expected="2h")
    rig.run()
    rig.submit("endless", chips=4)
    rig.run()
    rig.submit("brief", chips=4, expected="1h")
    rig.run()
    rig.end("small")
    let_big_wait(rig, pods=2, chips=8)
    assert rig.nodes_of("brief") == rig.nodes_of("endless") == ["n4"]
    assert nodes_kept(rig, "big") == ["n2", "n3"]


def test_what_is_free_already_is_kept_where_the_job_needs_it() -> None:
    rig = Rig(3, actions=PLAIN, reservation_after=600)
    rig.submit("wide", pods=2, chips=8)
    rig.run()
    let_big_wait(rig, pods=3, chips=8)
    assert nodes_kept(rig, "big") == ["n1", "n2", "n3"]


def test_one_reservation_for_each_queue_at_a_time() -> None:
    rig = Rig(2, actions=PLAIN, reservation_after=600)
    rig.queue("other")
    rig.submit("old", pods=2, chips=8)
    rig.run()
    rig.submit("one", chips=8)
    rig.submit("two", chips=8)
    rig.submit("three", chips=8, queue="other")
    rig.run()
    rig.step(600)
    assert sorted(kept.owner for kept in rig.machine.view.reservations) == ["default/one", "default/three"]


def test_a_job_too_large_for_the_empty_cluster_gets_no_reservation_and_the_next_one_does() -> None:
    rig = Rig(2, actions=PLAIN, reservation_after=600)
    rig.submit("old", pods=2, chips=8)
    rig.run()
    rig.submit("huge", pods=3, chips=8)
    let_big_wait(rig, chips=8)
    assert [kept.owner for kept in rig.machine.view.reservations] == ["default/big"]


UNUSABLE = pytest.mark.parametrize(
    "happens",
    [
        ev.NodeSeen(node("n1", ready=False, devices=None)),
        ev.NodeSeen(node("n1", unschedulable=True, devices=None)),
        ev.ReportSeen(report("n1", network_unhealthy=None, unhealthy=1)),
        ev.ReportSeen(DeviceReport("n1", CHIP, free=0xFE, recovering=1)),
        isolated(Isolation("n1")),
        isolated(Isolation("n1", ("Ascend910-0",))),
        ev.NodeReportSeen(NodeReport("n1", "node", "UnHealthy")),
    ],
    ids=["not ready", "cordoned", "unhealthy", "recovering", "isolated node", "isolated chip", "sick node"],
)


@UNUSABLE
def test_a_reservation_with_faulty_chips_is_lifted_and_others_are_found(happens: ev.Event) -> None:
    rig = Rig(2, actions=PLAIN, reservation_after=600)
    rig.submit("old0", chips=8, expected="1h")
    rig.run()
    rig.submit("old1", chips=8, expected="2h")
    rig.run()
    let_big_wait(rig, chips=8)
    assert nodes_kept(rig, "big") == ["n1"]
    rig.tell(happens)
    rig.run()
    assert nodes_kept(rig, "big") == ["n2"]


@pytest.mark.parametrize(
    "happens",
    [
        ev.NodeSeen(node("n1", labels={"zone": "a"}, taints=(Taint("other"),), devices=None)),
        ev.NodeSeen(node("n1", labels={"zone": "b"}, devices=None)),
        *seen(NodeReservation("r", ("n1",), 2000 * SECOND, 9000 * SECOND, queue="research")),
        *isolated(Isolation("n1", start=2000 * SECOND)),
    ],
    ids=["taint", "label", "reserved later", "drained later"],
)
def test_a_reservation_of_a_node_that_takes_no_pods_of_the_job_is_lifted_and_others_are_found(
    happens: ev.Event,
) -> None:
    rig = Rig(actions=PLAIN, reservation_after=600)
    rig.nodes(2, labels={"zone": "a"})
    rig.queue("research")
    for number in range(2):
        rig.submit(f"old{number}", chips=8, expected=f"{number + 1}h")
        rig.run()
    let_big_wait(rig, chips=8, node_selector=(("zone", "a"),))
    assert nodes_kept(rig, "big") == ["n1"]
    rig.tell(happens)
    rig.run()
    assert nodes_kept(rig, "big") == ["n2"]


@UNUSABLE
def test_what_a_failed_binding_gives_back_is_reserved_again_if_it_can_be_used(happens: ev.Event) -> None:
    for before, reserved in ((), ["n1"]), ((happens,), []):
        rig = Rig(1, actions=PLAIN, reservation_after=600)
        rig.submit("old", chips=8)
        rig.run()
        let_big_wait(rig, chips=8)
        rig.deaf = True
        rig.end("old")
        rig.step()
        for _ in range(job_backoff.AT_ONCE):
            rig.tell(ev.BindFailed(rig.pods["big-0"].uid, "refused by the test"))
            assert any(isinstance(command, Bind) for command in rig.step())
        # In a turn before that of the failure: nothing about the node changes then.
        rig.tell(*before)
        rig.step()
        rig.tell(ev.BindFailed(rig.pods["big-0"].uid, "refused by the test"))
        rig.step()
        assert nodes_kept(rig, "big") == reserved


def test_nothing_is_reserved_for_a_job_whose_claim_is_deleted() -> None:
    rig = VolumeRig(1, actions=PLAIN, reservation_after=600)
    rig.submit("old", chips=1)
    rig.run()
    rig.claim("data")
    rig.provision("data")
    let_big_wait(rig, chips=8, claims=("data",))
    assert nodes_kept(rig, "big") == ["n1"]
    rig.submit("small", chips=1)
    rig.run()
    assert rig.nodes_of("small") == []
    rig.change_claim("data", deleting=True)
    rig.run()
    assert kept_for(rig, "big") is None
    assert rig.nodes_of("small") == ["n1"]


def test_the_reservation_of_a_deleted_job_goes_to_pending_jobs() -> None:
    rig = Rig(2, actions=PLAIN, reservation_after=600)
    rig.submit("old", chips=8)
    rig.run()
    let_big_wait(rig, pods=2, chips=8)
    rig.submit("small", chips=4)
    rig.run()
    assert rig.places("small") == {}
    rig.end("big")
    rig.run()
    assert rig.nodes_of("small") == ["n2"]


SMALL = st.tuples(st.sampled_from([1, 2, 4, 8]), st.integers(1, 30), st.booleans())


@settings(deadline=None, max_examples=examples(15), phases=(Phase.explicit, Phase.generate))
@given(st.integers(2, 3), st.lists(SMALL, min_size=8, max_size=40), st.integers(0, 5))
def test_a_stream_of_small_jobs_does_not_starve_a_gang(
    nodes: int, stream: list[tuple[int, int, bool]], before: int
) -> None:
    """Small jobs arrive every second and run for up to 30s; the gang needs every node."""
    rig = Rig(nodes, actions=PLAIN, reservation_after=20)
    ends: dict[str, int] = {}
    for tick in range(240):
        if tick == before:
            rig.submit("gang", pods=nodes, chips=8)
        chips, length, says = stream[tick % len(stream)]
        rig.submit(f"s{tick}", chips=chips, expected=f"{length}s" if says else "")
        for name in [name for name, end in ends.items() if end <= tick]:
            del ends[name]
            rig.end(name)
        rig.step(1)
        for name in {pod.group for pod in rig.pods.values() if pod.node and pod.group}:
            if name.startswith("s") and name not in ends:
                ends[name] = tick + stream[int(name[1:]) % len(stream)][1]
        if rig.places("gang"):
            assert len(rig.places("gang")) == nodes
            return
    raise AssertionError("the gang never started")


# -- cpu, memory and other resources --------------------------------------------------------------


def test_a_gang_of_cpu_pods_that_waited_long_gets_a_reservation() -> None:
    """A stream of one-pod jobs must not starve it."""
    rig = Rig(actions=PLAIN)
    rig.nodes(2, chips=0, cpu_milli=16_000)
    for number in range(4):
        rig.submit(f"old{number}", chips=0, cpu_milli=8_000)
    rig.run()
    let_big_wait(rig, chips=0, pods=2, cpu_milli=16_000)
    kept = kept_for(rig, "big")
    assert kept is not None
    assert {node: load.cpu_milli for node, load in kept.loads.items()} == {0: 16_000, 1: 16_000}
    for number in range(4):
        rig.end(f"old{number}")
        rig.submit(f"new{number}", chips=0, cpu_milli=8_000)
        rig.run()
    assert sorted(rig.nodes_of("big")) == ["n1", "n2"]
    assert [rig.nodes_of(f"new{number}") for number in range(4)] == [[], [], [], []]
    assert kept_for(rig, "big") is None


def test_a_job_of_which_a_part_runs_does_not_wait_for_its_own_pods() -> None:
    rig = Rig(actions=PLAIN, reservation_after=600)
    rig.node("n1", cpu_milli=4000)
    rig.submit("old", chips=0, cpu_milli=1000)
    rig.run()
    rig.step(1)
    rig.submit("train", pods=3, chips=0, cpu_milli=1000)
    rig.run()
    lost = ("train-1", "train-2")
    for number, name in enumerate(lost):
        rig.step(1)
        rig.tell(ev.PodGone(rig.pods[name].uid))
        rig.submit(f"late-{number}", chips=0, cpu_milli=1000)
        rig.run()
        assert rig.nodes_of(f"late-{number}") == ["n1"]
    for name in lost:
        rig.replacement(name)
    rig.run()
    rig.step(600)
    kept = kept_for(rig, "train")
    assert kept is not None
    assert kept.awaited == {rig.pods[name].uid for name in ("old-0", "late-0-0")}


def test_what_is_left_beside_reserved_cpu_is_used_at_once() -> None:
    rig = Rig(actions=PLAIN)
    rig.nodes(1, chips=0, cpu_milli=16_000)
    rig.submit("old", chips=0, cpu_milli=8_000)
    rig.run()
    let_big_wait(rig, chips=0, cpu_milli=12_000)
    assert kept_for(rig, "big") is not None
    rig.submit("small", chips=0, cpu_milli=4_000)
    rig.submit("other", chips=0, cpu_milli=1_000)
    rig.run()
    assert rig.nodes_of("small") == ["n1"]
    assert rig.nodes_of("other") == []
    rig.end("old")
    rig.run()
    assert rig.nodes_of("big") == ["n1"]
    assert rig.nodes_of("other") == []


def test_a_reservation_for_chips_keeps_cpu_and_other_resources_too() -> None:
    rig = Rig(actions=PLAIN)
    rig.node("n1", cpu_milli=16_000, extended=(("example.com/nic", 2),))
    rig.submit("old", chips=8, cpu_milli=8_000)
    rig.run()
    let_big_wait(rig, chips=8, cpu_milli=16_000, extended={"example.com/nic": 2})
    assert kept_for(rig, "big") is not None
    rig.submit("thief", chips=0, cpu_milli=1_000)
    rig.submit("nic", chips=0, extended={"example.com/nic": 1})
    rig.run()
    rig.end("old")
    rig.run()
    assert rig.nodes_of("big") == ["n1"]
    assert rig.nodes_of("thief") == rig.nodes_of("nic") == []


def test_cpu_jobs_that_end_in_time_may_backfill_reserved_cpu() -> None:
    rig = Rig(actions=PLAIN)
    rig.nodes(2, chips=0, cpu_milli=16_000)
    rig.submit("old", chips=0, cpu_milli=16_000, expected="2h")
    rig.run()
    let_big_wait(rig, chips=0, pods=2, cpu_milli=16_000)
    rig.submit("brief", chips=0, cpu_milli=8_000, expected="30m")
    rig.submit("long", chips=0, cpu_milli=8_000, expected="3h")
    rig.run()
    assert rig.nodes_of("brief") == ["n2"]
    assert rig.nodes_of("long") == []


def test_the_reservation_moves_when_its_node_becomes_too_small() -> None:
    rig = Rig(actions=PLAIN)
    rig.nodes(2, chips=0, cpu_milli=16_000)
    rig.submit("a", chips=0, cpu_milli=16_000)
    rig.run()
    rig.step(1)
    rig.submit("b", chips=0, cpu_milli=16_000)
    rig.run()
    let_big_wait(rig, chips=0, cpu_milli=16_000)
    kept = kept_for(rig, "big")
    assert kept is not None
    assert [rig.machine.view.cluster.names[node] for node in kept.nodes] == ["n1"]
    rig.node("n1", chips=0, cpu_milli=8_000)
    rig.run()
    kept = kept_for(rig, "big")
    assert kept is not None
    assert [rig.machine.view.cluster.names[node] for node in kept.nodes] == ["n2"]


def test_a_reservation_that_did_not_suffice_is_made_again() -> None:
    """The awaited pod is gone, but a label the job needs went with it: it must not hold the node for ever."""
    rig = Rig(actions=PLAIN)
    for name in ("n1", "n2"):
        rig.node(name, chips=0, cpu_milli=16_000, labels={"zone": "a"})
    rig.submit("a", chips=0, cpu_milli=16_000, expected="1h")
    rig.submit("b", chips=0, cpu_milli=16_000, expected="2h")
    rig.run()
    let_big_wait(rig, chips=0, cpu_milli=16_000, node_selector=(("zone", "a"),))
    kept = kept_for(rig, "big")
    assert kept is not None
    first = rig.machine.view.cluster.names[kept.nodes[0]]
    rig.node(first, chips=0, cpu_milli=16_000, labels={"zone": "b"})
    rig.end("a" if rig.nodes_of("a") == [first] else "b")
    rig.run()
    kept = kept_for(rig, "big")
    assert kept is not None
    assert rig.machine.view.cluster.names[kept.nodes[0]] != first


def test_what_runs_is_not_read_for_jobs_that_were_placed_in_the_same_cycle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []

    def counting(*read_from: Any) -> list[JobRun]:
        read.append(1)
        return running_jobs(*read_from)

    monkeypatch.setattr(reservation, "running_jobs", counting)
    rig = Rig(2, actions=PLAIN, reservation_after=600)
    rig.submit("old", pods=2, chips=8)
    rig.run()
    for name in ("one", "two"):
        rig.submit(name, chips=8)
    rig.run()
    rig.step(600)
    assert kept_for(rig, "one") is not None
    assert len(read) == 1
    rig.end("old")
    rig.run()
    assert len(rig.nodes_of("one")) == len(rig.nodes_of("two")) == 1
    assert len(read) == 1


def released(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often a running pod is supposed to have ended when a node joins."""
    count = 0
    release = ClusterState.release

    def counting(state: ClusterState, uid: str) -> None:
        nonlocal count
        count += 1
        release(state, uid)

    with monkeypatch.context() as patch:
        patch.setattr(ClusterState, "release", counting)
        rig.node("late")
        rig.run()
    return count


def test_running_jobs_are_ended_once_however_many_jobs_fit_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    work = {}
    for waiting in (2, 40):
        rig = Rig(2, actions=PLAIN, reservation_after=600)
        for number in range(12):
            rig.submit(f"old{number}", chips=1)
        for number in range(waiting):
            rig.submit(f"never{number}", chips=1, node_selector=(("no", "such"),))
        rig.run()
        rig.step(600)
        work[waiting] = released(rig, monkeypatch)
    # Once for all that are tried together, and once more for the last of them.
    assert work[40] == work[2] <= 24


@pytest.mark.parametrize("namespace", ["other", "flood"])
def test_jobs_that_fit_nowhere_are_tried_in_turn_and_the_one_that_fits_gets_its_reservation(
    monkeypatch: pytest.MonkeyPatch, namespace: str
) -> None:
    # Few may be tried at once, and every second a node changes, so that all may be tried anew.
    monkeypatch.setattr(budget, "NAMESPACE_STEPS", 10 * TRIED_STEPS)
    monkeypatch.setattr(budget, "NAMESPACE_STEPS_A_SECOND", 4 * TRIED_STEPS)
    rig = Rig(1, actions=PLAIN, reservation_after=600)
    rig.submit("old", chips=8)
    rig.run()
    for number in range(30):
        rig.submit(f"never{number}", namespace="flood", chips=1, node_selector=(("no", "such"),))
    rig.submit("zebra", namespace=namespace, chips=8)
    rig.run()
    rig.step(600)
    seconds = 0
    while rig.machine.view.reservations.of(f"{namespace}/zebra") is None and seconds < 60:
        rig.node("flaps", chips=0, labels={"second": str(seconds)})
        rig.step(1)
        seconds += 1
    assert seconds == 0 if namespace == "other" else 0 < seconds < 20


def test_jobs_that_were_not_tried_for_want_of_steps_are_tried_when_time_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(budget, "NAMESPACE_STEPS", 4 * TRIED_STEPS)
    monkeypatch.setattr(budget, "NAMESPACE_STEPS_A_SECOND", TRIED_STEPS)
    rig = Rig(1, actions=PLAIN, reservation_after=600)
    rig.submit("old", chips=8)
    rig.run()
    for number in range(20):
        rig.submit(f"never{number}", namespace="flood", chips=1, node_selector=(("no", "such"),))
    rig.submit("zebra", namespace="flood", chips=8)
    rig.run()
    rig.step(600)
    while rig.machine.view.reservations.of("flood/zebra") is None:
        deadline = rig.machine.next_deadline()
        assert deadline is not None
        assert deadline < rig.now + 60 * SECOND
        rig.step((deadline - rig.now) // SECOND)


# -- for what-ifs --------------------------------------------------------------------------------------------


def waiting_rig() -> Rig:
    """Two nodes, half of one in use, all of both reserved."""
    rig = Rig(2, actions=PLAIN, reservation_after=600)
    rig.submit("small", chips=4)
    rig.run()
    let_big_wait(rig, pods=2, chips=8)
    assert nodes_kept(rig, "big") == ["n1", "n2"]
    return rig


def written(commands: Iterable[Command]) -> list[str]:
    key = f"{RESERVATIONS}.json"
    return [one.data[key] for one in commands if isinstance(one, Publish) and key in one.data]


def test_another_scheduler_that_knows_the_same_reserves_the_same() -> None:
    rig = waiting_rig()
    copy = new_scheduler(rig.machine.view.configuration)
    copy.handle(rig.machine.view.current_events(), rig.now, Decide.NOTHING)
    (mine,), (theirs,) = rig.machine.view.reservations, copy.view.reservations
    assert replace(theirs, number=0) == replace(mine, number=0)
    assert copy.view.inconsistencies() == []


def test_reservations_are_written_when_they_change_and_not_taken_over() -> None:
    rig = waiting_rig()
    (event,) = (one for one in rig.machine.view.current_events() if isinstance(one, ev.LeaderRecordRead))
    taken_over = replace(event, takes_over=True)
    again = new_scheduler(rig.machine.view.configuration)
    objects = [one for one in rig.machine.view.current_events() if one is not event and one != event]
    # What the leader before reserved is over, so it is written that nothing is.
    (text,) = written(again.handle([*objects, taken_over], rig.now))
    assert text == ""
    assert not list(again.view.reservations)
    assert not written(again.handle([], rig.now))


@pytest.mark.parametrize("entries", [7, [[1], "x"], {"default/big": {"chips": {"n1": 255}}}])
def test_records_that_cannot_be_read_reserve_nothing(entries: object) -> None:
    rig = Rig(1, actions=PLAIN, reservation_after=600)
    rig.machine.handle([record_with(RESERVATIONS, entries, takes_over=False)], rig.now)
    assert not list(rig.machine.view.reservations)
    assert not rig.machine.view.history.incidents


def test_a_job_that_is_admitted_for_its_reservation_counts_for_the_next_one() -> None:
    tiers = (Tier((PluginOption.of("overcommit"),)), *default_tiers())
    rig = Rig(2, actions=PLAIN, reservation_after=600, tiers=tiers)
    rig.submit("old", pods=2, chips=8)
    rig.run()
    for name in ("a", "b"):
        rig.queue(name)
        rig.put_group(values.group(name, 2, queue=name, min_resources={CHIP: 16}, phase="Pending"))
    rig.run()
    rig.step(600)
    rig.run()
    admitted = [name for name in ("a", "b") if rig.machine.view.jobs[f"default/{name}"].inqueue]
    assert admitted == ["a"]


def test_a_job_that_is_admitted_for_its_reservation_is_reported() -> None:
    """It is not tried in the cycle in which the job ahead of it starts: that one blocks it until then."""
    rig = Rig(2, actions=PLAIN, reservation_after=600, queue_discipline="strict")
    rig.submit("old", pods=2, chips=8, expected="1h")
    rig.run()
    rig.submit("big", pods=2, chips=8, expected="1h")
    rig.put_group(values.group("later", 2, created=9, min_resources={CHIP: 16}))
    rig.run()
    assert rig.reason("later") == "blocked-by-head-of-queue"
    for _ in range(3):
        rig.step(600)
        rig.run()
    rig.end("old")
    rig.step()
    assert rig.groups["default/later"].phase == "Inqueue"


# -- jobs that run longer than they said, on what is reserved for another one


def lent(*, actions: tuple[str, ...] = ACTIONS, grace: int = 300) -> Rig:
    """`liar` said 30 min and runs on chips that are reserved for `big`; `old` runs beside it for 2 h."""
    rig = Rig(2, reservation_after=600, actions=actions, expected_duration_grace_period=grace)
    rig.submit("old", chips=8, expected="2h")
    rig.run()
    let_big_wait(rig, pods=2, chips=8)
    rig.submit("liar", chips=4, expected="30m")
    rig.run()
    assert rig.nodes_of("liar") == ["n2"]
    return rig


def test_who_runs_longer_than_it_said_is_warned_and_evicted_for_who_waits_for_nothing_else() -> None:
    rig = lent()
    # A pod without chips on the same node is not in the way of `big`.
    rig.put(values.pod("side", 0, cpu_milli=100, on="n2"))
    rig.step(1800)
    (message,) = rig.messages("ExpectedDurationExceeded")
    assert "its expected duration of 30m, and runs longer" in message
    assert message.endswith("from 1970-01-01T01:01:40Z on it may be evicted for that job")
    # While `old` runs, nobody would start if it went.
    rig.step(3600)
    assert rig.evictions() == []
    rig.end("old")
    for _ in range(2):
        rig.step(60)
    assert rig.evictions() == ["liar-0"]
    (command,) = [one for one in rig.commands if isinstance(one, Evict)]
    assert (command.cause, command.by) == (EvictionCause.PREEMPT, "default/big")
    rig.gone("liar-0")
    rig.run()
    assert sorted(rig.nodes_of("big")) == ["n1", "n2"]
    assert len(rig.messages("ExpectedDurationExceeded")) == 1


def test_jobs_that_exceed_their_durations_together_are_warned_in_the_order_in_which_they_started() -> None:
    rig = Rig(2, actions=PLAIN, reservation_after=600)
    rig.submit("old", chips=8, expected="2h")
    rig.run()
    let_big_wait(rig, pods=2, chips=8)
    names = [f"liar{number}" for number in range(8)]
    for name in names:
        rig.submit(name, chips=1, expected="30m")
    rig.run()
    started = [one.pod for one in rig.commands if isinstance(one, Bind) and one.pod.startswith("liar")]
    commands = rig.step(1801)
    warned = [one.key for one in commands if isinstance(one, RecordJobEvent)]
    assert warned == [f"default/{name.removesuffix('-0')}" for name in started]
    assert len(warned) == len(names)


@pytest.mark.parametrize("chips", [0, 8])
def test_a_pod_without_chips_that_runs_longer_than_it_said_is_evicted_for_the_owner_of_its_cpu(
    chips: int,
) -> None:
    rig = Rig(reservation_after=600)
    rig.nodes(3, cpu_milli=10_000)
    rig.submit("other", chips=chips, cpu_milli=9000)
    rig.submit("old", chips=chips, cpu_milli=9000, expected="2h")
    rig.run()
    let_big_wait(rig, pods=2, chips=chips, cpu_milli=9000)
    rig.submit("liar", chips=0, cpu_milli=5000, expected="30m")
    rig.submit("honest", chips=0, cpu_milli=500)
    rig.run()
    assert rig.nodes_of("liar") == ["n3"]
    rig.step(1800)
    assert len(rig.messages("ExpectedDurationExceeded")) == 1
    # While `old` runs, `big` would not start if it went.
    for _ in range(6):
        rig.step(60)
    assert rig.evictions() == []
    rig.end("old")
    for _ in range(6):
        rig.step(60)
    assert rig.evictions() == ["liar-0"]
    rig.gone("liar-0")
    rig.run()
    assert sorted(rig.nodes_of("big")) == ["n2", "n3"]


def test_nobody_is_evicted_for_the_owner_of_other_nodes() -> None:
    rig = Rig(reservation_after=600, actions=(*PLAIN, "preempt"))
    rig.nodes(3, cpu_milli=10_000)
    rig.queue("other")
    rig.submit("first", chips=8, cpu_milli=9000, expected="2h")
    rig.submit("second", chips=8, cpu_milli=9000, expected="3h")
    rig.run()
    let_big_wait(rig, pods=2, chips=8, cpu_milli=9000)
    rig.submit("small", chips=8, cpu_milli=9000, queue="other")
    rig.run()
    rig.step(600)
    assert nodes_kept(rig, "big") == ["n1", "n3"]
    assert nodes_kept(rig, "small") == ["n2"]
    rig.submit("liar", chips=0, cpu_milli=2000, expected="30m")
    rig.run()
    assert rig.nodes_of("liar") == ["n3"]
    for _ in range(40):
        rig.step(60)
    rig.end("second")
    rig.step(60)
    assert rig.nodes_of("small") == ["n2"]
    assert rig.evictions() == []


def test_nobody_is_evicted_for_it_before_the_grace_period_is_over() -> None:
    rig = lent(grace=900)
    rig.end("old")
    rig.run()
    rig.step(1800)
    assert len(rig.messages("ExpectedDurationExceeded")) == 1
    rig.step(899)
    assert rig.evictions() == []
    rig.step(1)
    assert rig.evictions() == ["liar-0"]


def test_nobody_is_evicted_for_it_while_another_pod_has_reserved_chips() -> None:
    rig = lent()
    rig.end("old")
    rig.run()
    assert nodes_kept(rig, "big") == ["n1", "n2"]
    rig.put(values.pod("foreign", 4, on="n1", holds=(0, 1, 2, 3), scheduler="another"))
    rig.step(1800)
    assert len(rig.messages("ExpectedDurationExceeded")) == 1
    for _ in range(10):
        rig.step(60)
    assert rig.evictions() == []
    rig.gone("foreign")
    for _ in range(2):
        rig.step(60)
    assert rig.evictions() == ["liar-0"]


def test_no_pod_is_evicted_for_it_for_a_job_that_is_being_rescheduled() -> None:
    rig = lent()
    rig.end("old")
    rig.run()
    kept = kept_for(rig, "big")
    assert kept is not None
    kept.why, kept.expires = RESCHEDULED, rig.now + 3600 * SECOND
    rig.step(1800)
    for _ in range(10):
        rig.step(60)
    assert len(rig.messages("ExpectedDurationExceeded")) == 1
    assert rig.evictions() == []


@pytest.mark.parametrize("trick", ["annotation", "PodGroup deleted", "next leader"])
def test_what_a_job_said_is_remembered(trick: str) -> None:
    rig = lent()
    if trick == "annotation":
        rig.groups["default/liar"] = replace(
            rig.groups["default/liar"], annotations={"ringwise.io/expected-duration": "100h"}
        )
        rig.tell(rig.groups["default/liar"])
    elif trick == "PodGroup deleted":
        rig.tell(ev.PodGroupGone("default/liar"))
    else:
        rig.change_leader()
    rig.end("old")
    rig.run()
    rig.step(1800)
    assert len(rig.messages("ExpectedDurationExceeded")) == 1
    for _ in range(20):
        rig.step(60)
    assert rig.evictions() == ["liar-0"]


def test_claims_of_its_namespace_are_not_believed_until_it_has_ended() -> None:
    rig = lent(actions=PLAIN)
    rig.step(1801)
    (message,) = rig.messages("ExpectedDurationExceeded")
    assert "evicted" not in message
    rig.submit("next", chips=2, expected="1m")
    rig.run()
    assert rig.nodes_of("next") == []
    notes = explain(rig.machine.view, rig.machine.view.jobs["default/next"], rig.now).notes
    assert any("default/liar exceeded its expected duration" in note for note in notes)
    rig.end("liar")
    rig.run()
    assert rig.nodes_of("next") == ["n2"]
    assert rig.evictions() == []


def test_only_who_was_started_because_of_its_claim_is_evicted_for_it() -> None:
    """`old` said 2 h, runs longer, and is in the way of `big`: it was started on free chips."""
    rig = lent()
    rig.end("liar")
    rig.run()
    for _ in range(100):
        rig.step(600)
    assert rig.evictions() == []
    assert rig.messages("ExpectedDurationExceeded") == []
