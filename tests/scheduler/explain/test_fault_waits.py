"""Every wait because of a fault explains itself: `why` names it and its end."""

from __future__ import annotations

import pytest

from ringwise.messages import events as ev
from ringwise.scheduler.explain.why import explain
from tests.scheduler.faults.fault_rig import POD_LEVEL, deletions, finish, pod_on, running
from tests.scheduler.rig import Rig


def waits(rig: Rig, job: str = "default/train") -> list[str]:
    view = rig.machine.view
    return list(explain(view, view.jobs[job], rig.now).faults)


def test_a_healthy_job_has_none() -> None:
    assert waits(running(POD_LEVEL)) == []


def test_grace() -> None:
    rig = running({"fault-scheduling": "grace"})
    rig.sick("n3", 1)
    rig.step()
    rig.step(100)
    assert waits(rig) == [
        f"fault: {pod_on(rig, 'n3')}: Ascend910-0 of n3 is unhealthy",
        "rescheduling: train-0, train-1, train-2 and 1 more are ending; what is left in 13 min 20 s is "
        "deleted by force (grace-over-time)",
        "rescheduling: it is watched for 18 min 20 s",
    ]


def test_force_and_refused_deletions() -> None:
    rig = running(POD_LEVEL)
    hit = pod_on(rig, "n3")
    rig.sick("n3", 1)
    assert deletions(rig.step()) == {hit: 0}
    forced = "is deleted by force; replacements start when nothing of this is left (N6)"
    assert f"rescheduling: {hit} {forced}" in waits(rig)
    rig.change(hit, deleting=False)
    rig.tell(ev.EvictFailed(rig.pods[hit].uid))
    rig.step(2)
    assert f"rescheduling: {hit} is to be deleted: the API server refused it, again in 5 s" in waits(rig)


def test_external() -> None:
    rig = running({"fault-scheduling": "external-force"})
    rig.sick("n3", 1)
    rig.step()
    hit = pod_on(rig, "n3")
    assert f"rescheduling: {hit} is marked; another component deletes the faulty pods" in waits(rig)


def test_retries_used_up() -> None:
    rig = running(POD_LEVEL | {"fault-retry-times": "1"})
    for _ in range(2):
        rig.change("train-2", phase="Failed", exit_code=1)
        rig.step()
        finish(rig)
        rig.run()
    assert waits(rig) == [
        "fault: train-2: the pod failed with exit code 1",
        "rescheduling: no pod is restarted: the one restart that fault-retry-times allows is used up",
        "rescheduling: this is asked again at every change, for 20 min",
    ]


def test_sub_health() -> None:
    rig = running({**POD_LEVEL, "subHealthyStrategy": "graceExit"})
    hit = pod_on(rig, "n3")
    rig.change(hit, labels={**POD_LEVEL, "subHealthyStrategy": "graceExit", "fault-type": "SubHealth"})
    rig.step()
    assert waits(rig)[:2] == [
        f"fault: {hit}: ClusterD says that the pod is on sub-healthy hardware",
        f"rescheduling: {hit} is ending; what is left in 15 min is deleted by force (grace-over-time)",
    ]


@pytest.mark.parametrize(
    ("labels", "end"),
    [
        (POD_LEVEL, "the next level begins in 8 s"),
        ({"fault-scheduling": "force"}, "the whole job was restarted"),
    ],
)
def test_levels_and_held_nodes(labels: dict[str, str], end: str) -> None:
    rig = running(labels, nodes=4)
    rig.sick("n3", 1)
    rig.step()
    gone = [name for name, pod in rig.pods.items() if pod.deleting]
    for name in gone:
        rig.tell(ev.PodGone(rig.pods[name].uid))
    rig.step()
    lost = "1 pod" if len(gone) == 1 else "4 pods"
    assert waits(rig)[0].startswith(f"rescheduling: {lost} lost; their owner has not created")
    for name in gone:
        rig.replacement(name)
    rig.step()
    rig.step(4)
    level = "pod" if len(gone) == 1 else "job"
    assert waits(rig)[0] == f"rescheduling: {level} level: replacements wait for nodes since 4 s; {end}"
    if level == "job":
        assert waits(rig)[-1] == "rescheduling: n1, n2, n4 are held for it for another 1 min 56 s"


def test_others_are_told_for_whom_a_node_is_held_and_until_when() -> None:
    rig = running({"fault-scheduling": "force"}, nodes=4)
    rig.sick("n3", 1)
    rig.step()
    finish(rig)
    rig.step()
    rig.submit("other", chips=8)
    rig.run()
    view = rig.machine.view
    texts = [miss.text for miss in explain(view, view.jobs["default/other"], rig.now).misses]
    assert any("reserved for train until 1970-01-01T00:18:40Z (8)" in text for text in texts), texts
