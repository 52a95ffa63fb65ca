"""Questions that a copy of the process answers: they end with their asker, and are limited in number."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ringwise.apps import forked_queries as module
from ringwise.apps.extensions import new_scheduler
from ringwise.apps.forked_queries import (
    Copy,
    ForkedQueries,
    QuestionFailedError,
    TooManyQuestionsError,
    copied,
)
from ringwise.apps.journal.files import JournalFiles
from ringwise.metrics.prometheus import Metrics
from ringwise.scheduler.core.machine import Scheduler
from tests.builders.values import node, pod, seen
from tests.scheduler.rig import NOW


async def here(fork: Callable[[], list[Copy]]) -> list[Copy]:
    return fork()


def one_copy(work: Callable[[], bytes]) -> Copy:
    (copy,) = copied([work])
    return copy


def no_children() -> bool:
    """No copy is left, not even one that has ended and was not collected."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


class Gate:
    """Work in a copy that says that it has begun and goes on when it may, or never."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._begun, self._begin = os.pipe()
        self._ends, self._end = os.pipe()

    def work(self) -> bytes:
        # A copy has closed what it inherits, so it opens both again by the names of its parent's.
        begin = os.open(f"/proc/{self._owner}/fd/{self._begin}", os.O_WRONLY)
        ends = os.open(f"/proc/{self._owner}/fd/{self._ends}", os.O_RDONLY)
        os.write(begin, b".")
        return os.read(ends, 1)

    def wait(self) -> None:
        """Until the work has begun."""
        os.read(self._begun, 1)

    async def begun(self) -> None:
        await asyncio.to_thread(self.wait)

    def open(self) -> None:
        os.write(self._end, b".")


async def test_the_answer_comes_from_another_process_with_the_state_of_now() -> None:
    state = ["before"]
    forked_queries = ForkedQueries(pause=0)
    answer = await forked_queries.answer(here, lambda: f"{os.getpid()} {state[0]}".encode())
    pid, _, found = answer.decode().partition(" ")
    assert (int(pid) != os.getpid(), found) == (True, "before")

    def change() -> bytes:
        state.append("after")
        return b""

    # What the copy changes is its own.
    await forked_queries.answer(here, change)
    assert state == ["before"]
    large = await forked_queries.answer(here, lambda: b"x" * 3_000_000)
    assert len(large) == 3_000_000
    assert no_children()


async def test_a_failure_of_the_copy_is_told() -> None:
    forked_queries = ForkedQueries(pause=0)
    with pytest.raises(QuestionFailedError, match="ZeroDivisionError: "):
        await forked_queries.answer(here, lambda: bytes(1 // 0))
    with pytest.raises(QuestionFailedError, match="computed the answer exited"):
        await forked_queries.answer(here, lambda: os._exit(3))
    assert await forked_queries.answer(here, lambda: b"next") == b"next"
    assert no_children()


async def test_a_question_ends_when_its_asker_goes() -> None:
    forked_queries, gate = ForkedQueries(at_once=1, pause=0), Gate()
    asking = asyncio.create_task(forked_queries.answer(here, gate.work))
    await gate.begun()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    # The gate never opened: the next answer comes because the copy was ended.
    assert await forked_queries.answer(here, lambda: b"next") == b"next"
    assert no_children()


def test_a_copy_ends_with_the_process_that_made_it() -> None:
    """Its reader closes the pipe: so it is when that process is killed."""
    gate = Gate()
    copy = one_copy(gate.work)
    gate.wait()
    os.close(copy._pipe)
    _, status = os.waitpid(-1, 0)
    assert os.waitstatus_to_exitcode(status) == 1


async def test_an_asker_that_goes_before_the_fork_leaves_no_copy() -> None:
    forked_queries, asked, go = ForkedQueries(pause=0), asyncio.Event(), threading.Event()
    made: list[Copy] = []

    def on_another_thread(fork: Callable[[], list[Copy]]) -> list[Copy]:
        go.wait()
        made.extend(fork())
        return made

    async def between_turns(fork: Callable[[], list[Copy]]) -> list[Copy]:
        working = asyncio.get_running_loop().run_in_executor(None, on_another_thread, fork)
        asked.set()
        return await working

    asking = asyncio.create_task(forked_queries.answer(between_turns, lambda: os.read(0, 1) * 0))
    await asked.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    go.set()
    while not (made and no_children()):
        await asyncio.sleep(0)
    assert no_children()


async def test_more_questions_wait_and_still_more_are_refused() -> None:
    forked_queries, gate = ForkedQueries(at_once=1, waiting=2, pause=0), Gate()
    first = asyncio.create_task(forked_queries.answer(here, gate.work))
    await gate.begun()
    later = [asyncio.create_task(forked_queries.answer(here, lambda: b"later")) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyQuestionsError, match="too many concurrent queries; try again"):
        await forked_queries.answer(here, lambda: b"too many")
    gate.open()
    assert await asyncio.gather(first, *later) == [b".", b"later", b"later"]
    assert no_children()


async def test_those_that_wait_are_answered_by_one_copy_each_by_itself() -> None:
    forked_queries, forks, gates = ForkedQueries(at_once=3, pause=0), [], [Gate() for _ in range(2)]

    async def between_turns(fork: Callable[[], list[Copy]]) -> list[Copy]:
        forks.append(1)
        return fork()

    asking = [asyncio.create_task(forked_queries.answer(between_turns, gate.work)) for gate in gates]
    short = asyncio.create_task(forked_queries.answer(between_turns, lambda: b"short"))
    assert await short == b"short"
    await gates[0].begun()
    await gates[1].begun()
    assert len(forks) == 1
    # One asker goes: the other gets its answer.
    asking[0].cancel()
    gates[1].open()
    assert await asking[1] == b"."
    with pytest.raises(asyncio.CancelledError):
        await asking[0]
    while not no_children():
        await asyncio.sleep(0)


async def test_a_copy_says_how_many_placements_it_has_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the question: every try is a statement. What the original tried before does not count."""
    monkeypatch.setattr(module, "REPORT_EVERY", 0.01)
    scheduler: Scheduler = new_scheduler()
    scheduler.handle(seen(node("node-1"), pod("placed", 1)), NOW)
    gate, told = Gate(), list[int]()

    def work() -> bytes:
        session = scheduler.view.what_if.open_session(NOW)
        for _ in range(3):
            session.statement().discard()
        return gate.work() + b"P9\n"

    async def progress(tried: int) -> None:
        told.append(tried)
        if tried == 3:
            gate.open()

    # The gate opens when all were told: there is no answer without progress.
    assert await ForkedQueries(pause=0).answer(here, work, progress) == b".P9\n"
    assert no_children()
    assert told == sorted(told)
    assert set(told) <= {0, 1, 2, 3}


async def test_who_cannot_be_told_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REPORT_EVERY", 0.01)

    async def progress(tried: int) -> None:
        raise ConnectionResetError

    forked_queries, gate = ForkedQueries(at_once=1, pause=0), Gate()
    with pytest.raises(ConnectionResetError):
        await forked_queries.answer(here, gate.work, progress)
    assert await forked_queries.answer(here, lambda: b"next") == b"next"
    assert no_children()


async def test_where_no_process_can_be_made_the_question_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory() -> int:
        raise OSError(12, "Cannot allocate memory")

    forked_queries = ForkedQueries(at_once=1, pause=0)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fork", no_memory)
        with pytest.raises(TooManyQuestionsError, match="Cannot allocate memory"):
            await forked_queries.answer(here, lambda: b"")
    assert await forked_queries.answer(here, lambda: b"next") == b"next"


async def test_a_system_without_fork_answers_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    assert (
        await ForkedQueries(pause=0).answer(here, lambda: str(os.getpid()).encode())
        == str(os.getpid()).encode()
    )


def test_a_copy_writes_nothing_to_the_journal(tmp_path: Path) -> None:
    """What the original has open is closed in the copy, whatever the copy does with it."""
    path = tmp_path / "journal.jsonl"
    journal = JournalFiles(path, Metrics())
    scheduler: Scheduler = new_scheduler()
    journal.follow(scheduler)
    scheduler.handle(seen(node("node-1")), NOW)

    def work() -> bytes:
        scheduler.handle(seen(pod("of-the-copy", 1)), NOW + 1)
        return b"decided"

    assert one_copy(work).collect() == b"decided"
    scheduler.handle(seen(pod("of-the-original", 1)), NOW + 2)
    journal.close()
    written = path.read_text()
    assert "of-the-original" in written
    assert "of-the-copy" not in written


@pytest.mark.full
def test_a_copy_has_a_limit_of_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CPU_SECONDS", 1)

    def forever() -> bytes:
        while True:
            pass

    with pytest.raises(QuestionFailedError, match="no result after 1s of CPU time"):
        one_copy(forever).collect()
