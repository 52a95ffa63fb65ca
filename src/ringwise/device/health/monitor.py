"""Reads the driver and keeps the health of every chip; that one is isolated is not part of it (F4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import field

from ringwise.device.cards import Chip
from ringwise.device.drivers.port import FaultEvent
from ringwise.device.health.configuration import CARD_DROPPED, LINK_DOWN, FaultConfiguration
from ringwise.device.health.levels import Assertion, FaultLevel, chip_is_healthy, network_is_healthy, worst
from ringwise.device.health.tracker import ChipFault, FaultTracker
from ringwise.device.report import ChipReport
from ringwise.records import dataclass


@dataclass(frozen=True, slots=True)
class Poll:
    """One look at the driver, by physical ids: codes (None: the chip does not answer), and events.

    A chip that was not asked has no entry.
    """

    codes: Mapping[int, Sequence[int] | None]
    events: Sequence[FaultEvent] = ()
    #: Whether network ports work, of the chips of which it is known.
    network: Mapping[int, bool] = field(default_factory=dict)
    #: Chips that were asked for their codes in vain.
    unread: Collection[int] = ()


#: Milliseconds after which a chip about which the driver says nothing gets no new pods. One about which it
#: never said anything gets none at all.
SILENCE = 60_000


class HealthMonitor:
    def __init__(
        self, names: Mapping[int, str], chips: Sequence[Chip], configuration: FaultConfiguration
    ) -> None:
        self.tracker = FaultTracker(configuration)
        #: Chips that an operator isolated. They are no less healthy: only new pods do not get them (F4).
        self.isolated: frozenset[str] = frozenset()
        #: Since when the driver says nothing about a chip.
        self._silent_since: dict[str, int] = {}
        #: Chips whose faults were read at least once.
        self._read: set[str] = set()
        #: Chips whose network port did not work when it was last asked.
        self._network_down: set[int] = set()
        self.watch(names, chips)

    def watch(self, names: Mapping[int, str], chips: Sequence[Chip]) -> None:
        """The chips of the node, in the order of discovery."""
        self._names = dict(names)
        self._by_logic = {chip.logic: names[chip.physical] for chip in chips}

    def configure(self, configuration: FaultConfiguration) -> None:
        self.tracker.configuration = configuration

    def saw(self, seen: Poll, now: int) -> None:
        """`now` in Unix milliseconds."""
        for event in seen.events:
            chip = self._by_logic.get(event.logic)
            if chip is None:
                continue
            if event.assertion == Assertion.OCCURRED:
                self.tracker.occurred(chip, event.code, now, event.severity)
            elif event.assertion == Assertion.RECOVERED:
                self.tracker.recovered(chip, event.code, now)
            elif event.assertion == Assertion.ONCE:
                self.tracker.once(chip, event.code, now)
        for physical, works in seen.network.items():
            (self._network_down.discard if works else self._network_down.add)(physical)
        for physical, chip in self._names.items():
            if physical in seen.codes:
                self._read.add(chip)
                self._silent_since.pop(chip, None)
                self.tracker.observe(chip, self._codes(physical, seen.codes[physical]), now)
            elif physical in seen.unread:
                self._silent_since.setdefault(chip, now if chip in self._read else now - SILENCE)
        self.tracker.forget_expired(now)

    def _codes(self, physical: int, codes: Sequence[int] | None) -> Sequence[int]:
        """A port that does not work is a link that is down, whether the driver has a code for it or not."""
        if codes is None:
            return (CARD_DROPPED,)
        return (*codes, LINK_DOWN) if physical in self._network_down else codes

    @property
    def silent(self) -> Set[str]:
        """Chips about which the driver said nothing at the last look."""
        return self._silent_since.keys()

    def reports(self, used: Collection[str], now: int) -> list[ChipReport]:
        """The state of every chip, in the order of discovery."""
        result = []
        for name in self._names.values():
            fault = self._fault(name, now)
            network = self.tracker.fault(name, now, network=True)
            result.append(
                ChipReport(
                    name,
                    healthy=chip_is_healthy(fault.level, name in used)
                    and network.level != FaultLevel.MANUALLY_SEPARATE,
                    network_healthy=network_is_healthy(network.level),
                    fault=fault,
                    network_fault=network,
                    isolated=name in self.isolated,
                )
            )
        return result

    def why_not(self, chip: str, now: int) -> str | None:
        """Why a chip must not be mounted; None for a healthy one. A pod waits for it, so it is in use."""
        fault = self._fault(chip, now)
        separated = self.tracker.fault(chip, now, network=True).level == FaultLevel.MANUALLY_SEPARATE
        if chip_is_healthy(fault.level, used=True) and not separated:
            return "an operator isolated it" if chip in self.isolated else None
        codes = f" ({', '.join(fault.codes)})" if fault.codes else ""
        return f"it is unhealthy, {FaultLevel.MANUALLY_SEPARATE if separated else fault.level}{codes}"

    def _fault(self, name: str, now: int) -> ChipFault:
        fault = self.tracker.fault(name, now)
        level = fault.level
        if now - self._silent_since.get(name, now) >= SILENCE:
            # The health is not known: the chip gets no new pods, and running pods keep it.
            level = worst((level, FaultLevel.PRE_SEPARATE))
        return fault if level == fault.level else ChipFault(level, fault.codes, fault.times)
