"""F1: what the next leader does with what the last one wrote."""

from __future__ import annotations

import json

from ringwise.messages import events as ev
from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.scheduler.faults.states import State
from tests.builders.values import pod
from tests.scheduler.faults.fault_rig import POD_LEVEL, deletions, running, state_of
from tests.scheduler.rig import Rig


def test_F1_a_deletion_that_never_arrived_is_repeated_by_the_next_leader() -> None:
    rig = running(POD_LEVEL)
    rig.deaf = True
    hit = rig.pod_on("n3")
    rig.sick("n3", 1)
    rig.step()
    other = rig.successor()
    assert deletions(other.step()) == {hit: 0}


def test_F1_a_deletion_that_arrived_is_not_repeated() -> None:
    # One by force leaves no pod that terminates: it is repeated where there is one.
    rig = running({**POD_LEVEL, "fault-scheduling": "grace"})
    rig.sick("n3", 1)
    rig.step()
    other = rig.successor()
    assert deletions(other.step()) == {}
    assert state_of(other) is State.DELETING


def test_F1_used_retries_survive_a_restart() -> None:
    rig = running({"fault-scheduling": "force", "pod-rescheduling": "on", "fault-retry-times": "1"})
    rig.change("train-2", phase="Failed", exit_code=1)
    rig.step()
    rig.finish()
    rig.change("train-2", exit_code=None)
    rig.run()
    assert json.loads(rig.written("remain-retry-times")) == {
        "default/train": {"UUID": "default/train", "Times": 0}
    }
    other = rig.successor()
    other.run()
    other.change("train-2", phase="Failed", exit_code=1)
    assert deletions(other.step()) == {}
    assert state_of(other) is State.BLOCKED


def test_records_are_written_for_users_of_huaweis_plugin() -> None:
    rig = running(POD_LEVEL)
    hit = rig.pod_on("n3")
    rig.sick("n3", 1)
    rig.step()
    (job,) = json.loads(rig.written("recent-reschedule-records")).values()
    assert (job["JobID"], job["TotalRescheduleTimes"]) == ("default/train", 1)
    (task,) = job["RescheduleRecords"][0]["ReasonOfTask"]
    assert (task["RescheduleReason"], task["PodName"], task["NodeName"]) == ("CardUnhealthy", hit, "n3")


def records(rig: Rig) -> dict[str, object]:
    found: dict[str, object] = json.loads(rig.written("recent-reschedule-records"))
    return found


def test_the_records_of_a_deleted_job_go_with_it() -> None:
    rig = running(POD_LEVEL)
    rig.sick("n3", 1)
    rig.step()
    rig.finish()
    assert list(records(rig)) == ["default/train"]
    # In the middle of its rescheduling.
    rig.tell(ev.PodGroupGone("default/train"), *(ev.PodGone(pod.uid) for pod in rig.pods.values()))
    rig.step()
    assert records(rig) == {}


def test_F1_the_next_leader_drops_the_records_of_jobs_that_were_deleted_meanwhile() -> None:
    rig = running(POD_LEVEL)
    rig.sick("n3", 1)
    rig.step()
    text = rig.written("recent-reschedule-records")
    other = Rig(4)
    other.submit("train", chips=8)
    other.tell(ev.LeaderRecordRead(records=text))
    other.step()
    assert "default/train" in other.machine._components.of(FaultHandler).records.jobs
    empty = Rig(4)
    empty.tell(ev.LeaderRecordRead(records=text))
    empty.step()
    assert records(empty) == {}


def test_the_record_of_a_lone_pod_that_was_deleted_because_of_a_fault_stays() -> None:
    rig = Rig(4)
    labels = {"fault-scheduling": "force"}
    rig.put(pod("alone", 8, uid="alone.1", labels=labels, created=1))
    rig.run()
    rig.sick(rig.node_of("alone"), 1)
    rig.step()
    before = records(rig)
    assert len(before) == 1
    rig.finish(recreate=False)
    rig.step()
    assert records(rig) == before
