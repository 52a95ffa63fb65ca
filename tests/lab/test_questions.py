"""Long questions run beside the lab, end with their asker and have a budget; lists search for nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ringwise.apps import forked_queries
from ringwise.apps.lab import maintenance
from ringwise.apps.lab.api import LabServer
from ringwise.apps.lab.client import LabClient, RefusedByLabError
from ringwise.apps.lab.folder import LabFolder
from ringwise.apps.lab.queries import QUERIES, LabAnswers
from ringwise.embed.records import ObjectRefusedError
from ringwise.scheduler.explain import capacity as capacity_module
from ringwise.scheduler.explain import fix_search, why
from tests.apps.test_forked_queries import Gate, no_children
from tests.builders.values import SECOND
from tests.lab.rig import Terminal, job, nodes, with_copies

LISTS = (
    "get jobs",
    "get pods",
    "get nodes",
    "get queues",
    "top --once",
    "describe queue default",
    "describe node node-0",
)


def test_a_list_tries_nothing_in_the_process_that_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(1)) as server:
        terminal.submit(job("runs", 1, 8), *(job(f"waits-{n}", 1, 8) for n in range(5)), job("bad", 1, 3))
        sessions: list[int] = []
        opened = type(server.live.view.what_if).open_session

        def counted(self: Any, now: int, *pending: Any) -> Any:
            sessions.append(now)
            return opened(self, now, *pending)

        monkeypatch.setattr(type(server.live.view.what_if), "open_session", counted)
        for command in LISTS:
            terminal.json(command)
            terminal.ok(command)
            assert sessions == [], command
        # The same count sees a question that tries something here.
        monkeypatch.setattr("ringwise.apps.lab.api.LONG_QUERIES", frozenset())
        terminal.json("why waits-0")
        assert sessions


def test_a_list_shows_the_reason_that_a_job_has(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(1)):
        terminal.submit(job("runs", 1, 8), job("waits", 1, 8), job("bad", 1, 3))
        rows = {row["name"]: row for row in terminal.json("get jobs")["jobs"]}
        told = terminal.json("why waits")["reason"]
        assert rows["waits"]["reason"] == {**told, "fixes": []}
        assert told["fixes"]
        assert (rows["bad"]["state"], rows["bad"]["reason"]["code"]) == ("rejected", "request-not-allowed")
        assert rows["bad"]["board_reason"]
        (pod,) = (row for row in terminal.json("get pods")["pods"] if row["job"] == "lab/waits")
        assert pod["reason"]["code"] == told["code"]


def test_the_document_of_one_job_has_the_fixes_that_describe_and_why_have(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(2)):
        terminal.submit(job("train", 1, 8))
        terminal.ok("advance 1m")
        terminal.submit(job("large", 2, 8), job("other", 2, 8))
        terminal.ok("advance 1m")
        (row,) = terminal.json("get job large")["jobs"]
        described = terminal.json("describe job large")
        rows = terminal.json("get jobs")["jobs"]
    assert row["reason"]["fixes"] == described["reason"]["fixes"] != []
    # A list of all jobs tries none.
    assert [one["reason"]["fixes"] for one in rows if one["reason"]] == [[], []]


def test_a_list_says_when_jobs_start_as_why_does(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(1)) as server:
        terminal.submit(*(job(name, 1, 8, minutes=60) for name in ("runs", "waits-0", "waits-1")))
        terminal.ok("advance 60s")
        found = {one["name"]: one["expected_start"] for one in terminal.json("get jobs")["jobs"]}
        assert found["runs"] is None
        assert found["waits-0"]["latest"] + 3600 * SECOND == found["waits-1"]["latest"]
        for name in ("waits-0", "waits-1"):
            assert terminal.json(f"why {name}")["expected_start"] == found[name]
            assert terminal.json(f"describe job {name}")["expected_start"] == found[name]
        table = terminal.ok("get jobs")
        assert "starts in" in table
        assert " 59m " in table
        assert " 1h59m " in table
        # Without room for a copy: what was found last, here nothing.
        server._forked_queries._most = server._forked_queries._free = 0
        assert [one["expected_start"] for one in terminal.json("get jobs")["jobs"]] == [None] * 3


@pytest.mark.parametrize("refused", [False, True])
def test_a_client_is_told_of_the_progress_of_a_long_question(
    refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer, or the refusal, is the same as without."""
    gate, told = Gate(), list[int]()
    monkeypatch.setattr(forked_queries, "REPORT_EVERY", 0.01)

    def query(answers: LabAnswers, parameters: Any) -> Any:
        answers.live.view.what_if.open_session(answers.now).statement().discard()
        gate.work()
        if refused:
            raise ObjectRefusedError("no such switch")
        return {"plan": 1}

    def tell(tried: int) -> None:
        told.append(tried)
        if tried:
            gate.open()

    monkeypatch.setitem(QUERIES, "drain-plan", query)
    with with_copies(tmp_path, nodes(1)):
        client = LabClient(tmp_path)
        client.on_progress = tell
        if refused:
            with pytest.raises(RefusedByLabError, match="no such switch"):
                client.ask("drain-plan")
        else:
            assert client.ask("drain-plan") == {"plan": 1}
        assert told[-1] == 1
        # Who does not ask for it gets the answer alone.
        client.on_progress = None
        gate.open()
        if not refused:
            assert client.ask("drain-plan") == {"plan": 1}


def test_submit_is_acknowledged_before_the_jobs_are_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that has the acknowledgment does not report a failure if the explanations take too long."""
    gate, terminal, do = Gate(), Terminal(tmp_path), LabClient.do

    def times_out_after_acknowledgment(client: LabClient, action: str, request: msgspec.Struct) -> Any:
        acknowledged = client.on_progress
        assert acknowledged is not None

        def progress(tried: int) -> None:
            acknowledged(tried)
            raise TimeoutError

        client.on_progress = progress
        return do(client, action, request)

    monkeypatch.setattr(LabServer, "_explained", lambda *_: gate.work())
    monkeypatch.setattr(LabClient, "do", times_out_after_acknowledgment)
    with with_copies(tmp_path, nodes(1)):
        ran = terminal.run("submit -", job("pretrain", 2, 8))
        assert ran.exit_code == 0
        assert ran.stderr.endswith(
            "note: 1 object stored; the lab did not explain the jobs in time: see ringwise get jobs\n"
        )
        assert "lab/pretrain" in terminal.ok("get jobs")
        gate.open()


def test_a_question_whose_asker_goes_ends_and_the_lab_answers_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, terminal = Gate(), Terminal(tmp_path)
    monkeypatch.setitem(QUERIES, "drain-plan", lambda answers, parameters: gate.work())
    with with_copies(tmp_path, nodes(1)):
        asker = LabFolder(tmp_path).connect(60)
        asker.sendall(b"POST /v1/queries/drain-plan HTTP/1.1\r\nHost: lab\r\nContent-Length: 2\r\n\r\n{}")
        gate.wait()
        # Two copies at once: the lab itself, and another question.
        terminal.submit(job("runs", 1, 8))
        assert terminal.json("why runs")["state"] in ("starting", "running")
        assert not no_children()
        asker.close()
        while not no_children():
            terminal.ok("get nodes")


def test_too_many_questions_are_refused_with_a_sentence(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(1)) as server:
        server._forked_queries._most = server._forked_queries._free = 0
        # What was submitted is stored, with the reasons that need no search.
        answer = terminal.submit(job("runs", 1, 8), job("waits", 1, 8))
        assert [one["name"] for one in answer["jobs"]] == ["runs", "waits"]
        assert answer["jobs"][1]["reason"]["fixes"] == []
        said = terminal.refused("why waits")
        assert said == "ringwise: too many concurrent queries; try again in a few seconds\n"
        assert len(terminal.json("get jobs")["jobs"]) == 2


def test_questions_leave_the_journal_and_the_store_of_the_lab_alone(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(2, leaf_size=1)) as server:
        terminal.submit(job("runs", 1, 8, minutes=5), job("waits", 2, 8))
        terminal.ok("advance 1m")
        version = server.live.cluster.table.version
        for question in (
            "why waits",
            "capacity",
            "drain switch/172.0.0.0 --plan",
            "doctor",
            "describe job waits",
        ):
            terminal.json(question)
        assert server.live.cluster.table.version == version
        assert no_children()
        terminal.ok("advance 10m")
        assert "lab/waits-worker-1" in terminal.seats()
    assert "identical" in terminal.ok(f"replay {tmp_path / 'journal.jsonl'}")


# -- budgets -----------------------------------------------------------------------------------------


def test_a_search_that_used_its_steps_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(4)):
        terminal.submit(*(job(f"runs-{n}", 1, 8) for n in range(4)), job("waits", 4, 8))
        whole = terminal.json("why waits")
        assert "omitted" not in whole
        monkeypatch.setattr(why, "SearchBudget", lambda **more: fix_search.SearchBudget(60, 60, **more))
        cut = terminal.json("why waits")
        assert cut["omitted"] == ["further fixes: the search has used its steps"]
        assert cut["reason"]["code"] == whole["reason"]["code"]
        assert len(cut["fixes"]) < len(whole["fixes"])
        assert "not checked: further fixes" in terminal.ok("why waits")


def test_a_count_that_used_its_steps_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(4)):
        (whole,) = terminal.json("capacity")["boards"]
        assert "omitted" not in whole
        monkeypatch.setattr(capacity_module, "CAPACITY_STEPS", 20)
        (cut,) = terminal.json("capacity")["boards"]
        assert cut["omitted"] == ["some numbers are too low: the count has used its steps"]
        assert [shape["jobs"] for shape in whole["shapes"][:2]] == [32, 16]
        assert [shape["jobs"] for shape in cut["shapes"][:2]] == [20, 0]
        assert "not checked: some numbers are too low" in terminal.ok("capacity")


def test_a_plan_that_used_its_steps_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(2)):
        terminal.submit(job("short", 1, 8, minutes=30))
        terminal.submit(job("long", 1, 8))
        terminal.ok("advance 10m")
        where = terminal.seats()["lab/long-worker-0"][0]
        whole = terminal.json(f"drain {where} --plan --force")
        assert (whole["jobs"][0]["pending_seconds"], "omitted" in whole) == (1202.0, False)
        monkeypatch.setattr(maintenance, "JOB_STEPS", 4)
        monkeypatch.setattr(maintenance, "PLAN_STEPS", 4)
        cut = terminal.json(f"drain {where} --plan --force")
        assert (cut["jobs"][0]["result"], cut["jobs"][0]["pending_seconds"]) == ("pending", None)
        (sentence,) = cut["omitted"]
        assert sentence.endswith("the plan has used its steps; a job that waits may start later")
        assert "not checked: what happens after" in terminal.ok(f"drain {where} --plan --force")


def test_a_plan_leaves_out_a_large_backlog_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(3)):
        terminal.submit(job("first", 1, 8), job("second", 1, 8))
        terminal.submit(*(job(f"waits-{n}", 2, 8) for n in range(3)))
        terminal.ok("advance 1m")
        where = terminal.seats()["lab/first-worker-0"][0]
        whole = terminal.json(f"drain {where} --plan")
        monkeypatch.setattr(maintenance, "MAX_WAITING", 2)
        cut = terminal.json(f"drain {where} --plan")
        assert cut.pop("omitted") == ["3 jobs that wait are left out: what is free now may be theirs"]
        assert cut == whole
        assert json.dumps(terminal.json("get jobs")).count('"pending"') == 3
