"""Whole numbers written as text, within a range.

Text from outside may hold thousands of digits, which Python refuses to convert with an
exception. Every number from a label, an annotation or a ConfigMap is read here.
"""

from __future__ import annotations

import re

#: The range of most numbers of Kubernetes' API: counts of pods, ranks, priorities.
INT32 = 2**31 - 1
#: The range of the numbers that selectors compare.
INT64 = 2**63 - 1
#: The largest number that is written anywhere: a consumed `predicate-time`.
UINT64 = 2**64 - 1

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)


def whole_number(text: str, least: int = -INT64, most: int = INT64) -> int | None:
    """The number that a text writes, or None: out of range, blanks, fractions, other scripts' digits."""
    if _WHOLE_NUMBER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if least <= number <= most else None


def number_text(text: str) -> str | None:
    """The same number as text, for annotations that a user may change to any other text."""
    number = whole_number(text)
    return None if number is None else str(number)
