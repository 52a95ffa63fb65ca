"""Nodes that are reserved for queues and namespaces: what is known of them, until they are over."""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.messages import events as ev
from ringwise.reasons import Trigger
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, Handlers
from ringwise.state.model import NodeReservations


class NodeReservationExpiry(Component):
    """A reservation of nodes ends by itself, and jobs that waited for its nodes are tried again."""

    name = "reservations of nodes"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: When the first of them ends.
        self._next: int | None = None

    def hears(self) -> Handlers:
        return {ev.NodeReservationsSeen: lambda event, now: self._put(event.reservations, now)}

    def known(self) -> Iterator[ev.Event]:
        if self._state.node_reservations.entries or self._state.node_reservations.problems:
            yield ev.NodeReservationsSeen(self._state.node_reservations)

    def deadline(self) -> int | None:
        return self._next

    def review(self, now: int) -> None:
        if self._next is not None and self._next <= now:
            self._put(self._state.node_reservations, now)

    def _put(self, reservations: NodeReservations, now: int) -> None:
        """Those that are over are left out: nobody has to take them out of the ConfigMap."""
        left = tuple(one for one in reservations.entries if one.end > now)
        self._next = min((one.end for one in left), default=None)
        wanted = NodeReservations(left, reservations.problems)
        if wanted == self._state.node_reservations:
            return
        self._state.put_node_reservations(wanted)
        self._topology.nodes_changed()
        self._notify(ie.ClusterChanged(), now)
        self._triggers.add(Trigger.HEALTH_CHANGED)
