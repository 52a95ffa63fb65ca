"""One look at all that the driver says about the chips of a node, in one thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ringwise.device.cards import ASCEND910A3, Chip, has_network_port
from ringwise.device.discovery import Discovery
from ringwise.device.drivers.port import DriverError
from ringwise.device.health.monitor import Poll
from ringwise.device.report import SwitchFault

#: What is read, in the words of the log.
_FILES, _EVENTS, _ALARMS = "host files", "fault events", "alarms of the interconnect"
_CODES, _NETWORK, _VERSION = "fault codes", "network port", "version of the driver"
#: Seconds within which the driver says how a network port is: it may test it first.
NETWORK_TIMEOUT = 1.0


class DriverPoll:
    """Reads what can be read: what fails or hangs is said once, and hides nothing else."""

    def __init__(self, discovery: Discovery, look_at_files: Callable[[], None]) -> None:
        self._driver = discovery.driver
        self._calls = discovery.calls
        self._notices = discovery.notices
        self._look_at_files = look_at_files
        #: Alarms of the interconnect, as they were last read.
        self.switch_faults: Sequence[SwitchFault] = ()

    async def at(self, card: str, chips: Mapping[str, Chip]) -> Poll:
        """Look at chips of a type, by name."""
        works: dict[tuple[str, str], Callable[[], Any]] = {
            (_FILES, ""): self._look_at_files,
            (_EVENTS, ""): self._driver.events,
        }
        works |= {(_CODES, name): partial(self._driver.codes, chip) for name, chip in chips.items()}
        ports = [(_NETWORK, name) for name in chips] if has_network_port(card) else []
        works |= {port: partial(self._driver.network, chips[port[1]]) for port in ports}
        if card == ASCEND910A3:
            works[_ALARMS, ""] = self._driver.switch_faults
        answers, problems = await self._calls.each(
            works, dict.fromkeys(ports, min(NETWORK_TIMEOUT, self._driver.timeout))
        )
        for what, name in works:
            about = {"chip": name} if name else {}
            if (what, name) in problems:
                self._notices.problem((what, name), f"{what} not read", problems[what, name], **about)
            else:
                self._notices.works((what, name), f"{what} read again", **about)
        self.switch_faults = answers.get((_ALARMS, ""), self.switch_faults)
        codes = {chips[name].physical: answers[what, name] for what, name in answers if what == _CODES}
        states = {chips[name].physical: answers[what, name] for what, name in answers if what == _NETWORK}
        return Poll(
            codes,
            answers.get((_EVENTS, ""), ()),
            # A port of which nothing is known stays as it was.
            {physical: works for physical, works in states.items() if works is not None},
            [chip.physical for chip in chips.values() if chip.physical not in codes],
        )

    async def version(self) -> str:
        """The version of the driver; empty where it does not say it."""
        try:
            version = await self._calls.one(_VERSION, self._driver.version)
        except DriverError as problem:
            self._notices.problem(_VERSION, f"{_VERSION} not read", str(problem))
            return ""
        self._notices.works(_VERSION, f"{_VERSION} read again")
        return version
