"""Chips that are written down: for tests, labs and machines without NPUs.

The description is a JSON file that is read again when it changes, so that chips can be made faulty while the
plugin runs. A socket does the same without a file: one JSON object in a line, answered with one line.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from ringwise.device.cards import Chip
from ringwise.device.drivers.driver_calls import Notices
from ringwise.device.drivers.port import Driver, DriverError, NoChipsError, Place, Readings, place_of
from ringwise.device.report import SwitchFault
from ringwise.manifests.text.checking import checked
from ringwise.manifests.text.errors import Findings
from ringwise.state.ranges import MAX_NODE_CHIPS

_MAX_LINE = 1 << 16


_HEXADECIMAL = re.compile(r"(0[xX])?[0-9A-Fa-f]{1,16}", re.ASCII)
Kind = TypeVar("Kind")


class _Code(int):
    """Written in hexadecimal."""


class _Facts(msgspec.Struct, forbid_unknown_fields=True):
    """What may be said of one chip, or of all chips of a node."""

    chip_name: str | None = None
    chip_type: str | None = None
    chip_version: str | None = None
    board: int | None = None
    mainboard: int | None = None
    product: str | None = None
    superpod: int | None = None
    server_index: int | None = None
    rack: int | None = None
    superpod_type: int | None = None
    memory: int | None = None
    ai_cores: int | None = None
    sharing: bool | None = None

    def explicit_fields(self) -> dict[str, Any]:
        facts = _Chip.__struct_fields__
        return {name: value for name in facts if (value := getattr(self, name, None)) is not None}


class _Chip(_Facts, forbid_unknown_fields=True):
    physical: int | None = None
    logic: int | None = None
    card: int | None = None
    device: int | None = None
    ip: str | None = None
    super_device: int | None = None
    pcie: str | None = None
    vdie: str | None = None
    numa: int | None = None
    network_ids: tuple[tuple[str, ...], ...] | None = None


class _Description(_Facts, forbid_unknown_fields=True):
    chips: Annotated[list[_Chip], Meta(max_length=MAX_NODE_CHIPS)] = []
    #: Of chips, where none is described.
    count: Annotated[int, Meta(ge=1, le=MAX_NODE_CHIPS)] = 8
    faults: dict[int, list[_Code]] = {}
    dropped: set[int] = set()
    #: Chips about which the driver says nothing, and those whose network port does not work.
    silent: set[int] = set()
    network_down: set[int] = set()
    #: Groups of linked chips; without them the driver says nothing about links.
    links: list[list[int]] = []
    driver_version: str = "simulated"
    switch_faults: list[SwitchFault] = []
    readings: dict[int, Readings] = {}


class _Change(msgspec.Struct, forbid_unknown_fields=True):
    chip: int
    codes: list[_Code] = []
    dropped: bool = False
    network: Literal["up", "down"] | None = None


class SimulatedDriver(Driver):
    """Chips from a description; its faults may be changed from another thread."""

    kind = "simulated"
    timeout = 5.0

    def __init__(self, description: Mapping[str, Any]) -> None:
        self._lock = threading.Lock()
        self._take(description)

    def _take(self, description: Mapping[str, Any]) -> None:
        state = _checked(description, _Description)
        chips = _chips(state)
        named = state.faults.keys() | state.dropped | state.silent | state.network_down
        unknown = named - {chip.physical for chip in chips}
        if unknown:
            raise DriverError(f"faults: chip {min(unknown)} not found")
        with self._lock:
            self._chips = chips
            self._codes = {chip: [int(code) for code in codes] for chip, codes in state.faults.items()}
            self._dropped, self._silent, self._down = state.dropped, state.silent, state.network_down
            self._links = state.links
            self._alarms, self._version, self._readings = (
                state.switch_faults,
                state.driver_version,
                state.readings,
            )

    def _look(self) -> None:
        """Take a description that changed."""

    def change(self, physical: int, codes: Sequence[int] | None) -> None:
        """Give a chip these fault codes; None: it no longer answers."""
        with self._lock:
            if physical not in {chip.physical for chip in self._chips}:
                raise DriverError(f"chip {physical} not found")
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
                raise DriverError(f"chip {physical} not found")
            (self._down.discard if works else self._down.add)(physical)

    def version(self) -> str:
        return self._version

    def chips(self) -> list[Chip]:
        """All chips that are described, also those about which the driver says nothing."""
        self._look()
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
        raise DriverError(f"chip at {place} not found")

    def _answers(self, chip: Chip) -> None:
        with self._lock:
            if chip.physical in self._silent:
                raise DriverError(f"chip {chip.physical} is described as silent")

    def codes(self, chip: Chip) -> list[int] | None:
        self._look()
        self._answers(chip)
        with self._lock:
            if chip.physical in self._dropped or chip.physical not in {one.physical for one in self._chips}:
                return None
            return list(self._codes.get(chip.physical, ()))

    def network(self, chip: Chip) -> bool | None:
        self._look()
        self._answers(chip)
        with self._lock:
            return chip.physical not in self._down

    def linked(self, one: Chip, other: Chip) -> bool | None:
        with self._lock:
            if not self._links:
                return None
            return any(one.physical in group and other.physical in group for group in self._links)

    def switch_faults(self) -> Sequence[SwitchFault]:
        self._look()
        return self._alarms

    def readings(self, chips: Sequence[Chip]) -> dict[int, Readings]:
        return {chip.physical: self._reading(chip) for chip in chips}

    def _reading(self, chip: Chip) -> Readings:
        readings = self._readings.get(chip.physical, Readings())
        if readings.memory_total is None and chip.memory:
            return replace(readings, memory_total=float(chip.memory))
        return readings


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

    def _read(self) -> Any:
        try:
            return json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as problem:
            raise DriverError(f"cannot be read: {problem}") from None

    def _look(self) -> None:
        try:
            stamp = self._stamp()
            if stamp == self._seen:
                return
            self._seen = stamp
            self._take(self._read())
        except DriverError as problem:
            self._notices.problem(
                "file", "simulated chips not read; the last description stays in use", str(problem)
            )
        else:
            self._notices.works("file", "simulated chips read again")


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
        raise DriverError(f"invalid JSON: {problem}") from None
    command = _checked(change, _Change)
    if command.network is not None:
        driver.change_network(command.chip, command.network == "up")
    else:
        driver.change(command.chip, None if command.dropped else command.codes)


def _chips(description: _Description) -> list[Chip]:
    common = description.explicit_fields()
    chips = []
    for at, one in enumerate(description.chips or [_Chip() for _ in range(description.count)]):
        facts = {
            "physical": at,
            "card": at,
            "device": 0,
            "chip_name": "910B3",
            "ip": f"192.168.{100 + at // 250}.{at % 250 + 1}",
            "super_device": at,
            "memory": 65536,
            "ai_cores": 20,
            "vdie": f"SIMULATED-{at:08X}",
            "pcie": f"0000:{at + 1:02X}:00.0",
            **common,
            **one.explicit_fields(),
        }
        chips.append(Chip(**{"logic": facts["physical"], **facts}))
    if len({chip.physical for chip in chips}) < len(chips):
        raise DriverError("chips: no two chips can have the same physical id")
    if len({place_of(chip) for chip in chips}) < len(chips):
        raise DriverError("chips: no two chips can have the same card and device")
    return chips


def _checked(value: object, kind: type[Kind]) -> Kind:
    issues = Findings("")
    read = checked(value, kind, "", issues, _value)
    if read is None:
        raise DriverError("; ".join(map(str, issues.errors)))
    return read


def _value(_kind: type, value: object) -> _Code:
    if not isinstance(value, str) or not _HEXADECIMAL.fullmatch(value):
        raise ValueError("must be a hexadecimal code")
    return _Code(value, 16)
