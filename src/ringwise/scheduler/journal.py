"""The journal: what the scheduler was told, when, and what it decided. Values, in a bounded memory.

The core is deterministic, so a configuration and the batches since the start are
enough to decide everything again. Where the memory is too short for that, `sink`
takes every batch as it comes, for a file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ringwise.framework.configuration import Configuration
from ringwise.messages.commands import Command, SetGroupStatus, TellPod
from ringwise.messages.events import Event
from ringwise.reasons import Reason

#: Batches kept in memory where nobody says otherwise.
KEPT_BATCHES = 1000


@dataclass(frozen=True, slots=True)
class Batch:
    """One turn of the machine: events in, commands out."""

    number: int
    #: Nanoseconds since 1970, as it was told to the machine.
    now: int
    events: tuple[Event, ...]
    commands: tuple[Command, ...]

    @property
    def reasons(self) -> dict[str, Reason]:
        """Why jobs and pods wait, as far as this turn told something new: by group key or pod uid."""
        told: dict[str, Reason] = {}
        for command in self.commands:
            if isinstance(command, SetGroupStatus) and command.reason is not None:
                told[command.key] = command.reason
            elif isinstance(command, TellPod):
                told[command.uid] = command.reason
        return told


class Journal:
    def __init__(
        self,
        configuration: Configuration,
        *,
        keep: int = KEPT_BATCHES,
        sink: Callable[[Batch], None] | None = None,
    ) -> None:
        #: What the machine was configured with at the start; later ones come as events.
        self.configuration = configuration
        self.recorded = 0
        self._batches: deque[Batch] = deque(maxlen=keep)
        self._sink = sink

    @property
    def complete(self) -> bool:
        """Whether everything since the start is still in memory."""
        return self.recorded == len(self._batches)

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Batch]:
        return iter(tuple(self._batches))

    def record(self, events: Iterable[Event], now: int, commands: Iterable[Command]) -> Batch:
        batch = Batch(self.recorded, now, tuple(events), tuple(commands))
        self.recorded += 1
        self._batches.append(batch)
        if self._sink is not None:
            self._sink(batch)
        return batch
