"""Chips from the output of `npu-smi` and `hccn_tool`, where libdcmi.so cannot be loaded.

Columns differ between versions, so lines are split at `|` and blanks, never at positions.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence

from ringwise.device.cards import Chip
from ringwise.device.drivers.port import DriverError, FaultEvent, NoChipsError, Readings
from ringwise.device.report import SwitchFault
from ringwise.records import dataclass

#: Runs a program and returns what it printed. Raises DriverError.
Run = Callable[[Sequence[str]], str]

_SECONDS = 30
_HCCN = "/usr/local/Ascend/driver/tools/hccn_tool"
_PAIR = re.compile(r"^\s*([^:|]+?)\s*:\s*(.*?)\s*$")
_CODE = re.compile(r"\b(?:0x)?([0-9A-Fa-f]{8,9})\b")
_NO_CODES = frozenset({"", "NA", "N/A", "0", "None"})


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


def run_program(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except FileNotFoundError:
        raise NoChipsError(f"{command[0]} is not there") from None
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise DriverError(f"{command[0]} failed: {problem}") from None
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()
        raise DriverError(f"{' '.join(command)} failed: {last[-1] if last else done.returncode}")
    return done.stdout


def pairs(text: str) -> list[tuple[str, str]]:
    """Lines of the form `key : value`, in their order."""
    found = (_PAIR.match(line) for line in text.splitlines())
    return [(one[1], one[2]) for one in found if one is not None]


def card_list(text: str) -> dict[int, int]:
    """`npu-smi info -l`: card to its number of chips."""
    cards: dict[int, int] = {}
    card: int | None = None
    for key, value in pairs(text):
        if key == "NPU ID" and value.isdigit():
            card = int(value)
        elif key == "Chip Count" and value.isdigit() and card is not None:
            cards[card] = int(value)
    return cards


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
    found = [(float(one), float(two)) for one, two in re.findall(r"(\d+)\s*/\s*(\d+)", joined)]
    real = [pair for pair in found if pair[1]]
    return real[-1] if real else None


class NpuSmi:
    kind = "npu-smi"

    def __init__(self, run: Run = run_program, program: str = "npu-smi", hccn_tool: str = _HCCN) -> None:
        self._run = run
        self._program = program
        self._hccn_tool = hccn_tool
        if run is run_program and shutil.which(program) is None:
            raise NoChipsError(f"{program} is not on the path")

    def _ask(self, *arguments: str) -> str:
        return self._run([self._program, "info", *arguments])

    def version(self) -> str:
        found = re.search(r"Version:\s*(\S+)", self._run([self._program, "info"]))
        return found[1] if found else ""

    def chips(self) -> list[Chip]:
        rows = info_table(self._ask())
        if not rows:
            raise NoChipsError(f"{self._program} lists no chip")
        mapped = {(int(one["NPU ID"]), int(one["Chip ID"])): one for one in chip_map(self._ask("-m"))}
        chips: list[Chip] = []
        for row in rows:
            about = mapped.get((row.card, row.chip), {})
            logic = int(about.get("Chip Logic ID", len(chips)))
            physical = row.physical
            if physical is None:
                given = about.get("Chip Phy-ID", "")
                physical = int(given) if given.isdigit() else logic
            board = dict(pairs(self._ask("-t", "board", "-i", str(row.card), "-c", str(row.chip))))
            chips.append(
                Chip(
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
                )
            )
        return chips

    def _address(self, physical: int) -> str:
        try:
            answer = self._run([self._hccn_tool, "-i", str(physical), "-ip", "-g"])
        except DriverError:
            return ""
        found = re.search(r"ipaddr\s*:\s*(\S+)", answer)
        return found[1] if found else ""

    def codes(self, chip: Chip) -> list[int] | None:
        try:
            answer = self._ask("-t", "health", "-i", str(chip.card), "-c", str(chip.device))
        except DriverError:
            return None
        text = dict(pairs(answer)).get("Error Code", "")
        if text in _NO_CODES:
            return []
        return [int(code, 16) for code in _CODE.findall(text)]

    def events(self) -> list[FaultEvent]:
        return []

    def switch_faults(self) -> Sequence[SwitchFault]:
        return ()

    def readings(self, chips: Sequence[Chip]) -> dict[int, Readings]:
        rows = {(row.card, row.chip): row for row in info_table(self._ask())}
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

    def close(self) -> None: ...


def _hexadecimal(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        return 0
