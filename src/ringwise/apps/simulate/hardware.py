"""Faults of chips, nodes and leaf switches: at random, and the same for all that is compared."""

from __future__ import annotations

import enum
import random
from collections.abc import Iterator
from heapq import heappop, heappush

from ringwise.records import dataclass


class Hardware(enum.Enum):
    CHIP = "chip"
    NODE = "node"
    SWITCH = "switch"


@dataclass(frozen=True, slots=True)
class FaultRates:
    """Of one kind of hardware: mean nanoseconds between two failures of a piece, and until it is repaired."""

    between: int
    repair: int


@dataclass(frozen=True, slots=True)
class Change:
    """A piece breaks, or is repaired."""

    at: int
    part: Hardware
    #: Its number among its kind; chips are numbered through all nodes.
    number: int
    broken: bool


def faults(rates: dict[Hardware, FaultRates], pieces: dict[Hardware, int], seed: str) -> Iterator[Change]:
    """All changes, the first first, without end. A piece that is broken does not break again."""
    chance = random.Random(f"{seed}/faults")
    queue: list[tuple[int, int, Hardware, int]] = []
    serial = 0
    for part, rate in rates.items():
        if pieces.get(part):
            heappush(queue, (_after(chance, rate.between / pieces[part]), serial, part, -1))
            serial += 1
    broken: set[tuple[Hardware, int]] = set()
    while queue:
        at, _, part, number = heappop(queue)
        rate = rates[part]
        if number >= 0:
            broken.discard((part, number))
            yield Change(at, part, number, broken=False)
            continue
        chosen = chance.randrange(pieces[part])
        repair, following = _after(chance, rate.repair), _after(chance, rate.between / pieces[part])
        heappush(queue, (at + following, serial, part, -1))
        serial += 1
        if (part, chosen) not in broken:
            broken.add((part, chosen))
            heappush(queue, (at + repair, serial, part, chosen))
            serial += 1
            yield Change(at, part, chosen, broken=True)


def _after(chance: random.Random, mean: float) -> int:
    return 1 + round(chance.expovariate(1.0 / mean))
