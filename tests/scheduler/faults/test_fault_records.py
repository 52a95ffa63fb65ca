"""What Huawei's components read of faults: records of jobs, and retries that are left."""

from __future__ import annotations

import json

import pytest

from ringwise.scheduler.cache.record_tables import RecordTables
from ringwise.scheduler.faults.detection import FaultType, PodFault
from ringwise.scheduler.faults.fault_job import Deletion, FaultJob, FaultyPod
from ringwise.scheduler.faults.records import MAX_DOCUMENT, MAX_RETRIES, RescheduleRecords, RetryBudgets
from ringwise.scheduler.faults.scope import Position
from ringwise.scheduler.faults.states import State


def job(number: int = 0, since: int = 5) -> FaultJob:
    place = Position(1, 2, 3, False)
    fault = PodFault(FaultType.CHIP, "Ascend910-1 of n1 is unhealthy", chips=2)
    return FaultJob(
        f"default/train-{number}",
        "default/owner",
        since,
        State.DELETING,
        {"uid": FaultyPod("uid", "train-1", "n1", place, fault)},
        {0: Position(0, master=True)},
        {"uid": Deletion("train-1", place, sent=True)},
        7,
        blocked="",
    )


def test_the_retries_that_are_shown_are_bounded_and_those_used_last_are_in_it() -> None:
    budgets = RetryBudgets(RecordTables())
    for number in range(4000):
        budgets.use(f"owner-{number}", f"team/{'x' * 60}{number}", 3)
    text = budgets.document()
    assert len(text.encode()) <= MAX_RETRIES
    shown = json.loads(text)
    assert shown[f"team/{'x' * 60}3999"] == {"UUID": "owner-3999", "Times": 2}
    assert 1000 < len(shown) < 4000


def test_records_keep_the_newest_ten_of_a_job_and_the_total() -> None:
    records = RescheduleRecords()
    for second in range(12):
        records.add(job(), second * 10**9)
    again = RescheduleRecords()
    again.read(records.document(), {"default/train-0"})
    found = again.jobs["default/train-0"]
    assert found["TotalRescheduleTimes"] == 12
    assert [one["RescheduleTimeStamp"] for one in found["RescheduleRecords"]] == list(range(11, 1, -1))


def test_records_are_bounded_and_the_oldest_job_goes_first() -> None:
    records = RescheduleRecords()
    for number in range(6000):
        records.add(job(number), 0)
    text = records.document()
    assert len(text.encode()) <= MAX_DOCUMENT
    assert "default/train-0" not in records.jobs
    assert "default/train-5999" in records.jobs
    assert len(json.loads(text)) == len(records.jobs) > 100


@pytest.mark.parametrize("text", ["", "x", "[]", '{"a": 1, "b": {"RescheduleRecords": [1]}}', "[" * 100_000])
def test_records_that_cannot_be_read_are_left_out(text: str) -> None:
    records = RescheduleRecords()
    records.read(text, {"a", "b"})
    assert len(records.jobs) == 0


def test_a_higher_label_gives_more_retries_and_a_new_owner_has_all() -> None:
    budgets = RetryBudgets(RecordTables())
    budgets.use("one", "default/train", 1)
    assert budgets.left("one", 1) == 0
    assert budgets.left("one", 3) == 2
    assert budgets.left("two", 1) == 1
    assert json.loads(budgets.document()) == {"default/train": {"UUID": "one", "Times": 0}}
