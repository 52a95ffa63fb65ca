"""Suggestions for mistyped words."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from functools import lru_cache

#: Characters of a word that is compared, and remembered: no name is longer, and users choose these words.
_LONGEST = 253
#: A name of a series, such as `node-7`, and its number.
_NUMBERED = re.compile(r"(.*-)(\d+)")


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """The allowed word closest to a mistyped one, or None if nothing is close.

    Case is ignored; of equally close words the first in sorted order is taken, so
    that the result does not depend on the order of the input. Of a series of names, who types `node-77`
    may mean `node-7`, but not `node-5`: that is another one.
    """
    return _nearest(word, tuple(sorted(allowed))) if len(word) <= _LONGEST else None


# Jobs of a queue that is missing are checked in every cycle, and a comparison takes a millisecond.
@lru_cache(512)
def _nearest(word: str, allowed: tuple[str, ...]) -> str | None:
    by_lower: dict[str, str] = {}
    for candidate in allowed:
        by_lower.setdefault(candidate.lower(), candidate)
    close = difflib.get_close_matches(word.lower(), list(by_lower), n=1, cutoff=0.6)
    return by_lower[close[0]] if close and not _is_another_number(word.lower(), close[0]) else None


def _is_another_number(word: str, candidate: str) -> bool:
    """Whether both are of one series, and neither number is the beginning of the other."""
    one, other = _NUMBERED.fullmatch(word), _NUMBERED.fullmatch(candidate)
    if one is None or other is None or one[1] != other[1]:
        return False
    return not one[2].startswith(other[2]) and not other[2].startswith(one[2])


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """`; did you mean "x"?`, or nothing if no allowed word is close; the last part of a message."""
    name = nearest(word, allowed)
    return f'; did you mean "{name}"?' if name else ""
