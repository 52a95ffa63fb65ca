"""reclaim: a queue takes back what other queues use beyond their share, for jobs within its own."""

from __future__ import annotations

import pytest

from ringwise.framework.configuration import PluginOption, Tier
from tests.scheduler.rig import Rig

RECLAIM = ("enqueue", "allocate", "reclaim", "backfill")


def one_tier(*, gang_protects: bool = False) -> tuple[Tier, ...]:
    """All plugins that name victims in one tier: only pods that all of them name are evicted."""
    gang = PluginOption.of("gang", {"reclaimable": gang_protects})
    names = ("priority", "conformance", "topology910", "predicates", "proportion", "nodeorder")
    return (Tier((gang, *(PluginOption.of(name) for name in names))),)


def rig_of(nodes: int, *, gang_protects: bool = False) -> Rig:
    rig = Rig(nodes, actions=RECLAIM, tiers=one_tier(gang_protects=gang_protects))
    rig.queue("a")
    rig.queue("bb")
    return rig


def occupy(rig: Rig, count: int, *, queue: str = "a", preemptable: bool = True, chips: int = 8) -> None:
    for number in range(count):
        rig.submit(f"{queue}{number}", chips=chips, queue=queue, preemptable=preemptable)
        rig.run()


def test_preemption_policy_never_reclaims_nothing() -> None:
    """ "task preemptionPolicy not Never"."""
    rig = rig_of(2)
    occupy(rig, 2)
    rig.submit("mine", chips=8, queue="bb")
    rig.change("mine-0", never_preempts=True)
    rig.run()
    assert rig.evictions() == []


def test_pods_of_a_queue_above_its_share_are_evicted_for_the_other_queue() -> None:
    """ "Reclaimable: victim while its queue's allocated exceeds deserved"."""
    rig = rig_of(2)
    occupy(rig, 2)
    rig.submit("mine", chips=8, queue="bb")
    rig.run()
    assert len(rig.evictions()) == 1
    kept = rig.machine.view.reservations.of("default/mine")
    assert kept is not None
    assert kept.why == "reclaim"
    rig.gone(*rig.evictions())
    rig.run()
    assert len(rig.places("mine")) == 1


def test_no_queue_is_pushed_below_its_share() -> None:
    """Two of four nodes are a's share: the third job of bb finds nothing to take back."""
    rig = rig_of(4)
    occupy(rig, 4)
    for number in range(3):
        rig.submit(f"mine{number}", chips=8, queue="bb")
        rig.run()
    assert len(rig.evictions()) == 2


def test_a_gang_that_would_not_lie_within_the_share_takes_nothing() -> None:
    rig = rig_of(4)
    occupy(rig, 4)
    rig.submit("mine", pods=3, chips=8, queue="bb")
    rig.run()
    assert rig.evictions() == []


def test_only_the_pods_that_a_gang_needs_to_start_must_lie_within_the_share() -> None:
    rig = rig_of(4)
    occupy(rig, 4)
    rig.submit("mine", pods=3, min_available=2, chips=8, queue="bb")
    rig.run()
    assert len(rig.evictions()) == 2


@pytest.mark.parametrize("how", ["queue gives nothing back", "pods not flagged", "gang protects its minimum"])
def test_who_is_not_asked(how: str) -> None:
    """ "Running, preemptable tasks of other queues whose `reclaimable` is true"."""
    rig = rig_of(2, gang_protects=how.startswith("gang"))
    if how.startswith("queue"):
        rig.queue("a", reclaimable=False)
    occupy(rig, 2, preemptable=not how.startswith("pods"))
    rig.submit("mine", chips=8, queue="bb")
    rig.run()
    assert rig.evictions() == []


def test_pods_that_are_bound_but_do_not_run_are_left_alone() -> None:
    rig = rig_of(2)
    occupy(rig, 2)
    for name in ("a0-0", "a1-0"):
        rig.change(name, phase="Pending")
    rig.submit("mine", chips=8, queue="bb")
    rig.run()
    assert rig.evictions() == []


def test_the_own_queue_is_preempts_business() -> None:
    rig = rig_of(2)
    occupy(rig, 2, queue="bb")
    rig.submit("mine", chips=8, queue="bb")
    rig.run()
    assert rig.evictions() == []
