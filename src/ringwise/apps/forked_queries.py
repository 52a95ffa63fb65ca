"""Long questions, answered aside: by a copy of the process, never on the thread that decides.

`fork` gives a copy of the whole state between two turns in milliseconds; memory is copied page by page as
either side writes. The copy computes one answer, sends its bytes through a pipe and ends. It ends as well
when no client waits for the answer. See docs/develop/decisions/0019-questions-in-a-copy.md.
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
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

from ringwise.framework.statement import Statement

#: Seconds between two reports of the placements that a copy has tried.
REPORT_EVERY = 1.0
#: Copies at once, and questions that may wait for their turn.
AT_ONCE, MAX_WAITING = 4, 8
#: Seconds of processor time after which a copy is ended: more than any budget of steps allows.
CPU_SECONDS = 120
#: What a fork costs the thread that decides: itself, and then up to some 25 times as much for the pages that
#: are copied when the thread writes to them. So nothing is forked for a multiple of its own time after it: a
#: sixth of the thread's time at most. A lab has more time for its users.
PAUSE, PAUSE_OF_LAB = 150.0, 10.0
_CHUNK = 1 << 16
_ANSWER, _FAILURE, _END = b"A", b"F", b"."
#: Before the answer: lines with the number of placements tried so far.
_PROGRESS, _LINE = b"P", b"\n"

# The copy has one thread and calls nothing that the others may have held a lock of.
warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)

#: What is asked; its arguments are given to it on the thread of the state.
Work = Callable[..., bytes]
#: Gets the number of placements that were tried, while the answer is computed.
Progress = Callable[[int], Awaitable[None]]


class TooManyQuestionsError(Exception):
    """Many wait already, or there is no memory for a copy."""

    def __init__(self, why: str = "too many concurrent queries; try again in a few seconds") -> None:
        super().__init__(why)


class QuestionFailedError(Exception):
    """The copy gave no answer."""


class _Process:
    """A copy of this process with one or several answers to give; it is collected with the last of them."""

    def __init__(self, pid: int, answers: int) -> None:
        self._pid = pid
        self._left = answers
        self._lock = threading.Lock()

    def answer_ended(self) -> int:
        """The status of the process, once no answer is left; else 0."""
        with self._lock:
            self._left -= 1
            left = self._left
        return 0 if left else os.waitpid(self._pid, 0)[1]


class Copy:
    """An answer that another process works on, and the pipe that it comes through."""

    def __init__(self, process: _Process | None, pipe: int, cost: float = 0.0, answer: bytes = b"") -> None:
        """Where nothing can be forked there is no process, and the answer is there already."""
        self._process = process
        self._pipe = pipe
        self._answer = answer
        self._unwanted, self._end = os.pipe() if process is not None else (-1, -1)
        #: Seconds of processor time that the fork took.
        self.cost = cost

    def end(self) -> None:
        """No client waits for the answer."""
        if self._process is not None:
            os.write(self._end, b".")

    def collect(self, progress: Callable[[int], object] = lambda tried: None) -> bytes:
        """Read until the answer is there or unwanted. For a thread of its own. Raises QuestionFailedError."""
        if self._process is None:
            return _answer_of(self._answer, 0)
        parts: list[bytes] = []
        watched = select.poll()
        for pipe in (self._pipe, self._unwanted):
            watched.register(pipe, select.POLLIN)
        while True:
            ready = {pipe for pipe, _ in watched.poll()}
            if self._unwanted in ready or not (part := os.read(self._pipe, _CHUNK)):
                break
            parts.append(part)
            while parts and parts[0][:1] == _PROGRESS and _LINE in (begun := b"".join(parts)):
                line, _, rest = begun.partition(_LINE)
                parts = [rest] if rest else []
                progress(int(line[1:]))
        # Who works on it ends with this.
        os.close(self._pipe)
        status = self._process.answer_ended()
        return _answer_of(b"".join(parts), status)

    def close(self) -> None:
        """After it was collected: it can no longer be ended."""
        if self._process is not None:
            os.close(self._unwanted)
            os.close(self._end)
            self._process = None


def _answer_of(sent: bytes, status: int) -> bytes:
    if sent[:1] == _ANSWER and sent[-1:] == _END:
        return sent[1:-1]
    if sent[:1] == _FAILURE:
        raise QuestionFailedError(sent[1:].decode(errors="replace"))
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        raise QuestionFailedError(f"no result after {CPU_SECONDS}s of CPU time")
    raise QuestionFailedError("the process that computed the answer exited")


def copied(works: Sequence[Callable[[], bytes]]) -> list[Copy]:
    """Run each work in a copy of this process. For the thread that the state belongs to, between two turns.

    This process is forked once; the copy forks itself for each work but one.
    Raises TooManyQuestionsError where the machine allows no further process.
    """
    if not hasattr(os, "fork"):
        return [Copy(None, -1, answer=_worked(work)) for work in works]
    pipes = [os.pipe() for _ in works]
    started = time.thread_time()
    try:
        pid = os.fork()
    except OSError as problem:
        for pipe in pipes:
            os.close(pipe[0])
            os.close(pipe[1])
        raise TooManyQuestionsError(f"cannot start another process ({problem.strerror})") from None
    if pid == 0:
        status = 1
        try:
            status = _answer_all([write for _, write in pipes], works)
        finally:
            # Nothing of the original is ended here: no handler runs, no buffer is written.
            os._exit(status)
    cost = time.thread_time() - started
    process = _Process(pid, len(works))
    for _, write in pipes:
        os.close(write)
    return [Copy(process, read, cost) for read, _ in pipes]


def _answer_all(pipes: Sequence[int], works: Sequence[Callable[[], bytes]]) -> int:
    """In the copy. It waits for what it has forked; the exit status is that of the only one."""
    _be_a_copy(pipes)
    if len(works) == 1:
        _answer(pipes[0], works[0])
        return 0
    forked = []
    for pipe, work in zip(pipes, works, strict=True):
        pid = os.fork()
        if pid == 0:
            try:
                for other in pipes:
                    if other != pipe:
                        os.close(other)
                _answer(pipe, work)
            finally:
                os._exit(0)
        forked.append(pid)
    for pipe in pipes:
        os.close(pipe)
    for pid in forked:
        os.waitpid(pid, 0)
    return 0


def _answer(pipe: int, work: Callable[[], bytes]) -> None:
    sending = threading.Lock()
    threading.Thread(target=_beside_the_work, args=(pipe, sending), daemon=True).start()
    answer = _worked(work)
    # Nothing else is sent from here on.
    sending.acquire()
    _send(pipe, answer)


def _worked(work: Callable[[], bytes]) -> bytes:
    try:
        return _ANSWER + work() + _END
    except BaseException as error:
        return _FAILURE + f"{type(error).__name__}: {error}".encode()


def _send(pipe: int, answer: bytes) -> None:
    left = memoryview(answer)
    while left:
        left = left[os.write(pipe, left) :]


def _be_a_copy(pipes: Sequence[int]) -> None:
    """What the original has open is not the copy's: sockets, its journal, its database, its lock."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    first = 3
    for pipe in sorted(pipes):
        os.closerange(first, pipe)
        first = pipe + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
    # A look for garbage would write to every page.
    gc.freeze()
    gc.enable()
    # What decides has precedence.
    os.nice(5)
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _beside_the_work(pipe: int, sending: threading.Lock) -> None:
    """Tell what was tried so far, and end with the reader: the original has ended or closed its side."""
    watched = select.poll()
    watched.register(pipe, 0)
    before = Statement.made
    while not watched.poll(REPORT_EVERY * 1000):
        if sending.acquire(blocking=False):
            with suppress(OSError):
                # The reader has just closed its side: the next look at the pipe says so.
                _send(pipe, b"%b%d%b" % (_PROGRESS, Statement.made - before, _LINE))
            sending.release()
    os._exit(1)


#: Calls what it is given on the thread of the state, between two turns, and returns what that returns.
BetweenTurns = Callable[[Callable[..., list[Copy]]], Awaitable[list[Copy]]]


class _Question:
    def __init__(self, between_turns: BetweenTurns, work: Work, copy: asyncio.Future[Copy]) -> None:
        self.between_turns = between_turns
        self.work = work
        self.copy = copy


class ForkedQueries:
    """Some answers at once; further questions wait, and more than that are refused.

    All that wait when a process is forked are answered by that copy.
    """

    def __init__(self, at_once: int = AT_ONCE, waiting: int = MAX_WAITING, pause: float = PAUSE) -> None:
        """`pause`: for how many times as long as a fork takes none follows it."""
        self._free = at_once
        self._most = waiting
        self._pause = pause
        self._waiting: list[_Question] = []
        self._next_fork = 0.0
        self._forking: asyncio.Task[None] | None = None
        self._collecting: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> bool:
        """Whether a copy is being made, or one is left."""
        return self._forking is not None or bool(self._collecting)

    async def answer(
        self, between_turns: BetweenTurns, work: Work, progress: Progress | None = None
    ) -> bytes:
        """The bytes that `work` returns in a copy. It is ended when the caller is canceled.

        Raises TooManyQuestionsError and QuestionFailedError, and what `between_turns` and `progress` raise.
        """
        if len(self._waiting) >= self._most + self._free:
            raise TooManyQuestionsError
        loop = asyncio.get_running_loop()
        question = _Question(between_turns, work, loop.create_future())
        self._waiting.append(question)
        self._fork_soon()
        try:
            copy = await question.copy
        except asyncio.CancelledError:
            if question in self._waiting:
                self._waiting.remove(question)
            if question.copy.done() and not question.copy.cancelled() and not question.copy.exception():
                self._collect(question.copy.result()).end()
            raise
        answers: asyncio.Queue[int | bytes | QuestionFailedError] = asyncio.Queue()
        self._collect(copy, answers)
        try:
            while isinstance(one := await answers.get(), int):
                if progress is not None:
                    await progress(one)
        except BaseException:
            copy.end()
            raise
        if isinstance(one, QuestionFailedError):
            raise one
        return one

    def _fork_soon(self) -> None:
        if self._forking is None and self._waiting and self._free:
            self._forking = asyncio.create_task(self._fork(), name="questions")

    async def _fork(self) -> None:
        try:
            clock = asyncio.get_running_loop().time
            # Others that ask until then are answered by the same copy.
            await asyncio.sleep(max(0.0, self._next_fork - clock()))
            if not self._waiting:
                return
            place = self._waiting[0].between_turns
            queries = [one for one in self._waiting if one.between_turns == place][: self._free]
            self._waiting = [one for one in self._waiting if one not in queries]
            self._free -= len(queries)
            try:
                copies = await place(
                    lambda *arguments: copied([partial(one.work, *arguments) for one in queries])
                )
            except Exception as error:
                self._free += len(queries)
                for one in queries:
                    if not one.copy.done():
                        one.copy.set_exception(error)
                return
            self._next_fork = clock() + self._pause * max(copy.cost for copy in copies)
            for one, copy in zip(queries, copies, strict=True):
                if one.copy.done():
                    self._collect(copy).end()
                else:
                    one.copy.set_result(copy)
        finally:
            self._forking = None
            self._fork_soon()

    def _collect(
        self, copy: Copy, answers: asyncio.Queue[int | bytes | QuestionFailedError] | None = None
    ) -> Copy:
        """Collect it on a thread; `answers` gets the answer or the failure, and before it what was tried."""
        loop = asyncio.get_running_loop()

        def put(one: int | bytes | QuestionFailedError) -> None:
            if answers is not None:
                answers.put_nowait(one)

        async def collect() -> None:
            try:
                put(
                    await asyncio.to_thread(copy.collect, lambda tried: loop.call_soon_threadsafe(put, tried))
                )
            except QuestionFailedError as error:
                put(error)
            except asyncio.CancelledError:
                # The loop ends: the thread must not wait for the answer.
                copy.end()
                raise
            finally:
                copy.close()
                self._free += 1
                self._fork_soon()

        task = asyncio.create_task(collect(), name="question")
        self._collecting.add(task)
        task.add_done_callback(self._collecting.discard)
        return copy
