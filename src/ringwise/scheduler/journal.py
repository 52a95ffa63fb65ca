"""The journal: the events of every turn, their time, and the commands that were decided.

The scheduler is deterministic, so a configuration and the batches since the start are
enough to decide everything again. The journal keeps the last batches in memory; `sink`
gets every batch, for a file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from ringwise.framework.configuration import Configuration
from ringwise.messages.commands import Command
from ringwise.messages.events import Decide, Event
from ringwise.records import dataclass

#: Batches kept in memory by default.
MAX_BATCHES = 1000


@dataclass(frozen=True, slots=True)
class TurnMark:
    """A choice that processor time decided: what, about which job or namespace, after how much progress."""

    choice: str
    name: str
    progress: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One turn of the scheduler: events in, commands out."""

    number: int
    #: Nanoseconds since 1970, as given to the scheduler.
    now: int
    events: tuple[Event, ...]
    commands: tuple[Command, ...]
    decide: Decide = Decide.ALL
    marks: tuple[TurnMark, ...] = ()


class Journal:
    def __init__(
        self,
        configuration: Configuration,
        *,
        keep: int = MAX_BATCHES,
        sink: Callable[[Batch], None] | None = None,
    ) -> None:
        #: The configuration at the start; later ones are events.
        self.configuration = configuration
        self.recorded = 0
        self._batches: deque[Batch] = deque(maxlen=keep)
        self._sink = sink

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Batch]:
        return iter(tuple(self._batches))

    def record(
        self,
        events: Iterable[Event],
        now: int,
        commands: Iterable[Command],
        decide: Decide = Decide.ALL,
        marks: Iterable[TurnMark] = (),
    ) -> Batch:
        batch = Batch(self.recorded, now, tuple(events), tuple(commands), decide, tuple(marks))
        self.recorded += 1
        self._batches.append(batch)
        if self._sink is not None:
            self._sink(batch)
        return batch
