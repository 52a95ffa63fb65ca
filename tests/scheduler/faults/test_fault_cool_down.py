"""F3: hardware that broke a job and healed is not used by this job for a while, unless nothing else fits."""

from __future__ import annotations

import pytest

from ringwise.messages import events as ev
from tests.scheduler.rig import Rig

LABELS = {"fault-scheduling": "force", "pod-rescheduling": "on"}


def broken_and_healed(rig: Rig) -> str:
    """A chip under the only pod breaks; it is healthy again when the pod is recreated. The node's name."""
    rig.submit("train", chips=8, labels=LABELS)
    rig.run()
    (node,) = rig.nodes_of("train")
    rig.sick(node, 1)
    rig.step()
    assert rig.pods["train-0"].deleting
    rig.sick(node, 0)
    rig.tell(ev.PodGone(rig.pods["train-0"].uid))
    return node


@pytest.mark.parametrize("seconds", [0, 599])
def test_F3_the_job_avoids_the_healed_node_until_the_time_is_over(seconds: int) -> None:
    rig = Rig(2)
    node = broken_and_healed(rig)
    rig.step(seconds)
    rig.replacement("train-0")
    rig.run()
    assert rig.nodes_of("train") != [node]
    assert len(rig.nodes_of("train")) == 1


def test_F3_after_the_time_the_usual_order_counts_again() -> None:
    rig = Rig(2)
    node = broken_and_healed(rig)
    rig.step(601)
    rig.replacement("train-0")
    rig.run()
    assert rig.nodes_of("train") == [node]


def test_F3_the_node_is_used_again_where_nothing_else_fits() -> None:
    rig = Rig(1)
    node = broken_and_healed(rig)
    rig.replacement("train-0")
    rig.run()
    assert rig.nodes_of("train") == [node]


def test_F3_other_jobs_use_the_healed_node() -> None:
    rig = Rig(2)
    node = broken_and_healed(rig)
    rig.submit("other", chips=8)
    rig.run()
    assert rig.nodes_of("other") == [node]


def test_F3_a_failed_pod_alone_makes_no_node_suspect() -> None:
    rig = Rig(1)
    rig.submit("train", chips=8, labels={**LABELS, "fault-retry-times": "3"})
    rig.run()
    rig.change("train-0", phase="Failed", exit_code=1)
    rig.step()
    assert not rig.machine._book.jobs["default/train"].cooling
