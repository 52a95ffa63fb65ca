"""Equal strings of many objects are kept once.

`sys.intern` would never free them in Python 3.12, and its table grows with every string that was ever there:
users choose these strings, so what is kept has a bound.
"""

from __future__ import annotations

from functools import lru_cache

#: Longer strings are not names or labels: they are kept by their objects alone.
_LONGEST = 253


def shared(text: str) -> str:
    """The string that an equal one was read as before, if it is still in the cache."""
    return text if len(text) > _LONGEST else _interned(text)


@lru_cache(2048)
def _interned(text: str) -> str:
    return text
