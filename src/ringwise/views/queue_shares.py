"""What queues deserve of each resource with chips; those of different resources are never added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ringwise.state.model import ROOT_QUEUE, Queue


class QueueShares:
    """As written, else the part of the parent's share by weight."""

    def __init__(self, queues: Iterable[Queue], chips: Mapping[str, int]) -> None:
        """`chips`: resource -> chips of the cluster."""
        self._queues = {queue.name: queue for queue in queues if queue.name != ROOT_QUEUE}
        self._chips = chips
        #: Parent -> weight of its children together.
        self._weights: dict[str, int] = {}
        for queue in self._queues.values():
            parent = self._parent(queue)
            self._weights[parent] = self._weights.get(parent, 0) + max(0, queue.weight)

    def _parent(self, queue: Queue) -> str:
        """Without one, and below one that does not exist, it is a child of the root."""
        return queue.parent if queue.parent in self._queues else ROOT_QUEUE

    def of(self, name: str) -> dict[str, int]:
        """Resource -> chips, at most what its capability allows. The root has all."""
        limits = self._queues[name].capability if name in self._queues else {}
        # Weights of a queue and of those above it; a circle of parents ends where it began.
        part, whole, seen, shared = 1, 1, set[str](), self._chips
        while name in self._queues and name not in seen:
            seen.add(name)
            queue = self._queues[name]
            if any(resource in queue.deserved for resource in self._chips):
                # One that says what it deserves deserves nothing else.
                shared = {resource: queue.deserved.get(resource, 0) for resource in self._chips}
                break
            parent = self._parent(queue)
            part, whole = part * max(0, queue.weight), whole * max(1, self._weights[parent])
            name = parent
        shares = {resource: amount * part // whole for resource, amount in shared.items()}
        return {resource: min(share, limits.get(resource, share)) for resource, share in shares.items()}
