"""priority and conformance."""

from __future__ import annotations

import pytest

from ringwise.framework.gangs.gang_placement import pending_pods
from tests.builders.session_lab import cluster
from tests.builders.values import pod, pod_class


def test_priority_jobs_higher_priority_first() -> None:
    lab = cluster().job("low", priority=1).job("high", priority=9).job("middle", priority=5)
    session = lab.session("priority")
    order = [job.name for job in sorted(lab.jobs.values(), key=session.job_key)]
    assert order == ["high", "middle", "low"]


def test_priority_pods_higher_first_and_the_annotation_wins_over_the_pods_own() -> None:
    lab = cluster().job("job", pods=4, cpu=1)
    lab.change("job-1", priority=5)
    lab.change("job-2", priority=5, annotations={"volcano.sh/task-priority": "-1"})
    lab.change("job-3", priority=2, annotations={"volcano.sh/task-priority": "not a number"})
    session = lab.session("priority")
    assert [pod.name for pod in pending_pods(session, lab["job"])] == ["job-1", "job-3", "job-0", "job-2"]


@pytest.mark.parametrize(("victim", "allowed"), [(3, True), (4, False), (5, False)])
def test_priority_victims_of_other_jobs_need_a_strictly_lower_job_priority(
    victim: int, allowed: bool
) -> None:
    lab = cluster().node("n1").job("new", priority=4).job("old", priority=victim, on="n1")
    session = lab.session("priority")
    found = session.preemptable(lab["new"], lab.pod("new-0"), ["old-0"])
    assert found == (["old-0"] if allowed else [])


@pytest.mark.parametrize(("victim", "allowed"), [(3, True), (4, False)])
def test_priority_victims_of_the_same_job_need_a_strictly_lower_pod_priority(
    victim: int, allowed: bool
) -> None:
    lab = cluster().node("n1").job("job", pods=2, on=["n1"], priority=4)
    lab.change("job-0", priority=victim)
    session = lab.session("priority")
    found = session.preemptable(lab["job"], lab.pod("job-1"), ["job-0"])
    assert found == (["job-0"] if allowed else [])


def test_priority_a_pod_without_a_job_is_judged_by_its_own_priority() -> None:
    lab = cluster().node("n1").job("new", priority=4)
    for name, priority in (("weak", 3), ("strong", 4)):
        lab.put(pod(name, cls=pod_class(), namespace="other", on="n1", priority=priority))
    session = lab.session("priority")
    assert session.preemptable(lab["new"], lab.pod("new-0"), ["weak", "strong"]) == ["weak"]


@pytest.mark.parametrize(("running", "starving"), [(0, True), (2, True), (3, False)])
def test_priority_a_job_starves_while_fewer_pods_have_a_place_than_it_has(
    running: int, starving: bool
) -> None:
    lab = cluster().node("n1").job("job", pods=3, on=["n1"] * running)
    assert lab.session("priority").job_starving(lab["job"]) is starving


@pytest.mark.parametrize(
    ("namespace", "priority_class", "safe"),
    [
        ("default", "", False),
        ("default", "batch", False),
        ("default", "system-node-critical", True),
        ("default", "system-cluster-critical", True),
        ("kube-system", "", True),
    ],
)
def test_conformance_spares_critical_pods_and_the_system_namespace(
    namespace: str, priority_class: str, safe: bool
) -> None:
    lab = cluster().node("n1").job("new")
    session = lab.put(pod("p", 0, namespace=namespace, on="n1", priority_class=priority_class)).session(
        "conformance"
    )
    expected = [] if safe else ["p"]
    assert session.preemptable(lab["new"], lab.pod("new-0"), ["p"]) == expected
    assert session.reclaimable(lab["new"], lab.pod("new-0"), ["p"]) == expected


@pytest.mark.parametrize(("namespace", "safe"), [("team", False), ("kube-system", True), ("mindx-dl", True)])
def test_conformance_a_critical_class_makes_no_job_with_chips_safe_outside_the_system(
    namespace: str, safe: bool
) -> None:
    lab = cluster().node("n1", chips=8).job("new")
    critical = pod(
        "p",
        uid="p",
        cls=pod_class(chips=8),
        namespace=namespace,
        on="n1",
        priority_class="system-node-critical",
    )
    session = lab.put(critical).session("conformance")
    assert session.reclaimable(lab["new"], lab.pod("new-0"), ["p"]) == ([] if safe else ["p"])
