"""F1: what the next leader does with what the last one wrote."""

from __future__ import annotations

import json

from ringwise.scheduler.faults.states import State
from tests.scheduler.faults.fault_rig import (
    POD_LEVEL,
    deletions,
    finish,
    pod_on,
    published,
    running,
    state_of,
    successor,
)


def test_F1_a_deletion_that_never_arrived_is_repeated_by_the_next_leader() -> None:
    rig = running(POD_LEVEL)
    rig.deaf = True
    hit = pod_on(rig, "n3")
    rig.sick("n3", 1)
    rig.step()
    other = successor(rig)
    assert deletions(other.step()) == {hit: 0}


def test_F1_a_deletion_that_arrived_is_not_repeated() -> None:
    # One by force leaves no pod that terminates: it is repeated where there is one.
    rig = running({**POD_LEVEL, "fault-scheduling": "grace"})
    rig.sick("n3", 1)
    rig.step()
    other = successor(rig)
    assert deletions(other.step()) == {}
    assert state_of(other) is State.DELETING


def test_F1_used_retries_survive_a_restart() -> None:
    rig = running({"fault-scheduling": "force", "pod-rescheduling": "on", "fault-retry-times": "1"})
    rig.change("train-2", phase="Failed", exit_code=1)
    rig.step()
    finish(rig)
    rig.change("train-2", exit_code=None)
    rig.run()
    assert json.loads(published(rig, "vcjob-fault-npu-cm")["remain-retry-times"]) == {
        "default/train": {"UUID": "default/train", "Times": 0}
    }
    other = successor(rig)
    other.run()
    other.change("train-2", phase="Failed", exit_code=1)
    assert deletions(other.step()) == {}
    assert state_of(other) is State.BLOCKED


def test_records_are_written_for_users_of_huaweis_plugin() -> None:
    rig = running(POD_LEVEL)
    hit = pod_on(rig, "n3")
    rig.sick("n3", 1)
    rig.step()
    (job,) = json.loads(published(rig, "job-reschedule-reason")["recent-reschedule-records"]).values()
    assert (job["JobID"], job["TotalRescheduleTimes"]) == ("default/train", 1)
    (task,) = job["RescheduleRecords"][0]["ReasonOfTask"]
    assert (task["RescheduleReason"], task["PodName"], task["NodeName"]) == ("CardUnhealthy", hit, "n3")
