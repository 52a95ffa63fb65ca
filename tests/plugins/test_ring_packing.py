"""`ring-packing` (K): which node of 910 x8 a job gets under either order."""

from __future__ import annotations

import pytest

from tests.scheduler.rig import Rig, configuration


@pytest.mark.parametrize(("packing", "node"), [("document", "n1"), ("tight-node", "n2")])
def test_the_group_or_the_fewest_free_chips_decide_K(packing: str, node: str) -> None:
    rig = Rig(2, actions=("allocate",), ring_packing=packing)
    rig.sick("n1", 0)
    for name, chips in (("x", 4), ("y", 2), ("z", 1)):
        rig.submit(f"{name}-1", chips=chips)
        rig.run()
    # n1 has one free chip; it is filled and the other node prepared by what ends.
    rig.submit("fill", chips=1)
    rig.run()
    rig.submit("one", chips=4)
    rig.submit("two", chips=2)
    rig.run()
    assert set(rig.nodes_of("one") + rig.nodes_of("two")) == {"n2"}
    rig.end("x-1")
    rig.end("z-1")
    rig.run()
    # n1: rings 4 and 1 free (group A for one chip, 5 free); n2: rings 0 and 2 free (group C, 2 free).
    rig.submit("new", chips=1)
    rig.run()
    assert rig.nodes_of("new") == [node]


def test_another_order_holds_for_jobs_that_come_after_it() -> None:
    rig = Rig(2, actions=("allocate",))
    for name, chips in (("x", 4), ("y", 2), ("z", 1), ("fill", 1), ("one", 4), ("two", 2)):
        rig.submit(name, chips=chips)
        rig.run()
    rig.end("x")
    rig.end("z")
    rig.tell(configuration(("allocate",), ring_packing="tight-node"))
    rig.run()
    rig.submit("new", chips=1)
    rig.run()
    assert rig.nodes_of("new") == ["n2"]
