"""The read-only view of a scheduler."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ringwise.messages import events as ev
from ringwise.state.model import Queue
from ringwise.topology.switches import LeafSwitch, Server, SwitchTopology
from tests.builders.values import CHIP
from tests.scheduler.rig import PLAIN, Rig


def test_jobs_and_queues_cannot_be_changed_through_it() -> None:
    rig = Rig(1, actions=PLAIN)
    rig.submit("job", chips=8)
    rig.run()
    view = rig.machine.view
    assert list(view.jobs) == ["default/job"]
    for mapping in (view.jobs, view.queues):
        with pytest.raises(TypeError):
            cast(Any, mapping)["new"] = None
    with pytest.raises(AttributeError):
        cast(Any, view).configuration = None


def test_it_follows_the_scheduler() -> None:
    rig = Rig(2, actions=PLAIN)
    view = rig.machine.view
    assert view.what_if.sessions.capacity() == {}
    rig.tell(Queue("research"))
    rig.submit("job", chips=8, queue="research")
    rig.run()
    assert set(view.queues) == {"default", "research"}
    assert view.usage.used_by_queue("research")[CHIP] == 8
    assert view.what_if.sessions.capacity()[CHIP] == 16
    assert [view.is_idle(name) for name in ("n1", "n2", "n3")] == [False, True, False]
    assert view.history.cycles > 0
    assert view.inconsistencies() == []


def test_nodes_are_in_natural_order_before_the_first_cycle() -> None:
    rig = Rig(actions=PLAIN)
    for name in ("n10", "n9"):
        rig.node(name)
    rig.machine.handle(rig.events, rig.now, ev.Decide.NOTHING)
    cluster = rig.machine.view.cluster
    assert [cluster.names[number] for number in cluster.existing_nodes()] == ["n9", "n10"]


def test_s2_switch_states_come_in_the_order_of_the_config_map() -> None:
    rig = Rig(2, actions=PLAIN)
    assert rig.machine.view.switch_states() == []
    switches = (LeafSwitch("b", 0, (Server("n2", 0, 0),)), LeafSwitch("a", 1, (Server("n1", 0, 0),)))
    rig.tell(SwitchTopology(switches, 1))
    rig.run()
    resolved = rig.machine.view.switches()
    assert resolved is not None
    assert [switch.ip for switch in resolved.topology.switches] == ["b", "a"]
    assert [state.state.word for state in rig.machine.view.switch_states()] == ["idle", "idle"]


def test_a_restart_loses_the_waiting_time_of_pending_jobs() -> None:
    rig = Rig(1, actions=PLAIN)
    rig.submit("runs", chips=8)
    rig.run()
    assert not rig.machine.view.loses_by_restart()
    rig.submit("waits", chips=8)
    rig.run()
    assert rig.machine.view.loses_by_restart()


def test_objects_tell_all_until_something_is_remembered() -> None:
    rig = Rig(2, actions=PLAIN, reservation_after=600)
    rig.submit("small", chips=4)
    rig.run()
    rig.submit("big", pods=2, chips=8)
    rig.submit("other", chips=1)
    rig.run()
    view = rig.machine.view
    assert view.objects_suffice("default", "big")
    # Chips that are kept for one job are missing to all others.
    rig.step(600)
    assert list(view.reservations)
    assert not view.objects_suffice("default", "big")
    assert not view.objects_suffice("default", "other")
