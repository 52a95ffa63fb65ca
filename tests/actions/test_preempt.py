"""preempt: a job evicts less important pods of its queue, and none in vain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.actions.preempt import SPEC
from ringwise.framework.configuration import PluginOption
from ringwise.framework.extension_points import JOB_PIPELINED, Vote
from ringwise.framework.session import Session
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, SetPodCondition
from ringwise.messages.job_expansion import pod_group_of
from tests.builders.session_lab import cluster, option
from tests.builders.values import CHIP, SECOND, job_of, pod, task_of
from tests.examples import examples
from tests.scheduler.rig import Rig, gangs_may_end

PREEMPT = ("enqueue", "allocate", "preempt", "backfill")


def rig_of(nodes: int, *, strict_gangs: bool = False, **settings: Any) -> Rig:
    rig = Rig(nodes, actions=PREEMPT, tiers=None if strict_gangs else gangs_may_end(), **settings)
    for name, value in (("low", 10), ("middle", 50), ("high", 100)):
        rig.priority(name, value)
    return rig


def fill_with(rig: Rig, *sizes: int, priority: str = "low", preemptable: bool = True) -> None:
    """One-pod jobs v0, v1 ... one after the other."""
    for number, size in enumerate(sizes):
        rig.submit(f"v{number}", chips=size, priority=priority, preemptable=preemptable)
        rig.run()


def test_lower_priority_is_evicted_its_chips_are_reserved_and_the_job_starts_when_they_are_free() -> None:
    """Priority: "other job -> victim job priority strictly lower"; the preemptor is pipelined, not bound."""
    rig = rig_of(1)
    fill_with(rig, 4, 4)
    rig.submit("boss", chips=4, priority="high")
    rig.step()
    assert len(rig.evictions()) == 1
    assert rig.places("boss") == {}
    assert rig.reason("boss") == "evictions-in-progress"
    kept = rig.machine.view.reservations.of("default/boss")
    assert kept is not None
    assert kept.chip_count == 4
    rig.run()
    assert len(rig.evictions()) == 1
    rig.submit("thief", chips=4, priority="low")
    rig.gone(*rig.evictions())
    rig.run()
    assert len(rig.places("boss")) == 1
    assert rig.places("thief") == {}
    assert rig.machine.view.reservations.of("default/boss") is None


def test_the_preemptor_is_nominated_until_it_gives_up() -> None:
    rig = rig_of(2, grace_over_time=30)
    fill_with(rig, 8, 8)
    rig.submit("boss", pods=2, chips=8, priority="high")
    rig.step()

    def told() -> list[tuple[str, str | None]]:
        return [(one.pod, one.nominated) for one in rig.commands if isinstance(one, SetPodCondition)]

    assert told()[-2:] == [("boss-0", "n1"), ("boss-1", "n2")]
    # The victims do not end, and a node goes.
    rig.node("n1", ready=False)
    rig.step(600)
    rig.step()
    assert rig.machine.view.reservations.of("default/boss") is None
    assert told()[-2:] == [("boss-0", ""), ("boss-1", "")]


def test_a_host_port_that_comes_free_is_kept_for_the_preemptor() -> None:
    rig = Rig(deaf=True, actions=PREEMPT, tiers=gangs_may_end())
    rig.priority("low", 10)
    rig.priority("high", 100)
    asked: dict[str, Any] = {"chips": 0, "cpu_milli": 1000, "host_ports": (("", "TCP", 8080),)}
    for number in (1, 2):
        rig.node(f"n{number}", cpu_milli=8000)
        rig.submit(f"v{number}", priority="low", preemptable=True, **asked)
        rig.change(f"v{number}-0", node=f"n{number}", phase="Running")
    rig.step()
    rig.submit("boss", pods=2, priority="high", **asked)
    rig.step()
    assert len(rig.evictions()) == 2
    for number in (1, 2):
        # A victim ends, and its owner creates it again at once.
        victim = rig.pods[f"v{number}-0"]
        rig.tell(ev.PodGone(victim.uid))
        rig.put(replace(victim, uid=f"again-{number}", node=None, phase="Pending"))
        rig.step()
        bound = {one.pod: one.node for one in rig.commands if isinstance(one, Bind)}
        assert bound == ({} if number == 1 else {"boss-0": "n1", "boss-1": "n2"})
    assert rig.reason("v1") == "no-node-fits"


def test_a_nomination_of_an_earlier_leader_is_taken_back() -> None:
    rig = rig_of(1)
    fill_with(rig, 8)
    rig.submit("boss", chips=8)
    rig.change("boss-0", nominated="n1")
    rig.step()
    assert [one.nominated for one in rig.commands if isinstance(one, SetPodCondition)] == [""]


@pytest.mark.parametrize(
    ("priority", "flagged", "evicted"),
    [("low", True, 1), ("low", False, 0), ("high", True, 0)],
    ids=["lower and flagged", "not flagged preemptable", "equal priority"],
)
def test_candidates_are_flagged_pods_of_strictly_lower_priority(
    priority: str, flagged: bool, evicted: int
) -> None:
    """ "candidates = Bound/Running, preemptable-flagged tasks of other jobs in the same queue"."""
    rig = rig_of(1)
    fill_with(rig, 8, priority=priority, preemptable=flagged)
    rig.submit("boss", chips=8, priority="high")
    rig.run()
    assert len(rig.evictions()) == evicted


def test_preemption_policy_never_evicts_no_pod() -> None:
    """ "eligibility (preemptionPolicy Never refuses ...)": set by the priority class, or by the pod."""
    rig = rig_of(1)
    rig.priority("patient", 100, never_preempts=True)
    fill_with(rig, 8)
    rig.submit("boss", chips=8, priority="patient")
    rig.submit("other", chips=8, priority="high")
    rig.change("other-0", never_preempts=True)
    rig.run()
    assert rig.evictions() == []
    rig.change("other-0", never_preempts=False)
    rig.run()
    assert rig.evictions() == ["v0-0"]


@pytest.mark.parametrize("never", [False, True])
def test_a_job_without_pods_is_admitted_for_what_it_could_evict_only_if_it_may(never: bool) -> None:
    """Its controller creates the pods once it is admitted: until then the template says whether they do."""
    rig = Rig(1, tiers=gangs_may_end())
    rig.queue("q", capability={CHIP: 8})
    rig.priority("high", 100, never_preempts=never)
    rig.submit("old", chips=8, queue="q", preemptable=True)
    rig.run()
    template = task_of("worker", 1, chips=8)
    template = replace(template, template=replace(template.template, priority_class="high"))
    job = job_of(template, name="new", queue="q")
    rig.tell(job)
    rig.put_group(replace(pod_group_of(job), min_resources={CHIP: 8}, priority_class="high"))
    rig.run()
    assert rig.machine.view.jobs[pod_group_of(job).key].inqueue is not never


def test_a_gang_with_one_pod_that_never_preempts_evicts_no_pod() -> None:
    rig = rig_of(2)
    fill_with(rig, 8, 8)
    rig.submit("boss", pods=2, chips=8, priority="high")
    rig.change("boss-1", never_preempts=True)
    rig.run()
    assert rig.evictions() == []
    rig.change("boss-1", never_preempts=False)
    rig.run()
    assert sorted(rig.evictions()) == ["v0-0", "v1-0"]


def test_the_class_of_pods_that_name_none_counts_too() -> None:
    rig = rig_of(1)
    rig.priority("usual", 100, never_preempts=True, default=True)
    fill_with(rig, 8)
    rig.submit("boss", chips=8)
    rig.run()
    assert rig.evictions() == []


def test_the_preemption_policy_of_the_pod_wins_over_its_class() -> None:
    rig = rig_of(1)
    rig.priority("patient", 100, never_preempts=True)
    fill_with(rig, 8)
    rig.submit("boss", chips=8, priority="patient")
    rig.change("boss-0", never_preempts=False)
    rig.run()
    assert rig.evictions() == ["v0-0"]


def test_a_class_that_comes_after_its_job_counts_at_once() -> None:
    rig = rig_of(1)
    fill_with(rig, 8)
    rig.submit("boss", chips=8, priority="late")
    rig.run()
    assert rig.evictions() == []
    rig.priority("late", 100)
    rig.run()
    assert rig.evictions() == ["v0-0"]


def test_no_pod_is_evicted_for_a_job_that_a_closed_queue_does_not_admit() -> None:
    rig = rig_of(1)
    fill_with(rig, 8)
    rig.queue("default", state="Closed")
    rig.submit("boss", chips=8, priority="high")
    rig.run()
    assert rig.evictions() == []
    assert rig.reason("boss") == "queue-not-open"


def test_other_queues_are_reclaims_business() -> None:
    rig = rig_of(1)
    rig.queue("other")
    rig.submit("v0", chips=8, priority="low", preemptable=True, queue="other")
    rig.run()
    rig.submit("boss", chips=8, priority="high")
    rig.run()
    assert rig.evictions() == []


def test_victims_are_chosen_so_that_one_ring_comes_free() -> None:
    """Two pairs in different rings would give 4 chips and no ring: only two of one ring help."""
    rig = rig_of(1)
    fill_with(rig, 2, 2, 2, 2)
    places = {name: rig.places(name)[f"{name}-0"][1] for name in ("v0", "v1", "v2", "v3")}
    rig.submit("boss", chips=4, priority="high")
    rig.step()
    evicted = rig.evictions()
    assert len(evicted) == 2
    rings = {chip // 4 for pod in evicted for chip in places[pod[:-2]]}
    assert len(rings) == 1


def test_the_node_with_the_cheapest_victims_is_taken() -> None:
    """ "lowest highest-victim priority, lowest priority sum, fewest victims"."""
    rig = rig_of(3)
    rig.submit("m", chips=8, priority="middle", preemptable=True)
    rig.run()
    for name in ("l1", "l2"):
        rig.submit(name, chips=4, priority="low", preemptable=True)
        rig.run()
    rig.submit("l3", chips=8, priority="low", preemptable=True)
    rig.run()
    rig.submit("boss", chips=8, priority="high")
    rig.step()
    assert rig.evictions() == ["l3-0"]


def test_no_pod_is_evicted_when_it_would_not_help() -> None:
    """Four chips of low priority beside four of equal priority make no whole node."""
    rig = rig_of(1)
    rig.submit("equal", chips=4, priority="high", preemptable=True)
    rig.submit("low", chips=4, priority="low", preemptable=True)
    rig.run()
    rig.submit("boss", chips=8, priority="high")
    rig.run()
    assert rig.evictions() == []


def test_pods_that_are_being_deleted_are_waited_for() -> None:
    rig = rig_of(2)
    fill_with(rig, 8, 8)
    rig.change("v0-0", deleting=True)
    rig.submit("boss", chips=8, priority="high")
    rig.run()
    assert rig.evictions() == []
    kept = rig.machine.view.reservations.of("default/boss")
    assert kept is not None
    assert [rig.machine.view.cluster.names[node] for node in kept.chips] == ["n1"]


def test_pods_that_are_being_deleted_are_awaited_together_with_the_victims() -> None:
    rig = rig_of(2)
    fill_with(rig, 8, 8)
    leaving = rig.pod_on("n1")
    rig.change(leaving, deleting=True)
    rig.submit("urgent", pods=2, chips=8, priority="high")
    rig.run()
    assert rig.evictions() == [rig.pod_on("n2")]
    (reservation,) = rig.machine.view.reservations
    assert {uid.partition(".")[0] for uid in reservation.awaited} == {leaving, *rig.evictions()}


def test_a_gang_takes_the_cheapest_pods_of_the_cluster() -> None:
    rig = rig_of(4)
    for number, priority in enumerate(("middle", "low", "middle", "low")):
        rig.submit(f"v{number}", chips=8, priority=priority, preemptable=True)
        rig.run()
    rig.submit("boss", pods=2, chips=8, priority="high")
    rig.step()
    assert sorted(rig.evictions()) == ["v1-0", "v3-0"]
    rig.gone("v1-0", "v3-0")
    rig.run()
    assert sorted(rig.nodes_of("boss")) == ["n2", "n4"]


def test_a_gang_that_can_spare_pods_keeps_its_minimum() -> None:
    """Gang: "a task is a victim only while its job's ready count stays above MinAvailable"."""
    rig = rig_of(3, strict_gangs=True)
    rig.submit("elastic", pods=3, chips=8, min_available=2, priority="low", preemptable=True)
    rig.run()
    assert len(rig.places("elastic")) == 3
    rig.submit("boss", chips=8, priority="high")
    rig.step()
    assert rig.evictions() == ["elastic-2"]
    rig.submit("more", chips=8, priority="high")
    rig.run()
    assert rig.evictions() == ["elastic-2"]


def test_the_reservation_expires_when_the_victims_stay() -> None:
    rig = rig_of(1, grace_over_time=30)
    fill_with(rig, 8)
    rig.submit("boss", chips=8, priority="high")
    rig.step()
    deadline = rig.machine.next_deadline()
    assert deadline == rig.now + 90 * SECOND
    rig.change("v0-0", deleting=False)
    rig.step(89)
    assert rig.evictions() == ["v0-0"]
    rig.step(1)
    rig.step()
    assert rig.evictions() == ["v0-0", "v0-0"]


def test_s3_a_padding_job_evicts_pods_under_one_switch() -> None:
    """A padding job never crosses switches: victims under two of them would go in vain."""
    rig = rig_of(0)
    rig.switches(2, 2)
    for number, priority in enumerate(("low", "high", "low", "middle")):
        rig.submit(f"v{number}", chips=8, priority=priority, preemptable=True)
        rig.run()
    assert [rig.nodes_of(f"v{number}") for number in range(4)] == [["n1"], ["n2"], ["n3"], ["n4"]]
    rig.submit("boss", pods=2, chips=8, priority="high", labels={"tor-affinity": "large-model-schema"})
    rig.step()
    assert sorted(rig.evictions()) == ["v2-0", "v3-0"]
    rig.run()
    rig.gone("v2-0", "v3-0")
    rig.run()
    assert sorted(rig.nodes_of("boss")) == ["n3", "n4"]


def test_pods_without_chips_are_evicted_for_cpu() -> None:
    rig = rig_of(0)
    for name in ("n1", "n2"):
        rig.node(name, cpu_milli=4000)
    for number, cpu in enumerate((3000, 2000, 2000)):
        rig.submit(f"v{number}", chips=0, cpu_milli=cpu, priority="low", preemptable=True)
        rig.run()
    rig.submit("boss", chips=0, cpu_milli=2000, priority="high")
    rig.step()
    assert len(rig.evictions()) == 1
    rig.run()
    rig.gone(*rig.evictions())
    rig.run()
    assert len(rig.places("boss")) == 1
    assert len(rig.evictions()) == 1


def test_a_gang_is_evicted_as_a_whole_or_not_at_all() -> None:
    """Where the gang plugin does not protect it: no gang is left partly running."""
    rig = rig_of(3)
    rig.submit("gang", pods=2, chips=8, priority="low", preemptable=True)
    rig.run()
    rig.submit("single", chips=8, priority="middle", preemptable=True)
    rig.run()
    rig.submit("boss", chips=8, priority="high")
    rig.step()
    assert sorted(rig.evictions()) == ["gang-0", "gang-1"]


SIZES = st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=10)


@settings(deadline=None, max_examples=examples(60))
@given(
    st.integers(1, 3),
    SIZES,
    st.lists(st.sampled_from(["low", "middle", "high"]), min_size=10, max_size=10),
    st.sampled_from([(1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (3, 8)]),
)
def test_every_victim_was_needed_and_the_job_gets_the_reserved_chips(
    nodes: int, sizes: list[int], priorities: list[str], wanted: tuple[int, int]
) -> None:
    rig = rig_of(nodes)
    for number, size in enumerate(sizes):
        rig.submit(f"v{number}", chips=size, priority=priorities[number], preemptable=True)
        rig.run()
        # What they evict for each other does not end later.
        rig.finish(recreate=False)
        rig.run()
    pods, chips = wanted
    rig.commands.clear()
    rig.submit("boss", pods=pods, chips=chips, priority="high")
    rig.run()
    evicted = rig.evictions()
    if not evicted:
        return
    assert all(priorities[int(name[1:-2])] != "high" for name in evicted)
    kept = rig.machine.view.reservations.of("default/boss")
    assert kept is not None
    names = rig.machine.view.cluster.names
    wanted_chips = {names[node]: mask for node, mask in kept.chips.items()}
    for name in evicted[:-1]:
        rig.gone(name)
        rig.run()
        assert rig.places("boss") == {}
    rig.gone(evicted[-1])
    rig.run()
    taken: dict[str, int] = {}
    for node, held in rig.places("boss").values():
        taken[node] = taken.get(node, 0) | sum(1 << chip for chip in held)
    assert taken == wanted_chips
    assert rig.evictions() == evicted


class Veto:
    """A plugin that expects the job not to start even when the victims are gone."""

    def __init__(self, option: PluginOption) -> None: ...

    def open(self, session: Session) -> None:
        session.register(JOB_PIPELINED, lambda job: (Vote.REJECT, None))


@pytest.mark.parametrize(
    ("plugins", "evicted"),
    [([], 1), ([PluginOption.of("veto")], 0), ([PluginOption.of("veto", {"job_pipelined": False})], 1)],
    ids=["no vote", "a plugin rejects", "enableJobPipelined: false"],
)
def test_pods_are_evicted_only_for_a_job_that_is_pipelined_then(
    plugins: list[PluginOption], evicted: int
) -> None:
    """ "Commit if JobPipelined, else discard"."""
    lab = cluster().node("n1", chips=8)
    lab.job("old", chips=8, on="n1", priority=1).change("old-0", preemptable=True)
    lab.job("new", chips=8, priority=9)
    gang = option("gang", {"preemptable": False})
    session = lab.session([gang, "priority", "topology910", *plugins], plugins={"veto": Veto})
    SPEC.run(session)
    assert len(session.evicted) == evicted
    assert (session.reservations.of("default/new") is not None) is bool(evicted)


# -- cpu, memory and other resources --------------------------------------------------------------


def test_freed_cpu_is_kept_for_the_preemptor_while_the_victims_come_back() -> None:
    """The controller creates each victim again as soon as it is gone; the gang starts all the same."""
    rig = rig_of(0)
    rig.nodes(4, chips=0, cpu_milli=16_000)
    rig.submit("low", chips=0, pods=8, min_available=1, cpu_milli=8_000, priority="low", preemptable=True)
    rig.run()
    assert len(rig.places("low")) == 8
    rig.submit("boss", chips=0, pods=8, cpu_milli=8_000, priority="high")
    rig.run()
    assert rig.reason("boss") == "evictions-in-progress"
    assert len(rig.evictions()) == 8
    for victim in list(rig.evictions()):
        rig.gone(victim)
        rig.put(pod(f"{victim}-again", 0, uid=f"{victim}.again", cpu_milli=8_000, group="low"))
        rig.run()
    assert len(rig.places("boss")) == 8
    assert rig.places("low") == {}
    assert len(rig.evictions()) == 8


def test_no_more_cpu_pods_are_evicted_than_are_needed_in_a_large_cluster() -> None:
    """More victims than are spared one by one: those on nodes that the gang does not get stay."""
    rig = rig_of(0)
    rig.nodes(50, chips=0, cpu_milli=16_000)
    for number in range(100):
        rig.submit(f"low{number}", chips=0, cpu_milli=8_000, priority="low", preemptable=True)
    rig.run()
    rig.submit("boss", chips=0, pods=20, cpu_milli=16_000, priority="high")
    rig.run()
    assert len(rig.evictions()) == 40


def test_a_preemptor_that_does_not_fit_after_all_tries_again_at_once() -> None:
    rig = rig_of(0)
    rig.nodes(2, chips=0, cpu_milli=16_000)
    for name in ("n1", "n2"):
        rig.node(name, chips=0, cpu_milli=16_000, labels={"zone": "a"})
    fill = [f"low{number}" for number in range(2)]
    for name in fill:
        rig.submit(name, chips=0, cpu_milli=16_000, priority="low", preemptable=True)
    rig.run()
    rig.submit("boss", chips=0, cpu_milli=16_000, priority="high", node_selector=(("zone", "a"),))
    rig.run()
    (victim,) = rig.evictions()
    node = rig.node_of(victim)
    rig.node(node, chips=0, cpu_milli=16_000, labels={"zone": "b"})
    rig.gone(victim)
    rig.run()
    assert len(rig.evictions()) == 2
    rig.gone(rig.evictions()[1])
    rig.run()
    assert len(rig.places("boss")) == 1


@pytest.mark.parametrize("chips", [0, 8])
def test_what_was_freed_stays_with_the_preemptor_when_its_binding_fails(chips: int) -> None:
    rig = rig_of(0)
    rig.node("n1", cpu_milli=16_000)
    rig.submit("low", chips=chips, cpu_milli=16_000, priority="low", preemptable=True)
    rig.run()
    rig.submit("boss", chips=chips, cpu_milli=16_000, priority="high")
    rig.run()
    rig.gone("low-0")
    rig.submit("thief", chips=0, cpu_milli=1_000, priority="low")
    # It fails so often that the job backs off, and no cycle considers it meanwhile.
    for _ in range(4):
        rig.step(fail=("boss-0",))
    assert rig.places("thief") == {}
    rig.step(10)
    rig.run()
    assert len(rig.places("boss")) == 1
    assert rig.places("thief") == {}


def test_after_a_while_a_preemptor_that_cannot_be_bound_gives_way() -> None:
    rig = rig_of(0, grace_over_time=30)
    rig.node("n1", cpu_milli=16_000)
    rig.submit("low", chips=0, cpu_milli=16_000, priority="low", preemptable=True)
    rig.run()
    rig.submit("boss", chips=0, cpu_milli=16_000, priority="high")
    rig.run()
    rig.gone("low-0")
    rig.submit("patient", chips=0, cpu_milli=1_000, priority="low")
    for _ in range(3):
        rig.step(fail=("boss-0",))
    for _ in range(30):
        rig.step(5, fail=("boss-0",))
    rig.run()
    assert len(rig.places("patient")) == 1
