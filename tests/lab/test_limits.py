"""Limits and the longest run time in a lab, as people see them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.builders.objects import queue, usage_limit
from tests.lab.rig import Terminal, job, running

_CHIPS = "requests.huawei.com/Ascend910"


def queue_with(name: str, hard: Mapping[str, int], **spec: str) -> str:
    """A queue and the UsageLimit of its name."""
    made = [queue(name), usage_limit(name, {"queue": name}, hard=dict(hard), **spec)]
    return "\n---\n".join(map(json.dumps, made))


def of_namespace(hard: Mapping[str, object]) -> str:
    return json.dumps(usage_limit("own", {"namespace": "lab"}, hard=dict(hard)))


def forever(name: str, pods: int = 1, chips: int = 8, in_queue: str = "few") -> str:
    return job(name, pods, chips, queue=in_queue).replace(
        "metadata: {labels: {}}", "metadata: {annotations: {ringwise.io/simulate: forever}}"
    )


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with running(tmp_path):
        yield Terminal(tmp_path, columns=80)


def phase(terminal: Terminal, name: str) -> str:
    found: str = terminal.json(f"describe job {name}")["phase"]
    return found


def test_the_limit_of_a_queue_is_shown_with_the_queue(terminal: Terminal) -> None:
    terminal.submit(queue_with("few", {_CHIPS: 8}))
    terminal.submit(queue_with("both", {_CHIPS: 24, "cpu": 4, "runningJobs": 9}))
    terminal.submit(json.dumps(queue("both", capability={"huawei.com/Ascend910": 16})))
    limits = {one["name"]: one["limit"] for one in terminal.json("get queues")["queues"]}
    chips = "huawei.com/Ascend910"
    assert limits == {"both": {chips: 24, "cpu": 4000}, "default": {}, "few": {chips: 8}}
    shown = " ".join(terminal.ok("get queues").split())
    assert re.search(r"few Open 1 \S+ \d+ Ascend910 8 Ascend910 0", shown)
    assert "limit 8 Ascend910" in " ".join(terminal.ok("describe queue few").split())
    assert "limit 16 Ascend910, 4 cpu" in " ".join(terminal.ok("describe queue both").split())


def test_a_job_waits_for_a_limit_and_says_so(terminal: Terminal) -> None:
    terminal.submit(queue_with("few", {_CHIPS: 8}))
    terminal.submit(forever("first"))
    terminal.ok("advance 5s")
    terminal.submit(forever("second"))
    terminal.ok("advance 5s")
    why = terminal.json("why second")
    assert why["reason"]["code"] == "chip-limit-reached"
    assert "the limit of queue few is used by first (8 Ascend910)" in why["notes"]
    fixes = [fix["message"] for fix in why["fixes"]]
    assert "raise huawei.com/Ascend910 of UsageLimit few to 16 (now 8)" in fixes
    assert "wait for job lab/first to end" in fixes
    (row,) = terminal.json("limits")["limits"]
    (use,) = row["use"]
    assert (row["name"], use["used"], use["hard"], row["blocked_jobs"]) == ("few", 8, 8, 1)
    assert max(map(len, terminal.ok("limits").splitlines())) <= 80
    terminal.submit(queue_with("few", {_CHIPS: 16}))
    terminal.ok("advance 5s")
    assert phase(terminal, "second") == "Running"


def test_a_wrong_limit_is_refused_with_the_field_and_allowed_values(terminal: Terminal) -> None:
    refused = terminal.refused("submit -", of_namespace({_CHIPS: "many"}))
    assert 'huawei.com/Ascend910]: Invalid value: "many": must be a whole number of 0 or more' in refused
    assert terminal.json("limits")["limits"] == []


def test_limits_of_a_namespace_come_and_go(terminal: Terminal) -> None:
    terminal.submit(of_namespace({"runningJobs": 1}))
    terminal.submit(forever("first", in_queue="default"))
    terminal.submit(forever("second", in_queue="default"))
    terminal.ok("advance 5s")
    why = terminal.json("why second")
    assert why["reason"]["code"] == "running-jobs-limit-reached"
    fixes = {fix["message"] for fix in why["fixes"]}
    assert "wait for job lab/first to end" in fixes
    (row,) = terminal.json("get usagelimits")["usagelimits"]
    assert (row["name"], row["namespace"], row["hard"]) == ("own", "lab", {"runningJobs": 1})
    assert "own namespace lab 1 runningJobs" in " ".join(terminal.ok("get ulim").split())
    terminal.ok("delete usagelimit own")
    terminal.ok("advance 5s")
    assert phase(terminal, "second") == "Running"


@pytest.mark.parametrize(("at_end", "after"), [("Terminate", "Terminated"), ("Requeue", "Running")])
def test_a_job_is_warned_and_then_ended_or_requeued(terminal: Terminal, at_end: str, after: str) -> None:
    terminal.submit(queue_with("few", {}, maxRunTime="1h", onTimeout=at_end))
    terminal.submit(forever("train"))
    terminal.ok("advance 49m")
    before = terminal.json("describe job train")
    terminal.ok("advance 2m")
    (pod,) = terminal.json("get pods")["pods"]
    shown = terminal.json(f"describe pod {pod['name']}")
    assert "ringwise.io/max-run-time-end" in str(shown)
    (row,) = terminal.json("limits")["max_run_times"]
    assert (row["max_run_time_seconds"], row["on_timeout"]) == (3600, at_end)
    then = "is ended" if at_end == "Terminate" else "is requeued"
    (note,) = terminal.json("why train")["notes"]
    assert re.fullmatch(rf"it {then} at \S+: UsageLimit few lets jobs run for 1h", note)
    terminal.ok("advance 8m")
    assert phase(terminal, "train") == "Running"
    terminal.ok("advance 5m")
    assert phase(terminal, "train") == after
    assert terminal.json("describe job train")["retries"] == before["retries"]


def test_a_suspended_job_counts_for_no_limit(terminal: Terminal) -> None:
    terminal.submit(queue_with("few", {_CHIPS: 8, "runningJobs": 1, "pendingJobs": 1}))
    terminal.submit(forever("first"))
    terminal.ok("advance 5s")
    terminal.submit(forever("second"))
    terminal.ok("advance 5s")
    terminal.ok("suspend first")
    terminal.ok("advance 60s")
    assert phase(terminal, "second") == "Running"
    terminal.ok("resume first")
    terminal.ok("advance 60s")
    assert terminal.json("why first")["reason"]["code"] == "chip-limit-reached"


def test_limits_survive_a_restart_of_the_lab(tmp_path: Path) -> None:
    with running(tmp_path):
        terminal = Terminal(tmp_path)
        terminal.submit(queue_with("few", {_CHIPS: 8}, maxRunTime="1h"))
        terminal.submit(of_namespace({_CHIPS: 64}))
        terminal.submit(forever("train"))
        terminal.ok("advance 40m")
        before = terminal.json("limits")
    with running(tmp_path):
        terminal = Terminal(tmp_path)
        after = terminal.json("limits")
        assert after["limits"] == before["limits"]
        assert after["max_run_times"] == before["max_run_times"]
        terminal.ok("advance 21m")
        assert phase(terminal, "train") == "Terminated"


def test_what_limits_decided_is_decided_again(tmp_path: Path) -> None:
    with running(tmp_path):
        terminal = Terminal(tmp_path)
        terminal.submit(queue_with("few", {_CHIPS: 8}, maxRunTime="1h"))
        terminal.submit(of_namespace({_CHIPS: 64}))
        terminal.submit(forever("first"), forever("second"))
        terminal.ok("advance 2h")
        assert terminal.json("replay")["identical"] is True


def test_a_support_bundle_decides_limits_reservations_and_accounting_again(tmp_path: Path) -> None:
    with running(tmp_path):
        terminal = Terminal(tmp_path, columns=80)
        terminal.submit(queue_with("few", {_CHIPS: 8, "pendingJobs": 1}))
        terminal.ok("reserve 1 --for queue=few --from 30m --to 2h --name course --yes")
        for name in ("first", "second", "third"):
            terminal.submit(forever(name))
            terminal.ok("advance 5s")
        assert terminal.json("why third")["reason"]["code"] == "pending-jobs-limit-reached"
        bundle = tmp_path / "bundle.tar.gz"
        terminal.ok(f"support-bundle {bundle}")
        assert terminal.ok(f"replay {bundle}").startswith("identical: ")


def test_a_job_that_may_not_wait_yet_has_an_expected_start(terminal: Terminal) -> None:
    """It is tried when one of those that wait starts, which the forecast plays."""
    terminal.submit(queue_with("few", {_CHIPS: 8, "pendingJobs": 1}, maxRunTime="20m"))
    for name in ("first", "second", "third", "fourth"):
        terminal.submit(forever(name))
        terminal.ok("advance 1s")
    jobs = {one["name"]: one for one in terminal.json("get jobs")["jobs"]}
    first, *starts = (jobs[name]["expected_start"] for name in ("first", "second", "third", "fourth"))
    assert first is None
    assert "the limit of queue few is used by second" in terminal.json("why third")["notes"]
    assert [one["kind"] for one in starts] == ["known"] * 3
    assert [one["after"] for one in starts] == [["lab/first"], ["lab/second"], ["lab/third"]]
