"""Every wait because of a fault explains itself: `why` names it and its end."""

from __future__ import annotations

import pytest

from ringwise.messages import events as ev
from ringwise.scheduler.explain.why import explain
from ringwise.state.model import NodeReport, Owner, ReportedFault
from ringwise.state.vcjob import VcJob
from tests.builders.values import CHIP, report
from tests.scheduler.faults.fault_rig import POD_LEVEL, deletions, running, sub_healthy
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
        f"fault: {rig.pod_on('n3')}: Ascend910-0 of n3 is unhealthy",
        "rescheduling: train-0, train-1, train-2 and 1 more are ending; what is left in 13m20s is "
        "deleted by force (grace-over-time)",
    ]


def test_force_and_refused_deletions() -> None:
    rig = running(POD_LEVEL)
    hit = rig.pod_on("n3")
    rig.sick("n3", 1)
    assert deletions(rig.step()) == {hit: 0}
    forced = "is deleted by force; replacements start when nothing of this is left (N6)"
    assert f"rescheduling: {hit} {forced}" in waits(rig)
    rig.change(hit, deleting=False)
    rig.tell(ev.EvictFailed(rig.pods[hit].uid))
    rig.step(2)
    assert f"rescheduling: {hit} is to be deleted: the API server refused it, again in 5s" in waits(rig)


def test_external() -> None:
    rig = running({"fault-scheduling": "external-force"})
    rig.sick("n3", 1)
    rig.step()
    hit = rig.pod_on("n3")
    assert f"rescheduling: {hit} is marked; another component deletes the faulty pods" in waits(rig)


def test_retries_used_up() -> None:
    rig = running(POD_LEVEL | {"fault-retry-times": "1"})
    for _ in range(2):
        rig.change("train-2", phase="Failed", exit_code=1)
        rig.step()
        rig.finish()
        rig.run()
    assert waits(rig) == [
        "fault: train-2: the pod failed with exit code 1",
        "rescheduling: no pod is restarted: the one restart that fault-retry-times allows is used up",
        "rescheduling: this is asked again at every change",
        f"rescheduling: queue default keeps 8 of {CHIP} for it for another 2m",
    ]


def test_sub_health() -> None:
    rig = running({**POD_LEVEL, "subHealthyStrategy": "graceExit"})
    hit = rig.pod_on("n3")
    rig.change(hit, labels={**POD_LEVEL, "subHealthyStrategy": "graceExit", "fault-type": "SubHealth"})
    rig.step()
    assert waits(rig)[:2] == [
        f"fault: {hit}: ClusterD says that the pod is on sub-healthy hardware",
        f"rescheduling: {hit} is ending; what is left in 15m is deleted by force (grace-over-time)",
    ]


@pytest.mark.parametrize(
    ("labels", "end"),
    [
        (POD_LEVEL, "job level begins in 8s"),
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
    level, lost = ("pod", "1 pod") if len(gone) == 1 else ("job", "4 pods")
    assert waits(rig)[0] == (
        f"rescheduling: {level} level, 0s counted; the clock stands until their owner makes {lost} again: "
        f"minAvailable is 4, {4 - len(gone)} exist"
    )
    for name in gone:
        rig.replacement(name)
    rig.step()
    rig.step(4)
    assert waits(rig)[0] == f"rescheduling: {level} level: replacements wait for nodes since 4s; {end}"
    if level == "job":
        assert waits(rig)[-2:] == [
            "rescheduling: n1, n2, n4 are held for it for another 1m56s",
            f"rescheduling: queue default keeps 32 of {CHIP} for it for another 1m56s",
        ]


def test_others_are_told_for_whom_a_node_is_held_and_until_when() -> None:
    rig = running({"fault-scheduling": "force"}, nodes=4)
    rig.sick("n3", 1)
    rig.step()
    rig.finish()
    rig.step()
    rig.submit("other", chips=8)
    rig.run()
    view = rig.machine.view
    texts = [miss.text for miss in explain(view, view.jobs["default/other"], rig.now).misses]
    assert any("reserved for train until 1970-01-01T00:18:40Z (8)" in text for text in texts), texts


CODE, LEVEL = "huawei.com/schedule.filter.faultCode", "huawei.com/schedule.filter.faultLevel"
GRACE_EXIT = POD_LEVEL | {"subHealthyStrategy": "graceExit"}
HOT_SWITCH = POD_LEVEL | {"subHealthyStrategy": "hotSwitch"}


SEPARATE = (2, "80E01801", "SeparateNPU")
WEAK = (2, "80CB8009", "SubHealthFault")


@pytest.mark.parametrize(
    ("labels", "masks", "faults", "unhealthy", "told"),
    [
        (POD_LEVEL, {CODE: "80E01801:45"}, [SEPARATE], 4, [f"80E01801 (SeparateNPU) 35s {CODE}"]),
        (
            POD_LEVEL,
            {LEVEL: "separatenpu:3600"},
            [SEPARATE],
            4,
            [f"80E01801 (SeparateNPU) 59m50s {LEVEL}"],
        ),
        # A code beats a level.
        (
            POD_LEVEL,
            {CODE: "80e01801:20", LEVEL: "SeparateNPU"},
            [SEPARATE],
            4,
            [f"80E01801 (SeparateNPU) 10s {CODE}"],
        ),
        # The window that ends first makes the chip count.
        (
            POD_LEVEL,
            {CODE: "80E01801:45,1:30"},
            [SEPARATE, (2, "1", "RestartNPU")],
            4,
            [f"1 (RestartNPU) 20s {CODE}"],
        ),
        (GRACE_EXIT, {LEVEL: "SubHealthFault"}, [WEAK], 0, [f"80CB8009 (SubHealthFault) 50s {LEVEL}"]),
        # Nothing would be done about it.
        (POD_LEVEL, {LEVEL: "SubHealthFault"}, [WEAK], 0, []),
        ({"fault-scheduling": "off"}, {CODE: "80E01801:45"}, [SEPARATE], 4, []),
        # A level that leaves running pods alone.
        (POD_LEVEL, {CODE: "1"}, [(2, "1", "NotHandleFault")], 0, []),
    ],
)
def test_a_tolerated_fault_is_named_with_the_end_of_its_window(
    labels: dict[str, str],
    masks: dict[str, str],
    faults: list[tuple[int, str, str]],
    unhealthy: int,
    told: list[str],
) -> None:
    rig = running(labels, annotations=masks)
    rig.sick("n3", unhealthy, faults=tuple(ReportedFault(*one) for one in faults))
    assert deletions(rig.step()) == {}
    rig.step(10)
    hit = rig.pod_on("n3")
    sentences = []
    for one in told:
        fault, mask = one.rsplit(" ", 1)
        named, left = fault.split(") ")
        sentences.append(
            f"fault: {hit}: Ascend910-2 of n3 has the fault {named}), tolerated for another {left} ({mask}); "
            "then it counts"
        )
    if sentences:
        assert waits(rig) == sentences
        return
    _, code, level = faults[0]
    affected, *hints = waits(rig)
    assert affected.startswith(f"affected by Ascend910-2 of n3: {level}, code {code}")
    off = "no pod is restarted because of it: fault-scheduling is off or missing; "
    assert [hint.startswith(off) for hint in hints] == ([True] if labels["fault-scheduling"] == "off" else [])


def test_a_fault_that_is_tolerated_no_longer_is_not_called_so() -> None:
    rig = running(POD_LEVEL, annotations={CODE: "80E01801:45"})
    rig.sick("n3", 4, faults=(ReportedFault(*SEPARATE),))
    rig.step()
    # First seen now, as by a scheduler that has only just read the objects: the fault may be older.
    assert "tolerated for at most another 45s" in waits(rig)[0]
    assert waits(rig) == waits(rig)
    hit = rig.pod_on("n3")
    assert deletions(rig.step(45)) == {hit: 0}
    assert not any("tolerated" in line for line in waits(rig))


def test_many_tolerated_faults_are_counted() -> None:
    rig = running(POD_LEVEL, annotations={LEVEL: "SeparateNPU:50"})
    rig.sick("n3", 0xFF, faults=tuple(ReportedFault(chip, "80E01801", "SeparateNPU") for chip in range(8)))
    rig.step()
    rig.step(10)
    assert len(waits(rig)) == 4
    assert waits(rig)[3] == "fault: 5 more faults of chips are tolerated, the last for another 40s"


AWAITS = (
    "subHealthyStrategy: hotSwitch waits until ClusterD sets the annotation needVolcanoOpe: delete on the "
    "pod; to replace it now without a backup, set this annotation or the label subHealthyStrategy: forceExit "
    "on the PodGroup"
)


def test_hot_switch_says_whose_word_is_awaited_and_what_an_operator_can_do() -> None:
    rig = running(HOT_SWITCH)
    sub_healthy(rig, "n3")
    assert deletions(rig.step()) == {}
    hit = rig.pod_on("n3")
    assert waits(rig) == [f"fault: {hit}: Ascend910-2 of n3 is sub-healthy; {AWAITS}"]
    rig.change(hit, annotations={**rig.pods[hit].annotations, "needVolcanoOpe": "delete"})
    assert deletions(rig.step()) == {hit: 0}
    assert waits(rig)[0] == (
        f"fault: {hit}: ClusterD wants the pod on sub-healthy hardware to be deleted, without a backup"
    )
    assert not any("waits until ClusterD" in line for line in waits(rig))


def test_hot_switch_ends_with_another_strategy_on_the_pod_group() -> None:
    rig = running(HOT_SWITCH)
    sub_healthy(rig, "n6")  # ClusterD runs; no pod of the job is there.
    rig.tell(NodeReport("n3", "switch", "SubHealthy"))
    assert deletions(rig.step()) == {}
    hit = rig.pod_on("n3")
    assert waits(rig) == [f"fault: {hit}: node n3 is sub-healthy; {AWAITS}"]
    rig.label("train", {"subHealthyStrategy": "forceExit"})
    assert deletions(rig.step()) == {hit: 0}


def test_process_recovery_says_whose_word_the_next_level_needs() -> None:
    rig = running({"fault-scheduling": "force", "process-recover-enable": "on"}, nodes=4)
    rig.tell(report("n1", aggregated=True))
    rig.step()
    hit = next(name for name, pod in rig.pods.items() if pod.annotations["hccl/rankIndex"] == "3")
    rig.sick(rig.node_of(hit), 1)
    assert deletions(rig.step()) == {hit: 0}
    rig.finish()
    rig.step()
    rig.step(30)
    assert waits(rig)[0] == (
        "rescheduling: pod level: replacements wait for nodes since 6s; a higher level follows when "
        "ClusterD sets the label process-recover-enable: pause; to go on now, set it on the PodGroup"
    )
    rig.label("train", {"process-recover-enable": "pause"})
    assert deletions(rig.step()) == {}
    assert waits(rig)[0] == (
        "rescheduling: pod level: replacements wait for nodes since 0s; job level begins in 12s"
    )
    assert sorted(deletions(rig.step(12))) == sorted({"train-0", "train-1", "train-2", "train-3"} - {hit})


@pytest.mark.parametrize(
    ("sentence", "phase", "marks", "retries", "said"),
    [
        ("another controller made the PodGroup", "Running", {}, "2", True),
        ("this project's did", "Running", {"ringwise.io/job-controller": "true"}, "2", False),
        ("no controller has seen the vcjob yet", "", {}, "2", False),
        ("the job has no retries", "Running", {}, "0", False),
    ],
)
def test_F5_another_vcjob_controller_does_not_wait_for_the_scheduler(
    sentence: str, phase: str, marks: dict[str, str], retries: str, said: bool
) -> None:
    rig = running({**POD_LEVEL, "fault-retry-times": retries, **marks}, owner=Owner("Job", "train", "v1"))
    rig.tell(VcJob("default", "train", "v1", phase=phase))
    rig.step()
    found = [line for line in waits(rig) if "another vcjob controller manages this job" in line]
    assert bool(found) is said, sentence
