"""Reads the driver and keeps the health of every chip: codes, separated and isolated chips together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ringwise.device.cards import Chip
from ringwise.device.drivers.port import FaultEvent
from ringwise.device.health.configuration import CARD_DROPPED, FaultConfiguration
from ringwise.device.health.levels import (
    MANUALLY_SEPARATE,
    OCCURRED,
    ONCE,
    RECOVERED,
    chip_is_healthy,
    network_is_healthy,
    worst,
)
from ringwise.device.health.tracker import ChipFault, FaultTracker
from ringwise.device.report import ChipReport
from ringwise.records import dataclass


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at the driver: codes by physical id (None: the chip does not answer), and events."""

    codes: Mapping[int, Sequence[int] | None]
    events: Sequence[FaultEvent] = ()


class HealthMonitor:
    def __init__(
        self, names: Mapping[int, str], chips: Sequence[Chip], configuration: FaultConfiguration
    ) -> None:
        self.tracker = FaultTracker(configuration)
        #: Chips that an operator isolated.
        self.isolated: frozenset[str] = frozenset()
        self._names = dict(names)
        self._by_logic = {chip.logic: names[chip.physical] for chip in chips}

    def configure(self, configuration: FaultConfiguration) -> None:
        self.tracker.configuration = configuration

    def saw(self, seen: Seen, now: int) -> None:
        """`now` in Unix milliseconds."""
        for event in seen.events:
            chip = self._by_logic.get(event.logic)
            if chip is None:
                continue
            if event.assertion == OCCURRED:
                self.tracker.occurred(chip, event.code, now, event.severity)
            elif event.assertion == RECOVERED:
                self.tracker.recovered(chip, event.code, now)
            elif event.assertion == ONCE:
                self.tracker.once(chip, event.code, now)
        for physical, codes in seen.codes.items():
            chip = self._names.get(physical)
            if chip is not None:
                self.tracker.observe(chip, (CARD_DROPPED,) if codes is None else codes, now)
        self.tracker.forget_expired(now)

    def reports(self, used: Collection[str], now: int) -> list[ChipReport]:
        """The state of every chip, in the order of discovery."""
        found = []
        for name in self._names.values():
            fault = self._fault(name, now)
            network = self.tracker.network_fault(name, now)
            found.append(
                ChipReport(
                    name,
                    healthy=chip_is_healthy(fault.level, name in used) and network.level != MANUALLY_SEPARATE,
                    network_healthy=network_is_healthy(network.level),
                    fault=fault,
                    network_fault=network,
                )
            )
        return found

    def why_not(self, chip: str, now: int) -> str | None:
        """Why a chip must not be mounted; None for a healthy one. A pod waits for it, so it is in use."""
        fault = self._fault(chip, now)
        separated = self.tracker.network_fault(chip, now).level == MANUALLY_SEPARATE
        if chip_is_healthy(fault.level, used=True) and not separated:
            return None
        codes = f" ({', '.join(fault.codes)})" if fault.codes else ""
        if chip in self.isolated:
            return "an operator isolated it"
        return f"it is unhealthy, {MANUALLY_SEPARATE if separated else fault.level}{codes}"

    def separated(self) -> list[str]:
        """The names for ManuallySeparateNPU."""
        return sorted({*self.tracker.manually_separated(), *self.isolated})

    def _fault(self, name: str, now: int) -> ChipFault:
        fault = self.tracker.fault(name, now)
        if name in self.isolated:
            return ChipFault(worst((fault.level, MANUALLY_SEPARATE)), fault.codes, fault.times)
        return fault
