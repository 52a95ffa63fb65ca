"""Chips from the output of `npu-smi` and `hccn_tool`, where libdcmi.so cannot be loaded.

Columns differ between versions, so lines are split at `|` and blanks, never at positions.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence

from ringwise.device.cards import Chip
from ringwise.device.drivers.hccn import (
    HCCN_TOOL,
    PROGRAM_SECONDS,
    LinkStates,
    ProgramFailedError,
    Run,
    run_program,
)
from ringwise.device.drivers.port import Driver, DriverError, NoChipsError, Place, Readings
from ringwise.records import dataclass

#: Seconds for which the table of figures counts.
_TABLE_SECONDS = 10.0
_PAIR = re.compile(r"^\s*([^:|]+?)\s*:\s*(.*?)\s*$")
_CODE = re.compile(r"\b(?:0x)?([0-9A-Fa-f]{8,9})\b")
_NO_CODES = frozenset({"", "NA", "N/A", "0", "None"})
#: What `npu-smi info -t device-share` prints, as a value.
_SHARING = {"True": True, "False": False}


@dataclass(frozen=True, slots=True)
class Row:
    """A chip in the table of `npu-smi info`."""

    card: int
    name: str
    health: str
    power: float | None
    temperature: float | None
    chip: int
    physical: int | None
    bus: str
    utilization: float | None
    #: Megabytes in use and in all, of the last memory column.
    memory: tuple[float, float] | None


def pairs(text: str) -> list[tuple[str, str]]:
    """Lines of the form `key : value`, in their order."""
    matches = (_PAIR.match(line) for line in text.splitlines())
    return [(one[1], one[2]) for one in matches if one is not None]


def chip_map(text: str) -> list[dict[str, str]]:
    """`npu-smi info -m` by its header: `NPU ID`, `Chip ID`, `Chip Logic ID` and what else there is."""
    header: list[str] = []
    rows = []
    for line in text.splitlines():
        cells = re.split(r"\s{2,}", line.strip())
        if "Chip Logic ID" in cells:
            header = cells
        elif header and len(cells) == len(header) and cells[0].isdigit():
            row = dict(zip(header, cells, strict=True))
            if row["Chip Logic ID"].isdigit() and "Mcu" not in row.values():
                rows.append(row)
    return rows


def info_table(text: str) -> list[Row]:
    """`npu-smi info`: two lines a chip; the table of processes below is left out."""
    rows: list[Row] = []
    first: tuple[int, str, str, list[str]] | None = None
    for cells in _table_lines(text):
        if len(cells) != 3:
            continue
        left = cells[0].split()
        if not left or not left[0].isdigit():
            # The table of processes comes after its own header.
            if "Process" in " ".join(cells):
                break
            continue
        if first is None:
            if len(left) < 2:
                continue
            first = (int(left[0]), left[1], cells[1], cells[2].split())
            continue
        card, name, health, figures = first
        second = cells[2].split()
        rows.append(
            Row(
                card=card,
                name=name,
                health=health,
                power=_number(figures[0]) if figures else None,
                temperature=_number(figures[1]) if len(figures) > 1 else None,
                chip=int(left[0]),
                physical=int(left[1]) if len(left) > 1 and left[1].isdigit() else None,
                bus=cells[1],
                utilization=_number(second[0]) if second else None,
                memory=_memory(second[1:]),
            )
        )
        first = None
    return rows


def _table_lines(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("|") and stripped.endswith("|"):
            yield [cell.strip() for cell in stripped.strip("|").split("|")]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _memory(words: Sequence[str]) -> tuple[float, float] | None:
    """The last `used / total` of a line; columns without a total are 0 / 0."""
    joined = " ".join(words)
    pairs = [(float(one), float(two)) for one, two in re.findall(r"(\d+)\s*/\s*(\d+)", joined)]
    real = [pair for pair in pairs if pair[1]]
    return real[-1] if real else None


class NpuSmi(Driver):
    kind = "npu-smi"
    #: Longer than any of its programs may take.
    timeout = PROGRAM_SECONDS + 5.0

    def __init__(self, run: Run = run_program, program: str = "npu-smi") -> None:
        self._run = run
        self._table_until = 0.0
        self._rows: list[Row] = []
        self._program = program
        self._links = LinkStates(run)
        #: What the last listing said about each place.
        self._listed: dict[Place, tuple[Row, Mapping[str, str]]] = {}
        if run is run_program and shutil.which(program) is None:
            raise NoChipsError(f"{program} not found on the PATH")

    def _ask(self, *arguments: str) -> str:
        return self._run([self._program, "info", *arguments])

    def version(self) -> str:
        match = re.search(r"Version:\s*(\S+)", self._run([self._program, "info"]))
        return match[1] if match else ""

    def cards(self) -> list[int]:
        rows = info_table(self._ask())
        if not rows:
            raise NoChipsError(f"{self._program} lists no chips")
        mapped = {
            Place(int(one["NPU ID"]), int(one["Chip ID"])): one
            for one in chip_map(self._ask("-m"))
            if one["Chip ID"].isdigit()
        }
        # Where the map lacks a chip, its place in the table is its logic id.
        self._listed = {
            (place := Place(row.card, row.chip)): (row, {"Chip Logic ID": str(at), **mapped.get(place, {})})
            for at, row in enumerate(rows)
        }
        return list(dict.fromkeys(place.card for place in self._listed))

    def places(self, card: int) -> list[Place]:
        return [place for place in self._listed if place.card == card]

    def chip(self, place: Place) -> Chip:
        row, about = self._listed[place]
        logic = int(about["Chip Logic ID"])
        physical = row.physical
        if physical is None:
            number = about.get("Chip Phy-ID", "")
            physical = int(number) if number.isdigit() else logic
        board = dict(pairs(self._ask("-t", "board", "-i", str(row.card), "-c", str(row.chip))))
        return Chip(
            physical=physical,
            logic=logic,
            card=row.card,
            device=row.chip,
            chip_name=board.get("Chip Name") or row.name,
            chip_type=board.get("Chip Type", ""),
            chip_version=board.get("Chip Version", ""),
            board=_hexadecimal(board.get("Board ID", "")),
            ip=self._address(physical),
            memory=int(row.memory[1]) if row.memory else 0,
            pcie=board.get("PCIe Bus Info") or row.bus,
            vdie=board.get("VDie ID", "").replace(" ", "-"),
            sharing=self._sharing(row),
        )

    def _sharing(self, row: Row) -> bool | None:
        try:
            answer = self._ask("-t", "device-share", "-i", str(row.card), "-c", str(row.chip))
        except DriverError:
            return None
        return _SHARING.get(dict(pairs(answer)).get("Device-share Status", ""))

    def _address(self, physical: int) -> str:
        try:
            answer = self._run([HCCN_TOOL, "-i", str(physical), "-ip", "-g"])
        except DriverError:
            return ""
        match = re.search(r"ipaddr\s*:\s*(\S+)", answer)
        return match[1] if match else ""

    def codes(self, chip: Chip) -> list[int] | None:
        try:
            answer = self._ask("-t", "health", "-i", str(chip.card), "-c", str(chip.device))
        except ProgramFailedError:
            # A program that is missing or too slow says nothing about the chip.
            return None
        text = dict(pairs(answer)).get("Error Code", "")
        if text in _NO_CODES:
            return []
        return [int(code, 16) for code in _CODE.findall(text)]

    def network(self, chip: Chip) -> bool | None:
        return self._links.works(chip.physical)

    def _table(self) -> list[Row]:
        """One table has the figures of all chips, and callers ask for one chip after the other."""
        now = time.monotonic()
        if now >= self._table_until:
            self._rows = info_table(self._ask())
            self._table_until = now + _TABLE_SECONDS
        return self._rows

    def readings(self, chips: Sequence[Chip]) -> dict[int, Readings]:
        rows = {(row.card, row.chip): row for row in self._table()}
        return {
            chip.physical: Readings(
                temperature=row.temperature,
                power=row.power,
                utilization=row.utilization,
                memory_total=row.memory[1] if row.memory else None,
                memory_used=row.memory[0] if row.memory else None,
            )
            for chip in chips
            if (row := rows.get((chip.card, chip.device))) is not None
        }


def _hexadecimal(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        return 0
