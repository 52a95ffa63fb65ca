"""`why JOB --history`: the life of a job from the journal, in the lab and from files.

After a wanted change: RINGWISE_WRITE_GOLDEN=1 pytest tests/lab/test_job_history.py
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from ringwise.durations import SECOND
from ringwise.manifests.text.quantities import nanoseconds
from tests.golden_files import same_as_golden
from tests.lab.rig import Terminal, job, nodes, running, with_copies

START = 1_768_032_000 * SECOND


def fault_job(name: str, pods: int, **labels: str) -> str:
    given = ", ".join(f'{key}: "{value}"' for key, value in labels.items())
    text = job(name, pods, 8)
    return text.replace("namespace: lab}", "namespace: lab, labels: {" + given + "}}", 1)


@pytest.fixture
def fixed_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ringwise.apps.lab.lab.time.time_ns", lambda: START)


POD_LEVEL = {"fault-scheduling": "grace", "pod-rescheduling": "on"}


@pytest.mark.usefixtures("fixed_start")
def test_the_life_of_a_job_with_two_faults_a_wait_and_a_restart_of_the_lab(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, columns=80)
    with with_copies(tmp_path, nodes(5)):
        terminal.submit(job("other", 3, 8, minutes=10))
        terminal.submit(fault_job("train", 3, **POD_LEVEL))
        terminal.ok("advance 5m")
        # What waits now counts until now.
        assert terminal.json("why train --history")["pending_seconds"] == 300
        terminal.ok("advance 6m")
        assert {entry["kind"] for entry in terminal.json("why train --history")["entries"]} == {
            "submitted", "pending", "scheduled", "running"
        }  # fmt: skip
        hit = terminal.seats()["lab/train-worker-1"][0]
        terminal.ok(f"fault inject chip {hit} 3")
        terminal.ok("advance 1m")
        before = terminal.json("why train --history")["entries"]
    with with_copies(tmp_path, nodes(5)):
        master = terminal.seats()["lab/train-worker-0"][0]
        terminal.ok(f"fault inject chip {master} 0")
        terminal.ok("advance 1m")
        history = terminal.json("why lab/train --history")
        assert history["entries"][: len(before)] == before
        printed = terminal.ok("why train --history")
    assert (history["faults"], history["moved_pods"]) == (2, 2)
    moved = [entry["pods"] for entry in history["entries"] if entry["kind"] == "scheduled"]
    assert [(pod["name"], pod["from"]) for pod in moved[1]] == [("train-worker-1", hit)]
    assert [pod["from"] == pod["to"] for pod in moved[2]] == [False, True, True]
    same_as_golden("80/why-history", f"$ ringwise why train --history\n{printed}")
    page = Path(__file__).parents[2] / "docs" / "guides" / "why-details.md"
    assert f"```\n{printed}```" in page.read_text(encoding="utf-8")
    # The files alone tell the same, without a lab.
    files = " ".join(f"--journal {tmp_path / name}" for name in ("journal.1.jsonl", "journal.jsonl"))
    assert terminal.ok(f"why train --history {files}") == printed


@pytest.mark.usefixtures("fixed_start")
def test_a_journal_that_begins_later_says_what_it_found(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(3)):
        terminal.submit(job("train", 2, 8))
        terminal.ok("advance 1m")
    with with_copies(tmp_path, nodes(3)):
        pass
    history = terminal.json(f"why train --journal {tmp_path / 'journal.jsonl'}")
    assert [entry["kind"] for entry in history["entries"]] == ["submitted", "found"]
    assert "on node-0, node-1 when the journal began" in history["entries"][1]["message"]


@pytest.mark.usefixtures("fixed_start")
def test_a_deleted_job_keeps_its_history_and_a_new_one_of_its_name_begins_again(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(2)):
        for _ in range(2):
            terminal.submit(job("train", 1, 8, minutes=1))
            terminal.ok("advance 2m")
            terminal.ok("delete job train")
        kinds = [entry["kind"] for entry in terminal.json("why train --history")["entries"]]
    one = ["submitted", "scheduled", "running", "completed", "removed"]
    assert kinds == one * 2


@pytest.mark.usefixtures("fixed_start")
def test_events_without_a_job_are_those_of_all_jobs_and_the_newest_are_last(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, columns=160)
    with with_copies(tmp_path, nodes(2)):
        terminal.submit(job("train", 2, 8, minutes=10))
        terminal.submit(job("late", 1, 8, minutes=10))
        terminal.submit(job("other", 1, 8, minutes=10).replace("namespace: lab", "namespace: team"))
        terminal.ok("advance 5m")
        events = terminal.json("events")["events"]
        assert {(one["namespace"], one["job"]) for one in events} == {
            ("lab", "train"), ("lab", "late"), ("team", "other")
        }  # fmt: skip
        assert [one["nanoseconds"] for one in events] == sorted(one["nanoseconds"] for one in events)
        assert {one["type"] for one in events if one["kind"] == "pending"} == {"Warning"}
        assert {one["type"] for one in events if one["kind"] == "scheduled"} == {"Normal"}
        # As those of each job.
        own = terminal.json("events train")["entries"]
        assert [one["message"] for one in events if one["job"] == "train"] == [one["message"] for one in own]
        last = terminal.json("events --limit 2")
        assert (last["events"], last["remaining_item_count"]) == (events[-2:], len(events) - 2)
        printed = terminal.ok("get events --limit 2")
        assert printed.endswith(f"and {len(events) - 2} older; --limit 0 shows all\n")
        assert "remaining_item_count" not in terminal.json("events --limit 0")
        lines = terminal.ok("get events -n team").splitlines()
        assert lines[0].split() == ["last", "seen", "type", "reason", "job", "message"]
        assert len(lines) > 2
        assert all("team/other" in line and line.startswith("5m") for line in lines[2:])
        assert terminal.ok("events -n none") == "there are no events in namespace none\n"
        assert terminal.ok("-n team get events -A") == terminal.ok("events")
    files = f"--journal {tmp_path / 'journal.jsonl'}"
    assert terminal.json(f"events {files}")["events"] == events


def test_what_cannot_be_told_is_one_clear_line(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(1)):
        terminal.submit(job("train"))
        assert 'the journal: job "trian" not found; did you mean' in terminal.refused("why trian --history")
    assert "cannot be read: no such file" in terminal.refused(f"why train --journal {tmp_path / 'none'}")
    refused = terminal.refused(f"why train --history -f {tmp_path / 'none'}")
    assert refused == "ringwise: manifests have no history; use --journal FILE, or query a lab\n"


@pytest.mark.parametrize(
    ("labels", "faults"),
    [
        (
            POD_LEVEL,
            ["train-worker-1: node node-1 is reported as unhealthy, because of its switches"],
        ),
        (
            {},
            ["the switches of node-1 are reported as UnHealthy", "the switches of node-1 are healthy again"],
        ),
    ],
    ids=["handled", "not handled"],
)
def test_a_fault_of_a_switch_is_told(tmp_path: Path, labels: dict[str, str], faults: list[str]) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(4)):
        terminal.submit(fault_job("train", 2, **labels))
        terminal.ok("advance 1m")
        terminal.ok("fault inject switch node-1")
        terminal.ok("advance 1m")
        terminal.ok("fault clear switch node-1")
        terminal.ok("advance 1m")
        history = terminal.json("why train --history")
    assert history["faults"] == 1
    told = [entry["message"] for entry in history["entries"] if entry["kind"] in ("fault", "recovered")]
    assert told[: len(faults)] == faults


@pytest.mark.usefixtures("fixed_start")
def test_the_history_of_a_job_lists_its_runs(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, columns=120)
    with with_copies(tmp_path, nodes(2)):
        terminal.submit(job("train", 1, 4, minutes=30))
        terminal.submit(job("waits", 3, 8))
        terminal.ok("advance 1m")
        first = terminal.seats()["lab/train-worker-0"][0]
        second = "node-1" if first == "node-0" else "node-0"
        terminal.ok(f"drain {first} --yes")
        terminal.ok("advance 5m")
        terminal.ok("suspend train")
        terminal.ok("advance 1m")
        terminal.ok("resume train")
        terminal.ok("advance 1h")
        runs = terminal.json("history train")["runs"]
        table = terminal.ok("history train")
        assert "submitted" in terminal.ok("events train")
        assert terminal.ok("history waits") == "it has not run yet\n"
    assert [(run["state"], run["nodes"]) for run in runs] == [
        ("Requeued", [first]),
        ("Suspended", [second]),
        ("Completed", [second]),
    ]
    assert f"{first} is cordoned" in runs[0]["reason"]
    assert runs[2]["end"] - runs[2]["start"] >= 30 * 60 * SECOND
    assert runs[0]["start"] < runs[0]["end"] <= runs[1]["start"]
    assert table.splitlines()[0].split() == ["start", "end", "elapsed", "state", "nodes", "reason"]


@pytest.mark.usefixtures("fixed_start")
def test_a_run_and_a_start_of_the_report_last_while_a_pod_is_left(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, columns=120)
    with with_copies(tmp_path, nodes(3)):
        terminal.submit(job("train", 2, 8))
        terminal.ok("advance 1m")
        first, second = (terminal.seats()[f"lab/train-worker-{number}"][0] for number in (0, 1))
        terminal.ok(f"drain {first} --yes")
        terminal.ok("advance 5m")
        (third,) = {"node-0", "node-1", "node-2"} - {first, second}
        runs = terminal.json("history train")["runs"]
        assert [(run["state"], run["nodes"]) for run in runs] == [("Running", sorted([second, third]))]
        terminal.ok("suspend train")
        terminal.ok("advance 1m")
        terminal.ok(f"uncordon {first}")
        terminal.ok("resume train")
        terminal.ok("advance 1m")
        runs = terminal.json("history train")["runs"]
        (row,) = terminal.json("report --group-by job")["rows"]
    assert [run["state"] for run in runs] == ["Suspended", "Running"]
    assert row["starts"] == len(runs)


def test_what_lasts_is_counted_until_now_and_not_until_the_last_turn(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, replace(nodes(2), speed=1000.0)) as server:
        terminal.submit(job("train", 1, 8))
        terminal.submit(job("waits", 3, 8))
        time.sleep(1)
        before = server.live.now
        history = terminal.json("events waits")
        runs = terminal.json("history train")
    assert history["pending_seconds"] >= (before - history["entries"][0]["nanoseconds"]) / SECOND
    assert nanoseconds(runs["until"]) >= before // SECOND * SECOND
