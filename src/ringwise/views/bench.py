"""The document of `bench`: figures with their goals, and the machine they were measured on."""

from __future__ import annotations

from collections.abc import Iterable

from ringwise import __version__
from ringwise.records import dataclass
from ringwise.views.documents.reference import BenchDocument, MachineFields


@dataclass(frozen=True, slots=True)
class Measured:
    """One figure. A goal is a ratio or a size, never a bare time of this machine."""

    name: str
    value: float
    unit: str
    goal: str | None = None
    holds: bool | None = None


def bench_document(
    name: str, machine: MachineFields, seconds: float, results: Iterable[Measured]
) -> BenchDocument:
    """What `ringwise bench -o json` prints."""
    return {
        "schema": "ringwise.io/bench/v1",
        "bench": name,
        "version": __version__,
        "machine": machine,
        "seconds": round(seconds, 1),
        "results": [
            {
                "name": result.name,
                "value": round(result.value, 3),
                "unit": result.unit,
                "goal": result.goal,
                "holds": result.holds,
            }
            for result in results
        ],
    }
