"""A node that claims the InternalIP of another does not take its position under the leaf switch."""

from __future__ import annotations

from ringwise.apps.extensions import new_scheduler
from ringwise.messages import events as ev
from ringwise.messages.commands import RecordNodeEvent
from ringwise.scheduler.core.machine import Scheduler
from tests.builders.values import node, seen, switches

TOPOLOGY = switches(1, 2)


def events_of(scheduler: Scheduler, *known: object) -> list[RecordNodeEvent]:
    commands = scheduler.handle(seen(*known), 1)
    return [one for one in commands if isinstance(one, RecordNodeEvent)]


def positions(scheduler: Scheduler) -> dict[str, int]:
    resolved = scheduler.view.switches()
    assert resolved is not None
    return {one.node: one.index for row in resolved.nodes for one in row}


def test_the_older_node_keeps_its_position_and_both_get_an_event() -> None:
    scheduler = new_scheduler()
    assert not events_of(
        scheduler,
        TOPOLOGY,
        node("node-1", internal_ip="10.0.0.1", created=5),
        node("node-2", internal_ip="10.0.0.2", created=6),
    )
    # Its name comes first in every order.
    recorded = events_of(scheduler, node("a-node", internal_ip="10.0.0.1", created=9))
    assert positions(scheduler) == {"node-1": 0, "node-2": 1}
    assert [one.name for one in recorded] == ["node-1", "a-node"]
    assert {(one.reason, one.warning) for one in recorded} == {("DuplicateInternalIP", True)}
    assert {one.message for one in recorded} == {
        "nodes node-1, a-node have the same InternalIP 10.0.0.1; node-1 is the oldest and keeps the position "
        "under leaf switch A"
    }
    # Once, until something changes.
    assert not events_of(
        scheduler,
        node("a-node", internal_ip="10.0.0.1", created=9),
        node("node-3", internal_ip="10.0.0.3", created=10),
    )
    assert not events_of(scheduler, TOPOLOGY)
    # A node that changes its own address gains nothing by that either.
    assert [one.name for one in events_of(scheduler, node("node-3", internal_ip="10.0.0.2", created=10))] == [
        "node-2",
        "node-3",
    ]
    assert positions(scheduler) == {"node-1": 0, "node-2": 1}
    # When the older one is gone, the address is that of the other.
    assert not events_of(scheduler, ev.NodeGone("node-1"))
    assert positions(scheduler) == {"a-node": 0, "node-2": 1}


def test_a_node_that_was_deleted_and_joins_again_is_young() -> None:
    scheduler = new_scheduler()
    events_of(
        scheduler,
        TOPOLOGY,
        node("node-1", internal_ip="10.0.0.1", created=5),
        node("node-2", internal_ip="10.0.0.1", created=6),
    )
    events_of(scheduler, ev.NodeGone("node-1"))
    events_of(scheduler, node("node-1", internal_ip="10.0.0.1", created=7))
    assert positions(scheduler) == {"node-2": 0}


def test_an_address_that_no_switch_has_gets_no_event_until_one_has_it() -> None:
    scheduler = new_scheduler()
    assert not events_of(
        scheduler,
        node("node-1", internal_ip="10.0.0.1", created=5),
        node("node-2", internal_ip="10.0.0.1", created=6),
    )
    assert [one.name for one in events_of(scheduler, TOPOLOGY)] == ["node-1", "node-2"]
