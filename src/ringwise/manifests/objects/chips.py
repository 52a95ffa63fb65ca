"""Chip names in annotations and ConfigMaps: `Ascend910-0,Ascend910-4`."""

from __future__ import annotations

import re
from functools import lru_cache

from ringwise.manifests.text.errors import Findings, invalid
from ringwise.manifests.text.quantities import NotReadableError
from ringwise.state.ranges import MAX_NODE_CHIPS
from ringwise.topology.chips import chip_prefix

#: Longer than any list of a scheduler or device plugin, and short enough to be kept: whoever may create pods
#: writes lists, and what was read is remembered beyond its pod.
MAX_LIST_CHARACTERS = 4096


_NAME = re.compile(r"([A-Za-z][A-Za-z0-9]*-)(0|[1-9][0-9]{0,3})", re.ASCII)


def chip_of(name: str, resource: str | None = None) -> int | None:
    """The number in the name of a physical chip (of that resource); None for any other name."""
    match = _NAME.fullmatch(name)
    if match is None or (resource is not None and match[1] != chip_prefix(resource)):
        return None
    chip = int(match[2])
    return chip if chip < MAX_NODE_CHIPS else None


def chips_in(text: str, resource: str, field: str, issues: Findings) -> tuple[int, ...]:
    """The chips of a list in its order; an error and no chips when one is invalid or repeated."""
    if len(text) > MAX_LIST_CHARACTERS:
        issues.add_error(field, f"must have at most {MAX_LIST_CHARACTERS} characters, got {len(text)}")
        return ()
    try:
        return _listed(text, resource)
    except NotReadableError as problem:
        issues.add_error(field, str(problem))
        return ()


@lru_cache(maxsize=512)
def _listed(text: str, resource: str) -> tuple[int, ...]:
    names = [name.strip() for name in text.split(",")] if text.strip() else []
    chips: list[int] = []
    for name in names:
        chip = chip_of(name, resource)
        if chip is None:
            prefix = chip_prefix(resource)
            allowed = f"must name chips {prefix}0 to {prefix}{MAX_NODE_CHIPS - 1}, with commas"
            raise NotReadableError(invalid(name, allowed))
        if chip in chips:
            raise NotReadableError(f"contains the chip {name} twice")
        chips.append(chip)
    return tuple(chips)
