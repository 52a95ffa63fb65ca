"""Suggestions for mistyped words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import lru_cache

#: Characters of a word that is compared, and remembered: no name is longer, and users choose these words.
_LONGEST = 253


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word closest to a mistyped one, or None if nothing is close.

    Case is ignored; of equally close words the first in sorted order is taken, so
    that the result does not depend on the order of the input.
    """
    return _nearest(word, tuple(sorted(known))) if len(word) <= _LONGEST else None


# Jobs of a queue that is missing are checked in every cycle, and a comparison takes a millisecond.
@lru_cache(512)
def _nearest(word: str, known: tuple[str, ...]) -> str | None:
    by_lower: dict[str, str] = {}
    for candidate in known:
        by_lower.setdefault(candidate.lower(), candidate)
    found = difflib.get_close_matches(word.lower(), list(by_lower), n=1, cutoff=0.5)
    return by_lower[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)`, or nothing when no known word is close."""
    found = nearest(word, known)
    return f" (did you mean '{found}'?)" if found else ""
