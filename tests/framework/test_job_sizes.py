"""S1: how many pods with chips a job has, while pods of it are lost and replaced."""

from __future__ import annotations

from ringwise.framework.job import Job
from tests.builders.values import pod


def test_S1_a_failed_pod_without_chips_and_its_replacement_count_once() -> None:
    """One master and two workers, of which one is not created again yet."""
    job = Job("default/train", "default", "train", min_available=3)
    pods = (pod("master-1", 0, phase="Failed"), pod("master-2", 0), pod("worker-0", 8, on="n2", rank=1))
    job.pods = {one.uid: one for one in pods}
    assert job.chip_pod_count == 2
