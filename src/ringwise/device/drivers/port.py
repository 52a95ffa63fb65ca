"""What the device plugin wants of a driver. Calls block; the plugin makes them in a thread of their own."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from ringwise.device.cards import Chip
from ringwise.device.report import SwitchFault
from ringwise.records import dataclass


class DriverError(Exception):
    """The driver cannot be used or refuses a call; one line that says what to do."""


class NoChipsError(DriverError):
    """The machine has no NPUs, or no driver for them."""


class Place(NamedTuple):
    """Where a chip is, as the driver numbers it."""

    card: int
    device: int

    def __str__(self) -> str:
        return f"card {self.card}, chip {self.device}"


@dataclass(frozen=True, slots=True)
class FaultEvent:
    """A fault that occurred or went away, as the driver reported it."""

    logic: int
    code: int
    severity: int
    #: OCCURRED, RECOVERED or ONCE of `health.levels`.
    assertion: int
    #: Unix time in milliseconds.
    raised: int


@dataclass(frozen=True, slots=True)
class Readings:
    """Figures of one chip for the metrics; None where the driver has none."""

    temperature: float | None = None
    power: float | None = None
    voltage: float | None = None
    utilization: float | None = None
    frequency: float | None = None
    memory_total: float | None = None
    memory_used: float | None = None


class Driver(Protocol):
    """All calls raise DriverError. One about a chip fails for this chip only."""

    #: `dcmi`, `npu-smi` or `simulated`.
    kind: str
    #: Seconds after which a call hangs.
    timeout: float

    def version(self) -> str:
        """Version of the driver; empty where it has none."""

    def cards(self) -> list[int]:
        """The cards, in the order of discovery."""

    def places(self, card: int) -> list[Place]:
        """Where there are chips on a card."""

    def chip(self, place: Place) -> Chip:
        """The chip at a place."""

    def codes(self, chip: Chip) -> list[int] | None:
        """The fault codes that a chip has now; None when the chip no longer answers."""

    def network(self, chip: Chip) -> bool | None:
        """Whether the network port of a chip works; None where the driver does not say it."""

    def linked(self, one: Chip, other: Chip) -> bool | None:
        """Whether HCCS or UB links two chips; None if the driver does not say it."""
        return None

    def events(self) -> list[FaultEvent]:
        """What was reported since the last call; empty where the driver reports nothing by itself."""
        return []

    def switch_faults(self) -> Sequence[SwitchFault]:
        """Alarms of the node's own interconnect."""
        return ()

    def readings(self, chips: Sequence[Chip]) -> dict[int, Readings]:
        """Figures of chips by physical id."""


def load(name: str | Path, folders: Iterable[Path]) -> ctypes.CDLL:
    """A library from the loader's path, or from where the driver puts it. Raises OSError."""
    problem = OSError("not found")
    for path in [Path(name)] if "/" in str(name) else [Path(name), *(folder / name for folder in folders)]:
        try:
            return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            problem = error
    raise problem


def place_of(chip: Chip) -> Place:
    return Place(chip.card, chip.device)
