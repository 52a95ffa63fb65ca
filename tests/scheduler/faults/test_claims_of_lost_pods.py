"""A pod that replaces a faulty one waits for its volume: F2's clock stands meanwhile."""

from __future__ import annotations

from ringwise.messages import events as ev
from tests.scheduler.faults.fault_rig import POD_LEVEL, sick_chip
from tests.scheduler.volume_rig import VolumeRig


def test_F2_no_seconds_count_while_a_replacement_waits_for_its_volume() -> None:
    rig = VolumeRig(4)
    for index in range(3):
        rig.claim(f"data-{index}")
    rig.submit("train", pods=3, chips=8, labels=POD_LEVEL, claims=("data-{}",))
    rig.run()
    for index in range(3):
        rig.provision(f"data-{index}")
    rig.run()
    sick_chip(rig, "n2")
    rig.run()
    assert rig.deletions() == ["train-1"]
    # Its claim goes with it, as that of an ephemeral volume does.
    rig.tell(ev.ClaimGone("default/data-1"))
    rig.finish()
    rig.claim("data-1", uid="another")
    rig.run()
    rig.step()
    for _ in range(10):
        rig.step(5)
    assert rig.reason("train") == "volumes-pending"
    clock = rig.machine.view.jobs["default/train"].clock
    assert clock is not None
    assert clock.counted == 0
    rig.provision("data-1")
    rig.run()
    assert rig.nodes_of("train") == ["n1", "n4", "n3"]
    assert rig.deletions() == ["train-1"]
