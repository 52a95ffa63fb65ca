"""When waiting jobs are expected to start, found again and again by a copy of the process.

The thread that decides is asked for a copy between two of its turns, at most once in a while and only where
something has happened; what the copy finds comes back as an event, and so is in the journal. Small changes
are not sent: with 800 waiting jobs an event is some hundred kilobytes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from ringwise.apps.forked_queries import ForkedQueries, QuestionFailedError, TooManyQuestionsError
from ringwise.kubeclient.tasks import repeat
from ringwise.log import Logger
from ringwise.messages.events import EstimatedStart, Event, StartsEstimated
from ringwise.messages.expected_start import ExpectedStart
from ringwise.scheduler.explain.forecast import forecast
from ringwise.scheduler.view import SchedulerView

_LOG = Logger()
Answer = TypeVar("Answer")


class Deciding(Protocol):
    """Calls work with the view and the time on the thread that decides, between two turns."""

    def __call__(self, work: Callable[[SchedulerView, int], Answer], /) -> Awaitable[Answer]: ...


class StartEstimator:
    def __init__(
        self,
        forked_queries: ForkedQueries,
        deciding: Deciding,
        send: Callable[[Sequence[Event]], object],
        every: float,
    ) -> None:
        """`every`: seconds between two looks."""
        self._forked_queries = forked_queries
        self._deciding = deciding
        self._send = send
        self._every = every
        #: Turns of the scheduler that were looked at.
        self._looked = -1

    async def run(self) -> None:
        """Until it is canceled."""
        warning = "no estimates of when jobs start; the last ones are shown"
        await repeat(self._every, self.look, (TooManyQuestionsError, QuestionFailedError), warning)

    async def look(self) -> None:
        """Once. Raises what `ForkedQueries` and `deciding` raise."""
        turns = await self._deciding(_turns)
        if turns is None or turns == self._looked:
            return
        starts = _STARTS.decode(await self._forked_queries.answer(self._deciding, _estimated))
        self._looked = turns
        if await self._deciding(lambda view, now: _is_news(view, starts, now)):
            # The turn that gets it, if none comes before that, changes nothing.
            self._looked += 1
            self._send([StartsEstimated(tuple(starts))])


_STARTS = msgspec.json.Decoder(list[EstimatedStart])


def _estimated(view: SchedulerView, now: int) -> bytes:
    # Again: the last estimates may be older than the last turns.
    with view.what_if.question():
        starts = forecast(view, now)
    return msgspec.json.encode([EstimatedStart(job, start) for job, start in starts.items()])


def _turns(view: SchedulerView, _now: int) -> int | None:
    """Return the number of turns; None if no job is pending or has an expected start."""
    waits = bool(view.what_if.starts.by_job) or any(job.reason is not None for job in view.jobs.values())
    return view.history.turns if waits else None


def _is_news(view: SchedulerView, starts: Sequence[EstimatedStart], now: int) -> bool:
    previous: Mapping[str, ExpectedStart] = view.what_if.starts.by_job
    if len(starts) != len(previous):
        return True
    return any((old := previous.get(one.job)) is None or one.start.differs(old, now) for one in starts)
