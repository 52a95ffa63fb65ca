"""Every worked case of part V that the scheduler decides."""

from __future__ import annotations

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.messages.events import Decide
from ringwise.state.allocation_modes import NO_CHIPS
from tests.place.asking import Plain
from tests.place.part_cases import answer, code, events_of, node_object, of_kind, report_object


def named(case: Plain) -> str:
    return str(case["id"])


@pytest.mark.parametrize("case", of_kind("soft", "static", "dynamic"), ids=named)
def test_a_pod_with_a_share_or_vnpu(case: Plain) -> None:
    expected = case["expect"]
    found = answer(case)
    bind = found.bound("new-0")
    job = next(
        job for job in found.scheduler.view.jobs.values() if job.key.endswith(("vcjob/train", "pod:new-0"))
    )
    if expected["result"] == "refused":
        assert bind is None
        assert job.reason is not None
        assert job.reason.code == code(expected["reason"]), job.reason.message
        return
    refused = {name: one["reason"]["code"] for name, one in found.candidates.items() if not one["accepted"]}
    for name, reason in (expected.get("refused") or expected.get("nodes") or {}).items():
        assert refused[name] == code(reason), found.candidates[name]
    if expected["result"] == "waits":
        assert bind is None
        assert not any(one["accepted"] for one in found.candidates.values())
        return
    assert bind is not None, (job.reason and job.reason.message, found.candidates)
    scores = {name: one["score"] for name, one in found.candidates.items() if one["accepted"]}
    assert scores == expected["scores"]
    assert bind.node == expected["node"]
    annotations = dict(bind.annotations)
    if expected["annotation"]:
        assert annotations.pop("predicate-time")
    assert annotations == expected["annotation"]
    if "removed" in expected:
        assert sorted(bind.remove) == expected["removed"]


@pytest.mark.parametrize("case", of_kind("ways"), ids=named)
def test_allocation_modes(case: Plain) -> None:
    scheduler = new_scheduler()
    objects = [node_object(one, None) for one in case["nodes"]]
    objects += [report_object(one, None) for one in case["nodes"]]
    scheduler.handle(events_of(objects), 10**18, Decide.NOTHING)
    cluster = scheduler.view.cluster
    for name, expected in case["expect"]["ways"].items():
        mode = cluster.modes.get(cluster.node_id[name], NO_CHIPS)
        if expected["way"] == "closed":
            assert mode.closed is not None
            assert mode.closed.code == code(expected["reason"])
        else:
            assert mode.closed is None
            assert (mode.mode or "none") == expected["way"]


@pytest.mark.parametrize("case", of_kind("whole"), ids=named)
def test_whole_chips(case: Plain) -> None:
    found = answer(case, Decide.NOTHING)
    cluster = found.scheduler.view.cluster
    resource = case["request"]["resource"]
    fleet = cluster.fleets[resource]
    for one in case["nodes"]:
        number = cluster.node_id[one["name"]]
        closed = cluster.closed(number, resource)
        if one["name"] in case["expect"]["free"]:
            assert closed is None
            free = fleet.free_mask[number]
            assert [chip for chip in range(64) if free >> chip & 1] == case["expect"]["free"][one["name"]]
        else:
            assert closed is not None
            assert closed.code == code(case["expect"]["refused"][one["name"]])
