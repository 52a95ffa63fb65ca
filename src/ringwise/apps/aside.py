"""Long questions, answered aside: by a copy of the process, never on the thread that decides.

`fork` gives a copy of the whole state between two turns in milliseconds; memory is copied page by page as
either side writes. The copy computes one answer, sends its bytes through a pipe and ends. It ends as well
when nobody waits for the answer any more. See docs/decisions/0018-questions-in-a-copy.md.
"""

from __future__ import annotations

import asyncio
import gc
import os
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVarTuple, Unpack

from ringwise.records import dataclass

#: Copies at once, and questions that may wait for their turn.
AT_ONCE, MAX_WAITING = 2, 8
#: Seconds of processor time after which a copy is ended: more than any budget of steps allows.
CPU_SECONDS = 120
#: What a fork costs the thread that decides: itself, and then up to some 25 times as much for the pages that
#: are copied when the thread writes to them. So nothing is forked for a multiple of its own time after it: a
#: sixth of the thread's time at most. A lab has more time for its users.
PAUSE, PAUSE_OF_LAB = 150.0, 10.0
_CHUNK = 1 << 16
_ANSWER, _FAILURE = b"A", b"F"

# The copy has one thread and calls nothing that the others may have held a lock of.
warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)

Arguments = TypeVarTuple("Arguments")


class TooManyQuestionsError(Exception):
    """Many wait already, or there is no memory for a copy."""

    def __init__(self, why: str = "too many questions at once; ask again in some seconds") -> None:
        super().__init__(why)


class QuestionFailedError(Exception):
    """The copy gave no answer."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A process that works on an answer, and the pipe that the answer comes through.

    Where nothing can be forked there is no process, and the answer is there already.
    """

    pid: int
    pipe: int
    answer: bytes = b""
    #: Seconds of processor time that the fork took.
    cost: float = 0.0

    def end(self) -> None:
        """Nobody wants the answer any more. Its reader still has to collect it."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def drop(self) -> None:
        self.end()
        with suppress(QuestionFailedError):
            self.collect()

    def collect(self) -> bytes:
        """Read until the copy has ended. For a thread of its own. Raises QuestionFailedError."""
        if not self.pid:
            return _answer_of(self.answer, 0)
        parts = []
        try:
            while part := os.read(self.pipe, _CHUNK):
                parts.append(part)
        finally:
            os.close(self.pipe)
            _, status = os.waitpid(self.pid, 0)
        return _answer_of(b"".join(parts), status)


def _answer_of(sent: bytes, status: int) -> bytes:
    if sent[:1] == _ANSWER:
        return sent[1:]
    if sent[:1] == _FAILURE:
        raise QuestionFailedError(sent[1:].decode(errors="replace"))
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        raise QuestionFailedError(f"no answer after {CPU_SECONDS} s of processor time")
    raise QuestionFailedError(f"the process that looked for the answer has ended (status {status})")


def copied(work: Callable[[Unpack[Arguments]], bytes], *arguments: *Arguments) -> Copy:
    """Run work in a copy of this process. For the thread that the state belongs to, between two turns.

    Raises TooManyQuestionsError where the machine allows no further process.
    """
    if not hasattr(os, "fork"):
        return Copy(0, -1, _worked(lambda: work(*arguments)))
    read, write = os.pipe()
    started = time.thread_time()
    try:
        pid = os.fork()
    except OSError as problem:
        os.close(read)
        os.close(write)
        raise TooManyQuestionsError(
            f"there is no room for another process now ({problem.strerror})"
        ) from None
    if pid == 0:
        try:
            _be_a_copy(write)
            _send(write, _worked(lambda: work(*arguments)))
        finally:
            # Nothing of the original is ended here: no handler runs, no buffer is written.
            os._exit(0)
    os.close(write)
    return Copy(pid, read, cost=time.thread_time() - started)


def _worked(work: Callable[[], bytes]) -> bytes:
    try:
        return _ANSWER + work()
    except BaseException as error:
        return _FAILURE + f"{type(error).__name__}: {error}".encode()


def _send(pipe: int, answer: bytes) -> None:
    left = memoryview(answer)
    while left:
        left = left[os.write(pipe, left) :]


def _be_a_copy(pipe: int) -> None:
    """What the original has open is not the copy's: sockets, its journal, its database, its lock."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    os.closerange(3, pipe)
    os.closerange(pipe + 1, os.sysconf("SC_OPEN_MAX"))
    # A look for garbage would write to every page.
    gc.freeze()
    gc.enable()
    # What decides has precedence.
    os.nice(10)
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    threading.Thread(target=_end_with_the_reader, args=(pipe,), daemon=True).start()


def _end_with_the_reader(pipe: int) -> None:
    """The original has ended or has closed its side: nobody waits."""
    watched = select.poll()
    watched.register(pipe, 0)
    watched.poll()
    os._exit(1)


class _Handover:
    """From the thread that forks to the event loop, whose asker may be gone by then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = True
        self._given: Copy | None = None

    def give(self, copy: Copy) -> Copy:
        with self._lock:
            self._given, wanted = copy, self._wanted
        if not wanted:
            copy.drop()
        return copy

    def refuse(self) -> None:
        with self._lock:
            self._wanted, given = False, self._given
        if given is not None:
            given.drop()


class Aside:
    """Some copies at once; further questions wait, and more than that are refused."""

    def __init__(self, at_once: int = AT_ONCE, waiting: int = MAX_WAITING, pause: float = PAUSE) -> None:
        """`pause`: for how many times as long as a fork takes none follows it."""
        self._pause = pause
        self._slots = asyncio.Semaphore(at_once)
        self._most = waiting
        self._waiting = 0
        self._next_fork = 0.0
        self._copies: set[Copy] = set()
        self._collecting: set[asyncio.Task[None]] = set()

    async def answer(
        self,
        between_turns: Callable[[Callable[[Unpack[Arguments]], Copy]], Awaitable[Copy]],
        work: Callable[[Unpack[Arguments]], bytes],
    ) -> bytes:
        """The bytes that `work` returns in a copy. It is ended when the caller is cancelled.

        `between_turns` calls what it is given on the thread of the state. Raises TooManyQuestionsError and
        QuestionFailedError, and what `between_turns` raises.
        """
        if self._waiting >= self._most:
            raise TooManyQuestionsError
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        try:
            copy = await self._forked(between_turns, work)
        except BaseException:
            self._slots.release()
            raise
        self._copies.add(copy)
        found: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        collecting = asyncio.create_task(self._collect(copy, found), name="question")
        self._collecting.add(collecting)
        collecting.add_done_callback(self._collecting.discard)
        try:
            return await found
        finally:
            # Without effect where it has ended.
            if copy in self._copies:
                copy.end()

    async def _forked(
        self,
        between_turns: Callable[[Callable[[Unpack[Arguments]], Copy]], Awaitable[Copy]],
        work: Callable[[Unpack[Arguments]], bytes],
    ) -> Copy:
        clock = asyncio.get_running_loop().time
        while (pause := self._next_fork - clock()) > 0:
            await asyncio.sleep(pause)

        handover = _Handover()

        def fork(*arguments: *Arguments) -> Copy:
            return handover.give(copied(work, *arguments))

        try:
            copy = await between_turns(fork)
        except BaseException:
            # The asker has gone before it was forked, or meanwhile.
            handover.refuse()
            raise
        self._next_fork = clock() + self._pause * copy.cost
        return copy

    async def _collect(self, copy: Copy, found: asyncio.Future[bytes]) -> None:
        try:
            answer = await asyncio.to_thread(copy.collect)
            if not found.done():
                found.set_result(answer)
        except QuestionFailedError as error:
            if not found.done():
                found.set_exception(error)
        finally:
            self._copies.discard(copy)
            self._slots.release()
