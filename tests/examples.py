"""How many examples of a property, rounds of a random test, or cases of a long table are tried.

`HYPOTHESIS_PROFILE` selects it. `quick`, the default, tries an eighth. `full`, for the check before a change
goes in, tries as many as the test says. Both try the same ones each time. `search` draws a thousand new ones.
Tests with the mark `full` do not run in the quick profile at all, unless their file is named.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TypeVar

Case = TypeVar("Case")
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
_SEARCH = 1000
#: The quick profile tries one of so many, and at least so many.
_STEP = 8
_LEAST = 4


def examples(full: int) -> int:
    """Return how many examples or rounds the profile tries of a test that has so many in the full one."""
    if PROFILE == "search":
        return _SEARCH
    return full if PROFILE == "full" else min(full, max(_LEAST, full // _STEP))


def sample(cases: Sequence[Case], step: int = _STEP) -> list[Case]:
    """Return the cases of a table that the profile tries: in the quick one the same ones each time."""
    count = min(len(cases), max(1, len(cases) // step))
    if PROFILE != "quick":
        return list(cases)
    return [cases[place] for place in sorted(random.Random(count).sample(range(len(cases)), count))]
