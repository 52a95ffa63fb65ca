"""How many examples of a property, or rounds of a random test, are tried.

`HYPOTHESIS_PROFILE` selects it. `quick`, the default, tries a third. `full`, for the check before a change
goes in, tries as many as the test says. Both try the same ones each time. `search` draws a thousand new ones.
"""

from __future__ import annotations

import os

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
_SEARCHED = 1000
#: A property that is tried less often than that says little.
_LEAST = 5


def examples(full: int) -> int:
    """Return how many examples or rounds the profile tries of a test that has so many in the full one."""
    if PROFILE == "search":
        return _SEARCHED
    return full if PROFILE == "full" else min(full, max(_LEAST, full // 3))
