"""The interface of chip rules, and the caches that all of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Final, Generic, Protocol, TypeVar, cast

from ringwise.placement.reasons import (
    MORE_CHIPS_THAN_BOARD,
    NO_RING_HOLDS_REQUEST,
    NODE_NOT_WHOLLY_FREE,
    NOT_ENOUGH_FREE_CHIPS,
    NOT_ENOUGH_WHOLE_RINGS,
    REQUEST_HAS_NO_PLACE,
)
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.topology.board import Board
from ringwise.topology.counts import counts_text

#: The signature type of a rule: a named tuple.
S = TypeVar("S", bound=Hashable)

#: The signature of every node that lists more free chips than its board has. No request fits it.
OVERFULL: Final = "more chips than the board"

#: Entries per cache. Boards of up to 16 chips never reach it; on larger ones clearing the whole
#: cache from time to time costs less than tracking what is used.
_CACHE_SIZE = 1 << 17


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """A table of misfits: rows by request, columns by free chips; lower is better, `unfit` does not fit."""

    title: str
    columns: str
    no_fit_value: int
    #: request -> free chips -> misfit; what is missing is unfit.
    rows: dict[int, dict[int, int]]


class ChipRule(Protocol):
    """How one board fits, scores and chooses chips. Pure: equal arguments give equal results.

    `usable` is the mask of free chips the job may have (without network-unhealthy ones
    where that applies), `allocatable` Kubernetes' count of the node's healthy
    chips, `faulty` how many chips are listed as unhealthy.
    """

    board: Board
    #: What its order of nodes is called; the rules of a board that order them differently have other names.
    name: str

    def signature(self, usable: int, allocatable: int, faulty: int) -> Hashable:
        """Everything a score may depend on. Nodes with equal signatures score equally for every request."""

    def score(self, signature: Hashable, request: int, multi_pod: bool) -> int | None:
        """Rules N3, N4: the raw score, 0 where the board does not score, None if the request does not fit."""

    def chips(self, usable: int, request: int, multi_pod: bool) -> tuple[int, ...]:
        """Rule N5: the chips of a node that fits, in the order they are written. Empty if it does not fit.

        All chips of a board are written in ascending order.
        """

    def most_free(self, signature: Hashable) -> int:
        """How many chips a node with this signature has free at most."""

    def lack(self, usable: int, request: int, multi_pod: bool) -> Reason:
        """Why the request does not fit, with the numbers. Only for nodes that do not fit."""

    def group(self, signature: Hashable, request: int) -> str | None:
        """Rule N3: the documents' group A to D, on boards that have groups."""

    def tables(self) -> tuple[ScoreTable, ...]:
        """The misfit tables, for the reference page."""


class CachingRule(ABC, Generic[S]):
    """Caches signatures, scores and chips, so that each is computed once."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.name = board.name
        self.capacity = board.chips_per_node
        self.ring_masks = board.ring_masks
        self._signatures: dict[tuple[int, int, int], Hashable] = {}
        self._chips: dict[tuple[int, int, bool], tuple[int, ...]] = {}
        self._scores: dict[tuple[Hashable, int, bool], int | None] = {}

    def signature(self, usable: int, allocatable: int, faulty: int) -> Hashable:
        key = (usable, allocatable, faulty)
        result = self._signatures.get(key)
        if result is None:
            if usable.bit_count() > self.capacity:
                result = OVERFULL
            else:
                result = self._signature(usable, allocatable, faulty)
            if len(self._signatures) >= _CACHE_SIZE:
                self._signatures.clear()
            self._signatures[key] = result
        return result

    def score(self, signature: Hashable, request: int, multi_pod: bool) -> int | None:
        key = (signature, request, multi_pod)
        try:
            return self._scores[key]
        except KeyError:
            unfit = signature == OVERFULL or request < 1
            result = None if unfit else self._score(cast(S, signature), request, multi_pod)
            if len(self._scores) >= _CACHE_SIZE:
                self._scores.clear()
            self._scores[key] = result
            return result

    def chips(self, usable: int, request: int, multi_pod: bool) -> tuple[int, ...]:
        key = (usable, request, multi_pod)
        result = self._chips.get(key)
        if result is None:
            if usable.bit_count() > self.capacity or request < 1:
                result = ()
            else:
                result = self._choose(usable, request, multi_pod)
                if len(result) == self.capacity:
                    result = tuple(sorted(result))
            if len(self._chips) >= _CACHE_SIZE:
                self._chips.clear()
            self._chips[key] = result
        return result

    def most_free(self, signature: Hashable) -> int:
        # Most signatures count the free chips; where one does not, the board is the limit.
        free = getattr(signature, "free", self.capacity)
        return free if isinstance(free, int) else self.capacity

    def lack(self, usable: int, request: int, multi_pod: bool) -> Reason:
        free = usable.bit_count()
        if free > self.capacity:
            return MORE_CHIPS_THAN_BOARD(free=free, chips=self.capacity, board=self.board.name)
        return self._lack(usable, request, multi_pod)

    def group(self, signature: Hashable, request: int) -> str | None:
        return None if signature == OVERFULL else self._group(cast(S, signature), request)

    def _group(self, signature: S, request: int) -> str | None:
        return None

    def tables(self) -> tuple[ScoreTable, ...]:
        return ()

    def _lack(self, usable: int, request: int, multi_pod: bool) -> Reason:
        return self._too_few_chips(usable, request)

    def _too_few_chips(self, usable: int, request: int) -> Reason:
        free = usable.bit_count()
        return NOT_ENOUGH_FREE_CHIPS(request=request, free=free, missing=max(0, request - free))

    def _not_wholly_free(self, usable: int, request: int) -> Reason:
        free = usable.bit_count()
        return NODE_NOT_WHOLLY_FREE(request=request, free=free, missing=request - free)

    def _no_place(self, request: int) -> Reason:
        allowed = counts_text(self.board.one_pod)
        return REQUEST_HAS_NO_PLACE(request=request, board=self.board.name, allowed=allowed)

    def _no_ring(self, request: int, rings: tuple[int, ...]) -> Reason:
        missing = request - max(rings, default=0)
        return NO_RING_HOLDS_REQUEST(request=request, ring=self.board.ring_kind, rings=rings, missing=missing)

    def _too_few_rings(self, usable: int, request: int, needed: int, whole: int) -> Reason:
        return NOT_ENOUGH_WHOLE_RINGS(
            request=request,
            needed=needed,
            whole=whole,
            missing=needed - whole,
            ring=self.board.ring_kind,
            free=usable.bit_count(),
        )

    def free_per_ring(self, usable: int) -> tuple[int, ...]:
        return tuple((usable & ring).bit_count() for ring in self.ring_masks)

    @abstractmethod
    def _signature(self, usable: int, allocatable: int, faulty: int) -> S: ...

    @abstractmethod
    def _score(self, signature: S, request: int, multi_pod: bool) -> int | None: ...

    @abstractmethod
    def _choose(self, usable: int, request: int, multi_pod: bool) -> tuple[int, ...]: ...


def surplus_table(title: str, columns: str, size: int) -> ScoreTable:
    """The table of document 004 (N4): misfit = free - request."""
    return ScoreTable(
        title,
        columns,
        no_fit_value=size,
        rows={
            request: {free: free - request for free in range(request, size + 1)}
            for request in range(1, size + 1)
        },
    )
