"""How much a turn decides: nothing, one cycle, or all."""

from __future__ import annotations

import pytest

from ringwise.messages.commands import Bind, Evict, Publish
from ringwise.messages.events import Decide
from ringwise.scheduler.journal import Journal
from tests.builders.values import SECOND, node, seen
from tests.scheduler.rig import PLAIN, Rig


def waiting() -> Rig:
    """A full node, and a job that waits for another."""
    rig = Rig(1, actions=PLAIN, reservation_after=60)
    rig.submit("runs", chips=8)
    rig.submit("waits", chips=8)
    rig.run()
    assert rig.nodes_of("runs") == ["n1"]
    assert rig.nodes_of("waits") == []
    return rig


def test_events_that_were_only_applied_count_in_the_next_turn_that_decides() -> None:
    rig = waiting()
    assert rig.machine.handle(seen(node("n2")), rig.now, Decide.NOTHING) == []
    assert rig.machine.view.cluster.node_count == 2
    cycles = rig.machine.view.history.cycles
    binds = [command for command in rig.machine.handle([], rig.now) if isinstance(command, Bind)]
    assert [(bind.pod, bind.node) for bind in binds] == [("waits-0", "n2")]
    assert rig.machine.view.history.cycles == cycles + 1


def test_one_cycle_makes_no_reservation() -> None:
    rig = waiting()
    rig.machine.handle([], rig.now + 61 * SECOND, Decide.ONE_CYCLE)
    assert list(rig.machine.view.reservations) == []
    rig.machine.handle(seen(rig.pods["waits-0"]), rig.now + 62 * SECOND)
    assert [one.owner for one in rig.machine.view.reservations] == ["default/waits"]


@pytest.mark.parametrize("decide", list(Decide))
def test_the_journal_records_how_much_was_decided(decide: Decide) -> None:
    rig = waiting()
    rig.machine.journal = Journal(rig.machine.view.configuration)
    commands = rig.machine.handle(seen(node("n2")), rig.now, decide)
    (batch,) = rig.machine.journal
    assert batch.decide is decide
    assert batch.commands == tuple(commands)
    bound = [command for command in commands if isinstance(command, Bind)]
    assert len(bound) == (0 if decide is Decide.NOTHING else 1)
    assert not any(isinstance(command, (Evict, Publish)) for command in commands)
