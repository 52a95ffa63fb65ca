"""Faults that a job tolerates for a time (`huawei.com/schedule.filter.*`).

`code[:seconds],...`: a chip whose faults are all masked counts as healthy for this job, until the window of
one of them is over. A window counts from the time at which the fault was first seen. A code beats a level:
a fault whose code is listed has the window of its code, also if that is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ringwise.records import dataclass
from ringwise.topology.numbers import whole_number
from ringwise.wellknown import FILTER_FAULT_CODE, FILTER_FAULT_LEVEL, MANUALLY_SEPARATE_KEY

DEFAULT_WINDOW = 60
LONGEST_WINDOW = 86400
#: Entries of one annotation that are read; the fault codes of Huawei's hardware are a few hundred.
MOST_ENTRIES = 1000
#: Levels that faults of chips have.
LEVELS = (
    "NotHandleFault",
    "SubHealthFault",
    "RestartRequest",
    "RestartBusiness",
    "FreeRestartNPU",
    "RestartNPU",
    "PreSeparateNPU",
    "SeparateNPU",
    MANUALLY_SEPARATE_KEY,
)
_LEVELS = frozenset(level.lower() for level in LEVELS)
_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class FaultMasks:
    """Seconds by fault code and by fault level, both in lower case."""

    codes: Mapping[str, int] = field(default_factory=dict, hash=False)
    levels: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __bool__(self) -> bool:
        return bool(self.codes or self.levels)

    def window(self, code: str, level: str) -> int:
        """Seconds for which a fault is tolerated; 0 where it is not."""
        by_code = self.codes.get(code.lower())
        return self.levels.get(level.lower(), 0) if by_code is None else by_code

    def masked_until(self, code: str, level: str, seen: int) -> int:
        """When a fault that was first seen at `seen` begins to count, in nanoseconds."""
        return seen + self.window(code, level) * _SECOND


NO_MASKS = FaultMasks()


def read_masks(codes: str | None, levels: str | None, notes: list[str]) -> FaultMasks:
    """The masks that two annotations write. Bad entries are left out, with one note for each annotation."""
    if codes is None and levels is None:
        return NO_MASKS
    by_code = _read(FILTER_FAULT_CODE, codes, notes)
    return FaultMasks(by_code, _read(FILTER_FAULT_LEVEL, levels, notes, _LEVELS))


def _read(
    key: str, text: str | None, notes: list[str], known: frozenset[str] | None = None
) -> dict[str, int]:
    found: dict[str, int] = {}
    wrong = unknown = ""
    entries = [entry.strip() for entry in (text or "").split(",", MOST_ENTRIES)]
    for entry in entries[:MOST_ENTRIES]:
        name, colon, seconds = (part.strip() for part in entry.partition(":"))
        window = whole_number(seconds, 0, LONGEST_WINDOW) if colon else DEFAULT_WINDOW
        if window is None or (not name and entry):
            wrong = wrong or entry
        elif name and known is not None and name.lower() not in known:
            unknown = unknown or name
        elif name:
            found[name.lower()] = window
    if len(entries) > MOST_ENTRIES:
        notes.append(f"annotation {key} has more than {MOST_ENTRIES} entries; the others are ignored")
    if unknown:
        notes.append(
            f"annotation {key} must name levels of chip faults ({', '.join(LEVELS)}) with commas between "
            f"them, got {shown(unknown)}; such entries are ignored"
        )
    if wrong:
        notes.append(
            f"annotation {key} must be `code[:seconds],...` with 0 to {LONGEST_WINDOW} seconds, "
            f"got {shown(wrong)}; such entries are ignored"
        )
    return found


def shown(text: str | None) -> str:
    """A value of a user for a message; a very long one is cut."""
    text = text or ""
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}... ({len(text)} characters)"
