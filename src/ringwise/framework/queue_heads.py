"""`queue-discipline: strict`: the jobs that others of their queue wait behind, and those others."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from typing import Any, NamedTuple

from ringwise.state.nested import discard


class Line(NamedTuple):
    """Jobs that are served one after the other: those of one queue that ask for one resource."""

    queue: str
    resource: str


class Head(NamedTuple):
    """A job that does not fit and has to be served before those behind it."""

    line: Line
    #: Its sort key when it was last tried.
    order: tuple[Any, ...]


#: How many jobs of a line are tried at first when the job ahead of them starts; if all start, twice as many.
FIRST_BATCH, MAX_BATCH = 8, 512

#: Entries of jobs that are elsewhere, in one heap.
_MAX_LEFT = 256

#: Verdicts that are remembered; with more of them all are found again.
_MAX_SHAPES = 1_000


class QueueHeads:
    """The heads of all lines, and the jobs behind them. Empty while jobs may pass others."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything: other settings are in force."""
        self._of_job: dict[str, Head] = {}
        self._of_line: dict[Line, dict[str, None]] = {}
        #: Cache: the first head of a line.
        self._first: dict[Line, str] = {}
        #: Jobs behind others, by their sort keys, and where each of them is. Those that are not there any
        #: more, or are elsewhere, are left in the heaps until they come first.
        self._behind: dict[Line, list[tuple[tuple[Any, ...], str]]] = {}
        self._places: dict[str, Head] = {}
        #: Lines of which a head is gone, or comes later than before, and how many of the jobs behind it are
        #: tried next.
        self.moved: dict[Line, int] = {}
        #: Counts changes of what the cluster offers.
        self.epoch = 0
        #: By the shape of a job: whether it fits into the empty cluster, and the epoch of the answer.
        self._verdicts: dict[Hashable, tuple[bool, int]] = {}
        #: Jobs whose shape has no verdict of this epoch.
        self.to_test: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self._of_job)

    def __contains__(self, key: str) -> bool:
        return key in self._of_job

    def in_order(self, line: Line) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """The heads of a line and their sort keys, the first to be served first."""
        keys = self._of_line.get(line)
        if not keys:
            return
        first = self._first.get(line)
        if first is None:
            first = self._first[line] = min(keys, key=lambda key: self._of_job[key].order)
        yield first, self._of_job[first].order
        if len(keys) > 1:
            for key in sorted(keys, key=lambda key: self._of_job[key].order)[1:]:
                yield key, self._of_job[key].order

    def put(self, key: str, head: Head) -> None:
        before = self._of_job.get(key)
        if before == head:
            return
        if before is not None:
            self._remove(key, before)
            if before.line != head.line or before.order < head.order:
                self.moved.setdefault(before.line, FIRST_BATCH)
        self._of_job[key] = head
        self._of_line.setdefault(head.line, {})[key] = None
        self._first.pop(head.line, None)

    def drop(self, key: str) -> None:
        """The job started, is gone, or waits for something else."""
        before = self._of_job.pop(key, None)
        if before is not None:
            self._remove(key, before)
            self.moved.setdefault(before.line, FIRST_BATCH)

    def _remove(self, key: str, head: Head) -> None:
        discard(self._of_line, head.line, key)
        self._first.pop(head.line, None)

    # -- jobs behind them ----------------------------------------------------------------------

    def park(self, key: str, place: Head) -> None:
        """The job waits behind others."""
        self._places[key] = place
        heap = self._behind.setdefault(place.line, [])
        if len(heap) > 2 * len(self._places) + _MAX_LEFT:
            # Jobs that change all the time leave an entry each time.
            current = {entry for entry in heap if self._places.get(entry[1]) == (place.line, entry[0])}
            heap[:] = sorted(current)
        heappush(heap, (place.order, key))

    def unpark(self, key: str) -> None:
        """The job is tried now, or is gone."""
        self._places.pop(key, None)

    def first_behind(self, line: Line) -> tuple[Any, ...] | None:
        """The sort key of the first job that waits behind others."""
        heap = self._behind.get(line)
        while heap:
            order, key = heap[0]
            if self._places.get(key) == (line, order):
                return order
            heappop(heap)
        self._behind.pop(line, None)
        return None

    def to_try(self, line: Line) -> list[str]:
        """The next jobs of a line that moved, for one cycle; none once a job blocks the others again."""
        behind, head = self.first_behind(line), next(self.in_order(line), None)
        if behind is None or (head is not None and head[1] < behind):
            del self.moved[line]
            return []
        batch = self.moved[line]
        self.moved[line] = min(2 * batch, MAX_BATCH)
        result: list[str] = []
        while len(result) < batch and self.first_behind(line) is not None:
            key = heappop(self._behind[line])[1]
            del self._places[key]
            result.append(key)
        return result

    # -- jobs that are too large ------------------------------------------------------------

    def is_too_large(self, shape: Hashable) -> bool:
        """Whether such a job did not fit into the empty cluster when that was last tried."""
        fits, _ = self._verdicts.get(shape, (True, 0))
        return not fits

    def is_tested(self, shape: Hashable) -> bool:
        """Whether the cluster offers what it offered when the shape was tried."""
        verdict = self._verdicts.get(shape)
        return verdict is not None and verdict[1] == self.epoch

    def judge(self, shape: Hashable, fits: bool) -> None:
        if len(self._verdicts) >= _MAX_SHAPES:
            self._verdicts.clear()
        self._verdicts[shape] = fits, self.epoch
