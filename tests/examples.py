"""How many examples a property is tried with: few in every run, many with `HYPOTHESIS_PROFILE=search`."""

from __future__ import annotations

from hypothesis import settings


def examples(few: int) -> int:
    """Few, or as many as the profile says that draws new ones each time."""
    return few if settings().derandomize else settings().max_examples
