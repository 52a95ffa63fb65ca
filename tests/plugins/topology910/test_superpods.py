"""How many pods of a job for SuperPoDs must get a node at once, and how long its old nodes are waited for."""

from __future__ import annotations

import pytest

from ringwise.framework.job import TerminatingPod
from ringwise.plugins.topology910.superpods import fewest_pods, release_of
from tests.builders.session_lab import cluster
from tests.builders.values import SECOND, pod, pod_class


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


@pytest.mark.parametrize(
    ("after", "given_up", "again"),
    [
        (0, set(), 10),
        (9, set(), 10),
        (10, {"n1"}, 25),
        (24, {"n1"}, 25),
        (25, {"n1", "n2"}, 40),
        (40, {"n1", "n2", "n3"}, None),
    ],
)
def test_each_old_node_is_waited_for_until_its_pod_terminates_for_too_long_P7(
    after: int, given_up: set[str], again: int | None
) -> None:
    """The job is tried again when the first of the others is given up."""
    lab = cluster().nodes(5, chips=8).job("job", pods=6, chips=8, on=[f"n{number}" for number in range(1, 6)])
    job, session = lab["job"], lab.session("gang")
    grace = session.settings.grace_over_time
    # The fourth is on a broken node, and the last one is gone.
    for number, (since, faulty) in enumerate([(10, False), (25, False), (40, False), (5, True)]):
        job.terminating[f"job-{number}"] = TerminatingPod(f"n{number + 1}", since * SECOND, faulty)
    job.terminating["gone"] = TerminatingPod("n5", 5 * SECOND, False)
    session.now = (grace + after) * SECOND
    release = release_of(session, job)
    assert {lab.state.names[int(node)] for node in release.given_up} == given_up
    assert session.retries.get(job.key) == (None if again is None else (grace + again) * SECOND)
