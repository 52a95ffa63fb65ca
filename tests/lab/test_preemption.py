"""Preemption in a lab: a job is spared for its cooldown, warned, told what it lost, and replay repeats it."""

from __future__ import annotations

from pathlib import Path

from ringwise.apps.job_history import history_of
from ringwise.apps.journal.format import open_journal
from ringwise.apps.lab.folder import LabFolder
from ringwise.apps.lab.lab import FleetSettings, LabSettings, LiveLab
from ringwise.apps.replay import replay
from ringwise.durations import SECOND
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.scheduler.explain.why import explain
from ringwise.state.model import Pod, PriorityClass
from ringwise.wellknown import COOLDOWN_TIME, EVICTED, EXPECTED_DURATION, PREEMPTABLE
from tests.builders.values import vcjob
from tests.tour.pages import ROOT

START = 1_700_000_000 * SECOND
CONFIGURATION = (ROOT / "examples/preemption/scheduler.conf").read_text("utf-8")


def runs(live: LiveLab, job: str) -> bool:
    pods = [pod for pod in live.cluster.all(Pod) if pod.name.startswith(job)]
    return any(pod.phase == "Running" and not pod.deleting for pod in pods)


def notes(live: LiveLab, job: str) -> str:
    known = next(one for one in live.view.jobs.values() if one.name == job)
    return " | ".join(explain(live.view, known, live.view.history.now).notes)


def test_a_job_is_spared_then_warned_preempted_and_comes_back(tmp_path: Path) -> None:
    folder = LabFolder(tmp_path)
    folder.take()
    settings = LabSettings(FleetSettings(1, "910-x8"), (CONFIGURATION, "test"), speed=None, start=START)
    live = LiveLab(folder, settings)
    warned: set[str] = set()
    try:
        live.cluster.submit(PriorityClass("high", 100))
        live.cluster.submit(
            vcjob(
                "low", 1, 8, annotations={PREEMPTABLE: "true", COOLDOWN_TIME: "10m", EXPECTED_DURATION: "10h"}
            )
        )
        live.advance(60 * SECOND)
        assert runs(live, "low")
        live.cluster.submit(vcjob("boss", 1, 8, annotations={EXPECTED_DURATION: "1h"}, priority_class="high"))
        live.advance(480 * SECOND)
        assert runs(live, "low"), "it is spared for ten minutes"
        for _ in range(180):
            live.advance(SECOND)
            warned |= {
                pod.annotations[EVICTED] for pod in live.cluster.all(Pod) if EVICTED in pod.annotations
            }
        assert runs(live, "boss")
        [warning] = warned
        assert warning.endswith(" preempt for default/boss")
        assert "preempted for default/boss at " in notes(live, "low")
        live.close()
        # A preemption is not a fault.
        told = history_of("default/low", [folder.journal]).history
        assert [entry.text for entry in told.entries if entry.kind == "preempted"] == [
            "1 pod is preempted for default/boss: 8 chips, 1.3 chip-hours are lost"
        ]
        assert [entry for entry in told.entries if entry.kind == "fault"] == []
        # The next one knows it, too.
        live = LiveLab(folder, LabSettings(speed=None))
        live.turn()
        assert "preempted for default/boss at " in notes(live, "low")
        live.advance(2 * 3600 * SECOND)
        assert runs(live, "low")
        assert "a pod of it has had a node again since" in notes(live, "low")
    finally:
        live.close()
        folder.leave()
    answer = replay(open_journal(LabFolder(tmp_path).journal), shipped_catalog())
    assert answer.batches > 0
    assert answer.difference is None
