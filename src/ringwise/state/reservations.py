"""Reserved chips: for a waiting gang, or for a job that is being rescheduled (rule S9).

A reserved chip is free for its owner only. A chip may be reserved while another pod
still holds it; the reservation takes effect when that pod releases it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field

from ringwise.records import dataclass
from ringwise.state.cluster import ClusterState


@dataclass(slots=True)
class Reservation:
    owner: str
    resource: str
    #: node id -> chips
    chips: dict[int, int] = field(default_factory=dict)
    #: Nanoseconds since the epoch; None: until removed.
    expires: int | None = None
    #: When the owner is expected to start, where durations are known.
    starts: int | None = None
    why: str = ""

    @property
    def chip_count(self) -> int:
        return sum(mask.bit_count() for mask in self.chips.values())


class Reservations:
    """At most one reservation per job; chips are reserved for one job at a time."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._by_owner: dict[str, Reservation] = {}

    def __len__(self) -> int:
        return len(self._by_owner)

    def __iter__(self) -> Iterator[Reservation]:
        return iter(self._by_owner.values())

    def of(self, owner: str) -> Reservation | None:
        return self._by_owner.get(owner)

    def make(self, reservation: Reservation) -> None:
        """Reserve; chips that are reserved for another job already are left out."""
        self.lift(reservation.owner)
        fleet = self._state.fleets[reservation.resource]
        reservation.chips = {
            node: mask & ~fleet.reserved[node]
            for node, mask in sorted(reservation.chips.items())
            if mask & ~fleet.reserved[node]
        }
        self._by_owner[reservation.owner] = reservation
        self._apply(reservation, True)

    def lift(self, owner: str) -> Reservation | None:
        reservation = self._by_owner.pop(owner, None)
        if reservation is not None:
            self._apply(reservation, False)
        return reservation

    def expired(self, now: int) -> list[Reservation]:
        return [r for r in self._by_owner.values() if r.expires is not None and r.expires <= now]

    @contextmanager
    def open_to(self, owner: str) -> Iterator[None]:
        """Inside, the owner's reserved chips are free; at the end they are reserved again, if not lifted."""
        reservation = self._by_owner.get(owner)
        if reservation is None:
            yield
            return
        self._apply(reservation, False)
        try:
            yield
        finally:
            if self._by_owner.get(owner) is reservation:
                self._apply(reservation, True)

    def _apply(self, reservation: Reservation, reserve: bool) -> None:
        fleet = self._state.fleets[reservation.resource]
        for node, mask in reservation.chips.items():
            if reserve:
                fleet.reserved[node] |= mask
            else:
                fleet.reserved[node] &= ~mask
            self._state.refresh_node(node)
