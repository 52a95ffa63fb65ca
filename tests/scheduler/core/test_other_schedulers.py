"""Jobs of other schedulers hold chips; they are not placed, evicted or reported here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Command, SetGroupStatus, SetPodCondition
from ringwise.state.limits import UsageLimit
from ringwise.state.model import PodClass
from tests.builders.values import CHIP, pod
from tests.scheduler.rig import Rig, bound_pods, gangs_may_end


def submit_elsewhere(rig: Rig, name: str, *, only: str = "", **asked: Any) -> None:
    """A job with a PodGroup whose pods (or `only` that one) name another scheduler."""
    before = len(rig.events)
    rig.submit(name, **asked)
    for place, event in enumerate(rig.events[before:], before):
        if isinstance(event, ev.PodSeen) and (not only or event.pod.name == only):
            pod = replace(event.pod, scheduler="other")
            rig.pods[pod.name] = pod
            rig.events[place] = ev.PodSeen(pod)


def spoken(commands: list[Command]) -> list[Command]:
    return [command for command in commands if isinstance(command, SetGroupStatus | SetPodCondition | Bind)]


def test_a_gang_of_another_scheduler_is_left_alone_however_long_it_is_partly_bound() -> None:
    rig = Rig(2, deaf=True, gang_recovery_limit=30)
    submit_elsewhere(rig, "theirs", pods=2, chips=8)
    assert spoken(rig.step()) == []
    rig.change("theirs-0", node="n1", holds=tuple(range(8)))
    assert spoken(rig.step()) == []
    rig.step(1000)
    assert rig.evictions() == []
    assert rig.machine.next_deadline() is None
    # Its chips are taken all the same.
    rig.submit("ours", chips=8)
    assert [command.node for command in rig.step() if isinstance(command, Bind)] == ["n2"]


@pytest.mark.parametrize("elsewhere", [False, True], ids=["ours", "theirs"])
def test_pods_of_another_scheduler_are_not_evicted(elsewhere: bool) -> None:
    rig = Rig(2, actions=("enqueue", "allocate", "preempt"), tiers=gangs_may_end(), deaf=True)
    rig.priority("high", 100)
    submit = submit_elsewhere if elsewhere else Rig.submit
    submit(rig, "old", pods=2, chips=8, min_available=1, preemptable=True)
    for number in range(2):
        rig.change(f"old-{number}", node=f"n{number + 1}", holds=tuple(range(8)))
    rig.step()
    rig.submit("new", chips=8, priority="high")
    rig.step()
    rig.step(60)
    assert bool(rig.evictions()) is not elsewhere
    assert rig.reason("new") is not None


def test_of_a_mixed_gang_only_our_pods_are_placed() -> None:
    rig = Rig(2, deaf=True)
    submit_elsewhere(rig, "mixed", pods=2, chips=8, min_available=1, only="mixed-1")
    placed = bound_pods(rig.step())
    assert placed == ["mixed-0"]
    assert all(command.pod != "mixed-1" for command in rig.commands if isinstance(command, SetPodCondition))


def test_a_pod_that_another_scheduler_nominates_counts_on_its_node_until_it_is_taken_back() -> None:
    rig = Rig()
    rig.node("n1", cpu_milli=8000)
    theirs = pod("theirs", uid="u1", cls=PodClass(None, 0, cpu_milli=7500), scheduler="other", nominated="n1")
    rig.put(theirs)
    rig.submit("ours", chips=0, cpu_milli=1000)
    rig.run()
    assert rig.places("ours") == {}
    rig.put(replace(theirs, nominated=""))
    rig.run()
    assert rig.nodes_of("ours") == ["n1"]


def test_a_nominated_pod_counts_where_it_is_bound_and_over_the_return_of_its_node() -> None:
    rig = Rig()
    rig.node("n1", cpu_milli=8000)
    rig.node("n2", cpu_milli=8000)
    cls = PodClass(None, 0, cpu_milli=7500)
    theirs = pod("theirs", uid="u1", cls=cls, scheduler="other", nominated="n1")
    rig.put(theirs)
    rig.step()
    rig.tell(ev.NodeGone("n1"))
    rig.step()
    rig.node("n1", cpu_milli=8000)
    rig.submit("first", chips=0, cpu_milli=1000)
    rig.run()
    assert rig.nodes_of("first") == ["n2"]
    rig.submit("second", chips=0, cpu_milli=7500)
    rig.run()
    assert rig.places("second") == {}
    # It is bound elsewhere, and then deleted.
    rig.node("n3", cpu_milli=7500)
    rig.put(replace(theirs, node="n3", nominated=""))
    rig.run()
    assert rig.nodes_of("second") == ["n1"]
    rig.tell(ev.PodGone("u1"))
    rig.submit("third", chips=0, cpu_milli=7500)
    rig.run()
    assert rig.nodes_of("third") == ["n3"]


def test_a_nomination_to_an_unknown_node_counts_nowhere() -> None:
    rig = Rig(1)
    rig.put(pod("theirs", uid="u1", cls=PodClass(None, 0, cpu_milli=1), scheduler="other", nominated="n9"))
    rig.step()
    assert "n9" not in rig.machine.view.cluster.node_id


@pytest.mark.parametrize("elsewhere", [False, True], ids=["ours", "theirs"])
def test_a_lost_pod_of_another_scheduler_keeps_no_quota_beyond_a_limit(elsewhere: bool) -> None:
    """F6 keeps the quota of pods for which the limit was checked; any other pod would evade it."""
    rig = Rig(3, deaf=True)
    rig.queue("limited")
    rig.tell(UsageLimit("few", queue="limited", hard={CHIP: 8}))
    if not elsewhere:
        rig.submit("train", chips=8, queue="limited", preemptable=True)
    else:
        rig.submit("first", chips=8, queue="limited")
        rig.change("first-0", node="n1", holds=tuple(range(8)))
        submit_elsewhere(rig, "train", chips=8, queue="limited", preemptable=True)
    rig.change("train-0", node="n2", holds=tuple(range(8)), phase="Running")
    rig.step()
    rig.node("n2", unschedulable=True)
    rig.change("train-0", deleting=True)
    rig.step()
    rig.recreate("train-0")
    rig.change("train-0", scheduler="volcano")
    placed = bound_pods(rig.step())
    assert placed == ([] if elsewhere else ["train-0"])
