"""When time alone changes something for an object: one moment for each key."""

from __future__ import annotations

from heapq import heapify, heappop, heappush


class Timers:
    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        #: The moment that counts; others of the key in the heap are left over.
        self._due_of: dict[str, int] = {}

    def set(self, key: str, due: int | None) -> None:
        """Replaces the moment of the key; None: there is none."""
        if due is None:
            self._due_of.pop(key, None)
        elif self._due_of.get(key) != due:
            self._due_of[key] = due
            heappush(self._heap, (due, key))
            if len(self._heap) > 2 * len(self._due_of) + 1000:
                # A tenant chooses moments that are centuries away, and deletes the object.
                self._heap = [(moment, one) for one, moment in self._due_of.items()]
                heapify(self._heap)

    def take_due(self, now: int) -> list[str]:
        """Keys whose moment has come, each once."""
        result: list[str] = []
        while self._heap and self._heap[0][0] <= now:
            due, key = heappop(self._heap)
            if self._due_of.get(key) == due:
                del self._due_of[key]
                result.append(key)
        return result

    def next_deadline(self) -> int | None:
        while self._heap and self._due_of.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None
