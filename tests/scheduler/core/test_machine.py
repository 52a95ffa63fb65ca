"""The scheduler: failed bindings, partly bound gangs, repeated and late events."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest

from ringwise.actions import ACTIONS
from ringwise.framework.configuration import PluginOption, Tier
from ringwise.framework.session import Session
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Evict, SetGroupStatus, SetPodCondition
from ringwise.messages.events import Decide
from ringwise.plugins import PLUGINS
from tests.builders.values import SECOND
from tests.fingerprint import state_of, usage_of
from tests.scheduler.rig import PLAIN, Rig, bound_pods, gangs_may_end


def books(rig: Rig) -> tuple[object, ...]:
    view = rig.machine.view
    state, usage = state_of(view), usage_of(view)
    return (
        {
            resource: (list(fleet.held), list(fleet.requested), list(fleet.free_mask), list(fleet.reserved))
            for resource, fleet in state.fleets.items()
        },
        [state.shape_of(number) for number in range(len(state.names))],
        {key: dict(used) for key, used in usage.by_job.items()},
        {key: dict(used) for key, used in usage.by_queue.items() if used},
        {uid: placement.pod for uid, placement in state.pods.items()},
    )


def test_n6_a_failed_binding_frees_exactly_what_it_took() -> None:
    rig = Rig(1, actions=PLAIN, deaf=True)
    rig.submit("job", chips=4)
    rig.machine.handle(rig.events, rig.now, Decide.NOTHING)
    rig.events.clear()
    state_of(rig.machine.view).settle()
    before = books(rig)
    commands = rig.step()
    bind = next(command for command in commands if isinstance(command, Bind))
    assert books(rig) != before
    rig.machine.handle([ev.BindFailed(bind.uid, "no")], rig.now, Decide.NOTHING)
    assert books(rig) == before
    assert rig.reason("job") == "bind-failed"
    assert rig.machine.view.inconsistencies() == []


def test_a_failed_pod_of_a_gang_is_placed_again_at_once() -> None:
    rig = Rig(2, actions=PLAIN)
    rig.submit("gang", pods=2, chips=8)
    rig.step(fail=["gang-1"])
    rig.run()
    assert len(rig.places("gang")) == 2


def test_late_and_double_failures_are_harmless() -> None:
    rig = Rig(1, actions=PLAIN)
    rig.submit("job", chips=4)
    rig.run()
    places = rig.places("job")
    uid = rig.pods["job-0"].uid
    rig.tell(ev.BindFailed(uid, "late"), ev.BindFailed("nobody", "unknown"))
    rig.run()
    assert rig.places("job") == places
    rig.gone("job-0")
    rig.tell(ev.BindFailed(uid, "later still"), ev.PodGone(uid))
    rig.run()
    assert rig.machine.view.cluster.fleets["huawei.com/Ascend910"].held == [0]


@pytest.mark.parametrize("running", [False, True], ids=["nobody runs yet", "somebody runs"])
def test_a_gang_that_stays_partly_bound_is_evicted(running: bool) -> None:
    """One bind fails and its node is lost at the same time: the gang cannot be completed."""
    rig = Rig(2, actions=PLAIN, gang_recovery_limit=30, deaf=True)
    rig.submit("gang", pods=2, chips=8)
    bound_pods = {command.pod: command for command in rig.step() if isinstance(command, Bind)}
    bound, lost = bound_pods["gang-0"], bound_pods["gang-1"]
    rig.change(
        "gang-0",
        node=bound.node,
        holds=bound.chips,
        annotations=bound.annotations,
        phase="Running" if running else "Pending",
    )
    rig.tell(ev.BindFailed(lost.uid, "node is gone"))
    rig.node(lost.node, ready=False)
    rig.step()
    assert rig.machine.next_deadline() is not None
    assert rig.evictions() == []
    rig.step(29)
    assert rig.evictions() == []
    rig.step(1)
    assert rig.evictions() == ["gang-0"]
    # Its status changes while the eviction is under way: it is none of the pods that complete the gang.
    rig.change("gang-0", phase="Running")
    rig.node(lost.node)
    rig.step(1)
    assert rig.evictions() == ["gang-0"]
    assert [command.pod for command in rig.commands if isinstance(command, Bind)] == ["gang-0", "gang-1"]


def test_a_report_from_before_the_binding_frees_no_chip_of_a_pod_that_is_evicted() -> None:
    rig = Rig(1, actions=("allocate", "gangpreempt"), deaf=True)
    rig.priority("high", 100)
    rig.submit("victim", chips=8, preemptable=True)
    rig.step()
    rig.submit("urgent", chips=8, priority="high")
    rig.step(1)
    assert rig.evictions() == ["victim-0"]
    rig.change("victim-0", labels={"seen": "late"})
    assert bound_pods(rig.step(1)) == []
    assert rig.machine.view.cluster.fleets["huawei.com/Ascend910"].held == [0xFF]


def test_a_gang_that_was_complete_keeps_its_pods_when_one_is_lost() -> None:
    """Its other pods keep running while the lost one is pending."""
    rig = Rig(2, actions=PLAIN, gang_recovery_limit=30)
    rig.submit("gang", pods=2, chips=8)
    rig.run()
    rig.node(rig.places("gang")["gang-1"][0], ready=False)
    lost = rig.pods["gang-1"].uid
    rig.replacement("gang-1")
    rig.tell(ev.PodGone(lost))
    for _ in range(40):
        rig.step(1)
    assert rig.evictions() == []


def test_a_gang_that_is_completed_in_time_is_left_alone() -> None:
    rig = Rig(2, actions=PLAIN, gang_recovery_limit=30)
    rig.submit("gang", pods=2, chips=8)
    lost = next(command for command in rig.step(fail=["gang-1"]) if isinstance(command, Bind)).node
    rig.change("gang-0", phase="Pending")
    other = "n2" if lost == "n1" else "n1"
    rig.node(other, ready=False)
    rig.step()
    rig.step(20)
    rig.node(other)
    rig.step()
    rig.step(20)
    assert rig.evictions() == []
    assert len(rig.places("gang")) == 2


def test_n6_a_terminating_pod_holds_its_chips_until_it_is_gone() -> None:
    rig = Rig(1, actions=PLAIN)
    rig.submit("old", chips=8)
    rig.run()
    rig.submit("new", chips=8)
    rig.change("old-0", deleting=True)
    rig.run()
    assert rig.places("new") == {}
    rig.gone("old-0")
    rig.run()
    assert rig.nodes_of("new") == ["n1"]


def test_n6_an_older_event_does_not_undo_an_unconfirmed_binding() -> None:
    rig = Rig(1, actions=PLAIN, deaf=True)
    rig.submit("job", chips=4)
    rig.step()
    rig.tell(rig.pods["job-0"], rig.pods["job-0"])
    commands = rig.step()
    assert not any(isinstance(command, Bind) for command in commands)
    assert rig.machine.view.cluster.fleets["huawei.com/Ascend910"].held == [0b1111]


def test_every_event_twice_changes_nothing() -> None:
    rig = Rig(2, actions=PLAIN)
    rig.submit("gang", pods=2, chips=8)
    rig.submit("waits", chips=8)
    rig.run()
    before = books(rig)
    for batch, _, _ in list(rig.history):
        for event in batch:
            if not isinstance(event, ev.PodSeen):
                rig.tell(event)
    for pod in rig.pods.values():
        rig.tell(pod)
    commands = rig.step()
    assert not any(isinstance(command, (Bind, Evict)) for command in commands)
    assert books(rig) == before


def test_d2_predicate_time_grows_with_every_binding() -> None:
    rig = Rig(2, actions=PLAIN)
    rig.submit("a", chips=1)
    rig.submit("b", chips=1)
    rig.submit("c", chips=1)
    commands = rig.step()
    times = [int(c.annotations["predicate-time"]) for c in commands if isinstance(c, Bind)]
    assert times == sorted(set(times))
    assert times[0] == rig.now


def test_a_job_admitted_after_a_long_wait_keeps_its_waiting_time() -> None:
    """Its pods are created only when it is admitted; the waiting time began before."""
    rig = Rig(1, actions=PLAIN, reservation_after=60)
    rig.submit("old", chips=8)
    rig.run()
    rig.submit("new", chips=8)
    rig.run()
    job = rig.machine.view.jobs["default/new"]
    assert not job.inqueue
    since = job.waiting_since
    commands = rig.step(60)
    assert rig.machine.view.jobs["default/new"].inqueue
    assert job.waiting_since == since
    phases = [command.phase for command in commands if isinstance(command, SetGroupStatus)]
    assert phases == ["Inqueue"]
    assert rig.machine.view.reservations.of("default/new") is not None


def test_reserved_chips_of_a_job_that_started_elsewhere_go_to_pending_jobs() -> None:
    rig = Rig(2, actions=PLAIN, reservation_after=60)
    for name in ("one", "two"):
        rig.submit(name, chips=8)
        rig.run()
    rig.submit("big", chips=8)
    rig.run()
    rig.step(60)
    kept = rig.machine.view.reservations.of("default/big")
    assert kept is not None
    assert [rig.machine.view.cluster.names[node] for node in kept.chips] == ["n1"]
    rig.submit("small", chips=4)
    rig.run()
    rig.end("two")
    rig.tell(replace(rig.pods["one-0"], phase="Succeeded"))
    rig.run()
    assert len(rig.places("big")) == 1
    assert len(rig.places("small")) == 1


def test_deadlines_are_the_earliest_of_all() -> None:
    rig = Rig(1, actions=PLAIN, reservation_after=60)
    rig.submit("old", chips=8)
    rig.run()
    assert rig.machine.next_deadline() is None
    rig.submit("a", chips=8)
    rig.run()
    rig.step(10)
    rig.submit("b", chips=8)
    rig.run()
    assert rig.machine.next_deadline() == rig.now + 50 * SECOND
    rig.end("a")
    rig.run()
    assert rig.machine.next_deadline() == rig.now + 60 * SECOND


def test_n6_assumed_chips_are_free_when_another_scheduler_binds_the_pod() -> None:
    rig = Rig(1, actions=PLAIN, deaf=True)
    rig.submit("moved", chips=4)
    assert bound_pods(rig.step()) == ["moved-0"]
    rig.submit("large", chips=8)
    rig.node("n2", chips=4)
    assert bound_pods(rig.step()) == []
    rig.change("moved-0", node="n2", holds=(0, 1, 2, 3))
    assert bound_pods(rig.step()) == ["large-0"]
    assert rig.machine.view.inconsistencies() == []


def test_the_reported_reason_of_a_pod_is_forgotten_with_the_pod() -> None:
    rig = Rig(1, actions=PLAIN)
    rig.submit("large", chips=16)
    waiting = rig.pods["large-0"]
    for _ in range(2):
        rig.put(waiting)
        assert [command.uid for command in rig.step() if isinstance(command, SetPodCondition)] == [
            waiting.uid
        ]
        assert rig.step(1) == []
        rig.gone("large-0")
        rig.step()


def test_what_a_cycle_made_is_gone_with_it() -> None:
    """Or every copy of the process has more pages to copy, until a search for garbage finds it."""
    usual = gangs_may_end()
    known = {option.name for tier in usual for option in tier.plugins}
    others = Tier(tuple(PluginOption.of(spec.name) for spec in PLUGINS if spec.name not in known))
    rig = Rig(2, actions=[spec.name for spec in ACTIONS], tiers=(*usual, others))
    rig.queue("other", weight=2)
    rig.priority("high", 100)
    for number in range(2):
        rig.submit(f"low-{number}", chips=8, preemptable=True)
    rig.run()
    rig.submit("high", chips=8, priority="high")
    rig.submit("gang", pods=2, chips=8, queue="other")
    gc.collect()
    gc.disable()
    try:
        rig.run()
        left = [one for one in gc.get_objects() if isinstance(one, Session)]
        assert [one for one in left if one.state is state_of(rig.machine.view)] == []
    finally:
        gc.enable()
