"""How many pods of a job for SuperPoDs must get a node at once."""

from __future__ import annotations

import pytest

from ringwise.plugins.topology910.superpods import fewest_pods
from tests.builders.session_lab import cluster
from tests.builders.values import pod, pod_class


@pytest.mark.parametrize(
    ("min_available", "cpu_pods", "best_effort", "running", "fewest"),
    [
        (3, 0, 0, 0, None),
        (2, 0, 0, 0, 2),
        # Pods without chips get a node, too, and count for the gang.
        (3, 1, 0, 0, 2),
        (4, 1, 0, 0, None),
        # Best-effort pods come later; the gang does not wait for them.
        (3, 0, 1, 0, 2),
        (3, 1, 1, 0, 1),
        (2, 0, 0, 1, 1),
        (2, 3, 0, 0, 0),
    ],
)
def test_the_fewest_pods_with_chips_that_complete_the_gang_P8(
    min_available: int, cpu_pods: int, best_effort: int, running: int, fewest: int | None
) -> None:
    lab = cluster().nodes(4, chips=8, cpu=8_000)
    lab.job(
        "job",
        pods=3,
        chips=8,
        min_available=min_available,
        on=[f"n{1 + number}" for number in range(running)],
    )
    job = lab["job"]
    waiting = [pod for pod in job.pods.values() if pod.node is None]
    for number in range(cpu_pods):
        lab.put(pod(f"cpu-{number}", cls=pod_class(cpu=1_000), group="job"), job)
    for number in range(best_effort):
        lab.put(pod(f"rest-{number}", cls=pod_class(), group="job"), job)
    assert fewest_pods(lab.session("gang"), job, waiting) == fewest
