"""allocate: the best job of the best queue, then the next."""

from __future__ import annotations

from tests.scheduler.rig import Rig


def test_a_job_that_can_never_run_takes_no_share_from_others() -> None:
    """Seven chips fit no board, so the other queue may have all there is, in the same cycle."""
    rig = Rig(2, actions=("allocate", "backfill"))
    rig.queue("a")
    rig.queue("bb")
    rig.submit("bad", chips=7, queue="bb")
    rig.submit("a1", chips=8, queue="a")
    rig.submit("a2", chips=8, queue="a")
    rig.step()
    assert rig.reason("bad") == "request-not-allowed"
    assert len(rig.places("a1")) == len(rig.places("a2")) == 1
