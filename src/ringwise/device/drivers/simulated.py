"""Chips that are written down: for tests, labs and machines without NPUs.

The description is a JSON file that is read again when it changes, so that chips can be made faulty while the
plugin runs. A socket does the same without a file: one JSON object in a line, answered with one line.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ringwise.device.cards import Chip
from ringwise.device.drivers.driver_calls import Notices
from ringwise.device.drivers.port import DriverError, FaultEvent, NoChipsError, Place, Readings, place_of
from ringwise.device.report import SwitchFault
from ringwise.manifests.text.errors import shown
from ringwise.state.ranges import MAX_NODE_CHIPS

_CHIP_FIELDS = frozenset(
    {
        "chip_name",
        "chip_type",
        "chip_version",
        "board",
        "mainboard",
        "product",
        "superpod",
        "server_index",
        "rack",
        "superpod_type",
        "memory",
        "ai_cores",
    }
)
_FIELDS = _CHIP_FIELDS | {
    "count",
    "chips",
    "faults",
    "dropped",
    "silent",
    "network_down",
    "driver_version",
    "switch_faults",
    "readings",
}
_MAX_LINE = 1 << 16


class SimulatedDriver:
    """Chips from a description; its faults may be changed from another thread."""

    kind = "simulated"
    timeout = 5.0

    def __init__(self, description: Mapping[str, Any]) -> None:
        self._lock = threading.Lock()
        self._take(description)

    def _take(self, description: Mapping[str, Any]) -> None:
        chips, codes, dropped = _chips(description), _codes(description), _numbers(description, "dropped")
        silent, down = _numbers(description, "silent"), _numbers(description, "network_down")
        unknown = (codes.keys() | dropped | silent | down) - {chip.physical for chip in chips}
        if unknown:
            raise DriverError(f"faults: there is no chip {min(unknown)}")
        alarms = [_alarm(one) for one in _list(description, "switch_faults")]
        with self._lock:
            self._chips, self._codes, self._dropped, self._alarms = chips, codes, dropped, alarms
            #: Chips about which the driver says nothing, and those whose network port does not work.
            self._silent, self._down = silent, down
            self._version = str(description.get("driver_version", "simulated"))
            self._readings = {
                str(key): value for key, value in dict(description.get("readings") or {}).items()
            }

    def change(self, physical: int, codes: Sequence[int] | None) -> None:
        """Give a chip these fault codes; None: it does not answer any more."""
        with self._lock:
            if physical not in {chip.physical for chip in self._chips}:
                raise DriverError(f"there is no chip {physical}")
            self._dropped.discard(physical)
            self._codes.pop(physical, None)
            if codes is None:
                self._dropped.add(physical)
            elif codes:
                self._codes[physical] = list(codes)

    def change_network(self, physical: int, works: bool) -> None:
        """Let the network port of a chip work or not."""
        with self._lock:
            if physical not in {chip.physical for chip in self._chips}:
                raise DriverError(f"there is no chip {physical}")
            (self._down.discard if works else self._down.add)(physical)

    def version(self) -> str:
        return self._version

    def chips(self) -> list[Chip]:
        """All chips that are described, also those about which the driver says nothing."""
        with self._lock:
            return list(self._chips)

    def cards(self) -> list[int]:
        return list(dict.fromkeys(chip.card for chip in self.chips()))

    def places(self, card: int) -> list[Place]:
        return [place_of(chip) for chip in self.chips() if chip.card == card]

    def chip(self, place: Place) -> Chip:
        for chip in self.chips():
            if place_of(chip) == place:
                self._answers(chip)
                return chip
        raise DriverError(f"there is no chip at {place}")

    def _answers(self, chip: Chip) -> None:
        with self._lock:
            if chip.physical in self._silent:
                raise DriverError(f"chip {chip.physical} is described as silent")

    def codes(self, chip: Chip) -> list[int] | None:
        self._answers(chip)
        with self._lock:
            if chip.physical in self._dropped or chip.physical not in {one.physical for one in self._chips}:
                return None
            return list(self._codes.get(chip.physical, ()))

    def network(self, chip: Chip) -> bool | None:
        self._answers(chip)
        with self._lock:
            return chip.physical not in self._down

    def events(self) -> list[FaultEvent]:
        return []

    def switch_faults(self) -> Sequence[SwitchFault]:
        return self._alarms

    def readings(self, chips: Sequence[Chip]) -> dict[int, Readings]:
        return {chip.physical: self._reading(chip) for chip in chips}

    def _reading(self, chip: Chip) -> Readings:
        given = self._readings.get(str(chip.physical)) or {}
        known = {
            key: float(given[key]) for key in Readings.__slots__ if isinstance(given.get(key), (int, float))
        }
        return replace(Readings(memory_total=float(chip.memory) if chip.memory else None), **known)

    def close(self) -> None: ...


class SimulatedFile(SimulatedDriver):
    """A description in a file. A change that cannot be read is reported, and the last one holds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._notices = Notices()
        self._seen = self._stamp()
        try:
            super().__init__(self._read())
        except DriverError as problem:
            raise DriverError(f"{path}: {problem}") from None

    def _stamp(self) -> tuple[int, int, int]:
        try:
            about = os.stat(self._path)
        except OSError as problem:
            raise NoChipsError(f"{self._path}: cannot be read: {problem.strerror or problem}") from None
        return about.st_mtime_ns, about.st_size, about.st_ino

    def _read(self) -> Mapping[str, Any]:
        try:
            document = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as problem:
            raise DriverError(f"cannot be read: {problem}") from None
        if not isinstance(document, dict):
            raise DriverError(f"must be an object, got {shown(document)}")
        return document

    def _look(self) -> None:
        try:
            stamp = self._stamp()
            if stamp == self._seen:
                return
            self._seen = stamp
            self._take(self._read())
        except DriverError as problem:
            self._notices.problem(
                "file", "simulated chips not read; the last description holds", str(problem)
            )
        else:
            self._notices.works("file", "simulated chips read again")

    def chips(self) -> list[Chip]:
        self._look()
        return super().chips()

    def codes(self, chip: Chip) -> list[int] | None:
        self._look()
        return super().codes(chip)

    def network(self, chip: Chip) -> bool | None:
        self._look()
        return super().network(chip)

    def switch_faults(self) -> Sequence[SwitchFault]:
        self._look()
        return super().switch_faults()


@asynccontextmanager
async def control_socket(driver: SimulatedDriver, path: Path) -> AsyncIterator[None]:
    """Serve changes: `{"chip": 3, "codes": ["80E18402"]}`, `{"chip": 3, "dropped": true}`,
    `{"chip": 3, "network": "down"}`.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ValueError):
            while line := await reader.readline():
                try:
                    _apply(driver, line)
                    answer = "ok"
                except DriverError as problem:
                    answer = f"error: {problem}"
                writer.write(answer.encode() + b"\n")
                await writer.drain()
        writer.close()

    path.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(serve, str(path), limit=_MAX_LINE)
    path.chmod(0o600)
    try:
        yield
    finally:
        server.close()
        path.unlink(missing_ok=True)


def _apply(driver: SimulatedDriver, line: bytes) -> None:
    try:
        change = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise DriverError(f"no JSON: {problem}") from None
    if not isinstance(change, dict) or not isinstance(change.get("chip"), int):
        raise DriverError('a change looks like {"chip": 3, "codes": ["80E18402"]}')
    if "network" in change:
        if change["network"] not in ("up", "down"):
            raise DriverError(f"network: must be up or down, got {shown(change['network'])}")
        driver.change_network(change["chip"], change["network"] == "up")
    elif change.get("dropped") is True:
        driver.change(change["chip"], None)
    else:
        driver.change(change["chip"], _hexadecimal(change.get("codes", []), "codes"))


def _chips(description: Mapping[str, Any]) -> list[Chip]:
    for key in description:
        if key not in _FIELDS:
            raise DriverError(f"{key}: unknown; known are {', '.join(sorted(_FIELDS))}")
    common = {key: description[key] for key in _CHIP_FIELDS if key in description}
    given = _list(description, "chips")
    if not given:
        count = description.get("count", 8)
        if not isinstance(count, int) or not 1 <= count <= MAX_NODE_CHIPS:
            raise DriverError(f"count: must be a whole number of 1 to {MAX_NODE_CHIPS}, got {shown(count)}")
        given = [{} for _ in range(count)]
    chips = []
    for at, one in enumerate(given):
        if not isinstance(one, dict):
            raise DriverError(f"chips[{at}]: must be an object, got {shown(one)}")
        facts = {
            "physical": at,
            "chip_name": "910B3",
            "ip": f"192.168.{100 + at // 250}.{at % 250 + 1}",
            "super_device": at,
            "memory": 65536,
            "ai_cores": 20,
            "vdie": f"SIMULATED-{at:08X}",
            "pcie": f"0000:{at + 1:02X}:00.0",
            **common,
            **one,
        }
        physical = facts["physical"]
        facts = {"logic": physical, "card": at, "device": 0, **facts}
        facts["network_ids"] = _network_ids(facts.get("network_ids", []), f"chips[{at}].network_ids")
        try:
            chips.append(Chip(**facts))
        except TypeError as problem:
            raise DriverError(f"chips[{at}]: {str(problem).partition('() ')[2] or problem}") from None
    numbers = [chip.physical for chip in chips]
    if not all(isinstance(number, int) for number in numbers) or len(set(numbers)) != len(numbers):
        raise DriverError("chips: physical ids must be different whole numbers")
    places = {place_of(chip) for chip in chips}
    if len(places) != len(chips) or not all(type(part) is int for place in places for part in place):
        raise DriverError("chips: card and device must be whole numbers, and no two chips have the same")
    return chips


def _codes(description: Mapping[str, Any]) -> dict[int, list[int]]:
    faults = description.get("faults") or {}
    if not isinstance(faults, dict):
        raise DriverError(f"faults: must be an object of chip to codes, got {shown(faults)}")
    read = {}
    for chip, codes in faults.items():
        if not chip.isascii() or not chip.isdigit():
            raise DriverError(f"faults: must have physical ids, got {shown(chip)}")
        read[int(chip)] = _hexadecimal(codes, f"faults.{chip}")
    return read


def _numbers(description: Mapping[str, Any], key: str) -> set[int]:
    given = _list(description, key)
    if not all(type(one) is int for one in given):
        raise DriverError(f"{key}: must be a list of physical ids, got {shown(given)}")
    return set(given)


def _hexadecimal(codes: Any, path: str) -> list[int]:
    if not isinstance(codes, list) or not all(isinstance(code, str) for code in codes):
        raise DriverError(f"{path}: must be a list of hexadecimal codes, got {shown(codes)}")
    try:
        return [int(code, 16) for code in codes]
    except ValueError:
        raise DriverError(f"{path}: must be a list of hexadecimal codes") from None


def _list(description: Mapping[str, Any], key: str) -> list[Any]:
    given = description.get(key) or []
    if not isinstance(given, list):
        raise DriverError(f"{key}: must be a list, got {shown(given)}")
    return given


def _network_ids(given: Any, path: str) -> tuple[tuple[str, ...], ...]:
    """Lists of entity ids, one for each network device."""
    lists = given if isinstance(given, list) else [given]
    if not all(isinstance(ids, list) and all(isinstance(one, str) for one in ids) for ids in lists):
        raise DriverError(f"{path}: must be a list of lists of entity ids, got {shown(given)}")
    return tuple(tuple(ids) for ids in lists)


def _alarm(given: Any) -> SwitchFault:
    try:
        return SwitchFault(**given)
    except TypeError as problem:
        raise DriverError(f"switch_faults: {problem}") from None
