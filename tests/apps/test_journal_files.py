"""The journal of the component: rotated, cut off, on a full disk, after a restart; decided again and told."""

from __future__ import annotations

import io
import json
import resource
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ringwise.apps.extensions import new_scheduler
from ringwise.apps.job_history import history_of
from ringwise.apps.journal import files as journal_files
from ringwise.apps.journal.files import JournalFiles
from ringwise.apps.journal.format import JournalError, batch_line, open_journal, rotated_files
from ringwise.apps.replay import replay
from ringwise.cli.commands import cli
from ringwise.log import LEVELS, Logger
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind
from ringwise.metrics.prometheus import Metrics
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.journal import Batch
from tests.builders.values import SECOND, gang, node, seen
from tests.metric_text import values_of
from tests.timeouts import TEST_TIMEOUT

NOW = 1_800_000_000 * SECOND


class Dropped(Metrics):
    @property
    def turns(self) -> float:
        return values_of(self, "ringwise_journal_dropped_turns_total")[""]


class Component:
    """A scheduler with a journal, as the component has one."""

    def __init__(self, path: Path, most_bytes: int = 1 << 20, files: int = 4) -> None:
        self.dropped = Dropped()
        self.now = NOW
        self.monotonic = 0.0
        self.journal = JournalFiles(
            path, self.dropped, most_bytes=most_bytes, files=files, monotonic=lambda: self.monotonic
        )
        self.scheduler = self.start()

    def start(self) -> Scheduler:
        self.scheduler = new_scheduler()
        self.journal.follow(self.scheduler)
        self.scheduler.handle(seen([node(f"node-{at}") for at in range(3)]), self.now, ev.Decide.NOTHING)
        return self.scheduler

    def turn(self, *known: object) -> dict[str, Bind]:
        """One turn, after all before are written; the bindings by pod."""
        self.written()
        self.now += SECOND
        commands = self.scheduler.handle(seen(*known), self.now)
        return {command.pod: command for command in commands if isinstance(command, Bind)}

    def written(self) -> None:
        deadline = time.monotonic() + TEST_TIMEOUT
        while self.journal.waiting:
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def new_job(self, name: str) -> list[Any]:
        return gang(name, 1, 8, uid=name, phase="Inqueue", created=self.now)

    def run_job(self, name: str) -> Bind:
        """A job of one pod that gets its node, runs and ends."""
        made = self.new_job(name)
        bind = self.turn(*made)[f"{name}-0"]
        self.turn(replace(made[1], node=bind.node, phase="Running", annotations=dict(bind.annotations)))
        self.turn(ev.PodGone(f"{name}-0"), ev.PodGroupGone(f"default/{name}"))
        return bind


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    stream = io.StringIO()
    monkeypatch.setattr(Logger, "_stream", stream)
    monkeypatch.setattr(Logger, "_written", frozenset(LEVELS))
    return stream


@pytest.fixture
def component(tmp_path: Path) -> Iterator[Callable[..., Component]]:
    made: list[Component] = []

    def make(path: Path = tmp_path / "journal.jsonl", **chosen: int) -> Component:
        made.append(Component(path, **chosen))
        return made[-1]

    yield make
    for one in made:
        one.journal.close()


def identical(path: Path) -> tuple[int, str]:
    """Batches that were decided again, all alike, and the note."""
    answer = replay(open_journal(path), shipped_catalog())
    assert answer.difference is None
    return answer.batches, answer.note or ""


def test_rotated_files_are_decided_again_as_one_journal(
    tmp_path: Path, component: Callable[..., Component]
) -> None:
    path = tmp_path / "journal.jsonl"
    one = component(most_bytes=16_000, files=50)
    for number in range(12):
        one.run_job(f"job-{number}")
    one.journal.close()
    assert len(rotated_files(path)) > 3
    assert identical(path) == (1 + 12 * 3, "")
    # A history goes over the files as over one.
    for number in range(12):
        kinds = [entry.kind for entry in history_of(f"job-{number}", [path]).history.entries]
        assert kinds == ["submitted", "scheduled", "running", "removed"]
    answer = CliRunner().invoke(cli, ["replay", str(path)])
    assert answer.output == "identical: 37 batches, 63 events, " + answer.output.split(", ")[2]


def test_the_files_are_bounded_and_the_reader_says_from_when_it_knows(
    tmp_path: Path, component: Callable[..., Component]
) -> None:
    path = tmp_path / "journal.jsonl"
    one = component(most_bytes=20_000, files=3)
    one.turn(*one.new_job("long"))
    for number in range(30):
        one.run_job(f"job-{number}")
    one.journal.close()
    kept = rotated_files(path)
    assert [file.name for file in kept] == ["journal.jsonl.2", "journal.jsonl.1", "journal.jsonl"]
    # One turn more, and the snapshot that a file begins with.
    assert sum(file.stat().st_size for file in kept) < 3 * 60_000
    with pytest.raises(JournalError, match=r"cannot be decided again: what came before"):
        replay(open_journal(path), shipped_catalog())
    answer = CliRunner().invoke(cli, ["replay", str(path)])
    assert answer.exit_code == 2
    assert answer.stderr.count("\n") == 1
    # Its beginning is rotated away; the snapshot tells where it runs.
    told = history_of("long", [path]).history
    assert [entry.kind for entry in told.entries] == ["submitted", "found"]
    # A new scheduler in the same files can be decided again.
    one = component(most_bytes=1 << 20, files=3)
    one.run_job("late")
    one.journal.close()
    batches, note = identical(path)
    assert batches == 1 + 3
    assert "cannot be decided again" in note


def test_fewer_files_than_before_leave_none_behind(
    tmp_path: Path, component: Callable[..., Component]
) -> None:
    path = tmp_path / "journal.jsonl"
    for most, kept in ((6, 6), (2, 2), (1, 1)):
        one = component(most_bytes=5_000, files=most)
        for number in range(10):
            one.run_job(f"job-{number}")
        one.journal.close()
        assert len(list(tmp_path.glob("journal.jsonl*"))) == kept + 1
        assert len(rotated_files(path)) == kept


def test_a_line_that_a_crash_cut_off_is_dropped_and_the_next_scheduler_goes_on(
    tmp_path: Path, component: Callable[..., Component], log: io.StringIO
) -> None:
    path = tmp_path / "journal.jsonl"
    one = component()
    one.run_job("before")
    one.journal.close()
    whole = path.read_bytes()
    cut = whole.rindex(b"\n", 0, -1) + 40
    path.write_bytes(whole[:cut])
    assert identical(path) == (3, f"{path}: line 5 is truncated and was skipped")
    one = component()
    one.run_job("after")
    one.journal.close()
    assert identical(path) == (3 + 4, "")
    assert log.getvalue().count("is truncated and is skipped") == 1
    kinds = [entry.kind for entry in history_of("before", [path]).history.entries]
    assert kinds == ["submitted", "scheduled", "running", "scheduler"]


@pytest.mark.parametrize("size", [0, 5, 100])
def test_a_file_that_was_cut_off_in_its_header_is_begun_again(
    tmp_path: Path, component: Callable[..., Component], size: int
) -> None:
    path = tmp_path / "journal.jsonl"
    component().journal.close()
    path.write_bytes(path.read_bytes()[:size])
    one = component()
    one.run_job("after")
    one.journal.close()
    assert identical(path) == (4, "")


def test_a_full_disk_costs_turns_of_the_journal_and_no_decision(
    tmp_path: Path, component: Callable[..., Component], log: io.StringIO
) -> None:
    path = tmp_path / "journal.jsonl"
    one = component()
    one.turn(*one.new_job("long"))
    one.written()
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The next line does not fit: a part of it is written.
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100, usual[1]))
    try:
        for number in range(3):
            assert one.run_job(f"lost-{number}").node
            # Each time it is tried again.
            one.monotonic += journal_files.RETRY_SECONDS
        one.written()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert one.dropped.turns == 9
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [line["why"] for line in lines if line["level"] == "error"] == ["File too large"]
    # Whole lines only, and nothing of the attempts.
    assert identical(path)[0] == 2
    one.monotonic += journal_files.RETRY_SECONDS
    one.turn()
    one.run_job("again")
    one.journal.close()
    batches, note = identical(path)
    assert batches == 2
    assert note.startswith("3 batches from ")
    assert one.dropped.turns == 10
    assert '"missing": 10' in log.getvalue()
    told = history_of("again", [path])
    assert [entry.kind for entry in told.history.entries] == ["submitted", "scheduled", "running", "removed"]
    assert len(told.notes) == 1
    # What ended in between is not told as if it were there.
    assert not history_of("long", [path]).history.removed


def test_a_folder_that_cannot_be_written_costs_no_decision(
    tmp_path: Path, component: Callable[..., Component], log: io.StringIO
) -> None:
    folder = tmp_path / "folder"
    folder.write_text("a file")
    one = component(folder / "journal.jsonl")
    assert one.run_job("lost").node
    one.written()
    assert one.dropped.turns == 4
    assert log.getvalue().count("the journal cannot be written") == 1
    folder.unlink()
    one.monotonic += journal_files.RETRY_SECONDS
    one.turn(*one.new_job("long"))
    one.turn()
    one.journal.close()
    assert [entry.kind for entry in history_of("long", [folder / "journal.jsonl"]).history.entries] == [
        "submitted",
        "found",
    ]


@pytest.mark.parametrize("what", ["folder", "file", "replaced"])
def test_a_journal_that_is_deleted_is_told_and_made_anew(
    what: str, tmp_path: Path, component: Callable[..., Component], log: io.StringIO
) -> None:
    path = tmp_path / "folder" / "journal.jsonl"
    one = component(path)
    assert one.run_job("first").node
    one.written()
    if what == "folder":
        shutil.rmtree(path.parent)
    else:
        path.unlink()
        if what == "replaced":
            path.write_bytes(b"")
    one.turn(*one.new_job("long"))
    one.turn()
    one.turn()
    one.written()
    assert one.dropped.turns == 2
    assert log.getvalue().count("it was deleted while in use; a new file is written") == 1
    assert log.getvalue().count("the journal is written again") == 1
    one.journal.close()
    assert "long" in path.read_text()
    assert [entry.kind for entry in history_of("long", [path]).history.entries] == ["submitted", "found"]


def test_of_two_processes_with_one_file_one_writes_and_the_other_takes_over(
    tmp_path: Path, component: Callable[..., Component], log: io.StringIO
) -> None:
    path = tmp_path / "journal.jsonl"
    leader = component()
    leader.written()
    standby = component()
    leader.run_job("first")
    standby.turn(*standby.new_job("second"))
    standby.written()
    assert standby.dropped.turns == 2
    assert "another process is writing to it" in log.getvalue()
    leader.journal.close()
    assert identical(path) == (4, "")
    standby.monotonic += journal_files.RETRY_SECONDS
    standby.turn()
    standby.turn()
    standby.journal.close()
    assert history_of("first", [path]).history.moved == 0
    assert [entry.kind for entry in history_of("second", [path]).history.entries] == ["submitted", "found"]


def test_turns_that_the_writer_cannot_keep_up_with_are_left_out(
    tmp_path: Path, component: Callable[..., Component], monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    may_write = threading.Event()

    def slow(batch: Batch) -> bytes:
        may_write.wait(30)
        return batch_line(batch)

    monkeypatch.setattr(journal_files, "batch_line", slow)
    monkeypatch.setattr(journal_files, "MAX_WAITING", 10)
    one = component()
    for _ in range(20):
        one.now += SECOND
        one.scheduler.handle((), one.now)
    assert 0 < one.journal.waiting <= 10
    assert one.dropped.turns > 10
    may_write.set()
    one.turn()
    one.run_job("again")
    one.journal.close()
    assert "the journal is written again" in log.getvalue()
    assert [entry.kind for entry in history_of("again", [tmp_path / "journal.jsonl"]).history.entries] == [
        "submitted",
        "scheduled",
        "running",
        "removed",
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("hello\n", "is not a journal file"),
        ("root:x:0:0:root:/root:/bin/bash\n", "is not a journal file"),
        ('{"format":"other"}\n', "is not a journal file"),
        (
            '{"format":"ringwise-journal","version":2,"x":1}\n',
            "unsupported version 2: this Ringwise reads version 1; use another file",
        ),
        (
            '{"format":"ringwise-journal","version":12,"x":1}\n',
            "unsupported version 12: this Ringwise reads version 1; use another file",
        ),
    ],
)
def test_a_file_that_cannot_be_continued_is_not_overwritten(
    tmp_path: Path, content: str, problem: str
) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(content)
    with pytest.raises(JournalError, match=problem):
        JournalFiles(path, Metrics())
    assert path.read_text() == content
    with pytest.raises(JournalError, match=r"is a directory"):
        JournalFiles(tmp_path, Metrics())
