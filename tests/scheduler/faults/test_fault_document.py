"""F1: what survives a restart is written and read back; it is bounded, and bad parts cost nothing else."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from hashlib import sha256
from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.framework.reschedule_clock import RescheduleClock
from ringwise.placement.racks.levels import Level
from ringwise.scheduler.faults.cool_downs import CoolDowns
from ringwise.scheduler.faults.detection import FaultType, PodFault
from ringwise.scheduler.faults.document import MAX_DOCUMENT as DOCUMENT
from ringwise.scheduler.faults.document import read, write
from ringwise.scheduler.faults.fault_job import Deletion, FaultJob, FaultyPod
from ringwise.scheduler.faults.records import (
    MAX_DOCUMENT,
    MAX_RETRIES,
    RescheduleRecords,
    RetryBudget,
    RetryBudgets,
)
from ringwise.scheduler.faults.scope import Position
from ringwise.scheduler.faults.states import State
from tests.examples import examples
from tests.scheduler.rig import Rig


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


def test_F1_everything_is_read_back() -> None:
    budgets = {"default/owner": RetryBudget("default/train-0", 1, 3)}
    placement = {"owner": "o", "until": 4, "ranks": {}}
    clocks = {
        "default/train-0": RescheduleClock("default/owner", 5, Level.BLOCK, 7_000_000_000, recovery="on")
    }
    found = read(write([job()], clocks, budgets, [placement]).text)
    assert found.jobs == (job(),)
    assert dict(found.clocks) == clocks
    assert found.retries == (("default/owner", budgets["default/owner"]),)
    assert found.placements == (placement,)
    assert found.problem == ""


def test_F1_the_document_is_bounded_and_the_oldest_jobs_are_left_out() -> None:
    many = [job(number, since=number) for number in range(1000)]
    document = write(many, {}, {}, [], largest=5_000)
    assert len(document.text.encode()) <= 5_000
    kept = [one.since for one in read(document.text).jobs]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] == 999
    assert json.loads(document.text)["leftOut"] == document.left_out == 1000 - len(kept) > 0


def test_F1_a_large_document_is_compressed_and_nothing_is_lost() -> None:
    many = [job(number, since=number) for number in range(100)]
    plain = write(many, {}, {}, []).text
    document = write(many, {}, {}, [], largest=len(plain) // 3)
    assert len(document.text) <= len(plain) // 3
    assert document.left_out == 0
    assert read(document.text) == read(plain)


def test_F1_retries_are_in_the_bound_and_those_used_last_are_kept() -> None:
    budgets = RetryBudgets()
    for number in range(4000):
        budgets.use(f"team/{sha256(str(number).encode()).hexdigest()}", f"team/{number}", 3)
    document = write([job()], {}, budgets.owners, [], largest=100_000)
    assert len(document.text) <= 100_000
    found = read(document.text)
    assert found.jobs == (job(),)
    kept = [owner for owner, _ in found.retries]
    assert 0 < document.left_out == 4000 - len(kept) < 3500
    assert kept == list(budgets.owners)[-len(kept) :]


def test_the_retries_that_are_shown_are_bounded_and_those_used_last_are_in_it() -> None:
    budgets = RetryBudgets()
    for number in range(4000):
        budgets.use(f"owner-{number}", f"team/{'x' * 60}{number}", 3)
    text = budgets.document()
    assert len(text.encode()) <= MAX_RETRIES
    shown = json.loads(text)
    assert shown[f"team/{'x' * 60}3999"] == {"UUID": "owner-3999", "Times": 2}
    assert 1000 < len(shown) < 4000


def test_F1_a_job_of_ten_thousand_pods_is_kept() -> None:
    """Its pods, as they are deleted with it: names and uids as long as those of a cluster."""
    rig = Rig(1)
    rig.submit("train", chips=8, labels={"fault-scheduling": "grace"})
    rig.run()
    rig.sick("n1", 1)
    rig.step()
    (handled,) = rig.machine._faults.jobs.values()
    (kept,) = rig.machine._previous.plain()
    (deletion,) = handled.deletions.values()
    (leaving,) = kept["leaving"].values()
    uids = [str(UUID(sha256(str(number).encode()).hexdigest()[:32])) for number in range(10_000)]
    handled.deletions = {
        uid: replace(deletion, name=f"train-of-a-large-model-worker-{number}")
        for number, uid in enumerate(uids)
    }
    kept["leaving"] = {
        uid: [number, f"worker-node-{number}.rack-7.example", *leaving[2:]] for number, uid in enumerate(uids)
    }
    document = write([handled], {}, {}, [kept])
    assert (len(document.text) <= DOCUMENT, document.left_out) == (True, 0)
    found = read(document.text)
    assert len(found.jobs[0].deletions) == len(found.placements[0]["leaving"]) == 10_000


def test_F1_a_compressed_document_that_cannot_be_read_is_as_none() -> None:
    for packed in ("", "!", "AAAA", base64.b64encode(zlib.compress(b" " * 2**27, 1)).decode()):
        found = read(json.dumps({"version": 1, "compressed": packed}))
        assert (found.jobs, found.problem) == ((), "cannot be unpacked"), packed[:40]


@pytest.mark.parametrize(
    "text", ["no json", "[]", "{}", '{"version": 2, "jobs": []}', "[" * 100_000, '{"version": "1"}']
)
def test_F1_a_document_that_cannot_be_read_is_as_none(text: str) -> None:
    found = read(text)
    assert (found.jobs, found.retries, found.placements) == ((), (), ())
    assert found.problem


def test_F1_one_bad_entry_costs_no_other() -> None:
    document = json.loads(write([job(1), job(2)], {}, {}, []).text)
    document["jobs"][0]["state"] = "Recovered"
    document["retries"] = {"default/a": ["default/x", 1, 2], "default/b": [1]}
    found = read(json.dumps(document))
    assert len(found.jobs) == 1
    assert [owner for owner, _ in found.retries] == ["default/a"]
    assert "1 of 2 jobs" in found.problem


def test_F1_what_could_not_be_written_again_is_not_read() -> None:
    """Half a character: the record would never be written, and no pod deleted because of a fault."""
    document = json.loads(write([job(1), job(2)], {}, {}, []).text)
    document["jobs"][0]["job"] = "default/\ud800"
    document["retries"] = {"default/a\ud800": ["default/x", 1, 2], "default/b": ["default/x", 1, 2]}
    found = read(json.dumps(document))
    assert len(found.jobs) == 1
    assert [owner for owner, _ in found.retries] == ["default/b"]
    cool_downs = CoolDowns()
    chips = [["n1", 1, 9, 1, False]]
    cool_downs.read(json.dumps({"version": 1, "owners": {"a\ud800": chips, "b": chips}}), 1, 9)
    assert json.loads(cool_downs.document().encode()) == {"version": 1, "owners": {"b": chips}}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


KEYS = sorted(json.loads(write([job()], {}, {}, []).text)["jobs"][0])


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(["jobs", "retries", "placements"]), JSON, st.sampled_from(KEYS), JSON)
def test_F1_no_content_makes_reading_fail(part: str, content: object, key: str, value: object) -> None:
    document = json.loads(write([job()], {}, {}, []).text)
    document["jobs"][0][key] = value
    read(json.dumps(document))
    document[part] = content
    read(json.dumps(document))


def test_records_keep_the_newest_ten_of_a_job_and_the_total() -> None:
    records = RescheduleRecords()
    for second in range(12):
        records.add(job(), second * 10**9)
    again = RescheduleRecords()
    again.read(records.document(), {"default/train-0"})
    found = again.of("default/train-0")
    assert found is not None
    assert found["TotalRescheduleTimes"] == 12
    assert [one["RescheduleTimeStamp"] for one in found["RescheduleRecords"]] == list(range(11, 1, -1))


def test_records_are_bounded_and_the_oldest_job_goes_first() -> None:
    records = RescheduleRecords()
    for number in range(6000):
        records.add(job(number), 0)
    text = records.document()
    assert len(text.encode()) <= MAX_DOCUMENT
    assert records.of("default/train-0") is None
    assert records.of("default/train-5999") is not None
    assert len(json.loads(text)) == len(records) > 100


@pytest.mark.parametrize("text", ["", "x", "[]", '{"a": 1, "b": {"RescheduleRecords": [1]}}', "[" * 100_000])
def test_records_that_cannot_be_read_are_left_out(text: str) -> None:
    records = RescheduleRecords()
    records.read(text, {"a", "b"})
    assert len(records) == 0


def test_a_higher_label_gives_more_retries_and_a_new_owner_has_all() -> None:
    budgets = RetryBudgets()
    budgets.use("one", "default/train", 1)
    assert budgets.left("one", 1) == 0
    assert budgets.left("one", 3) == 2
    assert budgets.left("two", 1) == 1
    assert json.loads(budgets.document()) == {"default/train": {"UUID": "one", "Times": 0}}


def test_F6_where_not_all_fits_a_share_whose_first_pod_still_terminates_is_no_old_one() -> None:
    noise = Random(1)
    shares = [
        {"owner": f"default/{noise.randbytes(1000).hex()}", "until": until, "job": f"default/{until}"}
        for until in (1, None, 2)
    ]
    document = write((), {}, {}, (), shares=shares, largest=2400)
    assert document.left_out == 2
    assert [one["until"] for one in read(document.text).shares] == [None]
