"""How much more fits, for people and programs."""

from __future__ import annotations

from typing import Any

from ringwise.apps.source import Source
from ringwise.scheduler.explain.capacity import BoardCapacity, capacity
from ringwise.topology.nearest import did_you_mean


class UnknownQueueError(LookupError):
    """No queue has that name."""


def count(source: Source, queue: str | None = None) -> list[BoardCapacity]:
    known = source.view.queues
    if queue is not None and queue not in known:
        raise UnknownQueueError(f"there is no queue {queue}{did_you_mean(queue, known)}")
    return capacity(source.view, source.now, queue)


def as_json(answers: list[BoardCapacity]) -> dict[str, Any]:
    return {"boards": [answer.as_json() for answer in answers]}
